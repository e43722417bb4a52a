"""The tables and figures of a configuration, and the files that each is made of."""

from __future__ import annotations

from collections.abc import Mapping

from beyond_perplexity.decoding.rows import DECODINGS
from beyond_perplexity.figures import FIGURES
from beyond_perplexity.figures.exhibit import Exhibit
from beyond_perplexity.figures.labels import EXTERNAL
from beyond_perplexity.importance.estimator_registry import estimator_code
from beyond_perplexity.planning.contrastive import ContrastivePlan
from beyond_perplexity.planning.embeddings import EmbeddingPlan
from beyond_perplexity.planning.evaluators import EvaluatorPlan
from beyond_perplexity.planning.importance import ImportancePlan
from beyond_perplexity.planning.models import Models
from beyond_perplexity.planning.papers import (
    Files,
    Paper,
    contrastive_paper,
    family_rows,
    relations_paper,
    semantic_paper,
)
from beyond_perplexity.planning.parameters import Config, as_json, caps
from beyond_perplexity.planning.relations import RelationPlan
from beyond_perplexity.planning.samples import Samples
from beyond_perplexity.planning.semantics import SemanticsPlan
from beyond_perplexity.report import INPUTS, TABLES, Input
from beyond_perplexity.storage.fingerprint import fingerprint

Exhibits = Mapping[str, Exhibit]
# A flag for every kind of files, for the command of a rule whose parameters have these names.
INPUT_FLAGS = " ".join(f"{Input.flag(k)} {{params.{k}:q}}" for k in INPUTS)


SENTENCE_REFERENCE = "Sentences of the test set"
SENTENCE_UNIT = """

A text is a *sentence* here: what models of sentences write is compared with the sentences of the
test split (those that have a tree), not with its documents. Sentences of one document, or of one
page where whole pages were split, are exchanged together."""


def importance_files(importance: ImportancePlan) -> Files:
    """Say where the files of latent models are, by the kind."""
    return {
        "costs": lambda _: importance.cost_files(),
        "posteriors": lambda _: importance.posterior_files(),
        "choices": lambda _: importance.choice_files(),
        "beside": lambda _: importance.beside_files(),
        "importance_instances": lambda _: importance.estimate_files("diagnostics"),
        "gaps": lambda _: importance.gap_files(),
        "estimates": lambda _: importance.estimate_files("estimates"),
        "importance_curves": lambda _: importance.estimate_files("curves"),
        "replicates": lambda _: importance.estimate_files("replicates"),
        "latents": lambda _: [f"<results>/latents/{name}.json" for name in importance.models()],
    }


def _writers(config: Config, models: Models) -> dict[str, str]:
    """Say in words which caps each model has that generates, that of its texts among them."""
    written = f"generation.maximum_length {config['generation']['maximum_length']}"
    return {
        name: f"caps: {', '.join([*caps(models.find(name)), written])}"
        for name in config["generation"]["models"]
    }


class Report:
    """The tables and figures of a run.

    They come in groups, ``paper`` or ``paper/subject``, which are the folders that they are in.

    Parameters
    ----------
    config : dict
        The configuration after `validation.validate`.
    models : Models
        The models of the run.
    samples : Samples
        Its bodies of text.
    importance : ImportancePlan
        Its models with latent variables.
    contrastive : ContrastivePlan
        What is known of contrastive entropy.
    embeddings : EmbeddingPlan
        What joins the measures of the bodies of text.
    evaluators : EvaluatorPlan
        What compares texts by their meaning.
    semantics : SemanticsPlan
        What is known of the meaning of predictions.
    relations : RelationPlan
        Which measures are related.
    """

    def __init__(
        self,
        config: Config,
        models: Models,
        samples: Samples,
        importance: ImportancePlan,
        contrastive: ContrastivePlan,
        embeddings: EmbeddingPlan,
        evaluators: EvaluatorPlan,
        semantics: SemanticsPlan,
        relations: RelationPlan,
    ) -> None:
        self._models = models
        self._published: Mapping[str, list[str]] = config["report"]["published"]
        self._estimated = {importance.corpus(name) for name in importance.models()}
        self._samples = samples
        generation = config["generation"]
        decodings = generation["decodings"]
        compared = {
            "models": generation["models"],
            "decodings": decodings,
            "names": {name: DECODINGS[name].title for name in decodings if name in DECODINGS},
            "families": {name: models.find(name)["family"] for name in generation["models"]},
            "kinds": {name: config["decodings"][name]["kind"] for name in decodings},
            "data": _writers(config, models),
        }
        latent = {
            "families": importance.families(),
            "data": importance.data(),
            "titles": importance.titles(),
        }
        estimating = (*estimator_code(), *family_rows(importance.models()))
        self._papers = {
            "tendencies": Paper(
                samples.compared_corpora(), compared, family_rows(generation["models"])
            ),
            "importance": Paper([""], latent, estimating)
            if importance.proposals()
            else Paper([], latent),
            "contrastive": contrastive_paper(contrastive, models),
            "semantics": semantic_paper(semantics, evaluators, models),
            "relations": relations_paper(relations, semantics, evaluators, models, config),
        }
        self._files = self._find_files(models, samples, importance, embeddings)

    def _find_files(
        self,
        models: Models,
        samples: Samples,
        importance: ImportancePlan,
        embeddings: EmbeddingPlan,
    ) -> Files:
        """Say where the files of each kind of `INPUTS` are, by the subject."""
        return {
            **importance_files(importance),
            "measures": embeddings.measures,
            "embedding_measures": lambda corpus: [
                file for file in embeddings.measures(corpus) if embeddings.encoder
            ],
            "raw_measures": lambda corpus: self._of_sources(corpus, "raw"),
            "resamples": samples.resample_measures,
            "curves": lambda corpus: [
                *(
                    f"<results>/references/{corpus}/{vocabulary}/curves.parquet"
                    for vocabulary in samples.compared_vocabularies(corpus)
                ),
                *self._of_sources(corpus, "curves"),
            ],
            "sample_size": lambda corpus: self._of_sources(corpus, "sample_size"),
            "sensitivity": embeddings.sensitivity,
            "models": lambda corpus: [
                f"<results>/models/{name}/model.json" for name in models.scored(corpus)
            ],
            "perplexities": lambda corpus: [
                f"<results>/perplexity/{name}.json" for name in models.scored(corpus)
            ],
            "perplexity_differences": lambda corpus: [
                f"<results>/perplexity_differences/{corpus}.parquet"
                for _ in models.scored(corpus)[:1]
            ],
            "training": self.training_files,
            "example_samples": lambda corpus: [
                f"<results>/samples/{source}/{samples.shards(source.split('/')[0])[0]}.parquet"
                for source in samples.sources(corpus)
            ],
            "example_documents": lambda corpus: [f"<results>/corpora/{corpus}/documents.parquet"],
        }

    def _of_sources(self, corpus: str, kind: str) -> list[str]:
        sources = self._samples.sources(corpus)
        return [f"<results>/tendencies/{source}/{kind}.parquet" for source in sources]

    def training_files(self, corpus: str) -> list[str]:
        """List the training curves of the neural models that are trained on a corpus."""
        return [
            f"<results>/models/{name}/training.parquet"
            for name in self._models.scored(corpus)
            if self._models.learns(name)
        ]

    # ---- what there is ----

    def groups(self, paper: str | None = None) -> list[str]:
        """List the groups of all tables and figures, or of those of a paper."""
        return [
            f"{name}/{subject}".rstrip("/")
            for name, held in self._papers.items()
            for subject in held.subjects
            if paper in (None, name)
        ]

    def names(self, exhibits: Exhibits, group: str) -> list[str]:
        """List the tables or the figures of a group: all that have something to show."""
        found = (key.split("/") for key in exhibits)
        named = [name for paper, name in found if paper == group.split("/")[0]]
        return [name for name in named if self._has_all(exhibits, group, name)]

    def _has_all(self, exhibits: Exhibits, group: str, name: str) -> bool:
        row, files = self._row(exhibits, group, name), self.inputs(exhibits, group, name)
        needed = all(files[kind] for kind in row.inputs if kind not in row.optional)
        return needed and any(files.values())

    def files(self, paper: str | None = None) -> list[str]:
        """List every file of all tables and figures, or of those of a paper."""
        forms = (("tables", TABLES, ("csv", "tex", "html")), ("figures", FIGURES, ("svg", "pdf")))
        return [
            f"<results>/{folder}/{group}/{name}.{suffix}"
            for folder, exhibits, suffixes in forms
            for group in self.groups(paper)
            for name in self.names(exhibits, group)
            for suffix in suffixes
        ]

    def overview_code(self, script: str) -> str:
        """Return the fingerprint of the script of the first page with what it loads by name."""
        return fingerprint(
            script, *(file for paper in self._papers.values() for file in paper.code)
        )

    def compared(self) -> str:
        """Return what the first page is told of what was compared, as JSON.

        ``corpora`` maps a corpus to the bodies of text that are compared with it; ``kinds`` lists
        the kinds of the models that wrote them, and ``external`` where they were brought.
        """
        corpora = {name: self._samples.sources(name) for name in self._samples.compared_corpora()}
        models = {source.split("/")[0] for held in corpora.values() for source in held}
        kinds = {m if m == EXTERNAL else self._models.row(m).kind for m in models}
        return as_json({"corpora": corpora, "kinds": sorted(kinds)})

    def sensitivities(self) -> list[str]:
        """List the tables of the smallest detectable shifts, one for each compared corpus."""
        found = self._files["sensitivity"]
        return [file for name in self._samples.compared_corpora() for file in found(name)]

    # ---- what the rules ask of one of them ----

    @staticmethod
    def name(group: str, exhibit: str) -> str:
        """Return the key of a table or figure: its paper and its name."""
        return f"{group.split('/')[0]}/{exhibit}"

    def _row(self, exhibits: Exhibits, group: str, exhibit: str) -> Exhibit:
        return exhibits[self.name(group, exhibit)]

    def inputs(self, exhibits: Exhibits, group: str, exhibit: str) -> dict[str, list[str]]:
        """Return the files of every kind that a table or figure is made of; most have none."""
        wanted, (paper, _, subject) = (
            self._row(exhibits, group, exhibit).inputs,
            group.partition("/"),
        )
        files = {**self._files, **self._papers[paper].files}
        return {kind: files[kind](subject) if kind in wanted else [] for kind in INPUTS}

    def code(self, script: str, exhibits: Exhibits, group: str, exhibit: str) -> str:
        """Return the function of a table or figure with a fingerprint of all that it reaches."""
        row = self._row(exhibits, group, exhibit)
        loaded = self._papers[group.partition("/")[0]].code
        inputs = (f"beyond_perplexity.report:INPUTS[{kind}]" for kind in row.inputs)
        readers = (INPUTS[kind].reader for kind in row.inputs if INPUTS[kind].reader)
        named = (row.path, *inputs, *readers, *loaded)
        return f"{row.code} {fingerprint(f'scripts/{script}.py', *named)}"

    def caption(self, exhibits: Exhibits, group: str, exhibit: str) -> str:
        """Return what the report says of a table or figure."""
        row = self._row(exhibits, group, exhibit)
        unit = SENTENCE_UNIT if self._of_sentences(group) else ""
        printed = row.published if self.of_paper(group) else ""
        return f"**{row.title}.** {row.caption}{printed}{unit}"

    def labels(self, group: str) -> str:
        """Return names, order, kinds of models and decodings, as JSON."""
        held = self._papers[group.split("/")[0]].labels
        reference = {"reference": SENTENCE_REFERENCE} if self._of_sentences(group) else {}
        own = {"published": self.of_paper(group), "subject": group.partition("/")[2]}
        return as_json({**held, **reference, **own})

    def of_paper(self, group: str) -> bool:
        """Return whether the data of a group are those of its paper, as the configuration says."""
        paper, _, corpus = group.partition("/")
        known = set(self._published.get(paper, ()))
        return {corpus} <= known if corpus else bool(known) and self._estimated <= known

    def _of_sentences(self, group: str) -> bool:
        """Return whether the texts of a group are sentences, as some models write them."""
        paper, _, corpus = group.partition("/")
        return paper == "tendencies" and self._samples.is_of_sentences(corpus)

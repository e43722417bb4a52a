"""The tables and figures of a run: of what, under which names, and made of which files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import product
from string import Formatter
from typing import TYPE_CHECKING, Any, NamedTuple

from beyond_perplexity.decoding.options import DECODINGS
from beyond_perplexity.figures import FIGURES, Exhibit
from beyond_perplexity.figures.labels import EXTERNAL, NAME_SUFFIXES
from beyond_perplexity.figures.measure_names import EVALUATOR_LABEL
from beyond_perplexity.importance.ways_to_draw import estimator_code
from beyond_perplexity.models.families import FAMILIES
from beyond_perplexity.planning.parameters import as_json, caps
from beyond_perplexity.report import TABLES
from beyond_perplexity.report.inputs import INPUTS
from beyond_perplexity.storage.fingerprint import fingerprint

if TYPE_CHECKING:
    from beyond_perplexity.planning.run import Run

Exhibits = Mapping[str, Exhibit]
Lists = Mapping[str, list[str]]

# Where the files of each kind of `INPUTS` are, by the paper; some kinds lie in two places. A name
# in braces stands for each of a list of the run, as the function of the paper's lists gives it.
PATTERNS: Mapping[str, Mapping[str, str]] = {
    "tendencies": {
        "measures": "{measures}",
        "embedding_measures": "<results>/embeddings/{embedded}/measures.parquet",
        "raw_measures": "<results>/tendencies/{source}/raw.parquet",
        "resamples": "<results>/references/{corpus}/resamples/{resample}/measures.parquet",
        "curves": "<results>/references/{corpus}/{vocabulary}/curves.parquet "
        "<results>/tendencies/{source}/curves.parquet",
        "sample_size": "<results>/tendencies/{source}/sample_size.parquet",
        "sensitivity": "{sensitivity}",
        "models": "<results>/models/{scored}/model.json",
        "perplexities": "<results>/perplexity/{scored}.json",
        "perplexity_differences": "<results>/perplexity_differences/{scored_corpus}.parquet",
        "training": "<results>/models/{learning}/training.parquet",
        "example_samples": "<results>/samples/{source}/00000.parquet",
        "example_documents": "<results>/corpora/{corpus}/documents.parquet",
    },
    "importance": {
        "costs": "{costs}",
        "posteriors": "{posteriors}",
        "choices": "{choices}",
        "beside": "{beside}",
        "gaps": "{gaps}",
        "estimates": "<results>/estimates/{proposal}/estimates.parquet",
        "importance_instances": "<results>/estimates/{proposal}/diagnostics.parquet",
        "importance_curves": "<results>/estimates/{proposal}/curves.parquet",
        "replicates": "<results>/estimates/{proposal}/replicates.parquet",
        "latents": "<results>/latents/{latent}.json",
    },
    "contrastive": {
        "contrasts": "<results>/contrastive/{corpus}/{model}.parquet",
        "contrast_differences": "<results>/contrastive/{compared}/differences.parquet",
        "pair_contrasts": "<results>/contrastive/pairs/{pairs}/{model}.parquet",
        "models": "<results>/models/{model}/model.json",
        "sentence_models": "<results>/models/{unnormalized}/model.json",
        "training": "<results>/models/{unnormalized}/training.parquet",
        "perplexities": "<results>/perplexity/{normalized}.json",
        "partitions": "<results>/partitions/{estimated}.parquet",
        "given_lengths": "<results>/partitions/{estimated}.json",
    },
    "semantics": {
        "semantics": "<results>/semantics/{corpus}/{model}.parquet",
        "semantic_differences": "<results>/semantics/{compared}/differences.parquet",
        "semantic_correlations": "<results>/semantics/{compared}/correlations.parquet",
        "probes": "<results>/semantics/{corpus}/probes/{evaluator}.parquet",
        "human_correlations": "<results>/semantics/{corpus}/human/{judge}.parquet",
        "human_scores": "<results>/semantics/{corpus}/human_scores/{judge}.parquet",
        "models": "<results>/models/{model}/model.json",
    },
    "relations": {
        "relation_measures": "<results>/relations/{corpus}/measures.parquet",
        "relation_correlations": "<results>/relations/{corpus}/correlations.parquet",
        "relation_orders": "<results>/relations/{corpus}/orders.parquet",
    },
}
SENTENCE_REFERENCE = "Sentences of the test set"
SENTENCE_UNIT = """

A text is a *sentence* here: what models of sentences write is compared with the sentences of the
test split (those that have a tree), not with its documents. Sentences of one document, or of one
page where whole pages were split, are exchanged together."""


def _tendency_lists(run: Run, corpus: str) -> Lists:
    sources, scored = run.samples.sources(corpus), run.models.scored(corpus)
    resamples = range(run.config["tendencies"]["resamples"])
    return {
        "corpus": [corpus],
        "source": sources,
        "vocabulary": run.samples.compared_vocabularies(corpus),
        "measures": run.embeddings.measures(corpus),
        "sensitivity": run.embeddings.sensitivity(corpus),
        "embedded": [corpus] if sources and run.embeddings.encoder else [],
        "resample": [f"{resample:03d}" for resample in resamples],
        "scored": scored,
        "scored_corpus": [corpus] if scored else [],
        "learning": [name for name in scored if run.models.learns(name)],
    }


def _importance_lists(run: Run, _: str) -> Lists:
    plan = run.importance
    return {
        "costs": plan.cost_files(),
        "posteriors": plan.posterior_files(),
        "choices": plan.choice_files(),
        "beside": plan.beside_files(),
        "gaps": plan.gap_files(),
        "proposal": [f"{plan.model_of(name)}/{name}" for name in plan.proposals()],
        "latent": plan.models(),
    }


def _contrastive_lists(run: Run, corpus: str) -> Lists:
    plan = run.contrastive
    names, normalized, estimated = plan.models(corpus), plan.normalized(), plan.estimated()
    return {
        "corpus": [corpus],
        "compared": [corpus] if len(names) > 1 else [],
        "model": names,
        "normalized": [name for name in names if name in normalized],
        "unnormalized": [name for name in names if name not in normalized],
        "estimated": [name for name in names if name in estimated],
        "pairs": list(plan.options["pairs"]),
    }


def _semantic_lists(run: Run, corpus: str) -> Lists:
    plan = run.semantics
    names, evaluators = plan.models(corpus), plan.evaluators()
    return {
        "corpus": [corpus],
        "compared": [corpus] if len(names) > 1 else [],
        "model": names,
        "evaluator": evaluators,
        "judge": evaluators if plan.options["human_scores"] else [],
    }


def _expand(patterns: str, lists: Lists) -> list[str]:
    """Put every value of its list for each name in braces; the last name changes fastest."""
    found = []
    for pattern in patterns.split():
        names = [name for _, name, _, _ in Formatter().parse(pattern) if name]
        found += [
            pattern.format(**dict(zip(names, values, strict=True)))
            for values in product(*(lists[name] for name in names))
        ]
    return found


# ---- papers ----


class Paper(NamedTuple):
    """What a run has to show of a paper.

    Attributes
    ----------
    subjects : list of str
        What its tables and figures are made for, each in a folder of its own: the corpora, or a
        single empty name for those of the whole run.
    lists : function
        Gives what the names in its `PATTERNS` stand for, by the subject.
    labels : dict
        Names, order and kinds of models and decodings: the attributes of `figures.labels.Labels`.
    code : tuple of str
        What its tables and figures look up by name: files, and rows of families for their titles.
    """

    subjects: list[str]
    lists: Callable[[Run, str], Lists]
    labels: Mapping[str, Any]
    code: tuple[str, ...] = ()


def family_rows(models: Iterable[str]) -> tuple[str, ...]:
    """List the rows with the titles that `figures.labels` prints of models named like a family."""
    endings = ("", *NAME_SUFFIXES)
    names = {name.removesuffix(end) for name in models for end in endings} & FAMILIES.keys()
    return tuple(f"beyond_perplexity.models.families:FAMILIES[{name}]" for name in sorted(names))


def _families(run: Run, names: Iterable[str]) -> dict[str, str]:
    return {name: run.models.find(name)["family"] for name in names}


def _tendencies(run: Run) -> Paper:
    generation = run.config["generation"]
    names, decodings = generation["models"], generation["decodings"]
    written = f"generation.maximum_length {generation['maximum_length']}"
    data = {name: f"caps: {', '.join([*caps(run.models.find(name)), written])}" for name in names}
    labels = {
        "models": names,
        "decodings": decodings,
        "names": {name: DECODINGS[name].title for name in decodings if name in DECODINGS},
        "families": _families(run, names),
        "kinds": {name: run.config["decodings"][name]["kind"] for name in decodings},
        "data": data,
    }
    return Paper(run.samples.compared_corpora(), _tendency_lists, labels, family_rows(names))


def _importance(run: Run) -> Paper:
    plan = run.importance
    labels = {"families": plan.families(), "data": plan.data(), "titles": plan.titles()}
    if not plan.proposals():
        return Paper([], _importance_lists, labels)
    code = (*estimator_code(), *family_rows(plan.models()))
    return Paper([""], _importance_lists, labels, code)


def _contrastive(run: Run) -> Paper:
    names = run.contrastive.models()
    labels = {"models": names, "families": _families(run, names)}
    return Paper(run.contrastive.corpora(), _contrastive_lists, labels, family_rows(names))


def _with_evaluators(run: Run, names: list[str]) -> dict[str, Any]:
    """Return the labels of models, with titles and families of the evaluators that score."""
    used = {EVALUATOR_LABEL.format(name): name for name in run.evaluators.used()} if names else {}
    held = run.evaluators.config["evaluators"]
    families = {key: str(held[name]["family"]) for key, name in used.items()}
    return {
        "models": names,
        "names": {key: run.evaluators.title(name) for key, name in used.items()},
        "families": _families(run, names) | families,
    }


def _semantics(run: Run) -> Paper:
    names = run.semantics.models()
    code = (*family_rows(names), *run.semantics.measure_code())
    return Paper(run.semantics.corpora(), _semantic_lists, _with_evaluators(run, names), code)


def _relations(run: Run) -> Paper:
    names = [name for corpus in run.relations.corpora() for name in run.relations.names(corpus)]
    decodings, labels = run.config["generation"]["decodings"], _with_evaluators(run, names)
    labels["names"] |= {name: DECODINGS[name].title for name in decodings if name in DECODINGS}
    code = (*family_rows(names), *run.semantics.measure_code())
    labels = {**labels, "decodings": decodings}
    return Paper(run.relations.corpora(), lambda _, corpus: {"corpus": [corpus]}, labels, code)


class Report:
    """The tables and figures of a run.

    They come in groups, ``paper`` or ``paper/subject``, which are the folders that they are in.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._lists: dict[str, Lists] = {}
        makers = (_tendencies, _importance, _contrastive, _semantics, _relations)
        self._papers = {name: make(run) for name, make in zip(PATTERNS, makers, strict=True)}

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
        optional = exhibits[self.name(group, name)].optional
        files = self.inputs(exhibits, group, name)
        needed = all(held for kind, held in files.items() if kind not in optional)
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

    # ---- what the rules ask of one of them ----

    @staticmethod
    def name(group: str, exhibit: str) -> str:
        """Return the key of a table or figure: its paper and its name."""
        return f"{group.split('/')[0]}/{exhibit}"

    def inputs(self, exhibits: Exhibits, group: str, exhibit: str) -> dict[str, list[str]]:
        """Return the files that a table or figure is made of, by their kind."""
        paper, _, subject = group.partition("/")
        if group not in self._lists:
            self._lists[group] = self._papers[paper].lists(self._run, subject)
        kinds, lists = exhibits[self.name(group, exhibit)].inputs, self._lists[group]
        return {kind: _expand(PATTERNS[paper][kind], lists) for kind in kinds}

    def code(self, script: str, exhibits: Exhibits, group: str, exhibit: str) -> str:
        """Return the function of a table or figure with a fingerprint of all that it reaches."""
        row = exhibits[self.name(group, exhibit)]
        loaded = self._papers[group.partition("/")[0]].code
        inputs = (f"beyond_perplexity.report.inputs:INPUTS[{kind}]" for kind in row.inputs)
        readers = (INPUTS[kind].reader for kind in row.inputs if INPUTS[kind].reader)
        named = (row.reference, *inputs, *readers, *loaded)
        return f"{row.code} {fingerprint(f'scripts/{script}.py', *named)}"

    def caption(self, exhibits: Exhibits, group: str, exhibit: str) -> str:
        """Return what the report says of a table or figure."""
        row = exhibits[self.name(group, exhibit)]
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
        known = set(self._run.config["report"]["published"].get(paper, ()))
        plan = self._run.importance
        estimated = {plan.corpus(name) for name in plan.models()}
        return {corpus} <= known if corpus else bool(known) and estimated <= known

    def _of_sentences(self, group: str) -> bool:
        """Return whether the texts of a group are sentences, as some models write them."""
        paper, _, corpus = group.partition("/")
        return paper == "tendencies" and self._run.samples.is_of_sentences(corpus)

    # ---- the first page ----

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
        samples = self._run.samples
        corpora = {name: samples.sources(name) for name in samples.compared_corpora()}
        models = {source.split("/")[0] for held in corpora.values() for source in held}
        kinds = {m if m == EXTERNAL else self._run.models.row(m).kind for m in models}
        return as_json({"corpora": corpora, "kinds": sorted(kinds)})

    def sensitivities(self) -> list[str]:
        """List the tables of the smallest detectable shifts, one for each compared corpus."""
        corpora = self._run.samples.compared_corpora()
        return [file for name in corpora for file in self._run.embeddings.sensitivity(name)]

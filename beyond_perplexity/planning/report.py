"""The tables and figures of a run: of what, under which names, and made of which files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from beyond_perplexity.decoding.options import DECODINGS
from beyond_perplexity.figures import FIGURES, Exhibit
from beyond_perplexity.figures.labels import EXTERNAL, NAME_SUFFIXES
from beyond_perplexity.figures.measure_names import EVALUATOR_LABEL
from beyond_perplexity.importance.ways_to_draw import estimator_code
from beyond_perplexity.models.families import FAMILIES
from beyond_perplexity.planning.configuration_file import as_json, caps
from beyond_perplexity.report import TABLES
from beyond_perplexity.report.inputs import INPUTS
from beyond_perplexity.report.static_page import Shown
from beyond_perplexity.storage.fingerprint import fingerprint

if TYPE_CHECKING:
    from beyond_perplexity.planning.run import Run

Exhibits = Mapping[str, Exhibit]
Files = Mapping[str, list[str]]
RELATION_FILES = ("measures", "correlations", "orders")  # of a corpus

SENTENCE_REFERENCE = "Sentences of the test set"
SENTENCE_UNIT = """

A text is a *sentence* here: what models of sentences write is compared with the sentences of the
test split (those that have a tree), not with its documents. Sentences of one document, or of one
page where whole pages were split, are permuted together."""


# ---- where the files of each kind of `INPUTS` are, by the paper; some kinds lie in two places ----


def _each(pattern: str, names: Iterable[str]) -> list[str]:
    return [f"<results>/{pattern}".replace("*", name) for name in names]


def _tendency_files(run: Run, corpus: str) -> Files:
    sources, scored = run.samples.sources(corpus), run.models.scored(corpus)
    resamples = (f"{resample:03d}" for resample in range(run.config["tendencies"]["resamples"]))
    read_in, reference = run.samples.compared_vocabularies(corpus), f"references/{corpus}"
    embedded = [corpus] if sources and run.embeddings.encoder else []
    return {
        "measures": run.embeddings.measures(corpus),
        "embedding_measures": _each("embeddings/*/measures.parquet", embedded),
        "raw_measures": _each("tendencies/*/raw.parquet", sources),
        "words": _each("tendencies/*/words.parquet", sources),
        "resamples": _each(f"{reference}/resamples/*/measures.parquet", resamples),
        "curves": [
            *_each(f"{reference}/*/curves.parquet", read_in),
            *_each("tendencies/*/curves.parquet", sources),
        ],
        "sample_size": _each("tendencies/*/sample_size.parquet", sources),
        "sensitivity": run.embeddings.sensitivity(corpus),
        "prompt_measures": _each("prompts/*/measures.parquet", run.samples.continued(corpus)),
        "prompt_sensitivity": _each("prompts/*/sensitivity.parquet", run.samples.continued(corpus)),
        "models": _each("models/*/model.json", scored),
        "perplexities": _each("perplexity/*.json", scored),
        "perplexity_differences": _each(
            "perplexity_differences/*.parquet", [corpus] if scored else []
        ),
        "perplexity_parts": _each(
            "perplexity_parts/*.parquet", [corpus] if run.models.token_files(corpus) else []
        ),
        "training": _each("models/*/training.parquet", filter(run.models.learns, scored)),
        "example_samples": _each("samples/*/00000.parquet", sources),
        "example_documents": _each("corpora/*/documents.parquet", [corpus]),
    }


def _importance_files(run: Run, _: str) -> Files:
    plan = run.importance
    posteriors = (plan.draw_files("posterior", name) for name in plan.proposals())
    return {
        "costs": plan.cost_files(),
        "posteriors": [*chain.from_iterable(posteriors)],
        "choices": plan.choice_files(),
        "beside": plan.beside_files(),
        "gaps": plan.gap_files(),
        "estimates": plan.estimate_files("estimates"),
        "importance_instances": plan.estimate_files("diagnostics"),
        "importance_curves": plan.estimate_files("curves"),
        "replicates": plan.estimate_files("replicates"),
        "latents": _each("latents/*.json", plan.shown_models()),
    }


def _contrastive_files(run: Run, corpus: str) -> Files:
    plan = run.contrastive
    names, normalized, measured = plan.models(corpus), plan.normalized(), plan.measured(corpus)
    unnormalized = [name for name in names if name not in normalized]
    return {
        **measured,
        "contrast_parts": measured["contrasts"] if plan.options["parts_level"] else [],
        "models": _each("models/*/model.json", names),
        "sentence_models": _each("models/*/model.json", unnormalized),
        "training": _each("models/*/training.parquet", unnormalized),
        "perplexities": _each("perplexity/*.json", (name for name in names if name in normalized)),
        "given_lengths": [f"{file.removesuffix('parquet')}json" for file in measured["partitions"]],
    }


def _semantic_files(run: Run, corpus: str) -> Files:
    plan, folder = run.semantics, f"semantics/{corpus}"
    judges = plan.evaluators() if plan.options["human_scores"] else []
    return {
        **plan.measured(corpus),
        "human_correlations": _each(f"{folder}/human/*.parquet", judges),
        "human_scores": _each(f"{folder}/human_scores/*.parquet", judges),
        "models": _each("models/*/model.json", plan.models(corpus)),
    }


def _relation_files(run: Run, corpus: str) -> Files:
    return {f"relation_{kind}": [run.relations.file(corpus, kind)] for kind in RELATION_FILES}


# ---- papers ----


class Paper(NamedTuple):
    """What a run has to show of a paper.

    `subjects`: corpora, or an empty name for the whole run, each with a folder, and `files` by
    kind. `labels`: attributes of `figures.labels.Labels`. `code`: what tables and figures look up
    by name: files, and rows of families for their titles.
    """

    subjects: list[str]
    files: Callable[[Run, str], Files]
    labels: Mapping[str, Any]
    code: tuple[str, ...] = ()


def family_rows(models: Iterable[str]) -> tuple[str, ...]:
    """List the rows with the titles that `figures.labels` prints of models named like a family."""
    endings = ("", *NAME_SUFFIXES)
    names = {name.removesuffix(end) for name in models for end in endings} & FAMILIES.keys()
    return tuple(f"beyond_perplexity.models.families:FAMILIES[{name}]" for name in sorted(names))


def _families(run: Run, names: Iterable[str]) -> dict[str, str]:
    return {name: run.models.find(name)["family"] for name in names}


def _decodings(names: Iterable[str]) -> dict[str, str]:
    return {name: DECODINGS[name].title for name in names if name in DECODINGS}


def _tendencies(run: Run) -> Paper:
    generation = run.config["generation"]
    names, decodings = generation["models"], generation["decodings"]
    written = f"generation.maximum_length {generation['maximum_length']}"
    labels = {
        "models": names,
        "decodings": decodings,
        "names": _decodings(decodings),
        "families": _families(run, names),
        "kinds": {name: run.config["decodings"][name]["kind"] for name in decodings},
        "data": {
            name: f"caps: {', '.join([*caps(run.models.find(name)), written])}" for name in names
        },
    }
    return Paper(run.samples.compared_corpora(), _tendency_files, labels, family_rows(names))


def _importance(run: Run) -> Paper:
    plan = run.importance
    labels = {"families": plan.families(), "data": plan.data(), "titles": plan.titles()}
    code = (*estimator_code(), *family_rows(plan.models())) if plan.proposals() else ()
    return Paper([""] if code else [], _importance_files, labels, code)


def _thoughts(run: Run) -> Paper:
    names = run.thoughts.models()
    labels = {"models": names, "families": _families(run, names)}
    return Paper(
        run.thoughts.prompts(),
        lambda run, prompts: run.thoughts.measured(prompts),
        labels,
        family_rows(names),
    )


def _contrastive(run: Run) -> Paper:
    names = run.contrastive.models()
    labels = {"models": names, "families": _families(run, names)}
    return Paper(run.contrastive.corpora(), _contrastive_files, labels, family_rows(names))


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
    return Paper(run.semantics.corpora(), _semantic_files, _with_evaluators(run, names), code)


def _relations(run: Run) -> Paper:
    names = [name for corpus in run.relations.corpora() for name in run.relations.names(corpus)]
    decodings, labels = run.config["generation"]["decodings"], _with_evaluators(run, names)
    labels |= {"decodings": decodings, "names": labels["names"] | _decodings(decodings)}
    code = (*family_rows(names), *run.semantics.measure_code())
    return Paper(run.relations.corpora(), _relation_files, labels, code)


PAPERS: Mapping[str, Callable[[Run], Paper]] = {
    "tendencies": _tendencies,
    "importance": _importance,
    "thoughts": _thoughts,
    "contrastive": _contrastive,
    "semantics": _semantics,
    "relations": _relations,
}


class Report:
    """The tables and figures of a run, in groups: folders ``paper`` or ``paper/subject``."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._papers = {name: make(run) for name, make in PAPERS.items()}
        self._files = cache(lambda paper, subject: self._papers[paper].files(run, subject))

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

    def shown(self, folder: str, exhibits: Exhibits) -> list[Shown]:
        """List the tables or figures with their captions, for the static page."""
        return [
            Shown(
                group,
                f"{folder}/{group}/{name}",
                exhibits[self.name(group, name)].title,
                self.caption(exhibits, group, name),
            )
            for group in self.groups()
            for name in self.names(exhibits, group)
        ]

    # ---- what the rules ask of one of them ----

    @staticmethod
    def name(group: str, exhibit: str) -> str:
        """Return the key of a table or figure: its paper and its name."""
        return f"{group.split('/')[0]}/{exhibit}"

    def inputs(self, exhibits: Exhibits, group: str, exhibit: str) -> dict[str, list[str]]:
        """Return the files that a table or figure is made of, by their kind."""
        paper, _, subject = group.partition("/")
        files = self._files(paper, subject)
        return {kind: files[kind] for kind in exhibits[self.name(group, exhibit)].inputs}

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
        return fingerprint(script, *chain.from_iterable(p.code for p in self._papers.values()))

    def compared(self) -> str:
        """Return the sample sets of each corpus and the kinds of who wrote them, as JSON."""
        samples = self._run.samples
        corpora = {name: samples.sources(name) for name in samples.compared_corpora()}
        models = {source.split("/")[0] for held in corpora.values() for source in held}
        kinds = {m if m == EXTERNAL else self._run.models.row(m).kind for m in models}
        return as_json({"corpora": corpora, "kinds": sorted(kinds)})

    def differences(self) -> list[str]:
        """List the tables of differences in perplexity, of each corpus that models learn."""
        scored = filter(self._run.models.scored, self._run.config["corpora"])
        return _each("perplexity_differences/*.parquet", scored)

    def sensitivities(self) -> list[str]:
        """List the tables of the minimum detectable effects, one for each compared corpus."""
        corpora = self._run.samples.compared_corpora()
        return [file for name in corpora for file in self._run.embeddings.sensitivity(name)]

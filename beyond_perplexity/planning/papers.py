"""What a run has to show of each paper: for which corpora, under which names, from which files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

from beyond_perplexity.decoding.rows import DECODINGS
from beyond_perplexity.figures.labels import NAME_SUFFIXES
from beyond_perplexity.figures.semantic_rows import EVALUATOR_LABEL
from beyond_perplexity.models.families import FAMILIES
from beyond_perplexity.planning.contrastive import DIFFERENCES, ContrastivePlan
from beyond_perplexity.planning.evaluators import EvaluatorPlan
from beyond_perplexity.planning.models import Models
from beyond_perplexity.planning.parameters import Config
from beyond_perplexity.planning.relations import RELATIONS, RelationPlan
from beyond_perplexity.planning.semantics import SemanticsPlan

Files = Mapping[str, Callable[[str], list[str]]]


class Paper(NamedTuple):
    """What a run has to show of a paper.

    `subjects` are what its tables and figures are made for, each in a folder of its own: the
    corpora, or a single empty name for those of the whole run. `labels` are attributes of
    `figures.labels.Labels`. `code` lists what they look up by name (files, rows of families), and
    `files` where files of kinds of `INPUTS` are, by the subject, that are others than elsewhere.
    """

    subjects: list[str]
    labels: Mapping[str, Any]
    code: tuple[str, ...] = ()
    files: Files = MappingProxyType({})


def family_rows(models: Iterable[str]) -> tuple[str, ...]:
    """List the rows with the titles that `figures.labels` prints of models named like a family."""
    endings = ("", *NAME_SUFFIXES)
    names = {name.removesuffix(end) for name in models for end in endings} & FAMILIES.keys()
    return tuple(f"beyond_perplexity.models.families:FAMILIES[{name}]" for name in sorted(names))


def contrastive_paper(plan: ContrastivePlan, models: Models) -> Paper:
    """Say what there is to show of contrastive entropy, and where; nothing without a model."""
    names, normalized = plan.models(), plan.normalized()
    unnormalized = [name for name in names if name not in normalized]

    def of(listed: Sequence[str], *patterns: str) -> Callable[[str], list[str]]:
        return lambda corpus: [
            pattern.format(model=name, corpus=corpus)
            for pattern in patterns
            for name in listed
            if models.corpus(name) == corpus
        ]

    folder, described = "<results>/contrastive", "<results>/models/{model}/model.json"
    pairs = [f"{folder}/pairs/{name}/{{model}}.parquet" for name in plan.options["pairs"]]
    files = {
        "contrasts": of(names, f"{folder}/{{corpus}}/{{model}}.parquet"),
        "contrast_differences": lambda corpus: [
            f"{folder}/{corpus}/{DIFFERENCES}.parquet" for _ in plan.models(corpus)[1:2]
        ],
        "pair_contrasts": of(names, *pairs),
        "models": of(names, described),
        "sentence_models": of(unnormalized, described),
        "training": of(unnormalized, "<results>/models/{model}/training.parquet"),
        "perplexities": of(normalized, "<results>/perplexity/{model}.json"),
        "partitions": of(plan.estimated(), "<results>/partitions/{model}.parquet"),
        "given_lengths": of(plan.estimated(), "<results>/partitions/{model}.json"),
    }
    labels = {"models": names, "families": {name: models.find(name)["family"] for name in names}}
    return Paper(plan.corpora(), labels, family_rows(names), files)


def _evaluator_labels(evaluators: EvaluatorPlan) -> tuple[dict[str, str], dict[str, str]]:
    """Return titles and families of the evaluators that score, by their keys among the labels."""
    used = {EVALUATOR_LABEL.format(name): name for name in evaluators.used()}
    titles = {key: evaluators.title(name) for key, name in used.items()}
    families = evaluators.config["evaluators"]
    return titles, {key: str(families[name]["family"]) for key, name in used.items()}


def semantic_paper(plan: SemanticsPlan, evaluators: EvaluatorPlan, models: Models) -> Paper:
    """Say what there is to show of the meaning of predictions; nothing without a model."""
    names = plan.models()
    titles, families = _evaluator_labels(evaluators) if names else ({}, {})

    def compared(kind: int) -> Callable[[str], list[str]]:
        return lambda corpus: plan.comparison_files(corpus)[kind : kind + 1]

    files: dict[str, Callable[[str], list[str]]] = {
        "semantics": plan.measure_files,
        "semantic_differences": compared(0),
        "semantic_correlations": compared(1),
        "probes": plan.probe_files,
        "human_correlations": plan.people_files,
        "human_scores": partial(plan.people_files, pairs=True),
        "models": lambda corpus: [
            f"<results>/models/{name}/model.json" for name in plan.models(corpus)
        ],
    }
    labels = {
        "models": names,
        "names": titles,
        "families": {name: models.find(name)["family"] for name in names} | families,
    }
    return Paper(plan.corpora(), labels, (*family_rows(names), *plan.measure_code()), files)


def relations_paper(
    plan: RelationPlan,
    semantics: SemanticsPlan,
    evaluators: EvaluatorPlan,
    models: Models,
    config: Config,
) -> Paper:
    """Say what there is to show of how the measures of all papers go together."""
    names = [name for corpus in plan.corpora() for name in plan.names(corpus)]
    decodings = config["generation"]["decodings"]
    titles, families = _evaluator_labels(evaluators) if names else ({}, {})
    titles |= {name: DECODINGS[name].title for name in decodings if name in DECODINGS}

    def of(kind: str) -> Callable[[str], list[str]]:
        return lambda corpus: [plan.file(corpus, kind)] if corpus in plan.corpora() else []

    labels = {
        "models": names,
        "decodings": decodings,
        "names": titles,
        "families": {name: models.find(name)["family"] for name in names} | families,
    }
    files = {f"relation_{kind}": of(kind) for kind in RELATIONS}
    code = (*family_rows(names), *semantics.measure_code())
    return Paper(plan.corpora(), labels, code, files)

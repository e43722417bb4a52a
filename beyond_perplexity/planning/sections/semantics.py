"""Section ``semantics``: how near in meaning predictions are to what was written."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from beyond_perplexity.corpus.split import SPLITS
from beyond_perplexity.options import Count, Limit, Natural, Section
from beyond_perplexity.planning.sections.corpora import Location
from beyond_perplexity.planning.sections.samples import Names
from beyond_perplexity.semantics.options import ContinuationOptions, MeasureOptions

SplitNames = Annotated[
    tuple[Annotated[str, Limit(enum=SPLITS)], ...], Limit(uniqueItems=True, minItems=1)
]


@dataclass(frozen=True)
class HumanScores(Section):
    """Pairs of texts with a score that people gave.

    Attributes
    ----------
    path : Location
        TSV or CSV with a line of names; the first two columns are the texts.
    gold : str
        Name of the column of the scores.
    """

    path: Location
    gold: str = "score"


@dataclass(frozen=True)
class Semantics(Section):
    """Section ``semantics``.

    Attributes
    ----------
    models : list of str
        Names of the models that are asked: those with a likelihood, also those that generate
        nothing. Without any nothing is made.
    evaluators : list of str
        Names of the evaluators of section ``evaluators`` that compare texts; BLEU, accuracy and
        cross-entropy need none and are always there.
    splits : list of str
        The splits whose sentences are predicted.
    sentences : int
        Sentences of each of them at most: of documents in a random order, the same for all models
        of a corpus.
    samples : int
        Words that are drawn at each place, beside the likeliest one.
    continuation : ContinuationOptions or None
        What models write by themselves after the first words of a sentence; null: nothing.
    documents_are_sentences : bool, dict of str to bool, or None
        Every document is one sentence (of each corpus named here); null: those of a treebank whose
        trees are documents are. Of other documents a sentence ends after a run of ``.``, ``!`` and
        ``?``.
    measures : MeasureOptions
        Constants of the measures.
    human_scores : dict of str to HumanScores
        Files of pairs with scores that people gave, by name; each evaluator is held against them.
    sentences_per_shard : int
        Sentences of each split in one job; 10 to 90 minutes of work on a cluster.
    """

    models: Names = ()
    evaluators: Names = ()
    splits: SplitNames = ("valid", "test")
    sentences: Count = 500
    samples: Natural = 3
    continuation: ContinuationOptions | None = None
    documents_are_sentences: bool | dict[str, bool] | None = None
    measures: MeasureOptions = field(default_factory=MeasureOptions)
    human_scores: dict[str, HumanScores] = field(default_factory=dict)
    sentences_per_shard: Count = 20_000

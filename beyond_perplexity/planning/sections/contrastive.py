"""Section ``contrastive``: how well models tell texts from distortions of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from beyond_perplexity.contrastive.partition_options import PartitionOptions
from beyond_perplexity.corpus.distortions import DistortionOptions
from beyond_perplexity.options import Count, Limit, Section, Share
from beyond_perplexity.planning.sections.corpora import Location
from beyond_perplexity.planning.sections.evaluation import SplitName
from beyond_perplexity.planning.sections.samples import Names

DistortionLevels = Annotated[tuple[Share, ...], Limit(uniqueItems=True)]


@dataclass(frozen=True)
class BroughtPairs(Section):
    """Pairs of a good and a bad sentence that you bring.

    Attributes
    ----------
    path : Location
        JSONL with an object a line, or TSV with a line of names: sentence_good and sentence_bad, or
        good and bad; phenomenon or UID.
    tokenized : bool
        The sentences are cleaned already; else they are cleaned like the corpus of each model.
    """

    path: Location
    tokenized: bool = False


@dataclass(frozen=True)
class Partition(PartitionOptions, Section):
    """The partition function of models without a likelihood, by importance sampling.

    Attributes
    ----------
    proposal : str or None
        Name of the language model whose words it is estimated from, with the vocabulary of all
        such models; null: it is not estimated.
    """

    proposal: str | None = None


@dataclass(frozen=True)
class Contrastive(Section):
    """Section ``contrastive``.

    Attributes
    ----------
    models : list of str
        Names of the models that are scored, of any family with scores: also those that generate
        nothing.
    split : str
        The split that is distorted.
    sentences : int
        Sentences of each corpus that are scored at most: of documents in a random order, the same
        for all models.
    documents_are_sentences : bool, dict of str to bool, or None
        Every document is one sentence (of each corpus named here); null: those of a treebank whose
        trees are documents are. Of other documents a sentence ends after a run of ``.``, ``!`` and
        ``?``. Nothing is moved from one sentence to another.
    levels : list of float
        Levels of distortion: the probability that a word is hit.
    draws : int
        Distortions at each of them.
    curve : list of float
        Further levels, for the curve of contrastive entropy against distortion.
    curve_draws : int
        Distortions at each of those.
    base_level : float
        The level whose contrastive entropy the ratio divides by.
    distortion : DistortionOptions
        What happens to a word that is hit.
    vocabulary : str or None
        Name of the closed vocabulary that substitutes come from; null: that of the first listed
        model of the corpus that has one.
    pairs : dict of str to BroughtPairs
        Files of pairs that are brought, by name; every listed model scores them.
    partition : Partition
        How the partition function of models without a likelihood is estimated.
    sentences_per_shard : int
        Sentences of one job.
    draws_per_shard : int
        Distortions at each level in one job; 10 to 90 minutes of work on a cluster.
    """

    models: Names = ()
    split: SplitName = "test"
    sentences: Count = 500
    documents_are_sentences: bool | dict[str, bool] | None = None
    levels: Annotated[DistortionLevels, Limit(minItems=1)] = (0.1, 0.3, 0.5)
    draws: Count = 10
    curve: DistortionLevels = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
    curve_draws: Count = 2
    base_level: Share = 0.1
    distortion: DistortionOptions = field(default_factory=DistortionOptions)
    vocabulary: str | None = None
    pairs: dict[str, BroughtPairs] = field(default_factory=dict)
    partition: Partition = field(default_factory=Partition)
    sentences_per_shard: Count = 20_000
    draws_per_shard: Count = 10

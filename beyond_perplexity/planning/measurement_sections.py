"""Sections ``tendencies``, ``perplexity`` and ``importance``: what is measured, and how exactly."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

from beyond_perplexity.contrastive.partition_options import PartitionOptions
from beyond_perplexity.corpus.distortions import DistortionOptions
from beyond_perplexity.corpus.split import SPLITS
from beyond_perplexity.importance.ways_to_draw import (
    PosteriorOptions,
    ReductionOptions,
    SimulationOptions,
    SMCOptions,
)
from beyond_perplexity.models.latents.kglm_embedding import GraphOptions
from beyond_perplexity.options import Count, Limit, Natural, Section, Share
from beyond_perplexity.planning.text_sections import Location, Names, Temperatures
from beyond_perplexity.semantics.measures import ContinuationOptions, MeasureOptions
from beyond_perplexity.tendencies.options import (
    EmbeddingOptions,
    MeasurementOptions,
    SampleSizeOptions,
    SensitivityOptions,
)

SplitName = Annotated[str, Limit(enum=SPLITS)]


@dataclass(frozen=True)
class Tendencies(Section):
    """Section ``tendencies``.

    Attributes
    ----------
    stop_words : Location
        auto (the list of the corpus' language, gensim's for English), gensim, nltk (NLTK's
        installed data), or a list with one word a line: a path or an address.
    count_s_symbols : bool
        Currency, math and other Unicode S* tokens count as symbols, as punctuation and numerals do.
    maximum_tokens : int or None
        One cap of length for models and human text: tokens (words) of a document that are read. The
        rest of a longer one is cut off, and such documents are counted. null: none.
    minimum_tokens : int
        Documents of fewer tokens (headings and the like) are left out, on both sides.
    documents_per_count : int
        Documents that one job counts: as many shards as hold them. A body of text with
        more is counted by several jobs, whose counts are added up; one that has grown is counted
        again from the first job on that was not full.
    resamples : int
        Random subsets of the training split, as large as the reference, that Table 4's standard
        deviations come from.
    measurement : MeasurementOptions
        Fits, permutations and bootstrap.
    sample_size : SampleSizeOptions
        Measures of random subsets, which show how many documents a conclusion needs.
    sensitivity : SensitivityOptions
        The smallest shift of each tendency that numbers of documents detect.
    embedding : EmbeddingOptions or None
        Documents are compared by their vectors as well; null: they are not.
    """

    stop_words: Location = "auto"
    count_s_symbols: bool = True
    maximum_tokens: Count | None = None
    minimum_tokens: Natural = 0
    documents_per_count: Count = 1_000_000
    resamples: Annotated[int, Limit(minimum=2)] = 10
    measurement: MeasurementOptions = field(default_factory=MeasurementOptions)
    sample_size: SampleSizeOptions = field(default_factory=SampleSizeOptions)
    sensitivity: SensitivityOptions = field(default_factory=SensitivityOptions)
    embedding: EmbeddingOptions | None = None


@dataclass(frozen=True)
class Perplexity(Section):
    """Section ``perplexity``.

    Attributes
    ----------
    split : str
        The split that is scored.
    """

    split: SplitName = "test"


@dataclass(frozen=True)
class Importance(Section):
    """Section ``importance``.

    Attributes
    ----------
    proposals : list of str or None
        Names of the proposals that are drawn from; null takes all.
    split : str
        The split whose instances (sentences or documents) are weighed.
    instances : int
        Instances of the split, chosen at random; fewer if it has fewer.
    samples : int
        K, samples of each instance.
    temperatures : list of float or None
        Temperatures of the proposals; of several, log q of every sample is kept at each of them.
    beams : list of int
        Sizes of the beams of beam marginalization.
    smc : SMCOptions or None
        Sequential Monte Carlo with every proposal of a model that goes word by word; null leaves
        it out.
    bidirectional : SimulationOptions or None
        Every proposal on documents that its model generates, with a known draw from the posterior:
        the gap of its estimates from both sides; null leaves it out.
    posterior : PosteriorOptions or None
        Latents under the posterior and under every proposal, held against the annotation; null
        leaves them out.
    reduction : ReductionOptions
        Subsets, bootstraps and replicates that the weights are reduced with.
    graph : GraphOptions
        Embeddings of the knowledge graph (TransE).
    choose : "none" or "validation"
        Whether the same is drawn on the validation split too, where temperature and estimator are
        then chosen: a bound that the reported split did not choose stays one in expectation.
    beside : list of str or None
        Models without latent variables that are scored on the same instances, each beside the
        latent models of its corpus and vocabulary; null: the first LSTM and the first Transformer
        of the run.
    instances_per_shard : int
        Instances of one job.
    samples_per_shard : int
        Samples of each instance in one job; 10 to 90 minutes of work on a cluster.
    runs_per_shard : int
        Runs of sequential Monte Carlo of each instance in one job.
    """

    proposals: Names | None = None
    split: SplitName = "test"
    instances: Count = 100
    samples: Count = 100
    temperatures: Temperatures | None = (0.5, 0.9, 1.0, 1.1, 2.0, 5.0)
    beams: Annotated[tuple[Count, ...], Limit(uniqueItems=True)] = (1, 10, 100)
    smc: SMCOptions | None = field(default_factory=SMCOptions)
    bidirectional: SimulationOptions | None = None
    posterior: PosteriorOptions | None = field(default_factory=PosteriorOptions)
    reduction: ReductionOptions = field(default_factory=ReductionOptions)
    graph: GraphOptions = field(default_factory=GraphOptions)
    choose: Literal["none", "validation"] = "none"
    beside: Names | None = None
    instances_per_shard: Count = 100
    samples_per_shard: Count = 1000
    runs_per_shard: Count = 4


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

"""Sections ``tendencies``, ``perplexity`` and ``importance``: what is measured, and how exactly."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

from beyond_perplexity.corpus.split import SPLITS
from beyond_perplexity.importance.ways_to_draw import (
    PosteriorOptions,
    ReductionOptions,
    SimulationOptions,
    SMCOptions,
)
from beyond_perplexity.models.latents.kglm_embedding import GraphOptions
from beyond_perplexity.options import Count, Limit, Natural, Positive, Section
from beyond_perplexity.planning.sections.corpora import Location
from beyond_perplexity.planning.sections.samples import Names
from beyond_perplexity.tendencies.options import (
    EmbeddingOptions,
    MeasurementOptions,
    SampleSizeOptions,
    SensitivityOptions,
)

SplitName = Annotated[str, Limit(enum=SPLITS)]
Temperatures = Annotated[tuple[Positive, ...], Limit(minItems=1, uniqueItems=True)]


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

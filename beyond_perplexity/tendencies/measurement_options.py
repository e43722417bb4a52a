"""How tendencies are measured: how many draws and ranks, which numbers of documents."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, Self

from beyond_perplexity import options
from beyond_perplexity.errors import InputError
from beyond_perplexity.options import Level, Limit, Natural
from beyond_perplexity.signature import sign

_Sample = Annotated[int, Limit(minimum=2)]


class _Given(options.Limited):
    """Options that are given as a JSON object."""

    section: ClassVar[str]

    @classmethod
    def from_config(cls, values: Mapping[str, object]) -> Self:
        """Read options from a JSON object; what it leaves out keeps its default."""
        return options.parse_options(cls, values, cls.section)


@dataclass(frozen=True)
class MeasurementOptions(_Given):
    """Options of `measures.measure_rows` and `curves.curves`.

    permutations: Permutations of the two-sample tests; 0 leaves their p-values out.
    bootstrap: Bootstrap replicates of the limits of distances; 0 leaves all intervals and limits
        out.
    monte_carlo: Draws of the one-sample tests against Zipf and Heaps; 0 leaves their p-values out.
    zipf_ranks: Ranks of the rank-frequency relation that are fitted and compared; null for all. The
        paper uses the first 10,000.
    confidence: Of an interval, and of each limit of a distance on its own.
    family: Whose tests the stars are adjusted for: ``sample-set`` for those of one sample set,
        ``corpus`` for those of all sample sets that are compared with the same corpus.
    """

    section: ClassVar[str] = "measurement"
    permutations: Natural = 1999
    bootstrap: Natural = 1000
    monte_carlo: Natural = 1000
    zipf_ranks: _Sample | None = 10_000
    confidence: Level = 0.95
    family: Literal["sample-set", "corpus"] = "sample-set"

    def signature(self, counted: Mapping[str, object], **parts: object) -> str:
        """Sign what is measured: `counted` as `statistics.description` says, and other parts."""
        own = {name: getattr(self, name) for name in ("permutations", "bootstrap", "confidence")}
        own |= {"zipf": self.zipf_ranks or "all", "holm": 1, "embedding": None, **parts}
        own |= {"stopwords": counted["stop_words"], "symbols": counted["count_s_symbols"]}
        tokens = f"{counted['minimum_tokens']}-{counted['maximum_tokens'] or 'all'}"
        return sign("tendencies", vocabulary=str(counted["vocabulary"])[:8], tokens=tokens, **own)

    @property
    def draws(self) -> bool:
        """Whether the documents themselves are permuted or resampled."""
        return bool(self.permutations or self.bootstrap)


@dataclass(frozen=True)
class SampleSizeOptions(_Given):
    """Options of `curves.sample_sizes`.

    sizes: Numbers of documents that are measured, as far as a sample set has more; null for 100,
        300, 1,000, 3,000 and so on.
    subsets: Random subsets of each size, over which the measures are averaged; 0 leaves only the
        measures of all documents.
    permutations: Permutations of each test of a subset; p < 0.005 needs at least 200.
    """

    section: ClassVar[str] = "sample_size"
    sizes: tuple[_Sample, ...] | None = None
    subsets: Annotated[int, Limit(minimum=0, maximum=options.MOST_DRAWS)] = 5
    permutations: Natural = 399


@dataclass(frozen=True)
class SensitivityOptions(_Given):
    """Options of `sensitivity.minimum_detectable_effects`.

    documents: Numbers of documents of each of the two samples.
    level: A shift is detected where p is below this.
    power: Share of the pairs of samples, drawn from one random half of the reference, in which the
        minimum detectable effect is detected; the power that it reaches in the other half is shown.
    pairs: Pairs of samples that are drawn to find the share for one shift; six times as many give
        the distribution under the null hypothesis.
    largest_population: Documents of the reference, chosen at random, whose halves samples are drawn
        from at most: memory and time grow with them, not with the corpus.
    """

    section: ClassVar[str] = "sensitivity"
    documents: tuple[_Sample, ...] = (1_000, 10_000, 100_000, 1_000_000)
    level: Level = 0.005
    power: Level = 0.8
    pairs: Annotated[int, Limit(minimum=10)] = 400
    largest_population: _Sample = 20_000


def check_inputs(given: Namespace, options: MeasurementOptions) -> None:
    """Refuse that `scripts.measure_tendencies` lacks what its outputs are made from."""
    documents = given.reference_documents and given.sample_documents
    if given.measures and not given.sample_statistics:
        raise InputError("--measures needs --sample-statistics; give it, or --curves alone")
    if given.sample_size and not (given.measures and documents):
        raise InputError("--sample-size needs --measures and the documents of both sides")
    if given.measures and options.draws and not documents:
        raise InputError("--measures needs --reference-documents and --sample-documents")


@dataclass(frozen=True)
class EmbeddingOptions(options.Section):
    """Options of the test in the space of an encoder.

    encoder: Name of the evaluator (section `evaluators`) whose vectors of texts are compared.
    documents: Documents of each text that are embedded, a random subset of them: time grows with
        their number, and the memory of the test with its square.
    """

    encoder: str
    documents: Annotated[int, Limit(minimum=20, maximum=4000)] = 500


@dataclass(frozen=True)
class JudgeOptions(options.Section):
    """Options of the comparison by bits per byte under a model.

    model: Name of the model that judges; its own samples are a control.
    documents: Documents of each text that are judged, a random subset of them.
    """

    model: str
    documents: Annotated[int, Limit(minimum=20)] = 1000

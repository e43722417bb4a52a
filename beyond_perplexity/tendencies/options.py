"""The options of the tendencies: how many draws and ranks, which lengths, which sample sizes."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, Self

from beyond_perplexity.errors import InputError
from beyond_perplexity.options import (
    MOST_DRAWS,
    Length,
    Level,
    Limit,
    Limited,
    Natural,
    Section,
    parse_options,
)

_Sample = Annotated[int, Limit(minimum=2)]


class _Given(Limited):
    """Options that are given as a JSON object."""

    section: ClassVar[str]

    @classmethod
    def from_config(cls, values: Mapping[str, object]) -> Self:
        """Read options from a JSON object; what it leaves out keeps its default.

        An unknown key, and a value that is not allowed, is an InputError.
        """
        return parse_options(cls, values, cls.section)


@dataclass(frozen=True)
class MeasurementOptions(_Given):
    """Options of `measures.measure_rows` and `curves.curves`.

    Attributes
    ----------
    permutations : int
        Permutations of the two-sample tests; 0 leaves their p-values out.
    bootstrap : int
        Bootstrap replicates of the limits of distances; 0 leaves all intervals and limits out.
    monte_carlo : int
        Draws of the one-sample tests against Zipf and Heaps; 0 leaves their p-values out.
    zipf_ranks : int or None
        Ranks of the rank-frequency relation that are fitted and compared; null for all. The paper
        uses the first 10,000.
    heaps_maximum_length : int
        Largest length of the type-token distances, which are taken at each exact length. The fits
        of Heaps' law use the documents of all lengths.
    confidence : float
        Of an interval, and of each limit of a distance on its own.
    family : str
        Whose tests the stars are adjusted for: ``body`` for those of one body of text, ``corpus``
        for those of all bodies that are compared with the same corpus.
    """

    section: ClassVar[str] = "measurement"
    permutations: Natural = 1999
    bootstrap: Natural = 1000
    monte_carlo: Natural = 1000
    zipf_ranks: _Sample | None = 10_000
    heaps_maximum_length: Length = 500
    confidence: Level = 0.95
    family: Literal["body", "corpus"] = "body"

    @property
    def draws(self) -> bool:
        """Whether the documents themselves are permuted or resampled."""
        return bool(self.permutations or self.bootstrap)


@dataclass(frozen=True)
class SampleSizeOptions(_Given):
    """Options of `sample_size.sample_sizes`.

    Attributes
    ----------
    sizes : tuple of int or None
        Numbers of documents that are measured, as far as a body of text has more; null for 100,
        300, 1,000, 3,000 and so on.
    subsets : int
        Random subsets of each size, over which the measures are averaged; 0 leaves only the
        measures of all documents.
    permutations : int
        Permutations of each test of a subset; p < 0.005 needs at least 200.
    """

    section: ClassVar[str] = "sample_size"
    sizes: tuple[_Sample, ...] | None = None
    subsets: Annotated[int, Limit(minimum=0, maximum=MOST_DRAWS)] = 5
    permutations: Natural = 399


@dataclass(frozen=True)
class SensitivityOptions(_Given):
    """Options of `sensitivity.smallest_shifts`.

    Attributes
    ----------
    documents : tuple of int
        Numbers of documents of each of the two samples.
    level : float
        A shift is detected where p is below this.
    power : float
        Share of the pairs of samples in which the smallest shift is detected.
    pairs : int
        Pairs of samples that are drawn to find the share for one shift; six times as many give the
        distribution under the null hypothesis.
    largest_population : int
        Documents of the reference, chosen at random, that samples for the tests of unigrams are
        drawn from at most: memory and time grow with them, not with the corpus.
    """

    section: ClassVar[str] = "sensitivity"
    documents: tuple[_Sample, ...] = (1_000, 10_000, 100_000, 1_000_000)
    level: Level = 0.005
    power: Level = 0.8
    pairs: Annotated[int, Limit(minimum=10)] = 400
    largest_population: _Sample = 20_000


def check_inputs(given: Namespace, options: MeasurementOptions) -> None:
    """Check that `scripts.measure_tendencies` got what its outputs are made from.

    Raises
    ------
    InputError
        When an input is missing.
    """
    documents = given.reference_documents and given.sample_documents
    if given.measures and not given.sample_statistics:
        raise InputError("--measures needs --sample-statistics; give it, or --curves alone")
    if given.sample_size and not (given.measures and documents):
        raise InputError("--sample-size needs --measures and the documents of both sides")
    if given.measures and options.draws and not documents:
        raise InputError("--measures needs --reference-documents and --sample-documents")


@dataclass(frozen=True)
class EmbeddingOptions(Section):
    """Options of the test in the space of an encoder.

    Attributes
    ----------
    encoder : str
        Name of the evaluator (section `evaluators`) whose vectors of texts are compared.
    documents : int
        Documents of each text that are embedded, a random subset of them: time grows with their
        number, and the memory of the test with its square.
    """

    encoder: str
    documents: Annotated[int, Limit(minimum=20, maximum=4000)] = 500

"""The options of the tendencies: how many draws, how many ranks, which lengths."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from beyond_perplexity.options import parse_options


@dataclass(frozen=True)
class Options:
    """Options of `measures.measure` and `curves.curves`.

    Attributes
    ----------
    permutations : int
        Permutations of the two-sample tests; 0 leaves their p-values out.
    bootstrap : int
        Bootstrap replicates of the intervals; 0 leaves the intervals out.
    monte_carlo : int
        Draws of the one-sample tests against Zipf and Heaps; 0 leaves their p-values out.
    zipf_ranks : int or None
        Ranks of the rank-frequency relation that are fitted and compared; null for all. The paper
        uses the first 10,000.
    heaps_maximum_length : int
        Largest length of the type-token distances, which are taken at each exact length. The fits
        of Heaps' law use the documents of all lengths.
    confidence : float
        Share of the bootstrap replicates inside an interval.
    """

    permutations: int = 1000
    bootstrap: int = 1000
    monte_carlo: int = 1000
    zipf_ranks: int | None = 10_000
    heaps_maximum_length: int = 500
    confidence: float = 0.95

    def __post_init__(self) -> None:
        least = {"permutations": 0, "bootstrap": 0, "monte_carlo": 0, "heaps_maximum_length": 1}
        for name, minimum in (*least.items(), ("zipf_ranks", 2)):
            value = getattr(self, name)
            if value is not None and value < minimum:
                raise ValueError(f"{name}: is {value}, expected at least {minimum}")
        if not 0 < self.confidence < 1:
            raise ValueError(f"confidence: is {self.confidence}, expected between 0 and 1")

    @classmethod
    def from_config(cls, values: Mapping[str, object]) -> Options:
        """Read options from a JSON object; what it leaves out keeps its default.

        Raises
        ------
        InputError
            When a key is unknown or a value not allowed.
        """
        return parse_options(cls, values, "measurement")

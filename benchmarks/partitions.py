"""How often the limits of the total variation over a partition hold the true distance."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

from benchmarks.coverages import INTERVALS, Shifted, opened_shifted, over_partition
from benchmarks.populations import Articles, Topics
from beyond_perplexity.tendencies.measures import measure_rows

TRUE_DISTANCES = (0.0, 0.05, 0.1, 0.25)
WIDTH = 0.6  # half of it on average


@dataclass(frozen=True)
class Partitioned:
    """The limits of the total variation over a partition, at a true distance, without lengths.

    They hold it, each on its own, and are at most `WIDTH` of those of the total variation apart.
    """

    kind: str
    true: float
    units: int
    grouped: tuple[bool, bool]
    population: Topics = field(default_factory=lambda: Topics(size=5.0), repr=False)
    nominal: str = "0.95"
    limits: tuple[float, float] = (0.93, 1.0)

    @property
    def name(self) -> str:
        """What is drawn, and the distance."""
        return f"partition, {self.kind}, truth {self.true:g}"

    @cached_property
    def shifted(self) -> Shifted:
        """The population of the samples: the distance is in proportion to what is swapped."""
        most = Shifted(self.population, 1.0, 1.0)
        return replace(most, permuted=self.true / over_partition(self.population.law, most.law))

    def __call__(self, repeat: int) -> dict[str, bool]:
        """Draw both sides and measure them."""
        given = self.name, self.shifted, self.units, self.grouped, repeat
        with opened_shifted(*given) as (pair, seed):
            rows = {row.key: row for row in measure_rows(pair, INTERVALS, seed)}
        own, full = (rows["unigram", name] for name in ("partitioned_tvd", "tvd"))
        return {
            "partitioned_tvd high": self.true <= own.high,
            "partitioned_tvd low": own.low <= self.true,
            f"at most {WIDTH:g} of the width": own.high - own.low <= WIDTH * (full.high - full.low),
        }


class PartitionCases:
    """The cases of the distances; `articles` is not used."""

    def __init__(self, articles: Articles | None) -> None:
        del articles

    def __iter__(self) -> Iterator[Partitioned]:
        for true in TRUE_DISTANCES:
            yield Partitioned("300 + 300 documents", true, 300, (False, False))
            yield Partitioned("60 + 60 groups", true, 60, (True, True))
            yield Partitioned("100 groups, documents", true, 100, (True, False))

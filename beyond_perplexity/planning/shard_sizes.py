"""Shard sizes for jobs of half an hour, from what small shards took."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

from beyond_perplexity.planning.run import Run
from beyond_perplexity.planning.timings import Timing

MINUTES = 30
# The key that says how large the shards of a rule are.
KEYS = {
    "generate": ("generation", "documents_per_shard"),
    "draw": ("importance", "instances_per_shard"),
    "score_contrast": ("contrastive", "sentences_per_shard"),
    "predict_words": ("semantics", "sentences_per_shard"),
    "score_semantics": ("semantics", "sentences_per_shard"),
}


class SizedKind(NamedTuple):
    """The jobs of one kind, with whole shards of the run.

    Attributes
    ----------
    kind : str
        See `timings.kind_of`.
    units : float
        Of a whole shard.
    timing : Timing
        What they take.
    """

    kind: str
    units: float
    timing: Timing

    @property
    def minutes(self) -> float:
        """Minutes of a whole shard."""
        return self.timing.total(self.units) / 60

    def for_minutes(self, minutes: float, per_shard: int) -> float:
        """Return how large a shard is, in what `per_shard` counts, that takes so many minutes."""
        each = self.timing.seconds * self.units / per_shard
        left = 60 * minutes - self.timing.start
        return max(1.0, left / each) if each > 0 else math.inf


def rounded(number: float) -> int:
    """Round a size to two digits."""
    digits = max(0, len(str(int(number))) - 2)
    return max(1, round(number / 10**digits) * 10**digits)


def describe_shards(run: Run, kinds: list[SizedKind]) -> list[str]:
    """Lay out, for every kind of jobs, its rate, its minutes, and the shard of half an hour.

    Parameters
    ----------
    run : Run
        The run.
    kinds : list of SizedKind
        All kinds of jobs that were measured, with their whole shards.

    Returns
    -------
    list of str
        Lines of text; the last ones are keys of a configuration.
    """
    width = max((len(held.kind) for held in kinds), default=0)
    lines = [f"  {'jobs':<{width}} {'s/unit':>10} {'MB':>6} {'min/shard':>10} {'for 30 min':>11}"]
    wanted: dict[tuple[str, str], list[float]] = defaultdict(list)
    for held in sorted(kinds):
        key = KEYS.get(held.kind.split("/")[0])
        size = ""
        if key:
            per_shard = run.config[key[0]][key[1]]
            found = held.for_minutes(MINUTES, per_shard)
            if math.isfinite(found):
                wanted[key].append(found)
                size = f"{rounded(found):,}"
        sign = "<" if held.timing.rough else ""
        rate = f"{sign}{held.timing.seconds:.2g}"
        columns = f"{rate:>10} {held.timing.megabytes:>6,.0f} {held.minutes:>10,.1f} {size:>11}"
        lines.append(f"  {held.kind:<{width}} {columns}")
    if any(held.timing.rough for held in kinds):
        lines.append("  <: too short to be measured, a bound; more --documents say more")
    lines.append(f"Shard sizes for jobs of {MINUTES} minutes (the median of their kinds; slowest):")
    for (section, name), sizes in sorted(wanted.items()):
        median, slowest = rounded(statistics.median(sizes)), rounded(min(sizes))
        now = run.config[section][name]
        lines.append(f"  {section}.{name}: {median:,}; {slowest:,}  (now {now:,})")
    return lines


def whole_shards(timings: Mapping[str, Timing], units: Mapping[str, float]) -> list[SizedKind]:
    """Join what jobs take with the units of their largest job in the run."""
    return [SizedKind(kind, units[kind], held) for kind, held in timings.items() if kind in units]

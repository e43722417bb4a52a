"""Memory and time that jobs ask for: functions of the model, of the shard and of the attempt.

What a job asks for is enough for most, and twice as much after every failure. Times are first
guesses, of one core or one GPU, until `planning.timings` knows better from jobs that ran.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from beyond_perplexity.planning.timings import Timing, kind_of
from beyond_perplexity.planning.work import Wildcards, Work

DAY = 1440
SHORTEST = 30  # minutes: less is no help to a scheduler, and a file system may be slow
TIME_MARGIN = 3  # of what a job is expected to take
_GPU_RATE = 5e12  # operations a second that small batches reach on a GPU
_ENDS = 100  # MB: requests that differ by less are of no use either


class Effort(NamedTuple):
    """What the jobs of a rule need.

    Attributes
    ----------
    megabytes : float
        Memory of a job without a model.
    bytes_per_weight : float
        Memory for each weight of the models that it runs.
    bytes_per_unit : float
        Memory for each unit of `work.Work`.
    start : float
        Seconds before its first unit is done.
    seconds : float
        Of a unit under the smallest model.
    operations : float
        For each weight of the models, of a unit.
    longest : int
        Minutes that are asked for at first, at most: a training goes on where it was.
    """

    megabytes: float
    bytes_per_weight: float = 0
    bytes_per_unit: float = 0
    start: float = 10
    seconds: float = 0
    operations: float = 0
    longest: int = 2 * DAY


# In training weights, gradients, two moments, and a copy of these three while a checkpoint is
# written; a model is read in 32 bits and held in 16 or 32.
NEEDS = {
    "train": Effort(3000, 28, start=30, seconds=2e-5, operations=6, longest=DAY),
    "measure_perplexity": Effort(3000, 10, start=20, seconds=5e-5, operations=2),
    "generate": Effort(2000, 10, start=20, seconds=0.02, operations=2 * 200),
    "draw": Effort(3000, 10, start=20, seconds=0.005, operations=2 * 200),
    "score_beside": Effort(2000, 10),
    "describe_latents": Effort(2000, 10),
    "score_contrast": Effort(3000, 10, start=20, seconds=0.003, operations=2 * 30),
    "score_pairs": Effort(3000, 10),
    "estimate_partition": Effort(3000, 10),
    "predict_words": Effort(3000, 10, start=20, seconds=0.01, operations=2 * 30),
    "score_semantics": Effort(3000, start=20, seconds=0.03),
    "count_samples": Effort(2000, start=3, seconds=2e-4),
    "measure_tendencies": Effort(2500, bytes_per_unit=1500, start=10, seconds=1e-3),
    "reduce_weights": Effort(1500, bytes_per_unit=100, seconds=1e-5),
    "extract_corpus": Effort(2000, start=20, seconds=1.5e-5),
}
_COUNTED_BYTES = 40  # of memory for each token of a corpus whose n-grams are counted
_MOST_COUNTED = 64_000  # MB that they ask for at first


class JobSizes:
    """What the jobs of a run ask for.

    Parameters
    ----------
    work : Work
        How much work they are.
    planned : mapping of str to Timing, optional
        What `commands.plan` has measured; the rest is guessed.
    """

    def __init__(self, work: Work, planned: Mapping[str, Timing] | None = None) -> None:
        self.work = work
        self.planned = planned or {}

    def megabytes(self, rule: str, wildcards: Wildcards, attempt: int = 1) -> int:
        """Return the memory that a job asks for, doubled with every attempt.

        Parameters
        ----------
        rule : str
            A key of `NEEDS`.
        wildcards : mapping of str to str
            Those of the job.
        attempt : int
            1 at first.
        """
        need, work = NEEDS[rule], self.work
        weights = work.weights(wildcards) if need.bytes_per_weight else 0
        model = need.bytes_per_weight * weights
        if need.bytes_per_weight:
            model += 2 * work.counted_bytes(wildcards)
        units = need.bytes_per_unit * work.units(rule, wildcards) if need.bytes_per_unit else 0
        found = need.megabytes + (model + units) / 1e6
        if rule == "train" and not weights:
            counts = _COUNTED_BYTES * work.units(rule, wildcards) / 1e6
            found = min(found + counts, max(found, _MOST_COUNTED))
        return math.ceil(found / _ENDS) * _ENDS * 2 ** (attempt - 1)

    def seconds(self, rule: str, wildcards: Wildcards) -> float:
        """Return how long a job takes, as was measured, or guessed by the weights of its models."""
        if measured := self.planned.get(kind_of(rule, wildcards)):
            return measured.total(self.work.units(rule, wildcards))
        need = NEEDS[rule]
        each = need.seconds + need.operations * self.work.weights(wildcards) / _GPU_RATE
        return need.start + each * self.work.units(rule, wildcards)

    def minutes(self, rule: str, wildcards: Wildcards, attempt: int = 1) -> int:
        """Return the run time that a job asks for, doubled with every attempt; see `megabytes`."""
        expected = TIME_MARGIN * self.seconds(rule, wildcards) / 60
        first = min(max(SHORTEST, math.ceil(expected / 10) * 10), NEEDS[rule].longest)
        return first * 2 ** (attempt - 1)

"""What is known of one measure of one tendency: a row of the table, and what rows are keyed by."""

from __future__ import annotations

import math
from typing import NamedTuple

from beyond_perplexity.inference.halves import Floor

MeasureKey = tuple[str, str]  # tendency, measure
LAWS = ("ks_zipf", "ks_heaps")  # distances to a fitted law: they test the law, not the samples
DISTANCES = ("ks", "tvd", "max_difference", "mmd")
SIGNED = "mean_difference"


def compares_texts(measure: str) -> bool:
    """Say whether a measure compares two texts, so that equal texts give 0 and p = 1."""
    return measure == SIGNED or is_distance(measure)


def is_distance(measure: str) -> bool:
    """Say whether a measure is a distance between two texts, none to a law."""
    return measure.startswith(DISTANCES) and not measure.startswith(LAWS)


class MeasureRow(NamedTuple):
    """One measure of one tendency; NaN where a number is not defined; see `measures`."""

    tendency: str
    measure: str
    value: float
    low: float = math.nan
    high: float = math.nan
    p_value: float = math.nan
    p_adjusted: float = math.nan
    floor: float = math.nan
    excess: float = math.nan
    note: str = ""
    p_value_law: float = math.nan
    floor_low: float = math.nan
    floor_high: float = math.nan
    withheld: bool = False  # no test of this measure gives a verdict; the note says why
    value_all: float = math.nan  # of all documents, where `value` is at the floor's size

    @property
    def key(self) -> MeasureKey:
        """Tendency and measure."""
        return self.tendency, self.measure

    def above(self, floor: Floor) -> MeasureRow:
        """Put a floor beside a distance, which is taken at its size: value - floor = excess."""
        row = self._replace(floor=floor.mean, floor_low=floor.low, floor_high=floor.high)
        if floor.excess is None:
            return row._replace(excess=self.value - floor.mean)
        value = floor.mean + floor.excess
        return row._replace(value=value, value_all=self.value, excess=floor.excess)

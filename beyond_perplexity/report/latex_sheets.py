"""The sheets that tables are fitted to, and the sizes of letters that they may have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

CERTAIN = 1.04  # times the estimated width


@dataclass(frozen=True)
class LetterSize:
    """A size of letters: points of an em at 10 points' proportions, and of a line."""

    points: float
    proportion: float
    line: float

    @property
    def em(self) -> float:
        """Points of an em as `latex_width` counts it."""
        return self.points * self.proportion * CERTAIN


class PaperSheet(NamedTuple):
    """What a page has room for, points."""

    width: float
    height: float


UPRIGHT = PaperSheet(345.0, 541.0)  # as wide as at 10 points, as high as at 11
TURNED = PaperSheet(UPRIGHT.height, UPRIGHT.width)
LETTER_SIZES = (LetterSize(9, 1.028, 11), LetterSize(8, 1.0625, 9.5), LetterSize(7, 1.15, 8.5))
NOTE_LETTERS = LETTER_SIZES[1]

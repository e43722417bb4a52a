"""What a check finds, and what is said of it."""

from __future__ import annotations

import math
from typing import NamedTuple


class Evidence(NamedTuple):
    """What a check measured.

    Attributes
    ----------
    worst : float
        The largest deviation, in the unit that the check's row names; NaN: a number was none.
    places : int
        How many things were compared.
    detail : str
        Where the worst was, and what stood there.
    """

    worst: float
    places: int
    detail: str


class Finding(NamedTuple):
    """What is said of a check.

    Attributes
    ----------
    check : str
        Its name.
    sound : bool
        The deviation is within the tolerance.
    worst, tolerance : float
        In the unit of the check.
    places : int
        How many things were compared; 0: the check has nothing to look at here.
    detail : str
        Where the worst was.
    explanation : str
        What is promised, and what usually breaks it.
    because : str
        Another alarm that explains this one; empty: none does.
    """

    check: str
    sound: bool
    worst: float
    tolerance: float
    places: int
    detail: str
    explanation: str
    because: str = ""


def is_within(worst: float, tolerance: float) -> bool:
    """Say whether a deviation is within its tolerance; what is no number is not."""
    return not math.isnan(worst) and worst <= tolerance

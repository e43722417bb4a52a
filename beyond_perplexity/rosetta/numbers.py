"""A number of a program, in the words that tell it from others."""

from __future__ import annotations

from typing import NamedTuple


class PrintedNumber(NamedTuple):
    """One number that a program would print.

    Attributes
    ----------
    program : str
        Its key in `rows.PROGRAMS`.
    name : str
        As the program calls it.
    value : float
        NaN where the program would refuse the text.
    predictions : int
        How many tokens it scores.
    definition : str
        What makes it differ from others.
    """

    program: str
    name: str
    value: float
    predictions: int
    definition: str

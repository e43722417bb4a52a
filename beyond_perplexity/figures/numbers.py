"""How numbers are shown to a reader: rounding and stars of significance."""

from __future__ import annotations

import math

import pandas as pd

STAR_LEVELS = ((0.005, "**"), (0.05, "*"))
STAR_NOTE = "** p < 0.005, * p < 0.05"
MINUS = "\N{MINUS SIGN}"


def stars(p_value: float | None) -> str:
    """Return the stars of a p-value: ``**`` below 0.005, ``*`` below 0.05, else none."""
    if p_value is None or math.isnan(p_value):
        return ""
    return next((mark for level, mark in STAR_LEVELS if p_value < level), "")


def shown(value: object, digits: int = 3) -> str:
    """Round a number for a reader.

    Parameters
    ----------
    value : object
        A number; None and NaN give an empty string, and a text stays as it is.
    digits : int
        Decimals of a number below 100.

    Returns
    -------
    str
        Integers from 1,000 with separators; numbers from 100 with one decimal, others with `digits`
        decimals; below ``10**-digits`` in scientific notation. A real minus sign.
    """
    if isinstance(value, str):
        return value
    if value is None or pd.isna(value):  # type: ignore[call-overload]
        return ""
    number = float(value)  # type: ignore[arg-type]
    if math.isinf(number):
        return ("" if number > 0 else MINUS) + "∞"
    return _digits(number, digits).replace("-", MINUS)


def _digits(number: float, digits: int) -> str:
    size = abs(number)
    if number == int(number) and (size >= 100 or size == 0):
        return f"{int(number):,}"
    if size >= 100:
        return f"{number:,.1f}"
    if size < 10**-digits:
        return f"{number:.1e}".replace("e-0", "e-")
    return f"{number:.{digits}f}"


def shown_interval(low: float | None, high: float | None) -> str:
    """Write an interval as ``[low, high]``; an empty string when a bound is missing."""
    if low is None or high is None or pd.isna(low) or pd.isna(high):
        return ""
    return f"[{shown(low)}, {shown(high)}]"


def shown_p(p_value: float | None) -> str:
    """Write a p-value with three decimals, small ones as ``< 0.001``."""
    if p_value is None or pd.isna(p_value):
        return ""
    return "< 0.001" if p_value < 0.001 else f"{p_value:.3f}"

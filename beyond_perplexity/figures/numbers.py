"""How numbers are shown to a reader: rounding, limits, shares, and stars of significance."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import pandas as pd

STAR_LEVELS = ((0.005, "**"), (0.05, "*"))
STAR_NOTE = "** adjusted p < 0.005, * adjusted p < 0.05"
MINUS = "\N{MINUS SIGN}"


def stars(p_value: float | None) -> str:
    """Return the stars of an adjusted p-value: ``**`` below 0.005, ``*`` below 0.05, else none."""
    if p_value is None or math.isnan(p_value):
        return ""
    return next((mark for level, mark in STAR_LEVELS if p_value < level), "")


def shown(value: object, digits: int = 3) -> str:
    """Round a number for a reader; None and NaN give nothing, a text stays as it is.

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


def shown_signed(value: float | None, digits: int = 3) -> str:
    """Write a number with its sign and a fixed number of decimals, so that a column is level."""
    if value is None or pd.isna(value):
        return ""
    rounded = round(value, digits) + 0.0  # no negative zero
    return f"{rounded:+.{digits}f}".replace("-", MINUS) if rounded else f"{0:.{digits}f}"


def _digits(number: float, digits: int) -> str:
    size = abs(number)
    if number == int(number) and (size >= 100 or size == 0):
        return f"{int(number):,}"
    if size >= 100:
        return f"{number:,.1f}"
    if size < 10**-digits:
        return f"{number:.1e}".replace("e-0", "e-")
    return f"{number:.{digits}f}"


def shown_interval(low: float | None, high: float | None, digits: int = 3) -> str:
    """Write limits: ``[low, high]``, of one alone ``≥ low`` or ``≤ high``, of none nothing."""
    bounds = shown(low, digits), shown(high, digits)
    if all(bounds):
        return f"[{bounds[0]}, {bounds[1]}]"
    return f"≥ {bounds[0]}" if bounds[0] else f"≤ {bounds[1]}" if bounds[1] else ""


def shown_range(values: Iterable[float], write: Callable[[float], str] = shown) -> str:
    """Write the least and the most of numbers without NaN, or what all are shown as."""
    held = [value for value in values if not pd.isna(value)]
    return "–".join(dict.fromkeys(write(pick(held)) for pick in (min, max))) if held else ""


def shown_share(share: float | None) -> str:
    """Write a share in percent, a positive one below 0.1% as that."""
    if share is None or pd.isna(share):
        return ""
    return "< 0.1%" if 0 < share < 0.0005 else f"{100 * share:.1f}%"


def shown_p(p_value: float | None) -> str:
    """Write a p-value with three decimals, small ones as ``< 0.001``."""
    if p_value is None or pd.isna(p_value):
        return ""
    return "< 0.001" if p_value < 0.001 else f"{p_value:.3f}"

"""The numbers of all programs, in the order of their table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pkgutil import resolve_name

from beyond_perplexity.rosetta.numbers import PrintedNumber
from beyond_perplexity.rosetta.rows import PROGRAMS
from beyond_perplexity.rosetta.speech import Speech


def translate(speech: Speech, programs: Sequence[str] | None = None) -> list[PrintedNumber]:
    """Return the numbers that other programs would print.

    Parameters
    ----------
    speech : Speech
        Model and text.
    programs : sequence of str, optional
        Of `PROGRAMS`; None: all.
    """
    wanted = [row for name, row in PROGRAMS.items() if programs is None or name in programs]
    numbers: list[PrintedNumber] = []
    for row in wanted:
        function: Callable[[Speech], list[PrintedNumber]] = resolve_name(row.reference)
        numbers += function(speech)
    return numbers

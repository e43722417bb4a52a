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

    Returns
    -------
    list of PrintedNumber
        A definition also names special tokens that the text says, where the program reads them as
        tokens: ours does not.
    """
    wanted = [row for name, row in PROGRAMS.items() if programs is None or name in programs]
    numbers: list[PrintedNumber] = []
    for row in wanted:
        function: Callable[[Speech], list[PrintedNumber]] = resolve_name(row.reference)
        cause = ""
        if speech.said and row.reads_special:
            cause = f"; the text says {speech.said}: a token to this program, characters to ours"
        numbers += [one._replace(definition=one.definition + cause) for one in function(speech)]
    return numbers

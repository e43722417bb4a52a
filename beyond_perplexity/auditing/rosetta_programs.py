"""What other programs would print for the same model and text: their table, and a number of one.

A new program is a function of a `rosetta.Speech`, and a row here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from pkgutil import resolve_name
from typing import TYPE_CHECKING, NamedTuple

from beyond_perplexity import __version__

if TYPE_CHECKING:
    from beyond_perplexity.auditing.rosetta import Speech

_HOME = "beyond_perplexity.auditing.rosetta"


class Program(NamedTuple):
    """What is known of a program.

    Attributes
    ----------
    reference : str
        ``module:function`` that gives its numbers.
    version : str
        The version that the numbers were compared with.
    reads_special : bool
        Special tokens that a text says are those tokens to it, not characters.
    """

    reference: str
    version: str
    reads_special: bool = False


class PrintedNumber(NamedTuple):
    """One number that a program of `PROGRAMS` would print, and what makes it differ from others.

    `value` is NaN where the program would refuse the text; `predictions` tells how many tokens it
    scores.
    """

    program: str
    name: str
    value: float
    predictions: int
    definition: str


PROGRAMS = {
    "beyond-perplexity": Program(f"{_HOME}:translate_own", __version__),
    "lm-evaluation-harness": Program(f"{_HOME}:translate_rolling", "0.4.13", reads_special=True),
    "stride recipe": Program(f"{_HOME}:translate_stride", "transformers 5.23", reads_special=True),
    "evaluate": Program(f"{_HOME}:translate_metric", "0.4.6", reads_special=True),
    "llama.cpp": Program(f"{_HOME}:translate_chunks", "b11549"),
    "KenLM": Program(f"{_HOME}:translate_query", "0.3.0"),
}


def describe_numbers(numbers: Sequence[PrintedNumber]) -> Iterator[str]:
    """Yield the lines of the numbers of programs."""
    for one in numbers:
        value = "none" if math.isnan(one.value) else f"{one.value:.6g}"
        yield f"{one.program}: {one.name} {value} ({one.predictions:,} predictions)"
        yield f"{'':6}{one.definition}"


def translate(speech: Speech, programs: Sequence[str] | None = None) -> list[PrintedNumber]:
    """Return the numbers that the programs, or some of them, would print.

    A definition also names special tokens that the text says, where the program reads them as
    tokens: ours does not.
    """
    numbers: list[PrintedNumber] = []
    for name, row in PROGRAMS.items():
        if programs is not None and name not in programs:
            continue
        function: Callable[[Speech], list[PrintedNumber]] = resolve_name(row.reference)
        cause = ""
        if speech.said and row.reads_special:
            cause = f"; the text says {speech.said}: a token to this program, characters to ours"
        numbers += [one._replace(definition=one.definition + cause) for one in function(speech)]
    return numbers

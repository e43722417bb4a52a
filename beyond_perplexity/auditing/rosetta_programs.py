"""What other programs would print for the same model and text: their table, and a number of one.

A new program is a function of a `rosetta_speech.Speech`, and a row here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from beyond_perplexity import __version__

_HOME = "beyond_perplexity.auditing"


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
    "beyond-perplexity": Program(f"{_HOME}.rosetta_speech:translate_own", __version__),
    "lm-evaluation-harness": Program(
        f"{_HOME}.lm_evaluation_harness:translate_rolling", "0.4.13", reads_special=True
    ),
    "stride recipe": Program(
        f"{_HOME}.rosetta_hugging_face:translate_stride", "transformers 5.23", reads_special=True
    ),
    "evaluate": Program(
        f"{_HOME}.rosetta_hugging_face:translate_metric", "0.4.6", reads_special=True
    ),
    "llama.cpp": Program(f"{_HOME}.rosetta_command_lines:translate_chunks", "b11549"),
    "KenLM": Program(f"{_HOME}.rosetta_command_lines:translate_query", "0.3.0"),
}


def describe_numbers(numbers: Sequence[PrintedNumber]) -> Iterator[str]:
    """Yield the lines of the numbers of programs."""
    for one in numbers:
        value = "none" if math.isnan(one.value) else f"{one.value:.6g}"
        yield f"{one.program}: {one.name} {value} ({one.predictions:,} predictions)"
        yield f"{'':6}{one.definition}"

"""The table of programs: a new one is a function of a `speech.Speech`, and a row here."""

from __future__ import annotations

from collections.abc import Sequence
from pkgutil import resolve_name
from typing import NamedTuple

from beyond_perplexity import __version__
from beyond_perplexity.rosetta.speech import PrintedNumber, Speech, Translate


class Program(NamedTuple):
    """What is known of a program.

    Attributes
    ----------
    reference : str
        ``module:function`` that gives its numbers.
    version : str
        The version that the numbers were compared with.
    """

    reference: str
    version: str


_HOME = "beyond_perplexity.rosetta"

PROGRAMS = {
    "beyond-perplexity": Program(f"{_HOME}.own_numbers:translate_own", __version__),
    "lm-evaluation-harness": Program(f"{_HOME}.lm_evaluation_harness:translate_rolling", "0.4.13"),
    "stride recipe": Program(f"{_HOME}.stride_recipe:translate_stride", "transformers 5.23"),
    "evaluate": Program(f"{_HOME}.evaluate_metric:translate_metric", "0.4.6"),
    "llama.cpp": Program(f"{_HOME}.llama_cpp:translate_chunks", "b11434"),
    "KenLM": Program(f"{_HOME}.kenlm_query:translate_query", "0.3.0"),
}


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
        function: Translate = resolve_name(row.reference)
        numbers += function(speech)
    return numbers

"""The table of programs: a new one is a function of a `speech.Speech`, and a row here."""

from __future__ import annotations

from typing import NamedTuple

from beyond_perplexity import __version__


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


_HOME = "beyond_perplexity.rosetta"

PROGRAMS = {
    "beyond-perplexity": Program(f"{_HOME}.own_numbers:translate_own", __version__),
    "lm-evaluation-harness": Program(
        f"{_HOME}.lm_evaluation_harness:translate_rolling", "0.4.13", reads_special=True
    ),
    "stride recipe": Program(
        f"{_HOME}.stride_recipe:translate_stride", "transformers 5.23", reads_special=True
    ),
    "evaluate": Program(f"{_HOME}.evaluate_metric:translate_metric", "0.4.6", reads_special=True),
    "llama.cpp": Program(f"{_HOME}.llama_cpp:translate_chunks", "b11549"),
    "KenLM": Program(f"{_HOME}.kenlm_query:translate_query", "0.3.0"),
}

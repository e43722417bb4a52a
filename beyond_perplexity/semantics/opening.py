"""How a command opens an evaluator: that of words, or one of the run."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from beyond_perplexity.options import parse_options
from beyond_perplexity.schemas.semantics import WORDS_EVALUATOR
from beyond_perplexity.semantics.evaluators.contract import Evaluator, load_evaluator
from beyond_perplexity.semantics.measure_options import MeasureOptions
from beyond_perplexity.semantics.words import WordEvaluator


def open_evaluator(
    name: str, options: Mapping[str, Any], measures: Mapping[str, Any], device: str
) -> Evaluator:
    """Return the evaluator of words, or load another."""
    parse_options(MeasureOptions, measures, "measures")
    if name == WORDS_EVALUATOR:
        return WordEvaluator()
    return load_evaluator(options, measures, device)


def set_threads(threads: int) -> None:
    """Let torch use so many threads, where an evaluator has imported it."""
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(threads)

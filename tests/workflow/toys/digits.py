"""The share of numbers: tokens of digits alone."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beyond_perplexity.tendencies.word_classes import ClassOptions, ClassTest


def _mask(types: pa.Array) -> np.ndarray:
    return np.asarray(pc.match_substring_regex(types, r"\A\d+\z"))


def digit_test(options: ClassOptions) -> ClassTest:
    """Return the test for numbers."""
    return _mask

"""Curves that the paper puts similarities through. Elementwise, any shape, float64."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from beyond_perplexity.semantics.measure_options import MeasureOptions

_Floats = NDArray[np.float64]


def logistic(values: ArrayLike) -> _Floats:
    """Return σ(x) = 1 / (1 + exp(−x)), without overflow."""
    held = np.asarray(values, np.float64)
    small = np.exp(-np.abs(held))
    found: _Floats = np.where(held >= 0, 1.0, small) / (1.0 + small)
    return found


def scaled_cosine(cosines: ArrayLike, temperature: float, bias: float) -> _Floats:
    """Return 1 / (1 + exp(−s/τ + b)) of mean cosines s (002, equation 13)."""
    return logistic(np.asarray(cosines, np.float64) / temperature - bias)


def exponential_scaling(values: ArrayLike) -> _Floats:
    """Return 1 − (1 − s)·2^s of similarities s from 0 to 1 (002, equation 12).

    It grows with s, leaves 0 and 1 where they are and lies below s between them. The equation lost
    its form in print; the second of its two forms decides between readings.
    """
    held = np.asarray(values, np.float64)
    found: _Floats = 1.0 - (1.0 - held) * np.exp2(held)
    return found


def movers_similarity(distances: ArrayLike, options: MeasureOptions) -> _Floats:
    """Turn Word Mover's Distances of vectors of length 1 (0 to 2) into similarities (1 to 0).

    The paper does not say how it does. ``linear``: 1 − d/2; ``exponential``: exp(−d), 0.14 at
    least.
    """
    held = np.asarray(distances, np.float64)
    found: _Floats = np.exp(-held) if options.movers == "exponential" else 1.0 - held / 2.0
    return found

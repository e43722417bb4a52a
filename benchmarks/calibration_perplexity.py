"""Levels, coverages and power of the intervals and paired tests of perplexity, by simulation.

Run ``python -m benchmarks.calibration_perplexity`` (a minute). Documents come in pages. Of two
models the bits per byte of a page have a part in common (its topic), and each its own; the second
model's true bits per byte are `difference` less. Shown are the shares of repeats in which

- the sign-flip test rejects at .05 where the difference is 0 (`level`; 1 - level is the coverage of
  the interval that inverts the test, which the jackknife's was chosen over: it covers as much, and
  is one definition with a model's own interval);
- the 95% interval of the difference holds the true one (`coverage`), and that of a model's own bits
  per byte the true one of all pages (`own`);
- a true difference of the size that `smallest_found` promises is found (`promised`, about .80);
- the sign-flip test, and an unpaired test of the same scores, find a small difference.
"""

from __future__ import annotations

import argparse
from collections import Counter
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri, stdtr

from beyond_perplexity.inference.intervals import ratio_interval
from beyond_perplexity.inference.p_values import sign_flip_p_values
from beyond_perplexity.perplexities.paired import smallest_found

LEVEL = 0.05
FLIPS = 999
BITS = 1.5  # per byte
TOPIC, NOISE = 0.15, 0.02  # deviations between pages, bits per byte
SHAPES = ("normal", "laplace", "exponential")
SIZES = ("equal", "unequal")
UNEQUAL = {26: 0.45, 60: 0.8}  # deviations of the logarithm of the sizes


class Setting(NamedTuple):
    """How pages are drawn: their number, their sizes, the shape of their differences."""

    groups: int
    sizes: str
    shape: str


def _standard(random: np.random.Generator, shape: str, count: int) -> np.ndarray:
    """Draw numbers of mean 0 and deviation 1."""
    if shape == "normal":
        return random.normal(size=count)
    if shape == "laplace":
        return random.laplace(scale=np.sqrt(0.5), size=count)
    return random.exponential(size=count) - 1


def draw_pages(
    random: np.random.Generator, setting: Setting, difference: float
) -> tuple[np.ndarray, np.ndarray]:
    """Draw pages: bytes (G,), and bits (G, 2) of each under both models.

    Bytes are 4,000, or quantiles of a log-normal law, so that 22 of 26 and 34 of 60 groups are
    effective (with fewer than 20 there would be no interval).
    """
    groups = setting.groups
    sizes = np.full(groups, 4000.0)
    if setting.sizes == "unequal":
        quantiles = ndtri((np.arange(groups) + 0.5) / groups)
        sizes = np.ceil(np.exp(8 + UNEQUAL[groups] * quantiles))
    topic = BITS + TOPIC * random.normal(size=groups)
    second = topic - difference + NOISE * _standard(random, setting.shape, groups)
    return sizes, sizes[:, None] * np.stack([topic, second], 1)


def _unpaired(sizes: np.ndarray, bits: np.ndarray) -> float:
    """Test the same scores as if they were of two different sets of pages (Welch)."""
    one, two = (ratio_interval(bits[:, model], sizes) for model in (0, 1))
    variances = np.square([one.standard_error, two.standard_error])
    freedom = variances.sum() ** 2 / np.sum(
        np.square(variances) / np.subtract([one.effective, two.effective], 1)
    )
    t = (one.value - two.value) / np.sqrt(variances.sum())
    return float(2 * stdtr(freedom, -abs(t)))


def _paired(sizes: np.ndarray, bits: np.ndarray, seed: int) -> float:
    (p_value,) = sign_flip_p_values(bits, [(0, 1)], FLIPS, seed)
    return p_value


def _promise(setting: Setting) -> float:
    """Return the difference that such pages promise to find: the median over 200 draws."""
    found = []
    for repeat in range(200):
        sizes, bits = draw_pages(np.random.default_rng([7, setting.groups, repeat]), setting, 0)
        found.append(smallest_found(ratio_interval(bits[:, 0] - bits[:, 1], sizes)))
    return float(np.median(found))


def calibrate(setting: Setting, repeats: int, seed: int = 0) -> dict[str, float]:
    """Simulate a setting: ``level``, ``coverage``, ``own``, ``promised``, and two powers.

    ``paired`` and ``unpaired`` are of a difference of half the promised size.
    """
    promised = _promise(setting)
    found: Counter[str] = Counter()
    for repeat in range(repeats):
        random = np.random.default_rng([seed, setting.groups, repeat])
        sizes, bits = draw_pages(random, setting, 0)
        found["level"] += _paired(sizes, bits, repeat) <= LEVEL
        shift = sizes * promised
        moved = ratio_interval(bits[:, 0] - bits[:, 1] + shift, sizes)
        found["coverage"] += moved.low <= promised <= moved.high
        own = ratio_interval(bits[:, 0], sizes)
        found["own"] += own.low <= BITS <= own.high
        larger = np.stack([bits[:, 0] + shift, bits[:, 1]], 1)
        found["promised"] += _paired(sizes, larger, repeat) <= LEVEL
        nearly = np.stack([bits[:, 0] + shift / 2, bits[:, 1]], 1)
        found["paired"] += _paired(sizes, nearly, repeat) <= LEVEL
        found["unpaired"] += _unpaired(sizes, nearly) <= LEVEL
    return {name: times / repeats for name, times in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=1000, help="of each setting (default 1000)")
    given = parser.parse_args()
    names = ("level", "coverage", "own", "promised", "paired", "unpaired")
    print(f"{'groups':>6} {'sizes':8} {'differences':12}" + "".join(f"{n:>10}" for n in names))
    for groups in (26, 60):
        for sizes in SIZES:
            for shape in SHAPES:
                found = calibrate(Setting(groups, sizes, shape), given.repeats)
                cells = "".join(f"{found[name]:10.3f}" for name in names)
                print(f"{groups:6} {sizes:8} {shape:12}{cells}", flush=True)


if __name__ == "__main__":
    main()

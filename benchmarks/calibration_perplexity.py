"""Levels, coverages and power of the intervals and paired tests of perplexity, by simulation.

Run ``python -m benchmarks.calibration_perplexity`` (ten minutes). Documents come in pages. Of two
models the bits per byte of a page have a part in common (its topic), and each its own; the second
model's true bits per byte are `difference` less. Where `slope` is not 0, both bits per byte and the
difference of the models depend on the size of a page, whose ratio of sums is still the true one.
Shown are the shares of repeats in which

- the test rejects at .05 where the difference is 0 (`level`; its interval holds 0 in all others),
  and the jackknife's interval by effective groups alone leaves 0 out (`plain`);
- the 95% interval of the difference holds the true one (`coverage`), and that of a model's own bits
  per byte the true one of all pages (`own`; `by document`: the one that takes no note of pages);
- a true difference that `minimum_detectable` prints of other such pages, of either sign, is
  found (`promised`: within .05 of the power that is printed with it, on average);
- the test, and an unpaired one of the same scores, find a difference of 1.5 standard errors
  (`paired`, `unpaired`).

Those that have limits are held to them by `calibration.Rate`; the exit status is 1 where one fails.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri, stdtr

from benchmarks.calibration import Rate, exit_status
from beyond_perplexity.inference.intervals import ratio_interval, ratio_test
from beyond_perplexity.perplexities.paired import minimum_detectable

LEVEL = 0.05
REPEATS = 10_000
BITS = 1.5  # per byte
TOPIC, NOISE = 0.15, 0.02  # deviations between pages, bits per byte
DOCUMENTS = 8  # of a page, with the deviation of topics
SHAPES = ("normal", "laplace", "exponential")
UNEQUAL = {26: 0.45, 60: 0.8}  # deviations of the logarithm of sizes that are fixed
DRAWN = {40: 0.5, 100: 0.93, 300: 1.0}  # of sizes that are drawn: 32, 42 and 110 are effective
# Nominal rate, and those that are allowed; level over all settings.
GOALS = {
    "level": (0.05, (0.0, 0.075)),
    "coverage": (0.95, (0.93, 1.0)),
    "own": (0.95, (0.93, 1.0)),
}
OVER_ALL = (0.0, 0.06)
POWER_ERROR = 0.05
DRAWS = 601  # of pages whose differences are printed: odd, so that each is tried in either sign


class Setting(NamedTuple):
    """How pages are drawn: their number, their sizes, the shape of their differences.

    `slope` is by how many deviations a page whose logarithm of size is one higher differs.
    """

    groups: int
    sizes: str  # equal, fixed, drawn
    shape: str
    slope: float = 0.0

    def __str__(self) -> str:
        slope = f", slope {self.slope:g}" if self.slope else ""
        return f"{self.groups} pages, {self.sizes} sizes, {self.shape}{slope}"


SETTINGS = [
    *(
        Setting(n, sizes, shape)
        for n in UNEQUAL
        for sizes in ("equal", "fixed")
        for shape in SHAPES
    ),
    *(
        Setting(n, "drawn", shape, slope)
        for n in DRAWN
        for shape in ("normal", "exponential")
        for slope in (0.0, 1.0, -1.0, 3.0)
    ),
]


class Pages(NamedTuple):
    """What was drawn: bytes of pages (G,), bits of pages (G, 2), bits of documents of the first."""

    sizes: np.ndarray
    bits: np.ndarray
    documents: np.ndarray  # (G, DOCUMENTS), of equal bytes


def _standard(random: np.random.Generator, shape: str, count: int) -> np.ndarray:
    """Draw numbers of mean 0 and deviation 1."""
    if shape == "normal":
        return random.normal(size=count)
    if shape == "laplace":
        return random.laplace(scale=np.sqrt(0.5), size=count)
    return random.exponential(size=count) - 1


def draw_pages(random: np.random.Generator, setting: Setting) -> Pages:
    """Draw pages on which two models are as good.

    Bytes are 4,000, or log-normal: quantiles of that law, so that 22 of 26 and 34 of 60 groups are
    effective, or drawn from it. Then log size less its mean, s, is drawn too, and since E[b (s -
    v)] = 0 for bytes b and the variance v of s, what is added per byte leaves the ratio as it is.
    """
    groups, sizes, tilt = setting.groups, np.full(setting.groups, 4000.0), np.zeros(setting.groups)
    if setting.sizes == "fixed":
        quantiles = ndtri((np.arange(groups) + 0.5) / groups)
        sizes = np.ceil(np.exp(8 + UNEQUAL[groups] * quantiles))
    elif setting.sizes == "drawn":
        logarithms = DRAWN[groups] * random.normal(size=groups)
        sizes, tilt = np.exp(8 + logarithms), logarithms - DRAWN[groups] ** 2
    topic = BITS + TOPIC * (random.normal(size=groups) + setting.slope * tilt)
    own = _standard(random, setting.shape, groups) + setting.slope * tilt
    rates = topic[:, None] + TOPIC * random.normal(size=(groups, DOCUMENTS))
    documents = rates * sizes[:, None] / DOCUMENTS
    first = documents.sum(axis=1)
    return Pages(sizes, np.stack([first, first + sizes * NOISE * own], 1), documents)


def _unpaired(sizes: np.ndarray, bits: np.ndarray) -> float:
    """Test the same scores as if they were of two different sets of pages (Welch)."""
    one, two = (ratio_interval(bits[:, model], sizes) for model in (0, 1))
    variances = np.square([one.standard_error, two.standard_error])
    freedom = variances.sum() ** 2 / np.sum(
        np.square(variances) / np.subtract([one.effective, two.effective], 1)
    )
    t = (one.value - two.value) / np.sqrt(variances.sum())
    return float(2 * stdtr(freedom, -abs(t)))


def _printed(setting: Setting) -> tuple[np.ndarray, float]:
    """Return the differences that such pages print, with their powers, (D, 2), and the median of
    the standard error."""
    found, errors = [], []
    for repeat in range(DRAWS):
        pages = draw_pages(np.random.default_rng([7, setting.groups, repeat]), setting)
        gap = pages.bits[:, 0] - pages.bits[:, 1]
        found.append(minimum_detectable(gap, pages.sizes))
        errors.append(ratio_interval(gap, pages.sizes).standard_error)
    drawn = np.array(found)
    return drawn[~np.isnan(drawn[:, 0])], float(np.median(errors))


def calibrate(setting: Setting, repeats: int, seed: int = 0) -> tuple[dict[str, float], int]:
    """Simulate a setting: shares by name, and of how many repeats (with enough groups)."""
    printed, error = _printed(setting)
    found: Counter[str] = Counter()
    defined = printing = 0
    for repeat in range(repeats):
        random = np.random.default_rng([seed, setting.groups, repeat])
        sizes, bits, documents = draw_pages(random, setting)
        sign = 1 if repeat % 2 else -1
        true = sign * 3 * error  # about what is found in 80%
        gap, shift = bits[:, 0] - bits[:, 1], sizes * true
        equal, moved = (ratio_test(held, sizes) for held in (gap, gap + shift))
        if np.isnan(equal.interval.low):
            continue
        defined += 1
        assert (equal.p_value < LEVEL) == (equal.interval.low > 0 or equal.interval.high < 0)
        found["level"] += equal.p_value <= LEVEL
        plain = ratio_interval(gap, sizes)
        found["plain"] += not plain.low <= 0 <= plain.high
        found["coverage"] += moved.interval.low <= true <= moved.interval.high
        if np.isfinite(minimum_detectable(gap, sizes)[0]):  # where one would be printed
            least = sign * printed[repeat % len(printed), 0]
            printing += 1
            found["promised"] += ratio_test(gap + sizes * least, sizes).p_value <= LEVEL
        alone = np.repeat(sizes / DOCUMENTS, DOCUMENTS)
        of_pages, of_documents = ratio_test(bits[:, 0], sizes), ratio_test(documents.ravel(), alone)
        for name, own in (("own", of_pages.interval), ("by document", of_documents.interval)):
            found[name] += own.low <= BITS <= own.high
        nearly = np.stack([bits[:, 0] + shift / 2, bits[:, 1]], 1)
        found["paired"] += ratio_test(nearly[:, 0] - nearly[:, 1], sizes).p_value <= LEVEL
        found["unpaired"] += _unpaired(sizes, nearly) <= LEVEL
    rates = {name: times / defined for name, times in found.items()}
    if printing:
        rates["promised"] = found["promised"] / printing
        rates["printed"] = float(printed[:, 1].mean())
    return rates, defined


def rates(setting: Setting, repeats: int, seed: int = 0) -> Iterator[Rate]:
    """Simulate a setting and hold it to its goals."""
    found, defined = calibrate(setting, repeats, seed)
    printed = found.get("printed", np.nan)
    power = printed, (printed - POWER_ERROR, printed + POWER_ERROR)
    for name, rate in found.items():
        nominal, limits = (GOALS | {"promised": power}).get(name, (np.nan, (0.0, 1.0)))
        yield Rate("perplexity", str(setting), name, rate, f"{nominal:g}", limits, defined)


def all_rates(repeats: int) -> Iterator[Rate]:
    """Simulate all settings; the last rate is the level over all of them."""
    levels = []
    for setting in SETTINGS:
        for rate in rates(setting, repeats):
            levels += [rate] if rate.measure == "level" else []
            yield rate
    total = sum(rate.repeats for rate in levels)
    mean = sum(rate.rate * rate.repeats for rate in levels) / total
    yield Rate("perplexity", "all settings", "level", mean, f"{LEVEL:g}", OVER_ALL, total)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=REPEATS, help="of each setting")
    return exit_status(all_rates(parser.parse_args().repeats))


if __name__ == "__main__":
    sys.exit(main())

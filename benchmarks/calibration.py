"""Levels, coverages and power of the inference of the tendencies, by simulation.

Run ``python -m benchmarks.calibration [--repeats 1000] [--part levels ...] [--text FILE]``. FILE is
a text with articles in the format of WikiText; without it the cases of a real text are left out,
which is said. The random streams of a case are keyed by its name and the repeat: its numbers depend
on nothing else. With ``--keep FOLDER`` every repeat that ends is kept there, by the code that made
it, and a run that ended, by ``--minutes`` or otherwise, goes on. Every line is one measure of one
case: the rate that was found ± its standard error, the nominal one, what is allowed, and in how
many repeats it was defined. The exit status is 1 where a rate is not allowed: beyond its limit, and
surely beyond the nominal one (99.9%).
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import re
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
from scipy.special import betaincinv

from benchmarks.attributions import AttributionCases
from benchmarks.coverages import CoverageCases, ZipfCases
from benchmarks.levels import ANY, BAND, LevelCases
from benchmarks.partitions import PartitionCases
from benchmarks.populations import Articles
from benchmarks.powers import PowerCases
from benchmarks.prompt_powers import PromptPowerCases
from benchmarks.prompts import PromptCases
from benchmarks.words import WordCases
from beyond_perplexity.storage.fingerprint import ROOT, fingerprint
from beyond_perplexity.tendencies.definitions import counted_code

REPEATS = 1000
FEWEST = 6  # documents of an article of the real text, at most


class Case(Protocol):
    """What is repeated: called with the number of the repeat, it says what happened."""

    @property
    def name(self) -> str:
        """The name, which also keys the random streams."""

    @property
    def nominal(self) -> str:
        """The rate that theory promises."""

    @property
    def limits(self) -> tuple[float, float]:
        """The rates that are allowed."""

    def __call__(self, repeat: int) -> Mapping[str, bool]:
        """Draw, measure, and say of every measure whether it rejects, covers or finds."""


class Rate(NamedTuple):
    """How often something happened in the repeats of a case."""

    part: str
    case: str
    measure: str
    rate: float
    nominal: str
    limits: tuple[float, float]
    repeats: int

    @property
    def allowed(self) -> bool:
        """Whether the rate is within its limits, or not surely beyond the nominal one.

        Sure are the one-sided limits of 99.9% (Clopper & Pearson).
        """
        (low, high), happened = self.limits, round(self.rate * self.repeats)
        if low <= self.rate <= high:
            return True
        others, nominal = self.repeats - happened, float(Fraction(self.nominal))
        least = betaincinv(happened, others + 1, 0.001) if happened else 0.0
        most = betaincinv(happened + 1, others, 0.999) if others else 1.0
        return bool(least <= nominal if self.rate > high else most >= nominal)

    def __str__(self) -> str:
        low, high = self.limits
        bounds = [f">= {low:g}"] * (low > 0) + [f"<= {high:g}"] * (high < 1)
        verdict = "" if self.allowed else "  FAILS"
        error = (self.rate * (1 - self.rate) / self.repeats) ** 0.5 if self.repeats else np.nan
        measure = f"{self.case:44s} {self.measure:38s} {self.rate:6.3f} ± {error:5.3f}"
        return f"{measure} {self.nominal:>7s} {', '.join(bounds):>16s} {self.repeats:6d}{verdict}"


PARTS: dict[str, Callable[[Articles | None], Iterable[Case]]] = {
    "levels": LevelCases,
    "attribution": AttributionCases,
    "coverage": CoverageCases,
    "partition": PartitionCases,
    "zipf": ZipfCases,
    "power": PowerCases,
    "prompts": PromptCases,
    "prompt-power": PromptPowerCases,
    "words": WordCases,
}


def _code() -> str:
    """Name the code of all cases: imports beside the package, and rows, are followed by no one."""
    cases = sorted(path.relative_to(ROOT) for path in Path(__file__).parent.glob("*.py"))
    return fingerprint(*cases, *counted_code())[:12]


_HELD: list[Case] = []  # by a worker, which inherits it: cases hold functions, never pickled


def _hold(case: Case) -> None:
    _HELD[:] = [case]


def _repeated(repeat: int) -> Mapping[str, bool]:
    return _HELD[0](repeat)


class Kept:
    """Outcomes of repeats in a folder, those of other code apart; without a folder none is kept."""

    def __init__(self, folder: Path | None = None, minutes: float = math.inf) -> None:
        self._end = time.monotonic() + 60 * minutes
        self._folder = folder and folder / _code()
        self.ended = False  # whether repeats are left

    def outcomes(self, part: str, case: Case, repeats: int, jobs: int) -> list[Mapping[str, bool]]:
        """Return the outcomes of a case; fewer where the time is up."""
        found: dict[int, Mapping[str, bool]] = {}
        with ExitStack() as stack:
            file = None
            if self._folder:
                name = " ".join([case.name, *getattr(case, "key", ())])  # of a power
                path = self._folder / part / re.sub(r"\W+", "-", name)
                path.parent.mkdir(parents=True, exist_ok=True)
                file = stack.enter_context(path.open("a+", encoding="utf-8"))
                file.seek(0)
                found = {held[0]: held[1] for held in map(json.loads, file)}
            left = [repeat for repeat in range(repeats) if repeat not in found]
            pool = None
            if jobs > 1 and left:
                forked = multiprocessing.get_context("fork")
                workers = ProcessPoolExecutor(jobs, forked, _hold, (case,))
                pool = stack.enter_context(workers)
            for start in range(0, len(left), 4 * jobs):
                if time.monotonic() > self._end:
                    self.ended = True
                    break
                some = left[start : start + 4 * jobs]
                outcomes = pool.map(_repeated, some) if pool else map(case, some)
                for repeat, outcome in zip(some, outcomes, strict=True):
                    found[repeat] = {name: bool(value) for name, value in outcome.items()}
                    if file:
                        print(json.dumps([repeat, found[repeat]]), file=file, flush=True)
        return [found[repeat] for repeat in range(repeats) if repeat in found]


def rates(
    part: str, case: Case, repeats: int, jobs: int = 1, kept: Kept | None = None
) -> list[Rate]:
    """Repeat a case of a part from repeat 0 on, and count; `jobs` do not change a rate."""
    repeats = min(repeats, getattr(case, "most_repeats", repeats))
    found = (kept or Kept()).outcomes(part, case, repeats, jobs)
    if not found:
        return []
    happened: dict[str, list[bool]] = defaultdict(list)
    for outcome in found:
        for measure, value in outcome.items():
            happened[measure].append(value)
    if not happened:
        raise ValueError(f"{case.name}: nothing was measured in {repeats} repeats")
    any_limits = getattr(case, "any_limits", case.limits)
    limits = {name: any_limits if name.startswith(ANY) else case.limits for name in happened}
    limits |= {name: (0.0, 1.0) for name in happened if name.startswith(BAND)}
    return [
        Rate(part, case.name, name, float(np.mean(x)), case.nominal, limits[name], len(x))
        for name, x in happened.items()
    ]


def calibrate(
    parts: Iterable[str],
    repeats: int,
    articles: Articles | None,
    jobs: int = 1,
    kept: Kept | None = None,
) -> Iterator[tuple[list[Rate], float]]:
    """Yield the rates of every case of some parts, with the seconds that it took."""
    for part in parts:
        for case in PARTS[part](articles):
            start = time.perf_counter()
            # A rate of any star is held to .06, which 1,000 repeats cannot tell from .05.
            times = 2 if hasattr(case, "any_limits") else 1
            found = rates(part, case, times * repeats, jobs, kept)
            yield found, time.perf_counter() - start


def parser_of(description: str | None, repeats: int) -> argparse.ArgumentParser:
    """Make the parser of a program that repeats cases, some of them of a real text."""
    parser = argparse.ArgumentParser(description=description)
    add = parser.add_argument
    add("--repeats", type=int, default=repeats, help="repeats of a case, half of those of levels")
    add("--text", type=Path, help="a text with articles, in the format of WikiText")
    add("--jobs", type=int, default=1, help="processes")
    return parser


def exit_status(found: Iterable[Rate]) -> int:
    """Print rates as they are found, and return the exit status: 1 where one is not allowed."""
    failing = 0
    for rate in found:
        print(rate, flush=True)
        failing += not rate.allowed
    print(f"{failing} rates are not allowed" if failing else "All rates are allowed")
    return int(failing > 0)


def main() -> int:
    parser, parts = parser_of(__doc__, REPEATS), list(PARTS)
    parser.add_argument("--part", nargs="+", choices=parts, default=parts, help="parts to run")
    parser.add_argument("--keep", type=Path, help="folder for what has ended, to go on from")
    parser.add_argument("--minutes", type=float, default=math.inf, help="after which it ends")
    given = parser.parse_args()
    articles = Articles(given.text, FEWEST) if given.text and given.text.exists() else None
    if articles is None:
        print(f"No real text ({given.text or '--text is not given'}): its cases are left out.")
    head = f"{'case':44s} {'measure':38s} {'rate':>14s} {'nominal':>7s} {'allowed':>16s} {'of':>6s}"
    print(head, flush=True)
    failing = 0
    kept = Kept(given.keep, given.minutes)
    for found, seconds in calibrate(given.part, given.repeats, articles, given.jobs, kept):
        print("\n".join(map(str, found)), f"\n  ({seconds:.0f} s)", flush=True)
        failing += sum(not rate.allowed for rate in found)
    print(f"{failing} rates are not allowed" if failing else "All rates are allowed")
    return int(failing > 0)


if __name__ == "__main__":
    sys.exit(main())

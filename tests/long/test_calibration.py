"""Levels, coverages and power of the tendencies' inference by simulation: 1,000 repeats.

Needs an hour of one core; with the real text beside the checkout (`TEXT`) its cases are run as
well. Oracles: the nominal rates; the table of all rates is printed (`-s`).
"""

import os
from pathlib import Path

import pytest

from benchmarks.calibration import FEWEST, PARTS, REPEATS, calibrate
from benchmarks.populations import Articles

TEXT = Path(__file__).parents[3] / "shared" / "data" / "wikitext-2" / "valid.txt"


@pytest.mark.parametrize("part", PARTS)
def test_every_rate_is_allowed(part):
    articles = Articles(TEXT, FEWEST) if TEXT.exists() else None
    if articles is None:
        print(f"{TEXT} is not there: the cases of a real text are left out")
    wrong = []
    for rates, seconds in calibrate([part], REPEATS, articles, os.cpu_count() or 1):
        print("\n".join(map(str, rates)), f"\n  ({seconds:.0f} s)", flush=True)
        wrong += [str(rate) for rate in rates if not rate.allowed]
    assert not wrong, "\n".join(wrong)

"""Our tests beside those that a user would take instead: the table of `benchmarks/alternatives.py`.

Needs 80 minutes of one core; of the text `TEXT` where it is there, else of synthetic text. Oracles:
level 5%, by the rule of rates, where nothing differs; floors of power where half of 400 or a
quarter of 2,000 documents is foreign. The table is printed (`-s`).
"""

import os
from pathlib import Path

from benchmarks import alternatives
from benchmarks.alternatives import OURS, REPEATS
from benchmarks.levels import ANY

TEXT = Path(__file__).parents[3] / "shared" / "data" / "wikitext-2" / "train.txt"
LEVEL_REPEATS = 1000
FLOORS = {OURS[ANY]: 0.9, OURS["unigram tvd"]: 0.7}
LARGE = {(400, 0.5), (2_000, 0.25), (2_000, 0.5)}


def test_our_levels_hold_with_groups_and_large_differences_are_found():
    pool = alternatives.real_pool(TEXT) if TEXT.exists() else alternatives.synthetic_pool()
    why = alternatives.without_mauve(pool)
    repeats = {True: LEVEL_REPEATS, False: REPEATS}
    rows = list(alternatives.measured(alternatives.cases(pool), repeats, os.cpu_count() or 1))
    print(f"\n{alternatives.table(rows)}\n{why}", flush=True)
    found = [(row.case, rate) for row in rows for rate in row.rates.values()]
    ours = [(case, rate) for case, rate in found if rate.measure in OURS.values()]
    assert {rate.measure for case, rate in ours if case.grouped} >= FLOORS.keys()
    wrong = [str(rate) for _, rate in ours if not rate.allowed]
    large = [rate for case, rate in ours if (case.n, case.share) in LARGE]
    wrong += [str(rate) for rate in large if rate.rate < FLOORS.get(rate.measure, 0)]
    assert not wrong, "\n".join(wrong)

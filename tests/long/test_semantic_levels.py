"""Coverage of the intervals of semantic measures and of correlations: 1,000 repeats.

Needs three minutes. Oracle: coverage of 95%, in populations where the values are known.
"""

import pytest

from benchmarks.calibration_semantics import coverages


@pytest.mark.parametrize("groups", [30, 60, 300])
def test_coverages(groups: int) -> None:
    found = coverages(1000, groups)
    print(f"{groups} pages: {found}")
    assert min(found) >= 0.92

"""The estimates that bound a perplexity and can be compared: what tables and figures start from."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pandas as pd

from beyond_perplexity.importance.estimators.contract import STOCHASTIC, STRICT
from beyond_perplexity.importance.estimators.registry import load_estimators


def finite_bounds(
    estimates: pd.DataFrame, kinds: Collection[str] = (STOCHASTIC, STRICT)
) -> pd.DataFrame:
    """Keep the bounds of perplexity at instance level that are finite.

    Parameters
    ----------
    estimates : pandas.DataFrame
        Schema ``estimates``; rows of a method that is not known are left out.
    kinds : collection of str
        Of `estimators.contract.BOUNDS`.
    """
    return estimates[
        (estimates["aggregation"] == "instance")
        & (estimates["measure"] == "perplexity")
        & estimates["bound"].isin(list(kinds))
        & estimates["method"].isin(load_estimators())
        & np.isfinite(estimates["value"].astype(float))
    ]

"""How models compare in semantic measures, and how these measures go together."""

from __future__ import annotations

import pyarrow as pa

from beyond_perplexity.schemas.columns import columns

# One row per pair of models, split, evaluator, measure and kind: `first` less `second` on the same
# sentences. `kind` is that of SEMANTICS (predicted, sampled, continued, proper), or excess: that
# of predicted less that of partner. Left out are sentences on which some model has no value.
SEMANTIC_DIFFERENCES = columns(
    "semantic_differences",
    split=pa.string(),
    evaluator=pa.string(),
    measure=pa.string(),
    kind=pa.string(),
    first=pa.string(),
    second=pa.string(),
    value=pa.float64(),
    low=pa.float64(),
    high=pa.float64(),
    p_value=pa.float64(),
    p_adjusted=pa.float64(),
    sentences=pa.int64(),
    groups=pa.int64(),
    groups_effective=pa.float64(),
    note=pa.string(),
)

# One row per pair of measures, split, method (pearson, spearman) and what they are correlated over:
# sentences (the mean of the models' correlations) or models. `n` counts those.
SEMANTIC_CORRELATIONS = columns(
    "semantic_correlations",
    split=pa.string(),
    over=pa.string(),
    method=pa.string(),
    first_evaluator=pa.string(),
    first_measure=pa.string(),
    second_evaluator=pa.string(),
    second_measure=pa.string(),
    value=pa.float64(),
    low=pa.float64(),
    high=pa.float64(),
    n=pa.int64(),
    groups=pa.int64(),
    note=pa.string(),
)

"""How the measures of all papers relate: a table of all, their rank correlations, their orders."""

from __future__ import annotations

import pyarrow as pa

from beyond_perplexity.schemas.columns import columns

# One row per measure of a model, or of its text under a decoding; of the model alone `decoding` is
# null. `error` is the standard error over documents, of tendencies that of both texts; `direction`
# is 1 where more is better, else -1. An infinite perplexity is inf; an unknown value is null, and
# the note says why.
RELATION_MEASURES = columns(
    "relation_measures",
    model=pa.string(),
    decoding=pa.string(),
    subject=pa.string(),
    measure=pa.string(),
    title=pa.string(),
    value=pa.float64(),
    error=pa.float64(),
    direction=pa.int8(),
    note=pa.string(),
)

# One row per pair of measures and scope: ``rows`` (all rows that have both; of two measures of the
# model alone one row a model) or ``within`` (the mean over decodings of the correlation over
# models). Spearman's, of values whose sign is such that more is better.
RELATION_CORRELATIONS = columns(
    "relation_correlations",
    first=pa.string(),
    second=pa.string(),
    scope=pa.string(),
    value=pa.float64(),
    low=pa.float64(),
    high=pa.float64(),
    rows=pa.int64(),
    models=pa.int64(),
    note=pa.string(),
)

# One row per measure, decoding and pair of models that both have a finite perplexity; `first` has
# the lower one. `perplexity_difference` is that of `second` less that of `first`, bits per byte;
# `difference` is what `second` is better by in the measure, so that above 0 the orders differ.
# Probabilities are shares of resamples of the documents (`resampled`), or from standard errors.
RELATION_ORDERS = columns(
    "relation_orders",
    measure=pa.string(),
    decoding=pa.string(),
    first=pa.string(),
    second=pa.string(),
    perplexity_difference=pa.float64(),
    difference=pa.float64(),
    differs=pa.bool_(),
    probability_perplexity=pa.float64(),
    probability=pa.float64(),
    probability_both=pa.float64(),
    resampled=pa.bool_(),
    note=pa.string(),
)

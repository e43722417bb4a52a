"""How the measures of all papers relate: a table of all, their rank correlations, their orders."""

from __future__ import annotations

import pyarrow as pa

from beyond_perplexity.schemas import columns, fields, flags, floats, int64s, strings

# One row per measure of a model, or of its text under a decoding; of the model alone `decoding` is
# null. `error` is the standard error over documents, of tendencies that of both texts; `direction`
# is 1 where more is better, else -1. An infinite perplexity is inf; an unknown value is null, and
# the note says why. Models of one `model_family` are siblings, and no independent ones.
RELATION_MEASURES = columns(
    "relation_measures",
    strings("model decoding subject measure title"),
    floats("value error"),
    fields(pa.int8(), "direction"),
    strings("note model_family"),
)

# One row per pair of measures and scope: ``rows`` (all rows that have both; of two measures of the
# model alone one row a model) or ``within`` (the mean over decodings of the correlation over
# models). Spearman's, of values whose sign is such that more is better. Intervals count `families`.
RELATION_CORRELATIONS = columns(
    "relation_correlations",
    strings("first second scope"),
    floats("value low high"),
    int64s("rows models families"),
    strings("note"),
)

# One row per measure, decoding and pair of models that both have a finite perplexity; `first` has
# the lower one. `perplexity_difference` is that of `second` less that of `first`, bits per byte;
# `difference` is what `second` is better by in the measure, so that above 0 the orders differ.
# `share` is that of the resamples of the documents in which both orders are as they are seen (null
# for texts); `p_value` is of the test that the orders differ, adjusted for all rows of the table.
RELATION_ORDERS = columns(
    "relation_orders",
    strings("measure decoding first second"),
    floats("perplexity_difference difference"),
    flags("differs"),
    floats("share p_value p_adjusted"),
    strings("note"),
)

"""What is counted and measured of texts, also as vectors, and what the figures draw of it."""

from __future__ import annotations

import pyarrow as pa

from beyond_perplexity.schemas.columns import columns

# One row per (statistic, key) with its number of occurrences; see tendencies/statistics.py.
STATISTICS = columns(
    "statistics",
    statistic=pa.string(),
    type=pa.string(),
    length=pa.int32(),
    value=pa.int32(),
    count=pa.int64(),
)

# One row per measured tendency of one body of text against a reference; see tendencies/measures.py.
TENDENCY_MEASURES = columns(
    "tendencies",
    source=pa.string(),
    tendency=pa.string(),
    measure=pa.string(),
    value=pa.float64(),
    low=pa.float64(),
    high=pa.float64(),
    p_value=pa.float64(),
    n_reference=pa.int64(),
    n_samples=pa.int64(),
    p_adjusted=pa.float64(),
    floor=pa.float64(),
    excess=pa.float64(),
    groups_reference=pa.int64(),
    note=pa.string(),
    p_value_law=pa.float64(),
    floor_low=pa.float64(),
    floor_high=pa.float64(),
    value_all=pa.float64(),
    verdict=pa.string(),
    reason=pa.string(),
    exchanged=pa.string(),
    family=pa.int64(),
    draws=pa.int64(),
    vocabulary=pa.string(),
)

# One row per measure of random subsets of n documents; see tendencies/sample_size.py.
SAMPLE_SIZE = columns(
    "sample_size",
    source=pa.string(),
    tendency=pa.string(),
    measure=pa.string(),
    n=pa.int64(),
    subsets=pa.int64(),
    value=pa.float64(),
    low=pa.float64(),
    high=pa.float64(),
    p_value=pa.float64(),
    p_low=pa.float64(),
    p_high=pa.float64(),
    floor=pa.float64(),
    floor_low=pa.float64(),
    floor_high=pa.float64(),
)

# One row per test and number of documents; see tendencies/sensitivity.py.
SENSITIVITY = columns(
    "sensitivity",
    source=pa.string(),
    tendency=pa.string(),
    measure=pa.string(),
    unit=pa.string(),
    n=pa.int64(),
    shift=pa.float64(),
    relative=pa.float64(),
    level=pa.float64(),
    power=pa.float64(),
    groups=pa.bool_(),
)

# What the figures draw, tidy: points of a named curve with a band and the documents behind.
CURVES = columns(
    "curves",
    source=pa.string(),
    curve=pa.string(),
    x=pa.float64(),
    y=pa.float64(),
    low=pa.float64(),
    high=pa.float64(),
    n=pa.int64(),
)


# One row per embedded document of a text in a reading; the last three columns are of the text, the
# same in all of its rows. See tendencies/embedded_documents.py.
EMBEDDINGS = columns(
    "embeddings",
    source=pa.string(),
    vocabulary=pa.string(),
    group=pa.int32(),
    vector=pa.list_(pa.float32()),
    documents=pa.int64(),
    cut=pa.int64(),
    left_out=pa.int64(),
)

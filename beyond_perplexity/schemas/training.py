"""The course of a training."""

from __future__ import annotations

import pyarrow as pa

from beyond_perplexity.schemas.columns import columns

TRAINING = columns(
    "training",
    step=pa.int64(),
    epoch=pa.float64(),
    split=pa.string(),
    loss=pa.float64(),
    perplexity=pa.float64(),
    learning_rate=pa.float64(),
    seconds=pa.float64(),
)

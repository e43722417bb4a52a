"""Documents that models write or that were brought."""

from __future__ import annotations

import pyarrow as pa

from beyond_perplexity.schemas.columns import columns

TEXT_SAMPLES = columns(
    "samples",
    doc_id=pa.int64(),
    text=pa.string(),
    n_tokens=pa.int32(),
    log_prob=pa.float64(),
    log_prob_decoding=pa.float64(),
    finished=pa.bool_(),
)

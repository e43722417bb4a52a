"""What a model says of each document, and how two models differ in it."""

from __future__ import annotations

import pyarrow as pa

from beyond_perplexity.schemas.columns import columns

# One row per document and text that it is scored on; see perplexities/documents.py. Log-likelihoods
# are in nats and, if `ended`, have the end of the document; the counts never do.
DOCUMENT_SCORES = columns(
    "document_scores",
    doc_id=pa.int64(),
    scored_text=pa.string(),
    group=pa.string(),
    log_likelihood=pa.float64(),
    log_likelihood_spelled=pa.float64(),
    tokens=pa.int64(),
    words=pa.int64(),
    characters=pa.int64(),
    bytes=pa.int64(),
    unknown=pa.int64(),
    impossible=pa.int64(),
    text_hash=pa.int64(),
    ended=pa.bool_(),
)

# One row per model, whose `second` is null, and one per pair of models that are scored on the same
# text; see perplexities/paired.py. All in bits per byte.
PERPLEXITY_DIFFERENCES = columns(
    "perplexity_differences",
    scored_text=pa.string(),
    first=pa.string(),
    second=pa.string(),
    value=pa.float64(),
    low=pa.float64(),
    high=pa.float64(),
    p_value=pa.float64(),
    p_adjusted=pa.float64(),
    detectable=pa.float64(),
    documents=pa.int64(),
    groups=pa.int64(),
    groups_effective=pa.float64(),
    spelled=pa.bool_(),
    note=pa.string(),
)

"""What a model says of each document, and how two models differ in it."""

from __future__ import annotations

import pyarrow as pa

from beyond_perplexity.schemas.columns import columns

# One row per document and text that it is scored on; see perplexity/documents.py. Log-likelihoods
# are in nats and have the end of the document; the counts do not.
DOCUMENT_SCORES = columns(
    "document_scores",
    doc_id=pa.int64(),
    text=pa.string(),
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
)

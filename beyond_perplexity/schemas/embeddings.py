"""Documents as vectors, for the comparison of texts in the space of an encoder."""

from __future__ import annotations

import pyarrow as pa

from beyond_perplexity.schemas.columns import columns

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

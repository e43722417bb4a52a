"""What an extraction writes (documents, mentions, graph, aliases, trees, raw text), and samples."""

from __future__ import annotations

import pyarrow as pa

from beyond_perplexity.schemas.columns import columns

DOCUMENTS = columns(
    "documents",
    doc_id=pa.int64(),
    split=pa.string(),
    title=pa.string(),
    text=pa.string(),
    n_tokens=pa.int32(),
)

MENTIONS = columns(
    "mentions",
    doc_id=pa.int64(),
    start=pa.int32(),
    end=pa.int32(),
    entity=pa.string(),
    source=pa.string(),
)

KNOWLEDGE_GRAPH = columns(
    "knowledge_graph",
    subject=pa.string(),
    relation=pa.string(),
    object=pa.string(),
)

ALIASES = columns(
    "aliases",
    entity=pa.string(),
    alias=pa.string(),
)

# Constituency trees in Penn brackets, one a sentence, on one line; see corpus/penn.py.
TREES = columns(
    "trees",
    doc_id=pa.int64(),
    sentence=pa.int32(),
    tree=pa.string(),
)

# A sentence of the trees is known by the number doc_id * 65536 + sentence.
SENTENCES_OF_A_DOCUMENT = 65_536

# The documents before cleaning: the same in number and order as in ``documents``.
RAW = columns(
    "raw",
    doc_id=pa.int64(),
    text=pa.string(),
)

# Documents that models write or that were brought.
TEXT_SAMPLES = columns(
    "samples",
    doc_id=pa.int64(),
    text=pa.string(),
    n_tokens=pa.int32(),
    log_prob=pa.float64(),
    log_prob_decoding=pa.float64(),
    finished=pa.bool_(),
)

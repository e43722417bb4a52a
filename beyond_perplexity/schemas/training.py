"""The course of a training."""

from __future__ import annotations

import pyarrow as pa

from beyond_perplexity.schemas.columns import columns

# One row per validation and split. Without a likelihood there is no perplexity; with distortions of
# the training there is a contrastive entropy, nats a sentence: of the split valid, and as train of
# a fixed part of the training split. The phase of a proposal is fit, and then wake, whose loss is
# −log p̂(x) of its model, nats per prediction (training/wake.py); all others have fit alone.
TRAINING = columns(
    "training",
    step=pa.int64(),
    epoch=pa.float64(),
    split=pa.string(),
    loss=pa.float64(),
    perplexity=pa.float64(),
    contrastive_entropy=pa.float64(),
    learning_rate=pa.float64(),
    seconds=pa.float64(),
    phase=pa.string(),
)

"""The course of a training."""

from __future__ import annotations

from beyond_perplexity.schemas.columns import columns, floats, int64s, strings

# One row per validation and split. Without a likelihood there is no perplexity; with distortions of
# the training there is a contrastive entropy, nats a sentence: of the split valid, and as train of
# a fixed part of the training split. The phase of a proposal is fit, and then wake, whose loss is
# −log p̂(x) of its model, nats per prediction (training/wake.py); all others have fit alone.
TRAINING = columns(
    "training",
    int64s("step"),
    floats("epoch"),
    strings("split"),
    floats("loss perplexity contrastive_entropy learning_rate seconds"),
    strings("phase"),
)

"""What models without latent variables say of the instances that latent models are weighed on."""

from __future__ import annotations

import pyarrow as pa

from beyond_perplexity.schemas.columns import columns

# One row per instance of the latent model `model`, scored by `beside`; see importance/beside.py.
# Log-likelihoods are in nats. `n_tokens` is T of the latent model, and `log_likelihood` is of just
# that; the words inside annotated mentions and the end stand apart.
INSTANCE_SCORES = columns(
    "instance_scores",
    model=pa.string(),
    beside=pa.string(),
    instance_id=pa.int64(),
    group=pa.int64(),
    n_words=pa.int32(),
    n_tokens=pa.int32(),
    n_unknown=pa.int32(),
    n_inside=pa.int32(),
    log_likelihood=pa.float64(),
    log_likelihood_inside=pa.float64(),
    log_likelihood_end=pa.float64(),
)

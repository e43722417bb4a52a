"""What the draws of latent models are reduced to."""

from __future__ import annotations

import pyarrow as pa

from beyond_perplexity.schemas.columns import columns

# One row per estimated perplexity; see importance/reduction.py for what each column means.
ESTIMATES = columns(
    "estimates",
    model=pa.string(),
    proposal=pa.string(),
    temperature=pa.float64(),
    method=pa.string(),
    basis=pa.string(),
    aggregation=pa.string(),
    pairing=pa.string(),
    beam_size=pa.int32(),
    measure=pa.string(),
    value=pa.float64(),
    log_likelihood=pa.float64(),
    bound=pa.string(),
    standard_error=pa.float64(),
    standard_error_samples=pa.float64(),
    standard_error_instances=pa.float64(),
    low=pa.float64(),
    high=pa.float64(),
    standard_deviation=pa.float64(),
    replicates=pa.int64(),
    n_samples=pa.int64(),
    n_instances=pa.int64(),
    n_infinite=pa.int64(),
    n_tokens=pa.int64(),
    t_definition=pa.string(),
    n_unknown=pa.int64(),
    unknown_types=pa.int64(),
    ess_median=pa.float64(),
    ess_min=pa.float64(),
    ess_low_share=pa.float64(),
    largest_weight_median=pa.float64(),
    largest_weight_max=pa.float64(),
    unique_share=pa.float64(),
    k_hat_median=pa.float64(),
    k_hat_max=pa.float64(),
    k_hat_threshold=pa.float64(),
    k_hat_above=pa.int64(),
    k_hat_undefined=pa.int64(),
    note=pa.string(),
)

# Perplexity against the number of samples, over random subsets without replacement.
IMPORTANCE_CURVES = columns(
    "importance_curves",
    model=pa.string(),
    proposal=pa.string(),
    temperature=pa.float64(),
    aggregation=pa.string(),
    n_samples=pa.int64(),
    mean=pa.float64(),
    low=pa.float64(),
    high=pa.float64(),
    replicates=pa.int64(),
    bound=pa.string(),
    n_instances=pa.int64(),
    n_tokens=pa.int64(),
    t_definition=pa.string(),
)

# Perplexities of disjoint blocks of samples: independent replicates of one estimate.
IMPORTANCE_REPLICATES = columns(
    "importance_replicates",
    model=pa.string(),
    proposal=pa.string(),
    temperature=pa.float64(),
    aggregation=pa.string(),
    n_samples=pa.int64(),
    replicate=pa.int64(),
    value=pa.float64(),
    bound=pa.string(),
    n_instances=pa.int64(),
    n_tokens=pa.int64(),
    t_definition=pa.string(),
)

# One row per instance and estimator: log p̂ of the instance and how far to trust it.
IMPORTANCE_DIAGNOSTICS = columns(
    "importance_diagnostics",
    model=pa.string(),
    proposal=pa.string(),
    temperature=pa.float64(),
    method=pa.string(),
    instance_id=pa.int64(),
    n_samples=pa.int64(),
    n_tokens=pa.int64(),
    n_unknown=pa.int64(),
    log_likelihood=pa.float64(),
    log_likelihood_jackknife=pa.float64(),
    standard_error=pa.float64(),
    standard_error_samples=pa.float64(),
    ess=pa.float64(),
    largest_weight=pa.float64(),
    unique_share=pa.float64(),
    k_hat=pa.float64(),
    k_hat_threshold=pa.float64(),
    tail=pa.string(),
)

# One row per proposal, way to estimate and number of samples: log p of simulated documents from
# both sides, nats per token, and the bracket of the same samples; see
# importance/bidirectional_gaps.py.
IMPORTANCE_GAPS = columns(
    "importance_gaps",
    model=pa.string(),
    proposal=pa.string(),
    method=pa.string(),
    temperature=pa.float64(),
    n_samples=pa.int64(),
    runs=pa.int64(),
    n_documents=pa.int64(),
    n_cut=pa.int64(),
    n_missed=pa.int64(),
    n_tokens=pa.int64(),
    forward=pa.float64(),
    reverse=pa.float64(),
    gap=pa.float64(),
    gap_error=pa.float64(),
    bracket_low=pa.float64(),
    bracket_high=pa.float64(),
    bracket_bound=pa.string(),
    at_most=pa.float64(),
    ess_median=pa.float64(),
    ess_low_share=pa.float64(),
)

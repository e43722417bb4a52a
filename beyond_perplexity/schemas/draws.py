"""What is drawn from proposals: weights, beams, particles; and scores of models beside them."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from beyond_perplexity.schemas.columns import columns

# One row per importance sample of an instance. T of the instance is n_tokens; the footer's key
# "weights" says what it counts. Files of others may have the columns of `temperature_columns`.
LOG_WEIGHTS = columns(
    "log_weights",
    instance_id=pa.int64(),
    sample_id=pa.int64(),
    n_tokens=pa.int32(),
    n_unknown=pa.int32(),
    log_p=pa.float64(),
    log_q=pa.float64(),
    latent_hash=pa.int64(),
)

# log q of the same samples at each temperature that some are drawn at: the columns of
# `temperature_columns` come on top.
LOG_Q = columns(
    "log_q",
    instance_id=pa.int64(),
    sample_id=pa.int64(),
    temperature=pa.float64(),
    latent_hash=pa.int64(),
)

# The latents that a beam search of each size under the proposal ends with.
BEAMS = columns(
    "beams",
    instance_id=pa.int64(),
    beam_size=pa.int32(),
    rank=pa.int32(),
    n_tokens=pa.int32(),
    n_unknown=pa.int32(),
    log_p=pa.float64(),
    log_q=pa.float64(),
    latent_hash=pa.int64(),
)

# One row per run of a particle filter on an instance: log p̂, and the smallest effective
# sample size on the way.
SMC = columns(
    "smc",
    instance_id=pa.int64(),
    run=pa.int32(),
    n_particles=pa.int32(),
    n_tokens=pa.int32(),
    n_unknown=pa.int32(),
    log_likelihood=pa.float64(),
    ess_min=pa.float64(),
)

# One row per simulated document, way to estimate, number of samples or particles, and run: log p̂ of
# draws alone and of draws among which is the z that the document was simulated with, both null for
# a document that was cut; log p̂ of both halves of plain samples, and log q of that z.
BIDIRECTIONAL = columns(
    "bidirectional",
    instance_id=pa.int64(),
    method=pa.string(),
    temperature=pa.float64(),
    n_samples=pa.int32(),
    run=pa.int32(),
    n_tokens=pa.int32(),
    log_forward=pa.float64(),
    log_reverse=pa.float64(),
    log_first_half=pa.float64(),
    log_second_half=pa.float64(),
    log_q=pa.float64(),
    ess=pa.float64(),
    k_hat=pa.float64(),
    tail=pa.string(),
)


# Two rows an instance: its latents under the proposal, and under the posterior. Counts are means
# over samples: spans of the annotation, of the latents, of both, and of these with the right
# entity. Log-likelihoods are those of the run that the particles are of; see
# importance/posterior_latents.py.
POSTERIOR = columns(
    "posterior",
    model=pa.string(),
    proposal=pa.string(),
    instance_id=pa.int64(),
    source=pa.string(),
    structure=pa.string(),
    method=pa.string(),
    n_samples=pa.int32(),
    effective=pa.float64(),
    annotated=pa.float64(),
    found=pa.float64(),
    matched=pa.float64(),
    same_entity=pa.float64(),
    n_words=pa.int32(),
    n_tokens=pa.int32(),
    n_inside=pa.int32(),
    log_likelihood=pa.float64(),
    log_likelihood_inside=pa.float64(),
    log_likelihood_end=pa.float64(),
)


# What a job that draws spent on each instance; see importance/drawing_job.py.
DRAW_COSTS = columns(
    "draw_costs",
    draw=pa.string(),
    model=pa.string(),
    proposal=pa.string(),
    temperature=pa.float64(),
    instance_id=pa.int64(),
    seconds=pa.float64(),
    seconds_of=pa.string(),
)


def penalized_column(name: str) -> str:
    """Name the column of a score in which unknown words are penalized, where it has one."""
    return f"{name}_penalized"


def penalized_columns(schema: pa.Schema) -> pa.Schema:
    """Return the columns of a model in which the penalty is not ln U for each unknown token.

    Each of the U types that the vocabulary lacks then has a U-th of what generates ``<unk>``, and
    copies cost nothing (`LatentModel.unknown_penalty`); filters have other particles then.
    """
    scores = [name for name in ("log_p", "log_likelihood", "ess_min") if name in schema.names]
    return pa.schema([pa.field(penalized_column(name), pa.float64()) for name in scores])


def temperature_column(temperature: float) -> str:
    """Name the column of log q at a temperature, e.g. ``log_q_tau_0.5``."""
    return f"log_q_tau_{float(temperature)}"


def temperature_columns(temperatures: Iterable[float]) -> pa.Schema:
    """Return the columns that a file of log weights has on top of its schema, one a temperature."""
    return pa.schema([pa.field(temperature_column(value), pa.float64()) for value in temperatures])


# One row per instance of the latent model `model`, scored by `beside`, a model without latent
# variables; see importance/scores_beside.py. Log-likelihoods are in nats. `n_tokens` is T of the
# latent model, and `log_likelihood` is of just that; words inside mentions and the end stand apart.
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

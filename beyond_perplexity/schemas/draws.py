"""What is drawn from proposals: weights, beams, particles; and scores of models beside them."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from beyond_perplexity.schemas import columns, floats, int32s, int64s, strings

# One row per importance sample of an instance. T of the instance is n_tokens; the footer's key
# "weights" says what it counts. Files of others may have the columns of `temperature_columns`.
LOG_WEIGHTS = columns(
    "log_weights",
    int64s("instance_id sample_id"),
    int32s("n_tokens n_unknown"),
    floats("log_p log_q"),
    int64s("latent_hash"),
)

# log q of the same samples at each temperature that some are drawn at: the columns of
# `temperature_columns` come on top.
LOG_Q = columns(
    "log_q", int64s("instance_id sample_id"), floats("temperature"), int64s("latent_hash")
)

# One row per thought that a model had about a prompt, and the answer after it
# (importance/thoughts.py): log p(y | x, z), −inf where the thought was cut or the text ended in it,
# log p(z | x) and log q(z), nats; of the instance log p(y | x) with no thought, and with the greedy
# one. n_tokens and n_bytes are of the answer, the former with the end of the turn.
THOUGHTS = columns(
    "thoughts",
    int64s("instance sample n_tokens n_bytes"),
    floats("log_p_answer log_p_thought log_q_thought"),
    int64s("thought_tokens cut"),
    floats("log_p_no_thought log_p_greedy"),
)

# The latents that a beam search of each size under the proposal ends with.
BEAMS = columns(
    "beams",
    int64s("instance_id"),
    int32s("beam_size rank n_tokens n_unknown"),
    floats("log_p log_q"),
    int64s("latent_hash"),
)

# One row per run of a particle filter on an instance: log p̂, and the smallest effective
# sample size on the way.
SMC = columns(
    "smc",
    int64s("instance_id"),
    int32s("run n_particles n_tokens n_unknown"),
    floats("log_likelihood ess_min"),
)

# One row per simulated document, way to estimate, number of samples or particles, and run: log p̂ of
# draws alone and of draws among which is the z that the document was simulated with, both null for
# a document that was cut; log p̂ of both halves of plain samples, and log q of that z.
BIDIRECTIONAL = columns(
    "bidirectional",
    int64s("instance_id"),
    strings("method"),
    floats("temperature"),
    int32s("n_samples run n_tokens"),
    floats("log_forward log_reverse log_first_half log_second_half log_q ess k_hat"),
    strings("tail"),
)


# Two rows an instance: its latents under the proposal, and under the posterior. Counts are means
# over samples: spans of the annotation, of the latents, of both, and of these with the right
# entity. Log-likelihoods are those of the run that the particles are of; see
# importance/posterior_latents.py.
POSTERIOR = columns(
    "posterior",
    strings("model proposal"),
    int64s("instance_id"),
    strings("source structure method"),
    int32s("n_samples"),
    floats("effective annotated found matched same_entity"),
    int32s("n_words n_tokens n_inside"),
    floats("log_likelihood log_likelihood_inside log_likelihood_end"),
)


# What a job that draws spent on each instance; see importance/model_pair.py.
DRAW_COSTS = columns(
    "draw_costs",
    strings("draw model proposal"),
    floats("temperature"),
    int64s("instance_id"),
    floats("seconds"),
    strings("seconds_of"),
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
# variables; see importance/posterior_latents.py. Log-likelihoods are in nats. `n_tokens` is T of
# the latent model, and `log_likelihood` of just that; words inside mentions and the end are apart.
EXACT = "/exact"  # behind the name of a latent model: short texts, by a sum over all latents
INSTANCE_SCORES = columns(
    "instance_scores",
    strings("model beside"),
    int64s("instance_id group"),
    int32s("n_words n_tokens n_unknown n_inside"),
    floats("log_likelihood log_likelihood_inside log_likelihood_end"),
)

"""What the draws of latent models are reduced to."""

from __future__ import annotations

from beyond_perplexity.schemas import columns, flags, floats, int32s, int64s, strings

# One row per estimated perplexity. Columns that do not apply are null.
# method, basis: a row of importance/ways_to_draw.py; what it is stands in its file. Of a
#   two-sided, `basis` is the method whose samples it is made of, `low` and `high` are its ends, and
#   `value` is null.
# aggregation, pairing: `instance` Π_n p̂(x_n); `corpus` the mean over samples of products over the
#   corpus, with the samples paired by their ids (`sample_id`, the paper's) or at random (`random`:
#   the mean over random pairings, `low` to `high` and `standard_deviation` their spread: how far
#   one pairing, such as that by ids, may be off; the samples stay the same).
# measure: `perplexity` exp(−log p̂ / T), or `unknown_penalized_perplexity`, of a model that shares
#   p(`<unk>`) among the U = `unknown_types` types of unknown words. Its log p̂ is less by ln U for
#   each unknown token; null when either is not known. Where words are copied as well, the draws
#   have log p(x, z) of that model, and all is estimated with it anew.
# bound: one of `importance.estimator.BOUNDS`, of the true perplexity of that measure.
# standard_error, standard_error_samples, standard_error_instances: of `value`, by the delta method
#   and by bootstrap over samples, the corpus being fixed; and by bootstrap over instances, the
#   corpus being a sample. The first is null where the delta method does not hold
#   (`delta_variance`); none knows of the bias of log p̂.
# n_samples: K, the least of an instance when they differ; what it counts is `Estimator.size_note`.
# n_infinite: instances with p̂ = 0.
# ess_*, largest_weight_*, unique_share, k_hat_*: over the instances; of the corpus level, of its K
#   products; see `Estimator.trust_note`. `ess_low_share` is the share of tokens in instances with
#   fewer than 5 effective samples, `k_hat_above` counts instances above the threshold of their own
#   K, of those where k̂ is defined; `k_hat_threshold` is null when the thresholds differ.
ESTIMATES = columns(
    "estimates",
    strings("model proposal"),
    floats("temperature"),
    strings("method basis aggregation pairing"),
    int32s("beam_size"),
    strings("measure"),
    floats("value log_likelihood"),
    strings("bound"),
    floats(
        "standard_error standard_error_samples standard_error_instances low high standard_deviation"
    ),
    int64s("replicates n_samples n_instances n_infinite n_tokens"),
    strings("t_definition"),
    int64s("n_unknown unknown_types"),
    floats(
        "ess_median ess_min ess_low_share largest_weight_median largest_weight_max "
        "unique_share k_hat_median k_hat_max k_hat_threshold"
    ),
    int64s("k_hat_above k_hat_undefined"),
    strings("note"),
)

# One row per model and proposal of thoughts, of the perplexity of answers: what stands beside the
# estimates (importance/thought_files.py, ThoughtSums). n_silent, n_no_greedy: prompts to whose
# answer no thought gives a probability above 0; whose greedy thought gives no answer.
# any_length_*: two-sided bounds for thoughts of any length, null where no thought was cut.
THOUGHT_SUMS = columns(
    "thought_sums",
    strings("model proposal"),
    int64s("n_prompts n_silent n_no_greedy"),
    floats("no_thought greedy greedy_of_others all_of_others cut all_cut_right"),
    floats("any_length_low any_length_high"),
    flags("any_length_claimed"),
)

# Perplexity against the number of samples, over random subsets without replacement.
IMPORTANCE_CURVES = columns(
    "importance_curves",
    strings("model proposal"),
    floats("temperature"),
    strings("aggregation"),
    int64s("n_samples"),
    floats("mean low high"),
    int64s("replicates"),
    strings("bound"),
    int64s("n_instances n_tokens"),
    strings("t_definition"),
)

# Perplexities of disjoint blocks of samples: independent replicates of one estimate.
IMPORTANCE_REPLICATES = columns(
    "importance_replicates",
    strings("model proposal"),
    floats("temperature"),
    strings("aggregation"),
    int64s("n_samples replicate"),
    floats("value"),
    strings("bound"),
    int64s("n_instances n_tokens"),
    strings("t_definition"),
)

# One row per instance and estimator: log p̂ of the instance and how far to trust it.
IMPORTANCE_DIAGNOSTICS = columns(
    "importance_diagnostics",
    strings("model proposal"),
    floats("temperature"),
    strings("method"),
    int64s("instance_id n_samples n_tokens n_unknown"),
    floats(
        "log_likelihood log_likelihood_jackknife standard_error standard_error_samples "
        "ess largest_weight unique_share k_hat k_hat_threshold"
    ),
    strings("tail"),
)

# One row per proposal, way to estimate and number of samples: log p of simulated documents from
# both sides, all in nats per token of cross-entropy, −log p / T (importance/bidirectional_gaps.py).
# forward, reverse: from log p̂ of draws alone (of several runs, of their mean), and from log p̂ of
#   draws with the z of the document (of several runs, −log of the mean of 1/p̂): in expectation the
#   true value is between them, `reverse` below.
# gap, gap_error: their difference, which is not below what the first lacks, and its standard error
#   over documents; infinite where q misses the z of a document.
# two_sided_low, two_sided_high, two_sided_bound: the two-sided bounds of the same draws, without
# that z, and its label. What lies between `reverse` and `two_sided_low` may be missed by it. Null
# where there is none. Plain samples are not kept, so that theirs does not allow for the tail.
# at_most: `two_sided_high` less what the given z show the draws to lack: the true value is not
# above it, with 97.5% confidence. Two-sided bounds above it is refuted. n_documents, n_cut,
# n_missed: documents that count; that do not, as they were cut at the largest number of words, or
# empty; whose z has q = 0. ess_median, ess_low_share: as in `estimates`, of draws alone.
IMPORTANCE_GAPS = columns(
    "importance_gaps",
    strings("model proposal method"),
    floats("temperature"),
    int64s("n_samples runs n_documents n_cut n_missed n_tokens"),
    floats("forward reverse gap gap_error two_sided_low two_sided_high"),
    strings("two_sided_bound"),
    floats("at_most ess_median ess_low_share"),
)

"""Arrays in, numbers out: tests, limits and intervals, on NumPy and SciPy alone.

Every draw comes from a stream keyed by (seed, purpose, item), so that a result depends neither on
how the work was cut nor on how many draws there are.
"""

from __future__ import annotations

from beyond_perplexity.inference.exchanged_units import effective_groups
from beyond_perplexity.inference.halves import Floor, half_baseline
from beyond_perplexity.inference.held_out import HeldOut, held_out_total_variation
from beyond_perplexity.inference.histogram_draws import resample
from beyond_perplexity.inference.intervals import (
    RatioInterval,
    jackknife_interval,
    ratio_interval,
    sum_groups,
    upper_limit,
)
from beyond_perplexity.inference.log_space import jackknife, log_mean_exp, log_sum_exp
from beyond_perplexity.inference.p_values import (
    holm,
    monte_carlo_p,
    needed_draws,
    permutation_p,
    sign_flip_p_values,
)
from beyond_perplexity.inference.two_sample_test import (
    PermutationTest,
    ks,
    ks_distance,
    ks_of_samples,
    mean_difference,
    permutation_test,
    rank_ks,
)
from beyond_perplexity.inference.weight_diagnostics import (
    Diagnostics,
    bootstrap_instances,
    bootstrap_samples,
    diagnose,
    effective_samples,
    k_hat_threshold,
    pareto_k_hat,
)

__all__ = [
    "Diagnostics",
    "Floor",
    "HeldOut",
    "PermutationTest",
    "RatioInterval",
    "bootstrap_instances",
    "bootstrap_samples",
    "diagnose",
    "effective_groups",
    "effective_samples",
    "half_baseline",
    "held_out_total_variation",
    "holm",
    "jackknife",
    "jackknife_interval",
    "k_hat_threshold",
    "ks",
    "ks_distance",
    "ks_of_samples",
    "log_mean_exp",
    "log_sum_exp",
    "mean_difference",
    "monte_carlo_p",
    "needed_draws",
    "pareto_k_hat",
    "permutation_p",
    "permutation_test",
    "rank_ks",
    "ratio_interval",
    "resample",
    "sign_flip_p_values",
    "sum_groups",
    "upper_limit",
]

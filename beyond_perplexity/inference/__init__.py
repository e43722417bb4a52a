"""Arrays in, numbers out: tests, limits and intervals, on NumPy and SciPy alone.

Every draw comes from a stream keyed by (seed, purpose, item), so that a result depends neither on
how the work was cut nor on how many draws there are.
"""

from beyond_perplexity.inference.halves import Baseline as Baseline
from beyond_perplexity.inference.halves import half_baseline as half_baseline
from beyond_perplexity.inference.held_out import HeldOut as HeldOut
from beyond_perplexity.inference.held_out import (
    held_out_total_variation as held_out_total_variation,
)
from beyond_perplexity.inference.histogram_draws import resample as resample
from beyond_perplexity.inference.intervals import RatioInterval as RatioInterval
from beyond_perplexity.inference.intervals import RatioTest as RatioTest
from beyond_perplexity.inference.intervals import jackknife_interval as jackknife_interval
from beyond_perplexity.inference.intervals import ratio_interval as ratio_interval
from beyond_perplexity.inference.intervals import ratio_test as ratio_test
from beyond_perplexity.inference.intervals import sum_groups as sum_groups
from beyond_perplexity.inference.limits import share_interval as share_interval
from beyond_perplexity.inference.limits import upper_limit as upper_limit
from beyond_perplexity.inference.limits import wilson_interval as wilson_interval
from beyond_perplexity.inference.log_odds import LogOdds as LogOdds
from beyond_perplexity.inference.log_odds import UnitRates as UnitRates
from beyond_perplexity.inference.log_odds import effective_cases as effective_cases
from beyond_perplexity.inference.log_odds import log_odds as log_odds
from beyond_perplexity.inference.log_odds import log_odds_limits as log_odds_limits
from beyond_perplexity.inference.log_space import jackknife as jackknife
from beyond_perplexity.inference.log_space import log_mean_exp as log_mean_exp
from beyond_perplexity.inference.log_space import log_sum_exp as log_sum_exp
from beyond_perplexity.inference.neighbours import NeighbourTest as NeighbourTest
from beyond_perplexity.inference.neighbours import neighbour_test as neighbour_test
from beyond_perplexity.inference.p_values import MaxT as MaxT
from beyond_perplexity.inference.p_values import benjamini_yekutieli as benjamini_yekutieli
from beyond_perplexity.inference.p_values import holm as holm
from beyond_perplexity.inference.p_values import holm_chains as holm_chains
from beyond_perplexity.inference.p_values import max_t as max_t
from beyond_perplexity.inference.p_values import monte_carlo_p as monte_carlo_p
from beyond_perplexity.inference.p_values import needed_draws as needed_draws
from beyond_perplexity.inference.p_values import permutation_p as permutation_p
from beyond_perplexity.inference.p_values import sign_flip_p_values as sign_flip_p_values
from beyond_perplexity.inference.permuted_units import effective_groups as effective_groups
from beyond_perplexity.inference.prompts import Answers as Answers
from beyond_perplexity.inference.prompts import Prompts as Prompts
from beyond_perplexity.inference.prompts import answers_of as answers_of
from beyond_perplexity.inference.two_sample_test import PermutationTest as PermutationTest
from beyond_perplexity.inference.two_sample_test import ks as ks
from beyond_perplexity.inference.two_sample_test import ks_distance as ks_distance
from beyond_perplexity.inference.two_sample_test import ks_of_samples as ks_of_samples
from beyond_perplexity.inference.two_sample_test import mean_difference as mean_difference
from beyond_perplexity.inference.two_sample_test import permutation_test as permutation_test
from beyond_perplexity.inference.two_sample_test import rank_ks as rank_ks
from beyond_perplexity.inference.two_sample_test import (
    studentized_difference as studentized_difference,
)
from beyond_perplexity.inference.weight_diagnostics import Diagnostics as Diagnostics
from beyond_perplexity.inference.weight_diagnostics import (
    bootstrap_instances as bootstrap_instances,
)
from beyond_perplexity.inference.weight_diagnostics import bootstrap_samples as bootstrap_samples
from beyond_perplexity.inference.weight_diagnostics import diagnose as diagnose
from beyond_perplexity.inference.weight_diagnostics import effective_samples as effective_samples
from beyond_perplexity.inference.weight_diagnostics import k_hat_threshold as k_hat_threshold
from beyond_perplexity.inference.weight_diagnostics import pareto_k_hat as pareto_k_hat

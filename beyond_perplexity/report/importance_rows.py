"""The tables of models with latent variables: rows of `report.TABLES`, where all others stand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from beyond_perplexity.figures import TERMS_OF_ESTIMATES
from beyond_perplexity.figures.exhibit import Exhibit

if TYPE_CHECKING:
    from beyond_perplexity.options import Rows

IMPORTANCE_TABLES: Rows[Exhibit] = {
    "importance/table_choice": Exhibit(
        "report.importance_choice:choice_table",
        ("estimates", "choices"),
        "Which number to report",
        "First the estimates that need no choice on the data that they are reported on, then the "
        "one that speaks for its model, then the least strict bound." + TERMS_OF_ESTIMATES,
        optional=("choices",),
    ),
    "importance/table_1": Exhibit(
        "report.importance:sampling_table",
        ("estimates", "beside"),
        "Importance sampling",
        "Perplexity of models with latent variables, estimated from samples of a proposal. The ± "
        "of the corpus level is the standard deviation over random pairings of the same samples. "
        "The last rows are of models without latent variables, on the same instances and T."
        + TERMS_OF_ESTIMATES,
        optional=("beside",),
    ),
    "importance/table_beside": Exhibit(
        "report.importance_beside:beside_table",
        ("estimates", "importance_instances", "beside", "choices"),
        "What the latent variables bring",
        "Every model with latent variables against models without, on the same instances, with "
        "the same vocabulary and the same T; paired differences with 95% intervals over pages or "
        "documents." + TERMS_OF_ESTIMATES,
        optional=("choices",),
    ),
    "importance/table_costs": Exhibit(
        "report.importance_costs:costs_table",
        ("estimates", "costs"),
        "Equal cost",
        "How far every bound is from the best of its model, what it cost, and how many samples a "
        "standard error of 0.01 nats a token needs. Seconds are measured and differ from run to "
        "run." + TERMS_OF_ESTIMATES,
    ),
    "importance/table_advice": Exhibit(
        "report.importance_costs:advice_table",
        ("estimates", "costs", "choices"),
        "Which estimator to use",
        "A line a model: estimator, proposal, temperature and K, and what a standard error of 0.01 "
        "nats a token takes." + TERMS_OF_ESTIMATES,
        optional=("choices",),
    ),
    "importance/table_latents": Exhibit(
        "report.importance_latents:latents_table",
        ("posteriors",),
        "Latents of the posterior and of the proposals",
        "Precision, recall and F1 of mentions, the share of right entities among the mentions that "
        "are found, and unlabelled F1 of trees, against the annotation: of the latents that a "
        "model believes in given the words, and of those that a proposal draws.",
    ),
    "importance/table_words": Exhibit(
        "report.importance_latents:words_table",
        ("posteriors", "beside"),
        "Words of mentions and other words",
        "Perplexity of the words inside annotated mentions, of the other words, and of the end, "
        "with latent variables and without.",
        optional=("beside",),
    ),
    "importance/table_2": Exhibit(
        "report.importance:beam_table",
        ("estimates",),
        "Beam marginalization",
        "Perplexity of models with latent variables, bounded by the latents of a beam search."
        + TERMS_OF_ESTIMATES,
    ),
    "importance/table_diagnostics": Exhibit(
        "report.importance:trust_table",
        ("estimates", "gaps"),
        "How far the estimates can be trusted",
        "What each number is of the true perplexity (a strict or a stochastic upper bound, or "
        "debiased) stands beside it. Errors over the samples are by the delta method where every "
        "instance has 10 effective samples (or runs) or more and a relative variance of at most "
        "0.1, else by bootstrap, which may be too small; neither knows of the bias."
        + TERMS_OF_ESTIMATES,
        optional=("gaps",),
    ),
    "importance/table_gaps": Exhibit(
        "report.importance_gaps:gaps_report",
        ("gaps",),
        "Gaps on simulated documents",
        "Every setting on documents that the model generated, whose latents are a draw from the "
        "posterior: log p from both sides (bidirectional Monte Carlo), what each setting misses of "
        "it, and whether its bracket holds.",
    ),
}

"""What models predict in sentences, how like their targets it is, and how models compare in it."""

from __future__ import annotations

import pyarrow as pa

from beyond_perplexity.schemas import columns, fields, flags, floats, int32s, int64s, strings

# What is compared with the target or, to see what chance gives, with that of an unrelated sentence.
# `sampled` is the mean over the samples, `spread` that over their pairs, of measures
# that add up places.
PREDICTED, SAMPLED, CONTINUED = "predicted", "sampled", "continued"
PARTNER_OF = {PREDICTED: "partner", SAMPLED: "sampled_partner", CONTINUED: "continued_partner"}
SPREAD = "spread"
# In SEMANTICS alone: what is sampled, less half its spread; see `semantics/model_measures.py`.
PROPER = "proper"
WORDS_EVALUATOR = "words"

# One row per sentence. Texts are tokens of the corpus joined by one blank; a predicted `</s>` or
# `<unk>` is printed so and matches nothing. `samples` are independent draws at every place, given
# the true words before it; `continued` begins with as many true words as were `given`, and is null
# where nothing was continued; `partner` is null where the split has no unrelated sentence.
# `unknown_*` count tokens of the model that are `<unk>`. `log_prob` is that of the target in its
# document, without `</s>`, in nats. `aligned`: tokens of the model are words, so that the i-th of
# `predicted` stands for the i-th of `target`.
PREDICTIONS = columns(
    "predictions",
    strings("split"),
    int64s("unit_id"),
    strings("group"),
    int32s("sentence words"),
    strings("target predicted"),
    fields(pa.list_(pa.string()), "samples"),
    strings("continued"),
    int32s("given"),
    strings("partner"),
    int32s("unknown_target unknown_predicted"),
    floats("log_prob"),
    flags("aligned"),
)

# One row per sentence, measure and kind. The statistics are what values of many sentences are made
# of, where that is not their mean: of `bleu_n` the words of both texts, then for each order matches
# and n-grams; of `accuracy` and `cross_entropy` the words of the target. A value is null where the
# measure is not defined: what models predict has no words aligned, or the target has no vector.
SEMANTIC_SCORES = columns(
    "semantic_scores",
    strings("model evaluator split"),
    int64s("unit_id"),
    strings("group"),
    int32s("sentence"),
    strings("measure kind"),
    floats("value"),
    fields(pa.list_(pa.int64()), "statistics"),
)

# One row per split, evaluator, measure and kind (predicted, sampled, continued, proper) of a model.
# The baseline is of the same predictions against unrelated sentences, the excess the value less
# that;
# `scaled` is the mean of equation 12, of measures between 0 and 1. Unknown words are shares.
SEMANTICS = columns(
    "semantics",
    strings("model split evaluator measure kind"),
    floats(
        "value low high baseline baseline_low baseline_high excess excess_low excess_high "
        "sentence_mean scaled"
    ),
    int64s("sentences undefined groups"),
    floats("groups_effective unknown_target unknown_predicted"),
    strings("note"),
)

# One row per measure of an evaluator and change of a sentence; `noticed` is the share of sentences
# whose changed version scores below the sentence itself, and `effect` how much lower, as a share of
# how much lower an unrelated sentence scores.
PROBES = columns(
    "probes",
    strings("evaluator measure probe"),
    floats("value low high noticed noticed_low noticed_high effect effect_low effect_high"),
    int64s("sentences undefined groups"),
    strings("note"),
)

# One row per file of pairs with a human score, evaluator and measure.
HUMAN_CORRELATIONS = columns(
    "human_correlations",
    strings("evaluator measure file"),
    int64s("pairs undefined"),
    floats("pearson pearson_low pearson_high spearman spearman_low spearman_high"),
    strings("note"),
)

# One row per pair of such a file: what the correlations of two evaluators are compared by.
HUMAN_SCORES = columns(
    "human_scores", strings("evaluator measure file"), int64s("pair"), floats("gold value")
)


# One row per pair of models, split, evaluator, measure and kind: `first` less `second` on the same
# sentences. `kind` is that of SEMANTICS (predicted, sampled, continued, proper), or excess: that
# of predicted less that of partner. Left out are sentences on which some model has no value.
SEMANTIC_DIFFERENCES = columns(
    "semantic_differences",
    strings("split evaluator measure kind first second"),
    floats("value low high p_value p_adjusted"),
    int64s("sentences groups"),
    floats("groups_effective"),
    strings("note"),
)

# One row per pair of measures, split, method (pearson, spearman) and what they are correlated over:
# sentences (the mean of the models' correlations) or models. `n` counts those.
SEMANTIC_CORRELATIONS = columns(
    "semantic_correlations",
    strings("split over method first_evaluator first_measure second_evaluator second_measure"),
    floats("value low high"),
    int64s("n groups"),
    strings("note"),
)

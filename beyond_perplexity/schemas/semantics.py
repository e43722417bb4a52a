"""What models predict in sentences, how like their targets it is, and how models compare in it."""

from __future__ import annotations

import pyarrow as pa

from beyond_perplexity.schemas.columns import columns

# What is compared with the target or, to see what chance gives, with that of an unrelated sentence.
# `sampled` is the mean over the samples, `spread` that over their pairs, of measures
# that add up places.
PREDICTED, SAMPLED, CONTINUED = "predicted", "sampled", "continued"
PARTNER_OF = {
    PREDICTED: "partner",
    SAMPLED: "sampled_partner",
    CONTINUED: "continued_partner",
}
SPREAD = "spread"
# In SEMANTICS alone: what is sampled, less half its spread; see `semantics/summary.py`.
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
    split=pa.string(),
    unit_id=pa.int64(),
    group=pa.string(),
    sentence=pa.int32(),
    words=pa.int32(),
    target=pa.string(),
    predicted=pa.string(),
    samples=pa.list_(pa.string()),
    continued=pa.string(),
    given=pa.int32(),
    partner=pa.string(),
    unknown_target=pa.int32(),
    unknown_predicted=pa.int32(),
    log_prob=pa.float64(),
    aligned=pa.bool_(),
)

# One row per sentence, measure and kind. The statistics are what values of many sentences are made
# of, where that is not their mean: of `bleu_n` the words of both texts, then for each order matches
# and n-grams; of `accuracy` and `cross_entropy` the words of the target. A value is null where the
# measure is not defined: what models predict has no words aligned, or the target has no vector.
SEMANTIC_SCORES = columns(
    "semantic_scores",
    model=pa.string(),
    evaluator=pa.string(),
    split=pa.string(),
    unit_id=pa.int64(),
    group=pa.string(),
    sentence=pa.int32(),
    measure=pa.string(),
    kind=pa.string(),
    value=pa.float64(),
    statistics=pa.list_(pa.int64()),
)

# One row per split, evaluator, measure and kind (predicted, sampled, continued, proper) of a model.
# The floor is of the same predictions against unrelated sentences, the excess the value less that;
# `scaled` is the mean of equation 12, of measures between 0 and 1. Unknown words are shares.
SEMANTICS = columns(
    "semantics",
    model=pa.string(),
    split=pa.string(),
    evaluator=pa.string(),
    measure=pa.string(),
    kind=pa.string(),
    value=pa.float64(),
    low=pa.float64(),
    high=pa.float64(),
    floor=pa.float64(),
    floor_low=pa.float64(),
    floor_high=pa.float64(),
    excess=pa.float64(),
    excess_low=pa.float64(),
    excess_high=pa.float64(),
    sentence_mean=pa.float64(),
    scaled=pa.float64(),
    sentences=pa.int64(),
    undefined=pa.int64(),
    groups=pa.int64(),
    groups_effective=pa.float64(),
    unknown_target=pa.float64(),
    unknown_predicted=pa.float64(),
    note=pa.string(),
)

# One row per measure of an evaluator and change of a sentence; `noticed` is the share of sentences
# whose changed version scores below the sentence itself, and `effect` how much lower, as a share of
# how much lower an unrelated sentence scores.
PROBES = columns(
    "probes",
    evaluator=pa.string(),
    measure=pa.string(),
    probe=pa.string(),
    value=pa.float64(),
    low=pa.float64(),
    high=pa.float64(),
    noticed=pa.float64(),
    noticed_low=pa.float64(),
    noticed_high=pa.float64(),
    effect=pa.float64(),
    effect_low=pa.float64(),
    effect_high=pa.float64(),
    sentences=pa.int64(),
    undefined=pa.int64(),
    groups=pa.int64(),
    note=pa.string(),
)

# One row per file of pairs with a human score, evaluator and measure.
HUMAN_CORRELATIONS = columns(
    "human_correlations",
    evaluator=pa.string(),
    measure=pa.string(),
    file=pa.string(),
    pairs=pa.int64(),
    undefined=pa.int64(),
    pearson=pa.float64(),
    pearson_low=pa.float64(),
    pearson_high=pa.float64(),
    spearman=pa.float64(),
    spearman_low=pa.float64(),
    spearman_high=pa.float64(),
    note=pa.string(),
)

# One row per pair of such a file: what the correlations of two evaluators are compared by.
HUMAN_SCORES = columns(
    "human_scores",
    evaluator=pa.string(),
    measure=pa.string(),
    file=pa.string(),
    pair=pa.int64(),
    gold=pa.float64(),
    value=pa.float64(),
)


# One row per pair of models, split, evaluator, measure and kind: `first` less `second` on the same
# sentences. `kind` is that of SEMANTICS (predicted, sampled, continued, proper), or excess: that
# of predicted less that of partner. Left out are sentences on which some model has no value.
SEMANTIC_DIFFERENCES = columns(
    "semantic_differences",
    split=pa.string(),
    evaluator=pa.string(),
    measure=pa.string(),
    kind=pa.string(),
    first=pa.string(),
    second=pa.string(),
    value=pa.float64(),
    low=pa.float64(),
    high=pa.float64(),
    p_value=pa.float64(),
    p_adjusted=pa.float64(),
    sentences=pa.int64(),
    groups=pa.int64(),
    groups_effective=pa.float64(),
    note=pa.string(),
)

# One row per pair of measures, split, method (pearson, spearman) and what they are correlated over:
# sentences (the mean of the models' correlations) or models. `n` counts those.
SEMANTIC_CORRELATIONS = columns(
    "semantic_correlations",
    split=pa.string(),
    over=pa.string(),
    method=pa.string(),
    first_evaluator=pa.string(),
    first_measure=pa.string(),
    second_evaluator=pa.string(),
    second_measure=pa.string(),
    value=pa.float64(),
    low=pa.float64(),
    high=pa.float64(),
    n=pa.int64(),
    groups=pa.int64(),
    note=pa.string(),
)

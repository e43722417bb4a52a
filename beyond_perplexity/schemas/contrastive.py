"""How well models tell texts from distortions of them. Scores and entropies are in nats."""

from __future__ import annotations

import pyarrow as pa

from beyond_perplexity.schemas import columns, fields, flags, floats, int32s, int64s, strings

# The measures that the tables below name.
CONTRASTIVE_ENTROPY = "contrastive_entropy"
CONTRASTIVE_RATIO = "ratio"
PAIRWISE_ACCURACY = "accuracy"
CONTRASTIVE_PART = "part"
SENTENCE_CROSS_ENTROPY = "cross_entropy"

# One row per unit (a document), level and draw; level 0, draw 0 is the text itself. The counts are
# of the distorted text, those of words and sentences without any `</s>`; the log score has it.
# Pairs are sentences that came out otherwise than they were, both scored by themselves: of those
# preferred the undistorted one has the higher score, of those undecided both have the same. Where
# the loss is split, parts have nats and part_events the words hit, by the parts of a distortion
# (corpus/distortions.py); else both are null.
CONTRAST_SCORES = columns(
    "contrast_scores",
    int64s("unit_id"),
    strings("group"),
    flags("sentence_level"),
    floats("level"),
    int32s("draw"),
    int64s("words sentences one_word unknown substituted transposed deleted inserted"),
    int64s("pairs preferred undecided"),
    floats("log_score"),
    fields(pa.list_(pa.float64()), "parts"),
    fields(pa.list_(pa.int64()), "part_events"),
)

# One row per measure of a model: contrastive_entropy at a level, ratio of it to that at the base
# level, accuracy on pairs of a sentence and its distortion, part (what contrastive_entropy has of
# an event or a part of it, and the words hit in all draws), and cross_entropy (equation 6; no
# level, no draws). `unit` (word, sentence) is what it is divided by. A value that is not known is
# null, and the note says why.
CONTRASTS = columns(
    "contrasts",
    strings("model unit measure event"),
    floats("level base_level value low high deviation"),
    int64s("draws words sentences groups pairs undecided words_hit"),
    floats("groups_effective"),
    flags("sentence_level"),
    strings("note"),
)

# One row per pair of models, unit, measure (contrastive_entropy, ratio, accuracy) and level:
# `first` less `second`. The limits are of one row; those that are adjusted, of a ratio, hold for
# all pairs and levels of a unit at once. The reading, on rows of contrastive_entropy above the base
# level, is that of the paper's Table 1 for `first` against `second`.
CONTRAST_DIFFERENCES = columns(
    "contrast_differences",
    strings("first second unit measure"),
    floats("level base_level value low high low_adjusted high_adjusted p_value p_adjusted"),
    strings("reading"),
    int64s("groups"),
    strings("note"),
)

# One row per phenomenon of a file of (good, bad) pairs; identical ones are left out of all else.
PAIR_CONTRASTS = columns(
    "pair_contrasts",
    strings("model phenomenon"),
    int64s("pairs identical undecided"),
    floats(
        "accuracy accuracy_low accuracy_high contrastive_entropy low high per_word "
        "length_difference good_shorter"
    ),
    strings("note"),
)

# One row per length of a sentence: log Z of an unnormalized model, from samples of a proposal.
PARTITIONS = columns(
    "partitions",
    strings("model proposal"),
    int64s("length sentences"),
    floats("log_z log_z_debiased standard_error ess pareto_k"),
    int64s("samples"),
    strings("bound"),
)

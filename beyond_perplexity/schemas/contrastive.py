"""How well models tell texts from distortions of them. Scores and entropies are in nats."""

from __future__ import annotations

import pyarrow as pa

from beyond_perplexity.schemas.columns import columns

# The measures that the tables below name.
CONTRASTIVE_ENTROPY = "contrastive_entropy"
CONTRASTIVE_RATIO = "ratio"
SENTENCE_CROSS_ENTROPY = "cross_entropy"

# One row per unit (a document), level and draw; level 0, draw 0 is the text itself. The counts are
# of the distorted text, those of words and sentences without any `</s>`; the log score has it.
CONTRAST_SCORES = columns(
    "contrast_scores",
    unit_id=pa.int64(),
    group=pa.string(),
    sentence_level=pa.bool_(),
    level=pa.float64(),
    draw=pa.int32(),
    words=pa.int64(),
    sentences=pa.int64(),
    one_word=pa.int64(),
    unknown=pa.int64(),
    substituted=pa.int64(),
    transposed=pa.int64(),
    deleted=pa.int64(),
    inserted=pa.int64(),
    log_score=pa.float64(),
)

# One row per measure of a model: contrastive_entropy at a level, ratio of it to that at the base
# level, and cross_entropy (equation 6; no level, no draws). `unit` (word, sentence) is what it is
# divided by. A value that is not known is null, and the note says why.
CONTRASTS = columns(
    "contrasts",
    model=pa.string(),
    unit=pa.string(),
    measure=pa.string(),
    level=pa.float64(),
    base_level=pa.float64(),
    value=pa.float64(),
    low=pa.float64(),
    high=pa.float64(),
    deviation=pa.float64(),
    draws=pa.int64(),
    words=pa.int64(),
    sentences=pa.int64(),
    groups=pa.int64(),
    groups_effective=pa.float64(),
    sentence_level=pa.bool_(),
    note=pa.string(),
)

# One row per pair of models, unit, measure (contrastive_entropy, ratio) and level: `first` less
# `second`. The reading, on rows of contrastive_entropy above the base level, is that of the paper's
# Table 1 for `first` against `second`.
CONTRAST_DIFFERENCES = columns(
    "contrast_differences",
    first=pa.string(),
    second=pa.string(),
    unit=pa.string(),
    measure=pa.string(),
    level=pa.float64(),
    base_level=pa.float64(),
    value=pa.float64(),
    low=pa.float64(),
    high=pa.float64(),
    p_value=pa.float64(),
    p_adjusted=pa.float64(),
    reading=pa.string(),
    groups=pa.int64(),
    note=pa.string(),
)

# One row per phenomenon of a file of (good, bad) pairs; identical ones are left out of all else.
PAIR_CONTRASTS = columns(
    "pair_contrasts",
    model=pa.string(),
    phenomenon=pa.string(),
    pairs=pa.int64(),
    identical=pa.int64(),
    undecided=pa.int64(),
    accuracy=pa.float64(),
    accuracy_low=pa.float64(),
    accuracy_high=pa.float64(),
    contrastive_entropy=pa.float64(),
    low=pa.float64(),
    high=pa.float64(),
    per_word=pa.float64(),
    length_difference=pa.float64(),
    good_shorter=pa.float64(),
    note=pa.string(),
)

# One row per length of a sentence: log Z of an unnormalized model, from samples of a proposal.
PARTITIONS = columns(
    "partitions",
    model=pa.string(),
    proposal=pa.string(),
    length=pa.int64(),
    sentences=pa.int64(),
    log_z=pa.float64(),
    log_z_debiased=pa.float64(),
    standard_error=pa.float64(),
    ess=pa.float64(),
    pareto_k=pa.float64(),
    samples=pa.int64(),
    bound=pa.string(),
)

"""What is counted and measured of texts, also as vectors, and what the figures draw of it."""

from __future__ import annotations

import pyarrow as pa

from beyond_perplexity.schemas import columns, fields, flags, floats, int32s, int64s, strings

# One row per (statistic, key) with its number of occurrences; see tendencies/statistics.py.
STATISTICS = columns(
    "statistics",
    strings("statistic type"),
    int32s("length value"),
    int64s("count segment_count segment_squares segment_shuffled"),
)

# One row per measured tendency of one sample set against a reference; see tendencies/measures.py.
TENDENCY_MEASURES = columns(
    "tendencies",
    strings("source tendency measure"),
    floats("value low high p_value"),
    int64s("n_reference n_samples"),
    floats("p_adjusted baseline excess"),
    int64s("groups_reference"),
    strings("note"),
    floats("p_value_law baseline_low baseline_high value_all"),
    strings("verdict reason permuted"),
    int64s("family draws"),
    strings("vocabulary"),
    fields(pa.list_(pa.float64()), "halves"),
)

# One row per measure of random subsets of n documents; see tendencies/curves.py.
SAMPLE_SIZE = columns(
    "sample_size",
    strings("source tendency measure"),
    int64s("n subsets"),
    floats("value low high p_value p_low p_high baseline baseline_low baseline_high"),
)

# One row per test and number of documents; see tendencies/sensitivity.py.
SENSITIVITY = columns(
    "sensitivity",
    strings("source tendency measure unit"),
    int64s("n"),
    floats("minimum_detectable_effect relative level power"),
    flags("groups"),
    floats("power_reached"),
    strings("reason"),
)

# What the figures draw, tidy: points of a named curve with a band and the documents behind.
CURVES = columns("curves", strings("source curve"), floats("x y low high"), int64s("n"))


# One row per embedded document of a text in a reading, its vector NaN where the encoder could make
# nothing of it; the last two columns are of the text, the same in all of its rows. See
# tendencies/embedded_documents.py.
EMBEDDINGS = columns(
    "embeddings",
    strings("source vocabulary"),
    int32s("group"),
    fields(pa.list_(pa.float32()), "vector"),
    int64s("documents cut"),
)

# One row per document that a judge was given, of a reference also of what was trained on, by split;
# see tendencies/judge.py.
JUDGED = columns("judged", strings("split"), int32s("group"), floats("bits_per_byte"))

# One row per n-gram that is frequent enough in both texts together; see
# tendencies/words_and_phrases.py.
WORDS_AND_PHRASES = columns(
    "words",
    strings("source vocabulary ngram"),
    int64s("words count count_reference documents documents_reference"),
    floats("document_share document_share_reference log_odds low high"),
    floats("z t p_value p_adjusted q_value"),
    strings("verdict reason permuted example_1 example_2"),
    int64s("family draws least_documents least_occurrences"),
)

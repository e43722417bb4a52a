"""The tables of the meaning of predictions, and of the relations of all measures.

They are rows of `report.TABLES`, where all others stand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from beyond_perplexity.figures.exhibit import Exhibit

if TYPE_CHECKING:
    from beyond_perplexity.options import Rows

_PUBLISHED = """

Their values stand below those of this run. They were measured by evaluators of the paper's own:
compare the pattern, not the digits."""

SEMANTIC_TABLES: Rows[Exhibit] = {
    "semantics/findings": Exhibit(
        "report.semantic_findings:semantic_findings_table",
        (
            *("semantics", "semantic_differences", "semantic_correlations"),
            *("models", "probes", "human_correlations", "human_scores"),
        ),
        "What was found",
        "What the paper says of the meaning of predictions, and what was found here.",
        optional=(
            *("semantic_differences", "semantic_correlations"),
            *("models", "probes", "human_correlations", "human_scores"),
        ),
    ),
    "semantics/table_1": Exhibit(
        "report.semantic_tables:paper_table",
        ("semantics", "models"),
        "Tables I and II: predictions against targets",
        "Similarity of what models predict, word by word, to what is there, as the paper's Tables "
        "I and II have it.",
        optional=("models",),
        published=_PUBLISHED,
    ),
    "semantics/measures": Exhibit(
        "report.semantic_tables:measures_table",
        ("semantics",),
        "Measures of meaning, in a line each",
        "What each measure is, its range and direction, its floor in this run, and what it does "
        "not say.",
    ),
    "semantics/values": Exhibit(
        "report.semantic_tables:values_table",
        ("semantics",),
        "All values, with their floors",
        "What each model has in each measure: of the likeliest words, of unrelated sentences (the "
        "floor), above it, and of words drawn from the model.",
    ),
    "semantics/differences": Exhibit(
        "report.semantic_differences:semantic_differences_table",
        ("semantic_differences",),
        "Differences of models in measures of meaning",
        "Differences of all pairs of models on the same sentences, with their intervals; "
        r"stars: \*\* p < 0.005, \* p < 0.05, adjusted for all pairs and measures of a kind.",
    ),
    "semantics/probes": Exhibit(
        "report.semantic_evaluators:probes_table",
        ("probes",),
        "What the measures notice",
        "What each measure gives a true sentence against itself, an unrelated one, and itself "
        "changed: negated, words exchanged, all words shuffled.",
    ),
    "semantics/human": Exhibit(
        "report.semantic_evaluators:human_table",
        ("human_correlations", "human_scores"),
        "Measures against scores that people gave",
        "Correlation of each measure with scores that people gave to pairs of texts.",
    ),
    "relations/findings": Exhibit(
        "report.relations:relation_findings_table",
        ("relation_measures", "relation_correlations", "relation_orders"),
        "What was found across papers",
        "How the measures of all papers go together, and what perplexity misses.",
    ),
    "relations/measures": Exhibit(
        "report.relations:relations_table",
        ("relation_measures",),
        "The measures of all papers",
        "A row for each model, and for its text under each decoding; a column for each measure: "
        "bits per byte, contrastive entropy, the meaning of predictions, and the distance of "
        "generated text to human text above its floor.",
    ),
    "relations/orders": Exhibit(
        "report.relations:orders_table",
        ("relation_measures", "relation_orders"),
        "What perplexity misses",
        "Pairs of models that another measure puts in another order than bits per byte, with the "
        "probability that both orders are real.",
    ),
}

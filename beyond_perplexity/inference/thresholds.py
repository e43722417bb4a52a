"""Numbers below which nothing is claimed; fixed before any text was measured with them."""

from __future__ import annotations

EFFECTIVE_GROUPS = 20  # of a text with groups, for any verdict
HALVINGS = 7  # over which the held-out distance is taken
SIZE_RATIO = 2  # of mean group sizes, beyond which groups of two texts are not exchangeable
NEARLY_SINGLE = 0.9  # effective groups a document, above which each document is a group of its own
GROUP_DRAWS = 20  # of one document per group, over which a statistic is averaged
SPLIT_RANKS = 30  # in either half, for a fit of Zipf's law
OCCURRENCES = 10  # in one half, of a rank that Zipf's law is fitted to
DOCUMENTS_AT_LENGTHS = 20  # of either text at lengths that both have, for a verdict on types
VERDICT_LEVELS = (0.05, 0.005)  # of one star and of two

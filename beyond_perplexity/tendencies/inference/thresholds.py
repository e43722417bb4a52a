"""Numbers below which nothing is claimed; fixed before any text was measured with them."""

from __future__ import annotations

EFFECTIVE_GROUPS = 20  # of a text with groups, for any verdict
HALVINGS = 7  # over which the held-out distance is taken
OCCURRENCES = 10  # in one half, of a rank that Zipf's law is fitted to
DOCUMENTS_AT_LENGTHS = 20  # of either text at lengths that both have, for a verdict on types
VERDICT_LEVELS = (0.05, 0.005)  # of one star and of two

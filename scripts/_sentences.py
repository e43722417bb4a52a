"""What scripts share that read the sentences of a split: their flags, and the sentences."""

from __future__ import annotations

from collections.abc import Sequence

from beyond_perplexity.arguments import ITEM
from beyond_perplexity.corpus.sentences import CutDocument, take_units
from scripts._job import Given, flag, needed

SPLIT_UNIT = flag(
    "--split-unit",
    "what the split keeps whole: of pages, the documents of a title are a group",
    choices=("document", "page"),
    default="document",
)
WHOLE = flag("--whole", "every document is one sentence", action="store_true")
# A shard of sentences: of which documents, and which of them.
SENTENCES = (
    needed("--documents", "documents file (Parquet)"),
    SPLIT_UNIT,
    WHOLE,
    needed("--sentences", "first, number; of each split", ITEM, nargs=2),
    flag("--limit", "sentences of all shards, for the last", ITEM, nargs="*", default=[]),
)


def take_shard(
    given: Given, split: str, sentences: Sequence[int], limit: int | None
) -> list[CutDocument]:
    """Return sentences of a split: from a first on so many, in the random order."""
    how = {"seed": given.seed, "grouped": given.split_unit == "page", "whole": given.whole}
    return take_units(given.documents, split, *sentences, limit=limit, **how)

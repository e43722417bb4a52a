"""What scripts share that read the sentences of a split: their flags, and the sentences."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from beyond_perplexity.arguments import ITEM, CommandParser
from beyond_perplexity.corpus.sentences import CutDocument, take_units

UNITS = ("document", "page")
UNIT_HELP = "what the split keeps whole: of pages, the documents of a title are a group"


def add_split_unit(parser: argparse._ActionsContainer) -> None:
    """Add the flag that says what the splits of a corpus keep whole."""
    parser.add_argument("--split-unit", choices=UNITS, default=UNITS[0], help=UNIT_HELP)


def add_sentences(parser: CommandParser) -> None:
    """Add the flags of a shard of sentences: of which documents, and which of them."""
    add = parser.add_argument
    add("--documents", required=True, help="documents file (Parquet)")
    add_split_unit(parser)
    add("--whole", action="store_true", help="every document is one sentence")
    add("--sentences", type=ITEM, nargs=2, required=True, help="first, number; of each split")
    add("--limit", type=ITEM, nargs="*", default=[], help="sentences of all shards, for the last")


def take_shard(
    given: argparse.Namespace, split: str, sentences: Sequence[int], limit: int | None
) -> list[CutDocument]:
    """Return sentences of a split: from a first on so many, in the random order."""
    return take_units(
        given.documents,
        split,
        *sentences,
        seed=given.seed,
        limit=limit,
        grouped=given.split_unit == "page",
        whole=given.whole,
    )

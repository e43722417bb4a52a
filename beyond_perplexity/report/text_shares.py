"""What a body of text is made of, beside whatever is said of it: the measures of `copies.TEXT`."""

from __future__ import annotations

from typing import NamedTuple


class _Share(NamedTuple):
    title: str
    heading: str = ""  # of a column; empty for what only the page of a comparison shows


# By the measure; the human text's own ends in ``_reference``.
_TOLD = {
    "unknown_share": _Share("Tokens read as unknown", "read as unknown"),
    "unfinished_share": _Share("Documents that did not end by themselves", "unfinished"),
    "duplicate_share": _Share("Documents that repeat an earlier one", "duplicates"),
    "training_8grams": _Share(
        "8 tokens in a row that stand in the training text", "copied 8-grams"
    ),
    "cut_share": _Share("Documents cut at the longest length"),
    "fragment_share": _Share("Fragments: documents without the end of a sentence"),
}
TEXT_TITLES = {measure: share.title for measure, share in _TOLD.items()}
TEXT_SHARES = {measure: share.heading for measure, share in _TOLD.items() if share.heading}

"""What a file of texts is, by its name."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING

from beyond_perplexity.corpus.rows import FORMATS
from beyond_perplexity.errors import InputError
from beyond_perplexity.storage.inputs import PACKED

if TYPE_CHECKING:
    from beyond_perplexity.corpus.held_texts import HeldTexts

AUTOMATIC = "auto"
"""The name of no format: that which the suffix tells."""

FORMAT_BY_SUFFIX = {suffix: name for name, row in FORMATS.items() for suffix in row.suffixes}
NO_TEXTS = dict.fromkeys((".csv", ".tsv", ".xlsx"), "a table") | dict.fromkeys(
    (".pdf", ".docx", ".html", ".htm", ".arrow", ".feather", ".pkl"), "no plain text"
)


def guess_format(path: PurePath) -> str:
    """Tell the format by the suffix, before that of a compression: text, jsonl or parquet.

    Raises
    ------
    InputError
        When the suffix is that of something whose lines are no documents.
    """
    suffixes = [suffix.lower() for suffix in path.suffixes if suffix.lower() not in PACKED]
    last = suffixes[-1] if suffixes else ""
    if last in NO_TEXTS and last not in FORMAT_BY_SUFFIX:
        raise InputError(
            f"{path}: is {NO_TEXTS[last]} by its name; give texts as JSONL or Parquet, which have "
            "a field for them, or one document a line under a name that ends in .txt"
        )
    return FORMAT_BY_SUFFIX.get(last, "text")


def has_named_fields(path: PurePath | HeldTexts, kind: str = AUTOMATIC) -> bool:
    """Say whether documents of a file have fields beside their texts, such as a group.

    Raises
    ------
    InputError
        As `guess_format`.
    """
    if not isinstance(path, PurePath):  # texts in memory
        return True
    return FORMATS[guess_format(path) if kind == AUTOMATIC else kind].named_fields


def check_field(path: PurePath | HeldTexts, field: str | None, kind: str = AUTOMATIC) -> None:
    """Check that a field of the texts is named only where there are fields.

    Raises
    ------
    InputError
        When it is named, but the file is plain text.
    """
    if field is not None and not has_named_fields(path, kind):
        raise InputError(
            f"{path}: is plain text and has no field '{field}'; give JSONL or Parquet, or name none"
        )

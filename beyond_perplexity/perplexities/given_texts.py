"""The documents that a user gives to be scored, whatever scores them."""

from __future__ import annotations

from collections.abc import Iterator

from beyond_perplexity.corpus.external import GroupField, read_grouped
from beyond_perplexity.corpus.normalization import Preprocessing
from beyond_perplexity.perplexities.options import ScoringOptions
from beyond_perplexity.perplexities.summary import ScoredText
from beyond_perplexity.storage.accounts import NO_TOKEN, Account

_WHO = "give it to every document, or to none and leave the group column out"


def group_field(options: ScoringOptions) -> GroupField:
    """Return what names the group of a document, and whether it must be there."""
    return GroupField(options.group_column or "group", options.group_column is not None, _WHO)


def filled_documents(
    options: ScoringOptions, cleaning: Preprocessing | None, account: Account | None = None
) -> Iterator[ScoredText]:
    """Stream the documents that have a word, cleaned or as they are; all are accounted for."""
    account = Account(options.texts, "documents") if account is None else account
    given = cleaning, group_field(options), options.field, account
    for place, (text, group) in enumerate(read_grouped(options.texts, *given)):
        if text.strip():
            yield ScoredText(place, text, group)
        else:
            account.left_out[NO_TOKEN] += 1

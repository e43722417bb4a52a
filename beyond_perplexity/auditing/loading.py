"""A model to audit by the name of its folder or on the hub, and how it reads a text."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch

from beyond_perplexity.auditing.rows import PRECISION_NAMES
from beyond_perplexity.corpus.external import read_cleaned
from beyond_perplexity.corpus.normalization import WHITE_SPACE_ONLY, Preprocessing
from beyond_perplexity.errors import InputError
from beyond_perplexity.models.checkpoint import open_scorer
from beyond_perplexity.models.contract import LanguageModel
from beyond_perplexity.models.families import is_taken_as_it_is
from beyond_perplexity.perplexities.documents import TextKind
from beyond_perplexity.storage.accounts import NO_TOKEN, Account
from beyond_perplexity.vocabulary import BPEVocabulary, ClosedVocabulary, Vocabulary


class AuditedModel(NamedTuple):
    """A model and how it reads.

    Attributes
    ----------
    model : LanguageModel
    vocabulary : Vocabulary
    cleaning : Preprocessing or None
        How a text is cleaned for it; None: it reads any text as it is.
    """

    model: LanguageModel
    vocabulary: Vocabulary
    cleaning: Preprocessing | None

    @property
    def kind(self) -> TextKind:
        """Which string is scored."""
        return "cleaned" if self.cleaning else "raw"

    def read(self, path: Path, field: str | None, account: Account) -> Iterator[str]:
        """Stream the documents of a file as the model reads them; empty ones are left out."""
        for batch in read_cleaned(path, self.cleaning, field=field, account=account):
            filled = [text for text in batch if text.strip()]
            account.left_out[NO_TOKEN] += len(batch) - len(filled)
            yield from filled


def load_audited(
    name: str | Path, device: str = "auto", precision: str = "float32"
) -> AuditedModel:
    """Load a model of this package or of another program.

    Parameters
    ----------
    name : str or path
        A folder, or a name on a hub; see `models.opening`.
    device : str
        ``"auto"`` takes a GPU where there is one.
    precision : str
        One of `rows.PRECISION_NAMES`: the type that weights are rounded to.

    Raises
    ------
    InputError
        When there is no such model, its folder is damaged, or it has no likelihood.
    """
    if precision not in PRECISION_NAMES:
        known = ", ".join(PRECISION_NAMES)
        raise InputError(f"precision: is {precision!r:.40}, expected one of {known}")
    model, opened = open_scorer(str(name), device)
    cleaning = _cleaning_of(opened.description)
    return AuditedModel(model.to(getattr(torch, precision)), opened.vocabulary, cleaning)


def held_in_memory(model: LanguageModel, vocabulary: Vocabulary | None) -> AuditedModel:
    """Take a model in memory with its vocabulary.

    One of this package reads words joined by one blank, and texts are split at white space for it.

    Raises
    ------
    InputError
        When the vocabulary is missing.
    """
    if vocabulary is None:
        raise InputError("vocabulary: is missing; give that of the model in memory")
    words = isinstance(vocabulary, ClosedVocabulary | BPEVocabulary)
    return AuditedModel(model, vocabulary, WHITE_SPACE_ONLY if words else None)


def _cleaning_of(description: dict[str, Any]) -> Preprocessing | None:
    """Return how a model's corpus was cleaned; None: it is made for plain text."""
    if is_taken_as_it_is(description["config"]["family"], description.get("training")):
        return None
    return Preprocessing.from_config(description.get("preprocessing", {}))

"""An audit of a model that a user names, or has in memory, with some documents of a text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import torch

from beyond_perplexity.auditing.audit import audit_subject
from beyond_perplexity.auditing.checks import PRECISION_NAMES, Finding
from beyond_perplexity.auditing.rosetta_programs import PrintedNumber
from beyond_perplexity.auditing.rosetta_speech import Speech, translate
from beyond_perplexity.auditing.subject import Subject
from beyond_perplexity.corpus.external import read_cleaned
from beyond_perplexity.corpus.held_texts import HeldTexts
from beyond_perplexity.corpus.normalization import WHITE_SPACE_ONLY, Preprocessing
from beyond_perplexity.errors import InputError
from beyond_perplexity.models.contract import LanguageModel
from beyond_perplexity.models.families import is_taken_as_it_is
from beyond_perplexity.models.registry import open_scorer
from beyond_perplexity.perplexities.summary import TextKind
from beyond_perplexity.random_streams import stream
from beyond_perplexity.storage.accounts import NO_TOKEN, Account
from beyond_perplexity.vocabulary import BPEVocabulary, ClosedVocabulary, Vocabulary

CUT_AT = 1000  # characters of a document: enough for a window or two


class AuditedModel(NamedTuple):
    """A model and how it reads; `cleaning` is None where it reads any text as it is."""

    model: LanguageModel
    vocabulary: Vocabulary
    cleaning: Preprocessing | None

    @property
    def kind(self) -> TextKind:
        """Which string is scored."""
        return "cleaned" if self.cleaning else "raw"

    def read(self, path: Path | HeldTexts, field: str | None, account: Account) -> Iterator[str]:
        """Stream the documents of a file as the model reads them; empty ones are left out."""
        for batch in read_cleaned(path, self.cleaning, field=field, account=account):
            filled = [text for text in batch if text.strip()]
            account.left_out[NO_TOKEN] += len(batch) - len(filled)
            yield from filled


def load_audited(
    name: str | Path, device: str = "auto", precision: str = "float32"
) -> AuditedModel:
    """Load a model (see `models.registry`), its weights rounded to a precision."""
    if precision not in PRECISION_NAMES:
        known = ", ".join(PRECISION_NAMES)
        raise InputError(f"precision: is {precision!r:.40}, expected one of {known}")
    model, opened = open_scorer(str(name), device)
    description = opened.description
    plain = is_taken_as_it_is(description["config"]["family"], description.get("training"))
    cleaning = None if plain else Preprocessing.from_config(description.get("preprocessing", {}))
    return AuditedModel(model.to(getattr(torch, precision)), opened.vocabulary, cleaning)


def held_in_memory(model: LanguageModel, vocabulary: Vocabulary | None) -> AuditedModel:
    """Take a model in memory with its vocabulary.

    One of this package reads words joined by one blank, and texts are split at white space for it.
    """
    if vocabulary is None:
        raise InputError("vocabulary: is missing; give that of the model in memory")
    words = isinstance(vocabulary, ClosedVocabulary | BPEVocabulary)
    return AuditedModel(model, vocabulary, WHITE_SPACE_ONLY if words else None)


def sample_texts(texts: Iterable[str], documents: int, seed: int) -> list[str]:
    """Draw documents from a stream that is not held, each cut at the last blank within `CUT_AT`.

    A reservoir: each document with a character that is no white space is as likely as any other.
    They come in the order of the stream.
    """
    kept: list[tuple[int, str]] = []
    generator = stream(seed, "audit/sample")
    for number, text in enumerate(text for text in texts if text.strip()):
        if number < documents:
            kept.append((number, _cut(text)))
            continue
        place = int(generator.integers(number + 1))
        if place < documents:
            kept[place] = (number, _cut(text))
    if not kept:
        raise InputError("the text has no document to audit with; give one with some words")
    return [text for _, text in sorted(kept)]


def _cut(text: str) -> str:
    if len(text) <= CUT_AT:
        return text
    return text[:CUT_AT].rpartition(" ")[0] or text[:CUT_AT]


def audit_texts(
    held: AuditedModel,
    path: Path | HeldTexts,
    *,
    field: str | None,
    documents: int,
    check: Iterable[str] | None,
    rosetta: bool,
    seed: int,
) -> tuple[list[Finding], list[PrintedNumber]]:
    """Make the checks, and with `rosetta` the numbers of other programs, of the whole text."""
    account = Account(path, "documents")
    texts: Iterable[str] = held.read(path, field, account)
    texts = list(texts) if rosetta else texts
    sample = sample_texts(texts, documents, seed)
    subject = Subject(held.model, held.vocabulary, sample, held.kind, seed=seed)
    findings = audit_subject(subject, None if check is None else list(check))
    if not isinstance(texts, list):
        account.left_out["not drawn for the checks"] = account.used - len(sample)
        return findings, []
    return findings, translate(Speech(held.model, held.vocabulary, texts, held.kind))

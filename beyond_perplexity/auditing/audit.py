"""All checks of a subject, in the order of their table, and of a model that a user names."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, NamedTuple

import torch

from beyond_perplexity.auditing import checks
from beyond_perplexity.auditing.checks import choose_texts, filled_texts
from beyond_perplexity.auditing.rosetta import Speech
from beyond_perplexity.auditing.subject import Subject
from beyond_perplexity.corpus.external import read_cleaned
from beyond_perplexity.corpus.normalization import WHITE_SPACE_ONLY, Preprocessing
from beyond_perplexity.corpus.text_files import HeldTexts
from beyond_perplexity.errors import InputError
from beyond_perplexity.models.contract import LanguageModel
from beyond_perplexity.models.in_memory import hold, in_float32, narrow_parts
from beyond_perplexity.models.registry import cleaning_of, open_scorer
from beyond_perplexity.perplexities.summary import TextKind
from beyond_perplexity.storage.accounts import Account
from beyond_perplexity.vocabulary import BPEVocabulary, ClosedVocabulary, Vocabulary

# What a model that is not what it should be may raise within a check.
_BROKEN = (InputError, ValueError, RuntimeError, IndexError, TypeError, AssertionError)


def audit_subject(subject: Subject, names: Sequence[str] | None = None) -> list[checks.Finding]:
    """Make checks in the order of their table, an error of the model being a failed one, and failed
    ones of 16 bits also in float32: a fault of logic shows there, where rounding is no excuse."""
    wanted = checks.wanted_checks(names, checks.CHECKS)
    found = [_make(name, row, subject) for name, row in wanted.items()]
    if narrow_parts(subject.model):
        with in_float32(subject.model):
            found = [_look_closer(one, wanted[one.check], subject) for one in found]
    return checks.with_causes(found, checks.CHECKS)


def _make(name: str, row: checks.Check, subject: Subject) -> checks.Finding:
    check: Callable[[Subject], checks.Evidence] = resolve_name(row.reference)
    spacing = subject.rounding
    try:
        found = check(subject)
    except torch.OutOfMemoryError as error:
        raise MemoryError(str(error)) from error
    except _BROKEN as error:
        reason = (str(error).strip() or repr(error)).splitlines()[0]
        found = checks.Evidence(math.nan, 1, f"the model failed: {reason:.200}")
    return row.judge(name, found, spacing)


def _look_closer(native: checks.Finding, row: checks.Check, subject: Subject) -> checks.Finding:
    """Repeat a check that allows for rounding, in float32 if it can be; a failed one stays so."""
    if not row.rounding or not native.sound:
        return native
    closer = _make(native.check, row, subject)
    if math.isnan(closer.worst) and closer.detail.startswith("the model failed"):
        return native._replace(detail=f"{native.detail} (not tried in float32: {closer.detail})")
    return closer._replace(detail=f"{closer.detail} (in float32, with the same weights)")


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
        batches = read_cleaned(path, self.cleaning, field=field, account=account)
        return filled_texts(batches, account)


def load_audited(
    name: str | Path, device: str = "auto", precision: str = "float32"
) -> AuditedModel:
    """Load a model (see `models.registry`), its weights rounded to a precision."""
    if precision not in checks.PRECISION_NAMES:
        known = ", ".join(checks.PRECISION_NAMES)
        raise InputError(f"precision: is {precision!r:.40}, expected one of {known}")
    model, opened = open_scorer(str(name), device)
    exact = model.to(getattr(torch, precision))
    return AuditedModel(exact, opened.vocabulary, cleaning_of(opened.description))


def held_in_memory(model: Any, tokenizer: Any) -> AuditedModel:
    """Take a model in memory with its tokenizer; ours read texts that are split at white space."""
    if tokenizer is None:
        raise InputError("vocabulary: is missing; give that of the model in memory, or tokenizer")
    own, vocabulary = hold(model, tokenizer)
    words = isinstance(vocabulary, ClosedVocabulary | BPEVocabulary)
    return AuditedModel(own, vocabulary, WHITE_SPACE_ONLY if words else None)


def audit_texts(
    held: AuditedModel,
    path: Path | HeldTexts,
    *,
    field: str | None,
    documents: int,
    check: Iterable[str] | None,
    rosetta: bool,
    seed: int,
) -> tuple[list[checks.Finding], list[checks.PrintedNumber]]:
    """Make the checks, and with `rosetta` the numbers of other programs, of the whole text."""
    account = Account(path, "documents")
    read = held.read(path, field, account)
    sample, texts = choose_texts(read, account, documents, seed, whole=rosetta)
    subject = Subject(held.model, held.vocabulary, sample, held.kind, seed=seed)
    findings = audit_subject(subject, None if check is None else list(check))
    if texts is None:
        return findings, []
    return findings, checks.translate(Speech(held.model, held.vocabulary, texts, held.kind))

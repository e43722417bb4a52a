"""An audit of a model that a user names, with a file of texts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from beyond_perplexity.auditing.audit import audit_subject
from beyond_perplexity.auditing.evidence import Finding
from beyond_perplexity.auditing.loading import held_in_memory, load_audited
from beyond_perplexity.auditing.rosetta_programs import PrintedNumber
from beyond_perplexity.auditing.rosetta_speech import Speech, translate
from beyond_perplexity.auditing.sample import sample_texts
from beyond_perplexity.auditing.subject import Subject
from beyond_perplexity.models.contract import LanguageModel
from beyond_perplexity.storage.accounts import Account
from beyond_perplexity.vocabulary import Vocabulary


def audit_texts(
    model: str | Path | LanguageModel,
    path: Path,
    *,
    vocabulary: Vocabulary | None,
    field: str | None,
    documents: int,
    check: Sequence[str] | None,
    rosetta: bool,
    precision: str,
    seed: int,
    device: str,
) -> tuple[list[Finding], list[PrintedNumber]]:
    """Make the checks, and work out the numbers of other programs where they are asked for.

    Arguments and errors are those of `library.audit.audit`; the numbers are of the whole text.
    """
    if isinstance(model, LanguageModel):
        held = held_in_memory(model, vocabulary)
    else:
        held = load_audited(model, device, precision)
    account = Account(path, "documents")
    texts: Iterable[str] = held.read(path, field, account)
    texts = list(texts) if rosetta else texts
    sample = sample_texts(texts, documents, seed)
    subject = Subject(held.model, held.vocabulary, sample, held.kind, seed=seed)
    findings = audit_subject(subject, check)
    if not isinstance(texts, list):
        account.left_out["not drawn for the checks"] = account.used - len(sample)
        return findings, []
    return findings, translate(Speech(held.model, held.vocabulary, texts, held.kind))

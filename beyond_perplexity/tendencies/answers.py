"""Answers to prompts in files: which are compared, and which tell how far people are apart."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from beyond_perplexity.errors import InputError
from beyond_perplexity.inference.permuted_units import EFFECTIVE_GROUPS, CommonGroups, Groups
from beyond_perplexity.inference.prompts import (
    PromptCodes,
    Prompts,
    answers_in_halves,
    answers_of,
    drawn_units,
)
from beyond_perplexity.random_streams import stream
from beyond_perplexity.schemas.corpora import TEXT_SAMPLES
from beyond_perplexity.storage.accounts import Account
from beyond_perplexity.storage.shards import ShardWriter
from beyond_perplexity.tendencies.document_files import DocumentFiles, choose_documents

ANSWERED_TWICE = 0.5  # of the pairs, as which people must have given two answers for a baseline
Texts = tuple[Iterator[pa.Array], Iterator[pa.Array]]


def cut_documents(texts: Iterable[pa.Array], tokens: np.ndarray) -> Iterator[pa.Array]:
    """Cut the documents of a stream, tokens joined by one blank, to so many tokens each, (D,)."""
    start = 0
    for batch in texts:
        own = tokens[start : start + len(batch)].tolist()
        start += len(batch)
        both = zip(batch.to_pylist(), own, strict=True)
        yield pa.array([" ".join(text.split(" ", n)[:n]) for text, n in both], pa.string())


@dataclass(frozen=True)
class HumanAnswers:
    """Prompts with two answers of people or more, and all answers to them: chosen ones (D,)."""

    files: tuple[DocumentFiles, DocumentFiles]
    chosen: PromptCodes
    codes: CommonGroups  # the prompt of each chosen document

    def texts(self) -> Texts:
        """Stream the answers of people and of the model."""
        first, second = (
            choose_documents(files.texts(), own)
            for files, own in zip(self.files, self.chosen, strict=True)
        )
        return first, second

    def drawn(self, most: int, seed: int) -> tuple[PromptCodes, CommonGroups]:
        """Draw whole prompts with at most so many answers of either: places in files, prompts."""
        n = 1 + max(int(own.max()) for own in self.codes)
        sizes = np.max([np.bincount(own, minlength=n) for own in self.codes], axis=0)
        kept = drawn_units(sizes, most, stream(seed, "answers/drawn"))
        both = zip(self.chosen, self.codes, strict=True)
        first, second = (np.flatnonzero(own)[kept[codes]] for own, codes in both)
        held = self.codes[0][kept[self.codes[0]]], self.codes[1][kept[self.codes[1]]]
        return (first, second), CommonGroups(held)


@dataclass(frozen=True)
class PairedAnswers:
    """Answers that are compared: which documents of both files, their pairs, and what is said."""

    kept: PromptCodes
    prompts: Prompts
    human: HumanAnswers | None
    told: str

    @property
    def baseline(self) -> str:
        """What baselines are of: answers of two ``people``, or permuted ``labels``."""
        return "labels" if self.human is None else "people"


def pair_answers(
    files: tuple[DocumentFiles, DocumentFiles],
    codes: PromptCodes,
    groups: Groups,
    seed: int,
    names: tuple[str, str],
) -> PairedAnswers:
    """Choose as many answers of both texts to each prompt, and count what is left out."""
    name = ", ".join(names)
    try:
        kept, prompts, counts = answers_of(codes, groups, seed)
    except ValueError as error:
        raise InputError(f"{name}: {error}; or leave the groups out (group column '')") from error
    account, both = Account(name, "prompts"), int((counts > 0).all(axis=0).sum())
    account.read = counts.shape[1]
    for side, own in zip(names, counts, strict=True):
        account.left_out[f"without an answer in {side}"] = int((own == 0).sum())
    account.close(account.read)
    if not both:
        raise InputError(f"{name}: no prompt has an answer in both; name the prompt by its field")
    told = f"{len(prompts.units):,} answers of either text to {both:,} prompts"
    for side, own, chosen in zip(names, counts, kept, strict=True):
        more = int(own[(counts > 0).all(axis=0)].sum() - chosen.sum())
        told += f"; {more:,} more in {side}, drawn at random, are left out" if more else ""
    parts, human = answers_in_halves(*counts), None
    enough = parts.sum() >= ANSWERED_TWICE * len(prompts.units)
    if enough and (parts > 0).sum() >= EFFECTIVE_GROUPS:
        first, second = (parts[own] > 0 for own in codes)
        common = CommonGroups((codes[0][first], codes[1][second]))
        human = HumanAnswers(files, (first, second), common)
    return PairedAnswers(kept, prompts, human, told)


def write_chosen(
    files: DocumentFiles, chosen: np.ndarray, output: Path, record: dict[str, object]
) -> DocumentFiles:
    """Write the documents that are chosen, (D,), into another file."""
    start = 0
    with ShardWriter(output, TEXT_SAMPLES, record) as writer:
        for batch in files.rows(*TEXT_SAMPLES.names):
            start += len(batch)
            writer.write(batch.filter(pa.array(chosen[start - len(batch) : start])))
    return DocumentFiles((output,))

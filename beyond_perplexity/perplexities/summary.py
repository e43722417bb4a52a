"""Perplexity in every definition that it is quoted in, never one number alone.

PP = exp(−log P / N) (001; base-free). What differs between programs is N and P: so each perplexity
stands beside its N, what N counts, the share of unknown words, and the context.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from beyond_perplexity.errors import InputError
from beyond_perplexity.inference.exchanged_units import EFFECTIVE_GROUPS, effective_groups
from beyond_perplexity.inference.intervals import (
    INTERVAL_LEVEL,
    group_key,
    ratio_interval,
    sum_groups,
)
from beyond_perplexity.models.contract import LanguageModel
from beyond_perplexity.models.likelihoods import check_window
from beyond_perplexity.perplexities.documents import (
    DocumentRow,
    ScoredText,
    Spell,
    TextKind,
    score_rows,
)
from beyond_perplexity.vocabulary import ClosedVocabulary, Vocabulary

UNITS = ("token", "word", "character", "byte")


@dataclass
class Totals:
    """Sums over documents, of which every perplexity is made.

    Logarithms are in nats; `log_prob_spelled` has the spelling of unknown words, NaN without a
    speller. Units are without ``<s>`` and ``</s>``; bytes are those of UTF-8, and blanks
    between words are characters. Of each document `groups` has a key, and `scores` both log P
    and its units.
    """

    log_prob: float = 0.0
    log_prob_spelled: float = 0.0
    documents: int = 0
    tokens: int = 0
    words: int = 0
    characters: int = 0
    bytes: int = 0
    unknown: int = 0
    impossible_tokens: int = 0
    impossible_documents: int = 0
    groups: array[int] = field(default_factory=lambda: array("q"))
    scores: dict[str, array[float]] = field(
        default_factory=lambda: {
            name: array("d") for name in ("log_prob", "log_prob_spelled", *UNITS)
        }
    )

    def add(self, row: DocumentRow) -> None:
        """Add one document."""
        spelled = row.log_likelihood_spelled
        values = (
            row.log_likelihood,
            math.nan if spelled is None else spelled,
            row.tokens,
            row.words,
            row.characters,
            row.bytes,
        )
        for column, value in zip(self.scores.values(), values, strict=True):
            column.append(value)
        self.groups.append(group_key(row.group, self.documents))
        self.log_prob += values[0]
        self.log_prob_spelled += values[1]
        self.documents += 1
        self.tokens += row.tokens
        self.words += row.words
        self.characters += row.characters
        self.bytes += row.bytes
        self.unknown += row.unknown
        self.impossible_tokens += row.impossible
        self.impossible_documents += row.impossible > 0


def perplexity_of(log_prob: float, n: int) -> float:
    """Return exp(−log_prob / n), infinite where log_prob is −inf or the power overflows."""
    exponent = -log_prob / n
    return math.inf if exponent >= 709 else math.exp(exponent)


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _spelled(totals: Totals, n: dict[str, int]) -> dict[str, Any]:
    log_prob, bits = totals.log_prob_spelled, -totals.log_prob_spelled / math.log(2)
    spelling = (totals.log_prob - log_prob) / math.log(2) / max(1, totals.unknown)
    return {
        "log_prob": _number(log_prob),
        "bits": {unit: _number(bits / n[unit]) for unit in ("character", "byte")},
        "perplexity": {unit: _number(perplexity_of(log_prob, count)) for unit, count in n.items()},
        "bits_per_unknown_word": _number(spelling),
    }


def _interval(total: np.ndarray, counts: dict[str, np.ndarray]) -> dict[str, Any]:
    """Give every perplexity and number of bits its limits; sums of log P and units by group."""
    limits = {}
    for unit, count in counts.items():
        rate = ratio_interval(-total, count)  # nats per unit
        limits[unit] = (rate.low, rate.high)
    return {
        "bits": {
            unit: [_number(limit / math.log(2)) for limit in limits[unit]]
            for unit in ("character", "byte")
        },
        "perplexity": {
            unit: [_number(perplexity_of(-limit, 1)) for limit in pair]
            for unit, pair in limits.items()
        },
    }


def _intervals(totals: Totals, extra: int) -> dict[str, Any]:
    held = {name: np.asarray(column) for name, column in totals.scores.items()}
    held |= {unit: held[unit] + extra for unit in UNITS}
    sums = dict(zip(held, sum_groups(np.asarray(totals.groups), *held.values()), strict=True))
    counts = {unit: sums[unit] for unit in UNITS if sums[unit].all()}
    effective = effective_groups(sums["byte"]) if "byte" in counts else 0.0
    found: dict[str, Any] = {
        "level": INTERVAL_LEVEL,
        "groups": len(sums["byte"]),
        "effective_groups": effective,
        "note": "",
    }
    if not math.isfinite(totals.log_prob):
        return found | {"note": "a document is impossible"}
    if effective < EFFECTIVE_GROUPS:
        return found | {"note": f"fewer than {EFFECTIVE_GROUPS} effective groups"}
    found |= _interval(sums["log_prob"], counts)
    if math.isfinite(totals.log_prob_spelled):
        found["spelled"] = _interval(sums["log_prob_spelled"], counts)
    return found


def summarize(
    totals: Totals,
    vocabulary: Vocabulary,
    *,
    count_eos: bool = True,
    count_bos: bool = False,
) -> dict[str, Any]:
    """Turn totals into the perplexities and what they mean.

    `totals`: of at least one document; `vocabulary`: the model's; `count_eos`, `count_bos`: whether
    ``</s>`` and ``<s>`` count in every N: as a token, a word, a character (the line feed of a file
    with one document a line) and a byte. log P never has ``<s>``, and the totals have ``</s>`` in
    it if and only if N has. The perplexity tutorial (001) counts both; KenLM and the default only
    ``</s>``.

    Returns JSON-safe: an infinite perplexity is null, and ``infinite`` is true; nothing is given
    over the documents that are left. ``perplexity`` and ``n`` have the keys ``token``, ``word``,
    ``character``, ``byte``. ``bits`` (per character, per byte) are base 2; ``log_prob`` is in nats.
    ``unknown_penalized`` is given for a closed vocabulary: log P minus ln U for each unknown token,
    U the number of training types that are not in the vocabulary (at least 1), as if ``<unk>``
    shared its probability evenly among them. ``spelled``, where a speller was given, is the same
    with ln p of the spelling of each unknown word (`speller.speller`), and what that is, in bits:
    the one number of a closed vocabulary that compares with those of other vocabularies.
    ``interval`` has the limits of ``perplexity`` and ``bits`` over groups of documents
    (`intervals.ratio_interval`), under ``spelled`` those with the spelling of unknown words; a
    limit that is not known is null, and ``note`` says why.

    Raises InputError when there are no documents, or N is zero.
    """
    extra = totals.documents * (count_eos + count_bos)
    n = {
        "token": totals.tokens + extra,
        "word": totals.words + extra,
        "character": totals.characters + extra,
        "byte": totals.bytes + extra,
    }
    if not totals.documents or not n["token"]:
        raise InputError("there is nothing to score: no documents, or all of them are empty")
    values = {unit: perplexity_of(totals.log_prob, count) for unit, count in n.items()}
    counted = [name for name, on in (("</s>", count_eos), ("<s>", count_bos)) if on]
    summary: dict[str, Any] = {
        "perplexity": {unit: _number(value) for unit, value in values.items()},
        "infinite": not math.isfinite(totals.log_prob),
        "bits": {
            unit: _number(-totals.log_prob / n[unit] / math.log(2))
            for unit in ("character", "byte")
        },
        "log_prob": _number(totals.log_prob),
        "n": n,
        "n_counts": " and ".join(["units of the text", *counted]),
        "documents": totals.documents,
        "tokens": totals.tokens,
        "unknown": totals.unknown,
        "unknown_share": totals.unknown / max(1, totals.tokens),
        "impossible_tokens": totals.impossible_tokens,
        "impossible_documents": totals.impossible_documents,
        "vocabulary": {"kind": vocabulary.kind, "size": vocabulary.size},
        "interval": _intervals(totals, count_eos + count_bos),
    }
    if isinstance(vocabulary, ClosedVocabulary):
        types = max(1, vocabulary.unknown_types)
        penalized = totals.log_prob - totals.unknown * math.log(types)
        summary["unknown_penalized"] = {
            "unknown_types": vocabulary.unknown_types,
            "log_prob": _number(penalized),
            "perplexity": {unit: _number(perplexity_of(penalized, n[unit])) for unit in n},
        }
        if not math.isnan(totals.log_prob_spelled):
            summary["spelled"] = _spelled(totals, n)
    return summary


def measure(
    model: LanguageModel,
    vocabulary: Vocabulary,
    texts: Iterable[ScoredText | str],
    *,
    text: TextKind = "cleaned",
    spell: Spell | None = None,
    write: Callable[[list[DocumentRow]], None] | None = None,
    context_length: int | None = None,
    stride: int | None = None,
    count_eos: bool = True,
    count_bos: bool = False,
) -> dict[str, Any]:
    """Score a stream of texts and summarize it.

    `write` is given the rows of the documents, batch by batch; other options are those of
    `documents.score_rows`, `likelihoods.check_window` and `summarize`. Without ``</s>`` neither
    N nor log P has it. The result is that of `summarize`, with ``text``, ``context_length`` and
    ``stride`` (null: no limit).
    """
    context, step = check_window(model, context_length, stride)
    totals = Totals()
    how: dict[str, Any] = {"text": text, "spell": spell, "count_eos": count_eos}
    how |= {"context_length": context_length, "stride": stride}
    for rows in score_rows(model, vocabulary, texts, **how):
        for row in rows:
            totals.add(row)
        if write:
            write(rows)
    summary = summarize(totals, vocabulary, count_eos=count_eos, count_bos=count_bos)
    return {**summary, "text": text, "context_length": context, "stride": step}

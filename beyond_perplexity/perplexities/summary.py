"""A row a document, what the model says of it, and perplexity in every definition it is quoted in.

PP = exp(−log P / N) (001; base-free). What differs between programs is N and P: so each perplexity
stands beside its N, what N counts, the share of unknown words, and the context.

- *Texts* come from whatever gives `ScoredText`, such as `texts_of_split`;
- *the string scored* is ``text="cleaned"`` (tokens joined by one blank) or ``"raw"`` (as it is),
  for counts and hash as well: column ``scored_text``; rows are compared with rows of the same;
- *unknown words are spelled* by ``spell(texts, unknown)``, for each text ln p of the spellings of
  the words read as ``<unk>`` (`SpellingModel.spell`), given how many; with log P it adds up to
  ``log_likelihood_open_vocabulary``.
"""

from __future__ import annotations

import math
import operator
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa

from beyond_perplexity.errors import InputError
from beyond_perplexity.inference import intervals
from beyond_perplexity.inference.neighbours import told_of_scores
from beyond_perplexity.inference.permuted_units import EFFECTIVE_GROUPS, effective_groups
from beyond_perplexity.models.token_scores import TokenScores
from beyond_perplexity.schemas.perplexity import DOCUMENT_SCORES
from beyond_perplexity.signature import sign
from beyond_perplexity.storage.provenance import group_key, hash_bytes
from beyond_perplexity.vocabulary import ClosedVocabulary, Vocabulary, split_words

if TYPE_CHECKING:
    from beyond_perplexity.models.contract import LanguageModel
    from beyond_perplexity.models.likelihoods import DocumentScore

TextKind = Literal["cleaned", "raw"]
Spell = Callable[[Sequence[str], Sequence[int]], Iterable[float]]
# Is given documents, which text of them is scored, and their tokens.
TakeTokens = Callable[[Sequence["ScoredText"], TextKind, Sequence[TokenScores]], object]


class ScoredText(NamedTuple):
    """A document that is to be scored; `group` is what it belongs to, `title` that of its page."""

    doc_id: int
    text: str
    group: str | None = None
    title: str | None = None


class DocumentRow(NamedTuple):
    """What a model says of a document: the columns of schema ``document_scores``."""

    doc_id: int
    scored_text: str  # Which string was scored
    group: str | None  # None: none is named
    title: str | None  # Its documents are a group where none are named
    # ln P of the tokens and, if `ended`, ``</s>``; −inf when one of them is impossible
    log_likelihood: float
    # The same with the spelling of each unknown word; None without a spelling model
    log_likelihood_open_vocabulary: float | None
    tokens: int  # Tokens of the model, without ``<s>`` and ``</s>``
    words: int  # words, characters, bytes: Of the scored string; bytes are those of UTF-8
    characters: int
    bytes: int
    unknown: int  # unknown, impossible: ``<unk>`` tokens, and predictions of probability zero
    impossible: int
    text_hash: int  # 64 bits of the BLAKE2b digest of the scored bytes, signed
    ended: bool = True  # Whether the log-likelihoods have the end of the document


def _row(
    item: ScoredText, kind: TextKind, score: DocumentScore, spelling: float | None, ended: bool
) -> DocumentRow:
    if math.isnan(score.log_prob):
        raise InputError(
            f"doc_id {item.doc_id}: the model gives it the log-probability NaN; its weights are "
            "damaged or its numbers overflow: train or bring the model again"
        )
    content = item.text.encode()
    return DocumentRow(
        item.doc_id,
        kind,
        item.group,
        item.title,
        score.log_prob,
        None if spelling is None else score.log_prob + float(spelling),
        score.tokens,
        len(split_words(item.text) if kind == "cleaned" else item.text.split()),
        len(item.text),
        len(content),
        score.unknown,
        score.impossible,
        hash_bytes(content),
        ended,
    )


def score_rows(
    model: LanguageModel,
    vocabulary: Vocabulary,
    texts: Iterable[ScoredText | str],
    *,
    text: TextKind = "cleaned",
    spell: Spell | None = None,
    count_eos: bool = True,
    tokens: TakeTokens | None = None,
    **options: Any,
) -> Iterator[list[DocumentRow]]:
    """Score a stream of documents without holding it, in batches in the order of the texts.

    A plain string is a document without a group, its number, from 0, its ``doc_id``. `text` and
    `spell`: see the module; `tokens`: is given what the model says of the tokens of each batch,
    whose sums are the rows'; `**options`: as in `likelihoods.score_encoded`. A score that is no
    number is an `InputError`: that is no infinite perplexity, but a broken model.
    """
    # which need torch
    from beyond_perplexity.models.likelihoods import POOL, score_documents, score_texts_by_token

    items = enumerate(texts)
    given = (ScoredText(place, x) if isinstance(x, str) else x for place, x in items)
    if text == "cleaned":
        given = (item._replace(text=" ".join(split_words(item.text))) for item in given)
    while part := list(islice(given, POOL)):
        strings = [item.text for item in part]
        how = {"count_eos": count_eos, **options}
        if tokens is None:
            scores = list(score_documents(model, vocabulary, strings, **how))
        else:
            scores, found = zip(
                *score_texts_by_token(model, vocabulary, strings, **how), strict=True
            )
        spellings: Iterable[float | None] = [None] * len(part)
        if spell:
            spellings = spell(strings, [score.unknown for score in scores])
        of_each = zip(part, scores, spellings, strict=True)
        rows = [_row(item, text, score, spelling, count_eos) for item, score, spelling in of_each]
        if tokens is not None:
            tokens(part, text, found)
        yield rows


def unit_key(document: ScoredText | DocumentRow, number: int) -> int:
    """Return the key of what intervals are over: a document's group, else its page, else itself."""
    group = document.title if document.group is None else document.group
    return group_key(group, number)


def rows_table(rows: list[DocumentRow]) -> pa.Table:
    """Turn rows into a table of schema ``document_scores``."""
    return pa.table([*zip(*rows, strict=True)], DOCUMENT_SCORES)


UNITS = ("token", "word", "character", "byte")
_SUMMED = ("log_likelihood", "log_likelihood_open_vocabulary", *(f"{unit}s" for unit in UNITS))
_SUMMED += ("unknown", "impossible")


class Totals:
    """Numbers of documents, of which every perplexity is made, logarithms in nats, NaN with
    spellings without a spelling model; `groups` are keys of their groups, else pages, `texts` those
    of their texts."""

    def __init__(self) -> None:
        self.columns = {name: array("d") for name in _SUMMED}
        self.groups, self.texts = array("q"), array("q")

    def add(self, row: DocumentRow) -> None:
        """Add one document."""
        for name, column in self.columns.items():
            value = getattr(row, name)
            column.append(math.nan if value is None else value)
        self.groups.append(unit_key(row, len(self.groups)))
        self.texts.append(row.text_hash)

    def sums(self) -> dict[str, float]:
        """Add up every column in the order of the documents."""
        return {name: reduce(operator.add, held, 0.0) for name, held in self.columns.items()}


def perplexity_of(log_prob: float, n: int) -> float:
    """Return exp(−log_prob / n), infinite where log_prob is −inf or the power overflows."""
    exponent = -log_prob / n
    return math.inf if exponent >= 709 else math.exp(exponent)


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _perplexities(log_prob: float, n: Mapping[str, int]) -> dict[str, float | None]:
    return {unit: _number(perplexity_of(log_prob, count)) for unit, count in n.items()}


def _spelled(sums: Mapping[str, float], n: Mapping[str, int]) -> dict[str, Any]:
    log_prob = sums["log_likelihood_open_vocabulary"]
    bits = -log_prob / math.log(2)
    spelling = (sums["log_likelihood"] - log_prob) / math.log(2) / max(1, int(sums["unknown"]))
    return {
        "log_prob": _number(log_prob),
        "bits": {unit: _number(bits / n[unit]) for unit in ("character", "byte")},
        "perplexity": _perplexities(log_prob, n),
        "bits_per_unknown_word": _number(spelling),
    }


def _interval(total: np.ndarray, counts: dict[str, np.ndarray]) -> dict[str, Any]:
    """Give every perplexity and number of bits its limits; sums of log P and units by group."""
    limits = {}
    for unit, count in counts.items():
        rate = intervals.ratio_test(-total, count).interval  # nats per unit
        limits[unit] = (rate.low, rate.high)
    return {
        "bits": {
            unit: [_number(limit / math.log(2)) for limit in limits[unit]]
            for unit in ("character", "byte")
            if unit in limits
        },
        "perplexity": {
            unit: [_number(perplexity_of(-limit, 1)) for limit in pair]
            for unit, pair in limits.items()
        },
    }


def _intervals(totals: Totals, groups: np.ndarray, extra: int) -> dict[str, Any]:
    scores = {name: np.asarray(totals.columns[name]) for name in _SUMMED[:2]}
    held = scores | {unit: np.asarray(totals.columns[f"{unit}s"]) + extra for unit in UNITS}
    sums = dict(zip(held, intervals.sum_groups(groups, *held.values()), strict=True))
    counts = {unit: sums[unit] for unit in UNITS if sums[unit].all()}
    effective = {unit: effective_groups(count) for unit, count in counts.items()}
    found: dict[str, Any] = {"level": intervals.INTERVAL_LEVEL, "groups": len(sums["byte"])}
    found |= {"effective_groups": effective, "note": ""}
    if not np.isfinite(scores["log_likelihood"]).all():
        return found | {"note": "a document is impossible"}
    if min(effective.values(), default=0.0) < EFFECTIVE_GROUPS:
        found["note"] = f"fewer than {EFFECTIVE_GROUPS} effective groups"
    found |= _interval(sums["log_likelihood"], counts)
    if np.isfinite(scores["log_likelihood_open_vocabulary"]).all():
        found["open_vocabulary"] = _interval(sums["log_likelihood_open_vocabulary"], counts)
    return found


def summarize(
    totals: Totals,
    vocabulary: Vocabulary | None,
    *,
    count_eos: bool = True,
    count_bos: bool = False,
) -> dict[str, Any]:
    """Turn totals into the perplexities and what they mean.

    `count_eos` and `count_bos` say whether ``</s>`` and ``<s>`` count in every N: as a token, a
    word, a character (the line feed of a file with one document a line) and a byte. log P never has
    ``<s>``, and the totals have ``</s>`` if and only if N has. Campagnola (2020) counts both; KenLM
    and the default only ``</s>``.

    JSON-safe: an infinite perplexity is null, and ``infinite`` is true; nothing is given over the
    documents that are left. ``perplexity`` and ``n`` have a key a unit, ``bits`` (base 2) those of
    characters and bytes; ``log_prob`` is in nats. ``unknown_penalized``, of a closed vocabulary, is
    log P minus ln U for each unknown token, U the training types that it lacks (at least 1), as if
    ``<unk>`` shared its probability evenly among them. ``open_vocabulary``, with a spelling model,
    has ln p of the spelling of each unknown word, and its bits: what compares with other
    vocabularies. ``interval`` is over groups or pages, where there are any
    (`inference.intervals.ratio_test`), ``interval_by_document`` over documents. A unit with too few
    ``effective_groups`` has no limits, one that is not known is null, and ``note`` says why.
    ``dependence`` says where documents without groups seem to depend on each other.
    """
    sums, groups, documents = totals.sums(), np.asarray(totals.groups), len(totals.groups)
    extra = documents * (count_eos + count_bos)
    n = {unit: int(sums[f"{unit}s"]) + extra for unit in UNITS}
    if not documents or not n["token"]:
        raise InputError("there is nothing to score: no documents, or all of them are empty")
    counted = [name for name, on in (("</s>", count_eos), ("<s>", count_bos)) if on]
    log_prob, tokens, unknown = sums["log_likelihood"], int(sums["tokens"]), int(sums["unknown"])
    summary: dict[str, Any] = {
        "perplexity": _perplexities(log_prob, n),
        "infinite": not math.isfinite(log_prob),
        "bits": {
            unit: _number(-log_prob / n[unit] / math.log(2)) for unit in ("character", "byte")
        },
        "log_prob": _number(log_prob),
        "n": n,
        "n_counts": " and ".join(["units of the text", *counted]),
        "documents": documents,
        "tokens": tokens,
        "unknown": unknown,
        "unknown_share": unknown / max(1, tokens),
        "impossible_tokens": int(sums["impossible"]),
        "impossible_documents": int(np.count_nonzero(totals.columns["impossible"])),
        "vocabulary": None
        if vocabulary is None
        else {"kind": vocabulary.kind, "size": vocabulary.size},
        "interval": _intervals(totals, groups, count_eos + count_bos),
    }
    summary["dependence"] = ""
    if summary["interval"]["groups"] == documents:
        size = np.asarray(totals.columns["bytes"])
        rates = np.asarray(totals.columns["log_likelihood"]) / np.maximum(size, 1)
        summary["dependence"] = told_of_scores(rates, np.asarray(totals.texts), size)
    else:
        beside = _intervals(totals, np.arange(documents), count_eos + count_bos)
        summary["interval_by_document"] = beside
    if isinstance(vocabulary, ClosedVocabulary):
        penalized = log_prob - unknown * math.log(max(1, vocabulary.unknown_types))
        summary["unknown_penalized"] = {
            "unknown_types": vocabulary.unknown_types,
            "log_prob": _number(penalized),
            "perplexity": _perplexities(penalized, n),
        }
        if not math.isnan(sums["log_likelihood_open_vocabulary"]):
            summary["open_vocabulary"] = _spelled(sums, n)
    return summary


def summarize_rows(
    batches: Iterable[list[DocumentRow]],
    vocabulary: Vocabulary | None,
    how: Mapping[str, object],
    *,
    write: Callable[[pa.Table], object] | None = None,
    count_eos: bool = True,
    count_bos: bool = False,
) -> dict[str, Any]:
    """Summarize the rows of documents, however scored, in their order; `how` has the further parts
    of the signature, and is read when all is scored."""
    totals = Totals()
    for rows in batches:
        for row in rows:
            totals.add(row)
        if write and rows:
            write(rows_table(rows))
    summary = summarize(totals, vocabulary, count_eos=count_eos, count_bos=count_bos)
    # A closed vocabulary with a spelling model pays for every character, as an open one does.
    spelling = not summary["unknown"] or "open_vocabulary" in summary
    signature = sign("bpb", eos=count_eos, bos=count_bos, spelling=spelling, **how)
    return {**summary, "signature": signature}


def measure(
    model: LanguageModel,
    vocabulary: Vocabulary,
    texts: Iterable[ScoredText | str],
    *,
    text: TextKind = "cleaned",
    spell: Spell | None = None,
    write: Callable[[pa.Table], object] | None = None,
    tokens: TakeTokens | None = None,
    context_length: int | None = None,
    stride: int | None = None,
    count_eos: bool = True,
    count_bos: bool = False,
    special: str = "characters",
    unk: str = "none",
) -> dict[str, Any]:
    """Score a stream of texts and give `summarize`'s result, with ``text``, ``context_length``,
    ``stride`` (null: no limit) and ``signature``; `write` is given the rows as tables."""
    from beyond_perplexity.models.likelihoods import check_window

    context, step = check_window(model, context_length, stride)
    given: dict[str, Any] = {"text": text, "spell": spell, "count_eos": count_eos}
    given |= {"tokens": tokens} if tokens else {}
    given |= {"context_length": context_length, "stride": stride}
    rows = score_rows(model, vocabulary, texts, **given)
    how = {"text": text, "special": special, "unk": unk}
    how |= {"context": str(context_length or "model"), "stride": str(stride or "half")}
    counted = {"count_eos": count_eos, "count_bos": count_bos}
    summary = summarize_rows(rows, vocabulary, how, write=write, **counted)
    return {**summary, "text": text, "context_length": context, "stride": step}

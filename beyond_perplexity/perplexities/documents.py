"""A row a document: what was scored, and what the model says of it.

Three hooks let a scoring be of another text or another vocabulary; the rest need not know:

- *where texts come from*: whatever gives `ScoredText`, such as `texts_of_split`;
- *which string is scored*: ``text="cleaned"`` (tokens joined by one blank) or ``text="raw"`` (the
  string as it is), for counts and hash as well. One file may hold rows of both (a document once
  a text): its column ``scored_text`` says which a row is of, and rows are compared with rows of the
  same text alone;
- *how unknown words are spelled*: ``spell(texts, unknown)``, for each text ln p of the spellings of
  those words that a closed vocabulary reads as ``<unk>`` (`speller.speller.Speller.spell`), given
  how many the model read so. Its sum with log P is ``log_likelihood_spelled``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Literal, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from beyond_perplexity.errors import InputError
from beyond_perplexity.models.contract import LanguageModel
from beyond_perplexity.models.likelihoods import POOL, DocumentScore, score_documents
from beyond_perplexity.schemas.corpora import DOCUMENTS, RAW
from beyond_perplexity.schemas.perplexity import DOCUMENT_SCORES
from beyond_perplexity.storage.provenance import hash_bytes
from beyond_perplexity.storage.shards import ShardWriter, read_batches
from beyond_perplexity.vocabulary import Vocabulary, split_words

TextKind = Literal["cleaned", "raw"]
Spell = Callable[[Sequence[str], Sequence[int]], Iterable[float]]
READ = 8_192  # documents that are read at once


class ScoredText(NamedTuple):
    """A document that is to be scored; `group`, such as its page, is what it belongs to."""

    doc_id: int
    text: str
    group: str | None = None


class DocumentRow(NamedTuple):
    """What a model says of a document: the columns of schema ``document_scores``."""

    doc_id: int
    scored_text: str  # Which string was scored
    group: str | None  # None: the document is a group of its own
    # ln P of the tokens and, if `ended`, ``</s>``; −inf when one of them is impossible
    log_likelihood: float
    # The same with the spelling of each unknown word; None without a speller
    log_likelihood_spelled: float | None
    tokens: int  # Tokens of the model, without ``<s>`` and ``</s>``
    words: int  # words, characters, bytes: Of the scored string; bytes are those of UTF-8
    characters: int
    bytes: int
    unknown: int  # unknown, impossible: ``<unk>`` tokens, and predictions of probability zero
    impossible: int
    text_hash: int  # 64 bits of the BLAKE2b digest of the scored bytes, signed
    ended: bool = True  # Whether the log-likelihoods have the end of the document


def texts_of_split(
    path: str, split: str, *, grouped: bool = False, raw: str | None = None
) -> Iterator[ScoredText]:
    """Stream the documents of a split of a file of schema ``documents``.

    `grouped`: whether the documents of a title are a group; `raw`: file of schema ``raw``, of the
    same extraction: give the text before cleaning.
    """
    columns = ["doc_id", "split", "title"] if raw else ["doc_id", "split", "title", "text"]
    batches = read_batches(path, DOCUMENTS, columns, READ)
    for batch in _add_raw(batches, path, raw) if raw else batches:
        for row in batch.filter(pc.equal(batch.column("split"), split)).to_pylist():
            group = row["title"] or None if grouped else None
            yield ScoredText(row["doc_id"], row["text"], group)


def _add_raw(batches: Iterator[pa.RecordBatch], path: str, raw: str) -> Iterator[pa.Table]:
    """Add the texts before cleaning, which lie in the order of the documents."""
    strings = read_batches(raw, RAW, ["doc_id", "text"], READ)
    waiting = pa.table({"doc_id": pa.array([], pa.int64()), "text": pa.array([], pa.string())})
    for batch in batches:
        while len(waiting) < len(batch) and (more := next(strings, None)) is not None:
            waiting = pa.concat_tables([waiting, pa.Table.from_batches([more])])
        found, waiting = waiting.slice(0, len(batch)), waiting.slice(len(batch))
        documents = pa.Table.from_batches([batch])
        if not found.column("doc_id").equals(documents.column("doc_id")):
            raise _other_documents(path, raw)
        yield documents.append_column("text", found.column("text"))
    if len(waiting) or next(strings, None) is not None:
        raise _other_documents(path, raw)


def _other_documents(path: str, raw: str) -> InputError:
    words = f"{raw}: does not hold the documents of {path} in their order"
    return InputError(f"{words}; extract the corpus again")


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
    **options: Any,
) -> Iterator[list[DocumentRow]]:
    """Score a stream of documents without holding it, in batches in the order of the texts.

    `model`, `vocabulary`: from `models.registry.load_model`; `texts`: a plain string is a
    document without a group; its place, from 0, is its ``doc_id``; `text`: whether repeated blanks
    are one and blanks at the ends none, or the string is scored as is; `spell`: see the module;
    `count_eos`: whether log-likelihoods have the end of each document; `**options`: as in
    `likelihoods.score_encoded`.

    Raises InputError when a score is no number: that is no infinite perplexity, but a broken model.
    """
    given = (
        ScoredText(place, item) if isinstance(item, str) else item
        for place, item in enumerate(texts)
    )
    if text == "cleaned":
        given = (item._replace(text=" ".join(split_words(item.text))) for item in given)
    while part := list(islice(given, POOL)):
        strings = [item.text for item in part]
        scores = list(score_documents(model, vocabulary, strings, count_eos=count_eos, **options))
        spellings: Iterable[float | None] = [None] * len(part)
        if spell:
            spellings = spell(strings, [score.unknown for score in scores])
        of_each = zip(part, scores, spellings, strict=True)
        yield [_row(item, text, score, spelling, count_eos) for item, score, spelling in of_each]


def row_columns(rows: list[DocumentRow]) -> dict[str, pa.Array]:
    """Turn rows into the columns of schema ``document_scores``."""
    columns = zip(*rows, strict=True)
    return {
        field.name: pa.array(column, field.type)
        for field, column in zip(DOCUMENT_SCORES, columns, strict=True)
    }


def write_rows(writer: ShardWriter, rows: list[DocumentRow]) -> None:
    """Append rows to a file of schema ``document_scores``."""
    writer.write(row_columns(rows))

"""Score a text that a user brings under a model that a user brings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pyarrow as pa

from beyond_perplexity.corpus.external import GroupField, read_grouped
from beyond_perplexity.corpus.normalization import WHITE_SPACE_ONLY, Preprocessing
from beyond_perplexity.errors import InputError
from beyond_perplexity.foreign_text import remark
from beyond_perplexity.models.checkpoint import choose_device
from beyond_perplexity.models.contract import LanguageModel
from beyond_perplexity.models.families import is_taken_as_it_is
from beyond_perplexity.models.kneser_ney import KneserNey
from beyond_perplexity.models.opening import is_foreign, open_scorer
from beyond_perplexity.ngrams.arpa import read_arpa
from beyond_perplexity.ngrams.sentence_files import UnknownRule, read_grouped_sentences
from beyond_perplexity.ngrams.spelling_model import find_speller, load_speller
from beyond_perplexity.perplexities.documents import DocumentRow, ScoredText, TextKind, row_columns
from beyond_perplexity.perplexities.special_tokens import SpecialReading, require_special
from beyond_perplexity.perplexities.summary import measure
from beyond_perplexity.schemas.perplexity import DOCUMENT_SCORES
from beyond_perplexity.storage.accounts import NO_TOKEN, Account
from beyond_perplexity.storage.provenance import run_record
from beyond_perplexity.storage.shards import ShardWriter
from beyond_perplexity.vocabulary import N_SPECIAL, ClosedVocabulary, Vocabulary

FREE_SPELLING = (
    "bits per character and byte leave the spelling of {unknown:,} unknown words free: they do not "
    "compare with those of another vocabulary"
)
SPELLER_ADVICE = "; give --speller (python -m scripts.build_speller makes one)"

_WHO = "give it to every document, or to none and leave --group-column out"


def _choose_cleaning(
    description: Mapping[str, Any], cleaned: bool, tokenized: bool
) -> Preprocessing | None:
    """Return how a text is cleaned for a model; None: not at all, for one made for plain text."""
    if tokenized:
        return WHITE_SPACE_ONLY
    family = description["config"]["family"]
    if is_taken_as_it_is(family, description.get("training")) and not cleaned:
        return None
    if "source" in description and "preprocessing" not in description:
        raise InputError(
            "--cleaned: this model has no corpus whose cleaning is known; leave it out"
        )
    return Preprocessing.from_config(description.get("preprocessing", {}))


@dataclass(frozen=True)
class ScoringOptions:
    """What is scored, and how.

    Attributes
    ----------
    model : str
        A folder, or a name on the hub; see `models.opening`. With `arpa` a file.
    text : str
        Text, JSONL or Parquet; with `arpa` a sentence a line or row.
    arpa : bool
        Whether the model is an n-gram model in ARPA format.
    rule : UnknownRule
        With `arpa`: what a literal ``<unk>`` is.
    field : str or None
        Field or column of the texts; None: ``text``.
    cleaned, tokenized : bool
        Whether the text is cleaned as the model's corpus was, and whether it is cleaned already.
    context_length, stride : int or None
        See `scores.check_window`.
    count_bos, count_eos : bool
        See `summary.summarize`.
    speller : str or None
        Of the words that the vocabulary lacks; None: that of the model's folder or run.
    group_column : str or None
        Field of the documents that belong together; None: ``group`` where it is there.
    per_document : path or None
        Parquet file to write, one row a document.
    keep_documents : bool
        Whether the rows of the documents are returned.
    special_tokens : bool
        Special tokens that the text says are read as such; see `special_tokens`.
    device : str
        ``"auto"``, ``"cpu"`` or ``"cuda"``.
    """

    model: str
    text: str
    arpa: bool = False
    rule: UnknownRule = UnknownRule()  # noqa: RUF009
    field: str | None = None
    cleaned: bool = False
    tokenized: bool = False
    context_length: int | None = None
    stride: int | None = None
    count_bos: bool = False
    count_eos: bool = True
    speller: str | None = None
    group_column: str | None = None
    per_document: str | Path | None = None
    keep_documents: bool = False
    special_tokens: bool = False
    device: str = "auto"


class ScoredFile(NamedTuple):
    """What `score_file` found.

    Attributes
    ----------
    summary : dict
        See `summary.measure`; ``speller``, its path; ``special_tokens``, those that the text says
        (`special_tokens.SpecialReading.describe`).
    documents : pyarrow.Table or None
        Schema ``document_scores``, where the rows were kept.
    """

    summary: dict[str, Any]
    documents: pa.Table | None


class _Scoring(NamedTuple):
    """What is scored, and by what."""

    model: LanguageModel
    vocabulary: Vocabulary
    texts: Iterator[ScoredText]
    kind: TextKind
    speller: str | Path | None
    checkpoint: Path | None
    source: Mapping[str, Any] = MappingProxyType({})


def _groups(options: ScoringOptions) -> GroupField:
    return GroupField(options.group_column or "group", options.group_column is not None, _WHO)


def _read_texts(
    options: ScoringOptions, cleaning: Preprocessing | None, groups: GroupField
) -> Iterator[ScoredText]:
    path = Path(options.text)
    account = Account(path, "documents")
    documents = read_grouped(path, cleaning, groups, options.field, account)
    for place, (text, group) in enumerate(documents):
        if text.strip():
            yield ScoredText(place, text, group)
        else:
            account.left_out[NO_TOKEN] += 1


def _load_folder(options: ScoringOptions) -> _Scoring:
    model, opened = open_scorer(options.model, options.device)
    vocabulary = opened.vocabulary
    if options.special_tokens:
        model, vocabulary = require_special(model, vocabulary)
    cleaning = _choose_cleaning(opened.description, options.cleaned, options.tokenized)
    groups = _groups(options)
    texts = _read_texts(options, cleaning, groups)
    found = None if is_foreign(options.model) else find_speller(options.model, vocabulary)
    speller = options.speller or found
    kind: TextKind = "cleaned" if cleaning else "raw"
    weights, source = opened.weights, opened.source
    return _Scoring(model, vocabulary, texts, kind, speller, weights, source)


def _load_arpa(options: ScoringOptions) -> _Scoring:
    held = read_arpa(options.model)
    model = KneserNey.of(held.model).to(choose_device(options.device)).eval()
    vocabulary = ClosedVocabulary(held.words[N_SPECIAL:], 0)
    groups, rule = _groups(options), options.rule
    lines = enumerate(read_grouped_sentences(Path(options.text), rule, groups, options.field))
    texts = (ScoredText(place, text, group) for place, (text, group) in lines)
    return _Scoring(model, vocabulary, texts, "cleaned", None, Path(options.model))


def _writer(options: ScoringOptions, scoring: _Scoring) -> ShardWriter:
    flags = {
        "cleaned": options.cleaned,
        "tokenized": options.tokenized,
        "no_count_eos": not options.count_eos,
        **({"special_tokens": True} if options.special_tokens else {}),
        **scoring.source,
    }
    device, checkpoint = str(scoring.model.device), scoring.checkpoint
    record = run_record("scripts/perplexity.py", flags, device=device, checkpoint=checkpoint)
    return ShardWriter(str(options.per_document), DOCUMENT_SCORES, record)


def score_file(options: ScoringOptions) -> ScoredFile:
    """Score a file under a model; a row a document is kept at most, where it is asked for.

    Parameters
    ----------
    options : ScoringOptions

    Raises
    ------
    InputError
        When the model, the speller or the text cannot be used; names file and line.
    """
    scoring = _load_arpa(options) if options.arpa else _load_folder(options)
    vocabulary, speller = scoring.vocabulary, scoring.speller
    how: dict[str, Any] = {
        "text": scoring.kind,
        "context_length": options.context_length,
        "stride": options.stride,
        "count_eos": options.count_eos,
    }
    special = SpecialReading(scoring.model, vocabulary, how, options.special_tokens)
    kept: list[pa.Table] = []
    with ExitStack() as stack:
        takers: list[Callable[[pa.Table], object]] = []
        if options.per_document:
            takers.append(stack.enter_context(_writer(options, scoring)).write)
        if options.keep_documents:
            takers.append(kept.append)

        def write(rows: list[DocumentRow]) -> None:
            table = pa.table(row_columns(rows), DOCUMENT_SCORES)
            for take in takers:
                take(table)

        summary = measure(
            scoring.model,
            vocabulary,
            special.watch(scoring.texts),
            spell=load_speller(speller, vocabulary).spell if speller else None,
            write=write if takers else None,
            count_bos=options.count_bos,
            **how,
        )
    summary["special_tokens"] = special.describe()
    if special.remark:
        remark(special.remark)
    summary["speller"] = str(speller) if speller else None
    if summary["unknown"] and isinstance(vocabulary, ClosedVocabulary) and not speller:
        advice = "" if options.arpa else SPELLER_ADVICE
        remark(FREE_SPELLING.format(unknown=summary["unknown"]) + advice)
    return ScoredFile(summary, pa.concat_tables(kept) if kept else None)

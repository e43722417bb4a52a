"""Score a text that a user brings under a model that a user brings.

A text is any string, and a special token that it says, as ``<|endoftext|>``, characters to us. To
transformers' tokenizers, and so to lm-evaluation-harness, it is that token, which is another text
with other bits per byte: one with an end in its middle.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from itertools import chain, islice
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pyarrow as pa
import torch

from beyond_perplexity.corpus.normalization import WHITE_SPACE_ONLY
from beyond_perplexity.errors import InputError
from beyond_perplexity.foreign_text import remark
from beyond_perplexity.models.contract import LanguageModel
from beyond_perplexity.models.in_memory import hold, in_float32, narrow_parts
from beyond_perplexity.models.kneser_ney import open_arpa
from beyond_perplexity.models.registry import cleaning_of, is_foreign, open_scorer
from beyond_perplexity.ngrams.sentence_files import UnknownRule, read_grouped_sentences
from beyond_perplexity.ngrams.spelling_model import find_spelling_model, load_spelling_model
from beyond_perplexity.perplexities.options import ScoringOptions
from beyond_perplexity.perplexities.score_files import tokens_table
from beyond_perplexity.perplexities.scored_texts import filled_documents, group_field, group_of
from beyond_perplexity.perplexities.summary import ScoredText, TextKind, measure, score_rows
from beyond_perplexity.perplexities.words import word_surprisals
from beyond_perplexity.schemas.perplexity import DOCUMENT_SCORES, TOKEN_SCORES, WORD_SURPRISALS
from beyond_perplexity.signature import changed
from beyond_perplexity.storage.provenance import run_record
from beyond_perplexity.storage.shards import ShardWriter
from beyond_perplexity.vocabulary import BOS, EOS, BPEVocabulary, ClosedVocabulary, Vocabulary

_AT_ONCE = 64  # texts that are scored again
SAMPLE = 64  # documents that are scored in float32 too
_NAMED = 3  # tokens that are named at most


def special_ids(vocabulary: Vocabulary) -> dict[str, int]:
    """Return the strings that other programs may read as special tokens, with our ids of these."""
    return getattr(vocabulary, "special_tokens", {"<s>": BOS, "</s>": EOS})


def finder(vocabulary: Vocabulary) -> re.Pattern[str]:
    """Return the pattern of the special tokens of a tokenizer, the longest first."""
    known = sorted(special_ids(vocabulary), key=len, reverse=True)
    return re.compile("|".join(map(re.escape, known)) or "(?!)")


def said_words(counts: Counter[str]) -> str:
    """Return which tokens were said, and how often; empty where there is none."""
    named = ", ".join(token for token, _ in counts.most_common(_NAMED))
    named += ", ..." if len(counts) > _NAMED else ""
    return f"{named} ({counts.total():,} times)" if counts else ""


def read_special(model: Any, vocabulary: Any) -> tuple[LanguageModel, Vocabulary] | None:
    """Return a model and its tokenizer as other programs use them; None: it is no other's."""
    if not hasattr(vocabulary, "with_special_tokens"):
        return None
    found: Any = vocabulary.with_special_tokens()
    return model.with_impossible(found.impossible), found


class SpecialReading:
    """Watches texts on their way, and scores those that say special tokens again, by options of
    `documents.score_rows`; nothing again with `as_tokens`, where `read_special` made the model."""

    def __init__(
        self,
        model: LanguageModel,
        vocabulary: Vocabulary,
        options: Mapping[str, Any],
        as_tokens: bool,
    ) -> None:
        self._own, self._options, self._as_tokens = (model, vocabulary), options, as_tokens
        self._other = read_special(model, vocabulary)
        self._said: Counter[str] = Counter()
        self._documents = self._bytes = 0
        self._nats = {"characters": 0.0, "tokens": 0.0}

    def watch(self, texts: Iterable[ScoredText]) -> Iterator[ScoredText]:
        """Let texts pass."""
        find, held = finder(self._own[1]).findall, list[ScoredText]()
        for item in texts:
            if self._other and (found := find(item.text)):
                self._said.update(found)
                self._documents += 1
                held.append(item)
            if len(held) == _AT_ONCE:
                self._score(held)
                held.clear()
            yield item
        self._score(held)

    def _score(self, held: list[ScoredText]) -> None:
        if self._as_tokens or not held or self._other is None:
            return
        for name, (model, vocabulary) in (("characters", self._own), ("tokens", self._other)):
            for rows in score_rows(model, vocabulary, held, **self._options):
                self._nats[name] -= sum(row.log_likelihood for row in rows)
                self._bytes += sum(row.bytes + row.ended for row in rows) * (name == "tokens")

    def describe(self) -> dict[str, Any] | None:
        """Return what was found, JSON-safe, None where no text says one, and remark on it;
        ``bits_per_byte`` is of these documents, either way, null if infinite or not asked for."""
        if not self._documents:
            return None
        bits = {
            name: nats / self._bytes / math.log(2) if self._bytes and math.isfinite(nats) else None
            for name, nats in self._nats.items()
        }
        if not self._as_tokens:
            characters, tokens = (
                "infinite" if value is None else f"{value:.3f}" for value in bits.values()
            )
            remark(
                f"{self._documents:,} documents say {said_words(self._said)}, which is read as "
                f"characters: {characters} bits per byte in them, {tokens} as a token, as "
                "transformers and lm-evaluation-harness read it; give special tokens for that"
            )
        return {
            "read_as": "tokens" if self._as_tokens else "characters",
            "said": dict(self._said),
            "documents": self._documents,
            "bits_per_byte": bits,
        }


FREE_SPELLING = (
    "bits per character and byte leave the spelling of {unknown:,} unknown words free: they do not "
    "compare with those of another vocabulary"
)
SPELLING_ADVICE = "; give a spelling model (python -m scripts.build_spelling_model makes one)"


class Scoring(NamedTuple):
    """What is scored, by what, and how."""

    options: ScoringOptions

    model: LanguageModel
    vocabulary: Vocabulary
    texts: Iterator[ScoredText]
    kind: TextKind
    spelling_model: str | Path | None
    checkpoint: Path | None
    source: Mapping[str, Any] = MappingProxyType({})


def _load_folder(options: ScoringOptions) -> Scoring:
    name = str(options.model)
    model, opened = open_scorer(name, options.device)
    vocabulary = opened.vocabulary
    if options.special_tokens:
        special = read_special(model, vocabulary)
        if special is None:
            raise InputError(
                "special tokens: is for models of Hugging Face; the tokenizer of this one knows no "
                "special tokens in a text: leave it out"
            )
        model, vocabulary = special
    how = {"cleaned": options.cleaned, "tokenized": options.tokenized}
    cleaning = cleaning_of(opened.description, **how)
    found = None if is_foreign(name) else find_spelling_model(name, vocabulary)
    kind: TextKind = "cleaned" if cleaning else "raw"
    texts, spelling_model = filled_documents(options, cleaning), options.spelling_model or found
    files = opened.weights, opened.source
    return Scoring(options, model, vocabulary, texts, kind, spelling_model, *files)


def _load_held(options: ScoringOptions) -> Scoring:
    model, vocabulary = hold(options.model, options.tokenizer)
    words = isinstance(vocabulary, ClosedVocabulary | BPEVocabulary)
    texts = filled_documents(options, WHITE_SPACE_ONLY if words else None)
    source = {"model": type(options.model).__name__}
    kind: TextKind = "cleaned" if words else "raw"
    return Scoring(options, model, vocabulary, texts, kind, None, None, source)


def _load_arpa(options: ScoringOptions) -> Scoring:
    path = Path(str(options.model))
    model, vocabulary = open_arpa(path, options.device)
    groups, rule = group_field(options), UnknownRule(options.unk_as, options.unk_as_unknown)
    lines = enumerate(read_grouped_sentences(options.texts, rule, groups, options.field))
    texts = (ScoredText(k, text, group_of(k, group, options)) for k, (text, group) in lines)
    return Scoring(options, model, vocabulary, texts, "cleaned", None, path)


def _record(scoring: Scoring) -> dict[str, object]:
    options = scoring.options
    flags = {key: getattr(options, key) for key in ("cleaned", "tokenized", "no_count_eos")}
    flags |= {"special_tokens": True} if options.special_tokens else {}
    flags |= scoring.source
    device, checkpoint = str(scoring.model.device), scoring.checkpoint
    return run_record(
        "beyond_perplexity/commands/perplexity.py", flags, device=device, checkpoint=checkpoint
    )


def load_scoring(options: ScoringOptions) -> Scoring:
    """Load the model; the texts, a path or `HeldTexts`, are not read before they are scored."""
    if not isinstance(options.model, str | Path):
        return _load_held(options)
    return _load_arpa(options) if options.arpa else _load_folder(options)


def _in_both(
    scoring: Scoring, how: Mapping[str, Any]
) -> tuple[Iterator[ScoredText], dict[str, Any] | None]:
    """Score the first texts in float32 and in a lower precision, which the model then has; give all
    texts, and what the precision moves, None where it is float32."""
    model, wanted = scoring.model, scoring.options.dtype
    narrow = narrow_parts(model)  # of a model in memory
    stored = str(getattr(model, "stored", "float32")).removeprefix("torch.")
    kind = narrow[0].dtype if narrow else getattr(torch, stored if wanted == "auto" else wanted)
    if kind == torch.float32:
        return scoring.texts, None
    first = list(islice(scoring.texts, SAMPLE))

    def bits() -> float:
        parts = score_rows(model, scoring.vocabulary, first, **how)
        rows = [row for part in parts for row in part]
        nats = -sum(row.log_likelihood for row in rows)
        return nats / max(1, sum(row.bytes + row.ended for row in rows)) / math.log(2)

    with in_float32(model):
        exact = bits()
    model.to(kind)
    name = str(kind).removeprefix("torch.")
    found = {"float32": exact, name: bits()}
    return chain(first, scoring.texts), {
        "dtype": name,
        "documents": len(first),
        "bits_per_byte": found,
    }


@contextmanager
def _writing(
    scoring: Scoring,
    record: dict[str, object],
    of_token: dict[str, object],
    kept: list[pa.Table],
) -> Iterator[dict[str, Any]]:
    """Open the files that are asked for, and give what fills them, as `measure` takes it;
    `of_token` is the record of files whose rows are less than documents."""
    options, found = scoring.options, dict[str, Any]()
    of_tokens: list[Callable[..., object]] = []
    takers: list[Callable[[pa.Table], object]] = [kept.append] if options.per_document else []
    with ExitStack() as stack:
        if not isinstance(options.per_document, bool):
            writer = ShardWriter(str(options.per_document), DOCUMENT_SCORES, record)
            takers.append(stack.enter_context(writer).write)
        if options.per_token:
            rows = stack.enter_context(ShardWriter(options.per_token, TOKEN_SCORES, of_token))
            of_tokens.append(lambda *scored: rows.write(tokens_table(*scored)))
        if options.per_word:
            words = stack.enter_context(ShardWriter(options.per_word, WORD_SURPRISALS, of_token))
            given = scoring.model, scoring.vocabulary, (options.context_length, options.stride)
            of_tokens.append(lambda *scored: words.write(word_surprisals(*given, *scored)))
        if of_tokens:
            found["tokens"] = lambda *scored: [take(*scored) for take in of_tokens]
        if takers:
            found["write"] = lambda table: [take(table) for take in takers]
        yield found


def score_given(scoring: Scoring) -> tuple[dict[str, Any], pa.Table | None]:
    """Score texts under a model: the summary of `summary.measure`, with ``spelling_model``, its
    path, and ``special_tokens`` of the text, and where asked for ``document_scores``."""
    options, vocabulary = scoring.options, scoring.vocabulary
    spelling_model = scoring.spelling_model
    how: dict[str, Any] = {
        "text": scoring.kind,
        "context_length": options.context_length,
        "stride": options.stride,
        "count_eos": not options.no_count_eos,
    }
    texts, precision = _in_both(scoring, how)
    special = SpecialReading(scoring.model, vocabulary, how, options.special_tokens)
    kept: list[pa.Table] = []
    files = options.per_token, options.per_word
    writes = any(files) or not isinstance(options.per_document, bool)
    record = _record(scoring) if writes else {}
    of_token = dict(record)
    with _writing(scoring, record, of_token, kept) as taken:
        summary = measure(
            scoring.model,
            vocabulary,
            special.watch(texts),
            spell=load_spelling_model(spelling_model, vocabulary).spell if spelling_model else None,
            count_bos=options.count_bos,
            special="tokens" if options.special_tokens else "characters",
            unk="unknown" if options.unk_as_unknown else str(options.unk_as or "none"),
            **how,
            **taken,
        )
        if precision:
            summary["signature"] = changed(summary["signature"], dtype=precision["dtype"])
        line = summary["signature"]
        record["signature"] = {scoring.kind: line}
        # A spelling model knows whole words of documents: tokens are without it.
        line = changed(line, spelling="no") if "open_vocabulary" in summary else line
        of_token["signature"] = {scoring.kind: line}
    summary["special_tokens"], summary["precision"] = special.describe(), precision
    summary["rows"] = getattr(scoring.model, "by_row", None)
    summary["spelling_model"] = str(spelling_model) if spelling_model else None
    if summary["unknown"] and isinstance(vocabulary, ClosedVocabulary) and not spelling_model:
        advice = "" if options.arpa else SPELLING_ADVICE
        remark(FREE_SPELLING.format(unknown=summary["unknown"]) + advice)
    return summary, pa.concat_tables(kept) if kept else None

"""Score a text file under a model: JSON with the perplexity in all its definitions."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import torch

from beyond_perplexity.arguments import THREADS, CommandParser, output_file, whole
from beyond_perplexity.corpus.external import GroupField, read_grouped
from beyond_perplexity.corpus.normalization import WHITE_SPACE_ONLY, Preprocessing
from beyond_perplexity.errors import InputError
from beyond_perplexity.foreign_text import remark, say
from beyond_perplexity.models.checkpoint import choose_device
from beyond_perplexity.models.contract import LanguageModel
from beyond_perplexity.models.families import is_taken_as_it_is
from beyond_perplexity.models.kneser_ney import KneserNey
from beyond_perplexity.models.opening import is_foreign, open_scorer
from beyond_perplexity.ngrams.arpa_reader import read_arpa
from beyond_perplexity.ngrams.sentence_files import read_sentence_texts
from beyond_perplexity.ngrams.summary import summarize_arpa
from beyond_perplexity.ngrams.text import UnknownRule
from beyond_perplexity.schemas.perplexity import DOCUMENT_SCORES
from beyond_perplexity.scoring.documents import ScoredText, TextKind, write_rows
from beyond_perplexity.scoring.speller.speller import find_speller, load_speller
from beyond_perplexity.scoring.summary import measure
from beyond_perplexity.storage.provenance import run_record
from beyond_perplexity.storage.shards import ShardWriter
from beyond_perplexity.vocabulary import N_SPECIAL, ClosedVocabulary, Vocabulary

FREE_SPELLING = (
    "bits per character and byte leave the spelling of {unknown:,} unknown words free: they do not "
    "compare with those of another vocabulary; give --speller (made by scripts.build_speller)"
)

_WHO = "give it to every document, or to none and leave --group-column out"
TEXTS = """A model that comes trained and is trained no further reads the text as it is, others what
is cleaned like their corpus; "text" in the output says which was scored."""


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


def _read_options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = CommandParser(description=__doc__, epilog=TEXTS)
    add = parser.add_argument
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument(
        "--model", help="folder of a model: of a run or of Hugging Face; or its name on the hub"
    )
    which.add_argument("--arpa", help="n-gram model: ARPA file; .gz means gzip, any other plain")
    add(
        "--text",
        required=True,
        help="text, JSONL or Parquet by its suffix, one document a line or row; with --arpa a "
        "sentence, which is read as it is",
    )
    add("--field", help="field or column of the texts in JSONL or Parquet (default: text)")
    add("--json", action="store_true", help="with --arpa: one flat JSON object")
    add("--unk-as", metavar="WORD", help="with --arpa: a literal <unk> is this ordinary word")
    add("--unk-as-unknown", action="store_true", help="with --arpa: it is the unknown word")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--cleaned", action="store_true", help="clean the text as the model's corpus")
    form.add_argument("--tokenized", action="store_true", help="the text is cleaned already")
    add(
        "--context-length",
        type=whole(1),
        help="tokens that a prediction sees (default: the model's)",
    )
    add(
        "--stride",
        type=whole(1),
        help="predictions that each window adds (default: half the context)",
    )
    add("--count-bos", action="store_true", help="count <s> in every N, as the tutorial does")
    add("--no-count-eos", action="store_true", help="leave </s> out of log P and of every N")
    add(
        "--speller",
        help="speller of the words that the vocabulary lacks (default: speller.json in the model "
        "folder, or that of the run which the folder is of)",
    )
    add("--group-column", help="field of the documents that belong together (default: group)")
    add("--per-document", type=output_file, help="Parquet file to write, one row a document")
    add("--threads", type=THREADS, default=1, help="CPU threads (default 1)")
    add("--device", default="auto", help="auto, cpu or cuda (default auto)")
    return parser.parse_args(arguments)


FOLDER_FLAGS = ("cleaned", "tokenized", "speller", "group_column")
SUMMARY_FLAGS = ("context_length", "stride", "count_bos", "no_count_eos", "per_document")


class Scoring(NamedTuple):
    """What is scored, and by what."""

    model: LanguageModel
    vocabulary: Vocabulary
    texts: Iterator[ScoredText]
    kind: TextKind
    speller: str | Path | None
    checkpoint: Path | None
    source: Mapping[str, Any] = MappingProxyType({})


def _refuse(options: argparse.Namespace, names: Sequence[str], reason: str) -> None:
    for name in names:
        if getattr(options, name):
            raise InputError(f"--{name.replace('_', '-')}: {reason}; leave it out")


def _load_folder(options: argparse.Namespace) -> Scoring:
    _refuse(options, ("unk_as", "unk_as_unknown"), "goes with --arpa alone")
    model, opened = open_scorer(options.model, options.device)
    vocabulary = opened.vocabulary
    cleaning = _choose_cleaning(opened.description, options.cleaned, options.tokenized)
    groups = GroupField(options.group_column or "group", options.group_column is not None, _WHO)
    documents = enumerate(read_grouped(Path(options.text), cleaning, groups, options.field))
    texts = (ScoredText(place, text, group) for place, (text, group) in documents if text.strip())
    found = None if is_foreign(options.model) else find_speller(options.model, vocabulary)
    speller = options.speller or found
    kind: TextKind = "cleaned" if cleaning else "raw"
    weights, source = opened.weights, opened.source
    return Scoring(model, vocabulary, texts, kind, speller, weights, source)


def _load_arpa(options: argparse.Namespace, rule: UnknownRule) -> Scoring:
    held = read_arpa(options.arpa)
    model = KneserNey.of(held.model).to(choose_device(options.device)).eval()
    vocabulary = ClosedVocabulary(held.words[N_SPECIAL:], 0)
    lines = enumerate(read_sentence_texts([options.text], rule, options.field))
    texts = (ScoredText(place, text) for place, text in lines)
    return Scoring(model, vocabulary, texts, "cleaned", None, Path(options.arpa))


def _summarize(options: argparse.Namespace, scoring: Scoring) -> dict[str, Any]:
    vocabulary, speller = scoring.vocabulary, scoring.speller
    with ExitStack() as stack:
        write = None
        if options.per_document:
            record = run_record(
                "scripts/perplexity.py",
                {
                    "cleaned": options.cleaned,
                    "tokenized": options.tokenized,
                    "no_count_eos": options.no_count_eos,
                    **scoring.source,
                },
                device=str(scoring.model.device),
                checkpoint=scoring.checkpoint,
            )
            writer = ShardWriter(options.per_document, DOCUMENT_SCORES, record)
            write = partial(write_rows, stack.enter_context(writer))
        summary = measure(
            scoring.model,
            vocabulary,
            scoring.texts,
            text=scoring.kind,
            spell=load_speller(speller, vocabulary).spell if speller else None,
            write=write,
            context_length=options.context_length,
            stride=options.stride,
            count_eos=not options.no_count_eos,
            count_bos=options.count_bos,
        )
    summary["speller"] = str(speller) if speller else None
    if isinstance(vocabulary, ClosedVocabulary) and not speller:
        remark(FREE_SPELLING.format(unknown=summary["unknown"]))
    return summary


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command; see the module.

    Parameters
    ----------
    arguments : sequence of str, optional
        Those of the process by default.
    """
    options = _read_options(arguments)
    torch.set_num_threads(options.threads)
    if options.arpa:
        _refuse(options, FOLDER_FLAGS, "goes not with --arpa, whose text is read as it is")
        rule = UnknownRule(options.unk_as, options.unk_as_unknown)
        if options.json:
            _refuse(options, SUMMARY_FLAGS, "goes not with --json")
            summary = summarize_arpa(read_arpa(options.arpa), [options.text], rule, options.field)
        else:
            summary = _summarize(options, _load_arpa(options, rule))
    else:
        summary = _summarize(options, _load_folder(options))
    json.dump(summary, sys.stdout, indent=2, sort_keys=True)
    say()

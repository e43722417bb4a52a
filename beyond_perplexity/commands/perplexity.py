"""Score a text file under a model: JSON with the perplexity in all its definitions."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from beyond_perplexity.arguments import COUNT, THREADS, CommandParser, output_file
from beyond_perplexity.errors import InputError
from beyond_perplexity.foreign_text import say
from beyond_perplexity.library.calls import for_command
from beyond_perplexity.library.perplexity import perplexity

TEXTS = """A model that comes trained and is trained no further reads the text as it is, others what
is cleaned like their corpus; "text" in the output says which was scored."""


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
        type=COUNT,
        help="tokens that a prediction sees (default: the model's)",
    )
    add(
        "--stride",
        type=COUNT,
        help="predictions that each window adds (default: half the context)",
    )
    add("--count-bos", action="store_true", help="count <s> in every N, as the tutorial does")
    add("--no-count-eos", action="store_true", help="leave </s> out of log P and of every N")
    add(
        "--special-tokens",
        action="store_true",
        help="read special tokens that the text says, such as <|endoftext|>, as those tokens, as "
        "lm-eval does (default: as characters)",
    )
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


# What the flat object has no place for.
SUMMARY_FLAGS = (
    "cleaned",
    "tokenized",
    "speller",
    "group_column",
    "context_length",
    "stride",
    "count_bos",
    "no_count_eos",
    "special_tokens",
    "per_document",
)


def _refuse(options: argparse.Namespace, names: Sequence[str]) -> None:
    for name in names:
        if getattr(options, name):
            raise InputError(f"--{name.replace('_', '-')}: goes not with --json; leave it out")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command; see the module.

    Parameters
    ----------
    arguments : sequence of str, optional
        Those of the process by default.
    """
    options = _read_options(arguments)
    given = vars(options).copy()
    model, arpa, as_json = (given.pop(name) for name in ("model", "arpa", "json"))
    if arpa and as_json:
        _refuse(options, SUMMARY_FLAGS)
        if options.device != "auto":
            raise InputError("--device: goes not with --json, which needs no torch; leave it out")
        summary = _summarize(options)
    else:
        given["per_document"] = given["per_document"] or False
        score, text = for_command(perplexity), given.pop("text")
        found = score(model or arpa, text, arpa=bool(arpa), **given)
        summary = {**found.summary, "files": found.files}
    json.dump(summary, sys.stdout, indent=2, sort_keys=True)
    say()


def _summarize(options: argparse.Namespace) -> object:
    """Return the flat object of an n-gram model, which needs no torch."""
    from beyond_perplexity.ngrams.arpa import read_arpa, summarize_arpa
    from beyond_perplexity.ngrams.sentence_files import UnknownRule
    from beyond_perplexity.storage.accounts import accounts_told

    rule = UnknownRule(options.unk_as, options.unk_as_unknown)
    with accounts_told() as read:
        found = summarize_arpa(read_arpa(options.arpa), [options.text], rule, options.field)
    return {**found, "files": read}

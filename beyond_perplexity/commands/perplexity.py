"""Score a text file under a model: JSON with the perplexity in all its definitions."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from beyond_perplexity.arguments import CommandParser, add_flags
from beyond_perplexity.errors import InputError
from beyond_perplexity.foreign_text import say
from beyond_perplexity.library.perplexity import perplexity
from beyond_perplexity.models.served.protocols import ASKED
from beyond_perplexity.perplexities.options import ScoringOptions
from beyond_perplexity.signature import sign
from beyond_perplexity.storage.accounts import accounts_told, tell

TEXTS = """A model that comes trained and is trained no further reads the text as it is, others what
is cleaned like their corpus; "text" in the output says which was scored. A server is
sent texts as they are; it is asked first what it can do."""
# What the flat object has no place for.
_COUNTED = ("context_length", "stride", "count_bos", "no_count_eos", "special_tokens")
_ROWS = ("per_document", "per_token", "per_word")
SUMMARY_FLAGS = (
    *("cleaned", "tokenized", "spelling_model", "group_column", *_COUNTED, *_ROWS),
    *("served_model", "beginning", "end"),
)


def _read_options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = CommandParser(description=__doc__, epilog=TEXTS)
    which = parser.add_mutually_exclusive_group(required=True)
    add_flags(which, ScoringOptions, "model", "url")
    which.add_argument("--arpa", help="n-gram model: ARPA file; .gz means gzip, any other plain")
    add_flags(parser, ScoringOptions, "texts", "field")
    parser.add_argument("--json", action="store_true", help="with --arpa: one flat JSON object")
    add_flags(parser, ScoringOptions, "unk_as", "unk_as_unknown")
    add_flags(parser, ScoringOptions, *ASKED)
    form = parser.add_mutually_exclusive_group()
    add_flags(form, ScoringOptions, "cleaned", "tokenized")
    names = (*_COUNTED, "spelling_model", "group_column", *_ROWS, "dtype", "threads", "device")
    add_flags(parser, ScoringOptions, *names)
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command, with the options of the process by default."""
    options = _read_options(arguments)
    given = vars(options).copy()
    model, arpa, as_json = (given.pop(name) for name in ("model", "arpa", "json"))
    if arpa and as_json:
        wrong = [name for name in SUMMARY_FLAGS if getattr(options, name)]
        if wrong:
            named = wrong[0].replace("_", " ")
            raise InputError(f"{named}: cannot be combined with json; leave it out")
        if options.dtype != "float32":
            raise InputError("dtype: cannot be combined with json; leave it out")
        if options.device != "auto":
            raise InputError("device: cannot be combined with json, for which no torch is needed")
        summary = _summarize(options)
    else:
        given["per_document"] = given["per_document"] or False
        given["arpa"] = None if options.url else bool(arpa)
        found = perplexity(model or arpa, given.pop("texts"), **given)
        tell(found.files)
        summary = {**found.summary, "files": found.files}
    json.dump(summary, sys.stdout, indent=2, sort_keys=True)
    say()


def _summarize(options: argparse.Namespace) -> object:
    """Return the flat object of an n-gram model, which needs no torch."""
    from beyond_perplexity.ngrams.arpa import read_arpa, summarize_arpa
    from beyond_perplexity.ngrams.sentence_files import UnknownRule

    rule = UnknownRule(options.unk_as, options.unk_as_unknown)
    with accounts_told() as read:
        found = summarize_arpa(read_arpa(options.arpa), [options.texts], rule, options.field)
    unk = "unknown" if options.unk_as_unknown else str(options.unk_as or "none")
    how = {"text": "cleaned", "eos": True, "bos": False, "spelling": not found["oov"], "unk": unk}
    return {**found, "signature": sign("bpb", **how), "files": read}

"""Tokenize lines of text by Moses or ICU: a filter from standard input to standard output.

    beyond-perplexity tokenize --language en < raw > tokens

Line i of the output belongs to line i of the input. The cleaning steps are off unless asked for.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from beyond_perplexity.arguments import CommandParser
from beyond_perplexity.corpus.moses import CHUNK, LANGUAGES
from beyond_perplexity.corpus.normalization import Preprocessing, watched
from beyond_perplexity.errors import InputError
from beyond_perplexity.storage.accounts import Account, accounts_told

STEPS = {
    "replace_unicode_punctuation": "ASCII for full-width and typographic punctuation",
    "normalize_punctuation": "normalize quotes, dashes and the blanks around punctuation",
    "remove_non_printing": "blanks for control, format and unassigned characters",
    "lower_case": "lower case",
    "remove_accents": "drop accents and other non-spacing marks",
}


def _decoded(lines: Iterable[bytes]) -> Iterator[str]:
    for number, line in enumerate(lines, start=1):
        try:
            yield line.rstrip(b"\n").decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            where = f"stdin: line {number}, byte {error.start + 1}"
            raise InputError(f"{where}: not UTF-8 text; convert it, e.g. with iconv") from error


def _parse_arguments(arguments: Sequence[str] | None) -> Preprocessing:
    parser = CommandParser(description=__doc__, raw=True)
    languages = f"of moses one of {', '.join(LANGUAGES)} (default en)"
    parser.add_argument("--language", default="en", help=languages)
    tokenizers = "moses (default); icu, also for scripts without blanks; or none: clean only"
    parser.add_argument("--tokenizer", default="moses", help=tokenizers)
    for name, meaning in STEPS.items():
        parser.add_argument(f"--{name.replace('_', '-')}", action="store_true", help=meaning)
    return Preprocessing.from_config(vars(parser.parse_args(arguments)))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command, with the options of the process by default."""
    preprocessing = _parse_arguments(arguments)
    with accounts_told(), watched(preprocessing, "stdin") as clean:
        account = Account("stdin", "lines")
        lines = _decoded(sys.stdin.buffer)
        while batch := list(islice(lines, CHUNK)):
            sys.stdout.buffer.write("".join(f"{t}\n" for t in clean(batch)).encode())
            account.read += len(batch)
        account.close(None if sys.stdin.buffer.read(1) else account.read)

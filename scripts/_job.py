"""How a script becomes a command: its flags stand above its main function, which gets them."""

from __future__ import annotations

import argparse
import gc
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from beyond_perplexity.arguments import COUNT, ITEM, THREADS, CommandParser, output_file
from beyond_perplexity.errors import run_command
from beyond_perplexity.options import json_object

Flag = Callable[[CommandParser], object]
# Flags that change no number, and so are in no record.
_UNDETERMINING = ("output", "summary", "correlations", "pair_scores", "threads")


class Given(argparse.Namespace):
    """The flags of a command as they were given, and the records of what it makes."""

    script: ClassVar[str]

    def determining(self) -> dict[str, object]:
        """Return the flags that change a number."""
        return {key: value for key, value in vars(self).items() if key not in _UNDETERMINING}

    def record(self, options: dict[str, object] | None = None, **more: Any) -> dict[str, object]:
        """Start the record of a job; `options` in place of its flags."""
        from beyond_perplexity.storage.provenance import run_record

        given = vars(self) if options is None else options
        return run_record(self.script, given, seed=getattr(self, "seed", None), **more)

    def model_record(
        self, model: Any, options: dict[str, object] | None = None
    ) -> dict[str, object]:
        """Start the record of a job that runs a model; `options` in place of its flags."""
        from beyond_perplexity.models.registry import WEIGHTS

        checkpoint = f"{self.model}/{WEIGHTS}"
        given = self.determining() if options is None else options
        return self.record(given, device=str(model.device), checkpoint=checkpoint)


def flag(name: str, words: str, kind: Any = None, **more: Any) -> Flag:
    """Declare a flag by its help and type; `more` are further arguments of `add_argument`."""
    if kind is not None:
        more["type"] = kind
    return lambda parser: parser.add_argument(name, help=words, **more)


def needed(name: str, words: str, kind: Any = None, **more: Any) -> Flag:
    """Declare a flag that must be given."""
    return flag(name, words, kind, required=True, **more)


def json_flag(name: str, words: str, **more: Any) -> Flag:
    """Declare a flag whose value is a JSON object; left out, it is empty."""
    return flag(name, words, json_object, default={}, **more)


def output(name: str, words: str, *, required: bool = True, **more: Any) -> Flag:
    """Declare a flag that names a file to write."""
    return flag(name, words, output_file, required=required, **more)


def shards(name: str, words: str, *, required: bool = True) -> Flag:
    """Declare a flag of files in order; ``x/{00000..00019}.parquet`` stands for twenty."""

    def declare(parser: CommandParser) -> None:
        from beyond_perplexity.storage.shards import FileRanges

        how: Any = {"nargs": "+" if required else "*", "default": [], "action": FileRanges}
        how |= {"required": required} if name.startswith("-") else {}
        parser.add_argument(name, help=words, **how)

    return declare


def on_device(parser: CommandParser) -> None:
    """Declare the flags that say where a job runs."""
    parser.add_argument("--threads", type=THREADS, default=1, help="CPU threads (default 1)")
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda (default auto)")


_YES_OR_NO = argparse.BooleanOptionalAction
READING = (
    flag("--maximum-tokens", "tokens that are read of a document", COUNT, nargs="?"),
    flag("--minimum-tokens", "of a document to be read", ITEM, default=0),
)
COUNTING = (
    *READING,
    flag("--stop-words", "gensim, nltk, language:CODE, or a file", default="gensim"),
    flag("--count-s-symbols", "category S* is symbols", action=_YES_OR_NO, default=True),
)
OF_REFERENCE = (
    flag("--first", "documents of the reference: so many, the first ones", ITEM),
    flag("--group-column", "column of the reference with the group of a document", nargs="?"),
)


def leave_out_pandas() -> None:
    """Let pyarrow look for pandas in vain, which it would import with the first list that it is
    given; a job that needs pandas imports it itself."""
    if "pandas" not in sys.modules:
        found, sys.path = sys.path, []
        pa.array([])
        sys.path = found


def job(*flags: Flag) -> Callable[[Callable[[Given], None]], Callable[[], None]]:
    """Make a command of a function of its flags, the last of its module: ``python -m`` runs it."""

    def decorate(work: Callable[[Given], None]) -> Callable[[], None]:
        module = sys.modules[work.__module__]
        kind = type("Given", (Given,), {"script": f"scripts/{Path(str(module.__file__)).name}"})

        @wraps(work)
        def main() -> None:
            parser = CommandParser(description=module.__doc__)
            for declare in flags:
                declare(parser)
            work(parser.parse_args(namespace=kind()))

        if module.__name__ == "__main__":
            leave_out_pandas()
            gc.freeze()  # what is imported stays to the end, and is not looked through then
            gc.set_threshold(10_000)
            gc.enable()
            run_command(main)
        return main

    return decorate

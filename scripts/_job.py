"""How a script becomes a command: its flags stand above its main function, which gets them."""

from __future__ import annotations

import argparse
import gc
import sys
from collections.abc import Callable
from functools import wraps
from typing import Any

from beyond_perplexity.arguments import COUNT, ITEM, THREADS, CommandParser
from beyond_perplexity.errors import run_command

Given = argparse.Namespace
Flag = Callable[[CommandParser], object]
# Flags that change no number, and so are in no record.
_UNDETERMINING = ("output", "summary", "correlations", "pair_scores", "threads")


def flag(name: str, words: str, kind: Any = None, **more: Any) -> Flag:
    """Declare a flag by its help and type; `more` are further arguments of `add_argument`."""
    if kind is not None:
        more["type"] = kind
    return lambda parser: parser.add_argument(name, help=words, **more)


def needed(name: str, words: str, kind: Any = None, **more: Any) -> Flag:
    """Declare a flag that must be given."""
    return flag(name, words, kind, required=True, **more)


def on_device(parser: CommandParser) -> None:
    """Declare the flags that say where a job runs."""
    parser.add_argument("--threads", type=THREADS, default=1, help="CPU threads (default 1)")
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda (default auto)")


READING = (
    flag("--maximum-tokens", "tokens that are read of a document", COUNT, nargs="?"),
    flag("--minimum-tokens", "of a document to be read", ITEM, default=0),
)
COUNTED_WORDS = (
    flag("--stop-words", "gensim, nltk, language:CODE, or a file", default="gensim"),
    flag(
        "--count-s-symbols",
        "category S* is symbols",
        action=argparse.BooleanOptionalAction,
        default=True,
    ),
)
OF_REFERENCE = (
    flag("--first", "documents of the reference: so many, the first ones", ITEM),
    flag("--group-column", "column of the reference with the group of a document", nargs="?"),
)


def determining(given: Given) -> dict[str, object]:
    """Return the flags that change a number."""
    return {key: value for key, value in vars(given).items() if key not in _UNDETERMINING}


def model_record(
    script: str, given: Given, model: Any, options: dict[str, object] | None = None
) -> dict[str, object]:
    """Start the record of a job that runs a model; `options` in place of its flags."""
    from beyond_perplexity.models.registry import WEIGHTS
    from beyond_perplexity.storage.provenance import run_record

    return run_record(
        f"scripts/{script}.py",
        determining(given) if options is None else options,
        seed=getattr(given, "seed", None),
        device=str(model.device),
        checkpoint=f"{given.model}/{WEIGHTS}",
    )


def job(*flags: Flag) -> Callable[[Callable[[Given], None]], Callable[[], None]]:
    """Make a command of a function of its flags, the last of its module: ``python -m`` runs it."""

    def decorate(work: Callable[[Given], None]) -> Callable[[], None]:
        module = sys.modules[work.__module__]

        @wraps(work)
        def main() -> None:
            parser = CommandParser(description=module.__doc__)
            for declare in flags:
                declare(parser)
            work(parser.parse_args())

        if module.__name__ == "__main__":
            gc.freeze()  # what is imported stays to the end, and is not looked through then
            gc.set_threshold(10_000)
            gc.enable()
            run_command(main)
        return main

    return decorate

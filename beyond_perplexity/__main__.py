"""The command ``beyond-perplexity``, or ``python -m beyond_perplexity``.

The module of a subcommand is imported when it is asked for, and no other.
"""

from __future__ import annotations

import atexit
import gc
import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module

from beyond_perplexity.errors import prepare_process, run_command

PROGRAM = "beyond-perplexity"
# When Python looks for garbage. By its defaults that is a third of a short run of transformers.
SELDOM = (100_000, 50, 100)
SUBCOMMANDS = {
    "compare": "two texts, in every statistical tendency; no model is needed",
    "perplexity": "of a text under a model, in all its definitions",
    "compare-perplexity": "models by their scores of the same documents",
    "estimate": "the perplexity of a latent model from importance samples of yours",
    "thoughts": "of a reasoning model, and what they give its answers, for estimate",
    "similarity": "of pairs of texts, by an evaluator",
    "contrast": "good and bad sentences: accuracy and contrastive entropy",
    "estimate-ngram": "a modified Kneser-Ney model, from text to an ARPA file",
    "audit": "whether the probabilities of a model are what they claim to be",
    "tokenize": "lines of text by the rules of Moses, from standard input to output",
    "run": "the whole workflow: train, generate, measure, report",
    "plan": "how long the jobs of a run take, and how large its shards should be",
    "progress": "how far a run is: jobs by rule, and when it may end",
    "provenance": "where results came from; whether they are what was written",
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a subcommand."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if not given or given[0] not in SUBCOMMANDS:
        _refuse(given)
    name, *options = given
    sys.argv[0] = f"{PROGRAM} {name}"  # what its usage calls it
    main_of(name)(options)


def main_of(subcommand: str) -> Callable[..., None]:
    """Return what runs a subcommand with its options, or those of the process."""
    from beyond_perplexity.commands.library_functions import OPTION_SETS, run_function

    module = subcommand.replace("-", "_")
    if module in OPTION_SETS:
        return partial(run_function, module)
    found: Callable[..., None] = import_module(f"beyond_perplexity.commands.{module}").main
    return found


def _refuse(given: list[str]) -> None:
    """Print the help or the version, or end with what a wrong use is."""
    import argparse

    from beyond_perplexity import __version__
    from beyond_perplexity.arguments import CommandParser

    width = max(map(len, SUBCOMMANDS))
    lines = "\n".join(f"  {name:{width}}  {words}" for name, words in SUBCOMMANDS.items())
    parser = CommandParser(
        prog=PROGRAM,
        description="Evaluate language models beyond one perplexity number.",
        epilog=f"commands:\n{lines}\n\n`{PROGRAM} COMMAND --help` lists its options.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"{PROGRAM} {__version__}")
    parser.add_argument("command", metavar="COMMAND", choices=list(SUBCOMMANDS), help="see below")
    parser.parse_args(given)
    parser.error("give the command before its options")


def start() -> None:
    """Run the command as a process of its own; see `errors.run_command`."""
    gc.set_threshold(*SELDOM)
    atexit.register(gc.freeze)  # at its end a process need not look for it at all
    prepare_process()
    run_command(main)


if __name__ == "__main__":
    start()

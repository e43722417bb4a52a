"""Find out whether a model, its tokenizer and the scoring of texts keep what a perplexity promises.

Each check compares what must be equal, or adds up what must be 1, for some documents of a text. It
has a name, a tolerance and an explanation. An alarm says what was measured and where; one that
follows from another says so. --rosetta adds what other programs would print for the same model and
text, each number with the definition that makes it differ.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from beyond_perplexity.arguments import SEED, THREADS, CommandParser, whole
from beyond_perplexity.auditing.checks import CHECKS, PRECISION_NAMES
from beyond_perplexity.foreign_text import say
from beyond_perplexity.library.audit import audit
from beyond_perplexity.library.calls import for_command

STATUS = """The exit status is 0 when no check sounds an alarm, 1 when one does (or the input cannot
be used), and 2 for a wrong use of the options."""


def _parser() -> CommandParser:
    parser = CommandParser(
        description=__doc__, epilog=STATUS, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--model", required=True, help="model folder, ours or of Hugging Face, or a hub's name")
    add(
        "--text",
        required=True,
        help="text, JSONL or Parquet file, one document a line or row; cleaned as the model's "
        "corpus was, or read as it is by a model that reads plain text",
    )
    add("--field", help="field or column of the texts in JSONL or Parquet (default: text)")
    add("--documents", type=whole(1, 4096), default=16, help="documents to look at (default 16)")
    add("--check", nargs="+", metavar="NAME", help=f"these alone: {', '.join(CHECKS)}")
    add("--rosetta", action="store_true", help="the numbers of other programs, of the whole text")
    add(
        "--precision",
        choices=PRECISION_NAMES,
        default="float32",
        help="type of the model's numbers (default float32); tolerances follow its rounding",
    )
    add("--seed", type=SEED, default=1, help="seed of what is drawn (default 1)")
    add("--json", action="store_true", help="print one JSON object")
    add("--threads", type=THREADS, default=1, help="CPU threads (default 1)")
    add("--device", default="auto", help="auto, cpu or cuda (default auto)")
    return parser


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command.

    Parameters
    ----------
    arguments : sequence of str, optional
        The options; those of the process by default.

    Raises
    ------
    SystemExit
        With status 1 where a check sounds an alarm.
    """
    options = _parser().parse_args(arguments)
    found = for_command(audit)(
        options.model,
        options.text,
        documents=options.documents,
        check=options.check,
        rosetta=options.rosetta,
        precision=options.precision,
        seed=options.seed,
        threads=options.threads,
        field=options.field,
        device=options.device,
    )
    say(found.to_json() if options.json else found.text)
    if not found.sound:
        sys.exit(1)

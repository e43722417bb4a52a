"""Say how far a run is: jobs by rule, done, under way and failed, and when it may end.

Reads the newest log that Snakemake wrote in this folder, and what a job of each rule took from the
benchmark files; it changes nothing and asks nobody.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from beyond_perplexity.arguments import CommandParser
from beyond_perplexity.errors import InputError
from beyond_perplexity.foreign_text import say
from beyond_perplexity.planning.progress import describe_progress, read_progress
from beyond_perplexity.storage.benchmarks import seconds_by_rule


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command.

    Parameters
    ----------
    arguments : sequence of str, optional
        The options; those of the process by default.
    """
    parser = CommandParser(description=__doc__)
    parser.add_argument(
        "--benchmarks",
        type=Path,
        default=Path("results/benchmarks"),
        help="folder of the benchmark files (default results/benchmarks)",
    )
    parser.add_argument("--log", type=Path, help="Snakemake's log (default: the newest one)")
    given = parser.parse_args(arguments)
    log = given.log or _newest(Path(".snakemake/log"))
    with open(log, encoding="utf-8", errors="replace") as lines:
        say(describe_progress(read_progress(lines), seconds_by_rule(given.benchmarks)))


def _newest(folder: Path) -> Path:
    logs = sorted(folder.glob("*.snakemake.log"), key=lambda path: path.stat().st_mtime)
    if not logs:
        raise InputError(f"{folder}: no log of a run; call this where Snakemake was started")
    return logs[-1]

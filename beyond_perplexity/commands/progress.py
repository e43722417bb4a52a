"""Say how far a run is: jobs by rule, done, under way and failed, and when it may end.

Reads the newest log that Snakemake wrote in this folder, and what a job of each rule took from the
benchmark files; it changes nothing and asks nobody.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from beyond_perplexity.arguments import CommandParser
from beyond_perplexity.errors import InputError
from beyond_perplexity.foreign_text import say
from beyond_perplexity.planning.progress import RunProgress, describe_progress, read_progress
from beyond_perplexity.storage.benchmarks import seconds_by_rule
from beyond_perplexity.storage.inputs import unreadable


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command."""
    parser = CommandParser(description=__doc__)
    took = "folder of the benchmark files (default results/benchmarks)"
    parser.add_argument("--benchmarks", type=Path, default=Path("results/benchmarks"), help=took)
    newest = "Snakemake's log (default: that of the newest run)"
    parser.add_argument("--log", type=Path, help=newest)
    given = parser.parse_args(arguments)
    found = _read(given.log) if given.log else _newest(Path(".snakemake/log"))
    say(describe_progress(found, seconds_by_rule(given.benchmarks)))


def _read(log: Path) -> RunProgress:
    try:
        found = read_progress(log.read_text(encoding="utf-8", errors="replace"))
    except OSError as error:
        raise unreadable(log, error) from error
    if not found.planned:
        raise InputError(f"{log}: is no log of a run with jobs; leave --log out, or name another")
    return found


def _newest(folder: Path) -> RunProgress:
    """Read the newest log that has jobs: reports leave one without."""
    logs = sorted(folder.glob("*.snakemake.log"), key=lambda path: path.stat().st_mtime)
    for log in reversed(logs):
        with suppress(InputError):
            return _read(log)
    raise InputError(
        f"{folder}: no log of a run; call this where Snakemake was started, without --quiet"
    )

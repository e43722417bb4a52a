"""Say how far a run is: jobs by rule, done, under way and failed, and when it may end.

Reads the newest log that Snakemake wrote in this folder, and what a job of each rule took from the
benchmark files; it changes nothing and asks nobody.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from beyond_perplexity.arguments import CommandParser
from beyond_perplexity.errors import InputError
from beyond_perplexity.foreign_text import say
from beyond_perplexity.storage.benchmarks import read_benchmarks
from beyond_perplexity.storage.inputs import unreadable


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command."""
    parser = CommandParser(description=__doc__)
    folder = "folder of the benchmark files (default results/benchmarks)"
    parser.add_argument("--benchmarks", type=Path, default=Path("results/benchmarks"), help=folder)
    newest = "Snakemake's log (default: that of the newest run)"
    parser.add_argument("--log", type=Path, help=newest)
    given = parser.parse_args(arguments)
    found = _read(given.log) if given.log else _newest(Path(".snakemake/log"))
    took = read_benchmarks(given.benchmarks)
    seconds = {rule: fmean(job["s"] for job in jobs) for rule, jobs in took.items() if jobs}
    say(describe_progress(found, seconds))


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
    advice = "call this where Snakemake was started, without --quiet"
    raise InputError(f"{folder}: no log of a run; {advice}")


class RunProgress(NamedTuple):
    """Jobs by rule, attempts in `failed` and `started`; all times that the log has."""

    planned: Mapping[str, int]
    finished: Counter[str]
    failed: Counter[str]
    started: Counter[str]
    times: list[datetime]

    def end(self, seconds: Mapping[str, float]) -> datetime | None:
        """Estimate the end, if it goes on as fast as so far; None before the first job has ended.

        `seconds` is what a job of a rule takes; of a rule that is missing, the mean of the others.
        """
        known = [seconds[rule] for rule in self.planned if rule in seconds]
        usual = sum(known) / len(known) if known else 1.0
        done = sum(seconds.get(rule, usual) * self.finished[rule] for rule in self.planned)
        whole = sum(seconds.get(rule, usual) * count for rule, count in self.planned.items())
        # Beyond the calendar; nothing is done; no times.
        with suppress(OverflowError, ZeroDivisionError, IndexError):
            return self.times[-1] + (self.times[-1] - self.times[0]) * ((whole - done) / done)
        return None


def read_progress(log: str) -> RunProgress:
    """Read Snakemake's log of a run, which may still go on; a job told of twice counts once."""
    tables = "".join(re.findall(r"^Job stats:\n(.*?)(?:\n\n|\Z)", log, re.M | re.S))
    planned = {rule: int(count) for rule, count in re.findall(r"^(\w+) +(\d{1,11})$", tables, re.M)}
    planned.pop("total", None)
    finished = set(re.findall(r"^Finished jobid: (\d+) \(Rule: (\w+)\)$", log, re.M))
    times = re.findall(r"^\[(\w+ \w+ +\d+ [\d:]+ \d+)\]$", log, re.M)
    return RunProgress(
        planned,
        Counter(rule for _, rule in finished),
        Counter(re.findall(r"^Error in rule (\w+):$", log, re.M)),
        Counter(re.findall(r"^(?:local)?(?:rule|checkpoint) (\w+):$", log, re.M)),
        [datetime.strptime(time, "%a %b %d %H:%M:%S %Y") for time in times],
    )


def describe_progress(found: RunProgress, seconds: Mapping[str, float]) -> str:
    """Say in lines of text how far a run is; `seconds` as for `RunProgress.end`."""
    lines = [f"{'rule':<28}{'jobs':>8}{'done':>8}{'under way':>11}{'failed attempts':>17}"]
    for rule, count in found.planned.items():
        done, failed = found.finished[rule], found.failed[rule]
        way = max(found.started[rule] - done - failed, 0)
        lines.append(f"{rule:<28}{count:>8,}{done:>8,}{way:>11,}{failed:>17,}")
    done, whole = sum(found.finished.values()), sum(found.planned.values())
    share = f" ({done / whole:.0%})" if whole else ""
    lines.append(f"{done:,} of {whole:,} jobs done{share}")
    if (end := found.end(seconds)) and done < whole:
        lines.append(f"ends about {end:%a %d %b %H:%M}, if it goes on as fast as so far")
    return "\n".join(lines)

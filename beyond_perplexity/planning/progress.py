"""How far a run is: jobs by rule, and when it may end, from Snakemake's own log."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime

_STARTED = re.compile(r"(?:local)?(?:rule|checkpoint) (\w+):$")
_FINISHED = re.compile(r"Finished jobid: (\d+) \(Rule: (\w+)\)$")
_FAILED = re.compile(r"Error in rule (\w+):$")
_COUNT = re.compile(r"(\w+) +(\d{1,12})$")


@dataclass
class RunProgress:
    """Jobs by rule, attempts in `failed` and `started`; the log's first and latest time."""

    planned: Counter[str] = field(default_factory=Counter)
    finished: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    started: Counter[str] = field(default_factory=Counter)
    begin: datetime | None = None
    latest: datetime | None = None

    def under_way(self, rule: str) -> int:
        """Return how many jobs of a rule run or wait in the queue."""
        return max(self.started[rule] - self.finished[rule] - self.failed[rule], 0)

    def end(self, seconds: Mapping[str, float]) -> datetime | None:
        """Estimate the end, if it goes on as fast as so far; None before the first job has ended.

        `seconds` is what a job of a rule takes; of a rule that is missing, the mean of the others.
        """
        known = [seconds[rule] for rule in self.planned if rule in seconds]
        usual = sum(known) / len(known) if known else 1.0
        weights = {rule: seconds.get(rule, usual) for rule in self.planned}
        done = sum(weights[rule] * self.finished[rule] for rule in self.planned)
        whole = sum(weights[rule] * count for rule, count in self.planned.items())
        if not done or self.begin is None or self.latest is None:
            return None
        with suppress(OverflowError):  # beyond the calendar
            return self.latest + (self.latest - self.begin) * ((whole - done) / done)
        return None


def read_progress(lines: Iterable[str]) -> RunProgress:
    """Read the lines of Snakemake's log of a run, which may still go on."""
    found, in_table = RunProgress(), False
    jobs: dict[str, set[str]] = defaultdict(set)  # a job that is told of twice counts once
    for line in map(str.rstrip, lines):
        if line == "Job stats:":
            in_table = True
        elif in_table:
            in_table = line != ""
            if (count := _COUNT.match(line)) and count[1] != "total":
                found.planned[count[1]] = int(count[2])
        elif line.startswith("["):
            with suppress(ValueError):
                found.latest = datetime.strptime(line, "[%a %b %d %H:%M:%S %Y]")
                found.begin = found.begin or found.latest
        elif match := _STARTED.match(line):
            found.started[match[1]] += 1
        elif match := _FINISHED.match(line):
            jobs[match[2]].add(match[1])
        elif match := _FAILED.match(line):
            found.failed[match[1]] += 1
    found.finished = Counter({rule: len(held) for rule, held in jobs.items()})
    return found


def describe_progress(found: RunProgress, seconds: Mapping[str, float]) -> str:
    """Say in lines of text how far a run is; `seconds` as for `RunProgress.end`."""
    lines = [f"{'rule':<28}{'jobs':>8}{'done':>8}{'under way':>11}{'failed attempts':>17}"]
    for rule, count in found.planned.items():
        way, failed = found.under_way(rule), found.failed[rule]
        lines.append(f"{rule:<28}{count:>8,}{found.finished[rule]:>8,}{way:>11,}{failed:>17,}")
    done, whole = sum(found.finished.values()), sum(found.planned.values())
    share = f" ({done / whole:.0%})" if whole else ""
    lines.append(f"{done:,} of {whole:,} jobs done{share}")
    if (end := found.end(seconds)) and done < whole:
        lines.append(f"ends about {end:%a %d %b %H:%M}, if it goes on as fast as so far")
    return "\n".join(lines)

"""How far a run is: jobs by rule, and when it may end, from Snakemake's own log."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from typing import NamedTuple


class RunProgress(NamedTuple):
    """Jobs by rule, attempts in `failed` and `started`; all times that the log has."""

    planned: Mapping[str, int]
    finished: Counter[str]
    failed: Counter[str]
    started: Counter[str]
    times: list[datetime]

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
        if not done or not self.times:
            return None
        with suppress(OverflowError):  # beyond the calendar
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
        way, failed = found.under_way(rule), found.failed[rule]
        lines.append(f"{rule:<28}{count:>8,}{found.finished[rule]:>8,}{way:>11,}{failed:>17,}")
    done, whole = sum(found.finished.values()), sum(found.planned.values())
    share = f" ({done / whole:.0%})" if whole else ""
    lines.append(f"{done:,} of {whole:,} jobs done{share}")
    if (end := found.end(seconds)) and done < whole:
        lines.append(f"ends about {end:%a %d %b %H:%M}, if it goes on as fast as so far")
    return "\n".join(lines)

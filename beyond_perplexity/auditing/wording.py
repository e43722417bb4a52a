"""An audit in words, for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from beyond_perplexity.auditing.evidence import Finding

_WIDTH = 14


def describe_findings(findings: Sequence[Finding]) -> Iterator[str]:
    """Yield the lines of the checks, and what they come to."""
    for one in findings:
        verdict = "ok   " if one.sound else "ALARM"
        within = f"{one.worst:.3g} (at most {one.tolerance:.2g})"
        yield f"{verdict} {one.check:{_WIDTH}} {within}: {one.detail}"
        if one.because:
            yield f"{'':6}follows from the alarm of {one.because}"
        elif not one.sound:
            yield f"{'':6}{one.explanation}"
    alarms = [one.check for one in findings if not one.sound and not one.because]
    rest = sum(not one.sound for one in findings) - len(alarms)
    follow = f" ({rest} more follow from them)" if rest else ""
    done = f"no alarm in {len(findings)} checks"
    yield f"alarms: {', '.join(alarms)}{follow}" if alarms else done

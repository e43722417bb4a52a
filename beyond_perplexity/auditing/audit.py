"""All checks of a subject, in the order of their table."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pkgutil import resolve_name

import torch
from torch import Tensor, nn

from beyond_perplexity.auditing.checks import CHECKS, Check, Evidence, Finding, is_within
from beyond_perplexity.auditing.subject import Subject
from beyond_perplexity.errors import InputError

# What a model that is not what it should be may raise within a check.
_BROKEN = (InputError, ValueError, RuntimeError, IndexError, TypeError, AssertionError)
_NARROW = (torch.bfloat16, torch.float16)


def audit_subject(subject: Subject, names: Sequence[str] | None = None) -> list[Finding]:
    """Make the checks of some names, or all, in the order of their table.

    A check in which the model fails with an error is an alarm. An alarm names another that explains
    it. A model of 16 bits is also tried in float32, with the same weights: a fault of logic shows
    there, where rounding is no excuse for it.
    """
    unknown = sorted(set(names or ()) - set(CHECKS))
    if unknown:
        known = ", ".join(CHECKS)
        raise InputError(f"check: there is no {unknown[0]!r:.80}; the checks are: {known}")
    wanted = {name: row for name, row in CHECKS.items() if names is None or name in names}
    found = [_make(name, row, subject) for name, row in wanted.items()]
    if _narrow_parts(subject.model):
        with in_float32(subject.model):
            found = [_look_closer(one, CHECKS[one.check], subject) for one in found]
    alarms = {one.check for one in found if not one.sound}
    return [one if one.sound else one._replace(because=_cause(one.check, alarms)) for one in found]


def _cause(name: str, alarms: Collection[str]) -> str:
    """Return the first alarm that explains another and is not explained by it; empty: none."""
    for other, row in CHECKS.items():
        if other in alarms and name in row.implies and other not in CHECKS[name].implies:
            return other
    return ""


def tolerance_of(row: Check, subject: Subject) -> float:
    """Return what a check allows, given the type of the model's numbers."""
    return max(row.tolerance, row.rounding * subject.rounding)


def _make(name: str, row: Check, subject: Subject) -> Finding:
    check: Callable[[Subject], Evidence] = resolve_name(row.reference)
    tolerance = tolerance_of(row, subject)
    try:
        found = check(subject)
    except torch.OutOfMemoryError as error:
        raise MemoryError(str(error)) from error
    except _BROKEN as error:
        reason = (str(error).strip() or repr(error)).splitlines()[0]
        found = Evidence(math.nan, 1, f"the model failed: {reason:.200}")
    sound = is_within(found.worst, tolerance)
    return Finding(name, sound, found.worst, tolerance, found.places, found.detail, row.explanation)


def _look_closer(native: Finding, row: Check, subject: Subject) -> Finding:
    """Make a check that allows for rounding again, in float32; what was an alarm stays one.

    A model that cannot calculate in float32 has no fault by that: its finding says so, and stays.
    """
    if not row.rounding or not native.sound:
        return native
    closer = _make(native.check, row, subject)
    if math.isnan(closer.worst) and closer.detail.startswith("the model failed"):
        return native._replace(detail=f"{native.detail} (not tried in float32: {closer.detail})")
    return closer._replace(detail=f"{closer.detail} (in float32, with the same weights)")


@contextmanager
def in_float32(model: nn.Module) -> Iterator[None]:
    """Turn what is bfloat16 or float16 in a model into float32, and back at the end.

    Both ways are exact: every number of 16 bits is one of 32. The model itself is turned, a tensor
    at a time, and not a copy: it takes twice the memory of its 16-bit weights.
    """
    held = [(part, part.dtype) for part in _narrow_parts(model)]
    try:
        for part, _ in held:
            part.data = part.data.float()
        yield
    finally:
        for part, kind in held:
            part.data = part.data.to(kind)


def _narrow_parts(model: nn.Module) -> list[Tensor]:
    """Return parameters and buffers of 16 bits; one that is shared comes once."""
    parts = [*model.parameters(), *model.buffers()]
    return [part for part in parts if part.dtype in _NARROW]

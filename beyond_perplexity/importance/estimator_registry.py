"""The estimators by the value of column ``method``, in the order of tables, and what reads draws.

No row imports what it names before it is asked for.
"""

from __future__ import annotations

from collections.abc import Collection
from pkgutil import resolve_name
from typing import TYPE_CHECKING

from beyond_perplexity.errors import InputError
from beyond_perplexity.options import Rows

if TYPE_CHECKING:
    from beyond_perplexity.importance.estimator import Estimator

_HERE = "beyond_perplexity.importance"

ESTIMATORS: Rows[str] = {
    "importance_sampling": f"{_HERE}.importance_sampling:ImportanceSampling",
    "jackknife": f"{_HERE}.jackknife:Jackknife",
    "mixture": f"{_HERE}.temperature_mixture:Mixture",
    "beam_plus_tail": f"{_HERE}.beam_plus_tail:BeamPlusTail",
    "smc": f"{_HERE}.sequential_monte_carlo:SequentialMonteCarlo",
    "beam": f"{_HERE}.beam_marginalization:Beam",
    "bracket": f"{_HERE}.bracket:Bracket",
}
# What reads each kind of draws beside the samples themselves, by the schema, which is the flag of
# the scripts and what estimators say that they need. A reader takes the files and the
# `WeightReader` of the same instances. Its ``settings`` are what tells the estimates from such
# draws apart: columns of schema ``estimates``.
DRAW_READERS: Rows[str] = {
    "beams": f"{_HERE}.draw_files:Beams",
    "smc": f"{_HERE}.draw_files:SMCRuns",
    "bidirectional": f"{_HERE}.bidirectional_gaps:SimulatedRuns",
}


def load_estimators() -> dict[str, type[Estimator]]:
    """Return every estimator by its method, in the order of `ESTIMATORS`."""
    return {method: find_estimator(method) for method in ESTIMATORS}


def find_estimator(method: str) -> type[Estimator]:
    """Return the estimator of a method; an `InputError` lists those that there are."""
    if method not in ESTIMATORS:
        raise InputError(f"method: is {method!r}; the estimators are {', '.join(ESTIMATORS)}")
    found: type[Estimator] = resolve_name(ESTIMATORS[method])
    return found


def estimator_code(kinds: Collection[str] = tuple(DRAW_READERS)) -> list[str]:
    """List, for `storage.fingerprint`, what makes estimates of samples and some kinds of draws.

    Kinds that are no key of `DRAW_READERS` are the samples themselves.
    """
    lacking = DRAW_READERS.keys() - kinds
    made = [name for name, one in load_estimators().items() if not lacking & set(one.needs)]
    readers = [reader for kind, reader in DRAW_READERS.items() if kind in kinds]
    return readers + [ESTIMATORS[name] for name in made]

"""Estimators by the name of their row, and the files that a run of them uses."""

from __future__ import annotations

from collections.abc import Collection
from pkgutil import resolve_name

from beyond_perplexity.errors import InputError
from beyond_perplexity.importance.estimators.contract import Estimator
from beyond_perplexity.importance.estimators.rows import ESTIMATORS
from beyond_perplexity.importance.reading.rows import DRAW_READERS


def load_estimators() -> dict[str, type[Estimator]]:
    """Return every estimator by its method, in the order of `rows.ESTIMATORS`."""
    return {method: find_estimator(method) for method in ESTIMATORS}


def find_estimator(method: str) -> type[Estimator]:
    """Return the estimator of a method.

    Raises
    ------
    InputError
        When there is no such estimator.
    """
    if method not in ESTIMATORS:
        raise InputError(f"method: is {method!r}; the estimators are {', '.join(ESTIMATORS)}")
    found: type[Estimator] = resolve_name(ESTIMATORS[method])
    return found


def estimator_files(kinds: Collection[str] = tuple(DRAW_READERS)) -> list[str]:
    """List the source files that estimates from samples and some kinds of draws are made by.

    Parameters
    ----------
    kinds : collection of str
        The kinds of draws that there are; by default all. Those that are no key of `DRAW_READERS`
        are the samples themselves.

    Returns
    -------
    list of str
        Relative to the repository, for `storage.fingerprint`: no import names these files.
    """
    lacking = DRAW_READERS.keys() - kinds
    made = [name for name, one in load_estimators().items() if not lacking & set(one.needs)]
    readers = [reader for kind, reader in DRAW_READERS.items() if kind in kinds]
    references = readers + [ESTIMATORS[name] for name in made]
    return [one.partition(":")[0].replace(".", "/") + ".py" for one in references]

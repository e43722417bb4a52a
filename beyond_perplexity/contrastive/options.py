"""The options of contrastive entropy that a command is given."""

from __future__ import annotations

from collections.abc import Mapping

from beyond_perplexity.contrastive.distortions import check_level
from beyond_perplexity.errors import InputError


def read_versions(values: Mapping[str, object]) -> dict[float, tuple[int, int]]:
    """Read the levels of a scoring from a JSON object: level to first draw and number of draws.

    Raises
    ------
    InputError
        When a level is no probability, or its draws are not two natural numbers.
    """
    found = {}
    for name, held in values.items():
        try:
            level = float(name)
        except ValueError as error:
            raise InputError(f"versions.{name}: is no level; give a number from 0 to 1") from error
        check_level(level)
        natural = isinstance(held, list) and all(type(n) is int and n >= 0 for n in held)
        if not (natural and isinstance(held, list) and len(held) == 2):
            raise InputError(f"versions.{name}: is {held!r}, expected [first draw, number]")
        found[level] = (held[0], held[1])
    return found

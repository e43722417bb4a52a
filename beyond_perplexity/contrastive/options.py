"""The options of distortions and of a scoring; nothing heavy is imported."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from beyond_perplexity.errors import InputError
from beyond_perplexity.options import Limited, Share

EVENTS = ("substitution", "transposition", "deletion", "insertion")


@dataclass(frozen=True)
class DistortionOptions(Limited):
    """What happens to a word that is hit; a word is hit with probability d, the level.

    The shares add up to 1. In the paper's terms x_N = 1 − d, x_S = d · substitution and
    x_T = d · transposition: for x_S = 0.1 and x_T = 0.3 take the level 0.4 and the shares 0.25 and
    0.75.

    Attributes
    ----------
    substitution : float
        Share of the hit words that are replaced by a word drawn uniformly from the substitutes,
        which may be the same word.
    transposition : float
        Share that change places with another word of their sentence, drawn uniformly.
    deletion : float
        Share that are left out; for scores of whole sentences only, as the number of words changes.
    insertion : float
        Share that are followed by a new word, drawn as a substitute is; as deletion.
    substitutes : str
        Where substitutes come from: vocabulary, the words of a closed vocabulary (as the paper's
        text says), or text, the types of the text that is scored (as the authors' program does).
    """

    substitution: Share = 0.5
    transposition: Share = 0.5
    deletion: Share = 0.0
    insertion: Share = 0.0
    substitutes: Literal["vocabulary", "text"] = "vocabulary"

    def __post_init__(self) -> None:
        super().__post_init__()
        total = sum(self.shares)
        if not math.isclose(total, 1.0, abs_tol=1e-9):
            raise ValueError(f"{', '.join(EVENTS)}: the shares add up to {total:g}, not to 1")

    @property
    def shares(self) -> tuple[float, ...]:
        """The shares of `EVENTS`."""
        return self.substitution, self.transposition, self.deletion, self.insertion

    @property
    def keeps_length(self) -> bool:
        """Whether sentences keep their number of words."""
        return self.deletion == self.insertion == 0


def check_level(level: float) -> None:
    """Raise `InputError` for a level that is no probability."""
    if not 0 <= level <= 1:
        raise InputError(f"level: is {level}, expected 0 (nothing) to 1 (every word is hit)")


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

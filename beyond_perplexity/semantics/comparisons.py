"""Which texts are compared for a sentence: what was predicted with the target, and with chance's.

N sentences, P pairs of texts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from beyond_perplexity.schemas.semantics import (
    CONTINUED,
    PARTNER_OF,
    PREDICTED,
    SAMPLED,
    SPREAD,
)

KINDS = (PREDICTED, SAMPLED, CONTINUED, *PARTNER_OF.values(), SPREAD)


class Comparisons(NamedTuple):
    """Pairs of texts of some sentences."""

    pairs: list[tuple[str, str]]  # A prediction, and what it is compared with; (P,)
    owners: NDArray[np.int64]  # int64, (P,): the sentence of each pair
    kinds: NDArray[np.int64]  # int64, (P,): of `KINDS`, by number


def _after(text: str, given: int) -> str:
    """Return what follows the first words."""
    return " ".join(text.split()[given:]) if given else text


def _of_sentence(row: Mapping[str, Any], spread: bool) -> Iterator[tuple[str, str, str]]:
    """List kind, prediction and what it is compared with.

    Of what is continued the words that were given are left out: they are true ones.
    """
    continued = row["continued"]
    told: dict[str, list[str]] = {
        PREDICTED: [row["predicted"]],
        SAMPLED: row["samples"] or [],
        CONTINUED: [] if continued is None else [continued],
    }
    for kind, texts in told.items():
        given = row["given"] if kind == CONTINUED else 0
        for text in texts:
            yield kind, _after(text, given), _after(row["target"], given)
            if row["partner"] is not None:
                yield PARTNER_OF[kind], _after(text, given), _after(row["partner"], given)
    if spread:
        yield from ((SPREAD, *pair) for pair in combinations(told[SAMPLED], 2))


def compare_texts(rows: Sequence[Mapping[str, Any]], *, spread: bool) -> Comparisons:
    """List the pairs of texts of rows of ``predictions``; samples also together (`spread`)."""
    numbers = {kind: number for number, kind in enumerate(KINDS)}
    pairs: list[tuple[str, str]] = []
    owners: list[int] = []
    kinds: list[int] = []
    for owner, row in enumerate(rows):
        for kind, text, other in _of_sentence(row, spread):
            pairs.append((text, other))
            owners.append(owner)
            kinds.append(numbers[kind])
    return Comparisons(pairs, np.array(owners, np.int64), np.array(kinds, np.int64))

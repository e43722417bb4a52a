"""An unrelated sentence for each sentence: what a comparison with it gives is the floor.

It is of another document, and of another title where documents have one, and as long as the
sentence, or as nearly as there is one. The documents that follow in the random order of the split
are looked at: so it does not depend on shards, no sentence serves many others, and memory does not
grow with the split.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np

from beyond_perplexity.corpus.sentences import (
    CutDocument,
    order_documents,
    read_documents,
    sentence_item,
)
from beyond_perplexity.random_streams import stream

_FOLLOWERS = 64  # documents that partners of a document's sentences are taken from
_PURPOSE = "semantics/partner"  # of the random streams


def find_partners(
    units: Sequence[CutDocument], path: str, split: str, *, seed: int, whole: bool = False
) -> list[list[str | None]]:
    """Find an unrelated sentence of like length for every sentence.

    Parameters
    ----------
    units : sequence of CutDocument
        Documents of the split.
    path : str
        Parquet file, schema ``documents``.
    split : str
    seed : int
        Of the run; it decides among sentences of equal length.
    whole : bool
        See `corpus.sentences.cut_sentences`.

    Returns
    -------
    list of list of str or None
        Of each document and sentence: words joined by one blank; None where no other document has a
        sentence that differs.
    """
    if not units:
        return []
    order = order_documents(path, split, seed)
    places = {unit_id: place for place, unit_id in enumerate(order.tolist())}
    count = min(_FOLLOWERS, len(order) - 1)
    after = {
        unit.unit_id: order[(places[unit.unit_id] + 1 + np.arange(count)) % len(order)].tolist()
        for unit in units
    }
    wanted = {*after, *chain.from_iterable(after.values())}
    held = {
        unit.unit_id: unit
        for unit in read_documents(path, split, wanted, grouped=True, whole=whole)
    }
    return [
        _partners(unit, held[unit.unit_id].group, [held[k] for k in after[unit.unit_id]], seed)
        for unit in units
    ]


def _partners(
    unit: CutDocument, title: str | None, others: Sequence[CutDocument], seed: int
) -> list[str | None]:
    unrelated = [other for other in others if title is None or other.group != title]
    pool = [words for other in unrelated for words in other.sentences]
    lengths = np.array([len(words) for words in pool])
    found: list[str | None] = []
    for place, words in enumerate(unit.sentences):
        # another sentence may say the very same
        differs = np.array([other != words for other in pool], bool)
        if not differs.any():
            found.append(None)
            continue
        distances = np.where(differs, np.abs(lengths - len(words)), np.iinfo(np.int64).max)
        nearest = np.flatnonzero(distances == distances.min())
        number = stream(seed, _PURPOSE, sentence_item(unit.unit_id, place)).random()
        found.append(" ".join(pool[nearest[int(number * len(nearest))]]))
    return found

"""What one text has more of than another: all that the Word Mover's Distance has to move.

What both have stays where it is: no plan is shorter, as distances obey the triangle inequality.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from beyond_perplexity.semantics.word_ids import NO_WORD, Ids, TextIds


class Surplus(NamedTuple):
    """Words of N texts, and how many of each."""

    words: TextIds  # distinct within a text, in its order, whatever their ids are; U in all
    masses: Ids  # int64, (U,): positive

    def of(self, index: int) -> Ids:
        """Return the masses of one text."""
        return self.masses[self.words.starts[index] : self.words.starts[index + 1]]

    def repeated(self, sizes: Ids) -> TextIds:
        """Write each word as often as its mass, in units (N,) of each text that divide it."""
        times = self.masses // np.repeat(sizes, self.words.lengths)
        ends = np.concatenate([[0], np.cumsum(times)])
        return TextIds(np.repeat(self.words.ids, times), ends[self.words.starts])


def _counted(texts: TextIds, least: int, width: int) -> tuple[Ids, Ids, Ids, Ids]:
    """Return key, first place, count and text of each distinct word of each text."""
    owner = np.repeat(np.arange(len(texts.lengths)), texts.lengths)
    keys, places, counts = np.unique(
        owner * width + (texts.ids - least), return_index=True, return_counts=True
    )
    return keys, places, counts, owner[places]


def surpluses(first: TextIds, second: TextIds) -> tuple[Surplus, Surplus]:
    """Return what each of N texts has more of than the other of its pair.

    Of n and m words a word has the mass c·m − d·n, where c of the n and d of the m are this word:
    both sides of a pair have the same total, in integers, n·m at most. What is no word never stays.
    """
    least = int(min(first.ids.min(initial=0), second.ids.min(initial=0)))
    width = int(max(first.ids.max(initial=0), second.ids.max(initial=0))) - least + 1
    sides = [_counted(texts, least, width) for texts in (first, second)]
    lengths = [first.lengths, second.lengths]
    found = []
    for side in (0, 1):
        keys, places, counts, owner = sides[side]
        other, _, others, _ = sides[1 - side]
        spots = np.searchsorted(other, keys)
        shared = np.zeros(len(keys), np.int64)
        inside = np.flatnonzero(spots < len(other))
        inside = inside[other[spots[inside]] == keys[inside]]
        shared[inside] = others[spots[inside]]
        words = (first, second)[side].ids[places]
        shared[words == NO_WORD] = 0
        masses = counts * lengths[1 - side][owner] - shared * lengths[side][owner]
        order = np.argsort(places)  # of texts and, within them, of words
        order = order[masses[order] > 0]
        sizes = np.bincount(owner[order], minlength=len(lengths[side]))
        starts = np.concatenate([[0], np.cumsum(sizes)])
        found.append(Surplus(TextIds(words[order], starts), masses[order]))
    return found[0], found[1]

"""Sentences with their trees drawn from the binary RNNG, action by action.

R sentences, W actions of the longest, T words.
"""

from __future__ import annotations

import torch

from beyond_perplexity.models.latent import FILLING
from beyond_perplexity.models.rnng.binary_course import BinaryCourse, BinaryNetwork
from beyond_perplexity.models.rnng.instances import REDUCE, SHIFT
from beyond_perplexity.models.rnng.simulation import (
    ActionNumbers,
    DrawnSentences,
    close_rows,
    draw_words,
)
from beyond_perplexity.vocabulary import EOS


@torch.no_grad()
def draw_binary_trees(
    network: BinaryNetwork, count: int, numbers: ActionNumbers, maximum_words: int
) -> DrawnSentences:
    """Draw sentences from the RNNG of a network that has ends.

    A sentence that would have more words than the maximum is cut, and its subtrees are joined.
    """
    course, device = BinaryCourse(network, count), network.word_bias.device
    at = torch.arange(count, device=device)  # (R,)
    lengths, cut = torch.zeros_like(at), torch.zeros_like(at, dtype=torch.bool)  # (R,)
    words = torch.zeros(count, maximum_words, dtype=torch.int64, device=device)  # (R, T)
    going, columns = at, []  # (R',): sentences that go on
    for step in range(2 * maximum_words + 1):
        both, here = numbers.at(step)[going], at[going]  # (R', 2), (R',)
        depth = course.depth(here)  # (R',)
        joins = (depth >= 2) & (both[:, 0] < course.logits(here).sigmoid())  # (R',)
        rows, shifting = going[joins], going[~joins]  # (J,), (S,)
        after = at.index_copy(0, rows, course.reduce(at[rows]))
        drawn = draw_words(
            course.contexts(at[shifting]),
            network.embedding.weight,
            network.word_bias,
            depth[~joins] == 1,
            both[~joins, 1],
        )  # (S,)
        more = drawn != EOS  # (S,)
        long = more & (lengths[shifting] == maximum_words)  # (S,)
        cut[shifting[long]] = True
        shifting, drawn = shifting[more & ~long], drawn[more & ~long]
        words[shifting, lengths[shifting]] = drawn
        lengths[shifting] += 1
        after[shifting] = course.shift(at[shifting], drawn)
        columns.append(torch.full_like(at, FILLING))
        columns[-1][rows], columns[-1][shifting] = REDUCE, SHIFT
        going = torch.cat([rows, shifting]).sort().values
        if not len(going):
            break
        course, at = course.pruned(after)
    actions = close_rows(torch.stack(columns, 1), (course.depth(at) - 1).clamp(min=0))
    return DrawnSentences(actions, words, lengths, cut)

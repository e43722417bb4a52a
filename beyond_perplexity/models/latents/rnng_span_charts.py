"""Charts over the spans of sentences: partition function, entropy, samples, the best trees.

A binary tree over T words is the set of its spans of at least two words; it has probability
proportional to exp(Σ score / τ). A span is named by its first word (or its last) and its width.
All charts are float64.

A prefix of actions leaves subtrees on a stack. Each but the first is going to be the right part of
a span that begins where the one below begins; until then each may grow by right parts of its own.
So what can still come depends on the stack through the first words of its subtrees alone: on a
chain of them. For each chain, the total of exp(Σ score) over all that can follow is worked out by a
recursion over the last word of the subtree on top:

    closed(e) = score(first word below, e) + total below(e)
    open(e) = log Σ over m > e of exp(inside(e + 1, m) + score(first word, m) + total(m))
    total(e) = log (exp closed(e) + exp open(e))

R rows, T words of the longest sentence, N charts, M chains in all, P of them new, K particles.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from beyond_perplexity.corpus.latent_instances import InstanceBatch
from beyond_perplexity.invariant_tensors import invert
from beyond_perplexity.models.latents.rnng_stack_memory import NodeTable


class Chart(NamedTuple):
    """The inside scores of N charts."""

    # by_first, by_last: float64, (N, T, T + 1): log Σ exp(Σ score) over the trees of the span that
    # begins (ends) with a word, by its width
    by_first: Tensor
    by_last: Tensor
    log_z: Tensor  # float64, (N,): of the whole sentences
    entropy: Tensor | None  # float64, (N,), nats


def diagonal(scores: Tensor, width: int) -> Tensor:
    """Return the scores, (N, T − width + 1), of all spans of a width, from (N, T, T)."""
    return scores.diagonal(width - 1, 1, 2)


def _splits(first: Tensor, last: Tensor, width: int) -> Tensor:
    """Return left part plus right part for every span of a width and split, (N, S, width − 1)."""
    length = first.shape[1]
    left = first[:, : length - width + 1, 1:width]  # (N, S, width − 1)
    right = last[:, width - 1 :, 1:width].flip(2)  # (N, S, width − 1)
    return left + right


def inside(scores: Tensor, lengths: Tensor, with_entropy: bool = False) -> Chart:
    """Fill charts diagonal by diagonal from scores of spans divided by τ, float64, (N, T, T), and
    lengths, int64, (N,); the entropy follows Hwa (2000)."""
    charts, length, _ = scores.shape
    first = scores.new_zeros(charts, length, length + 1)  # (N, T, T + 1)
    last, entropy = torch.zeros_like(first), torch.zeros_like(first)
    entropy_last = torch.zeros_like(first)
    for width in range(2, length + 1):
        paths = _splits(first, last, width)  # (N, S, width − 1)
        total = paths.logsumexp(2)  # (N, S)
        first[:, : length - width + 1, width] = last[:, width - 1 :, width] = (
            diagonal(scores, width) + total
        )
        if with_entropy:
            log_share = paths - total[..., None]  # (N, S, width − 1)
            parts = _splits(entropy, entropy_last, width) - log_share  # (N, S, width − 1)
            value = (log_share.exp() * parts).sum(2)  # (N, S)
            entropy[:, : length - width + 1, width] = value
            entropy_last[:, width - 1 :, width] = value
    whole = torch.arange(charts, device=scores.device)  # (N,)
    found = entropy[whole, 0, lengths] if with_entropy else None  # (N,)
    return Chart(first, last, first[whole, 0, lengths], found)


def sample_closings(chart: Chart, owner: Tensor, lengths: Tensor, uniforms: Tensor) -> Tensor:
    """Draw trees from the top down, REDUCEs after each word, int64, (R, T), for charts and lengths,
    (R,); the i-th of `uniforms`, (R, at least T − 1), splits the i-th span in preorder."""
    length, device = chart.by_first.shape[1], owner.device
    closings = torch.zeros(len(owner), length, dtype=torch.int64, device=device)  # (R, T)
    # Spans to split, of all rows at one depth: row, first word, width, position in preorder, (Q,).
    row = (lengths >= 2).nonzero()[:, 0]  # (Q,)
    first, width, position = torch.zeros_like(row), lengths[row], torch.zeros_like(row)  # (Q,)
    while len(row):
        end, own = first + width - 1, owner[row, None]  # (Q,), (Q, 1)
        widths = torch.arange(1, int(width.max()), device=device)  # (S,): of the left part
        closings.index_put_((row, end), torch.ones_like(row), accumulate=True)
        right = (width[:, None] - widths).clamp(min=0)  # (Q, S)
        paths = chart.by_first[own, first[:, None], widths]  # (Q, S)
        paths = paths + chart.by_last[own, end[:, None], right]  # (Q, S)
        paths = paths.masked_fill(widths >= width[:, None], -torch.inf)
        shares = (paths - paths.amax(1, keepdim=True)).exp().cumsum(1)  # (Q, S)
        split = 1 + invert(shares, uniforms[row, position, None])[:, 0]  # (Q,)
        # A span of w words has w − 1 spans in it, itself included: so many come before the right.
        left = row, first, split, position + 1
        parts = left, (row, first + split, width - split, position + split)
        row, first, width, position = (torch.cat(both) for both in zip(*parts, strict=True))
        wide = width >= 2  # (Q,)
        row, first, width, position = row[wide], first[wide], width[wide], position[wide]
    return closings


def best_closings(scores: Tensor, length: int, size: int) -> Tensor:
    """Find the K trees of highest score, best first: REDUCEs after each word, int64, (K', T).

    Exact: of the pairs of a left part of rank a and a right part of rank b only those with (a +
    1)(b + 1) ≤ K can be among the K best of a span. Scores are float64, (T', T'), T' at least T.
    """
    ranks = torch.arange(1, size + 1, device=scores.device)  # (K,)
    pairs = (ranks[:, None] * ranks <= size).nonzero()  # (pairs, 2)
    best = scores.new_full((length, length + 1, size), -torch.inf)  # (T, T + 1, K)
    best[:, 1, 0] = 0.0
    back = torch.zeros(length, length + 1, size, 3, dtype=torch.int64, device=scores.device)
    for width in range(2, length + 1):
        starts = torch.arange(length - width + 1, device=scores.device)  # (S,)
        lefts = torch.arange(1, width, device=scores.device)  # (width − 1,)
        left = best[starts[:, None], lefts][..., pairs[:, 0]]  # (S, width − 1, pairs)
        right = best[starts[:, None] + lefts, width - lefts][..., pairs[:, 1]]
        paths = (left + right).flatten(1)  # (S, (width − 1) pairs)
        found, position = paths.topk(min(size, paths.shape[1]), 1)  # (S, K)
        kept = slice(0, found.shape[1])
        best[starts, width, kept] = found + scores[starts, starts + width - 1, None]
        split, pair = position // len(pairs) + 1, position % len(pairs)  # (S, K)
        back[starts, width, kept] = torch.stack([split, *pairs[pair].unbind(2)], 2)
    count = int((best[0, length] > -torch.inf).sum())
    return _follow(back, length, count)


def _follow(back: Tensor, length: int, count: int) -> Tensor:
    """Unroll the best trees from back pointers (T, T + 1, K, 3) of split, left and right rank."""
    everyone = torch.arange(count, device=back.device)  # (K',)
    closings = torch.zeros(count, length, dtype=torch.int64, device=back.device)  # (K', T)
    waiting = torch.zeros(count, length + 1, 3, dtype=torch.int64, device=back.device)
    waiting[:, 1, 1], waiting[:, 1, 2] = length, everyone  # first word, width, rank
    depth = torch.full_like(everyone, int(length >= 2))  # (K',): all have equally many spans
    for _ in range(length - 1):
        first, width, rank = waiting[everyone, depth].unbind(1)  # (K',)
        closings[everyone, first + width - 1] += 1
        split, left, right = back[first, width, rank].unbind(1)  # (K',)
        depth = depth - 1
        for start, size, order in ((first + split, width - split, right), (first, split, left)):
            pushed = (size >= 2).long()  # (K',)
            depth = depth + pushed
            position = torch.where(pushed > 0, depth, 0)  # (K',)
            waiting[everyone, position] = torch.stack([start, size, order], 1)
    return closings


class SpanTotals(NamedTuple):
    """What is known of the spans of N sentences."""

    scores: Tensor  # float64, (N, T, T): of spans from the first word to the last, divided by τ
    # float64, (N, T + 1, T): log Σ exp(Σ score) over the trees of a span, −inf where it is none
    inside: Tensor
    lengths: Tensor  # int64, (N,)

    @classmethod
    def of(cls, scores: Tensor, chart: Chart, lengths: Tensor) -> SpanTotals:
        """Lay out a chart, of scores (N, T, T) that are divided by τ, by first and last word."""
        longest = scores.shape[1]
        word = torch.arange(longest, device=scores.device)  # (T,)
        width = word - word[:, None] + 1  # (T, T)
        every = chart.by_first[:, word[:, None], width.clamp(min=0)]  # (N, T, T)
        missing = (width < 1) | (word >= lengths[:, None, None])  # (N, T, T)
        inside = scores.new_full((len(scores), longest + 1, longest), -torch.inf)
        inside[:, :-1] = every.masked_fill(missing, -torch.inf)
        return cls(scores, inside, lengths)


class Chains:
    """A growing set of chains.

    `nodes`: float64, (M, T): the `total` and the `open` one by the last word; int64: the `first`
    word on top and the `chart`, (M,), and `chain`, (M, T): its number and those below it, −1 after
    the last.
    """

    def __init__(self, spread: SpanTotals) -> None:
        self._spread, self.nodes = spread, NodeTable(("chain",))

    def begin(self, charts: Tensor) -> Tensor:
        """Put the first word on an empty stack, for charts, (R,); return the chains, (R,)."""
        distinct, inverse = torch.unique(charts, return_inverse=True)  # (P,), (R,)
        spread = self._spread
        word = torch.arange(spread.scores.shape[1], device=charts.device)  # (T,)
        ends = word == spread.lengths[distinct, None] - 1  # (P, T)
        closed = torch.where(ends, 0.0, -torch.inf).double()  # (P, T)
        first = torch.zeros_like(distinct)  # (P,)
        nothing = first.new_full(closed.shape, -1)  # (P, T)
        return self._append(closed, first, distinct, nothing, 0)[inverse]

    def push(self, below: Tensor, word: int) -> Tensor:
        """Put a word on the stacks of chains, (R,); return the new chains, (R,)."""
        distinct, inverse = torch.unique(below, return_inverse=True)  # (P,), (R,)
        chart, chain = self.nodes.chart[distinct], self.nodes.chain[distinct]  # (P,), (P, T)
        score = self._spread.scores[chart, self.nodes.first[distinct]]  # (P, T)
        first = torch.full_like(distinct, word)  # (P,)
        closed = score + self.nodes.total[distinct]  # (P, T)
        return self._append(closed, first, chart, chain, word)[inverse]

    def choices(self, top: Tensor, last: int) -> Tensor:
        """Return log of the total of all that follows where 0, 1, ... subtrees of chains `top`,
        (R,), are joined after the `last` word, float64, (R, C), −inf beyond the stack."""
        chain = self.nodes.chain[top]  # (R, T)
        deepest = int((chain >= 0).sum(1).max())
        chain = chain[:, :deepest]  # (R, C)
        there, held = chain >= 0, chain.clamp(min=0)  # (R, C)
        chart = self.nodes.chart[top]  # (R,)
        joined = self._spread.scores[chart[:, None], self.nodes.first[held], last]  # (R, C)
        # Joining j subtrees makes j spans, which begin where those below begin.
        joined = torch.where(there, joined, 0.0).cumsum(1) - joined[:, :1]  # (R, C)
        return (joined + self.nodes.open[held, last]).masked_fill(~there, -torch.inf)

    def pruned(self, top: Tensor) -> tuple[Chains, Tensor]:
        """Return the chains that rows, (R,), still need, or all, and theirs there."""
        if not self.nodes.spent():
            return self, top
        found, chosen = Chains(self._spread), torch.unique(self.nodes.chain[top])  # (P,)
        found.nodes, number = self.nodes.picked(chosen[chosen >= 0])
        return found, number[top]

    def _append(
        self, closed: Tensor, first: Tensor, chart: Tensor, chain: Tensor, word: int
    ) -> Tensor:
        """Make chains of a word on others from `closed`, (P, T); return their numbers, (P,)."""
        spread, longest = self._spread, closed.shape[1]
        total, opened = closed.clone(), torch.full_like(closed, -torch.inf)  # (P, T)
        score = spread.scores[chart, first]  # (P, T)
        ahead = score + total  # (P, T)
        only = spread.inside[0] if len(spread.inside) == 1 else None  # (T + 1, T)
        for last in range(longest - 2, word - 1, -1):
            rest = slice(last + 1, longest)
            part = spread.inside[chart, last + 1, rest] if only is None else only[last + 1, rest]
            opened[:, last] = (ahead[:, rest] + part).logsumexp(1)
            total[:, last] = torch.logaddexp(closed[:, last], opened[:, last])
            ahead[:, last] = score[:, last] + total[:, last]
        count = len(first)
        own = torch.arange(count, device=first.device) + len(self.nodes)  # (P,)
        chain = torch.cat([own[:, None], chain[:, :-1]], 1)  # (P, T)
        parts = {"total": total, "open": opened, "first": first, "chart": chart, "chain": chain}
        return self.nodes.append(count, **parts)


class ChainParticles(NamedTuple):
    """What particles have done so far."""

    batch: InstanceBatch
    chains: Chains | None  # None before the first word
    top: Tensor  # int64, (K,): the chain of each; before the first word its sentence

    def select(self, rows: Tensor) -> ChainParticles:
        """Return the state whose row i is row ``rows[i]`` of this one."""
        return self._replace(top=self.top[rows])

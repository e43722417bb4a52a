"""What a chart over spans says of trees whose beginning is known.

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
from beyond_perplexity.models.rnng.span_charts import Chart

FEWEST_CHAINS = 1024  # chains that are never thrown away


class _Columns(NamedTuple):
    """Of chains: float64 (M, T) the first two, int64 (M,) first word and chart, (M, T) the last.

    `chain` holds the numbers of the chain and of those below it, −1 after the last.
    """

    total: Tensor
    open: Tensor
    first: Tensor
    chart: Tensor
    chain: Tensor


class SpanTotals(NamedTuple):
    """What is known of the spans of N sentences.

    Attributes
    ----------
    scores : Tensor
        float64, (N, T, T): of spans from the first word to the last, divided by τ.
    inside : Tensor
        float64, (N, T + 1, T): log Σ exp(Σ score) over the trees of a span, −inf where it is none.
    lengths : Tensor
        int64, (N,).
    """

    scores: Tensor
    inside: Tensor
    lengths: Tensor

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
    """A growing set of chains."""

    def __init__(self, spread: SpanTotals) -> None:
        self._spread = spread
        longest = spread.scores.shape[1]
        none = spread.lengths[:0]  # (0,)
        wide = spread.scores.new_zeros(0, longest)  # (0, T)
        self._columns = _Columns(wide, wide, none, none, none[:, None].expand(-1, longest))
        self._kept = 0

    def __len__(self) -> int:
        return len(self._columns.first)

    def begin(self, charts: Tensor) -> Tensor:
        """Put the first word on an empty stack, for charts, (R,); return the chains, (R,)."""
        distinct, place = torch.unique(charts, return_inverse=True)  # (P,), (R,)
        spread = self._spread
        word = torch.arange(spread.scores.shape[1], device=charts.device)  # (T,)
        ends = word == spread.lengths[distinct, None] - 1  # (P, T)
        closed = torch.where(ends, 0.0, -torch.inf).double()  # (P, T)
        first = torch.zeros_like(distinct)  # (P,)
        nothing = self._columns.chain.new_full(closed.shape, -1)  # (P, T)
        return self._append(closed, first, distinct, nothing, 0)[place]

    def push(self, below: Tensor, word: int) -> Tensor:
        """Put a word on the stacks of chains, (R,); return the new chains, (R,)."""
        distinct, place = torch.unique(below, return_inverse=True)  # (P,), (R,)
        under = _Columns(*(column[distinct] for column in self._columns))
        score = self._spread.scores[under.chart, under.first]  # (P, T)
        first = torch.full_like(distinct, word)  # (P,)
        return self._append(score + under.total, first, under.chart, under.chain, word)[place]

    def choices(self, top: Tensor, last: int) -> Tensor:
        """Weigh how many subtrees are joined, none, one, ..., before the next word.

        Parameters
        ----------
        top : Tensor
            int64, (R,): chains.
        last : int
            The newest word.

        Returns
        -------
        Tensor
            float64, (R, C): log of the total of all that follows each; −inf where the stack holds
            too few.
        """
        chain = self._columns.chain[top]  # (R, T)
        deepest = int((chain >= 0).sum(1).max())
        chain = chain[:, :deepest]  # (R, C)
        there = chain >= 0  # (R, C)
        held = chain.clamp(min=0)  # (R, C)
        chart = self._columns.chart[top]  # (R,)
        joined = self._spread.scores[chart[:, None], self._columns.first[held], last]  # (R, C)
        # Joining j subtrees makes j spans, which begin where those below begin.
        joined = torch.where(there, joined, 0.0).cumsum(1) - joined[:, :1]  # (R, C)
        return (joined + self._columns.open[held, last]).masked_fill(~there, -torch.inf)

    def below(self, top: Tensor, joined: Tensor) -> Tensor:
        """Return the chains that are left when some subtrees, (R,), have been joined, (R,)."""
        return self._columns.chain[top, joined]

    def pruned(self, top: Tensor) -> tuple[Chains, Tensor]:
        """Return the chains that rows, (R,), still need, and theirs among them, (R,).

        They are these themselves unless most are needed no more.
        """
        if len(self) < max(FEWEST_CHAINS, 2 * self._kept):
            return self, top
        chosen = torch.unique(self._columns.chain[top])  # (P,)
        chosen = chosen[chosen >= 0]  # (P,)
        number = torch.full((len(self) + 1,), -1, device=top.device)  # (M + 1,): the last for −1
        number[chosen] = torch.arange(len(chosen), device=top.device)
        found = Chains(self._spread)
        columns = _Columns(*(column[chosen] for column in self._columns))
        found._columns = columns._replace(chain=number[columns.chain])
        found._kept = len(chosen)
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
        numbers = torch.arange(len(self), len(self) + len(first), device=first.device)  # (P,)
        chain = torch.cat([numbers[:, None], chain[:, :-1]], 1)  # (P, T)
        new = _Columns(total, opened, first, chart, chain)
        self._columns = _Columns(
            *(torch.cat(both) for both in zip(self._columns, new, strict=True))
        )
        return numbers


class ChainParticles(NamedTuple):
    """What particles have done so far.

    Attributes
    ----------
    batch : InstanceBatch
    chains : Chains or None
        None before the first word.
    top : Tensor
        int64, (K,): the chain of each; before the first word its sentence.
    """

    batch: InstanceBatch
    chains: Chains | None
    top: Tensor

    def select(self, rows: Tensor) -> ChainParticles:
        """Return the state whose row i is row ``rows[i]`` of this one."""
        return self._replace(top=self.top[rows])

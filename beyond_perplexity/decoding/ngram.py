"""Decoding of models of sparse counts on these, without a dense distribution.

Every context is truncated once, so that a draw is a binary search among cumulative weights. Texts
are those of the dense path, but for rounding at an edge of the CDF (about 1e-7 a token). C
contexts, N entries (distinct runs of n tokens), S slots, k beams.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from beyond_perplexity.decoding import beam, sampling
from beyond_perplexity.decoding.engine import Engine
from beyond_perplexity.decoding.kernels import Contexts
from beyond_perplexity.decoding.options import DecodingOptions
from beyond_perplexity.decoding.sampling import TokenDraw, load_kind
from beyond_perplexity.models.trigram import Trigram
from beyond_perplexity.vocabulary import UNK

DEFAULT_BATCH = 16_384  # slots: a step must have enough work for its fixed costs


@dataclass
class ContextTable:
    """A decoding's distribution in every context: `successor`, int64, (N,), in the order of the
    inverse CDF, `cumulative`, float64, (N + 1,), weights before, log p under model and decoding."""

    successor: Tensor
    cumulative: Tensor
    log_prob: Tensor
    log_prob_decoding: Tensor


def _tempered(model: Trigram, options: DecodingOptions, owner: Tensor) -> Tensor:
    """Return the weights of q, float64 (N,): whole counts at temperature 1."""
    weight = model.counts.double()  # (N,)
    if options.temperature != 1:
        largest = torch.zeros(len(model.offsets) - 1, dtype=torch.float64, device=weight.device)
        largest.scatter_reduce_(0, owner, weight, "amax")  # (C,)
        weight = (weight / largest[owner]) ** (1 / options.temperature)  # (N,)
    if options.unknown == "exclude":
        alone = (model.offsets.diff() == 1)[owner]  # (N,)
        weight = torch.where((model.successors == UNK) & ~alone, 0, weight)  # (N,)
    return weight


def build_table(model: Trigram, options: DecodingOptions) -> ContextTable:
    """Work out the distribution of a decoding in every context; for beams, that of each."""
    offsets = model.offsets
    # (N,)
    owner = torch.arange(len(offsets) - 1, device=offsets.device).repeat_interleave(offsets.diff())
    contexts = Contexts(_tempered(model, options, owner), owner, offsets)
    order, kept = load_kind(options.kind).keep(contexts, options)  # (N,), (N,)
    if order is None:
        order = torch.arange(len(owner), device=offsets.device)  # (N,)
    weight = torch.where(kept, contexts.weight[order], 0)  # (N,)
    mass = contexts.sums(weight)  # (C,)
    counts = model.counts[order].double()  # (N,)
    return ContextTable(
        successor=model.successors[order].long(),
        cumulative=torch.nn.functional.pad(weight.cumsum(0), (1, 0)),
        log_prob=(counts / model.context_counts[owner]).log(),
        log_prob_decoding=(weight / mass[owner]).log(),
    )


class TableEngine(Engine):
    """An engine that draws from the table of a counted model."""

    model: Trigram

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._table = build_table(self.model, self.options)

    def _advance_model(self) -> tuple[Tensor, Tensor]:
        """Advance by the newest tokens; return where the entries of their contexts are, (R,)."""
        rows, self.state = self.model.find_contexts(self.slots["token"].flatten(), self._state)
        offsets, cumulative = self.model.offsets, self._table.cumulative
        return cumulative[offsets[rows]], cumulative[offsets[rows + 1]]


class SamplingEngine(TableEngine, sampling.SamplingEngine):
    """Every kind but beam, for a counted model; see `sampling.SamplingEngine`."""

    @property
    def recordable(self) -> bool:
        """All of a step is."""
        return True

    def next_tokens(self) -> TokenDraw:
        """Draw the next token of every slot from the table."""
        low, high = self._advance_model()  # (S,), (S,)
        uniform, table = self._numbers()[:, 0], self._table  # (S,)
        entry = find_entry(table, low + uniform * (high - low), high)  # (S,)
        return TokenDraw(
            table.successor[entry], table.log_prob[entry], table.log_prob_decoding[entry]
        )


def find_entry(table: ContextTable, target: Tensor, high: Tensor) -> Tensor:
    """Find the entry of positive weight whose interval holds `target`, which is below `high`."""
    below = torch.nextafter(high, torch.zeros_like(high))
    return torch.searchsorted(table.cumulative, torch.minimum(target, below), right=True) - 1


class BeamEngine(TableEngine, beam.BeamEngine):
    """Beam sampling for a counted model; see `beam`."""

    def _draws(self) -> tuple[Tensor, Tensor]:
        """Draw k continuations of every beam: tokens and log probabilities, (S, k, k)."""
        table, (low, high) = self._table, self._advance_model()  # (R,), (R,)
        numbers = self._numbers().unflatten(1, (self.beams, -1)).flatten(0, 1)  # (R, k)
        entries, valid = _distinct_entries(table, low, high, numbers)  # (R, k), (R, k)
        scores = torch.where(valid, table.log_prob[entries], -torch.inf)  # (R, k)
        shape = (-1, self.beams, self.beams)
        drawn = table.successor[entries].view(shape)  # (S, k, k)
        return drawn, self.slots["log_prob"][:, :, None] + scores.view(shape)


def _distinct_entries(
    table: ContextTable, low: Tensor, high: Tensor, numbers: Tensor
) -> tuple[Tensor, Tensor]:
    """Draw entries without replacement, int64 and bool, (R, k): a number skips what was drawn."""
    starts = torch.full_like(numbers, torch.inf)  # (R, k): of drawn entries, rising
    sizes = torch.zeros_like(numbers)  # (R, k): their weights
    entries, valid = [], []
    left = high - low  # (R,)
    for draw in range(numbers.shape[1]):
        target = low + numbers[:, draw] * left  # (R,)
        for earlier in range(draw):
            past = target >= starts[:, earlier]  # (R,)
            target = torch.where(past, target + sizes[:, earlier], target)  # (R,)
        entry = find_entry(table, target, high)  # (R,)
        start = table.cumulative[entry]  # (R,)
        size = table.cumulative[entry + 1] - start  # (R,)
        # Weights are counts, or shares of the largest: what is left is 0 or far above rounding.
        valid.append(left > 1e-9 * (high - low))
        entries.append(entry)
        starts[:, draw], sizes[:, draw] = start, size
        starts, order = starts.sort(dim=1)  # (R, k)
        sizes = sizes.gather(1, order)  # (R, k)
        left = left - size  # (R,)
    return torch.stack(entries, 1), torch.stack(valid, 1)

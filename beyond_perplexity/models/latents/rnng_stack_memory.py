"""A persistent stack for many rows of actions: what equal prefixes lead to is computed once.

A node is what some prefix of an instance's actions has led to, made step by step from nodes before
it; rows that begin alike share nodes. R rows, W actions of the longest, M nodes, D width of a node.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from beyond_perplexity.invariant_tensors import QUANTUM
from beyond_perplexity.models.latent import PADDING

# Rows that are computed together at most: what bounds the memory.
ROWS_AT_ONCE = 512
FEWEST_NODES = 4096  # of a table, that are never thrown away


class NodeTable:
    """Columns (M, ...) of nodes that grow, each an attribute; a node lies on that of `below`, a
    first one on itself, and the columns `links` have numbers of nodes, −1 for none."""

    def __init__(self, links: Sequence[str] = ("below",)) -> None:
        self._columns: dict[str, Tensor] = {}
        self._links = links
        self._end = self._kept = 0

    def __len__(self) -> int:
        return self._end

    def __getattr__(self, name: str) -> Tensor:
        if name.startswith("_") or name not in self._columns:
            raise AttributeError(name)
        return self._columns[name][: self._end]

    def append(self, count: int, **columns: Tensor) -> Tensor:
        """Add the first `count` rows of columns; return their numbers, (count,)."""
        end = self._end + count
        for name, new in columns.items():
            held = self._columns.get(name, new[:0])
            if end > len(held):
                room = max(end, 2 * len(held)) - self._end
                held = torch.cat([held[: self._end], new.new_zeros(room, *new.shape[1:])])
            held[self._end : end] = new[:count]
            self._columns[name] = held
        found = torch.arange(self._end, end, device=new.device)
        self._end = end
        return found

    def spent(self) -> bool:
        """Tell whether it is time to look for nodes that are needed no more."""
        return self._end >= max(FEWEST_NODES, 2 * self._kept)

    def stacked(self, at: Tensor) -> Tensor:
        """List all that lies on the stacks of nodes, (R,), rising."""
        needed = torch.zeros(self._end, dtype=torch.bool, device=at.device)  # (M,)
        level = torch.unique(at)  # (P,)
        while not bool(needed[level].all()):
            needed[level] = True
            level = torch.unique(self.below[level])  # (P,)
        return needed.nonzero()[:, 0]

    def picked(self, chosen: Tensor) -> tuple[Self, Tensor]:
        """Return a table of some nodes, (N,), and the new numbers of the old ones, (M + 1,)."""
        number = torch.full((self._end + 1,), -1, device=chosen.device)  # the last is for −1
        number[chosen] = torch.arange(len(chosen), device=chosen.device)
        found = copy.copy(self)
        found._columns = {name: column[chosen] for name, column in self._columns.items()}
        for name in self._links:
            found._columns[name] = number[found._columns[name]]
        found._end = found._kept = len(chosen)
        return found, number


class Prefixes(NamedTuple):
    """The distinct prefixes of rows."""

    # int64, (R, W + 1): the node of each row after so many actions; after its last action the node
    # stays
    nodes: Tensor
    rows: Tensor  # int64, (M,): a row that has the node
    steps: Tensor  # int64, (M,): actions that lead to it
    # Nodes of each step, W + 1 of them, all multiples of `quantum.QUANTUM`: some are there twice
    sizes: list[int]


def share_prefixes(owner: Tensor, latents: Tensor) -> Prefixes:
    """Find the distinct prefixes of actions from 0 up, then `PADDING`, int64, (R, W); rows of
    different instances, `owner`, int64, (R,), share nothing."""
    rows, width = latents.shape
    # Sorted, rows that begin alike lie beside each other.
    keys = torch.cat([owner[:, None], latents], 1)  # (R, W + 1)
    distinct, inverse = torch.unique(keys, dim=0, return_inverse=True)  # (U, W + 1), (R,)
    other = (distinct[1:] != distinct[:-1]).cumsum(1) > 0  # (U − 1, W + 1)
    filled = functional.pad(distinct[:, 1:] != PADDING, (1, 0), value=True)  # (U, W + 1)
    fresh = functional.pad(other, (0, 0, 1, 0), value=True) & filled  # (U, W + 1): makes a node
    counts = fresh.sum(0)  # (W + 1,)
    sizes = (counts + QUANTUM - 1) // QUANTUM * QUANTUM  # (W + 1,)
    start = sizes.cumsum(0) - sizes  # (W + 1,)
    made = start + fresh.cumsum(0) - 1  # (U, W + 1)
    step = torch.arange(width + 1, device=owner.device)  # (W + 1,)
    newest = torch.where(filled, step, 0).cummax(1).values  # (U, W + 1): the last step with a node
    one = torch.empty_like(distinct[:, 0])  # (U,): a row of each
    one = one.scatter_(0, inverse, torch.arange(rows, device=owner.device))
    steps = step.repeat_interleave(sizes)  # (M,)
    inside = torch.arange(len(steps), device=owner.device) - start[steps]  # (M,)
    nth = torch.minimum(inside, counts[steps] - 1) + (counts.cumsum(0) - counts)[steps]  # (M,)
    makers = one[fresh.T.nonzero()[:, 1]][nth]  # (M,)
    return Prefixes(made.gather(1, newest)[inverse], makers, steps, sizes.tolist())


def run_packed(layers: nn.LSTM, inputs: Tensor, lengths: Tensor) -> Tensor:
    """Run an LSTM over rows (B, T, E) of their own lengths, (B,): its output, (B, T, H)."""
    packed = pack_padded_sequence(inputs, lengths.cpu(), batch_first=True, enforce_sorted=False)
    output: Tensor = pad_packed_sequence(layers(packed)[0], True, 0.0, inputs.shape[1])[0]
    return output


class _Write(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, token: Tensor, values: Tensor, memory: StackMemory, start: int) -> Tensor:
        end = start + len(values)
        memory.values[start:end] = values
        ctx.position = (memory, start, end)
        return token.clone()

    @staticmethod
    def backward(ctx: Any, *outputs: Any) -> Any:
        memory, start, end = ctx.position
        return outputs[0], memory.gradient()[start:end], None, None


class _Read(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, token: Tensor, index: Tensor, memory: StackMemory) -> Tensor:
        ctx.position = (memory, index)
        return memory.values[index]

    @staticmethod
    def backward(ctx: Any, *outputs: Any) -> Any:
        memory, index = ctx.position
        memory.gradient().index_add_(0, index, outputs[0])
        return outputs[0].new_zeros(()), None, None


class StackMemory:
    """Vectors of nodes, (M, D), written once each and read many times, with gradients.

    Cutting and indexing one tensor at every step would cost autograd time and memory quadratic in
    the steps. Here all reads add into one gradient. A scalar that runs through all writes and reads
    makes autograd go back in order: a node's gradient is taken when all its readers have added.
    """

    def __init__(self, nodes: int, width: int, like: Tensor) -> None:
        self.values = torch.zeros(nodes, width, dtype=like.dtype, device=like.device)  # (M, D)
        self._gradient: Tensor | None = None
        self._token = self.values.new_zeros(())
        self._end = 0

    def write(self, values: Tensor) -> None:
        """Append nodes, (N, D)."""
        while self._end + len(values) > len(self.values):
            self.values = torch.cat([self.values, torch.zeros_like(self.values)])  # (2 M, D)
        if torch.is_grad_enabled():
            self._token = _Write.apply(self._token, values, self, self._end)
        else:
            self.values[self._end : self._end + len(values)] = values
        self._end += len(values)

    def read(self, index: Tensor) -> Tensor:
        """Fetch nodes, (N, D), by their numbers, int64, (N,)."""
        if not torch.is_grad_enabled():
            return self.values.index_select(0, index)
        value: Tensor = _Read.apply(self._token, index, self)
        return value

    def picked(self, index: Tensor) -> StackMemory:
        """Return a memory of some nodes alone, (N,), without their gradients."""
        found = StackMemory(len(index), self.values.shape[1], self.values)
        found.write(self.values[index])
        return found

    def gradient(self) -> Tensor:
        """Return what the readers have added up so far, (M, D)."""
        if self._gradient is None:
            self._gradient = torch.zeros_like(self.values)  # (M, D)
        return self._gradient


class StackLSTM(nn.Module):
    """LSTM layers that step rows from any states, `size` wide, with dropout between two layers in
    training."""

    def __init__(self, size: int, layers: int, dropout: float) -> None:
        super().__init__()
        self.width = 2 * size * layers
        self.dropout = dropout
        self.layers = nn.ModuleList(nn.LSTMCell(size, size) for _ in range(layers))

    def forward(self, inputs: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Step once from states, (P, width), output and cell of each layer or zeros: the output of
        the last layer, (P, size), and the states, (P, width)."""
        if state is None:
            state = inputs.new_zeros(len(inputs), self.width)  # (P, width)
        parts = state.chunk(2 * len(self.layers), 1)  # (P, size) each
        after: list[Tensor] = []
        for number, layer in enumerate(self.layers):
            if number:
                inputs = functional.dropout(inputs, self.dropout, self.training)  # (P, size)
            inputs, cell = layer(inputs, (parts[2 * number], parts[2 * number + 1]))
            after += [inputs, cell]
        return inputs, torch.cat(after, 1)

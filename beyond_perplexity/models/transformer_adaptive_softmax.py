"""The Transformer decoder with adaptive softmax and adaptive input embeddings.

Grave et al. 2017; Baevski & Auli 2019. Ids are cut into bands, from frequent to rare, each with
narrower vectors than the one before it. The head has the frequent ones and an entry for each other
band (tail): p(w) = p_head(w) in the head, p_head(tail i) p_i(w) in tail i. Bands pay where ids come
by falling frequency, as those of a closed vocabulary do, and those of BPE roughly.

N positions, D width, V ids, n tails; band i has S_i ids and vectors of D_i.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from beyond_perplexity.errors import InputError
from beyond_perplexity.models.contract import chosen_log_probs
from beyond_perplexity.models.factored import (
    OutputLayer,
    float_product,
    impossible_ids,
    summed_cross_entropy,
)
from beyond_perplexity.models.transformer import Transformer, TransformerOptions
from beyond_perplexity.vocabulary import N_SPECIAL


@dataclass(frozen=True)
class Bands:
    """How the ids are cut."""

    starts: tuple[int, ...]  # first id of each band
    sizes: tuple[int, ...]  # S_i
    widths: tuple[int, ...]  # D_i of its vectors

    @classmethod
    def cut(
        cls, vocabulary_size: int, cutoffs: Sequence[float], width: int, reduction: int
    ) -> Bands:
        """Cut V ids at the first ids of the tails (below 1: shares of V), without cuts that leave a
        band empty; special tokens are in the head, band i has vectors of D / reduction^i."""
        ends = {int(cut * vocabulary_size if cut < 1 else cut) for cut in cutoffs}
        inner = sorted(end for end in ends if N_SPECIAL <= end < vocabulary_size)
        if not inner:
            wrong = f"none of {list(cutoffs)} is inside the vocabulary of {vocabulary_size} ids"
            raise InputError(f"architecture.cutoffs: {wrong}; give smaller ones")
        edges = (0, *inner, vocabulary_size)
        widths = tuple(max(1, width // reduction**band) for band in range(len(inner) + 1))
        return cls(edges[:-1], tuple(end - start for start, end in pairwise(edges)), widths)

    def tables(self) -> nn.ModuleList:
        """Return new embeddings S_i x D_i, of variance 1 / D_i."""
        tables = nn.ModuleList()
        for size, width in zip(self.sizes, self.widths, strict=True):
            table = nn.Embedding(size, width)
            nn.init.normal_(table.weight, std=width**-0.5)
            tables.append(table)
        return tables

    def projections(self) -> nn.ModuleList:
        """Return new linear maps from D_i to D."""
        projections = nn.ModuleList()
        for width in self.widths:
            projection = nn.Linear(width, self.widths[0], bias=False)
            nn.init.xavier_uniform_(projection.weight)
            projections.append(projection)
        return projections

    def masks(self, ids: Tensor) -> list[Tensor]:
        """Return for each band which of the ids are in it: bool, in the shape of the ids."""
        spans = zip(self.starts, self.sizes, strict=True)
        return [(ids >= start) & (ids < start + size) for start, size in spans]


def _weight(layers: nn.ModuleList, index: int) -> Tensor:
    weight = layers[index].weight
    assert isinstance(weight, Tensor)
    return weight


class AdaptiveInput(nn.Module):
    """Embeddings whose width depends on the band of the id, each projected to D."""

    def __init__(self, bands: Bands) -> None:
        super().__init__()
        self.bands = bands
        self.tables = bands.tables()
        self.projections = bands.projections()

    def forward(self, tokens: Tensor) -> Tensor:
        """Return embeddings (..., D) of tokens (...)."""
        # Every row goes through every band: shapes that depend on the tokens would let the rows of
        # a batch change one another's rounding, and stop the host on a GPU.
        embedded = torch.zeros((), device=tokens.device)
        for band, mask in enumerate(self.bands.masks(tokens)):
            inside = (tokens - self.bands.starts[band]).where(mask, 0)  # (...)
            narrow = functional.embedding(inside, _weight(self.tables, band))  # (..., D_i)
            wide = functional.linear(narrow, _weight(self.projections, band))  # (..., D)
            embedded = torch.where(mask[..., None], wide, embedded)  # (..., D)
        return embedded


class AdaptiveSoftmax(OutputLayer):
    """An output layer of head and tails, without biases; its tables may be tied to those of the
    `shared` input embedding, and the tails' projections, transposed; the head has none."""

    impossible: Tensor

    def __init__(
        self, shared: AdaptiveInput, open_vocabulary: bool, tie_weights: bool, tie_projections: bool
    ) -> None:
        super().__init__()
        self.bands = bands = shared.bands
        self.tables = shared.tables if tie_weights else bands.tables()
        source = shared.projections if tie_projections else bands.projections()
        self.projections = nn.ModuleList(source[1:])
        self.clusters = nn.Linear(bands.widths[0], len(self.projections), bias=False)
        nn.init.normal_(self.clusters.weight, std=bands.widths[0] ** -0.5)
        self.register_buffer("impossible", impossible_ids(open_vocabulary), persistent=False)

    def logits(self, features: Tensor) -> Tensor:
        """Return log p of all ids, float32, (..., V), for features (..., D); normalized."""
        first = self.bands.sizes[0]
        words, *heads = self._head(features).split([first] + [1] * len(self.projections), -1)
        tails = (self._tail(tail, features).log_softmax(-1) for tail in range(len(heads)))
        return torch.cat([words, *map(torch.add, tails, heads)], -1)  # (..., V)

    def log_probs(self, features: Tensor, targets: Tensor) -> Tensor:
        """Return log p, float64, (N,), computing only the tails that the targets (N,) are in."""
        entries = self._head_entries(targets)  # (N,)
        result = chosen_log_probs(self._head(features), entries)  # (N,)
        for tail, rows, inside in self._tail_targets(targets):
            result[rows] += chosen_log_probs(self._tail(tail, features[rows]), inside)
        return result

    def summed_loss(self, features: Tensor, targets: Tensor, dtype: torch.dtype) -> Tensor:
        """Return −Σ log p of targets (N,), nats, for features (N, D)."""
        weight = torch.cat([_weight(self.tables, 0), self.clusters.weight])  # (S_0 + n, D)
        entries = self._head_entries(targets)  # (N,)
        loss = summed_cross_entropy(features, weight, None, entries, self.impossible, dtype)
        nothing = self.impossible[:0]
        for tail, rows, inside in self._tail_targets(targets):
            narrow = self._narrow(tail, features[rows])  # (N_i, D_i)
            table = _weight(self.tables, tail + 1)  # (S_i, D_i)
            loss = loss + summed_cross_entropy(narrow, table, None, inside, nothing, dtype)
        return loss

    def _head(self, features: Tensor) -> Tensor:
        words = float_product(features, _weight(self.tables, 0))  # (..., S_0)
        clusters = float_product(features, self.clusters.weight)  # (..., n)
        logits = torch.cat([words, clusters], -1)  # (..., S_0 + n)
        return logits.index_fill_(-1, self.impossible, -torch.inf).log_softmax(-1)

    def _tail(self, tail: int, features: Tensor) -> Tensor:
        narrow = self._narrow(tail, features)  # (..., D_i)
        return float_product(narrow, _weight(self.tables, tail + 1))  # (..., S_i)

    def _narrow(self, tail: int, features: Tensor) -> Tensor:
        return functional.linear(features, _weight(self.projections, tail).T)  # (..., D_i)

    def _head_entries(self, targets: Tensor) -> Tensor:
        """Return the entry of the head that each target is, or is behind."""
        entries = targets  # (N,)
        for tail, mask in enumerate(self.bands.masks(targets)[1:]):
            entries = entries.masked_fill(mask, self.bands.sizes[0] + tail)
        return entries

    def _tail_targets(self, targets: Tensor) -> list[tuple[int, Tensor, Tensor]]:
        """List the tails that hold targets: tail, positions (N_i,), targets within it (N_i,)."""
        found = []
        for tail, mask in enumerate(self.bands.masks(targets)[1:]):
            rows = mask.nonzero()[:, 0]
            if len(rows):
                found.append((tail, rows, targets[rows] - self.bands.starts[tail + 1]))
        return found


@dataclass(frozen=True)
class AdaptiveTransformerOptions(TransformerOptions):
    """Architecture of an `AdaptiveTransformer`: that of a `Transformer`, and the bands.

    cutoffs: Where the ids are cut into bands of falling frequency: rising ids, or shares of the
        vocabulary where below 1. Cuts beyond the vocabulary are passed over.
    reduction: How many times narrower the vectors of a band are than those of the band before it.
    tie_projections: The output layer shares the input's projections of all bands but the first.
    """

    cutoffs: tuple[float, ...] = (0.1, 0.4)
    reduction: int = 4
    tie_projections: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        cuts = list(self.cutoffs)
        if not cuts or min(cuts) <= 0 or cuts != sorted(set(cuts)):
            raise ValueError(f"cutoffs: are {cuts}, expected rising numbers above 0")
        if self.reduction < 1 or self.width < self.reduction ** len(cuts):
            wanted = f"at least 1 and a width that can be divided by it {len(cuts)} times"
            raise ValueError(f"reduction: is {self.reduction}, expected {wanted}")


class AdaptiveTransformer(Transformer):
    """A Transformer whose logits are the normalized log probabilities of an adaptive softmax."""

    family: ClassVar[str] = "transformer-adaptive-softmax"
    options_kind: ClassVar[type[TransformerOptions]] = AdaptiveTransformerOptions
    options: AdaptiveTransformerOptions

    def _make_embedding(self) -> nn.Module:
        options = self.options
        cut = (options.cutoffs, options.width, options.reduction)
        return AdaptiveInput(Bands.cut(self.vocabulary_size, *cut))

    def _make_output(self) -> OutputLayer:
        assert isinstance(self.embedding, AdaptiveInput)
        ties = (self.options.tie_weights, self.options.tie_projections)
        return AdaptiveSoftmax(self.embedding, self.open_vocabulary, *ties)

"""Networks in two halves: features of each position, then an output layer over all ids; dropout.

A full softmax costs most of a small model's time on a CPU, much of it traffic to memory: so the
cross entropy goes by chunks, whose gradient is taken at once, and nothing of (positions, V) is
kept.

B rows, T positions, N positions of all rows, E width, D features, V ids.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from beyond_perplexity.corpus.token_batches import IGNORED
from beyond_perplexity.models.contract import (
    ConfiguredLanguageModel,
    LanguageModel,
    State,
    chosen_log_probs,
)

CPU_ROWS = 128  # (positions, V) of so many stays in the cache for the usual V
SCORED_ROWS = 512  # of a scoring on a CPU; for more at once the system gives new memory each time
GPU_ROWS = 8192
# Instructions for products of bfloat16. Torch takes these products on older CPUs too, where they
# are made of others and are 2 to 3 times slower than those of float32.
BFLOAT16_INSTRUCTIONS = ("avx512_bf16", "amx_bf16", "bf16", "sve_bf16")


@cache
def fastest_products() -> torch.dtype:
    """Return bfloat16 where the CPU has instructions for its products, else float32."""
    held = torch.cpu.get_capabilities()
    return torch.bfloat16 if any(held.get(n) for n in BFLOAT16_INSTRUCTIONS) else torch.float32


def _product(left: Tensor, right: Tensor, out: Tensor) -> Tensor:
    """Write left @ right to a float32 tensor and return it."""
    return torch.mm(left, right, out=out) if left.dtype == out.dtype else out.copy_(left @ right)


def _add_product(total: Tensor, left: Tensor, right: Tensor) -> None:
    """Add left @ right to a float32 total."""
    if left.dtype == total.dtype:
        total.addmm_(left, right)
    else:
        total += (left @ right).float()


class _ChunkedCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        features: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        targets: Tensor,
        impossible: Tensor,
        dtype: torch.dtype,
        has_slope: bool,
    ) -> Tensor:
        wide, matrix = features.to(dtype), weight.to(dtype)  # (N, D), (V, D)
        loss = torch.zeros((), dtype=torch.float64, device=features.device)
        room = features.new_empty(CPU_ROWS, len(weight))  # a new one for each chunk takes longer
        by_features = torch.empty_like(features)  # (N, D)
        by_weight = torch.zeros_like(weight)  # (V, D)
        by_bias = None if bias is None else torch.zeros_like(bias)  # (V,)
        for start in range(0, len(features), CPU_ROWS):
            part = slice(start, start + CPU_ROWS)
            rows, goal = wide[part], targets[part]  # (C, D), (C,)
            scores = _product(rows, matrix.T, room[: len(rows)])  # (C, V)
            if bias is not None:
                scores += bias
            scores.index_fill_(1, impossible, -torch.inf)
            chosen = scores.gather(1, goal[:, None])  # (C, 1)
            top = scores.amax(1, keepdim=True)  # (C, 1)
            shares = scores.sub_(top).exp_()  # (C, V)
            total = shares.sum(1, keepdim=True)  # (C, 1)
            loss += (top + total.log() - chosen).double().sum()
            if not has_slope:  # a validation: most of the work is for the gradient
                continue
            # The slope is shares / total − one-hot target, taken apart so as to be never written.
            scale = 1 / total  # (C, 1)
            if by_bias is not None:
                by_bias.addmv_(shares.T, scale[:, 0])
            narrow = shares.to(dtype)  # (C, V)
            by_features[part] = (narrow @ matrix).float() * scale
            _add_product(by_weight, narrow.T, (rows * scale).to(dtype))
        if not has_slope:
            return loss.float()
        by_features -= weight[targets]
        by_weight.index_add_(0, targets, features, alpha=-1.0)
        if by_bias is not None:
            by_bias -= torch.bincount(targets, minlength=len(weight))
        ctx.save_for_backward(by_features, by_weight, by_bias)
        return loss.float()

    @staticmethod
    def backward(ctx: Any, *outputs: Any) -> Any:
        (slope,) = outputs
        by_features, by_weight, by_bias = ctx.saved_tensors
        bias = None if by_bias is None else by_bias * slope
        return by_features * slope, by_weight * slope, bias, None, None, None, None


def chunked_cross_entropy(
    features: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    targets: Tensor,
    impossible: Tensor,
    dtype: torch.dtype = torch.float32,
) -> Tensor:
    """Return −Σ log softmax(features weightᵀ + bias)[target], nats, float32 scalar.

    Features, float32, (N, D), weight (V, D), bias (V,), targets, int64, (N,), none impossible.
    `dtype` is of the operands of the products; bfloat16 is 2 to 3 times faster on CPUs that have
    it.
    """
    arguments = (features, weight, bias, targets, impossible, dtype, torch.is_grad_enabled())
    value: Tensor = _ChunkedCrossEntropy.apply(*arguments)
    return value


def checkpointed_cross_entropy(
    features: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    targets: Tensor,
    impossible: Tensor,
    rows: int = GPU_ROWS,
) -> Tensor:
    """Return `chunked_cross_entropy` in the training's precision, whose logits are made again for
    the gradient, a few rows a time, as all would not fit into a GPU's memory."""

    def part(held: Tensor, wanted: Tensor) -> Tensor:
        logits = functional.linear(held, weight, bias).float()  # (n, V)
        logits = logits.index_fill(1, impossible, -torch.inf)
        return functional.cross_entropy(logits, wanted, reduction="sum")

    total = features.new_zeros((), dtype=torch.float32)
    for held, wanted in zip(features.split(rows), targets.split(rows), strict=True):
        total = total + checkpoint(part, held, wanted, use_reentrant=False)
    return total


def summed_cross_entropy(
    features: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    targets: Tensor,
    impossible: Tensor,
    dtype: torch.dtype,
) -> Tensor:
    """Return −Σ log softmax(features weightᵀ + bias)[target] in the way that suits the device."""
    more = (weight, bias, targets, impossible)
    if features.device.type == "cpu":
        return chunked_cross_entropy(features.float(), *more, dtype)
    return checkpointed_cross_entropy(features, *more)


class OutputLayer(nn.Module, ABC):
    """A map of features to a distribution over V ids, position by position."""

    @abstractmethod
    def logits(self, features: Tensor) -> Tensor:
        """Return logits, float32, (..., V), for features (..., D)."""

    def log_probs(self, features: Tensor, targets: Tensor) -> Tensor:
        """Return log p, float64, (N,), of targets (N,), for features (N, D)."""
        return chosen_log_probs(self.logits(features), targets)

    @abstractmethod
    def summed_loss(self, features: Tensor, targets: Tensor, dtype: torch.dtype) -> Tensor:
        """Return −Σ log p of targets (N,), nats, float32; `dtype` is of the products on a CPU."""


def impossible_ids(open_vocabulary: bool) -> Tensor:
    """Return the ids without probability: ``<s>``, and ``<unk>`` of an open vocabulary."""
    return torch.tensor([0, 2] if open_vocabulary else [0])


def float_product(features: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return features weightᵀ + bias in float32, (..., V), from (..., D) and (V, D), where a CPU's
    product, unlike a GPU's, rounds its sums to the type of its operands."""
    if weight.dtype != torch.bfloat16 or weight.device.type == "cpu":
        return functional.linear(features, weight, bias).float()
    flat = features.flatten(0, -2)  # (N, D)
    product = torch.mm(flat, weight.T, out_dtype=torch.float32)  # (N, V)
    product = product.unflatten(0, features.shape[:-1])  # (..., V)
    return product if bias is None else product + bias


class FullSoftmax(nn.Linear, OutputLayer):
    """One linear map to the logits of all ids."""

    impossible: Tensor

    def __init__(self, width: int, vocabulary_size: int, bias: bool, open_vocabulary: bool) -> None:
        super().__init__(width, vocabulary_size, bias)
        self.register_buffer("impossible", impossible_ids(open_vocabulary), persistent=False)

    def logits(self, features: Tensor) -> Tensor:
        """Return logits, float32, (..., V), for features (..., D)."""
        logits = float_product(features, self.weight, self.bias)  # (..., V)
        return logits.index_fill_(-1, self.impossible, -torch.inf)

    def log_probs(self, features: Tensor, targets: Tensor) -> Tensor:
        """Return log p, float64, (N,), of targets (N,), on a CPU by a few rows at a time."""
        rows = SCORED_ROWS if features.device.type == "cpu" else max(1, len(features))
        parts = zip(features.split(rows), targets.split(rows), strict=True)
        return torch.cat([chosen_log_probs(self.logits(part), goals) for part, goals in parts])

    def summed_loss(self, features: Tensor, targets: Tensor, dtype: torch.dtype) -> Tensor:
        """Return −Σ log p of targets (N,), nats, for features (N, D)."""
        layer = (self.weight, self.bias)
        return summed_cross_entropy(features, *layer, targets, self.impossible, dtype)


class FactoredModel(LanguageModel):
    """A model whose output layer, `output`, maps D features to V ids, position by position."""

    output: OutputLayer

    @abstractmethod
    def features(self, tokens: Tensor) -> Tensor:
        """Return the input of the output layer, (B, T, D), for tokens (B, T)."""

    @abstractmethod
    def advance(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """Advance B prefixes by tokens (B,), without dropout: features (B, D), and state."""

    def forward(self, tokens: Tensor) -> Tensor:
        """Score every next token of prefixes (B, T) in one pass: logits, float32, (B, T, V)."""
        return self.output.logits(self.features(tokens))

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """Advance B prefixes by the tokens (B,): logits, float32, (B, V), and the new state."""
        features, state = self.advance(tokens, state)
        return self.output.logits(features), state

    def step_some(self, tokens: Tensor, state: State, rows: Tensor) -> tuple[Tensor, State]:
        """Advance as `step`; return the logits of some rows (N,) only, (N, V), and the state."""
        features, state = self.advance(tokens, state)  # (B, D)
        return self.output.logits(features[rows]), state

    def loss(self, batch: Any, epoch: float = math.inf) -> Tensor:
        """Return −Σ log p of all predictions of a `Batch`, nats, float32 scalar."""
        counted = batch.targets != IGNORED  # (B, T)
        features = self.features(batch.inputs)[counted]  # (N, D)
        return self.output.summed_loss(features, batch.targets[counted], self.products)

    def target_log_probs(self, inputs: Tensor, targets: Tensor, most: int) -> Iterator[Tensor]:
        """Yield log p of each target, float64, flat, in chunks; see `LanguageModel`."""
        features = self.features(inputs).flatten(0, 1)  # (B T, D)
        for start in range(0, len(features), most):
            part = slice(start, start + most)
            yield self.output.log_probs(features[part], targets.flatten()[part])

    def next_logits(self, inputs: Tensor, most: int) -> Iterator[Tensor]:
        """Yield the logits after every prefix, (n, V), in chunks; see `LanguageModel`."""
        features = self.features(inputs).flatten(0, 1)  # (B T, D)
        yield from (self.output.logits(part) for part in features.split(most))


class FactoredNetwork(ConfiguredLanguageModel, FactoredModel):
    """A factored model that is made untrained from the options of its family, `options_kind`."""

    def _drop_words(self, embedded: Tensor, tokens: Tensor) -> Tensor:
        """Drop whole words of embeddings (B, T, E) of tokens (B, T), in training."""
        share = self.options.embedding_dropout
        return drop_words(embedded, tokens, self.vocabulary_size, share, self.training)


class TiedNetwork(FactoredNetwork):
    """A network whose full softmax, with biases, may share the vectors of the embedding, behind a
    projection, `narrow`, where the hidden vectors have another width."""

    embedding: nn.Embedding
    output: FullSoftmax

    def _make_output(self, hidden: int) -> None:
        """Make the layers behind the hidden vectors."""
        width = self.options.embedding_size if self.options.tie_weights else hidden
        self.narrow = None if width == hidden else nn.Linear(hidden, width)
        self.output = FullSoftmax(width, self.vocabulary_size, True, self.open_vocabulary)
        nn.init.zeros_(self.output.bias)
        if self.options.tie_weights:
            self.output.weight = self.embedding.weight

    def _to_features(self, hidden: Tensor) -> Tensor:
        return hidden if self.narrow is None else self.narrow(hidden)  # (..., D)

    def _drop(self, values: Tensor) -> Tensor:
        options = self.options
        return drop(values, options.dropout, self.training, options.locked_dropout)


def drop_words(
    embedded: Tensor, tokens: Tensor, vocabulary_size: int, probability: float, training: bool
) -> Tensor:
    """Drop ids at all their positions in a batch, (..., E), and scale up the others (Gal &
    Ghahramani 2016, section 4.2: whole rows of an embedding matrix)."""
    if not training or not probability:
        return embedded
    kept = torch.rand(vocabulary_size, device=tokens.device) >= probability  # (V,)
    return embedded * (kept / (1 - probability))[tokens][..., None]  # (..., E)


def drop(values: Tensor, probability: float, training: bool, locked: bool = False) -> Tensor:
    """Drop elements of (B, T, E), or with `locked` the same ones at all positions of a row: the
    variational dropout of Gal & Ghahramani (2016), in a convolution spatial dropout."""
    if locked and training and probability:
        mask = functional.dropout(torch.ones_like(values[:, :1]), probability)  # (B, 1, E)
        return values * mask
    return functional.dropout(values, probability, training)


def skips_layer(probability: float, training: bool) -> bool:
    """Draw whether a batch skips a residual block (LayerDrop; Fan, Grave & Joulin 2020)."""
    return training and probability > 0 and float(torch.rand(())) < probability


def class_ends(words: int, classes: int) -> list[int]:
    """Return the ends of classes of words by falling frequency, of equal sums of √frequency."""
    return sorted({-(-words * k * k // classes**2) for k in range(1, classes + 1)})

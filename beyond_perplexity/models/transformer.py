"""The Transformer decoder: pre-norm blocks, GELU, output layer tied to the embedding.

B rows, T positions, V ids, D width, H heads of K = D / H, L layers, M positions of the cache. With
learned positions it is GPT-2 (exact GELU); with sinusoidal ones it is the decoder of Vaswani et al.
(2017) with the norms moved to the front of each sub-layer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from beyond_perplexity.errors import InputError
from beyond_perplexity.invariant_tensors import has_triton
from beyond_perplexity.models.contract import State
from beyond_perplexity.models.factored import FactoredNetwork, FullSoftmax, OutputLayer, skips_layer
from beyond_perplexity.options import Count, Dropout, Layers, Length, Limited, Width

# Attention reads the cache up to the longest prefix rounded up to this, so that few shapes occur.
CACHE_BUCKET = 32
GROUP = 16  # rows: on a CPU each group of them has its own longest prefix


@dataclass(frozen=True)
class TransformerOptions(Limited):
    """Architecture of a `Transformer`.

    layers: L, the number of blocks.
    width: D, the width of the embedding and of the residual stream.
    heads: H, the number of attention heads; divides D.
    feedforward_size: Width of the hidden layer of a block's feed-forward network.
    context_length: The longest prefix that a prediction sees, ``<s>`` included.
    positions: How a token knows its position. Sinusoidal ones need no training, so that positions
        that few documents of a small corpus reach are not noise.
    dropout: Probability of dropping an element of the embedding, of the attention weights and of
        each sub-layer's output in training.
    embedding_dropout: Probability of dropping a word's embedding wherever it is in a batch, in
        training.
    layer_dropout: Probability that a batch skips a block, in training (LayerDrop).
    tie_weights: The output layer shares the embedding's matrix.
    """

    layers: Layers = 2
    width: Width = 128
    heads: Count = 4
    feedforward_size: Width = 512
    context_length: Length = 512
    positions: Literal["sinusoidal", "learned"] = "sinusoidal"
    dropout: Dropout = 0.1
    embedding_dropout: Dropout = 0.0
    layer_dropout: Dropout = 0.0
    tie_weights: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.width < 2 or self.width % self.heads or self.width % 2:
            raise ValueError(f"width: is {self.width}, expected an even multiple of heads")


@dataclass(frozen=True)
class TransformerState(State):
    """Keys and values of B prefixes, overwritten by `step`, and shared after a `reset`."""

    likes_order: ClassVar[bool] = True

    keys: Tensor  # (L, B, H, M, K); row b is valid up to ``lengths[b]``
    values: Tensor
    lengths: Tensor  # int64, (B,)
    longest: int  # no length is above; known to the host, so that a step needs no synchronization

    def select(self, rows: Tensor) -> TransformerState:
        """Return the state whose row i is row ``rows[i]`` of this one, which is overwritten."""
        lengths = self.lengths[rows]  # (B',)
        if len(rows) > len(self.lengths):
            keys, values = self.keys.index_select(1, rows), self.values.index_select(1, rows)
            return TransformerState(keys, values, lengths, self.longest)
        moved = torch.arange(len(rows), device=rows.device)  # (B',)
        filled = self.shape()
        if rows.device.type == "cpu":
            moved, filled = (rows != moved).nonzero()[:, 0], int(self.lengths.max())  # (N,)
        for cache in (*self.keys, *self.values):  # (B, H, M, K)
            select_rows(cache, rows, moved, filled)
        keys, values = self.keys[:, : len(rows)], self.values[:, : len(rows)]  # (L, B', H, M, K)
        return TransformerState(keys, values, lengths, self.longest)

    def reset(self, rows: Tensor) -> TransformerState:
        """Return the state with the given rows put back to the empty prefix."""
        lengths = self.lengths.index_fill(0, rows, 0)  # (B,)
        return replace(self, lengths=lengths, longest=int(lengths.max()))

    def restart(self, mask: Tensor) -> TransformerState:
        """Return the state with the rows of a mask (B,) put back to the empty prefix."""
        return replace(self, lengths=self.lengths.masked_fill(mask, 0))

    def limit(self, longest: int) -> TransformerState:
        """Return the state that knows that no prefix is longer than this."""
        return replace(self, longest=longest)

    def shape(self) -> int:
        """Return how much of the cache the next step reads: a multiple of `CACHE_BUCKET`."""
        return min((self.longest // CACHE_BUCKET + 1) * CACHE_BUCKET, self.keys.shape[3])

    def tensors(self) -> tuple[Tensor, ...]:
        """Return the caches and the lengths."""
        return self.keys, self.values, self.lengths

    def groups(self) -> list[tuple[slice, int]]:
        """Cut the rows into groups, each with the positions of the cache that it reads."""
        if self.keys.device.type != "cpu":
            return [(slice(None), self.shape())]
        padded = functional.pad(self.lengths, (0, -len(self.lengths) % GROUP))  # (B'',)
        buckets = (padded.view(-1, GROUP).amax(1) // CACHE_BUCKET + 1) * CACHE_BUCKET  # (groups,)
        groups: list[tuple[slice, int]] = []
        for index, bucket in enumerate(buckets.tolist()):
            start = index * GROUP
            if groups and groups[-1][1] == bucket:
                start = groups.pop()[0].start
            groups.append((slice(start, (index + 1) * GROUP), bucket))
        return groups


def select_rows(cache: Tensor, rows: Tensor, moved: Tensor, filled: int) -> Tensor:
    """Return (B', H, M, K) whose row i is row ``rows[i]`` of a cache, (B, H, M, K), overwritten in
    the filled positions of rows that move, (N,), as copies of all would cost more than a step."""
    if len(rows) > len(cache):
        return cache.index_select(0, rows)  # (B', H, M, K)
    if len(moved):
        cache[moved, :, :filled] = cache[rows[moved], :, :filled]  # (N, H, M', K)
    return cache[: len(rows)]  # (B', H, M, K)


class Block(nn.Module):
    """One pre-norm block: causal self-attention, then a feed-forward network."""

    def __init__(self, options: TransformerOptions) -> None:
        super().__init__()
        self.heads = options.heads
        self.dropout = options.dropout
        self.attention_norm = nn.LayerNorm(options.width)
        self.attention_input = nn.Linear(options.width, 3 * options.width)
        self.attention_output = nn.Linear(options.width, options.width)
        self.feedforward_norm = nn.LayerNorm(options.width)
        self.feedforward_input = nn.Linear(options.width, options.feedforward_size)
        self.feedforward_output = nn.Linear(options.feedforward_size, options.width)

    def forward(self, inputs: Tensor) -> Tensor:
        """Map the residual stream (B, T, D) to itself; position t sees positions up to t."""
        drop = self.dropout if self.training else 0.0
        query, key, value = self._query_key_value(inputs)  # 3 x (B, H, T, K)
        attend = functional.scaled_dot_product_attention
        mixed = attend(query, key, value, dropout_p=drop, is_causal=True)  # (B, H, T, K)
        return self._finish(inputs, mixed)  # (B, T, D)

    def step(
        self, inputs: Tensor, keys: Tensor, values: Tensor, lengths: Tensor, visible: Visible
    ) -> Tensor:
        """Map a position (B, 1, D), its key and value written to the cache, (B, H, M, K), at
        `lengths`, (B,); `visible` are the positions to attend to."""
        if has_triton(keys.device):
            from beyond_perplexity.models.cached_attention import attend_and_keep

            joint = self.attention_input(self.attention_norm(inputs))  # (B, 1, 3 D)
            return self._finish(inputs, attend_and_keep(joint, keys, values, lengths))
        query, key, value = self._query_key_value(inputs)  # 3 x (B, H, 1, K)
        rows = torch.arange(len(lengths), device=lengths.device)  # (B,)
        keys[rows, :, lengths] = key[:, :, 0].to(keys.dtype)
        values[rows, :, lengths] = value[:, :, 0].to(values.dtype)
        mixed = [
            attend_once(query[part], keys[part, :, :bucket], values[part, :, :bucket], mask)
            for part, bucket, mask in visible
        ]  # each (B', H, 1, K)
        return self._finish(inputs, torch.cat(mixed))  # (B, 1, D)

    def _query_key_value(self, inputs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        rows, length, width = inputs.shape
        joint = self.attention_input(self.attention_norm(inputs))  # (B, T, 3 D)
        split = joint.view(rows, length, 3, self.heads, width // self.heads)  # (B, T, 3, H, K)
        query, key, value = split.permute(2, 0, 3, 1, 4).unbind(0)  # 3 x (B, H, T, K)
        return query, key, value

    def _finish(self, inputs: Tensor, mixed: Tensor) -> Tensor:
        joined = mixed.transpose(1, 2).flatten(2)  # (B, T, D)
        stream = inputs + self._drop(self.attention_output(joined))  # (B, T, D)
        hidden = functional.gelu(self.feedforward_input(self.feedforward_norm(stream)))  # (B, T, F)
        return stream + self._drop(self.feedforward_output(hidden))  # (B, T, D)

    def _drop(self, values: Tensor) -> Tensor:
        return functional.dropout(values, self.dropout, self.training)


# For each group of rows: the rows, the positions M' of the cache to read, the mask (B', 1, 1, M').
Visible = list[tuple[slice, int, Tensor]]


def attend_once(query: Tensor, keys: Tensor, values: Tensor, visible: Tensor) -> Tensor:
    """Attend from a position to a cache: (B, H, 1, K); on a CPU by two plain products, as fused
    attention is slower and may depend on a row's position in the batch."""
    if query.device.type != "cpu":
        return functional.scaled_dot_product_attention(query, keys, values, attn_mask=visible)
    scores = query @ keys.transpose(-1, -2) / math.sqrt(query.shape[-1])  # (B, H, 1, M')
    weights = scores.masked_fill_(~visible, -torch.inf).softmax(-1)  # (B, H, 1, M')
    mixed: Tensor = weights @ values  # (B, H, 1, K)
    return mixed


class Transformer(FactoredNetwork):
    """A stack of blocks between an embedding with positions and the output layer."""

    family: ClassVar[str] = "transformer"
    options_kind: ClassVar[type[TransformerOptions]] = TransformerOptions
    options: TransformerOptions
    embedding: nn.Module
    blocks: nn.ModuleList
    positions: Tensor

    def build(self) -> None:
        """Make the layers, untrained."""
        options = self.options
        self.context_length = options.context_length
        self.embedding = self._make_embedding()
        table = sinusoids(options.context_length, options.width).float()  # (context, D)
        if options.positions == "learned":
            self.positions = nn.Parameter(torch.randn_like(table) * 0.1)
        else:
            self.register_buffer("positions", table, persistent=False)
        self.blocks = nn.ModuleList(Block(options) for _ in range(options.layers))
        self.final_norm = nn.LayerNorm(options.width)
        self.output = self._make_output()
        initialize_blocks(self.blocks, options.layers)

    def _make_embedding(self) -> nn.Module:
        """Return the map of tokens (...) to (..., D), of variance 1 / D."""
        embedding = nn.Embedding(self.vocabulary_size, self.options.width)
        nn.init.normal_(embedding.weight, std=self.options.width**-0.5)
        return embedding

    def _make_output(self) -> OutputLayer:
        """Return the output layer, which may share the weights of the embedding."""
        output = FullSoftmax(self.options.width, self.vocabulary_size, False, self.open_vocabulary)
        nn.init.normal_(output.weight, std=self.options.width**-0.5)
        if self.options.tie_weights:
            assert isinstance(self.embedding, nn.Embedding)
            output.weight = self.embedding.weight
        return output

    def features(self, tokens: Tensor) -> Tensor:
        """Return the input of the output layer, (B, T, D), for tokens (B, T)."""
        self.check_context(tokens)
        stream = self._embed(tokens, self.positions[: tokens.shape[1]])  # (B, T, D)
        for block in self.blocks:
            if not skips_layer(self.options.layer_dropout, self.training):
                stream = block(stream)  # (B, T, D)
        return self.final_norm(stream)  # (B, T, D)

    def initial_state(self, batch_size: int, maximum_length: int) -> TransformerState:
        """Return the state of B empty prefixes with a cache for `maximum_length` tokens."""
        options = self.options
        if maximum_length > options.context_length:
            longest = f"this Transformer's context_length is {options.context_length}"
            advice = "ask for no more, or train it with a longer context"
            raise InputError(f"maximum_length: is {maximum_length}, but {longest}; {advice}")
        room = -(-maximum_length // CACHE_BUCKET) * CACHE_BUCKET
        sizes = (room, options.width // options.heads)
        shape = (options.layers, batch_size, options.heads, *sizes)  # (L, B, H, M, K)
        keys = torch.zeros(shape, device=self.device, dtype=self.final_norm.weight.dtype)
        lengths = torch.zeros(batch_size, dtype=torch.int64, device=self.device)
        return TransformerState(keys, torch.zeros_like(keys), lengths, 0)

    def advance(self, tokens: Tensor, state: State) -> tuple[Tensor, TransformerState]:
        """Advance B prefixes by the tokens (B,): features (B, D), and state, in the same caches."""
        assert isinstance(state, TransformerState)
        positions = torch.arange(state.keys.shape[3], device=tokens.device)  # (M,)
        below = (positions <= state.lengths[:, None])[:, None, None]  # (B, 1, 1, M)
        visible = [(rows, size, below[rows, ..., :size]) for rows, size in state.groups()]
        stream = self._embed(tokens[:, None], self.positions[state.lengths][:, None])  # (B, 1, D)
        for layer, block in enumerate(self.blocks):
            assert isinstance(block, Block)
            keys, values = state.keys[layer], state.values[layer]  # 2 x (B, H, M, K)
            stream = block.step(stream, keys, values, state.lengths, visible)  # (B, 1, D)
        features = self.final_norm(stream)[:, 0]  # (B, D)
        return features, replace(state, lengths=state.lengths + 1, longest=state.longest + 1)

    def _embed(self, tokens: Tensor, positions: Tensor) -> Tensor:
        scaled = self.embedding(tokens) * math.sqrt(self.options.width)  # (B, T, D)
        stream = self._drop_words(scaled, tokens) + positions  # (B, T, D)
        return functional.dropout(stream, self.options.dropout, self.training)


def initialize_blocks(blocks: nn.ModuleList, layers: int) -> None:
    """Draw the weights of blocks: each of the 2 L sub-layers adds to the stream."""
    shrink = (2 * layers) ** -0.5  # together they shall add variance 1 at most
    for name, layer in blocks.named_modules():
        if isinstance(layer, nn.Linear):
            adds = name.endswith("_output")
            nn.init.xavier_uniform_(layer.weight, gain=shrink if adds else 1.0)
            nn.init.zeros_(layer.bias)


def sinusoids(length: int, width: int) -> Tensor:
    """Return sines, then cosines (Vaswani et al. 2017, section 3.5): float64, (length, width)."""
    positions = torch.arange(length, dtype=torch.float64)[:, None]  # (length, 1)
    rates = 10_000.0 ** (-torch.arange(width // 2, dtype=torch.float64) / (width // 2))
    angles = positions * rates  # (length, D / 2)
    return torch.cat([angles.sin(), angles.cos()], dim=1)  # (length, D)

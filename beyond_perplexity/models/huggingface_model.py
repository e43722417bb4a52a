"""Causal language models of Hugging Face, with a cache whose rows have lengths of their own.

B rows, T positions, V = N + 3 ids (N of the model's; see `huggingface.vocabulary`), D width, H
heads of the cache, K their width, M its positions. Any of transformers' ``AutoModelForCausalLM``
will do whose layers attend to all earlier positions by a cache of keys and values and that takes
``position_ids``; that is tried when it is loaded (`huggingface.bring`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from copy import copy
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from beyond_perplexity.errors import InputError
from beyond_perplexity.models import factored
from beyond_perplexity.models.contract import State, TokenPrefixes
from beyond_perplexity.models.transformer import select_rows
from beyond_perplexity.vocabulary import N_SPECIAL

try:
    from transformers import (
        AutoConfig,
        AutoModelForCausalLM,
        Cache,
        PretrainedConfig,
        PreTrainedModel,
        initialization,
    )
except ImportError as error:
    advice = "install it with: pip install 'beyond-perplexity[hf]'"
    raise InputError(f"family: huggingface needs the library transformers; {advice}") from error

_Module = TypeVar("_Module", bound=nn.Module)

# Attention reads the cache up to the longest prefix rounded up to this, so that few shapes occur.
CACHE_STEP = 32

# What bounds how far a layer of some architecture looks back.
LIMITS = ("max_position_embeddings", "sliding_window", "window_size", "attention_chunk_size")


class RowCache(Cache):
    """Keys and values of B rows of different lengths, of `room` positions at most; it grows."""

    def __init__(self, room: int) -> None:
        super().__init__(layers=[])
        self.held: dict[int, list[Tensor]] = {}  # by layer: keys and values, (B, H, M, K)
        self._room = -(-room // CACHE_STEP) * CACHE_STEP
        self._positions = torch.empty(0, dtype=torch.int64)
        self._bucket = 0

    def open(self, positions: Tensor, bucket: int) -> None:
        """Say where the coming step of each row writes, (B,), and how far all rows read."""
        self._positions, self._bucket = positions, bucket

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Write one position of a layer, two (B, H, 1, K); return two (B, H, M', K)."""
        fresh = (key_states, value_states)
        if layer_idx not in self.held:
            self.held[layer_idx] = [state[:, :, :0] for state in fresh]  # 2 x (B, H, 0, K)
        held = self.held[layer_idx]
        rows = torch.arange(len(self._positions), device=self._positions.device)  # (B,)
        for index, state in enumerate(fresh):
            held[index] = self._grown(held[index])  # (B, H, M, K)
            held[index][rows, :, self._positions] = state[:, :, 0]
        keys, values = (cache[:, :, : self._bucket] for cache in held)  # 2 x (B, H, M', K)
        return keys, values

    def _grown(self, cache: Tensor) -> Tensor:
        rows, heads, room, width = cache.shape
        if room >= self._bucket:
            return cache
        more = max(self._bucket, min(2 * room, self._room))
        grown = cache.new_zeros(rows, heads, more, width)  # (B, H, M, K)
        grown[:, :, :room] = cache
        return grown

    def row_bytes(self) -> int:
        """Return the bytes of all layers for one row and all positions."""
        caches = (cache for pair in self.held.values() for cache in pair)
        return self._room * sum(c.element_size() * c.shape[1] * c.shape[3] for c in caches)

    def select(self, rows: Tensor, longest: int) -> None:
        """Let row i be what row ``rows[i]`` was, of which `longest` positions are filled."""
        here = torch.arange(len(rows), device=rows.device)  # (B',)
        moved = here[rows != here]  # (N,)
        for pair in self.held.values():
            pair[:] = [select_rows(cache, rows, moved, longest) for cache in pair]


@dataclass(frozen=True)
class HuggingFaceState(State):
    """The cache of B prefixes, overwritten by `step` and `select`, and shared after a `reset`."""

    cache: RowCache
    lengths: Tensor  # of each row, int64, (B,)
    longest: int  # known to the host, so that a step needs no synchronization

    def row_bytes(self) -> int:
        """Return the bytes of one row at its longest; it must have made a step."""
        return self.cache.row_bytes()

    def select(self, rows: Tensor) -> HuggingFaceState:
        """Return the state whose row i is row ``rows[i]`` of this one, which is overwritten."""
        lengths = self.lengths[rows]  # (B',)
        longest = int(lengths.max()) if len(rows) else 0
        self.cache.select(rows, longest)
        return HuggingFaceState(self.cache, lengths, longest)

    def reset(self, rows: Tensor) -> HuggingFaceState:
        """Return the state with the given rows put back to the empty prefix."""
        lengths = self.lengths.index_fill(0, rows, 0)  # (B,)
        return HuggingFaceState(self.cache, lengths, int(lengths.max()))


class Head(factored.OutputLayer):
    """The model's output layer, with our ids; in some architectures logits have a factor, `scale`,
    or are c tanh(logit / c), `softcap`."""

    theirs: Tensor  # the model's ids of ours, (V,)
    impossible: Tensor  # of ours
    impossible_rows: Tensor

    def __init__(
        self,
        linear: nn.Linear,
        theirs: Sequence[int],
        impossible: Sequence[int],
        scale: float,
        softcap: float | None,
    ) -> None:
        super().__init__()
        self.linear, self.scale, self.softcap = linear, scale, softcap
        source, without = torch.tensor(theirs), torch.tensor(impossible)  # (V,), (N',)
        possible = source[~torch.isin(torch.arange(len(source)), without)]
        rows = torch.arange(len(source) - N_SPECIAL)  # (N,)
        self.register_buffer("theirs", source, persistent=False)
        self.register_buffer("impossible", without, persistent=False)
        self.register_buffer("impossible_rows", rows[~torch.isin(rows, possible)], persistent=False)

    def _rows(self, features: Tensor) -> Tensor:
        """Return the model's own logits, float32, (..., N), for features (..., D)."""
        logits = factored.float_product(features, self.linear.weight, self.linear.bias)  # (..., N)
        if self.scale != 1:
            logits = logits * self.scale
        if self.softcap is not None:
            logits = self.softcap * torch.tanh(logits / self.softcap)
        return logits

    def logits(self, features: Tensor) -> Tensor:
        """Return logits, float32, (..., V), for features (..., D)."""
        logits = self._rows(features).index_select(-1, self.theirs)  # (..., V)
        return logits.index_fill_(-1, self.impossible, -torch.inf)

    def summed_loss(self, features: Tensor, targets: Tensor, dtype: torch.dtype) -> Tensor:
        """Return −Σ log p of targets (N,), nats, for features (N, D)."""
        goal = self.theirs[targets]  # (N,)
        if self.softcap is None and (self.scale == 1 or self.linear.bias is None):
            scaled = features * self.scale  # (N, D)
            layer = (self.linear.weight, self.linear.bias)  # (N, D), (N,)
            return factored.summed_cross_entropy(scaled, *layer, goal, self.impossible_rows, dtype)
        logits = self._rows(features).index_fill(-1, self.impossible_rows, -torch.inf)
        return functional.cross_entropy(logits, goal, reduction="sum")


class HuggingFace(factored.FactoredModel):
    """A causal model of transformers from its ``config.json``; `special` are its ids of ``<s>``,
    ``</s>``, ``<unk>`` or None, and our ids that are `impossible` have the logit minus infinity."""

    family: ClassVar[str] = "huggingface"
    stored: str = "float32"  # the type of the weights that it came with
    output: Head

    def __init__(
        self,
        vocabulary_size: int,
        transformers: Mapping[str, Any],
        special: Sequence[int | None],
        impossible: Sequence[int],
        model: PreTrainedModel | None = None,
    ) -> None:
        super().__init__()
        model = model if model is not None else empty_model(transformers)
        settings = model.config.get_text_config()
        self.vocabulary_size = vocabulary_size
        self.context_length = context_length(settings)
        self._transformers = dict(transformers)
        self._special, self._impossible = list(special), list(impossible)
        bos, eos, unk = special
        self.body = model.base_model
        self.output = Head(
            model.get_output_embeddings(),
            [bos, eos, eos if unk is None else unk, *range(vocabulary_size - N_SPECIAL)],  # type: ignore[list-item]
            impossible,
            getattr(settings, "logit_scale", None) or 1 / getattr(settings, "logits_scaling", 1),
            getattr(settings, "final_logit_softcapping", None),
        )

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        """Keep frequencies of rotary embeddings: rounded, they turn far positions by radians."""
        kept = {n: b for n, b in self.named_buffers() if n.endswith("inv_freq")}
        super()._apply(fn, recurse)
        for name, buffer in kept.items():
            path, _, leaf = name.rpartition(".")
            setattr(self.get_submodule(path), leaf, buffer.to(self.device))
        return self

    @property
    def config(self) -> dict[str, Any]:
        """Keyword arguments that build the same model, with ``family``."""
        own = {"family": self.family, "vocabulary_size": self.vocabulary_size}
        ids = {"special": self._special, "impossible": self._impossible}
        return {**own, "transformers": self._transformers, **ids}

    def with_impossible(self, impossible: Sequence[int]) -> HuggingFace:
        """Return a model that shares the weights and has other impossible ids."""
        found, output = _parted(self), _parted(self.output)
        output.impossible = torch.tensor(list(impossible), device=self.device)
        found.output = output
        return found

    def features(self, tokens: Tensor) -> Tensor:
        """Return the input of the output layer, (B, T, D), for tokens (B, T)."""
        self.check_context(tokens)
        theirs = self.output.theirs[tokens]  # (B, T)
        seen = torch.ones_like(theirs)  # (B, T)
        outputs = self.body(input_ids=theirs, attention_mask=seen, use_cache=False)
        features: Tensor = outputs.last_hidden_state  # (B, T, D)
        return features

    def initial_state(self, batch_size: int, maximum_length: int) -> HuggingFaceState:
        """Return the state of B empty prefixes of `maximum_length` tokens, the context at most."""
        if self.context_length is not None and maximum_length > self.context_length:
            room = f"this model's context has {self.context_length} tokens"
            raise InputError(f"maximum_length: is {maximum_length}, but {room}; ask for no more")
        lengths = torch.zeros(batch_size, dtype=torch.int64, device=self.device)
        return HuggingFaceState(RowCache(maximum_length), lengths, 0)

    def advance(self, tokens: Tensor, state: State) -> tuple[Tensor, HuggingFaceState]:
        """Advance B prefixes by the tokens (B,): features (B, D), and state, in the same caches."""
        assert isinstance(state, HuggingFaceState)
        lengths, bucket = state.lengths, (state.longest // CACHE_STEP + 1) * CACHE_STEP
        state.cache.open(lengths, bucket)
        positions = torch.arange(bucket, device=tokens.device)  # (M',)
        dtype = self.output.linear.weight.dtype
        mask = torch.zeros((len(tokens), bucket), dtype=dtype, device=tokens.device)  # (B, M')
        mask.masked_fill_(positions > lengths[:, None], torch.finfo(dtype).min)
        outputs = self.body(
            input_ids=self.output.theirs[tokens][:, None],  # (B, 1)
            attention_mask=mask[:, None, None],  # (B, 1, 1, M')
            position_ids=lengths[:, None],  # (B, 1)
            past_key_values=state.cache,
            use_cache=True,
        )
        features = outputs.last_hidden_state[:, 0]  # (B, D)
        return features, HuggingFaceState(state.cache, lengths + 1, state.longest + 1)


class HuggingFaceByRow(HuggingFace):
    """A model of transformers that reads a row at a time, and each prefix anew with every step."""

    by_row: ClassVar[str] = (
        "is read one row at a time: it is a mixture of experts, whose rows may depend on their "
        "batch, or keeps no cache of keys and values"
    )

    def features(self, tokens: Tensor) -> Tensor:
        """Return the input of the output layer, (B, T, D), for tokens (B, T)."""
        whole = super().features
        return torch.cat([whole(row[None]) for row in tokens])

    def initial_state(self, batch_size: int, maximum_length: int) -> Any:
        """Return the state of B empty prefixes."""
        return TokenPrefixes(((),) * batch_size)

    def advance(self, tokens: Tensor, state: State) -> tuple[Tensor, Any]:
        """Advance B prefixes by the tokens (B,): features (B, D), and state."""
        assert isinstance(state, TokenPrefixes)
        grown = state.extended(tokens)
        return torch.cat([self.features(row)[:, -1] for row in grown.each(tokens.device)]), grown


def _parted(module: _Module) -> _Module:
    """Return a copy of a module whose own table of parts can be changed without changing it."""
    found = copy(module)
    found._modules, found._buffers = dict(module._modules), dict(module._buffers)
    return found


def empty_model(config: Mapping[str, Any]) -> PreTrainedModel:
    """Build a model from its configuration; its weights are yet to be loaded."""
    settings = AutoConfig.for_model(**config)
    # Where this version of transformers has it: drawing the weights of a large model takes minutes.
    without_weights = getattr(initialization, "no_init_weights", nullcontext)
    with without_weights():
        return AutoModelForCausalLM.from_config(settings, dtype=torch.float32)


def context_length(settings: PretrainedConfig) -> int | None:
    """Return the longest prefix that all layers see whole; None: there is no limit.

    A rotary embedding that changes its frequencies with the length of the text is used up to where
    it does: past that, the longest row of a batch would determine what the others see.
    """
    rotary = getattr(settings, "rope_parameters", None) or {}
    limits = [getattr(settings, name, None) for name in LIMITS]
    if "original_max_position_embeddings" in rotary and rotary.get("rope_type") == "longrope":
        limits.append(rotary["original_max_position_embeddings"])
    given = [limit for limit in limits if isinstance(limit, int) and limit > 0]
    return min(given) if given else None


def describe_config(settings: PretrainedConfig) -> dict[str, Any]:
    """Return a model's configuration as JSON-serializable keys, without where it came from."""
    described: dict[str, Any] = json.loads(settings.to_json_string())
    return {key: value for key, value in described.items() if key not in ("_name_or_path", "dtype")}

"""Models that a caller has in memory: of transformers, of this package, or a plain function."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from beyond_perplexity.errors import InputError
from beyond_perplexity.models.contract import LanguageModel, State, TokenPrefixes
from beyond_perplexity.vocabulary import BOS, N_SPECIAL, Vocabulary

_FAR = 1e-2  # of a sum of probabilities from 1
_NARROW = (torch.bfloat16, torch.float16)


class CallableModel(LanguageModel):
    """A function from a row's ids, those of its tokenizer, to natural log-probabilities (T, N) of
    the next after every prefix; its attribute ``context_length`` is its limit, if any."""

    theirs: Tensor  # the function's ids of ours, (V,)
    impossible: Tensor  # of ours

    def __init__(self, call: Callable[[Sequence[int]], Any], vocabulary: Vocabulary) -> None:
        super().__init__()
        self._call, self.vocabulary_size = call, vocabulary.size
        self.context_length = getattr(call, "context_length", None)
        theirs, impossible = list(range(vocabulary.size)), [BOS]
        if hasattr(vocabulary, "special_ids"):
            bos, eos, unk = vocabulary.special_ids
            others = range(vocabulary.size - N_SPECIAL)
            theirs = [bos, eos, eos if unk is None else unk, *others]
            impossible = vocabulary.impossible  # type: ignore[attr-defined]
        self.register_buffer("theirs", torch.tensor(theirs), persistent=False)
        self.register_buffer("impossible", torch.tensor(impossible), persistent=False)

    def with_impossible(self, impossible: Sequence[int]) -> CallableModel:
        """Return a model that asks the same function and has other impossible ids."""
        found = copy(self)
        found._buffers = dict(self._buffers, impossible=torch.tensor(list(impossible)))
        return found

    @property
    def config(self) -> dict[str, Any]:
        """What a record says of it."""
        return {"family": "callable", "name": getattr(self._call, "__qualname__", "callable")}

    def forward(self, tokens: Tensor) -> Tensor:
        """Ask for row after row: log-probabilities, float32, (B, T, V), for tokens (B, T)."""
        size, rows = int(self.theirs.max()) + 1, []
        for ids in self.theirs[tokens].tolist():
            told = self._call(ids)
            found = told if isinstance(told, Tensor) else torch.from_numpy(np.asarray(told, float))
            if found.dim() != 2 or found.shape[0] != len(ids) or found.shape[1] < size:
                raise InputError(
                    f"model: gives an array of shape {tuple(found.shape)} for {len(ids)} ids; give "
                    f"({len(ids)}, {size}), log-probabilities after every prefix"
                )
            total = found.double().logsumexp(1).exp()  # (T,)
            if not bool(((total - 1).abs() < _FAR).all()):
                raise InputError(
                    f"model: its probabilities of the next token add up to {float(total[0]):.3g}; "
                    "give natural logarithms of probabilities, as log_softmax makes them"
                )
            rows.append(found.float())
        logits = torch.stack(rows).to(self.theirs.device)[..., self.theirs]  # (B, T, V)
        return logits.index_fill_(-1, self.impossible, -torch.inf)

    def initial_state(self, batch_size: int, maximum_length: int) -> TokenPrefixes:
        """Return the state of B empty prefixes."""
        return TokenPrefixes(((),) * batch_size)

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, TokenPrefixes]:
        """Advance B prefixes by the tokens (B,): log-probabilities, float32, (B, V), and state."""
        assert isinstance(state, TokenPrefixes)
        grown = state.extended(tokens)
        return torch.cat([self(row)[:, -1] for row in grown.each(tokens.device)]), grown


def hold(model: Any, tokenizer: Any) -> tuple[LanguageModel, Vocabulary]:
    """Take a model in memory with its tokenizer or `Vocabulary`."""
    if not callable(model):
        wrong = f"model: is of type {type(model).__name__}"
        raise InputError(f"{wrong}; give a path or a name, or a model or function in memory")
    if tokenizer is None:
        raise InputError("tokenizer: is missing; give that of the model in memory")
    is_ours = isinstance(tokenizer, Vocabulary)
    if not is_ours and not hasattr(tokenizer, "backend_tokenizer"):
        kind = type(tokenizer).__name__
        raise InputError(f"tokenizer: is of type {kind}; give a fast tokenizer of transformers")
    if isinstance(model, LanguageModel) and is_ours:
        return model, tokenizer
    if hasattr(model, "get_output_embeddings") and not is_ours:
        from beyond_perplexity.models.huggingface_bring import adopt  # late: needs transformers

        return adopt(model, tokenizer)
    if not is_ours:
        from beyond_perplexity.models.huggingface_bring import vocabulary_of_function

        tokenizer = vocabulary_of_function(model, tokenizer)
    return CallableModel(model, tokenizer), tokenizer


@contextmanager
def modes_kept(model: Any) -> Iterator[None]:
    """Put all parts of a module back to training or evaluation, as they are, at the end."""
    parts = list(model.modules()) if isinstance(model, nn.Module) else []
    modes = [part.training for part in parts]
    try:
        yield
    finally:
        for part, mode in zip(parts, modes, strict=True):
            part.training = mode


def narrow_parts(model: nn.Module) -> list[Tensor]:
    """Return parameters and buffers of 16 bits; one that is shared comes once."""
    parts = [*model.parameters(), *model.buffers()]
    return [part for part in parts if part.dtype in _NARROW]


@contextmanager
def in_float32(model: nn.Module) -> Iterator[None]:
    """Turn the 16-bit weights of a model into float32, a tensor at a time and not in a copy, and
    back at the end; both ways are exact."""
    held = [(part, part.dtype) for part in narrow_parts(model)]
    try:
        for part, _ in held:
            part.data = part.data.float()
        yield
    finally:
        for part, kind in held:
            part.data = part.data.to(kind)

"""The contract that every language model family fulfils, and the file format of a trained model."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain
from types import MappingProxyType
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from beyond_perplexity.corpus.token_batches import IGNORED
from beyond_perplexity.errors import InputError
from beyond_perplexity.options import parse_options


class State(ABC):
    """What a model remembers of B prefixes; row i belongs to prefix i."""

    @abstractmethod
    def select(self, rows: Tensor) -> State:
        """Return the state whose row i is row ``rows[i]``, int64, (B',); this may change."""

    @abstractmethod
    def reset(self, rows: Tensor) -> State:
        """Return the state with rows, int64, (R,), put back to the empty prefix: refilled slots."""

    # What follows has defaults that are right for every family; they cost speed.

    likes_order: ClassVar[bool] = False
    """A step is faster where prefixes of like length stand together."""

    def restart(self, mask: Tensor) -> State:
        """Return the state with the rows of a mask, bool, (B,), put back to the empty prefix; as
        `reset`, but this state may be overwritten, and a GPU need not be waited for."""
        rows = mask.nonzero()[:, 0]  # (R,)
        return self.reset(rows) if len(rows) else self

    def limit(self, longest: int) -> State:
        """Return the state that knows that no prefix is longer, so that a step need not ask a GPU
        for the longest; by default it forgets."""
        return self

    def shape(self) -> Hashable:
        """Return what decides the shapes of a step's tensors, beside the number of rows."""
        return None

    def row_bytes(self) -> int:
        """Return the bytes of one row at its longest, of a state of one row that made a step."""
        return sum(part.numel() * part.element_size() for part in self.tensors() or ())

    def tensors(self) -> tuple[Tensor, ...] | None:
        """Return what a step changes, always in the same order, so that steps can be recorded and a
        row's memory be told; None: not known."""
        return None


@dataclass(frozen=True)
class TensorState(State):
    """A state that is `parts` alone, tensors whose axis `axis` is of the B prefixes, `blank` all
    over where a prefix is empty."""

    axis: ClassVar[int] = 0
    blank: ClassVar[int] = 0
    parts: tuple[Tensor, ...]

    def select(self, rows: Tensor) -> Self:
        """Return the state whose row i is row ``rows[i]`` of this one."""
        return replace(self, parts=tuple(p.index_select(self.axis, rows) for p in self.parts))

    def reset(self, rows: Tensor) -> Self:
        """Return the state with the given rows put back to the empty prefix."""
        parts = tuple(part.index_fill(self.axis, rows, self.blank) for part in self.parts)
        return replace(self, parts=parts)

    def restart(self, mask: Tensor) -> Self:
        """Put the rows of a mask (B,) back to the empty prefix, in place."""
        for part in self.parts:
            part.masked_fill_(mask.view(-1, *[1] * (part.dim() - self.axis - 1)), self.blank)
        return self

    def tensors(self) -> tuple[Tensor, ...] | None:
        """Return the parts."""
        return self.parts


@dataclass(frozen=True)
class TokenPrefixes(State):
    """The tokens of B prefixes so far, of a model that reads each of them anew."""

    rows: tuple[tuple[int, ...], ...]

    def select(self, rows: Tensor) -> TokenPrefixes:
        """Return the state whose row i is row ``rows[i]`` of this one."""
        return TokenPrefixes(tuple(self.rows[row] for row in rows.tolist()))

    def reset(self, rows: Tensor) -> TokenPrefixes:
        """Return the state with the given rows put back to the empty prefix."""
        chosen = set(rows.tolist())
        return TokenPrefixes(tuple(() if k in chosen else row for k, row in enumerate(self.rows)))

    def extended(self, tokens: Tensor) -> TokenPrefixes:
        """Return the state with a token more on each prefix, int64, (B,)."""
        pairs = zip(self.rows, tokens.tolist(), strict=True)
        return TokenPrefixes(tuple((*row, token) for row, token in pairs))

    def each(self, device: torch.device) -> list[Tensor]:
        """Return the prefixes, int64, (1, T) each."""
        return [torch.tensor([row], device=device) for row in self.rows]


def _differences(expected: Mapping[str, Tensor], found: Mapping[str, Tensor]) -> Iterator[str]:
    for name, tensor in expected.items():
        if name not in found:
            yield f"tensor '{name}' is missing"
        elif found[name].shape != tensor.shape:
            shapes = tuple(found[name].shape), tuple(tensor.shape)
            yield f"tensor '{name}' has the shape {shapes[0]}, expected {shapes[1]}"
        elif found[name].is_floating_point() != tensor.is_floating_point():
            yield f"tensor '{name}' is {found[name].dtype}, expected {tensor.dtype}"
    yield from (f"tensor '{name:.80}' belongs to no part" for name in found.keys() - expected)


class TrainedModel(nn.Module, ABC):
    """Anything that a model folder can hold.

    `training_products` is the type of the operands of the output layer's products in training on
    a CPU, where a family has a choice; training sets it from its precision. `normalized`: the
    training loss per prediction is a negative log-likelihood, whose exponential is a perplexity.
    """

    training_products: torch.dtype = torch.float32
    normalized: ClassVar[bool] = True

    @property
    def products(self) -> torch.dtype:
        """The present type of those operands: outside of training float32."""
        return self.training_products if self.training else torch.float32

    @abstractmethod
    def loss(self, batch: Any, epoch: float = math.inf) -> Tensor:
        """Return the training loss summed over a batch, nats, float32 scalar; `epoch` is passes
        over the training split so far, infinity in validation."""

    def margins(self, batch: Any) -> Tensor | None:
        """Return log score of each text less that of its distortion; None: there is none."""
        return None

    @property
    @abstractmethod
    def config(self) -> dict[str, Any]:
        """JSON-serializable keyword arguments that build the same model (``family`` included)."""

    @classmethod
    def from_tensors(cls, config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Self:
        """Rebuild a trained model from its `config` and its state dict, which have to fit."""
        model = cls(**{key: value for key, value in config.items() if key != "family"})
        model.take_tensors(tensors)
        return model

    def take_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        """Take a state dict; families whose shapes follow from more than the config override it."""
        if wrong := list(_differences(self.state_dict(), tensors)):
            others = f", and {len(wrong) - 1} more like it" if len(wrong) > 1 else ""
            raise InputError(f"{wrong[0]}{others}")
        self.load_state_dict(dict(tensors))

    @property
    def device(self) -> torch.device:
        """Where the parameters are, or the tables of counts."""
        return next(chain(self.parameters(), self.buffers())).device

    def parameter_count(self) -> int:
        """Count the trained parameters, tied ones once."""
        return sum(p.numel() for p in self.parameters() if p.requires_grad)


class ConfiguredModel(TrainedModel):
    """A model made from the size of a vocabulary, the options of its `family` (an `options_kind`),
    and `shapes`, JSON-serializable, which a family that has such things takes each by its name."""

    family: ClassVar[str]
    options_kind: ClassVar[type[Any]]
    options: Any
    vocabulary_size: int
    shapes: Mapping[str, Any] = MappingProxyType({})  # of the class: what they are by default

    def __init__(
        self, vocabulary_size: int, architecture: Mapping[str, Any], **shapes: Any
    ) -> None:
        super().__init__()
        self.options = parse_options(self.options_kind, architecture, "architecture")
        self.vocabulary_size = vocabulary_size
        self.shapes = {**self.shapes, **shapes}
        self.build()

    @abstractmethod
    def build(self) -> None:
        """Make the layers, untrained; the initial weights come from torch's generator."""

    @property
    def config(self) -> dict[str, Any]:
        """Keyword arguments that build the same model, with ``family``."""
        made = {"family": self.family, "vocabulary_size": self.vocabulary_size}
        return {**made, "architecture": asdict(self.options), **self.shapes}


class LanguageModel(TrainedModel):
    """An autoregressive distribution over documents: finite token strings closed by ``</s>``.

    Token ids come from a `beyond_perplexity.vocabulary.Vocabulary`: 0 is ``<s>``, 1 is ``</s>``,
    2 is ``<unk>``. No probability is ever given to ``<s>``: its logit is minus infinity.

    Attributes
    ----------
    vocabulary_size : int
        V, all ids included.
    context_length : int or None
        The longest prefix that the model can condition on, ``<s>`` included; None: no limit.
    """

    vocabulary_size: int
    context_length: int | None = None

    @abstractmethod
    def forward(self, tokens: Tensor) -> Tensor:
        """Score every next token of prefixes in one parallel pass: logits, float32, (B, T, V).

        Logits [:, t] are for the token after ``tokens[:, :t + 1]``. Tokens are int64, (B, T), each
        row from ``<s>`` on. Rows shorter than T are filled up with any valid id at their end: the
        model is causal, the padding changes nothing before it.
        """

    def check_context(self, tokens: Tensor) -> None:
        """Refuse prefixes (B, T) that are longer than the model can condition on."""
        if self.context_length is not None and tokens.shape[1] > self.context_length:
            length = tokens.shape[1]
            raise ValueError(f"{length} tokens exceed the context of {self.context_length}")

    @abstractmethod
    def initial_state(self, batch_size: int, maximum_length: int) -> State:
        """Return the state of B empty prefixes, on the model's device, for `maximum_length` steps
        of a row at most between two resets."""

    @abstractmethod
    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """Advance B prefixes by a token each, int64, (B,), the first ``<s>``: logits of the next,
        float32, (B, V), and the state; the one before may be overwritten."""

    # What follows need not be overridden; families that can do with less than all logits do.

    def loss(self, batch: Any, epoch: float = math.inf) -> Tensor:
        """Return −Σ log p of all predictions of a `Batch`, nats, float32 scalar."""
        logits = self(batch.inputs)  # (B, T, V)
        return functional.cross_entropy(
            logits.flatten(0, 1), batch.targets.flatten(), ignore_index=IGNORED, reduction="sum"
        )

    def step_some(self, tokens: Tensor, state: State, rows: Tensor) -> tuple[Tensor, State]:
        """Advance as `step`; return the logits of some rows (N,) only, (N, V), and the state."""
        logits, state = self.step(tokens, state)  # (B, V)
        return logits[rows], state

    def target_log_probs(self, inputs: Tensor, targets: Tensor, most: int) -> Iterator[Tensor]:
        """Yield log p of each target, float64, flat, in chunks of at most `most` positions, one a
        row at least; inputs and targets are int64, (B, T)."""
        if inputs.numel() <= most:
            yield chosen_log_probs(self(inputs).flatten(0, 1), targets.flatten())
            return
        state = self.initial_state(len(inputs), inputs.shape[1])
        columns = []
        for position in range(inputs.shape[1]):
            logits, state = self.step(inputs[:, position], state)  # (B, V)
            columns.append(chosen_log_probs(logits, targets[:, position]))
        yield torch.stack(columns, 1).flatten()

    def next_logits(self, inputs: Tensor, most: int) -> Iterator[Tensor]:
        """Yield the logits of the next token after every prefix of inputs, int64, (B, T): float32,
        (n, V), row by row, in chunks of at most `most` positions."""
        positions = inputs.shape[1]
        if positions <= most:
            yield from (self(rows).flatten(0, 1) for rows in inputs.split(most // positions))
            return
        for row in inputs:
            state = self.initial_state(1, positions)
            for part in row.split(most):
                columns = []
                for token in part:
                    logits, state = self.step(token[None], state)  # (1, V)
                    columns.append(logits)
                yield torch.cat(columns)


class ConfiguredLanguageModel(ConfiguredModel, LanguageModel):
    """A language model that is made from the options of its family; see `ConfiguredModel`."""

    def __init__(
        self,
        vocabulary_size: int,
        architecture: Mapping[str, Any] | None = None,
        open_vocabulary: bool = False,
    ) -> None:
        super().__init__(vocabulary_size, architecture or {}, open_vocabulary=open_vocabulary)

    @property
    def open_vocabulary(self) -> bool:
        """Whether the vocabulary is open."""
        return bool(self.shapes["open_vocabulary"])


class CountedModel(ConfiguredLanguageModel):
    """A language model that is estimated from the counts of a text, without gradients."""

    @classmethod
    def fit(
        cls,
        batches: Iterable[Sequence[np.ndarray]],
        vocabulary_size: int,
        architecture: Mapping[str, Any] | None = None,
        open_vocabulary: bool = False,
    ) -> Self:
        """Estimate a model from a stream of documents: ids, int32, without ``<s>``, ``</s>``."""
        model = cls(vocabulary_size, architecture, open_vocabulary)
        if not model.count(batches):
            raise InputError("the training text has no document; give a longer one")
        return model

    @abstractmethod
    def count(self, batches: Iterable[Sequence[np.ndarray]]) -> bool:
        """Estimate the model from a stream of documents; tell whether there is one."""


def spread(begins: Tensor, sizes: Tensor) -> tuple[Tensor, Tensor]:
    """List the entries of R rows of a table by where they begin and their sizes, (R,) each: of
    every entry its row and its position in the table, int64, (E,)."""
    owner = torch.arange(len(sizes), device=sizes.device).repeat_interleave(sizes)  # (E,)
    inside = torch.arange(len(owner), device=owner.device)  # (E,)
    return owner, inside + (begins - sizes.cumsum(0) + sizes)[owner]


def chosen_log_probs(logits: Tensor, targets: Tensor) -> Tensor:
    """Return log p, float64, (N,), of targets (N,) under logits (N, V); −inf where impossible."""
    chosen = logits.gather(1, targets[:, None])[:, 0].double()  # (N,)
    total = logits.logsumexp(1).double()  # (N,)
    # Where nothing is possible the difference would be NaN; an impossible token has log p = −inf.
    return torch.where(chosen == -torch.inf, chosen, chosen - total)

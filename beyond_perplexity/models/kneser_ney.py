"""n-grams smoothed by interpolated modified Kneser–Ney (`ngrams.kneser_ney`), the trie in tensors.

A prefix comes down to the positions of its last 1, ..., n − 1 tokens on the levels of the trie, −1
where there is no such context. Documents are ``<s> tokens </s>``; in a closed vocabulary ``<unk>``
is a token like any other. B rows, T positions, V ids, R prefixes, M n-grams of a level, N the
order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Self

import numpy as np
import torch
from torch import Tensor

from beyond_perplexity.errors import InputError
from beyond_perplexity.models.contract import CountedModel, State, TensorState, spread
from beyond_perplexity.models.registry import choose_device
from beyond_perplexity.ngrams import kneser_ney
from beyond_perplexity.ngrams.arpa import read_arpa
from beyond_perplexity.options import Limit, Limited
from beyond_perplexity.vocabulary import BOS, N_SPECIAL, UNK, ClosedVocabulary


@dataclass(frozen=True)
class KneserNeyOptions(Limited):
    """Options of a Kneser–Ney model.

    order: Tokens of the longest n-grams.
    prune: n-grams that are seen so often at most are left out, by order: 0 for single tokens, then
        never falling; the last holds for those above it.
    """

    order: Annotated[int, Limit(minimum=1, maximum=100)] = 5
    prune: tuple[int, ...] = (0,)

    def __post_init__(self) -> None:
        super().__post_init__()
        try:
            kneser_ney.check_pruning(self.prune, self.order)
        except InputError as error:
            raise ValueError(str(error)) from error


class NGramState(TensorState):
    """Positions of each prefix on the levels 1 to N − 1, int64, (B, N − 1); steps cannot be
    recorded, as their shapes depend on values."""

    blank = -1

    def tensors(self) -> None:
        """Return nothing."""
        return


def open_arpa(path: str | Path, device: str) -> tuple[KneserNey, ClosedVocabulary]:
    """Read an ARPA file: the model in evaluation mode, and its words."""
    held = read_arpa(path)
    model = KneserNey.of(held.model).to(choose_device(device)).eval()
    return model, ClosedVocabulary(held.words[N_SPECIAL:], 0)


class KneserNey(CountedModel):
    """A back-off model in tensors; see the module."""

    family = "kneser-ney"
    options_kind = KneserNeyOptions
    options: KneserNeyOptions

    def build(self) -> None:
        """Make no tables yet."""
        self.order = 0

    @classmethod
    def of(cls, model: kneser_ney.BackoffModel) -> KneserNey:
        """Make a model of any back-off model, such as one from an ARPA file."""
        made = cls(model.vocabulary_size, {"order": model.order})
        made._set_levels(model)
        return made

    def _set_levels(self, model: kneser_ney.BackoffModel) -> None:
        """Take the n-grams of a back-off model, whose order may be lower than the options say."""
        tensors = {}
        for order, level in enumerate(model.levels, start=1):
            if order > 1:
                tensors[f"keys_{order}"] = level.keys
            tensors[f"log_probs_{order}"] = level.log_probs
            if order < model.order:
                tensors[f"backoffs_{order}"] = level.backoffs
        self.take_tensors({name: torch.from_numpy(array) for name, array in tensors.items()})

    def take_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        """Take the tables of a state dict."""
        for name, tensor in tensors.items():
            self.register_buffer(name, tensor)
        self.order = sum(name.startswith("log_probs") for name in tensors)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Move the tables without rounding them: precision is a matter of weights."""
        held = dict(self._buffers)
        super()._apply(fn, recurse)
        for name, tensor in held.items():
            moved = self._buffers[name]
            if tensor is not None and moved is not None and moved.dtype != tensor.dtype:
                self._buffers[name] = tensor.to(moved.device)
        return self

    def count(self, batches: Iterable[Sequence[np.ndarray]]) -> bool:
        """Estimate the model from a stream of documents."""
        counts = kneser_ney.count_parts(kneser_ney.join_sentences(batches), self.options.order)
        if counts is None:
            return False
        possible = np.arange(self.vocabulary_size) != BOS
        possible[UNK] = not self.open_vocabulary
        extended = kneser_ney.extend_words(counts, self.vocabulary_size)
        self._set_levels(kneser_ney.estimate_backoff(extended, possible, self.options.prune).model)
        return True

    def _table(self, name: str, order: int) -> Tensor:
        return self.get_buffer(f"{name}_{order}")

    def parameter_count(self) -> int:
        """Count the n-grams of all orders: each has one estimated probability."""
        return sum(len(self._table("log_probs", order)) for order in range(1, self.order + 1))

    def _find(self, order: int, contexts: Tensor, tokens: Tensor) -> Tensor:
        """Find n-grams by the positions of their contexts, −1 for none, and their last tokens."""
        keys = self._table("keys", order)  # (M,)
        wanted = (
            contexts << kneser_ney.WORD_BITS
        ) | tokens  # negative without a context, and never found
        if not len(keys):  # all were pruned
            return torch.full_like(wanted, -1)
        positions = torch.searchsorted(keys, wanted).clamp_(max=len(keys) - 1)
        return torch.where(keys[positions] == wanted, positions, -1)

    def _held(self, name: str, order: int, positions: Tensor) -> Tensor:
        """Return what a table has at positions of any shape, 0 where there is none (−1)."""
        table = self._table(name, order)
        if not len(table):
            return torch.zeros(positions.shape, dtype=table.dtype, device=table.device)
        return torch.where(positions >= 0, table[positions.clamp(min=0)], 0)

    def _contexts(self, tokens: Tensor) -> Tensor:
        """Return the contexts that end at every token of prefixes (B, T), int64 (B, T, N − 1)."""
        levels = [tokens][: self.order - 1]
        for order in range(2, self.order):
            before = torch.nn.functional.pad(levels[-1][:, :-1], (1, 0), value=-1)  # (B, T)
            levels.append(self._find(order, before, tokens))  # (B, T)
        shape = (*tokens.shape, 0)
        return torch.stack(levels, -1) if levels else tokens.new_empty(shape)

    def _backoffs(self, positions: Tensor) -> Tensor:
        """Return the logarithms of the weights of contexts (R, N − 1), 0 where there is none."""
        levels = enumerate(positions.unbind(1), start=1)
        columns = [self._held("backoffs", order, column) for order, column in levels]
        shape = (len(positions), 0)
        return torch.stack(columns, 1) if columns else positions.new_empty(shape).double()

    def _dense(self, positions: Tensor) -> Tensor:
        """Return log probabilities, float32, (R, V), after the contexts (R, N − 1)."""
        backoffs = self._backoffs(positions)  # (R, N − 1)
        # What is left to pay once an n-gram is found: the weights of longer contexts than its own.
        left = torch.nn.functional.pad(backoffs.flip(1).cumsum(1).flip(1), (0, 1))  # (R, N)
        unigrams = self._table("log_probs", 1).float()  # (V,)
        logits = unigrams + left[:, :1].float()  # (R, V)
        for order in range(2, self.order + 1):
            keys, contexts = self._table("keys", order), positions[:, order - 2]  # (M,), (R,)
            begins = torch.searchsorted(keys, contexts << kneser_ney.WORD_BITS)  # (R,)
            # (R,)
            sizes = torch.searchsorted(keys, (contexts + 1) << kneser_ney.WORD_BITS) - begins
            owner, entries = spread(begins, torch.where(contexts >= 0, sizes, 0))  # (E,), (E,)
            words = keys[entries] & ((1 << kneser_ney.WORD_BITS) - 1)  # (E,)
            log_probs = self._table("log_probs", order)[entries] + left[owner, order - 1]  # (E,)
            logits[owner, words] = log_probs.float()
        return logits

    def forward(self, tokens: Tensor) -> Tensor:
        """Score every next token of prefixes (B, T): log probabilities, float32, (B, T, V)."""
        return self._dense(self._contexts(tokens).flatten(0, 1)).unflatten(0, tokens.shape)

    def initial_state(self, batch_size: int, maximum_length: int) -> NGramState:
        """Return the state of B empty prefixes."""
        return NGramState((torch.full((batch_size, self.order - 1), -1, device=self.device),))

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, NGramState]:
        """Advance B prefixes by the tokens (B,): log probabilities, float32, (B, V), and state."""
        assert isinstance(state, NGramState)
        columns = [tokens][: self.order - 1]
        for order in range(2, self.order):
            columns.append(self._find(order, state.parts[0][:, order - 2], tokens))  # (B,)
        positions = torch.stack(columns, 1) if columns else state.parts[0]  # (B, N − 1)
        return self._dense(positions), NGramState((positions,))

    def target_log_probs(self, inputs: Tensor, targets: Tensor, most: int) -> Iterator[Tensor]:
        """Yield log p of each target, float64, flat; no distribution is made for it."""
        positions = self._contexts(inputs).flatten(0, 1)  # (R, N − 1)
        backoffs, wanted = self._backoffs(positions), targets.flatten()  # (R, N − 1), (R,)
        scores = self._table("log_probs", 1)[wanted]  # (R,)
        for order in range(2, self.order + 1):
            found = self._find(order, positions[:, order - 2], wanted)  # (R,)
            held = self._held("log_probs", order, found)  # (R,)
            scores = torch.where(found >= 0, held, scores + backoffs[:, order - 2])  # (R,)
        yield scores

"""The trigram model without smoothing: p(w | u v) = count(u v w) / count(u v), else 0.

Meister and Cotterell (2021). Language model evaluation beyond perplexity, equation 16. Documents
are padded with two ``<s>``; ``</s>`` is predicted. C contexts, N distinct trigrams, V ids, B
rows, T positions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from beyond_perplexity.errors import InputError
from beyond_perplexity.models.contract import CountedModel, State, TensorState, spread
from beyond_perplexity.ngrams.kneser_ney import (
    count_parts,
    join_sentences,
    last_words,
    prefix_places,
)
from beyond_perplexity.vocabulary import BOS

LARGEST = 2_097_151  # V: three ids must fit into 63 bits


class TrigramState(TensorState):
    """The second newest token of each prefix, int64, (B,)."""

    blank = BOS


@dataclass(frozen=True)
class TrigramOptions:
    """There are none."""


class Trigram(CountedModel):
    """Trigram counts, with a sparse distribution in each context; see the module.

    C contexts, `contexts`, int64, (C,), rising: u V + v. N entries (distinct trigrams), in the
    order of their contexts: those of context c are ``offsets[c]`` to ``offsets[c + 1] - 1``, int64,
    (C + 1,). `successors`, int32, (N,): the last token of each, rising in each context; `counts`,
    int64, (N,): how often each was seen.
    """

    family = "trigram"
    options_kind = TrigramOptions
    contexts: Tensor
    offsets: Tensor
    successors: Tensor
    counts: Tensor

    def build(self) -> None:
        """Make empty tables."""
        if self.vocabulary_size > LARGEST:
            wrong = f"vocabulary: has {self.vocabulary_size} ids, a trigram takes {LARGEST} at most"
            raise InputError(f"{wrong}; cut it")
        empty = torch.zeros(0, dtype=torch.int64)
        self._set_counts(empty, empty)

    def _set_counts(self, keys: Tensor, counts: Tensor) -> None:
        """Take rising trigram keys (u V + v) V + w, int64 (N,), and their counts, int64 (N,)."""
        rows = torch.div(keys, self.vocabulary_size, rounding_mode="floor")  # (N,)
        contexts, sizes = torch.unique_consecutive(rows, return_counts=True)  # (C,), (C,)
        offsets = torch.zeros(len(contexts) + 1, dtype=torch.int64)  # (C + 1,)
        offsets[1:] = sizes.cumsum(0)
        self.register_buffer("contexts", contexts)
        self.register_buffer("offsets", offsets)
        self.register_buffer("successors", (keys % self.vocabulary_size).int())  # (N,)
        self.register_buffer("counts", counts)

    def count(self, batches: Iterable[Sequence[np.ndarray]]) -> bool:
        """Count the trigrams of a stream of documents; memory grows with the distinct ones."""
        counted, size = count_parts(join_sentences(batches), 3), self.vocabulary_size
        if counted is None:
            return False
        _, pairs, triples = counted
        # The first words of documents, after two <s>, are those of pairs that begin with <s>.
        first = int(np.searchsorted(prefix_places(pairs.keys), BOS, side="right"))
        before = pairs.keys[prefix_places(triples.keys)]
        rows = prefix_places(before) * size + last_words(before)
        begun, inside = last_words(pairs.keys[:first]), rows * size + last_words(triples.keys)
        counts = np.concatenate([pairs.counts[:first], triples.counts])  # (N,)
        keys = np.concatenate([begun, inside])  # (N,)
        self._set_counts(torch.from_numpy(keys), torch.from_numpy(counts))
        return True

    def take_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        """Take the tables of a state dict."""
        for name in ("contexts", "offsets", "successors", "counts"):
            self.register_buffer(name, tensors[name])

    def parameter_count(self) -> int:
        """Count the distinct trigrams: each has one estimated probability."""
        return len(self.counts)

    def context_index(self, tokens: Tensor, previous: Tensor) -> tuple[Tensor, Tensor]:
        """Find contexts (previous, tokens) of any shape: their rows, and whether they were seen."""
        packed = previous * self.vocabulary_size + tokens
        rows = torch.searchsorted(self.contexts, packed).clamp_(max=len(self.contexts) - 1)
        return rows, self.contexts[rows] == packed

    def find_contexts(self, tokens: Tensor, state: State) -> tuple[Tensor, TrigramState]:
        """Advance B seen prefixes by the tokens (B,): their contexts, and the state."""
        assert isinstance(state, TrigramState)
        return self.context_index(tokens, state.parts[0])[0], TrigramState((tokens.clone(),))

    def _log_probs(self, entries: Tensor, rows: Tensor) -> Tensor:
        """Return log p of entries in their contexts, float64."""
        total = self.context_counts[rows]
        return self.counts[entries].double().log() - total.double().log()

    @property
    def context_counts(self) -> Tensor:
        """count(u v), int64, (C,)."""
        cumulative = torch.cat([self.offsets[:1], self.counts.cumsum(0)])  # (N + 1,)
        return cumulative[self.offsets].diff()

    def _dense(self, rows: Tensor, seen: Tensor) -> Tensor:
        """Return logits, float32, (R, V), of the contexts in rows (R,)."""
        sizes = torch.where(seen, self.offsets[rows + 1] - self.offsets[rows], 0)  # (R,)
        owner, entries = spread(self.offsets[rows], sizes)  # (E,), (E,)
        shape = (len(rows), self.vocabulary_size)
        logits = torch.full(shape, -torch.inf, device=rows.device)  # (R, V)
        log_probs = self._log_probs(entries, rows[owner]).float()  # (E,)
        logits[owner, self.successors[entries].long()] = log_probs
        return logits

    def forward(self, tokens: Tensor) -> Tensor:
        """Score every next token of prefixes (B, T), float32, (B, T, V); −inf where unseen."""
        previous = torch.nn.functional.pad(tokens[:, :-1], (1, 0), value=BOS)  # (B, T)
        rows, seen = self.context_index(tokens, previous)  # (B, T), (B, T)
        return self._dense(rows.flatten(), seen.flatten()).unflatten(0, tokens.shape)

    def target_log_probs(self, inputs: Tensor, targets: Tensor, most: int) -> Iterator[Tensor]:
        """Yield log p of each target, float64, flat: looked up, without a distribution."""
        previous = torch.nn.functional.pad(inputs[:, :-1], (1, 0), value=BOS)  # (B, T)
        rows, seen = self.context_index(inputs, previous)  # (B, T), (B, T)
        starts, ends = self.offsets[rows], self.offsets[rows + 1]  # (B, T), (B, T)
        entries, after = starts, ends  # the first that is not before the target, by halving
        for _ in range(self.vocabulary_size.bit_length()):
            middle = (entries + after) // 2  # (B, T)
            before = self.successors[middle.clamp(max=len(self.counts) - 1)] < targets
            searched = entries < after
            entries = torch.where(searched & before, middle + 1, entries)
            after = torch.where(searched & ~before, middle, after)
        held = entries.clamp(max=len(self.counts) - 1)  # (B, T)
        found = seen & (entries < ends) & (self.successors[held] == targets)
        yield torch.where(found, self._log_probs(held, rows), -torch.inf).flatten()

    def initial_state(self, batch_size: int, maximum_length: int) -> TrigramState:
        """Return the state of B empty prefixes."""
        return TrigramState((torch.full((batch_size,), BOS, device=self.device),))

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, TrigramState]:
        """Advance B prefixes by the tokens (B,): log probabilities, float32, (B, V), and state."""
        assert isinstance(state, TrigramState)
        rows, seen = self.context_index(tokens, state.parts[0])  # (B,), (B,)
        return self._dense(rows, seen), TrigramState((tokens.clone(),))

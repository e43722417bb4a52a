"""The contracts of models from counts, and of models that score sentences without a likelihood.

B sentences, T words of the longest, R rows.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np
from torch import Tensor

from beyond_perplexity.models.contract import ConfiguredModel, LanguageModel, State


class CountedModel(LanguageModel):
    """A language model that is estimated from the counts of a text, without gradients."""

    @classmethod
    @abstractmethod
    def fit(
        cls,
        batches: Iterable[Sequence[np.ndarray]],
        vocabulary_size: int,
        architecture: Mapping[str, Any] | None = None,
        open_vocabulary: bool = False,
    ) -> Self:
        """Estimate a model from a stream of documents.

        Token ids, int32, without ``<s>`` and ``</s>``.
        """


class SparseCountedModel(CountedModel):
    """A language model of counts of n tokens, with a sparse distribution in each context.

    C contexts, N entries (distinct runs of n tokens), in the order of their contexts: those of
    context c are ``offsets[c]`` to ``offsets[c + 1] - 1``, int64, (C + 1,). `successors`, int32,
    (N,): the last token of each, rising in each context; `counts`, int64, (N,): how often each
    was seen.
    """

    offsets: Tensor
    successors: Tensor
    counts: Tensor

    @property
    @abstractmethod
    def context_counts(self) -> Tensor:
        """Sum of the counts of each context, int64, (C,)."""

    @abstractmethod
    def find_contexts(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """Advance B prefixes that were seen by tokens (B,): contexts (B,), and the state."""


class UnnormalizedModel(ConfiguredModel):
    """A model whose probabilities are known up to the partition function Z, which is not.

    It scores whole sentences and generates none. Parameters and errors are those of
    `ConfiguredModel`; the words are the ids above ``</s>``, ``<unk>`` among them.
    """

    normalized = False

    @abstractmethod
    def sentence_log_scores(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Return log p of sentences, nats, up to −log Z, float64, (B,).

        Words are int64, (B, T), without ``<s>`` and ``</s>``, any valid id behind the end;
        lengths (B,). On a CPU a sentence's score does not depend on the others in its batch.
        """

    @abstractmethod
    def initial_state(self, batch_size: int) -> State:
        """Return the state of B empty sentences, on the model's device."""

    @abstractmethod
    def extend(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """Put a word, of (B,), to the end of each sentence.

        Change of log score, float64, and state.
        """

    @abstractmethod
    def scale_vectors(self) -> None:
        """Scale the vectors of words to length 1, in place."""

    def margins(self, batch: Any) -> Tensor:
        """Return log scores of sentences less those of their distortions, nats, float64, (B,)."""
        tokens, lengths = batch.both()  # (2 B, T), (2 B,)
        true, distorted = self.sentence_log_scores(tokens, lengths).chunk(2)
        return true - distorted

    def loss(self, batch: Any, epoch: float = math.inf) -> Tensor:
        """Return the hinge loss Σ max(0, 1 − margin) of a `ContrastBatch`, float64 scalar.

        With energies S = −log score the margin is S(Ŵ) − S(W). The paper prints equation 17 with
        the signs the other way around, against its equations 15 and 16 and the authors' program.

        References
        ----------
        Arora & Rangarajan (2016). Contrastive entropy, section 4.
        """
        return (1 - self.margins(batch)).clamp(min=0).sum()

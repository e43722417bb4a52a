"""The contract of models that are estimated from the counts of a text, without gradients."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np
from torch import Tensor

from beyond_perplexity.models.contract import LanguageModel, State


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

        Parameters
        ----------
        batches : iterable of sequences of numpy.ndarray
            Token ids, int32, without ``<s>`` and ``</s>``, one array a document.
        vocabulary_size : int
            V.
        architecture : dict, optional
            Options of the family.
        open_vocabulary : bool
            The vocabulary has no unknown words.

        Raises
        ------
        InputError
            When there is no document, or an option is unknown or wrong.
        """


class SparseCountedModel(CountedModel):
    """A language model of counts of n tokens, with a sparse distribution in each context.

    C contexts, N entries (distinct runs of n tokens), in the order of their contexts.

    Attributes
    ----------
    offsets : Tensor
        int64, (C + 1,): entries of context c are ``offsets[c]`` to ``offsets[c + 1] - 1``.
    successors : Tensor
        int32, (N,): the last token of each, rising in each context.
    counts : Tensor
        int64, (N,): how often each was seen.
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
        """Advance B prefixes that training has seen by tokens (B,): contexts (B,), and the state.

        Drawn prefixes have been seen: nothing else has a probability.
        """

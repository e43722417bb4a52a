"""What is audited: a model, its vocabulary, a text, and the program that scores the text.

B rows, T positions, V ids, n texts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain

import numpy as np
import torch
from torch import Tensor

from beyond_perplexity.errors import InputError
from beyond_perplexity.models.contract import LanguageModel
from beyond_perplexity.models.likelihoods import LOGIT_ROWS
from beyond_perplexity.perplexities.summary import DocumentRow, ScoredText, TextKind, score_rows
from beyond_perplexity.random_streams import stream
from beyond_perplexity.vocabulary import BOS, EOS, UNK, Vocabulary

# Scores a stream of texts as `perplexities.summary.score_rows` does, with its arguments.
TextScorer = Callable[..., Iterable[list[DocumentRow]]]

PLACES = 24  # positions of a piece
PIECES = 6
MOST_LOGITS = 1 << 26  # 256 MB of float32
LATE_PLACES = 128  # positions of a late piece: caches, masks and paddings may fail beyond a window
LONG_ROW = 1024  # tokens of the long row: overflows and broken masks often come late


@dataclass(frozen=True)
class Subject:
    """A model, on its device and in evaluation mode, with all that turns a text into its numbers.

    `texts`: some documents as the model reads them, at least one with a token; `kind`: words joined
    by one blank, or any strings; `score`: what scores texts, `score_rows` or another with its
    arguments.
    """

    model: LanguageModel
    vocabulary: Vocabulary
    texts: Sequence[str]
    kind: TextKind = "cleaned"
    score: TextScorer = field(default=score_rows)
    seed: int = 1

    def __post_init__(self) -> None:
        self.model.eval()
        if not any(len(ids) for ids in self.encoded):
            raise InputError("the text has no token to audit with; give one with some words")

    @cached_property
    def encoded(self) -> list[np.ndarray]:
        """The ids of each text, int64, without ``<s>`` and ``</s>``."""
        return [np.asarray(ids, np.int64) for ids in self.vocabulary.encode(self.texts)]

    @property
    def rounding(self) -> float:
        """The spacing of the model's numbers around 1: 2⁻²³ of float32, 2⁻⁷ of bfloat16."""
        kinds = [part.dtype for part in self.model.state_dict().values()]
        floats = [torch.finfo(kind).eps for kind in kinds if kind.is_floating_point]
        return max(floats, default=torch.finfo(torch.float32).eps)

    @cached_property
    def possible(self) -> np.ndarray:
        """Ids that a text can have, rising: those that are given a probability at the beginning."""
        first = self.logits(torch.full((1, 1), BOS))[0, 0]  # (V,)
        ids = np.flatnonzero((first > -torch.inf).cpu().numpy())
        seen = np.unique(np.concatenate(self.encoded))
        found = np.union1d(ids, seen)
        return found[(found >= UNK) & (found < self.vocabulary.size)]

    @cached_property
    def pieces(self) -> Tensor:
        """Beginnings of documents, int64, (B, T): ``<s>`` and what follows it, round and round."""
        return self._beginnings(PLACES, PIECES)

    @cached_property
    def others(self) -> Tensor:
        """Ids that differ from those of `pieces` at every position but the first, (B, T)."""
        return self._other_ids(self.pieces, "audit/others")

    @cached_property
    def late_pieces(self) -> Tensor:
        """Two longer beginnings, int64, (2, T'); none, (0, T'), where `pieces` are as long."""
        found = self._beginnings(LATE_PLACES, 2)[:2]
        return found if found.shape[1] > self.pieces.shape[1] else found[:0]

    @cached_property
    def late_others(self) -> Tensor:
        """Ids that differ from those of `late_pieces` at every position but the first, (2, T')."""
        return self._other_ids(self.late_pieces, "audit/late others")

    def _beginnings(self, most_tokens: int, most_rows: int) -> Tensor:
        limit = self.model.context_length
        room = MOST_LOGITS // self.model.vocabulary_size
        width = min(most_tokens, limit or most_tokens, max(2, room // 2))
        rows = max(2, min(most_rows, room // width))
        joined = np.concatenate(self.encoded)
        starts = np.cumsum([0, *(len(ids) for ids in self.encoded)])[:-1]
        begins = [int(start) for start, ids in zip(starts, self.encoded, strict=True) if len(ids)]
        rolled = [np.roll(joined, -begins[row % len(begins)] - row) for row in range(rows)]
        whole = np.stack([np.resize(row, width - 1) for row in rolled])  # (B, T − 1)
        return torch.from_numpy(np.pad(whole, ((0, 0), (1, 0)), constant_values=BOS))

    def _other_ids(self, pieces: Tensor, purpose: str) -> Tensor:
        held = self.possible if len(self.possible) > 1 else np.array([EOS, *self.possible])
        rows, width = pieces.shape
        drawn = stream(self.seed, purpose).integers(len(held), size=(rows, width))
        found = held[drawn]  # (B, T)
        same = found == pieces.numpy()
        found[same] = held[(drawn[same] + 1) % len(held)]
        found[:, 0] = BOS
        return torch.from_numpy(found)

    def long_row(self, pieces: Tensor) -> Tensor:
        """Repeat the tokens of pieces (B, T) in one row as long as the context allows, (1, T')."""
        room = max(2, MOST_LOGITS // self.model.vocabulary_size)
        long = min(LONG_ROW, self.model.context_length or LONG_ROW, room)
        tokens = pieces[:, 1:].flatten()
        tiled = tokens.repeat(1 + long // max(1, len(tokens)))
        return torch.cat([pieces[:1, 0], tiled[: long - 1]])[None]

    @torch.no_grad()
    def logits(self, inputs: Tensor) -> Tensor:
        """Return the model's logits, float32, (B, T, V), for inputs (B, T)."""
        return self.model(inputs.to(self.model.device)).float()

    @torch.no_grad()
    def log_probs(self, inputs: Tensor, targets: Tensor) -> Tensor:
        """Return what the model scores targets (B, T) with after inputs (B, T), nats, float64."""
        if not inputs.numel():  # a context of one token has no token after it
            return torch.empty(inputs.shape, dtype=torch.float64)
        pair = inputs.to(self.model.device), targets.to(self.model.device)
        flat = torch.cat(list(self.model.target_log_probs(*pair, LOGIT_ROWS)))  # (B T,)
        return flat.view(inputs.shape).cpu()

    @torch.no_grad()
    def rows(self, texts: Iterable[ScoredText | str], **options: object) -> list[DocumentRow]:
        """Return what the scoring program says of some texts, in its order."""
        found = self.score(self.model, self.vocabulary, texts, text=self.kind, **options)
        return list(chain.from_iterable(found))


def distributions(logits: Tensor) -> Tensor:
    """Return the softmax of logits (..., V), float64; zero where nothing is possible."""
    return torch.nan_to_num(logits.double().softmax(-1), nan=0.0).cpu()


def shift_between(one: Tensor, two: Tensor) -> Tensor:
    """Return how far two distributions (..., V) are apart: their total variation, (...)."""
    return (one - two).abs().sum(-1) / 2

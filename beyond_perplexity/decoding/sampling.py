"""Draw one token at a time: every decoding but beam sampling, a file each, by the name in its row,
so that a job depends on its own alone; S slots, P rooms, L tokens at most."""

from __future__ import annotations

import importlib
from typing import NamedTuple, Protocol, cast

import numpy as np
import torch
from torch import Tensor

from beyond_perplexity.decoding.engine import DrawnDocument, Engine
from beyond_perplexity.decoding.kernels import Contexts, Drawn, Weights, unnormalized
from beyond_perplexity.decoding.options import DecodingOptions, decoding_row
from beyond_perplexity.invariant_tensors import has_triton
from beyond_perplexity.vocabulary import BOS, EOS


class DecodingKind(Protocol):
    """What the module of a decoding has; `LOOKS`: `draw` looks at values on the host, which no
    recorded step of a GPU can, where `has_triton` says that there are no kernels of our own."""

    LOOKS: bool

    def draw(self, weights: Weights, uniform: Tensor, options: DecodingOptions) -> Drawn:
        """Draw one token of each row of unnormalized probabilities, which may be overwritten, by
        float64 numbers in [0, 1), (B,)."""

    def keep(self, contexts: Contexts, options: DecodingOptions) -> tuple[Tensor | None, Tensor]:
        """Truncate every context of a counted model: the order of the inverse CDF, int64 (N,), by
        context (None: as they stand), and which entries are kept in it, bool (N,)."""


def load_kind(name: str) -> DecodingKind:
    """Import the module of a kind of decoding."""
    return cast(DecodingKind, importlib.import_module(decoding_row(name).module))


class TokenDraw(NamedTuple):
    """Drawn tokens int64 (B,), their log probability and that under the decoding, float64 (B,)."""

    token: Tensor
    log_prob: Tensor
    log_prob_decoding: Tensor


def draw_tokens(logits: Tensor, uniform: Tensor, options: DecodingOptions) -> TokenDraw:
    """Draw the next token of each row from logits, float32, (B, V), which are overwritten."""
    weights = unnormalized(logits, options.temperature, options.unknown == "exclude")
    token, mass = load_kind(options.kind).draw(weights, uniform, options)  # (B,), (B,)
    log_prob = weights.log_probs(token[:, None])[:, 0]  # (B,)
    log_weight = (log_prob + weights.log_total) / options.temperature  # (B,)
    return TokenDraw(token, log_prob, log_weight - mass.log())


class SamplingEngine(Engine):
    """One row a slot; a step draws one token of each. Parameters are those of `Engine`."""

    @property
    def recordable(self) -> bool:
        """All of a step is, unless its decoding looks at values."""
        return has_triton(self.device) or not load_kind(self.options.kind).LOOKS

    def _blank(self) -> dict[str, Tensor]:
        return {
            "token": torch.full((1,), BOS, device=self.device),
            "length": torch.zeros(1, dtype=torch.int64, device=self.device),
            "log_probs": torch.zeros(1, 2, dtype=torch.float64, device=self.device),
        }

    def _fields(self, rooms: int) -> dict[str, Tensor]:
        shape = (rooms, self.maximum_length)
        return {
            "token": torch.zeros(shape, dtype=torch.int32, device=self.device),
            # Both log probabilities, length, finished or not.
            "result": torch.zeros(rooms, 4, dtype=torch.float64, device=self.device),
        }

    def next_tokens(self) -> TokenDraw:
        """Draw the next token of every slot; engines of counted models draw from their tables."""
        numbers = self._numbers()[:, 0]  # (S,)
        return draw_tokens(self._step_model(), numbers, self.options)

    def _extend(self) -> Tensor:
        drawn = self.next_tokens()
        slots, fields = self.slots, self._held.fields
        room, length, token = slots["room"], slots["length"], drawn.token  # 3 x (S,)
        fields["token"][room, length] = token.int()
        stop = token == EOS  # (S,)
        slots["token"], slots["length"] = token, length + ~stop  # (S,), (S,)
        log_probs = torch.stack((drawn.log_prob, drawn.log_prob_decoding), 1)  # (S, 2)
        slots["log_probs"] = slots["log_probs"] + log_probs  # (S, 2)
        counts = torch.stack((slots["length"], stop), 1)  # (S, 2)
        fields["result"][room] = torch.cat((slots["log_probs"], counts), 1)  # (S, 4)
        return slots["alive"] & (stop | (length + 1 >= self.maximum_length))

    def _collect(self, doc_ids: np.ndarray, rooms: Tensor) -> list[DrawnDocument]:
        fields = self._held.fields
        results = fields["result"][rooms].tolist()  # (N, 4)
        longest = max(int(result[2]) for result in results)
        tokens = fields["token"][rooms, :longest].cpu().numpy()  # (N, longest)
        return [
            DrawnDocument(
                doc_id, text[: int(length)].copy(), log_prob, log_prob_decoding, finished > 0
            )
            for doc_id, text, (log_prob, log_prob_decoding, length, finished) in zip(
                doc_ids.tolist(), tokens, results, strict=True
            )
        ]

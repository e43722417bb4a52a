"""Decodings that draw one token at a time: every kind but beam sampling.

S slots, P rooms, L tokens of a document at most; see `decoding.engine`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from beyond_perplexity.decoding.engine import DrawnDocument, Engine
from beyond_perplexity.decoding.kinds import TokenDraw, draw_tokens, load_kind
from beyond_perplexity.vocabulary import BOS, EOS


class SamplingEngine(Engine):
    """One row a slot; a step draws one token of each. Parameters are those of `Engine`."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.recordable = not load_kind(self.options.kind).LOOKS

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

    def _next(self) -> TokenDraw:
        """Draw the next token of every slot."""
        numbers = self._numbers()[:, 0]  # (S,)
        return draw_tokens(self._step_model(), numbers, self.options)

    def _extend(self) -> Tensor:
        drawn = self._next()
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

"""Beam sampling, as the tendencies paper describes it.

A document starts with one beam, the empty prefix. In every step each live beam extends by k tokens
that are drawn without replacement from the decoding's distribution p(. | beam); of all these
continuations the m most probable stay, where m is k less the number of documents finished so far.
Those that end with ``</s>`` leave the beam as finished documents. When no live beam is left, or
more probable than the best finished one, that is the document: probabilities only fall. At the
maximum length the best finished one is taken, else the most probable live beam, flagged as not
finished.

"Most probable" is by the model's own probability of the whole prefix, without temperature and
without a length norm. Log probabilities are compared on a grid of 1e-5, so that rounding does not
order what is equally probable; ties go to the better beam, then to the earlier draw.

fairseq's ``--sampling --beam k`` draws with replacement and sums the scores of what it drew;
Hugging Face's ``num_beams=k, do_sample=True`` draws 2 k continuations from the joint distribution
over all beams. Neither is this. The paper leaves open whether draws are with replacement:
duplicates would collapse the beam, so they are not. Meister and Cotterell (2021), Language model
evaluation beyond perplexity, section 5.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from beyond_perplexity.decoding.engine import DrawnDocument, Engine
from beyond_perplexity.decoding.kernels import draw_distinct, unnormalized
from beyond_perplexity.vocabulary import BOS, EOS

GRID = 1e5


def on_grid(log_prob: Tensor) -> Tensor:
    """Round log probabilities to the grid on which they are compared."""
    return (log_prob * GRID).round()


class BeamEngine(Engine):
    """Beam sampling in slots of k rows; k = ``options.size``."""

    def _blank(self) -> dict[str, Tensor]:
        def full(value: float, *shape: int, kind: torch.dtype) -> Tensor:
            return torch.full((1, *shape), value, dtype=kind, device=self.device)

        log_prob = full(-torch.inf, self.beams, kind=torch.float64)  # (1, k)
        log_prob[:, 0] = 0
        return {
            "token": full(BOS, self.beams, kind=torch.int64),
            "log_prob": log_prob,  # minus infinity where there is no beam
            "length": full(0, kind=torch.int64),
            "n_finished": full(0, kind=torch.int64),
            # The best finished document: its length, and the beam of its last token.
            "best_length": full(0, kind=torch.int64),
            "best_beam": full(0, kind=torch.int64),
            "best_log_prob": full(-torch.inf, kind=torch.float64),
        }

    def _fields(self, rooms: int) -> dict[str, Tensor]:
        shape = (rooms, self.maximum_length, self.beams)
        return {
            # The newest token of each beam after each step, and the beam it came from.
            "token": torch.zeros(shape, dtype=torch.int32, device=self.device),
            "parent": torch.zeros(shape, dtype=torch.int16, device=self.device),
            # Log probability, length, beam of the last token, finished or not.
            "result": torch.zeros(rooms, 4, dtype=torch.float64, device=self.device),
        }

    def _draws(self) -> tuple[Tensor, Tensor]:
        """Draw k continuations of every beam: tokens and log probabilities, (S, k, k)."""
        numbers = self._numbers().unflatten(1, (self.beams, -1)).flatten(0, 1)  # (R, k)
        options = self.options
        weights = unnormalized(
            self._step_model(), options.temperature, options.unknown == "exclude"
        )
        tokens, scores = draw_distinct(weights, numbers)  # (R, k), (R, k)
        shape = (-1, self.beams, self.beams)
        return tokens.view(shape), self.slots["log_prob"][:, :, None] + scores.view(shape)

    def _extend(self) -> Tensor:
        tokens, scores = self._draws()  # (S, k, k)
        slots, fields, k = self.slots, self._held.fields, self.beams
        token, parent, score = keep_best(tokens, scores, k - slots["n_finished"])  # (S, k)
        room, before = slots["room"], slots["length"]  # (S,), (S,)
        fields["token"][room, before] = token.int()
        fields["parent"][room, before] = parent.short()
        stop = (token == EOS) & (score > -torch.inf)  # (S, k)
        self._finish(stop, score, parent)
        live = torch.where(stop, -torch.inf, score)  # (S, k)
        slots["n_finished"] = slots["n_finished"] + stop.sum(1)  # (S,)
        slots["length"] = before + 1  # (S,)
        slots["log_prob"] = live
        slots["token"] = torch.where(live > -torch.inf, token, BOS)  # (S, k)
        fields["result"][room] = self._result(live)
        first = torch.arange(len(parent), device=self.device)[:, None] * k  # (S, 1)
        self.state = self._state.select((first + parent).flatten())
        hopeful = on_grid(live.amax(1)) > on_grid(slots["best_log_prob"])  # (S,)
        return slots["alive"] & ~(hopeful & (slots["length"] < self.maximum_length))

    def _finish(self, stop: Tensor, score: Tensor, parent: Tensor) -> None:
        """Keep the best finished document; all are (S, k)."""
        slots = self.slots
        # Beams come in falling order of the grid, so the first that stops is the best.
        index = stop.int().argmax(1, keepdim=True)  # (S, 1)
        top = torch.where(stop, score, -torch.inf).gather(1, index)[:, 0]  # (S,)
        better = on_grid(top) > on_grid(slots["best_log_prob"])  # (S,)
        found = {"length": slots["length"], "beam": parent.gather(1, index)[:, 0], "log_prob": top}
        for name, value in found.items():
            best = f"best_{name}"
            slots[best] = torch.where(better, value, slots[best])  # (S,)

    def _result(self, live: Tensor) -> Tensor:
        """Return what each document came to if it ended now, (S, 4); `live` is (S, k)."""
        slots = self.slots
        finished = slots["best_log_prob"] > -torch.inf  # (S,)
        first = (live > -torch.inf).int().argmax(1)  # (S,)
        cut = live.gather(1, first[:, None])[:, 0]  # (S,)
        parts = (
            torch.where(finished, slots["best_log_prob"], cut),
            torch.where(finished, slots["best_length"], slots["length"]),
            torch.where(finished, slots["best_beam"], first),
            finished,
        )
        return torch.stack([part.double() for part in parts], 1)  # (S, 4)

    def _collect(self, doc_ids: np.ndarray, rooms: Tensor) -> list[DrawnDocument]:
        fields = self._held.fields
        log_probs, *whole = fields["result"][rooms].T.cpu().numpy()  # 4 x (N,)
        lengths, beams, finished = (part.astype(np.int64) for part in whole)
        longest = int(lengths.max())
        tokens, parents = (
            fields[name][rooms, :longest].cpu().numpy() for name in ("token", "parent")
        )  # 2 x (N, longest, k)
        texts = trace_back(tokens, parents, lengths, beams)  # (N, longest)
        rows = zip(doc_ids.tolist(), texts, lengths, log_probs.tolist(), finished, strict=True)
        return [
            DrawnDocument(doc_id, text[:length].copy(), log_prob, float("nan"), bool(whole))
            for doc_id, text, length, log_prob, whole in rows
        ]


def trace_back(
    tokens: np.ndarray, parents: np.ndarray, lengths: np.ndarray, beams: np.ndarray
) -> np.ndarray:
    """Read documents, (N, T), from the newest token of each beam after each step and the beam it
    came from, (N, T, k), their lengths and the beams of their last tokens, int64 (N,)."""
    texts, rows = np.zeros(tokens.shape[:2], dtype=tokens.dtype), np.arange(len(tokens))
    for step in range(tokens.shape[1] - 1, -1, -1):
        texts[:, step] = tokens[rows, step, beams]
        beams = np.where(step < lengths, parents[rows, step, beams], beams)
    return texts


def keep_best(tokens: Tensor, scores: Tensor, room: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Keep the `room`, (S,), most probable of (S, k, k) tokens with log probabilities, float64:
    token, parent, score, (S, k), by falling score on the grid, −inf where nothing is kept."""
    k = tokens.shape[1]
    flat = scores.flatten(1)  # (S, k * k)
    order = on_grid(flat).sort(dim=1, descending=True, stable=True).indices[:, :k]  # (S, k)
    score = flat.gather(1, order)  # (S, k)
    outside = torch.arange(k, device=score.device) >= room[:, None]  # (S, k)
    token = tokens.flatten(1).gather(1, order)  # (S, k)
    return token, order // k, score.masked_fill(outside, -torch.inf)

"""Beam sampling, as the tendencies paper describes it.

A document starts with one beam, the empty prefix. In every step each live beam extends by k tokens
that are drawn without replacement from the decoding's distribution p(. | beam); of all these
continuations the m most probable stay, where m is k less the number of documents finished so far.
Continuations that end with ``</s>`` leave the beam as finished documents. When no live beam is
left, the most probable finished one is the document. So k hypotheses at most are finished. A beam
stops earlier when no live beam is more probable than the best finished one: probabilities only
fall, the result is the same. At the maximum length the best finished document is taken; where
there is none, the most probable live beam, flagged as not finished.

"Most probable" is by the model's own probability of the whole prefix, without temperature and
without a length norm. Log probabilities are compared on a grid of 1e-5, so that rounding does not
order what is equally probable; ties go to the better beam, then to the earlier draw.

fairseq's ``--sampling --beam k`` draws with replacement and sums the scores of what it drew;
Hugging Face's ``num_beams=k, do_sample=True`` draws 2 k continuations from the joint distribution
over all beams. Neither is this. The paper leaves open whether draws are with replacement:
duplicates would collapse the beam, so they are not.

References
----------
Meister and Cotterell (2021). Language model evaluation beyond perplexity, section 5.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from beyond_perplexity.decoding.engine import Document, Engine
from beyond_perplexity.decoding.kernels import draw_distinct, weigh
from beyond_perplexity.vocabulary import BOS, EOS

GRID = 1e5


def on_grid(log_prob: Tensor) -> Tensor:
    """Round log probabilities to the grid on which they are compared."""
    return (log_prob * GRID).round()


class BeamEngine(Engine):
    """Beam sampling in slots of k rows; k = ``options.size``."""

    def _empty(self, slots: int) -> dict[str, Tensor]:
        def full(value: float, *shape: int, kind: torch.dtype) -> Tensor:
            return torch.full((slots, *shape), value, dtype=kind, device=self.device)

        room = self.maximum_length + 1
        log_prob = full(-torch.inf, self.beams, kind=torch.float64)  # (S, k)
        log_prob[:, 0] = 0
        return {
            "token": full(BOS, self.beams, kind=torch.int64),  # (S, k)
            "written": full(0, self.beams, room, kind=torch.int32),  # (S, k, L + 1)
            "log_prob": log_prob,  # (S, k): minus infinity where there is no beam
            "best": full(0, room, kind=torch.int32),  # (S, L + 1): the best finished document
            "best_length": full(0, kind=torch.int64),  # (S,)
            "best_log_prob": full(-torch.inf, kind=torch.float64),  # (S,)
            "n_finished": full(0, kind=torch.int64),  # (S,)
            "length": full(0, kind=torch.int64),  # (S,)
            "alive": full(True, kind=torch.bool),  # (S,)
        }

    def _extend(self) -> tuple[Tensor, Tensor]:
        """Draw k continuations of every beam: tokens and log probabilities, (S, k, k)."""
        logits, self.state = self.model.step(self.slots["token"].flatten(), self.state)  # (R, V)
        options = self.options
        weights = weigh(logits, options.temperature, options.unknown == "exclude")
        numbers = self._window.at(self.slots["length"]).unflatten(1, (self.beams, -1)).flatten(0, 1)
        tokens, valid = draw_distinct(weights, numbers)  # (R, k), (R, k)
        tokens = torch.where(valid, tokens, 0)  # (R, k)
        scores = logits.gather(1, tokens).double() - weights.top.double()  # (R, k)
        scores = torch.where(valid, scores - weights.log_total[:, None], -torch.inf)  # (R, k)
        shape = (-1, self.beams, self.beams)
        return tokens.view(shape), self.slots["log_prob"][:, :, None] + scores.view(shape)

    def _advance(self) -> None:
        slots, k = self.slots, self.beams
        before, alive = slots["length"], slots["alive"]  # (S,), (S,)
        tokens, scores = self._extend()  # (S, k, k)
        token, parent, score = keep_best(tokens, scores, k - slots["n_finished"])  # (S, k)
        written = slots["written"].gather(
            1, parent[:, :, None].expand_as(slots["written"])
        )  # (S, k, L + 1)
        places = before[:, None, None].expand(-1, k, 1)  # (S, k, 1)
        written.scatter_(2, places, token[:, :, None].int())
        stop = (token == EOS) & (score > -torch.inf) & alive[:, None]  # (S, k)
        self._finish(written, torch.where(stop, score, -torch.inf), before)
        slots["n_finished"] = slots["n_finished"] + stop.sum(1)  # (S,)
        live = torch.where(stop, -torch.inf, score)  # (S, k)
        length = before + 1  # (S,)
        hopeful = on_grid(live.amax(1)) > on_grid(slots["best_log_prob"])  # (S,)
        slots["alive"] = alive & hopeful & (length < self.maximum_length)
        # An ended slot keeps its beams: they are its document if none was finished.
        slots["log_prob"] = torch.where(alive[:, None], live, slots["log_prob"])  # (S, k)
        slots["written"] = torch.where(alive[:, None, None], written, slots["written"])
        slots["length"] = torch.where(alive, length, before)  # (S,)
        slots["token"] = torch.where(live > -torch.inf, token, BOS)  # (S, k)
        first = torch.arange(len(parent), device=self.device)[:, None] * k  # (S, 1)
        self.state = self.state.select((first + parent).flatten())

    def _finish(self, written: Tensor, score: Tensor, length: Tensor) -> None:
        """Keep the best finished document: rows (S, k, L + 1), scores (S, k), lengths (S,)."""
        slots = self.slots
        # Beams come in falling order of the grid, so the first that stops is the best.
        place = (score > -torch.inf).int().argmax(1)  # (S,)
        rows = torch.arange(len(place), device=self.device)  # (S,)
        top = score[rows, place]  # (S,)
        better = on_grid(top) > on_grid(slots["best_log_prob"])  # (S,)
        slots["best"] = torch.where(better[:, None], written[rows, place], slots["best"])
        slots["best_length"] = torch.where(better, length, slots["best_length"])
        slots["best_log_prob"] = torch.where(better, top, slots["best_log_prob"])

    def _collect(self, doc_ids: np.ndarray, slots: Tensor) -> list[Document]:
        held = {name: tensor[slots].cpu() for name, tensor in self.slots.items()}
        documents = []
        for row, doc_id in enumerate(doc_ids.tolist()):
            log_prob = float(held["best_log_prob"][row])
            finished = log_prob > -np.inf
            if finished:
                tokens, length = held["best"][row], int(held["best_length"][row])
            else:
                place = int((held["log_prob"][row] > -torch.inf).int().argmax())
                log_prob = float(held["log_prob"][row, place])
                tokens, length = held["written"][row, place], int(held["length"][row])
            text = tokens[:length].numpy().copy()
            documents.append(Document(doc_id, text, log_prob, float("nan"), finished))
        return documents


def keep_best(tokens: Tensor, scores: Tensor, room: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Keep the most probable continuations of each slot.

    Parameters
    ----------
    tokens : Tensor
        int64, (S, k, k): the draws of each beam.
    scores : Tensor
        float64, (S, k, k): log probabilities; minus infinity where there is no continuation.
    room : Tensor
        int64, (S,): how many stay.

    Returns
    -------
    token, parent, score : Tensor
        (S, k), by falling score on the grid; score minus infinity where nothing is kept.
    """
    k = tokens.shape[1]
    flat = scores.flatten(1)  # (S, k * k)
    order = on_grid(flat).sort(dim=1, descending=True, stable=True).indices[:, :k]  # (S, k)
    score = flat.gather(1, order)  # (S, k)
    outside = torch.arange(k, device=score.device) >= room[:, None]  # (S, k)
    token = tokens.flatten(1).gather(1, order)  # (S, k)
    return token, order // k, score.masked_fill(outside, -torch.inf)

"""What a masked model says of one text under many masks: each mask is worked out once.

Sums over all orders go over the sets S of words that are shown: the mean over the |S|! orders of S
is f(S) = (1/|S|) Σ_{i∈S} f(S∖i) p(x_i | x_{S∖i}), in 2^n steps. M masks of a text of n words.
"""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

HELD_BYTES = 1 << 28  # of the store of one text, at most before it begins anew
MOST_EXACT = 14  # words of a text whose 2^n sets are summed over
SETS_AT_ONCE = 1024  # sets whose masks are worked out at a time


class HiddenScorer(Protocol):
    """A model that says what hidden words are."""

    def hidden_scores(self, tokens: Tensor, hidden: Tensor) -> Tensor:
        """Return log p of each hidden word given those shown, and the entropy of what it says.

        Nats, float64, (M, 2, n), 0 at words that are shown; `tokens`, int64, (n,), `hidden`, bool,
        (M, n). What a mask gives does not depend on the others.
        """


class MaskScores:
    """The store of one text, of the words `tokens`, int64, (n,)."""

    def __init__(self, model: HiddenScorer, tokens: Tensor) -> None:
        self._model, self._tokens = model, tokens
        self._places: dict[bytes, int] = {}
        self._held = torch.empty(0, 2, len(tokens), dtype=torch.float64, device=tokens.device)

    def __call__(self, hidden: Tensor) -> Tensor:
        """Return what `HiddenScorer.hidden_scores` does, for masks (M, n)."""
        packed = np.packbits(hidden.cpu().numpy(), axis=1)  # (M, ⌈n / 8⌉)
        keys = [row.tobytes() for row in packed]
        fresh = {key: place for place, key in enumerate(keys) if key not in self._places}
        if fresh:
            if len(self._places) * self._held[:1].nbytes > HELD_BYTES:
                self._places, self._held = {}, self._held[:0]
                fresh = {key: place for place, key in enumerate(keys)}
            chosen = torch.tensor(list(fresh.values()), device=hidden.device)  # (M',)
            found = self._model.hidden_scores(self._tokens, hidden[chosen])  # (M', 2, n)
            before = len(self._places)
            self._places |= {key: before + place for place, key in enumerate(fresh)}
            self._extend(found, before)
        asked = torch.tensor([self._places[key] for key in keys], dtype=torch.int64)  # (M,)
        return self._held[asked.to(hidden.device)]

    def _extend(self, found: Tensor, before: int) -> None:
        """Put scores, (M', 2, n), behind the first ones; room doubles, as growing copies it."""
        wanted = before + len(found)
        if wanted > len(self._held):
            room = found.new_empty(max(wanted, 2 * len(self._held)), *found.shape[1:])
            room[:before] = self._held[:before]
            self._held = room
        self._held[before:wanted] = found

    def log_mean_of_orders(self) -> float:
        """Return log of the mean over all orders of Π p(x_i | what is shown), nats; NaN if long."""
        length = len(self._tokens)
        if length > MOST_EXACT:
            return math.nan
        sets = np.arange(1 << length)  # bit i: word i is shown
        sizes = np.bitwise_count(sets)
        log_f = np.full(len(sets), -np.inf)
        log_f[0] = 0.0
        for size in range(length):
            same = sets[sizes == size]
            for begin in range(0, len(same), SETS_AT_ONCE):
                shown = same[begin : begin + SETS_AT_ONCE, None]  # (M, 1)
                bits = 1 << np.arange(length)  # (n,)
                hidden = torch.from_numpy((shown & bits) == 0).to(self._tokens.device)  # (M, n)
                log_p = self(hidden)[:, 0].cpu().numpy()  # (M, n)
                grown = log_f[shown] + log_p - math.log(size + 1)  # (M, n)
                inside = (shown & bits) == 0  # (M, n)
                np.logaddexp.at(log_f, (shown | bits)[inside], grown[inside])
        return float(log_f[-1])

    def most_confident_first(self) -> tuple[np.ndarray, list[int]]:
        """Show the word of least entropy next, of equals the first: ln p, float64, (n,), and order.

        Where a word is shown depends on the words before it in this order alone, so that Σ ln p is
        that of a text under just this sampler (2603.01367). It is no mean over orders.
        """
        hidden = torch.ones(1, len(self._tokens), dtype=torch.bool, device=self._tokens.device)
        found, order = np.zeros(len(self._tokens)), list[int]()  # (n,)
        for _ in self._tokens:
            log_p, entropy = self(hidden)[0].cpu().numpy()  # (n,) each
            shown = ~hidden[0].cpu().numpy()  # (n,)
            place = int(np.where(shown, np.inf, entropy).argmin())
            order.append(place)
            found[place], hidden[0, place] = log_p[place], False
        return found, order

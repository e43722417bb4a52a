"""Orders over the masks of a masked model: their probability, particles, exact and other sums.

R rows, K particles, T words, n words of one text; W entries of a row of z, a permutation.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from beyond_perplexity.corpus.latent_instances import TOKENS, Instance, InstanceBatch
from beyond_perplexity.invariant_tensors import sum_rows
from beyond_perplexity.models.latent import PADDING, LatentModel
from beyond_perplexity.models.latents.masked_diffusion_lengths import LengthModel
from beyond_perplexity.models.latents.masked_diffusion_scores import MaskScores
from beyond_perplexity.vocabulary import UNK

MASK_BYTES = 1 << 26  # of the scores of the masks of a block of orders


class OrderState(NamedTuple):
    """What particles have shown so far of the texts that they read: `hidden`, bool, (K, T)."""

    batch: InstanceBatch
    owner: Tensor  # int64, (K,)
    hidden: Tensor

    def select(self, rows: Tensor) -> OrderState:
        """Return the state whose row i is row ``rows[i]`` of this one."""
        return self._replace(owner=self.owner[rows], hidden=self.hidden[rows])

    def show(self, choice: Tensor) -> tuple[Tensor, OrderState]:
        """Show the positions (K,): whether each was hidden, bool, (K,), and the new state."""
        place = choice.clamp(0, self.hidden.shape[1] - 1)[:, None]  # (K, 1)
        right = self.hidden.gather(1, place)[:, 0] & (place[:, 0] == choice)  # (K,)
        return right, self._replace(hidden=self.hidden.scatter(1, place, False))


class MaskedModel(LatentModel):
    """What follows from `hidden_scores` and the lengths alone: log p(x, z), particles, sums."""

    lengths: LengthModel

    @abstractmethod
    def hidden_scores(self, tokens: Tensor, hidden: Tensor) -> Tensor:
        """Return what `HiddenScorer` says."""

    def length_log_prob(self, lengths: Tensor) -> Tensor:
        """Return log p(n), float64, of numbers of words; 0 where T does not count the end."""
        found = torch.as_tensor(self.lengths.log_prob(lengths.cpu().numpy()), device=lengths.device)
        return found if self.counts_end else torch.zeros_like(found)

    def mask_scores(self, batch: InstanceBatch, place: int) -> MaskScores:
        """Return the scores of the masks of one text of a batch, which holds them."""
        tokens = batch.tokens[place, : int(batch.lengths[TOKENS][place])]  # (n,)
        return batch.keep((self, "masks", place), lambda: MaskScores(self, tokens))

    @torch.no_grad()
    def log_joint(self, batch: InstanceBatch, owner: Tensor, latents: Tensor) -> Tensor:
        """Return log p(x, z), nats, float64, (R,); −inf where z is no permutation."""
        found = torch.full((len(owner),), -math.inf, dtype=torch.float64, device=owner.device)
        for place in owner.unique().tolist():
            rows = (owner == place).nonzero()[:, 0]  # (R',)
            n = int(batch.lengths[TOKENS][place])
            order = latents[rows, :n]  # (R', n)
            own = torch.arange(n, device=owner.device)  # (n,)
            right = (latents[rows, n:] == PADDING).all(1)  # (R',)
            if order.shape[1] < n:
                continue
            right &= (order.sort(1).values == own).all(1)
            rows, order = rows[right], order[right]
            scores, block = self.mask_scores(batch, place), max(1, MASK_BYTES // (16 * n * n))
            parts = [self._log_product(scores, part) for part in order.split(block)]
            base = self.length_log_prob(batch.lengths[TOKENS][place]) - math.lgamma(n + 1)
            found[rows] = torch.cat(parts) + base
        return found

    @staticmethod
    def _log_product(scores: MaskScores, order: Tensor) -> Tensor:
        """Return Σ_k log p(x_{z_k} | what is shown), float64, (R,), of orders (R, n)."""
        rank, step = order.argsort(1), torch.arange(order.shape[1], device=order.device)  # (R, n)
        hidden = rank[:, None] >= step[:, None]  # (R, n, n): before each step
        log_p = scores(hidden.flatten(0, 1))[:, 0].view_as(hidden)  # (R, n, n)
        return sum_rows(log_p.gather(2, order[..., None])[..., 0])  # (R,)

    @torch.no_grad()
    def exact_log_prob(self, batch: InstanceBatch) -> Tensor:
        """Return log p(x) by a sum over all orders, nats, float64, (B,); NaN of long texts."""
        places = range(len(batch))
        found = [self.mask_scores(batch, place).log_mean_of_orders() for place in places]
        held = torch.tensor(found, dtype=torch.float64, device=batch.ids.device)  # (B,)
        return held + self.length_log_prob(batch.lengths[TOKENS])

    def exact_rows(self, instances: Iterable[Instance]) -> Iterator[dict[str, Any]]:
        """Score short texts by a sum over all orders: columns of schema ``instance_scores`` but for
        names and group."""
        for instance in instances:
            batch = InstanceBatch.of([instance]).to(self.device)
            total = float(self.exact_log_prob(batch)[0])
            if not math.isnan(total):
                end = float(self.length_log_prob(batch.lengths[TOKENS])[0])
                row: dict[str, Any] = {"instance_id": instance.instance_id}
                row |= {"n_words": int(batch.tokens.shape[1])}
                row |= {"n_tokens": int(self.n_tokens(batch)[0]), "n_inside": None}
                row |= {"n_unknown": int((batch.tokens == UNK).sum())}
                row |= {"log_likelihood": total, "log_likelihood_inside": None}
                yield row | {"log_likelihood_end": end}

    @torch.no_grad()
    def deterministic_log_probs(self, batch: InstanceBatch) -> np.ndarray:
        """Return ln p of each word and of the length of one text, float64, (T + 1,), in the order
        of `MaskScores.most_confident_first`: another distribution than that of `log_joint`."""
        batch = batch.to(self.device)
        log_p, _ = self.mask_scores(batch, 0).most_confident_first()  # (T,)
        return np.append(log_p, self.length_log_prob(batch.lengths[TOKENS]).cpu().numpy())

    # ---- word by word ----

    def start(self, batch: InstanceBatch, owner: Tensor) -> OrderState:
        """Return the state of particles; see `SequentialModel`."""
        position = torch.arange(batch.tokens.shape[1], device=owner.device)  # (T,)
        return OrderState(batch, owner, position < batch.lengths[TOKENS][owner, None])

    @torch.no_grad()
    def scores_of(self, state: OrderState) -> Tensor:
        """Return log p of every hidden word and the entropies, float64, (K, 2, T), else 0."""
        rows, width = state.hidden.shape
        found = torch.zeros(rows, 2, width, dtype=torch.float64, device=state.owner.device)
        for place in state.owner.unique().tolist():
            own = (state.owner == place).nonzero()[:, 0]  # (K',)
            n = int(state.batch.lengths[TOKENS][place])
            found[own, :, :n] = self.mask_scores(state.batch, place)(state.hidden[own, :n])
        return found

    def extend(self, state: OrderState, time: int, choice: Tensor) -> tuple[Tensor, OrderState]:
        """Show the words at the positions (K,); see `SequentialModel`."""
        left = state.hidden.sum(1)  # (K,)
        right, after = state.show(choice)
        place = choice.clamp(0, state.hidden.shape[1] - 1)[:, None]  # (K, 1)
        log_p = self.scores_of(state)[:, 0].gather(1, place)[:, 0]  # (K,)
        log_p = log_p - left.clamp(min=1).double().log()
        return log_p.masked_fill(~right, -math.inf), after

    def finish(self, state: OrderState, time: int) -> Tensor:
        """Return log p of the number of words; see `SequentialModel`."""
        return self.length_log_prob(state.batch.lengths[TOKENS][state.owner])

    def readable(self, instance: Instance, latent: Tensor) -> dict[str, Any]:
        """Say in which ``order`` the positions are shown."""
        return {"order": [place for place in latent.tolist() if place != PADDING]}

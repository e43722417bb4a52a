"""Orders by confidence: the position that the model is surer of is sooner shown.

q_τ(z_k = i | what is shown) ∝ exp(−H_i / τ) over the hidden positions, H_i the entropy, in nats, of
what the model says at i; no hidden word is looked at. From τ = `UNIFORM` on all orders are as
probable; towards 0 the order is that of deterministic unmasking. Particles promise what the hidden
words cost each by itself: else those that put hard words off would win resampling.

R rows, K particles, T words.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from beyond_perplexity.corpus.latent_instances import InstanceBatch
from beyond_perplexity.invariant_tensors import invert
from beyond_perplexity.models.latents.masked_diffusion_walks import MaskedModel, OrderState
from beyond_perplexity.models.word_by_word import Continuations, OptimalProposal

UNIFORM = 1e6  # a temperature above all entropies, whose differences no longer count


class ConfidenceOrders(OptimalProposal):
    """The proposal; see the module and `OptimalProposal`."""

    family = "confidence-orders"
    word_draws = 1

    model: MaskedModel

    def start(self, batch: InstanceBatch, owner: Tensor) -> OrderState:
        """Return the state of rows; see `OptimalProposal.start`."""
        return self.model.start(batch, owner)

    def log_choices(self, state: OrderState, temperature: float) -> Tensor:
        """Return log q of every position, float64, (K, T); where all is shown, 0 at the first."""
        if temperature >= UNIFORM:
            heights = torch.zeros_like(state.hidden, dtype=torch.float64)  # (K, T)
        else:
            heights = -self.model.scores_of(state)[:, 1] / temperature  # (K, T)
        heights = heights.masked_fill(~state.hidden, -math.inf)
        done = ~state.hidden.any(1)  # (K,)
        heights[:, 0] = torch.where(done, 0.0, heights[:, 0])
        return heights.log_softmax(1)

    def propose(
        self, state: OrderState, time: int, uniforms: Tensor, temperature: float
    ) -> tuple[Tensor, Tensor, OrderState]:
        """Draw the next positions; see `OptimalProposal.propose`."""
        log_q = self.log_choices(state, temperature)  # (K, T)
        choice = invert(log_q.exp().cumsum(1), uniforms)  # (K, 1)
        return choice[:, 0], log_q.gather(1, choice)[:, 0], state.show(choice[:, 0])[1]

    def follow(
        self, state: OrderState, time: int, choice: Tensor, temperature: float
    ) -> tuple[Tensor, OrderState]:
        """Take given positions; see `OptimalProposal.follow`."""
        right, after = state.show(choice)
        place = choice.clamp(0, state.hidden.shape[1] - 1)[:, None]  # (K, 1)
        log_q = self.log_choices(state, temperature).gather(1, place)[:, 0]  # (K,)
        return log_q.masked_fill(~right, -math.inf), after

    def continuations(
        self, state: OrderState, time: int, size: int, temperature: float
    ) -> Continuations:
        """List what may follow hypotheses; see `OptimalProposal.continuations`."""
        origin, place = state.hidden.nonzero(as_tuple=True)  # (X,)
        return Continuations(origin, place, self.log_choices(state, temperature)[origin, place])

    def log_twist(self, state: OrderState, time: int) -> Tensor:
        """Return Σ log p(x_i | what is shown) of hidden words, float64, (K,); see `Twisting`."""
        return self.model.scores_of(state)[:, 0].sum(1)

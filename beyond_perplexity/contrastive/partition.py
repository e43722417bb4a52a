"""Z of an unnormalized model, given the length: Z_n, the sum of e^(log score) over V^n.

Sequences of words are drawn from a proposal q, a normalized model that is kept from ending. With
w_n = e^(log score) / q of its first n words, E w_n = Z_n: one sequence serves every length. Several
sequences of a run, the particles, are a sequential Monte Carlo estimate of the same expectation
(`importance.particle_runs`); there are K independent runs. V are the words and ``<unk>``, neither
``<s>`` nor ``</s>``.

The sum of Z_n over all n is not estimated: training leaves the scale of scores free, and where Z_n
grows with n it diverges. A likelihood is one of the words given their number.

K runs, P particles of a run, B rows (runs of a block times particles), L longest length, W words.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from beyond_perplexity.contrastive.partition_options import PartitionOptions
from beyond_perplexity.errors import InputError
from beyond_perplexity.invariant_tensors import effective_size, invert, systematic, uniforms
from beyond_perplexity.models.contract import LanguageModel, State
from beyond_perplexity.models.latent import UnnormalizedModel
from beyond_perplexity.vocabulary import BOS, UNK

SEQUENCES_AT_ONCE = (
    256  # of a block, about; every block has as many, so that no run depends on their number
)
RESAMPLED_BELOW = 0.5  # effective share of the particles


class ProposalState(NamedTuple):
    """What a proposal remembers of B sequences."""

    model: State  # of the model
    # float64, (B, 2): logarithms of the shares that the model and the uniform distribution have,
    # given the words so far
    log_shares: Tensor

    def select(self, rows: Tensor) -> ProposalState:
        """Return the state whose row i is row ``rows[i]`` of this one."""
        return ProposalState(self.model.select(rows), self.log_shares[rows])


class WordProposal:
    """A distribution over sequences of words that never end: of a model, uniform, or a mixture.

    Sequences are mixed, not words: with u of the uniform distribution q(W) = (1 − u) q_model(W) + u
    / W^n. Weights are thus at most 1 / u times those of uniform words, however bad the model is (a
    defensive mixture, Hesterberg 1995). Without a model words are drawn uniformly; ids of a closed
    vocabulary from ``<unk>`` on are words.
    """

    def __init__(
        self, model: LanguageModel | None, vocabulary_size: int, uniform: float, name: object
    ) -> None:
        self.model = None if uniform == 1 else model
        self.words = vocabulary_size - UNK
        self.uniform = 1.0 if model is None else uniform
        self.name = name

    def check_length(self, longest: int) -> None:
        """Raise `InputError` where the model cannot condition on so many words."""
        limit = None if self.model is None else self.model.context_length
        if limit is not None and longest > limit:
            raise InputError(
                f"{self.name}: conditions on {limit} tokens at most, but a sentence has {longest} "
                "words; choose a proposal without a limit, or leave out such sentences"
            )

    def start(self, rows: int, longest: int) -> ProposalState | None:
        """Return the state of empty sequences; None where words are uniform."""
        if self.model is None:
            return None
        shares = torch.tensor([[1 - self.uniform, self.uniform]], dtype=torch.double).log()
        state = self.model.initial_state(rows, longest)
        return ProposalState(state, shares.expand(rows, 2).to(self.model.device))

    def draw(
        self, tokens: Tensor, state: ProposalState | None, numbers: Tensor
    ) -> tuple[Tensor, Tensor, ProposalState | None]:
        """Draw the next word of each sequence: words (B,), log q (B,) of each in nats, state.

        `tokens`, int64 (B,), are the newest, ``<s>`` of an empty sequence; `numbers`, float64 in
        [0, 1) (B,), one decides on a word. The model has not read the word yet; the state may be
        overwritten.
        """
        if self.model is None or state is None:
            drawn = (numbers * self.words).long()  # (B,)
            return drawn + UNK, torch.full_like(numbers, -math.log(self.words)), None
        logits, after = self.model.step(tokens, state.model)  # (B, V)
        weights = self._weights(logits[:, UNK:])  # (B, W)
        sums = weights.cumsum(1)  # (B, W)
        if bool(sums[:, -1].isnan().any()):
            raise InputError(f"{self.name}: gives words the probability NaN; train it again")
        # The number says whether the word is uniform, and the rest of it which one.
        share = state.log_shares[:, 1].exp()  # (B,)
        of_model = invert(sums, ((numbers - share) / (1 - share)).clamp(0, 1)[:, None])  # (B, 1)
        of_uniform = (numbers / share * self.words).long().clamp(max=self.words - 1)  # (B,)
        drawn = torch.where(numbers < share, of_uniform, of_model[:, 0])[:, None]  # (B, 1)
        log_model = (weights.gather(1, drawn) / sums[:, -1:]).log()  # (B, 1)
        log_each = torch.cat([log_model, torch.full_like(log_model, -math.log(self.words))], 1)
        joint = state.log_shares + log_each  # (B, 2)
        return (
            drawn[:, 0] + UNK,
            joint.logsumexp(1),
            ProposalState(after, joint.log_softmax(1)),
        )

    def _weights(self, logits: Tensor) -> Tensor:
        """Return the model's q of the words up to a factor, float64, (B, W), by their logits."""
        top = logits.amax(1, keepdim=True).double()  # (B, 1)
        dead = top == -torch.inf  # (B, 1): it would end
        weights = (logits.double() - top).masked_fill_(dead, 0.0).exp_()  # (B, W)
        if not self.uniform and bool(((weights == 0) | dead).any()):
            raise InputError(
                f"{self.name}: gives words no probability, so that their part of Z would be "
                "missed; choose a smoothed model, or set uniform above 0"
            )
        return weights


class _Particles(NamedTuple):
    """Sequences of a block, (R, P), row by row."""

    tokens: Tensor  # (B,): the newest
    model: State
    proposal: ProposalState | None

    def select(self, rows: Tensor) -> _Particles:
        proposal = None if self.proposal is None else self.proposal.select(rows)
        return _Particles(self.tokens[rows], self.model.select(rows), proposal)


@torch.no_grad()
def draw_log_partitions(
    model: UnnormalizedModel,
    proposal: WordProposal,
    lengths: np.ndarray,
    options: PartitionOptions,
    seed: int,
    purpose: str,
) -> np.ndarray:
    """Estimate log Z of several lengths, K times.

    Parameters
    ----------
    model : UnnormalizedModel
    proposal : WordProposal
    lengths : ndarray of int64, shape (N,)
        Numbers of words, rising, at least 1.
    options : PartitionOptions
    seed, purpose
        Key the random streams, one a run; on a CPU a run does not depend on the others.

    Returns
    -------
    ndarray of float64, shape (K, N)
        Logarithms of unbiased estimates of Z_n, nats. Those of a run come of the same sequences.

    Raises
    ------
    InputError
        When the proposal leaves words out or cannot go so far, or a score is no finite number.
    """
    longest = int(lengths[-1])
    proposal.check_length(longest)
    runs = max(1, SEQUENCES_AT_ONCE // options.particles)
    found = np.empty((options.samples, len(lengths)))
    for first in range(0, options.samples, runs):
        items = torch.arange(first, first + runs)
        count = longest * (options.particles + 1)
        numbers = uniforms(seed, purpose, items, 0, count, model.device)
        steps = numbers.view(runs, longest, options.particles + 1)
        sums = _run_block(model, proposal, steps)  # (R, L)
        if not np.isfinite(sums).all():
            raise InputError(
                f"the scores of words drawn from {proposal.name} are no finite numbers; the "
                "weights of the model are damaged: train it again"
            )
        kept = slice(first, min(first + runs, options.samples))
        found[kept] = sums[: kept.stop - kept.start, lengths - 1]
    return found


def _run_block(model: UnnormalizedModel, proposal: WordProposal, numbers: Tensor) -> np.ndarray:
    """Run particles: log Ẑ_n of each run and n, (R, L), by numbers (R, L, P + 1)."""
    runs, longest, particles = numbers.shape[0], numbers.shape[1], numbers.shape[2] - 1
    rows, device = runs * particles, model.device
    held = _Particles(
        torch.full((rows,), BOS, device=device),
        model.initial_state(rows),
        proposal.start(rows, longest),
    )
    weights = torch.zeros(runs, particles, dtype=torch.double, device=device)  # logarithms
    before = torch.zeros(runs, dtype=torch.double, device=device)
    first_row = torch.arange(runs, device=device)[:, None] * particles  # (R, 1)
    found = []
    for place in range(longest):
        own_numbers = numbers[:, place, :-1].flatten()  # (B,)
        tokens, log_q, state = proposal.draw(held.tokens, held.proposal, own_numbers)  # (B,), (B,)
        change, scored = model.extend(tokens, held.model)  # (B,)
        held = _Particles(tokens, scored, state)
        weights = weights + (change - log_q).view(runs, particles)  # (R, P)
        mean = weights.logsumexp(1) - math.log(particles)  # (R,)
        found.append(before + mean)
        poor = effective_size(weights) < RESAMPLED_BELOW * particles  # (R,)
        if poor.any():
            anew = systematic(weights, numbers[:, place, -1])  # (R, P)
            kept = torch.where(poor[:, None], anew, torch.arange(particles, device=device))
            held = held.select((first_row + kept).flatten())
            before = torch.where(poor, before + mean, before)
            weights = weights.masked_fill(poor[:, None], 0.0)
    return torch.stack(found, 1).cpu().numpy()

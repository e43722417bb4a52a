"""Latent models and proposals that go through a text word by word: what they are asked, beams.

An analytic proposal is made of its model, without training. Where the recurrent state does not
depend on z it is q*(z_t) ∝ p(z_t | past) p(x_t | z_t), the optimal proposal of a particle filter
(Doucet, Godsill & Andrieu 2000; "fully adapted", Pitt & Shephard 1999), and the weight of a
particle grows by Σ_z p(z | past) p(x_t | z), whichever z_t is drawn.

B instances, R rows, W entries of a row of z (one a word), T words, K hypotheses of a beam or
particles, D random numbers of a word, C entries of a choice, X continuations, A temperatures.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, NamedTuple, Protocol, Self, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from beyond_perplexity.corpus.latent_instances import TOKENS, CorpusFiles, Instance, InstanceBatch
from beyond_perplexity.errors import InputError
from beyond_perplexity.models.latent import PADDING, LatentModel, Proposal
from beyond_perplexity.vocabulary import Vocabulary


class ParticleState(Protocol):
    """What particles have done so far."""

    def select(self, rows: Tensor) -> Self:
        """Return the state whose row i is row ``rows[i]`` of this one."""


_P = TypeVar("_P", bound=ParticleState)
_Q = TypeVar("_Q", bound=ParticleState)
_Read = TypeVar("_Read", bound=ParticleState, contravariant=True)


class SequentialProposal(Protocol[_Q]):
    """A proposal that can choose word by word; what belongs to one word is int64, (K,), or (K, C)
    with `PADDING` at the end."""

    word_draws: int

    def start(self, batch: InstanceBatch, owner: Tensor) -> _Q:
        """Return the state of particles, (K,), of the instances in those positions of the batch."""

    def propose(
        self, state: _Q, time: int, uniforms: Tensor, temperature: float
    ) -> tuple[Tensor, Tensor, _Q]:
        """Draw z of a word with the numbers (K, D): the choice; log q, (K,); the new state."""

    def follow(self, state: _Q, time: int, choice: Tensor, temperature: float) -> tuple[Tensor, _Q]:
        """Take given choices of a word: log q, float64, (K,); the new state."""


class Twisting(Protocol[_Read]):
    """What a `SequentialProposal` may have besides."""

    def log_twist(self, state: _Read, time: int) -> Tensor:
        """Return log of what particles promise before they choose for a word, float64, (K,),
        ideally log p(x_t, x_{t+1}, ... | past); never −inf where these are possible."""


class SequentialModel(Protocol[_P]):
    """A model that can be scored word by word.

    Where choices are not the entries of z, ``join_choices(choices, lengths)`` makes rows of z,
    int64, (R, W), of choices, int64, (R, T) or (R, T, C), and ``split_latents(latents, lengths)``
    undoes it. Where the states of particles are small it has ``particles_at_once``.
    """

    def start(self, batch: InstanceBatch, owner: Tensor) -> _P:
        """Return the state of particles, (K,), of the instances in those positions of the batch."""

    def extend(self, state: _P, time: int, choice: Tensor) -> tuple[Tensor, _P]:
        """Return log p(x_t, z_t | past), float64, (K,), and the new state."""

    def finish(self, state: _P, time: int) -> Tensor:
        """Return log p of the end after `time` words, (K,), which counts where an instance ends."""


class Continuations(NamedTuple):
    """What may follow hypotheses, (X,) each: the hypothesis, z of the word, log q in nats."""

    origin: Tensor
    code: Tensor
    log_q: Tensor


class BeamedProposal(Proposal):
    """A proposal with an entry of z a word and `word_draws`, D, random numbers for it, which lists
    what may follow hypotheses."""

    word_draws: ClassVar[int]

    def draws(self, batch: InstanceBatch) -> int:
        """Return U, D random numbers a word."""
        return self.word_draws * batch.tokens.shape[1]

    @abstractmethod
    def start(self, batch: InstanceBatch, owner: Tensor) -> Any:
        """Return the state of rows, (R,), of the instances in those positions of the batch."""

    def follow(
        self, state: Any, time: int, choice: Tensor, temperature: float
    ) -> tuple[Tensor, Any]:
        """Take z of a word, int64, (R,): log q, float64, (R,), −inf if impossible, and the new
        state; where a text has ended before, it is a number that does not count."""
        after: tuple[Tensor, Any] = state.advance(time, choice, temperature)
        return after

    @abstractmethod
    def propose(
        self, state: Any, time: int, uniforms: Tensor, temperature: float
    ) -> tuple[Tensor, Tensor, Any]:
        """Draw z of a word with the numbers (R, D): z, int64, (R,); log q, (R,); the new state."""

    def draw_word(
        self, state: Any, time: int, uniforms: Tensor, temperature: float
    ) -> tuple[Tensor, Any]:
        """Draw as `propose` does, where log q is not asked for."""
        choice, _, state = self.propose(state, time, uniforms, temperature)
        return choice, state

    @torch.no_grad()
    def sample(
        self, batch: InstanceBatch, owner: Tensor, uniforms: Tensor, temperature: float
    ) -> Tensor:
        """Draw one z ~ q_τ(· | x) a row, int64, (R, W)."""
        state, width = self.start(batch, owner), batch.tokens.shape[1]
        codes = torch.full((len(owner), width), PADDING, device=owner.device)  # (R, W)
        for time, draws in zip(range(width), uniforms.split(self.word_draws, 1), strict=False):
            codes[:, time], state = self.draw_word(state, time, draws, temperature)
        return codes.masked_fill(~_inside(batch, owner), PADDING)

    @abstractmethod
    def continuations(self, state: Any, time: int, size: int, temperature: float) -> Continuations:
        """List what may follow hypotheses of one instance, with log q; the `size` best at least."""

    @torch.no_grad()
    def beam(self, batch: InstanceBatch, size: int, temperature: float = 1.0) -> Tensor:
        """Search the most probable latents word by word with K = `size` hypotheses."""
        shape = (len(batch), size, batch.tokens.shape[1])
        found = torch.full(shape, PADDING, device=self.device)  # (B, K, W)
        for number, length in enumerate(batch.lengths[TOKENS].tolist()):
            codes = self._search(batch, number, length, size, temperature)  # (K', length)
            found[number, : len(codes), :length] = codes
        return found

    def _search(
        self, batch: InstanceBatch, number: int, length: int, size: int, temperature: float
    ) -> Tensor:
        state = self.start(batch, torch.full((1,), number, device=self.device))
        codes = torch.zeros(1, length, dtype=torch.int64, device=self.device)  # (K, length)
        scores = torch.zeros(1, dtype=torch.float64, device=self.device)  # (K,)
        for time in range(length):
            origin, code, gain = self.continuations(state, time, size, temperature)  # (X,) each
            total, order = (scores[origin] + gain).sort(descending=True, stable=True)  # (X,)
            best, scores = order[:size], total[:size]  # (K,)
            origin, code = origin[best], code[best]  # (K,)
            codes = codes[origin]  # (K, length)
            codes[:, time] = code
            _, state = self.follow(state.select(origin), time, code, temperature)
        return codes


class OptimalProposal(BeamedProposal):
    """An analytic proposal, made of its model, which is in evaluation mode and whose parameters are
    not its own: a subclass steps as `SequentialProposal` does, and samples and beams follow."""

    family = "optimal"
    model: LatentModel

    def __init__(self, model: LatentModel) -> None:
        nn.Module.__init__(self)
        object.__setattr__(self, "model", model)  # not a part of this module: it is not saved
        self.vocabulary_size = model.vocabulary_size

    def build(self) -> None:
        """Make nothing: there are no layers."""

    @classmethod
    def create(cls, *_: Any) -> Self:
        """Refuse: there is nothing to train."""
        raise InputError(f"{cls.family}: is analytic and is not trained")

    def loss(self, *_: Any) -> Tensor:
        """Refuse: there is nothing to train."""
        raise InputError(f"{self.family}: is analytic and is not trained")

    @property
    def config(self) -> dict[str, Any]:
        """The family alone: the model is in its own folder."""
        return {"family": self.family}

    @property
    def support(self) -> dict[str, Any]:
        """That of the model."""
        return self.model.support

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return self.model.device

    def instances(
        self, corpus: CorpusFiles, split: str, vocabulary: Vocabulary
    ) -> Iterator[Instance]:
        """Read the instances of the model."""
        return self.model.instances(corpus, split, vocabulary)

    @torch.no_grad()
    def log_prob(
        self, batch: InstanceBatch, owner: Tensor, latents: Tensor, temperatures: Sequence[float]
    ) -> Tensor:
        """Return log q_τ(z | x) for each τ, nats, float64, (R, A)."""
        inside = _inside(batch, owner)  # (R, W)
        missing = max(0, inside.shape[1] - latents.shape[1])
        latents = functional.pad(latents, (0, missing), value=PADDING)  # (R, at least W)
        lacks = (inside & (latents[:, : inside.shape[1]] == PADDING)).any(1)  # (R,)
        found = {}
        for temperature in dict.fromkeys(temperatures):
            state = self.start(batch, owner)
            total = torch.zeros(len(owner), dtype=torch.float64, device=owner.device)  # (R,)
            for time in range(inside.shape[1]):
                choice = latents[:, time].clamp_min(0)  # (R,)
                log_q, state = self.follow(state, time, choice, temperature)
                total = total + log_q.masked_fill(~inside[:, time], 0.0)
            found[temperature] = total.masked_fill(lacks, -math.inf)
        return torch.stack([found[temperature] for temperature in temperatures], 1)


def _inside(batch: InstanceBatch, owner: Tensor) -> Tensor:
    """Return which entries of rows are words, bool, (R, W)."""
    position = torch.arange(batch.tokens.shape[1], device=owner.device)  # (W,)
    return position < batch.lengths[TOKENS][owner, None]

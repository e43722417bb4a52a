"""The contracts of models whose likelihood is estimated: unnormalized, latent, and proposals.

Latent language models are p(x, z), their proposals q(z | x). x are the words of an instance (a
sentence or a document), z its latent variables: a parse, who is mentioned where. B instances, R
rows (samples, each of one instance), W entries of a row of z, U random numbers a row, A
temperatures. Of sentences that are scored: B sentences, T words of the longest.

A row of z is a vector of int64 in a canonical form: equal rows are equal latents and no two rows
are the same latent. Rows shorter than W are filled up with `PADDING` at their end.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from beyond_perplexity.corpus.latent_instances import (
    LATENTS,
    TOKENS,
    CorpusFiles,
    Instance,
    InstanceBatch,
)
from beyond_perplexity.errors import InputError
from beyond_perplexity.invariant_tensors import round_up, uniforms_by_step
from beyond_perplexity.models.contract import ConfiguredModel, State
from beyond_perplexity.vocabulary import Vocabulary

PADDING = -1


class UnnormalizedModel(ConfiguredModel):
    """A model that scores whole sentences up to the partition function Z, which is not known, and
    generates none; the words are the ids above ``</s>``, ``<unk>`` among them."""

    normalized = False

    @abstractmethod
    def sentence_log_scores(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Return log p of sentences, nats, up to −log Z, float64, (B,); their lengths are (B,).

        Words are int64, (B, T), without ``<s>`` and ``</s>``, any valid id behind the end. On a CPU
        a sentence's score does not depend on the others in its batch.
        """

    @abstractmethod
    def initial_state(self, batch_size: int) -> State:
        """Return the state of B empty sentences, on the model's device."""

    @abstractmethod
    def extend(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """Put a word, of (B,), to the end of each sentence: change of log score, float64; state."""

    @abstractmethod
    def scale_vectors(self) -> None:
        """Scale the vectors of words to length 1, in place."""

    def margins(self, batch: Any) -> Tensor:
        """Return log scores of sentences less those of their distortions, nats, float64, (B,)."""
        tokens, lengths = batch.both()  # (2 B, T), (2 B,)
        true, distorted = self.sentence_log_scores(tokens, lengths).chunk(2)
        return true - distorted

    def loss(self, batch: Any, epoch: float = math.inf) -> Tensor:
        """Return the hinge loss Σ max(0, 1 − S(Ŵ) + S(W)), float64 scalar, with S = −log score.

        Arora & Rangarajan (2016), Contrastive entropy, section 4, whose equation 17 has the signs
        the other way around, against its equations 15 and 16 and the authors' program.
        """
        return (1 - self.margins(batch)).clamp(min=0).sum()


class LatentModule(ConfiguredModel):
    """What latent models and proposals have in common, how they are made and trained; `annotation`
    names the array of an instance that has its annotated latents."""

    annotation: ClassVar[str] = LATENTS

    def annotated(self, batch: InstanceBatch) -> Tensor:
        """Return the annotated latents of each instance, int64, (B, W)."""
        return batch.filled(self.annotation, PADDING)

    @property
    def support(self) -> dict[str, Any]:
        """What decides which latents are possible: equal in a model and its proposals."""
        return {}

    @classmethod
    @abstractmethod
    def create(
        cls, architecture: Mapping[str, Any], vocabulary: Vocabulary, corpus: CorpusFiles
    ) -> Self:
        """Make an untrained module, with weights from torch's generator and what is fixed before
        training (a graph, aliases) from `corpus`."""

    @abstractmethod
    def instances(
        self, corpus: CorpusFiles, split: str, vocabulary: Vocabulary
    ) -> Iterator[Instance]:
        """Read a split's annotated instances in the order of the corpus: the same arrays for a
        model and its proposals, so that either can take the other's batch."""


class Simulated(NamedTuple):
    """A document (or sentence) that a latent model generated, with the latents of its words."""

    # Without ``</s>``; an unknown word as it is written, ``<unk>`` where the model knows no more
    words: list[str]
    # What `LatentModule.instances` would give of these words and latents; the document's number
    instance: Instance
    latents: Tensor  # int64, (W,): the canonical row of z
    truncated: bool  # cut at the largest number of words: no draw of a whole document


# The words of a document, its arrays as in `Instance`, and whether it was cut.
DrawnText = tuple[list[str], dict[str, np.ndarray], bool]


class LatentModel(LatentModule):
    """A joint distribution of words and latent variables."""

    texts_at_once = 64  # documents that are drawn side by side
    text_draws = 1  # random numbers of each of their steps

    @property
    def counts_end(self) -> bool:
        """Whether T counts the end of a text, and log p has it."""
        return bool(getattr(self.options, "count_eos", True))

    @property
    def t_definition(self) -> str:
        """What `n_tokens` counts, in words."""
        return "words and </s>" if self.counts_end else "words"

    def n_tokens(self, batch: InstanceBatch) -> Tensor:
        """Return T of each instance, int64, (B,): what its log-likelihood is divided by."""
        return batch.lengths[TOKENS] + int(self.counts_end)

    @abstractmethod
    def log_joint(self, batch: InstanceBatch, owner: Tensor, latents: Tensor) -> Tensor:
        """Return log p(x, z), nats, float64, (R,), −inf if impossible, of latents, int64, (R, W),
        of the instances of the batch at `owner`, int64, (R,)."""

    def unknown_penalty(
        self, batch: InstanceBatch, owner: Tensor, latents: Tensor, unknown_types: int
    ) -> Tensor | None:
        """Return what unknown words cost of log p(x, z) where they are penalized, float64, (R,).

        Each of the U types that the vocabulary lacks then has a U-th of the probability of
        ``<unk>``. None where that is ln U for each unknown token, whatever z is.
        """
        return None

    def penalized(self, unknown_types: int) -> Self | None:
        """Return the model, sharing all parameters, whose log p(x, z) is less by `unknown_penalty`,
        or None where that is None."""
        return None

    def as_simulated(self, unknown_types: int) -> Self:
        """Return the model of what `simulate` draws, sharing parameters: the penalized one where a
        generated unknown word becomes one of U types that can be distinguished."""
        return self

    @torch.no_grad()
    def simulate(
        self, seed: int, purpose: str, numbers: range, maximum_words: int, vocabulary: Vocabulary
    ) -> list[Simulated]:
        """Draw documents (x, z) ~ p with these numbers, or say that the family cannot be simulated.

        A document depends on its own number, the seed and the purpose alone, which key its stream
        (`random_streams.stream`); one of more than `maximum_words` is cut there, and says so.
        """
        found = []
        for start in range(numbers.start, numbers.stop, self.texts_at_once):
            block = range(start, min(start + self.texts_at_once, numbers.stop))
            items = round_up(torch.tensor(block))  # (R,)
            lots = uniforms_by_step(seed, purpose, items, self.text_draws, self.device)
            texts = self.draw_texts(len(items), lots, maximum_words, vocabulary)
            for number, (words, arrays, cut) in zip(block, texts, strict=False):
                latents = torch.from_numpy(arrays[self.annotation])  # (W,)
                found.append(Simulated(words, Instance(number, arrays), latents, cut))
        return found

    def draw_texts(
        self, count: int, lots: Iterator[Tensor], maximum_words: int, vocabulary: Vocabulary
    ) -> Iterator[DrawnText]:
        """Draw documents side by side, with the numbers of each step, (R, `text_draws`)."""
        family = self.config["family"]
        raise InputError(f"{family}: no way to simulate documents is known; leave it out there")

    @abstractmethod
    def readable(self, instance: Instance, latent: Tensor) -> dict[str, Any]:
        """Describe one row of z, (W,), for people, tables and figures; JSON-serializable.

        ``tree``: Penn brackets over ``#0 #1 ...``, the positions of the words (RNNG); or
        ``mentions``: dicts of ``start``, ``end`` (exclusive), ``entity``, and in KGLM ``kind``,
        ``relation``, ``parent``.
        """

    def outline(self, instance: Instance, latent: Tensor) -> dict[str, Any]:
        """Describe a row of z by its spans alone, a part of `readable`, for counting many; an
        ``entity`` that is a string is the same in every row, a number counts those of a row."""
        return self.readable(instance, latent)


class Proposal(LatentModule):
    """A distribution of latent variables given the words, at any temperature τ."""

    def loss(self, batch: InstanceBatch, epoch: float = math.inf) -> Tensor:
        """Return −Σ log q(z | x) of the annotated z, nats, float32 scalar."""
        owner = torch.arange(len(batch), device=batch.ids.device)  # (B,)
        return -self.log_prob(batch, owner, self.annotated(batch), [1.0]).sum().float()

    @abstractmethod
    def draws(self, batch: InstanceBatch) -> int:
        """Return U, the random numbers that a sample of any instance of the batch needs at most."""

    @abstractmethod
    def sample(
        self, batch: InstanceBatch, owner: Tensor, uniforms: Tensor, temperature: float
    ) -> Tensor:
        """Draw one z ~ q_τ(· | x) a row, int64, (R, W), at a temperature τ above 0.

        `owner`, int64, (R,): position in the batch of each row's instance; `uniforms`, float64 in
        [0, 1), (R, U): the row's own random numbers. Nothing else is random, and what a row uses of
        them depends on its instance and temperature alone.
        """

    @abstractmethod
    def log_prob(
        self, batch: InstanceBatch, owner: Tensor, latents: Tensor, temperatures: Sequence[float]
    ) -> Tensor:
        """Return log q_τ(z | x) for each τ, nats, float64, (R, A)."""

    def learnable_log_prob(self, batch: InstanceBatch, owner: Tensor, latents: Tensor) -> Tensor:
        """Return log q(z | x) at temperature 1, nats, float64, (R,), with a gradient."""
        return self.log_prob(batch, owner, latents, [1.0])[:, 0]

    @abstractmethod
    def beam(self, batch: InstanceBatch, size: int, temperature: float = 1.0) -> Tensor:
        """Return the `size` most probable distinct latents of each instance, best first, (B, size,
        W), exact where the family can; rows of `PADDING` where there are fewer."""


def check_support(
    model: LatentModule, proposal: LatentModule, model_folder: object, proposal_folder: object
) -> None:
    """Refuse a proposal whose latents are not those of a model; the folders are for the error."""
    for name, value in proposal.support.items():
        if model.support.get(name) != value:
            what = f"{name} is {value}, but {model.support.get(name)} in {model_folder}"
            advice = "train both with the same, or q is 0 where p is not"
            raise InputError(f"{proposal_folder}: {what}; {advice}")


def check_ends(counted: bool, trained: bool) -> None:
    """Refuse a model whose log p has the end of a text, but not its training loss."""
    if counted and not trained:
        fault = "log p would have an end that was never learned; set count_eos to false as well"
        raise ValueError(f"train_eos: is false, but count_eos is true: {fault}")

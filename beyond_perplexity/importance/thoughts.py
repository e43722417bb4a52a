"""Thoughts of a reasoning model as its latent variable: what it writes before it answers.

p(y | x) = Σ_z p(z | x) p(y | x, z): x is the prompt, y the answer with the end of the turn, and z a
thought, the tokens up to the end-of-thought marker, which is its last. A thought that reaches the
largest number of tokens without the marker is cut: nothing can be said of its answer, and with
weight 0 the mean of the weights is p_cap(y | x), of the thoughts that end in time, where

    p_cap(y | x) <= p(y | x) <= p_cap(y | x) + P(cut | x).

A thought in which the text ends has weight 0, too, which is no cut: it has no answer.

Thoughts are drawn at temperature 1 from all tokens, and scored as they were drawn: a text that is
tokenized again may have other tokens. R rows, each a sample; V ids.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from beyond_perplexity.errors import InputError
from beyond_perplexity.invariant_tensors import QUANTUM, invert, uniforms, uniforms_by_step
from beyond_perplexity.models.contract import LanguageModel, State
from beyond_perplexity.options import Length, Limited, Share
from beyond_perplexity.vocabulary import EOS

THOUGHTS_AT_ONCE = 4 * QUANTUM  # samples that are drawn side by side: whole quanta
MOST_THOUGHTS = 1 << 20  # of a prompt at most: they key the random streams
ThoughtProposal = Literal["own", "answer", "mixture"]


@dataclass(frozen=True)
class ThoughtOptions(Limited):
    """How thoughts are drawn.

    Attributes
    ----------
    proposal : str
        ``own``: from the model given the prompt, q(z) = p(z | x), so that a weight is p(y | x, z).
        ``answer``: from the model given a prompt that shows the answer. ``mixture`` of both
        (defensive), whose weights are at most p(y | x, z) / `own_share`.
    own_share : float
        Share of own thoughts in the mixture, between 0 and 1.
    most_tokens : int
        Longest thought, its marker included.
    """

    proposal: ThoughtProposal = "own"
    own_share: Share = 0.5
    most_tokens: Length = 1024


class Question(NamedTuple):
    """A prompt with its answer: ids, int64, (n,) each."""

    instance: int
    prompt: np.ndarray  # what the model reads first, from the beginning on
    shown: np.ndarray  # the prompt that shows the answer; empty where none does
    answer: np.ndarray  # what follows the marker, with the end of the turn
    bytes: int  # of the answer


class ThoughtEnds(NamedTuple):
    """What ends a thought."""

    marker: np.ndarray  # int64, (m,): m ids in a row, m at least 1
    stops: np.ndarray  # int64, (s,): ids at which the text ends, and so has no answer


class Thoughts(NamedTuple):
    """What was found of R thoughts; logarithms in nats, float64, (R,)."""

    log_p_answer: np.ndarray  # log p(y | x, z); −inf where z is cut, or has no answer
    log_p_thought: np.ndarray  # log p(z | x)
    log_q_thought: np.ndarray
    tokens: np.ndarray  # int64, (R,): of the thought, its marker included
    cut: np.ndarray  # bool, (R,)


# Chooses the next tokens, (R,), of thoughts, from log p given the prompt and given the one that
# shows the answer (the same where there is none), (R, V) each.
Choose = Callable[[Tensor, Tensor], Tensor]


class _Reader:
    """A model that stands behind one prompt in R rows, which go on by themselves."""

    def __init__(self, model: LanguageModel, prompt: np.ndarray, rows: int, more: int) -> None:
        self._model = model
        state, logits = model.initial_state(1, len(prompt) + more), None
        for token in torch.from_numpy(prompt).to(model.device):
            logits, state = model.step(token[None], state)  # (1, V)
        assert logits is not None
        self.device = model.device
        index = torch.zeros(rows, dtype=torch.int64, device=self.device)
        self._state: State = state.select(index)
        self.log_p = logits[index].double().log_softmax(-1)  # (R, V)

    def read(self, tokens: Tensor) -> None:
        """Read the next token of each row, (R,)."""
        logits, self._state = self._model.step(tokens, self._state)
        self.log_p = logits.double().log_softmax(-1)


class _Walk:
    """R rows that think and then answer, a token at a step, each in its own phase."""

    def __init__(
        self, question: Question, ends: ThoughtEnds, most_tokens: int, rows: Tensor
    ) -> None:
        device, zeros = rows.device, torch.zeros_like(rows, dtype=torch.float64)  # (R,)
        self.answer = torch.from_numpy(question.answer).to(device)  # (A,)
        self.marker, self.stops = (torch.from_numpy(ids).to(device) for ids in ends)
        self.most_tokens = most_tokens
        self.length = torch.zeros_like(rows)  # (R,): of the thought
        self.place = torch.full_like(rows, -1)  # of the answer's next token; -1: thinking
        self.cut = torch.zeros_like(rows, dtype=torch.bool)  # (R,)
        self.recent = torch.full((len(rows), len(self.marker)), -1, device=device)  # (R, m)
        self.log_p_answer, self.log_p, self.log_seen = (zeros.clone() for _ in range(3))

    @property
    def done(self) -> bool:
        """Whether all rows have answered, or never will."""
        return bool((self.place >= len(self.answer)).all())

    def step(self, chosen: Tensor, log_p: Tensor, log_seen: Tensor) -> Tensor:
        """Take the next token of each row, (R,), where it thinks; return what each row reads."""
        thinking, answered = self.place < 0, self.place >= len(self.answer)  # (R,) each
        wanted = self.answer[self.place.clamp(0, len(self.answer) - 1)]  # (R,)
        token = torch.where(thinking, chosen, wanted)[:, None]  # (R, 1)
        own, seen = (held.gather(1, token)[:, 0] for held in (log_p, log_seen))  # (R,) each
        self.log_p += torch.where(thinking, own, 0.0)
        self.log_seen += torch.where(thinking, seen, 0.0)
        self.log_p_answer += torch.where(thinking | answered, 0.0, own)
        self.length += thinking
        self.place = torch.where(thinking | answered, self.place, self.place + 1)
        self.recent = torch.cat([self.recent[:, 1:], token], 1)
        marked = thinking & (self.recent == self.marker).all(1)
        stopped = thinking & ~marked & torch.isin(token[:, 0], self.stops)
        self.cut |= thinking & ~marked & ~stopped & (self.length == self.most_tokens)
        lost = stopped | self.cut
        self.log_p_answer.masked_fill_(lost, -math.inf)
        self.place = torch.where(lost, len(self.answer), torch.where(marked, 0, self.place))
        return torch.where(answered | lost, EOS, token[:, 0])


@torch.no_grad()
def follow_thoughts(
    model: LanguageModel,
    question: Question,
    ends: ThoughtEnds,
    most_tokens: int,
    choose: Choose,
    rows: int,
) -> tuple[Thoughts, np.ndarray]:
    """Let R rows think as they are told, and then answer.

    `choose` says the next tokens of thoughts. Returns what was found, with q = p, and the log
    probability of each thought given the prompt that shows the answer, float64, (R,).
    """
    more = most_tokens + len(question.answer)
    own = _Reader(model, question.prompt, rows, more)
    seen = _Reader(model, question.shown, rows, more) if len(question.shown) else own
    walk = _Walk(question, ends, most_tokens, torch.zeros(rows, dtype=torch.int64).to(own.device))
    while not walk.done:
        tokens = walk.step(choose(own.log_p, seen.log_p), own.log_p, seen.log_p)
        for reader in dict.fromkeys((own, seen)):
            reader.read(tokens)
    columns = walk.log_p_answer, walk.log_p, walk.log_p, walk.length, walk.cut
    return Thoughts(*(held.cpu().numpy() for held in columns)), walk.log_seen.cpu().numpy()


def draw_thoughts(
    model: LanguageModel,
    question: Question,
    ends: ThoughtEnds,
    options: ThoughtOptions,
    samples: range,
    seed: int,
) -> Thoughts:
    """Draw samples of a question, each from its own random stream.

    Returns
    -------
    Thoughts
        Of the samples in their order. With weights w = p(y | x, z) p(z | x) / q(z) their mean
        estimates p_cap(y | x) without bias.

    Raises
    ------
    InputError
        Where prompt, thought and answer do not fit into the model's context.
    """
    _check_room(model, question, options.most_tokens)
    parts = []
    for first in range(samples.start, samples.stop, THOUGHTS_AT_ONCE):
        wanted = min(THOUGHTS_AT_ONCE, samples.stop - first)
        # Whole quanta, so that no number depends on how samples are cut.
        numbers = torch.arange(first, first + -(-wanted // QUANTUM) * QUANTUM)  # (R,)
        items = question.instance * MOST_THOUGHTS + numbers
        given = model, question, ends, options.most_tokens
        found, seen = follow_thoughts(*given, _drawn(model, items, options, seed), len(items))
        if options.proposal != "own":
            found = found._replace(log_q_thought=_log_q(found.log_p_thought, seen, options))
        parts.append([column[:wanted] for column in found])
    return Thoughts(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _log_q(log_p: np.ndarray, log_seen: np.ndarray, options: ThoughtOptions) -> np.ndarray:
    if options.proposal == "answer":
        return log_seen
    with np.errstate(divide="ignore"):
        shares = np.log([options.own_share, 1 - options.own_share])
    return np.logaddexp(shares[0] + log_p, shares[1] + log_seen)


def _drawn(model: LanguageModel, items: Tensor, options: ThoughtOptions, seed: int) -> Choose:
    """Draw tokens by the streams of samples, (R,), from the proposal that each sample has."""
    own = {"own": 1.0, "answer": 0.0}.get(options.proposal, options.own_share)
    device = model.device
    of_own = uniforms(seed, "thoughts/proposal", items, 0, 1, device)[:, 0] < own  # (R,)
    steps = uniforms_by_step(seed, "thoughts/tokens", items, 1, device)

    def choose(log_p: Tensor, log_seen: Tensor) -> Tensor:
        log_q = torch.where(of_own[:, None], log_p, log_seen)  # (R, V)
        return invert(log_q.exp().cumsum(1), next(steps))[:, 0]

    return choose


class Beside(NamedTuple):
    """What is printed of reasoning models without their thoughts, or with one of them; nats."""

    log_p_no_thought: float  # log p(y | x, z), z the marker alone
    log_p_greedy: float  # with the thought of the most probable token at each step; −inf if cut
    greedy_cut: bool


def answer_beside(
    model: LanguageModel, question: Question, ends: ThoughtEnds, most_tokens: int
) -> Beside:
    """Score an answer after no thought, and after the greedy one."""
    plain = question._replace(shown=np.empty(0, np.int64))
    marker = iter(np.repeat(ends.marker[:, None], QUANTUM, 1))

    def end_at_once(log_p: Tensor, _: Tensor) -> Tensor:
        return torch.from_numpy(next(marker, np.zeros(QUANTUM, np.int64))).to(log_p.device)

    def greedy(log_p: Tensor, _: Tensor) -> Tensor:
        return log_p.argmax(1)

    most = max(most_tokens, len(ends.marker))
    given = model, plain, ends, most
    none, best = (follow_thoughts(*given, how, QUANTUM)[0] for how in (end_at_once, greedy))
    return Beside(float(none.log_p_answer[0]), float(best.log_p_answer[0]), bool(best.cut[0]))


def _check_room(model: LanguageModel, question: Question, most_tokens: int) -> None:
    limit = model.context_length
    longest = max(len(question.prompt), len(question.shown)) + most_tokens + len(question.answer)
    if limit is not None and longest > limit:
        raise InputError(
            f"instance {question.instance}: prompt, a thought of {most_tokens:,} tokens and answer "
            f"have {longest:,} tokens, more than the model's context of {limit:,}; allow shorter "
            "thoughts (most tokens), or leave the instance out"
        )

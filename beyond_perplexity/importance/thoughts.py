"""Thoughts drawn side by side from a model that has read their prompt once; see `thought_draws`.

R rows, each a sample, of which R' go on; V ids.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import deepcopy
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from beyond_perplexity.importance.thought_draws import (
    MOST_THOUGHTS,
    Beside,
    Question,
    ThoughtEnds,
    ThoughtOptions,
    Thoughts,
    check_room,
    mixed_log_q,
)
from beyond_perplexity.invariant_tensors import (
    QUANTUM,
    invert,
    round_up,
    uniforms,
    uniforms_by_step,
)
from beyond_perplexity.models.contract import LanguageModel, State
from beyond_perplexity.vocabulary import EOS

MOST_AT_ONCE = 64 * QUANTUM  # samples that are drawn side by side, where memory is enough
_MEMORY = 1 << 31  # bytes of a CPU for their states; of a GPU half of what is free
# Chooses the next tokens, (R',), of the rows (R',) that go on, from what is in proportion to p of
# each, given the prompt and given the one that shows the answer (the same where there is none),
# float64, (R', V) each.
Choose = Callable[[Tensor, Tensor, Tensor], Tensor]


class ReadPrompt(NamedTuple):
    """A model that has read a prompt, from which any number of rows go on."""

    model: LanguageModel
    state: State  # of one row
    logits: Tensor  # (1, V)


class ReadQuestion(NamedTuple):
    """A question whose prompts were read, once for all thoughts."""

    question: Question
    own: ReadPrompt
    shown: ReadPrompt | None  # None: no prompt shows the answer


@torch.no_grad()
def read_question(model: LanguageModel, question: Question, most_tokens: int) -> ReadQuestion:
    """Read the prompts of a question, with room for thoughts of so many tokens; what does not fit
    into the model's context is an `InputError`."""
    more = most_tokens + len(question.answer)
    check_room(model.context_length, question, most_tokens)

    def read(prompt: np.ndarray) -> ReadPrompt:
        state, logits = model.initial_state(1, len(prompt) + more), torch.empty(0)
        for token in torch.from_numpy(prompt).to(model.device):
            logits, state = model.step(token[None], state)  # (1, V)
        return ReadPrompt(model, state, logits)

    return ReadQuestion(
        question, read(question.prompt), read(question.shown) if len(question.shown) else None
    )


class _Reader:
    """Rows, R', that go on from a prompt by themselves."""

    def __init__(self, read: ReadPrompt, rows: int) -> None:
        self._model, logits = read.model, read.logits
        index = torch.zeros(rows, dtype=torch.int64, device=logits.device)
        # A state that is selected from may be overwritten, and others go on from it, too.
        self._state = deepcopy(read.state).select(index)
        self._take(logits[index])

    def _take(self, logits: Tensor) -> None:
        self._logits, most = logits.double(), logits.amax(1, keepdim=True).double()  # (R', V)
        self.weights = (self._logits - most).exp()  # (R', V): in proportion to p
        self._total = self.weights.sum(1).log() + most[:, 0]  # (R',)

    def log_p(self, tokens: Tensor) -> Tensor:
        """Return log p of a next token of each row, (R', 1): (R',)."""
        return self._logits.gather(1, tokens)[:, 0] - self._total

    def read(self, tokens: Tensor, kept: Tensor | None) -> None:
        """Read the next token of each row, (R',), of those that are kept, if not all."""
        if kept is not None:
            self._state = self._state.select(kept)
        logits, self._state = self._model.step(tokens, self._state)
        self._take(logits)


class _Walk:
    """R' rows that think and then answer, a token at a step, each in its own phase."""

    def __init__(
        self, question: Question, ends: ThoughtEnds, most_tokens: int, rows: Tensor
    ) -> None:
        device, zeros = rows.device, torch.zeros_like(rows, dtype=torch.float64)  # (R,)
        self.answer = torch.from_numpy(question.answer).to(device)  # (A,)
        self.marker, self.stops = (torch.from_numpy(ids).to(device) for ids in ends)
        self.most_tokens, self.rows = most_tokens, rows
        # Of the thought its length, and the place of the answer's next token; -1: thinking
        self.length, self.place = torch.zeros_like(rows), torch.full_like(rows, -1)
        self.cut = torch.zeros_like(rows, dtype=torch.bool)
        self.recent = torch.full((len(rows), len(self.marker)), -1, device=device)  # (R, m)
        self.log_p_answer, self.log_p, self.log_seen = (zeros.clone() for _ in range(3))
        self.found = [held.clone() for held in self._held()]  # (R,) each

    def _held(self) -> tuple[Tensor, ...]:
        return self.log_p_answer, self.log_p, self.log_seen, self.length, self.cut

    def keep(self) -> Tensor | None:
        """Leave rows out that have answered or never will: those that go on, in whole quanta, so
        that no number depends on the other rows; None: all do."""
        going = (self.place < len(self.answer)).nonzero()[:, 0]  # (N,)
        if len(going) and -(-len(going) // QUANTUM) * QUANTUM >= len(self.rows):
            return None
        for whole, held in zip(self.found, self._held(), strict=True):
            whole[self.rows] = held
        kept = round_up(going) if len(going) else going
        names = ("rows", "length", "place", "cut", "recent", "log_p_answer", "log_p", "log_seen")
        for name in names:
            setattr(self, name, getattr(self, name)[kept])
        return kept

    def step(self, chosen: Tensor, own: _Reader, seen: _Reader) -> Tensor:
        """Take the next token of each row, (R',), where it thinks; return what each row reads."""
        thinking, answered = self.place < 0, self.place >= len(self.answer)  # (R',) each
        wanted = self.answer[self.place.clamp(0, len(self.answer) - 1)]  # (R',)
        token = torch.where(thinking, chosen, wanted)[:, None]  # (R', 1)
        log_p, log_seen = (reader.log_p(token) for reader in (own, seen))  # (R',) each
        self.log_p += torch.where(thinking, log_p, 0.0)
        self.log_seen += torch.where(thinking, log_seen, 0.0)
        self.log_p_answer += torch.where(thinking | answered, 0.0, log_p)
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
    read: ReadQuestion, ends: ThoughtEnds, most_tokens: int, choose: Choose, rows: int
) -> tuple[Thoughts, np.ndarray]:
    """Let R rows think, by tokens that `choose` says, and answer: what was found, with q = p, and
    log p of each thought given the prompt that shows the answer, float64, (R,)."""
    own = _Reader(read.own, rows)
    seen = _Reader(read.shown, rows) if read.shown else own
    walk = _Walk(read.question, ends, most_tokens, torch.arange(rows).to(own.weights.device))
    while len(walk.rows):
        tokens = walk.step(choose(own.weights, seen.weights, walk.rows), own, seen)
        kept = walk.keep()
        if kept is not None:
            tokens = tokens[kept]
        for reader in dict.fromkeys((own, seen)) if len(tokens) else ():
            reader.read(tokens, kept)
    log_p_answer, log_p, log_seen, length, cut = (held.cpu().numpy() for held in walk.found)
    return Thoughts(log_p_answer, log_p, log_p, length, cut), log_seen


def draw_thoughts(
    read: ReadQuestion, ends: ThoughtEnds, options: ThoughtOptions, samples: range, seed: int
) -> Thoughts:
    """Draw samples of a question, each from its own stream, whose weights p(y | x, z) p(z | x) /
    q(z) have a mean without bias for p_cap(y | x)."""
    parts, device, at_once = [], read.own.logits.device, _rows_at_once(read)
    for first in range(samples.start, samples.stop, at_once):
        wanted = min(at_once, samples.stop - first)
        # Whole quanta, so that no number depends on how samples are cut.
        numbers = torch.arange(first, first + -(-wanted // QUANTUM) * QUANTUM)  # (R,)
        items = read.question.instance * MOST_THOUGHTS + numbers
        choose = _drawn(items, options, seed, device)
        found, seen = follow_thoughts(read, ends, options.most_tokens, choose, len(items))
        if options.proposal != "own":
            log_q = mixed_log_q(found.log_p_thought, seen, options)
            found = found._replace(log_q_thought=log_q)
        parts.append([column[:wanted] for column in found])
    return Thoughts(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _rows_at_once(read: ReadQuestion) -> int:
    """Return how many rows have room in memory at their longest: whole quanta."""
    prompts = [one for one in (read.own, read.shown) if one]
    numbers = 8 * 6 * read.own.logits.shape[1]  # what a step holds of probabilities
    row = sum(one.state.row_bytes() + numbers for one in prompts)
    device, memory = read.own.logits.device, _MEMORY
    if device.type == "cuda":
        memory = torch.cuda.mem_get_info(device)[0] // 2
    return max(QUANTUM, min(MOST_AT_ONCE, memory // max(row, 1) // QUANTUM * QUANTUM))


def _drawn(items: Tensor, options: ThoughtOptions, seed: int, device: torch.device) -> Choose:
    """Draw tokens by the streams of samples, (R,), from the proposal that each sample has."""
    numbers = uniforms(seed, "thoughts/proposal", items, 0, 1, device)[:, 0]  # (R,)
    of_own = numbers < options.drawn_as_own  # (R,)
    steps = uniforms_by_step(seed, "thoughts/tokens", items, 1, device)

    def choose(weights: Tensor, seen: Tensor, rows: Tensor) -> Tensor:
        if weights is not seen:
            weights = torch.where(of_own[rows, None], weights, seen)  # (R', V)
        return invert(weights.cumsum(1), next(steps)[rows])[:, 0]

    return choose


def answer_beside(
    read: ReadQuestion, ends: ThoughtEnds, most_tokens: int, empty: np.ndarray
) -> Beside:
    """Score an answer after no thought, the ids `empty` with the marker, and the greedy one."""
    forced = iter(empty.tolist())

    def choose(weights: Tensor, _: Tensor, rows: Tensor) -> Tensor:
        return torch.where(rows == 0, next(forced, EOS), weights.argmax(1))  # the rest is greedy

    found, _ = follow_thoughts(read._replace(shown=None), ends, most_tokens, choose, QUANTUM)
    return Beside(*found.log_p_answer[:2].tolist())

"""Thoughts of a reasoning model as its latent variable: what it writes before it answers.

p(y | x) = Σ_z p(z | x) p(y | x, z): x is the prompt, y the answer with the end of the turn, and z a
thought, the tokens up to the end-of-thought marker, which is its last. A thought cut at the largest
number of tokens has weight 0, so that the mean weight is p_cap(y | x), of those that end in time:

    p_cap(y | x) <= p(y | x) <= p_cap(y | x) + P(cut | x).

A thought in which the text ends has weight 0, too, which is no cut: it has no answer. Thoughts are
drawn at temperature 1 from all tokens, and scored as drawn: a text that is tokenized again may have
other tokens. `thoughts` draws them here, `served_thoughts` by a server.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from beyond_perplexity.errors import InputError
from beyond_perplexity.options import Count, Length, Limited, Share

MOST_THOUGHTS = 1 << 20  # of a prompt at most: they key the random streams
ThoughtProposal = Literal["own", "answer", "mixture"]
END_OF_THOUGHT = "</think>"
SHOWN_ANSWER = "{prompt} The answer is: {answer} Think it through, then give that answer."


@dataclass(frozen=True)
class ThoughtOptions(Limited):
    """How thoughts are drawn.

    proposal: ``own``: from the model given the prompt, q(z) = p(z | x), so that a weight is p(y |
        x, z). ``answer``: from the model given a prompt that shows the answer. ``mixture`` of both
        (defensive), whose weights are at most p(y | x, z) / `own_share`.
    own_share: Share of own thoughts in the mixture, between 0 and 1.
    most_tokens: Longest thought, its marker included.
    """

    proposal: ThoughtProposal = "own"
    own_share: Share = 0.5
    most_tokens: Length = 1024

    @property
    def drawn_as_own(self) -> float:
        """How often a thought is drawn from the model given the prompt alone."""
        return {"own": 1.0, "answer": 0.0}.get(self.proposal, self.own_share)


@dataclass(frozen=True)
class AskingOptions(ThoughtOptions):
    """How a job asks a model, besides how thoughts are drawn.

    samples: Thoughts of each prompt.
    end_of_thought: What ends a thought.
    between: What stands between that and the answer; see `models.chat`.
    shown: How a prompt shows its answer, with ``{prompt}`` and ``{answer}``.
    """

    samples: Count = 64
    end_of_thought: str = END_OF_THOUGHT
    between: str | None = None
    shown: str = SHOWN_ANSWER


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


class Beside(NamedTuple):
    """What is printed of reasoning models without their thoughts, or with one of them; nats."""

    log_p_no_thought: float  # log p(y | x, z), z the empty thought
    log_p_greedy: float  # with the thought of the most probable token at each step; −inf if cut


def mixed_log_q(log_p: np.ndarray, log_seen: np.ndarray, options: ThoughtOptions) -> np.ndarray:
    """Return log q of thoughts by their log p given the prompt, and given the one that shows."""
    if options.proposal == "answer":
        return log_seen
    with np.errstate(divide="ignore"):
        shares = np.log([options.own_share, 1 - options.own_share])
    return np.logaddexp(shares[0] + log_p, shares[1] + log_seen)


def check_room(limit: int | None, question: Question, most_tokens: int) -> None:
    """Refuse a question that does not fit into a context with the longest thought."""
    longest = max(len(question.prompt), len(question.shown)) + most_tokens + len(question.answer)
    if limit is not None and longest > limit:
        raise InputError(
            f"instance {question.instance}: prompt, a thought of {most_tokens:,} tokens and answer "
            f"have {longest:,} tokens, more than the model's context of {limit:,}; allow shorter "
            "thoughts (most tokens), or leave the instance out"
        )

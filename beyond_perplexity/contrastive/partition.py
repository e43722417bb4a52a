"""Z_n of an unnormalized model, the sum of e^(log score) over V^n, and its perplexity given n.

Sequences of words are drawn from a proposal q, a normalized model that is kept from ending. With
w_n = e^(log score) / q of its first n words, E w_n = Z_n: one sequence serves every length. Several
sequences of a run, the particles, are a sequential Monte Carlo estimate of the same expectation
(`importance.particle_runs`); there are K independent runs. V are the words and ``<unk>``, neither
``<s>`` nor ``</s>``.

The sum of Z_n over all n is not estimated: training leaves the scale of scores free, and where Z_n
grows with n it diverges. A likelihood is one of the words given their number: p(W | n) =
e^(log score) / Z_n, so that ln of the perplexity is Σ (log Ẑ_n − log score) / Σ n, on average too
low, as E log Ẑ_n ≤ log Z_n (Jensen). It is to be compared with `endless_log_probs` alone.

K runs, P particles of a run, B rows (runs of a block times particles), L longest length, W words,
M sentences, N lengths.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from beyond_perplexity.contrastive import PartitionOptions
from beyond_perplexity.errors import InputError
from beyond_perplexity.inference.intervals import INTERVAL_LEVEL, finite, ratio_interval, sum_groups
from beyond_perplexity.inference.log_space import jackknife, log_mean_exp
from beyond_perplexity.inference.p_values import student_quantile
from beyond_perplexity.inference.weight_diagnostics import (
    LEAST_EFFECTIVE,
    Diagnostics,
    diagnose,
    k_hat_threshold,
)
from beyond_perplexity.invariant_tensors import effective_size, invert, systematic, uniforms
from beyond_perplexity.models.contract import LanguageModel, State
from beyond_perplexity.models.factored import chosen_log_probs
from beyond_perplexity.models.latent import UnnormalizedModel
from beyond_perplexity.models.likelihoods import LOGIT_ROWS, POOL
from beyond_perplexity.random_streams import stream
from beyond_perplexity.vocabulary import BOS, UNK

# Of a block, about; every block has as many, so that no run depends on their number.
SEQUENCES_AT_ONCE = 256
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

    Sequences are mixed, not words: q(W) = (1 − u) q_model(W) + u / W^n. Weights are thus at most 1
    / u times those of uniform words, however bad the model is (a defensive mixture, Hesterberg
    1995).
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
            found = f"conditions on {limit} tokens at most, but a sentence has {longest} words"
            advice = "choose a proposal without a limit, or leave out such sentences"
            raise InputError(f"{self.name}: {found}; {advice}")

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
        """Draw the next word of each sequence, (B,), by one number in [0, 1), (B,): words, log q,
        nats, and state; the model has not read the word yet, and the state may be overwritten."""
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
        held = ProposalState(after, joint.log_softmax(1))
        return drawn[:, 0] + UNK, joint.logsumexp(1), held

    def _weights(self, logits: Tensor) -> Tensor:
        """Return the model's q of the words up to a factor, float64, (B, W), by their logits."""
        top = logits.amax(1, keepdim=True).double()  # (B, 1)
        dead = top == -torch.inf  # (B, 1): it would end
        weights = logits.double().sub_(top).masked_fill_(dead, 0.0).exp_()  # (B, W)
        if not self.uniform and bool(((weights == 0) | dead).any()):
            advice = "choose a smoothed model, or set uniform above 0"
            raise InputError(f"{self.name}: gives words no probability: Z lacks them; {advice}")
        return weights


@torch.no_grad()
def draw_log_partitions(
    model: UnnormalizedModel,
    proposal: WordProposal,
    lengths: np.ndarray,
    options: PartitionOptions,
    seed: int,
    purpose: str,
) -> np.ndarray:
    """Return logarithms of unbiased estimates of Z_n of N rising lengths, nats, (K, N), those of a
    run by the same sequences and a stream of its own; on a CPU no run depends on the others."""
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
            wrong = f"the scores of words drawn from {proposal.name} are no finite numbers"
            raise InputError(f"{wrong}; the weights of the model are damaged: train it again")
        kept = slice(first, min(first + runs, options.samples))
        found[kept] = sums[: kept.stop - kept.start, lengths - 1]
    return found


def _run_block(model: UnnormalizedModel, proposal: WordProposal, numbers: Tensor) -> np.ndarray:
    """Run particles: log Ẑ_n of each run and n, (R, L), by numbers (R, L, P + 1)."""
    runs, longest, particles = numbers.shape[0], numbers.shape[1], numbers.shape[2] - 1
    rows, device = runs * particles, model.device
    tokens = torch.full((rows,), BOS, device=device)  # (B,): the newest
    scored, state = model.initial_state(rows), proposal.start(rows, longest)
    weights = torch.zeros(runs, particles, dtype=torch.double, device=device)  # logarithms
    before = torch.zeros(runs, dtype=torch.double, device=device)
    first_row = torch.arange(runs, device=device)[:, None] * particles  # (R, 1)
    found = []
    for position in range(longest):
        own_numbers = numbers[:, position, :-1].flatten()  # (B,)
        tokens, log_q, state = proposal.draw(tokens, state, own_numbers)  # (B,), (B,)
        change, scored = model.extend(tokens, scored)  # (B,)
        weights = weights + (change - log_q).view(runs, particles)  # (R, P)
        mean = weights.logsumexp(1) - math.log(particles)  # (R,)
        found.append(before + mean)
        poor = effective_size(weights) < RESAMPLED_BELOW * particles  # (R,)
        if poor.any():
            anew = systematic(weights, numbers[:, position, -1])  # (R, P)
            kept = torch.where(poor[:, None], anew, torch.arange(particles, device=device))
            chosen = (first_row + kept).flatten()  # (B,)
            tokens, scored = tokens[chosen], scored.select(chosen)
            state = None if state is None else state.select(chosen)
            before = torch.where(poor, before + mean, before)
            weights = weights.masked_fill(poor[:, None], 0.0)
    return torch.stack(found, 1).cpu().numpy()


@torch.no_grad()
def endless_log_probs(model: LanguageModel, encoded: Iterable[np.ndarray]) -> Iterator[float]:
    """Yield Σ log p(word | words before it, no end) of sentences within the context, nats, in any
    order; p of the words of the closed vocabulary and of ``<unk>`` add up to 1."""
    stream = iter(encoded)
    while pool := sorted(islice(stream, POOL), key=len):
        while pool:
            rows = max(1, LOGIT_ROWS // len(pool[-1]))
            batch, pool = pool[-rows:], pool[:-rows]
            yield from _score_words(model, batch)


def _score_words(model: LanguageModel, batch: list[np.ndarray]) -> list[float]:
    width = len(batch[-1])
    inputs = np.full((len(batch), width), BOS, np.int64)
    targets = np.full((len(batch), width), UNK, np.int64)
    for row, ids in enumerate(batch):
        inputs[row, 1 : len(ids)] = ids[:-1]
        targets[row, : len(ids)] = ids
    logits = model(torch.from_numpy(inputs).to(model.device))[..., UNK:]  # (B, T, W)
    goals = torch.from_numpy(targets - UNK).to(model.device).flatten()  # (B T,)
    log_probs = chosen_log_probs(logits.flatten(0, 1), goals).view(len(batch), width)
    held = torch.tensor([len(ids) for ids in batch], device=model.device)  # (B,)
    behind = torch.arange(width, device=model.device) >= held[:, None]  # (B, T)
    sums: list[float] = log_probs.masked_fill(behind, 0.0).sum(1).tolist()
    return sums


REPLICATES = 500  # of the bootstrap over samples
BOUND = "lower"  # of log Z, and of the perplexity
DIVERGES = (
    "given the number of words of each sentence; over all lengths Z is not estimated and may "
    "diverge, as training leaves the scale of scores free: to be compared with a perplexity on the "
    "same condition, as that of the proposal is, and with no other"
)


@dataclass(frozen=True)
class ScoredSentences:
    """What a model says of M sentences."""

    log_scores: np.ndarray  # float64, (M,): nats, up to −log Z_n
    lengths: np.ndarray  # int64, (M,): words of each, at least 1
    groups: np.ndarray  # (M,): key of what each belongs to: its document, or its page
    unknown: int  # words that the model reads as ``<unk>``


class GivenLength:
    """Estimates of log Z_n and of the perplexity given the lengths, from `draw_log_partitions`.

    `log_z`, nats (N,), is by the mean of the weights, a stochastic lower bound, `debiased` by the
    jackknife, none; `errors` are those of `log_z` by bootstrap over samples, which may be too small
    where few of them are effective.
    """

    def __init__(
        self, sentences: ScoredSentences, log_weights: np.ndarray, seed: int, purpose: str
    ) -> None:
        self.sentences, self.samples = sentences, len(log_weights)
        self.lengths, self._inverse, self.counts = np.unique(
            sentences.lengths, return_inverse=True, return_counts=True
        )
        self.log_z = log_mean_exp(log_weights, 0)
        self.debiased = np.array([jackknife(column) for column in log_weights.T])
        self.diagnostics: list[Diagnostics] = [diagnose(column) for column in log_weights.T]
        random, size = stream(seed, f"{purpose}/bootstrap"), self.samples
        drawn = (random.integers(0, size, size) for _ in range(REPLICATES))
        # all lengths share samples: log Ẑ_n of each resample, (REPLICATES, N)
        replicates = np.stack([log_mean_exp(log_weights[rows], 0) for rows in drawn])
        known = self.samples > 1
        self.errors = replicates.std(0, ddof=1) if known else np.full(len(self.lengths), np.nan)
        totals = replicates @ self.counts / sentences.lengths.sum()  # (REPLICATES,)
        self._error_of_draws = float(totals.std(ddof=1)) if known else math.nan

    def columns(self, model: str, proposal: str) -> dict[str, Any]:
        """Return the columns of schema ``partitions``."""
        rows = len(self.lengths)
        k_hat = _nullable([one.k_hat for one in self.diagnostics])
        named = {"model": model, "proposal": proposal, "samples": self.samples, "bound": BOUND}
        columns: dict[str, Any] = {name: [value] * rows for name, value in named.items()}
        columns |= {"length": self.lengths, "sentences": self.counts, "log_z": self.log_z}
        columns |= {"log_z_debiased": _nullable(self.debiased), "pareto_k": k_hat}
        columns |= {"standard_error": _nullable(self.errors)}
        return columns | {"ess": [one.ess for one in self.diagnostics]}

    def summary(self) -> dict[str, Any]:
        """Return the perplexity and what qualifies it; JSON-serializable.

        ``interval`` covers the choice of sentences, by the jackknife over groups, and of samples,
        by bootstrap; null with too few groups, or where half of the sentences have a length with
        too few effective samples or too high a Pareto k, whose error nobody can tell. Errors are of
        ln perplexity.
        """
        held, words = self.sentences, int(self.sentences.lengths.sum())
        sums = sum_groups(held.groups, self.log_z[self._inverse] - held.log_scores, held.lengths)
        of_text = ratio_interval(sums[0], sums[1])
        interval: list[float | None] = [None, None]
        trust = self._trust()
        told = 2 * trust["sentences_untrusted"] < len(held.lengths)
        if told and not math.isnan(of_text.low) and not math.isnan(self._error_of_draws):
            quantile = float(student_quantile((1 + INTERVAL_LEVEL) / 2, of_text.effective - 1))
            half = quantile * math.hypot(of_text.standard_error, self._error_of_draws)
            interval = [_power(of_text.value - half), _power(of_text.value + half)]
        debiased = (self.debiased @ self.counts - held.log_scores.sum()) / words
        counts = {"words": words, "sentences": len(held.lengths), "groups": of_text.groups}
        counts |= {"unknown": held.unknown, "lengths": self.lengths[[0, -1]].tolist()}
        counts |= {"samples": self.samples}
        return {
            "perplexity_given_length": _power(of_text.value),
            "interval": interval,
            "bound": BOUND,
            "perplexity_given_length_debiased": _power(debiased),
            "standard_error_text": finite(of_text.standard_error),
            "standard_error_samples": finite(self._error_of_draws),
            "log_prob_given_length": float(-of_text.value * words),
            **counts,
            **trust,
            "meaning": DIVERGES,
        }

    def _trust(self) -> dict[str, Any]:
        """Say how many effective samples there are, and how heavy the tails of weights are."""
        ess = np.array([one.ess for one in self.diagnostics])
        k_hat = np.array([one.k_hat for one in self.diagnostics])
        known = k_hat[~np.isnan(k_hat)]
        limit = k_hat_threshold(self.samples)
        span = self.lengths[-1] - self.lengths[0]
        growth = float((self.log_z[-1] - self.log_z[0]) / span) if span else math.nan
        return {
            "ess_min": float(ess.min()),
            "ess_median": float(np.median(ess)),
            "sentences_few_effective": int(self.counts[ess < LEAST_EFFECTIVE].sum()),
            "pareto_k_max": finite(known.max()) if len(known) else None,
            "pareto_k_threshold": finite(limit),
            "sentences_pareto_k_above": int(self.counts[k_hat > limit].sum()),
            "sentences_untrusted": int(
                self.counts[(ess < LEAST_EFFECTIVE) | (k_hat > limit)].sum()
            ),
            "log_z_growth_per_word": finite(growth),
        }


def describe_given_length(summary: dict[str, Any]) -> list[str]:
    """Say in sentences what a summary of `GivenLength` says."""
    value = summary["perplexity_given_length"]
    low, high = summary["interval"]
    shown = "infinite" if value is None else f"{value:,.2f}"
    span = "" if low is None else f", 95% interval {low:,.2f} to {high:,.2f}"
    said = [
        f"Perplexity {shown}{span}: {summary['meaning']}.",
        "It is a stochastic lower bound: the estimate of log Z is too low on average, and so is "
        "the perplexity; a single estimate may be above it.",
    ]
    if summary["sentences_few_effective"] or summary["sentences_pareto_k_above"]:
        said.append(
            f"Not to be trusted: {summary['sentences_few_effective']} of {summary['sentences']} "
            f"sentences have a length whose Z has fewer than {LEAST_EFFECTIVE:g} effective samples "
            f"(least {summary['ess_min']:.1f} of {summary['samples']}), "
            f"{summary['sentences_pareto_k_above']} one with a Pareto k above its limit; give more "
            "samples or particles, or another proposal."
        )
    return said


def _power(exponent: float) -> float | None:
    return finite(math.exp(exponent)) if exponent < 700 else None


def _nullable(values: Sequence[float] | np.ndarray) -> list[float | None]:
    return [None if math.isnan(value) else float(value) for value in values]

"""The perplexity of an unnormalized model given the lengths of sentences, and how far to trust it.

p(W | n) = e^(log score) / Z_n for a sentence of n words, so that ln of the perplexity is Σ (log Ẑ_n
− log score) / Σ n over the sentences. E log Ẑ_n ≤ log Z_n by Jensen's inequality: on average the
estimate makes sentences too probable, and the perplexity is too low. It is to be compared with that
of a language model that is kept from ending (`endless_log_probs`).

M sentences, N lengths that they have, K samples of each Z_n.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import torch

from beyond_perplexity.inference.intervals import INTERVAL_LEVEL, finite, ratio_interval, sum_groups
from beyond_perplexity.inference.log_space import jackknife, log_mean_exp
from beyond_perplexity.inference.p_values import student_quantile
from beyond_perplexity.inference.weight_diagnostics import (
    LEAST_EFFECTIVE,
    Diagnostics,
    diagnose,
    k_hat_threshold,
)
from beyond_perplexity.models.contract import LanguageModel, chosen_log_probs
from beyond_perplexity.models.likelihoods import LOGIT_ROWS, POOL
from beyond_perplexity.random_streams import stream
from beyond_perplexity.vocabulary import BOS, UNK


@torch.no_grad()
def endless_log_probs(model: LanguageModel, encoded: Iterable[np.ndarray]) -> Iterator[float]:
    """Yield Σ log p(word | words before it, no end) of sentences, nats, in any order.

    The model has a closed vocabulary; its probabilities of ``<unk>`` and of words are made to add
    up to 1. A sentence has one word at least and as many as the model's context at most.
    """
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
    """Estimates of log Z_n and of the perplexity given the lengths.

    Parameters
    ----------
    sentences : ScoredSentences
    log_weights : ndarray of float64, shape (K, N)
        From `partition.draw_log_partitions`, for the lengths of the sentences, rising.
    seed, purpose
        Key the random stream of the bootstrap.

    Attributes
    ----------
    log_z, debiased : ndarray of float64, shape (N,)
        Nats; by the mean of the weights, a stochastic lower bound, and by the jackknife, none.
    errors : ndarray of float64, shape (N,)
        Standard errors of `log_z` by bootstrap over samples, which may be too small where few of
        them are effective.
    diagnostics : list of Diagnostics
        Of each length.
    """

    def __init__(
        self, sentences: ScoredSentences, log_weights: np.ndarray, seed: int, purpose: str
    ) -> None:
        self.sentences, self.samples = sentences, len(log_weights)
        self.lengths, self._place, self.counts = np.unique(
            sentences.lengths, return_inverse=True, return_counts=True
        )
        self.log_z = log_mean_exp(log_weights, 0)
        self.debiased = np.array([jackknife(column) for column in log_weights.T])
        self.diagnostics: list[Diagnostics] = [diagnose(column) for column in log_weights.T]
        replicates = self._bootstrap(log_weights, stream(seed, f"{purpose}/bootstrap"))
        known = self.samples > 1
        self.errors = replicates.std(0, ddof=1) if known else np.full(len(self.lengths), np.nan)
        totals = replicates @ self.counts / sentences.lengths.sum()  # (REPLICATES,)
        self._error_of_draws = float(totals.std(ddof=1)) if known else math.nan

    def _bootstrap(self, log_weights: np.ndarray, random: np.random.Generator) -> np.ndarray:
        """Resample samples, which all lengths share: log Ẑ_n of each resample, (REPLICATES, N)."""
        found = np.empty((REPLICATES, len(self.lengths)))
        for row in found:
            row[:] = log_mean_exp(log_weights[random.integers(0, self.samples, self.samples)], 0)
        return found

    def columns(self, model: str, proposal: str) -> dict[str, Any]:
        """Return the columns of schema ``partitions``."""
        rows = len(self.lengths)
        return {
            "model": [model] * rows,
            "proposal": [proposal] * rows,
            "length": self.lengths,
            "sentences": self.counts,
            "log_z": self.log_z,
            "log_z_debiased": _nullable(self.debiased),
            "standard_error": _nullable(self.errors),
            "ess": [one.ess for one in self.diagnostics],
            "pareto_k": _nullable([one.k_hat for one in self.diagnostics]),
            "samples": [self.samples] * rows,
            "bound": [BOUND] * rows,
        }

    def summary(self) -> dict[str, Any]:
        """Return the perplexity and what qualifies it; JSON-serializable.

        ``interval`` covers both the choice of sentences, by the jackknife over groups, and that of
        samples, by bootstrap; null where there are too few groups, or where most sentences have a
        length with too few effective samples, whose error nobody can tell. Errors are of
        ln perplexity.
        """
        held, words = self.sentences, int(self.sentences.lengths.sum())
        sums = sum_groups(held.groups, self.log_z[self._place] - held.log_scores, held.lengths)
        of_text = ratio_interval(sums[0], sums[1])
        interval: list[float | None] = [None, None]
        trust = self._trust()
        told = 2 * trust["sentences_few_effective"] < len(held.lengths)
        if told and not math.isnan(of_text.low) and not math.isnan(self._error_of_draws):
            quantile = float(student_quantile((1 + INTERVAL_LEVEL) / 2, of_text.effective - 1))
            half = quantile * math.hypot(of_text.standard_error, self._error_of_draws)
            interval = [_power(of_text.value - half), _power(of_text.value + half)]
        debiased = (self.debiased @ self.counts - held.log_scores.sum()) / words
        return {
            "perplexity_given_length": _power(of_text.value),
            "interval": interval,
            "bound": BOUND,
            "perplexity_given_length_debiased": _power(debiased),
            "standard_error_text": finite(of_text.standard_error),
            "standard_error_samples": finite(self._error_of_draws),
            "log_prob_given_length": float(-of_text.value * words),
            "words": words,
            "sentences": len(held.lengths),
            "groups": of_text.groups,
            "unknown": held.unknown,
            "lengths": [int(self.lengths[0]), int(self.lengths[-1])],
            "samples": self.samples,
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
        "the perplexity.",
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
    """Return the exponential; None where it is no finite number."""
    return finite(math.exp(exponent)) if exponent < 700 else None


def _nullable(values: Sequence[float] | np.ndarray) -> list[float | None]:
    return [None if math.isnan(value) else float(value) for value in values]

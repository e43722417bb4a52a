"""What many instances' diagnostics come to: columns of an estimate, and notes that qualify it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from beyond_perplexity.inference.weight_diagnostics import (
    FEW_EFFECTIVE,
    LARGEST_RELATIVE_VARIANCE,
    LEAST_EFFECTIVE,
    NOT_OF_SAMPLES,
    Diagnostics,
    k_hat_threshold,
)

if TYPE_CHECKING:
    from beyond_perplexity.importance.estimator import Estimator

_NAMED = 3  # instances that a note names


def share_below(ess: np.ndarray, n_tokens: np.ndarray, least: float) -> float:
    """Return the share of all tokens, (N,), in instances with fewer effective samples than `least`;
    the median hides the worst documents, which are the longest."""
    return float(n_tokens[ess < least].sum() / n_tokens.sum())


def summarize_diagnostics(
    diagnostics: Sequence[Diagnostics], n_samples: np.ndarray, n_tokens: np.ndarray | None = None
) -> dict[str, Any]:
    """Summarize the diagnostics of N sets of weights, if any: columns of ``estimates``, of which
    ``k_hat_above`` goes by the threshold of each set's K, shown unless these differ."""
    if not diagnostics:
        return {}
    ess, largest, unique, k_hat = (np.array([one[k] for one in diagnostics]) for k in range(4))
    largest = largest[~np.isnan(largest)]
    found = {
        "ess_median": np.median(ess),
        "ess_min": ess.min(),
        "ess_low_share": None if n_tokens is None else share_below(ess, n_tokens, FEW_EFFECTIVE),
        "largest_weight_median": np.median(largest) if len(largest) else None,
        "largest_weight_max": largest.max() if len(largest) else None,
        "unique_share": unique.mean(),
    }
    if all(one.tail == NOT_OF_SAMPLES for one in diagnostics):
        return found
    fitted = k_hat[~np.isnan(k_hat)]
    thresholds = np.array([k_hat_threshold(int(count)) for count in n_samples])
    return found | {
        "k_hat_median": np.median(fitted) if len(fitted) else None,
        "k_hat_max": fitted.max() if len(fitted) else None,
        "k_hat_threshold": thresholds[0] if (thresholds == thresholds[0]).all() else None,
        "k_hat_above": int((k_hat > thresholds).sum()),  # NaN is not above
        "k_hat_undefined": len(k_hat) - len(fitted),
    }


def _named(instance_ids: np.ndarray, chosen: np.ndarray) -> str:
    """Name the first of the chosen instances and count the others."""
    ids = instance_ids[chosen].tolist()
    listed = ", ".join(map(str, ids[:_NAMED]))
    return listed + (f" and {len(ids) - _NAMED} more" if len(ids) > _NAMED else "")


def _bootstrap_note(samples: np.ndarray) -> Iterator[str]:
    lost = int(np.isneginf(samples).sum())
    if 0 < lost < len(samples):
        yield (
            f"{lost} of {len(samples)} resamples have no positive weight left somewhere: no "
            "standard error by bootstrap"
        )


def instance_notes(found: Estimator) -> Iterator[str]:
    """Say what a reader of an estimate of N instances must know, each without a full stop."""
    ids, n_samples, variance = found.inputs.reader.instance_ids, found.n_samples, found.variance
    if n_samples.min() != n_samples.max():
        yield f"instances have {n_samples.min()} to {n_samples.max()} samples: all count"
    zero, dense = np.isneginf(found.log_likelihood), found.log_likelihood > 0
    if zero.any():
        yield (
            f"p̂ is 0 for {zero.sum()} instances ({_named(ids, zero)}): the perplexity is infinite"
        )
    if dense.any():
        yield (
            f"p̂ is above 1 for {dense.sum()} instances ({_named(ids, dense)}): words have no such "
            "probability; unless p is a density, log_p or log_q is wrong, such as negated"
        )
    single = np.isnan(variance) & ~zero
    if single.any():
        yield (
            f"{single.sum()} instances ({_named(ids, single)}) have a single sample or "
            "run, or one of a temperature of the mixture: its error is not known, and the "
            "bootstrap over samples counts it as 0"
        )
    saturated = variance > LARGEST_RELATIVE_VARIANCE
    if saturated.any():
        yield (
            f"the delta method does not hold for {saturated.sum()} of {len(saturated)} instances "
            f"(fewer than {LEAST_EFFECTIVE:g} effective samples or runs, or a relative variance "
            f"above {LARGEST_RELATIVE_VARIANCE:g}): no standard error by it, "
            "and that by bootstrap may be too small"
        )
    yield from _bootstrap_note(found.bootstrap)
    undefined = np.array([np.isnan(one.k_hat) for one in found.diagnostics], bool)
    reasons = Counter(one.tail for one in found.diagnostics if np.isnan(one.k_hat))
    if undefined.any() and NOT_OF_SAMPLES not in reasons:
        why = ", ".join(f"{tail} tail {count}" for tail, count in sorted(reasons.items()))
        yield (
            f"k̂ is undefined for {undefined.sum()} of {len(undefined)} instances "
            f"({_named(ids, undefined)}; {why}): it says nothing of them, good or bad"
        )


def corpus_notes(variance: float, diagnostics: Diagnostics, samples: np.ndarray) -> Iterator[str]:
    """Say what a reader of an estimate from the products over the corpus must know, by their
    variance (`error_variance`) and log p̂ of bootstrap replicates over them."""
    if np.isnan(variance) and diagnostics.ess > 0:
        yield "there is a single sample of all instances: its error is not known"
    if variance > LARGEST_RELATIVE_VARIANCE:
        yield (
            f"the delta method does not hold with {diagnostics.ess:.1f} effective samples "
            f"(fewer than {LEAST_EFFECTIVE:g}, or a relative variance above "
            f"{LARGEST_RELATIVE_VARIANCE:g}): read the bootstrap, which "
            "may be too small, and the spread over random pairings"
        )
    yield from _bootstrap_note(samples)
    if np.isnan(diagnostics.k_hat):
        yield f"k̂ is undefined ({diagnostics.tail} tail)"

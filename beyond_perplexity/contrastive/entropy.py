"""Contrastive entropy and its ratio, from the scores of shards.

H_C(d) = (1/N) Σ_units mean_draws [score(T) − score(T̂_d)], N words or sentences of the undistorted
text; H_CR(d_b, d) = H_C(d) / H_C(d_b). All in nats; scores need not be normalized. Source: Arora
and Rangarajan (2016), equations 6 to 8.

U units, G groups of them, L levels.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from beyond_perplexity.contrastive.sums import ContrastSums
from beyond_perplexity.inference.intervals import (
    RatioInterval,
    jackknife_interval,
    ratio_interval,
    sum_groups,
)
from beyond_perplexity.inference.thresholds import EFFECTIVE_GROUPS
from beyond_perplexity.schemas.contrastive import (
    CONTRASTIVE_ENTROPY,
    CONTRASTIVE_RATIO,
    CONTRASTS,
    SENTENCE_CROSS_ENTROPY,
)
from beyond_perplexity.verdicts import joined_facts

_Row = dict[str, Any]


def entropy_of(lost: np.ndarray, sizes: np.ndarray) -> RatioInterval:
    """Measure H_C from what scores lose in each group, nats, (G,), and their sizes, (G,)."""
    if not np.isfinite(lost).all():
        return jackknife_interval(math.nan, np.full(len(lost), math.nan), sizes)
    return ratio_interval(lost, sizes)


def ratios(lost: np.ndarray, base: np.ndarray) -> tuple[float, np.ndarray]:
    """Return H_CR, and the same without each group, from the losses at a level and at the base."""
    with np.errstate(divide="ignore", invalid="ignore"):  # of a model that loses nothing
        whole = float(np.divide(lost.sum(), base.sum()))
        return whole, (lost.sum() - lost) / (base.sum() - base)


def _deviation(values: np.ndarray) -> float | None:
    return float(np.std(values, ddof=1)) if len(values) > 1 else None


def _number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _limits(found: RatioInterval) -> _Row:
    known = math.isfinite(found.value)
    return {
        "value": _number(found.value),
        "low": _number(found.low) if known else None,
        "high": _number(found.high) if known else None,
        "groups": found.groups,
        "groups_effective": found.effective,
    }


def few_groups(found: RatioInterval) -> str:
    """Say that there is no interval, where there is none."""
    few = found.effective < EFFECTIVE_GROUPS
    return f"fewer than {EFFECTIVE_GROUPS} effective groups: no interval" if few else ""


def is_clear(found: RatioInterval) -> bool:
    """Tell whether H_C is above 0 beyond its interval, so that it can be divided by."""
    return math.isfinite(found.value) and found.low > 0


def unclear_base(base_level: float) -> str:
    """Say that a ratio has no interval as what it divides by may be 0."""
    return f"H_C at {base_level:g} is not clearly above 0: no interval of the ratio"


def _facts(sums: ContrastSums) -> str:
    """Say what must be known of the text to read its measures."""
    counts = {
        name: int(sums.counts[name].sum()) for name in ("one_word", "sentences", "unknown", "words")
    }
    one = f"{counts['one_word']:,} of {counts['sentences']:,} sentences are of one word"
    unknown = f"{counts['unknown'] / counts['words']:.1%} of the words are <unk> to the model"
    return joined_facts(
        f"{one}, which cannot be transposed" if counts["one_word"] else "",
        unknown if counts["unknown"] else "",
        "" if sums.keeps_length() else "sentences change their length: shorter ones score higher",
    )


def _impossible(sums: ContrastSums, level: float | None) -> str:
    held = int(np.isneginf(sums.scores).sum())
    if held:
        return f"the model finds {held:,} of {len(sums.scores):,} documents impossible: no value"
    found = 0 if level is None else sums.levels[level].impossible
    return f"the model finds {found:,} distorted documents impossible: no value" if found else ""


def contrast_rows(sums: ContrastSums, model: str, base_level: float) -> Iterator[_Row]:
    """Measure a model: H_C and H_CR at every level, and its cross-entropy.

    Parameters
    ----------
    sums : ContrastSums
        Of `read_sums`.
    model : str
        Its name.
    base_level : float
        d_b, what H_CR divides by; where it was not scored there are no ratios.

    Yields
    ------
    dict
        A row of schema ``contrasts``. H_C and H_CR per word are given where sentences keep their
        number of words, per sentence always. The cross-entropy (equation 6) is −(1/N) ln p of the
        text itself, for models with a likelihood.
    """
    given = {
        "model": model,
        "words": int(sums.counts["words"].sum()),
        "sentences": int(sums.counts["sentences"].sum()),
        "sentence_level": sums.sentence_level,
    }
    for unit in sums.measured_units():
        for row in _unit_rows(sums, unit, base_level):
            yield dict.fromkeys(CONTRASTS.names) | given | {"unit": unit} | row


def _unit_rows(sums: ContrastSums, unit: str, base_level: float) -> Iterator[_Row]:
    size, *lost = sum_groups(
        sums.groups, sums.size(unit), *(sums.mean(level) for level in sums.levels)
    )
    facts = _facts(sums)
    columns = dict(zip(sums.levels, lost, strict=True))
    for level, column in columns.items():
        yield _entropy_row(sums, level, column, size, facts)
    if base_level in columns:
        for level, column in columns.items():
            if level not in (0, base_level):  # where it is 0 or 1 for every model
                yield _ratio_row(sums, (base_level, level), (columns[base_level], column), size)
    if not sums.sentence_level:
        found = entropy_of(*sum_groups(sums.groups, -sums.scores, sums.size(unit)))
        note = joined_facts(_impossible(sums, None), few_groups(found), facts)
        yield {"measure": SENTENCE_CROSS_ENTROPY, **_limits(found), "draws": 0, "note": note}


def _entropy_row(
    sums: ContrastSums, level: float, lost: np.ndarray, size: np.ndarray, facts: str
) -> _Row:
    found, draws = entropy_of(lost, size), sums.levels[level].draws
    note = joined_facts(_impossible(sums, level), few_groups(found), facts)
    known = math.isfinite(found.value)
    return {
        "measure": CONTRASTIVE_ENTROPY,
        "level": level,
        **_limits(found),
        "deviation": _deviation(draws / size.sum()) if known else None,
        "draws": len(draws),
        "note": note,
    }


def _ratio_row(
    sums: ContrastSums,
    levels: tuple[float, float],
    lost: tuple[np.ndarray, np.ndarray],
    size: np.ndarray,
) -> _Row:
    base_level, level = levels
    base, column = lost
    found = jackknife_interval(*ratios(column, base), size)
    clear = is_clear(entropy_of(base, size))
    if not clear:
        found = found._replace(low=math.nan, high=math.nan)
    held = [sums.levels[one].draws for one in levels]
    common = min(map(len, held))
    below, above = (draws[:common] for draws in held)
    known = math.isfinite(found.value) and (below != 0).all()
    enough = found.effective >= EFFECTIVE_GROUPS
    note = joined_facts(
        _impossible(sums, level) or _impossible(sums, base_level),
        few_groups(found),
        unclear_base(base_level) if enough and not clear else "",
    )
    return {
        "measure": CONTRASTIVE_RATIO,
        "level": level,
        "base_level": base_level,
        **_limits(found),
        "deviation": _deviation(above / below) if known else None,
        "draws": common,
        "note": note,
    }


def measure_contrasts(sums: ContrastSums, model: str, base_level: float) -> pa.Table:
    """Return the rows of `contrast_rows` as a table of schema ``contrasts``."""
    return pa.Table.from_pylist(list(contrast_rows(sums, model, base_level)), CONTRASTS)

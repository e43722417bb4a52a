"""Two models on the same documents: the difference of their bits per byte, tested and bounded.

What is claimed is about the two trained models, on texts like these; about two architectures only
over several trainings (seeds) of each.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa

from beyond_perplexity.errors import InputError
from beyond_perplexity.inference import intervals
from beyond_perplexity.inference.neighbours import told_of_scores
from beyond_perplexity.inference.p_values import holm, student_quantile, student_tail
from beyond_perplexity.inference.permuted_units import EFFECTIVE_GROUPS
from beyond_perplexity.perplexities.options import PairOptions
from beyond_perplexity.perplexities.score_files import FileScores, document_groups, same_documents
from beyond_perplexity.random_streams import stream
from beyond_perplexity.schemas.perplexity import PERPLEXITY_DIFFERENCES
from beyond_perplexity.signature import PARTS, parts_of, refuse_mixed, sign
from beyond_perplexity.verdicts import joined_facts

POWER = 0.8
_HALVINGS = 10  # of the groups, to find a difference and the power that it has
FEW_GROUPS = f"fewer than {EFFECTIVE_GROUPS} effective groups: no verdict"
NO_GROUPS = "there are no pages or groups: each document is one"
_SAME = "both give every document the same likelihood"

_Row = dict[str, Any]


def minimum_detectable(numerators: np.ndarray, denominators: np.ndarray) -> tuple[float, float]:
    """Return the smallest true difference that a random half of the groups promises to find, and
    the power that it has by the other half, of groups (G,): means over `_HALVINGS` of them. NaN
    where most halves have too few groups, or none that differ: no proof that anything is found."""
    promised, others = list[float](), list[tuple[intervals.RatioTest, float]]()
    for number in range(_HALVINGS if len(numerators) >= 2 * EFFECTIVE_GROUPS else 0):
        order = stream(0, "minimum_detectable", number).permutation(len(numerators))
        halves = np.array_split(order, 2)
        one, other = (intervals.ratio_test(numerators[own], denominators[own]) for own in halves)
        known = not math.isnan(one.interval.low + other.interval.low)
        if known and min(one.interval.standard_error, other.interval.standard_error) > 0:
            promised.append(smallest_found(one) * math.sqrt(len(halves[0]) / len(order)))
            others.append((other, math.sqrt(len(order) / len(halves[1]))))
    if 2 * len(promised) < _HALVINGS:
        return math.nan, math.nan
    found = float(np.mean(promised))
    return found, float(np.mean([power_at(other, found * scale) for other, scale in others]))


def power_at(difference: intervals.RatioTest, true: float) -> float:
    """Return how often a test of level .05 finds a true difference, of either sign alike.

    By the interval of a difference that was seen: so often lies an estimate, whose error is that
    of this one, beyond the limit of the test.
    """
    found = difference.interval
    beyond = np.array([found.value - found.low, found.high - found.value]) - true
    tails = student_tail(beyond / found.standard_error, np.full(2, difference.df))
    return float(tails.mean())


def smallest_found(difference: intervals.RatioTest) -> float:
    """Return the smallest true difference that a test of level .05 finds in 80% of the cases.

    It is the longer half of the interval of the difference that was seen, and its standard error
    times Student's quantile of .8: so far from 0 must the truth lie for four fifths of the
    estimates, of either sign, to lie beyond the limit of the test. Errors are more often too small
    than too large: both are divided by the median of the root of χ² by its degrees of freedom
    (Wilson & Hilferty 1931).
    """
    found, median = difference.interval, (1 - 2 / (9 * difference.df)) ** 1.5
    half = max(found.value - found.low, found.high - found.value)
    margin = student_quantile(POWER, difference.df) * found.standard_error
    return float((half + margin) / median)


def compare_scores(
    files: Sequence[FileScores], names: Mapping[str, str], options: PairOptions
) -> pa.Table:
    """Compare models on each text that at least two were scored on: ``perplexity_differences``.

    Every model has a row with its own bits per byte, by `names`; then every pair has one with the
    difference, its p-value (`inference.intervals.ratio_test`), and that adjusted (Holm) for all
    pairs, over groups or pages where there are any, ``low_by_document`` and ``high_by_document``
    beside. With fewer than 20 effective groups there is neither interval nor adjusted p, and
    ``note`` says so.
    """
    texts = _by_text(files)
    for held in texts.values():
        refuse_mixed({one.path: one.signature for one in held})
    _check_ends(files, options)
    rows: list[_Row] = []
    for kind, held in texts.items():
        finite = [one for one in held if _is_finite(one, options)]
        for one in held:
            if one not in finite:
                count, first = len(one.rows), names[one.path]
                note = f"{one.infinite} of {count} documents are impossible"
                known = {"documents": count, "open_vocabulary": one.open_vocabulary, "note": note}
                rows.append(_row(first=first, value=math.inf, **known))
        if finite:
            rows += _compare(finite, names, options)
        for row in rows:
            row.setdefault("scored_text", kind)
    tested = [row for row in rows if row["second"] is not None and row["low"] is not None]
    for row, p_value in zip(tested, holm([row["p_value"] for row in tested]), strict=True):
        row["p_adjusted"] = float(p_value)
    ordered = sorted(rows, key=lambda row: row["second"] is not None)
    return pa.Table.from_pylist(ordered, PERPLEXITY_DIFFERENCES)


def signed_pairs(files: Sequence[FileScores], options: PairOptions) -> str:
    """Sign a comparison with the parts of its files, as far as these have them."""
    signed = [parts_of(one.signature or "") for one in files]
    names = [name for name in PARTS["bpb"].split() if any(name in one for one in signed)]
    held = {name: sorted({one.get(name, "unknown") for one in signed}) for name in names}
    infinite = "left-out" if options.leave_out_infinite else "refused"
    how: dict[str, Any] = {"eos": options.count_eos, "infinite": infinite}
    return sign("bpb", **held | how)


def _by_text(files: Sequence[FileScores]) -> dict[str, list[FileScores]]:
    """Sort files by their text; one that does not say is of the only one that there is."""
    kinds = list(dict.fromkeys(one.scored_text for one in files if one.scored_text)) or [""]
    found: dict[str, list[FileScores]] = {kind: [] for kind in kinds}
    for one in files:
        if one.scored_text not in found and len(kinds) > 1:
            raise InputError(
                f"{one.path}: does not say which text its scores are of, and others are of "
                f"{' and '.join(kinds)} text; give it a column scored_text"
            )
        found[one.scored_text if one.scored_text in found else kinds[0]].append(one)
    return found


def check_company(files: Sequence[FileScores]) -> None:
    """Raise `InputError` for one file alone, or one that has no text in common with any other."""
    if len(files) == 1:
        raise InputError(f"{files[0].path}: is the only file; give the scores of another model too")
    company = {one.path for held in _by_text(files).values() for one in held if len(held) > 1}
    for one in files:
        if one.path not in company:
            raise InputError(
                f"{one.path}: is scored on {one.scored_text} text and no other file is; score the "
                "models on the same text"
            )


def _check_ends(files: Sequence[FileScores], options: PairOptions) -> None:
    """Refuse log-likelihoods that have the end of documents where N has not, or the reverse."""
    for one in files:
        if one.ended is not None and one.ended != options.count_eos:
            held = "with the end of each document" if one.ended else "without the end of documents"
            advice = (
                "score again without the end (no count eos), or leave that out here"
                if one.ended
                else "give no count eos here too"
            )
            raise InputError(f"{one.path}: its log-likelihoods are {held}; {advice}")


def _is_finite(one: FileScores, options: PairOptions) -> bool:
    if not one.infinite:
        return True
    if options.leave_out_infinite:
        return False
    place = one.place(int(np.argmax(np.isneginf(one.log_likelihood))))
    raise InputError(
        f"{place}: the log-likelihood is −inf: the model finds this document impossible "
        f"({one.infinite} in all), its perplexity is infinite and no difference is finite; leave "
        "the model out (leave out infinite)"
    )


def _row(**known: object) -> _Row:
    return dict.fromkeys(PERPLEXITY_DIFFERENCES.names[1:]) | known


def _ratio_row(
    bits: np.ndarray,
    sizes: np.ndarray,
    groups: np.ndarray,
    keys: np.ndarray,
    free: Sequence[str],
    *,
    pair: bool,
) -> _Row:
    """Make the row of a ratio of sums (D,), less the names, of a model or of a `pair`; `keys` are
    of texts, and `free` models without spellings."""
    numerators, denominators = intervals.sum_groups(groups, bits, sizes)
    test = intervals.ratio_test(numerators, denominators)
    found = test.interval
    few = math.isnan(found.low)
    row = _row(**found.columns("value", "low", "high"), p_value=intervals.finite(test.p_value))
    row |= {"groups": found.groups, "groups_effective": found.effective}
    if pair:
        both = map(intervals.finite, minimum_detectable(numerators, denominators))
        row["detectable"], row["power"] = both
    alone = found.groups == len(bits)
    if not alone:
        beside = intervals.ratio_test(bits, sizes).interval
        limits = map(intervals.finite, (beside.low, beside.high))
        row["low_by_document"], row["high_by_document"] = limits
    notes = [FEW_GROUPS] if few else []
    if alone:
        notes += [NO_GROUPS, told_of_scores(bits / sizes, keys, sizes)]
    spelling = f"{', '.join(free)}: the spelling of unknown words is not penalized" if free else ""
    return row | {"documents": len(bits), "note": joined_facts(*notes, spelling)}


def _compare(
    files: Sequence[FileScores], names: Mapping[str, str], options: PairOptions
) -> list[_Row]:
    """Make the rows of models that are scored on the same text."""
    files = same_documents(files)
    groups = document_groups(files, options.group_size)
    called = [names[one.path] for one in files]
    free = [[name] if one.free else [] for name, one in zip(called, files, strict=True)]
    sizes = files[0].columns["bytes"] + int(options.count_eos)
    bits = [-one.log_likelihood / math.log(2) for one in files]
    known = [one.columns["text_hash"] for one in files if "text_hash" in one.columns]
    given = sizes, groups, known[0] if known else np.arange(len(sizes))
    rows = []
    for place, held in enumerate(files):
        own = {"first": called[place], "open_vocabulary": held.open_vocabulary}
        row = _ratio_row(bits[place], *given, free[place], pair=False)
        rows.append(row | own | {"p_value": None})
    for one, two in combinations(range(len(files)), 2):
        row = _ratio_row(bits[one] - bits[two], *given, free[one] + free[two], pair=True)
        if np.array_equal(files[one].log_likelihood, files[two].log_likelihood):
            row["note"] = joined_facts(_SAME, row["note"])
        rows.append(row | {"first": called[one], "second": called[two]})
    return rows

"""The points that the figures draw: one sample set, alone and against a reference.

Rows of schema ``curves``: a point x, y of a named curve, a band `low` to `high`, and `n`, the
documents (for rank_frequency: tokens; for taylor and its fit: segments) behind the point.

========================= ==========================================================================
curve                     x, y (band)
========================= ==========================================================================
``type_token_unigrams``   length in tokens, mean distinct unigrams (5th and 95th percentile)
``type_token_bigrams``    length in tokens, mean distinct bigrams (5th and 95th percentile)
``rank_frequency``        rank, relative frequency; ranks thinned to equal steps of ln rank
``zipf_fit``              rank, probability under the fitted Zipf law; at the same ranks
``heaps_fit_unigrams``    length, alpha length^beta; at the lengths of type_token_unigrams
``heaps_fit_bigrams``     the same for bigrams
``length_pmf``            length, share of the documents
``length_quantiles``      level (0.05, 0.25, 0.5, 0.75, 0.95), length
``length_mean``           0, mean length
``{share}_density``       of each share, such as stop_words: centre of one of 50 equal bins of
[0, 1], density of the share
``{share}_mean``          0, mean share
``{number}_mean``         0, mean of a number of documents cut to one size (95%, of documents)
``taylor``                mean, standard deviation of a word's count in segments of 64 words
``taylor_fit``            the same by the fitted law; see `taylor`
``taylor_shuffled``       the same of words shuffled in their documents; n documents
``{curve}``               place, mean curve of documents cut to one size (95%, of documents)
========================= ==========================================================================

Against a reference there are also, at each length up to the option's maximum, the three distances
of section 5.2 of the paper: ``ks_types_model``, ``ks_types_reference``, ``ks_types_empirical`` and
``ks_bigram_types_model``, ``ks_bigram_types_reference``, ``ks_bigram_types_empirical``; `n` counts
the samples' documents of that length. They have no band.
"""

from __future__ import annotations

import math
import warnings
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from beyond_perplexity.inference.halves import Baseline
from beyond_perplexity.random_streams import stream_key
from beyond_perplexity.schemas.tendencies import CURVES, SAMPLE_SIZE
from beyond_perplexity.tendencies import document_measures, human_baselines, measures, type_token
from beyond_perplexity.tendencies.curve_comparison import sums_by_place
from beyond_perplexity.tendencies.definitions import (
    JUDGE,
    TAYLOR,
    MeasureKey,
    MeasureRow,
    tendencies_of,
)
from beyond_perplexity.tendencies.document_statistics import Sized
from beyond_perplexity.tendencies.measurement_options import MeasurementOptions, SampleSizeOptions
from beyond_perplexity.tendencies.pairs import SampleSetPair, subset
from beyond_perplexity.tendencies.power_laws import fit_zipf, zipf_cdf
from beyond_perplexity.tendencies.statistics import Histogram, Statistics

Points = dict[str, np.ndarray]
CURVE_LEVELS = np.array([0.05, 0.25, 0.5, 0.75, 0.95])
SHARE_BINS = 50
_CLOUD = 400  # words of a cloud
_RANKS_PER_E = 30  # points of rank_frequency for each factor e of the rank


def _quantiles(values: np.ndarray, counts: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """Return the smallest values whose cumulative share reaches the levels (inverse of the cdf)."""
    cumulative = np.cumsum(counts)
    indices = np.searchsorted(cumulative, np.ceil(levels * cumulative[-1] - 1e-9))
    return values[np.minimum(indices, len(values) - 1)]


def _type_token(histogram: Histogram) -> Points:
    cells = type_token.LengthCells.of(histogram)
    groups = (np.split(held, cells.starts[1:]) for held in (cells.values, histogram.counts))
    rows = []
    for length, values, counts in zip(cells.group_lengths, *groups, strict=False):
        low, high = _quantiles(values, counts, CURVE_LEVELS[[0, -1]])
        n = counts.sum()
        rows.append((length, counts @ values / n, low, high, n))
    columns = np.array(rows, float).reshape(-1, 5).T
    return dict(zip(("x", "y", "low", "high", "n"), columns, strict=True))


def _rank_curves(statistics: Statistics, options: MeasurementOptions) -> dict[str, Points]:
    ranked = statistics.ranked()
    if len(ranked) == 0:
        return {}
    steps = np.arange(0, math.log(len(ranked)) + 1 / _RANKS_PER_E, 1 / _RANKS_PER_E)
    ranks = np.unique(np.minimum(np.rint(np.exp(steps)), len(ranked))).astype(int)
    total = np.full(len(ranks), ranked.sum())
    found = {"rank_frequency": {"x": ranks, "y": ranked[ranks - 1] / ranked.sum(), "n": total}}
    s = fit_zipf(ranked[: options.zipf_ranks])
    if not math.isnan(s):
        mass = np.diff(zipf_cdf(s, int(ranks[-1])), prepend=0)[ranks - 1]
        found["zipf_fit"] = {"x": ranks, "y": mass, "n": total}
    return found


def _density(values: np.ndarray, counts: np.ndarray) -> Points:
    indices = np.minimum((values * SHARE_BINS).astype(int), SHARE_BINS - 1)
    in_bin = np.bincount(indices, counts, SHARE_BINS)
    centres = (np.arange(SHARE_BINS) + 0.5) / SHARE_BINS
    return {"x": centres, "y": in_bin * SHARE_BINS / counts.sum(), "n": in_bin}


def _document_curves(statistics: Statistics) -> dict[str, Points]:
    found: dict[str, Points] = {}
    for tendency, row in tendencies_of("length", "share").items():
        values, counts = document_measures.distribution(statistics, tendency)
        n = counts.sum()
        if n == 0:
            continue
        mean = np.array([counts @ values / n])
        found[f"{tendency}_mean"] = {"x": np.zeros(1), "y": mean, "n": np.array([n])}
        if row.kind == "length":
            quantiles = _quantiles(values, counts, CURVE_LEVELS)
            found[f"{tendency}_pmf"] = {"x": values, "y": counts / n, "n": counts}
            found[f"{tendency}_quantiles"] = {"x": CURVE_LEVELS, "y": quantiles, "n": np.full(5, n)}
        else:
            found[f"{tendency}_density"] = _density(values, counts)
    return found


def _sized_curves(statistics: Statistics, sizes: Mapping[str, Sized]) -> dict[str, Points]:
    """Return the means of numbers and the mean curves, with bands of two standard errors."""
    found = {}
    for tendency, sized in sizes.items():
        if not statistics.documents_of(sized.name):
            continue
        if sized.row.kind == "curve":
            n, total, squares = sums_by_place(statistics, sized).T
            name, x = tendency, sized.places
        else:
            values, counts = document_measures.distribution(statistics, tendency, sized)
            n, total, squares = (np.array([counts @ values**power]) for power in range(3))
            name, x = f"{tendency}_mean", np.zeros(1)
        y = total / n
        error = 1.96 * np.sqrt(np.maximum(squares / n - y**2, 0) / n)
        found[name] = {"x": x, "y": y, "low": y - error, "high": y + error, "n": n}
    return found


def _taylor_curves(statistics: Statistics) -> dict[str, Points]:
    """Return mean and deviation of words' counts in segments, thinned, and the fitted law."""
    fit = statistics.taylor_fit()
    if math.isnan(fit.alpha):
        return {}
    order = np.argsort(fit.log_mean, kind="stable")
    order = order[np.linspace(0, len(order) - 1, min(len(order), _CLOUD)).astype(int)]
    x, n = fit.log_mean[order], np.full(len(order), statistics.n_segments)
    found = {TAYLOR: {"x": np.exp(x), "y": np.exp(fit.log_spread[order]), "n": n}}
    for ending, shuffled in (("fit", False), ("shuffled", True)):
        fit = statistics.taylor_fit(shuffled=shuffled)
        fitted = fit.log_spread.mean() + fit.alpha * (x - fit.log_mean.mean())
        behind = np.full(len(x), statistics.n_with_segments) if shuffled else n
        found[f"{TAYLOR}_{ending}"] = {"x": np.exp(x), "y": np.exp(fitted), "n": behind}
    return found


def _own_curves(statistics: Statistics, options: MeasurementOptions) -> dict[str, Points]:
    found = {**_rank_curves(statistics, options), **_document_curves(statistics)}
    for tendency, name in type_token.HISTOGRAM_OF.items():
        points = _type_token(statistics.histograms[name])
        found[tendency] = points
        law = type_token.fit(statistics.histograms[name])
        if not math.isnan(law.beta):
            kept = points["x"] >= 1
            x = points["x"][kept]
            fitted = {"x": x, "y": law.rate(x), "n": points["n"][kept]}
            found[tendency.replace("type_token", "heaps_fit")] = fitted
    return found


def _ks_curves(statistics: Statistics, reference: Statistics) -> Iterator[tuple[str, Points]]:
    for tendency, name in type_token.HISTOGRAM_OF.items():
        paired = type_token.pair_by_length(reference, statistics, tendency)
        if paired is None:
            continue
        cells, counts = paired
        n_reference, n = cells.totals(counts)
        found = {}
        for suffix, sample_set in (("model", statistics), ("reference", reference)):
            law = type_token.fit(sample_set.histograms[name])
            if not math.isnan(law.beta):
                found[suffix] = type_token.ks_to_heaps(cells, counts[1], law), n > 0
        common = (n > 0) & (n_reference > 0)
        found["empirical"] = type_token.ks_between(cells, *counts), common
        for suffix, (y, kept) in found.items():
            points = {"x": cells.group_lengths[kept], "y": y[kept], "n": n[kept]}
            yield f"ks_{name}_{suffix}", points


def curves(
    statistics: Statistics,
    options: MeasurementOptions,
    source: str,
    reference: Statistics | None = None,
) -> pa.Table:
    """Make the curves of a sample set, with a reference also its distances: schema ``curves``."""
    found = _own_curves(statistics, options)
    found |= _taylor_curves(statistics)
    found |= _sized_curves(statistics, (reference or statistics).sizes())
    if reference is not None:
        found.update(_ks_curves(statistics, reference))
    tables = [CURVES.empty_table()]
    for name, points in found.items():
        n = len(points["x"])
        empty = {field.name: pa.nulls(n, field.type) for field in CURVES}
        columns = {**empty, "source": [source] * n, "curve": [name] * n, **points}
        tables.append(pa.table(columns, CURVES))
    return pa.concat_tables(tables)


BAND_LEVELS = (0.05, 0.95)
_UNKNOWN = Baseline(math.nan, math.nan, math.nan)


def sizes_below(n: int, options: SampleSizeOptions) -> list[int]:
    """List the numbers of documents that are measured below n, increasing."""
    if options.sizes is not None:
        return sorted({size for size in options.sizes if size < n})
    steps = (factor * 10**power for power in range(2, 13) for factor in (1, 3))
    return [size for size in steps if size < n]


def _summary(values: Sequence[float]) -> tuple[float, float, float, float]:
    """Return mean, median, 5th and 95th percentile of what is defined; NaNs for nothing."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # NumPy's, of nothing but NaN
        low, high = np.nanquantile(values, BAND_LEVELS)
        return float(np.nanmean(values)), float(np.nanmedian(values)), float(low), float(high)


def _records(
    n: int, rows: Iterable[MeasureRow], baselines: Mapping[MeasureKey, Baseline]
) -> list[dict[str, object]]:
    """Summarize the rows of all subsets of n documents."""
    values: dict[MeasureKey, list[float]] = defaultdict(list)
    p_values: dict[MeasureKey, list[float]] = defaultdict(list)
    for row in rows:
        if row.measure.startswith("ks_") or not row.measure.endswith("_reference"):
            values[row.key].append(row.value)
            p_values[row.key].append(row.p_value)
    records: list[dict[str, object]] = []
    for key, drawn in values.items():
        mean, _, low, high = _summary(drawn)
        _, p_value, p_low, p_high = _summary(p_values[key])
        numbers = {"value": mean, "low": low, "high": high}
        numbers |= {"p_value": p_value, "p_low": p_low, "p_high": p_high}
        baseline = baselines.get(key, _UNKNOWN)
        numbers |= {"baseline": baseline.mean, "baseline_low": baseline.low}
        numbers |= {"baseline_high": baseline.high}
        found = {name: None if math.isnan(x) else x for name, x in numbers.items()}
        names = {"tendency": key[0], "measure": key[1], "n": n, "subsets": len(drawn)}
        records.append({**names, **found})
    return records


def sample_sizes(
    pair: SampleSetPair,
    rows: Sequence[MeasureRow],
    options: MeasurementOptions,
    how: SampleSizeOptions,
    seed: int,
    source: str,
    further: SampleSetPair | None = None,
) -> pa.Table:
    """Measure random subsets of the samples: schema ``sample_size``, n increasing.

    `rows` of all samples, but for those of a judge, are the last point. Subset s of n documents
    draws from streams keyed by the seed, s and n. Baselines of fewer documents need `further` human
    text.
    """
    total = pair.samples.n_documents
    sizes = sizes_below(total, how)
    drawn = replace(options, permutations=how.permutations, bootstrap=0, monte_carlo=0)
    found: dict[int, list[MeasureRow]] = defaultdict(list)
    by_length: dict[int, dict[MeasureKey, Baseline]] = defaultdict(dict)
    if pair.defined:
        for number in range(how.subsets):
            for index, n in enumerate(sizes):
                own_seed = stream_key(seed, f"sample_size/{number}/{n}")
                with subset(pair, sizes, index, number, seed) as part:
                    found[n] += measures.measure_rows(part, drawn, own_seed)
                    if further is not None and not number:
                        by_length[n] = human_baselines.baselines_by_length(part, drawn, own_seed)
    records, shares = [], human_baselines.counted_shares(pair)
    for n in sizes:
        baselines: dict[MeasureKey, Baseline] = {}
        if further is not None:
            tokens = min(pair.reference.n_tokens, round(pair.samples.n_tokens * n / total))
            given = further, n, tokens, drawn, seed, shares
            baselines = human_baselines.smaller_baselines(*given) | by_length[n]
        records += _records(n, found[n], baselines)
    whole = {row.key: Baseline(row.baseline, row.baseline_low, row.baseline_high) for row in rows}
    records += _records(total, [row for row in rows if row.tendency != JUDGE], whole)
    return pa.Table.from_pylist([{**record, "source": source} for record in records], SAMPLE_SIZE)

"""How many documents a conclusion needs: every measure against the number of documents.

Random subsets of the samples, drawn without replacement, are measured and tested against the whole
reference as all samples are. Rows of schema ``sample_size``, one for each measure of `measures` and
each number n of documents: `value` is the mean over the subsets, `low` to `high` their 5th to 95th
percentile; `p_value` is the median of the permutation tests against the reference, `p_low` to
`p_high` likewise. The last n is that of all samples, with the values of the table of measures and a
band of no width. Subsets overlap, the more the closer they come to all samples: there the band is
narrower than that of independent samples of n documents. `floor`, with `floor_low` and
`floor_high`, says how far n documents of further human text are from the reference (see
`human_baselines`): what is not above it at n says nothing.

Documents are read once, by `pairs.paired`, for all of this and for the table of measures.
"""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa

from beyond_perplexity.inference.halves import Floor
from beyond_perplexity.random_streams import stream_key
from beyond_perplexity.schemas.tendencies import SAMPLE_SIZE
from beyond_perplexity.tendencies.definitions import MeasureKey, MeasureRow
from beyond_perplexity.tendencies.human_baselines import smaller_floors
from beyond_perplexity.tendencies.measures import measure_rows
from beyond_perplexity.tendencies.options import MeasurementOptions, SampleSizeOptions
from beyond_perplexity.tendencies.pairs import BodyPair, subset

BAND_LEVELS = (0.05, 0.95)
_UNKNOWN = Floor(math.nan, math.nan, math.nan)


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
    n: int, rows: Iterable[MeasureRow], floors: Mapping[MeasureKey, Floor]
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
        floor = floors.get(key, _UNKNOWN)
        numbers |= {"floor": floor.mean, "floor_low": floor.low, "floor_high": floor.high}
        found = {name: None if math.isnan(x) else x for name, x in numbers.items()}
        names = {"tendency": key[0], "measure": key[1], "n": n, "subsets": len(drawn)}
        records.append({**names, **found})
    return records


def sample_sizes(
    pair: BodyPair,
    rows: Sequence[MeasureRow],
    options: MeasurementOptions,
    how: SampleSizeOptions,
    seed: int,
    source: str,
    further: BodyPair | None = None,
) -> pa.Table:
    """Measure random subsets of the samples: schema ``sample_size``, n increasing.

    `rows` of all samples are the last point of the curves. Subset s of n documents draws from
    streams keyed by the seed, s and n. Without the reference beside `further` human text no floor
    of fewer documents is known.
    """
    total = pair.samples.n_documents
    sizes = sizes_below(total, how)
    drawn = dataclasses.replace(options, permutations=how.permutations, bootstrap=0, monte_carlo=0)
    found: dict[int, list[MeasureRow]] = defaultdict(list)
    if pair.defined:
        for number in range(how.subsets):
            for place, n in enumerate(sizes):
                own_seed = stream_key(seed, f"sample_size/{number}/{n}")
                with subset(pair, sizes, place, number, seed) as part:
                    found[n] += measure_rows(part, drawn, own_seed)
    records = []
    for n in sizes:
        floors: Mapping[MeasureKey, Floor] = {}
        if further is not None:
            tokens = min(pair.reference.n_tokens, round(pair.samples.n_tokens * n / total))
            floors = smaller_floors(further, n, tokens, drawn, seed)
        records += _records(n, found[n], floors)
    whole = {row.key: Floor(row.floor, row.floor_low, row.floor_high) for row in rows}
    records += _records(total, rows, whole)
    return pa.Table.from_pylist([{**record, "source": source} for record in records], SAMPLE_SIZE)

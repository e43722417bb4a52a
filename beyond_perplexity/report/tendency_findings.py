"""What was found of generated text, for the first page: how far it is, what tests can detect."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from beyond_perplexity.corpus.formats import SENTENCES
from beyond_perplexity.figures import numbers
from beyond_perplexity.figures.labels import Labels
from beyond_perplexity.figures.measure_names import Descriptions, parts_by
from beyond_perplexity.foreign_text import escape_rst
from beyond_perplexity.inference.halves import paired_differences
from beyond_perplexity.report.measured import TEXT_SHARES
from beyond_perplexity.tendencies.definitions import TENDENCIES, TEXT, family_of
from beyond_perplexity.verdicts import CANNOT_TELL, DIFFERS, WITHOUT_VERDICT

SCOPES_OF_UNITS = {
    "document": (
        "documents (of Wikipedia: paragraphs) were shuffled before they were split, as in the "
        "paper: the distribution is that of the documents of *these* pages, and perplexity is "
        "in-topic, of documents whose neighbours may stand in the training text"
    ),
    "page": "whole pages were kept apart: the distribution is that of the text of new pages",
    "given": "the source comes in splits of its own: the distribution is that of its test split",
}
# Units of shifts that a cell needs, and how it says them.
SHIFTED = {"tokens": "tokens", "Zipf's s": "of Zipf's s"}
_LEVEL = 0.05
_NAMED = 3  # sample sets that a cell names
Cells = list[list[str]]
_Rows = Sequence[Mapping[Any, Any]]


class Compared(NamedTuple):
    """A corpus, the unit of its splits (of `SCOPES_OF_UNITS`, or unknown), and what is compared."""

    name: str
    unit: str
    measures: pd.DataFrame
    sensitivity: pd.DataFrame | None = None


def by_corpus(
    corpora: Mapping[str, Sequence[str]],
    extractions: Descriptions,
    measures: pd.DataFrame | None,
    sensitivities: Sequence[pd.DataFrame],
) -> list[Compared]:
    """Put together what is known of each corpus, whose sensitivities are in its order."""
    if measures is None:
        return []
    tables = dict(zip(corpora, sensitivities, strict=False))
    found = []
    for name, sources in corpora.items():
        report = extractions[name if name in extractions else name.removesuffix(SENTENCES)]
        unit = report.get("split", {}).get("unit", "")
        own = measures[measures["source"].isin(sources)]
        if len(own):
            found.append(Compared(name, str(unit), own, tables.get(name)))
    return found


def sample_set_name(source: object) -> str:
    """Write the name of a sample set as the first page has it: model and decoding."""
    return escape_rst(Labels().source(str(source)))


class Standing(NamedTuple):
    """A sample set: distances with a star, of how many, largest excess and its tendency."""

    source: str
    stars: int
    distances: int
    excess: float
    tendency: str

    def starred(self) -> str:
        """Say how many distances are significant."""
        return f"{self.stars} of {self.distances}"

    def largest(self) -> str:
        """Say where the excess is largest, and how large it is."""
        if math.isnan(self.excess):
            return "—"
        return f"{numbers.shown_signed(self.excess, 2)} {TENDENCIES[self.tendency].noun}"


def standings(measures: pd.DataFrame) -> list[Standing]:
    """Count what is significant of each sample set, in the order of first appearance."""
    found, held = [], parts_by(numbers.effect_table(measures), "source")
    for source in dict.fromkeys(measures["source"]):
        rows = held[source].to_dict("records") if source in held else []
        known = [row for row in rows if not math.isnan(row["excess"])]
        most = max(known, key=lambda row: row["excess"], default=None)
        stars = sum(numbers.verdict(row) == DIFFERS for row in rows)
        excess, name = (most["excess"], most["tendency"]) if most else (math.nan, "")
        found.append(Standing(str(source), stars, len(rows), float(excess), str(name)))
    return found


class Nearness(NamedTuple):
    """Sample sets in a distance: which no paired test puts behind another, the last one, and how
    far its excess is above the least, with an interval of all pairs at once."""

    tendency: str
    sources: list[str]
    nearest: list[str]
    last: str
    difference: float
    low: float
    high: float


def nearness(measures: pd.DataFrame) -> list[Nearness]:
    """Compare sample sets of one size with one another in each distance; adjusted for all."""
    table = numbers.effect_table(measures)
    table = table[table["halves"].notna() & table["excess"].notna()]
    table = table[table["n_samples"].isin(table["n_samples"].mode()[:1])]
    held = {name: rows for name, rows in parts_by(table, "tendency").items() if len(rows) > 1}
    families = Counter(map(family_of, held))
    found = []
    for name, rows in held.items():
        halves, sources = np.stack(rows["halves"].tolist()), rows["source"].tolist()
        groups = rows["groups_reference"].min()
        df = min(halves.shape[1], math.inf if pd.isna(groups) else groups) - 1
        excess = rows["excess"].to_numpy(float)
        differences, widths, p_values = paired_differences(
            excess, halves, df, families[family_of(name)]
        )
        behind = np.any((differences > 0) & (p_values <= _LEVEL), axis=1)
        first, last = int(np.argmin(excess)), int(np.argmax(excess))
        apart, width = float(differences[last, first]), float(widths[last, first])
        nearest = [sources[place] for place in np.flatnonzero(~behind)]
        limits = apart, apart - width, apart + width
        found.append(Nearness(name, sources, nearest, sources[last], *limits))
    return found


def _named(sources: Sequence[str]) -> str:
    more = f" and {len(sources) - _NAMED} more" if len(sources) > _NAMED else ""
    return ", ".join(f"*{sample_set_name(source)}*" for source in sources[:_NAMED]) + more


def nearest_sentence(measures: pd.DataFrame) -> str:
    """Say which sample sets are behind another one least often; empty where none are compared."""
    found = nearness(measures)
    times = {source: 0 for one in found for source in one.sources}
    for source in (source for one in found for source in {*one.sources} - {*one.nearest}):
        times[source] += 1
    said = [
        f"in {count}: {_named([source for source, own in times.items() if own == count])}"
        for count in sorted({min(times.values()), max(times.values())} if times else [])
    ]
    return (
        f"**Generated text:** {len(times)} sample sets were compared with one another in "
        f"{len(found)} distances to human text (paired differences of the excess over the human "
        f"baseline, adjusted for all). Behind another one {'; '.join(said)}."
    ) * bool(said)


# ---- tables ----


def nearest_table(measures: pd.DataFrame) -> Cells:
    """Lay out by the distance which sample sets are behind no other one, and the last one."""
    header = ["Distance", "behind no other sample set", "last", "its excess above the least one"]
    rows = [
        [
            TENDENCIES[one.tendency].noun,
            _named(one.nearest),
            _named([one.last]),
            f"{numbers.shown_signed(one.difference)} {numbers.shown_interval(one.low, one.high)}",
        ]
        for one in nearness(measures)
    ]
    return [header, *rows]


def _shares(rows: pd.DataFrame, ending: str = "") -> list[str]:
    text = rows[rows["tendency"] == TEXT]
    shares = [text[text["measure"] == f"{name}{ending}"]["value"] for name in TEXT_SHARES]
    return [numbers.shown_range(share, numbers.shown_share) or "—" for share in shares]


def main_table(measures: pd.DataFrame) -> Cells:
    """Lay out human text, by vocabulary, then the sample sets: stars, largest excess, shares."""
    header = ["Sample set", "stars", "largest excess", *TEXT_SHARES.values()]
    humans = [
        [escape_rst(f"Human text ({name})"), "—", "—", *_shares(own, "_reference")]
        for name, own in parts_by(measures, "vocabulary").items()
    ]
    sample_sets = parts_by(measures, "source")
    sample_set = [
        [
            sample_set_name(one.source),
            one.starred(),
            one.largest(),
            *_shares(sample_sets[one.source]),
        ]
        for one in standings(measures)
    ]
    return [header, *humans, *sample_set]


def _standing_out(row: Mapping[Any, Any]) -> float:
    """Measure an excess by the upper half of the baseline's band; NaN without a baseline."""
    width = row["baseline_high"] - row["baseline"]
    if width == 0:
        return math.inf if row["excess"] > 0 else math.nan
    return float(row["excess"] / width)


def _most(rows: _Rows) -> Mapping[Any, Any] | None:
    """Find the distance that stands out most; None without a baseline."""
    with_baseline = [row for row in rows if not math.isnan(_standing_out(row))]
    return max(with_baseline, key=lambda row: (_standing_out(row), row["excess"]), default=None)


def _farthest(rows: _Rows) -> list[str]:
    """Write the distance that stands out most: its sample set, value, baseline and band."""
    most = _most(rows)
    if most is None:
        return ["—", "—", "—"]
    distance = numbers.shown(most["value"]) + escape_rst(numbers.verdict_mark(most))
    band = f"{numbers.shown(most['baseline_low'])} to {numbers.shown(most['baseline_high'])}"
    return [
        sample_set_name(most["source"]),
        distance,
        f"{numbers.shown(most['baseline'])} ({band})",
    ]


def _counts(rows: _Rows) -> list[str]:
    above = sum(numbers.beyond_baseline(row) > 0 for row in rows)
    said = [numbers.verdict(row) for row in rows]
    without = said.count(WITHOUT_VERDICT) + said.count(CANNOT_TELL)
    counts = above, said.count(DIFFERS), without
    return [f"{count} of {len(rows)}" for count in counts]


def _told_size(compared: Compared) -> tuple[int, int]:
    """Return the documents that are compared, and the number nearest to it that was simulated."""
    least = int(min(compared.measures[name].max() for name in ("n_samples", "n_reference")))
    held = compared.sensitivity
    sizes = sorted(set(held["n"])) if held is not None else []
    return least, max((n for n in sizes if n <= least), default=sizes[0] if sizes else 0)


def _shift(row: Mapping[Any, Any]) -> str:
    if pd.isna(row["minimum_detectable_effect"]):
        return "none"
    unit = f" {SHIFTED[row['unit']]}" if row["unit"] in SHIFTED else ""
    relative = "" if pd.isna(row["relative"]) else f" ({100 * row['relative']:.2g}%)"
    power = f", power {numbers.shown(row['power_reached'], 2)}"
    return f"{numbers.shown(row['minimum_detectable_effect'])}{unit}{relative}{power}"


def tendency_table(compared: Compared) -> Cells:
    """Lay out what differs most in each tendency, the baseline, and the detectable effect."""
    rows: list[dict[Any, Any]] = numbers.effect_table(compared.measures).to_dict("records")
    header = ["Tendency", "human text from itself", "minimum detectable effect"]
    header += ["farthest sample set"]
    header += ["its distance", "human text of its size (95% of its random splits)"]
    header += ["above that band", "with a star", "without verdict"]
    size, found = _told_size(compared)[1], [header]
    for name, row in TENDENCIES.items():
        own = [one for one in rows if one["tendency"] == name]
        if not own:
            continue
        shifts: list[str] = []
        if (held := compared.sensitivity) is not None:
            same = (held["n"] == size) & (held["tendency"] == name)
            same &= held["measure"] == row.distance
            shifts = [_shift(one) for one in held[same].to_dict("records")]
        baseline = numbers.shown_range(one["baseline"] for one in own) or "—"
        cells = [f"{row.noun} ({row.distance_name})", baseline, ", ".join(shifts) or "—"]
        found.append([*cells, *_farthest(own), *_counts(own)])
    most = _most(rows)
    where = f"all; most in {TENDENCIES[most['tendency']].noun}" if most else "all"
    return [*found, [where, "—", "—", *_farthest(rows), *_counts(rows)]]


def power_line(compared: Compared) -> str:
    """Say what the minimum detectable effects of a corpus are of: documents, level and power."""
    documents, size = _told_size(compared)
    held = compared.sensitivity
    if held is None or held.empty:
        return "How small a difference these tests can find was not measured."
    level, power = held[["level", "power"]].iloc[0]
    fewer = ", which find less" if size > documents else ""
    return (
        f"Minimum detectable effect: what a test finds at p < {level:g} in {100 * power:g}% of the "
        f"cases with {size:,} documents in each text (compared were {documents:,}{fewer}) in one "
        "half of the human text, and the power that it reaches in the other; anything smaller may "
        "be there and have no star."
    )


def shares_table(measures: pd.DataFrame) -> Cells:
    """Lay out the largest shares of unknown words, unfinished, repeated and copied text."""
    found = [["Share of the text", "largest", "of", "human text"]]
    text = measures[measures["tendency"] == TEXT]
    for measure, title in TEXT_SHARES.items():
        own = text[text["measure"] == measure].dropna(subset="value")
        if own.empty:
            continue
        worst = own.sort_values("value", ascending=False, kind="stable").to_dict("records")[0]
        human = text[text["measure"] == f"{measure}_reference"]["value"]
        beside = numbers.shown_range(human, numbers.shown_share) or "—"
        found.append(
            [title, numbers.shown_share(worst["value"]), sample_set_name(worst["source"]), beside]
        )
    return found

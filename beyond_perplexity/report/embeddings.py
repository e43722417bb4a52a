"""The table of the distances of texts in the space of an encoder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pandas as pd

from beyond_perplexity.errors import NothingToShowError
from beyond_perplexity.figures.labels import Labels, parse_source
from beyond_perplexity.figures.numbers import (
    STAR_NOTE,
    shown,
    shown_interval,
    shown_p,
    shown_share,
    shown_signed,
)
from beyond_perplexity.figures.verdicts import (
    WITHHELD,
    reason_withheld,
    too_few_permutations,
    verdict_mark,
)
from beyond_perplexity.report.layout import Column, Table
from beyond_perplexity.tendencies.definitions import EMBEDDING

_NOTE = (
    "MMD: maximum mean discrepancy of the vectors that an encoder makes of some random documents, "
    "with a Gaussian kernel as wide as the median distance of further human documents; 0 for one "
    "law, 1.41 at most. Floor: human text against as much other human text. Limits: of the "
    "distance of endless texts, each one-sided; the distance itself is too large for few "
    "documents, and can lie above both. Unbiased: an estimate of the squared MMD of endless texts, "
    "whatever the number of documents; it may be negative. Smallest shift: the share of documents "
    "of one topic that this test finds at the level and power of the table of sensitivity. Cut: "
    "documents of which the encoder reads the beginning alone. Unknown words are left out."
)


_OTHERS: tuple[tuple[str, Callable[[Any], str]], ...] = (
    ("squared_mmd", partial(shown, digits=4)),
    ("smallest_shift", shown_share),
    ("embedded", partial(shown, digits=0)),
    ("cut", shown_share),
)


def _distance_cells(row: Mapping[Any, Any]) -> list[str]:
    return [
        shown(row["value"]) + verdict_mark(row),
        shown(row["floor"]),
        shown_signed(row["excess"]),
        shown_interval(row["low"], row["high"]),
        shown_p(row["p_adjusted"]),
    ]


def embeddings_table(measures: pd.DataFrame, labels: Labels) -> Table:
    """Make the table of embeddings: a row per source."""
    rows = measures[measures["tendency"] == EMBEDDING]
    if rows.empty:
        raise NothingToShowError("embeddings: the measures have none of embedded documents")
    body, withheld = [], []
    for source in labels.sort_sources(rows["source"]):
        own = rows[rows["source"] == source]
        found = {row["measure"]: row for row in own.to_dict("records")}
        model, decoding = parse_source(source)
        distance = found["mmd"]
        names = [labels.model(model), labels.decoding(decoding), str(distance["vocabulary"] or "")]
        cells = [*names, *_distance_cells(distance)]
        for name, write in _OTHERS:
            ends = ("_reference", "") if name in ("embedded", "cut") else ("",)
            values = [found.get(f"{name}{end}", {}).get("value") for end in ends]
            cells.append(" / ".join("" if value is None else write(value) for value in values))
        body.append(cells)
        withheld.append(reason_withheld(distance))
    heads = [Column(name, text=True) for name in ("Model", "Decoding", "Read in")]
    heads += [
        Column(name)
        for name in ("MMD", "Floor", "Excess", "95% limits", "Adjusted p", "Unbiased square")
    ]
    heads += [Column("Smallest shift"), Column("Documents"), Column("Cut")]
    reasons = "; ".join(dict.fromkeys(filter(None, withheld)))
    few = too_few_permutations(rows.to_dict("records"))
    note = " ".join(
        filter(None, [_NOTE, f"{STAR_NOTE}.", few and f"{few}.", reasons and _withheld(reasons)])
    )
    title = "Distances of the documents' vectors"
    return Table("embeddings", title, note, heads, body, rows)


def _withheld(reasons: str) -> str:
    return f"{WITHHELD} No verdict: {reasons}."

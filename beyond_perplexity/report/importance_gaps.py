"""What bidirectional Monte Carlo finds on simulated documents, laid out."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import pandas as pd

from beyond_perplexity.errors import NothingToShowError
from beyond_perplexity.figures.labels import Labels
from beyond_perplexity.importance.bidirectional_gaps import GapRange, gap_ranges
from beyond_perplexity.importance.ways_to_draw import find_estimator
from beyond_perplexity.report.layout import Column, Table

_COLUMNS = (
    *(Column(title, text=True) for title in ("Model", "Proposal", "τ", "Method")),
    Column("K"),
    Column("Documents"),
    Column("at least", group="Cross-entropy"),
    Column("at most", group="Cross-entropy"),
    Column("gap", group="Cross-entropy"),
    Column("at least", group="It lacks"),
    Column("at most", group="It lacks"),
    Column("Effective samples"),
    Column("Bracket", text=True),
    Column("Label", text=True),
    Column("The bracket", text=True),
)


def gaps_report(gaps: pd.DataFrame, labels: Labels) -> Table:
    """Lay out log p of simulated documents from both sides, for every setting."""
    held = gaps[gaps["forward"].notna()]
    if held.empty:
        raise NothingToShowError(
            "there are no gaps: every simulated document was cut at "
            "importance.bidirectional.maximum_words; raise it"
        )
    rows = held.to_dict("records")
    ranges = gap_ranges(rows)
    missed = int(held["n_missed"].sum())
    support = (
        f"Proposals gave q = 0 to the latents of {missed} documents, which no sample can find. "
        if missed
        else "No proposal gave q = 0 to the latents of a document. "
    )
    kept = set(held["model"])
    empty = ", ".join(str(name) for name in dict.fromkeys(gaps["model"]) if name not in kept)
    return Table(
        "importance-gaps",
        "Gaps on documents that the models generated (bidirectional Monte Carlo)",
        "Nats per token. Cross-entropy at most: from log p̂ of draws; at least: from draws among "
        "which are the latents that the document was generated with, a draw from the posterior; in "
        "expectation the true value is between both. Gap: their difference ± its standard error "
        "over documents. It lacks: by how much the first may be off, against the best estimates of "
        "the model from above and from below, chosen by their own numbers. Bracket: made of the "
        "draws alone, as on real documents; the last column says what the others show of it. "
        f"{support}Behind /: documents that were empty, or cut at "
        "importance.bidirectional.maximum_words, and do not count."
        + (f" Every document of {empty} was cut or empty." if empty else ""),
        _COLUMNS,
        [_cells(row, beside) for row, beside in zip(rows, ranges, strict=True)],
        held.assign(
            lacks_least=[one.least for one in ranges], lacks_most=[one.most for one in ranges]
        ),
    )


def _cells(row: Mapping[Hashable, Any], beside: GapRange) -> list[str]:
    def shown(value: float) -> str:
        if pd.isna(value) or value == -float("inf"):
            return "–"
        return "∞" if value == float("inf") else f"{value:.3f}"

    runs = f" × {row['runs']:.0f}" if row["runs"] > 1 else ""
    cut = f"/{row['n_cut']:.0f}" if row["n_cut"] else ""
    bracketed = not (pd.isna(row["bracket_low"]) or pd.isna(row["bracket_bound"]))
    ends = (row["bracket_low"], row["bracket_high"])
    error = "" if pd.isna(row["gap_error"]) else f" ± {row['gap_error']:.3f}"
    return [
        str(row["model"]),
        str(row["proposal"]),
        f"{row['temperature']:g}",
        find_estimator(row["method"]).title,
        f"{row['n_samples']:,.0f}{runs}",
        f"{row['n_documents']:.0f}{cut}",
        shown(row["reverse"]),
        shown(row["forward"]),
        shown(row["gap"]) + error,
        shown(max(beside.least, 0.0)),
        shown(beside.most),
        "–" if pd.isna(row["ess_median"]) else f"{row['ess_median']:.1f}",
        " to ".join(map(shown, ends)) if bracketed else "–",
        str(row["bracket_bound"]) if bracketed else "–",
        beside.verdict(*ends) if bracketed else "–",
    ]

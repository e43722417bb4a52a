"""Where models differ, by parts of a text: a table, words for a terminal, and a page."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

import pandas as pd

from beyond_perplexity.figures import FIGURES, draw_figure
from beyond_perplexity.figures.labels import Labels
from beyond_perplexity.figures.numbers import STAR_NOTE, shown_p, shown_share, shown_signed, stars
from beyond_perplexity.report import layout
from beyond_perplexity.report.bits_per_byte import differences_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_TEXTS = layout.texts_beside("difference_parts.toml", star_note=STAR_NOTE)
_NOTE = _TEXTS["note"]
_AGREEMENT_NOTE = _TEXTS["agreement_note"]
_DIGITS = 4


def _limits(low: float, high: float) -> str:
    return "" if pd.isna(low) else f"[{shown_signed(low, _DIGITS)}, {shown_signed(high, _DIGITS)}]"


def difference_parts_table(parts: pd.DataFrame, labels: Labels) -> layout.Table:
    """Make the table of the parts of differences: a row a part, the whole first."""
    whole = parts.groupby(["first", "second"])["bytes"].transform("max")
    held = parts.assign(share=parts["bytes"] / whole).to_dict("records")
    signed = partial(shown_signed, digits=_DIGITS)
    columns = [
        *layout.text_columns("Model", of="first", form=labels.model),
        *layout.text_columns("less model", of="second", form=labels.model),
        *layout.text_columns("Split", "Part"),
        layout.Column("Bytes", of="share", form=shown_share),
        *layout.under(
            "adds to the whole",
            layout.Column(
                "bits per byte", of=lambda row: signed(row["value"]) + stars(row["p_adjusted"])
            ),
            layout.Column("95% interval", of=("low", "high"), form=_limits),
            layout.Column("p adjusted", of="p_adjusted", form=shown_p),
        ),
        *layout.under(
            "there",
            layout.Column("difference", of="within", form=signed),
            layout.Column("95% interval there", of=("within_low", "within_high"), form=_limits),
        ),
        *layout.text_columns("Note", form=lambda text: text or ""),
    ]
    rows = layout.without_repeats(held, "first", "second", "split")
    title = "Where models differ, in bits per byte"
    return layout.lay_out("perplexity_parts", title, _NOTE, columns, rows, parts)


def agreement_table(agreement: pd.DataFrame, labels: Labels) -> layout.Table:
    """Make the table of how far two models of one vocabulary agree."""
    columns = [
        *layout.text_columns("First", "Second", form=labels.model),
        *layout.text_columns("Measure"),
        layout.Column("Value", form=".3f"),
        layout.interval_column(),
        layout.Column("Tokens", form=","),
        *layout.text_columns("Note", form=lambda text: text or ""),
    ]
    return layout.lay_out("agreement", "How far they agree", _AGREEMENT_NOTE, columns, agreement)


_MAKERS: Mapping[str, Any] = {
    "perplexity_differences": differences_table,
    "perplexity_parts": difference_parts_table,
    "perplexity_agreement": agreement_table,
}


def describe_parts(frames: Mapping[str, pd.DataFrame], labels: Labels) -> str:
    """Say for a terminal where models differ, and how far they agree where that is known."""
    said = []
    for name in [name for name in _MAKERS if name in frames][1:]:
        table = _MAKERS[name](frames[name], labels)
        kept = [k for k in range(len(table.columns)) if any(row[k] for row in table.rows)]
        said.append(
            f"{table.title}\n\n{layout.to_text(table.chosen(kept))}\n\n{fill(table.note, 100)}"
        )
    return "\n\n".join(said)


def draw_difference(name: str, frames: Mapping[str, pd.DataFrame], labels: Labels) -> Figure:
    """Draw a figure of the differences of models; see `figures.draw_figure`."""
    return draw_figure(f"tendencies/{name}", frames, labels)


def write_difference(
    out: Path,
    frames: Mapping[str, pd.DataFrame],
    figures: Sequence[str],
    labels: Labels,
    signature: str,
) -> str:
    """Write ``difference.html``, figures and tables to a folder, all drawn first; say where."""
    files = layout.drawn_files({name: draw_difference(name, frames, labels) for name in figures})
    page = layout.render(
        "templates/difference.html",
        title="Where models differ",
        tables=[
            layout.to_html_table(make(frames[name], labels))
            for name, make in _MAKERS.items()
            if name in frames
        ],
        figures=[
            (FIGURES[f"tendencies/{name}"].title, base64.b64encode(files[f"{name}.svg"]).decode())
            for name in figures
        ],
        signature=signature,
    )
    files |= {f"{name}.csv": layout.csv_text(frame).encode() for name, frame in frames.items()}
    files["difference.html"] = layout.html_page("Where models differ", page).encode()
    layout.write_files(out, files)
    return f"\n\nOpen {out / 'difference.html'}; in full precision: {out / 'perplexity_parts.csv'}"

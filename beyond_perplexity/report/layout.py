"""A table of rows, and of columns that show something of each, as HTML, plain text and CSV."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pandas as pd

from beyond_perplexity.figures.numbers import shown_interval
from beyond_perplexity.foreign_text import printable, safe_cell
from beyond_perplexity.storage.outputs import atomic_path

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PUBLISHED_COLUMN = "published"
NOTHING_COLUMN = "nothing_to_show"  # the only one where there is nothing, with the reason
EN_DASH = "–"


@dataclass(frozen=True)
class Column:
    """A column of a table."""

    title: str  # Its own heading
    group: str = ""  # Heading over it and its neighbours of the same group; empty for none
    text: bool = False  # Whether it holds text (left) rather than numbers (right)
    published: bool = False  # Whether its values are the paper's and not this run's
    wraps: bool = False  # Whether it holds passages, which are broken into lines
    # What it holds of a row: a key of it (the title in small letters, where none is given), several
    # keys, or a function
    of: str | tuple[str, ...] | Callable[..., Any] = ""
    # How that is written: a function, or a format, with which an unknown number is `EN_DASH`
    form: str | Callable[..., Any] = str

    def cell(self, row: Any) -> str:
        """Write what the column shows of a row."""
        of = self.of or self.title.lower()
        if isinstance(of, tuple):
            values = [row[key] for key in of]
        else:
            values = [of(row) if callable(of) else row[of]]
        if callable(self.form):
            return str(self.form(*values))
        return EN_DASH if pd.isna(values[0]) else format(values[0], self.form)


def under(group: str, *columns: Column) -> list[Column]:
    """Put columns under one heading."""
    return [replace(column, group=group) for column in columns]


def text_columns(*titles: str, **more: Any) -> list[Column]:
    """Make columns of texts."""
    return [Column(title, text=True, **more) for title in titles]


def interval_column(title: str = "95% interval", group: str = "", of: str = "") -> Column:
    """Make the column of the limits of a number, whose keys end in ``low`` and ``high``."""
    return Column(title, group, of=(f"{of}low", f"{of}high"), form=shown_interval)


@dataclass(frozen=True)
class Table:
    """A table in full precision and as it is shown."""

    name: str  # Short name, fit for a LaTeX label
    title: str  # One line
    note: str  # What the columns mean, in plain words
    columns: Sequence[Column]  # The columns that are shown
    rows: Sequence[Sequence[str]]  # Rounded cells, as many in each row as there are columns
    # Every number in full precision, one a row; columns of published values begin with
    # `PUBLISHED_COLUMN`
    tidy: pd.DataFrame
    published_note: str = ""  # What is said of the published values where they are shown
    marked: Sequence[int] = ()  # Rows that a page gives a colour

    def with_published(self) -> Table:
        """Say of the published values what they are."""
        return replace(self, note=f"{self.note} {self.published_note}".strip(), published_note="")

    def without_published(self) -> Table:
        """Leave the published values out; what a paper says in words stays."""
        kept = [place for place, one in enumerate(self.columns) if not one.published or one.wraps]
        names = [str(name) for name in self.tidy.columns]
        return replace(
            self.chosen(kept),
            tidy=self.tidy[[name for name in names if not name.startswith(PUBLISHED_COLUMN)]],
            published_note="",
        )

    def chosen(self, places: Sequence[int]) -> Table:
        """Take some of the columns."""
        return replace(
            self,
            columns=[self.columns[place] for place in places],
            rows=[[row[place] for place in places] for row in self.rows],
        )


def lay_out(
    name: str,
    title: str,
    note: str,
    columns: Sequence[Column],
    rows: pd.DataFrame | Iterable[Any],
    tidy: pd.DataFrame | None = None,
    **more: Any,
) -> Table:
    """Make a table of rows by what its columns show of them; `tidy` is the rows without it."""
    held = rows.to_dict("records") if isinstance(rows, pd.DataFrame) else list(rows)
    if tidy is None:
        tidy = rows if isinstance(rows, pd.DataFrame) else pd.DataFrame(held)
    cells = [[column.cell(row) for column in columns] for row in held]
    tidy = tidy.drop(columns="halves", errors="ignore")  # lists of numbers, of which a test is
    return Table(name, title, note, columns, cells, tidy, **more)


def without_repeats(rows: Iterable[dict[Any, Any]], *keys: str) -> list[dict[Any, Any]]:
    """Empty the texts of keys where a row has the same as the one before."""
    runs = groupby(rows, key=lambda row: [row[key] for key in keys])
    empty = dict.fromkeys(keys, "")
    return [row | empty if place else row for _, run in runs for place, row in enumerate(run)]


def said_once(said: Iterable[tuple[str, str]]) -> str:
    """Write each remark once, with the models that it is of."""
    found: dict[str, dict[str, None]] = {}
    for model, remark in said:
        found.setdefault(remark, {})[model] = None
    return " ".join(f"{', '.join(models)}: {remark}." for remark, models in found.items())


def texts_beside(name: str, **held: object) -> dict[str, str]:
    """Read the texts of a module's tables, in which names in braces stand for what is `held`."""
    texts = tomllib.loads(Path(__file__).with_name(name).read_text(encoding="utf-8"))
    return {key: text.format(**held) for key, text in texts.items()}


def empty_table(name: str, title: str, reason: str) -> Table:
    """Make the table that stands where there is nothing to show, and says why."""
    column = Column("Nothing to show", wraps=True, of=NOTHING_COLUMN)
    return lay_out(name, title, "", [column], pd.DataFrame({NOTHING_COLUMN: [reason]}))


def neighbours(columns: Sequence[Column]) -> list[tuple[str, int]]:
    """List the headings of neighbouring columns with how many columns each spans."""
    runs = groupby(enumerate(columns), key=lambda pair: pair[1].group or pair[0])
    return [(name if isinstance(name, str) else "", len(list(run))) for name, run in runs]


@cache
def _templates(markup: bool) -> Any:
    """Open the folder of templates; with markup every value is escaped that is none itself."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # late: start-up

    return Environment(
        loader=FileSystemLoader(Path(__file__).with_name("templates")),
        autoescape=markup,
        finalize=(lambda value: printable(value) if type(value) is str else value)
        if markup
        else None,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def render(template: str, **given: Any) -> str:
    """Fill a template of this package: of HTML with text that is escaped, of others as it is."""
    folder = _templates(template.endswith(".html"))
    return str(folder.get_template(Path(template).name).render(**given))


def to_html_table(table: Table) -> str:
    """Write a table as an HTML ``table`` element with its caption."""
    return render("templates/table.html", table=table, groups=neighbours(table.columns))


def html_page(title: str, body: str) -> str:
    """Wrap a body, which is markup, into a page that needs no other file."""
    return render("templates/page.html", title=title, body=body)


def to_text(table: Table) -> str:
    """Write a table as aligned plain text, for a terminal; headings of groups are left out."""
    rows = [[column.title for column in table.columns]]
    rows += [[printable(cell) for cell in row] for row in table.rows]
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    rows.insert(1, ["-" * width for width in widths])
    sides = ["<" if column.text or column.wraps else ">" for column in table.columns]
    return "\n".join(
        "  ".join(
            f"{cell:{side}{width}}" for cell, side, width in zip(row, sides, widths, strict=True)
        ).rstrip()
        for row in rows
    )


def csv_text(frame: pd.DataFrame) -> str:
    """Write rows as CSV in full precision; no text of theirs is a formula to a spreadsheet."""
    texts = frame.select_dtypes(["object", "string", "category"]).columns
    safe = frame.assign(**{name: frame[name].map(safe_cell) for name in texts})
    return str(safe.rename(columns=safe_cell).to_csv(index=False, lineterminator="\n"))


def drawn_files(figures: Mapping[str, Figure]) -> dict[str, bytes]:
    """Draw figures as SVG and PDF: what their files hold, by name."""
    from beyond_perplexity.figures.style import save  # late: matplotlib

    with TemporaryDirectory(prefix="figures-") as folder:
        for name, figure in figures.items():
            save(figure, [Path(folder, f"{name}.{suffix}") for suffix in ("svg", "pdf")])
        return {path.name: path.read_bytes() for path in sorted(Path(folder).iterdir())}


def write_files(out: Path, files: Mapping[str, bytes]) -> None:
    """Write files to a folder, each whole or not at all."""
    for name, content in files.items():
        with atomic_path(out / name) as temporary:
            temporary.write_bytes(content)

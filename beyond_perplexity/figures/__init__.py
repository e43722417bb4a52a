"""One function per figure, by rows of ``figures.toml``: tidy tables in, a matplotlib figure out."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, NamedTuple

import pandas as pd

from beyond_perplexity.errors import InputError, NothingToShowError
from beyond_perplexity.figures.labels import Labels
from beyond_perplexity.foreign_text import drawable
from beyond_perplexity.tendencies.definitions import SHARES, tendencies_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from beyond_perplexity.options import Rows


class Exhibit(NamedTuple):
    """A table or figure of a paper: ``module:function``, which takes what files of `report.INPUTS`
    hold (optional ones may be none) and `Labels`; title and caption are reStructuredText."""

    code: str
    inputs: tuple[str, ...]
    title: str
    caption: str
    optional: tuple[str, ...] = ()
    published: str = ""

    @property
    def reference(self) -> str:
        """The function, as `storage.fingerprint` names a definition."""
        return f"beyond_perplexity.{self.code}"


def read_exhibits(file: Path) -> dict[str, Exhibit]:
    """Read rows of exhibits (TOML), whose captions may be explained by `words` of the same file."""
    rows = tomllib.loads(file.read_text(encoding="utf-8"))
    words = rows.pop("words")
    found = {}
    for name, row in rows.items():
        explained, published = (words.get(row.get(key)) for key in ("explained", "published"))
        found[name] = Exhibit(
            row["code"],
            tuple(row["inputs"]),
            row["title"],
            "\n\n".join(text.strip() for text in (row["caption"], explained) if text),
            tuple(row.get("optional", ())),
            f"\n\n{published.strip()}" if published else "",
        )
    return found


def make_exhibit(
    kind: str, rows: Mapping[str, Exhibit], name: str, given: Mapping[str, Any], labels: Labels
) -> Any:
    """Make a table or a figure by its name, a key of `rows`; `kind` is for the message."""
    if name not in rows:
        raise InputError(f"there is no {kind} '{name}'; choose one of {', '.join(rows)}")
    first = given[rows[name].inputs[0]]
    if isinstance(first, pd.DataFrame) and first.empty:
        raise NothingToShowError(f"the files of '{rows[name].inputs[0]}' have no row")
    make = resolve_name(rows[name].reference)
    shown, named = with_titles(given, labels)
    return make(*(shown[kind] for kind in rows[name].inputs), named)


MODEL, PROPOSAL = "model", "proposal"


def with_drawable_texts(given: Mapping[str, Any]) -> dict[str, Any]:
    """Replace what acts in texts of tables, such as escapes in names, for who saves a figure."""
    return {
        kind: held.assign(
            **{
                str(name): _drawable(column)
                for name, column in held.select_dtypes(["object", "str"]).items()
            }
        )
        if isinstance(held, pd.DataFrame)
        else held
        for kind, held in given.items()
    }


def _drawable(column: pd.Series) -> pd.Series:
    texts = {one for one in column if isinstance(one, str)}  # few names in many rows
    found = {one: shown for one in texts if (shown := drawable(one)) != one}
    if not found:
        return column
    return column.map(lambda one: found.get(one, one) if isinstance(one, str) else one)


def with_titles(given: Mapping[str, Any], labels: Labels) -> tuple[dict[str, Any], Labels]:
    """Put titles for the names of models and proposals, in tables, lists of objects and labels."""
    if not labels.titles:
        return dict(given), labels
    families, data = (
        {labels.titles.get(name, name): value for name, value in held.items()}
        for held in (labels.families, labels.data)
    )
    shown = {kind: _titled(held, labels.titles) for kind, held in given.items()}
    return shown, replace(labels, families=families, data=data)


def _titled(held: Any, titles: Mapping[str, str]) -> Any:
    if isinstance(held, pd.DataFrame):
        columns = [name for name in (MODEL, PROPOSAL) if name in held]
        return held.assign(
            **{name: held[name].map(lambda value: titles.get(value, value)) for name in columns}
        )
    if isinstance(held, list):
        return [
            {**one, MODEL: titles.get(one[MODEL], one[MODEL])} if MODEL in one else one
            for one in held
        ]
    return held


def without_titles(tidy: pd.DataFrame, given: Mapping[str, Any], labels: Labels) -> pd.DataFrame:
    """Put the names that stood together in `given` back into a table that was made of titles."""
    if not labels.titles or MODEL not in tidy:
        return tidy
    titles = labels.titles
    models = {titles.get(name, name): name for name in titles}
    named = tidy.assign(**{MODEL: tidy[MODEL].map(lambda title: models.get(title, title))})
    if PROPOSAL not in tidy:
        return named
    pairs = {
        (model, titles.get(proposal, proposal)): proposal
        for held in given.values()
        if isinstance(held, pd.DataFrame) and {MODEL, PROPOSAL} <= set(held.columns)
        for model, proposal in set(zip(held[MODEL], held[PROPOSAL], strict=True))
    }
    keys = zip(named[MODEL], named[PROPOSAL], strict=True)
    return named.assign(**{PROPOSAL: [pairs.get(key, key[1]) for key in keys]})


def with_data(tidy: pd.DataFrame, labels: Labels) -> pd.DataFrame:
    """Add column ``data``, where it is known: what each model is evaluated on, and its caps."""
    names = tidy.get(MODEL, tidy.get("source"))
    if names is None or "data" in tidy:
        return tidy
    found = names.map(lambda name: labels.data.get(str(name).partition("/")[0]))
    return tidy.assign(data=found) if found.notna().any() else tidy


FIGURES: Rows[Exhibit] = {
    **read_exhibits(Path(__file__).with_name("figures.toml")),
    **{
        f"tendencies/{row.figure}": Exhibit(
            f"figures.curves:{name}",
            ("curves",),
            f"Share of {row.noun}",
            f"Share of {row.noun}{row.note and f', that is {row.note},'} in a document.",
        )
        for name, row in SHARES.items()
    },
    **{
        f"tendencies/{row.figure}": Exhibit(
            f"figures.curves:{name}",
            ("curves",),
            row.title,
            f"{row.caption} Means of documents cut to one size, with a 95% band of the test set's.",
        )
        for name, row in tendencies_of("curve").items()
        if row.figure
    },
}


def draw_figure(name: str, given: Mapping[str, Any], labels: Labels) -> Figure:
    """Draw the figure of a name, a key of `FIGURES`, of what files of each kind hold."""
    kinds = FIGURES[name].inputs if name in FIGURES else ()
    held = with_drawable_texts({kind: given[kind] for kind in kinds})
    figure: Figure = make_exhibit("figure", FIGURES, name, held, labels)
    return figure

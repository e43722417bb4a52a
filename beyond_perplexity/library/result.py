"""What every function of the library returns: a table, figures, JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from datetime import date
from functools import cached_property
from typing import TYPE_CHECKING, Any

from beyond_perplexity import __version__
from beyond_perplexity.errors import InputError
from beyond_perplexity.foreign_text import drawable, escape_html

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

_SHOWN_ROWS, _SHOWN_LINES = 20, 60  # in a notebook, of the table and of the text


class Result:
    """The result of a function of the library.

    Tables, of pandas or Arrow, and the text may be callables, which make them when they are first
    asked for; figures are. None is a lambda or local: results go from process to process.

    Attributes
    ----------
    name : str
        The function.
    summary : dict
        Single numbers and what they are of; JSON-safe. Its ``signature``, where there is one, says
        in a line for papers how the result was made; see `beyond_perplexity.signature`.
    sound : bool
        Whether nothing fails, as a check of `audit` may.
    files : list of dict
        Of each file or argument that was read: how much was read, left out by reason, and used;
        see `storage.accounts.Account.to_json`.
    """

    sound = True

    def __init__(
        self,
        name: str,
        table: Any,
        *,
        text: str | Callable[[], str] = "",
        summary: Mapping[str, Any] | None = None,
        tables: Mapping[str, Any] | None = None,
        figures: Mapping[str, Callable[[], Figure]] | None = None,
    ) -> None:
        self.name, self._text = name, text
        self.summary = dict(summary or {})
        self.files: list[dict[str, Any]] = []
        self._table = table
        self._tables, self._figures = dict(tables or {}), dict(figures or {})

    @cached_property
    def text(self) -> str:
        """The main table in words or rounded, as the command prints it, and then the signature."""
        signature = self.summary.get("signature")
        return str(_made(self._text)) + (f"\n\n{signature}" if signature else "")

    @property
    def table(self) -> pd.DataFrame:
        """The main table, in full precision; what is undefined is NaN or None. A copy."""
        return self._frame.copy()

    @cached_property
    def _frame(self) -> pd.DataFrame:
        return frame_of(_made(self._table))

    @property
    def tables(self) -> tuple[str, ...]:
        """The names of the further tables."""
        return tuple(self._tables)

    def table_of(self, name: str) -> pd.DataFrame:
        """Return a copy of one of the further `tables`.

        Raises
        ------
        InputError
            When there is none of the name.
        """
        held = _named(self._tables, name, "table")
        self._tables[name] = frame = frame_of(_made(held))
        return frame.copy()

    @property
    def figures(self) -> tuple[str, ...]:
        """The names of the figures."""
        return tuple(self._figures)

    def figure(self, name: str) -> Figure:
        """Draw one of the `figures`, which pyplot does not hold.

        Raises
        ------
        InputError
            When there is none of the name, or the data are too few for it.
        """
        figure: Figure = _named(self._figures, name, "figure")()
        return figure

    def to_json(self) -> str:
        """Return a JSON object: name, version, summary, files, and the rows of the main table.

        Numbers are in full precision; NaN and infinities, which JSON does not know, are null.
        """
        rows = self._frame.to_dict("records")
        held = {"summary": self.summary, "files": self.files, "table": rows}
        found = {"name": self.name, "version": __version__, **_json_safe(held)}
        text = json.dumps(found, ensure_ascii=False, allow_nan=False, indent=2)
        return text.encode("utf-8", "backslashreplace").decode()  # half a pair as JSON escapes it

    def __repr__(self) -> str:
        """Say what it is, and its text."""
        rows, columns = self._frame.shape
        offered = [f"{rows} rows of {columns} columns"]
        for kind, names in (("tables", self.tables), ("figures", self.figures)):
            offered += [f"{kind} {', '.join(names)}"] if names else []
        head = f"<beyond_perplexity.{self.name}: {'; '.join(offered)}>"
        lines = self.text.splitlines()
        more = [f"and {len(lines) - _SHOWN_LINES:,} lines more"] * (len(lines) > _SHOWN_LINES)
        return drawable("\n".join([head, *lines[:_SHOWN_LINES], *more]))

    def _repr_html_(self) -> str:
        """Return the beginning of the table for a notebook; no text of users is markup."""
        head = self._frame.head(_SHOWN_ROWS)
        cells = "".join(f"<th>{escape_html(str(name))}</th>" for name in head.columns)
        rows = head.itertuples(index=False, name=None)
        held = ("".join(f"<td>{escape_html(_cell(one))}</td>" for one in row) for row in rows)
        body = "".join(f"<tr>{row}</tr>" for row in held)
        more = len(self._frame) - len(head)
        rest = f"<p>and {more:,} rows more</p>" if more else ""
        return f"<table><thead><tr>{cells}</tr></thead><tbody>{body}</tbody></table>{rest}"


def _made(held: Any) -> Any:
    return held() if callable(held) else held


def _named(held: Mapping[str, Any], name: str, kind: str) -> Any:
    if not isinstance(name, str) or name not in held:
        known = ", ".join(held) or "none"
        raise InputError(f"{kind}: there is no {name!r}; there are: {known}")
    return held[name]


def frame_of(table: Any) -> pd.DataFrame:
    """Return a table of Arrow as a DataFrame; whole numbers with gaps stay whole."""
    import pyarrow as pa

    if not isinstance(table, pa.Table):
        return table
    frame = table.to_pandas()
    whole = [one.name for one in table.schema if pa.types.is_integer(one.type)]
    gaps = {name: "Int64" for name in whole if table.column(name).null_count}
    return frame.astype(gaps) if gaps else frame


def _json_safe(value: Any) -> Any:
    """Return what JSON can hold of a value, element by element."""
    if type(value).__name__ in ("NAType", "NaTType"):  # of pandas
        return None
    if isinstance(value, Mapping):
        return {str(key): _json_safe(held) for key, held in value.items()}
    if isinstance(value, list | tuple):
        return [_json_safe(held) for held in value]
    if hasattr(value, "tolist"):  # of NumPy
        return _json_safe(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, str | int) or value is None:
        return value
    if isinstance(value, date):
        return value.isoformat()
    return str(value)


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value:.6g}"
    return "" if _json_safe(value) is None else str(value)

"""How a table fits a page: the size of its letters, columns that wrap, turned, or in parts.

The page is that of LaTeX's ``article``, as narrow as at 10 and as low as at 11 points. A table is
never shrunk below `LETTER_SIZES`: what is too wide is turned, or parted between its columns;
what is too high is parted between its rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from beyond_perplexity.report.latex_sheets import (
    CERTAIN,
    LETTER_SIZES,
    NOTE_LETTERS,
    TURNED,
    UPRIGHT,
    LetterSize,
    PaperSheet,
)
from beyond_perplexity.report.latex_text import cell_width, latex_width
from beyond_perplexity.report.layout import Column, Table, neighbours

COLUMN_GAP = 7.0  # points between columns
HEAD_LINES = 3  # that a heading is broken into where its column has few letters
RULES_HEIGHT = 20.0  # points, of the lines above, inside and below, and the gap to the next part
ITALIC = 1.06  # times the width of upright letters, of digits and brackets in italics at most
STACKED = 1.3  # times the height of a line, of one of a heading
READABLE = 7.0  # em that a passage is given at least
LONG_WORD = 16.0  # em of a word that may be broken
KEYS_SHARE = 0.65  # of the width of a page that columns may take which are repeated in every part
FEWEST_ROWS = 3  # that a part begins with at the bottom of a page


class Extents:
    """How wide the cells and headings of a table are, in em; measured once for all plans.

    Parameters
    ----------
    table : Table
        The table.
    """

    def __init__(self, table: Table) -> None:
        self.table = table
        self.columns = table.columns
        slants = [slant_of(column) for column in table.columns]
        self.rows = [
            [slant * cell_width(cell) for slant, cell in zip(slants, row, strict=True)]
            for row in table.rows
        ]
        every = range(len(table.columns))
        self.cells = [max((row[place] for row in self.rows), default=0.0) for place in every]
        self.words = [
            slants[place] * max((_longest_word(row[place]) for row in table.rows), default=0.0)
            for place in every
        ]
        self.heads = [_head_width(column.title) for column in table.columns]


@dataclass(frozen=True)
class Fitted:
    """Columns of a table that fit side by side.

    Attributes
    ----------
    places : tuple of int
        Which columns of the table.
    widths : tuple of float or None
        Points that a column wraps at; None leaves it as wide as it is.
    heads : tuple of tuple of str
        The lines of each heading.
    group_heads : tuple of (tuple of str, int)
        Lines of what stands over neighbouring columns, and how many they are.
    heights : tuple of int
        Lines of every row.
    """

    places: tuple[int, ...]
    widths: tuple[float | None, ...]
    heads: tuple[tuple[str, ...], ...]
    group_heads: tuple[tuple[tuple[str, ...], int], ...]
    heights: tuple[int, ...]

    def head_lines(self) -> int:
        """Count the lines of the headings."""
        over = max((len(lines) for lines, _ in self.group_heads), default=0)
        return over + max(map(len, self.heads))


@dataclass(frozen=True)
class TableBlock:
    """Some columns of some rows: what stands in one ``tabular``."""

    fitted: Fitted
    first: int
    last: int  # exclusive


@dataclass(frozen=True)
class FloatPage:
    """What stands in one float, from top to bottom."""

    blocks: tuple[TableBlock, ...]


class Filled(NamedTuple):
    """Pages, and by how many points a row of theirs is higher than a page."""

    pages: tuple[FloatPage, ...]
    too_high: float


@dataclass(frozen=True)
class TablePlan:
    """The floats of a table, the size of its letters, and whether they are turned."""

    pages: tuple[FloatPage, ...]
    too_high: float
    size: LetterSize
    turned: bool

    def cost(self) -> tuple[float, int]:
        """Return what is to be small: what no page has room for, then the pages."""
        return self.too_high, len(self.pages)


def plan_pages(table: Table) -> TablePlan:
    """Fit a table to pages.

    Parameters
    ----------
    table : Table
        The table.

    Returns
    -------
    TablePlan
        Upright or turned, in the size that takes the fewest pages (of several the first: upright
        and large); in parts, each with the columns that name the row, where no sheet is wide
        enough for all columns side by side.
    """
    held = Extents(table)
    upright = [(UPRIGHT, size) for size in LETTER_SIZES]
    turned = [(TURNED, size) for size in LETTER_SIZES[1:]]
    plans = _plans(held, upright, parted=False)
    if not plans or plans[0].cost() > (0, 1):
        plans += _plans(held, turned, parted=False)
    if not plans or min(plan.too_high for plan in plans):
        plans += _plans(held, [upright[1], *turned], parted=True)
    return min(plans, key=TablePlan.cost)


def _plans(
    held: Extents, sheets: Sequence[tuple[PaperSheet, LetterSize]], *, parted: bool
) -> list[TablePlan]:
    """List the plans of those sheets and sizes that have room for all columns, or for parts."""
    every = tuple(range(len(held.columns)))
    plans = []
    for sheet, size in sheets:
        whole = fit_columns(held, every, sheet.width, size)
        parts = _part(held, size, sheet.width) if parted else [whole] if whole else []
        if parts:
            filled = _fill(parts, held.table, size, sheet)
            plans.append(TablePlan(*filled, size, sheet is TURNED))
    return plans


# ---- columns ----


def fit_columns(
    held: Extents, places: Sequence[int], width: float, size: LetterSize
) -> Fitted | None:
    """Give columns their widths side by side; None where they do not fit.

    Parameters
    ----------
    held : Extents
        The table.
    places : sequence of int
        Which of its columns.
    width : float
        Points of the page.
    size : LetterSize
        Of the letters.
    """
    natural, least = _limits(held, places, size.em)
    room = width - COLUMN_GAP * (len(places) - 1)
    if sum(least) > room:
        return None
    return _laid_out(held, places, _shared_out(natural, least, room), size)


def squeeze_columns(held: Extents, places: Sequence[int], width: float, size: LetterSize) -> Fitted:
    """Do as `fit_columns`, and wrap what does not fit however narrow that makes it."""
    fitted = fit_columns(held, places, width, size)
    if fitted:
        return fitted
    natural, least = _limits(held, places, size.em)
    room = width - COLUMN_GAP * (len(places) - 1)
    least = [min(narrow, room / len(places)) for narrow in least]
    return _laid_out(held, places, _shared_out(natural, least, room), size)


def _limits(held: Extents, places: Sequence[int], em: float) -> tuple[list[float], list[float]]:
    """Return how wide columns are when nothing wraps, and how narrow they may become, points."""
    natural = [_natural(held, place, em) for place in places]
    least = [_least(held, place, wide, em) for place, wide in zip(places, natural, strict=True)]
    start = 0
    for name, number in neighbours([held.columns[place] for place in places]):
        last = start + number - 1  # LaTeX gives the last one what the heading lacks
        for widths in (natural, least):
            taken = sum(widths[start : last + 1]) + COLUMN_GAP * (number - 1)
            widths[last] += max(0.0, em * _head_width(name) - taken)
        start += number
    return natural, least


def _shared_out(
    natural: Sequence[float], least: Sequence[float], room: float
) -> list[float | None]:
    """Deal out the room: None to columns that have all they need."""
    wanted, spare = sum(natural), room - sum(least)
    if wanted <= room:
        return [None] * len(natural)
    asked = wanted - sum(least)
    return [
        None if full <= small else small + spare * (full - small) / asked
        for full, small in zip(natural, least, strict=True)
    ]


def _natural(held: Extents, place: int, em: float) -> float:
    """Return how wide a column is when nothing wraps but its heading, points."""
    return em * max(held.cells[place], held.heads[place])


def _least(held: Extents, place: int, natural: float, em: float) -> float:
    """Return how narrow a column may become, points: numbers stay on a line."""
    column = held.columns[place]
    if not (column.text or column.wraps):
        return natural
    words = max(held.words[place], held.heads[place])
    enough = max(words, READABLE) if column.wraps or natural > READABLE * em * 2 else words
    return min(natural, em * min(enough, LONG_WORD))


def slant_of(column: Column) -> float:
    """Return how much wider the cells of a column come out than upright ones."""
    return ITALIC if column.published else 1.0


def _head_width(title: str) -> float:
    """Return how wide a heading is, in em, that is broken into a few lines."""
    return min(LONG_WORD, max(_longest_word(title), latex_width(title) / HEAD_LINES))


def _longest_word(text: str) -> float:
    return max(map(latex_width, text.split()), default=0.0)


def _laid_out(
    held: Extents, places: Sequence[int], widths: Sequence[float | None], size: LetterSize
) -> Fitted:
    natural, _ = _limits(held, places, size.em)
    taken = [full if width is None else width for full, width in zip(natural, widths, strict=True)]
    columns = [held.columns[place] for place in places]
    heads = tuple(
        head_lines(column.title, width / size.em)
        for column, width in zip(columns, taken, strict=True)
    )
    over, start = [], 0
    for name, number in neighbours(columns):
        width = sum(taken[start : start + number]) + COLUMN_GAP * (number - 1)
        over.append((head_lines(name, width / size.em) if name else (), number))
        start += number
    heights = tuple(
        max(
            _lines(size.em * row[place], width, size.em)
            for place, width in zip(places, widths, strict=True)
        )
        for row in held.rows
    )
    return Fitted(tuple(places), tuple(widths), heads, tuple(over), heights)


def head_lines(title: str, width: float) -> tuple[str, ...]:
    """Break a heading into lines of a width in em, between letters where a word is longer."""
    lines: list[str] = []
    for word in title.split():
        if lines and latex_width(f"{lines[-1]} {word}") <= width:
            lines[-1] += f" {word}"
            continue
        lines.append("")
        whole = latex_width(word) <= width + 1e-6  # a column may be as wide as its longest word
        for piece in [word] if whole else word:
            if lines[-1] and latex_width(lines[-1] + piece) > width:
                lines.append("")
            lines[-1] += piece
    return tuple(lines) or ("",)


def _lines(wide: float, width: float | None, em: float) -> int:
    if width is None or wide <= width:
        return 1
    # Lines are broken between words, so that each is filled to a part only.
    return max(2, math.ceil(wide / max(0.5 * width, width - 2.5 * em)))


# ---- parts ----


def _part(held: Extents, size: LetterSize, width: float) -> list[Fitted]:
    """Part a table between its columns; the first ones, which name the row, are repeated."""
    keys = _keys(held, size, width)
    parts: list[tuple[int, ...]] = [keys]
    for piece in _pieces(held, keys, size, width):
        joined = (*parts[-1], *piece)
        if parts[-1] == keys or fit_columns(held, joined, width, size):
            parts[-1] = joined
        else:
            parts.append((*keys, *piece))
    return [squeeze_columns(held, places, width, size) for places in parts]


def _pieces(
    held: Extents, keys: tuple[int, ...], size: LetterSize, width: float
) -> list[tuple[int, ...]]:
    """List what stays together: the columns of a group, where a page has room for them."""
    pieces: list[tuple[int, ...]] = []
    place = len(keys)
    for _, number in neighbours(held.columns[place:]):
        group = tuple(range(place, place + number))
        whole = fit_columns(held, (*keys, *group), width, size)
        pieces += [group] if whole else [(one,) for one in group]
        place += number
    return pieces


def _keys(held: Extents, size: LetterSize, width: float) -> tuple[int, ...]:
    """Return the columns that name a row: texts that begin it, while they leave room."""
    keys: list[int] = []
    for place, column in enumerate(held.columns[:-1]):
        _, least = _limits(held, [*keys, place], size.em)
        if not column.text or column.wraps or sum(least) > KEYS_SHARE * width:
            break
        keys.append(place)
    return tuple(keys or [0]) if len(held.columns) > 1 else ()


# ---- rows ----


def _fill(parts: Sequence[Fitted], table: Table, size: LetterSize, sheet: PaperSheet) -> Filled:
    """Deal the rows of all parts to pages; the note stands below the last row."""
    pages: list[list[TableBlock]] = [[]]
    left = start = sheet.height - _caption_height(table, sheet.width)
    too_high = 0.0
    for fitted in parts:
        first, total = 0, len(fitted.heights)
        while first < total or not total:
            room = left - RULES_HEIGHT - STACKED * fitted.head_lines() * size.line
            last = _last_row(fitted.heights, first, room / (size.line * CERTAIN))
            if pages[-1] and (room < 0 or last - first < min(FEWEST_ROWS, total - first)):
                pages.append([])
                left = start
                continue
            last = max(last, min(first + 1, total))
            pages[-1].append(TableBlock(fitted, first, last))
            left = room - sum(fitted.heights[first:last]) * size.line * CERTAIN
            too_high = max(too_high, -left)
            first = last
            if not total:
                break
    if _note_height(table, sheet.width) > left:
        pages.append([])
    return Filled(tuple(FloatPage(tuple(blocks)) for blocks in pages), too_high)


def _last_row(heights: Sequence[int], first: int, lines: float) -> int:
    last = first
    while last < len(heights) and sum(heights[first : last + 1]) <= lines:
        last += 1
    return last


def _caption_height(table: Table, width: float) -> float:
    """Estimate the height of the caption, at 10 points, with the gaps around it."""
    return 14 + 12 * math.ceil(10 * (latex_width(table.title) + 10) / width)


def _note_height(table: Table, width: float) -> float:
    """Estimate the height of the note of a table in points."""
    lines = math.ceil(NOTE_LETTERS.em * latex_width(table.note) / (0.96 * width))
    return lines * NOTE_LETTERS.line + 6 if table.note else 0.0

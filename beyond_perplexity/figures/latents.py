"""Figure 1 of the importance sampling paper: latent states of real text of the run, drawn."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from beyond_perplexity.errors import NothingToShowError
from beyond_perplexity.figures.labels import NEUTRAL_COLOUR, PALETTE, Labels
from beyond_perplexity.figures.style import CENTRED, PAGE_WIDTH, styled

CHARACTER = 0.0615  # inches of a monospaced character of `FONT_SIZE`
FONT_SIZE = 7
FONT = "DejaVu Sans Mono"
TAG_SIZE = 7
TAG_CHARACTER = 0.06  # inches of a character of a tag, at most
MARGIN, TITLE = 0.1, 0.3  # inches
NAMES_HEIGHT = 0.5  # inches of the names of the entities
TO_ITSELF = "@@REFLEXIVE@@"  # the relation of an entity to itself
LINE_HEIGHT = 0.54  # inches of a line of words with its mentions
NOTHING = "no sentence or document of the split can be shown, as all are too short or too long"
UNLABELLED = "X"  # what binary trees have for a label
LEVEL = 0.26  # inches of a level of a tree
_PART = re.compile(r"\((?P<opened>[^\s()]*)|#(?P<word>\d+)|\)")


@styled
def latent_states(described: Sequence[Mapping[str, Any]], labels: Labels) -> Figure:
    """Draw the latents of one instance of each model."""
    if not described:
        raise NothingToShowError(NOTHING)
    heights = [_height(entry) for entry in described]
    total = sum(heights)
    figure = Figure(figsize=(PAGE_WIDTH, total))
    bottom = total
    for entry, height in zip(described, heights, strict=True):
        bottom -= height
        room = (MARGIN / PAGE_WIDTH, bottom / total, 1 - 2 * MARGIN / PAGE_WIDTH)
        axis = figure.add_axes((*room, (height - TITLE) / total))
        axis.set_axis_off()
        axis.set_title(f"{entry['model']}: {entry['title']}", loc="left", pad=2)
        if entry.get("tree"):
            _draw_tree(axis, entry["tree"], entry["tokens"])
        else:
            _draw_mentions(axis, entry["tokens"], entry["mentions"])
    return figure


def _lines(tokens: Sequence[str]) -> list[tuple[int, float, str]]:
    """Break words into lines: the line, the left edge in inches, and the word of each position."""
    placed, line, left = [], 0, 0.0
    for token in tokens:
        width = CHARACTER * (len(token) + 1)
        if left + width > PAGE_WIDTH - 2 * MARGIN and left:
            line, left = line + 1, 0.0
        placed.append((line, left, token))
        left += width
    return placed


def _height(entry: Mapping[str, Any]) -> float:
    if entry.get("tree"):
        depth = 1 + max(accumulate((c == "(") - (c == ")") for c in entry["tree"]))
        return TITLE + LEVEL * (depth + 0.6)
    lines = _lines(entry["tokens"])[-1][0] + 1
    named = any(not name.isdigit() for name in _entities(entry["mentions"]))
    return TITLE + LINE_HEIGHT * lines + NAMES_HEIGHT * named


def _draw_tree(axis: Axes, tree: str, tokens: Sequence[str]) -> None:
    """Draw a tree from its words upwards; a node stands over the middle of its children."""
    widths = [len(token) + 1.5 for token in tokens]
    edges = [sum(widths[:place]) for place in range(len(tokens) + 1)]
    # The children of each open node: where they are and how much room their text needs over that.
    labels: list[str] = []
    below: list[list[tuple[float, int, float]]] = [[]]
    for part in _PART.finditer(tree):
        if part["opened"] is not None:
            labels.append(part["opened"])
            below.append([])
        elif part["word"]:
            place = int(part["word"])
            x = (edges[place] + edges[place + 1]) / 2
            axis.text(x, 0, tokens[place], fontsize=8, **CENTRED)
            below[-1].append((x, 0, 0.3))
        else:
            children = below.pop()
            below[-1].append(_draw_node(axis, labels.pop(), children))
    axis.set(xlim=(0, edges[-1]), ylim=(-0.5, below[0][0][1] + 0.5))


def _draw_node(
    axis: Axes, label: str, children: Sequence[tuple[float, int, float]]
) -> tuple[float, int, float]:
    x = (children[0][0] + children[-1][0]) / 2
    y = max(height for _, height, _ in children) + 1
    for child_x, child_y, room in children:
        axis.plot([x, child_x], [y, child_y + room], color="#888888", lw=0.7)
    labelled = bool(label) and label != UNLABELLED
    if labelled:
        box = {"facecolor": "white", "edgecolor": "none", "pad": 0.6}
        axis.text(x, y, label, fontsize=7, bbox=box, **CENTRED)
    return x, y, 0.25 if labelled else 0.0


def _entities(mentions: Sequence[Mapping[str, Any]]) -> list[str]:
    """List the entities in the order of their first mention."""
    return list(dict.fromkeys(str(mention["entity"]) for mention in mentions))


def _tag(mention: Mapping[str, Any], entities: Sequence[str]) -> str:
    """Say shortly which entity a mention is of and how it came there."""
    number = f"{entities.index(str(mention['entity'])) + 1}"
    relation = mention.get("relation")
    if relation == TO_ITSELF:
        return f"{number} again"
    if relation:
        parent = str(mention.get("parent"))
        of = f" of {entities.index(parent) + 1}" if parent in entities else ""
        return f"{number} {relation}{of}"
    return f"{number} {mention.get('kind') or ''}".strip()


def _draw_mentions(
    axis: Axes, tokens: Sequence[str], mentions: Sequence[Mapping[str, Any]]
) -> None:
    """Draw words line by line; under a mention its bar and its tag, lower where tags would meet."""
    placed = _lines(tokens)
    count = placed[-1][0] + 1
    entities = _entities(mentions)
    for line, left, token in placed:
        axis.text(left, -line, token, va="center", fontsize=FONT_SIZE, family=FONT)
    taken = dict.fromkeys(range(count), 0.0)
    for mention in mentions:
        colour = PALETTE[entities.index(str(mention["entity"])) % len(PALETTE)]
        inside = placed[mention["start"] : mention["end"]]
        for line in sorted({entry[0] for entry in inside}):
            here = [entry for entry in inside if entry[0] == line]
            right = here[-1][1] + CHARACTER * len(here[-1][2])
            axis.plot([here[0][1], right], [-line - 0.22] * 2, color=colour, lw=2)
        line, left, _ = inside[0]
        tag = _tag(mention, entities)
        lower = 0.2 if left < taken[line] else 0.0
        axis.text(left, -line - 0.42 - lower, tag, color=colour, fontsize=TAG_SIZE, va="center")
        taken[line] = max(taken[line], left + TAG_CHARACTER * (len(tag) + 1))
    names = [f"{number} {name}" for number, name in enumerate(entities, 1) if not name.isdigit()]
    height = NAMES_HEIGHT / LINE_HEIGHT if names else 0.0
    text = textwrap.fill("   ".join(names), 105)
    axis.text(0, -count + 0.18, text, fontsize=TAG_SIZE, va="top", color=NEUTRAL_COLOUR)
    axis.set(xlim=(0, PAGE_WIDTH - 2 * MARGIN), ylim=(-count + 0.4 - height, 0.4))

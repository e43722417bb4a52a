"""Figure 1 of the importance sampling paper: latent states of real text of the run, drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from nltk import Tree

from beyond_perplexity.errors import InputError
from beyond_perplexity.figures.labels import PALETTE
from beyond_perplexity.figures.style import PAGE_WIDTH, package_style

CHARACTER = 0.058  # inches of a monospaced character of `FONT_SIZE`
FONT_SIZE = 6.6
LINE_HEIGHT = 0.46  # inches of a line of words with its mentions
LEVEL = 0.26  # inches of a level of a tree


def latent_states(described: Sequence[Mapping[str, Any]]) -> Figure:
    """Draw the latents of one instance of each model.

    Parameters
    ----------
    described : sequence of dict
        For each model ``model``, ``title`` (which latents these are), ``tokens`` and either
        ``tree`` (Penn brackets over ``#0 #1 ...``) or ``mentions``; see `LatentModel.readable`.

    Returns
    -------
    matplotlib.figure.Figure
        One panel per entry: a tree over its words, or the words with their mentions underlined,
        one colour an entity.

    Raises
    ------
    InputError
        When there is nothing to draw.
    """
    if not described:
        raise InputError("there is nothing to draw: no latents are given")
    with package_style():
        heights = [_height(entry) for entry in described]
        figure = Figure(figsize=(PAGE_WIDTH, sum(heights)), layout="constrained")
        axes = figure.subplots(len(described), 1, squeeze=False, height_ratios=heights)[:, 0]
        for axis, entry, height in zip(axes, described, heights, strict=True):
            axis.set_axis_off()
            axis.set_title(f"{entry['model']}: {entry['title']}", loc="left")
            if entry.get("tree"):
                _draw_tree(axis, Tree.fromstring(entry["tree"]), entry["tokens"])
            else:
                _draw_mentions(axis, entry["tokens"], entry["mentions"], height)
    return figure


def _lines(tokens: Sequence[str]) -> list[tuple[int, float, str]]:
    """Break words into lines: the line, the left edge in inches, and the word of each place."""
    placed, line, left = [], 0, 0.0
    for token in tokens:
        width = CHARACTER * (len(token) + 1)
        if left + width > PAGE_WIDTH - 0.3 and left:
            line, left = line + 1, 0.0
        placed.append((line, left, token))
        left += width
    return placed


def _height(entry: Mapping[str, Any]) -> float:
    if entry.get("tree"):
        depth: int = Tree.fromstring(entry["tree"]).height()
        return 0.35 + LEVEL * (depth + 1)
    return 0.45 + LINE_HEIGHT * (_lines(entry["tokens"])[-1][0] + 1)


def _draw_tree(axis: Axes, tree: Tree, tokens: Sequence[str]) -> None:
    """Draw a tree from its words upwards; a node stands over the middle of its children."""
    widths = [len(token) + 1.5 for token in tokens]
    edges = [sum(widths[:place]) for place in range(len(tokens) + 1)]

    def draw(node: Tree | str) -> tuple[float, int]:
        if isinstance(node, str):
            place = int(node.removeprefix("#"))
            x = (edges[place] + edges[place + 1]) / 2
            axis.text(x, 0, tokens[place], ha="center", va="center", fontsize=8)
            return x, 0
        below = [draw(child) for child in node]
        x = (below[0][0] + below[-1][0]) / 2
        y = max(height for _, height in below) + 1
        for child_x, child_y in below:
            axis.plot([x, child_x], [y - 0.05, child_y + 0.25], color="#888888", lw=0.7)
        label = node.label()
        if label:
            box = {"facecolor": "white", "edgecolor": "none", "pad": 0.6}
            axis.text(x, y, label, ha="center", va="center", fontsize=7, bbox=box)
        return x, y

    _, top = draw(tree)
    axis.set_xlim(0, edges[-1])
    axis.set_ylim(-0.5, top + 0.5)


def _mention_label(mention: Mapping[str, Any]) -> str:
    parts = [str(mention["entity"])]
    if mention.get("relation"):
        parts = [f"{mention.get('parent', '')} —{mention['relation']}→ {parts[0]}"]
    elif mention.get("kind"):
        parts.append(str(mention["kind"]))
    return ", ".join(parts)


def _draw_mentions(
    axis: Axes, tokens: Sequence[str], mentions: Sequence[Mapping[str, Any]], height: float
) -> None:
    placed = _lines(tokens)
    count = placed[-1][0] + 1
    entities = list(dict.fromkeys(str(mention["entity"]) for mention in mentions))
    for line, left, token in placed:
        axis.text(left, -line, token, va="center", fontsize=FONT_SIZE, family="DejaVu Sans Mono")
    for mention in mentions:
        colour = PALETTE[entities.index(str(mention["entity"])) % len(PALETTE)]
        inside = placed[mention["start"] : mention["end"]]
        for line in sorted({entry[0] for entry in inside}):
            here = [entry for entry in inside if entry[0] == line]
            right = here[-1][1] + CHARACTER * len(here[-1][2])
            axis.plot([here[0][1], right], [-line - 0.24] * 2, color=colour, lw=2)
        line, left, _ = inside[0]
        axis.text(left, -line - 0.46, _mention_label(mention), color=colour, fontsize=5.5)
    axis.set_xlim(0, PAGE_WIDTH - 0.2)
    axis.set_ylim(-count + 0.2, 0.5)

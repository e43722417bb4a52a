"""Latents as sets of spans: how many of the annotation's are found, and with the right entity."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, NamedTuple

import numpy as np

Range = tuple[int, int]  # words from the first to before the second
OF_MENTIONS, OF_TREES = "mentions", "trees"


class SpanCounts(NamedTuple):
    """What two sets of spans have in common.

    Attributes
    ----------
    annotated, found, matched : int
        Spans of the annotation, of the latents, and of both: exactly the same words.
    same_entity : int
        Matched mentions with the right entity; 0 for trees.
    """

    annotated: int
    found: int
    matched: int
    same_entity: int


def structure_of(described: Mapping[str, Any]) -> str:
    """Return `OF_MENTIONS` or `OF_TREES`: what an outline of `LatentModel` is of."""
    return OF_MENTIONS if "mentions" in described else OF_TREES


def entities_by_span(described: Mapping[str, Any]) -> dict[Range, Hashable]:
    """Return what makes the entity of each mention, or of each phrase of a tree nothing.

    An entity with a name is its name. One that is a number of its own document is what the mention
    refers back to: the span of the last mention before it of the same entity, or None where it is
    new. So numbers of two annotations need not agree.

    Parameters
    ----------
    described : dict
        From `LatentModel.outline`. Of a tree the phrases of several words count, but not the whole
        sentence, which every tree has; a phrase of one child is that child.
    """
    if structure_of(described) == OF_TREES:
        return dict.fromkeys(tree_spans(described["tree"]))
    found: dict[Range, Hashable] = {}
    last: dict[Hashable, Range] = {}
    for mention in sorted(described["mentions"], key=lambda one: one["start"]):
        span, entity = (mention["start"], mention["end"]), mention["entity"]
        found[span] = entity if isinstance(entity, str) else last.get(entity)
        last[entity] = span
    return found


def words_inside(described: Mapping[str, Any], words: int) -> np.ndarray | None:
    """Return which words are inside mentions of an outline, bool, (T,); None of a tree."""
    if structure_of(described) == OF_TREES:
        return None
    inside = np.zeros(words, bool)  # (T,)
    for mention in described["mentions"]:
        inside[mention["start"] : mention["end"]] = True
    return inside


def tree_spans(tree: str) -> set[Range]:
    """Return the phrases of a tree in brackets over ``#0 #1 ...``; see `entities_by_span`."""
    starts: list[int] = []
    spans: set[Range] = set()
    words, before = 0, ""
    for part in tree.replace("(", " ( ").replace(")", " ) ").split():
        if part == "(":
            starts.append(words)
        elif part == ")":
            spans.add((starts.pop(), words))
        elif before != "(":  # else it is a label
            words += 1
        before = part
    return {span for span in spans if 1 < span[1] - span[0] < words}


def count_spans(annotated: Mapping[Range, Hashable], found: Mapping[Range, Hashable]) -> SpanCounts:
    """Count what annotation and latents have in common, both from `entities_by_span`."""
    matched = annotated.keys() & found.keys()
    same = sum(annotated[span] == found[span] for span in matched)
    return SpanCounts(len(annotated), len(found), len(matched), same)

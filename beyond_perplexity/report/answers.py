"""The first lines of the report: which text is nearest to human text, which model knows it best."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd

from beyond_perplexity.figures.labels import Labels
from beyond_perplexity.figures.numbers import shown, shown_signed
from beyond_perplexity.figures.verdicts import effect_table, verdict
from beyond_perplexity.foreign_text import escape_rst
from beyond_perplexity.report.findings import Compared, body_name
from beyond_perplexity.report.perplexities import ByteBits, bits_per_byte
from beyond_perplexity.tendencies.definitions import TENDENCIES
from beyond_perplexity.verdicts import DIFFERS


class Standing(NamedTuple):
    """How far a body of text is from human text, over all distances.

    Attributes
    ----------
    source : str
        The body.
    stars : int
        Distances that are significant.
    distances : int
        Distances that it has.
    excess : float
        Their largest excess over the floor; NaN without a floor.
    tendency : str
        What that is a distance of; empty without.
    """

    source: str
    stars: int
    distances: int
    excess: float
    tendency: str

    def starred(self) -> str:
        """Say how many distances are significant."""
        return f"{self.stars} of {self.distances}"

    def largest(self) -> str:
        """Say where the excess is largest, and how large it is."""
        if math.isnan(self.excess):
            return "—"
        return f"{shown_signed(self.excess, 2)} {TENDENCIES[self.tendency].noun}"


def standings(measures: pd.DataFrame) -> list[Standing]:
    """Count what is significant of each body of text, in the order of first appearance.

    Parameters
    ----------
    measures : pandas.DataFrame
        Schema ``tendencies``.
    """
    found = []
    held = dict(iter(effect_table(measures).groupby("source", sort=False)))
    for source in dict.fromkeys(measures["source"]):
        rows: list[dict[Any, Any]] = []
        if source in held:
            rows = held[source].to_dict("records")
        known = [row for row in rows if not math.isnan(row["excess"])]
        most = max(known, key=lambda row: row["excess"], default=None)
        stars = sum(verdict(row) == DIFFERS for row in rows)
        excess, name = (most["excess"], most["tendency"]) if most else (math.nan, "")
        found.append(Standing(str(source), stars, len(rows), float(excess), str(name)))
    return found


def _of_texts(compared: Compared) -> str:
    """Say which body is nearest to human text, and which is farthest."""
    found = [one for one in standings(compared.measures) if not math.isnan(one.excess)]
    if not found:
        return ""
    ordered = sorted(found, key=lambda one: (one.stars / one.distances, one.excess))
    near, far = ordered[0], ordered[-1]
    said = (
        f"*{body_name(near.source)}* is nearest to human text: {near.starred()} distances are "
        f"significantly above 0, the largest excess over human text itself is {near.largest()}"
    )
    if len(found) == 1:
        return f"**Generated text:** {said}."
    return (
        f"**Generated text:** of {len(found)} bodies {said}. *{body_name(far.source)}* is "
        f"farthest: {far.starred()}, {far.largest()}."
    )


def _of_likelihoods(perplexities: Mapping[str, Mapping[str, Any]]) -> str:
    """Say under which model human text is likeliest, where one number compares them."""
    found: dict[str, ByteBits] = {}
    for name, result in perplexities.items():
        bits = bits_per_byte(result, "cleaned")
        if bits and math.isfinite(bits.value):
            found[name] = bits
    if len({bits.size for bits in found.values()}) != 1:  # of none, or of several texts
        return ""
    ordered = sorted(found, key=lambda name: (found[name].value, name))
    said = [
        f"*{escape_rst(Labels().model(name))}*, {_with_limits(found[name])}" for name in ordered
    ]
    worst = f"; least under {said[-1]}" if len(said) > 1 else ""
    return f"**Human text** is likeliest under {said[0]} bits per byte{worst}."


def _with_limits(bits: ByteBits) -> str:
    known = bits.low is not None and bits.high is not None
    limits = f" [{shown(bits.low, 2)}, {shown(bits.high, 2)}]" if known else ""
    return f"{shown(bits.value, 2)}{limits}"


def answers(
    compared: Sequence[Compared], perplexities: Mapping[str, Mapping[str, Any]]
) -> list[str]:
    """Say what the report finds, in a paragraph of reStructuredText each.

    Parameters
    ----------
    compared : sequence of Compared
        The corpora that bodies of text are compared with.
    perplexities : dict
        Perplexity results by model.

    Returns
    -------
    list of str
        Which body of text is nearest to human text and which is farthest (by the share of distances
        with a star, then by the largest excess), for each corpus; under which model human text is
        likeliest, in bits per byte. Empty where neither is known.
    """
    texts = []
    for one in compared:
        said = _of_texts(one)
        named = f"Corpus *{escape_rst(one.name)}*: " * (len(compared) > 1)
        texts += [f"{named}{said}"] if said else []
    likely = _of_likelihoods(perplexities)
    return [*texts, *[likely] * bool(likely)]

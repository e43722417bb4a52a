"""Latent models and proposals under the names that people read, in what tables are made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import pandas as pd

from beyond_perplexity.figures.labels import Labels
from beyond_perplexity.foreign_text import drawable

MODEL, PROPOSAL = "model", "proposal"


def with_drawable_texts(given: Mapping[str, Any]) -> dict[str, Any]:
    """Replace what acts in texts of tables, such as escapes in names, for who saves a figure."""
    seen = cache(drawable)

    def shown(table: pd.DataFrame) -> pd.DataFrame:
        texts = table.select_dtypes(["object", "str"])
        return table.assign(
            **{
                str(name): column.map(lambda one: seen(one) if isinstance(one, str) else one)
                for name, column in texts.items()
            }
        )

    return {
        kind: shown(held) if isinstance(held, pd.DataFrame) else held
        for kind, held in given.items()
    }


def with_titles(given: Mapping[str, Any], labels: Labels) -> tuple[dict[str, Any], Labels]:
    """Put titles for the names of models and proposals, in tables, lists of objects and labels.

    No two names of one kind that stand together share a title.
    """
    if not labels.titles:
        return dict(given), labels
    renamed = {
        kind: {labels.titles.get(name, name): value for name, value in held.items()}
        for kind, held in (("families", labels.families), ("data", labels.data))
    }
    return {kind: _titled(held, labels.titles) for kind, held in given.items()}, replace(
        labels, families=renamed["families"], data=renamed["data"]
    )


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
    """Add column ``data``: what each model is evaluated on, and its caps, for readers of the CSV.

    By the names of models in ``model``, or in ``source`` before a slash; where the labels know
    nothing of any of them, the table stays.
    """
    names = tidy.get(MODEL, tidy.get("source"))
    if names is None or "data" in tidy:
        return tidy
    found = names.map(lambda name: labels.data.get(str(name).partition("/")[0]))
    return tidy.assign(data=found) if found.notna().any() else tidy

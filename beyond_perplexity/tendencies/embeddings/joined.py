"""Rows of embeddings among the measures of a body: their tests are of one family with the others.

The table of measures of a body is made before its documents are embedded. Here the rows of
embeddings join it, and all p-values of the body are adjusted anew, for one test more.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from beyond_perplexity.schemas.tendencies import TENDENCY_MEASURES
from beyond_perplexity.tendencies.measured import MeasureRow
from beyond_perplexity.tendencies.tested_rows import adjusted_rows
from beyond_perplexity.verdicts import draws_too_few, facts_of, joined_facts

_OF_BODY = ("source", "n_reference", "n_samples", "groups_reference", "vocabulary")


def _measured(record: dict[str, object]) -> MeasureRow:
    kept = {
        name: math.nan if record[name] is None else record[name]
        for name in MeasureRow._fields
        if name in record and name not in ("note", "withheld")
    }
    facts = facts_of(str(record["note"] or ""))
    note = joined_facts(*(fact for fact in facts if not draws_too_few(fact)))
    return MeasureRow(**kept, note=note)  # type: ignore[arg-type]


def joined_measures(
    table: pa.Table, rows: Sequence[MeasureRow], permutations: int, bodies: int = 1
) -> pa.Table:
    """Join rows of embeddings to the measures of a body.

    Parameters
    ----------
    table : pyarrow.Table
        Schema ``tendencies``, of one body.
    rows : sequence of MeasureRow
        Of tendency ``embedding``, without adjusted p-values.
    permutations : int
        Of each test.
    bodies : int
        Bodies of text whose tests are one family.

    Returns
    -------
    pyarrow.Table
        Schema ``tendencies``: the old rows, then the new ones.
    """
    old = [_measured(record) for record in table.to_pylist()]
    every = adjusted_rows([*old, *rows], permutations, bodies)
    first = table.slice(0, 1).to_pylist()[0]
    columns: dict[str, list[object]] = {name: [first[name]] * len(every) for name in _OF_BODY}
    columns["note"] = [row.note or None for row in every]
    for name in set(TENDENCY_MEASURES.names) - set(columns):
        values = [getattr(row, name) for row in every]
        columns[name] = [None if isinstance(x, float) and math.isnan(x) else x for x in values]
    return pa.table({name: columns[name] for name in TENDENCY_MEASURES.names}, TENDENCY_MEASURES)


def of_source(table: pa.Table, source: str) -> pa.Table:
    """Take the rows of a body of text."""
    return table.filter(pc.equal(table["source"], source))

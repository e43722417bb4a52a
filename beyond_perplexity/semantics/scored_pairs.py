"""Raw pairs of texts, scored by people and by an evaluator: their files, scores and correlations.

A block of pairs is in memory at a time, besides a number a pair.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from beyond_perplexity.corpus.external import read_filled_lines
from beyond_perplexity.errors import InputError
from beyond_perplexity.inference.correlations import correlation_difference, pearson, spearman
from beyond_perplexity.inference.exchanged_units import EFFECTIVE_GROUPS
from beyond_perplexity.inference.intervals import finite
from beyond_perplexity.schemas.semantics import HUMAN_CORRELATIONS, HUMAN_SCORES
from beyond_perplexity.semantics.evaluators.contract import Evaluator
from beyond_perplexity.semantics.word_cosines import Floats
from beyond_perplexity.storage.accounts import NAMES, Account
from beyond_perplexity.verdicts import joined_facts

_BATCH = 512  # pairs that are scored at once
# The measure that is taken where an evaluator has several and none is named.
_FIRST_CHOICES = ("average", "head", "similarity", "inner_scaled")


class ScoredPair(NamedTuple):
    """Two texts, and the score that people gave; NaN where none was asked for."""

    first: str
    second: str
    gold: float


def read_scored_pairs(path: str | Path, gold: str | None = None) -> Iterator[ScoredPair]:
    """Stream the pairs of a table with a line of names.

    Parameters
    ----------
    path : path
        Separated by tabs where the line of names has one, and then without quotes; else by commas,
        with texts in double quotes where they have commas. Packed or not. The first
        two columns are the texts; a quoted text keeps to its line.
    gold : str, optional
        Name of the column of scores; None: there is none.

    Raises
    ------
    InputError
        When the file or a line cannot be read, a column is missing, a text is empty, or a score is
        no finite number; names the line.
    """
    path = Path(path)
    account = Account(path, "lines")
    names: list[str] = []
    tabs, column, pairs = False, 0, 0
    for number, line in read_filled_lines(path, account):
        place = f"{path}: line {number}"
        if not names:
            tabs = "\t" in line
            names = [name.strip() for name in _fields(line, tabs, place)]
            column = _gold_column(names, gold, place)
            account.left_out[NAMES] = 1
            continue
        fields = _fields(line, tabs, place)
        if len(fields) != len(names):
            raise InputError(
                f"{place}: has {len(fields)} fields, expected {len(names)} "
                f"({', '.join(names)[:80]}), separated by {'tabs' if tabs else 'commas'}"
            )
        pairs += 1
        yield _pair(fields, names, column if gold is not None else None, place)
    if not pairs:
        raise InputError(f"{path}: has no pairs below the line of names; give some")


def _fields(line: str, tabs: bool, place: str) -> list[str]:
    text = line.rstrip("\r\n")
    if tabs:
        return text.split("\t")
    try:
        (fields,) = csv.reader([text], strict=True)
    except csv.Error as error:
        raise InputError(f"{place}: is no line of CSV ({error}); repair or remove it") from error
    return fields


def _gold_column(names: list[str], gold: str | None, place: str) -> int:
    if len(names) < 2:
        raise InputError(
            f"{place}: has the one column {names[0][:80]!r}; the first line names the columns, "
            "separated by tabs or commas, and the first two are texts"
        )
    if gold is None:
        return 0
    if gold not in names[2:]:
        rest = ", ".join(names[2:])[:80]
        raise InputError(
            f"{place}: has no column {gold!r} after the two texts; there is {rest or 'none'} (the "
            "first line names the columns; add one where it does not)"
        )
    return names.index(gold, 2)


def _pair(fields: list[str], names: list[str], column: int | None, place: str) -> ScoredPair:
    for name, text in zip(names[:2], fields[:2], strict=True):
        if not text.strip():
            raise InputError(f"{place}: {name} is empty; give both texts")
    if column is None:
        return ScoredPair(fields[0], fields[1], math.nan)
    try:
        gold = float(fields[column])
    except ValueError:
        gold = math.nan
    if not math.isfinite(gold):
        raise InputError(
            f"{place}: {names[column]} is {fields[column]!r:.80}, expected a finite number"
        )
    return ScoredPair(fields[0], fields[1], gold)


class HumanScored(NamedTuple):
    """Pairs of a file as people and an evaluator score them."""

    gold: Floats  # float64, (N,): of people
    # float64, (N,): of the evaluator, by measure; NaN where a pair has none
    values: dict[str, Floats]


def score_pairs(
    evaluator: Evaluator, pairs: Iterable[ScoredPair], tokenized: bool = False
) -> HumanScored:
    """Score raw pairs of texts; some numbers of each are held.

    For an evaluator that reads tokens they are cleaned as it says, unless `tokenized`: one of the
    run as its corpus, word vectors and official encoders by the default steps of corpora (the
    latter with their upper case).
    """
    stream, gold = iter(pairs), [np.zeros(0)]
    values: dict[str, list[Floats]] = {name: [np.zeros(0)] for name in evaluator.measures}
    while batch := list(islice(stream, _BATCH)):
        texts = [text for pair in batch for text in (pair.first, pair.second)]
        if not tokenized and evaluator.texts == "tokens":
            texts = evaluator.cleaning.apply(texts)
        for name, found in evaluator.score([*zip(texts[::2], texts[1::2], strict=True)]).items():
            values[name].append(found)
        gold.append(np.array([pair.gold for pair in batch]))
    joined = {name: np.concatenate(parts) for name, parts in values.items()}
    return HumanScored(np.concatenate(gold), joined)


def correlation_row(gold: Floats, values: Floats) -> dict[str, Any]:
    """Correlate the scores of a measure, float64 (N,), with those of people.

    Pairs without a value are left out and counted. Columns of schema ``human_correlations``.
    """
    known = np.isfinite(values)
    row: dict[str, Any] = {"pairs": int(known.sum()), "undefined": int((~known).sum())}
    for name, correlate in (("pearson", pearson), ("spearman", spearman)):
        found = correlate(gold[known], values[known])
        limits = finite(found.low), finite(found.high)
        row |= {name: finite(found.value), f"{name}_low": limits[0], f"{name}_high": limits[1]}
    few = known.sum() < EFFECTIVE_GROUPS
    note = joined_facts(
        f"fewer than {EFFECTIVE_GROUPS} pairs: no interval" if few else "",
        "" if row["pearson"] is not None else "scores do not vary: no correlation",
        f"{row['undefined']:,} pairs have no value" if row["undefined"] else "",
    )
    return row | {"note": note}


def rank_surplus(gold: Floats, values: Floats, others: Floats) -> tuple[float, float, float]:
    """Return by how much one measure's Spearman correlation exceeds another's, low and high.

    Scores are of the same N pairs; those without a value are left out. NaN where it is not defined.
    """
    known = np.isfinite(values) & np.isfinite(others)
    own, other = (spearman(gold[known], held[known]) for held in (values, others))
    return correlation_difference(own, other)


def correlate_people(scored: HumanScored, evaluator: str, file: str) -> pa.Table:
    """Return the correlations of all measures on a file, schema ``human_correlations``."""
    names = {"evaluator": evaluator, "file": file}
    rows = [
        names | {"measure": measure} | correlation_row(scored.gold, values)
        for measure, values in scored.values.items()
    ]
    return pa.Table.from_pylist(rows, HUMAN_CORRELATIONS)


def list_pair_scores(scored: HumanScored, evaluator: str, file: str) -> pa.Table:
    """Return the scores of all pairs of a file, schema ``human_scores``."""
    size, columns = len(scored.gold), HUMAN_SCORES.names
    tables = []
    for measure, values in scored.values.items():
        names = {"evaluator": evaluator, "measure": measure, "file": file}
        held: dict[str, Any] = {name: [text] * size for name, text in names.items()}
        held |= {"pair": np.arange(size), "gold": scored.gold}
        held["value"] = pa.array(values, from_pandas=True)  # NaN is null
        tables.append(pa.table({name: held[name] for name in columns}, HUMAN_SCORES))
    return pa.concat_tables(tables)


def choose_measure(evaluator: Evaluator, wanted: str | None) -> str:
    """Return the measure that is wanted, or the one that says most of two texts as they are.

    Of word vectors that is the average: measures of words in the same place suppose predictions.
    """
    if wanted is None:
        return next(name for name in _FIRST_CHOICES if name in evaluator.measures)
    if wanted not in evaluator.measures:
        allowed = ", ".join(evaluator.measures)
        raise InputError(f"measure: is {wanted!r}; this evaluator has {allowed}")
    return wanted

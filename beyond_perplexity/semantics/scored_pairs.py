"""Raw pairs of texts, scored by people and by an evaluator: their files, scores and correlations.

A block of pairs is in memory at a time, besides a number a pair.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa

from beyond_perplexity.corpus.external import read_filled_lines
from beyond_perplexity.corpus.normalization import watched
from beyond_perplexity.errors import InputError
from beyond_perplexity.inference.correlations import correlation_difference, pearson, spearman
from beyond_perplexity.inference.intervals import INTERVAL_LEVEL, finite
from beyond_perplexity.inference.permuted_units import EFFECTIVE_GROUPS
from beyond_perplexity.schemas.semantics import HUMAN_CORRELATIONS, HUMAN_SCORES
from beyond_perplexity.semantics.evaluators.contract import Evaluator
from beyond_perplexity.semantics.word_cosines import Floats
from beyond_perplexity.storage.accounts import NAMES, Account
from beyond_perplexity.storage.inputs import PACKED, open_input, parse_object, refuse_foreign, told
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
    """Stream the pairs of a table with a header row; a line at fault is an `InputError`.

    The first two columns are the texts, `gold` (None: none) is that of scores. Fields are separated
    by tabs where the header row has one, and then without quotes; else by commas, texts with commas
    in double quotes, within a line.
    """
    path = Path(path)
    account = Account(path, "lines")
    lines = read_filled_lines(path, account)
    nothing = InputError(f"{path}: has no pairs below the header row; give some")
    number, line = next(lines, (0, ""))
    if not line:
        raise nothing
    tabs = "\t" in line
    names = [name.strip() for name in _fields(line, tabs, f"{path}: line {number}")]
    column = _gold_column(names, gold, f"{path}: line {number}")
    account.left_out[NAMES] = 1
    number = 0
    for number, line in lines:
        place = f"{path}: line {number}"
        fields = _fields(line, tabs, place)
        if len(fields) != len(names):
            wanted = f"{len(names)} ({', '.join(names)[:80]})"
            mark = "tabs" if tabs else "commas"
            found = f"has {len(fields)} fields, expected {wanted}, separated by {mark}"
            raise InputError(f"{place}: {found}")
        empty = [name for name, text in zip(names[:2], fields, strict=False) if not text.strip()]
        if empty:
            raise InputError(f"{place}: {empty[0]} is empty; give both texts")
        said = "" if column is None else fields[column]
        score = math.nan if column is None else finite_number(said)
        if score is None:
            raise InputError(f"{place}: {gold} is {said!r:.80}, expected a finite number")
        yield ScoredPair(fields[0], fields[1], score)
    if not number:
        raise nothing


def _fields(line: str, tabs: bool, place: str) -> list[str]:
    text = line.rstrip("\r\n")
    if tabs:
        return text.split("\t")
    with told(f"{place}: is no line of CSV", "; repair or remove it"):
        (fields,) = csv.reader([text], strict=True)
    return fields


def _gold_column(names: list[str], gold: str | None, place: str) -> int | None:
    if len(names) < 2:
        wanted = "the first line names the columns, separated by tabs or commas"
        fault = f"has the one column {names[0][:80]!r}"
        raise InputError(f"{place}: {fault}; {wanted}, and the first two are texts")
    if gold is None:
        return None
    if gold not in names[2:]:
        rest = ", ".join(names[2:])[:80]
        there = f"there is {rest or 'none'}"
        advice = "the first line names the columns; add one where it does not"
        raise InputError(f"{place}: has no column {gold!r} after the two texts; {there} ({advice})")
    return names.index(gold, 2)


class HumanScored(NamedTuple):
    """Pairs of a file as people and an evaluator score them."""

    gold: Floats  # float64, (N,): of people
    # float64, (N,): of the evaluator, by measure; NaN where a pair has none
    values: dict[str, Floats]


def score_pairs(
    evaluator: Evaluator,
    pairs: Iterable[ScoredPair],
    tokenized: bool = False,
    name: object = "texts",
) -> HumanScored:
    """Score raw pairs of texts, cleaned as an evaluator of tokens says unless `tokenized`; warnings
    call them by `name`, and some numbers of each are held."""
    stream, gold = iter(pairs), [np.zeros(0)]
    values: dict[str, list[Floats]] = {name: [np.zeros(0)] for name in evaluator.measures}
    steps = evaluator.cleaning if evaluator.texts == "tokens" else None
    with nullcontext(list) if tokenized else watched(steps, name) as clean:
        while batch := list(islice(stream, _BATCH)):
            texts = clean([text for pair in batch for text in (pair.first, pair.second)])
            scored = evaluator.score([*zip(texts[::2], texts[1::2], strict=True)])
            for measure, found in scored.items():
                values[measure].append(found)
            gold.append(np.array([pair.gold for pair in batch]))
    joined = {name: np.concatenate(parts) for name, parts in values.items()}
    return HumanScored(np.concatenate(gold), joined)


def correlation_row(gold: Floats, values: Floats) -> dict[str, Any]:
    """Correlate scores, float64 (N,), NaN where there is none, with those of people: a row."""
    known = np.isfinite(values)
    row: dict[str, Any] = {"pairs": int(known.sum()), "undefined": int((~known).sum())}
    for name, correlate in (("pearson", pearson), ("spearman", spearman)):
        names = (name, f"{name}_low", f"{name}_high")
        found = correlate(gold[known], values[known])
        row |= dict(zip(names, map(finite, found[:3]), strict=True))
    few = known.sum() < EFFECTIVE_GROUPS
    note = joined_facts(
        f"fewer than {EFFECTIVE_GROUPS} pairs: no interval" if few else "",
        "" if row["pearson"] is not None else "scores do not vary: no correlation",
        f"{row['undefined']:,} pairs have no value" if row["undefined"] else "",
    )
    return row | {"note": note}


def rank_surplus(
    gold: Floats, values: Floats, others: Floats, compared: int = 1
) -> tuple[float, float, float]:
    """Return by how much one Spearman correlation (N pairs) exceeds another, low, high; or NaN.

    The limits of so many that are `compared` hold at once (Bonferroni).
    """
    known = np.isfinite(values) & np.isfinite(others)
    own, other = (spearman(gold[known], held[known]) for held in (values, others))
    return correlation_difference(own, other, level=1 - (1 - INTERVAL_LEVEL) / compared)


def correlate_people(scored: HumanScored, evaluator: str, file: str) -> pa.Table:
    """Return the correlations of all measures on a file, schema ``human_correlations``."""
    names = {"evaluator": evaluator, "file": file}
    held = scored.values.items()
    rows = [names | {"measure": m} | correlation_row(scored.gold, values) for m, values in held]
    return pa.Table.from_pylist(rows, HUMAN_CORRELATIONS)


def list_pair_scores(scored: HumanScored, evaluator: str, file: str) -> pa.Table:
    """Return the scores of all pairs of a file, schema ``human_scores``."""
    names = {"evaluator": evaluator, "file": file, "pair": range(len(scored.gold))}
    frame = pd.DataFrame({**names, "gold": scored.gold})
    held = scored.values.items()
    frames = [frame.assign(measure=measure, value=values) for measure, values in held]
    return pa.Table.from_pandas(pd.concat(frames), HUMAN_SCORES, preserve_index=False)


def choose_measure(evaluator: Evaluator, wanted: str | None) -> str:
    """Return the measure that is wanted, or the one that says most of two texts as they are."""
    if wanted is None:
        return next(name for name in _FIRST_CHOICES if name in evaluator.measures)
    if wanted not in evaluator.measures:
        allowed = ", ".join(evaluator.measures)
        raise InputError(f"measure: is {wanted!r}; this evaluator has {allowed}")
    return wanted


# What the columns are called in the files of SNLI, MultiNLI and the STS benchmark.
FIRST_NAMES = ("sentence1", "premise", "text1")
SECOND_NAMES = ("sentence2", "hypothesis", "text2")
LABEL_NAMES = ("gold_label", "label", "score", "similarity_score", "gold")
_USUAL = (FIRST_NAMES, SECOND_NAMES, LABEL_NAMES)


class LabelledTexts(NamedTuple):
    """Two texts as they are in a file."""

    line: int  # where the pair is in the file, from 1
    first: str
    second: str
    label: str


class PairColumns(NamedTuple):
    """Names of columns; None: those of `FIRST_NAMES` …, or by their place."""

    first: str | None = None
    second: str | None = None
    label: str | None = None


def read_labelled_texts(
    path: str | Path, columns: PairColumns, account: Account | None = None
) -> Iterator[LabelledTexts]:
    """Read pairs of texts with their labels; lines at fault are an `InputError`.

    ``.csv`` has commas and quotes; ``.jsonl`` and ``.json`` an object a line; everything else tabs,
    a pair a line; any may be packed. A table's header row may be missing where the third column has
    a number in it and no column is asked for by its name; `account`: where pairs are counted.
    """
    path = Path(path)
    refuse_foreign(path)
    account = account or Account(path, "pairs")
    try:
        # what ends a line in CSV is a matter of its reader
        with io.TextIOWrapper(open_input(path), encoding="utf-8-sig", newline="") as file:
            for pair in _read_pairs(path, file, columns):
                account.read += 1
                yield pair
            account.close(None if file.read(1) else account.read)
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is not UTF-8 ({error.reason}); convert it") from error
    if not account.read:
        raise InputError(f"{path}: holds no pair of texts")


def _read_pairs(path: Path, file: IO[str], columns: PairColumns) -> Iterator[LabelledTexts]:
    name = path.name.lower()
    name = name.removesuffix(next((end for end in PACKED if name.endswith(end)), ""))
    if name.endswith((".jsonl", ".json")):
        for number, line in enumerate(file, 1):
            if line.strip():
                place = f"{path}: line {number}:"
                held = parse_object(line, place, "give an object with both texts")
                parts = zip(_USUAL, columns, strict=True)
                yield LabelledTexts(number, *(_value(place, held, *part) for part in parts))
        return
    rows = (_csv_rows if name.endswith(".csv") else _tab_rows)(path, file)
    first = next(rows, None)
    if first is None:
        return
    places = [0, 1, 2]
    if any(columns) or len(first[1]) < 3 or parse_number(first[1][2]) is None:
        places = _find_columns(path, first[1], columns)
    else:  # it has no names
        rows = chain([first], rows)
    for number, row in rows:
        if len(row) <= max(places):
            wanted = f"expected {max(places) + 1} at least"
            raise InputError(f"{path}: line {number}: has {len(row)} columns, {wanted}")
        yield LabelledTexts(number, *(row[place] for place in places))


def _tab_rows(path: Path, file: IO[str]) -> Iterator[tuple[int, list[str]]]:
    """Split lines; only what is quoted as a whole is unquoted: a text may begin with a quote."""
    for number, line in enumerate(file, 1):
        parts = line.rstrip("\r\n").split("\t") if line.strip() else []
        for place, part in enumerate(parts):
            inner = part[1:-1]
            whole = len(part) > 1 and part[0] == part[-1] == '"'
            if whole and '"' not in inner.replace('""', ""):
                parts[place] = inner.replace('""', '"')
        if parts:
            yield number, parts


def _csv_rows(path: Path, file: IO[str]) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader(file, strict=True)
    try:
        for row in reader:
            if any(row):
                yield reader.line_num, row
    except csv.Error as error:
        raise InputError(f"{path}: line {reader.line_num}: is no CSV ({error})") from error


def _find_columns(path: Path, names: list[str], columns: PairColumns) -> list[int]:
    """Return where the columns are: by the names asked for, the usual ones, or their order."""
    places = []
    for place, (usual, asked) in enumerate(zip(_USUAL, columns, strict=True)):
        wanted = usual if asked is None else (asked,)
        found = [names.index(name) for name in wanted if name in names]
        if asked is not None and not found:
            raise InputError(f"{path}: has no column '{asked}'; there are {', '.join(names)}")
        places.append(found[0] if found else place)
    if len(names) <= max(places):
        advice = "the names of two texts and a label, separated by tabs (commas in a .csv)"
        raise InputError(f"{path}: its first line has {len(names)} columns, expected {advice}")
    return places


def _value(place: str, held: Mapping[str, Any], usual: tuple[str, ...], asked: str | None) -> str:
    names = usual if asked is None else (asked,)
    for name in names:
        if isinstance(held.get(name), str | int | float):
            return str(held[name])
    raise InputError(f"{place} has no text or number '{' or '.join(names)}'")


def parse_number(text: str) -> float | None:
    """Return the number that a text is; None: it is none."""
    try:
        return float(text)
    except ValueError:
        return None


def finite_number(text: str) -> float | None:
    """Return the finite number that a text is; None: it is none."""
    number = parse_number(text)
    return number if number is not None and math.isfinite(number) else None

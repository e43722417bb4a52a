"""What was found of the meaning of predictions, in lines of which the first page has some."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from beyond_perplexity.figures.labels import Labels
from beyond_perplexity.figures.numbers import shown, shown_interval
from beyond_perplexity.figures.semantic_rows import (
    SPLIT_TITLES,
    MeasureName,
    measure_title,
    pick_predicted,
    shown_split,
    sort_measures,
)
from beyond_perplexity.report.contrastive_findings import FIRST_PAGE
from beyond_perplexity.report.layout import Column, Table
from beyond_perplexity.report.semantic_evaluators import beaten
from beyond_perplexity.report.semantic_published import (
    PUBLISHED_SEMANTICS,
    published_lower,
    published_wins,
    scheduled_pairs,
)
from beyond_perplexity.schemas.semantics import PREDICTED, WORDS_EVALUATOR
from beyond_perplexity.semantics.measures import CROSS_ENTROPY, MEASURES

_CLEAR = 0.05
_PERPLEXITY: MeasureName = (WORDS_EVALUATOR, CROSS_ENTROPY)
_OF_SENTENCES = ("similarity", "inner")  # one for each sentence encoder
_FEW_NAMES = 3
_Line = tuple[str, str, str, bool]
_Pairs = Mapping[tuple[str, str], Mapping[MeasureName, Mapping[Any, Any]]]


def _by_pair(differences: pd.DataFrame | None, split: str) -> _Pairs:
    """Sort the differences of predictions by pair of models, then by measure."""
    found: dict[tuple[str, str], dict[MeasureName, Mapping[Any, Any]]] = {}
    if differences is not None:
        rows = differences[(differences["split"] == split) & (differences["kind"] == PREDICTED)]
        for row in rows.dropna(subset="value").to_dict("records"):
            name = (row["evaluator"], row["measure"])
            found.setdefault((row["first"], row["second"]), {})[name] = row
    return found


def _better(name: MeasureName, row: Mapping[Any, Any]) -> float:
    """Return the difference with the sign that it has where the first model is better."""
    return float(row["value"]) if MEASURES[name[1]].higher else -float(row["value"])


def _is_clear(row: Mapping[Any, Any]) -> bool:
    return bool(row["p_adjusted"] < _CLEAR)  # NaN where no verdict is possible


def _scheduled(models: Mapping[str, Mapping[str, Any]], pairs: _Pairs, labels: Labels) -> str:
    """Say in how many measures scheduled sampling made a model better or worse."""
    said = []
    for plain, other in scheduled_pairs(models):
        turned = -1 if (plain, other) in pairs else 1
        rows = pairs.get((plain, other), pairs.get((other, plain), {}))
        gains = {n: turned * _better(n, r) for n, r in rows.items() if n != _PERPLEXITY}
        if not gains:
            continue
        clear = {name: gain for name, gain in gains.items() if _is_clear(rows[name])}
        higher, lower = (sum(side * g > 0 for g in clear.values()) for side in (1, -1))
        text = (
            f"{labels.model(other)} against {labels.model(plain)}: of {len(gains)} measures "
            f"{sum(g > 0 for g in gains.values())} are higher, {higher} of them clearly (adjusted "
            f"p < {_CLEAR:g}); {lower} are clearly lower"
        )
        own = rows.get(_PERPLEXITY)
        if own:
            gain = turned * _better(_PERPLEXITY, own)
            sure = "clear" if _is_clear(own) else "not clear"
            side = "better" if gain > 0 else "worse"
            text += f"; {shown(abs(gain))} nats a word {side} in cross-entropy, which is {sure}"
        said.append(text)
    return f"{'; '.join(said)}." if said else ""


def _means(rows: pd.DataFrame) -> dict[MeasureName, tuple[float, float]]:
    """Return the value and the floor of measures that have one, means over models."""
    known = rows.dropna(subset=["value", "floor"])
    held: dict[MeasureName, list[tuple[float, float]]] = {}
    for row in known.to_dict("records"):
        name = (row["evaluator"], row["measure"])
        held.setdefault(name, []).append((row["value"], row["floor"]))
    means = {name: np.mean(pairs, axis=0) for name, pairs in held.items()}
    return {name: (float(means[name][0]), float(means[name][1])) for name in sort_measures(held)}


def _supervised(rows: pd.DataFrame, labels: Labels) -> str:
    """Say what sentence encoders score, and how much of it unrelated sentences get."""
    means = {n: found for n, found in _means(rows).items() if n[1] in _OF_SENTENCES}
    if len(means) < 2:
        return ""
    said = [
        f"{measure_title(name, labels)} {shown(value)} (floor {shown(floor)})"
        for name, (value, floor) in sorted(means.items(), key=lambda item: item[1][0])
    ]
    by_value = sorted(means, key=lambda name: means[name][0])
    by_excess = sorted(means, key=lambda name: means[name][0] - means[name][1])
    order = "the same order" if by_value == by_excess else "another order"
    return (
        f"means over models, lowest first: {', '.join(said)}. What is above the floor has {order}. "
        "The levels of different evaluators do not compare, so that lower says nothing of harder; "
        "and InferSent's architecture is supervised only where pairs that people judged are given."
    )


def _disagreements(pairs: _Pairs) -> Iterator[tuple[MeasureName, str, str, bool]]:
    """List measure and models, better in the measure first, where perplexity has it reversed."""
    for (first, second), rows in pairs.items():
        base = rows.get(_PERPLEXITY)
        for name, row in rows.items() if base else ():
            own, other = _better(name, row), _better(_PERPLEXITY, base or {})
            if own * other < 0:
                models = (first, second) if own > 0 else (second, first)
                yield name, *models, _is_clear(row) and _is_clear(base or {})


def _order(pairs: _Pairs, labels: Labels) -> str:
    """Say where measures order models otherwise than cross-entropy on the same sentences."""
    names = {n for rows in pairs.values() for n in rows if n != _PERPLEXITY and _PERPLEXITY in rows}
    if not names:
        return ""
    found = list(_disagreements(pairs))
    other = {name for name, *_ in found}
    clear = [one for one in found if one[3]]
    said = (
        f"of {len(names)} measures {len(other)} order some pair of models otherwise than "
        f"cross-entropy on the same sentences does, in {len(found)} pairs in all; in {len(clear)} "
        f"of these both differences are clear (adjusted p < {_CLEAR:g})"
    )
    examples = [
        f"{labels.model(better)} before {labels.model(worse)} by {measure_title(name, labels)}"
        for name, better, worse, _ in clear[:_FEW_NAMES]
    ]
    return said + (f", such as {'; '.join(examples)}." if examples else ".")


def _floors(rows: pd.DataFrame, labels: Labels) -> str:
    """Say how much of the scores unrelated sentences get as well."""
    shares = {
        name: (value, floor)
        for name, (value, floor) in _means(rows).items()
        if MEASURES[name[1]].higher and value > 0 and floor > 0
    }
    if not shares:
        return ""
    most, least = (
        pick(shares, key=lambda name: shares[name][1] / shares[name][0]) for pick in (max, min)
    )
    said = [
        f"{measure_title(name, labels)}: {shown(shares[name][1])} of {shown(shares[name][0])}"
        for name in dict.fromkeys([most, least])
    ]
    return (
        "what the same predictions get against unrelated sentences, the largest and the smallest "
        f"share of a score (means over models): {'; '.join(said)}."
    )


def _together(correlations: pd.DataFrame | None, split: str, labels: Labels) -> str:
    """Say how measures go together over sentences."""
    if correlations is None:
        return ""
    rows = correlations[(correlations["split"] == split) & (correlations["over"] == "sentences")]
    rows = rows[(rows["method"] == "spearman") & rows["low"].notna()]
    rows = rows[rows["first_evaluator"] != rows["second_evaluator"]]
    if rows.empty:
        return ""
    rows = rows.assign(size=rows["value"].abs()).sort_values("size", kind="stable")
    said = []
    for row in (rows.iloc[0], rows.iloc[-1]):
        first, second = (
            measure_title((row[f"{one}_evaluator"], row[f"{one}_measure"]), labels)
            for one in ("first", "second")
        )
        interval = shown_interval(row["low"], row["high"])
        said.append(f"{shown(row['value'])} {interval} ({first} and {second})")
    return (
        "Spearman's correlation over sentences of measures by different evaluators: from "
        f"{said[0]} to {said[1]}, median {shown(rows['size'].median())}."
    )


def _blind(probes: pd.DataFrame | None, labels: Labels) -> str:
    """Name for each change the measures that notice it in fewer than half of the sentences."""
    if probes is None:
        return ""
    said = []
    for probe, rows in probes[probes["probe"] != "identical"].groupby("probe", sort=False):
        blind = rows[rows["noticed"] < 0.5]
        names = sort_measures(zip(blind["evaluator"], blind["measure"], strict=True))
        listed = ", ".join(measure_title(name, labels) for name in names)
        said.append(f"{str(probe).replace('_', ' ')}: {listed or 'none'}")
    return f"in fewer than half of the sentences by: {'; '.join(said)}." if said else ""


def _human(human: pd.DataFrame | None, scores: pd.DataFrame | None, labels: Labels) -> str:
    if human is None or scores is None:
        return ""
    said = []
    for file in dict.fromkeys(human["file"]):
        names = [
            measure_title(name, labels)
            for of, name, verdict in beaten(human, scores, labels)
            if of == file and verdict.startswith("does not")
        ]
        said.append(f"{file}: {', '.join(names) or 'none'}")
    return f"do not beat the average of word vectors on {'; '.join(said)}."


def semantic_findings_table(
    semantics: pd.DataFrame,
    differences: pd.DataFrame | None,
    correlations: pd.DataFrame | None,
    models: Mapping[str, Mapping[str, Any]],
    probes: pd.DataFrame | None,
    human: pd.DataFrame | None,
    scores: pd.DataFrame | None,
    labels: Labels,
) -> Table:
    """Say what was found, in lines of which the first page of the report has some.

    Parameters
    ----------
    semantics : pandas.DataFrame
        Schema ``semantics``, of all models.
    differences, correlations : pandas.DataFrame or None
        Schemas ``semantic_differences`` and ``semantic_correlations``; None of a single model.
    models : dict
        ``model.json`` by name of the model.
    probes, human, scores : pandas.DataFrame or None
        Schemas ``probes``, ``human_correlations`` and ``human_scores``.
    labels : Labels
        Names and order, also of evaluators.

    Returns
    -------
    Table
        A row for each question: what the paper says, and what was found here.

    Raises
    ------
    InputError
        When there is no measure.
    """
    split = shown_split(semantics["split"])
    rows, pairs = pick_predicted(semantics, split), _by_pair(differences, split)
    wins = " and ".join(
        f"{won} of {total} similarities of {table}"
        for table, (won, total) in ((t, published_wins(t)) for t in PUBLISHED_SEMANTICS)
    )
    lower, cells = published_lower("infersent", "skipthought")
    lines: list[_Line] = [
        (
            "Does scheduled sampling help",
            f"Yes: higher in {wins}.",
            _scheduled(models, pairs, labels),
            True,
        ),
        (
            "Do supervised evaluators score lower",
            f"They do; InferSent is below SkipThought in {lower} of {cells} printed cells.",
            _supervised(rows, labels),
            True,
        ),
        (
            "Is the order another than perplexity's",
            "Models that are better in perplexity are not always better in meaning.",
            _order(pairs, labels),
            True,
        ),
        ("How much is chance", "", _floors(rows, labels), True),
        (
            "Do the measures go together",
            "There is no clear correlation between them.",
            _together(correlations, split, labels),
            False,
        ),
        ("What goes unnoticed", "", _blind(probes, labels), False),
        ("Scores that people gave", "", _human(human, scores, labels), False),
    ]
    kept = [line for line in lines if line[2]]
    tidy = pd.DataFrame(kept, columns=["question", "paper", "found", FIRST_PAGE])
    heads = [
        Column("Question", wraps=True),
        Column("Paper", published=True, wraps=True),
        Column("Here", wraps=True),
    ]
    note = (
        f"Of the {SPLIT_TITLES.get(split, split)} split. Predictions follow true words, one place "
        "at a time: they say nothing of whole generated texts. Differences are of single trainings."
    )
    body = [list(line[:3]) for line in kept]
    return Table("semantic_findings", "What was found", note, heads, body, tidy)

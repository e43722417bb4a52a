"""What the semantic evaluation paper asserts, held against a run; differences, probes, people."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import partial
from operator import itemgetter
from typing import Any

import numpy as np
import pandas as pd

from beyond_perplexity.figures import numbers
from beyond_perplexity.figures.labels import Labels
from beyond_perplexity.figures.measure_names import (
    SPLIT_TITLES,
    Descriptions,
    MeasureName,
    by_key,
    evaluator_family,
    evaluator_title,
    measure_title,
    parts_by,
    pick_predicted,
    shown_split,
    sort_measures,
)
from beyond_perplexity.report.findings import Answer, findings_table
from beyond_perplexity.report.layout import Column, Table, interval_column, lay_out, text_columns
from beyond_perplexity.report.published import PUBLISHED_SEMANTICS, published_lower, published_wins
from beyond_perplexity.report.semantic_tables import scheduled_pairs
from beyond_perplexity.schemas.semantics import PREDICTED, WORDS_EVALUATOR
from beyond_perplexity.semantics.measures import CROSS_ENTROPY, MEASURES
from beyond_perplexity.semantics.paired_scores import EXCESS_KIND
from beyond_perplexity.semantics.scored_pairs import rank_surplus

_CLEAR = 0.05
_PERPLEXITY: MeasureName = (WORDS_EVALUATOR, CROSS_ENTROPY)
_OF_SENTENCES = ("similarity", "inner")  # one for each sentence encoder
_FEW_NAMES = 3
_Pairs = Mapping[tuple[str, str], Mapping[MeasureName, Mapping[Any, Any]]]


def _by_pair(differences: pd.DataFrame | None, split: str) -> _Pairs:
    """Sort the differences of predictions by pair of models, then by measure."""
    if differences is None:
        return {}
    rows = differences[(differences["split"] == split) & (differences["kind"] == PREDICTED)]
    pairs = parts_by(rows.dropna(subset="value"), "first", "second")
    return {pair: by_key(own, "evaluator", "measure") for pair, own in pairs.items()}


def _better(name: MeasureName, row: Mapping[Any, Any]) -> float:
    """Return the difference with the sign that it has where the first model is better."""
    return float(row["value"]) if MEASURES[name[1]].higher else -float(row["value"])


def _is_clear(row: Mapping[Any, Any]) -> bool:
    return bool(row["p_adjusted"] < _CLEAR)  # NaN where no verdict is possible


def _scheduled(models: Descriptions, pairs: _Pairs, labels: Labels) -> Iterator[Answer]:
    """Count the measures in which scheduled sampling made a model better or worse."""
    for plain, other in scheduled_pairs(models):
        turned = -1 if (plain, other) in pairs else 1
        rows = pairs.get((plain, other), pairs.get((other, plain), {}))
        gains = {n: turned * _better(n, r) for n, r in rows.items() if n != _PERPLEXITY}
        if not gains:
            continue
        about = f"{labels.model(other)} against {labels.model(plain)}"
        clear = [gain for name, gain in gains.items() if _is_clear(rows[name])]
        for verdict, count in (
            ("higher", sum(gain > 0 for gain in gains.values())),
            ("clearly higher", sum(gain > 0 for gain in clear)),
            ("clearly lower", sum(gain < 0 for gain in clear)),
        ):
            yield Answer(about, "measures", found=count, of=len(gains), verdict=verdict)
        if own := rows.get(_PERPLEXITY):
            gain = turned * _better(_PERPLEXITY, own)
            said = f"{'better' if gain > 0 else 'worse'}, {'' if _is_clear(own) else 'not '}clear"
            yield Answer(about, "difference in cross-entropy, nats a word", abs(gain), verdict=said)


def _means(rows: pd.DataFrame) -> dict[MeasureName, tuple[float, float]]:
    """Return the value and the baseline of measures that have one, means over models."""
    held = parts_by(rows.dropna(subset=["value", "baseline"]), "evaluator", "measure")
    found = {}
    for name in sort_measures(held):
        value, baseline = np.mean(held[name][["value", "baseline"]].to_numpy().tolist(), axis=0)
        found[name] = float(value), float(baseline)
    return found


def _with_baseline(
    name: MeasureName, means: tuple[float, float], verdict: str, labels: Labels
) -> Iterator[Answer]:
    title = measure_title(name, labels)
    yield Answer(title, "score, mean over models", means[0], verdict=verdict)
    yield Answer(title, "of unrelated sentences (baseline)", means[1])


def _supervised(rows: pd.DataFrame, labels: Labels) -> Iterator[Answer]:
    """List what sentence encoders score, lowest first, and how much of it unrelated sentences."""
    means = {n: found for n, found in _means(rows).items() if n[1] in _OF_SENTENCES}
    if len(means) < 2:
        return
    by_value = sorted(means, key=lambda name: means[name][0])
    by_excess = sorted(means, key=lambda name: means[name][0] - means[name][1])
    for name in by_value:
        yield from _with_baseline(name, means[name], "", labels)
    order = "the same order" if by_value == by_excess else "another order"
    yield Answer("these evaluators", "what is above the baseline", verdict=order)


def _disagreements(pairs: _Pairs) -> Iterator[tuple[MeasureName, str, str, bool]]:
    """List measure and models, better in the measure first, where perplexity has it reversed."""
    for (first, second), rows in pairs.items():
        base = rows.get(_PERPLEXITY)
        for name, row in rows.items() if base else ():
            own, other = _better(name, row), _better(_PERPLEXITY, base or {})
            if own * other < 0:
                models = (first, second) if own > 0 else (second, first)
                yield name, *models, _is_clear(row) and _is_clear(base or {})


def _order(pairs: _Pairs, labels: Labels) -> Iterator[Answer]:
    """Count where measures order models otherwise than cross-entropy on the same sentences."""
    measured = [n for rows in pairs.values() for n in rows if _PERPLEXITY in rows]
    compared = [name for name in measured if name != _PERPLEXITY]
    if not compared:
        return
    found = list(_disagreements(pairs))
    clear = [one for one in found if one[3]]
    measures, total = len({name for name, *_ in found}), len(set(compared))
    told = "measures that order some pair of models otherwise than cross-entropy on the same text"
    yield Answer("all models", told, found=measures, of=total, first_page=True)
    told = "pairs of models in another order, each in a measure"
    yield Answer("all models", told, found=len(found), of=len(compared))
    told = f"of these, both differences are clear (adjusted p < {_CLEAR:g})"
    yield Answer("all models", told, found=len(clear), of=len(found))
    for name, better, worse, _ in clear[:_FEW_NAMES]:
        about = f"{labels.model(better)} before {labels.model(worse)}"
        yield Answer(about, measure_title(name, labels), verdict="both clear")


def _baselines(rows: pd.DataFrame, labels: Labels) -> Iterator[Answer]:
    """Find the measures of whose scores unrelated sentences get the most and the least."""
    shares = {
        name: (value, baseline)
        for name, (value, baseline) in _means(rows).items()
        if MEASURES[name[1]].higher and value > 0 and baseline > 0
    }
    found: dict[MeasureName, str] = {}
    for pick, said in ((max, "largest share"), (min, "smallest share")) if shares else ():
        found.setdefault(pick(shares, key=lambda name: shares[name][1] / shares[name][0]), said)
    for name, said in found.items():
        yield from _with_baseline(name, shares[name], f"{said} from chance", labels)


def _together(correlations: pd.DataFrame | None, split: str, labels: Labels) -> Iterator[Answer]:
    """Find how measures by different evaluators go together over sentences."""
    if correlations is None:
        return
    rows = correlations[(correlations["split"] == split) & (correlations["over"] == "sentences")]
    rows = rows[(rows["method"] == "spearman") & rows["low"].notna()]
    rows = rows[rows["first_evaluator"] != rows["second_evaluator"]]
    if rows.empty:
        return
    rows = rows.assign(size=rows["value"].abs()).sort_values("size", kind="stable")
    quantity = "Spearman's correlation over sentences"  # limits are not of what was chosen by it
    for place, said in ((0, "nearest to 0"), (-1, "farthest from 0")):
        row = rows.iloc[place]
        names = [(row[f"{n}_evaluator"], row[f"{n}_measure"]) for n in ("first", "second")]
        about = " and ".join(measure_title(name, labels) for name in names)
        yield Answer(about, quantity, row["value"], verdict=said)
    middle = float(rows["size"].median())
    yield Answer("all of different evaluators", f"median size of {quantity}", middle)


def _blind(probes: pd.DataFrame | None, labels: Labels) -> Iterator[Answer]:
    """List for each change the measures that notice it in fewer than half of the sentences."""
    if probes is None:
        return
    for probe, rows in parts_by(probes[probes["probe"] != "identical"], "probe").items():
        blind = by_key(rows[rows["noticed"] < 0.5], "evaluator", "measure")
        quantity = f"share of sentences in which it notices: {probe.replace('_', ' ')}"
        for name in sort_measures(blind):
            title, share = measure_title(name, labels), blind[name]["noticed"]
            yield Answer(title, quantity, share, verdict="in fewer than half")
        if not blind:
            yield Answer("every measure", quantity, verdict="in half or more")


def _human(
    human: pd.DataFrame | None, scores: pd.DataFrame | None, labels: Labels
) -> Iterator[Answer]:
    """List the measures that do not beat the average of word vectors, file by file."""
    if human is None or scores is None:
        return
    said = [one for one in beaten(human, scores, labels) if one[2].startswith("does not")]
    for file in dict.fromkeys(human["file"]):
        own = [(measure_title(name, labels), verdict) for of, name, verdict in said if of == file]
        for title, verdict in own or [("no measure", "does not beat the average of vectors")]:
            yield Answer(title, f"order of the pairs of {file}", verdict=verdict)


def semantic_findings_table(
    semantics: pd.DataFrame,
    differences: pd.DataFrame | None,
    correlations: pd.DataFrame | None,
    models: Descriptions,
    probes: pd.DataFrame | None,
    human: pd.DataFrame | None,
    scores: pd.DataFrame | None,
    labels: Labels,
) -> Table:
    """Hold the assertions of the paper against a run, a number with its verdict a row."""
    split = shown_split(semantics["split"])
    rows, pairs = pick_predicted(semantics, split), _by_pair(differences, split)
    wins = " and ".join(
        f"{won} of {total} similarities of {table}"
        for table, (won, total) in ((t, published_wins(t)) for t in PUBLISHED_SEMANTICS)
    )
    lower, cells = published_lower("infersent", "skipthought")
    found = {
        "Does scheduled sampling help": (
            f"Yes: higher in {wins}.",
            _scheduled(models, pairs, labels),
        ),
        "Do supervised evaluators score lower": (
            f"They do; InferSent is below SkipThought in {lower} of {cells} printed cells.",
            _supervised(rows, labels),
        ),
        "Is the order another than perplexity's": (
            "Models that are better in perplexity are not always better in meaning.",
            _order(pairs, labels),
        ),
        "How much is chance": ("", _baselines(rows, labels)),
        "Do the measures go together": (
            "There is no clear correlation between them.",
            _together(correlations, split, labels),
        ),
        "What goes unnoticed": ("", _blind(probes, labels)),
        "Scores that people gave": ("", _human(human, scores, labels)),
    }
    note = (
        f"Of the {SPLIT_TITLES.get(split, split)} split. Predictions follow true words, a position "
        "at a time: they say nothing of whole generated texts. Differences are of single "
        f"trainings; they are clear where the adjusted p is below {_CLEAR:g}. The levels of "
        "different evaluators do not compare, so that lower says nothing of harder; InferSent's "
        "architecture is supervised only where pairs that people judged are given."
    )
    return findings_table("semantic_findings", "What was found", note, found)


def _difference_cell(row: Mapping[Any, Any] | None) -> str:
    if row is None or pd.isna(row["value"]):
        return ""
    limits = numbers.shown_interval(row["low"], row["high"])
    found = f"{numbers.shown_signed(row['value'])}{numbers.stars(row['p_adjusted'])}"
    return f"{found} {limits}".rstrip()


def semantic_differences_table(differences: pd.DataFrame, labels: Labels) -> Table:
    """Make the table of differences, and of their excess: a row a pair, a column a measure."""
    split = shown_split(differences["split"])
    rows = differences[differences["split"] == split]
    names = sort_measures(zip(rows["evaluator"], rows["measure"], strict=True))
    found = by_key(rows, "first", "second", "kind", "evaluator", "measure")
    lines = []
    for first, second in dict.fromkeys(zip(rows["first"], rows["second"], strict=True)):
        pair = f"{labels.model(first)} less {labels.model(second)}"
        for kind, title in ((PREDICTED, "value"), (EXCESS_KIND, "above the baseline")):
            cells: dict[Any, str] = {
                n: _difference_cell(found.get((first, second, kind, *n))) for n in names
            }
            if any(cells.values()):
                lines.append({"models": pair * (kind == PREDICTED), "of": title, **cells})
    columns = text_columns("Models", "of")
    for name in names:
        owner = "" if name[0] == WORDS_EVALUATOR else evaluator_title(name[0], labels)
        title = MEASURES[name[1]].title if name[1] in MEASURES else name[1]
        columns.append(Column(title, owner, of=itemgetter(name)))
    notes = "; ".join(dict.fromkeys(note for note in rows["note"] if note))
    note = (
        f"On the same sentences of the {SPLIT_TITLES.get(split, split)} split, with 95% "
        f"intervals over documents or groups of them. {numbers.STAR_NOTE}, by Student's t of the "
        "jackknife over these, adjusted for all pairs and measures of a kind. Of cross-entropy "
        "less is better. About these trained models; one training of each says nothing of "
        f"architectures. {notes}"
    )
    title = "Differences of models in measures of meaning"
    return lay_out("semantic_differences", title, note.strip(), columns, lines, differences)


_AVERAGE, _UNRELATED = "average", "unrelated"


def probes_table(probes: pd.DataFrame, labels: Labels) -> Table:
    """Make the table of probes: a row a measure, a column what was done to a sentence."""
    found = by_key(probes, "evaluator", "measure", "probe")
    names = sort_measures(zip(probes["evaluator"], probes["measure"], strict=True))
    known = set(probes.loc[probes["noticed"].notna(), "probe"])
    changed = set(probes.loc[probes["effect"].notna(), "probe"]) - {_UNRELATED}
    columns = [Column("Measure", text=True, of=lambda name: measure_title(name, labels))]
    for kind in dict.fromkeys(probes["probe"]):
        group = kind.replace("_", " ").capitalize()
        parts = [("score", "value"), *[("noticed", "noticed")] * (kind in known)]
        parts += [("way", "effect")] * (kind in changed)
        for title, key in parts:
            of = partial(lambda kind, key, name: found.get((*name, kind), {}).get(key), kind, key)
            form = numbers.shown if key == "value" else numbers.shown_share
            columns.append(Column(title, group, of=of, form=form))
    notes = "; ".join(dict.fromkeys(note for note in probes["note"] if note))
    note = (
        "A true sentence against what was made of it. Score: the mean; noticed: the share of "
        "sentences whose changed version scores below the sentence itself; way: how much lower, "
        "as a share of how much lower an unrelated sentence scores. Who does not notice words in "
        f"another order, or a not, does not measure them. Intervals are in the CSV. {notes}"
    )
    return lay_out("probes", "What the measures notice", note.strip(), columns, names, probes)


def _average_of_vectors(rows: pd.DataFrame, labels: Labels) -> MeasureName | None:
    """Name the average of word vectors, of external vectors before those of the corpus."""
    held = rows.loc[rows["measure"] == _AVERAGE, "evaluator"]
    owners = sorted(set(held), key=lambda name: evaluator_family(name, labels) != "vectors")
    return (owners[0], _AVERAGE) if owners else None


def beaten(
    human: pd.DataFrame, scores: pd.DataFrame, labels: Labels
) -> Iterator[tuple[str, MeasureName, str]]:
    """Say how the Spearman correlation of each measure stands to that of averaged word vectors;
    adjusted for all measures and files."""
    compared = int(human["spearman"].notna().sum())
    for file, rows in parts_by(human, "file").items():
        base = _average_of_vectors(rows, labels)
        own = scores[scores["file"] == file].sort_values("pair", kind="stable")
        held = parts_by(own, "evaluator", "measure")
        for row in rows.to_dict("records"):
            name, said = (row["evaluator"], row["measure"]), ""
            if base and name != base and not pd.isna(row["spearman"]):
                values = held[name]["gold"], held[name]["value"], held[base]["value"]
                gold, given, other = (column.to_numpy() for column in values)
                found = rank_surplus(gold, given, other, compared)
                if math.isnan(found[0]):
                    said = ""
                elif not found[0] > 0:
                    said = "does not beat the average of vectors"
                elif not found[1] > 0:
                    said = "above the average of vectors, but not clearly"
                else:
                    said = "beats the average of vectors"
            yield str(file), name, said


def human_table(human: pd.DataFrame, scores: pd.DataFrame, labels: Labels) -> Table:
    """Make the table of correlations with scores that people gave, the highest first."""
    verdicts = {(file, *name): said for file, name, said in beaten(human, scores, labels)}
    files = human.groupby("file", sort=False).ngroup()
    ordered = human.assign(at=files).sort_values(["at", "spearman"], ascending=[True, False])
    columns = [
        *text_columns("File", form=str),
        *text_columns(
            "Measure", of=("evaluator", "measure"), form=lambda *name: measure_title(name, labels)
        ),
        *(
            column
            for kind in ("spearman", "pearson")
            for column in (
                Column("r", kind.capitalize(), of=kind, form=numbers.shown),
                interval_column(group=kind.capitalize(), of=f"{kind}_"),
            )
        ),
        Column("Pairs", of="pairs", form=lambda n: f"{n:,}"),  # those with a value
        *text_columns(
            "Against the average of vectors",
            of=("file", "evaluator", "measure"),
            form=lambda *key: verdicts[key],
        ),
    ]
    note = (
        "How far each measure orders pairs of texts as people did. What does not beat the average "
        "of word vectors, which knows neither order nor syntax, gives little reason to be used. "
        "The two are compared on the same pairs, adjusted for all measures and files (Bonferroni): "
        "where intervals overlap, the test may still distinguish them."
    )
    title = "Measures against scores that people gave"
    return lay_out("human_correlations", title, note, columns, ordered, human)

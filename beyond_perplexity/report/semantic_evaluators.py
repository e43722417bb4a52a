"""What semantic measures notice, how far they agree with people, and how models differ in them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from operator import itemgetter
from typing import Any

import pandas as pd

from beyond_perplexity.figures import numbers
from beyond_perplexity.figures.labels import Labels
from beyond_perplexity.figures.measure_names import (
    SPLIT_TITLES,
    MeasureName,
    by_key,
    evaluator_family,
    evaluator_title,
    measure_title,
    parts_by,
    shown_split,
    sort_measures,
)
from beyond_perplexity.report.layout import Column, Table, interval_column, lay_out, text_columns
from beyond_perplexity.schemas.semantics import PREDICTED, WORDS_EVALUATOR
from beyond_perplexity.semantics.measures import MEASURES
from beyond_perplexity.semantics.paired_scores import EXCESS_KIND
from beyond_perplexity.semantics.scored_pairs import rank_surplus


def _difference_cell(row: Mapping[Any, Any] | None) -> str:
    if row is None or pd.isna(row["value"]):
        return ""
    half = (row["high"] - row["low"]) / 2
    spread = "" if pd.isna(half) else f" ± {half:.3f}"
    return f"{numbers.shown_signed(row['value'])}{spread}{numbers.stars(row['p_adjusted'])}"


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
        f"On the same sentences of the {SPLIT_TITLES.get(split, split)} split; ± half the 95% "
        f"interval over documents or groups of them. {numbers.STAR_NOTE}, by Student's t of the "
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
    """Say how the Spearman correlation of each measure stands to that of averaged word vectors."""
    for file, rows in parts_by(human, "file").items():
        base = _average_of_vectors(rows, labels)
        own = scores[scores["file"] == file].sort_values("pair", kind="stable")
        held = parts_by(own, "evaluator", "measure")
        for row in rows.to_dict("records"):
            name, said = (row["evaluator"], row["measure"]), ""
            if base and name != base and not pd.isna(row["spearman"]):
                values = held[name]["gold"], held[name]["value"], held[base]["value"]
                found = rank_surplus(*(column.to_numpy() for column in values))
                if not found[0] > 0:
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
        Column("Pairs", of=("pairs", "undefined"), form=lambda n, lost: f"{n - lost:,}"),
        *text_columns(
            "Against the average of vectors",
            of=("file", "evaluator", "measure"),
            form=lambda *key: verdicts[key],
        ),
    ]
    note = (
        "How far each measure orders pairs of texts as people did. What does not beat the average "
        "of word vectors, which knows neither order nor syntax, gives little reason to be used. "
        "The two are compared on the same pairs: where intervals overlap, the test may still "
        "distinguish them."
    )
    title = "Measures against scores that people gave"
    return lay_out("human_correlations", title, note, columns, ordered, human)

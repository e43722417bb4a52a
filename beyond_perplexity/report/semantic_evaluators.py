"""What semantic measures notice, how far they agree with people, and how models differ in them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from beyond_perplexity.figures.labels import Labels
from beyond_perplexity.figures.measure_names import (
    SPLIT_TITLES,
    MeasureName,
    evaluator_family,
    evaluator_title,
    measure_title,
    shown_split,
    sort_measures,
)
from beyond_perplexity.figures.numbers import (
    STAR_NOTE,
    shown,
    shown_interval,
    shown_share,
    shown_signed,
    stars,
)
from beyond_perplexity.report.layout import Column, Table
from beyond_perplexity.schemas.semantics import PREDICTED, WORDS_EVALUATOR
from beyond_perplexity.semantics.measures import MEASURES
from beyond_perplexity.semantics.paired_scores import EXCESS_KIND
from beyond_perplexity.semantics.scored_pairs import rank_surplus


def _difference_cell(row: Mapping[Any, Any] | None) -> str:
    if row is None or pd.isna(row["value"]):
        return ""
    half = (row["high"] - row["low"]) / 2
    spread = "" if pd.isna(half) else f" ± {half:.3f}"
    return f"{shown_signed(row['value'])}{spread}{stars(row['p_adjusted'])}"


def _group(evaluator: str, labels: Labels) -> str:
    return "" if evaluator == WORDS_EVALUATOR else evaluator_title(evaluator, labels)


def semantic_differences_table(differences: pd.DataFrame, labels: Labels) -> Table:
    """Make the table of differences: a row a pair of models, a column a measure.

    Of predictions, and of their excess over the floor, on the test split where there is one.
    """
    split = shown_split(differences["split"])
    rows = differences[differences["split"] == split]
    names = sort_measures(zip(rows["evaluator"], rows["measure"], strict=True))
    found = {
        (r["kind"], r["first"], r["second"], r["evaluator"], r["measure"]): r
        for r in rows.to_dict("records")
    }
    pairs = list(dict.fromkeys(zip(rows["first"], rows["second"], strict=True)))
    body, said = [], {PREDICTED: "value", EXCESS_KIND: "above the floor"}
    for first, second in pairs:
        for kind, title in said.items():
            cells = [_difference_cell(found.get((kind, first, second, *name))) for name in names]
            if any(cells):
                pair = f"{labels.model(first)} less {labels.model(second)}"
                body.append([pair if kind == PREDICTED else "", title, *cells])
    heads = [Column("Models", text=True), Column("of", text=True)]
    heads += [
        Column(MEASURES[measure].title if measure in MEASURES else measure, _group(owner, labels))
        for owner, measure in names
    ]
    notes = "; ".join(dict.fromkeys(note for note in rows["note"] if note))
    note = (
        f"On the same sentences of the {SPLIT_TITLES.get(split, split)} split; ± half the 95% "
        f"interval over documents or groups of them. {STAR_NOTE}, by sign-flips of these (BLEU: by "
        "swaps), adjusted for all pairs and measures of a kind. Of cross-entropy less is better. "
        f"About these trained models; one training of each says nothing of architectures. {notes}"
    )
    title = "Differences of models in measures of meaning"
    return Table("semantic_differences", title, note.strip(), heads, body, differences)


_AVERAGE, _UNRELATED = "average", "unrelated"


def probes_table(probes: pd.DataFrame, labels: Labels) -> Table:
    """Make the table of probes: a row a measure, a column what was done to a sentence."""
    found = {(r["evaluator"], r["measure"], r["probe"]): r for r in probes.to_dict("records")}
    names = sort_measures(zip(probes["evaluator"], probes["measure"], strict=True))
    kinds = list(dict.fromkeys(probes["probe"]))
    known = set(probes.loc[probes["noticed"].notna(), "probe"])
    changed = set(probes.loc[probes["effect"].notna(), "probe"]) - {_UNRELATED}
    body = []
    for name in names:
        line = [measure_title(name, labels)]
        for kind in kinds:
            row = found.get((*name, kind), {})
            line.append(shown(row.get("value")))
            line += [shown_share(row.get("noticed"))] * (kind in known)
            line += [shown_share(row.get("effect"))] * (kind in changed)
        body.append(line)
    heads = [Column("Measure", text=True)]
    heads += [
        Column(title, kind.replace("_", " ").capitalize())
        for kind in kinds
        for title in ("score", *["noticed"] * (kind in known), *["way"] * (kind in changed))
    ]
    notes = "; ".join(dict.fromkeys(note for note in probes["note"] if note))
    note = (
        "A true sentence against what was made of it. Score: the mean; noticed: the share of "
        "sentences whose changed version scores below the sentence itself; way: how much lower, as "
        "a share of how much lower an unrelated sentence scores. Who does not notice "
        "words in another order, or a not, does not measure them. Intervals are in the CSV. "
        f"{notes}"
    )
    return Table("probes", "What the measures notice", note.strip(), heads, body, probes)


def _average_of_vectors(rows: pd.DataFrame, labels: Labels) -> MeasureName | None:
    """Name the average of word vectors, of vectors that were brought before those of the corpus."""
    held = rows.loc[rows["measure"] == _AVERAGE, "evaluator"]
    owners = sorted(set(held), key=lambda name: evaluator_family(name, labels) != "vectors")
    return (owners[0], _AVERAGE) if owners else None


def _values(scores: pd.DataFrame) -> Mapping[MeasureName, pd.DataFrame]:
    """Give for each measure the scores of the pairs of a file, in the order of the pairs."""
    ordered = scores.sort_values("pair", kind="stable")
    return {
        (str(evaluator), str(measure)): rows.reset_index(drop=True)
        for (evaluator, measure), rows in ordered.groupby(["evaluator", "measure"], sort=False)
    }


def beaten(
    human: pd.DataFrame, scores: pd.DataFrame, labels: Labels
) -> Iterator[tuple[str, MeasureName, str]]:
    """Say of each measure how it stands to the average of word vectors, file by file.

    By its Spearman correlation less that of the average of vectors on the same pairs.
    """
    for file, rows in human.groupby("file", sort=False):
        base = _average_of_vectors(rows, labels)
        held = _values(scores[scores["file"] == file])
        for row in rows.to_dict("records"):
            name, said = (row["evaluator"], row["measure"]), ""
            if base and name != base and not pd.isna(row["spearman"]):
                own, average = held[name], held[base]["value"].to_numpy()
                found = rank_surplus(own["gold"].to_numpy(), own["value"].to_numpy(), average)
                if not found[0] > 0:
                    said = "does not beat the average of vectors"
                elif not found[1] > 0:
                    said = "above the average of vectors, but not clearly"
                else:
                    said = "beats the average of vectors"
            yield str(file), name, said


def human_table(human: pd.DataFrame, scores: pd.DataFrame, labels: Labels) -> Table:
    """Make the table of correlations with scores that people gave.

    The highest Spearman correlation first, file by file.
    """
    verdicts = {(file, name): said for file, name, said in beaten(human, scores, labels)}
    body = []
    for file, rows in human.groupby("file", sort=False):
        for row in rows.sort_values("spearman", ascending=False, kind="stable").to_dict("records"):
            name = (row["evaluator"], row["measure"])
            cells = [str(file), measure_title(name, labels)]
            for kind in ("spearman", "pearson"):
                cells += [shown(row[kind]), shown_interval(row[f"{kind}_low"], row[f"{kind}_high"])]
            body.append([*cells, f"{row['pairs'] - row['undefined']:,}", verdicts[str(file), name]])
    heads = [Column("File", text=True), Column("Measure", text=True)]
    heads += [
        Column(title, kind) for kind in ("Spearman", "Pearson") for title in ("r", "95% interval")
    ]
    heads += [Column("Pairs"), Column("Against the average of vectors", text=True)]
    note = (
        "How far each measure orders pairs of texts as people did. What does not beat the average "
        "of word vectors, which knows neither order nor syntax, gives little reason to be used. "
        "The two are compared on the same pairs: where intervals overlap, they may be told apart."
    )
    title = "Measures against scores that people gave"
    return Table("human_correlations", title, note, heads, body, human)

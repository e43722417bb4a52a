"""Distance, floor and excess of a comparison: of one size, and the same numbers in every output.

Needs no data: texts are drawn here. Oracles: the difference of the numbers as they are printed, one
output against the other, and halves and cuts drawn in NumPy.
"""

from __future__ import annotations

import json
import random
import re
from html import unescape
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle

from beyond_perplexity.figures import draw_figure
from beyond_perplexity.figures.effect_sizes import INSIDE, INSIDE_DIFFERS
from beyond_perplexity.figures.labels import Labels
from beyond_perplexity.report.compare import (
    CompareOptions,
    comparison_text,
    draw_one,
    run_comparison,
)
from beyond_perplexity.report.comparison_input import Comparison
from beyond_perplexity.report.comparison_page import MAIN_ROWS, comparison_table
from beyond_perplexity.report.layout import to_html_table
from beyond_perplexity.tendencies.definitions import is_distance
from tests.unit.synthetic_tables import make_measures

WORDS = [f"{name}{k}" for name in ("the", "of", "stone", "12") for k in ("", "a", "b", "c", ".")]
MAIN = "tendencies/main"
ROUNDED = 1.6e-3  # three numbers of three digits


def texts(seed: int, n: int, longest: int, skew: float = 1.0) -> list[str]:
    draw = random.Random(seed)
    weights = [(k + 1) ** -skew for k in range(len(WORDS))]
    return [" ".join(draw.choices(WORDS, weights, k=draw.randint(2, longest))) for _ in range(n)]


HUMAN = texts(1, 120, 14)
PAIRS = {
    "more samples": (HUMAN, texts(2, 300, 14), None),
    "few samples": (HUMAN, texts(3, 25, 14), None),
    "the same text": (HUMAN, HUMAN, None),
    "another text": (HUMAN, texts(4, 120, 25, 0.4), None),
    "four samples a prompt": (HUMAN, texts(5, 120, 14), [str(k // 4) for k in range(120)]),
}


@pytest.fixture(scope="module", params=PAIRS)
def made(request, tmp_path_factory) -> tuple[Comparison, Path]:
    folder: Path = tmp_path_factory.mktemp("sizes")
    reference, samples, groups = PAIRS[request.param]
    (folder / "a.txt").write_text("\n".join(reference))
    lines = [{"text": text} for text in samples]
    for line, group in zip(lines, groups or [], strict=bool(groups)):
        line["group"] = group
    (folder / "b.jsonl").write_text("\n".join(map(json.dumps, lines)))
    names = str(folder / "a.txt"), str(folder / "b.jsonl")
    options = CompareOptions(*names, permutations=39, bootstrap=0, tokenized=True)
    found = run_comparison(options, folder / "out")
    return found, folder / "out"


def printed_rows(text: str) -> list[dict[str, str]]:
    """Read the tables of a terminal by the columns of their rulers."""
    lines, rows = text.splitlines(), []
    for place, line in enumerate(lines):
        if not line or set(line) - set("- "):
            continue
        spans = [match.span() for match in re.finditer("-+", line)]
        heads = [lines[place - 1][slice(*span)].strip() for span in spans]
        for row in lines[place + 1 :]:
            if not row.strip():
                break
            rows.append({h: row[slice(*s)].strip() for h, s in zip(heads, spans, strict=True)})
    return rows


def html_rows(page: str) -> list[dict[str, str]]:
    rows = []
    for table in re.findall("<table>.*?</table>", page, re.DOTALL):
        heads = [unescape(head) for head in re.findall("<th[^>]*scope='col'>(.*?)</th>", table)]
        for row in re.findall("<tr[^>]*>(<td.*?)</tr>", table, re.DOTALL):
            cells = [unescape(cell) for cell in re.findall("<td[^>]*>(.*?)</td>", row, re.DOTALL)]
            rows.append(dict(zip(heads, cells, strict=True)))
    return rows


def number(cell: str) -> float:
    return float(cell.rstrip("*†").replace("−", "-"))


def test_three_numbers_agree_in_every_output(made) -> None:
    found, out = made
    csv = pd.read_csv(out / "tendencies.csv")
    distances = csv[csv["measure"].map(is_distance) & csv["floor"].notna()]
    assert len(distances) >= 8
    assert (distances["value"] - distances["floor"]).to_numpy() == pytest.approx(
        distances["excess"].to_numpy(), abs=1e-12
    )
    held = {(row["tendency"], row["measure"]): row for _, row in distances.iterrows()}
    pages = printed_rows(comparison_text(found)), html_rows((out / "compare.html").read_text())
    for rows in pages:
        checked = 0
        for row in MAIN_ROWS:
            if (row.tendency, row.distance) not in held:
                continue
            (shown,) = [one for one in rows if one.get("Tendency") == row.heading]
            cells = [number(shown[name]) for name in ("Distance", "Floor", "Excess")]
            assert cells[0] - cells[1] == pytest.approx(cells[2], abs=ROUNDED)
            written = held[row.tendency, row.distance][["value", "floor", "excess"]]
            assert cells == pytest.approx(written.to_list(), abs=6e-4)
            checked += 1
        assert checked == 8
        for row in (one for one in rows if one.get("Floor") and "Measure" in one):
            cells = [number(row[name]) for name in ("Value", "Floor", "Excess")]
            assert cells[0] - cells[1] == pytest.approx(cells[2], abs=ROUNDED / 10)
    plain, page = ({row["Tendency"]: row for row in rows if "Kind" in row} for rows in pages)
    assert plain == page


def test_the_figure_has_the_numbers_of_the_table(made) -> None:
    found, _ = made
    table = [dict(zip((c.title for c in t.columns), row, strict=True))
             for t in [comparison_table(found.measures)] for row in t.rows]  # fmt: skip
    (axis,) = draw_one(MAIN, found).axes
    cells = {(round(t.get_position()[1]), round(t.get_position()[0])): t.get_text()
             for t in axis.texts}  # fmt: skip
    width = 1 + max(column for _, column in cells)
    floors, values = ([cells[line, column] for column in range(width)] for line in (0, 1))
    expected = {(row["Distance"], row["Floor"]) for row in table}
    assert width >= 7
    assert set(zip(values, floors, strict=True)) <= expected


def lengths_of(lines: list[str]) -> np.ndarray:
    return np.array([len(line.split()) for line in lines])


def ks(first: np.ndarray, second: np.ndarray) -> float:
    at = np.arange(40)
    shares = [(side[:, None] <= at).mean(0) for side in (first, second)]
    return float(np.abs(shares[0] - shares[1]).max())


@pytest.mark.parametrize("name", ["more samples", "few samples", "another text"])
def test_the_distance_is_that_of_cut_samples_from_halves(name, tmp_path) -> None:
    reference, samples, _ = PAIRS[name]
    for file, lines in (("a.txt", reference), ("b.txt", samples)):
        (tmp_path / file).write_text("\n".join(lines))
    names = str(tmp_path / "a.txt"), str(tmp_path / "b.txt")
    options = CompareOptions(*names, permutations=1, bootstrap=0, tokenized=True)
    measures = run_comparison(options).measures
    row = measures.set_index(["tendency", "measure"]).loc[("length", "ks")]
    human, own, rng = lengths_of(reference), lengths_of(samples), np.random.default_rng(1)
    size = min(len(human) // 2, len(own))
    floors, found = [], []
    for _ in range(2_000):
        order = rng.permutation(human)
        floors.append(ks(order[:size], order[size : 2 * size]))
        found.append(ks(order[:size], rng.permutation(own)[:size]))
    # Forty pairs, and less than that where samples or halves overlap.
    assert row["value"] == pytest.approx(np.mean(found), abs=4 * np.std(found) / np.sqrt(20))
    assert row["floor"] == pytest.approx(np.mean(floors), abs=4 * np.std(floors) / np.sqrt(199))
    assert row["value_all"] == pytest.approx(ks(human, own))


def differing(value: float, p_adjusted: float) -> pd.DataFrame:
    table = make_measures(["external/samples"])
    chosen = (table["tendency"] == "length") & (table["measure"] == "ks")
    row = {"value": value, "floor": 0.1, "floor_low": 0.05, "floor_high": 0.2}
    row |= {"excess": value - 0.1, "p_value": 0.001, "p_adjusted": p_adjusted}
    table.loc[chosen, list(row)] = list(row.values())
    return table


def colour_of(table: pd.DataFrame, text: str) -> str:
    (axis,) = draw_figure(MAIN, {"measures": table}, Labels()).axes
    (place,) = [t.get_position() for t in axis.texts if t.get_text() == text]
    (cell,) = [
        patch
        for patch in axis.patches
        if isinstance(patch, Rectangle) and patch.get_xy() == (place[0] - 0.5, place[1] - 0.5)
    ]
    return to_hex(cell.get_facecolor()).upper()


def test_what_differs_is_never_white() -> None:
    assert colour_of(differing(0.123, 0.9), "0.123") == INSIDE
    assert colour_of(differing(0.123, 0.004), "0.123**") == INSIDE_DIFFERS
    assert colour_of(differing(0.456, 0.004), "0.456**") not in (INSIDE, INSIDE_DIFFERS)
    for p_adjusted, marks in ((0.9, 0), (0.004, 1)):
        table = comparison_table(differing(0.123, p_adjusted))
        others = [row for row in table.rows if row[-2] == "differs"]
        assert to_html_table(table).count("<tr class='marked'>") == len(others)
        assert sum(row[0].startswith("Length") for row in others) == marks

"""Comparisons of two texts: how they are read, what they claim, and the page about them.

Oracles: a text against itself (p = 1), texts of one law (no star) and out of one vocabulary
(stars), printed numbers, texts read by hand, the parser of HTML, plain counts, other formats.
"""

import gzip
import json
import random
import re
from collections import Counter
from functools import partial
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle

from beyond_perplexity import errors, vocabulary
from beyond_perplexity.commands.library_functions import run_function
from beyond_perplexity.corpus.formats import guess_format
from beyond_perplexity.figures import draw_figure, labels
from beyond_perplexity.figures.numbers import shown, verdict_mark
from beyond_perplexity.figures.texts import INSIDE, INSIDE_DIFFERS
from beyond_perplexity.report import compare, layout
from beyond_perplexity.report.comparison_page import (
    CSV_COLUMNS,
    MAIN_ROWS,
    PAGE_FIGURES,
    all_measures_table,
    comparison_page,
    comparison_table,
    comparison_text,
    draw_one,
    run_comparison,
    sample_sets_table,
    texts_table,
)
from beyond_perplexity.tendencies.definitions import compares_texts, family_of, is_distance
from tests.unit.evaluator_oracles import check_refused
from tests.unit.synthetic_tables import WITHHELD_NOTE, WORD_NOTE, make_measures, withhold
from tests.unit.text_pairs import at_most, exact_ks, plain_measures

SOURCE = "external/samples"


class Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.open: list[str] = []
        self.images: list[dict[str, str | None]] = []
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.tags.add(tag)
        if tag == "img":
            self.images.append(values)
        elif tag not in ("meta", "br"):
            self.open.append(tag)
        self.links += [str(values[key]) for key in ("src", "href") if key in values]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def write_text(path: Path, lines: list[str]) -> str:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


def write_jsonl(path: Path, texts: list[str], **fields: list[Any]) -> str:
    columns = {"text": texts, **{name: np.asarray(held).tolist() for name, held in fields.items()}}
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return write_text(path, list(map(json.dumps, rows)))


def read_both(reference: str, samples: str, **more: Any) -> compare.Comparison:
    how = {"tokenized": True, "permutations": 39, "bootstrap": 0, **more}
    with compare.compare_sample_sets(compare.CompareOptions(reference, samples, **how)) as found:
        return found


def line(table: layout.Table, first: str) -> dict[str, str]:
    (row,) = [row for row in table.rows if row[0] == first]
    return dict(zip((column.title for column in table.columns), row, strict=True))


@pytest.fixture
def measures() -> pd.DataFrame:
    table = make_measures([SOURCE])
    tested = table["p_value"].notna()
    table.loc[tested, ["p_value", "p_adjusted"]] = [0.001, 0.3]
    return table


def put(table: pd.DataFrame, tendency: str, measure: str, **values: Any) -> pd.DataFrame:
    chosen = (table["tendency"] == tendency) & (table["measure"] == measure)
    assert chosen.sum() == 1
    changed = table.copy()
    for name, value in values.items():
        changed.loc[chosen, name] = value
    return changed


def test_a_verdict_is_one_of_four(measures) -> None:
    table = put(measures, "length", "ks", p_value=0.0005, p_adjusted=0.004, value=0.25)
    table = withhold(table, "rank_frequency", "ks_empirical", WITHHELD_NOTE)
    table = put(table, "unigram", "tvd", p_value=np.nan, p_adjusted=np.nan)
    made = comparison_table(table)
    length = line(made, "Length: mean, tokens")
    assert (length["Verdict"], length["Distance"]) == ("differs", "0.250**")
    ranks = line(made, "Rank-frequency: Zipf's s")
    assert ranks["Verdict"] == f"no verdict: {WITHHELD_NOTE}"
    assert ranks["Distance"].endswith("†")
    assert (ranks["Adjusted p"], ranks["Note"]) == ("", "")
    assert line(made, "Unigrams")["Verdict"] == "not tested"
    largest = line(made, "Unigrams, largest difference")
    assert largest["Verdict"] == "no difference found"  # though its raw p is 0.001
    assert "*" not in largest["Distance"]
    assert largest["Note"] == WORD_NOTE


def test_baseline_excess_and_limits_stand_beside_a_distance_and_a_text_is_like_itself(measures):
    known = {"value": 0.18, "baseline": 0.05, "excess": 0.13, "low": np.nan, "high": 0.3}
    table = put(measures, "length", "ks", **known)
    table = put(table, "unigram", "tvd", low=0.059, high=0.174)
    made = comparison_table(table)
    length = line(made, "Length: mean, tokens")
    beside = [length[name] for name in ("Baseline", "Excess", "95% limits")]
    assert beside == ["0.050", "+0.130", "≤ 0.300"]
    assert line(made, "Unigrams")["95% limits"] == "[0.059, 0.174]"
    shown = [row for row in MAIN_ROWS if row.tendency in set(measures["tendency"])]
    assert [row.tendency for row in MAIN_ROWS if row not in shown] == ["embedding"]  # not asked for
    assert len(made.rows) == len(made.tidy) == len(shown)
    tested = measures["p_value"].notna()
    same = measures.assign(value=measures["value"].where(~tested, 0.0))
    same.loc[tested, ["p_value", "p_adjusted"]] = 1.0
    assert {row[-2] for row in comparison_table(same).rows} == {"no difference found"}


def test_what_texts_are_made_of_and_all_measures_with_the_p_of_a_law_apart(measures) -> None:
    made = texts_table(measures, labels.Labels())
    fragments = "Fragments: documents without the end of a sentence"
    expected = {"Share": fragments, "Reference": "5.0%", "Samples": "6.0%"}
    assert line(made, fragments) == expected
    assert line(made, "Documents that did not end by themselves")["Reference"] == ""
    bare = measures[~measures["measure"].str.startswith("training_8grams")]
    assert len(texts_table(bare, labels.Labels()).rows) == len(made.rows) - 1
    made = all_measures_table(measures)
    assert len(made.rows) == len(measures)
    heads = [column.title for column in made.columns]
    (law,) = [row for row in made.rows if row[1] == "ks_zipf_model"]
    cells = dict(zip(heads, law, strict=True))
    assert (cells["p"], cells["Adjusted p"], cells["p of the law"]) == ("", "", "0.001")
    assert "*" not in cells["Value"]


def comparison(measures: pd.DataFrame, name: str = "b.txt", **more: Any) -> compare.Comparison:
    statistics: Any = SimpleNamespace(n_documents=40, n_tokens=900, types=range(70))
    sides = [compare.SampleSet(Path(p), Path(), Path(), statistics, 2) for p in ("a.txt", name)]
    given = measures, pd.DataFrame(), labels.Labels(), {"stop_words": "gensim"}
    return compare.Comparison(*sides, *given, **more)


def page(found: compare.Comparison, permutations: int = 1999) -> str:
    options = compare.CompareOptions("a.txt", "b.txt", permutations=permutations)
    return comparison_page(found, options, {})


def test_groups_and_raw_texts_are_told_where_there_are_any(measures) -> None:
    heads = [column.title for column in sample_sets_table(comparison(measures)).columns]
    assert "Groups" not in heads
    made = sample_sets_table(comparison(measures, groups=(26, None)))
    assert [line(made, name)["Groups"] for name in ("Reference", "Samples")] == ["26", "none"]
    assert line(made, "Samples")["Documents"] == "40"
    raw = put(measures, "unigram", "tvd", value=0.777)
    assert "0.777" not in page(comparison(measures))
    both = page(comparison(measures, raw=raw))
    assert "How far are the raw texts?" in both
    assert "0.777" in both
    assert Page(both).open == []


@pytest.mark.parametrize(
    ("permutations", "said"),
    [
        (1999, "adjusted for 8 tests the smallest p is 0.004</li>"),
        (999, "0.008, and ** needs at least 1,600 permutations</li>"),
        (99, "** needs at least 1,600 permutations, and * needs at least 160 permutations"),
    ],
)
def test_the_page_says_which_stars_can_appear(measures, permutations: int, said: str) -> None:
    """Eight tests, one of a largest difference among them; 8 / 1601 < .005 and 8 / 161 < .05."""
    assert said in page(comparison(measures), permutations)
    untested = measures.assign(p_value=np.nan, p_adjusted=np.nan)
    assert "tests the smallest p" not in page(comparison(untested), permutations)


def test_names_and_notes_are_no_markup(measures) -> None:
    nasty = "<img src=x onerror=alert(1)> & '\" \x1b[31m\u202e"
    table = put(measures, "unigram", "max_difference", note=f'word "{nasty}": 0.1 here, 0.2 there')
    text = page(comparison(withhold(table, "length", "ks", nasty), name=f"{nasty}.txt"))
    made = Page(text)
    assert (made.open, made.images) == ([], [])
    assert not {"\x1b", "\u202e"} & set(text)
    assert "&lt;img src=x onerror=alert(1)&gt;" in text


WORDS = [f"{name}{k}" for name in ("the", "of", "stone", "12") for k in ("", "a", "b", "c", ".")]
MAIN = "tendencies/main"
ROUNDED = 1.6e-3  # three numbers of three digits


def texts(seed: int, n: int, longest: int, skew: float = 1.0) -> list[str]:
    draw = random.Random(seed)
    weights = [(k + 1) ** -skew for k in range(len(WORDS))]
    return [" ".join(draw.choices(WORDS, weights, k=draw.randint(2, longest))) for _ in range(n)]


HUMAN = texts(1, 120, 14)
PAIRS = {
    "more samples": (HUMAN, texts(2, 300, 14), {}),
    "few samples": (HUMAN, texts(3, 25, 14), {}),
    "the same text": (HUMAN, HUMAN, {}),
    "another text": (HUMAN, texts(4, 120, 25, 0.4), {}),
    "four samples a prompt": (HUMAN, texts(5, 120, 14), {"group": np.arange(120) // 4}),
}


@pytest.fixture(scope="module", params=PAIRS)
def made(request, tmp_path_factory) -> tuple[compare.Comparison, Path]:
    folder: Path = tmp_path_factory.mktemp("sizes")
    reference, samples, groups = PAIRS[request.param]
    reference = write_text(folder / "a.txt", reference)
    samples = write_jsonl(folder / "b.jsonl", samples, **groups)
    how = {"permutations": 39, "bootstrap": 0, "tokenized": True}
    options = compare.CompareOptions(reference, samples, **how)
    return run_comparison(options, folder / "out"), folder / "out"


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
    return float(cell.rstrip("*†?").replace("−", "-"))


def test_so_few_permutations_cannot_tell_in_every_output(made) -> None:
    """Oracle: of 39 permutations the smallest p of 2 or more tests is not below .05."""
    found, out = made
    csv = pd.read_csv(out / "tendencies.csv")
    first = csv["p_adjusted"].notna() & (csv["tendency"].map(family_of) == "")
    drawn = csv[first & ~csv["note"].str.startswith("tested by", na=False)]
    assert set(drawn["verdict"]) == {"cannot tell"}
    # The total variation is tested without draws; beside it its child is a test of its own.
    child = "tvd_1000" in set(drawn["measure"])
    needed = (int(drawn["family"].iloc[0]) - (not child)) * 20
    said = f"39 permutations, where p < 0.05 in {needed // 20} tests needs {needed}"
    keys = set(zip(drawn["tendency"], drawn["measure"], strict=True))
    headings = {row.heading for row in MAIN_ROWS if (row.tendency, row.distance) in keys}
    assert len(headings) > 2
    of_order = {row.heading for row in MAIN_ROWS if family_of(row.tendency)}
    pages = printed_rows(comparison_text(found)), html_rows((out / "compare.html").read_text())
    for rows in pages:
        unclear = {r["Tendency"]: r for r in rows if r.get("Verdict", "").startswith("cann")}
        unclear = {name: row for name, row in unclear.items() if name not in of_order}
        assert set(unclear) == headings
        assert {row["Distance"][-1] for row in unclear.values()} == {"?"}
        assert {row["Verdict"] for row in unclear.values()} == {f"cannot tell: {said}"}
    figure = draw_figure("tendencies/main", {"measures": found.measures}, found.labels)
    assert "? cannot tell: too few permutations" in figure.legends[0].get_title().get_text()


def test_three_numbers_agree_in_every_output(made) -> None:
    found, out = made
    csv = pd.read_csv(out / "tendencies.csv")
    distances = csv[csv["measure"].map(is_distance) & csv["baseline"].notna()]
    assert len(distances) >= 8
    excess = (distances["value"] - distances["baseline"]).to_numpy()
    assert excess == pytest.approx(distances["excess"].to_numpy(), abs=1e-12)
    held = {(row["tendency"], row["measure"]): row for _, row in distances.iterrows()}
    pages = printed_rows(comparison_text(found)), html_rows((out / "compare.html").read_text())
    for rows in pages:
        checked = 0
        for row in MAIN_ROWS:
            if (row.tendency, row.distance) not in held:
                continue
            (shown,) = [one for one in rows if one.get("Tendency") == row.heading]
            cells = [number(shown[name]) for name in ("Distance", "Baseline", "Excess")]
            assert cells[0] - cells[1] == pytest.approx(cells[2], abs=ROUNDED)
            written = held[row.tendency, row.distance][["value", "baseline", "excess"]]
            assert cells == pytest.approx(written.to_list(), abs=6e-4)
            checked += 1
        assert checked >= 8
        for row in (one for one in rows if one.get("Baseline") and "Measure" in one):
            cells = [number(row[name]) for name in ("Value", "Baseline", "Excess")]
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
    baselines, values = ([cells[line, column] for column in range(width)] for line in (0, 1))
    expected = {(row["Distance"], row["Baseline"]) for row in table}
    curves = found.measures[found.measures["tendency"].isin(["recurrence", "shared_ngrams"])]
    curves = curves[curves["measure"] == "max_difference"].to_dict("records")
    # The table has more digits of these.
    of_curves = {(f"{shown(x['value'])}{verdict_mark(x)}", shown(x["baseline"])) for x in curves}
    expected = {tuple(x.replace("0.", ".") for x in row)
                for row in expected | of_curves}  # fmt: skip
    expected |= {(".000?", baseline) for value, baseline in expected if value == "0?"}
    assert width >= 7
    pairs = set(zip(values, baselines, strict=True))
    assert {tuple(x.replace("0.", ".") for x in pair) for pair in pairs} <= expected


def lengths_of(lines: list[str]) -> np.ndarray:
    return np.array([len(line.split()) for line in lines])


def ks(first: np.ndarray, second: np.ndarray) -> float:
    at = np.arange(40)
    shares = [(side[:, None] <= at).mean(0) for side in (first, second)]
    return float(np.abs(shares[0] - shares[1]).max())


@pytest.mark.parametrize("name", ["more samples", "few samples", "another text"])
def test_the_distance_is_that_of_cut_samples_from_halves(name, tmp_path) -> None:
    reference, samples, _ = PAIRS[name]
    names = write_text(tmp_path / "a.txt", reference), write_text(tmp_path / "b.txt", samples)
    measures = read_both(*names, permutations=1).measures
    row = measures.set_index(["tendency", "measure"]).loc[("length", "ks")]
    human, own, rng = lengths_of(reference), lengths_of(samples), np.random.default_rng(1)
    size = min(len(human) // 2, len(own))
    baselines, found = [], []
    for _ in range(2_000):
        order = rng.permutation(human)
        baselines.append(ks(order[:size], order[size : 2 * size]))
        found.append(ks(order[:size], rng.permutation(own)[:size]))
    # Forty pairs, and less than that where samples or halves overlap.
    assert row["value"] == pytest.approx(np.mean(found), abs=4 * np.std(found) / np.sqrt(20))
    room = 4 * np.std(baselines) / np.sqrt(199)
    assert row["baseline"] == pytest.approx(np.mean(baselines), abs=room)
    assert row["value_all"] == pytest.approx(ks(human, own))


def differing(value: float, p_adjusted: float) -> pd.DataFrame:
    table = make_measures(["external/samples"])
    chosen = (table["tendency"] == "length") & (table["measure"] == "ks")
    row = {"value": value, "baseline": 0.1, "baseline_low": 0.05, "baseline_high": 0.2}
    row |= {"excess": value - 0.1, "p_value": 0.001, "p_adjusted": p_adjusted}
    table.loc[chosen, list(row)] = list(row.values())
    return table


def colour_of(table: pd.DataFrame, text: str) -> str:
    (axis,) = draw_figure(MAIN, {"measures": table}, labels.Labels()).axes
    (place,) = [t.get_position() for t in axis.texts if t.get_text() == text]
    corner, cells = (place[0] - 0.5, place[1] - 0.5), axis.patches
    (cell,) = [x for x in cells if isinstance(x, Rectangle) and x.get_xy() == corner]
    return to_hex(cell.get_facecolor()).upper()


def test_what_differs_is_never_white() -> None:
    assert colour_of(differing(0.123, 0.9), ".123") == INSIDE
    assert colour_of(differing(0.123, 0.004), ".123**") == INSIDE_DIFFERS
    assert colour_of(differing(0.456, 0.004), ".456**") not in (INSIDE, INSIDE_DIFFERS)
    for p_adjusted, marks in ((0.9, 0), (0.004, 1)):
        table = comparison_table(differing(0.123, p_adjusted))
        others = [row for row in table.rows if row[-2] == "differs"]
        assert layout.to_html_table(table).count("<tr class='marked'>") == len(others)
        assert sum(row[0].startswith("Length") for row in others) == marks


TYPES = 3000
STOP = ["the", "of", "and", ",", ".", "a", "12"]
LAW_WORDS = np.array([*STOP, *(f"w{k}" for k in range(TYPES - len(STOP)))])
LAW = 1 / np.arange(1, TYPES + 1) ** 1.1
LAW /= LAW.sum()


def pages(seed: int, n: int, topic: float = 3.0) -> tuple[list[str], list[str]]:
    """Draw n pages of 1 to 8 documents, and their pages; smaller `topic`: more own words."""
    rng = np.random.default_rng(seed)
    texts, names = [], []
    for page in range(n):
        weights = LAW * rng.gamma(topic, 1 / topic, TYPES)
        mean = 25 * rng.gamma(8, 1 / 8)
        for _ in range(rng.integers(1, 9)):
            size = 3 + rng.poisson(mean)
            texts.append(" ".join(rng.choice(LAW_WORDS, size, p=weights / weights.sum())))
            names.append(f"{seed}/{page}")
    return texts, names


compared = partial(read_both, permutations=399, bootstrap=20)


def starred(measures: pd.DataFrame) -> list[tuple[str, str]]:
    rows = measures[measures["p_adjusted"] < 0.05]
    return list(zip(rows["tendency"], rows["measure"], strict=True))


def check_one_claim_of_each(measures: pd.DataFrame, least: int) -> None:
    assert measures["p_adjusted"].notna().sum() >= least
    assert measures[measures["p_value"].notna()]["measure"].map(compares_texts).all()


@pytest.mark.parametrize("sides", ["none", "both", "reference"])
def test_a_text_does_not_differ_from_itself(sides, tmp_path) -> None:
    texts, names = pages(1, 60)
    groups = [{} if alone else {"group": names} for alone in (sides == "none", sides != "both")]
    files = [write_jsonl(tmp_path / f"{k}.jsonl", texts, **own) for k, own in enumerate(groups)]
    found = compared(*files).measures
    tested = found[found["p_value"].notna()]
    check_one_claim_of_each(found, 6)
    assert tested["p_value"].eq(1).all()
    compared_rows = found[found["measure"].map(compares_texts) & found["value"].notna()]
    assert compared_rows["value_all"].fillna(compared_rows["value"]).eq(0).all()
    expected = {"none": None, "both": 60, "reference": 60}[sides]
    assert found["groups_reference"].dropna().unique().tolist() == [expected] * (sides != "none")


def test_halves_of_one_text_do_not_differ(tmp_path) -> None:
    texts, names = pages(2, 140)
    whole = list(zip(texts, names, strict=True))
    shuffled = [whole[i] for i in np.random.default_rng(3).permutation(len(whole))]
    half = len(whole) // 2
    parts = [[text for text, _ in part] for part in (shuffled[:half], shuffled[half:])]
    files = [write_text(tmp_path / f"{i}.txt", part) for i, part in enumerate(parts)]
    found = compared(*files).measures
    check_one_claim_of_each(found, 10)
    assert starred(found) == []
    assert found["baseline"].notna().sum() >= 8


def test_halves_of_pages_differ_unless_they_are_told(tmp_path) -> None:
    """Documents of a page are alike: without groups the test of documents finds the pages."""
    texts, names = (np.array(column) for column in pages(4, 120, topic=0.3))
    odd = np.array([int(name.split("/")[1]) % 2 for name in names])
    halves = enumerate((texts[odd == k].tolist(), names[odd == k]) for k in (0, 1))
    files = [write_jsonl(tmp_path / f"{k}.jsonl", own, group=of) for k, (own, of) in halves]
    grouped, alone = compared(*files).measures, compared(*files, group_column="").measures
    assert starred(grouped) == []
    assert ("unigram", "tvd") in starred(alone)
    check_one_claim_of_each(grouped, 8)


def by_hand(texts: list[str], known: list[str]) -> list[str]:
    held = {*known, "<unk>"}
    return [" ".join(w if w in held else "<unk>" for w in text.split()) for text in texts]


@pytest.mark.parametrize("grouped", [False, True])
def test_a_perfect_model_of_a_closed_vocabulary_gets_no_star(grouped, tmp_path) -> None:
    """Human text with its rare words replaced stands in the place of the model's.

    Documents of the same pages, as in a split by documents; or whole pages against documents of
    other pages, one of each, as in a split by pages.
    """
    training = " ".join(pages(5, 200)[0]).split()
    known = sorted(word for word, count in Counter(training).items() if count >= 8)
    (tmp_path / "vocabulary.txt").write_text("\n".join(known))
    texts, names = pages(6, 90)
    if grouped:
        others, of_page = pages(7, 350)
        written = [others[of_page.index(name)] for name in dict.fromkeys(of_page)]
    else:
        order = np.random.default_rng(8).permutation(len(texts))
        texts, written = ([texts[i] for i in part] for part in np.array_split(order, 2))
    human = write_jsonl(tmp_path / "h.jsonl", texts, **({"group": names} if grouped else {}))
    model = write_text(tmp_path / "model.txt", by_hand(written, known))
    found = compared(human, model, vocabulary=str(tmp_path / "vocabulary.txt"))
    check_one_claim_of_each(found.measures, 8 if grouped else 10)
    assert starred(found.measures) == []
    assert {("unigram", "tvd"), ("unigram", "max_difference")} <= set(starred(found.raw))
    told = found.measures.set_index(["tendency", "measure"])["value"]
    assert told["text", "unknown_share"] > 0.1
    difference = told["text", "unknown_share"] - told["text", "unknown_share_reference"]
    assert abs(difference) < 0.02


KNOWN = ["the", "a", "of", "cat", "dog", ",", "."]
FEW_WORDS = [*KNOWN, "and", "stone", "runs", "12", "was", "green"]


def documents(seed: int, n: int, longest: int = 20) -> list[str]:
    draw = random.Random(seed)
    return [" ".join(draw.choices(FEW_WORDS, k=draw.randint(1, longest))) for _ in range(n)]


def values(table) -> dict[tuple[str, str], float]:
    keys = zip(table["tendency"], table["measure"], strict=True)
    return dict(zip(keys, table["value"], strict=True))


REFERENCE, SAMPLES = documents(1, 60), documents(2, 50)


@pytest.fixture
def both(tmp_path: Path) -> tuple[str, str]:
    reference = write_text(tmp_path / "a.txt", REFERENCE)
    return reference, write_text(tmp_path / "b.txt", SAMPLES)


@pytest.mark.parametrize("kind", ["json", "words"])
def test_both_texts_are_read_in_the_vocabulary_and_raw_beside(both, tmp_path, kind) -> None:
    path = tmp_path / f"known.{kind}"
    if kind == "json":
        vocabulary.ClosedVocabulary(KNOWN, 6).save(path)
    else:
        path.write_text("\n".join(KNOWN))
    found = read_both(*both, vocabulary=str(path))
    sides = [by_hand(text, KNOWN) for text in (REFERENCE, SAMPLES)]
    replaced = [write_text(tmp_path / f"{k}.txt", side) for k, side in enumerate(sides)]
    same = read_both(*replaced)
    assert found.measures["vocabulary"].unique().tolist() == ["known"]
    assert found.raw["vocabulary"].unique().tolist() == ["raw"]
    of_words = ["rank_frequency", "type_token_unigrams", "unigram", "length"]
    columns = ["tendency", "measure", "value", "p_value"]
    for left, right in ((found.measures, same), (found.raw, read_both(*both))):
        tables = left, right.measures
        chosen = [t[t["tendency"].isin(of_words)][columns] for t in tables]
        shared = [t[~t["measure"].str.contains("known")].reset_index(drop=True) for t in chosen]
        assert len(shared[0]) > 10
        assert shared[0].equals(shared[1])
    unknown = values(found.measures)["text", "unknown_share"]
    tokens = " ".join(sides[1]).split()
    assert unknown == pytest.approx(tokens.count("<unk>") / len(tokens))
    assert values(found.raw)["text", "unknown_share"] == 0
    assert same.raw is None


def test_an_open_vocabulary_reads_raw_and_the_raw_table_is_its_own_file(both, tmp_path, capsys):
    path = tmp_path / "vocabulary.json"
    vocabulary.BPEVocabulary.build([["a cat"]], 259).save(path)
    found = read_both(*both, vocabulary=str(path))
    assert found.raw is None
    assert set(found.measures["vocabulary"]) == {"raw"}
    assert "open vocabulary" in capsys.readouterr().err
    (tmp_path / "raw.txt").write_text("\n".join(KNOWN))  # not taken for the raw reading
    how = {"tokenized": True, "permutations": 9, "bootstrap": 0}
    options = compare.CompareOptions(*both, vocabulary=str(tmp_path / "raw.txt"), **how)
    run_comparison(options, tmp_path / "out")
    raw, read = ((tmp_path / "out" / f"{n}.csv").read_text() for n in ("raw", "tendencies"))
    assert raw.splitlines()[0] == read.splitlines()[0]
    assert raw.splitlines()[1].endswith(",raw")
    assert read.splitlines()[1].endswith(",raw.txt")


def test_the_word_unk_that_the_tokenizer_cuts_is_told_of_each_text(tmp_path, capsys) -> None:
    paths = [write_text(tmp_path / name, ["a <unk> b ."] * 3 + ["c d ."]) for name in "xy"]
    raw = read_both(*paths, tokenized=False).reference.statistics.types.to_pylist()
    said = capsys.readouterr().err
    for path in paths:
        told = f"warning: {path}: the tokenizer cuts <unk> into three tokens (occurrences: 3; "
        assert said.count(told + "texts: 3)") == 1
    assert {"<", "unk", ">"} <= set(raw)
    kept = read_both(*paths).reference.statistics.types.to_pylist()
    assert "<unk>" in kept
    assert "cuts" not in capsys.readouterr().err


def test_short_documents_are_left_out_long_ones_cut_and_copies_of_training_told(both, tmp_path):
    found = read_both(*both, minimum_tokens=5, maximum_tokens=12)
    told = values(found.measures)
    sides = ("_reference", REFERENCE, found.reference), ("", SAMPLES, found.samples)
    for suffix, held, sample_set in sides:
        lengths = [len(text.split()) for text in held]
        kept = [length for length in lengths if length >= 5]
        assert sample_set.short == len(held) - len(kept)
        assert told["vocabulary", f"documents{suffix}"] == len(kept)
        assert told["vocabulary", f"tokens{suffix}"] == sum(min(length, 12) for length in kept)
        assert told["text", f"cut_share{suffix}"] == pytest.approx(np.mean([k > 12 for k in kept]))
    copied = documents(2, 50)[:25]
    training = write_jsonl(tmp_path / "t.jsonl", [*documents(3, 30), *copied])
    told = values(read_both(*both, training=training).measures)

    def grams(text: str) -> list[tuple[str, ...]]:
        tokens = text.split()
        return [tuple(tokens[i : i + 8]) for i in range(len(tokens) - 7)]

    known = {gram for text in [*documents(3, 30), *copied] for gram in grams(text)}
    for suffix, seed, n in (("_reference", 1, 60), ("", 2, 50)):
        held = [gram in known for text in documents(seed, n) for gram in grams(text)]
        assert told["text", f"training_8grams{suffix}"] == pytest.approx(np.mean(held))
    assert told["text", "training_8grams"] > 0.3
    assert ("text", "training_8grams") not in values(read_both(*both).measures)
    assert ("text", "unfinished_share") not in told  # nobody knows


def in_pages(n: int, size: int) -> list[object]:
    return [f"p{i // size}" for i in range(n)]


def test_groups_are_those_of_the_reference_or_named_and_empty_documents_shift_none(both, tmp_path):
    reference, samples = documents(1, 60), documents(2, 50)
    by_default = write_jsonl(tmp_path / "a.jsonl", reference, group=in_pages(60, 2), page=[3] * 60)
    table = {"text": reference, "page": [i // 2 for i in range(60)]}
    named = tmp_path / "a.parquet"
    pq.write_table(pa.table(table), named)
    plain = write_jsonl(tmp_path / "b.jsonl", samples)
    grouped = write_jsonl(tmp_path / "c.jsonl", samples, group=in_pages(50, 5))
    expected = [i // 2 for i in range(60)]
    found = read_both(by_default, plain)
    assert found.reference.groups.tolist() == expected
    assert found.samples.groups is None
    assert found.groups == (30, None)
    assert read_both(by_default, grouped).groups == (30, 10)
    assert read_both(str(named), both[1], group_column="page").groups == (30, None)
    assert read_both(by_default, grouped, group_column="").groups == (None, None)
    assert read_both(plain, grouped).groups == (None, 10)
    assert read_both(both[0], grouped).groups == (None, 10)
    assert read_both(plain, grouped, group_column="group").groups == (None, 10)
    whole = write_jsonl(tmp_path / "w.jsonl", reference, group=list(range(60)))
    assert read_both(whole, plain).groups == (None, None)  # each is its own: exact tests
    lines = [text if i % 3 else "" for i, text in enumerate(documents(1, 60))]
    reference = write_jsonl(tmp_path / "a.jsonl", lines, group=in_pages(60, 2))
    samples = write_text(tmp_path / "b.txt", documents(2, 50))
    found = read_both(reference, samples)
    kept = [i // 2 for i in range(60) if i % 3]
    assert (found.reference.groups.tolist(), found.reference.left_out) == (kept, 20)


def test_dependent_documents_are_warned_of_and_runs_of_them_are_groups(tmp_path, capsys):
    """A book's paragraphs side by side, a text four times in a row; independent text is silent."""
    draw = random.Random(3)
    topical = [
        f"{text} " + " ".join(draw.choices([f"topic{i // 6}{k}" for k in "abc"], k=4))
        for i, text in enumerate(documents(1, 120))
    ]
    book = write_text(tmp_path / "book.txt", topical)
    plain = write_text(tmp_path / "plain.txt", documents(2, 80))
    four_times = [one for one in documents(3, 30) for _ in range(4)]
    copied = write_text(tmp_path / "copied.txt", four_times)
    found = read_both(book, copied)
    said = capsys.readouterr().err
    assert "book.txt: documents side by side are alike" in said
    assert "--group-size 3" in said  # 120 in 40 runs
    assert "copied.txt: documents side by side are alike" in said
    assert "copied.txt: 75.0% of the documents of 8 tokens or more repeat" in said
    told = found.measures.set_index(["tendency", "measure"])["note"]
    assert "are alike" in told["text", "neighbour_similarity_reference"]
    assert "Reference: documents side by side" in page(found)
    grouped = read_both(book, plain, group_size=5, permutations=0)
    assert grouped.groups == (24, None)
    assert grouped.reference.groups.tolist() == [i // 5 for i in range(120)]
    assert "alike" not in capsys.readouterr().err
    named = write_jsonl(tmp_path / "named.jsonl", documents(1, 60), group=in_pages(60, 2))
    with pytest.raises(errors.InputError, match=r"named\.jsonl: names its groups"):
        read_both(named, plain, group_size=2)


def test_repeated_titles_are_warned_of_and_suggested_where_both_can_group_by_them(tmp_path, capsys):
    """Either text must have a title in every document, or in none."""
    titles = [f"t{i // 4}" for i in range(60)]
    reference = write_jsonl(tmp_path / "a.jsonl", documents(1, 60), title=titles)
    samples = write_text(tmp_path / "b.txt", documents(2, 50))
    read_both(reference, samples)
    said = capsys.readouterr().err
    assert "a.jsonl: 45 documents repeat a title" in said
    for column in ("title", ""):
        assert read_both(reference, samples, group_column=column)
        assert "repeat a title" not in capsys.readouterr().err
    distinct = write_jsonl(tmp_path / "c.jsonl", documents(1, 60), title=list(map(str, range(60))))
    read_both(distinct, samples)
    assert "repeat a title" not in capsys.readouterr().err
    whole = write_jsonl(tmp_path / "whole.jsonl", documents(1, 60), title=titles)
    partly = write_jsonl(tmp_path / "partly.jsonl", documents(2, 60), title=[*titles[:-1], ""])
    plain = write_text(tmp_path / "plain.txt", documents(3, 50))
    cases = [(whole, plain, True), (whole, whole, True), (whole, partly, False)]
    for reference, samples, can in [*cases, (partly, whole, False), (plain, whole, True)]:
        read_both(reference, samples, permutations=0)
        said = capsys.readouterr().err
        assert "repeat a title" in said
        assert ("group column title" in said) == can
        assert ("group column with a field that tells the groups" in said) == (not can)


def test_the_page_says_what_was_permuted(both, tmp_path) -> None:
    """Samples with a group of two among single ones are not permuted for whole pages."""
    names = [f"p{i // 3}" for i in range(120)]
    reference = write_jsonl(tmp_path / "r.jsonl", documents(1, 120), group=names)
    single = [f"s{max(i, 1)}" for i in range(120)]
    samples = write_jsonl(tmp_path / "s.jsonl", documents(2, 120), group=single)
    large = write_jsonl(tmp_path / "l.jsonl", documents(2, 120), group=["a", "b"] * 60)
    assert read_both(*both).permuted == "permuted: documents"
    found = read_both(reference, samples)
    swapped = "permuted: groups of the reference with as many single samples"
    assert found.permuted.startswith(f"{swapped} (the 119 groups of 120 documents of the samples")
    assert sample_sets_table(found).note == found.permuted
    assert "swaps" in set(found.measures["permuted"])
    found = read_both(reference, large)
    assert found.permuted.startswith("no verdict: 2.0 effective groups in the samples, fewer")
    assert found.measures["p_value"].isna().all()


GROUPED = [{"text": "a b", "g": f"p{i // 2}"} for i in range(8)]


def lines_with(place: int, **change: object) -> str:
    """Return lines of JSON with fields of one changed, or removed where they are ``...``."""
    rows = [dict(row) for row in GROUPED]
    rows[place] |= change
    rows[place] = {key: value for key, value in rows[place].items() if value is not ...}
    return "\n".join(map(json.dumps, rows))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (lines_with(0, g=...), "line 1: field 'g', which names the group, is missing"),
        (lines_with(4, g=...), "line 5: field 'g', which names the group, is missing"),
        (lines_with(4, g=None), "line 5: .*'g', which names the group, is null"),
        (lines_with(4, g=1.5), "line 5: .*no string and no integer"),
        (lines_with(4, g=True), "line 5: .*no string and no integer"),
        (lines_with(4, g=["a"]), "line 5: .*no string and no integer"),
        (lines_with(4, g="\ud800"), "line 5: .*surrogate"),
        ("\n".join([json.dumps(GROUPED[0])] * 4), "field 'g' holds one single group"),
        ({"g": [1.5] * 8}, "column 'g', which names the group, is double"),
        ({"g": [None, *"abcabca"]}, "row 1: .*'g', which names the group, is null"),
        ({}, "row 1: field 'g', .* is missing"),
    ],
)
def test_wrong_groups_are_one_clear_error(content, message, both, tmp_path) -> None:
    """Of lines of JSON, or columns of Parquet beside the texts."""
    path = tmp_path / ("x.jsonl" if isinstance(content, str) else "x.parquet")
    if isinstance(content, str):
        path.write_text(content)
    else:
        pq.write_table(pa.table({"text": ["a b"] * 8, **content}), path)
    check_refused(rf"{path.name}: {message}", read_both, str(path), both[1], group_column="g")


def test_wrong_groups_of_samples_and_of_plain_text(both, tmp_path) -> None:
    good, bad = tmp_path / "good.jsonl", tmp_path / "bad.jsonl"
    good.write_text("\n".join(map(json.dumps, GROUPED)))
    for change, message in (
        (lines_with(4, g=...), r"bad\.jsonl: line 5: field 'g', .* is missing"),
        (lines_with(0, g=...), r"bad\.jsonl: line 2: field 'g', .* earlier documents lack"),
    ):
        bad.write_text(change)
        check_refused(message, read_both, str(good), str(bad), group_column="g")
    check_refused(r"a\.txt: plain text has no field 'g'", read_both, *both, group_column="g")


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"vocabulary": "none.json"}, r"none\.json: no such file"),
        ({"training": "none.txt"}, r"none\.txt: no such file"),
        ({"minimum_tokens": -1}, "minimum tokens -1"),
        ({"maximum_tokens": 0}, "maximum tokens 0"),
        ({"minimum_tokens": 100}, r"a\.txt: has no document with 100 tokens in it"),
    ],
)
def test_wrong_options_are_one_clear_error(both, more, message) -> None:
    check_refused(message, read_both, *both, **more)


ODD = "<odd> & 'name'.txt"


def options(reference: str, samples: str, **more: object) -> compare.CompareOptions:
    return compare.CompareOptions(reference, samples, permutations=19, bootstrap=20, **more)  # type: ignore[arg-type]


def by_measure(table: pd.DataFrame) -> dict[tuple[str, str], pd.Series]:
    return {(row["tendency"], row["measure"]): row for _, row in table.iterrows()}


def test_results_are_those_of_plain_counting(both) -> None:
    comparison = run_comparison(options(*both, tokenized=True))
    printed, found = comparison_text(comparison), by_measure(comparison.measures)
    sides = [[text.split() for text in texts] for texts in (REFERENCE, SAMPLES)]
    lengths = [list(map(len, side)) for side in sides]
    assert found["length", "mean_reference"]["value"] == pytest.approx(np.mean(lengths[0]))
    assert found["length", "mean"]["value"] == pytest.approx(np.mean(lengths[1]))
    assert found["length", "ks"]["value_all"] == pytest.approx(float(exact_ks(*lengths)))
    # Words are compared at equal tokens: documents in random order, as long as each fits.
    seed, tokens = options(*both).seed, min(map(sum, lengths))
    equal = [at_most(side, tokens, sample_set, seed) for sample_set, side in enumerate(sides)]
    tvd = float(plain_measures(equal)["unigram", "tvd"])
    assert found["unigram", "tvd"]["value_all"] == pytest.approx(tvd)
    assert set(found["unigram", "tvd"][["n_reference", "n_samples"]]) == {60, 50}
    for row in (found["unigram", "tvd"], found["length", "ks"]):
        assert f"{row['value']:.3f}" in printed


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """Give a folder with two texts, one of an odd name, and in new/out what is made of them."""
    folder: Path = tmp_path_factory.mktemp("whole")
    (folder / "a.txt").write_text("\n".join(REFERENCE))
    (folder / ODD).write_text("\n".join(SAMPLES))
    run_comparison(options(str(folder / "a.txt"), str(folder / ODD)), folder / "new" / "out")
    return folder


def test_folder_gets_table_figures_and_a_whole_page(whole):
    out = whole / "new" / "out"
    # Too little text, and no training text.
    drawn = [name for name in PAGE_FIGURES if name not in ("words", "taylor", "novelty")]
    figures = {f"{name}.{suffix}" for name in drawn for suffix in ("svg", "pdf")}
    others = {"tendencies.csv", "words.csv", "compare.html"}
    assert {path.name for path in out.iterdir()} == others | figures
    header = (out / "tendencies.csv").read_text().splitlines()[0]
    assert header.startswith("tendency,measure,value,low,high,p_value,n_reference,n_samples,")
    assert {"p_adjusted", "baseline", "excess", "groups_reference", "note"} < set(CSV_COLUMNS[8:])
    assert header.split(",") == CSV_COLUMNS
    page = Page((whole / "new" / "out" / "compare.html").read_text(encoding="utf-8"))
    assert (page.open, len(page.images)) == ([], len(drawn))
    assert all(image["alt"] for image in page.images)
    assert all(link.startswith(("data:image/svg+xml;base64,", "#")) for link in page.links)


def test_formats_and_compression_do_not_matter(both, tmp_path) -> None:
    lines = [json.dumps({"text": text, "id": 1}) for text in SAMPLES]
    (tmp_path / "b.jsonl").write_text("\n".join(lines))
    pq.write_table(pa.table({"text": SAMPLES}), tmp_path / "b.parquet")
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress("\n\n".join(SAMPLES).encode()))
    tables = []
    for name in ("b.txt", "b.jsonl", "b.parquet", "b.txt.gz"):
        with compare.compare_sample_sets(options(both[0], str(tmp_path / name))) as found:
            tables.append(found.measures)
    assert all(table.equals(tables[0]) for table in tables[1:])
    assert (guess_format(Path("x.jsonl.gz")), guess_format(Path("x"))) == ("jsonl", "text")
    # cleaning, unless the texts are tokens
    Path(both[1]).write_text("The CAT sleeps.\nthe cat sleeps .\n")
    n_types = []
    for tokenized in (False, True):
        with compare.compare_sample_sets(options(*both, tokenized=tokenized)) as found:
            n_types.append(len(found.samples.statistics.types))
    assert n_types == [4, 7]  # as it is also: The, CAT, sleeps.


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("missing.txt", None, r"missing\.txt: no such file"),
        ("empty.txt", b"", r"empty\.txt: is empty"),
        ("blank.txt", b"\n \n\n", r"blank\.txt: has no document"),
        ("latin.txt", "ok\ncaf\xe9\n".encode("latin-1"), r"latin\.txt: line 2: not UTF-8"),
        (
            "bad.jsonl",
            b'{"text": "a"}\n{"body": "b"}\n',
            r"bad\.jsonl: line 2: .*'text' is miss",
        ),
        ("broken.jsonl", b'{"text": "a"}\n{"text":\n', r"broken\.jsonl: line 2: not JSON"),
        ("no.parquet", b"PAR1", r"no\.parquet: .*not a readable Parquet"),
        ("cut.txt.gz", gzip.compress(b"a b c\n" * 99, mtime=0)[:-9], r"cut\.txt\.gz: .*truncated"),
    ],
)
def test_wrong_input_is_one_clear_error_and_leaves_nothing(both, tmp_path, name, content, message):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    out = tmp_path / "out"
    for pair in ((both[0], str(tmp_path / name)), (str(tmp_path / name), both[1])):
        with pytest.raises(errors.InputError, match=message) as caught:
            run_comparison(options(*pair), out)
        assert "\n" not in str(caught.value)
        assert not out.exists()


def test_one_word_documents_leave_out_what_they_cannot_show(both, tmp_path):
    Path(both[1]).write_text("cat\n" * 9 + "dog\n" * 4 + "the\n")
    run_comparison(options(*both), tmp_path / "out")
    found = by_measure(pd.read_csv(tmp_path / "out" / "tendencies.csv"))
    assert found["length", "mean"]["value"] == 1
    assert (tmp_path / "out" / "compare.html").exists()
    with pytest.raises(errors.InputError, match=r"a\.txt: is a file; name a folder"):
        run_comparison(options(*both), Path(both[0]))


def test_command_prints_the_table_and_repeats_itself(whole, tmp_path, monkeypatch, capsys) -> None:
    arguments = ["--reference", str(whole / "a.txt"), "--samples", str(whole / ODD)]
    arguments += ["--out", str(tmp_path), "--permutations", "19", "--bootstrap", "20"]
    monkeypatch.setattr("sys.argv", ["compare", *arguments])
    run_function("compare")
    folders = tmp_path, whole / "new" / "out"
    contents = [{path.name: path.read_bytes() for path in folder.iterdir()} for folder in folders]
    assert contents[0] == contents[1]
    printed = capsys.readouterr().out
    assert "How far are the samples from the reference?" in printed
    assert "compare.html" in printed

"""The comparison of two bodies of text, end to end: numbers, files, formats, and wrong input.

Needs no data: the texts are small and drawn here. Oracles: counting with plain Python on the same
words, and equality of the results of equal texts in different formats.
"""

from __future__ import annotations

import gzip
import json
import random
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from beyond_perplexity.commands.library_functions import run_function
from beyond_perplexity.corpus.formats import guess_format
from beyond_perplexity.errors import InputError
from beyond_perplexity.report.compare import CompareOptions, compare_bodies
from beyond_perplexity.report.comparison_page import (
    CSV_COLUMNS,
    PAGE_FIGURES,
    comparison_text,
    run_comparison,
)
from tests.unit.text_pairs import at_most, exact_ks, plain_measures

WORDS = ["the", "a", "of", "and", "cat", "dog", "Stone", "runs", ",", ".", "12", "was", "green"]


def documents(seed: int, n: int, longest: int) -> list[str]:
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=draw.randint(1, longest))) for _ in range(n)]


ODD = "<odd> & 'name'.txt"
REFERENCE, SAMPLES = documents(1, 60, 12), documents(2, 50, 18)


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    for name, texts in (("a.txt", REFERENCE), ("b.txt", SAMPLES)):
        (tmp_path / name).write_text("\n".join(texts) + "\n", encoding="utf-8")
    return str(tmp_path / "a.txt"), str(tmp_path / "b.txt")


def options(reference: str, samples: str, **more: object) -> CompareOptions:
    return CompareOptions(reference, samples, permutations=19, bootstrap=20, **more)  # type: ignore[arg-type]


def by_measure(table: pd.DataFrame) -> dict[tuple[str, str], pd.Series]:
    return {(row["tendency"], row["measure"]): row for _, row in table.iterrows()}


def test_results_are_those_of_plain_counting(files) -> None:
    comparison = run_comparison(options(*files, tokenized=True))
    printed, found = comparison_text(comparison), by_measure(comparison.measures)
    sides = [[text.split() for text in texts] for texts in (REFERENCE, SAMPLES)]
    lengths = [list(map(len, side)) for side in sides]
    assert found["length", "mean_reference"]["value"] == pytest.approx(np.mean(lengths[0]))
    assert found["length", "mean"]["value"] == pytest.approx(np.mean(lengths[1]))
    assert found["length", "ks"]["value_all"] == pytest.approx(float(exact_ks(*lengths)))
    # Words are compared at equal tokens: documents in random order, as long as each fits.
    seed, tokens = options(*files).seed, min(map(sum, lengths))
    equal = [at_most(side, tokens, body, seed) for body, side in enumerate(sides)]
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
    figures = {f"{name}.{suffix}" for name in PAGE_FIGURES for suffix in ("svg", "pdf")}
    assert {path.name for path in out.iterdir()} == {"tendencies.csv", "compare.html"} | figures
    header = (out / "tendencies.csv").read_text().splitlines()[0]
    assert header.startswith("tendency,measure,value,low,high,p_value,n_reference,n_samples,")
    assert {"p_adjusted", "floor", "excess", "groups_reference", "note"} < set(CSV_COLUMNS[8:])
    assert header.split(",") == CSV_COLUMNS
    page = Page((whole / "new" / "out" / "compare.html").read_text(encoding="utf-8"))
    assert page.open == []
    assert len(page.images) == len(PAGE_FIGURES)
    assert all(image["alt"] for image in page.images)
    assert all(link.startswith(("data:image/svg+xml;base64,", "#")) for link in page.links)


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


def test_formats_and_compression_do_not_matter(files, tmp_path) -> None:
    lines = [json.dumps({"text": text, "id": 1}) for text in SAMPLES]
    (tmp_path / "b.jsonl").write_text("\n".join(lines))
    pq.write_table(pa.table({"text": SAMPLES}), tmp_path / "b.parquet")
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress("\n\n".join(SAMPLES).encode()))
    tables = []
    for name in ("b.txt", "b.jsonl", "b.parquet", "b.txt.gz"):
        with compare_bodies(options(files[0], str(tmp_path / name))) as found:
            tables.append(found.measures)
    assert all(table.equals(tables[0]) for table in tables[1:])
    assert guess_format(Path("x.jsonl.gz")) == "jsonl"
    assert guess_format(Path("x")) == "text"
    # cleaning, unless the texts are tokens
    Path(files[1]).write_text("The CAT sleeps.\nthe cat sleeps .\n")
    n_types = []
    for tokenized in (False, True):
        with compare_bodies(options(*files, tokenized=tokenized)) as found:
            n_types.append(len(found.samples.statistics.types))
    assert n_types == [4, 7]  # as it is also: The, CAT, sleeps.


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("missing.txt", None, r"missing\.txt: no such file"),
        ("empty.txt", b"", r"empty\.txt: is empty"),
        ("blank.txt", b"\n \n\n", r"blank\.txt: has no document"),
        ("latin.txt", "ok\ncaf\xe9\n".encode("latin-1"), r"latin\.txt: line 2: not UTF-8"),
        ("bad.jsonl", b'{"text": "a"}\n{"body": "b"}\n', r"bad\.jsonl: line 2: .*'text' is miss"),
        ("broken.jsonl", b'{"text": "a"}\n{"text":\n', r"broken\.jsonl: line 2: not JSON"),
        ("no.parquet", b"PAR1", r"no\.parquet: .*not a readable Parquet"),
        ("cut.txt.gz", gzip.compress(b"a b c\n" * 99, mtime=0)[:-9], r"cut\.txt\.gz: .*truncated"),
    ],
)
def test_wrong_input_is_one_clear_error_and_leaves_nothing(
    files, tmp_path, name, content, message
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    out = tmp_path / "out"
    for pair in ((files[0], str(tmp_path / name)), (str(tmp_path / name), files[1])):
        with pytest.raises(InputError, match=message) as caught:
            run_comparison(options(*pair), out)
        assert "\n" not in str(caught.value)
        assert not out.exists()


def test_one_word_documents_leave_out_what_they_cannot_show(files, tmp_path):
    Path(files[1]).write_text("cat\n" * 9 + "dog\n" * 4 + "the\n")
    run_comparison(options(*files), tmp_path / "out")
    found = by_measure(pd.read_csv(tmp_path / "out" / "tendencies.csv"))
    assert found["length", "mean"]["value"] == 1
    assert (tmp_path / "out" / "compare.html").exists()
    with pytest.raises(InputError, match=r"a\.txt: is a file; name a folder"):
        run_comparison(options(*files), Path(files[0]))


def test_command_prints_the_table_and_repeats_itself(whole, tmp_path, monkeypatch, capsys) -> None:
    arguments = ["--reference", str(whole / "a.txt"), "--samples", str(whole / ODD)]
    arguments += ["--out", str(tmp_path), "--permutations", "19", "--bootstrap", "20"]
    monkeypatch.setattr("sys.argv", ["compare", *arguments])
    run_function("compare")
    contents = [
        {path.name: path.read_bytes() for path in folder.iterdir()}
        for folder in (tmp_path, whole / "new" / "out")
    ]
    assert contents[0] == contents[1]
    printed = capsys.readouterr().out
    assert "How far are the samples from the reference?" in printed
    assert "compare.html" in printed

"""The page of real texts: the first documents, cut, with their numbers, and never as markup.

Needs no data. Oracles: the rows that were written, and the parser of HTML.
"""

from __future__ import annotations

import json
import math
import re
from html.parser import HTMLParser

import pandas as pd
import pyarrow as pa
import pytest

from beyond_perplexity.errors import InputError
from beyond_perplexity.figures.labels import Labels
from beyond_perplexity.foreign_text import escape_rst, printable
from beyond_perplexity.report import TABLES
from beyond_perplexity.report.examples import (
    CUT,
    EXAMPLES,
    WORDS,
    examples_table,
    read_example_documents,
    read_example_samples,
    shorten,
)
from beyond_perplexity.report.latex import escape_latex, to_latex
from beyond_perplexity.report.layout import to_html_table
from beyond_perplexity.schemas.corpora import DOCUMENTS, TEXT_SAMPLES
from beyond_perplexity.storage.shards import write_shard
from scripts import tabulate
from tests.unit.test_exhibits import planned

NASTY = (
    "<script>alert('x')</script> & \\input{/etc/passwd} $y_2^ 50% `r`_ *s* |t|\n"
    "\x00\x1b[31m\u202e ~#"
)


def write_samples(path, texts: list[str]) -> str:
    n = len(texts)
    columns = {
        "doc_id": range(n),
        "text": texts,
        "n_tokens": [len(text.split()) for text in texts],
        "log_prob": [-6.0, *[math.nan] * (n - 1)],
        "log_prob_decoding": [math.nan] * n,
        "finished": [True, False, *[True] * (n - 2)],
    }
    path.parent.mkdir(parents=True)
    write_shard(path, TEXT_SAMPLES, pa.table(columns, TEXT_SAMPLES), {})
    return str(path)


@pytest.fixture
def files(tmp_path) -> tuple[str, str]:
    """Give a shard of a model and the documents of a corpus, whose test split begins late."""
    texts = [NASTY, "b " * (WORDS + 1), "c " * WORDS, "never shown"]
    samples = write_samples(tmp_path / "samples/lstm/beam/00000.parquet", texts)
    split = ["train"] * 3000 + ["test", "valid"] * 5
    n = len(split)
    columns = {
        "doc_id": range(n),
        "split": split,
        "title": ["t"] * n,
        "text": [f"document {place}" for place in range(n)],
        "n_tokens": [2] * n,
    }
    documents = tmp_path / "documents.parquet"
    write_shard(documents, DOCUMENTS, pa.table(columns, DOCUMENTS), {})
    return samples, str(documents)


def test_the_first_documents_are_read_and_no_more(files) -> None:
    samples, documents = read_example_samples([files[0]]), read_example_documents([files[1]])
    assert samples["doc_id"].tolist() == [0, 1, 2]
    assert set(samples["source"]) == {"lstm/beam"}
    assert documents["text"].tolist() == ["document 3000", "document 3002", "document 3004"]
    with pytest.raises(InputError, match=r"documents\.parquet: column .* is missing"):
        read_example_samples([files[1]])


def test_each_text_has_its_numbers(files) -> None:
    table = examples_table(
        read_example_samples([files[0]]), read_example_documents([files[1]]), Labels()
    )
    assert [row[0] for row in table.rows] == ["Test set"] * EXAMPLES + ["LSTM"] * EXAMPLES
    human, model = table.rows[0], table.rows[EXAMPLES:]
    assert human[1:] == ["", "3000", "2", "", "", "document 3000"]
    words = len(NASTY.split())
    assert model[0][3:6] == [str(words), "yes", f"\N{MINUS SIGN}{6 / (words + 1):.2f}"]
    assert [row[4] for row in model] == ["yes", "no", "yes"]
    assert [row[5] for row in model[1:]] == ["", ""]
    assert model[1][6] == " ".join("b" * WORDS) + CUT
    assert CUT not in model[2][6]
    assert table.tidy["log_likelihood_a_token"][EXAMPLES] == pytest.approx(-6 / (words + 1))


class Tags(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


def test_texts_are_no_markup(files) -> None:
    table = examples_table(
        read_example_samples([files[0]]), read_example_documents([files[1]]), Labels()
    )
    page = to_html_table(table)
    found = Tags(page)
    tags = "div table caption strong span thead tr th tbody td"
    assert found.tags == set(tags.split())
    assert "<script>alert('x')</script> & \\input{/etc/passwd} $y_2^ 50%" in found.text
    assert not {"\x00", "\x1b", "\u202e"} & set(page)
    latex = to_latex(table)
    assert r"\input" not in latex
    assert r"\textbackslash{}input\{/etc/passwd\} \$y\_2\textasciicircum{} 50\%" in latex
    assert re.search(r"p\{[\d.]+em\}@\{\}\}", latex)  # passages stand last, and wrap
    csv = table.tidy.to_csv(index=False)
    assert len(csv.splitlines()) == 1 + len(table.rows)


@pytest.mark.parametrize(
    "mark", ["\x00", "\x07", "\x1b", "\x85", "\u2028", "\u202e", "\u2066", "\n"]
)
def test_marks_that_act_are_not_handed_on(mark: str) -> None:
    for write in (printable, escape_latex, escape_rst, shorten):
        assert mark not in write(f"a{mark}b")
    assert printable("नमस्ते \u200d עברית ﷽ 👩\u200d🔬") == "नमस्ते \u200d עברית ﷽ 👩\u200d🔬"


def test_the_page_is_planned_and_made(files, tmp_path, monkeypatch) -> None:
    report = planned("configs/smoke.yaml").report
    found = report.inputs(TABLES, "tendencies/wikipedia", "samples")
    assert found["example_documents"] == ["<results>/corpora/wikipedia/documents.parquet"]
    assert all(name.endswith("/00000.parquet") for name in found["example_samples"])
    monkeypatch.chdir(tmp_path)
    given = {"example_samples": [files[0]], "example_documents": [files[1]]}
    arguments = ["--table", "tendencies/samples", "--inputs", json.dumps(given)]
    arguments += ["--csv", "t.csv", "--latex", "t.tex", "--html", "t.html"]
    monkeypatch.setattr("sys.argv", ["tabulate", *arguments])
    tabulate.main()
    assert len(pd.read_csv(tmp_path / "t.csv")) == 2 * EXAMPLES
    assert "document 3004" in (tmp_path / "t.html").read_text()

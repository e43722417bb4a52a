"""Every table, figure and first page of rows whose numbers and texts are not known, and of no rows.

Needs no data: the inputs are those of `exhibit_inputs`. What is checked is a property: of such rows
an exhibit is made, or there is one line that says what is lacking; none shows `nan` or `None`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text
from pandas.api.types import is_integer_dtype

from beyond_perplexity.errors import NothingToShowError
from beyond_perplexity.figures import FIGURES, draw_figure
from beyond_perplexity.figures.labels import Labels
from beyond_perplexity.report import TABLES, tabulate
from beyond_perplexity.report.findings import Answer, read_findings
from beyond_perplexity.report.inputs import INPUTS
from beyond_perplexity.report.latex import to_latex
from beyond_perplexity.report.layout import to_html_table
from beyond_perplexity.report.overview import FOUND_TEXTS, render_overview
from beyond_perplexity.report.tendency_findings import by_corpus
from beyond_perplexity.schemas.contrastive import CONTRASTS
from beyond_perplexity.storage.shards import write_shard
from scripts import tabulate as command
from tests.unit.exhibit_inputs import SOURCES, as_read, make_inputs
from tests.unit.test_tables import PERPLEXITIES

# What a row is of, which is always known.
KEYS = {
    *("source", "tendency", "measure", "curve", "x", "n", "unit", "scope", "subject", "title"),
    *("model", "models", "first", "second", "proposal", "beside", "method", "aggregation", "draw"),
    *("temperature", "beam_size", "n_samples", "n_tokens", "instance_id", "sentence_level"),
    *("level", "base_level", "length", "phenomenon", "split", "kind", "evaluator", "probe"),
    *("step", "epoch", "phase", "file", "pair", "direction", "structure", "seconds_of"),
    *("doc_id", "text", "alpha", "power", "over", "first_evaluator", "first_measure"),
    *("second_evaluator", "second_measure"),
    *(
        "differs",
        "resampled",
        "spelled",
        "scored_text",
        "vocabulary",
        "bound",
        "replicate",
        "stage",
    ),
}
Blank = Callable[[pd.DataFrame, str], pd.DataFrame]


def unknown(table: pd.DataFrame, share: float) -> pd.DataFrame:
    """Take a share of the cells away that need not be known; a count is, where all others are."""
    random = np.random.default_rng(7)
    changed = {
        name: table[name].mask(random.random(len(table)) < share, other=None)
        for name in table.columns
        if name not in KEYS and not is_integer_dtype(table[name])
    }
    return table.assign(**changed)


def all_unknown(table: pd.DataFrame, kind: str) -> pd.DataFrame:
    return as_read(kind, unknown(table, 1.0))


def some_unknown(table: pd.DataFrame, kind: str) -> pd.DataFrame:
    return as_read(kind, unknown(table, 0.4))


def no_rows(table: pd.DataFrame, kind: str) -> pd.DataFrame:
    return as_read(kind, table.iloc[:0])


CHANGES: dict[str, Blank] = {"all": all_unknown, "some": some_unknown, "none": no_rows}


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Give what exhibits are made of as it should be, and with each change."""
    known = make_inputs(tmp_path_factory.mktemp("scores"))
    found = {"known": known}
    for name, change in CHANGES.items():
        changed = {kind: change(known[kind], kind) for kind, row in INPUTS.items() if row.schema}
        found[name] = {**known, **changed}
    for kind in ("pair_contrasts", "example_samples", "example_documents"):
        found["none"][kind] = known[kind].iloc[:0]
        for name in ("all", "some"):
            found[name][kind] = unknown(known[kind], 1.0 if name == "all" else 0.4)
    return found


def shown_text(name: str, figure: bool, given: dict[str, Any]) -> str:
    """Make an exhibit and return every text that it shows."""
    labels = Labels(published=True)
    if figure:
        drawn = draw_figure(name, given, labels)
        assert isinstance(drawn, Figure)
        return "\n".join(text.get_text() for text in drawn.findobj(Text))
    table = tabulate(name, given, labels)
    to_latex(table)
    return to_html_table(table)


EXHIBITS = [*((name, False) for name in TABLES), *((name, True) for name in FIGURES)]
NAMES = [f"{name}{' (figure)' * figure}" for name, figure in EXHIBITS]


@pytest.mark.parametrize("change", ["known", *CHANGES])
@pytest.mark.parametrize(("name", "figure"), EXHIBITS, ids=NAMES)
def test_an_exhibit_is_made_or_says_what_it_lacks(name, figure, change, inputs) -> None:
    try:
        text = shown_text(name, figure, inputs[change])
    except NothingToShowError:
        if change == "known":
            raise
    else:
        bare = re.sub(r"<!--.*?-->", "", text)
        assert not re.findall(r".{0,40}(?:\bnan\b|[>+-]None\b|<NA>|\bNaT\b).{0,20}", bare)


@pytest.mark.parametrize("change", ["known", *CHANGES])
def test_the_first_page_is_made(change, inputs) -> None:
    given = inputs[change]
    corpora, told = {"wikipedia": SOURCES}, {"wikipedia": {"splits": {}}}
    compared = by_corpus(corpora, told, given["measures"], [given["sensitivity"]])
    found = pd.DataFrame([Answer("Q", "A", "W", first_page=True)])
    text = render_overview(
        told,
        PERPLEXITIES,
        compared,
        {"trained"},
        given["estimates"],
        [],
        {paper: {"wikipedia": found} for paper in FOUND_TEXTS},
    )
    assert not re.findall(r".{0,40}\bnan\b.{0,20}", text)


def test_a_table_of_nothing_is_written_and_its_findings_are_none(tmp_path, monkeypatch, capsys):
    """Of contrasts without rows: the report is made, and the first page says nothing of them."""
    source = tmp_path / "contrasts.parquet"
    write_shard(source, CONTRASTS, CONTRASTS.empty_table(), {})
    outputs = [tmp_path / f"wikipedia/findings.{end}" for end in ("csv", "tex", "html")]
    flags = zip(("--csv", "--latex", "--html"), map(str, outputs), strict=True)
    asked = [
        "--table",
        "contrastive/findings",
        "--inputs",
        json.dumps({"contrasts": [str(source)]}),
    ]
    monkeypatch.setattr(
        "sys.argv", ["tabulate", *asked, *(word for pair in flags for word in pair)]
    )
    command.main()
    assert "warning: table contrastive/findings: the contrasts have no" in capsys.readouterr().err
    assert "the contrasts have no" in outputs[2].read_text()
    assert read_findings([outputs[0]]) == {}

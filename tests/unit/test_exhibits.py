"""Tables and figures as rows: each says all, and a new one needs a function and a row.

Needs no data. A toy table and a toy figure are written to a temporary folder; the oracle is what
their functions do with the numbers that they are given.
"""

from __future__ import annotations

import json
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
import yaml
from docutils.core import publish_doctree

import beyond_perplexity.report
from beyond_perplexity.errors import InputError
from beyond_perplexity.figures import FIGURES
from beyond_perplexity.figures.exhibit import Exhibit
from beyond_perplexity.planning.report import PATTERNS
from beyond_perplexity.planning.run import Run
from beyond_perplexity.planning.validation import validate
from beyond_perplexity.report import TABLES
from beyond_perplexity.report.inputs import INPUTS, read_input, read_inputs
from beyond_perplexity.schemas.perplexity import TRAINING
from beyond_perplexity.storage.shards import write_shard
from scripts import plot, tabulate
from tests.unit.synthetic_tables import make_training

ROOT = Path(__file__).parents[2]
TOYS = """
import pandas as pd
from matplotlib.figure import Figure
from beyond_perplexity.report.layout import Column, Table

def count(training, models, labels):
    cells = [[labels.model(name), str(n)] for name, n in training["model"].value_counts().items()]
    heads = [Column("Model", text=True), Column("Points")]
    return Table("toy", "Toy", "", heads, cells, pd.DataFrame(cells, columns=["model", "points"]))

def line(training, labels):
    figure = Figure()
    figure.subplots().plot(training["epoch"], training["loss"])
    return figure
"""


def planned(name: str) -> Run:
    config = yaml.safe_load((ROOT / name).read_text())
    validate(config)
    return Run(config)


@pytest.fixture
def toys(tmp_path, monkeypatch):
    """Add a table and a figure as one does: a function in a new file, and a row."""
    (tmp_path / "toys.py").write_text(TOYS)
    monkeypatch.setattr(
        beyond_perplexity.report, "__path__", [*beyond_perplexity.report.__path__, str(tmp_path)]
    )
    inputs = ("training", "models")
    table = Exhibit("report.toys:count", inputs, "Toys", "How many.", optional=("models",))
    monkeypatch.setitem(TABLES, "tendencies/toy", table)
    figure = Exhibit("report.toys:line", ("training",), "Toy line", "How far.")
    monkeypatch.setitem(FIGURES, "tendencies/toy", figure)


@pytest.mark.parametrize(
    "row", [*TABLES.values(), *FIGURES.values()], ids=[*TABLES, *(f"{f} (figure)" for f in FIGURES)]
)
def test_every_row_says_all(row):
    module, function = row.code.split(":")
    made = getattr(import_module(f"beyond_perplexity.{module}"), function)
    signature(made).bind(*row.inputs, "labels")  # else a TypeError
    assert (ROOT / row.path).is_file()
    assert set(row.optional) <= set(row.inputs) <= set(INPUTS)
    assert row.title
    assert len(row.caption) > 20
    settings = {"report_level": 1, "halt_level": 2}
    text = publish_doctree(f"**{row.title}.** {row.caption}", settings_overrides=settings).astext()
    assert text.startswith(f"{row.title}. ")


def has_files(key: str, config: dict[str, Any]) -> bool:
    """Return whether there is something that a row of a planned paper can be made of."""
    given = config["contrastive"]
    asked = {
        "contrastive/pairs": given["pairs"],
        "contrastive/partition": given["partition"]["proposal"],
        "tendencies/embeddings": Run(config).embeddings.encoder,
        "semantics/human": config["semantics"]["human_scores"],
        "importance/table_gaps": config["importance"]["bidirectional"],
        "importance/figure_gaps": config["importance"]["bidirectional"],
    }
    return bool(asked.get(key, True))


@pytest.mark.parametrize("name", ["config.yaml", "configs/smoke-importance.yaml"])
def test_every_row_is_planned_and_every_kind_of_files_is_found(name):
    run = planned(name)
    report = run.report
    papers = {group.split("/")[0] for group in report.groups()}
    for rows in (TABLES, FIGURES):
        named = {report.name(g, n) for g in report.groups() for n in report.names(rows, g)}
        held = {key for key in rows if key.split("/")[0] in papers}
        assert named == {key for key in held if has_files(key, run.config)}
        for group in report.groups():
            for exhibit in report.names(rows, group):
                files = report.inputs(rows, group, exhibit)
                assert tuple(files) == rows[report.name(group, exhibit)].inputs
    assert {kind for patterns in PATTERNS.values() for kind in patterns} == set(INPUTS)


def test_a_toy_is_planned_made_and_captioned(toys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    report = planned("configs/smoke.yaml").report
    group, *others = report.groups()
    assert group == "tendencies/wikipedia"
    assert others == [f"{paper}/wikipedia" for paper in ("contrastive", "semantics", "relations")]
    files = [name for name in report.files() if "/toy." in name]
    folders = [f"<results>/{kind}/tendencies/wikipedia" for kind in ("tables", "figures")]
    assert files == [
        *(f"{folders[0]}/toy.{suffix}" for suffix in ("csv", "tex", "html")),
        *(f"{folders[1]}/toy.{suffix}" for suffix in ("svg", "pdf")),
    ]
    found = {k: v for k, v in report.inputs(TABLES, group, "toy").items() if v}
    assert found["training"] == ["<results>/models/lstm/training.parquet"]
    assert len(found["models"]) == 2
    assert report.caption(TABLES, group, "toy") == "**Toys.** How many."
    assert report.caption(FIGURES, group, "toy") == "**Toy line.** How far."

    points = make_training(["lstm"]).drop(columns="model")
    path = tmp_path / "lstm" / "training.parquet"
    path.parent.mkdir()
    rows = pa.Table.from_pandas(points, TRAINING, preserve_index=False)
    write_shard(path, TRAINING, rows, {})
    shared = ["--inputs", json.dumps({"training": [str(path)]}), "--labels", report.labels(group)]
    outputs = ["--csv", "t.csv", "--latex", "t.tex", "--html", "t.html"]
    monkeypatch.setattr("sys.argv", ["tabulate", "--table", "tendencies/toy", *shared, *outputs])
    tabulate.main()
    assert pd.read_csv("t.csv").to_dict("records") == [{"model": "LSTM", "points": len(points)}]
    monkeypatch.setattr(
        "sys.argv", ["plot", "--figure", "tendencies/toy", *shared, "--output", "f.svg"]
    )
    plot.main()
    assert "<svg" in (tmp_path / "f.svg").read_text()


def test_a_corpus_may_be_called_as_a_paper_is():
    config = yaml.safe_load((ROOT / "config.yaml").read_text())
    config["corpora"]["importance"] = config["corpora"].pop("wikipedia")
    for part in (*config["models"].values(), *config["evaluators"].values()):
        if "corpus" in part:
            part["corpus"] = "importance"
    validate(config)
    report = Run(config).report
    others = [f"{paper}/importance" for paper in ("contrastive", "semantics", "relations")]
    assert report.groups() == ["tendencies/importance", "importance", *others]
    files = report.files()
    tables, figures = (sum(has_files(key, config) for key in rows) for rows in (TABLES, FIGURES))
    assert len(set(files)) == len(files) == 3 * tables + 2 * figures


def test_where_no_file_is_given_there_is_nothing():
    nothing = {kind: read_input(kind, []) for kind in INPUTS}
    assert nothing["measures"] is None
    assert (nothing["models"], nothing["latents"]) == ({}, [])


def test_what_a_command_is_not_given_or_given_in_vain_is_named():
    row = TABLES["contrastive/partition"]
    with pytest.raises(InputError, match="needs files 'partitions'"):
        read_inputs("it", row, {"given_lengths": []})
    with pytest.raises(InputError, match="no list of files 'models'"):
        read_inputs("it", row, {"models": []})

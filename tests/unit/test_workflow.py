"""What the rules look up: shards, sources, locations, the summary of a dry run; the first page.

Needs nothing. Oracles: counting by hand, and docutils, which must find nothing to complain about.
"""

from __future__ import annotations

import base64
import json
import os
from itertools import pairwise
from pathlib import Path

import pandas as pd
import pytest
import yaml
from docutils import nodes
from docutils.core import publish_doctree

from beyond_perplexity.figures import FIGURES
from beyond_perplexity.planning.run import Run, prepare_environment
from beyond_perplexity.planning.summary import PlannedJob, summarize_jobs
from beyond_perplexity.planning.validation import validate
from beyond_perplexity.report import TABLES
from beyond_perplexity.report.overview import main_table, render_overview

ROOT = Path(__file__).parents[2]
SHA = "ab" * 32


@pytest.fixture
def config():
    loaded = yaml.safe_load((ROOT / "configs" / "smoke.yaml").read_text())
    loaded["external_samples"] = {
        "mine": {"corpus": "wikipedia", "path": {"url": "http://x.org/a/t.txt?b=1", "sha256": SHA}}
    }
    validate(loaded, ROOT / "rules" / "config.schema.yaml")
    return loaded


@pytest.mark.parametrize("per_shard", [1, 7, 30, 60, 1000])
def test_shards_cover_every_document_once(config, per_shard):
    config["generation"]["documents_per_shard"] = per_shard
    run = Run(config)
    ranges = [run.samples.shard_range(shard) for shard in run.samples.shards("lstm")]
    assert ranges[0][0] == 0
    assert all(first + count == following for (first, count), (following, _) in pairwise(ranges))
    assert sum(count for _, count in ranges) == config["generation"]["documents"]
    assert run.samples.shards("external") == ["00000"]


def test_sources_are_models_by_decodings_and_what_was_brought(config):
    run = Run(config)
    expected = ["lstm/ancestral", "lstm/beam", "trigram/ancestral", "trigram/beam"]
    assert run.samples.sources() == [*expected, "external/mine"]
    assert run.samples.sources("another") == []
    corpora = {run.samples.corpus_of(*names) for names in [("external", "mine"), ("lstm", "beam")]}
    assert corpora == {"wikipedia"}


def test_an_address_has_a_place_among_the_downloads(config):
    run = Run(config)
    place = run.corpora.local_path(config["external_samples"]["mine"]["path"])
    assert place == f"results/downloads/{SHA}/t.txt"
    assert run.corpora.downloads[SHA]["url"] == "http://x.org/a/t.txt?b=1"
    assert run.corpora.members(SHA) == []


def test_embedded_text_is_no_input_and_missing_files_can_be_planned(config, tmp_path):
    assert Run(config).corpora.source_files("wikipedia") == []
    there = tmp_path / "there.xml"
    there.write_text("x")
    paths = [str(there), "missing.xml", {"url": "http://x.org/b.xml", "sha256": SHA}]
    config["corpora"]["wikipedia"]["source"]["paths"] = paths
    run = Run(config)
    download = f"results/downloads/{SHA}/b.xml"
    assert run.corpora.source_files("wikipedia") == [str(there), "missing.xml", download]
    assert run.corpora.source_files("wikipedia", planning=True) == [str(there), download]
    assert json.loads(run.corpora.options("wikipedia"))["source"]["paths"][2] == download


def test_figures_and_tables_are_made_of_what_they_show(config):
    run = Run(config)
    report, (group,) = run.report, run.report.groups()
    assert group == "tendencies/wikipedia"
    bodies = len(run.samples.sources("wikipedia"))
    held = {
        (name, kind): len(files)
        for rows, name in [
            (FIGURES, "sample_size"),
            (FIGURES, "figure_7"),
            (FIGURES, "training"),
            (TABLES, "table_4"),
            (TABLES, "sensitivity"),
        ]
        for kind, files in report.inputs(rows, group, name).items()
        if files
    }
    assert held == {
        ("sample_size", "sample_size"): bodies,
        ("figure_7", "curves"): bodies + 1,
        ("training", "training"): 1,  # a trigram has no curve
        ("table_4", "measures"): bodies,
        ("table_4", "resamples"): config["tendencies"]["resamples"],
        ("sensitivity", "sensitivity"): 1,
    }
    codes = {report.code("plot", FIGURES, group, f"figure_{n}") for n in range(1, 10)}
    assert len(codes) == 9  # also of functions of one file
    files = report.files()
    assert len(set(files)) == len(files) == 2 * 14 + 3 * 7


def test_a_figure_that_has_nothing_to_show_is_left_out(config):
    config["generation"]["models"] = ["trigram"]
    report = Run(config).report
    (group,) = report.groups()
    every = [key.split("/")[1] for key in FIGURES if key.startswith("tendencies/")]
    assert report.names(FIGURES, group) == [name for name in every if name != "training"]
    config["generation"]["models"], config["external_samples"] = [], {}
    assert Run(config).report.groups() == Run(config).report.files() == []


def test_only_neural_models_ask_for_a_gpu(config):
    run = Run(config)
    assert [run.models.gpus(name) for name in ("lstm", "trigram")] == [1, 0]
    assert all((ROOT / file).is_file() for file in run.models.code("lstm"))


def test_a_model_that_is_brought_depends_on_its_files_and_no_vocabulary(config, tmp_path):
    for name in ("config.json", "model.safetensors", "tokenizer.json", "pytorch_model.bin"):
        (tmp_path / name).write_text("")
    brought = {"family": "huggingface", "corpus": "wikipedia", "training": {}}
    config["models"]["local"] = {**brought, "architecture": {"path": str(tmp_path)}}
    config["models"]["hub"] = {**brought, "architecture": {"path": "a/b"}, "training": {"beta2": 1}}
    config["generation"]["models"] += ["local", "hub"]
    run = Run(config)
    expected = ["config.json", "model.safetensors", "tokenizer.json"]
    assert run.models.brought_files("local") == [str(tmp_path / name) for name in expected]
    assert run.models.brought_files("hub") == run.models.brought_files("lstm") == []
    assert run.models.vocabulary_files("local") == []
    assert run.models.vocabulary_files("lstm") == ["<results>/vocabularies/wikipedia/words.json"]
    # A curve of one point is none: only what is trained has one.
    assert [Path(file).parts[2] for file in run.report.training_files("wikipedia")] == [
        "lstm",
        "hub",
    ]
    assert run.models.gpus("local") == 1


def test_the_summary_adds_up(config):
    jobs = [PlannedJob("generate", 1, 90), PlannedJob("generate", 1, 90), PlannedJob("plot", 0, 10)]
    text = summarize_jobs(Run(config), jobs)
    assert "240 (4 bodies of 60)" in text
    assert "3 to do" in text
    assert "2  generate" in text
    assert "GPU-hours    3.0" in text


def test_the_environment_is_prepared_once(monkeypatch):
    monkeypatch.setenv("PATH", "/bin")
    monkeypatch.delenv("PYTHONPATH", raising=False)
    for _ in range(2):
        prepare_environment("/somewhere")
    assert os.environ["PATH"].split(os.pathsep)[1:] == ["/bin"]
    assert os.environ["PYTHONPATH"] == "/somewhere"


@pytest.fixture
def measures():
    rows = [
        ("lstm/beam", "length", "ks", 0.25, 0.001),
        ("lstm/beam", "unigram", "tvd", 0.5, 0.04),
        ("trigram/beam", "length", "ks", 0.125, 0.5),
    ]
    columns = ["source", "tendency", "measure", "value", "p_value"]
    return pd.DataFrame(rows, columns=columns).assign(n_reference=70, n_samples=60)


def test_the_main_table_has_a_row_for_each_body_of_text(measures):
    header, first, second = main_table(measures)
    by_name = dict(zip(header, first, strict=True))
    assert by_name["Length (KS)"] == r"0.25\*\*"
    assert by_name["Unigrams (TVD)"] == r"0.50\*"
    assert by_name["Symbols (KS)"] == "—"
    assert second[header.index("Length (KS)")] == "0.12"


def test_the_first_page_is_sound(measures, tmp_path):
    figure = tmp_path / "main.svg"
    drawing = "<svg xmlns='http://www.w3.org/2000/svg'>" + "<g/>" * 5000 + "</svg>"
    figure.write_text(drawing)
    counts = {"documents": 1234, "tokens": 56789}
    perplexity = {
        "perplexity": {"token": 93.5, "word": None},
        "bits": {"character": 1.5},
        "unknown_share": 0.01,
    }
    common = {"model": "rnng", "proposal": "crf", "measure": "perplexity", "n_samples": 100}
    drawn = {**common, "method": "importance_sampling", "ess_median": 7.5, "beam_size": None}
    estimates = pd.DataFrame(
        [
            {**drawn, "aggregation": "instance", "pairing": None, "temperature": 1, "value": 181.7},
            {**drawn, "aggregation": "instance", "pairing": None, "temperature": 2, "value": 180.6},
            {**drawn, "aggregation": "corpus", "pairing": "sample_id", "value": 199.8},
            {**common, "method": "beam", "aggregation": "instance", "value": 235.8},
        ]
    )
    corpora = {"wikipedia": {"splits": {"test": counts}}}
    text = render_overview(corpora, {"lstm": perplexity}, measures, estimates, [figure])
    tree = publish_doctree(text, settings_overrides={"report_level": 1, "halt_level": 2})
    (image,) = tree.findall(nodes.image)
    assert base64.b64decode(image["uri"].partition(",")[2]).decode() == drawing
    shown = tree.astext()
    for expected in ("2 bodies", "1,234 test documents", "93.50", "∞", "1.00%", "0.25**"):
        assert expected in shown
    for expected in ("180.6", "crf, τ = 2", "7.5 of 100", "199.8", "235.8"):
        assert expected in shown
    alone = publish_doctree(render_overview(corpora, {}, None, estimates, [])).astext()
    assert "180.6" in alone
    assert "generated text" not in alone

"""What the rules look up: shards, sources, locations, the summary of a dry run.

Needs nothing. Oracle: counting by hand.
"""

from __future__ import annotations

import json
import os
from itertools import pairwise
from pathlib import Path

import pytest
import yaml

from beyond_perplexity.figures import FIGURES
from beyond_perplexity.planning.job_costs import PlannedJob
from beyond_perplexity.planning.pilot import summarize_run
from beyond_perplexity.planning.run import Run, prepare_environment
from beyond_perplexity.planning.validation import validate
from beyond_perplexity.report import TABLES

ROOT = Path(__file__).parents[2]
SHA = "ab" * 32


@pytest.fixture
def config():
    loaded = yaml.safe_load((ROOT / "configs" / "smoke.yaml").read_text())
    loaded["external_samples"] = {
        "mine": {"corpus": "wikipedia", "path": {"url": "http://x.org/a/t.txt?b=1", "sha256": SHA}}
    }
    validate(loaded)
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


@pytest.mark.parametrize(("per_count", "n_blocks"), [(1, 9), (14, 5), (20, 3), (21, 3), (55, 2)])
def test_blocks_of_shards_are_counted_together_and_hold_each_once(config, per_count, n_blocks):
    config["generation"]["documents_per_shard"] = 7  # nine shards
    config["tendencies"]["documents_per_count"] = per_count
    samples = Run(config).samples
    blocks = samples.blocks("lstm")
    held = [samples.block_files("lstm", "beam", block) for block in blocks]
    shards = [f"<results>/samples/lstm/beam/{shard}.parquet" for shard in samples.shards("lstm")]
    assert [file for files in held for file in files] == shards
    assert len(blocks) == n_blocks
    assert (
        samples.statistics_file("lstm", "beam") == "<results>/statistics/lstm/beam/merged.parquet"
    )
    config["generation"]["documents"] += 200
    grown = Run(config).samples
    n_full = 60 // (-(-per_count // 7) * 7)
    assert [grown.block_files("lstm", "beam", b) for b in blocks[:n_full]] == held[:n_full]


def test_a_body_of_text_that_one_job_counts_is_not_merged(config):
    samples = Run(config).samples
    for names in (("lstm", "beam"), ("external", "mine")):
        file = samples.statistics_file(*names)
        assert [file] == samples.counted_files(*names)
        assert file.endswith("/00000.parquet")
    assert len(samples.block_files("lstm", "beam", "00000")) == 2


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
    assert run.corpora.present(run.corpora.source_files("wikipedia")) == [str(there), download]
    assert json.loads(run.corpora.options("wikipedia"))["source"]["paths"][2] == download


def test_figures_and_tables_are_made_of_what_they_show(config):
    run = Run(config)
    report, (group, *others) = run.report, run.report.groups()
    assert group == "tendencies/wikipedia"
    assert others == [f"{paper}/wikipedia" for paper in ("contrastive", "semantics", "relations")]
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
        ("figure_7", "curves"): bodies + 2,  # human text in a vocabulary, and raw
        ("training", "training"): 1,  # a trigram has no curve
        ("table_4", "raw_measures"): bodies,
        ("table_4", "resamples"): config["tendencies"]["resamples"],
        ("sensitivity", "sensitivity"): 1,
    }
    codes = {report.code("plot", FIGURES, group, f"figure_{n}") for n in range(1, 10)}
    assert len(codes) == 9  # also of functions of one file
    files = report.files()
    of_contrasts = 2 * 3 + 3 * 6  # nothing of pairs, which are brought
    of_meaning, of_relations = 2 * 3 + 3 * 6, 2 * 1 + 3 * 3
    expected = 2 * 15 + 3 * 11 + of_contrasts + of_meaning + of_relations
    assert len(set(files)) == len(files) == expected


def test_a_figure_that_has_nothing_to_show_is_left_out(config):
    config["generation"]["models"] = ["trigram"]
    report = Run(config).report
    (group,) = report.groups("tendencies")
    every = [key.split("/")[1] for key in FIGURES if key.startswith("tendencies/")]
    assert report.names(FIGURES, group) == [name for name in every if name != "training"]
    config["generation"]["models"], config["external_samples"] = [], {}
    config["contrastive"]["models"] = config["semantics"]["models"] = []
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
    files = run.report.inputs(FIGURES, "tendencies/wikipedia", "training")["training"]
    assert [Path(file).parts[2] for file in files] == ["lstm", "hub"]
    assert run.models.gpus("local") == 1


def test_the_summary_adds_up(config):
    jobs = [
        PlannedJob("generate", gpus=1, minutes=90, measured=True, megabytes=5000, output_bytes=2e9),
        PlannedJob("generate", gpus=1, minutes=60, measured=True, megabytes=4000, output_bytes=1e9),
        PlannedJob("plot", minutes=50),
    ]
    text = summarize_run(Run(config), jobs)
    assert "240 (4 bodies of 60)" in text
    assert "5: lstm, trigram, kn-3, rnn, sentence-rnn" in text
    assert "3 to do" in text
    assert "2  generate      75.0 min each\n" in text
    assert "1  plot          50.0 min each  guessed\n" in text
    assert "GPU-hours    2.5\n" in text
    assert "CPU-hours    0.8 " in text
    assert "75% of the time" in text
    assert "5,000 MB in a job at most (generate)" in text
    assert "3.0 GB" in text
    assert "missing" not in text


def test_the_summary_counts_latent_models_and_names_files_that_are_not_there(config, tmp_path):
    latent = yaml.safe_load((ROOT / "configs" / "smoke-importance.yaml").read_text())
    config["external_samples"]["own"] = {
        **config["external_samples"]["mine"],
        "path": str(tmp_path / "own.txt"),
    }
    text = summarize_run(Run(config), [])
    assert f"1 of the files that it reads\n    {tmp_path}/own.txt" in text
    (tmp_path / "own.txt").touch()
    assert "missing" not in summarize_run(Run(config), [])
    validate(latent)
    models = Run(latent).importance.models()
    text = summarize_run(Run(latent), [])
    assert f"({len(models)} of them with latent variables): " in text
    assert all(name in text for name in models)


def test_the_environment_is_prepared_once(monkeypatch):
    monkeypatch.setenv("PATH", "/bin")
    monkeypatch.setenv("PYTHONPATH", "")
    monkeypatch.setenv("PYTHONSAFEPATH", "")
    for _ in range(2):
        prepare_environment("/somewhere")
    assert os.environ["PATH"].split(os.pathsep)[1:] == ["/bin"]
    assert os.environ["PYTHONPATH"] == "/somewhere"
    assert os.environ["PYTHONSAFEPATH"] == "1"  # no folder `scripts` of the user comes first

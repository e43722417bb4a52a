"""The small run that a large one is planned by: its configuration, what it takes and what it makes.

Needs nothing; `tests/long` runs one. Oracle: the shipped configurations, and counting by hand.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import yaml

from beyond_perplexity.commands import plan
from beyond_perplexity.errors import InputError
from beyond_perplexity.planning.job_costs import PlannedJob, Timing
from beyond_perplexity.planning.pilot import (
    advise_shards,
    link_finished,
    prerequisites,
    round_size,
    shrink,
    targets,
)
from beyond_perplexity.planning.run import Run
from beyond_perplexity.planning.validation import validate

ROOT = Path(__file__).parents[2]
SIZE = {"documents": 2, "instances": 1, "samples": 5, "steps": 3}


def load(path: Path, results: Path) -> tuple[dict, Run]:
    raw, checked = (yaml.safe_load(path.read_text()) for _ in range(2))
    raw["pathvars"] = checked["pathvars"] = {"results": str(results)}
    validate(checked)
    return raw, Run(checked)


def make_pilot(raw: dict, run: Run) -> Run:
    small = shrink(raw, run, SIZE)
    assert yaml.safe_load(yaml.safe_dump(small)) == small
    validate(small)
    return Run(small)


@pytest.mark.parametrize("path", [ROOT / "config.yaml", *(ROOT / "configs").glob("*.yaml")])
def test_every_shipped_configuration_has_a_pilot(path, tmp_path) -> None:
    """Its shards are few: two of every body of text, and as many of each model elsewhere."""
    raw, run = load(path, tmp_path)
    before = yaml.safe_dump(raw)
    pilot = make_pilot(raw, run)
    assert yaml.safe_dump(raw) == before
    made = targets(pilot)
    assert made
    assert all(file.startswith(f"{tmp_path}/plan/run/") for file in made)
    for model in run.config["generation"]["models"]:
        assert len(pilot.samples.shards(model)) == 2
        assert pilot.samples.shard_range("00000")[1] == 15 * pilot.samples.shard_range("00001")[1]
    for name in run.config["evaluators"]:
        held = pilot.config["evaluators"][name].get("training", {})
        networks = run.evaluators.is_trained(name) and run.evaluators.row(name).network
        assert (held.get("maximum_steps") == 3) == networks
    for name in (*run.config["models"], *run.config["proposals"]):
        steps = pilot.models.find(name).get("training", {}).get("maximum_steps")
        assert (steps == 3) == (
            pilot.models.row(name).kind not in ("counted", "brought")
            and pilot.models.row(name).reference is not None
        )


def test_a_pilot_takes_what_is_there_and_trains_the_rest(tmp_path) -> None:
    for name in ("models/lstm/model.json", "evaluators/word2vec/evaluator.json", "corpora/x.y"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).touch()
    (tmp_path / "models" / "rnn").mkdir()  # begun
    raw, run = load(ROOT / "configs" / "smoke.yaml", tmp_path)
    pilot = make_pilot(raw, run)
    assert pilot.models.find("lstm")["training"] == run.models.find("lstm")["training"]
    assert pilot.models.find("rnn")["training"]["maximum_steps"] == 3
    for _ in range(2):  # a second pilot begins anew
        folder = link_finished(run)
        held = {str(path.relative_to(folder)) for path in folder.rglob("*")}
        links = {"corpora", "models/lstm", "evaluators/word2vec"}
        assert held == {*links, "models", "evaluators"}
        assert all((folder / link).is_symlink() for link in links)
        (folder / "samples").mkdir()
        (folder / "models" / "rnn").mkdir()
        (folder / "samples").rmdir()
    assert (tmp_path / "models/lstm/model.json").exists()


def test_what_no_pilot_can_shorten_is_made_in_the_large_run(tmp_path) -> None:
    _, run = load(ROOT / "configs" / "smoke.yaml", tmp_path)
    assert prerequisites(run) == [
        f"{tmp_path}/corpora/wikipedia/documents.parquet",
        f"{tmp_path}/models/kn-3/model.json",
        f"{tmp_path}/models/trigram/model.json",
        f"{tmp_path}/vocabularies/wikipedia/words.json",
    ]


def test_a_shard_of_half_an_hour_follows_from_start_and_rate(tmp_path) -> None:
    """Shards of 30 documents with beams of two: 60 units; half an hour less a minute is 1740 s."""
    _, run = load(ROOT / "configs" / "smoke.yaml", tmp_path)
    timings = {
        "generate/lstm/beam": Timing(60, 0.25, 900, 10),
        "generate/lstm/ancestral": Timing(0, 1, 800, 10, rough=1),
        "train/lstm": Timing(0, 2, 700, 1),
        "of another run": Timing(0, 1, 1, 1),
    }
    units = {"generate/lstm/beam": 60, "generate/lstm/ancestral": 30, "train/lstm": 90}
    jobs = [PlannedJob("", kind, held / part) for kind, held in units.items() for part in (2, 1)]
    lines = advise_shards(run, timings, jobs)
    assert [line.split()[0] for line in lines[1:4]] == sorted(units)
    assert lines[2].split()[3:] == ["1.2", f"{round_size(1740 / 0.5):,}"]  # 1.25 min of a shard
    text = "\n".join(lines)
    assert "generation.documents_per_shard: 2,600; 1,800  (now 30)" in text
    assert "<1" in text  # a bound
    assert "more --documents" in text
    assert [round_size(number) for number in (7.4, 99.6, 1234, 98_765)] == [7, 100, 1200, 99_000]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--documents", "0"], "--documents: "),
        (["--configfile", "{folder}/away.yaml"], "away.yaml: "),
        (["--configfile", "{folder}/bad.yaml"], "bad.yaml: cannot be read as YAML"),
        (["--configfile", "{folder}/list.yaml"], "list.yaml: is no configuration"),
        (["--configfile", "{folder}/odd.yaml"], "config: "),
    ],
)
def test_what_cannot_be_planned_is_said_before_anything_runs(
    given, said, tmp_path, monkeypatch
) -> None:
    (tmp_path / "bad.yaml").write_text("{")
    (tmp_path / "list.yaml").write_text("[1]")
    (tmp_path / "odd.yaml").write_text("sead: 1")
    options = [word.format(folder=tmp_path) for word in given]
    monkeypatch.setattr("sys.argv", ["plan", *options])
    monkeypatch.setattr(subprocess, "run", None)
    with pytest.raises(InputError, match=said):
        plan.main()

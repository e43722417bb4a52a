"""What the rules look up for importance sampling.

Needs no data. Oracles: the configuration, counts by hand, and that shards cover every instance and
sample once.
"""

from __future__ import annotations

from dataclasses import is_dataclass, replace
from inspect import signature
from itertools import product
from pathlib import Path
from pkgutil import resolve_name
from typing import NamedTuple

import pyarrow as pa
import pytest

from beyond_perplexity.importance.ways_to_draw import DRAWS
from beyond_perplexity.models.families import FAMILIES
from beyond_perplexity.planning.importance import ImportancePlan
from tests.unit.planned import checked


def plan(name: str, **importance: object) -> ImportancePlan:
    return ImportancePlan(checked(name, importance=importance))


@pytest.mark.parametrize(("instances", "samples"), [(40, 100), (41, 101), (1, 10)])
@pytest.mark.parametrize("draw", DRAWS)
def test_the_shards_cover_every_instance_and_sample_once(draw, instances, samples):
    sizes = {"instances_per_shard": 20, "samples_per_shard": 7, "runs_per_shard": 3}
    asked = {"instances": instances, "samples": samples, "smc": {"particles": 5, "runs": 7}}
    held = plan("config.yaml", **sizes, **asked)
    cut_to = {"samples": samples, "runs": 7, "": 1}
    if DRAWS[draw].documents:  # those are not of the corpus
        instances = held.options["bidirectional"]["documents"]
    for setting in held.settings(draw, "kglm-peeking"):
        seen = set()
        for job in jobs(held, draw, "kglm-peeking"):
            if job.setting != setting:
                continue
            first, count = job.instances
            start, number = job.samples or (0, 1)
            covered = set(product(range(first, first + count), range(start, start + number)))
            assert not covered & seen
            seen |= covered
        per_instance = cut_to[DRAWS[draw].cut_by(setting)]
        assert seen == set(product(range(instances), range(per_instance)))


class PlannedDraw(NamedTuple):
    """A shard with all that the rule makes it from, besides files and code."""

    path: str
    setting: str
    options: str
    instances: tuple[int, ...]
    samples: tuple[int, ...]


def jobs(held: ImportancePlan, draw: str, proposal: str) -> list[PlannedDraw]:
    found = []
    for path in held.draw_files(draw, proposal):
        setting, (instances, samples) = Path(path).parts[-2], Path(path).stem.split("-")
        options = held.draw_options(draw, proposal, setting)
        ranges = held.instance_range(draw, instances), held.sample_range(draw, setting, samples)
        found.append(PlannedDraw(path, setting, options, *map(tuple, ranges)))
    return found


def drawn_again(**changes: object) -> dict[str, int]:
    """Count the shards of the paper's plan that a change makes, or makes again, by way to draw.

    No shard of the plan before may be left over.
    """
    before = plan("configs/paper-importance.yaml")
    after = plan("configs/paper-importance.yaml", **changes)
    counts = dict.fromkeys(DRAWS, 0)
    for draw, proposal in product(DRAWS, before.proposals()):
        old, new = set(jobs(before, draw, proposal)), set(jobs(after, draw, proposal))
        counts[draw] += len(new - old)
        assert {job.path for job in old} <= {job.path for job in new}
    return counts


def test_more_of_anything_leaves_the_whole_shards_of_the_papers_plan_as_they_are():
    """Oracle: counted by hand; what is counted of 10 proposals is 10 a block of instances.

    6 proposals are drawn from at 6 temperatures and 4 at one, which makes 40 settings; all are for
    models that go word by word; 2,000 instances are 40 blocks.
    """
    none = dict.fromkeys(DRAWS, 0)
    assert drawn_again(samples=20_000) == none | {"weights": 40 * 40, "log_q": 6 * 40}
    blocks = {"weights": 40 * 2, "log_q": 6 * 2, "beams": 10 * 2, "posterior": 10 * 2}
    blocks["smc"] = 10 * 2 * 3  # 10 runs are 3 blocks
    assert drawn_again(instances=2100) == none | blocks
    temperatures = [0.5, 0.9, 1.0, 1.1, 2.0, 5.0, 10.0]
    more = none | {"weights": 6 * 40, "log_q": 6 * 40}
    assert drawn_again(temperatures=temperatures) == more
    assert drawn_again(temperatures=temperatures[:6][::-1]) == none
    assert drawn_again(beams=[1, 10, 1000]) == none | {"beams": 10 * 40}


def test_more_runs_are_drawn_alone_and_other_particles_anew():
    """Oracle: counted by hand; 5 proposals, one block of instances, 4 runs to a block."""
    start = {"particles": 50, "runs": 4}
    common = {"smc": start, "bidirectional": {"documents": 4}}
    before = plan("config.yaml", **common)
    for changed, drawn_again in (
        ({"runs": 8}, False),
        ({"runs": 6}, False),
        ({"particles": 60}, True),
        ({"threshold": 0.4}, True),
    ):
        after = plan("config.yaml", **(common | {"smc": start | changed}))
        for draw, proposal in product(DRAWS, before.proposals()):
            old, new = set(jobs(before, draw, proposal)), set(jobs(after, draw, proposal))
            changes = draw in ("smc", "bidirectional")
            if "particles" in changed and proposal == "kglm-optimal":
                changes = False  # it has its own number
            assert len(new - old) == changes
            assert len(old - new) == (changes and drawn_again)
            assert {job.setting for job in new - old} <= {"all", "particles"}


def test_a_proposal_may_have_particles_of_its_own():
    held = plan("config.yaml", smc={"particles": 30, "runs": 4})
    for draw, setting in (("smc", "all"), ("bidirectional", "particles")):
        found = {name: held.settings(draw, name)[setting] for name in held.proposals()}
        particles = {name: options["particles"] for name, options in found.items()}
        assert particles.pop("kglm-optimal") == 400
        assert set(particles.values()) == {30}
    assert "smc" not in plan("config.yaml", smc=None).settings("smc", "kglm-optimal")


def test_only_the_last_block_that_was_not_whole_is_drawn_again():
    """Oracle: counted by hand; 2 settings of a model with blocks of 20 instances and 7 samples."""
    common = {"instances_per_shard": 20, "samples_per_shard": 7, "temperatures": [0.5, 2.0]}
    before = plan("config.yaml", instances=30, samples=10, **common)
    after = plan("config.yaml", instances=45, samples=15, **common)
    old, new = (set(jobs(held, "weights", "kglm-peeking")) for held in (before, after))
    assert (len(old), len(new)) == (2 * 2 * 2, 2 * 3 * 3)
    kept = {(Path(job.path).parent.name, Path(job.path).stem) for job in old & new}
    assert kept == {("tau_0.5", "00000-00000"), ("tau_2.0", "00000-00000")}


def test_log_q_at_all_temperatures_is_asked_for_where_there_are_several():
    held = plan("config.yaml", temperatures=[2.0, 0.5])
    assert held.temperatures("kglm-peeking") == [2.0, 0.5]
    assert held.temperatures("kglm-optimal") == [1.0]
    assert held.settings("log_q", "kglm-peeking") == {"all": {"temperatures": [0.5, 2.0]}}
    assert held.draw_files("log_q", "kglm-optimal") == []
    folder = "<results>/draws/weights/kglm/kglm-peeking"
    assert {path.rpartition("/")[0] for path in held.draw_files("weights", "kglm-peeking")} == {
        f"{folder}/tau_0.5",
        f"{folder}/tau_2.0",
    }


def test_simulated_documents_have_shards_of_their_own_number_and_are_of_no_split():
    chosen = {"documents": 45, "sizes": [10, 100], "maximum_words": 200}
    held = plan("config.yaml", bidirectional=chosen, instances=500, instances_per_shard=20)
    shards = jobs(held, "bidirectional", "kglm-peeking")
    assert [job.instances for job in shards] == [(0, 20), (20, 20), (40, 5)] * 2
    assert [job.samples for job in shards] == [()] * 3 + [(0, 4)] * 3
    assert held.draw_files("bidirectional", "kglm-peeking", "choices/draws") == []
    assert len(held.gap_files()) == len(held.proposals())
    without = plan("config.yaml", bidirectional=None)
    assert without.draw_files("bidirectional", "kglm-peeking") == without.gap_files() == []


def test_every_way_to_draw_can_be_run():
    """Oracle: the signatures and fields of what the rows name; the script fills them in."""
    held = plan("config.yaml")
    for name, draw in DRAWS.items():
        parameters = list(signature(resolve_name(draw.run)).parameters)
        cuts = {draw.cut_by(setting) for setting in held.settings(name, "kglm-peeking")} - {""}
        assert parameters == ["pair", "instances", "options", *cuts]
        assert is_dataclass(resolve_name(draw.options))
        assert isinstance(resolve_name(draw.schema), pa.Schema)
        assert all(resolve_name(reference) for reference in draw.code)


def test_the_tables_say_where_the_annotation_comes_from():
    assert plan("config.yaml").data() == {
        "rnng": "wikipedia (test), automatic trees (TextBlob's chunker), caps: maximum_words 40",
        "entitynlm": "wikipedia (test), entity chains of links, no coreference, caps: "
        "maximum_entities 50, maximum_length 8",
        "kglm": "wikipedia (test), entity chains of links, no coreference",
    }
    assert plan("configs/paper-importance.yaml").data()["rnng"] == (
        "treebank (test), trees of the corpus, caps: maximum_words 150"
    )


def test_only_models_that_go_word_by_word_are_run_by_sequential_monte_carlo(monkeypatch):
    held = plan("config.yaml", instances=40, instances_per_shard=20)
    folder = "<results>/draws/smc/kglm/kglm-peeking/all"
    files = [f"{folder}/{block:05d}-00000.parquet" for block in range(2)]
    assert held.draw_files("smc", "kglm-peeking") == files
    assert len(held.draw_files("smc", "rnng-crf")) == 2
    monkeypatch.setitem(FAMILIES, "rnng", replace(FAMILIES["rnng"], sequential=False))
    assert held.draw_files("smc", "rnng-crf") == []
    assert held.draw_files("smc", "kglm-peeking") == files
    assert plan("config.yaml", smc=None).draw_files("smc", "kglm-peeking") == []


def test_what_chooses_is_drawn_like_what_is_reported_but_from_the_validation_split():
    held = plan("config.yaml", choose="validation")
    assert plan("config.yaml").choice_files() == []
    reported, choosing = held.estimate_files("estimates"), held.choice_files()
    prefix = "<results>/choices/estimates/"
    assert choosing == [path.replace("<results>/estimates/", prefix) for path in reported]
    assert (held.split_of("draws"), held.split_of("choices/draws")) == ("test", "valid")
    for name in held.proposals():
        drawn, again = (held.draws_of(name, f"{f}estimates") for f in ("", "choices/"))
        assert set(again) == set(drawn)
        for draw, files in drawn.items():
            moved = [path.replace("/draws/", "/choices/draws/") for path in files]
            assert again[draw] == moved or DRAWS[draw].documents


def test_costs_lie_beside_every_draw_that_is_reduced():
    held = plan("config.yaml")
    drawn = [draws for name in held.proposals() for draws in held.draws_of(name).items()]
    # No estimate is made of simulated documents.
    files = [file for draw, made in drawn for file in made if not DRAWS[draw].documents]
    assert len(held.cost_files()) == len(files)
    assert all(path.startswith("<benchmarks>/costs/draws/") for path in held.cost_files())
    assert not any("/posterior/" in path for path in held.cost_files())


def test_latent_models_are_held_against_one_model_of_each_plain_family():
    """The default run has two LSTMs, and two Transformers of which one has another vocabulary."""
    assert plan("config.yaml").beside("kglm") == ["transformer", "lstm"]
    named = plan("config.yaml", beside=["gru", "kn-5"])
    assert named.beside("rnng") == ["gru", "kn-5"]
    assert named.beside_files()[:2] == [
        "<results>/beside/rnng/gru.parquet",
        "<results>/beside/rnng/kn-5.parquet",
    ]
    assert plan("config.yaml", beside=[]).beside_files() == []
    papers = plan("configs/paper-importance.yaml")
    assert papers.beside("entitynlm") == ["lstm-coreference"]
    assert papers.beside("kglm") == ["lstm-linked", "transformer-linked"]


def test_latents_are_shown_of_the_analytic_proposal_where_there_is_one() -> None:
    held = plan("config.yaml")
    assert held.shown_proposal("kglm") == "kglm-optimal"
    assert held.shown_proposal("rnng") == "rnng-crf"

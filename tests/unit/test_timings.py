"""How long jobs took: fitted to two sizes, read from benchmark files and from a plan.

Needs nothing. Oracle: times that follow from a start and a rate that the test chose.
"""

from __future__ import annotations

import json
import math

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from beyond_perplexity.planning.timings import (
    PLAN_FILE,
    Finished,
    Timing,
    Timings,
    fit_timing,
    kind_of,
    plan_content,
    read_plan,
)
from beyond_perplexity.storage.benchmarks import read_benchmark


def test_two_sizes_tell_the_start_from_the_rate() -> None:
    jobs = [Finished(n, 7 + 0.5 * n, 100 + n, 8 * n) for n in (10, 30, 20)]
    timing = fit_timing(jobs)
    assert (timing.start, timing.seconds) == pytest.approx((7, 0.5))
    assert timing.megabytes == 130
    assert timing.output_bytes == pytest.approx(8)
    assert timing.total(1000) == pytest.approx(507)
    assert not timing.rough


def test_one_size_takes_some_seconds_for_the_start() -> None:
    timing = fit_timing([Finished(10, 25, 0, 0), Finished(10, 25, 0, 0)])
    assert (timing.start, timing.seconds) == (5, 2)
    assert fit_timing([Finished(10, 2, 0, 0)]).total(10) == 2


def test_noise_gives_no_negative_time() -> None:
    """A larger job that was faster, and one that took more than in proportion."""
    for jobs in ([(10, 9.0), (30, 8.0)], [(10, 1.0), (30, 90.0)]):
        timing = fit_timing([Finished(n, s, 0, 0) for n, s in jobs])
        assert timing.start >= 0
        assert timing.total(30) == pytest.approx(jobs[1][1])
        assert timing.seconds > 0
        assert timing.rough == (jobs[1][1] < jobs[0][1])


def test_the_kind_of_a_job_leaves_out_which_part_it_is() -> None:
    held = {"model": "lstm", "decoding": "beam", "shard": "00003"}
    assert kind_of("generate", held) == "generate/lstm/beam"
    assert kind_of("train", {"model": "lstm"}) == "train/lstm"


BROKEN = ["", "x", "[]", "{}", '{"s": null}', '{"s": "a"}', "\n", '{"s": NaN}', '{"s": -1}']


@pytest.mark.parametrize("text", BROKEN)
def test_what_is_no_benchmark_says_nothing(tmp_path, text) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(text)
    assert read_benchmark(path) is None
    assert read_benchmark(tmp_path / "away.jsonl") is None
    assert read_plan(path) == {}


def test_a_plan_with_numbers_that_cannot_be_leaves_them_aside(tmp_path) -> None:
    rows = {"a": Timing(1, 2, 3, 4), "b": Timing(1, math.inf, 3, 4), "c": Timing(-1, 2, 3, 4)}
    (tmp_path / "plan.json").write_text(json.dumps(plan_content(rows, "here")))
    assert read_plan(tmp_path / "plan.json") == {"a": Timing(1, 2, 3, 4)}


def test_the_last_attempt_counts_and_memory_may_be_unknown(tmp_path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"s": 1, "max_rss": 2}\n{"s": 3.5, "max_rss": "NA"}\n')
    assert read_benchmark(path) == (3.5, 0.0)


def test_earlier_shards_come_before_the_plan_and_the_plan_before_the_job_itself(tmp_path) -> None:
    known = Timings({})
    benchmark, output = tmp_path / "b" / "00007.jsonl", tmp_path / "o" / "00007.parquet"
    asked = ("generate/m/d", 40.0, 20.0, str(benchmark), str(output))
    assert known.seconds(*asked) is None
    (tmp_path / "b").mkdir()
    benchmark.write_text('{"s": 9}')
    assert known.seconds(*asked) == 9
    plan = plan_content({"generate/m/d": fit_timing([Finished(10, 25, 0, 0)])}, "here")
    (tmp_path / PLAN_FILE).write_text(json.dumps(plan))
    planned = read_plan(tmp_path / PLAN_FILE)
    assert Timings(planned).seconds(*asked) == 5 + 2 * 40
    (tmp_path / "o").mkdir()
    for shard, rows in ((1, 100), (2, 300)):  # of other sizes: 50 s for 400 rows in all
        (tmp_path / "b" / f"{shard:05d}.jsonl").write_text(f'{{"s": {rows / 8}}}')
        table = pa.table({"x": list(range(rows))})
        pq.write_table(table, tmp_path / "o" / f"{shard:05d}.parquet")
    assert Timings(planned).seconds(*asked) == pytest.approx(20 / 8)
    assert Timings(planned).seconds(*asked[:2], None, *asked[3:]) == 5 + 2 * 40

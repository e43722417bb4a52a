"""`beyond-perplexity provenance`: what footers say, and what is not what was written.

Needs nothing. The oracle is what was done to a tree of three generations: a model's weights, two
shards of it, and what was made of the shards.
"""

from __future__ import annotations

import json
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from hashlib import sha256
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from beyond_perplexity.commands import provenance
from beyond_perplexity.errors import InputError
from beyond_perplexity.schemas.corpora import ALIASES
from beyond_perplexity.storage import outputs, shards
from beyond_perplexity.storage import outputs as manifest
from beyond_perplexity.storage import provenance as lineage
from beyond_perplexity.storage.provenance import content_hash, run_record, value_hash
from beyond_perplexity.storage.verification import list_hashes, verify_tree


def write(path: Path, rows: list[str], seed: int = 1, **options: object) -> None:
    """Write a shard as a job of its own would, which reads the shards of a folder if it is told."""
    lineage.forget_reads()
    source = options.get("source")
    for read in sorted(Path(str(source)).glob("*.parquet")) if source else ():
        list(shards.read_batches(read, ALIASES, ["entity"]))
    weights = path.parents[1] / "model.safetensors"
    checkpoint = weights if weights.exists() else None
    record = run_record("scripts/generate.py", options, seed=seed, checkpoint=checkpoint)
    shards.write_shard(path, ALIASES, {"entity": rows, "alias": rows}, record)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    folder = tmp_path / "results"
    (folder / "m").mkdir(parents=True)
    (folder / "m" / "model.safetensors").write_bytes(b"weights")
    for number, rows in enumerate((["a", "b"], ["c"], ["d"])):
        write(folder / f"m/s/0000{number}.parquet", rows, first=number, count=len(rows))
    write(folder / "merged/all.parquet", ["a", "b", "c", "d"], source=str(folder / "m/s"))
    lineage.forget_reads()
    summary = {"value": 3, "record": run_record("scripts/train.py", {})}
    outputs.write_json(folder / "summary.json", summary)
    words = {"words": ["a"]}
    outputs.write_json(folder / "m/vocabulary.json", words)
    sums = {"weights_sha256": content_hash(folder / "m/model.safetensors")}
    held = {**sums, "vocabulary": {"sha256": value_hash(words)}}
    outputs.write_json(folder / "m/model.json", held)
    (folder / "table.csv").write_text("a\n")
    return folder


def problems(tree: Path) -> dict[str, str]:
    found = verify_tree(tree).mismatches
    return {str(path.relative_to(tree)): what for path, what in reversed(found)}


def edit(path: Path, **columns: list[str]) -> None:
    """Change columns and leave the footer as it is."""
    footer = pq.read_metadata(path).metadata
    pq.write_table(pa.table(columns).replace_schema_metadata(footer), path)


def edit_record(path: Path, **changes: object) -> None:
    table = pq.read_table(path)
    record = {**shards.read_record(path), **changes}
    key = {shards.RECORD_KEY: json.dumps(record).encode()}
    pq.write_table(table.replace_schema_metadata({**table.schema.metadata, **key}), path)


def test_what_was_written_is_verified(tree: Path) -> None:
    found = verify_tree(tree)
    assert not found.mismatches
    assert found.unrecorded == 4  # table.csv and the model's files, which no run has noted
    assert {str(path.relative_to(tree)) for path in found.hashes} == {
        *(f"m/s/0000{number}.parquet" for number in range(3)),
        "merged/all.parquet",
        "summary.json",
    }


def test_a_tree_that_was_moved_is_still_one(tree: Path) -> None:
    moved = tree.with_name("elsewhere")
    shutil.move(tree, moved)
    assert not problems(moved)


def test_equal_data_have_equal_hashes_whenever_they_were_written(tree: Path) -> None:
    path = tree / "m/s/00000.parquet"
    before, content = path.read_bytes(), dict(list_hashes(tree))
    write(path, ["a", "b"], first=0, count=2, start="then")
    assert path.read_bytes() != before
    assert dict(list_hashes(tree)) == content


def test_a_file_cut_short_is_named(tree: Path) -> None:
    path = tree / "m/s/00001.parquet"
    path.write_bytes(path.read_bytes()[:-40])
    (tree / "summary.json").write_bytes(b"{")
    found = problems(tree)
    assert set(found) == {"m/s/00001.parquet", "summary.json"}
    assert all("cut short" in what for what in found.values())


def test_edits_are_named_by_their_column(tree: Path) -> None:
    edit(tree / "m/s/00000.parquet", entity=["a", "x"], alias=["a", "b"])
    edit(tree / "m/s/00001.parquet", entity=["c", "c"], alias=["c", "c"])
    found = problems(tree)
    assert "column 'entity' is not what was written" in found["m/s/00000.parquet"]
    assert "has 2 rows, 1 were written" in found["m/s/00001.parquet"]
    assert set(found) == {"m/s/00000.parquet", "m/s/00001.parquet"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"content_hash": "00"}, "content hash is not that"),
        ({"options": {"first": 9}}, "options are not those of their hash"),
        ({"columns": 3}, "footer was edited"),
        ({"inputs": None}, "footer was edited"),
        ({"seed": 2}, "of another run: seed 2, where other shards of its folder have 1"),
        ({"output": "results/m/s/00007.parquet"}, "was written as results/m/s/00007.parquet"),
    ],
)
def test_an_edited_footer_is_named(tree: Path, changes: dict[str, object], message: str) -> None:
    edit_record(tree / "m/s/00001.parquet", **changes)
    assert message in problems(tree)["m/s/00001.parquet"]


def test_a_shard_of_another_run_is_named_with_what_was_made_of_the_former(tree: Path) -> None:
    write(tree / "m/s/00002.parquet", ["x"], seed=2, first=2, count=1)
    found = problems(tree)
    assert "of another run: seed 2" in found["m/s/00002.parquet"]
    assert "was made of another ../m/s/00002.parquet" in found["merged/all.parquet"]
    assert set(found) == {"m/s/00002.parquet", "merged/all.parquet"}


def test_a_shard_of_other_options_is_named_and_its_own_block_is_not(tree: Path) -> None:
    write(tree / "m/s/00002.parquet", ["d"], first=2, count=1, decoding={"kind": "beam"})
    found = problems(tree)
    assert set(found) == {"m/s/00002.parquet"}
    assert "option decoding" in found["m/s/00002.parquet"]


def test_a_shard_in_the_place_of_another_is_named(tree: Path) -> None:
    shutil.copy(tree / "m/s/00001.parquet", tree / "m/s/00000.parquet")
    assert "was written as" in problems(tree)["m/s/00000.parquet"]


def test_other_weights_than_those_of_the_shards_are_named(tree: Path) -> None:
    (tree / "m/model.safetensors").write_bytes(b"of another training")
    found = problems(tree)
    assert "model.safetensors beside it" in found["m/model.json"]
    shards_of_it = [f"m/s/0000{number}.parquet" for number in range(3)]
    assert all("was made of another" in found[name] for name in shards_of_it)


def test_files_of_others_are_named(tree: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), tree / "foreign.parquet")
    assert "no run record" in problems(tree)["foreign.parquet"]
    (tree / "logs").mkdir()
    shutil.move(tree / "foreign.parquet", tree / "logs/foreign.parquet")
    assert not problems(tree)


@pytest.mark.parametrize("name", ["m/model.json", "m/vocabulary.json", "table.csv", "figure.svg"])
def test_what_has_no_record_is_known_by_the_manifest(
    tree: Path, name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Edited, removed, made again, and forgotten where it is wanted no more."""
    path = tree / name
    monkeypatch.chdir(tree.parent)
    monkeypatch.setenv(manifest.RESULTS, "results")
    content = path.read_text() if path.exists() else "<svg/>"
    outputs.write_text(path, content)
    found = verify_tree(tree)
    assert not found.mismatches
    assert found.hashes[path] == content_hash(path)
    path.write_text(f"{content} ")
    assert "is not what was written" in problems(tree)[name]
    path.unlink()
    assert problems(tree)[name] == "is missing; make it again"
    monkeypatch.setattr(sys, "argv", ["provenance", "--verify", "results"])
    with pytest.raises(InputError, match="files do not match"):
        provenance.main()
    *_, advice = capsys.readouterr().out.splitlines()
    assert advice.startswith("beyond-perplexity run --remake ")
    assert f"results/{name}" in advice.split()
    manifest.forget_files(tree, [f"results/{name}"])
    assert name in problems(tree)
    manifest.forget_files(tree, [])
    assert name not in problems(tree)
    outputs.write_text(path, content)
    assert not problems(tree)


def test_jobs_at_once_note_each_its_own_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And nothing of checkpoints and logs, nor of files elsewhere."""
    monkeypatch.setenv(manifest.RESULTS, str(tmp_path / "results"))
    names = [f"t/{number}.csv" for number in range(40)]
    with ThreadPoolExecutor(8) as pool:
        write = partial(outputs.write_text, text="a\n")
        list(pool.map(write, [tmp_path / "results" / name for name in names]))
    outputs.write_text(tmp_path / "results/checkpoints/m/a", "a")
    outputs.write_text(tmp_path / "elsewhere", "a")
    noted = dict(manifest.read_notes(tmp_path / "results"))
    assert noted == {tmp_path / "results" / name: sha256(b"a\n").hexdigest() for name in names}
    assert set(dict(manifest.read_notes(tmp_path / "results/t"))) == set(noted)


def test_what_a_process_writes_itself_is_no_input(tmp_path: Path) -> None:
    for name in ("between", "last"):
        shards.write_shard(tmp_path / f"{name}.parquet", ALIASES, {"entity": [], "alias": []}, {})
        list(shards.read_batches(tmp_path / f"{name}.parquet", ALIASES, ["entity"]))
    assert shards.read_record(tmp_path / "last.parquet")["inputs"] == {}


def run(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> None:
    monkeypatch.setattr(sys, "argv", ["provenance", *map(str, arguments)])
    provenance.main()


def test_the_command_says_where_a_file_came_from(
    tree: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tree / "m/s/00002.parquet").unlink()
    run(monkeypatch, tree / "merged/all.parquet")
    lines = capsys.readouterr().out.splitlines()
    record = shards.read_record(tree / "merged/all.parquet")
    assert f"  content   {record['content_hash']} (4 rows)" in lines
    assert "  seed      1" in lines
    made = [line for line in lines if line.startswith("  made of")]
    assert [Path(line.split()[2]).name for line in made] == [f"0000{k}.parquet" for k in range(3)]
    assert made[0].endswith("by scripts/generate.py, seed 1")
    assert made[2].endswith("which is gone")
    (weights,) = {line for line in lines if line.startswith("    made of")}
    assert content_hash(tree / "m/model.safetensors")[:16] in weights


def test_the_command_lists_the_hashes_of_a_folder(
    tree: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run(monkeypatch, tree)
    listed = dict(reversed(line.split("  ")) for line in capsys.readouterr().out.splitlines())
    assert listed["m/s/00000.parquet"] == shards.content_of(tree / "m/s/00000.parquet")
    assert len(listed) == 5


def test_the_command_fails_where_something_is_not_what_was_written(
    tree: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run(monkeypatch, "--verify", tree)
    assert "5 files are what was written" in capsys.readouterr().err
    (tree / "summary.json").write_text("{")
    with pytest.raises(InputError, match="1 files do not match"):
        run(monkeypatch, "--verify", tree)
    assert "summary.json': is no JSON" in capsys.readouterr().out


def test_what_has_no_record_is_an_error(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, message in (("table.csv", "no run record"), ("nothing", "no such file")):
        with pytest.raises(InputError, match=message):
            run(monkeypatch, tree / name)
    with pytest.raises(InputError, match="is no folder"):
        run(monkeypatch, "--verify", tree / "table.csv")
    with pytest.raises(InputError, match="no run record"):
        run(monkeypatch, tree / "m/vocabulary.json")

"""In words: where a file of the results came from, by the run records alone."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from beyond_perplexity.errors import InputError
from beyond_perplexity.storage.inputs import JSONTextError, parse_json
from beyond_perplexity.storage.outputs import SKIPPED, read_notes
from beyond_perplexity.storage.provenance import ContentHash, content_hash, table_hash, value_hash
from beyond_perplexity.storage.shards import content_of, read_record

# Beside the weights of a model; its record is that of the training.
TRAINING_CURVE, WEIGHTS_SUFFIX = "training.parquet", ".safetensors"
SHOWN = 3  # inputs of one folder


def find_record(path: Path) -> dict[str, Any] | None:
    """Return the run record of a file, or of the training that it is of; None where it has none."""
    if not path.is_file():
        raise InputError(f"{path}: no such file")
    if path.suffix == ".parquet":
        return read_record(path)
    if path.suffix == ".json":
        try:
            value = parse_json(path.read_bytes())
        except JSONTextError:
            raise InputError(f"{path}: is no JSON; it was cut short or edited") from None
        if isinstance(value, dict) and isinstance(value.get("record"), dict):
            return dict(value["record"])
    beside = path.with_name(TRAINING_CURVE)
    if path.suffix in (".json", WEIGHTS_SUFFIX) and beside.is_file():
        return {**read_record(beside), "content_hash": content_hash(path), "rows": None}
    return None


# ---- where a file came from ----


def describe_origin(path: Path) -> str:
    """Say where a file came from, with everything that it is made of."""
    record = find_record(path)
    if record is None:
        detail = "and models. Tables and figures are made of these: results/logs says of which"
        raise InputError(f"{path}: has no run record; Parquet and JSON results have one, {detail}")
    return "\n".join([*_lines(path, record), *_ancestors(path, record, "  ", {path.resolve()})])


_LINES = {
    "written": "as {output}",
    "by": "{script}, code {code_fingerprint}",
    "version": "{package_version}, commit {git_commit}",
    "seed": "{seed}",
    "options": "{options} (hash {config_hash:.16})",
    "machine": "{host}, {device}",
    "GPU": "{gpus}",
    "time": "{start} to {end}",
}


def _lines(path: Path, record: Mapping[str, Any]) -> Iterator[str]:
    shown = defaultdict(lambda: "null", {key: _shown(value) for key, value in record.items()})
    rows = f" ({record['rows']:,} rows)" if isinstance(record.get("rows"), int) else ""
    yield _shown(str(path))
    yield f"  content   {shown['content_hash']}{rows}"
    for title, form in _LINES.items():
        if title != "GPU" or record.get("gpus"):
            yield f"  {title:<10}{form.format_map(shown)}"


def _ancestors(
    path: Path, record: Mapping[str, Any], indent: str, seen: set[Path]
) -> Iterator[str]:
    """Say what a file was made of, and what that was made of; each file once."""
    inputs = record.get("inputs")
    by_folder: dict[str, list[str]] = defaultdict(list)
    for name in inputs if isinstance(inputs, dict) else ():
        by_folder[str(Path(name).parent)].append(name)
    for folder, names in by_folder.items():
        for name in names[:SHOWN]:
            yield from _ancestor(path.parent / name, record["inputs"][name], indent, seen)
        if len(names) > SHOWN:
            yield f"{indent}and {len(names) - SHOWN:,} more of {_shown(folder)}"


def _ancestor(path: Path, written: str | None, indent: str, seen: set[Path]) -> Iterator[str]:
    place = path.resolve()
    try:
        record = find_record(path) or {}
    except InputError:
        record = {}
    if not path.exists():
        state = "which is gone"
    elif written is None:
        state = "of another program"
    elif record.get("content_hash") != written:
        state = "which has changed since"
    else:
        state = f"by {_shown(record.get('script'))}, seed {_shown(record.get('seed'))}"
    shown = _shown(str(path.parent.resolve() / path.name))
    yield f"{indent}made of   {shown} {_shown(written)[:16]}, {state}"
    if place not in seen:
        seen.add(place)
        yield from _ancestors(path, record, f"{indent}  ", seen)


def _shown(value: object) -> str:
    """Return text as it stands, without control characters, and anything else as JSON."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=True)[1:-1]
    return json.dumps(value, sort_keys=True)


# ---- whether files are what was written ----

# What the shards of one folder share, and how it is called.
_SHARED = {
    "script": "script",
    "seed": "seed",
    "code_fingerprint": "code",
    "checkpoint_hash": "weights of the model",
}
# Options in which the shards of one folder differ, being parts of one whole.
_OF_A_SHARD = {"first", "count", "instances", "samples", "units", "draws", "output", "costs"}
_REMAKE = "make it again"
_DAMAGED = f"its footer was edited: what a run record says is missing; {_REMAKE}"


class Mismatch(NamedTuple):
    """A file that is not what it should be."""

    path: Path  # the file
    what: str  # what is wrong, and what to do


class Verified(NamedTuple):
    """What a verification has seen."""

    # The hash of the content of every file that is what its record, or else the manifest, says
    hashes: dict[Path, str]
    mismatches: list[Mismatch]
    unrecorded: int  # files that neither a run record nor the manifest speaks of


def verify_tree(tree: Path) -> Verified:
    """Recompute the hashes of all files of a results tree or folder: which are missing, cut short,
    edited, replaced, or of another run than those beside them or made of them."""
    if not tree.is_dir():
        raise InputError(f"{tree}: is no folder; give that of the results")
    _content.cache_clear()
    files, noted = _files(tree), dict(read_notes(tree))
    records: dict[Path, dict[str, Any]] = {}
    hashes: dict[Path, str] = {}
    found: list[Mismatch] = []
    for path in filter(_may_have_record, files):
        try:
            record, problems = _verify_file(path, tree)
        except (KeyError, TypeError, AttributeError, ValueError):  # keys of other kinds
            record, problems = {}, [_DAMAGED]
        found += [Mismatch(path, problem) for problem in problems]
        if record and not problems:
            records[path], hashes[path] = record, record["content_hash"]
    wrong = {mismatch.path for mismatch in found}
    for path in (path for path in files if path not in wrong | records.keys() and path in noted):
        if content_hash(path) == noted[path]:
            hashes[path] = noted[path]
        else:
            found.append(Mismatch(path, f"is not what was written; {_REMAKE}"))
    found += [Mismatch(p, f"is missing; {_REMAKE}") for p in noted if not p.exists()]
    spoken_of = wrong | records.keys() | noted.keys()
    found += _of_other_runs(records)
    return Verified(hashes, found, sum(path not in spoken_of for path in files))


def list_hashes(tree: Path) -> Iterator[tuple[Path, str]]:
    """Name the content hash of every file below a folder, as the records have it."""
    for path in filter(_may_have_record, _files(tree)):
        try:
            content = (find_record(path) or {}).get("content_hash")
        except InputError:  # `verify_tree` says what is wrong with it
            continue
        if content:
            yield path.relative_to(tree), content


def _files(tree: Path) -> list[Path]:
    return [
        path
        for path in sorted(tree.rglob("*"))
        if path.is_file()
        and path.relative_to(tree).parts[0] not in SKIPPED
        and not any(".partial" in part for part in path.parts[-2:])
    ]


def _may_have_record(path: Path) -> bool:
    return path.suffix in (".parquet", ".json")


def _verify_file(path: Path, tree: Path) -> tuple[dict[str, Any], list[str]]:
    """Return the record of a file, empty where there is none, and what is wrong with the file."""
    if path.suffix == ".json":
        return _verify_json(path, tree)
    try:
        record: dict[str, Any] = read_record(path)
    except InputError as error:
        problem = str(error).removeprefix(f"{path}: ")
        return {}, [f"{problem}: it was cut short or is of somebody else; {_REMAKE}"]
    try:
        problems = list(_compare_rows(path, record))
    except (pa.ArrowException, OSError) as error:
        problems = [f"its rows cannot be read ({error}): it was cut short or edited; {_REMAKE}"]
    return record, [*problems, *_compare_record(path, tree, record)]


def _compare_rows(path: Path, record: Mapping[str, Any]) -> Iterator[str]:
    with pq.ParquetFile(path) as file:
        content = ContentHash(file.schema_arrow)
        for batch in file.iter_batches(batch_size=8_192):
            content.add(batch)
    written: dict[str, str] = record["columns"]
    if content.rows != record["rows"]:
        yield f"has {content.rows:,} rows, {record['rows']:,} were written; {_REMAKE}"
        return
    held = content.columns()
    for name in dict.fromkeys([*written, *held]):
        if held.get(name) != written.get(name):
            yield f"column '{name}' is not what was written: it was edited; {_REMAKE}"
    if table_hash(record["rows"], written) != record["content_hash"]:
        yield f"its footer was edited: the content hash is not that of its columns; {_REMAKE}"


def _verify_json(path: Path, tree: Path) -> tuple[dict[str, Any], list[str]]:
    try:
        value = parse_json(path.read_bytes())
    except (JSONTextError, OSError):
        return {}, [f"is no JSON: it was cut short or edited; {_REMAKE}"]
    if not isinstance(value, dict):
        return {}, []
    problems = list(_compare_model(path.parent, value)) if path.name == "model.json" else []
    record = value.get("record")
    if not isinstance(record, dict) or "content_hash" not in record:
        return {}, problems
    content = value_hash({key: held for key, held in value.items() if key != "record"})
    if content != record["content_hash"]:
        problems.append(f"is not what was written: it was edited; {_REMAKE}")
    return record, [*problems, *_compare_record(path, tree, record)]


def _compare_record(path: Path, tree: Path, record: Mapping[str, Any]) -> Iterator[str]:
    """Compare what a footer says of options, place and inputs with what there is."""
    options = record["options"]
    if options is not None and value_hash(options) != record["config_hash"]:
        yield f"its footer was edited: the options are not those of their hash; {_REMAKE}"
    output, place = Path(record["output"]), path.relative_to(tree)
    shorter = min(len(output.parts), len(place.parts))
    if output.parts[-shorter:] != place.parts[-shorter:]:
        yield f"was written as {output}, another file; {_REMAKE}"
    for name, written, found in changed_inputs(path, record):
        contents = f"its content was {written[:16]}…, now it is {found[:16]}…"
        yield f"was made of another {name}: {contents}; {_REMAKE}"


def changed_inputs(path: Path, record: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Name the inputs of a file that are others now, with their content hashes then and now."""
    for name, written in record["inputs"].items():
        found = _content(path.parent / name) if written else None
        if found and found != written:
            yield name, written, found


@cache
def _content(path: Path) -> str | None:
    """Return the content hash of an input as it is now; None where it is gone or has none."""
    if not path.is_file():
        return None
    try:
        return content_hash(path) if path.suffix == WEIGHTS_SUFFIX else content_of(path)
    except InputError:
        return None


def _compare_model(folder: Path, description: Mapping[str, Any]) -> Iterator[str]:
    """Compare the weights and the vocabulary of a model with what its description says."""
    if _content(folder / f"model{WEIGHTS_SUFFIX}") != description.get("weights_sha256"):
        yield "model.safetensors beside it is not what was trained; make them again"
    try:
        held = value_hash(parse_json((folder / "vocabulary.json").read_bytes()))
    except (JSONTextError, OSError):
        held = None
    if held != description.get("vocabulary", {}).get("sha256"):
        yield "vocabulary.json beside it is not that of the training; make them again"


def _of_other_runs(records: Mapping[Path, Mapping[str, Any]]) -> Iterator[Mismatch]:
    """Name the shards that share less with those beside them than most of these do."""
    folders: dict[Path, dict[Path, dict[str, str]]] = defaultdict(dict)
    for path, record in records.items():
        if re.fullmatch(r"[0-9]+", path.stem):
            held = {title: record.get(name) for name, title in _SHARED.items()}
            options = (record["options"] or {}).items()
            held |= {f"option {name}": value for name, value in options if name not in _OF_A_SHARD}
            texts = {title: json.dumps(value, sort_keys=True) for title, value in held.items()}
            folders[path.parent][path] = texts
    for shards in folders.values():
        for title in {title: None for texts in shards.values() for title in texts}:
            values = {path: texts.get(title, "null") for path, texts in shards.items()}
            # What names files each shard has of its own.
            values = {path: "" if ".parquet" in text else text for path, text in values.items()}
            usual = Counter(values.values()).most_common(1)[0][0]
            for path in (path for path, value in values.items() if value != usual):
                own = f"{title} {values[path]}, where other shards of its folder have {usual}"
                yield Mismatch(path, f"is of another run: {own}; {_REMAKE}")

"""Whether the files of a results tree are those that their run records speak of."""

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
from beyond_perplexity.storage.contents import ContentHash, table_hash
from beyond_perplexity.storage.json_text import JSONTextError, parse_json
from beyond_perplexity.storage.manifest import SKIPPED, read_notes
from beyond_perplexity.storage.origins import origin_hash
from beyond_perplexity.storage.provenance import content_hash, value_hash
from beyond_perplexity.storage.shards import content_of, read_record

WEIGHTS_SUFFIX = ".safetensors"
# What the shards of one folder share, and how it is called.
_SHARED = {
    "script": "script",
    "seed": "seed",
    "code_fingerprint": "code",
    "checkpoint_hash": "weights of the model",
}
# Options in which the shards of one folder differ, being parts of one whole.
_OF_A_SHARD = {"first", "count", "instances", "samples", "units", "draws", "output", "costs"}


class Mismatch(NamedTuple):
    """A file that is not what it should be.

    Attributes
    ----------
    path : pathlib.Path
        The file.
    what : str
        What is wrong, and what to do.
    """

    path: Path
    what: str


class Verified(NamedTuple):
    """What a verification has seen.

    Attributes
    ----------
    hashes : dict of pathlib.Path to str
        The hash of the content of every file that is what its record, or else the manifest, says.
    mismatches : list of Mismatch
    unrecorded : int
        Files that neither a run record nor the manifest speaks of.
    """

    hashes: dict[Path, str]
    mismatches: list[Mismatch]
    unrecorded: int


def verify_tree(tree: Path) -> Verified:
    """Recompute the hashes of all files of a results tree.

    Found are files that are missing, were cut short, edited, put in the place of another, or are of
    another run than those beside them or than those that were made of them.

    Parameters
    ----------
    tree : pathlib.Path
        A folder of results, or any folder below it.

    Raises
    ------
    InputError
        When it is no folder.
    """
    if not tree.is_dir():
        raise InputError(f"{tree}: is no folder; give that of the results")
    _content.cache_clear()
    files = _files(tree)
    records: dict[Path, dict[str, Any]] = {}
    noted = dict(read_notes(tree))
    found = Verified({}, [], 0)
    for path in filter(_has_record, files):
        try:
            record, problems = _verify_file(path, tree)
        except (KeyError, TypeError, AttributeError, ValueError):  # keys of other kinds
            record, problems = {}, [_DAMAGED]
        found.mismatches.extend(Mismatch(path, problem) for problem in problems)
        if record and _DAMAGED not in problems:
            records[path] = record
            if not problems:
                found.hashes[path] = record["content_hash"]
    wrong = {mismatch.path for mismatch in found.mismatches}
    for path in (path for path in files if path not in wrong | records.keys() and path in noted):
        if content_hash(path) == noted[path]:
            found.hashes[path] = noted[path]
        else:
            found.mismatches.append(Mismatch(path, f"is not what was written; {_REMAKE}"))
    gone = [path for path in noted if not path.exists()]
    found.mismatches.extend(Mismatch(path, f"is missing; {_REMAKE}") for path in gone)
    found.mismatches.extend(_of_other_runs(records))
    spoken_of = wrong | records.keys() | noted.keys()
    return found._replace(unrecorded=sum(1 for path in files if path not in spoken_of))


def list_hashes(tree: Path) -> Iterator[tuple[Path, str]]:
    """Name the content hash of every file below a folder, as the records have it.

    Yields
    ------
    path : pathlib.Path
        Of the file, from the folder on.
    content : str
        64 hexadecimal digits; files without a hash are left out.
    """
    for path in filter(_has_record, _files(tree)):
        try:
            content = origin_hash(path)
        except InputError:  # `verify_tree` says what is wrong with it
            continue
        if content:
            yield path.relative_to(tree), content


def _files(tree: Path) -> list[Path]:
    return [path for path in sorted(tree.rglob("*")) if _is_result(path, tree)]


def _is_result(path: Path, tree: Path) -> bool:
    parts = path.relative_to(tree).parts
    return path.is_file() and parts[0] not in SKIPPED and ".partial" not in path.name


def _has_record(path: Path) -> bool:
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
    if "content_hash" not in record:
        return {}, [f"has no content hash: an earlier version wrote it; {_REMAKE}"]
    try:
        problems = list(_compare_rows(path, record))
    except (pa.ArrowException, OSError) as error:
        problems = [f"its rows cannot be read ({error}): it was cut short or edited; {_REMAKE}"]
    return record, [*problems, *_compare_record(path, tree, record)]


_REMAKE = "make it again"
_DAMAGED = f"its footer was edited: what a run record says is missing; {_REMAKE}"


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


def _compare_record(path: Path, tree: Path, record: Mapping[str, Any]) -> Iterator[str]:
    """Compare what a footer says of options, place and inputs with what there is."""
    kinds = {"output": str, "inputs": dict, "options": dict | None, "content_hash": str}
    if not all(isinstance(record.get(name), kind) for name, kind in kinds.items()):
        yield _DAMAGED
        return
    options = record.get("options")
    if options is not None and value_hash(options) != record.get("config_hash"):
        yield f"its footer was edited: the options are not those of their hash; {_REMAKE}"
    output, place = Path(record["output"]), path.relative_to(tree)
    shorter = min(len(output.parts), len(place.parts))
    if output.parts[-shorter:] != place.parts[-shorter:]:
        yield f"was written as {output}, another file; {_REMAKE}"
    for name, written, found in changed_inputs(path, record):
        yield (
            f"was made of another {name}: its content was {written[:16]}…, now it is "
            f"{found[:16]}…; {_REMAKE}"
        )


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
    if path.suffix == WEIGHTS_SUFFIX:
        return content_hash(path)
    try:
        return content_of(path)
    except InputError:
        return None


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


def _compare_model(folder: Path, description: Mapping[str, Any]) -> Iterator[str]:
    """Compare the weights and the vocabulary of a model with what its description says."""
    weights, words = folder / f"model{WEIGHTS_SUFFIX}", folder / "vocabulary.json"
    if _content(weights) != description.get("weights_sha256"):
        yield "model.safetensors beside it is not what was trained; make them again"
    try:
        held = value_hash(parse_json(words.read_bytes()))
    except (JSONTextError, OSError):
        held = None
    if held != description.get("vocabulary", {}).get("sha256"):
        yield "vocabulary.json beside it is not that of the training; make them again"


def _of_other_runs(records: Mapping[Path, Mapping[str, Any]]) -> Iterator[Mismatch]:
    """Name the shards that share less with those beside them than most of these do."""
    folders: dict[Path, dict[Path, Mapping[str, Any]]] = defaultdict(dict)
    for path, record in records.items():
        if re.fullmatch(r"[0-9]+", path.stem):
            folders[path.parent][path] = record
    for shards in folders.values():
        for name, title in _SHARED.items():
            yield from _odd_ones({p: json.dumps(r.get(name)) for p, r in shards.items()}, title)
        for name in {key for record in shards.values() for key in record.get("options") or {}}:
            if name not in _OF_A_SHARD:
                values = {p: _option(r, name) for p, r in shards.items()}
                yield from _odd_ones(values, f"option {name}")


def _option(record: Mapping[str, Any], name: str) -> str:
    """Return an option as JSON; nothing for what names files, which each shard has of its own."""
    text = json.dumps((record.get("options") or {}).get(name), sort_keys=True)
    return "" if ".parquet" in text else text


def _odd_ones(values: Mapping[Path, str], title: str) -> Iterator[Mismatch]:
    (usual, _), *others = Counter(values.values()).most_common()
    if others:
        for path, value in values.items():
            if value != usual:
                yield Mismatch(
                    path,
                    f"is of another run: {title} {value}, where other shards of its folder have "
                    f"{usual}; {_REMAKE}",
                )

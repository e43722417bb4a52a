"""In words: where a file of the results came from, by the run records alone."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from beyond_perplexity.errors import InputError
from beyond_perplexity.storage.json_text import JSONTextError, parse_json
from beyond_perplexity.storage.provenance import content_hash
from beyond_perplexity.storage.shards import read_record

TRAINING_CURVE = (
    "training.parquet"  # beside the weights of a model; its record is that of the training
)
SHOWN = 3  # inputs of one folder


def describe_origin(path: Path) -> str:
    """Say where a file came from, with everything that it is made of.

    Parameters
    ----------
    path : pathlib.Path
        A Parquet file or a JSON file with a run record, or a file of a model's folder.

    Returns
    -------
    str
        Lines of text; text of others is escaped as in JSON.

    Raises
    ------
    InputError
        When the file is missing or has no run record.
    """
    record = find_record(path)
    if record is None:
        raise InputError(
            f"{path}: has no run record; Parquet and JSON results have one, and models. Tables and "
            "figures are made of these: results/logs says of which"
        )
    return "\n".join([*_lines(path, record), *_ancestors(path, record, "  ", {path.resolve()})])


def origin_hash(path: Path) -> str | None:
    """Return the content hash that the record of a file names; None where it names none."""
    record = find_record(path)
    return None if record is None else record.get("content_hash")


def find_record(path: Path) -> dict[str, Any] | None:
    """Return the run record of a file, or of the training that it is of; None where there is none.

    Raises
    ------
    InputError
        When the file is missing or cannot be read.
    """
    if not path.is_file():
        raise InputError(f"{path}: no such file")
    if path.suffix == ".parquet":
        return read_record(path)
    value: Any = None
    if path.suffix == ".json":
        try:
            value = parse_json(path.read_bytes())
        except JSONTextError:
            raise InputError(f"{path}: is no JSON; it was cut short or edited") from None
    if isinstance(value, dict) and isinstance(value.get("record"), dict):
        held: dict[str, Any] = value["record"]
        return held
    beside = path.with_name(TRAINING_CURVE)
    if path.suffix in (".json", ".safetensors") and beside.is_file():
        own = {"content_hash": content_hash(path), "rows": None}
        return {**read_record(beside), **own}
    return None


def _lines(path: Path, record: Mapping[str, Any]) -> Iterator[str]:
    def text(key: str) -> str:
        return _shown(record.get(key))

    yield _shown(str(path))
    yield f"  content   {text('content_hash')}" + (
        f" ({record['rows']:,} rows)" if isinstance(record.get("rows"), int) else ""
    )
    yield f"  written   as {text('output')}"
    yield f"  by        {text('script')}, code {text('code_fingerprint')}"
    yield f"  version   {text('package_version')}, commit {text('git_commit')}"
    yield f"  seed      {text('seed')}"
    yield f"  options   {text('options')} (hash {text('config_hash')[:16]})"
    yield f"  machine   {text('host')}, {text('device')}"
    if record.get("gpus"):
        yield f"  GPU       {text('gpus')}"
    yield f"  time      {text('start')} to {text('end')}"


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
    now = record.get("content_hash")
    if not path.exists():
        state = ", which is gone"
    elif written is None:
        state = ", of another program"
    elif now != written:
        state = ", which has changed since"
    else:
        state = f", by {_shown(record.get('script'))}, seed {_shown(record.get('seed'))}"
    shown = _shown(str(path.parent.resolve() / path.name))
    yield f"{indent}made of   {shown} {_shown(written)[:16]}{state}"
    if place not in seen:
        seen.add(place)
        yield from _ancestors(path, record, f"{indent}  ", seen)


def _shown(value: object) -> str:
    """Return text as it stands, without control characters, and anything else as JSON."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=True)[1:-1]
    return json.dumps(value, sort_keys=True)

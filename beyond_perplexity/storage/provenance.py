"""What a result is made of: the files that were read, what ran where, the hash of the rows."""

from __future__ import annotations

import hashlib
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beyond_perplexity import __version__
from beyond_perplexity.errors import InputError
from beyond_perplexity.storage.fingerprint import PACKAGE, ROOT, fingerprint

# ---- the hash of what a table holds ----

# When and where a table was written is in the footer of its file, so that equal tables are files of
# other bytes. This hash is of names, types and values alone.

# Columns that a repetition of the same work fills with other values.
MEASURED = ("seconds",)
_DIGITS = 16


class ContentHash:
    """The hash of a table that comes in parts, which leave no trace.

    Validity, lengths and values of each column, in the order of the rows, are a stream each. All
    NaN count as one value; a negative zero is another than zero. Columns are numbers, flags, texts
    and lists of these.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._streams: dict[str, dict[str, hashlib._Hash]] = {name: {} for name in schema.names}
        self.rows = 0
        self.add(schema.empty_table())  # so that a column has the same streams without any row

    def add(self, table: pa.Table | pa.RecordBatch) -> None:
        """Add the next rows."""
        self.rows += table.num_rows
        for name, streams in self._streams.items():
            column = table.column(name)
            chunks = column.iterchunks() if isinstance(column, pa.ChunkedArray) else [column]
            for chunk in chunks:
                _feed(streams, "", chunk)

    def columns(self) -> dict[str, str]:
        """Return the hash of each column, 16 hexadecimal digits (of a SHA-256)."""
        kinds = {field.name: _kind(field.type) for field in self._schema}
        return {
            name: _digest([kinds[name], {at: s.hexdigest() for at, s in streams.items()}])[:_DIGITS]
            for name, streams in self._streams.items()
        }

    def table(self) -> str:
        """Return the hash of the whole: 64 hexadecimal digits; without the columns `MEASURED`."""
        return table_hash(self.rows, self.columns())


def table_hash(rows: int, columns: Mapping[str, str]) -> str:
    """Return the hash of a table from the hashes of its columns, less those of `MEASURED`."""
    kept = {name: value for name, value in columns.items() if name not in MEASURED}
    return _digest([rows, kept])


def _kind(kind: pa.DataType) -> str:
    """Name a type; Parquet gives the items of lists a name of its own, which does not count."""
    return f"list of {_kind(kind.value_type)}" if pa.types.is_list(kind) else str(kind)


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _feed(streams: dict[str, hashlib._Hash], place: str, array: pa.Array) -> None:
    """Add the values of an array to the streams of a place of the column's type."""

    def add(name: str, content: bytes | memoryview) -> None:
        streams.setdefault(f"{place}/{name}", hashlib.sha256()).update(content)

    kind = array.type
    add("valid", _bytes(array.is_valid().cast(pa.uint8())))
    if pa.types.is_list(kind):
        add("lengths", _bytes(pc.list_value_length(array).cast(pa.int64()).fill_null(0)))
        _feed(streams, f"{place}/item", array.flatten())
    elif pa.types.is_string(kind):
        whole = array.cast(pa.large_string()).fill_null("")
        add("lengths", _bytes(pc.binary_length(whole)))
        _, ends, data = whole.buffers()
        offsets = np.frombuffer(ends, np.int64)[whole.offset : whole.offset + len(whole) + 1]
        if data is not None and len(whole):
            add("values", memoryview(data)[offsets[0] : offsets[-1]])
    elif pa.types.is_boolean(kind):
        add("values", _bytes(array.cast(pa.uint8()).fill_null(0)))
    elif pa.types.is_integer(kind) or pa.types.is_floating(kind):
        add("values", _bytes(array.fill_null(0)))
    else:
        raise TypeError(f"no content hash for columns of type {kind}")


def _bytes(array: pa.Array) -> bytes:
    values = array.to_numpy(zero_copy_only=False)
    if values.dtype.kind == "f":
        values = np.where(np.isnan(values), values.dtype.type(np.nan), values)
    little: bytes = values.astype(values.dtype.newbyteorder("<"), copy=False).tobytes()
    return little


# ---- what was read ----

_reads: dict[str, str | None] = {}
_writes: set[str] = set()


def note_read(path: str | os.PathLike[str], content: str | None) -> None:
    """Remember that a file was read."""
    _reads.setdefault(os.fspath(path), content)


def inputs_of(output: str | os.PathLike[str]) -> dict[str, str | None]:
    """Return the hashes of what was read so far but not written here, by paths as seen from the
    output's folder: files that move together keep finding each other."""
    folder = os.path.dirname(os.path.abspath(output))
    _writes.add(os.path.abspath(output))
    paths = [path for path in sorted(_reads) if os.path.abspath(path) not in _writes]
    return {os.path.relpath(path, folder): _reads[path] for path in paths}


def forget_reads() -> None:
    """Forget what was read and written, where one process does the work of several."""
    _reads.clear()
    _writes.clear()


# ---- what was used of a GPU ----

SECONDS_BETWEEN_SAMPLES = 15.0
_FIRST_SAMPLE = 1.0  # seconds after the beginning, so that a short job has one


class GpuWatch:
    """Ask the driver now and then how busy a GPU is, beside the work."""

    def __init__(self, device: str) -> None:
        self._torch: Any = sys.modules["torch"]
        self._device = self._torch.device(device)
        properties = self._torch.cuda.get_device_properties(self._device)
        self._name, self._id = properties.name, f"GPU-{properties.uuid}"
        self._samples: list[float] = []
        self._ended = threading.Event()
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        pause = _FIRST_SAMPLE
        while not self._ended.wait(pause):
            busy = busy_percent(self._id)
            if busy is None:  # there is no nvidia-smi, or it does not know, as of a part of a GPU
                return
            self._samples.append(busy)
            pause = SECONDS_BETWEEN_SAMPLES

    def used(self) -> dict[str, object]:
        """Return ``name``, ``memory_mb``, the most that torch held (10⁶ bytes), and
        ``busy_percent``, the mean of so many ``samples``, null where nobody says so."""
        samples = list(self._samples)
        held = self._torch.cuda.max_memory_reserved(self._device)
        busy = round(sum(samples) / len(samples), 1) if samples else None
        used = {"name": self._name, "memory_mb": round(held / 1e6)}
        return {**used, "busy_percent": busy, "samples": len(samples)}


def busy_percent(identity: str) -> float | None:
    """Ask nvidia-smi how busy a GPU is, in percent; None where it cannot say."""
    command = ["nvidia-smi", f"--id={identity}", "--query-gpu=utilization.gpu"]
    command.append("--format=csv,noheader,nounits")
    try:
        how: dict[str, Any] = {"timeout": 60, "stdin": subprocess.DEVNULL, "capture_output": True}
        done = subprocess.run(command, text=True, check=True, **how)
        return float(done.stdout)
    except (OSError, ValueError, subprocess.SubprocessError):
        return None


_watches: dict[str, GpuWatch] = {}


def watch_gpu(device: str) -> None:
    """Begin to watch the GPU that a step runs on, if it is one and torch can use it."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return
    if device.startswith("cuda") or (device == "auto" and torch.cuda.is_initialized()):
        name = device if device.startswith("cuda") else "cuda"
        if name not in _watches:
            _watches[name] = GpuWatch(name)


# ---- the run record ----

LONGEST_OPTIONS = 100_000  # characters of JSON; of longer options the record has the hash alone


@cache
def git_commit() -> str | None:
    """Return the commit of the checkout, ``+dirty`` when it differs, None without git or of an
    installed package: the folders around it may be another project's."""
    if PACKAGE.parent != ROOT:
        return None
    try:
        command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty=+dirty", "--abbrev=40"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def content_hash(path: str | Path) -> str:
    """Return the SHA-256 of a file's bytes, 64 hexadecimal digits."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_sha256(path: str | Path, expected: str, name: str | None = None) -> None:
    """Check the content of a file."""
    found = content_hash(path)
    if found != expected.strip().lower():
        with open(path, "rb") as file:
            beginning = file.read(40)
        raise InputError(
            f"{name or path}: SHA-256 is {found}, expected {expected}; the file begins with "
            f"{beginning!r}. Check the URL, or correct sha256 if the file is the right one"
        )


def value_hash(value: object) -> str:
    """Return the SHA-256 of a JSON-serializable value, independent of the order of its keys."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def hash_bytes(content: bytes) -> int:
    """Hash bytes to a signed 64-bit integer (BLAKE2b), the same on every machine."""
    digest = hashlib.blake2b(content, digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


def group_key(group: str | None, document: int) -> int:
    """Hash the name of a document's group; one of no group is a group of its own."""
    own = f"\x1f{document}"  # no title
    return hash_bytes((own if group is None else group).encode())


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def run_record(
    script: str,
    options: dict[str, object],
    *,
    seed: int | None = None,
    device: str = "cpu",
    checkpoint: str | Path | None = None,
) -> dict[str, object]:
    """Start the JSON run record of a script: the hash of all options that determine the result,
    themselves up to `LONGEST_OPTIONS`, the seed, the checkpoint's SHA-256."""
    checkpoint_hash = content_hash(checkpoint) if checkpoint else None
    if checkpoint:
        note_read(checkpoint, checkpoint_hash)
    watch_gpu(device)
    short = len(json.dumps(options)) <= LONGEST_OPTIONS
    # The command line, where the process runs the script or the command of this name.
    command = f"beyond-perplexity {Path(script).stem.replace('_', '-')}"
    runs = sys.argv[0] == command or Path(sys.argv[0]).parts[-2:] == Path(script).parts
    given = sys.argv[1:] if runs and sum(map(len, sys.argv)) <= LONGEST_OPTIONS else None
    asked = {"script": script, "options": dict(options) if short else None, "arguments": given}
    made_by = {"package_version": __version__, "git_commit": git_commit()}
    made_by |= {"code_fingerprint": fingerprint(script), "config_hash": value_hash(options)}
    where = {"host": socket.gethostname(), "device": device, "start": _now()}
    return {**asked, **made_by, "checkpoint_hash": checkpoint_hash, "seed": seed, **where}


def finished(record: dict[str, object]) -> dict[str, object]:
    """Return the run record with its end, and with what was used of GPUs (``gpus``) if any was."""
    gpus = [watch.used() for watch in _watches.values()]
    return {**record, "end": _now(), **({"gpus": gpus} if gpus else {})}


def sealed(
    record: dict[str, object], output: str | Path, content: dict[str, object]
) -> dict[str, object]:
    """Return the run record as it goes into an output, with its end, the file's name and inputs."""
    named = {"output": str(output), "inputs": inputs_of(output), **content}
    return {**finished(record), **named}

"""One line that says how a result was made, such as ``bpb|text:cleaned|eos:yes|…|v0.1.0``.

It has every choice of an evaluation that changes numbers, and nothing that the model itself is: two
results of one signature are comparable. `docs/which-number.md` explains each part.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from beyond_perplexity import __version__
from beyond_perplexity.errors import InputError
from beyond_perplexity.options import Rows
from beyond_perplexity.storage.shards import RECORD_KEY, parse_record

# Kind of a result -> its parts, in their order; one that does not apply is left out.
PARTS: Rows[str] = {
    "bpb": "text eos bos first before spelling special unk context stride dtype flips infinite",
    "tendencies": "text vocabulary tokens stopwords symbols groups permutations bootstrap "
    "confidence zipf baseline holm embedding judge",
    "estimate": "t-definition method aggregation temperature n-samples beam-size two-sided subsets "
    "bootstrap confidence",
    "contrast": "text eos before units distortion substitutes levels draws base flips",
}
_BREAKS = re.compile(r"[|\s]+")
# What a part means that a signature leaves out, and others of its kind have.
_UNSAID = {"first": "yes", "eos": "yes"}


def _value(held: object) -> str:
    if isinstance(held, bool | None):
        return "none" if held is None else ("no", "yes")[held]
    if isinstance(held, list | tuple):
        return "+".join(map(_value, held)) or "none"
    return f"{held:g}" if isinstance(held, float) else _BREAKS.sub("-", str(held)) or "none"


def sign(kind: str, **parts: object) -> str:
    """Build the signature of a result of a kind; in keywords hyphens are underscores."""
    given = {name.replace("_", "-"): _value(held) for name, held in parts.items()}
    assert given.keys() <= set(PARTS[kind].split()), given.keys()
    said = [f"{name}:{given[name]}" for name in PARTS[kind].split() if name in given]
    return "|".join([kind, *said, f"v{__version__}"])


def parts_of(signature: str) -> dict[str, str]:
    """Parse a signature: its parts, with ``kind``; the version is no part."""
    kind, *held = signature.split("|")
    pairs = (part.partition(":") for part in held if ":" in part)
    return {"kind": kind, **{name: value for name, _, value in pairs}}


def changed(signature: str, **parts: object) -> str:
    """Build a signature with the parts of another, but for those that are given."""
    held: dict[str, Any] = parts_of(signature) | parts
    return sign(**held)


def signature_in(path: object, held: Mapping[bytes, bytes] | None, text: str = "") -> str | None:
    """Return the signature of a text in the footer of a Parquet file; None where it has none."""
    found = parse_record(str(path), (held or {}).get(RECORD_KEY, b"{}")).get("signature")
    line = found.get(text) if isinstance(found, dict) else found
    return line if isinstance(line, str) else None


def footer_of(signature: str | None) -> dict[bytes, bytes]:
    """Return metadata that `signature_in` reads, for a table in memory."""
    return {RECORD_KEY: json.dumps({"signature": signature}).encode()}


def refuse_mixed(signatures: Mapping[str, str | None]) -> None:
    """Raise `InputError` where two files are not comparable; those without signature pass."""
    known: dict[str, tuple[str, str, str]] = {}
    for path, line in signatures.items():
        for part, value in (_UNSAID | parts_of(line)).items() if line else ():
            first, other, own = known.setdefault(part, (path, str(line), value))
            if own != value:
                raise InputError(
                    f"{path}: has signature {line} and {first} has {other}: they differ in {part} "
                    f"({value} and {own}) and do not compare; make one again with the {part} of "
                    "the other (docs/which-number.md says how each part is chosen)"
                )

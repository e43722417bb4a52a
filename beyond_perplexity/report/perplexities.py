"""The number in which models of different vocabularies compare: bits per byte of one text."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from beyond_perplexity.errors import InputError

SPELLED = "bits per byte, words spelled"
RAW_BITS = "bits per byte of raw text"
BITS_NOTE = (
    "Bits per byte compare models of any vocabulary on one text. They are of model and speller "
    "together: a word that a closed vocabulary lacks costs its <unk> and its spelling by a "
    "character model, blind to the sentence. Of subwords one segmentation is counted, an upper "
    "bound"
)


class ByteBits(NamedTuple):
    """Bits per byte of a model on a text, infinite when a document is impossible.

    With the limits of the interval (None: not known), and the documents and bytes of the text.
    """

    value: float
    low: float | None
    high: float | None
    size: tuple[int, int]


def bits_per_byte(result: Mapping[str, Any] | None, text: str = "cleaned") -> ByteBits | None:
    """Return the bits per byte of whole texts, ``cleaned`` or ``raw``, with unknown words spelled.

    None where the model was not scored on that text, or the spelling of some words is free.
    """
    if result is not None and result.get("text", "cleaned") != text:
        result = result.get("cleaned") if text == "cleaned" else None
    if result is None or "byte" not in result.get("bits", {}):
        return None
    interval = result.get("interval", {})
    if "spelled" in result:
        value, interval = result["spelled"]["bits"]["byte"], interval.get("spelled", {})
    elif result["unknown"]:
        return None
    else:
        value = result["bits"]["byte"]
    low, high = interval.get("bits", {}).get("byte", (None, None))
    size = (int(result["documents"]), int(result["n"]["byte"]))
    return ByteBits(math.inf if value is None else float(value), low, high, size)


def check_one_text(found: Mapping[str, ByteBits | None]) -> None:
    """Check that the numbers of a column are of as many documents and bytes."""
    known = {name: bits for name, bits in found.items() if bits}
    for name, bits in known.items():
        first = next(iter(known))
        if bits.size != known[first].size:
            raise InputError(
                f"models '{first}' and '{name}' were scored on different texts ("
                f"{known[first].size[1]:,} and {bits.size[1]:,} bytes): their bits per byte share "
                "no column; score them on one text"
            )

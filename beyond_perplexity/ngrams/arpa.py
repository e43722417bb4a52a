"""Write a back-off model as an ARPA file: logarithms of base 10, back-off weights behind.

Conventions of SRILM and KenLM: fields are separated by tabs, words by blanks; ``<s>``, which has
no probability, is written with −99; every n-gram below the highest order has its back-off weight.
Lines are in the order of the trie and numbers have the digits of float32, as `lmplz` writes them.
"""

from __future__ import annotations

import gzip
import math
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beyond_perplexity.ngrams.backoff import BackoffModel
from beyond_perplexity.ngrams.counts import last_words, prefix_places
from beyond_perplexity.storage.outputs import atomic_path
from beyond_perplexity.vocabulary import BOS

IMPOSSIBLE = -99.0  # SRILM's logarithm of zero
LINES = 1 << 18  # that are made at once
COMPRESSION = 1  # a fifth larger than the usual level and four times faster


def _decimal(values: np.ndarray) -> pa.Array:
    """Print natural logarithms as such of base 10."""
    common = np.maximum(values / math.log(10), IMPOSSIBLE).astype(np.float32)
    return pc.cast(pa.array(common + np.float32(0)), pa.string())  # with 0 for −0


def _lines(model: BackoffModel, words: pa.Array, order: int) -> Iterator[pa.Buffer]:
    """Make the lines of an order, in blocks."""
    level = model.levels[order - 1]
    places = np.arange(len(level.keys))
    if order == 1:
        places = places[np.isfinite(level.log_probs) | (places == BOS)]
    for start in range(0, len(places), LINES):
        block = places[start : start + LINES]
        rows, columns = block, []
        for lower in reversed(model.levels[:order]):
            keys = lower.keys[rows]
            columns.append(words.take(pa.array(last_words(keys))))
            rows = prefix_places(keys)
        text = pc.binary_join_element_wise(*reversed(columns), " ")
        fields = [_decimal(np.minimum(level.log_probs[block], 0)), text]
        if len(level.backoffs):
            fields.append(_decimal(level.backoffs[block]))
        lines = pc.binary_join_element_wise(*fields, "\t")
        ended = pc.binary_join_element_wise(lines, "", "\n")
        yield ended.buffers()[2].slice(0, pc.sum(pc.binary_length(ended)).as_py())


def _open(path: Path, zipped: bool, stack: ExitStack) -> IO[bytes]:
    """Open a file to write; gzip without name and time, so that equal models give equal bytes."""
    file = stack.enter_context(path.open("wb"))
    if not zipped:
        return file
    made = gzip.GzipFile("", "wb", COMPRESSION, file, mtime=0)
    return cast(IO[bytes], stack.enter_context(made))


def write_arpa(path: str | os.PathLike[str], model: BackoffModel, words: Sequence[str]) -> None:
    """Write a model, atomically.

    Parameters
    ----------
    path : path
        The suffix ``.gz`` means gzip, any other plain.
    model : BackoffModel
    words : sequence of str
        By id.
    """
    held = pa.array(words, pa.string())
    with atomic_path(path) as temporary, ExitStack() as stack:
        file = _open(temporary, Path(path).suffix == ".gz", stack)
        counts = "".join(f"ngram {n}={count}\n" for n, count in enumerate(model.n_counts, start=1))
        file.write(f"\\data\\\n{counts}".encode())
        for order in range(1, model.order + 1):
            file.write(f"\n\\{order}-grams:\n".encode())
            for block in _lines(model, held, order):
                file.write(block)
        file.write(b"\n\\end\\\n")

"""Small texts side by side, as the tests of the tendencies count and compare them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import numpy as np
import pyarrow as pa
import pytest

from beyond_perplexity.schemas.corpora import DOCUMENTS, TEXT_SAMPLES
from beyond_perplexity.storage.shards import write_shard
from beyond_perplexity.tendencies.measures import measure_rows
from beyond_perplexity.tendencies.options import MeasurementOptions
from beyond_perplexity.tendencies.pairs import BodyPair, paired
from beyond_perplexity.tendencies.statistics import Statistics, StatisticsCounter
from beyond_perplexity.tendencies.tokens import WHOLE_TEXT, TextView
from beyond_perplexity.tendencies.word_classes import ClassOptions, StopWords

STOP = StopWords("test", frozenset({"w1", "w3"}))
NO_LIMITS = MeasurementOptions(permutations=400, bootstrap=0, monte_carlo=0, zipf_ranks=None)


def batched(texts: Sequence[str], size: int = 1000) -> list[pa.Array]:
    return [pa.array(texts[i : i + size], pa.string()) for i in range(0, len(texts), size)]


def statistics_of(
    texts: Sequence[str],
    stop: StopWords = STOP,
    view: TextView = WHOLE_TEXT,
    path: Path | None = None,
    batch: int = 1000,
    **options: object,
) -> Statistics:
    """Count texts, and write the file where there is a path."""
    with StatisticsCounter(stop, view=view, **options) as counter:
        for part in batched(texts, batch):
            counter.add(part)
        if path is not None:
            counter.write(path, {"seed": 1})
        return counter.result()


@contextmanager
def pair_of(
    first: Sequence[str], second: Sequence[str], groups=(None, None), cut: int = 1000
) -> Iterator[BodyPair]:
    """Bring two lists of texts together, with the group of each document."""
    bodies = statistics_of(first), statistics_of(second)
    held = tuple(None if g is None else np.asarray(g, np.int32) for g in groups)
    texts = batched(first, cut), batched(second, cut)
    with paired(*bodies, texts, groups=held, classes=ClassOptions(STOP, True)) as pair:
        yield pair


def rows_of(first, second, groups=(None, None), options=NO_LIMITS, **more):
    """Measure two lists of texts: the rows by tendency and measure."""
    with pair_of(first, second, groups) as pair:
        return {row.key: row for row in measure_rows(pair, options, 0, **more)}


def write_samples(path: Path, texts: Sequence[str]) -> str:
    columns = {"doc_id": list(range(len(texts))), "text": list(texts)}
    empty = [None] * len(texts)
    arrays = [pa.array(columns.get(field.name, empty), field.type) for field in TEXT_SAMPLES]
    write_shard(path, TEXT_SAMPLES, pa.table(arrays, schema=TEXT_SAMPLES), {})
    return str(path)


def write_documents(
    path: Path, texts: Sequence[str], splits: Sequence[str], titles: Sequence[str]
) -> str:
    columns = {"doc_id": list(range(len(texts))), "split": list(splits), "title": list(titles)}
    columns |= {"text": list(texts), "n_tokens": [len(text.split()) for text in texts]}
    write_shard(path, DOCUMENTS, columns, {})
    return str(path)


def run_script(script: ModuleType, *arguments: object) -> None:
    """Run a script as its command would, in this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["x", *map(str, arguments)])
        script.main()

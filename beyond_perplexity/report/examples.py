"""A page of real texts: what each sample set is like, beside human text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from beyond_perplexity.figures.labels import REFERENCE, Labels, parse_source
from beyond_perplexity.figures.numbers import shown
from beyond_perplexity.foreign_text import printable
from beyond_perplexity.report.layout import Column, Table, lay_out, text_columns
from beyond_perplexity.schemas.corpora import DOCUMENTS, TEXT_SAMPLES
from beyond_perplexity.storage.shards import read_batches

EXAMPLES = 3  # documents of each sample set
WORDS = 80  # of a document
CUT = " […]"
HUMAN_SPLIT = "test"
_FINISHED = {None: "", True: "yes", False: "no"}
_LIKELIHOOD = "log_likelihood_a_token"


def _first_rows(batches: Iterator[pa.RecordBatch]) -> pd.DataFrame:
    """Take the first rows of a file, and read no more of it than that."""
    rows = (row for batch in batches for row in batch.to_pylist())
    return pd.DataFrame(islice(rows, EXAMPLES))


def read_example_samples(paths: Sequence[str | Path]) -> pd.DataFrame:
    """Read the first documents of each file of samples, with the column ``source``.

    A file is a shard, ``{model}/{decoding}/{shard}.parquet``; its folders name the source.
    """
    parts = []
    for path in paths:
        batches = read_batches(path, TEXT_SAMPLES, TEXT_SAMPLES.names, batch_size=EXAMPLES)
        model, decoding = Path(path).resolve().parts[-3:-1]
        parts.append(_first_rows(batches).assign(source=f"{model}/{decoding}"))
    return pd.concat(parts, ignore_index=True)


def read_example_documents(paths: Sequence[str | Path]) -> pd.DataFrame:
    """Read the first documents of the test split, of schema ``documents``."""
    names = ["doc_id", "split", "text", "n_tokens"]
    batches = (
        batch.filter(pc.equal(batch["split"], HUMAN_SPLIT))
        for path in paths
        for batch in read_batches(path, DOCUMENTS, names, batch_size=1024)
    )
    return _first_rows(batches).assign(source=REFERENCE)


def shorten(text: str) -> str:
    """Cut a text after some words, with a mark there; one line, without control marks."""
    held = printable(text).split()
    return " ".join(held[:WORDS]) + (CUT if len(held) > WORDS else "")


def _record(row: Mapping[Any, Any], labels: Labels) -> dict[str, Any]:
    """Describe a text; what is not known of human or external text is None."""
    model, decoding = parse_source(row["source"])
    finished, log_prob = row.get("finished"), row.get("log_prob")
    finished = None if finished is None or pd.isna(finished) else bool(finished)
    # The end of a finished document is predicted too.
    predicted = row["n_tokens"] + bool(finished)
    known = log_prob is not None and not pd.isna(log_prob) and predicted
    return {
        "source": row["source"],
        "model": labels.model(model),
        "decoding": labels.decoding(decoding) if decoding else "",
        "document": row["doc_id"],
        "tokens": row["n_tokens"],
        "finished": finished,
        _LIKELIHOOD: log_prob / predicted if known else None,
        "text": shorten(row["text"]),
    }


def examples_table(samples: pd.DataFrame, documents: pd.DataFrame, labels: Labels) -> Table:
    """Make the table of real texts: the first human ones, then of each source; none is chosen."""
    order = labels.sort_sources([*documents["source"], *samples["source"]])
    rows = [*documents.to_dict("records"), *samples.to_dict("records")]
    rows.sort(key=lambda row: order.index(row["source"]))
    columns = [
        *text_columns("Model", "Decoding"),
        Column("Document"),
        Column("Tokens", form=","),
        *text_columns("Finished", form=_FINISHED.get),
        Column("Log-likelihood a token", of=_LIKELIHOOD, form=partial(shown, digits=2)),
        Column("Text", wraps=True),
    ]
    note = (
        f"The first {EXAMPLES} documents of each sample set, in the order of their numbers and "
        f"cut after {WORDS} words ({CUT.strip()}). Finished: no where the longest length cut it. "
        "Log-likelihood: nats under the model itself, the end of a finished document counts as a "
        "token; none where it is not known."
    )
    records = [_record(row, labels) for row in rows]
    return lay_out("samples", "What the texts look like", note, columns, records)

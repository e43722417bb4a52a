"""What each sample set is like: real texts beside human text; words over- and under-used."""

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
from beyond_perplexity.figures.numbers import (
    STAR_NOTE,
    named_words,
    shown,
    shown_p,
    shown_share,
    shown_signed,
    stars,
)
from beyond_perplexity.foreign_text import printable
from beyond_perplexity.report import layout
from beyond_perplexity.schemas.corpora import DOCUMENTS, TEXT_SAMPLES
from beyond_perplexity.storage.shards import read_batches
from beyond_perplexity.verdicts import DIFFERS, is_known, no_verdict_text

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
    """Read the first documents of each file of samples, with the column ``source``."""
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


def examples_table(samples: pd.DataFrame, documents: pd.DataFrame, labels: Labels) -> layout.Table:
    """Make the table of real texts: the first human ones, then of each source; none is chosen."""
    order = labels.sort_sources([*documents["source"], *samples["source"]])
    rows = [*documents.to_dict("records"), *samples.to_dict("records")]
    rows.sort(key=lambda row: order.index(row["source"]))
    columns = [
        *layout.text_columns("Model", "Decoding"),
        layout.Column("Document"),
        layout.Column("Tokens", form=","),
        *layout.text_columns("Finished", form=_FINISHED.get),
        layout.Column("Log-likelihood a token", of=_LIKELIHOOD, form=partial(shown, digits=2)),
        layout.Column("Text", wraps=True),
    ]
    note = (
        f"The first {EXAMPLES} documents of each sample set, in the order of their numbers and "
        f"cut after {WORDS} words ({CUT.strip()}). Finished: no where the longest length cut it. "
        "Log-likelihood: nats under the model itself, the end of a finished document counts as a "
        "token; none where it is not known."
    )
    records = [_record(row, labels) for row in rows]
    return layout.lay_out("samples", "What the texts look like", note, columns, records)


# N-grams in either direction: of a single sample set, of each of several, on a terminal.
_SHOWN = (12, 5, 3)
_TITLE = "Words and phrases that are over- and under-used"
_NOTE = (
    "Log odds: natural, of the samples less the reference, with the prior of Monroe, Colaresi and "
    "Quinn (2008) and intervals over documents or groups; above 0 samples have more. In samples "
    "and reference: share of the documents that have it. Adjusted p: for all of them, by max-T. "
    f"q: false discovery rate, approximate. {STAR_NOTE}. What nearly always stands in a longer "
    "phrase is not shown beside it."
)


def _counted(words: pd.DataFrame) -> str:
    """Say how many n-grams of a sample set were tested and are named, or why none."""
    row, named = words.iloc[0], words["verdict"] == DIFFERS
    if is_known(row["reason"]):
        return f"{len(words):,}, {no_verdict_text(row['reason'])}"
    if not row["draws"]:
        return f"{len(words):,}, not tested"
    over = int((named & (words["log_odds"] > 0)).sum())
    under = int(named.sum()) - over
    return f"{len(words):,}, of which {over:,} are over-used and {under:,} under-used"


def words_told(words: pd.DataFrame, labels: Labels) -> str:
    """Say how many n-grams were tested, of each sample set, and how many are named."""
    least = words[["least_documents", "least_occurrences"]].min()
    parts = {str(source): _counted(own) for source, own in words.groupby("source", sort=False)}
    found = "; ".join(f"{labels.source(source)}: {own}" for source, own in parts.items())
    return (
        f"Words and phrases of up to three words in at least {least.iloc[0]:,} documents and with "
        f"at least {least.iloc[1]:,} occurrences in both texts together: "
        f"{found if len(parts) > 1 else next(iter(parts.values()))}."
    )


def named_words_table(
    words: pd.DataFrame, labels: Labels, *, terminal: bool = False
) -> layout.Table:
    """Make the table of the farthest named n-grams, with quotations but on a terminal."""
    if words.empty:
        return layout.empty_table("words", _TITLE, "No word is frequent enough to be tested.")
    several = words["source"].nunique() > 1
    rows = named_words(words, _SHOWN[2 if terminal else several])
    columns = [
        layout.Column("Samples", text=True, of="source", form=labels.source),
        layout.Column("Word or phrase", text=True, of="ngram"),
        layout.Column(
            "Log odds", of=lambda row: shown_signed(row["log_odds"], 2) + stars(row["p_adjusted"])
        ),
        layout.interval_column(),
        layout.Column("In samples", of="document_share", form=shown_share),
        layout.Column("In reference", of="document_share_reference", form=shown_share),
        layout.Column("Adjusted p", of="p_adjusted", form=shown_p),
        layout.Column("q", of="q_value", form=shown_p),
        layout.Column(
            "In context",
            text=True,
            wraps=True,
            of=lambda row: " · ".join(x for k in (1, 2) if is_known(x := row[f"example_{k}"])),
        ),
    ]
    if rows.empty:
        return layout.empty_table("words", _TITLE, words_told(words, labels))
    return layout.lay_out(
        "words",
        _TITLE,
        f"{words_told(words, labels)} {_NOTE}",
        columns[not several : -1 if terminal else None],
        rows,
        words[words["verdict"] == DIFFERS],
    )

"""Score pairs of a good and a bad sentence under a model: accuracy and H_C of each phenomenon.

A file of pairs is JSONL (an object a line) or TSV with a line of names, plain or compressed. Fields
or columns: sentence_good and sentence_bad, or good and bad; phenomenon or UID, where there is one.
H_C is the mean of score(good) - score(bad), in nats a pair: larger is better, 0 is no difference.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import torch

from beyond_perplexity.arguments import THREADS, CommandParser, output_file
from beyond_perplexity.contrastive.pairs import contrast_pairs, read_pairs
from beyond_perplexity.contrastive.scores import make_scorer
from beyond_perplexity.corpus.normalization import WHITE_SPACE_ONLY, Preprocessing
from beyond_perplexity.foreign_text import printable, say
from beyond_perplexity.models.families import is_taken_as_it_is
from beyond_perplexity.models.opening import open_any
from beyond_perplexity.schemas.contrastive import PAIR_CONTRASTS
from beyond_perplexity.storage.provenance import run_record
from beyond_perplexity.storage.shards import write_shard


def _clean(description: dict[str, Any], tokenized: bool) -> Preprocessing | None:
    """Return how sentences are cleaned for a model; None: not at all, for one of plain text."""
    if tokenized:
        return WHITE_SPACE_ONLY
    if is_taken_as_it_is(description["config"]["family"], description.get("training")):
        return None
    return Preprocessing.from_config(description.get("preprocessing", {}))


def _shown(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f" ({low:.3f} to {high:.3f})"


def _describe(table: pa.Table) -> str:
    """Say in lines what was found; a phenomenon may have any name."""
    lines = []
    for row in table.to_pylist():
        lines.append(f"{printable(row['phenomenon'])}: {row['pairs']:,} pairs")
        if row["accuracy"] is not None:
            limits = _shown(row["accuracy_low"], row["accuracy_high"])
            lines.append(f"  accuracy     {row['accuracy']:.3f}{limits}")
        if row["contrastive_entropy"] is not None:
            limits = _shown(row["low"], row["high"])
            lines.append(f"  H_C          {row['contrastive_entropy']:.3f}{limits} nats a pair")
            lines.append(f"               {row['per_word']:.3f} nats a word of the good sentences")
        if row["undecided"]:
            lines.append(f"  equal scores {row['undecided']:,} pairs, which count half")
        if row["note"]:
            lines.append(f"  note         {row['note']}")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command; see the module.

    Parameters
    ----------
    arguments : sequence of str, optional
        Those of the process by default.
    """
    parser = CommandParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add(
        "--model",
        required=True,
        help="folder of a model: of a run or of Hugging Face; or its name on the hub",
    )
    add("--pairs", required=True, type=Path, help="file of pairs: .jsonl, or TSV")
    add("--tokenized", action="store_true", help="the sentences are cleaned already")
    add("--name", help="name of the model (default: that of its folder)")
    add("--threads", type=THREADS, default=1, help="CPU threads (default 1)")
    add("--device", default="auto", help="auto, cpu or cuda (default auto)")
    add("--output", type=output_file, help="Parquet file to write, a row a phenomenon")
    given = parser.parse_args(arguments)
    torch.set_num_threads(given.threads)
    opened = open_any(given.model, given.device)
    cleaning = _clean(opened.description, given.tokenized)
    table = contrast_pairs(
        make_scorer(opened.model, opened.vocabulary, given.model),
        read_pairs(given.pairs),
        cleaning.apply if cleaning else None,
        given.name or Path(given.model).resolve().name,
    )
    say(_describe(table))
    if given.output:
        flags = {"pairs": str(given.pairs), "tokenized": given.tokenized, **opened.source}
        device = str(opened.model.device)
        record = run_record("scripts/contrast.py", flags, device=device, checkpoint=opened.weights)
        write_shard(given.output, PAIR_CONTRASTS, table, record)

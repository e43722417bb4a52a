"""Score a text file under a model: JSON with the perplexity in all its definitions."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import torch

from beyond_perplexity.corpus.external import GroupField, read_grouped
from beyond_perplexity.corpus.normalization import WHITE_SPACE_ONLY, Preprocessing
from beyond_perplexity.errors import run_command
from beyond_perplexity.models.checkpoint import WEIGHTS, load_model
from beyond_perplexity.models.families import is_taken_as_it_is
from beyond_perplexity.perplexity.documents import ScoredText, write_rows
from beyond_perplexity.perplexity.speller.speller import find_speller, load_speller
from beyond_perplexity.perplexity.summary import measure
from beyond_perplexity.schemas.perplexity import DOCUMENT_SCORES
from beyond_perplexity.storage.provenance import run_record
from beyond_perplexity.storage.shards import ShardWriter
from beyond_perplexity.vocabulary import ClosedVocabulary

FREE_SPELLING = (
    "bits per character and byte leave the spelling of {unknown:,} unknown words free: they do not "
    "compare with those of another vocabulary; give --speller (made by scripts.build_speller)"
)

_WHO = "give it to every document, or to none and leave --group-column out"
TEXTS = """A model that comes trained and is trained no further reads the text as it is, others what
is cleaned like their corpus; "text" in the output says which was scored."""


def _choose_cleaning(
    description: Mapping[str, Any], cleaned: bool, tokenized: bool
) -> Preprocessing | None:
    """Return how a text is cleaned for a model; None: not at all, for one made for plain text."""
    if tokenized:
        return WHITE_SPACE_ONLY
    family = description["config"]["family"]
    if is_taken_as_it_is(family, description.get("training")) and not cleaned:
        return None
    return Preprocessing.from_config(description.get("preprocessing", {}))


def _read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, epilog=TEXTS)
    add = parser.add_argument
    add("--model", required=True, help="model folder")
    add("--text", required=True, help="text, JSONL or Parquet file, one document a line or row")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--cleaned", action="store_true", help="clean the text as the model's corpus")
    form.add_argument("--tokenized", action="store_true", help="the text is cleaned already")
    add("--context-length", type=int, help="tokens that a prediction sees (default: the model's)")
    add("--stride", type=int, help="predictions that each window adds (default: half the context)")
    add("--count-bos", action="store_true", help="count <s> in every N, as the tutorial does")
    add("--no-count-eos", action="store_true", help="do not count </s> in any N")
    add(
        "--speller",
        help="speller of the words that the vocabulary lacks (default: speller.json in the model "
        "folder, or that of the run which the folder is of)",
    )
    add("--group-column", help="field of the documents that belong together (default: group)")
    add("--per-document", help="Parquet file to write, one row a document")
    add("--threads", type=int, default=1, help="CPU threads (default 1)")
    add("--device", default="auto", help="auto, cpu or cuda (default auto)")
    return parser.parse_args()


def main() -> None:
    options = _read_options()
    torch.set_num_threads(options.threads)
    model, vocabulary, description = load_model(options.model, options.device)
    cleaning = _choose_cleaning(description, options.cleaned, options.tokenized)
    groups = GroupField(options.group_column or "group", options.group_column is not None, _WHO)
    documents = enumerate(read_grouped(Path(options.text), cleaning, groups))
    texts = (ScoredText(place, text, group) for place, (text, group) in documents if text.strip())
    speller = options.speller or find_speller(options.model, vocabulary)
    with ExitStack() as stack:
        write = None
        if options.per_document:
            record = run_record(
                "scripts/perplexity.py",
                {"cleaned": options.cleaned, "tokenized": options.tokenized},
                device=str(model.device),
                checkpoint=Path(options.model, WEIGHTS),
            )
            writer = ShardWriter(options.per_document, DOCUMENT_SCORES, record)
            write = partial(write_rows, stack.enter_context(writer))
        summary = measure(
            model,
            vocabulary,
            texts,
            text="cleaned" if cleaning else "raw",
            spell=load_speller(speller, vocabulary).spell if speller else None,
            write=write,
            context_length=options.context_length,
            stride=options.stride,
            count_eos=not options.no_count_eos,
            count_bos=options.count_bos,
        )
    summary["speller"] = str(speller) if speller else None
    if isinstance(vocabulary, ClosedVocabulary) and not speller:
        print(FREE_SPELLING.format(unknown=summary["unknown"]), file=sys.stderr)
    json.dump(summary, sys.stdout, indent=2, sort_keys=True)
    print()


if __name__ == "__main__":
    run_command(main)

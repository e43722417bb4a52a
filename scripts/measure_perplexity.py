"""Score one split of a documents file: the perplexities as JSON, a row a document as Parquet."""

from __future__ import annotations

from typing import Any

import torch
from tqdm import tqdm

from beyond_perplexity.arguments import THREADS, CommandParser, output_file
from beyond_perplexity.errors import run_command
from beyond_perplexity.models.registry import WEIGHTS, load_model
from beyond_perplexity.ngrams.spelling_model import load_speller
from beyond_perplexity.perplexities.summary import measure, texts_of_split
from beyond_perplexity.schemas.perplexity import DOCUMENT_SCORES
from beyond_perplexity.storage.outputs import write_json
from beyond_perplexity.storage.provenance import finished, run_record
from beyond_perplexity.storage.shards import ShardWriter
from scripts._sentences import add_split_unit


def main() -> None:
    parser = CommandParser(description=__doc__)
    add = parser.add_argument
    add("--model", required=True, help="model folder")
    add("--documents", required=True, help="documents file (Parquet)")
    add("--raw", nargs="*", default=[], help="texts before cleaning: scored first")
    add("--split", default="test", help="split to score (default test)")
    add_split_unit(parser)
    add("--speller", nargs="*", default=[], help="speller of a closed vocabulary (JSON)")
    add("--threads", type=THREADS, default=1, help="CPU threads (default 1)")
    add("--device", default="auto", help="auto, cpu or cuda (default auto)")
    add("--output", type=output_file, required=True, help="JSON file to write")
    add("--per-document", type=output_file, required=True, help="Parquet file, by document")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    model, vocabulary, _ = load_model(options.model, options.device)
    spellers = [load_speller(path, vocabulary) for path in options.speller[:1]]
    record = run_record(
        "scripts/measure_perplexity.py",
        {"split": options.split, "split_unit": options.split_unit},
        device=str(model.device),
        checkpoint=f"{options.model}/{WEIGHTS}",
    )
    grouped = options.split_unit == "page"
    summary: dict[str, Any] = {}
    with ShardWriter(options.per_document, DOCUMENT_SCORES, record) as writer:
        for raw in [*options.raw, None]:
            texts = texts_of_split(options.documents, options.split, grouped=grouped, raw=raw)
            found = measure(
                model,
                vocabulary,
                tqdm(texts, unit="document", mininterval=2.0),
                text="raw" if raw else "cleaned",
                spell=None if raw or not spellers else spellers[0].spell,
                write=writer.write,
            )
            summary = {**summary, "cleaned": found} if summary else found
    write_json(options.output, {**summary, "split": options.split, "record": finished(record)})


if __name__ == "__main__":
    run_command(main)

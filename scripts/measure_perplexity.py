"""Score one split of a documents file: the perplexities as JSON, a row a document as Parquet."""

from __future__ import annotations

from typing import Any

import torch
from tqdm import tqdm

from beyond_perplexity.models.registry import load_model
from beyond_perplexity.ngrams.spelling_model import load_spelling_model
from beyond_perplexity.perplexities.scored_texts import texts_of_split
from beyond_perplexity.perplexities.summary import measure
from beyond_perplexity.schemas.perplexity import DOCUMENT_SCORES
from beyond_perplexity.storage.outputs import write_json
from beyond_perplexity.storage.provenance import finished
from beyond_perplexity.storage.shards import ShardWriter
from scripts._job import Given, flag, job, needed, on_device, output
from scripts._sentences import SPLIT_UNIT


@job(
    needed("--model", "model folder"),
    needed("--documents", "documents file (Parquet)"),
    flag("--raw", "texts before cleaning: scored first", nargs="*", default=[]),
    flag("--split", "split to score (default test)", default="test"),
    SPLIT_UNIT,
    flag("--spelling-model", "spelling model of a closed vocabulary (JSON)", nargs="*", default=[]),
    on_device,
    output("--output", "JSON file to write"),
    output("--per-document", "Parquet file, by document"),
)
def main(options: Given) -> None:
    torch.set_num_threads(options.threads)
    model, vocabulary, _ = load_model(options.model, options.device)
    spelling_models = (load_spelling_model(one, vocabulary).spell for one in options.spelling_model)
    spelled = next(spelling_models, None)
    record = options.model_record(model, {"split": options.split, "split_unit": options.split_unit})
    signatures: dict[str, str] = {}
    record |= {"signature": signatures}
    grouped = options.split_unit == "page"
    summary: dict[str, Any] = {}
    with ShardWriter(options.per_document, DOCUMENT_SCORES, record) as writer:
        for raw in [*options.raw, None]:
            texts = texts_of_split(options.documents, options.split, grouped=grouped, raw=raw)
            bar = tqdm(texts, unit="document", mininterval=2.0)
            how: Any = {"text": "raw" if raw else "cleaned", "spell": None if raw else spelled}
            found = measure(model, vocabulary, bar, **how, write=writer.write)
            summary = {**summary, "cleaned": found} if summary else found
            signatures[found["text"]] = found["signature"]
    write_json(options.output, {**summary, "split": options.split, "record": finished(record)})

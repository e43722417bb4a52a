"""Generate one shard of documents from a trained model.

Columns of the shard: see ``samples`` in `beyond_perplexity.schemas`. A document's text depends on
(seed, name, document id) and the model alone, not on the shard or the batch. The footer says in
which precision the model ran. A model with latent variables draws them with its words: ancestral
sampling is all that it can, and log p of its words alone is not known (null).
"""

from __future__ import annotations

import torch

from beyond_perplexity.arguments import COUNT, ITEM, SEED, THREADS, CommandParser, output_file
from beyond_perplexity.decoding.generation import (
    generate,
    set_precision,
    simulate_texts,
    write_samples,
)
from beyond_perplexity.decoding.options import parse_decoding
from beyond_perplexity.errors import run_command
from beyond_perplexity.models.contract import LanguageModel
from beyond_perplexity.models.latent import LatentModel
from beyond_perplexity.models.registry import WEIGHTS, load_any, load_model
from beyond_perplexity.options import json_object
from beyond_perplexity.storage.provenance import run_record

FULL = "float32"  # latents are drawn in full precision


def main() -> None:
    parser = CommandParser(prog="python -m scripts.generate", description=__doc__)
    add = parser.add_argument
    add("--model", required=True, help="folder of the trained model")
    add("--decoding", required=True, type=json_object, help='{"kind": ..., ...}')
    add("--name", required=True, help="MODEL/DECODING: keys the random streams")
    add("--seed", type=SEED, required=True, help="seed of the run")
    add("--first", type=ITEM, default=0, help="id of the first document")
    add("--count", type=ITEM, required=True, help="number of documents")
    add("--maximum-length", type=COUNT, required=True, help="tokens at most")
    add("--batch-size", default="auto", help="rows; auto: what the memory holds")
    add("--memory-mb", type=COUNT, help="of the job, for auto on a CPU")
    add("--precision", default="auto", help="auto, float32 or bfloat16 (weights)")
    add("--threads", type=THREADS, default=1, help="CPU threads")
    add("--device", default="auto", help="auto, cpu or cuda")
    add("--output", type=output_file, required=True, help="Parquet shard to write")
    given = parser.parse_args()
    torch.set_num_threads(max(given.threads, 1))
    options = parse_decoding(given.decoding, "--decoding")
    numbers = {key: getattr(given, key) for key in ("seed", "first", "count", "maximum_length")}
    model, vocabulary, _ = load_any(given.model, given.device)
    if not isinstance(model, LatentModel | LanguageModel):
        model = load_model(given.model)[0]  # which says why there is nothing to draw from
    precision = set_precision(model, given.precision) if isinstance(model, LanguageModel) else FULL
    record = run_record(
        "scripts/generate.py",
        {"decoding": options.given(), "name": given.name, "precision": precision, **numbers},
        seed=given.seed,
        device=str(model.device),
        checkpoint=f"{given.model}/{WEIGHTS}",
    )
    record |= {"precision": precision}  # that of the log probabilities, too
    purpose = f"generate/{given.name}"
    if isinstance(model, LatentModel):
        simulated = simulate_texts(model, vocabulary, options, purpose, **numbers)
        write_samples(given.output, simulated, given.count, vocabulary, record)
        return
    memory = given.memory_mb and given.memory_mb * 10**6
    arguments = {"batch_size": given.batch_size, "memory": memory, **numbers}
    documents = generate(model, options, purpose=purpose, **arguments)
    write_samples(given.output, documents, given.count, vocabulary, record)


if __name__ == "__main__":
    run_command(main)

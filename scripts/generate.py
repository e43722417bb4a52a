"""Generate one shard of documents from a trained model.

Columns of the shard: see ``samples`` in `beyond_perplexity.schemas`. A document's text depends on
(seed, name, document id) and the model alone, not on the shard or the batch. The footer says in
which precision the model ran. A model with latent variables draws them with its words: ancestral
sampling is all that it can, and log p of its words alone is not known (null).
"""

from __future__ import annotations

import torch

from beyond_perplexity.arguments import COUNT, ITEM, SEED
from beyond_perplexity.decoding.generation import (
    generate,
    set_precision,
    simulate_texts,
    write_samples,
)
from beyond_perplexity.decoding.options import parse_decoding
from beyond_perplexity.models.contract import LanguageModel
from beyond_perplexity.models.latent import LatentModel
from beyond_perplexity.models.registry import load_any, load_model
from scripts._job import Given, flag, job, json_flag, needed, on_device, output

FULL = "float32"  # latents are drawn in full precision


@job(
    needed("--model", "folder of the trained model"),
    json_flag("--decoding", '{"kind": ..., ...}', required=True),
    needed("--name", "MODEL/DECODING: keys the random streams"),
    needed("--seed", "seed of the run", SEED),
    flag("--first", "id of the first document", ITEM, default=0),
    needed("--count", "number of documents", ITEM),
    needed("--maximum-length", "tokens at most", COUNT),
    flag("--batch-size", "rows; auto: what the memory holds", default="auto"),
    flag("--memory-mb", "of the job, for auto on a CPU", COUNT),
    flag("--precision", "auto, float32 or bfloat16 (weights)", default="auto"),
    on_device,
    output("--output", "Parquet shard to write"),
)
def main(given: Given) -> None:
    torch.set_num_threads(max(given.threads, 1))
    options = parse_decoding(given.decoding, "--decoding")
    numbers = {key: getattr(given, key) for key in ("seed", "first", "count", "maximum_length")}
    model, vocabulary, _ = load_any(given.model, given.device)
    if not isinstance(model, LatentModel | LanguageModel):
        model = load_model(given.model)[0]  # which says why there is nothing to draw from
    precision = set_precision(model, given.precision) if isinstance(model, LanguageModel) else FULL
    asked = {"decoding": options.given(), "name": given.name, "precision": precision, **numbers}
    record = given.model_record(model, asked)
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

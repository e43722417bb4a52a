"""Let a model continue the beginnings of human documents, and compare it with how people went on.

Of the first documents of the test split that go on behind so many words. Labels are permuted within
prompts, or with --group-column within groups of them.
"""

from __future__ import annotations

from itertools import islice

import pandas as pd
import pyarrow as pa
import torch

from beyond_perplexity.arguments import COUNT, SEED
from beyond_perplexity.decoding.generation import cut_prompts, set_precision, written_behind
from beyond_perplexity.decoding.options import parse_decoding
from beyond_perplexity.models.registry import load_model
from beyond_perplexity.perplexities.scored_texts import texts_of_split
from beyond_perplexity.report.compare import compare_sample_sets
from beyond_perplexity.schemas.corpora import PROMPT_ANSWERS
from beyond_perplexity.schemas.tendencies import SENSITIVITY, TENDENCY_MEASURES
from beyond_perplexity.storage.shards import write_shard
from beyond_perplexity.tendencies.compare_options import CompareOptions
from scripts._job import COUNTING, Given, flag, job, json_flag, needed, on_device, output


@job(
    needed("--model", "folder of the trained model"),
    needed("--documents", "documents file (Parquet)"),
    flag("--raw", "the same before cleaning, for a model of plain text", nargs="?"),
    needed("--tokens", "words of a prompt", COUNT),
    needed("--count", "prompts at most", COUNT),
    json_flag("--decoding", '{"kind": ..., ...}', required=True),
    needed("--name", "MODEL/DECODING: keys the random streams"),
    needed("--seed", "seed of the run", SEED),
    needed("--maximum-length", "tokens at most, with those of the prompt", COUNT),
    flag("--precision", "auto, float32 or bfloat16 (weights)", default="auto"),
    flag("--vocabulary", "closed vocabulary that both are read in", nargs="?"),
    flag("--group-column", "column with the group of a document", nargs="?"),
    *COUNTING,
    json_flag("--options", "JSON; see tendencies/measurement_options.py"),
    on_device,
    output("--answers", "Parquet file to write, a row a prompt"),
    output("--measures", "table of measures to write"),
    output("--sensitivity", "table of minimum detectable effects to write"),
)
def main(given: Given) -> None:
    torch.set_num_threads(given.threads)
    model, vocabulary, _ = load_model(given.model, given.device)
    precision, grouped = set_precision(model, given.precision), bool(given.group_column)
    read = texts_of_split(given.documents, "test", grouped=grouped, raw=given.raw)
    longer = (one for one in read if len(one.text.split()) > given.tokens)
    chosen = list(islice(longer, given.count))
    prompts, human = cut_prompts([one.text for one in chosen], given.tokens, vocabulary)
    written = written_behind(
        model,
        vocabulary,
        parse_decoding(given.decoding, "--decoding"),
        prompts,
        seed=given.seed,
        purpose=f"prompts/{given.name}",
        maximum_length=given.maximum_length,
    )
    groups = [one.group if grouped else str(one.doc_id) for one in chosen]
    columns = {"group": groups, "prompt": prompts, "human": human, "model": written}
    record = given.model_record(model) | {"precision": precision}
    write_shard(given.answers, PROMPT_ANSWERS, columns, record)
    how = CompareOptions(
        pairs=given.answers,
        tokenized=True,
        group_column=None if grouped else "",
        vocabulary=given.vocabulary,
        stop_words=given.stop_words,
        maximum_tokens=given.maximum_tokens,
        minimum_tokens=given.minimum_tokens,
        permutations=given.options["permutations"],
        bootstrap=given.options["bootstrap"],
        seed=given.seed,
    )
    with compare_sample_sets(how) as found:
        record["signature"] = found.signature
        effects = (given.sensitivity, SENSITIVITY, found.sensitivity)
        for path, schema, rows in ((given.measures, TENDENCY_MEASURES, found.measures), effects):
            held = pd.DataFrame(columns=schema.names) if rows is None else rows
            held = held.assign(source=given.name)
            table = pa.Table.from_pandas(held, schema, preserve_index=False)
            write_shard(path, schema, table, record)

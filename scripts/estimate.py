"""Estimate the perplexity of any latent language model from importance samples of yours.

A file (.parquet, or .csv or .csv.gz with a line of names) has a row for every sample
z_k ~ q(z | x_n):
instance_id n and sample_id k (integers), n_tokens (T of the instance), log_p = log p(x_n, z_k) and
log_q = log q(z_k | x_n), natural logarithms. log_p may be -inf. Used when there: n_unknown (unknown
tokens of the instance), latent_hash (an integer, equal for equal latents).
"""

from __future__ import annotations

import argparse
from pathlib import Path

import pyarrow.csv

from beyond_perplexity.errors import InputError, run_command
from beyond_perplexity.importance.beams import Beams
from beyond_perplexity.importance.labels import Labels
from beyond_perplexity.importance.options import ReductionOptions
from beyond_perplexity.importance.reading import WeightReader
from beyond_perplexity.importance.reduction import reduce_weights
from beyond_perplexity.importance.tables import estimates_table
from beyond_perplexity.importance.wording import report
from beyond_perplexity.options import json_object, parse_options
from beyond_perplexity.provenance import run_record
from beyond_perplexity.shards import atomic_path, write_shard


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--weights", required=True, nargs="+", help="files of samples, cut in any way")
    add("--beams", nargs="*", default=[], help="beams of the same instances (schema beams)")
    add("--unknown-types", type=int, help="training types that read <unk>, to charge for them")
    add("--t-definition", help="what n_tokens counts, such as 'words and </s>'")
    add("--options", type=json_object, default={}, help="JSON object; see importance/options.py")
    add("--seed", type=int, default=0, help="seed of subsets, pairings and bootstraps (default 0)")
    add("--output", type=Path, help="table to write as well: .csv or .parquet")
    given = parser.parse_args()
    if given.output and given.output.suffix not in (".csv", ".parquet"):
        raise InputError(f"--output {given.output}: expected a name that ends in .csv or .parquet")
    options = parse_options(ReductionOptions, given.options, "options")
    labels = {"t_definition": given.t_definition, "unknown_types": given.unknown_types}
    reader = WeightReader(given.weights, parse_options(Labels, labels, "the flags"))
    beams = Beams(given.beams, reader) if given.beams else None
    table = estimates_table(reduce_weights(reader, beams, options, given.seed, progress=True))
    print(report(table))
    if given.output and given.output.suffix == ".csv":
        with atomic_path(given.output) as temporary:
            pyarrow.csv.write_csv(table, temporary)
    elif given.output:
        flags = {**vars(given), "output": str(given.output)}
        record = run_record("scripts/estimate.py", flags, seed=given.seed)
        write_shard(given.output, "estimates", table, record)


if __name__ == "__main__":
    run_command(main)

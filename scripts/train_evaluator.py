"""Train an evaluator of texts, or go on with a training that was interrupted."""

from __future__ import annotations

import sys
from pathlib import Path
from pkgutil import resolve_name

from beyond_perplexity.arguments import SEED, THREADS, CommandParser, output_folder
from beyond_perplexity.corpus.normalization import Preprocessing
from beyond_perplexity.errors import InputError, run_command
from beyond_perplexity.options import json_object
from beyond_perplexity.semantics.evaluators.contract import find_evaluator
from beyond_perplexity.semantics.evaluators.job import EvaluatorJob
from beyond_perplexity.storage.accounts import accounts_told


def main() -> None:
    parser = CommandParser(description=__doc__)
    add = parser.add_argument
    add("--options", required=True, type=json_object, help="JSON: family and its options")
    add("--documents", nargs="?", type=Path, help="documents file (Parquet) to train on")
    add("--vocabulary", nargs="?", type=Path, help="its vocabulary, for families that have one")
    add("--preprocessing", type=json_object, default={}, help="JSON; all texts are cleaned so")
    add("--seed", type=SEED, default=1, help="seed of weights, order and draws (default 1)")
    add("--threads", type=THREADS, default=1, help="CPU threads (default 1)")
    add("--device", default="auto", help="auto, cpu or cuda (default auto)")
    add("--output", type=output_folder, required=True, help="folder for the evaluator")
    add("--checkpoints", type=output_folder, required=True, help="to resume from")
    given = vars(parser.parse_args())
    Preprocessing.from_config(given["preprocessing"])
    row = find_evaluator(given["options"].get("family"))
    if row.fit is None:
        family = given["options"]["family"]
        raise InputError(f"family: {family} evaluators are not trained here")
    fit = resolve_name(row.fit)
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(given["threads"])
    with accounts_told():
        fit(EvaluatorJob(**given))


if __name__ == "__main__":
    run_command(main)

"""Train an evaluator of texts, or go on with a training that was interrupted."""

from __future__ import annotations

import sys
from pathlib import Path
from pkgutil import resolve_name

from beyond_perplexity.arguments import SEED, output_folder
from beyond_perplexity.corpus.normalization import Preprocessing
from beyond_perplexity.errors import InputError
from beyond_perplexity.semantics.evaluators.contract import find_evaluator
from beyond_perplexity.semantics.evaluators.job import EvaluatorJob
from beyond_perplexity.storage.accounts import accounts_told
from scripts._job import Given, flag, job, json_flag, needed, on_device


@job(
    json_flag("--options", "JSON: family and its options", required=True),
    flag("--documents", "documents file (Parquet) to train on", Path, nargs="?"),
    flag("--vocabulary", "its vocabulary, for families that have one", Path, nargs="?"),
    json_flag("--preprocessing", "JSON; all texts are cleaned so"),
    flag("--seed", "seed of weights, order and draws (default 1)", SEED, default=1),
    on_device,
    needed("--output", "folder for the evaluator", output_folder),
    needed("--checkpoints", "to resume from", output_folder),
)
def main(given: Given) -> None:
    Preprocessing.from_config(given.preprocessing)
    family = given.options.get("family")
    row = find_evaluator(family)
    if row.fit is None:
        raise InputError(f"family: {family} evaluators are not trained here")
    fit = resolve_name(row.fit)
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(given.threads)
    with accounts_told():
        fit(EvaluatorJob(**vars(given)))

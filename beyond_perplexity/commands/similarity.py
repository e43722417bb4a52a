"""How alike pairs of texts are, by an evaluator; no language model is needed.

Standard output: one score a pair, in their order; `nan` where an evaluator knows no word of the
second text. With --gold it has the correlations with these scores alone, with 95% intervals. Texts
are raw: for evaluators that read tokens they are cleaned as those were trained.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from beyond_perplexity.arguments import THREADS, CommandParser, output_path, whole
from beyond_perplexity.errors import InputError
from beyond_perplexity.foreign_text import remark, say
from beyond_perplexity.semantics.evaluators.contract import load_evaluator
from beyond_perplexity.semantics.evaluators.job import EVALUATOR_FILE
from beyond_perplexity.semantics.evaluators.pair_scores import choose_measure, score_pair_file
from beyond_perplexity.semantics.evaluators.paths import evaluator_at, evaluator_named
from beyond_perplexity.semantics.evaluators.rows import PACKAGES
from beyond_perplexity.storage.fingerprint import ROOT
from beyond_perplexity.storage.outputs import atomic_path

if TYPE_CHECKING:
    from beyond_perplexity.semantics.associations import CorrelationInterval

_SCHEMA = ROOT / "rules" / "config.schema.yaml"
_SUFFIXES = (".csv", ".parquet")
_LEAST = 3  # pairs that a correlation needs


def find_options(name: str, given: argparse.Namespace) -> dict[str, Any]:
    """Return the options of `load_evaluator` for a package, an evaluator of the run or a path."""
    if name in PACKAGES:
        return evaluator_named(name)
    if Path(name).exists():
        return evaluator_at(Path(name), given.vectors, given.layers)
    if "/" in name or not given.config.is_file():
        known = ", ".join(PACKAGES)
        raise InputError(
            f"evaluator: {name!r} is no file or folder; give a path, {known}, or the name of an "
            f"evaluator of a run, whose configuration --config names ({given.config})"
        )
    return _of_run(name, given.config)


def _of_run(name: str, config_path: Path) -> dict[str, Any]:
    """Return the options of an evaluator of a configuration."""
    # Late, as only this needs what checks a configuration.
    import json

    import yaml

    from beyond_perplexity.planning.run import Run
    from beyond_perplexity.planning.validation import validate
    from beyond_perplexity.storage.inputs import read_utf8

    try:
        config = yaml.safe_load(read_utf8(config_path))
    except (ValueError, RecursionError, yaml.YAMLError) as error:
        reason = str(error).split("\n")[0]
        raise InputError(f"{config_path}: cannot be read as YAML ({reason})") from error
    if not isinstance(config, dict):
        raise InputError(f"{config_path}: is no configuration")
    validate(config, _SCHEMA)
    if name not in config["evaluators"]:
        known = ", ".join(dict.fromkeys([*PACKAGES, *config["evaluators"]]))
        raise InputError(f"evaluator: no evaluator of {config_path} is named {name!r}; there are "
                         f"{known}, or give a path")  # fmt: skip
    evaluators = Run(config).evaluators
    found: dict[str, Any] = json.loads(evaluators.options(name))
    made = found.get("path", "")
    if evaluators.is_trained(name) and not Path(made, EVALUATOR_FILE).is_file():
        raise InputError(
            f"{made}: is not trained yet; run: snakemake --profile profiles/default "
            f"--configfile {config_path} {made}/{EVALUATOR_FILE}"
        )
    return found


def write_scores(path: Path, scores: np.ndarray, gold: np.ndarray | None) -> None:
    """Write a row a pair: its number, its score, null where undefined, and what people gave."""
    columns: dict[str, Any] = {
        "pair": pa.array(np.arange(1, len(scores) + 1)),
        "score": pa.array(scores, from_pandas=True),
    }
    if gold is not None:
        columns["gold"] = pa.array(gold)
    table = pa.table(columns)
    with atomic_path(path) as temporary:
        if path.suffix == ".parquet":
            import pyarrow.parquet as pq

            pq.write_table(table, temporary)
        else:
            import pyarrow.csv

            pyarrow.csv.write_csv(table, str(temporary))


def print_correlations(scores: np.ndarray, gold: np.ndarray, path: Path) -> None:
    """Print Pearson's and Spearman's correlation with their intervals."""
    from beyond_perplexity.semantics.associations import pearson, spearman

    defined = np.isfinite(scores)
    if not defined.all():
        remark(f"{path}: {int((~defined).sum())} of {len(scores)} pairs have no score and are left "
              "out of the correlations")  # fmt: skip
    scores, gold = scores[defined], gold[defined]
    if len(scores) < _LEAST or np.ptp(gold) == 0:
        raise InputError(
            f"{path}: {len(scores)} pairs have a score; a correlation needs {_LEAST} at least, and "
            "gold scores that differ"
        )
    for name, found in (("Pearson", pearson(scores, gold)), ("Spearman", spearman(scores, gold))):
        say(f"{name} {_shown(found)}")


def _shown(found: CorrelationInterval) -> str:
    low, high = (f"{limit:.4f}" if math.isfinite(limit) else "?" for limit in found[1:3])
    return f"{found.value:.4f} [{low}, {high}]"


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
        "--evaluator",
        required=True,
        help=f"{', '.join(PACKAGES)} (extra pretrained), an evaluator of the run, or a path: a "
        "folder of sentence-transformers, of Hugging Face, of a model or evaluator of a run, a "
        "file of word vectors",
    )
    add("--pairs", required=True, type=Path, help="TSV or CSV with a line of names; texts first")
    add("--gold", help="column with scores that people gave: correlations are printed")
    add("--output", type=output_path, help="file for the scores: .csv or .parquet")
    add("--measure", help="of an evaluator with several, such as wmd of word vectors")
    add("--tokenized", action="store_true", help="the texts are tokens: they are not cleaned")
    add("--vectors", help="word vectors that official InferSent weights read: glove or a path")
    add("--layers", type=whole(1), default=2, help="upper layers of a Transformer (default 2)")
    add("--config", type=Path, default=Path("config.yaml"), help="of the run (default config.yaml)")
    add("--threads", type=THREADS, default=1, help="CPU threads (default 1)")
    add("--device", default="auto", help="auto, cpu or cuda (default auto)")
    given = parser.parse_args(arguments)
    if given.output and given.output.suffix not in _SUFFIXES:
        raise InputError(f"{given.output}: give a name that ends in {' or '.join(_SUFFIXES)}")
    evaluator = load_evaluator(find_options(given.evaluator, given), device=given.device)
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(given.threads)
    measure = choose_measure(evaluator, given.measure)
    scores, gold = [], []
    blocks = score_pair_file(given.pairs, evaluator, measure, given.gold, given.tokenized)
    for found, people in blocks:
        scores.append(found)
        gold.append(people)
        if given.gold is None:
            print(*(repr(float(value)) for value in found), sep="\n")
    every, scored = np.concatenate(scores), np.concatenate(gold)
    if given.output:
        write_scores(given.output, every, scored if given.gold else None)
    if given.gold is not None:
        print_correlations(every, scored, given.pairs)

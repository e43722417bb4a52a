"""How alike pairs of texts are, by an evaluator, from a program."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from beyond_perplexity.errors import InputError, extras_named
from beyond_perplexity.foreign_text import remark
from beyond_perplexity.library import calls
from beyond_perplexity.library.call_options import SimilarityOptions
from beyond_perplexity.library.result import Result
from beyond_perplexity.semantics import scored_pairs
from beyond_perplexity.semantics.evaluators import contract
from beyond_perplexity.semantics.evaluators.families import PACKAGES
from beyond_perplexity.semantics.evaluators.job import EVALUATOR_FILE

_LEAST = 3  # pairs that a correlation needs


def _unused(given: SimilarityOptions) -> Iterator[calls.Unused]:
    calls.check_path_or_name("evaluator", given.evaluator)
    name, alone = str(given.evaluator), ("vectors", "layers")
    if name in PACKAGES:
        yield "with an evaluator of a package", (*alone, "config")
    elif Path(name).exists():
        read = _at(given)
        yield "with this evaluator", tuple(one for one in alone if one not in read)
        yield "with an evaluator at a path", ("config",)
    else:
        yield "with an evaluator of a run", alone


@calls.library_function(SimilarityOptions, _unused)
def similarity(given: SimilarityOptions) -> Result:
    """Score how alike pairs of texts are; no language model is needed.

    Returns
    -------
    Result
        ``table`` has a row a pair: ``pair`` (from 1), ``score`` (NaN where undefined), ``gold``.
        ``summary`` has the evaluator's measure, and with gold scores ``pearson`` and ``spearman``:
        value, low and high of the 95% interval.

    Raises
    ------
    InputError
        When a pair or the evaluator cannot be used, or an extra that it needs is not installed.
    """
    calls.check_suffix("output", given.output)
    with extras_named(), calls.torch_kept(None):
        judge = contract.load_evaluator(_options_of(given), device=given.device)
    chosen = scored_pairs.choose_measure(judge, given.measure)
    with calls.torch_kept(given.threads):
        held = given.references
        source = str(held) if isinstance(held, str | os.PathLike) else "texts"
        scored = scored_pairs.score_pairs(judge, _pairs(given), given.tokenized, source)
    scores, people = scored.values[chosen], None if given.gold is None else scored.gold
    columns = {"pair": np.arange(1, len(scores) + 1), "score": pa.array(scores, from_pandas=True)}
    table = pa.table(columns if people is None else {**columns, "gold": people})
    if given.output is not None:
        calls.write_numbers(Path(given.output), table)
    summary: dict[str, Any] = {"evaluator": str(given.evaluator), "measure": chosen}
    text = "\n".join(repr(float(score)) for score in scores)
    if people is not None:
        found = _correlations(scores, people, source)
        summary |= found
        text = "\n".join(_said(name, **numbers) for name, numbers in found.items())
    return Result("similarity", table, text=text, summary=summary)


def _said(name: str, value: float, low: float, high: float) -> str:
    limits = (f"{limit:.4f}" if math.isfinite(limit) else "?" for limit in (low, high))
    return f"{name.capitalize()} {value:.4f} [{', '.join(limits)}]"


def _pairs(given: SimilarityOptions) -> Iterator[scored_pairs.ScoredPair]:
    references, gold = given.references, given.gold
    if isinstance(references, str | os.PathLike):
        if given.hypotheses is not None:
            raise InputError("hypotheses: references is a file of both texts; leave it out")
        if gold is not None and not isinstance(gold, str):
            raise InputError("gold: references is a file; name its column of scores")
        yield from scored_pairs.read_scored_pairs(Path(references), gold)
        return
    if isinstance(gold, str):
        raise InputError("gold: is a column of a file; of texts give a score for each pair")
    number = 0
    for row in calls.rows_of(
        "texts", references=references, hypotheses=given.hypotheses, gold=gold
    ):
        number += 1
        yield _pair(row, number)
    if not number:
        raise InputError("references: there are none; give at least one pair")


def _pair(row: dict[str, Any], number: int) -> scored_pairs.ScoredPair:
    for name in ("references", "hypotheses"):
        if not isinstance(row[name], str) or not row[name].strip():
            raise InputError(f"{name}: pair {number} has {row[name]!r:.80}; give a text")
    gold = row.get("gold", math.nan)
    if "gold" in row and not (isinstance(gold, int | float | np.number) and np.isfinite(gold)):
        raise InputError(f"gold: pair {number} has {gold!r:.80}, expected a finite number")
    return scored_pairs.ScoredPair(row["references"], row["hypotheses"], float(gold))


def _at(given: SimilarityOptions) -> dict[str, Any]:
    vectors = None if given.vectors is None else str(given.vectors)
    return contract.evaluator_at(Path(given.evaluator), vectors, given.layers)


def _options_of(given: SimilarityOptions) -> dict[str, Any]:
    """Return the options of `load_evaluator` for a package, an evaluator of the run or a path."""
    name, config = str(given.evaluator), Path(given.config)
    if name in PACKAGES:
        return contract.evaluator_named(name)
    if Path(name).exists():
        return _at(given)
    if "/" in name or not config.is_file():
        known = ", ".join(PACKAGES)
        raise InputError(
            f"evaluator: {name!r} is no file or folder; give a path, {known}, or the name of an "
            f"evaluator of a run, whose configuration config names ({config})"
        )
    return _of_run(name, config)


def _of_run(name: str, config_path: Path) -> dict[str, Any]:
    """Return the options of an evaluator of a configuration."""
    # Late, as only this needs what checks a configuration.
    from beyond_perplexity.planning.configuration_file import read_configuration
    from beyond_perplexity.planning.run import Run
    from beyond_perplexity.planning.validation import validate

    config = read_configuration(config_path)
    validate(config)
    if name not in config["evaluators"]:
        known = ", ".join(dict.fromkeys([*PACKAGES, *config["evaluators"]]))
        raise InputError(f"evaluator: no evaluator of {config_path} is named {name!r}; there are "
                         f"{known}, or give a path")  # fmt: skip
    evaluators = Run(config).evaluators
    found: dict[str, Any] = json.loads(evaluators.options(name))
    made = found.get("path", "")
    if evaluators.is_trained(name) and not Path(made, EVALUATOR_FILE).is_file():
        run = f"snakemake --profile profiles/default --configfile {config_path}"
        raise InputError(f"{made}: is not trained yet; run: {run} {made}/{EVALUATOR_FILE}")
    return found


def _correlations(scores: np.ndarray, gold: np.ndarray, source: str) -> dict[str, dict[str, float]]:
    """Return Pearson's and Spearman's correlation with their intervals."""
    from beyond_perplexity.inference.correlations import pearson, spearman

    defined = np.isfinite(scores)
    if not defined.all():
        lacking = int((~defined).sum())
        told = f"{lacking} of {len(scores)} pairs have no score"
        remark(f"{source}: {told} and are left out of the correlations")
    scores, gold = scores[defined], gold[defined]
    if len(scores) < _LEAST or np.ptp(gold) == 0:
        advice = f"a correlation needs {_LEAST} at least, and gold scores that differ"
        raise InputError(f"{source}: {len(scores)} pairs have a score; {advice}")
    found = {"pearson": pearson(scores, gold), "spearman": spearman(scores, gold)}
    keys = ("value", "low", "high")
    return {name: {key: getattr(one, key) for key in keys} for name, one in found.items()}

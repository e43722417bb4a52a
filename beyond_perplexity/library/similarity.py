"""How alike pairs of texts are, by an evaluator, from a program."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from beyond_perplexity.errors import InputError, extras_named
from beyond_perplexity.foreign_text import remark
from beyond_perplexity.library.calls import Unused, library_function, torch_kept
from beyond_perplexity.library.given import (
    check_numbers,
    check_outputs,
    check_path_or_name,
    values_of,
)
from beyond_perplexity.library.result import Result
from beyond_perplexity.semantics.evaluators.contract import load_evaluator
from beyond_perplexity.semantics.evaluators.families import PACKAGES
from beyond_perplexity.semantics.evaluators.job import EVALUATOR_FILE
from beyond_perplexity.semantics.evaluators.opening import evaluator_at, evaluator_named
from beyond_perplexity.semantics.scored_pairs import (
    ScoredPair,
    choose_measure,
    read_scored_pairs,
    score_pairs,
)
from beyond_perplexity.storage.fingerprint import ROOT
from beyond_perplexity.storage.outputs import atomic_path

_SCHEMA = ROOT / "rules" / "config.schema.yaml"
SCORE_SUFFIXES = (".csv", ".parquet")
_LEAST = 3  # pairs that a correlation needs
_LACKING = object()


class EvaluatorFlags(NamedTuple):
    """What an evaluator is made with beside its name; see `similarity`."""

    vectors: str | None
    layers: int
    config: Path


def _unused(given: Mapping[str, Any]) -> Iterator[Unused]:
    check_path_or_name("evaluator", given["evaluator"])
    name, alone = str(given["evaluator"]), ("vectors", "layers")
    if name in PACKAGES:
        yield Unused("with an evaluator of a package", (*alone, "config"))
    elif Path(name).exists():
        vectors = None if given["vectors"] is None else str(given["vectors"])
        read = evaluator_at(Path(name), vectors, given["layers"])
        yield Unused("with this evaluator", tuple(one for one in alone if one not in read))
        yield Unused("with an evaluator at a path", ("config",))
    else:
        yield Unused("with an evaluator of a run", alone)


@library_function(_unused)
def similarity(
    references: Any,
    hypotheses: Iterable[str] | None = None,
    *,
    evaluator: str | Path,
    gold: Any = None,
    measure: str | None = None,
    tokenized: bool = False,
    vectors: str | Path | None = None,
    layers: int = 2,
    config: str | Path = "config.yaml",
    threads: int | None = None,
    device: str = "auto",
    output: str | Path | None = None,
) -> Result:
    """Score how alike pairs of texts are; no language model is needed.

    Parameters
    ----------
    references, hypotheses : iterable of str
        The first and the second text of each pair, raw: for evaluators that read tokens they are
        cleaned as those were trained. `references` alone: the path of a TSV or CSV file of pairs.
    evaluator : str or path
        ``"glove"``, ``"minilm"`` (extra ``pretrained``), an evaluator of the run that `config`
        describes, or a path: a folder of sentence-transformers, of Hugging Face, of a model or
        evaluator of a run, a file of word vectors.
    gold : iterable of float, or str, optional
        Scores that people gave the pairs (of a file: their column), to correlate with.
    measure : str, optional
        Of an evaluator with several, such as ``"wmd"`` of word vectors.
    tokenized : bool
        The texts are tokens joined by blanks: they are not cleaned.
    vectors : path or str, optional
        Word vectors that official InferSent weights read: ``"glove"`` or a path.
    layers : int
        Upper layers of a Transformer.
    config : path
        Configuration of the run.
    threads : int, optional
        CPU threads of this call (default: as PyTorch has them).
    device : str
        ``"auto"``, ``"cpu"`` or ``"cuda"``.
    output : path, optional
        File for the scores: ``.csv`` or ``.parquet``.

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
    check_numbers(1, layers=layers, threads=threads)
    check_outputs(output)
    if output is not None and Path(output).suffix not in SCORE_SUFFIXES:
        raise InputError(f"{output}: give a name that ends in {' or '.join(SCORE_SUFFIXES)}")
    flags = EvaluatorFlags(None if vectors is None else str(vectors), layers, Path(config))
    with extras_named(), torch_kept(None):
        judge = load_evaluator(_options_of(str(evaluator), flags), device=device)
    chosen = choose_measure(judge, measure)
    pairs = _pairs(references, hypotheses, gold)
    with torch_kept(threads):
        scored = score_pairs(judge, pairs, tokenized)
    scores, people = scored.values[chosen], None if gold is None else scored.gold
    table = _score_table(scores, people)
    if output is not None:
        _write(Path(output), table)
    summary: dict[str, Any] = {"evaluator": str(evaluator), "measure": chosen}
    text = "\n".join(repr(float(score)) for score in scores)
    if people is not None:
        source = str(references) if isinstance(references, str | os.PathLike) else "pairs"
        found = _correlations(scores, people, source)
        text = "\n".join(f"{name.capitalize()} {_shown(limits)}" for name, limits in found.items())
        keys = ("value", "low", "high")
        summary |= {name: dict(zip(keys, limits, strict=True)) for name, limits in found.items()}
    return Result("similarity", table, text=text, summary=summary)


def _pairs(references: Any, hypotheses: Iterable[str] | None, gold: Any) -> Iterator[ScoredPair]:
    if isinstance(references, str | os.PathLike):
        if hypotheses is not None:
            raise InputError("hypotheses: references is a file of both texts; leave it out")
        if gold is not None and not isinstance(gold, str):
            raise InputError("gold: references is a file; name its column of scores")
        yield from read_scored_pairs(Path(references), gold)
        return
    for name, given in (("references", references), ("hypotheses", hypotheses)):
        if isinstance(given, str | bytes) or not isinstance(given, Iterable):
            raise InputError(
                f"{name}: is of type {type(given).__name__}; give texts, in an iterable"
            )
    if gold is not None and not isinstance(gold, str) and not isinstance(gold, Iterable):
        raise InputError(f"gold: is of type {type(gold).__name__}; give a score for each pair")
    if isinstance(gold, str):
        raise InputError("gold: is a column of a file; of texts give a score for each pair")
    columns = {"references": references, "hypotheses": hypotheses, "gold": gold}
    held = {name: values_of(values) for name, values in columns.items() if values is not None}
    rows = zip_longest(*held.values(), fillvalue=_LACKING)
    number = 0
    for number, row in enumerate(rows, start=1):
        yield _pair(dict(zip(held, row, strict=True)), number)
    if not number:
        raise InputError("references: there are none; give at least one pair")


def _pair(row: dict[str, Any], number: int) -> ScoredPair:
    for name, value in row.items():
        if value is _LACKING:
            raise InputError(f"{name}: has no value for pair {number}; give one for each pair")
        if name != "gold" and (not isinstance(value, str) or not value.strip()):
            raise InputError(f"{name}: pair {number} has {value!r:.80}; give a text")
    gold = row.get("gold", math.nan)
    if "gold" in row and not (isinstance(gold, int | float | np.number) and np.isfinite(gold)):
        raise InputError(f"gold: pair {number} has {gold!r:.80}, expected a finite number")
    return ScoredPair(row["references"], row["hypotheses"], float(gold))


def _options_of(name: str, given: EvaluatorFlags) -> dict[str, Any]:
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
    from beyond_perplexity.planning.reading import read_configuration
    from beyond_perplexity.planning.run import Run
    from beyond_perplexity.planning.validation import validate

    config = read_configuration(config_path)
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


def _score_table(scores: np.ndarray, gold: np.ndarray | None) -> pa.Table:
    """Make a row a pair: its number, its score, null where undefined, and what people gave."""
    columns: dict[str, Any] = {
        "pair": pa.array(np.arange(1, len(scores) + 1)),
        "score": pa.array(scores, from_pandas=True),
    }
    if gold is not None:
        columns["gold"] = pa.array(gold)
    return pa.table(columns)


def _write(path: Path, table: pa.Table) -> None:
    with atomic_path(path) as temporary:
        if path.suffix == ".parquet":
            import pyarrow.parquet as pq

            pq.write_table(table, temporary)
        else:
            import pyarrow.csv

            pyarrow.csv.write_csv(table, str(temporary))


def _correlations(
    scores: np.ndarray, gold: np.ndarray, source: str
) -> dict[str, tuple[float, float, float]]:
    """Return Pearson's and Spearman's correlation with their intervals."""
    from beyond_perplexity.inference.correlations import pearson, spearman

    defined = np.isfinite(scores)
    if not defined.all():
        lacking = int((~defined).sum())
        remark(
            f"{source}: {lacking} of {len(scores)} pairs have no score and are left out of the "
            "correlations"
        )
    scores, gold = scores[defined], gold[defined]
    if len(scores) < _LEAST or np.ptp(gold) == 0:
        raise InputError(
            f"{source}: {len(scores)} pairs have a score; a correlation needs {_LEAST} at least, "
            "and gold scores that differ"
        )
    found = {"pearson": pearson(scores, gold), "spearman": spearman(scores, gold)}
    return {name: (one.value, *one[1:3]) for name, one in found.items()}


def _shown(found: tuple[float, float, float]) -> str:
    low, high = (f"{limit:.4f}" if math.isfinite(limit) else "?" for limit in found[1:])
    return f"{found[0]:.4f} [{low}, {high}]"

"""Files of thoughts: read as files of log weights, and summed up beside the estimates.

A row for every thought z of a prompt: ``instance``, ``sample``, ``n_tokens`` of the answer, and
``log_p_answer`` = log p(y | x, z), nats, −inf where the thought was cut or has no answer;
``log_p_thought`` and ``log_q_thought`` where thoughts were not drawn from the model itself. Used
where they are there: ``cut`` (0 or 1), ``log_p_no_thought`` and ``log_p_greedy`` (of the instance).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from beyond_perplexity.errors import InputError
from beyond_perplexity.importance.draw_files import WeightLabels
from beyond_perplexity.importance.estimator import TWO_SIDED, TWO_SIDED_UNSURE
from beyond_perplexity.importance.reduction import estimates_table, reduce_weights
from beyond_perplexity.importance.ways_to_draw import ReductionOptions
from beyond_perplexity.importance.weight_files import WeightReader
from beyond_perplexity.inference.log_space import to_perplexity
from beyond_perplexity.storage.shards import RECORD_KEY, parse_record
from beyond_perplexity.storage.table_files import Kinds, RowBatch, TableFile, open_table

THOUGHT_COLUMNS = ("instance", "sample", "n_tokens", "log_p_answer")
_NAMES = {"instance_id": "instance", "sample_id": "sample"}
_PROPOSAL = ("log_p_thought", "log_q_thought")
_ALONE = ("log_p_no_thought", "log_p_greedy")
_WEIGHT = ("log_p", "log_q")


class ThoughtFile(TableFile):
    """A file of thoughts in place of log weights: log p(x, z) is log p(y | x, z) + log p(z | x);
    `cut_right`: as if cut thoughts gave the answer, so that the mean is p_cap + P(cut | x)."""

    def __init__(self, given: str | Path | TableFile, *, cut_right: bool = False) -> None:
        self._cut_right = cut_right
        self.file = open_table(given)
        self.file.require(THOUGHT_COLUMNS, "files of thoughts")
        self.path, self.metadata, self._csv = self.file.path, {}, self.file._csv
        self._group_rows = self.file._group_rows
        self.proposed = [name for name in _PROPOSAL if name in self.file.names]
        if len(self.proposed) == 1:
            other = next(name for name in _PROPOSAL if name not in self.proposed)
            raise InputError(f"{self.path}: has {self.proposed[0]} and no {other}; give both")
        labels = [name for name in ("model", "proposal") if name in self.file.names]
        self.names = (*_NAMES, "n_tokens", *labels, *_WEIGHT)

    def columns(self, kinds: Kinds, group: int | None = None) -> Iterator[pa.RecordBatch]:
        """Stream columns as they are."""
        return self.file.columns(kinds, group)

    def place(self, row: int) -> str:
        """Name a row, counted from 0, as users do."""
        return self.file.place(row)

    def batches(self, kinds: Kinds, group: int = 0) -> Iterator[RowBatch]:
        """Stream columns of one group of rows, with log p and log q made of those of thoughts."""
        plain = {name: _NAMES.get(name, name) for name in kinds if name not in _WEIGHT}
        wanted = {own: kinds[name] for name, own in plain.items()}
        weighed = any(name in kinds for name in _WEIGHT)
        wanted |= dict.fromkeys(["log_p_answer", *self.proposed] if weighed else [], pa.float64())
        wanted |= {"cut": pa.int64()} if weighed and "cut" in self.file.names else {}
        for batch in self.file.batches(wanted, group):
            found = {name: batch.columns[own] for name, own in plain.items()}
            if weighed:
                self.check_logarithms(batch)
                answer = batch.columns["log_p_answer"]
                if self._cut_right:
                    answer = np.where(batch.columns["cut"] == 1, 0.0, answer)
                own = [batch.columns[name] for name in self.proposed] or [np.zeros_like(answer)] * 2
                found |= {"log_p": answer + own[0], "log_q": own[1]}
            yield RowBatch(batch.first, found)

    def check_logarithms(self, batch: RowBatch) -> None:
        """Refuse what is no logarithm of a probability."""
        answer = batch.columns["log_p_answer"]
        self.file.check(batch, "log_p_answer", ~(answer <= 0), "nats, at most 0, or -inf")
        for name in self.proposed:
            drawn = batch.columns[name]
            wrong = ~((drawn <= 0) & np.isfinite(drawn))
            self.file.check(batch, name, wrong, "finite nats, at most 0: the thought was drawn")
        if "cut" in batch.columns:
            cut = batch.columns["cut"]
            self.file.check(batch, "cut", (cut != 0) & (cut != 1), "0 or 1")
            wrong = (cut == 1) & (answer > -math.inf)
            self.file.check(batch, "log_p_answer", wrong, "-inf, as the thought was cut")


def check_alike(files: Sequence[ThoughtFile]) -> None:
    """Refuse shards of several models, or of thoughts that were drawn in several ways."""
    known: dict[str, object] = {}
    for file in files:
        if RECORD_KEY not in file.file.metadata:  # of another program
            continue
        record = parse_record(file.path, file.file.metadata[RECORD_KEY])
        known[str(file.path)] = record.get("options"), record.get("checkpoint_hash")
        first = next(iter(known))
        if known[str(file.path)] != known[first]:
            raise InputError(
                f"{file.path}: has thoughts of another model, or of other options, than {first}; "
                "give the shards of one folder"
            )


class ThoughtSums(NamedTuple):
    """What is said of thoughts beside the estimates; a perplexity is None where it is not known.

    `silent` are instances to whose answer no thought gives a probability above 0. `no_thought` and
    `greedy` are perplexities with no thought, and the greedy one, infinite where an answer is
    impossible; `no_greedy` prompts have a greedy thought without an answer, of the others are
    `greedy_of_others` and `all_of_others`. `cut` is the mean over prompts of the estimated P(cut |
    x); `all_cut_right` the perplexity where every cut thought would surely have given the answer:
    with weights p(z | x) / q(z) for cut thoughts, the mean estimates p_cap(y | x) + P(cut | x).
    """

    prompts: int
    silent: list[int]
    no_thought: float | None
    greedy: float | None
    no_greedy: int
    greedy_of_others: float | None
    all_of_others: float | None
    cut: float | None
    all_cut_right: float | None

    def lines(self) -> Iterator[str]:
        """Say it in words."""
        if self.no_thought is not None:
            yield f"With no thought the perplexity is {self.no_thought:.6g}."
        if self.greedy is not None:
            told = f"With the greedy thought of each prompt it is {self.greedy:.6g}"
            if self.no_greedy:
                told += f": {self.no_greedy:,} of {self.prompts:,} greedy thoughts give no answer"
            if self.no_greedy and self.greedy_of_others is not None:
                told += f"; of the other prompts it is {self.greedy_of_others:.6g}, "
                told += f"by all thoughts {self.all_of_others:.6g}"
            yield told + "."
        if self.cut is not None:
            told = f"Thoughts that were cut have {self.cut:.1%} of the probability"
            if self.cut and self.all_cut_right is not None:
                told += ", and count as thoughts with no answer; had all of them given it, the "
                told += f"perplexity would be {self.all_cut_right:.6g}"
            yield told + "."
        if self.silent:
            named = ", ".join(map(str, self.silent[:3])) + ", ..." * (len(self.silent) > 3)
            yield (
                f"No thought of {len(self.silent):,} of {self.prompts:,} prompts gives the answer "
                f"a probability (instance {named}): the perplexity is infinite; draw more or "
                "longer thoughts, or show the answer."
            )


class _Prompt(NamedTuple):
    """What is summed of a prompt; logarithms of sums over its thoughts."""

    rows: int
    answered: float  # of weights
    cut: float  # of p(z | x) / q(z) of those that were cut
    alone: tuple[float, ...]  # n_tokens, and of `_ALONE` what is there

    def with_more(self, other: _Prompt) -> _Prompt:
        """Add thoughts of the same prompt."""
        answered, cut = (
            float(np.logaddexp(own, more)) for own, more in zip(self[1:3], other[1:3], strict=True)
        )
        return _Prompt(self.rows + other.rows, answered, cut, self.alone)


def _prompts(
    file: ThoughtFile, batch: RowBatch, alone: Sequence[str]
) -> Iterator[tuple[int, _Prompt]]:
    """Sum up the thoughts of each prompt in a batch."""
    file.check_logarithms(batch)
    held = batch.columns
    first = held["instance"]
    drawn = np.zeros(len(first))
    if file.proposed:
        drawn = held["log_p_thought"] - held["log_q_thought"]
    weights = drawn + held["log_p_answer"]
    cut = np.where(held["cut"] == 1, drawn, -math.inf) if "cut" in held else drawn - math.inf
    order = np.argsort(first, kind="stable")
    names, starts = np.unique(first[order], return_index=True)
    for name, rows in zip(names.tolist(), np.split(order, starts[1:]), strict=True):
        numbers = tuple(float(held[column][rows[0]]) for column in ("n_tokens", *alone))
        answered, lost = (float(np.logaddexp.reduce(held[rows])) for held in (weights, cut))
        yield name, _Prompt(len(rows), answered, lost, numbers)


def sum_thoughts(files: Sequence[ThoughtFile]) -> ThoughtSums:
    """Sum up what files of thoughts say; a few numbers of a prompt are held."""
    shared = set.intersection(*(set(file.file.names) for file in files))
    alone = [name for name in _ALONE if name in shared]
    found: dict[int, _Prompt] = {}
    for file in files:
        kinds = {"instance": pa.int64(), "n_tokens": pa.int64()}
        kinds |= dict.fromkeys(("log_p_answer", *file.proposed, *alone), pa.float64())
        kinds |= {"cut": pa.int64()} if "cut" in shared else {}
        for group in range(file.n_groups):
            for batch in file.file.batches(kinds, group):
                for name, one in _prompts(file, batch, alone):
                    found[name] = found[name].with_more(one) if name in found else one
    prompts = list(found.values())
    log_p = [one.answered - math.log(one.rows) for one in prompts]
    tokens = np.array([one.alone[0] for one in prompts])

    def perplexity(log_probs: Sequence[float], among: np.ndarray | None = None) -> float | None:
        among = np.ones(len(tokens), bool) if among is None else among
        if not among.any():
            return None
        return float(
            to_perplexity(float(np.array(log_probs)[among].sum()), int(tokens[among].sum()))
        )

    beside = {name: [one.alone[1 + place] for one in prompts] for place, name in enumerate(alone)}
    greedy = beside.get(_ALONE[1], [])
    ended = np.isfinite(greedy)
    known = "cut" in shared
    both = [min(0.0, float(np.logaddexp(x.answered, x.cut)) - math.log(x.rows)) for x in prompts]
    shares = [math.exp(one.cut) / one.rows for one in prompts]
    return ThoughtSums(
        len(found),
        sorted(name for name, one in found.items() if one.answered == -math.inf),
        perplexity(beside[_ALONE[0]]) if _ALONE[0] in beside else None,
        perplexity(greedy) if greedy else None,
        int((~ended).sum()),
        perplexity(greedy, ended) if greedy else None,
        perplexity(log_p, ended) if greedy else None,
        float(np.mean(shares)) if known else None,
        perplexity(both) if known else None,
    )


def any_length_bounds(
    files: Sequence[ThoughtFile],
    estimates: pa.Table,
    labels: WeightLabels,
    options: ReductionOptions,
    seed: int,
) -> list[dict[str, Any]]:
    """Enclose the perplexity of p itself: cut thoughts all wrong above, all right below.

    p_cap <= p <= p_cap + P(cut): the upper end is that of p_cap, of `estimates`, the lower one that
    of the weights with which every cut thought gives the answer. Claimed where both are.
    """
    right = [ThoughtFile(one.file, cut_right=True) for one in files]
    plain = replace(options, subsets=0, bootstrap=0)
    both = reduce_weights(WeightReader(right, labels), options=plain, seed=seed, progress=True)

    def ends(table: pa.Table) -> dict[tuple[Any, ...], dict[str, Any]]:
        rows = (row for row in table.to_pylist() if row["bound"] in (TWO_SIDED, TWO_SIDED_UNSURE))
        known = (row for row in rows if row["measure"] == "perplexity")
        return {(row["model"], row["proposal"]): row for row in known}

    lower = ends(estimates_table(both))
    return [
        {"model": key[0], "proposal": key[1], "low": lower[key]["low"], "high": row["high"]}
        | {"claimed": row["bound"] == lower[key]["bound"] == TWO_SIDED}
        for key, row in ends(estimates).items()
        if key in lower
    ]

"""Reduce the samples of all instances: one pass over them, of each a few numbers are kept."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tqdm import tqdm

from beyond_perplexity.importance.estimators.contract import Estimator, Inputs
from beyond_perplexity.importance.estimators.registry import load_estimators
from beyond_perplexity.importance.options import ReductionOptions
from beyond_perplexity.importance.reading.labels import WeightLabels
from beyond_perplexity.importance.reading.side_files import read_draws
from beyond_perplexity.importance.reading.weights import WeightReader


@dataclass(frozen=True)
class Reduction:
    """The reduced samples of one model and proposal; `tables` turns them into tables.

    Attributes
    ----------
    inputs : Inputs
        What was reduced.
    estimators : tuple of (str, Estimator)
        Every estimator whose needs are met, one for each of its settings, after its method.
    penalized : Reduction or None
        The same of log p(x, z) with unknown words penalized; None where each costs ln U.
    """

    inputs: Inputs
    estimators: tuple[tuple[str, Estimator], ...]
    penalized: Reduction | None = None


def reduce_weights(
    reader: WeightReader,
    draws: Mapping[str, Any] | None = None,
    options: ReductionOptions | None = None,
    seed: int = 0,
    progress: bool = False,
) -> Reduction:
    """Reduce all samples of one model and one proposal.

    Parameters
    ----------
    reader : WeightReader
        The samples.
    draws : dict of str to object, optional
        Other kinds of draws of the same instances, `reading.rows.DRAW_READERS`.
    options : ReductionOptions, optional
        How much is drawn.
    seed : int
        Seed of the subsets, pairings and bootstraps.
    progress : bool
        Whether to show a bar on stderr.

    Returns
    -------
    Reduction

    Raises
    ------
    InputError
        When a row of the files is not as it must be.
    """
    inputs = Inputs(reader, draws or {}, options or ReductionOptions(), seed)
    estimators = tuple(
        (method, one) for method, kind in load_estimators().items() for one in kind.of(inputs)
    )
    total = len(reader.instance_ids)
    for instance in tqdm(reader, total=total, mininterval=1, disable=not progress, unit="instance"):
        for _, estimator in estimators:
            estimator.add(instance)
    for _, estimator in estimators:
        estimator.finish()
    return Reduction(inputs, estimators)


def reduce_files(
    given: argparse.Namespace, labels: WeightLabels, options: ReductionOptions
) -> Reduction:
    """Reduce the files that flags name: twice where copies are spared the unknown penalty.

    Parameters
    ----------
    given : argparse.Namespace
        With ``weights``, ``log_q``, ``seed`` and the flags of `add_draw_flags`.
    labels : WeightLabels
        In place of the footers'.
    options : ReductionOptions

    Raises
    ------
    InputError
        When a row of the files is not as it must be.
    """
    reader = WeightReader(given.weights, labels, log_q=given.log_q)
    found = reduce_weights(reader, read_draws(given, reader), options, given.seed, True)
    if not reader.has_penalized:
        return found
    other = WeightReader(given.weights, labels, log_q=given.log_q, penalized=True)
    charged = reduce_weights(other, read_draws(given, other), options, given.seed, True)
    return replace(found, penalized=charged)

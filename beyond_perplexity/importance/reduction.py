"""Reduce the samples of all instances: one pass over them, of each a few numbers are kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tqdm import tqdm

from beyond_perplexity.importance.estimators.contract import Estimator, Inputs
from beyond_perplexity.importance.estimators.registry import load_estimators
from beyond_perplexity.importance.options import ReductionOptions
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
    """

    inputs: Inputs
    estimators: tuple[tuple[str, Estimator], ...]


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

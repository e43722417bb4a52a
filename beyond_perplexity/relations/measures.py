"""Every measure of every paper, side by side: a row for each model, decoding and measure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from beyond_perplexity.inference.thresholds import EFFECTIVE_GROUPS
from beyond_perplexity.relations.document_sums import DocumentSums, resampled_values
from beyond_perplexity.relations.readers import (
    PERPLEXITY,
    contrast_sums,
    perplexity_sums,
    semantic_sums,
    tendency_rows,
)
from beyond_perplexity.schemas.relations import RELATION_MEASURES

FEW_DOCUMENTS = f"fewer than {EFFECTIVE_GROUPS} effective groups: no error, no probability"


class RelatedFiles(NamedTuple):
    """The files of one corpus.

    Attributes
    ----------
    perplexities, tendencies, contrasts, semantics : sequence of str
        See `readers`.
    """

    perplexities: Sequence[str] = ()
    tendencies: Sequence[str] = ()
    contrasts: Sequence[str] = ()
    semantics: Sequence[str] = ()


class RelationOptions(NamedTuple):
    """How measures are taken and resampled.

    Attributes
    ----------
    split : str
        Of the semantic measures.
    level, base_level : float
        Of contrastive entropy, and what its ratio divides by.
    confidence : float
        Of the upper limits of tendencies.
    resamples : int
        Of the documents.
    seed : int
    """

    split: str = "test"
    level: float = 0.3
    base_level: float = 0.1
    confidence: float = 0.95
    resamples: int = 1_999
    seed: int = 1


@dataclass(frozen=True, eq=False)
class RelatedMeasures:
    """All measures, and those of them that were resampled.

    Attributes
    ----------
    rows : list of dict
        Schema ``relation_measures``.
    sums : dict of str to DocumentSums
        By the key of the measure.
    draws : dict of str to ndarray of float64, shape (R, M)
        Of each of these, the values of its models in the resamples.
    """

    rows: list[dict[str, Any]]
    sums: dict[str, DocumentSums]
    draws: dict[str, np.ndarray]

    def table(self) -> pa.Table:
        """Return the rows as a table of schema ``relation_measures``."""
        return pa.Table.from_pylist(self.rows, RELATION_MEASURES)


def _document_rows(held: DocumentSums, draws: np.ndarray) -> Iterator[dict[str, Any]]:
    values = held.values(np.ones((1, len(held.groups))))[0]
    few = held.effective < EFFECTIVE_GROUPS
    for place, model in enumerate(held.models):
        value, drawn = float(values[place]), draws[:, place]
        known = math.isfinite(value) and not few
        yield {
            "model": model,
            "decoding": None,
            "subject": held.subject,
            "measure": held.measure,
            "title": held.title,
            "value": None if math.isnan(value) else value,
            "error": float(np.std(drawn, ddof=1)) if known and len(drawn) > 1 else None,
            "direction": 1 if held.higher else -1,
            "note": FEW_DOCUMENTS if few else "",
        }


def _unscored(model: str) -> dict[str, Any]:
    return {
        **dict.fromkeys(RELATION_MEASURES.names),
        "model": model,
        "subject": PERPLEXITY,
        "measure": PERPLEXITY,
        "title": "Bits per byte",
        "direction": -1,
        "note": "is not scored on the text that the others are scored on",
    }


def gather_measures(files: RelatedFiles, options: RelationOptions) -> RelatedMeasures:
    """Read the measures of all papers and resample the documents of those that are sums over them.

    Parameters
    ----------
    files : RelatedFiles
    options : RelationOptions

    Returns
    -------
    RelatedMeasures
        Perplexity, contrastive and semantic measures belong to a model; tendencies to its text
        under a decoding.

    Raises
    ------
    InputError
        As the functions of `readers`.
    """
    perplexity, others = perplexity_sums(files.perplexities)
    held = [
        *([perplexity] if perplexity else []),
        *contrast_sums(files.contrasts, options.level, options.base_level),
        *semantic_sums(files.semantics, options.split),
    ]
    draws = resampled_values(held, options.resamples, options.seed)
    rows = [row for one in held for row in _document_rows(one, draws[one.measure])]
    rows += [_unscored(model) for model in others]
    rows += tendency_rows(files.tendencies, options.confidence)
    return RelatedMeasures(rows, {one.measure: one for one in held}, draws)

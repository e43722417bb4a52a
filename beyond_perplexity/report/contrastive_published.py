"""The values that Arora and Rangarajan (2016) print in their Tables 2 and 3, copied by hand.

They are of sections 23 and 24 of the Penn Treebank's Wall Street Journal (82,000 tokens), with
10,000 words. The base of the logarithm is printed nowhere; H_C is per word of the models of words,
per sentence of those of sentences. The authors' program for the latter prints H_C of each draw, and
last 2 to the power of their mean: which of them the tables have cannot be told. Of sRNN-75(10) the
ratio at 50% is not that of Table 2's values, 4.71.

References
----------
Arora, Rangarajan (2016). Contrastive Entropy: A new evaluation metric for unnormalized language
models. arXiv:1601.00248.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from beyond_perplexity.figures.measure_names import PAPER_LEVELS, TrainedOn, training_margins
from beyond_perplexity.schemas.contrastive import CONTRASTIVE_ENTROPY

CONTRAST_CITATION = "Arora & Rangarajan 2016"
CONTRAST_COLUMN = "published"
CONTRAST_NOTE = (
    f"Columns 'published': {CONTRAST_CITATION}, on the Penn Treebank (82,000 test words, 10,000 "
    "types), in a logarithm that they do not name; of sentence RNNs their program prints 2 to the "
    "power of H_C: compare the pattern, not the digits."
)


class PublishedContrasts(NamedTuple):
    """A row of both tables, with the paper's name of the model and the unit of its entropies.

    Entropies are at `PAPER_LEVELS`, ratios those of the levels after the first to the first; the
    perplexity is None where the paper has a dash.
    """

    title: str
    unit: str
    perplexity: float | None
    entropies: tuple[float, ...]
    ratios: tuple[float, ...]

    def find(self, measure: str, level: float, base_level: float | None = None) -> float | None:
        """Return the printed value of a measure at a level; None where there is none."""
        levels = PAPER_LEVELS if measure == CONTRASTIVE_ENTROPY else PAPER_LEVELS[1:]
        values = self.entropies if measure == CONTRASTIVE_ENTROPY else self.ratios
        if measure != CONTRASTIVE_ENTROPY and not _same(base_level, PAPER_LEVELS[0]):
            return None
        return next((v for at, v in zip(levels, values, strict=True) if _same(at, level)), None)


def _same(one: float | None, other: float) -> bool:
    return one is not None and math.isclose(one, other)


PUBLISHED_CONTRASTS = {
    "kneser-ney 3": PublishedContrasts(
        "3-gram KN", "word", 148.28, (1.993, 4.179, 5.279), (2.096, 2.649)
    ),
    "kneser-ney 5": PublishedContrasts(
        "5-gram KN", "word", 141.46, (2.021, 4.198, 5.308), (2.077, 2.626)
    ),
    "rnn classes": PublishedContrasts("RNN", "word", 141.31, (2.546, 5.339, 6.609), (2.097, 2.596)),
    "sentence-rnn 75 0.5": PublishedContrasts(
        "sRNN-75(50)", "sentence", None, (1.978, 3.961, 6.477), (2.002, 3.275)
    ),
    "sentence-rnn 75 0.1": PublishedContrasts(
        "sRNN-75(10)", "sentence", None, (2.339, 6.759, 11.01), (2.890, 5.257)
    ),
    "sentence-rnn 150 0.1": PublishedContrasts(
        "sRNN-150(10)", "sentence", None, (2.547, 7.581, 12.925), (2.976, 5.074)
    ),
}


def published_contrasts(
    models: Mapping[str, Mapping[str, Any]],
) -> dict[str, PublishedContrasts]:
    """Find the rows of the paper that models (``model.json`` by name) are the counterparts of."""
    margins = training_margins(models)
    keys = {name: _key(model, margins.get(name)) for name, model in models.items()}
    return {n: PUBLISHED_CONTRASTS[key] for n, key in keys.items() if key in PUBLISHED_CONTRASTS}


def _key(model: Mapping[str, Any], margin: TrainedOn | None) -> str:
    """Name a model as the rows are named: by family and what the paper says of it."""
    family, architecture = str(model.get("family")), model.get("config", {}).get("architecture", {})
    if margin:
        return f"{family} {margin.size} {margin.margin:g}"
    order, classes = architecture.get("order"), "classes" if architecture.get("classes") else None
    return " ".join(str(part) for part in (family, order, classes) if part)

"""The values that the semantic evaluation paper prints in its Tables I and II, copied by hand.

Each is of the validation and of the test split; similarities are multiplied by 100. What repeats
and what contradicts itself in them is in `PUBLISHED_FAULTS`; all are given as printed. The text at
hand begins with its abstract and names neither title nor authors: it is cited as "the paper".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

PAPER_MEASURES = (
    *("bleu_2", "bleu_3", "bleu_4", "cosine", "wmd"),
    *("infersent", "skipthought", "transformer", "perplexity"),
)
# What the paper calls its models, by their family.
_PAPER_FAMILIES = {"gru": "GRU", "lstm": "LSTM", "transformer-adaptive-softmax": "Transformer"}
_SCHEDULED = "-SS"
PAPER_MODELS = ("GRU", "GRU-SS", "LSTM", "LSTM-SS", "Transformer")
PAPER_SPLITS = ("valid", "test")

_PRINTED = {
    "Table I (Penn Treebank)": """
24.12/25.98 11.54/12.76 7.71/7.83 69.63/68.20 78.31/79.53 80.52/82.59 87.10/91.23 83.02/81.48 91.45/86.12
26.40/26.11 12.79/13.14 8.56/9.51 72.59/74.19 80.93/80.16 88.48/90.10 92.14/93.72 85.09/82.02 87.21/82.08
26.09/26.20 12.56/12.24 8.34/8.91 68.91/70.08 81.04/80.23 82.01/84.91 84.02/84.33 82.77/82.03 89.32/83.27
27.90/28.63 13.15/13.87 8.80/9.04 73.59/72.48 81.43/82.78 84.42/85.06 90.28/91.70 86.10/86.24 84.71/81.11
31.49/30.29 14.08/14.82 9.12/9.35 72.09/71.16 79.20/76.25 90.63/91.52 88.02/89.50 84.10/84.55 82.07/79.83
""",  # noqa: E501  lines of the paper
    "Table II (WikiText-2)": """
16.24/16.63 7.02/7.71 4.09/4.68 65.30/63.08 74.95/75.49 76.91/78.02 81.27/79.43 80.22/82.76 148.62/132.90
16.90/17.07 7.56/7.98 4.35/4.85 67.01/65.48 75.22/75.86 83.78/85.93 84.11/86.03 81.27/79.43 141.31/127.80
16.58/16.84 7.31/7.76 4.09/4.68 64.15/61.59 76.71/78.03 80.02/76.37 81.90/79.68 81.26/81.52 150.02/137.11
17.82/17.49 8.18/8.02 4.09/4.68 69.42/71.09 77.22/80.11 82.01/83.17 83.20/85.41 83.15/85.79 141.66/135.19
17.49/17.83 7.25/7.70 3.59/3.85 69.24/72.47 76.95/78.20 82.12/88.28 80.43/84.69 87.35/85.71 120.31/117.98
""",  # noqa: E501
}

PUBLISHED_FAULTS = (
    "In Table II BLEU-4 of GRU, LSTM and LSTM-SS is the same in both splits (4.09/4.68), and "
    "SkipThought of GRU is Transformer of GRU-SS (81.27/79.43). The caption of Table I says that "
    "perplexity is left out, but it stands there. The text says that the supervised evaluator "
    "scores lower: InferSent is below SkipThought in 15 of 20 cells, below Transformer in 11. The "
    "text has a cosine of .82 become .8; equation 13 makes .55 of it, and .88 of 1."
)


class PaperCell(NamedTuple):
    """A printed pair of numbers, of validation and test, as printed."""

    valid: float
    test: float


def _parse(text: str) -> dict[str, dict[str, PaperCell]]:
    rows = [line.split() for line in text.strip().splitlines()]
    cells = [[PaperCell(*map(float, cell.split("/"))) for cell in row] for row in rows]
    return {
        model: dict(zip(PAPER_MEASURES, row, strict=True))
        for model, row in zip(PAPER_MODELS, cells, strict=True)
    }


PUBLISHED_SEMANTICS = {table: _parse(text) for table, text in _PRINTED.items()}
# What a CSV calls them.
COLUMN_OF_TABLE = dict(
    zip(_PRINTED, ("published_penn_treebank", "published_wikitext_2"), strict=True)
)


def paper_model(description: Mapping[str, Any]) -> str | None:
    """Return the paper's model that a model (its ``model.json``) is the counterpart of."""
    name = _PAPER_FAMILIES.get(str(description.get("family")), "")
    name += _SCHEDULED if is_scheduled(description) else ""
    return name if name in PAPER_MODELS else None


def is_scheduled(description: Mapping[str, Any]) -> bool:
    """Tell whether a model was trained on its own words as well."""
    given = description.get("training", {}).get("scheduled_sampling")
    return given not in (None, "none")


def scheduled_pairs(models: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Pair models of one architecture and vocabulary: without scheduled sampling, with it."""

    def rest(description: Mapping[str, Any]) -> tuple[Any, ...]:
        return tuple(description.get(key) for key in ("family", "config", "vocabulary"))

    return [
        (plain, other)
        for plain, one in models.items()
        for other, two in models.items()
        if not is_scheduled(one) and is_scheduled(two) and rest(one) == rest(two)
    ]


def published_wins(table: str) -> tuple[int, int]:
    """Count the printed similarities that scheduled sampling makes higher, and all."""
    held = PUBLISHED_SEMANTICS[table]
    pairs = [
        (held[name][measure][split], held[f"{name}-SS"][measure][split])
        for name in ("GRU", "LSTM")
        for measure in PAPER_MEASURES[:-1]
        for split in range(len(PAPER_SPLITS))
    ]
    return sum(scheduled > plain for plain, scheduled in pairs), len(pairs)


def published_lower(measure: str, than: str) -> tuple[int, int]:
    """Count the printed cells in which a measure is below another, and all, of both tables."""
    pairs = [
        (row[measure][split], row[than][split])
        for held in PUBLISHED_SEMANTICS.values()
        for row in held.values()
        for split in range(len(PAPER_SPLITS))
    ]
    return sum(one < two for one, two in pairs), len(pairs)

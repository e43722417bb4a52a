"""The values that papers print (``published.toml``), by what they are of."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from beyond_perplexity.figures.measure_names import PAPER_LEVELS
from beyond_perplexity.schemas.contrastive import CONTRASTIVE_ENTROPY

_PRINTED: dict[str, Any] = tomllib.loads(
    Path(__file__).with_name("published.toml").read_text(encoding="utf-8")
)
COLUMN = "published"

# ---- tendencies ----

OWN, PAPER = "this run", "published"
PUBLISHED_NOTE = (
    f"Columns '{PAPER}': Meister & Cotterell 2021, on 1M documents of English Wikipedia."
)
_TENDENCIES = _PRINTED["tendencies"]
PUBLISHED_FAMILIES, PUBLISHED_KINDS = (tuple(_TENDENCIES[k]) for k in ("families", "kinds"))
PARAMETERS = dict(zip(PUBLISHED_FAMILIES, _TENDENCIES["parameters"], strict=False))
PERPLEXITIES = dict(zip(PUBLISHED_FAMILIES, _TENDENCIES["perplexities"], strict=False))
TEST_SET = {
    (tendency, measure): value
    for tendency, held in _TENDENCIES["test_set"].items()
    for measure, value in held.items()
}


class PublishedValue(NamedTuple):
    """A printed number and the stars printed beside it."""

    value: float
    stars: str = ""


def published(tendency: str, measure: str, family: str, kind: str) -> PublishedValue | None:
    """Look a printed value up, by family and kind of decoding; None when the paper has none."""
    if not is_published(tendency, measure):
        return None
    if family not in PUBLISHED_FAMILIES or kind not in PUBLISHED_KINDS:
        return None
    lines = _TENDENCIES["tables"][tendency][measure].strip().splitlines()
    text = lines[PUBLISHED_FAMILIES.index(family)].split()[PUBLISHED_KINDS.index(kind)]
    number = text.rstrip("*")
    return None if text == "-" else PublishedValue(float(number), text[len(number) :])


def is_published(tendency: str, measure: str) -> bool:
    """Return whether the paper has values of a measure."""
    return measure in _TENDENCIES["tables"].get(tendency, {})


# ---- contrastive entropy ----


class PublishedContrasts(NamedTuple):
    """A row of both tables: entropies at `PAPER_LEVELS`, ratios of the later ones to the first."""

    title: str
    unit: str
    entropies: list[float]
    ratios: list[float]
    perplexity: float | None = None

    def find(self, measure: str, level: float, base_level: float | None = None) -> float | None:
        """Return the printed value of a measure at a level; None where there is none."""
        levels: Sequence[float] = PAPER_LEVELS
        values = self.entropies
        if measure != CONTRASTIVE_ENTROPY:
            if base_level is None or not math.isclose(base_level, PAPER_LEVELS[0]):
                return None
            levels, values = PAPER_LEVELS[1:], self.ratios
        pairs = zip(levels, values, strict=True)
        return next((value for at, value in pairs if math.isclose(at, level)), None)


# By family and what the paper says of the model.
_ROWS = _PRINTED["contrastive"].items()
PUBLISHED_CONTRASTS = {key: PublishedContrasts(**row) for key, row in _ROWS}

# ---- meaning ----

PAPER_MEASURES, PAPER_MODELS = (tuple(_PRINTED["semantics"][k]) for k in ("measures", "models"))


class PaperCell(NamedTuple):
    """A printed pair of numbers, of validation and test, as printed."""

    valid: float
    test: float


PUBLISHED_SEMANTICS: dict[str, dict[str, dict[str, PaperCell]]] = {
    table: {
        model: {
            measure: PaperCell(*map(float, cell.split("/")))
            for measure, cell in zip(PAPER_MEASURES, line.split(), strict=True)
        }
        for model, line in zip(PAPER_MODELS, text.strip().splitlines(), strict=True)
    }
    for table, text in _PRINTED["semantics"]["tables"].items()
}


def published_wins(table: str) -> tuple[int, int]:
    """Count the printed similarities that scheduled sampling makes higher, and all."""
    held = PUBLISHED_SEMANTICS[table]
    pairs = [
        pair
        for name in ("GRU", "LSTM")
        for measure in PAPER_MEASURES[:-1]
        for pair in zip(held[name][measure], held[f"{name}-SS"][measure], strict=True)
    ]
    return sum(scheduled > plain for plain, scheduled in pairs), len(pairs)


def published_lower(measure: str, than: str) -> tuple[int, int]:
    """Count the printed cells in which a measure is below another, and all, of both tables."""
    pairs = [
        pair
        for held in PUBLISHED_SEMANTICS.values()
        for row in held.values()
        for pair in zip(row[measure], row[than], strict=True)
    ]
    return sum(one < two for one, two in pairs), len(pairs)


# ---- importance sampling ----

_IMPORTANCE = dict(_PRINTED["importance"])
_SETTINGS = _IMPORTANCE.pop("settings")


def has_estimates(family: str) -> bool:
    """Tell whether the paper has estimates of a family."""
    return family in _IMPORTANCE


def published_estimate(family: str, level: str, setting: str) -> float | None:
    """Look up what Table 1 has of a setting at a level; None when the paper has none."""
    values = _IMPORTANCE.get(family, {}).get(level, ())
    return dict(zip(_SETTINGS, values, strict=False)).get(setting)


def published_beam(family: str, size: int) -> float | None:
    """Look up what Table 2 has of a size of the beam; None when the paper has none."""
    found: float | None = _IMPORTANCE[family]["beams"].get(str(size))
    return found

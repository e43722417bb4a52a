"""A model to audit by the name of its folder or on the hub, and how it reads a text."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch

from beyond_perplexity.corpus.external import read_cleaned
from beyond_perplexity.corpus.normalization import WHITE_SPACE_ONLY, Preprocessing
from beyond_perplexity.errors import InputError
from beyond_perplexity.models.checkpoint import DESCRIPTION, choose_device, load_model
from beyond_perplexity.models.contract import LanguageModel
from beyond_perplexity.models.families import FAMILIES, is_taken_as_it_is
from beyond_perplexity.models.registry import find_bring
from beyond_perplexity.scoring.documents import TextKind
from beyond_perplexity.vocabulary import BPEVocabulary, ClosedVocabulary, Vocabulary

AUDIT_PRECISIONS = {kind: getattr(torch, kind) for kind in ("float32", "bfloat16", "float16")}


class AuditedModel(NamedTuple):
    """A model and how it reads.

    Attributes
    ----------
    model : LanguageModel
    vocabulary : Vocabulary
    cleaning : Preprocessing or None
        How a text is cleaned for it; None: it reads any text as it is.
    """

    model: LanguageModel
    vocabulary: Vocabulary
    cleaning: Preprocessing | None

    @property
    def kind(self) -> TextKind:
        """Which string is scored."""
        return "cleaned" if self.cleaning else "raw"

    def read(self, path: str | Path) -> Iterator[str]:
        """Stream the documents of a file as the model reads them; empty ones are left out."""
        for batch in read_cleaned(Path(path), self.cleaning):
            yield from (text for text in batch if text.strip())


def load_audited(
    name: str | Path, device: str = "auto", precision: str = "float32"
) -> AuditedModel:
    """Load a model of this package or one that is brought.

    Parameters
    ----------
    name : str or path
        A folder of this package's or of a library's whose models it takes, or a name on a hub.
    device : str
        ``"auto"`` takes a GPU where there is one.
    precision : str
        A key of `AUDIT_PRECISIONS`: the type that weights are rounded to.

    Raises
    ------
    InputError
        When there is no such model, its folder is damaged, or it has no likelihood.
    """
    if precision not in AUDIT_PRECISIONS:
        known = ", ".join(AUDIT_PRECISIONS)
        raise InputError(f"precision: is {precision!r:.40}, expected one of {known}")
    if (Path(name) / DESCRIPTION).is_file():
        model, vocabulary, description = load_model(name, device)
        cleaning = _cleaning_of(description)
    else:
        model, vocabulary, cleaning = *_bring(str(name), choose_device(device)), None
    return AuditedModel(model.to(AUDIT_PRECISIONS[precision]), vocabulary, cleaning)


def held_in_memory(model: LanguageModel, vocabulary: Vocabulary | None) -> AuditedModel:
    """Take a model in memory with its vocabulary.

    One of this package reads words joined by one blank, and texts are split at white space for it.

    Raises
    ------
    InputError
        When the vocabulary is missing.
    """
    if vocabulary is None:
        raise InputError("vocabulary: is missing; give that of the model in memory")
    words = isinstance(vocabulary, ClosedVocabulary | BPEVocabulary)
    return AuditedModel(model, vocabulary, WHITE_SPACE_ONLY if words else None)


def _cleaning_of(description: dict[str, Any]) -> Preprocessing | None:
    """Return how a model's corpus was cleaned; None: it is made for plain text."""
    if is_taken_as_it_is(description["config"]["family"], description.get("training")):
        return None
    return Preprocessing.from_config(description.get("preprocessing", {}))


def _bring(name: str, device: torch.device) -> tuple[LanguageModel, Vocabulary]:
    """Take a model by the first family that brings one of that name."""
    if not Path(name).is_dir() and (Path(name).is_absolute() or name.count("/") > 1):
        raise InputError(f"{name}: is no folder; give that of a model, or a name on a hub")
    for family in FAMILIES:
        bring = find_bring(family) if FAMILIES[family].bring else None
        if bring is not None:
            model, vocabulary, _ = bring({"path": name}, None)
            return model.to(device), vocabulary
    raise InputError(f"{name}: is no model folder, it has no {DESCRIPTION}")

"""Open whatever model a user names: a folder of a run, or of another program, or of its hub."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

import torch

from beyond_perplexity.errors import InputError
from beyond_perplexity.models import registry
from beyond_perplexity.models.checkpoint import (
    DESCRIPTION,
    WEIGHTS,
    choose_device,
    load_any,
    load_model,
)
from beyond_perplexity.models.contract import LanguageModel, TrainedModel
from beyond_perplexity.models.families import FAMILIES, families_of
from beyond_perplexity.vocabulary import Vocabulary

_HUB_NAME = re.compile(r"\w[\w.-]*(/\w[\w.-]*)?")


class OpenedModel(NamedTuple):
    """A model that is ready to score.

    Attributes
    ----------
    model : TrainedModel
        In evaluation mode.
    vocabulary : Vocabulary
    description : dict
        What ``model.json`` says; of a model of another program its ``config`` and ``source``: path,
        commit of the hub, SHA-256 of its weights by file.
    weights : pathlib.Path or None
        The file of its weights; None for a model of another program, whose hashes are in `source`.
    """

    model: TrainedModel
    vocabulary: Vocabulary
    description: dict[str, Any]
    weights: Path | None

    @property
    def source(self) -> dict[str, Any]:
        """What identifies it in a record of a run, where `weights` does not."""
        return {} if self.weights else {"source": self.description["source"]}


def is_foreign(name: str) -> bool:
    """Say whether a name is no folder of a run: another program's, or a name on its hub."""
    return not Path(name, DESCRIPTION).exists()


def open_any(name: str, device: str | torch.device = "cpu") -> OpenedModel:
    """Open a model of any kind.

    Parameters
    ----------
    name : str
        A folder of a run; a folder of another program, such as `save_pretrained` writes it; or the
        name of a model on the hub, which is fetched. Nothing of it is executed or unpickled.
    device : str or torch.device
        Where the model goes; ``"auto"`` takes a GPU where there is one.

    Raises
    ------
    InputError
        When there is no such model, or it is none that can be used here; in one line.
    """
    if not is_foreign(name):
        return OpenedModel(*load_any(name, device), Path(name, WEIGHTS))
    chosen = choose_device(device)
    family = _family_of(name)
    bring = registry.find_bring(family)
    assert bring is not None
    try:
        model, vocabulary, source = bring({"path": name}, None)
    except InputError as error:
        raise InputError(str(error).removeprefix("architecture.path: ")) from error
    description = {"config": model.config, "family": family, "source": source}
    return OpenedModel(model.to(chosen).eval(), vocabulary, description, None)


def open_scorer(name: str, device: str | torch.device = "cpu") -> tuple[LanguageModel, OpenedModel]:
    """Open a model whose likelihood is tractable; see `open_any`.

    Raises
    ------
    InputError
        As `open_any`; and when the likelihood of the model is not tractable.
    """
    if not is_foreign(name):
        model, vocabulary, description = load_model(name, device)
        return model, OpenedModel(model, vocabulary, description, Path(name, WEIGHTS))
    opened = open_any(name, device)
    assert isinstance(opened.model, LanguageModel)
    return opened.model, opened


def _family_of(name: str) -> str:
    """Tell by its files, or by its name, which program a model is of."""
    rows = {family: FAMILIES[family] for family in families_of("brought")}
    folder = Path(name)
    if folder.is_dir():
        for family, row in rows.items():
            if row.marker and (folder / row.marker).is_file():
                return family
        others = ", ".join(f"{row.marker} of {row.title}" for row in rows.values())
        raise InputError(f"{name}: is no model folder, it has no {DESCRIPTION} and no {others}")
    if folder.exists():
        raise InputError(f"{name}: is a file; give the folder of a model")
    if not _HUB_NAME.fullmatch(name):
        raise InputError(f"{name}: no such folder; give a model's folder or its name on the hub")
    return next(iter(rows))

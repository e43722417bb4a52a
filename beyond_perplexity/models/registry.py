"""Models by their family's name, and by the folder or name under which a user has one.

A folder has ``model.safetensors``, ``vocabulary.json`` and ``model.json``, written last: where it
is, the others are whole.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from pkgutil import resolve_name
from types import ModuleType
from typing import Any, NamedTuple, TypeVar, cast

import safetensors.torch
import torch
from torch import Tensor, nn

from beyond_perplexity.corpus.normalization import WHITE_SPACE_ONLY, Preprocessing
from beyond_perplexity.errors import InputError
from beyond_perplexity.models import families
from beyond_perplexity.models.contract import LanguageModel, TrainedModel
from beyond_perplexity.storage.inputs import brief_repr, read_json
from beyond_perplexity.storage.outputs import atomic_path, write_json
from beyond_perplexity.storage.provenance import content_hash, note_read
from beyond_perplexity.vocabulary import Vocabulary, load_vocabulary


def find(family: object) -> type[TrainedModel]:
    """Return the class of a family, if it has one."""
    row = families.find_row(family)
    if row.reference is None:
        how = "analytic, made of" if families.is_analytic(family) else "trained within"
        raise InputError(f"family: {family!r} is {how} its model, not by itself")
    return cast(type[TrainedModel], resolve_name(row.reference))


def find_language_model(family: object) -> type[LanguageModel]:
    """Return the class of a family whose likelihood is tractable."""
    found = find(family)
    if not issubclass(found, LanguageModel):
        lack = "has latent variables" if found.normalized else "scores sentences, unnormalized"
        raise InputError(f"family: {family!r} {lack}; its likelihood is estimated")
    return found


def find_training(family: object) -> type[Any]:
    """Return the dataclass of the options of a family's training."""
    return cast(type[Any], resolve_name(families.find_row(family).training))


def find_named(reference: str | None) -> Any:
    """Return the class or function that an entry of a row names; None where it names none."""
    return resolve_name(reference) if reference else None


def find_engines(family: str) -> ModuleType | None:
    """Return the module with a family's own decoding engines; None: the common ones are taken."""
    row = families.FAMILIES.get(family)
    return find_named(row.engines) if row else None


def build(
    config: Mapping[str, Any], vocabulary_size: int, open_vocabulary: bool = False
) -> LanguageModel:
    """Make an untrained model; where the vocabulary is open (BPE), ``<unk>`` has no probability."""
    kind: Callable[..., LanguageModel] = find_language_model(config.get("family"))
    return kind(vocabulary_size, config.get("architecture", {}), open_vocabulary)


_HUB_NAME = re.compile(r"\w[\w.-]*(/\w[\w.-]*)?")
_Model = TypeVar("_Model", bound=TrainedModel)

WEIGHTS, DESCRIPTION, VOCABULARY = "model.safetensors", "model.json", "vocabulary.json"


def save_tensors(
    path: str | os.PathLike[str],
    tensors: Mapping[str, Tensor],
    metadata: dict[str, str] | None = None,
    name: Callable[[Path], Path] | None = None,
) -> None:
    """Write named tensors to a safetensors file, atomically; shared memory is written twice."""
    whole = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    with atomic_path(path, name) as temporary:
        safetensors.torch.save_file(whole, temporary, metadata)


def save_model(
    folder: str | os.PathLike[str],
    model: TrainedModel,
    vocabulary: Vocabulary,
    extra: Mapping[str, Any],
) -> None:
    """Write a model folder; `extra` is what else belongs in ``model.json``, JSON-serializable."""
    folder = Path(folder)
    save_tensors(folder / WEIGHTS, model.state_dict())
    vocabulary.save(folder / VOCABULARY)
    description = {**extra, "config": model.config, "family": model.config["family"]}
    description |= {"parameters": model.parameter_count()}
    description |= {"weights_sha256": content_hash(folder / WEIGHTS)}
    words = {"kind": vocabulary.kind, "size": vocabulary.size, "sha256": vocabulary.hash}
    write_json(folder / DESCRIPTION, {**description, "vocabulary": words})


def load_model(
    folder: str | os.PathLike[str], device: str | torch.device = "cpu"
) -> tuple[LanguageModel, Vocabulary, dict[str, Any]]:
    """Read the folder of a model whose likelihood is tractable; see `load_any`."""
    model, vocabulary, description = load_any(folder, device)
    return _require_likelihood(folder, model), vocabulary, description


def _require_likelihood(folder: str | os.PathLike[str], model: TrainedModel) -> LanguageModel:
    if isinstance(model, LanguageModel):
        return model
    family = model.config["family"]
    if model.normalized:
        raise InputError(f"{folder}: {family} has latent variables; estimate its likelihood")
    raise InputError(
        f"{folder}: {family} scores sentences without a likelihood; estimate its perplexity "
        "given their lengths: python -m scripts.estimate_partition --model "
        f"{folder} --proposal FOLDER --text FILE"
    )


def load_any(
    folder: str | os.PathLike[str], device: str | torch.device = "cpu"
) -> tuple[TrainedModel, Vocabulary, dict[str, Any]]:
    """Read a folder: model in evaluation mode, vocabulary, ``model.json``; a file that is missing,
    foreign, corrupt or of another model, or a weight that is not finite, is an `InputError`."""
    folder = Path(folder)
    description = _read_description(folder)
    vocabulary = load_vocabulary(folder / VOCABULARY)
    if vocabulary.hash != description["vocabulary"]["sha256"]:
        raise InputError(f"{folder / VOCABULARY}: is not the vocabulary the model was trained with")
    weights = folder / WEIGHTS
    if not weights.is_file():
        raise InputError(f"{weights}: is missing; train the model again")
    if content_hash(weights) != description["weights_sha256"]:
        raise InputError(f"{weights}: is not the file that {DESCRIPTION} describes; train it again")
    note_read(weights, description["weights_sha256"])
    config = description["config"]
    try:
        family = find(config.get("family"))
    except InputError as error:
        raise InputError(f"{folder / DESCRIPTION}: {error}") from error
    model = read_weights(weights, family, config, DESCRIPTION)
    check_finite(model, weights)
    return model.to(choose_device(device)).eval(), vocabulary, description


def read_weights(
    path: Path, kind: type[_Model], config: Mapping[str, Any], description: str
) -> _Model:
    """Read the weights of a model of some class and config, or say in a line what does not fit."""
    try:
        return kind.from_tensors(config, safetensors.torch.load_file(path))
    except Exception as error:  # whatever a foreign description makes torch raise
        reason = str(error) if isinstance(error, InputError) else brief_repr(error)
        raise InputError(f"{path}: does not fit {description} ({reason}); make it again") from error


def _read_description(folder: Path) -> dict[str, Any]:
    path = folder / DESCRIPTION
    if not path.exists():
        raise InputError(f"{folder}: is no model folder, it has no {DESCRIPTION}")
    found: dict[str, Any] = read_json(path, "description of a model", "train the model again")
    match found:
        case {"config": {}, "weights_sha256": str(), "vocabulary": {"sha256": str()}}:
            return found
    wanted = "config, weights_sha256 and vocabulary.sha256"
    raise InputError(f"{path}: does not describe a model, it lacks {wanted}; train it again")


def choose_device(device: str | torch.device) -> torch.device:
    """Turn ``"auto"`` into a GPU where there is one, else the CPU."""
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        chosen = torch.device(device)
    except RuntimeError as error:
        raise InputError(f"device: {device!r} is no device; use auto, cpu or cuda") from error
    if chosen.type not in ("cpu", "cuda"):  # meta holds no numbers; others lack float64
        raise InputError(f"device: {device!r} is not supported; use auto, cpu or cuda")
    if chosen.type == "cuda" and not torch.cuda.is_available():
        raise InputError("device: cuda was asked for, but torch sees no GPU here; use cpu or auto")
    if chosen.type == "cuda":  # 10 bits of a factor are too few for sums of log probabilities
        torch.backends.cudnn.allow_tf32 = False
    return chosen


class OpenedModel(NamedTuple):
    """A model that is ready to score, in evaluation mode."""

    model: TrainedModel
    vocabulary: Vocabulary
    # ``model.json``; of a model of another program its ``config`` and ``source``: path, commit of
    # the hub, SHA-256 of its weights by file
    description: dict[str, Any]
    weights: Path | None  # None: a model of another program

    @property
    def source(self) -> dict[str, Any]:
        """What identifies it in a record of a run, where `weights` does not."""
        return {} if self.weights else {"source": self.description["source"]}


def cleaning_of(
    description: Mapping[str, Any], *, cleaned: bool = False, tokenized: bool = False
) -> Preprocessing | None:
    """Return how a text is cleaned for a model; None: not at all, for one made for plain text."""
    if tokenized:
        return WHITE_SPACE_ONLY
    family = description["config"]["family"]
    if families.is_taken_as_it_is(family, description.get("training")) and not cleaned:
        return None
    if "source" in description and "preprocessing" not in description:
        raise InputError("cleaned: this model has no corpus whose cleaning is known; leave it out")
    return Preprocessing.from_config(description.get("preprocessing", {}))


def is_foreign(name: str) -> bool:
    """Say whether a name is no folder of a run: another program's, or a name on its hub."""
    return not Path(name, DESCRIPTION).exists()


def open_any(name: str, device: str | torch.device = "cpu") -> OpenedModel:
    """Open a folder of a run, one of another program (`save_pretrained`), or a model of its hub."""
    if not is_foreign(name):
        return OpenedModel(*load_any(name, device), Path(name, WEIGHTS))
    chosen = choose_device(device)
    family = _family_of(name)
    bring = find_named(families.FAMILIES[family].bring)
    assert bring is not None
    try:
        model, vocabulary, source = bring({"path": name}, None, by_row=True)
    except InputError as error:
        raise InputError(str(error).removeprefix("architecture.path: ")) from error
    description = {"config": model.config, "family": family, "source": source}
    return OpenedModel(model.to(chosen).eval(), vocabulary, description, None)


def open_scorer(name: str, device: str | torch.device = "cpu") -> tuple[LanguageModel, OpenedModel]:
    """Open a model whose likelihood is tractable; see `open_any`."""
    opened = open_any(name, device)
    return _require_likelihood(name, opened.model), opened


def _family_of(name: str) -> str:
    """Tell by its files, or by its name, which program a model is of."""
    rows = {family: families.FAMILIES[family] for family in families.families_of("external")}
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


def check_finite(model: nn.Module, where: object) -> None:
    """Refuse weights that are no finite numbers; buffers may hold infinities, as masks do."""
    for name, tensor in model.state_dict(keep_vars=True).items():
        if bool(tensor.sum().isfinite()):  # a tenth of the time; what is not finite would show
            continue
        wrong = ~tensor.isfinite() if isinstance(tensor, nn.Parameter) else tensor.isnan()
        if wrong.any():
            many = f"{int(wrong.sum())} of the {tensor.numel()} numbers of '{name}'"
            raise InputError(f"{where}: {many} are NaN or infinite; train or fetch the model again")

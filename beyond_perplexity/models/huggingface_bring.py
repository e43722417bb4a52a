"""Bring a Hugging Face model from a folder or the hub, safetensors only, and try whether it can be
used; nothing of it is executed or unpickled."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import Any

import huggingface_hub
import numpy as np
import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel

from beyond_perplexity.errors import InputError
from beyond_perplexity.foreign_text import remark
from beyond_perplexity.models.contract import State
from beyond_perplexity.models.families import FAMILIES
from beyond_perplexity.models.huggingface_model import (
    HuggingFace,
    HuggingFaceByRow,
    describe_config,
)
from beyond_perplexity.models.huggingface_vocabulary import HuggingFaceVocabulary
from beyond_perplexity.models.registry import check_finite
from beyond_perplexity.options import parse_options
from beyond_perplexity.storage.inputs import read_json, told
from beyond_perplexity.storage.provenance import content_hash
from beyond_perplexity.vocabulary import BOS

# How a network is loaded: whole, from this machine, and without running or unpickling anything.
_SAFELY = {"use_safetensors": True, "trust_remote_code": False, "local_files_only": True}
LOADED_SAFELY: dict[str, Any] = {**_SAFELY, "dtype": torch.float32, "output_loading_info": True}
# Without any of them transformers makes an empty tokenizer and says nothing.
TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", "spiece.model")
PICKLES = ("pytorch_model*.bin", "*.pt", "*.pth", "*.ckpt")
SAVE_TOKENIZER = "save the model's tokenizer to the folder, so that it has a tokenizer.json"
USABLE = (
    "those can that attend to a cache of keys and values and take position_ids, such as GPT-2, "
    "Llama, Mistral, Qwen and Gemma"
)

# Whole pass and steps of a probe may differ by this share of the largest logit, and this much more.
PROBE_TOLERANCE = 1e-3
PROBE_ROUNDING = 8  # or by so many times the spacing of the model's numbers around 1
PROBE_LENGTH = 8
# What the configuration of a mixture of experts has, whose rows may depend on their batch.
EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")


@dataclass(frozen=True)
class HuggingFaceOptions:
    """Where a Hugging Face model comes from.

    path: A folder that `save_pretrained` wrote (config.json, safetensors weights, the tokenizer),
        or the name of a model on the hub, which the training job fetches.
    revision: Commit, branch or tag on the hub; null: the newest. The commit that was taken is
        written to model.json. A folder has none.
    """

    path: str
    revision: str | None = None


def bring(
    architecture: Mapping[str, Any], cleaning: Mapping[str, Any] | None, *, by_row: bool = False
) -> tuple[HuggingFace, HuggingFaceVocabulary, dict[str, Any]]:
    """Take a model, in float32, with its tokenizer from a folder or from the hub, and its source.

    The source is ``path``, ``revision`` (a commit of the hub, or None) and ``weights`` (SHA-256 by
    file). `cleaning` None: it has been trained on the corpus' tokens and is going to write them.
    `by_row`: one without a cache, or whose rows depend on their batch, is taken to read row by row.
    """
    options = parse_options(HuggingFaceOptions, architecture, "architecture")
    folder, revision = find_folder(options)
    weights = find_weights(folder)
    external = load_weights(folder)
    check_finite(external, weights[0] if len(weights) == 1 else folder)
    vocabulary = _vocabulary_of(folder, load_tokenizer(folder), *_shape(external), cleaning)
    model = _wrap(external, vocabulary, options.path, by_row)
    stored = read_json(folder / "config.json", "configuration of a model", "save it again")
    model.stored = str(stored.get("dtype") or stored.get("torch_dtype") or model.stored)
    hashes = {file.name: content_hash(file) for file in weights}
    return model, vocabulary, {"path": options.path, "revision": revision, "weights": hashes}


def adopt(external: Any, tokenizer: Any) -> tuple[HuggingFace, HuggingFaceVocabulary]:
    """Take a model that is in memory with its tokenizer, as `bring` takes one from a folder."""
    name = type(external).__name__
    if not isinstance(external.get_output_embeddings(), torch.nn.Linear):
        raise InputError(f"model: a {name} has no linear output layer, as causal models have")
    check_finite(external, name)
    vocabulary = _vocabulary_of(name, tokenizer, *_shape(external))
    return _wrap(external, vocabulary, name, by_row=True), vocabulary


def vocabulary_of_function(call: Any, tokenizer: Any) -> HuggingFaceVocabulary:
    """Make a vocabulary for a function from ids to log-probabilities, of as many as it gives."""
    first = tokenizer.eos_token_id if tokenizer.bos_token_id is None else tokenizer.bos_token_id
    if first is None:
        raise InputError("tokenizer: has no token that begins or ends a document (eos_token)")
    return _vocabulary_of("tokenizer", tokenizer, np.shape(call([first]))[-1])


def _shape(external: PreTrainedModel) -> tuple[int, Any]:
    """Return how many ids a model has, and its settings."""
    return external.get_output_embeddings().weight.shape[0], external.config.get_text_config()


def _wrap(
    external: PreTrainedModel, vocabulary: HuggingFaceVocabulary, name: str, by_row: bool
) -> HuggingFace:
    """Make a model of one of transformers, and try whether it can be used."""
    settings = external.config.get_text_config()
    given: Any = (vocabulary.size, describe_config(external.config), vocabulary.special_ids)
    given = (*given, vocabulary.impossible, external)
    if not by_row or not any(getattr(settings, key, None) for key in EXPERTS):
        model = HuggingFace(*given).eval()
        try:
            _probe(model, external, name, stepped=True)
        except InputError:
            if not by_row:
                raise
        else:
            return model
    model = HuggingFaceByRow(*given).eval()
    _probe(model, external, name, stepped=False)
    remark(f"{name}: {model.by_row}")
    return model


def find_folder(options: HuggingFaceOptions) -> tuple[Path, str | None]:
    """Return the model's folder and its commit (None for a folder of the user's)."""
    folder = Path(options.path)
    if folder.is_dir():
        if options.revision is not None:
            raise InputError("architecture.revision: belongs to a name on the hub, not to a folder")
        return folder, None
    patterns = list(FAMILIES[HuggingFace.family].files)
    with told(
        f"architecture.path: '{options.path}' is no folder, and no model of that name can be "
        "fetched from the hub",
        "; check the path or the network",
    ):
        fetched = huggingface_hub.snapshot_download(
            options.path, revision=options.revision, allow_patterns=patterns
        )
    return Path(fetched), Path(fetched).name


def find_weights(folder: Path) -> list[Path]:
    """List the safetensors files of a model's folder."""
    if not (folder / "config.json").is_file():
        raise InputError(f"{folder}: is no Hugging Face model, it has no config.json")
    found = sorted(folder.glob("*.safetensors"))
    pickled = sorted(file.name for pattern in PICKLES for file in folder.glob(pattern))
    if pickled and not found:
        fault = f"its weights are pickled ({pickled[0]}), which may run any code, and are not read"
        advice = "save the model as safetensors (save_pretrained does) and give that folder"
        raise InputError(f"{folder}: {fault}; {advice}")
    if not found:
        raise InputError(f"{folder}: has no weights (*.safetensors)")
    return found


def load_weights(folder: Path, kind: Any = AutoModelForCausalLM, what: str = "causal") -> Any:
    """Load the language model of a folder, of one of transformers' kinds, in float32."""
    with told(f"{folder}: holds no {what} language model to load"):
        loaded: Any = kind.from_pretrained(folder, **LOADED_SAFELY)
    model: PreTrainedModel
    model, report = loaded
    lacking = sorted(map(str, [*report["missing_keys"], *report["mismatched_keys"]]))
    if lacking:
        fault = f"{lacking[0]} is missing or has another shape, one of {len(lacking)}"
        asked = f"is it the folder of a {what} language model?"
        raise InputError(f"{folder}: its weights do not fit config.json: {fault}; {asked}")
    if not isinstance(model.get_output_embeddings(), torch.nn.Linear):
        raise InputError(f"{folder}: a {model.config.model_type} model has no linear output layer")
    return model


def load_tokenizer(folder: Path) -> Any:
    """Load the fast tokenizer of a folder."""
    if not any((folder / name).is_file() for name in TOKENIZERS):
        raise InputError(f"{folder}: holds no tokenizer; {SAVE_TOKENIZER}")
    with told(f"{folder}: holds no fast tokenizer to load", f"; {SAVE_TOKENIZER}"):
        tokenizer = AutoTokenizer.from_pretrained(
            folder, trust_remote_code=False, local_files_only=True, use_fast=True
        )
        json.loads(tokenizer.backend_tokenizer.to_str())
    return tokenizer


def _vocabulary_of(
    where: object,
    tokenizer: Any,
    rows: int,
    settings: Any = None,
    cleaning: Mapping[str, Any] | None = None,
) -> HuggingFaceVocabulary:
    """Make a vocabulary of a fast tokenizer; where none begins a document, its end does."""
    described = json.loads(tokenizer.backend_tokenizer.to_str())
    eos, bos = (_token_id(tokenizer, settings, name) for name in ("eos", "bos"))
    if eos is None:
        named = "eos_token of the tokenizer, eos_token_id of the model"
        fault = f"no token ends a document ({named})"
        raise InputError(f"{where}: {fault}; such a model is no distribution over documents")
    bos = eos if bos is None else bos
    unk = tokenizer.unk_token_id
    known = tokenizer.backend_tokenizer.get_added_tokens_decoder()
    added = (index for index, token in known.items() if token.special)
    special = {
        "bos": bos,
        "eos": eos,
        "unk": None if unk in (bos, eos) else unk,
        "all": sorted({*added, *tokenizer.all_special_ids}),
    }
    try:
        return HuggingFaceVocabulary(described, rows, special, cleaning)
    except InputError as error:
        raise InputError(f"{where}: {error}") from error


def _token_id(tokenizer: Any, settings: Any, name: str) -> int | None:
    """Return a special token as the tokenizer names it, else as the model's configuration does."""
    found = getattr(tokenizer, f"{name}_token_id")
    if found is None:
        found = getattr(settings, f"{name}_token_id", None)
    if isinstance(found, list):
        found = found[0] if found else None
    return found


@torch.no_grad()
def _probe(model: HuggingFace, external: PreTrainedModel, name: str, stepped: bool) -> None:
    """Try that our pass and our steps give the logits of the model's own forward pass."""
    what = f"{name}: {external.config.model_type} models cannot be"
    if stepped and not {"position_ids", "past_key_values"} <= set(
        signature(model.body.forward).parameters
    ):
        raise InputError(f"{what} stepped through here; {USABLE}")
    length = min(PROBE_LENGTH, model.context_length or PROBE_LENGTH)
    tokens = _probe_tokens(model, length)  # (2, T)
    kinds = (TypeError, ValueError, RuntimeError, AttributeError, IndexError, KeyError)
    with told(f"{what} used here", f"; {USABLE}", kinds):
        truth = external(input_ids=model.output.theirs[tokens], use_cache=False).logits.float()
        truth = truth.index_select(-1, model.output.theirs)  # (2, T, V)
        order = torch.arange(length) % (length - length // 3)  # (T,)
        restarted = torch.stack([truth[0], truth[1, order]])  # (2, T, V)
        steps = _steps(model, tokens, order), restarted
        found = {"a whole pass": (model(tokens), truth), "single steps": steps}
    rounding = PROBE_ROUNDING * torch.finfo(external.dtype).eps
    allowed = max(PROBE_TOLERANCE, rounding) * (1 + float(truth.abs().max()))
    for how, (ours, theirs) in found.items():
        possible = ours > -torch.inf  # (2, T, V)
        worst = float((ours - theirs)[possible].abs().max())
        if not worst <= allowed:
            wrong = f"the logits of {how} differ from the model's own by {worst:.2g}"
            raise InputError(f"{what} used here: {wrong}; {USABLE}")


def _probe_tokens(model: HuggingFace, length: int) -> Tensor:
    """Return two different documents of possible tokens, int64, (2, T)."""
    ids = torch.arange(model.vocabulary_size)
    possible = ids[~torch.isin(ids, model.output.impossible)]  # (N',)
    chosen = torch.linspace(0, len(possible) - 1, 2 * length).long()  # (2 T,)
    tokens = possible[chosen].view(length, 2).T.clone()  # (2, T)
    tokens[:, 0] = BOS
    return tokens


def _steps(model: HuggingFace, tokens: Tensor, order: Tensor) -> Tensor:
    """Return logits of single steps, (2, T, V); the second row restarts once, by the order (T,)."""
    state: State = model.initial_state(2, tokens.shape[1])
    logits = []
    for step, position in enumerate(order.tolist()):
        if step and not position:
            state = state.reset(torch.tensor([1]))
        newest = torch.stack([tokens[0, step], tokens[1, position]])  # (2,)
        row_logits, state = model.step(newest, state)  # (2, V)
        logits.append(row_logits)
    return torch.stack(logits, 1)

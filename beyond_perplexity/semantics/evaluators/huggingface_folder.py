"""The network and the tokenizer in a folder of Hugging Face, without its code and no pickles."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from transformers import AutoModel, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils import logging

from beyond_perplexity.errors import InputError
from beyond_perplexity.models.huggingface_bring import find_weights
from beyond_perplexity.storage.inputs import read_json


def load_body(folder: Path) -> tuple[PreTrainedTokenizerBase, PreTrainedModel]:
    """Load an encoder or language model, without its output layer, and its tokenizer.

    Raises
    ------
    InputError
        When the folder is none of Hugging Face, has pickled weights or wants code of its own, or
        its weights do not fit it.
    """
    find_weights(folder)
    config = folder / "config.json"
    held = read_json(config, "description of a network", "fetch the folder again")
    if not isinstance(held, dict):
        raise InputError(f"{config}: is no JSON object; fetch the folder again")
    if "auto_map" in held:
        raise InputError(f"{config}: wants code of its own (auto_map); it is not run")
    logging.disable_progress_bar()
    try:
        loaded: Any = AutoModel.from_pretrained(
            folder,
            use_safetensors=True,
            trust_remote_code=False,
            local_files_only=True,
            dtype=torch.float32,
            output_loading_info=True,
        )
        tokenizer = AutoTokenizer.from_pretrained(
            folder, trust_remote_code=False, local_files_only=True, use_fast=True
        )
    except Exception as error:  # whatever the library meets in a foreign folder
        reason = (str(error).strip() or repr(error)).splitlines()[0]
        raise InputError(f"{folder}: holds no network to load ({reason})") from error
    model, report = loaded
    # A pooler is made anew where a checkpoint has none; it is not read here.
    lacking = [name for name in map(str, report["missing_keys"]) if "pooler" not in name]
    lacking += map(str, report["mismatched_keys"])
    if lacking:
        raise InputError(f"{folder}: its weights do not fit config.json: {min(lacking)} is missing")
    return tokenizer, model

"""Equation 9: inner products of the states of a Transformer's upper layers.

The states of a text are the means over its words; the paper does not say how words of two texts of
different lengths meet.

N texts, T tokens of a group's texts, K layers, W the width of a layer, D = K W.
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from beyond_perplexity.corpus.normalization import WHITE_SPACE_ONLY, Preprocessing
from beyond_perplexity.errors import InputError
from beyond_perplexity.models.contract import LanguageModel
from beyond_perplexity.models.factored import FactoredModel
from beyond_perplexity.models.registry import check_finite, choose_device, load_model
from beyond_perplexity.semantics.evaluators import contract
from beyond_perplexity.semantics.evaluators.families import Options, about_weights
from beyond_perplexity.semantics.evaluators.networks import encode_alike
from beyond_perplexity.semantics.word_cosines import Floats, Vectors, logistic
from beyond_perplexity.storage.inputs import read_json, told
from beyond_perplexity.storage.provenance import content_hash, value_hash
from beyond_perplexity.vocabulary import BOS, UNK, Vocabulary

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


class UpperLayers(ABC):
    """Turns texts into the means of the states of K upper layers, side by side, D = K W numbers,
    and counts texts that were cut, tokens read and those not known."""

    limit: int | None  # tokens of a text that are read at most
    counted: tuple[str, ...] = ("words", "unknown", "truncated")

    def __init__(self, layers: int, width: int) -> None:
        self.layers, self.width = layers, layers * width
        self.truncated = self.words = self.unknown = 0

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Return vectors, float32, (N, D): rows of NaN for texts without a word that it knows."""
        rows = self._tokens([contract.known_text(text) for text in texts])
        if self.limit is not None:
            self.truncated += sum(len(row) > self.limit for row in rows)
            rows = [row[: self.limit] for row in rows]

        # Texts of one length in a group: nothing is filled up, no number depends on the others.
        def means(places: NDArray[np.int64], length: int) -> Tensor:
            return self._means(torch.tensor([rows[place] for place in places])).flatten(1)

        return encode_alike([len(r) if self._is_known(r) else 0 for r in rows], self.width, means)

    @abstractmethod
    def _tokens(self, texts: list[str]) -> list[list[int]]:
        """Return the tokens of texts, some of them empty."""

    @abstractmethod
    def _is_known(self, row: list[int]) -> bool:
        """Return whether a token of a row is a word that the network knows."""

    @abstractmethod
    def _means(self, tokens: Tensor) -> Tensor:
        """Return the mean states of the tokens that are words, (B, K, W), for tokens (B, T)."""


class RunLayers(UpperLayers):
    """The upper blocks of a Transformer of a run; of the uppermost, after the last norm."""

    def __init__(self, model: LanguageModel, vocabulary: Vocabulary, layers: int) -> None:
        blocks: Any = getattr(model, "blocks", None)
        norm: Any = getattr(model, "final_norm", None)
        has_blocks = isinstance(blocks, nn.ModuleList) and isinstance(norm, nn.Module)
        if not (isinstance(model, FactoredModel) and has_blocks):
            family = model.config["family"]
            fault = f"{family} has no layers of attention that are read here"
            advice = "name a Transformer of the run, or give path, of a folder of Hugging Face"
            raise InputError(f"model: {fault}; {advice}")
        _check_layers(layers, len(blocks))
        self._kept: list[Tensor] = []
        for layer in [*list(blocks)[-layers:][:-1], norm]:
            layer.register_forward_hook(lambda layer, inputs, output: self._kept.append(output))
        super().__init__(layers, model.config["architecture"]["width"])
        self._model, self._vocabulary = model, vocabulary
        self.limit = None if model.context_length is None else model.context_length - 1

    def _tokens(self, texts: list[str]) -> list[list[int]]:
        rows = [ids.tolist() for ids in self._vocabulary.encode(texts)]
        self.words += sum(map(len, rows))
        self.unknown += sum(row.count(UNK) for row in rows)
        return rows

    def _is_known(self, row: list[int]) -> bool:
        return any(token != UNK for token in row)

    def _means(self, tokens: Tensor) -> Tensor:
        begun = torch.cat([torch.full((len(tokens), 1), BOS), tokens], 1)  # (B, 1 + T)
        self._kept = []
        self._model.features(begun.to(self._model.device))
        return torch.stack(self._kept, 2)[:, 1:].double().mean(1)  # (B, K, W)


def load_body(folder: Path) -> tuple[PreTrainedTokenizerBase, PreTrainedModel]:
    """Load a network of Hugging Face and its tokenizer; no code is run, and nothing unpickled."""
    # late, as transformers takes a second to import
    from transformers import AutoModel, AutoTokenizer
    from transformers.utils import logging

    from beyond_perplexity.models.huggingface_bring import LOADED_SAFELY, find_weights

    find_weights(folder)
    config = folder / "config.json"
    held = read_json(config, "description of a network", "fetch the folder again")
    if not isinstance(held, dict):
        raise InputError(f"{config}: is no JSON object; fetch the folder again")
    if "auto_map" in held:
        raise InputError(f"{config}: wants code of its own (auto_map); it is not run")
    logging.disable_progress_bar()
    with told(f"{folder}: holds no network to load"):
        loaded: Any = AutoModel.from_pretrained(folder, **LOADED_SAFELY)
        tokenizer = AutoTokenizer.from_pretrained(
            folder, trust_remote_code=False, local_files_only=True, use_fast=True
        )
    model, report = loaded
    # A pooler is made anew where a checkpoint has none; it is not read here.
    lacking = [name for name in map(str, report["missing_keys"]) if "pooler" not in name]
    lacking += map(str, report["mismatched_keys"])
    if lacking:
        raise InputError(f"{folder}: its weights do not fit config.json: {min(lacking)} is missing")
    return tokenizer, model


class HuggingFaceLayers(UpperLayers):
    """The upper layers of an encoder or language model in a folder of Hugging Face."""

    def __init__(self, folder: Path, layers: int, device: str) -> None:
        self._tokenizer, body = load_body(folder)
        settings = body.config.get_text_config()
        _check_layers(layers, settings.num_hidden_layers)
        super().__init__(layers, settings.hidden_size)
        self._body: Any = body.eval()
        self._body.to(choose_device(device))
        check_finite(self._body, folder)
        own = getattr(settings, "max_position_embeddings", None)
        longest = [own, self._tokenizer.model_max_length]
        held = [number for number in longest if number and number < 1 << 20]
        self.limit = min(held) if held else None
        self._special = set(self._tokenizer.all_special_ids)

    def _tokens(self, texts: list[str]) -> list[list[int]]:
        rows = self._ids(texts, truncation=False)
        cut = self._ids(texts, truncation=True) if self.limit is not None else rows
        self.truncated += sum(map(operator.ne, map(len, rows), map(len, cut)))
        found = [row if text else [] for text, row in zip(texts, cut, strict=True)]
        self.words += sum(map(len, found))
        return found

    def _ids(self, texts: list[str], truncation: bool) -> list[list[int]]:
        """Return the tokens of texts, special ones among them."""
        longest = self.limit if truncation else None
        held = self._tokenizer(texts, truncation=truncation, max_length=longest, verbose=False)
        ids: list[list[int]] = held["input_ids"]
        return ids

    def _is_known(self, row: list[int]) -> bool:
        return any(token not in self._special for token in row)

    def _means(self, tokens: Tensor) -> Tensor:
        tokens = tokens.to(self._body.device)
        mask = torch.ones_like(tokens)
        held = self._body(input_ids=tokens, attention_mask=mask, output_hidden_states=True)
        states = torch.stack(held.hidden_states[-self.layers :], 2)  # (B, T, K, W)
        special = torch.tensor(sorted(self._special), device=tokens.device)
        words = ~torch.isin(tokens, special)  # (B, T)
        shares = words.double() / words.sum(1, keepdim=True)  # (B, T)
        return (states * shares[:, :, None, None]).sum(1)  # (B, K, W)


class TransformerEvaluator(contract.SentenceEvaluator):
    """Equation 9, and with the products divided by the width of a layer."""

    measures = ("inner", "inner_scaled")

    encoder: UpperLayers

    def score_vectors(self, first: Vectors, second: Vectors) -> dict[str, Floats]:
        """Return σ of the mean over layers of inner products, plain and by the width."""
        wide = [np.asarray(part, np.float64) for part in (first, second)]
        products = np.einsum("nd,nd->n", *wide) / self.encoder.layers
        known = [contract.has_vector(part) for part in (first, second)]
        width = self.encoder.width / self.encoder.layers
        return {
            "inner": contract.settle("inner", logistic(products), known),
            "inner_scaled": contract.settle("inner_scaled", logistic(products / width), known),
        }


def _check_layers(wanted: int, there: int) -> None:
    if wanted > there:
        raise InputError(f"layers: is {wanted}, but the Transformer has {there}; ask for fewer")


def load_transformer(options: Options, measures: Options, device: str) -> TransformerEvaluator:
    """Load ``layers`` of ``model``, a folder of a run, or ``path``, one of Hugging Face."""
    layers = options.get("layers", 2)
    encoder: UpperLayers
    if options.get("model"):
        folder = Path(options["model"])
        model, vocabulary, held = load_model(folder, device)
        encoder = RunLayers(model, vocabulary, layers)
        about = about_weights(f"Transformer ({folder.name})", held["weights_sha256"], "torch")
        cleaning = Preprocessing.from_config(held.get("preprocessing", {}))
    elif options.get("path"):
        folder = Path(options["path"])
        encoder = HuggingFaceLayers(folder, layers, device)
        title, cleaning = f"Transformer ({folder.resolve().name})", WHITE_SPACE_ONLY
        sums = [content_hash(path) for path in sorted(folder.glob("*.safetensors"))]
        sha256 = sums[0] if len(sums) == 1 else value_hash(sums)
        about = about_weights(title, sha256, "transformers", "torch")
    else:
        raise InputError("transformer: give model, of a run, or path, of a folder of Hugging Face")
    return TransformerEvaluator(encoder, about, cleaning)

"""Encoders of sentence-transformers, from a folder or from a package with weights inside.

N texts, D numbers of a vector.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from beyond_perplexity.errors import InputError
from beyond_perplexity.models.registry import choose_device
from beyond_perplexity.semantics.evaluators import families
from beyond_perplexity.semantics.evaluators.contract import SentenceEvaluator, known_text
from beyond_perplexity.semantics.evaluators.networks import encode_alike
from beyond_perplexity.semantics.word_cosines import Vectors
from beyond_perplexity.storage.inputs import read_json, told
from beyond_perplexity.storage.provenance import content_hash, value_hash

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

MODULES = "modules.json"
PADDED = 32  # tokens: texts are filled up to a multiple, as few groups as are worth their rows
# The layers whose code is run, wherever a version of the library has them. Not WordEmbeddings,
# whose file names the class of its tokenizer.
_LAYERS = (
    *("Transformer", "Pooling", "WeightedLayerPooling", "Normalize", "Dense", "LayerNorm"),
    *("Dropout", "CNN", "LSTM", "StaticEmbedding"),
)
_UNSAFE = (".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt")


class SentenceTransformerEncoder:
    """An encoder of sentence-transformers, of a checked folder (`check_folder`)."""

    counted: tuple[str, ...] = ("truncated",)

    def __init__(self, folder: Path, device: str) -> None:
        self._model = _load(folder, device)
        wrong = f"{folder / MODULES}: has no layer that makes one vector of a text, such as Pooling"
        with told(wrong, kinds=(KeyError,)):
            vector = self._model.encode("a", convert_to_numpy=True, show_progress_bar=False)
        self.width = len(vector)
        self.limit: int | None = self._model.max_seq_length
        self.truncated = 0

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Return vectors, float32, (N, D): rows of NaN for texts without a word."""
        read = [known_text(text) for text in texts]
        lengths = self._lengths(read)
        if self.limit is not None:
            self.truncated += int((lengths > self.limit).sum())
            lengths = np.minimum(lengths, self.limit)

        def vectors(places: NDArray[np.int64], width: int) -> Tensor:
            return self._vectors([read[place] for place in places], width)

        return encode_alike(lengths, self.width, vectors, PADDED if self._pads else 1)

    @property
    def _pads(self) -> bool:
        """Whether texts can be filled up to a width: those of a plain encoder of tokens."""
        model = self._model
        plain = type(model[0]).__name__ == "Transformer" and callable(model.tokenizer)
        return plain and self.limit is not None and model.default_prompt_name is None

    def _vectors(self, texts: list[str], width: int) -> Tensor:
        """Return the vectors of texts of as many tokens, or filled up to a width, (N, D)."""
        if not self._pads:
            quiet: Any = {"show_progress_bar": False, "convert_to_tensor": True}
            return self._model.encode(texts, batch_size=len(texts), **quiet)
        most = min(width, self.limit or width)
        features = self._model.tokenizer(
            texts, truncation=True, padding="max_length", max_length=most, return_tensors="pt"
        )
        held = {name: value.to(self._model.device) for name, value in features.items()}
        return self._model.forward(held)["sentence_embedding"]

    def _lengths(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """Return the tokens of texts, int64, (N,), those that are cut off among them; 0 of none."""
        tokenizer, filled = self._model.tokenizer, [text for text in texts if text]
        if not (filled and callable(tokenizer)):
            return np.array([len(text.split()) for text in texts], np.int64)
        # not verbose: it warns of texts beyond the limit, which are counted
        ids = iter(tokenizer(filled, truncation=False, verbose=False)["input_ids"])
        return np.array([len(next(ids)) if text else 0 for text in texts])


def check_folder(folder: Path) -> list[Path]:
    """Return the files of weights of a folder that holds no code and no pickles, or refuse it."""
    if not folder.is_dir():
        raise InputError(f"{folder}: is no folder of sentence-transformers: it is not there")
    modules = _read(folder / MODULES)
    if not isinstance(modules, list) or not all(isinstance(row, dict) for row in modules):
        raise InputError(f"{folder / MODULES}: is no list of modules")
    for row in modules:
        kind = str(row.get("type"))
        if not (kind.startswith("sentence_transformers.") and kind.split(".")[-1] in _LAYERS):
            advice = f"give an encoder of {', '.join(_LAYERS)}"
            raise InputError(f"{folder / MODULES}: names {kind}, whose code is not run; {advice}")
    for path in sorted(folder.rglob("config.json")):
        held = _read(path)
        if isinstance(held, dict) and "auto_map" in held:
            raise InputError(f"{path}: wants code of its own (auto_map); it is not run")
    for path in sorted(folder.rglob("*")):
        beside = list(path.parent.glob("*.safetensors"))
        if path.suffix in _UNSAFE and not beside:
            advice = "save the model anew, as safetensors"
            raise InputError(f"{path}: are weights that would be unpickled; {advice}")
    weights = sorted(folder.rglob("*.safetensors"))
    if not weights:
        raise InputError(f"{folder}: has no weights (*.safetensors)")
    return weights


def _read(path: Path) -> Any:
    if not path.exists():
        wrong = f"is no folder of sentence-transformers: it has no {path.name}"
        raise InputError(f"{path.parent}: {wrong}")
    return read_json(path, "list or description", "fetch the folder again")


def _load(folder: Path, device: str) -> SentenceTransformer:
    advice = f"; install it with: {families.EXTRA}"
    with told(f"{folder}: needs the library sentence-transformers", advice, (ImportError,)):
        from sentence_transformers import SentenceTransformer
        from transformers.utils import logging as library
    library.disable_progress_bar()
    with told(f"{folder}: sentence-transformers cannot load it"):
        model = SentenceTransformer(
            str(folder),
            device=str(choose_device(device)),
            local_files_only=True,
            trust_remote_code=False,
            model_kwargs={"use_safetensors": True},
        )
    return model.float().eval()


def load_sentence_transformer(
    options: families.Options, measures: families.Options, device: str
) -> SentenceEvaluator:
    """Load an evaluator by ``package``, a key of `PACKAGES`, or ``path``, of a folder."""
    package, path = options.get("package"), options.get("path")
    if package:
        folder, title = families.package_folder(package), families.PACKAGES[package].title
        if families.PACKAGES[package].family != "sentence-transformers":
            raise InputError(f"package: {package} has no encoder; allowed is minilm")
    elif path:
        folder = Path(path)
        title = folder.resolve().name
    else:
        raise InputError("sentence-transformers: give path, of a folder, or package: minilm")
    weights = check_folder(folder)
    hashes = {str(path.relative_to(folder)): content_hash(path) for path in weights}
    sha256 = next(iter(hashes.values())) if len(hashes) == 1 else value_hash(hashes)
    about = families.about_weights(title, sha256, "sentence-transformers", "transformers", "torch")
    return SentenceEvaluator(SentenceTransformerEncoder(folder, device), about)

"""InferSent: a recurrent encoder of word vectors with pooling, and a classifier of pairs.

Weights are official ones, or were trained here. N pairs or texts, B sentences, T words of the
longest, E numbers of a word vector, H units in each direction, D = 2 H of a sentence, C classes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from beyond_perplexity.corpus.normalization import Preprocessing
from beyond_perplexity.errors import InputError
from beyond_perplexity.models.contract import TrainedModel
from beyond_perplexity.models.registry import choose_device
from beyond_perplexity.options import parse_options
from beyond_perplexity.semantics.evaluators import networks
from beyond_perplexity.semantics.evaluators.contract import SentenceEvaluator, has_vector, settle
from beyond_perplexity.semantics.evaluators.families import Options, about_weights
from beyond_perplexity.semantics.evaluators.job import InferSentOptions
from beyond_perplexity.semantics.evaluators.vectors import VectorTable, load_table
from beyond_perplexity.semantics.measures import NO_WORDS
from beyond_perplexity.semantics.word_cosines import Floats, Vectors
from beyond_perplexity.storage.inputs import refuse_page, told
from beyond_perplexity.storage.provenance import content_hash


@dataclass(frozen=True)
class PairBatch(networks.TensorBatch):
    """Sentences, and which of them are pairs."""

    vectors: Tensor  # float32, (B, T, E): vectors of the words; behind the end anything finite
    lengths: Tensor  # int64, (B,), at least 1
    first: Tensor  # int64, (N,): indices among the sentences
    second: Tensor
    labels: Tensor  # (N,): int64 classes, or float32 from 0 to 1

    @property
    def predictions(self) -> int:
        """The pairs: what a loss is divided by."""
        return len(self.labels)


class InferSentNetwork(TrainedModel):
    """Equations 6 to 8 of the paper; without the classifier's middle layer of the original.

    Of one class the labels are scores from 0 to 1. Conneau et al. (2017), Supervised learning of
    universal sentence representations from natural language inference data.
    """

    normalized = False

    def __init__(self, width: int, classes: int, architecture: Options) -> None:
        super().__init__()
        options = parse_options(InferSentOptions, architecture, "architecture")
        self.options, self.width, self.classes = options, width, classes
        size = 2 * options.hidden_size
        self.reader = networks.RecurrentReader(options.cell, width, options.hidden_size, both=True)
        self.attention: nn.Sequential | None = None
        if options.pooling == "attention":
            self.attention = nn.Sequential(
                nn.Linear(size, options.attention_size),
                nn.Tanh(),
                nn.Linear(options.attention_size, 1, bias=False),
            )
        self.head = nn.Linear(4 * size, classes)

    @property
    def config(self) -> dict[str, Any]:
        """Keyword arguments that build the same network, with ``family``."""
        made = {"family": "infersent", "width": self.width, "classes": self.classes}
        return {**made, "architecture": asdict(self.options)}

    def encode(self, vectors: Tensor, lengths: Tensor) -> Tensor:
        """Return the vectors of sentences, (B, D), of word vectors (B, T, E); lengths (B,)."""
        states = self.reader(self._drop(vectors), lengths)  # (B, T, D)
        positions = torch.arange(states.shape[1], device=states.device)  # (T,)
        beyond = (positions >= lengths[:, None])[:, :, None]  # (B, T, 1)
        if self.options.pooling == "max":
            return states.masked_fill(beyond, -torch.inf).amax(1)  # (B, D)
        if self.attention is None:
            shares = (~beyond).float() / lengths[:, None, None]  # (B, T, 1)
        else:
            shares = self.attention(states).masked_fill(beyond, -torch.inf).softmax(1)  # (B, T, 1)
        # Words are added up one after the other: zeros at the end change no rounding.
        return (states * shares).cumsum(1)[:, -1]  # (B, D)

    def logits(self, first: Tensor, second: Tensor) -> Tensor:
        """Return what equation 6 is before φ, (N, C), for vectors of sentences, two (N, D)."""
        parts = [first, second, (first - second).abs(), first * second]
        logits: Tensor = self.head(self._drop(torch.cat(parts, 1)))
        return logits

    def loss(self, batch: PairBatch, epoch: float = math.inf) -> Tensor:
        """Return the cross entropy of pairs, nats, float32; of scores that of a biased coin."""
        vectors = self.encode(batch.vectors, batch.lengths)  # (B, D)
        logits = self.logits(vectors[batch.first], vectors[batch.second])  # (N, C)
        if self.classes > 1:
            return functional.cross_entropy(logits, batch.labels, reduction="sum")
        entropy = functional.binary_cross_entropy_with_logits
        return entropy(logits[:, 0], batch.labels, reduction="sum")

    def _drop(self, values: Tensor) -> Tensor:
        return functional.dropout(values, self.options.dropout, self.training)


ENTAILMENT = "entailment"
# What the official program puts around a sentence, by version of the weights.
SYMBOLS: dict[Any, tuple[str, ...]] = {1: ("<s>", "</s>"), 2: ("<p>", "</p>")}
# It has NLTK's tokenizer and keeps upper case and accents.
OFFICIAL_CLEANING = {"lower_case": False, "remove_accents": False}
_PARTS = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
_LSTM = [f"{part}_l0{side}" for side in ("", "_reverse") for part in _PARTS]
_GATES = 4
_PAIR_BLOCK = 4096  # pairs that the classifier scores at once


class InferSentEncoder(networks.WordReader):
    """Turns texts, between `symbols`, into vectors by InferSent; words without a vector are left
    out, and a text of them alone has none, where the official program reads it as ``</s>``."""

    def __init__(
        self, network: InferSentNetwork, table: VectorTable, symbols: tuple[str, ...] = ()
    ) -> None:
        self._network, self._table = network, table
        self._symbols = [table.symbol(word) for word in symbols] or [None, None]
        self.width = 2 * network.options.hidden_size

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Return vectors, float32, (N, D): rows of NaN for texts without a word that it knows."""
        words = sorted({word for text in texts for word in text.split()} - NO_WORDS)
        vectors = self._table.find(words)  # (V, E)
        known = np.flatnonzero(has_vector(vectors)).tolist()
        ids = {words[index]: index for index in known}
        marks = iter(range(len(words), len(words) + 2))
        before, after = ([] if vector is None else [next(marks)] for vector in self._symbols)
        rows = [[index for index in row if index >= 0] for row in self.rows(texts, ids)]
        rows = [[*before, *row, *after] if row else [] for row in rows]
        own = [vector for vector in self._symbols if vector is not None]
        vectors = np.concatenate([vectors, np.reshape(own, (-1, self._table.width))])
        network = self._network
        return networks.encode_rows(rows, vectors, self.width, network.encode, network.device)

    def scores(self, first: Vectors, second: Vectors, label: int | None) -> Floats:
        """Return what the head gives pairs, two (N, D), in both orders, (N,): a chance or score."""
        found = np.full(len(first), np.nan)
        there = np.flatnonzero(has_vector(first) & has_vector(second))
        device = self._network.device
        for start in range(0, len(there), _PAIR_BLOCK):
            rows = there[start : start + _PAIR_BLOCK]
            one, other = (torch.from_numpy(part[rows]).to(device) for part in (first, second))
            with torch.inference_mode():
                both = [self._chance(*order, label) for order in ((one, other), (other, one))]
            found[rows] = ((both[0] + both[1]) / 2).cpu().numpy()
        return found

    def _chance(self, first: Tensor, second: Tensor, label: int | None) -> Tensor:
        # float64 and a sum by hand: a product of matrices would round by the number of rows.
        parts = torch.cat([first, second, (first - second).abs(), first * second], 1).double()
        weight, bias = (part.double() for part in self._network.head.parameters())
        logits = torch.stack([(parts * row).sum(1) for row in weight], 1) + bias  # (N, C)
        return logits[:, 0].sigmoid() if label is None else logits.softmax(1)[:, label]


class InferSentEvaluator(SentenceEvaluator):
    """The cosine of two texts' vectors, and the classifier's score where it is of likeness: where
    its `classes` are empty it gives scores, and where they are None none of likeness."""

    encoder: InferSentEncoder

    def __init__(
        self,
        encoder: InferSentEncoder,
        about: Mapping[str, Any],
        classes: Sequence[str] | None,
        cleaning: Preprocessing,
    ) -> None:
        super().__init__(encoder, about, cleaning)
        self._classes = classes
        self.measures = ("similarity",) if classes is None else ("similarity", "head")

    def score_vectors(self, first: Vectors, second: Vectors) -> dict[str, Floats]:
        """Score vectors: ``similarity``; where trained on labels, ``head`` in both orders too."""
        found = super().score_vectors(first, second)
        if self._classes is not None:
            label = self._classes.index(ENTAILMENT) if self._classes else None
            scores = self.encoder.scores(first, second, label)
            found["head"] = settle("head", scores, [has_vector(part) for part in (first, second)])
        return found


def read_official(path: str | Path, width: int) -> dict[str, Tensor]:
    """Read official weights, infersent1.pkl or infersent2.pkl, by torch's names; `width` is E."""
    refuse_page(path)
    wrong = f"{path}: is no file of weights alone, and nothing else is unpickled"
    with told(wrong, "; fetch infersent1.pkl or infersent2.pkl again"):
        held = torch.load(path, map_location="cpu", weights_only=True)
    with told(f"{path}: has not the layout of InferSent's weights"):
        found = {name: held[f"enc_lstm.{name}"].float() for name in _LSTM}
        inputs = found["weight_ih_l0"].shape[1]
    trained = "name the vectors it was trained with (GloVe 840B for 1, fastText crawl for 2)"
    networks.check_width(path, inputs, width, f"; {trained}")
    return found


def official_network(
    path: str | Path, width: int, classes: int, architecture: Options
) -> InferSentNetwork:
    """Make a network whose encoder has official weights, their cells and size; `width` is E."""
    tensors = read_official(path, width)
    hidden = len(tensors["weight_ih_l0"]) // _GATES
    options = {**architecture, "cell": "lstm", "hidden_size": hidden}
    network = InferSentNetwork(width, classes, options)
    network.reader.fill(tensors, path)
    return network


def load_infersent(options: Options, measures: Options, device: str) -> InferSentEvaluator:
    """Load an InferSent evaluator from ``path``, a folder that was trained here, or official
    weights with ``vectors`` of `load_table`, ``version`` and ``pooling``."""
    path = Path(str(options.get("path")))
    if path.is_dir():
        network, held = networks.load_network(path, InferSentNetwork, device)
        table = load_table(table_options(options.get("vectors") or held["vectors"]))
        if table.sha256 != held["vectors_sha256"]:
            wrong = f"{table.path}: are not the word vectors that {path} was trained with"
            raise InputError(f"{wrong}; give those, or train it again")
        about = {key: held[key] for key in ("title", "sha256", "versions")}
        cleaning = Preprocessing.from_config(held["preprocessing"])
        encoder = InferSentEncoder(network, table, SYMBOLS.get(held.get("version"), ()))
        return InferSentEvaluator(encoder, about, held["classes"], cleaning)
    if not options.get("vectors"):
        raise InputError(f"{path}: InferSent reads word vectors; give vectors, of the table")
    table = load_table(table_options(options["vectors"]))
    version = options.get("version", 1)
    network = official_network(path, table.width, 1, {"pooling": options.get("pooling", "max")})
    network = network.to(choose_device(device)).eval()
    encoder = InferSentEncoder(network, table, SYMBOLS[version])
    about = about_weights(f"InferSent {version}", content_hash(path), "torch")
    return InferSentEvaluator(encoder, about, None, Preprocessing.from_config(OFFICIAL_CLEANING))


def table_options(options: Options) -> dict[str, Any]:
    """Return the options of `load_table` for an evaluator that has a table of word vectors."""
    if options.get("family") == "word2vec":
        return {"path": str(Path(options["path"]) / "vectors.npy")}
    return {key: value for key, value in options.items() if key != "family"}

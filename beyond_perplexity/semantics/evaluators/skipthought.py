"""SkipThought: a GRU encoder, and decoders of the sentences before and after.

Weights are those of uni-skip and bi-skip, or were trained here. N texts, B sentences, T words of
the longest, V ids, E numbers of a word, H of a sentence, K units of a decoder.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from beyond_perplexity.corpus.normalization import Preprocessing
from beyond_perplexity.errors import InputError
from beyond_perplexity.models.contract import TrainedModel
from beyond_perplexity.models.factored import summed_cross_entropy
from beyond_perplexity.models.registry import VOCABULARY, choose_device
from beyond_perplexity.options import parse_options
from beyond_perplexity.semantics.evaluators import networks
from beyond_perplexity.semantics.evaluators.contract import SentenceEvaluator
from beyond_perplexity.semantics.evaluators.families import Options, about_weights
from beyond_perplexity.semantics.evaluators.job import SkipThoughtOptions
from beyond_perplexity.semantics.evaluators.vectors import ArrayTable
from beyond_perplexity.semantics.measures import NO_WORDS
from beyond_perplexity.semantics.word_cosines import Vectors
from beyond_perplexity.storage.inputs import read_utf8, refuse_page, told
from beyond_perplexity.storage.provenance import content_hash, value_hash
from beyond_perplexity.vocabulary import BOS, EOS, N_SPECIAL, UNK, load_vocabulary


@dataclass(frozen=True)
class NeighbourBatch(networks.TensorBatch):
    """Sentences with those before and after them, each of lengths of its own."""

    tokens: Tensor  # int64, (B, T) each, of lengths of their own; behind the end any valid id
    lengths: Tensor  # int64, (B,), at least 1; of neighbours 0 where there is none
    before: Tensor
    before_lengths: Tensor
    after: Tensor
    after_lengths: Tensor

    @property
    def predictions(self) -> int:
        """The words of the neighbours and their ends: what a loss is divided by."""
        held = (self.before_lengths, self.after_lengths)
        return int(sum((part + (part > 0)).sum() for part in held))


class SkipThoughtNetwork(TrainedModel):
    """The uni-skip or bi-skip model (Kiros et al. 2015, Skip-thought vectors, section 2); the
    sentence's vector beside each input of a decoder biases its gates."""

    def __init__(self, vocabulary_size: int, architecture: Options) -> None:
        super().__init__()
        options = parse_options(SkipThoughtOptions, architecture, "architecture")
        self.options, self.vocabulary_size = options, vocabulary_size
        both = options.directions == "bi"
        size = options.hidden_size
        self.embedding = nn.Embedding(vocabulary_size, options.embedding_size)
        sizes = (options.embedding_size, size // (1 + both))
        self.reader = networks.RecurrentReader("gru", *sizes, both)
        inputs = options.embedding_size + size
        self.before = nn.GRU(inputs, options.decoder_size, batch_first=True)
        self.after = nn.GRU(inputs, options.decoder_size, batch_first=True)
        self.output = nn.Linear(options.decoder_size, vocabulary_size)
        nn.init.normal_(self.embedding.weight, std=options.embedding_size**-0.5)
        nn.init.zeros_(self.output.bias)
        self.impossible: Tensor  # <s> is never predicted
        self.register_buffer("impossible", torch.tensor([BOS]), persistent=False)

    @property
    def config(self) -> dict[str, Any]:
        """Keyword arguments that build the same network, with ``family``."""
        made = {"family": "skipthought", "vocabulary_size": self.vocabulary_size}
        return {**made, "architecture": asdict(self.options)}

    def encode(self, vectors: Tensor, lengths: Tensor) -> Tensor:
        """Return the vectors of sentences, (B, H), of word vectors (B, T, E); lengths (B,)."""
        return self.reader.last(vectors, lengths)

    def loss(self, batch: NeighbourBatch, epoch: float = math.inf) -> Tensor:
        """Return −Σ log p of both neighbours given the sentence, nats, float32 scalar."""
        vectors = self.encode(self.embedding(batch.tokens), batch.lengths)  # (B, H)
        features, targets = [], []
        for decoder, tokens, lengths in (
            (self.before, batch.before, batch.before_lengths),
            (self.after, batch.after, batch.after_lengths),
        ):
            rows = lengths.nonzero()[:, 0]  # (B',): those with such a neighbour
            if len(rows):
                found, goal = self._decode(decoder, vectors[rows], tokens[rows], lengths[rows])
                features.append(found)
                targets.append(goal)
        if not features:
            return vectors.sum() * 0
        layer = (self.output.weight, self.output.bias)
        given = (torch.cat(features), *layer, torch.cat(targets))
        return summed_cross_entropy(*given, self.impossible, self.products)

    def _decode(
        self, decoder: nn.GRU, vectors: Tensor, tokens: Tensor, lengths: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the features, (N, K), of the words and ends of sentences, and those, (N,)."""
        tokens = tokens[:, : int(lengths.max())]  # (B', T')
        start = tokens.new_full((len(tokens), 1), BOS)  # (B', 1)
        inputs = self.embedding(torch.cat([start, tokens], 1))  # (B', T' + 1, E)
        beside = vectors[:, None].expand(-1, inputs.shape[1], -1)  # (B', T' + 1, H)
        states, _ = decoder(torch.cat([inputs, beside], 2))  # (B', T' + 1, K)
        positions = torch.arange(inputs.shape[1], device=tokens.device)  # (T' + 1,)
        goal = torch.cat([tokens, tokens.new_full((len(tokens), 1), EOS)], 1)  # (B', T' + 1)
        goal = torch.where(positions == lengths[:, None], EOS, goal)  # (B', T' + 1)
        within = positions <= lengths[:, None]  # (B', T' + 1)
        return states[within], goal[within]


# Names of the arrays of a direction in the official files, and how one of both is called.
_ARRAYS = ("W", "U", "b", "Wx", "Ux", "bx")
_PREFIXES = {"uni": ("encoder_",), "bi": ("encoder_", "encoder_r_")}
_UNKNOWN = "UNK"
_TOLERANCE = 8  # rows; the official program takes the shorter of a table and its dictionary


class TrainedSkipThought(networks.WordReader):
    """Turns texts into vectors by a network trained here; `words` are ids after special ones."""

    def __init__(self, network: SkipThoughtNetwork, words: Sequence[str]) -> None:
        self._network = network
        self._ids = {word: position for position, word in enumerate(words, start=N_SPECIAL)}
        self._vectors = network.embedding.weight.detach().cpu().numpy()  # (V, E)
        self.width = network.options.hidden_size

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Return vectors, float32, (N, H): rows of NaN for texts without a word that it knows."""
        rows = self.rows(texts, self._ids, UNK)
        network = self._network
        return networks.encode_rows(rows, self._vectors, self.width, network.encode, network.device)


class OfficialSkipThought(networks.WordReader):
    """Turns texts into vectors by official weights of uni-skip, bi-skip or both, each scaled to
    length 1, side by side; unknown words are ``UNK``, and a text of nothing else has no vector."""

    def __init__(
        self, parts: Sequence[tuple[networks.RecurrentReader, ArrayTable]], device: torch.device
    ) -> None:
        self._parts = [(reader.to(device).eval(), table) for reader, table in parts]
        self._device = device
        layers = [reader.layer for reader, _ in parts]
        self._widths = [int(layer.hidden_size * (1 + layer.bidirectional)) for layer in layers]
        self.width = sum(self._widths)

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Return vectors, float32, (N, H): rows of NaN for texts without a word that it knows."""
        words = sorted({word for text in texts for word in text.split()} - NO_WORDS)
        found = []
        for position, (reader, table) in enumerate(self._parts):
            vectors = table.find([*words, _UNKNOWN], exactly=True)  # (V + 1, E)
            known = np.flatnonzero(~np.isnan(vectors[:-1, 0])).tolist()
            ids = {words[row]: row for row in known}
            reading = self if position == 0 else networks.WordReader()  # words count once
            rows = reading.rows(texts, ids, len(words))
            width = self._widths[position]
            own = networks.encode_rows(rows, vectors, width, reader.last, self._device)  # (N, H')
            # One after the other, so that a text's length does not depend on the others.
            lengths = np.array([np.sqrt(np.dot(row, row)) for row in own.astype(np.float64)])
            found.append((own / lengths[:, None]).astype(np.float32))
        return np.concatenate(found, axis=1)


def read_official_gru(path: str | Path, kind: str, width: int) -> networks.RecurrentReader:
    """Read the encoder of uni_skip.npz or bi_skip.npz, E = `width`, whose gates are reset, update,
    where torch has reset, update, candidate; the reset gate follows the product in both."""
    refuse_page(path)
    names = [f"{prefix}{name}" for prefix in _PREFIXES[kind] for name in _ARRAYS]
    explained = told(f"{path}: is no .npz file of plain arrays, or damaged", "; fetch it again")
    with explained, open(path, "rb") as file, np.load(file, allow_pickle=False) as held:
        arrays = {name: np.asarray(held[name], np.float32) for name in names if name in held}
    missing = [name for name in names if name not in arrays]
    if missing:
        raise InputError(f"{path}: lacks the array {missing[0]}; is it {kind}_skip.npz?")
    hidden = arrays["encoder_Ux"].shape[-1]
    inputs = arrays["encoder_Wx"].shape[0]
    networks.check_width(path, inputs, width)
    reader = networks.RecurrentReader("gru", inputs, hidden, both=kind == "bi")
    tensors: dict[str, Tensor] = {}
    for prefix, side in zip(_PREFIXES[kind], ("", "_reverse"), strict=False):
        own = {name: arrays[f"{prefix}{name}"] for name in _ARRAYS}
        parts = {
            "weight_ih": np.concatenate([own["W"], own["Wx"]], axis=-1).T,
            "weight_hh": np.concatenate([own["U"], own["Ux"]], axis=-1).T,
            "bias_ih": np.concatenate([own["b"], own["bx"]]),
            "bias_hh": np.zeros(3 * hidden, np.float32),
        }
        for name, part in parts.items():
            tensors[f"{name}_l0{side}"] = torch.from_numpy(np.ascontiguousarray(part))
    reader.fill(tensors, path)
    return reader


def _load_official(options: Options, device: str) -> SentenceEvaluator:
    dictionary = Path(str(options.get("dictionary")))
    refuse_page(dictionary)
    words = [word.strip() for word in read_utf8(dictionary).split("\n")]
    words = words[:-1] if words and not words[-1] else words
    parts, sums, kinds = [], {}, [kind for kind in ("uni", "bi") if options.get(kind)]
    for kind in kinds:
        table = ArrayTable(str(options.get(f"{kind}_table")), words, _TOLERANCE)
        if table.symbol(_UNKNOWN) is None:
            raise InputError(f"{dictionary}: has no word {_UNKNOWN}; is it dictionary.txt?")
        parts.append((read_official_gru(options[kind], kind, table.width), table))
        sums[kind] = [content_hash(options[kind]), table.sha256]
    title = "SkipThought (" + " and ".join(f"{kind}-skip" for kind in kinds) + ")"
    sha256 = sums[kinds[0]][0] if len(kinds) == 1 else value_hash(sums)
    about = about_weights(title, sha256, "torch")
    encoder = OfficialSkipThought(parts, choose_device(device))
    # The official program has NLTK's tokenizer and keeps upper case and accents.
    return SentenceEvaluator(encoder, about, Preprocessing(lower_case=False, remove_accents=False))


def load_skipthought(options: Options, measures: Options, device: str) -> SentenceEvaluator:
    """Load a SkipThought evaluator from ``path``, a folder that was trained here, or ``uni`` with
    ``uni_table``, ``bi`` with ``bi_table`` or all four, and ``dictionary``."""
    if not options.get("path"):
        if not (options.get("uni") or options.get("bi")):
            wanted = "path, of a trained folder, or uni or bi, of weights"
            raise InputError(f"skipthought: give {wanted}")
        return _load_official(options, device)
    path = Path(str(options["path"]))
    network, held = networks.load_network(path, SkipThoughtNetwork, device)
    vocabulary = load_vocabulary(path / VOCABULARY)
    if vocabulary.hash != held["vocabulary_sha256"]:
        raise InputError(f"{path / VOCABULARY}: is not the vocabulary the network was trained with")
    about = {key: held[key] for key in ("title", "sha256", "versions")}
    cleaning = Preprocessing.from_config(held["preprocessing"])
    encoder = TrainedSkipThought(network, vocabulary.describe()["words"])
    return SentenceEvaluator(encoder, about, cleaning)

"""Masked diffusion: words are shown one after the other, in an order that is the latent variable.

p(x) = p(n) Σ_z (1 / n!) Π_k p(x_{z_k} | x_{z_1}, ..., x_{z_{k-1}}, n): a network that reads both
ways says every hidden word given those that are shown; z is a permutation of the n positions, z_k
the one that step k shows. Absorbing-state diffusion, order-agnostic and masked models are this one
distribution (Hoogeboom et al. 2022; Sahoo et al. 2024; Nie et al. 2025). p(n) makes it one of texts
and not of texts of a given length. Training hides m of the n words, m from 1 to n with equal
probability, and weighs their loss by n / m: on average the loss of a random order.

B instances, R rows, K particles, M masks, N hidden words, T words, n words of one text, D width, V
ids; of the ids 0 hides a word, and 1 is none.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from beyond_perplexity.corpus.latent_instances import (
    LATENTS,
    TOKENS,
    CorpusFiles,
    Instance,
    InstanceBatch,
    encode_with_text,
)
from beyond_perplexity.invariant_tensors import (
    QUANTUM,
    invert,
    padded_width,
    round_up,
    uniforms,
)
from beyond_perplexity.models.latent import PADDING, DrawnText
from beyond_perplexity.models.latents.masked_diffusion_lengths import LengthModel, bin_lengths
from beyond_perplexity.models.latents.masked_diffusion_walks import MaskedModel
from beyond_perplexity.models.transformer import (
    Block,
    TransformerOptions,
    attend_once,
    initialize_blocks,
    sinusoids,
)
from beyond_perplexity.options import Count, Dropout, Layers, Length, Limited, Width
from beyond_perplexity.vocabulary import UNK, Vocabulary, split_words

MASK = 0  # the id of ``<s>``, which no text has
# Of a pass, on a CPU and on a GPU: positions, and hidden words whose logits are held
POSITIONS_OF_PASS, WORDS_OF_PASS = {"cpu": 1 << 13, "cuda": 1 << 18}, {"cpu": 128, "cuda": 1 << 14}
TABLE = 512  # positions of a table: rounding must not depend on how many are asked for


@dataclass(frozen=True)
class MaskedDiffusionOptions(Limited):
    """Architecture of masked diffusion.

    layers: Blocks of the network, which reads both ways.
    width: D, the width of the embedding, which is the output layer's too.
    heads: Attention heads; divides the width.
    feedforward_size: Width of the hidden layer of a block's feed-forward network.
    dropout: Probability of dropping an element of the embedding and of each sub-layer's output in
        training.
    maximum_words: Longer documents are trained on in pieces and not evaluated, and how long a text
        is is learned of the others: a sample of n words takes n passes over all of them.
    count_eos: T counts the end of a text, and log p has its number of words; without it p is of
        texts of a given length.
    """

    layers: Layers = 2
    width: Width = 64
    heads: Count = 4
    feedforward_size: Width = 256
    dropout: Dropout = 0.1
    maximum_words: Length = 60
    count_eos: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.blocks

    @property
    def blocks(self) -> TransformerOptions:
        """What a block is made of."""
        sizes = {"layers": self.layers, "width": self.width, "heads": self.heads}
        more = {"feedforward_size": self.feedforward_size, "dropout": self.dropout}
        return TransformerOptions(**sizes, **more)  # type: ignore[arg-type]


class BidirectionalBlock(Block):
    """A block whose positions see each other."""

    def read(self, inputs: Tensor, visible: Tensor) -> Tensor:
        """Map the residual stream (B, T, D) to itself; `visible`, bool, (B, T), is seen by all."""
        query, key, value = self._query_key_value(inputs)  # 3 x (B, H, T, K)
        mixed = attend_once(query, key, value, visible[:, None, None])  # (B, H, T, K)
        return self._finish(inputs, mixed)  # (B, T, D)


class MaskedDiffusion(MaskedModel):
    """The model; see the module; `lengths` are the counts of `bin_lengths`."""

    family = "masked-diffusion"
    options_kind: ClassVar[type[Any]] = MaskedDiffusionOptions
    texts_at_once = 256
    text_draws = 2  # for the position and for the word

    shapes: Mapping[str, Any] = {"lengths": []}
    options: MaskedDiffusionOptions

    def build(self) -> None:
        """Make the layers, untrained."""
        options = self.options
        self.lengths = LengthModel(self.shapes["lengths"])
        self.embedding = nn.Embedding(self.vocabulary_size, options.width)
        nn.init.normal_(self.embedding.weight, std=options.width**-0.5)
        self.word_bias = nn.Parameter(torch.zeros(self.vocabulary_size - UNK))
        made = (BidirectionalBlock(options.blocks) for _ in range(options.layers))
        self.blocks = nn.ModuleList(made)
        self.final_norm = nn.LayerNorm(options.width)
        initialize_blocks(self.blocks, options.layers)

    @classmethod
    def create(
        cls, architecture: Mapping[str, Any], vocabulary: Vocabulary, corpus: CorpusFiles
    ) -> Self:
        """Make an untrained model that knows how long the texts of the training split are."""
        bare = cls(vocabulary.size, architecture).eval()
        texts = bare.instances(corpus, "train", vocabulary)
        counts = bin_lengths(len(text.arrays[TOKENS]) for text in texts)
        return cls(vocabulary.size, architecture, lengths=counts)

    def instances(
        self, corpus: CorpusFiles, split: str, vocabulary: Vocabulary
    ) -> Iterator[Instance]:
        """Read documents that are not too long, ordered from left to right; in training, pieces of
        the others too."""
        most = self.options.maximum_words
        for document, tokens in encode_with_text(corpus, split, vocabulary):
            pieces = range(0, len(tokens), most) if self.training or len(tokens) <= most else ()
            for piece in (tokens[start : start + most] for start in pieces):
                yield Instance(document.doc_id, {TOKENS: piece, LATENTS: np.arange(len(piece))})

    def features(self, tokens: Tensor, visible: Tensor) -> Tensor:
        """Return the input of the output layer, (B, T, D), for tokens (B, T), some hidden;
        `visible`, bool, (B, T), are the positions that a text has."""
        width = self.options.width
        table = positions_of(-(-tokens.shape[1] // TABLE), width, tokens.device)  # (T', D)
        scaled = self.embedding(tokens) * math.sqrt(width)  # (B, T, D)
        stream = scaled + table[: tokens.shape[1]].to(scaled.dtype)  # (B, T, D)
        stream = functional.dropout(stream, self.options.dropout, self.training)
        for block in self.blocks:
            assert isinstance(block, BidirectionalBlock)
            stream = block.read(stream, visible)  # (B, T, D)
        normed: Tensor = self.final_norm(stream)  # (B, T, D)
        return normed

    def word_logits(self, features: Tensor) -> Tensor:
        """Return the logits of all words, (N, V − 2), of features (N, D): of the ids from 2 on."""
        return functional.linear(features, self.embedding.weight[UNK:], self.word_bias)

    def loss(self, batch: InstanceBatch, epoch: float = math.inf) -> Tensor:
        """Return the mean over orders of −Σ log p(x, z), estimated by one mask, float32 scalar."""
        tokens, lengths = batch.tokens, batch.lengths[TOKENS]  # (B, T), (B,)
        numbers = self._loss_numbers(batch)  # (B, T + 1)
        inside = torch.arange(tokens.shape[1], device=tokens.device) < lengths[:, None]  # (B, T)
        count = (numbers[:, 0] * lengths).long().clamp(max=lengths - 1) + 1  # (B,): m
        rank = numbers[:, 1:].masked_fill(~inside, 2.0).argsort(1).argsort(1)  # (B, T)
        hidden = rank < count[:, None]  # (B, T)
        row, place = hidden.nonzero(as_tuple=True)  # (N,)
        features = self.features(tokens.masked_fill(hidden, MASK), inside)[row, place]  # (N, D)
        logits = self.word_logits(features).float()  # (N, V − 2)
        costs = functional.cross_entropy(logits, tokens[row, place] - UNK, reduction="none")
        weights = (lengths / count)[row].float()  # (N,)
        return (costs * weights).sum() - self.length_log_prob(lengths).sum().float()

    def _loss_numbers(self, batch: InstanceBatch) -> Tensor:
        """Return uniform numbers, (B, T + 1): in validation always the same of an instance."""
        count = batch.tokens.shape[1] + 1
        if self.training:
            numbers = torch.rand(len(batch), count, device=batch.ids.device)
            spread = torch.arange(len(batch), device=batch.ids.device) / len(batch)  # (B,)
            numbers[:, 0] = (numbers[0, 0] + spread) % 1  # evenly over a batch
            return numbers[torch.randperm(len(batch), device=batch.ids.device)]
        return uniforms(0, "masked-diffusion/validation", batch.ids, 0, count, self.device)

    @torch.no_grad()
    def hidden_scores(self, tokens: Tensor, hidden: Tensor) -> Tensor:
        """Return what `HiddenScorer` says, some masks at a time."""
        found = torch.zeros(len(hidden), 2, len(tokens), dtype=torch.float64, device=tokens.device)
        block = max(1, POSITIONS_OF_PASS[tokens.device.type] // len(tokens) // QUANTUM) * QUANTUM
        for part in torch.arange(len(hidden), device=tokens.device).split(block):
            masks = round_up(hidden[part])  # (M', n)
            read = tokens.expand(len(masks), -1).masked_fill(masks, MASK)  # (M', n)
            features = self.features(read, torch.ones_like(masks))  # (M', n, D)
            row, place = masks[: len(part)].nonzero(as_tuple=True)  # (N,)
            found[part[row], :, place] = self._said(features[row, place], tokens[place])
        return found

    def _said(self, features: Tensor, targets: Tensor) -> Tensor:
        """Return log p of words (N,), and the entropies, float64, (N, 2), of features (N, D)."""
        parts = [torch.zeros(0, 2, dtype=torch.float64, device=targets.device)]
        most = WORDS_OF_PASS[self.device.type]
        for rows, goals in zip(features.split(most), targets.split(most), strict=True):
            logits = self.word_logits(round_up(rows))[: len(rows)]  # (n, V − 2)
            chosen = logits.gather(1, goals[:, None] - UNK)[:, 0].double()  # (n,)
            top = logits.amax(1, keepdim=True)  # (n, 1)
            shares = (logits - top).exp_()  # (n, V − 2)
            total = shares.sum(1)  # (n,)
            log_total = top[:, 0].double() + total.double().log()  # (n,)
            mean = shares.mul_(logits).sum(1) / total  # (n,)
            parts.append(torch.stack([chosen - log_total, log_total - mean.double()], 1))
        return torch.cat(parts)

    def draw_texts(
        self, count: int, lots: Iterator[Tensor], maximum_words: int, vocabulary: Vocabulary
    ) -> Iterator[DrawnText]:
        """Draw (x, z) ~ p by showing words in a random order, beside texts padded to the same
        width, which follows from their own length; one too long is written whole, then cut."""
        first = next(lots)[:, 0].cpu().numpy()  # (R,)
        lengths = torch.from_numpy(self.lengths.draw(first)).to(self.device)  # (R,)
        numbers = [next(lots) for _ in range(int(lengths.max()))]  # each (R, 2)
        widths = torch.tensor([padded_width(n) for n in lengths.tolist()], device=self.device)
        made: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        for width in widths.unique().tolist():
            rows = (widths == width).nonzero()[:, 0]  # (R',)
            own = round_up(rows)  # (R'',)
            words, order = self._write(lengths[own], int(width), [draw[own] for draw in numbers])
            held = zip(words.cpu().numpy(), order.cpu().numpy(), strict=True)
            made |= dict(zip(rows.tolist(), held, strict=False))
        for row, n in enumerate(lengths.tolist()):
            ids, places = made[row][0][: min(n, maximum_words)], made[row][1][:n]
            arrays = {TOKENS: ids, LATENTS: places[places < maximum_words]}
            yield split_words(vocabulary.decode([ids])[0]), arrays, n > maximum_words

    def _write(self, lengths: Tensor, width: int, draws: list[Tensor]) -> tuple[Tensor, Tensor]:
        """Return words and orders, int64, (R, W), of texts of these lengths, (R,)."""
        position = torch.arange(width, device=self.device)  # (W,)
        inside = position < lengths[:, None]  # (R, W)
        hidden, tokens = inside.clone(), torch.zeros_like(inside, dtype=torch.int64)  # (R, W)
        order = torch.full_like(tokens, PADDING)  # (R, W)
        for step in range(int(lengths.max())):
            alive = lengths > step  # (R,)
            sums = hidden.double().cumsum(1)  # (R, W)
            place = invert(sums, draws[step][:, :1]).clamp(max=width - 1)  # (R, 1)
            features = self.features(tokens, inside | ~alive[:, None])  # (R, W, D)
            at = features.gather(1, place[..., None].expand(-1, -1, features.shape[2]))[:, 0]
            shares = self.word_logits(at).double().softmax(1).cumsum(1)  # (R, V − 2)
            word = invert(shares, draws[step][:, 1:]) + UNK  # (R, 1)
            tokens = torch.where(alive[:, None], tokens.scatter(1, place, word), tokens)
            order[:, step] = torch.where(alive, place[:, 0], PADDING)
            hidden = hidden.scatter(1, place, False)
        return tokens, order


@cache
def positions_of(tables: int, width: int, device: torch.device) -> Tensor:
    """Return `sinusoids` of whole tables of positions, float64, (tables · `TABLE`, D)."""
    return sinusoids(tables * TABLE, width).to(device)

"""The gated convolutional network (Dauphin, Fan, Auli & Grangier 2017) with a full softmax.

A prediction depends on the last 1 + L (K − 1) tokens of a prefix of any length. Weights may be
normalized (Salimans & Kingma 2016).

B rows, T positions, V ids, E embedding size, D width, L layers, K kernel size.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from beyond_perplexity.models.contract import State, TensorState
from beyond_perplexity.models.factored import TiedNetwork, skips_layer
from beyond_perplexity.options import Dropout, Layers, Limited, Width


@dataclass(frozen=True)
class CNNOptions(Limited):
    """Architecture of a `CNN`.

    layers: L, the number of blocks with a convolution over K positions; all but the first are
        residual.
    embedding_size: E, the width of the input embedding (and of the output layer, when tied).
    width: D, the width of each block's output.
    kernel_size: K, the positions that a convolution sees, the present one included.
    bottleneck: Width of the convolution over K positions inside a residual block, between two over
        a single position; null: it is the only one, of width D.
    weight_normalization: Length and direction of each row of weights are parameters of their own.
    dropout: Probability of dropping an element of the input of each convolution, and of the output,
        in training.
    locked_dropout: Whether dropout takes the same channels at all positions of a document.
    embedding_dropout: Probability of dropping a word's embedding wherever it is in a batch, in
        training.
    layer_dropout: Probability that a batch skips a residual block, in training (LayerDrop).
    tie_weights: The output layer shares the embedding's matrix; when D is not E, a projection goes
        between.
    """

    layers: Layers = 4
    embedding_size: Width = 128
    width: Width = 256
    kernel_size: Width = 4
    bottleneck: Width | None = None
    weight_normalization: bool = True
    dropout: Dropout = 0.1
    locked_dropout: bool = False
    embedding_dropout: Dropout = 0.0
    layer_dropout: Dropout = 0.0
    tie_weights: bool = True


@dataclass(frozen=True)
class CNNState(TensorState):
    """The last inputs of each convolution for B prefixes, (B, K − 1, C), zero before the first
    token, and `weights`, (K C, 2 C'), normalized once and not at each step."""

    weights: tuple[Tensor, ...]


class GatedConvolution(nn.Module):
    """A causal convolution to a ⊗ σ(b), C inputs over K positions to C' outputs; at `gain` 1 the
    output has at first about the variance of the input (Gehring et al. 2017, appendix A)."""

    def __init__(
        self, inputs: int, outputs: int, kernel_size: int, normalized: bool, gain: float
    ) -> None:
        super().__init__()
        self.inputs, self.kernel_size = inputs, kernel_size
        self.direction = nn.Parameter(torch.empty(2 * outputs, inputs, kernel_size))
        nn.init.normal_(self.direction, std=gain * (4 / (inputs * kernel_size)) ** 0.5)
        length = self.direction.detach().flatten(1).norm(dim=1)  # (2 C',)
        self.length = nn.Parameter(length) if normalized else None
        self.bias = nn.Parameter(torch.zeros(2 * outputs))

    def matrix(self) -> Tensor:
        """Return the kernel as a map of windows, oldest position first, (K C, 2 C')."""
        kernel = self.direction  # (2 C', C, K)
        if self.length is not None:
            scale = self.length / kernel.flatten(1).norm(dim=1)  # (2 C',)
            kernel = kernel * scale[:, None, None]  # (2 C', C, K)
        return kernel.permute(2, 1, 0).flatten(0, 1).contiguous()

    def forward(self, inputs: Tensor) -> Tensor:
        """Map (B, T, C) to (B, T, C'); position t sees t − K + 1 to t, zeros before the first."""
        size = self.kernel_size
        # Windows cost K times the memory of the inputs; conv1d takes half as long again on a CPU.
        padded = functional.pad(inputs, (0, 0, size - 1, 0))  # (B, K − 1 + T, C)
        windows = padded.unfold(1, size, 1).transpose(2, 3).flatten(2)  # (B, T, K C)
        return self._convolve(windows, self.matrix())

    def step(self, inputs: Tensor, buffer: Tensor, matrix: Tensor) -> tuple[Tensor, Tensor]:
        """Map the newest inputs (B, C), after the buffer (B, K − 1, C); return it moved on, too."""
        window = torch.cat([buffer, inputs[:, None]], 1)  # (B, K, C)
        return self._convolve(window.flatten(1), matrix), window[:, 1:]  # (B, C'), (B, K − 1, C)

    def _convolve(self, windows: Tensor, matrix: Tensor) -> Tensor:
        """Map windows (..., K C) to (..., C')."""
        both = functional.linear(windows, matrix.T, self.bias)  # (..., 2 C')
        return functional.glu(both, -1)  # (..., C')


class CNN(TiedNetwork):
    """Embedding, gated convolutions with residual connections, output layer."""

    family = "cnn"
    options_kind = CNNOptions
    options: CNNOptions

    def build(self) -> None:
        """Make the layers, untrained."""
        options = self.options
        self.embedding = nn.Embedding(self.vocabulary_size, options.embedding_size)
        nn.init.normal_(self.embedding.weight)
        self.blocks = nn.ModuleList(self._block(layer) for layer in range(options.layers))
        self._make_output(options.width)
        if options.tie_weights:
            # One matrix serves both ends: as input it is scaled up to variance 1.
            nn.init.normal_(self.embedding.weight, std=options.embedding_size**-0.5)

    def _block(self, layer: int) -> nn.ModuleList:
        options = self.options
        width, middle, kernel = options.width, options.bottleneck, options.kernel_size
        # All residual blocks together shall add about the variance of the stream.
        gain = options.layers**-0.5
        if layer == 0:
            sizes = [(options.embedding_size, width, kernel, 1.0)]
        elif middle is None:
            sizes = [(width, width, kernel, gain)]
        else:
            inner = (middle, middle, kernel, 1.0)
            sizes = [(width, middle, 1, 1.0), inner, (middle, width, 1, gain)]
        shared = options.weight_normalization
        return nn.ModuleList(GatedConvolution(i, o, size, shared, own) for i, o, size, own in sizes)

    def features(self, tokens: Tensor) -> Tensor:
        """Return the input of the output layer, (B, T, E or D), for tokens (B, T)."""
        options = self.options
        stream = self._drop_words(self._embed(tokens), tokens)  # (B, T, E)
        for layer, block in enumerate(self.blocks):
            if layer and skips_layer(options.layer_dropout, self.training):
                continue
            assert isinstance(block, nn.ModuleList)
            values = stream  # (B, T, E or D)
            for convolution in block:
                values = convolution(self._drop(values))  # (B, T, D or bottleneck)
            stream = stream + values if layer else values  # (B, T, D)
        return self._to_features(self._drop(stream))  # (B, T, E or D)

    def initial_state(self, batch_size: int, maximum_length: int) -> CNNState:
        """Return the state of B empty prefixes; its size does not depend on `maximum_length`."""
        parts = [part for part in self.blocks.modules() if isinstance(part, GatedConvolution)]
        sizes = ((batch_size, part.kernel_size - 1, part.inputs) for part in parts)
        buffers = tuple(self.output.bias.new_zeros(size) for size in sizes)
        return CNNState(buffers, tuple(part.matrix().detach() for part in parts))

    def advance(self, tokens: Tensor, state: State) -> tuple[Tensor, CNNState]:
        """Advance B prefixes by the tokens (B,): features (B, E or D), and the new state."""
        assert isinstance(state, CNNState)
        stream = self._embed(tokens)  # (B, E)
        known = iter(zip(state.parts, state.weights, strict=True))
        buffers = []
        for layer, block in enumerate(self.blocks):
            assert isinstance(block, nn.ModuleList)
            values = stream  # (B, E or D)
            for convolution in block:
                assert isinstance(convolution, GatedConvolution)
                values, buffer = convolution.step(values, *next(known))  # (B, D or bottleneck)
                buffers.append(buffer)
            stream = stream + values if layer else values  # (B, D)
        return self._to_features(stream), CNNState(tuple(buffers), state.weights)

    def _embed(self, tokens: Tensor) -> Tensor:
        embedded: Tensor = self.embedding(tokens)  # (..., E)
        return embedded * self.options.embedding_size**0.5 if self.options.tie_weights else embedded

"""The gated convolutional network.

Oracles: torch's conv1d, weight_norm and glu composed here by hand, the receptive field by
perturbation, parameter counts in closed form.
"""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional

from beyond_perplexity.models import registry
from beyond_perplexity.models.cnn import GatedConvolution

SIZE = 20
ARCHITECTURES = [
    {"layers": 3, "embedding_size": 8, "width": 12, "kernel_size": 3, "dropout": 0.5},
    {"layers": 3, "embedding_size": 8, "width": 8, "kernel_size": 4, "bottleneck": 5},
    {"layers": 1, "embedding_size": 8, "width": 12, "kernel_size": 1, "tie_weights": False},
    {"layers": 2, "embedding_size": 8, "width": 12, "weight_normalization": False},
]


def make(architecture, **options):
    torch.manual_seed(0)
    config = {"family": "cnn", "architecture": architecture}
    model = registry.build(config, SIZE, **options).eval()
    for parameter in model.parameters():  # biases and lengths must matter too
        parameter.data += 0.1 * torch.randn_like(parameter)
    return model


def prefixes(rows=3, length=17):
    tokens = torch.randint(3, SIZE, (rows, length), generator=torch.Generator().manual_seed(1))
    tokens[:, 0] = 0
    return tokens


def like_torch(part, stream):
    """Apply one gated convolution with torch's own layers to (B, T, C)."""
    kernel, inputs = part.kernel_size, part.inputs
    convolution = nn.Conv1d(inputs, len(part.bias), kernel)
    if part.length is None:
        convolution.weight.data = part.direction
    else:
        convolution = nn.utils.parametrizations.weight_norm(convolution)
        convolution.parametrizations.weight.original0.data = part.length[:, None, None]
        convolution.parametrizations.weight.original1.data = part.direction
    convolution.bias.data = part.bias
    padded = functional.pad(stream.transpose(1, 2), (kernel - 1, 0))
    return functional.glu(convolution(padded), 1).transpose(1, 2)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@torch.no_grad()
def test_forward_equals_torchs_layers(architecture):
    model, tokens = make(architecture), prefixes()
    stream = model.embedding(tokens)
    if architecture.get("tie_weights", True):
        stream = stream * 8**0.5
    for layer, block in enumerate(model.blocks):
        values = stream
        for part in block:
            values = like_torch(part, values)
        stream = stream + values if layer else values
    if model.narrow is not None:
        stream = model.narrow(stream)
    expected = stream @ model.output.weight.T + model.output.bias
    torch.testing.assert_close(model(tokens)[..., 1:], expected[..., 1:], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_prediction_sees_the_receptive_field_and_nothing_else(architecture):
    model = make(architecture)
    embedded = model.embedding(prefixes(1)).detach().requires_grad_()
    model._embed = lambda tokens: embedded
    model(prefixes(1))[0, 14, 1:].sum().backward()
    seen = embedded.grad[0].abs().sum(1) > 0  # (T,)
    field = 1 + architecture["layers"] * (architecture.get("kernel_size", 4) - 1)
    assert seen.tolist() == [14 - field < place <= 14 for place in range(17)]
    assert model.context_length is None


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_parameter_count_is_the_closed_form(architecture):
    E, D = architecture["embedding_size"], architecture["width"]
    K, L = architecture.get("kernel_size", 4), architecture["layers"]
    middle = architecture.get("bottleneck")
    vectors = 4 if architecture.get("weight_normalization", True) else 2  # bias, length

    def gated(inputs, outputs, kernel):
        return 2 * outputs * inputs * kernel + vectors * outputs

    inner = gated(D, D, K)
    if middle:
        inner = gated(D, middle, 1) + gated(middle, middle, K) + gated(middle, D, 1)
    expected = SIZE * E + gated(E, D, K) + (L - 1) * inner + SIZE
    if architecture.get("tie_weights", True):
        expected += 0 if D == E else D * E + E
    else:
        expected += SIZE * D
    assert make(architecture).parameter_count() == expected


def test_initial_outputs_have_about_the_variance_of_the_input():
    torch.manual_seed(0)
    stream = torch.randn(4, 300, 64)
    for _ in range(3):
        stream = GatedConvolution(64, 64, 4, True, 1.0)(stream).detach()
    assert 0.5 < stream.var() < 4


def test_locked_dropout_takes_whole_channels_and_steps_have_none():
    sizes = {"layers": 1, "width": 40, "dropout": 0.5, "tie_weights": False}
    model = make({**sizes, "locked_dropout": True}).train()
    zero = model.features(prefixes()) == 0  # (3, 17, 40)
    assert torch.equal(zero, zero[:, :1].expand_as(zero))
    assert 0.2 < zero.float().mean() < 0.8
    first, _ = model.step(torch.zeros(3, dtype=torch.int64), model.initial_state(3, 1))
    again, _ = model.step(torch.zeros(3, dtype=torch.int64), model.initial_state(3, 1))
    assert torch.equal(first, again)

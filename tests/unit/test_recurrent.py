"""The recurrent families, LSTM and GRU, and the kinds of dropout.

Oracles: torch's fused layers and linear layers, composed here by hand; parameter counts in closed
form; the expectation of dropout; bounds and variances of initial weights.
"""

from __future__ import annotations

import pytest
import torch

from beyond_perplexity.errors import InputError
from beyond_perplexity.models import registry
from beyond_perplexity.models.factored import drop, drop_words, skips_layer

FAMILIES = {"lstm": 4, "gru": 3}  # gates
ARCHITECTURES = [
    {"layers": 2, "embedding_size": 8, "hidden_size": 12, "dropout": 0.5},
    {"layers": 1, "embedding_size": 8, "hidden_size": 8},
    {"layers": 1, "embedding_size": 8, "hidden_size": 12, "tie_weights": False},
]


def make(architecture, size=20, family="lstm", **options):
    torch.manual_seed(0)
    return registry.build({"family": family, "architecture": architecture}, size, **options).eval()


def prefixes(rows=3, length=9, size=20):
    tokens = torch.randint(3, size, (rows, length), generator=torch.Generator().manual_seed(1))
    tokens[:, 0] = 0
    return tokens


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@torch.no_grad()
def test_step_equals_the_fused_layers(architecture, family):
    model, tokens = make(architecture, family=family), prefixes()
    hidden, _ = model.layers(model.embedding(tokens))
    if model.narrow is not None:
        hidden = model.narrow(hidden)
    expected = hidden @ model.output.weight.T + model.output.bias
    state = model.initial_state(3, 9)
    for place in range(9):
        logits, state = model.step(tokens[:, place], state)
        torch.testing.assert_close(logits[:, 1:], expected[:, place, 1:], atol=1e-5, rtol=0)
    torch.testing.assert_close(model(tokens)[..., 1:], expected[..., 1:], atol=1e-5, rtol=0)


@pytest.mark.parametrize(("family", "gates"), FAMILIES.items())
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_parameter_count_is_the_closed_form(architecture, family, gates):
    size, E, H = 20, architecture["embedding_size"], architecture["hidden_size"]
    tied = architecture.get("tie_weights", True)
    layers = sum(
        gates * H * ((E if layer == 0 else H) + H) + 2 * gates * H
        for layer in range(architecture["layers"])
    )
    output = size if tied else size * H + size
    projection = H * E + E if tied and E != H else 0
    model = make(architecture, family=family)
    assert model.parameter_count() == size * E + layers + output + projection


@pytest.mark.parametrize("family", FAMILIES)
def test_locked_dropout_takes_the_same_elements_at_all_positions(family):
    sizes = {"layers": 2, "embedding_size": 8, "hidden_size": 40, "dropout": 0.5}
    model = make({**sizes, "locked_dropout": True, "tie_weights": False}, family=family).train()
    features = model.features(prefixes())  # (3, 9, 40): dropped elements are exactly zero
    zero = features == 0
    assert torch.equal(zero, zero[:, :1].expand_as(zero))
    assert 0.2 < zero.float().mean() < 0.8
    assert not torch.equal(zero[0], zero[1])


@pytest.mark.parametrize("family", FAMILIES)
def test_layers_apart_equal_the_fused_stack(family):
    model, tokens = make(ARCHITECTURES[0], family=family), prefixes()
    stream = model.embedding(tokens)
    torch.testing.assert_close(model._layer_by_layer(stream), model.layers(stream)[0])


def test_kinds_of_dropout_keep_the_mean_and_drop_what_they_say():
    torch.manual_seed(0)
    tokens = torch.arange(2000).repeat(2, 1)  # each id twice
    words = drop_words(torch.ones(2, 2000, 3), tokens, 2000, 0.4, True)
    assert words.unique().tolist() == [0.0, pytest.approx(1 / 0.6)]
    assert torch.equal(words[0], words[1])
    assert torch.equal(words[..., 0], words[..., 2])
    assert words.mean() == pytest.approx(1, abs=0.06)  # three standard deviations: 0.055
    locked = drop(torch.ones(500, 4, 4), 0.4, True, locked=True)
    assert torch.equal(locked[:, 0], locked[:, 3])
    assert locked.mean() == pytest.approx(1, abs=0.06)
    skipped = [skips_layer(0.25, True) for _ in range(4000)]
    assert sum(skipped) / 4000 == pytest.approx(0.25, abs=0.025)
    assert not skips_layer(0.25, False)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("tied", [True, False])
def test_weights_by_xavier(family, tied):
    """Oracle: the bound and variance of Glorot & Bengio (2010), for every gate by itself."""
    sizes = {"layers": 2, "embedding_size": 60, "hidden_size": 90, "tie_weights": tied}
    model = make({**sizes, "initialization": "xavier"}, size=300, family=family)
    model.requires_grad_(False)
    matrices = [model.embedding.weight, model.output.weight]
    matrices += [] if model.narrow is None else [model.narrow.weight]
    for name, weight in model.layers.named_parameters():
        matrices += weight.chunk(FAMILIES[family]) if "weight" in name else []
    for matrix in matrices:
        limit = (6 / sum(matrix.shape)) ** 0.5
        assert 0.98 * limit < matrix.abs().max() <= limit
        assert float(matrix.var()) == pytest.approx(limit**2 / 3, rel=0.05)
    biases = [weight for weight in model.parameters() if weight.dim() == 1]
    assert len(biases) == 5 + (model.narrow is not None)
    assert not any(bias.any() for bias in biases)
    plain = make({**sizes, "initialization": "torch"}, size=300, family=family)
    default = make(sizes, size=300, family=family)
    for one, other in zip(plain.parameters(), default.parameters(), strict=True):
        assert torch.equal(one, other)


def test_unknown_family_is_named():
    with pytest.raises(InputError, match=r"family: is 'gpt'; allowed are .*lstm, .*transformer, "):
        registry.build({"family": "gpt"}, 10)

"""The LSTM family. Oracle: torch's fused nn.LSTM and linear layers, composed here by hand."""

from __future__ import annotations

import pytest
import torch

from beyond_perplexity.errors import InputError
from beyond_perplexity.models import registry

ARCHITECTURES = [
    {"layers": 2, "embedding_size": 8, "hidden_size": 12, "dropout": 0.5},
    {"layers": 1, "embedding_size": 8, "hidden_size": 8},
    {"layers": 1, "embedding_size": 8, "hidden_size": 12, "tie_weights": False},
]


def make(architecture, size=20, **options):
    torch.manual_seed(0)
    return registry.build({"family": "lstm", "architecture": architecture}, size, **options).eval()


def prefixes(rows=3, length=9, size=20):
    tokens = torch.randint(3, size, (rows, length), generator=torch.Generator().manual_seed(1))
    tokens[:, 0] = 0
    return tokens


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@torch.no_grad()
def test_step_equals_the_fused_layers(architecture):
    model, tokens = make(architecture), prefixes()
    hidden, _ = model.layers(model.embedding(tokens))
    if model.narrow is not None:
        hidden = model.narrow(hidden)
    expected = hidden @ model.output.weight.T + model.output.bias
    state = model.initial_state(3, 9)
    for place in range(9):
        logits, state = model.step(tokens[:, place], state)
        torch.testing.assert_close(logits[:, 1:], expected[:, place, 1:], atol=1e-5, rtol=0)
    torch.testing.assert_close(model(tokens)[..., 1:], expected[..., 1:], atol=1e-5, rtol=0)


@torch.no_grad()
def test_selected_and_reset_rows_go_on_as_if_they_were_alone():
    model, tokens = make(ARCHITECTURES[0]), prefixes()
    state = model.initial_state(3, 9)
    for place in range(4):
        _, state = model.step(tokens[:, place], state)
    state = state.select(torch.tensor([2, 0, 0])).reset(torch.tensor([1]))
    logits, _ = model.step(torch.tensor([5, 0, 6]), state)
    for row, prefix in enumerate([[*tokens[2, :4], 5], [0], [*tokens[0, :4], 6]]):
        expected = model(torch.tensor([prefix]))[0, -1]
        torch.testing.assert_close(logits[row, 1:], expected[1:], atol=1e-5, rtol=0)


@torch.no_grad()
def test_special_tokens_have_no_probability():
    assert torch.isneginf(make(ARCHITECTURES[0])(prefixes())[..., 0]).all()
    closed = make(ARCHITECTURES[0])(prefixes())
    assert torch.isfinite(closed[..., 1:]).all()
    opened = make(ARCHITECTURES[0], open_vocabulary=True)(prefixes())
    assert torch.isneginf(opened[..., 2]).all()


def test_tied_weights_are_counted_once():
    tied = make(ARCHITECTURES[1])
    # Embedding 20 x 8, bias 20, one layer of 4 gates: 4 x 8 x (8 + 8) weights and 2 x 4 x 8 biases.
    assert tied.parameter_count() == 160 + 20 + 512 + 64


@pytest.mark.parametrize(
    ("architecture", "words"),
    [
        ({"layer": 1}, "architecture.layer: unknown key; allowed are layers"),
        ({"layers": "two"}, "architecture.layers: is 'two', expected int"),
        ({"layers": True}, "architecture.layers: is True"),
        ({"dropout": 1.0}, "dropout: is 1.0"),
        (3, "expected an object"),
    ],
)
def test_wrong_options_are_named(architecture, words):
    with pytest.raises(InputError, match=words):
        make(architecture)


def test_unknown_family_is_named():
    with pytest.raises(
        InputError, match="family: is 'gpt'; allowed are lstm, transformer, trigram"
    ):
        registry.build({"family": "gpt"}, 10)

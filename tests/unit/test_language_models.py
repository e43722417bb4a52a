"""What the contract asks of every neural family that predicts words.

Oracles: the parallel pass for single steps, each prefix alone for rows that moved, sums over the
vocabulary.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch

from beyond_perplexity.errors import InputError
from beyond_perplexity.models import registry

SIZE = 60
RECURRENT: list[dict[str, Any]] = [
    {"layers": 2, "embedding_size": 8, "hidden_size": 12, "dropout": 0.5},
    {"layers": 1, "embedding_size": 8, "hidden_size": 8},
    {"layers": 1, "embedding_size": 8, "hidden_size": 12, "tie_weights": False},
]
CONVOLUTIONS: list[dict[str, Any]] = [
    {"layers": 3, "embedding_size": 8, "width": 12, "kernel_size": 3, "dropout": 0.5},
    {"layers": 3, "embedding_size": 8, "width": 8, "kernel_size": 4, "bottleneck": 5},
    {"layers": 1, "embedding_size": 8, "width": 12, "kernel_size": 1, "tie_weights": False},
    {"layers": 2, "embedding_size": 8, "width": 12, "weight_normalization": False},
]
BLOCKS = {"layers": 2, "width": 16, "heads": 4, "feedforward_size": 24, "context_length": 80}
BANDS = {**BLOCKS, "width": 32, "cutoffs": [10, 30]}
ELMAN = {"embedding_size": 8, "hidden_size": 12}
CASES = [
    *((family, architecture) for family in ("lstm", "gru") for architecture in RECURRENT),
    *(("cnn", architecture) for architecture in CONVOLUTIONS),
    *(("transformer", {**BLOCKS, "positions": how}) for how in ("sinusoidal", "learned")),
    ("transformer-adaptive-softmax", BANDS),
    *(("rnn", {**ELMAN, "classes": classes}) for classes in (None, 7, 1000)),
]
every_case = pytest.mark.parametrize(("family", "architecture"), CASES)


def make(family, architecture, open_vocabulary=False):
    torch.manual_seed(0)
    config = {"family": family, "architecture": architecture}
    model = registry.build(config, SIZE, open_vocabulary).eval()
    for parameter in model.parameters():  # norms, biases and lengths must matter too
        parameter.data += 0.1 * torch.randn_like(parameter)
    return model


def prefixes(rows=3, length=9):
    tokens = torch.randint(3, SIZE, (rows, length), generator=torch.Generator().manual_seed(1))
    tokens[:, 0] = 0
    return tokens


@every_case
@torch.no_grad()
def test_steps_equal_the_parallel_pass(family, architecture):
    """Over several buckets of the caches that have some."""
    model, tokens = make(family, architecture), prefixes(length=70)
    expected, state = model(tokens), model.initial_state(3, 70)
    for place in range(70):
        logits, state = model.step(tokens[:, place], state)
        torch.testing.assert_close(logits[:, 1:], expected[:, place, 1:], atol=1e-5, rtol=1e-5)


@every_case
@torch.no_grad()
def test_selected_and_reset_rows_go_on_alone(family, architecture):
    model, tokens = make(family, architecture), prefixes()
    state = model.initial_state(3, 9)
    for place in range(7):
        _, state = model.step(tokens[:, place], state)
    state = state.select(torch.tensor([2, 0, 0])).reset(torch.tensor([1]))
    logits, _ = model.step(torch.tensor([5, 0, 6]), state)
    for row, prefix in enumerate([[*tokens[2, :7], 5], [0], [*tokens[0, :7], 6]]):
        expected = model(torch.tensor([prefix]))[0, -1]
        torch.testing.assert_close(logits[row, 1:], expected[1:], atol=1e-5, rtol=1e-5)


@every_case
@pytest.mark.parametrize("open_vocabulary", [False, True])
@torch.no_grad()
def test_probabilities_sum_to_one_and_special_tokens_have_none(
    family, architecture, open_vocabulary
):
    logits = make(family, architecture, open_vocabulary)(prefixes())
    p = logits.double().softmax(-1)
    torch.testing.assert_close(p.sum(-1), torch.ones(3, 9, dtype=torch.float64))
    assert torch.isneginf(logits[..., 0]).all()
    assert (torch.isneginf(logits[..., 2]) == open_vocabulary).all()
    assert torch.isfinite(logits[..., [1, *range(3, SIZE)]]).all()
    assert (p[..., [1, *range(3, SIZE)]] > 0).all()


@pytest.mark.parametrize(
    ("family", "architecture", "words"),
    [
        ("lstm", {"layer": 1}, "architecture.layer: unknown key; allowed are layers"),
        ("lstm", {"layers": "two"}, "architecture.layers: is 'two', expected int"),
        ("lstm", {"layers": True}, "architecture.layers: is True"),
        ("lstm", {"dropout": 1.0}, "dropout: is 1.0"),
        ("lstm", {"initialization": "he"}, "is 'he', expected one of 'torch', 'xavier'"),
        ("lstm", 3, "expected an object"),
        ("cnn", {"bottleneck": 0}, "bottleneck: is 0, expected at least 1"),
        ("cnn", {"kernel_size": 0}, "kernel_size: is 0"),
        ("cnn", {"layer_dropout": 1.0}, "layer_dropout: is 1.0"),
        ("cnn", {"kernel": 3}, "architecture.kernel: unknown key"),
        ("transformer", {**BLOCKS, "width": 18}, "width: is 18"),
        ("transformer", {"positions": "none"}, "one of 'sinusoidal', 'learned'"),
        ("rnn", {"classes": 0}, "architecture: classes: is 0, expected at least 1"),
        ("rnn", {"layers": 2}, "architecture.layers: unknown key; allowed are embedding_size"),
        ("rnn", {"hidden_size": 2.5}, "architecture.hidden_size: is 2.5, expected int"),
        ("transformer-adaptive-softmax", {**BANDS, "cutoffs": [0.4, 0.1]}, "expected rising num"),
        ("transformer-adaptive-softmax", {**BANDS, "cutoffs": []}, "cutoffs: are "),
        ("transformer-adaptive-softmax", {**BANDS, "cutoffs": "0.1"}, "expected a list of float"),
        (
            "transformer-adaptive-softmax",
            {**BANDS, "reduction": 8, "cutoffs": [0.1, 0.4, 0.6]},
            "reduction: is 8",
        ),
    ],
)
def test_wrong_options_are_named(family, architecture, words):
    with pytest.raises(InputError, match=words):
        make(family, architecture)

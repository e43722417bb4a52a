"""The Transformer with adaptive softmax and adaptive input.

Oracles: torch's nn.AdaptiveLogSoftmaxWithLoss with the same weights, the factorization multiplied
out by hand in float64, autograd through it, embeddings looked up one by one, parameter counts in
closed form.
"""

from __future__ import annotations

import pytest
import torch
from torch import nn

from beyond_perplexity.errors import InputError
from beyond_perplexity.models import registry
from beyond_perplexity.models.transformer_adaptive_softmax import Bands

SIZE, WIDTH = 60, 32
ARCHITECTURE = {"layers": 2, "width": WIDTH, "heads": 4, "feedforward_size": 24}
TIES = [
    {"tie_weights": True, "tie_projections": True},
    {"tie_weights": True, "tie_projections": False},
    {"tie_weights": False, "tie_projections": False},
]


def make(size=SIZE, open_vocabulary=False, **changes):
    torch.manual_seed(0)
    architecture = {**ARCHITECTURE, "cutoffs": [10, 30], "context_length": 40, **changes}
    config = {"family": "transformer-adaptive-softmax", "architecture": architecture}
    return registry.build(config, size, open_vocabulary).eval()


def prefixes(rows=3, length=9, size=SIZE):
    tokens = torch.randint(3, size, (rows, length), generator=torch.Generator().manual_seed(1))
    tokens[:, 0] = 0
    return tokens


def some_features(count=50):
    return torch.randn(count, WIDTH, generator=torch.Generator().manual_seed(2))


def multiplied_out(output, features):
    """Give all probabilities from the definition, in the dtype of the features."""
    tables = [table.weight.to(features.dtype) for table in output.tables]
    projections = [layer.weight.to(features.dtype) for layer in output.projections]
    clusters = output.clusters.weight.to(features.dtype)
    head = torch.cat([features @ tables[0].T, features @ clusters.T], 1)
    head[:, output.impossible] = -torch.inf
    head = head.softmax(1)
    tails = [
        head[:, 10 + tail, None] * (features @ projections[tail] @ tables[tail + 1].T).softmax(1)
        for tail in range(2)
    ]
    return torch.cat([head[:, :10], *tails], 1)


@pytest.mark.parametrize("ties", TIES)
@torch.no_grad()
def test_it_equals_torchs_adaptive_softmax_with_the_same_weights(ties):
    output, features = make(**ties).output, some_features()
    theirs = nn.AdaptiveLogSoftmaxWithLoss(WIDTH, SIZE, [10, 30], 4.0, head_bias=True)
    theirs.head.weight.copy_(torch.cat([output.tables[0].weight, output.clusters.weight]))
    theirs.head.bias.zero_()
    theirs.head.bias[0] = -1e30
    for tail, (narrow, table) in enumerate(theirs.tail):
        narrow.weight.copy_(output.projections[tail].weight.T)
        table.weight.copy_(output.tables[tail + 1].weight)
    expected = theirs.log_prob(features)
    torch.testing.assert_close(output.logits(features)[:, 1:], expected[:, 1:])
    targets = torch.arange(1, 51)
    chosen = output.log_probs(features, targets).float()
    torch.testing.assert_close(chosen, theirs(features, targets).output)


@pytest.mark.parametrize("open_vocabulary", [False, True])
@torch.no_grad()
def test_logits_are_a_distribution_with_the_ranks_of_the_full_one(open_vocabulary):
    output, features = make(open_vocabulary=open_vocabulary).output, some_features()
    found, exact = output.logits(features), multiplied_out(output, features.double()).log()
    torch.testing.assert_close(found.exp().sum(1), torch.ones(50))
    torch.testing.assert_close(found.double(), exact, atol=1e-5, rtol=0)
    assert torch.equal(found.argsort(1), exact.argsort(1))
    assert torch.isneginf(found[:, [0, 2] if open_vocabulary else [0]]).all()


@pytest.mark.parametrize("ties", TIES)
def test_the_training_loss_and_its_gradient_are_those_of_the_full_distribution(ties):
    model, features = make(**ties), some_features().requires_grad_()
    targets = torch.randint(1, SIZE, (50,), generator=torch.Generator().manual_seed(3))
    parameters = [features, *model.output.parameters()]
    found = model.output.summed_loss(features, targets, torch.float32)
    exact = -multiplied_out(model.output, features.double()).gather(1, targets[:, None]).log().sum()
    torch.testing.assert_close(found.double(), exact)
    pairs = zip(
        torch.autograd.grad(found, parameters), torch.autograd.grad(exact, parameters), strict=True
    )
    for ours, theirs in pairs:
        torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-4)


@torch.no_grad()
def test_input_embeddings_are_projected_rows_of_the_bands():
    embedding = make().embedding
    for token in range(SIZE):
        band = sum(token >= start for start in (10, 30))
        row = embedding.tables[band].weight[token - (0, 10, 30)[band]]
        expected = embedding.projections[band].weight @ row
        torch.testing.assert_close(embedding(torch.tensor([[token]]))[0, 0], expected)
    tokens = prefixes()
    torch.testing.assert_close(embedding(tokens)[1, 4], embedding(tokens[1, 4, None])[0])


@pytest.mark.parametrize("ties", TIES)
def test_the_parameter_count_is_the_closed_form(ties):
    D, F = WIDTH, 24
    block = 4 * D * D + 4 * D + 2 * D * F + F + D + 4 * D
    tables = 10 * D + 20 * (D // 4) + 30 * (D // 16)
    tails = D * (D // 4) + D * (D // 16)
    expected = 2 * block + 2 * D + tables + D * D + tails + 2 * D
    expected += 0 if ties["tie_weights"] else tables
    expected += 0 if ties["tie_projections"] else tails
    assert make(**ties).parameter_count() == expected


def test_bands_cut_by_id_or_share_and_leave_none_empty():
    assert Bands.cut(1000, (0.1, 400), 64, 4) == Bands((0, 100, 400), (100, 300, 600), (64, 16, 4))
    assert Bands.cut(20, (0.1, 0.4, 30), 64, 4) == Bands((0, 8), (8, 12), (64, 16))
    with pytest.raises(InputError, match=r"cutoffs: none of \[0.1\] is inside .* 9 ids"):
        Bands.cut(9, (0.1,), 64, 4)

"""The simple recurrent network: its layer of sigmoid units, and the output layer of classes.

Oracles: the recurrence and the factorization written out by hand in float64, sums over the
vocabulary, autograd through the definition, parameter counts in closed form.
"""

from __future__ import annotations

import pytest
import torch

from beyond_perplexity.models import registry
from beyond_perplexity.models.elman import ClassOutput
from beyond_perplexity.models.recurrent_layers import SigmoidLayer

SIZE = 60
ARCHITECTURES = [{"classes": None}, {"classes": 7}, {"classes": 1000}]


def make(size=SIZE, open_vocabulary=False, **architecture):
    torch.manual_seed(0)
    sizes = {"embedding_size": 8, "hidden_size": 12, **architecture}
    model = registry.build({"family": "rnn", "architecture": sizes}, size, open_vocabulary)
    return model.eval()


def prefixes(rows=3, length=9, size=SIZE):
    tokens = torch.randint(3, size, (rows, length), generator=torch.Generator().manual_seed(1))
    tokens[:, 0] = 0
    return tokens


def unrolled(layer, stream):
    """Give the units by the definition, in the dtype of the stream."""
    of_input, of_state = (w.detach().to(stream.dtype) for w in (layer.of_input, layer.of_state))
    units, found = stream.new_zeros(len(stream), len(of_state)), []
    for place in range(stream.shape[1]):
        both = torch.cat([stream[:, place], units], 1) @ torch.cat([of_input, of_state], 1).T
        units = 1 / (1 + torch.exp(-both))
        found.append(units)
    return torch.stack(found, 1)


@torch.no_grad()
def test_the_fused_layer_and_its_steps_are_the_recurrence():
    torch.manual_seed(2)
    layer, stream = SigmoidLayer(8, 12), torch.randn(5, 30, 8)
    expected = unrolled(layer, stream.double())
    torch.testing.assert_close(layer(stream).double(), expected, atol=1e-6, rtol=0)
    units = torch.zeros(5, 12)
    for place in range(30):
        units = layer.step(stream[:, place], units)
        torch.testing.assert_close(units.double(), expected[:, place], atol=1e-6, rtol=0)


def test_the_gradient_of_the_fused_layer_is_that_of_the_recurrence():
    torch.manual_seed(2)
    layer, stream = SigmoidLayer(3, 4).double(), torch.randn(2, 6, 3, dtype=torch.float64)
    layer(stream).square().sum().backward()
    found = [layer.of_input.grad, layer.of_state.grad]
    weights = [w.detach().clone().requires_grad_() for w in (layer.of_input, layer.of_state)]
    units, total = torch.zeros(2, 4, dtype=torch.float64), 0.0
    for place in range(6):
        units = torch.sigmoid(stream[:, place] @ weights[0].T + units @ weights[1].T)
        total = total + units.square().sum()
    for one, other in zip(found, torch.autograd.grad(total, weights), strict=True):
        torch.testing.assert_close(one, other, atol=1e-12, rtol=1e-10)


def classes_by_hand(output, features):
    """Give all probabilities as p(class) p(word | class), float64."""
    words = features.double() @ output.words.weight.double().T + output.words.bias.double()
    words = words.exp().index_fill(1, output.impossible, 0)
    heads = features.double() @ output.classes.weight.double().T + output.classes.bias.double()
    heads = heads.softmax(1)
    same = output.class_of[:, None] == output.class_of  # (V, V)
    return words / (words @ same.double()) * heads[:, output.class_of]


@pytest.mark.parametrize("open_vocabulary", [False, True])
@pytest.mark.parametrize("classes", [1, 4, 50, 10_000])
def test_classes_are_the_factorization_written_out(classes, open_vocabulary):
    torch.manual_seed(3)
    output = ClassOutput(12, SIZE, classes, open_vocabulary)
    torch.nn.init.normal_(output.words.bias)
    torch.nn.init.normal_(output.classes.bias)
    features = torch.randn(200, 12)
    expected = classes_by_hand(output, features).log().detach()
    possible = [id for id in range(1, SIZE) if not (open_vocabulary and id == 2)]
    torch.testing.assert_close(
        output.logits(features)[:, possible].double(), expected[:, possible], atol=1e-5, rtol=0
    )
    targets = torch.tensor(possible).repeat(9)[:200]
    chosen = expected.gather(1, targets[:, None])[:, 0]
    torch.testing.assert_close(output.log_probs(features, targets), chosen, atol=1e-5, rtol=0)
    loss = output.summed_loss(features, targets, torch.float32)
    assert float(loss.detach()) == pytest.approx(-float(chosen.sum()), rel=1e-5)


def test_the_gradient_of_classes_is_that_of_the_definition():
    torch.manual_seed(3)
    output, features = ClassOutput(12, SIZE, 6, False), torch.randn(40, 12)
    targets = torch.randint(1, SIZE, (40,))
    weights = [output.words.weight, output.words.bias, output.classes.weight, output.classes.bias]
    found = torch.autograd.grad(output.summed_loss(features, targets, torch.float32), weights)
    by_hand = classes_by_hand(output, features).gather(1, targets[:, None]).log()
    for one, other in zip(found, torch.autograd.grad(-by_hand.sum(), weights), strict=True):
        torch.testing.assert_close(one, other, atol=2e-4, rtol=1e-3)


def test_classes_are_cut_by_the_square_roots_of_zipfs_frequencies():
    output = ClassOutput(4, 1 + 10_000, 50, False)
    assert len(output.ends) == 50
    assert output.ends[-1] == 10_001
    roots = torch.arange(1, 10_001).double() ** -0.5
    mass = torch.zeros(50, dtype=torch.float64).index_add_(0, output.class_of[1:], roots)
    assert mass[5:].max() / mass[5:].min() < 1.1  # the first classes are of single words


@pytest.mark.parametrize("classes", [None, 7])
def test_the_parameter_count_is_the_closed_form(classes):
    E, H = 8, 12
    model = make(classes=classes)
    head = 0 if classes is None else len(model.output.ends) * (H + 1)
    assert model.parameter_count() == SIZE * E + H * (E + H) + SIZE * (H + 1) + head

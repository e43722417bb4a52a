"""Words of a softmax worked out in tiles; the oracle is torch's log softmax of all logits."""

import pytest
import torch

from beyond_perplexity.models import word_softmax
from beyond_perplexity.models.word_softmax import Words, summed_word_log_probs, word_log_probs
from beyond_perplexity.vocabulary import BOS, EOS

POSITIONS, WIDTH, SIZE = 48, 5, 23


def problem(dtype=torch.float64, scale=1.0):
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(POSITIONS, WIDTH, generator=generator, dtype=dtype)
    weight = torch.randn(SIZE, WIDTH, generator=generator, dtype=dtype) * scale
    bias = torch.randn(SIZE, generator=generator, dtype=dtype)
    may_end = torch.rand(POSITIONS, generator=generator) < 0.5
    targets = torch.randint(EOS + 1, SIZE, (POSITIONS,), generator=generator)
    targets = torch.where(may_end & (targets < 6), EOS, targets)
    counts = torch.randint(0, 4, (POSITIONS,), generator=generator)
    return features, weight, bias, Words(targets, may_end), counts


def plain(features, weight, bias, words):
    logits = features @ weight.T + bias
    barred = torch.zeros_like(logits, dtype=torch.bool)
    barred[:, BOS], barred[:, EOS] = True, ~words.may_end
    logits = logits.masked_fill(barred, -torch.inf)
    return logits.log_softmax(1).gather(1, words.targets[:, None])[:, 0]


@pytest.fixture(params=[(128, 1024), (16, 4), (32, 1)])
def tiles(request, monkeypatch):
    monkeypatch.setitem(word_softmax.TILES, "cpu", request.param)


@pytest.mark.usefixtures("tiles")
def test_values_are_those_of_the_full_softmax():
    features, weight, bias, words, counts = problem()
    expected = plain(features, weight, bias, words)
    assert (words.targets == EOS).any()
    torch.testing.assert_close(word_log_probs(features, weight, bias, words), expected)
    total, values = summed_word_log_probs(features, weight, bias, words, counts)
    torch.testing.assert_close(values, expected)
    torch.testing.assert_close(total, expected @ counts.double())


@pytest.mark.usefixtures("tiles")
@pytest.mark.parametrize("scale", [1.0, 300.0])
def test_gradients_are_those_of_autograd(scale):
    features, weight, bias, words, counts = problem(scale=scale)
    leaves = [part.requires_grad_() for part in (features, weight, bias)]
    total, _ = summed_word_log_probs(*leaves, words, counts)
    found = torch.autograd.grad(1.7 * total, leaves)
    expected = torch.autograd.grad(1.7 * (plain(*leaves, words) @ counts.double()), leaves)
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.usefixtures("tiles")
def test_words_far_below_the_smallest_number_are_still_scored():
    features, weight, bias, words, _ = problem(torch.float32, scale=100.0)
    found = word_log_probs(features, weight, bias, words)
    expected = plain(*(part.double() for part in (features, weight, bias)), words)
    assert expected.min() < -200.0  # exp(−200) is 0 in float32
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize("gap", [20.0, 80.0, 88.0, 88.6, 89.0, 200.0])
def test_gradients_are_finite_however_improbable_a_word_is(gap):
    features, weight, bias, words, counts = problem(torch.float32)
    weight[SIZE - 1, 0], bias[SIZE - 1] = 3.0, gap
    leaves = [part.requires_grad_() for part in (features, weight, bias)]
    total, values = summed_word_log_probs(*leaves, words, counts)
    found = torch.autograd.grad(total, leaves)
    exact = [part.detach().double().requires_grad_() for part in leaves]
    expected = torch.autograd.grad(plain(*exact, words) @ counts.double(), exact)
    assert values.max() <= 0
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours.double(), theirs, rtol=1e-4, atol=2e-4)


@pytest.mark.usefixtures("tiles")
def test_an_end_that_is_impossible_is_no_reference():
    features, weight, bias, words, _ = problem(torch.float32, scale=100.0)
    bias[EOS] = 1e4
    expected = plain(*(part.double() for part in (features, weight, bias)), words)
    found = word_log_probs(features, weight, bias, words)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-2)


def test_a_position_has_the_same_number_in_any_company():
    features, weight, bias, words, _ = problem(torch.float32, scale=100.0)
    whole = word_log_probs(features, weight, bias, words)
    for rows in (torch.arange(16), torch.arange(16, 48), torch.arange(47, -1, -1)):
        part = Words(words.targets[rows], words.may_end[rows])
        assert torch.equal(word_log_probs(features[rows], weight, bias, part), whole[rows])

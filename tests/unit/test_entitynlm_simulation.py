"""Documents that EntityNLM simulates.

Oracles: probabilities of all (x, z) of up to two words, enumerated by the plain implementation, by
χ²; bit for bit the same documents however they are asked for.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from scipy.stats import chi2

from beyond_perplexity.corpus.latent_instances import InstanceBatch
from beyond_perplexity.models.latent import Simulated
from beyond_perplexity.models.word_softmax import ClassSoftmax
from beyond_perplexity.vocabulary import ClosedVocabulary
from tests.unit.entitynlm_reference import all_codes, plain_log_joint, weights_of
from tests.unit.test_entitynlm import make_model

WORDS = ClosedVocabulary([f"w{i}" for i in range(6)], 0)


def key(one: Simulated):
    return tuple(one.instance.arrays["tokens"].tolist()), tuple(one.latents.tolist())


def test_the_frequencies_are_the_probabilities():
    """χ² over every (x, z) of at most two words and the rest; 60,000 documents."""
    model, count = make_model(vocabulary_size=4, word_classes=2, maximum_entities=2), 60_000
    weights, vocabulary = weights_of(model), ClosedVocabulary(["a"], 0)
    assert vocabulary.size == 4
    expected = {}
    for length in range(3):
        for tokens in itertools.product((2, 3), repeat=length):
            for codes in all_codes(length, 2, 2):
                log_p = plain_log_joint(weights, model.options, tokens, codes)
                expected[tokens, tuple(codes)] = math.exp(log_p)
    found = dict.fromkeys(expected, 0)
    other = 0
    for one in model.simulate(3, "test", range(count), 2, vocabulary):
        if one.truncated:
            other += 1
        else:
            found[key(one)] += 1
    rest = 1 - sum(expected.values())
    pairs = [(found[name], p * count) for name, p in expected.items()] + [(other, rest * count)]
    rare = [pair for pair in pairs if pair[1] < 5]  # these are one cell together
    cells = [pair for pair in pairs if pair[1] >= 5]
    cells += [tuple(map(sum, zip(*rare, strict=True)))] if rare else []
    statistic = sum((seen - mean) ** 2 / mean for seen, mean in cells)
    assert len(cells) > 15
    assert chi2.sf(statistic, len(cells) - 1) > 1e-3


@pytest.mark.parametrize("double", [True, False])
def test_a_document_depends_on_its_number_alone(double):
    """In float32, bit for bit: 70 at once, one alone, a few, and another order of blocks."""
    model = make_model(double=double, size=16, maximum_length=4, maximum_entities=20)
    whole = [key(one) for one in model.simulate(1, "p", range(70), 60, WORDS)]
    assert len(set(whole)) > 30
    assert [key(one) for one in model.simulate(1, "p", range(37, 41), 60, WORDS)] == whole[37:41]
    assert [key(one) for one in model.simulate(1, "p", range(69, 70), 60, WORDS)] == whole[69:]
    assert [key(one) for one in model.simulate(1, "q", range(70), 60, WORDS)] != whole
    assert [key(one) for one in model.simulate(2, "p", range(70), 60, WORDS)] != whole
    assert model.simulate(1, "p", range(0), 60, WORDS) == []


def test_a_cut_keeps_the_beginning_and_says_so():
    model = make_model(double=False)
    whole = model.simulate(1, "p", range(100), 200, WORDS)
    cut = model.simulate(1, "p", range(100), 3, WORDS)
    lengths = [len(one.words) for one in whole]
    assert min(lengths) <= 3 < max(lengths)
    for one, short in zip(whole, cut, strict=True):
        assert short.truncated == (len(one.words) > 3)
        assert short.words == one.words[:3]
        assert torch.equal(short.latents, one.latents[:3])


def test_what_is_simulated_is_an_instance_of_the_model():
    """Its latents are the annotation, all are possible, and words are those of the vocabulary."""
    model = make_model(double=False, size=16, maximum_length=3, maximum_entities=2)
    held = [one for one in model.simulate(1, "p", range(60), 50, WORDS) if one.words]
    assert len(held) > 20
    batch = InstanceBatch.of(one.instance for one in held)
    codes = model.annotated(batch)
    assert torch.isfinite(model.log_joint(batch, torch.arange(len(held)), codes)).all()
    assert sum(int((one.latents > 0).sum()) for one in held) > 20
    for row, one in enumerate(held):
        assert codes[row, : len(one.words)].tolist() == one.latents.tolist()
        ids = WORDS.encode([" ".join(one.words)])[0]
        assert ids.tolist() == one.instance.arrays["tokens"].tolist()
        assert one.instance.arrays["latents"].tolist() == one.latents.tolist()


@pytest.mark.parametrize("classes", [1, 4])
def test_words_are_drawn_as_they_are_scored(classes):
    """χ² of 40,000 draws against `log_probs`, where the text may end and where it may not."""
    torch.manual_seed(0)
    layer, rows = ClassSoftmax(6, 12, classes).double(), 40_000
    features = torch.randn(1, 6).double().expand(rows, -1)
    everything = torch.arange(1, 12)
    for endless in (False, True):
        draws = torch.from_numpy(np.random.default_rng(1).random((rows, 2)))
        drawn = layer.sample(features, torch.full((rows,), endless), draws)
        p = layer.log_probs(features[:11], everything, torch.full((11,), endless)).exp()
        expected = p.detach().numpy() * rows
        counts = np.bincount(drawn.numpy(), minlength=12)[1:]
        assert counts.sum() == rows
        assert (counts[0] == 0) == endless
        held = expected > 0
        statistic = ((counts - expected)[held] ** 2 / expected[held]).sum()
        assert chi2.sf(statistic, held.sum() - 1) > 1e-3

"""Beam sampling.

Oracle: enumeration of its definition over every sequence of draws, in plain Python (chi-square),
and rescoring by the parallel pass. Needs nothing beyond the package.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict

import numpy as np
import pytest
import torch
from scipy.stats import chisquare

from beyond_perplexity.decoding.beam import BeamEngine, on_grid
from beyond_perplexity.decoding.kernels import draw_distinct, unnormalized
from beyond_perplexity.decoding.options import parse_decoding
from beyond_perplexity.models import registry
from tests.unit.small_models import TableModel

EOS = 1
Beams = tuple[tuple[tuple[int, ...], float], ...]


def distinct_draws(q, k):
    """Give the probability of every ordered draw of k tokens without replacement."""
    support = np.flatnonzero(q)
    result = {}
    for tokens in itertools.permutations(support.tolist(), min(k, len(support))):
        left, probability = 1.0, 1.0
        for token in tokens:
            probability *= q[token] / left
            left -= q[token]
        result[tokens] = probability
    return result


def enumerate_beam(model, k, temperature, maximum_length):
    """Give the probability of every document (and whether it is finished), by the definition."""
    result: dict[tuple[tuple[int, ...], bool], float] = defaultdict(float)
    # (live beams, number finished, best finished document) -> probability
    states: dict[tuple[Beams, int, tuple[tuple[int, ...], float] | None], float]
    states = {((((), 0.0),), 0, None): 1.0}
    for length in range(maximum_length + 1):
        following: dict[tuple, float] = defaultdict(float)
        for (beams, finished, best), probability in states.items():
            if not beams or length == maximum_length:
                text = best[0] if best else beams[0][0]
                result[text, best is not None] += probability
                continue
            options = []
            for text, log_p in beams:
                place = min(len(text), len(model.table) - 1)
                p = model.table[place, text[-1] if text else 0].double().exp().numpy()
                q = p ** (1 / temperature) / (p ** (1 / temperature)).sum()
                options.append(
                    [
                        ([((*text, w), log_p + np.log(p[w])) for w in tokens], chance)
                        for tokens, chance in distinct_draws(q, k).items()
                    ]
                )
            for choice in itertools.product(*options):
                chance = probability * np.prod([c for _, c in choice])
                drawn = sorted((x for xs, _ in choice for x in xs), key=lambda x: -x[1])
                kept = drawn[: k - finished]
                ended = [(text[:-1], log_p) for text, log_p in kept if text[-1] == EOS]
                live = tuple(x for x in kept if x[0][-1] != EOS)
                top = max([*ended, *([best] if best else [])], key=lambda x: x[1], default=None)
                following[live, finished + len(ended), top] += chance
        states = following
    assert np.isclose(sum(result.values()), 1)
    return result


def generate(model, options, count, batch, length=40):
    machine = BeamEngine(model, parse_decoding(options), 3, "beam", length, batch)
    return list(machine.documents(0, count))


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("temperature", [1.0, 2.0])
@pytest.mark.parametrize("length", [2, 10])
def test_documents_follow_the_enumerated_definition(k, temperature, length):
    model = TableModel.random(size=4, positions=3, seed=6)
    exact = enumerate_beam(model, k, temperature, length)
    values = {"kind": "beam", "size": k, "temperature": temperature}
    count = 8_000
    documents = generate(model, values, count, 4096, length)
    observed = Counter((tuple(d.tokens.tolist()), d.finished) for d in documents)
    assert set(observed) <= set(exact)
    common = [key for key, value in exact.items() if value * count >= 5]
    seen, wanted = [observed[key] for key in common], [exact[key] * count for key in common]
    if sum(wanted) < count - 1e-6:
        seen.append(count - sum(seen))
        wanted.append(count - sum(wanted))
    if len(wanted) > 1:
        assert chisquare(seen, wanted).pvalue > 1e-3


def test_draws_without_replacement_follow_the_enumeration():
    p = np.array([0.0, 0.4, 0.3, 0.05, 0.25])
    exact = distinct_draws(p, 3)
    logits = torch.tensor(np.log(np.where(p > 0, p, 1e-99))).float().repeat(20_000, 1)
    logits[:, 0] = -torch.inf
    generator = torch.Generator().manual_seed(0)
    numbers = torch.rand(20_000, 3, dtype=torch.float64, generator=generator)
    tokens, log_probs = draw_distinct(unnormalized(logits), numbers)
    assert np.allclose(log_probs, np.log(p[tokens]), atol=1e-6)  # what was drawn has kept its own
    observed = Counter(map(tuple, tokens.tolist()))
    assert set(observed) <= set(exact)
    seen, wanted = zip(*((observed[key], 20_000 * exact[key]) for key in exact), strict=True)
    assert chisquare(seen, wanted).pvalue > 1e-3


def test_draws_end_where_nothing_is_left():
    logits = torch.full((1, 300), -torch.inf)
    logits[0, [7, 290]] = torch.tensor([0.0, -1.0])
    numbers = torch.full((1, 4), 0.5, dtype=torch.float64)
    tokens, log_probs = draw_distinct(unnormalized(logits), numbers)
    assert tokens[0, :2].tolist() == [7, 290]
    total = np.log1p(np.exp(-1))
    assert np.allclose(log_probs[0], [-total, -1 - total, -np.inf, -np.inf])


@pytest.mark.parametrize(
    "family", ["cnn", "gru", "lstm", "rnn", "transformer", "transformer-adaptive-softmax"]
)
def test_batch_size_does_not_change_a_text_and_log_prob_is_the_models(family):
    architecture = {
        "cnn": {"layers": 2, "embedding_size": 32, "width": 32, "bottleneck": 16},
        "gru": {"layers": 1, "embedding_size": 32, "hidden_size": 32},
        "lstm": {"layers": 1, "embedding_size": 32, "hidden_size": 32},
        "rnn": {"embedding_size": 32, "hidden_size": 32, "classes": 4},
        "transformer": {"layers": 1, "width": 32, "heads": 2, "feedforward_size": 64},
        "transformer-adaptive-softmax": {"layers": 1, "width": 32, "heads": 2},
    }[family]
    torch.manual_seed(0)
    model = registry.build({"family": family, "architecture": architecture}, 24).eval()
    values = {"kind": "beam", "size": 5, "temperature": 2.0}
    documents = generate(model, values, 40, 160)
    assert len({tuple(document.tokens) for document in documents}) > 3
    for one, other in zip(documents, generate(model, values, 40, 1), strict=True):
        assert np.array_equal(one.tokens, other.tokens)
        assert one.log_prob == other.log_prob
    for document in documents:
        tokens = torch.tensor([[0, *document.tokens.tolist(), 1]])
        with torch.inference_mode():
            scores = model(tokens[:, :-1]).double().log_softmax(-1)[0]
        steps = scores.gather(1, tokens[0, 1:, None])[:, 0]
        expected = float(steps.sum() if document.finished else steps[:-1].sum())
        assert np.isclose(document.log_prob, expected, rtol=1e-5, atol=1e-4)
        assert np.isnan(document.log_prob_decoding)


def test_equal_probabilities_are_equal_on_the_grid():
    parts = torch.tensor([0.1, 0.2, 0.7]).log().double()
    assert on_grid(parts.sum()) == on_grid(torch.tensor(0.014, dtype=torch.float64).log())

"""The trigram model and decoding on its counts.

Oracles: a dictionary count in plain Python; the dense engine on the same random numbers,
text for text; the parallel pass for log probabilities. Needs nothing beyond the package.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch

from beyond_perplexity.decoding import beam, ngram, sampling
from beyond_perplexity.decoding.generation import generate
from beyond_perplexity.decoding.options import parse_decoding
from beyond_perplexity.errors import InputError
from beyond_perplexity.models import registry, trigram
from beyond_perplexity.models.trigram import Trigram

V = 30


def corpus(count=300, seed=0):
    generator = np.random.default_rng(seed)
    skewed = generator.dirichlet(np.full(V - 2, 0.15), size=V)
    documents = []
    for length in generator.geometric(0.1, count) - 1:
        tokens = [2]
        for _ in range(length):
            tokens.append(2 + generator.choice(V - 2, p=skewed[tokens[-1]]))
        documents.append(np.array(tokens[1:], dtype=np.int32))
    return documents


def batched(documents, size):
    for start in range(0, len(documents), size):
        yield documents[start : start + size]


def counted(documents):
    trigrams: Counter = Counter()
    bigrams: Counter = Counter()
    for document in documents:
        padded = [0, 0, *document.tolist(), 1]
        for i in range(2, len(padded)):
            trigrams[tuple(padded[i - 2 : i + 1])] += 1
            bigrams[tuple(padded[i - 2 : i])] += 1
    return trigrams, bigrams


@pytest.fixture(scope="module")
def model():
    return Trigram.fit(batched(corpus(), 50), V)


@pytest.mark.parametrize("size", [1, 7, 300])
def test_counts_equal_a_dictionary(size):
    documents = corpus()
    fitted = Trigram.fit(batched(documents, size), V)
    trigrams, bigrams = counted(documents)
    owner = fitted.contexts.repeat_interleave(fitted.offsets.diff())
    found = {
        (c // V, c % V, w): n
        for c, w, n in zip(
            owner.tolist(), fitted.successors.tolist(), fitted.counts.tolist(), strict=True
        )
    }
    assert found == dict(trigrams)
    totals = zip(fitted.contexts.tolist(), fitted.context_counts.tolist(), strict=True)
    assert {(c // V, c % V): n for c, n in totals} == dict(bigrams)
    assert fitted.parameter_count() == len(trigrams)


def test_merging_often_changes_nothing(model, monkeypatch):
    whole = trigram._count_stream([corpus()], V)
    parts = trigram._count_stream(batched(corpus(), 3), V)
    assert all(np.array_equal(a, b) for a, b in zip(whole, parts, strict=True))


def test_scores_equal_the_counts(model):
    trigrams, bigrams = counted(corpus())
    documents = corpus(40, seed=0)[:20] + corpus(20, seed=9)  # seen ones, and others
    longest = max(map(len, documents))
    tokens = torch.full((len(documents), longest + 2), 1)
    tokens[:, 0] = 0
    for row, document in enumerate(documents):
        tokens[row, 1 : len(document) + 1] = torch.from_numpy(document)
    dense = model(tokens)
    state = model.initial_state(len(documents), 100)
    infinite = 0
    for place in range(longest + 1):
        step, state = model.step(tokens[:, place], state)
        assert torch.equal(step, dense[:, place])
        for row, document in enumerate(documents):
            if place > len(document):
                continue
            context = tuple([0, *tokens[row, : place + 1].tolist()][-2:])
            count = trigrams[(*context, int(tokens[row, place + 1]))]
            expected = np.log(count / bigrams[context]) if count else -np.inf
            infinite += not count
            assert np.isclose(float(dense[row, place, tokens[row, place + 1]]), expected, atol=1e-6)
    assert infinite > 10


def test_looked_up_scores_are_those_of_the_distributions(model):
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(1, V, (40, 25), generator=generator)  # most of it never seen
    for row, document in enumerate(corpus()[:30]):
        width = min(len(document), 24)
        tokens[row, :width] = torch.from_numpy(document[:width].astype(np.int64))
        tokens[row, width] = 1
    inputs = torch.nn.functional.pad(tokens[:, :-1], (1, 0), value=0)
    (found,) = model.target_log_probs(inputs, tokens, 7)
    expected = model(inputs).flatten(0, 1).gather(1, tokens.flatten()[:, None])[:, 0]
    assert 200 < int(found.isfinite().sum()) < found.numel() - 200
    torch.testing.assert_close(found.float(), expected)


def test_distributions_sum_to_one(model):
    rows, seen = torch.arange(len(model.contexts)), torch.ones(len(model.contexts)).bool()
    total = model._dense(rows, seen).double().exp().sum(-1)
    assert torch.allclose(total, torch.ones_like(total), atol=1e-6)


def test_model_survives_its_tensors(model):
    again = registry.find("trigram").from_tensors(model.config, model.state_dict())
    tokens = torch.tensor([[0, *corpus()[0].tolist(), 1]])
    assert torch.equal(again(tokens), model(tokens))


@pytest.mark.parametrize(
    "values",
    [
        {"kind": "ancestral"},
        {"kind": "ancestral", "temperature": 0.7},
        {"kind": "ancestral", "unknown": "exclude"},
        {"kind": "nucleus", "mass": 0.8},
        {"kind": "nucleus", "mass": 0.5},
        {"kind": "nucleus", "mass": 0.9, "temperature": 1.5, "unknown": "exclude"},
        {"kind": "top_k", "k": 3},
        {"kind": "typical", "mass": 0.7},
        {"kind": "min_p", "p": 0.25},
        {"kind": "min_p", "p": 0.5, "temperature": 2.0},
        {"kind": "beam", "size": 3},
        {"kind": "beam", "size": 5, "temperature": 1.3, "unknown": "exclude"},
    ],
    ids=str,
)
def test_sparse_texts_equal_dense_texts(model, values):
    options = parse_decoding(values)
    dense = beam.BeamEngine if options.kind == "beam" else sampling.SamplingEngine
    expected = list(dense(model, options, 1, "t", 60, 160).documents(5, 300))
    found = list(
        generate(model, options, seed=1, purpose="t", first=5, count=300, maximum_length=60)
    )
    assert len({len(document.tokens) for document in found}) > 5
    for one, other in zip(expected, found, strict=True):
        assert one.doc_id == other.doc_id
        assert np.array_equal(one.tokens, other.tokens)
        assert one.finished == other.finished
        assert np.isclose(one.log_prob, other.log_prob, atol=1e-4)
        assert np.isclose(one.log_prob_decoding, other.log_prob_decoding, atol=1e-4, equal_nan=True)


def test_sparse_engine_is_chosen_and_batches_do_not_matter(model):
    options = parse_decoding({"kind": "ancestral"})
    machine = ngram.SamplingEngine(model, options, 1, "t", 60, 16)
    small = list(machine.documents(0, 200))
    large = list(
        generate(model, options, seed=1, purpose="t", first=0, count=200, maximum_length=60)
    )
    for one, other in zip(small, large, strict=True):
        assert np.array_equal(one.tokens, other.tokens)
        assert one.log_prob == other.log_prob
    tokens = torch.tensor([[0, *large[3].tokens.tolist(), 1]])
    scores = model(tokens)[:, :-1].gather(2, tokens[:, 1:, None])
    assert np.isclose(float(scores.sum()), large[3].log_prob)


def test_bad_input_is_named():
    with pytest.raises(InputError, match="has no document"):
        Trigram.fit([], V)
    with pytest.raises(InputError, match=r"architecture\.layers"):
        Trigram(V, {"layers": 2})
    with pytest.raises(InputError, match="vocabulary: has 3000000"):
        Trigram(3_000_000)

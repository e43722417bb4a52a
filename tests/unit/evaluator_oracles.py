"""Recurrent layers in plain loops, a word at a time in float64; small corpora for evaluators."""

import importlib
from collections.abc import Iterator
from unittest.mock import patch

import numpy as np
import pytest

from beyond_perplexity.errors import InputError
from beyond_perplexity.semantics.evaluators.job import EvaluatorJob
from tests.unit import small_corpora


def sigmoid(values):
    return 1 / (1 + np.exp(-values))


def weights_of(layer, reverse=False):
    """Return the four arrays of a direction of torch's layer, float64."""
    side = "_reverse" if reverse else ""
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    return [getattr(layer, f"{name}_l0{side}").detach().double().numpy() for name in names]


def lstm_states(rows, weights):
    """Return the state after each word: torch's gates are input, forget, cell, output."""
    inputs, hidden, bias, other = weights
    size = hidden.shape[1]
    state = memory = np.zeros(size)
    found = []
    for row in rows:
        gates = inputs @ row + bias + hidden @ state + other
        i, f, g, o = (gates[place * size : (place + 1) * size] for place in range(4))
        memory = sigmoid(f) * memory + sigmoid(i) * np.tanh(g)
        state = sigmoid(o) * np.tanh(memory)
        found.append(state)
    return np.array(found)


def gru_states(rows, weights):
    """Return the state after each word: torch's gates are reset, update, candidate."""
    inputs, hidden, bias, other = weights
    size = hidden.shape[1]
    state = np.zeros(size)
    found = []
    for row in rows:
        x, h = inputs @ row + bias, hidden @ state + other
        reset = sigmoid(x[:size] + h[:size])
        update = sigmoid(x[size : 2 * size] + h[size : 2 * size])
        candidate = np.tanh(x[2 * size :] + reset * h[2 * size :])
        state = (1 - update) * candidate + update * state
        found.append(state)
    return np.array(found)


def both_ways(read, rows, layer):
    """Return the states at each word of both directions, side by side."""
    forth = read(rows, weights_of(layer))
    back = read(rows[::-1], weights_of(layer, reverse=True))[::-1]
    return np.concatenate([forth, back], axis=1)


def write_documents(path, texts, splits=("train", "valid")):
    """Write texts as documents of each split in turn: one more than a tenth is of the second."""
    dealt = [splits[place % 8 == 7] for place in range(len(texts))]
    pages = [f"page {place // 4}" for place in range(len(texts))]
    small_corpora.write_documents(path, texts, dealt, pages)


def write_vectors(path, words, width, seed=0):
    """Write random vectors of words as text; return them by word."""
    rows = np.random.default_rng(seed).normal(size=(len(words), width)).astype(np.float32)
    numbers = [" ".join(map(repr, row.tolist())) for row in rows]
    lines = [f"{word} {own}\n" for word, own in zip(words, numbers, strict=True)]
    path.write_text("".join(lines), encoding="utf-8")
    return dict(zip(words, rows, strict=True))


def some_texts(count=40, longest=19, words=tuple(f"w{place}" for place in range(20))):
    random = np.random.default_rng(3)
    return [" ".join(random.choice(words, random.integers(1, longest))) for _ in range(count)]


def check_batches(encoder, texts, sizes=(1, 7, 33)):
    """Assert that no vector depends on its batch, or on the order; return the vectors."""
    whole = encoder.encode(texts)
    for size in sizes:
        parts = [encoder.encode(texts[k : k + size]) for k in range(0, len(texts), size)]
        np.testing.assert_array_equal(np.concatenate(parts), whole)
    np.testing.assert_array_equal(encoder.encode(texts[::-1])[::-1], whole)
    return whole


def job_of(folder, options, **held):
    documents = folder / "documents.parquet"
    paths = {"output": folder / "evaluator", "checkpoints": folder / "checkpoints"}
    given = {"documents": documents, "vocabulary": None, "preprocessing": {}, **paths, **held}
    return EvaluatorJob(options=options, seed=1, device="cpu", threads=1, **given)


def read_all(found):
    return list(found) if isinstance(found, Iterator) else found


def check_refused(words, call, *given, **more):
    """Assert that a call, or the reading of what it yields, is refused in one line."""
    with pytest.raises(InputError, match=words) as error:
        read_all(call(*given, **more))
    assert "\n" not in str(error.value)


def check_refusals(call, cases):
    """Assert that calls are refused with these words: words to arguments."""
    for words, given in cases.items():
        check_refused(words, call, *given)


def run_script(name, *arguments):
    main = importlib.import_module(f"scripts.{name}").main
    with patch("sys.argv", [name, *map(str, arguments)]):
        main()

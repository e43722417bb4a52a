"""Recurrent layers in plain loops, a word at a time in float64; small corpora for evaluators."""

from __future__ import annotations

import numpy as np

from beyond_perplexity.schemas.corpora import DOCUMENTS
from beyond_perplexity.storage.shards import write_shard


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
    columns = {name: [] for name in DOCUMENTS.names}
    for place, text in enumerate(texts):
        split = splits[place % 8 == 7]
        row = (place, split, f"page {place // 4}", text, len(text.split()))
        for name, value in zip(DOCUMENTS.names, row, strict=True):
            columns[name].append(value)
    write_shard(path, DOCUMENTS, columns, {})


def write_vectors(path, words, width, seed=0):
    """Write random vectors of words as text; return them by word."""
    rows = np.random.default_rng(seed).normal(size=(len(words), width)).astype(np.float32)
    lines = [
        f"{word} {' '.join(map(repr, row.tolist()))}\n"
        for word, row in zip(words, rows, strict=True)
    ]
    path.write_text("".join(lines), encoding="utf-8")
    return dict(zip(words, rows, strict=True))

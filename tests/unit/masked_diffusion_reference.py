"""Masked diffusion, one mask and one order at a time, in NumPy alone: oracle and plain loop."""

import itertools
import math

import numpy as np
from scipy.special import erf


def weights_of(model):
    return {name: part.detach().double().numpy() for name, part in model.state_dict().items()}


def norm(x, weights, name):
    scaled = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    return scaled * weights[f"{name}.weight"] + weights[f"{name}.bias"]


def linear(x, weights, name):
    return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]


def said(weights, heads, tokens, hidden):
    """Return log p of every word of the vocabulary but `<s>` and `</s>` at each position."""
    width, n = weights["embedding.weight"].shape[1], len(tokens)
    read = [0 if out else token for token, out in zip(tokens, hidden, strict=True)]
    rates = 10_000.0 ** (-np.arange(width // 2) / (width // 2))
    angles = np.arange(n)[:, None] * rates
    x = weights["embedding.weight"][read] * math.sqrt(width)
    x = x + np.concatenate([np.sin(angles), np.cos(angles)], 1)
    for block in itertools.takewhile(
        lambda b: f"blocks.{b}.attention_norm.weight" in weights, itertools.count()
    ):
        name = f"blocks.{block}"
        joint = linear(
            norm(x, weights, f"{name}.attention_norm"), weights, f"{name}.attention_input"
        )
        query, key, value = np.split(joint, 3, 1)
        mixed = []
        for columns in np.split(np.arange(width), heads):
            scores = query[:, columns] @ key[:, columns].T / math.sqrt(width // heads)
            shares = np.exp(scores - scores.max(1, keepdims=True))
            mixed.append(shares / shares.sum(1, keepdims=True) @ value[:, columns])
        x = x + linear(np.concatenate(mixed, 1), weights, f"{name}.attention_output")
        inner = linear(
            norm(x, weights, f"{name}.feedforward_norm"), weights, f"{name}.feedforward_input"
        )
        inner = inner * 0.5 * (1 + erf(inner / math.sqrt(2)))
        x = x + linear(inner, weights, f"{name}.feedforward_output")
    logits = (
        norm(x, weights, "final_norm") @ weights["embedding.weight"][2:].T + weights["word_bias"]
    )
    top = logits.max(1, keepdims=True)
    return logits - top - np.log(np.exp(logits - top).sum(1, keepdims=True))


def weigh(weights, heads, tokens, order, temperatures):
    """Return Σ log p(x_i | shown), without the 1/n! and the length, and log q at temperatures."""
    hidden, log_p = [True] * len(tokens), 0.0
    log_q = np.zeros(len(temperatures))
    for place in order:
        table = said(weights, heads, tokens, hidden)
        entropy = -(np.exp(table) * table).sum(1)
        out = np.flatnonzero(hidden)
        for at, temperature in enumerate(temperatures):
            heights = -entropy[out] / temperature
            log_total = heights.max() + math.log(np.exp(heights - heights.max()).sum())
            log_q[at] += -entropy[place] / temperature - log_total
        log_p += table[place, tokens[place] - 2]
        hidden[place] = False
    return log_p, log_q

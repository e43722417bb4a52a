"""EntityNLM and its proposal once more: NumPy, one word after the other, one sample at a time.

Written from the definition, sharing the weights alone: an oracle, and the benchmark's plain loop.
"""

import math

import numpy as np

BOS, EOS = 0, 1
RADIX = 1024


def weights_of(module):
    return {key: value.detach().numpy().astype(float) for key, value in module.state_dict().items()}


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def log_softmax(scores, temperature=1.0):
    scaled = np.array(scores) / temperature
    top = scaled.max()
    return scaled - top - math.log(np.exp(scaled - top).sum())


def unit(vector):
    return vector / math.sqrt(vector @ vector)


def lstm(weights, inputs, name="layers"):
    """Run one layer over a list of vectors; return the hidden vectors."""
    part = {key: weights[f"text.{name}.{key}_l0"] for key in ("weight_ih", "weight_hh")}
    bias = weights[f"text.{name}.bias_ih_l0"] + weights[f"text.{name}.bias_hh_l0"]
    hidden = cell = np.zeros(part["weight_hh"].shape[1])
    states = []
    for vector in inputs:
        gates = part["weight_ih"] @ vector + part["weight_hh"] @ hidden + bias
        i, f, g, o = np.split(gates, 4)
        cell = sigmoid(f) * cell + sigmoid(i) * np.tanh(g)
        hidden = sigmoid(o) * np.tanh(cell)
        states.append(hidden)
    return states


class PlainEntities:
    """The choices of z of one document, in the order of the words."""

    def __init__(self, weights, maximum_entities, temperature):
        self.w = weights
        self.most, self.temperature = maximum_entities, temperature
        self.vectors, self.seen = [], []
        self.last = None
        self.context = np.zeros_like(weights["entities.fresh"])
        self.starts = False

    def choose(self, time, state, code):
        """Return log p of z at a word with state `state`; remember it."""
        self.starts = False
        if self.last is not None and self.last[1] > 0:
            return self._follow(code)
        logit = self.w["entities.begin.weight"][0] @ state + self.w["entities.begin.bias"][0]
        logit /= self.temperature
        if code == 0:
            self.last = None
            return math.log(sigmoid(-logit))
        entity, remaining = divmod(code - 1, RADIX)
        if entity > len(self.vectors) or entity >= self.most:
            return -math.inf
        if remaining >= len(self.w["entities.extent_by_text.bias"]):
            return -math.inf
        self.starts = True
        return math.log(sigmoid(logit)) + self._start(time, state, entity, remaining)

    def _follow(self, code):
        entity, remaining = self.last
        if code != 1 + RADIX * entity + remaining - 1:
            return -math.inf
        self.last = (entity, remaining - 1)
        self.context = self.vectors[entity]
        return 0.0

    def _start(self, time, state, entity, remaining):
        query = self.w["entities.entity.weight"] @ state
        fresh = unit(self.w["entities.fresh"])
        known, distance = zip(self.vectors, self.seen, strict=True), self.w["entities.distance"]
        scores = [query @ vector + distance * (time - seen) / 100 for vector, seen in known]
        if len(self.vectors) < self.most:
            scores.append(query @ fresh)
        total = log_softmax(scores, self.temperature)[entity]
        if entity == len(self.vectors):
            self.vectors.append(fresh)
            self.seen.append(time)
        self.context = self.vectors[entity]
        extents = (
            self.w["entities.extent_by_text.weight"] @ state
            + self.w["entities.extent_by_text.bias"]
            + self.w["entities.extent_by_entity.weight"] @ self.context
        )
        self.last = (entity, remaining)
        return total + log_softmax(extents, self.temperature)[remaining]

    def read(self, time, state):
        """Let the mentioned entity, if there is one, read a word that leads to `state`."""
        if self.last is None:
            return
        entity = self.last[0]
        vector = self.vectors[entity]
        share = sigmoid((self.w["entities.gate.weight"] @ state) @ vector)
        self.vectors[entity] = unit(share * vector + (1 - share) * state)
        self.seen[entity] = time


def class_bounds(vocabulary_size, classes):
    """Return the first id of each class, and V: class k ends after the share (k / classes)²."""
    words, bounds = vocabulary_size - 2, [2]
    for k in range(1, classes + 1):
        end = 2 + -(-words * k * k // classes**2)
        if end > bounds[-1]:
            bounds.append(end)
    return bounds


def word_log_prob(weights, bounds, feature, word, starts):
    head = weights["words.head.weight"] @ feature + weights["words.head.bias"]
    if starts:
        head[0] = -math.inf
    if word == EOS:
        return log_softmax(head)[0]
    chosen = next(k for k in range(1, len(bounds)) if word < bounds[k])
    part = slice(bounds[chosen - 1], bounds[chosen])
    inside = weights["words.weight"][part] @ feature + weights["words.bias"][part]
    return log_softmax(head)[chosen] + log_softmax(inside)[word - part.start]


def plain_log_joint(weights, options, tokens, codes, ended=True):
    """Return log p(x, z) of one document, or of the documents that begin so."""
    bounds = class_bounds(len(weights["text.embedding.weight"]), options.word_classes)
    inputs = [weights["text.embedding.weight"][word] for word in [BOS, *tokens]]
    states = lstm(weights, inputs)
    walk = PlainEntities(weights, options.maximum_entities, 1.0)
    total = 0.0
    for time, (word, code) in enumerate(zip([*tokens, EOS], [*codes, None], strict=True)):
        if code is None and not ended:
            return total
        if code is None:
            running = walk.last is not None and walk.last[1] > 0
            code = 1 + RADIX * walk.last[0] + walk.last[1] - 1 if running else 0
        total += walk.choose(time, states[time], code)
        if total == -math.inf:
            return total
        feature = states[time] + weights["context.weight"] @ walk.context
        total += word_log_prob(weights, bounds, feature, word, walk.starts)
        if time < len(tokens):
            walk.read(time, states[time + 1])
    return total


def plain_log_prob(weights, options, tokens, codes, temperature):
    """Return log q(z | x) of one document."""
    inputs = [weights["text.embedding.weight"][word] for word in [BOS, *tokens, EOS]]
    states = lstm(weights, inputs)
    if options.context == "bidirectional":
        backward = lstm(weights, inputs[::-1], "back")[::-1]
        join, bias = weights["text.join.weight"], weights["text.join.bias"]
        states = [join @ np.concatenate(pair) + bias for pair in zip(states, backward, strict=True)]
    shift = 0 if options.context == "causal" else 1
    walk = PlainEntities(weights, options.maximum_entities, temperature)
    total = 0.0
    for time, code in enumerate(codes):
        total += walk.choose(time, states[time + shift], code)
        if total == -math.inf:
            return total
        walk.read(time, states[time + 1])
    return total


def plain_log_weights(model, proposal, tokens, samples, temperatures):
    """Return log p and log q at each temperature, for each of the samples, one after the other."""
    p, q = weights_of(model), weights_of(proposal)
    return [
        (
            plain_log_joint(p, model.options, tokens, codes),
            [plain_log_prob(q, proposal.options, tokens, codes, tau) for tau in temperatures],
        )
        for codes in samples
    ]


def all_codes(length, maximum_entities, maximum_length):
    """List every z of a document of that length, as lists of codes."""
    found = [([], 0, 0)]
    for _ in range(length):
        longer = []
        for codes, count, remaining in found:
            if remaining:
                longer.append(([*codes, codes[-1] - 1], count, remaining - 1))
                continue
            longer.append(([*codes, 0], count, 0))
            for entity in range(min(count + 1, maximum_entities)):
                for extent in range(maximum_length):
                    code = 1 + RADIX * entity + extent
                    longer.append(([*codes, code], max(count, entity + 1), extent))
        found = longer
    return [codes for codes, _, _ in found]

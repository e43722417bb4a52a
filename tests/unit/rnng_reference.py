"""Plain programs of the binary RNNG and its span CRF: one sentence, one tree, one step at a time.

They share the weights alone: oracles, and what the published programs do for the benchmark.
"""

import math
from functools import cache

import torch
from torch.nn import functional

SHIFT, REDUCE = 0, 1
BOS, EOS = 0, 1


@cache
def all_trees(length):
    """List all binary trees over `length` words as tuples of actions."""
    if length == 1:
        return [(SHIFT,)]
    return [
        left + right + (REDUCE,)
        for cut in range(1, length)
        for left in all_trees(cut)
        for right in all_trees(length - cut)
    ]


def lstm_step(layer, entry, hidden, cell):
    gates = layer.weight_ih @ entry + layer.bias_ih + layer.weight_hh @ hidden + layer.bias_hh
    enter, keep, fresh, leave = gates.chunk(4)
    cell = torch.sigmoid(keep) * cell + torch.sigmoid(enter) * torch.tanh(fresh)
    return torch.sigmoid(leave) * torch.tanh(cell), cell


def step_layers(layers, entry, state):
    """Step LSTM cells one above the other; a state is a list of (output, cell)."""
    after = []
    for layer, (hidden, cell) in zip(layers, state, strict=True):
        entry, cell = lstm_step(layer, entry, hidden, cell)
        after.append((entry, cell))
    return after


def push(model, entry, state):
    return step_layers(model.stack.layers, entry, state)


def compose(model, left, right):
    gates = model.composition.weight @ torch.cat([left[0], right[0]]) + model.composition.bias
    enter, keep_left, keep_right, leave, fresh = gates.chunk(5)
    cell = torch.sigmoid(enter) * torch.tanh(fresh)
    cell = cell + torch.sigmoid(keep_left) * left[1] + torch.sigmoid(keep_right) * right[1]
    return torch.sigmoid(leave) * torch.tanh(cell), cell


def word_log_prob(model, context, word, may_end):
    logits = model.embedding.weight @ context + model.word_bias
    logits[BOS] = -math.inf
    if not may_end:
        logits[EOS] = -math.inf
    return float(logits.log_softmax(0)[word])


@torch.no_grad()
def log_joint(model, words, actions):
    """Return log p(x, z) of one sentence (list of ids) and one tree (list of actions)."""
    size = model.options.size
    zero = torch.zeros(size, dtype=model.word_bias.dtype)
    start = push(model, model.embedding.weight[BOS], [(zero, zero)] * len(model.stack.layers))
    stack = []  # pairs of a node and the LSTM state that has it on top
    total, place = 0.0, 0
    for action in actions:
        state = stack[-1][1] if stack else start
        context = state[-1][0]
        if len(stack) >= 2:
            logit = model.reduce.weight[0] @ context + model.reduce.bias[0]
            total += float(functional.logsigmoid(logit if action == REDUCE else -logit))
        if action == SHIFT:
            may_end = model.options.eos and len(stack) == 1
            total += word_log_prob(model, context, words[place], may_end)
            node = (model.embedding.weight[words[place]], zero)
            place += 1
        else:
            right, left = stack.pop()[0], stack.pop()[0]
            node = compose(model, left, right)
            state = stack[-1][1] if stack else start
        stack.append((node, push(model, node[0], state)))
    if model.options.eos:
        total += word_log_prob(model, stack[-1][1][-1][0], EOS, True)
    return total


def tree_spans(actions):
    """List the spans (first, last) of at least two words of a tree."""
    stack, word, found = [], 0, []
    for action in actions:
        if action == SHIFT:
            stack.append((word, word))
            word += 1
        else:
            right, left = stack.pop(), stack.pop()
            stack.append((left[0], right[1]))
            found.append(stack[-1])
    return found


@torch.no_grad()
def span_scores(crf, words):
    """Score every span of one sentence; a dict of (first, last)."""
    ids = torch.tensor([BOS, *words, EOS])
    places = torch.arange(len(ids)).clamp(max=crf.options.positions - 1)
    entries = crf.embedding.weight[ids] + crf.position.weight[places]
    hidden = crf.options.hidden_size
    outputs = []
    for suffix, order in (("", range(len(ids))), ("_reverse", reversed(range(len(ids))))):
        names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        weights = {name: getattr(crf.encoder, f"{name}_l0{suffix}") for name in names}
        layer = type("Layer", (), weights)
        state = (entries.new_zeros(hidden), entries.new_zeros(hidden))
        found = {}
        for place in order:
            state = lstm_step(layer, entries[place], *state)
            found[place] = state[0]
        outputs.append(found)
    ahead, back = outputs
    scores = {}
    for first in range(1, len(words) + 1):
        for last in range(first + 1, len(words) + 1):
            inner = crf.forward_part.weight @ (ahead[last + 1] - ahead[first])
            inner = inner + crf.backward_part.weight @ (back[first - 1] - back[last])
            inner = torch.relu(inner + crf.hidden_bias)
            scores[first - 1, last - 1] = float(crf.score(crf.norm(inner)))
    return scores


def tree_score(scores, actions):
    return sum(scores[span] for span in tree_spans(actions))


def log_prob(scores, length, actions, temperature):
    """Return log q_τ(z | x) by enumeration of all trees."""
    each = [tree_score(scores, other) / temperature for other in all_trees(length)]
    return tree_score(scores, actions) / temperature - log_sum(each)


def log_sum(values):
    largest = max(values)
    return largest + math.log(sum(math.exp(value - largest) for value in values))


def inside(scores, length, temperature):
    """Return log Σ exp(Σ score / τ) over the trees of every span, a dict of (first, last)."""
    chart = {(word, word): 0.0 for word in range(length)}
    for width in range(2, length + 1):
        for first in range(length - width + 1):
            last = first + width - 1
            paths = [chart[first, cut] + chart[cut + 1, last] for cut in range(first, last)]
            chart[first, last] = scores[first, last] / temperature + log_sum(paths)
    return chart


def sample_tree(chart, length, uniforms):
    """Draw a tree from the top down, the left part of a span before the right one."""
    numbers = iter(uniforms)

    def below(first, last):
        if first == last:
            return [SHIFT]
        paths = [chart[first, cut] + chart[cut + 1, last] for cut in range(first, last)]
        goal, total = next(numbers), log_sum(paths)
        for cut, path in enumerate(paths, first):  # noqa: B007
            goal -= math.exp(path - total)
            if goal < 0:
                break
        return [*below(first, cut), *below(cut + 1, last), REDUCE]

    return below(0, length - 1)


def weigh_by_loops(model, crf, words, uniforms, temperature, temperatures, anew=True):
    """Draw trees of one sentence and weigh them, one after the other, by uniforms, a list each.

    `temperature` is that of the samples. `anew`: the proposal is worked out for each sample, as in
    programs that go over the sentences once a sample; else once.

    Returns of each the tree, log p(x, z) and log q_τ(z | x) at each of the temperatures.
    """

    def work_out():
        scores = span_scores(crf, words)
        levels = {*temperatures, temperature}
        return scores, {t: inside(scores, len(words), t) for t in levels}

    scores, charts = work_out()
    found = []
    for place, numbers in enumerate(uniforms):
        if anew and place:
            scores, charts = work_out()
        tree = sample_tree(charts[temperature], len(words), numbers)
        total, whole = tree_score(scores, tree), (0, len(words) - 1)
        log_q = [total / t - charts[t][whole] for t in temperatures]
        found.append((tree, log_joint(model, words, tree), log_q))
    return found

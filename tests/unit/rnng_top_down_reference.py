"""Plain programs of the labelled, top-down RNNG: one sentence, one tree, one action at a time.

They share nothing with the library but the weights.
"""

import torch

from tests.unit.rnng_reference import BOS, EOS, REDUCE, SHIFT, step_layers


def all_trees(length, labels, maximum_run, maximum_open=100):
    """List the trees over `length` words as tuples of actions; built from the inside out."""

    def phrases(size, run, room):
        if not run or not room:
            return []
        return [
            (2 + label, *inner, REDUCE)
            for label in range(labels)
            for inner in children(size, run - 1, room - 1)
        ]

    def children(size, run, room):
        """List sequences of children over `size` words, the first of which opens up to `run`."""
        found = []
        for first in range(1, size + 1):
            heads = phrases(first, run, room) + ([(SHIFT,)] if first == 1 else [])
            tails = [()] if first == size else children(size - first, maximum_run, room)
            found += [head + tail for head in heads for tail in tails]
        return found

    return phrases(length, maximum_run, maximum_open)


def push(lstm, entry, state=None):
    """Step the layers of a StackLSTM; a state is a list of (output, cell)."""
    zero = torch.zeros_like(entry)
    return step_layers(lstm.layers, entry, state or [(zero, zero)] * len(lstm.layers))


def run(lstm, entries):
    state = None
    for entry in entries:
        state = push(lstm, entry, state)
    return state[-1][0]


def compose(encoder, label, children):
    ahead = run(encoder.forward_children, [label, *children])
    back = run(encoder.backward_children, [label, *reversed(children)])
    joined = torch.cat([ahead, back])
    return torch.relu(encoder.composition.weight @ joined + encoder.composition.bias)


def read_words(lstm, entries):
    return lstm(torch.stack(entries)[None])[0][0]


def possible_actions(stack, actions, limits, buffer=None):
    """List what can come next; `buffer` is the number of words left, None for the model."""
    opened = sum(kind == "open" for kind, _ in stack)
    trailing = 0
    while trailing < len(actions) and actions[-1 - trailing] >= 2:
        trailing += 1
    found = []
    if opened and buffer != 0:
        found.append(SHIFT)
    closes_early = opened == 1 and buffer not in (None, 0)
    if opened and actions[-1] < 2 and not closes_early:
        found.append(REDUCE)
    labels, maximum_run, maximum_open = limits
    if opened < maximum_open and trailing < maximum_run and buffer != 0:
        found += range(2, 2 + labels)
    return found


@torch.no_grad()
def walk(model, words, actions, readings, buffered, temperature=1.0):
    """Return Σ log p of the actions and the context before each SHIFT."""
    encoder, options = model.encoder, model.options
    limits = (len(model.labels), options.maximum_run, options.maximum_open)
    bottom = push(encoder.stack, encoder.embedding.weight[BOS])
    past = push(encoder.history, encoder.action.weight[-1])
    stack, states, taken, total, contexts, place = [], [bottom], [], 0.0, [], 0
    for action in actions:
        together = torch.cat([states[-1][-1][0], past[-1][0], readings[place]])
        context = torch.relu(encoder.context.weight @ together + encoder.context.bias)
        scores = (model.choice.weight @ context + model.choice.bias) / temperature
        buffer = len(words) - place if buffered else None
        possible = possible_actions(stack, taken, limits, buffer)
        total += float(scores[possible].log_softmax(0)[possible.index(action)])
        if action == SHIFT:
            contexts.append(context)
            item = ("word", encoder.embedding.weight[words[place]])
            place += 1
        elif action == REDUCE:
            children = []
            while stack[-1][0] != "open":
                children.insert(0, stack.pop()[1])
                states.pop()
            label = stack.pop()[1]
            states.pop()
            item = ("phrase", compose(encoder, label, children))
        else:
            item = ("open", encoder.label.weight[action - 2])
        stack.append(item)
        states.append(push(encoder.stack, item[1], states[-1]))
        past = push(encoder.history, encoder.action.weight[action], past)
        taken.append(action)
    return total, contexts


@torch.no_grad()
def log_joint(model, words, actions):
    """Return log p(x, z) of one sentence (list of ids) and one tree (list of actions)."""
    weight = model.encoder.embedding.weight
    readings = read_words(model.terminals, [weight[word] for word in (BOS, *words)])
    total, contexts = walk(model, words, actions, readings, buffered=False)
    for word, context in zip(words, contexts, strict=True):
        logits = (weight @ context + model.word_bias)[2:]
        total += float(logits.log_softmax(0)[word - 2])
    return total


@torch.no_grad()
def log_prob(model, words, actions, temperature):
    """Return log q_τ(z | x) of one sentence and one tree."""
    weight = model.encoder.embedding.weight
    backwards = [weight[word] for word in (EOS, *reversed(words))]
    readings = read_words(model.buffer, backwards).flip(0)
    return walk(model, words, actions, readings, buffered=True, temperature=temperature)[0]

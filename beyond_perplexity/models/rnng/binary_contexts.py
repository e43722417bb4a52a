"""The stack of the binary RNNG for rows of trees that are known, where no gradient is wanted.

R rows, W actions of a row, M nodes, P of them of a step, J of these joined from two, D width, S
width of a state.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from beyond_perplexity.invariant_tensors import QUANTUM
from beyond_perplexity.models.rnng.binary_course import BinaryNetwork
from beyond_perplexity.models.rnng.binary_trees import Traced
from beyond_perplexity.models.rnng.instances import REDUCE
from beyond_perplexity.models.rnng.stack_memory import Prefixes
from beyond_perplexity.vocabulary import BOS


def stack_contexts(
    network: BinaryNetwork,
    tokens: Tensor,
    owner: Tensor,
    latents: Tensor,
    traced: Traced,
    prefixes: Prefixes,
) -> Tensor:
    """Run the stack: the top layer's output at every node, (M, D).

    All numbers of nodes are found beforehand, and words lie in their places from the start, so
    that a step is little more than its matrix products.

    Parameters
    ----------
    network : BinaryNetwork
        In evaluation mode.
    tokens : Tensor
        int64, (B, T).
    owner : Tensor
        int64, (R,).
    latents : Tensor
        int64, (R, W).
    traced : Traced
    prefixes : Prefixes
    """
    row, step = prefixes.rows, prefixes.steps  # (M,)
    before = (step - 1).clamp(min=0)  # (M,)
    nodes = prefixes.nodes
    below = nodes[row, traced.below[row, step]].split(prefixes.sizes)  # (P,) at each step
    last = (traced.words[row, step] - 1).clamp(0, tokens.shape[1] - 1)  # (M,)
    embedded = network.embedding(tokens[owner[row], last])  # (M, D)
    size = embedded.shape[1]
    items = functional.pad(embedded, (0, size))  # (M, 2 D)
    items[: prefixes.sizes[0]] = 0.0
    joined = ((latents[row, before] == REDUCE) & (step > 0)).nonzero()[:, 0]  # (J of all,)
    left = nodes[row[joined], traced.below[row[joined], before[joined]]]  # (J of all,)
    right = nodes[row[joined], before[joined]]  # (J of all,)
    counts = torch.bincount(step[joined], minlength=len(prefixes.sizes)).tolist()
    parts = zip(*(part.split(counts) for part in (joined, left, right)), strict=True)
    start = network.embedding(torch.full_like(row[: prefixes.sizes[0]], BOS))  # (P, D)
    contexts, states, end = torch.empty_like(embedded), None, 0
    for place, (many, (here, first, second)) in enumerate(zip(prefixes.sizes, parts, strict=True)):
        if len(here):
            missing = -len(here) % QUANTUM
            children = items[
                torch.cat([first, first[-1:].expand(missing), second, second[-1:].expand(missing)])
            ]  # (2 J', 2 D)
            items[here] = network.compose(*children.chunk(2))[: len(here)]
        if many:
            rows = slice(end, end + many)
            known = None if states is None else states[below[place]]  # (P, S)
            entry = start if states is None else items[rows, :size]  # (P, D)
            contexts[rows], state = network.stack(entry, known)
            if states is None:
                states = state.new_empty(len(row), state.shape[1])  # (M, S)
            states[rows] = state
            end += many
    return contexts

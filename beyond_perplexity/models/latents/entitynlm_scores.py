"""Scoring known mentions of documents, many rows at once.

The vector of an entity depends on the words that mentioned it, and on nothing else of z. So those
of all rows are nodes of a tree, each a chain of mention words under the chain without the last,
worked out once, level by level; the choices of all rows then follow without a walk through the
text.

B instances, R rows, T words, D width, E entities at most, M words of a mention at most, A
temperatures. N mention words ("visits") of all rows, S mentions, G nodes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from beyond_perplexity.invariant_tensors import sum_rows
from beyond_perplexity.models.latents import entitynlm_dynamic_entities
from beyond_perplexity.models.word_softmax import to_rows

# Numbers that a block of mentions may hold of the entities before them.
BLOCK_ENTRIES = 1 << 22


class Tree(NamedTuple):
    """The vectors of the entities."""

    vectors: Tensor  # (G, D): first 0, then those of new entities, then those of chains
    row: Tensor  # row, time: int64, (N,): the visits, row by row
    time: Tensor
    # before, after: int64, (N,): node of the visited entity before and after each visit
    before: Tensor
    after: Tensor
    keys: Tensor  # int64, (N,), rising: (row E + entity) T + time of each visit
    order: Tensor  # int64, (N,): the visit of each key


class Scores(NamedTuple):
    """What a known z does."""

    log_prob: Tensor  # float64, (R, A): of z without the words
    vectors: Tensor  # (G, D)
    # int64, (R, T + 1): the vector that each word has for context, and in the last position the end
    positions: Tensor


class MentionRows(NamedTuple):
    """Rows of z, (R,), and the documents that they are of."""

    heads: entitynlm_dynamic_entities.DynamicEntities
    steps: entitynlm_dynamic_entities.Steps
    owner: Tensor  # int64, (R,): the document of each row
    codes: entitynlm_dynamic_entities.Codes

    def score(self, temperatures: Sequence[float]) -> Scores:
        """Score the rows; each vector of logits is divided by the temperatures."""
        tree, codes = self.grow(), self.codes
        started = self._start_log_probs(tree, temperatures)  # (S, A)
        row, time = codes.starts.nonzero(as_tuple=True)  # (S,)
        begin = self.steps.begin[self.owner].double()  # (R, T)
        signed = torch.where(codes.mention, 1, -1) * begin  # (R, T)
        parts = []
        for position, temperature in enumerate(temperatures):
            each = functional.logsigmoid(signed / temperature)  # (R, T)
            each = each.masked_fill(~codes.free, 0.0)
            begun = each.index_put((row, time), started[:, position], accumulate=True)
            parts.append(sum_rows(begun))
        return Scores(torch.stack(parts, 1), tree.vectors, _positions(codes, tree))

    def grow(self) -> Tree:
        """Work out the vectors of all entities of all rows."""
        heads, steps, codes = self.heads, self.steps, self.codes
        width = codes.mention.shape[1]
        row, time = codes.mention.nonzero(as_tuple=True)  # (N,)
        chain = row * heads.maximum_entities + codes.entity[row, time]  # (N,)
        keys, order = (chain * width + time).sort()  # (N,)
        begins = functional.pad(keys[:-1] // width, (1, 0), value=-1)[: len(keys)] != keys // width
        positions = torch.arange(len(keys), device=keys.device)  # (N,)
        rank = positions - torch.where(begins, positions, 0).cummax(0).values  # (N,)
        before, after = torch.zeros_like(keys), torch.zeros_like(keys)  # (N,), by key
        roots = heads.new_vectors(int(begins.sum()) if heads.noisy else 1)  # (1 or chains, D)
        levels, offset = [heads.fresh.new_zeros(1, heads.width), roots], 1
        by_rank = rank.argsort(stable=True)  # (N,)
        for level, visits in enumerate(by_rank.split(torch.bincount(rank).tolist())):
            when, document = time[order[visits]], self.owner[row[order[visits]]]  # (n,)
            roots_of = 1 + positions[: len(visits)] * heads.noisy  # (n,)
            parent = after[visits - 1] if level else roots_of  # (n,)
            names = (parent * len(steps.begin) + document) * width + when  # (n,)
            distinct, node = names.unique(return_inverse=True)  # (g,), (n,)
            chosen = torch.empty_like(distinct).scatter_(0, node, positions[: len(visits)])  # (g,)
            start = levels[-1][parent[chosen] - offset]  # (g, D)
            spot = document[chosen], when[chosen]
            offset += len(levels[-1])
            levels.append(heads.mix(start, steps.gate[spot], steps.update[spot]))
            before[visits], after[visits] = parent, offset + node
        back = torch.empty_like(order).scatter_(0, order, positions)  # (N,)
        return Tree(torch.cat(levels), row, time, before[back], after[back], keys, order)

    def _start_log_probs(self, tree: Tree, temperatures: Sequence[float]) -> Tensor:
        """Return log p(e) + log p(l), float64, (S, A), of all mentions, row by row."""
        heads, owner, codes = self.heads, self.owner, self.codes
        extents = heads.extent_by_entity(to_rows(tree.vectors))  # (G', M)
        first = codes.starts[tree.row, tree.time]  # (N,)
        row, time, before = tree.row[first], tree.time[first], tree.before[first]  # (S,)
        size = max(1, BLOCK_ENTRIES // (heads.maximum_entities * heads.width))
        parts = [torch.zeros(0, len(temperatures), dtype=torch.float64, device=owner.device)]
        for start in range(0, len(row), size):
            part = slice(start, start + size)
            position, at = (row[part], time[part]), (owner[row[part]], time[part])
            known, entity = codes.known[position], codes.entity[position]  # (s,)
            slot = torch.where(entity == known, 0, entity + 1)  # (s,)
            lengths = (self.steps.extent[at] + extents[before[part]]).double()  # (s, M)
            slots = self._entity_logits(tree, position, at, known), slot
            pairs = slots, (lengths, codes.remaining[position])
            parts.append(_chosen_log_probs(pairs, temperatures))
        return torch.cat(parts)

    def _entity_logits(
        self, tree: Tree, position: tuple[Tensor, ...], at: tuple[Tensor, ...], known: Tensor
    ) -> Tensor:
        """Return logits of e, float64, (s, 1 + E): the new entity, then the others or −inf."""
        most, width = self.heads.maximum_entities, self.steps.begin.shape[1]
        mention = torch.arange(len(known), device=known.device).repeat_interleave(known)  # (P,)
        begins = functional.pad(known.cumsum(0), (1, 0))[:-1]  # (s,)
        entity = torch.arange(len(mention), device=known.device) - begins[mention]  # (P,)
        row, time = (part[mention] for part in position)  # (P,)
        found = torch.searchsorted(tree.keys, (row * most + entity) * width + time) - 1  # (P,)
        visit = tree.order[found]  # (P,): the last one of that entity
        query = self.steps.query[at][mention]  # (P, D)
        away = (time - tree.time[visit]).to(query.dtype)  # (P,)
        held = tree.vectors[tree.after[visit]]  # (P, D)
        scores = (query * held).sum(1) + self.heads.nearness(away)  # (P,)
        fresh = self.steps.fresh[at].masked_fill(known == most, -math.inf).double()  # (s,)
        none = fresh.new_full((len(known), most), -math.inf)  # (s, E)
        return torch.cat([fresh[:, None], none.index_put((mention, entity), scores.double())], 1)


def _chosen_log_probs(
    choices: Sequence[tuple[Tensor, Tensor]], temperatures: Sequence[float]
) -> Tensor:
    """Sum log softmax(logits / τ) at the chosen positions over the choices, float64, (s, A)."""
    parts = []
    for temperature in temperatures:
        sums = torch.zeros((), dtype=torch.float64, device=choices[0][0].device)
        for logits, chosen in choices:
            scaled = logits / temperature
            sums = sums + scaled.gather(1, chosen[:, None])[:, 0] - scaled.logsumexp(1)  # (s,)
        parts.append(sums)
    return torch.stack(parts, 1)


def _positions(codes: entitynlm_dynamic_entities.Codes, tree: Tree) -> Tensor:
    """Return the node whose vector each word has for context, int64, (R, T + 1)."""
    passed = codes.mention.cumsum(1)  # (R, T)
    begins = functional.pad(passed[:, -1].cumsum(0), (1, 0))[:-1, None]  # (R, 1)
    before = functional.pad(tree.before, (1, 0))  # (N + 1,)
    positions = torch.where(passed > 0, before[begins + passed], 0)  # (R, T)
    last = functional.pad(tree.after, (1, 0))[(begins + passed)[:, -1]]  # (R,)
    end = torch.where(codes.running, last, positions[:, -1])  # (R,)
    return torch.cat([positions, end[:, None]], 1)

"""TransE: embeddings of a knowledge graph in which a relation is a translation.

N entities, R relations, M triples, C triples of a batch, d the dimension.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from beyond_perplexity.options import Count, Limited, Natural, Positive, Width
from beyond_perplexity.random_streams import stream

ATTEMPTS = 20


@dataclass(frozen=True)
class TransEOptions(Limited):
    """How a knowledge graph is embedded.

    The published KGLM has dimension 256.

    Attributes
    ----------
    dimension : int
        d, the width of the embeddings of entities and relations.
    margin : float
        By how much a corrupted triple has to be farther from its translation than a true one.
    learning_rate : float
        Of plain gradient descent on the sum over a batch.
    epochs : int
        Passes over the triples.
    batch_size : int
        Triples of a step.
    """

    dimension: Count = 32
    margin: Positive = 1.0
    learning_rate: Positive = 0.02
    epochs: Natural = 200
    batch_size: Width = 256


def triple_distances(entities: Tensor, relations: Tensor, triples: Tensor) -> Tensor:
    """Return ‖s + r − o‖₂ of triples (M, 3) of entity, relation and entity numbers, (M,)."""
    subjects, kinds, objects = triples.unbind(1)  # each (M,)
    return (entities[subjects] + relations[kinds] - entities[objects]).norm(dim=1)  # (M,)


def embed(
    triples: np.ndarray, n_entities: int, n_relations: int, options: TransEOptions, seed: int
) -> tuple[Tensor, Tensor]:
    """Train TransE (Bordes et al. 2013) by the margin loss with filtered negatives.

    Each true triple is set against one whose subject or object is replaced by another entity of
    the triples, so that no true triple comes out. Entities are kept on the unit sphere; those
    without a triple, and relations without one, keep their random unit vectors.

    Parameters
    ----------
    triples : numpy.ndarray
        int64, (M, 3): subject, relation, object; distinct rows. M may be 0.
    n_entities, n_relations : int
        N and R.
    options : TransEOptions
    seed : int
        Of the initial vectors, the order and the negatives.

    Returns
    -------
    entities : Tensor
        float32, (N, d).
    relations : Tensor
        float32, (R, d).
    """
    draw = stream(seed, "embed_graph/initialize")
    tables = [
        functional.normalize(
            torch.from_numpy(draw.standard_normal((n, options.dimension), np.float32)), dim=1
        )
        for n in (n_entities, n_relations)
    ]
    entities, relations = tables  # (N, d), (R, d)
    sampler = Negatives(triples, n_relations)
    for epoch in range(options.epochs if len(triples) else 0):
        draw = stream(seed, "embed_graph/epoch", epoch)
        order = draw.permutation(len(triples))
        for start in range(0, len(order), options.batch_size):
            chosen = triples[order[start : start + options.batch_size]]
            true, false = sampler.pairs(chosen, draw)
            step(entities, relations, torch.from_numpy(true), torch.from_numpy(false), options)
    return entities, relations


class Negatives:
    """Corruptions of triples that are no triples themselves.

    Parameters
    ----------
    triples : numpy.ndarray
        int64, (M, 3): all that is true.
    n_relations : int
        R.
    """

    def __init__(self, triples: np.ndarray, n_relations: int) -> None:
        self._entities = np.unique(triples[:, [0, 2]])
        self._width = int(self._entities[-1]) + 1 if len(triples) else 1
        self._relations = n_relations
        self._known = np.unique(self._keys(triples))

    def _keys(self, triples: np.ndarray) -> np.ndarray:
        subjects, kinds, objects = triples.T
        return (subjects * self._relations + kinds) * self._width + objects

    def pairs(
        self, triples: np.ndarray, draw: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return true triples and a corruption of each, int64, (C', 3).

        A triple for which `ATTEMPTS` draws give no false one is left out.
        """
        false = triples.copy()
        sides = 2 * draw.integers(0, 2, len(triples))
        open_ = np.arange(len(triples))
        for _ in range(ATTEMPTS):
            false[open_, sides[open_]] = draw.choice(self._entities, len(open_))
            open_ = open_[np.isin(self._keys(false[open_]), self._known)]
            if not len(open_):
                break
        kept = np.ones(len(triples), bool)
        kept[open_] = False
        return triples[kept], false[kept]


def step(
    entities: Tensor, relations: Tensor, true: Tensor, false: Tensor, options: TransEOptions
) -> None:
    """Take one step of gradient descent on Σ max(0, margin + ‖true‖ − ‖false‖), in place.

    Only the rows that occur are touched; those of entities are put back on the unit sphere.

    Parameters
    ----------
    entities : Tensor
        float32, (N, d).
    relations : Tensor
        float32, (R, d).
    true, false : Tensor
        int64, (C, 3).
    options : TransEOptions
    """
    both = torch.cat([true, false])  # (2C, 3)
    ends, rows = both[:, [0, 2]].unique(return_inverse=True)  # (U,), (2C, 2)
    kinds, columns = both[:, 1].unique(return_inverse=True)  # (K,), (2C,)
    near = entities[ends].requires_grad_()  # (U, d)
    moves = relations[kinds].requires_grad_()  # (K, d)
    placed = torch.stack([rows[:, 0], columns, rows[:, 1]], 1)  # (2C, 3)
    true_distance, false_distance = triple_distances(near, moves, placed).chunk(2)  # (C,), (C,)
    loss = (options.margin + true_distance - false_distance).relu().sum()
    by_entity, by_relation = torch.autograd.grad(loss, [near, moves])
    moved = near.detach() - options.learning_rate * by_entity  # (U, d)
    entities[ends] = functional.normalize(moved, dim=1)
    relations[kinds] = moves.detach() - options.learning_rate * by_relation  # (K, d)

"""From the tables of a corpus to a knowledge graph in one file, embedded by TransE.

Its entities are those of the triples, the aliases and the mentions of all splits: which there are
is known beforehand, what the text says of them is not. N entities, R relations, M triples, C
triples of a batch, d the dimension.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import safetensors.torch
import torch
from torch import Tensor
from torch.nn import functional

from beyond_perplexity.corpus.latent_instances import CorpusFiles, read_mentioned
from beyond_perplexity.corpus.normalization import Preprocessing
from beyond_perplexity.errors import InputError
from beyond_perplexity.models.latents.kglm_instances import pack_strings
from beyond_perplexity.options import Count, Limited, Natural, Positive, Width
from beyond_perplexity.random_streams import stream
from beyond_perplexity.schemas.corpora import ALIASES, KNOWLEDGE_GRAPH
from beyond_perplexity.storage.outputs import atomic_path
from beyond_perplexity.storage.provenance import finished
from beyond_perplexity.storage.shards import read_batches

SELF_RELATIONS = "@@REFLEXIVE@@"
_QUALIFIER = re.compile(r"\s+\([^()]*\)$")


@dataclass(frozen=True)
class TransEOptions(Limited):
    """How a knowledge graph is embedded.

    The published KGLM has dimension 256.

    dimension: d, the width of the embeddings of entities and relations.
    margin: By how much a corrupted triple has to be farther from its translation than a true one.
    learning_rate: Learning rate of plain gradient descent on the sum over a batch.
    epochs: Passes over the triples.
    batch_size: Triples of a step.
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
    """Train TransE (Bordes et al. 2013): entities, float32, (N, d), and relations, float32, (R, d).

    The margin loss sets each triple, of (M, 3) distinct ones, int64, against one with another
    subject or object that is no true triple. Entities stay on the unit sphere; those without a
    triple, and relations without one, keep their random unit vectors.
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
    """Corruptions of the true triples, int64, (M, 3), that are no triples themselves."""

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
        """Return true triples and a corruption of each, int64, (C', 3), without those for which
        `ATTEMPTS` draws give no false one."""
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
    """Take a step of gradient descent on Σ max(0, margin + ‖true‖ − ‖false‖), triples (C, 3), in
    place, in the rows that occur; entities, float32, (N, d), go back to the unit sphere."""
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


@dataclass(frozen=True)
class GraphOptions(TransEOptions):
    """How the graph of a corpus is made and embedded.

    cutoff: An entity counts as recent for this many tokens after its last one.
    reflexive: Every entity gets an edge to itself, so that what is mentioned again soon is related
        to itself; without it, it is new again.
    name_aliases: The name of an entity is its first alias, without a qualifier in parentheses at
        its end; false for identifiers such as Q42.
    surface_aliases: What mentions in the training split read is an alias too, the most frequent
        first.
    """

    cutoff: Count = 30
    reflexive: bool = True
    name_aliases: bool = True
    surface_aliases: bool = True


def embed_corpus_graph(
    corpus: CorpusFiles,
    options: GraphOptions,
    preprocessing: Preprocessing,
    seed: int,
    record: dict[str, object],
    output: Path,
) -> None:
    """Write the graph of a corpus, embedded by TransE, to a safetensors file, atomically.

    Tensors: those of `KnowledgeGraph`, and ``aliases`` with ``alias_ends``; metadata: ``options``
    and ``record``. The reflexive relation is not trained: its translation would be none, and its
    logit 0. A missing or other table, no entity, or a mention of no document is an `InputError`.
    """
    triples = sorted({*_rows(corpus.knowledge_graph, KNOWLEDGE_GRAPH)})
    surfaces = _surfaces(corpus)
    table = [*_rows(corpus.aliases, ALIASES)]
    names = {entity for subject, _, object_ in triples for entity in (subject, object_)}
    names |= {entity for entity, _ in table} | set(surfaces)
    if not names:
        raise InputError(f"{corpus.mentions}: no entity is mentioned, and no triple has one")
    entities = sorted(names)
    kinds = sorted({relation for _, relation, _ in triples} | {SELF_RELATIONS})
    index = {name: number for number, name in enumerate(entities)}
    kind = {name: number for number, name in enumerate(kinds)}
    edges = np.array([(index[s], kind[r], index[o]) for s, r, o in triples], np.int64)
    edges = edges.reshape(-1, 3)
    trained = edges[edges[:, 1] != kind[SELF_RELATIONS]]
    vectors, moves = embed(trained, len(entities), len(kinds), options, seed)
    if options.reflexive:
        every = np.arange(len(entities))
        loops = np.stack([every, np.full_like(every, kind[SELF_RELATIONS]), every], 1)
        edges = np.unique(np.concatenate([edges, loops]), axis=0)
    aliases = _aliases(entities, table, surfaces, options, preprocessing)
    tensors = {
        "entities": vectors,
        "relations": moves,
        **_compressed(edges, len(entities)),
        "names": pack_strings(entities),
        "relation_names": pack_strings(kinds),
        "aliases": pack_strings([alias for held in aliases for alias in held]),
        "alias_ends": torch.tensor([len(held) for held in aliases], dtype=torch.int64).cumsum(0),
    }
    metadata = {"options": json.dumps(asdict(options)), "record": json.dumps(finished(record))}
    with atomic_path(output) as temporary:
        safetensors.torch.save_file(tensors, temporary, metadata)


def _compressed(edges: np.ndarray, count: int) -> dict[str, Tensor]:
    order = np.lexsort((edges[:, 1], edges[:, 2], edges[:, 0]))
    subjects, relations, objects = edges[order].T
    return {
        "edge_offsets": torch.from_numpy(np.searchsorted(subjects, np.arange(count + 1))),
        "edge_keys": torch.from_numpy(subjects * count + objects),
        "edge_relations": torch.from_numpy(relations.copy()),
    }


def _rows(path: Path, schema: pa.Schema) -> Iterator[tuple[str, ...]]:
    for batch in read_batches(path, schema, schema.names):
        values = [batch.column(name).to_pylist() for name in schema.names]
        yield from (
            tuple(text.replace("\n", " ") for text in row) for row in zip(*values, strict=True)
        )


def _surfaces(corpus: CorpusFiles) -> dict[str, Counter[str]]:
    """Count, for each mentioned entity, what its mentions in the training split read."""
    found: dict[str, Counter[str]] = {}
    for document in read_mentioned(corpus):
        words = document.text.split(" ")
        for start, end, entity in document.spans:
            counts = found.setdefault(entity, Counter())
            if document.split == "train":
                counts[" ".join(words[start:end])] += 1
    return found


def _aliases(
    entities: list[str],
    table: list[tuple[str, ...]],
    surfaces: dict[str, Counter[str]],
    options: GraphOptions,
    preprocessing: Preprocessing,
) -> list[list[str]]:
    """Gather the aliases of each entity, cleaned and distinct: name, surfaces, table."""
    named: dict[str, list[str]] = {}
    for (entity, _), alias in zip(table, preprocessing.apply([a for _, a in table]), strict=True):
        named.setdefault(entity, []).append(alias)
    titles = preprocessing.apply([_QUALIFIER.sub("", name) for name in entities])
    gathered = []
    for entity, title in zip(entities, titles, strict=True):
        counts = surfaces.get(entity, Counter()) if options.surface_aliases else Counter()
        forms = sorted(counts, key=lambda form: (-counts[form], form))
        everything = [title] * options.name_aliases + forms + named.get(entity, [])
        gathered.append([alias for alias in dict.fromkeys(everything) if alias.strip()])
    return gathered


ATTEMPTS = 20

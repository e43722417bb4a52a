"""From the tables of a corpus to an embedded knowledge graph in one file.

The entities are those of the triples, the aliases and the mentions of all splits: which entities
there are is known beforehand, what the text says of them is not.
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

from beyond_perplexity.corpus.latent_instances import CorpusFiles, read_mentioned
from beyond_perplexity.corpus.normalization import Preprocessing
from beyond_perplexity.errors import InputError
from beyond_perplexity.models.kglm.knowledge_graph import pack_strings
from beyond_perplexity.models.kglm.transe import TransEOptions, embed
from beyond_perplexity.options import Count
from beyond_perplexity.schemas.corpora import ALIASES, KNOWLEDGE_GRAPH
from beyond_perplexity.storage.outputs import atomic_path
from beyond_perplexity.storage.provenance import finished
from beyond_perplexity.storage.shards import read_batches

SELF_RELATIONS = "@@REFLEXIVE@@"
_QUALIFIER = re.compile(r"\s+\([^()]*\)$")


@dataclass(frozen=True)
class GraphOptions(TransEOptions):
    """How the graph of a corpus is made and embedded.

    Attributes
    ----------
    cutoff : int
        An entity counts as recent for this many tokens after its last one.
    reflexive : bool
        Every entity gets an edge to itself, so that what is mentioned again soon is related to
        itself; without it, it is new again.
    name_aliases : bool
        The name of an entity is its first alias, without a qualifier in parentheses at its end;
        false for identifiers such as Q42.
    surface_aliases : bool
        What mentions in the training split read is an alias too, the most frequent first.
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

    Tensors: those of `kglm.knowledge_graph.KnowledgeGraph`, and ``aliases`` with ``alias_ends``.
    The metadata has ``options`` and ``record``. The reflexive relation is not trained: its
    translation would be none, and its logit always 0.

    Parameters
    ----------
    corpus : CorpusFiles
    options : GraphOptions
    preprocessing : Preprocessing
        Of the corpus: names and aliases are cleaned like the text.
    seed : int
    record : dict
        The run record.
    output : pathlib.Path

    Raises
    ------
    InputError
        When a table is missing or has other columns, there is no entity, or a mention is of no
        document.
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
    place = {name: number for number, name in enumerate(entities)}
    kind = {name: number for number, name in enumerate(kinds)}
    edges = np.array([(place[s], kind[r], place[o]) for s, r, o in triples], np.int64)
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

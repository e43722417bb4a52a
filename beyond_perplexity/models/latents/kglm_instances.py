"""Knowledge graphs, and documents whose tokens are linked to their entities.

The latents of KGLM are one code a token:

* 0: no mention (`NONE`);
* 1: the mention of the token before goes on (`ONGOING`);
* 2 + 2 e: a mention of entity e begins, which is new (`NEW`);
* 3 + 2 e: a mention of entity e begins, which an edge leads to from a recent entity (`RELATED`).

N entities, R relations, M edges, d the dimension of the embeddings, Q queries, X edges found. A
*spelling* is the number of a word in the list of all words that aliases have.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from beyond_perplexity.corpus import latent_instances
from beyond_perplexity.errors import InputError
from beyond_perplexity.storage.inputs import parse_json
from beyond_perplexity.vocabulary import SPECIAL_TOKENS, Vocabulary, split_words

SIZES = (
    *("entities", "relations", "edges", "dimension", "name_bytes", "relation_bytes"),
    *("words", "word_bytes", "cutoff"),
)


_PACKED = {"names": "name_bytes", "relation_names": "relation_bytes", "words": "word_bytes"}


def pack_strings(strings: list[str]) -> Tensor:
    """Pack strings without newlines into one row of bytes, uint8."""
    packed = "".join(f"{string}\n" for string in strings).encode()
    return torch.from_numpy(np.frombuffer(packed, np.uint8).copy())  # (bytes,)


def unpack_strings(packed: Tensor) -> list[str]:
    """Return the strings that `pack_strings` packed."""
    return packed.cpu().numpy().tobytes().decode().split("\n")[:-1]


def ranges(start: Tensor, end: Tensor) -> tuple[Tensor, Tensor]:
    """Write out Q ranges [start, end) of whole numbers, int64, (Q,), one after the other: the range
    that each number belongs to, rising, and the number, int64, (X,) each."""
    counts = end - start  # (Q,)
    owner = torch.repeat_interleave(counts)  # (X,)
    shift = start - (counts.cumsum(0) - counts)  # (Q,)
    return owner, torch.arange(len(owner), device=start.device) + shift[owner]


def find_key(keys: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor]:
    """Look up keys (Q,) among rising ones: their positions, int64; whether they are there, bool."""
    if not len(keys):
        return torch.zeros_like(wanted), torch.zeros_like(wanted, dtype=torch.bool)
    position = torch.searchsorted(keys, wanted).clamp_max(len(keys) - 1)  # (Q,)
    return position, keys[position] == wanted


class KnowledgeGraph(nn.Module):
    """Edges by subject (compressed sparse rows), embeddings and names, none of them trained; an
    entity is recent for `cutoff` tokens after its last one, for a model and its proposals alike."""

    entities: Tensor  # (N, d), embeddings
    relations: Tensor  # (R, d), embeddings
    edge_offsets: Tensor  # int64, (N + 1,): edges [offsets[s], offsets[s + 1]) start at entity s
    edge_keys: Tensor  # int64, (M,), rising: subject · N + object
    edge_relations: Tensor  # int64, (M,)
    names: Tensor
    relation_names: Tensor
    # uint8: the distinct words of all aliases, sorted, packed: known to a vocabulary or not
    words: Tensor

    def __init__(self, sizes: Mapping[str, int]) -> None:
        super().__init__()
        self.sizes = dict(sizes)
        self.cutoff = self.sizes["cutoff"]
        count, width = self.sizes["entities"], self.sizes["dimension"]
        edges = self.sizes["edges"]
        self.register_buffer("entities", torch.zeros(count, width))
        self.register_buffer("relations", torch.zeros(self.sizes["relations"], width))
        self.register_buffer("edge_offsets", torch.zeros(count + 1, dtype=torch.int64))
        self.register_buffer("edge_keys", torch.zeros(edges, dtype=torch.int64))
        self.register_buffer("edge_relations", torch.zeros(edges, dtype=torch.int64))
        for name, size in _PACKED.items():
            self.register_buffer(name, torch.zeros(self.sizes[size], dtype=torch.uint8))

    @property
    def support(self) -> dict[str, Any]:
        """What a model and its proposals have to agree on: all but the embeddings."""
        digest = hashlib.sha256()
        for part in (self.names, self.edge_keys, self.edge_relations, self.words):
            digest.update(part.cpu().numpy().tobytes())
        return {"cutoff": self.cutoff, "graph": digest.hexdigest()[:16]}

    @classmethod
    def of(
        cls, tensors: Mapping[str, Tensor], cutoff: int, words: Sequence[str] = ()
    ) -> KnowledgeGraph:
        """Make a graph of its tables, named as the attributes, and of the words of aliases."""
        tensors = {**tensors, "words": pack_strings(list(words))}
        count, width = tensors["entities"].shape
        sizes = {"entities": count, "dimension": width, "words": len(words), "cutoff": cutoff}
        sizes |= {"relations": len(tensors["relations"]), "edges": len(tensors["edge_keys"])}
        sizes |= {size: len(tensors[name]) for name, size in _PACKED.items()}
        graph = cls({name: sizes[name] for name in SIZES})
        graph.load_state_dict({name: tensors[name] for name in graph.state_dict()})
        return graph

    @property
    def n_entities(self) -> int:
        """N."""
        return self.sizes["entities"]

    @property
    def degrees(self) -> Tensor:
        """Edges that start at each entity, int64, (N,)."""
        return self.edge_offsets.diff()

    def edges_from(self, subjects: Tensor) -> tuple[Tensor, Tensor]:
        """Find the edges that start at subjects (Q,): (owner, edge), each (X,); see `ranges`."""
        return ranges(self.edge_offsets[subjects], self.edge_offsets[subjects + 1])

    def edges_between(self, subjects: Tensor, objects: Tensor) -> tuple[Tensor, Tensor]:
        """Find the parallel edges from subjects to objects (Q,): (owner, edge), each (X,)."""
        keys = subjects * self.n_entities + objects  # (Q,)
        first = torch.searchsorted(self.edge_keys, keys)  # (Q,)
        return ranges(first, torch.searchsorted(self.edge_keys, keys, right=True))

    def objects(self, edges: Tensor) -> Tensor:
        """Return the entities that edges (X,) lead to, int64, (X,)."""
        return self.edge_keys[edges] % self.n_entities

    def entity_names(self) -> list[str]:
        """Return the names of the N entities."""
        return unpack_strings(self.names)

    def names_of_relations(self) -> list[str]:
        """Return the names of the R relations."""
        return unpack_strings(self.relation_names)

    def alias_vocabulary(self) -> list[str]:
        """Return the word of each spelling."""
        return unpack_strings(self.words)


class Spellings:
    """Which alias words texts are spelled with; ``<unk>`` written in a text or alias stands for
    some word that nobody knows, so it has no spelling and is never copied."""

    def __init__(self, graph: KnowledgeGraph) -> None:
        self._numbers = {word: number for number, word in enumerate(graph.alias_vocabulary())}
        for word in SPECIAL_TOKENS:
            self._numbers.pop(word, None)

    def of(self, words: Iterable[str], missing: int) -> np.ndarray:
        """Return the spelling of each word, int64; `missing` where it has none."""
        return np.array([self._numbers.get(word, missing) for word in words], np.int64)


def read_graph(path: Path) -> tuple[KnowledgeGraph, list[list[str]]]:
    """Read what ``scripts.embed_graph`` wrote, and the aliases of each entity, foremost first; a
    file that is missing or foreign is an `InputError`."""
    if not path.is_file():
        raise InputError(f"{path}: is missing; make it with python -m scripts.embed_graph")
    try:
        with safe_open(path, "pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            cutoff = int(parse_json(file.metadata()["options"])["cutoff"])
        strings = unpack_strings(tensors["aliases"])
        words = sorted({word for alias in strings for word in split_words(alias)})
        graph = KnowledgeGraph.of(tensors, cutoff, words)
        ends = tensors["alias_ends"].tolist()
    except (SafetensorError, KeyError, TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"{path}: is no graph of scripts.embed_graph ({error})") from error
    starts = [0, *ends[:-1]]
    return graph, [strings[start:end] for start, end in zip(starts, ends, strict=True)]


# Of each token the number of the alias word that it is, `UNSPELLED` where no alias has it.
SPELLINGS, UNSPELLED = "spellings", -1
NONE, ONGOING, NEW, RELATED = range(4)


def encode_latents(
    spans: Iterable[tuple[int, int, int]], n_tokens: int, edges: np.ndarray, graph: KnowledgeGraph
) -> np.ndarray:
    """Write mentions, [start, end) and entity, as codes, int64, (T,), without overlaps: related
    where an edge leads there from an entity of the last ``graph.cutoff`` tokens, else new."""
    codes = np.zeros(n_tokens, np.int64)
    last: dict[int, int] = {}  # entity -> its last token
    for start, end, entity in latent_instances.without_overlaps(spans):
        recent = (e for e, token in last.items() if start - token <= graph.cutoff)
        linked = any(_contains(edges, e * graph.n_entities + entity) for e in recent)
        codes[start:end] = ONGOING
        codes[start] = (RELATED if linked else NEW) + 2 * entity
        last[entity] = end - 1
    return codes


def _contains(edges: np.ndarray, key: int) -> bool:
    position = bisect_left(edges, key)
    return position < len(edges) and edges[position] == key


def decode_latents(codes: Iterable[int]) -> Iterator[tuple[int, int, int, int]]:
    """Read codes back: (start, end, entity, kind) of each mention, kind `NEW` or `RELATED`."""
    start, entity, kind, position = -1, -1, NONE, -1
    for position, code in enumerate(codes):
        if code != ONGOING:
            if kind != NONE:
                yield start, position, entity, kind
            kind = NONE if code == NONE else NEW + code % 2
            start, entity = position, (code - NEW) // 2
    if kind != NONE:
        yield start, position + 1, entity, kind


def linked_documents(
    corpus: latent_instances.CorpusFiles, split: str, vocabulary: Vocabulary, graph: KnowledgeGraph
) -> Iterator[latent_instances.Instance]:
    """Stream a split's documents with ``tokens``, ``spellings`` and ``latents``, (T,) each; a
    mention of an entity that the graph lacks is an `InputError`."""
    numbers = {name: number for number, name in enumerate(graph.entity_names())}
    edges, spellings = graph.edge_keys.cpu().numpy(), Spellings(graph)
    for document, tokens in latent_instances.encode_with_text(corpus, split, vocabulary):
        for span in document.spans:
            if span.entity not in numbers:
                where = latent_instances.name_mention(corpus, document.doc_id, span)
                raise InputError(f"{where}: {corpus.graph} has no such entity; make it again")
        numbered = ((start, end, numbers[entity]) for start, end, entity in document.spans)
        arrays = {
            latent_instances.TOKENS: tokens,
            SPELLINGS: spellings.of(split_words(document.text), UNSPELLED),
            latent_instances.LATENTS: encode_latents(numbered, len(tokens), edges, graph),
        }
        yield latent_instances.Instance(document.doc_id, arrays)

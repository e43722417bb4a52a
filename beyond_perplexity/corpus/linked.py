"""Linked WikiText-2: tokens with mentions of Wikidata entities, aliases and a knowledge graph.

Documents are JSON objects, one a line: ``title``, ``tokens`` (flat, or nested by sentence),
``annotations`` with ``source``, ``id``, ``relation``, ``parent_id`` and ``span`` [start, end) over
the flat tokens; aliases and graph are pickles, ``{id: [alias, ...]}`` and ``{id: [(relation, tail),
...]}`` (Logan, Liu, Peters, Gardner and Singh 2019).
"""

from __future__ import annotations

import pickle
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from beyond_perplexity.corpus import readers
from beyond_perplexity.corpus.text_files import json_rows
from beyond_perplexity.errors import InputError
from beyond_perplexity.options import LARGEST_NUMBER
from beyond_perplexity.storage.inputs import brief_repr, check_input, unreadable

RECENT_TOKENS = 30
NEW_ENTITY, REFLEXIVE = "@@NEW@@", "@@REFLEXIVE@@"
LITERALS = ("T::", "V::")  # dates and quantities name themselves

_SETS = (set, frozenset)
_LISTS = (list, tuple, *_SETS)
_UNUSABLE = re.compile("[\0\ud800-\udfff]")


class _Annotation(NamedTuple):
    """One annotation of a document, checked."""

    start: int
    end: int
    entity: str
    source: str
    kind: str | None  # new, related or ongoing by the file's own relation; None without one


def flat_tokens(value: object) -> list[str]:
    """Return the tokens of a document, which may be nested by sentence."""
    if not isinstance(value, list):
        raise readers.UnusableError("field 'tokens' is no list")
    nested = bool(value) and all(isinstance(part, list) for part in value)
    tokens = [token for part in value for token in part] if nested else value
    if not all(isinstance(token, str) for token in tokens):
        raise readers.UnusableError("field 'tokens' holds something that is no string")
    if any(_UNUSABLE.search(token) for token in tokens):
        raise readers.UnusableError("a token holds NUL or half a surrogate pair")
    return tokens


def _annotation(value: object, n_tokens: int) -> _Annotation:
    if not isinstance(value, dict):
        raise readers.UnusableError("an annotation is no object")
    entity: Any = value.get("id")
    source, span = value.get("source"), value.get("span")
    for name, text in (("id", entity), ("source", source)):
        if not text or not _is_text(text):
            held = f"field '{name}' of an annotation is {brief_repr(text)}"
            raise readers.UnusableError(f"{held}, expected a string")
    wrong = f"the span of {entity:.80} is {brief_repr(span)}"
    if not isinstance(span, list) or len(span) != 2 or any(type(edge) is not int for edge in span):
        raise readers.UnusableError(f"{wrong}, expected two whole numbers")
    if not 0 <= span[0] < span[1] <= n_tokens:
        raise readers.UnusableError(f"{wrong}, outside the {n_tokens} tokens")
    start, end = span
    return _Annotation(start, end, entity, str(source).lower(), _kind(value.get("relation")))


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and not _UNUSABLE.search(value)


def _kind(relation: object) -> str | None:
    """Name what the file's own annotation calls a mention: new, related or ongoing."""
    if not isinstance(relation, list) or not relation:
        return None
    if relation == [NEW_ENTITY]:
        return "new"
    return "ongoing" if REFLEXIVE in relation else "related"


def _without_blanks(
    tokens: Sequence[str], annotations: Iterable[_Annotation]
) -> tuple[list[str], list[_Annotation]]:
    """Leave out tokens that are white space (ends of lines) and move the spans."""
    before = [0]  # kept tokens before each token
    for token in tokens:
        before.append(before[-1] + bool(token.strip()))
    moved = [a._replace(start=before[a.start], end=before[a.end]) for a in annotations]
    kept = [readers.single_word(token) for token in tokens if token.strip()]
    return kept, [a for a in moved if a.start < a.end]


def derive_kinds(
    mentions: Iterable[tuple[int, int, str]], heads: Mapping[str, frozenset[str]]
) -> Iterator[str]:
    """Say for each mention whether KGLM sees its entity as new, related or ongoing.

    Ongoing: the entity was mentioned within `RECENT_TOKENS` tokens of the end of its last mention.
    Related: another one that was has an edge to it. Mentions are spans [start, end) with an entity,
    in order; heads are, for every entity, those that have an edge to it.
    """
    last: dict[str, int] = {}  # in the order of their last mentions
    for start, end, entity in mentions:
        while last and start - last[oldest := next(iter(last))] > RECENT_TOKENS:
            del last[oldest]
        if entity in last and start - last.pop(entity) <= RECENT_TOKENS:
            yield "ongoing"
        else:
            known = heads.get(entity, frozenset())
            few, many = (known, last) if len(known) < len(last) else (last, known)
            near = (one for one in few if one in many and one in last)
            yield "related" if any(start - last[one] <= RECENT_TOKENS for one in near) else "new"
        last[entity] = end


class Reader(readers.AnnotatedReader):
    """Reads Linked WikiText-2: documents from ``paths``, aliases and graph from pickles, else
    empty; mentions of an entity that is in neither are kept and counted."""

    def read(self, path: Path) -> Iterator[readers.Annotated]:
        """Stream the documents of one JSONL file; see `AnnotatedReader.read`."""
        for place, value in json_rows(path, self.problems):
            with self.problems.unusable("unusable JSON line", place):
                yield self._document(place, value)

    def _document(self, place: str, document: object) -> readers.Annotated:
        if not isinstance(document, dict):
            raise readers.UnusableError("not an object")
        title = document.get("title") or ""
        if isinstance(title, list):  # the old variant gives its tokens
            title = " ".join(map(str, title))
        if not _is_text(title):
            raise readers.UnusableError("field 'title' is no string")
        tokens = flat_tokens(document.get("tokens"))
        values = document.get("annotations") or []
        if not isinstance(values, list):
            raise readers.UnusableError("field 'annotations' is no list")
        found = []
        for value in values:
            with self.problems.unusable("unusable annotation", place):
                found.append(_annotation(value, len(tokens)))
        kept, annotations = _without_blanks(tokens, found)
        counts = Counter({"tokens of white space": len(tokens) - len(kept)})
        counts.update(f"{annotation.source} found" for annotation in annotations)
        annotations = self._choose(place, annotations, counts)
        unknown = sum(not self._is_described(a.entity) for a in annotations)
        counts["mentions of unknown entities"] = unknown
        kinds = derive_kinds([a[:3] for a in annotations], self._heads)
        for annotation, derived in zip(annotations, kinds, strict=True):
            if annotation.kind:
                counts[f"annotated {annotation.kind}, derived {derived}"] += 1
        return readers.Annotated(place, title, kept, [a[:4] for a in annotations], counts=counts)

    def _choose(
        self, place: str, annotations: list[_Annotation], counts: Counter[str]
    ) -> list[_Annotation]:
        """Order the annotations by their place and keep the outermost, if asked for."""
        by_span: dict[tuple[int, int, str], _Annotation] = {}
        for a in sorted(annotations, key=lambda a: (a.start, -a.end)):
            by_span.setdefault(a[:3], a)
        spans = list(by_span)
        if self.source.mentions == "outermost":
            crossing = self.source.crossing
            spans = readers.outermost(spans, lambda _: place, crossing, self.problems, counts)
        return [by_span[span] for span in spans]

    @cached_property
    def _aliases(self) -> dict[str, list[str]] | None:
        """The aliases by entity; None where they are not given."""
        if self.source.aliases is None:
            return None
        path = readers.resolve_path(self.source.aliases)
        found: dict[str, list[str]] = {}
        for entity, names in _dictionary(path):
            if not isinstance(names, _LISTS) or not all(map(_is_text, names)):
                wanted = "a list of strings as its aliases"
                raise InputError(f"{path}: entity {entity}: expected {wanted}")
            strings = sorted(names) if isinstance(names, _SETS) else names
            found[entity] = [text for text in strings if text.strip()]
            if len(found[entity]) < len(names):
                self.problems.skips.add("blank alias", f"{path}: entity {entity}")
        return found

    @cached_property
    def _graph(self) -> dict[str, list[tuple[str, str]]]:
        """The edges (relation, tail) by head, without those of unknown entities."""
        if self.source.knowledge_graph is None:
            return {}
        path = readers.resolve_path(self.source.knowledge_graph)
        graph: dict[str, list[tuple[str, str]]] = {}
        for head, edges in _dictionary(path):
            place = f"{path}: entity {head}"
            if not isinstance(edges, _LISTS):
                raise InputError(f"{place}: holds {type(edges).__name__}, expected a list of pairs")
            pairs = [_edge(place, edge) for edge in edges]
            known = [pair for pair in pairs if self._is_known(place, head, pair)]
            graph[head] = sorted(known) if isinstance(edges, _SETS) else known
        return graph

    def _is_known(self, place: str, head: str, edge: tuple[str, str]) -> bool:
        """Report an edge at an entity that has no alias and is no date or quantity."""
        if self._aliases is None:
            return True
        for entity in (head, edge[1]):
            if entity not in self._aliases and not entity.startswith(LITERALS):
                detail = f"{entity} of ({head}, {edge[0]}, {edge[1]}) is not among the aliases"
                self.problems.report("triple of an unknown entity", place, detail)
                return False
        return True

    def _is_described(self, entity: str) -> bool:
        """Whether aliases or graph know an entity, or no file of them is given."""
        if self.source.aliases is None and self.source.knowledge_graph is None:
            return True
        known = (self._aliases or {}, self._graph, self._heads)
        return entity.startswith(LITERALS) or any(entity in names for names in known)

    @cached_property
    def _heads(self) -> dict[str, frozenset[str]]:
        found: defaultdict[str, set[str]] = defaultdict(set)
        for head, _, tail in self.triples():
            found[tail].add(head)
        return {tail: frozenset(heads) for tail, heads in found.items()}

    def triples(self) -> Iterable[tuple[str, str, str]]:
        """Give the knowledge graph; see `AnnotatedReader.triples`."""
        for head, edges in self._graph.items():
            yield from ((head, *edge) for edge in edges)

    def aliases(self) -> Iterable[tuple[str, str]]:
        """Give pairs (entity, alias); see `AnnotatedReader.aliases`."""
        for entity, names in (self._aliases or {}).items():
            yield from ((entity, alias) for alias in dict.fromkeys(names))


def _dictionary(path: Path) -> Iterable[tuple[str, Any]]:
    found = load_pickle(path)
    if not isinstance(found, dict):
        raise InputError(f"{path}: holds {type(found).__name__}, expected a dictionary by entity")
    for entity in found:
        if not _is_text(entity):
            raise InputError(f"{path}: has the key {brief_repr(entity)}, expected an entity's name")
    return found.items()


def _edge(place: str, edge: object) -> tuple[str, str]:
    """Check one edge; numbers become strings."""
    if isinstance(edge, list | tuple) and len(edge) == 2:
        numbers = (type(part) is int and abs(part) <= LARGEST_NUMBER for part in edge)
        if all(number or _is_text(part) for number, part in zip(numbers, edge, strict=True)):
            return str(edge[0]), str(edge[1])
    raise InputError(f"{place}: holds {brief_repr(edge)}, expected pairs (relation, entity)")


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> type:
        """Give a set, whose pickles name its class (all other containers have opcodes)."""
        if module in ("builtins", "__builtin__") and name in ("set", "frozenset"):
            return set if name == "set" else frozenset
        raise InputError(f"holds an object of class {module}.{name}")


def load_pickle(path: Path) -> Any:
    """Read the one object of a pickle file: containers, strings and numbers, else `InputError`."""
    check_input(path, again=True)
    try:
        with open(path, "rb") as file:
            found = _Unpickler(file, encoding="utf-8").load()
            if file.read(1):
                raise InputError("goes on after its first object")
    except InputError as error:
        advice = "only dictionaries, lists, strings and numbers are read from a pickle"
        raise InputError(f"{path}: {error}; {advice}") from error
    except Exception as error:  # malformed opcodes raise anything
        if isinstance(error, OSError) and error.errno is not None:
            raise unreadable(path, error) from error
        detail = f"{type(error).__name__}: {brief_repr(str(error))}"
        raise InputError(f"{path}: not a readable pickle ({detail}); fetch it again") from error
    return found

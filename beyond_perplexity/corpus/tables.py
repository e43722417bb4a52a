"""Documents on their way to the shuffled table: a bucket sort on disk by a keyed hash of the text.

The hash is the random order, and identical texts meet: one bucket is in memory, and the result does
not depend on who produced what when.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

from beyond_perplexity.corpus.extraction_options import ExtractionOptions
from beyond_perplexity.corpus.formats import FORMATS, PARSERS, SPLITS
from beyond_perplexity.corpus.mediawiki import Redirects
from beyond_perplexity.corpus.normalization import cut_words_told
from beyond_perplexity.corpus.readers import Mention, Skips
from beyond_perplexity.errors import InputError
from beyond_perplexity.foreign_text import remark
from beyond_perplexity.schemas import corpora
from beyond_perplexity.storage.outputs import atomic_path
from beyond_perplexity.storage.shards import ShardWriter

BUCKETS = 256  # one for each value of the hash's first byte

EncodedDocument = tuple[int, bytes]


@dataclass(frozen=True)
class Document:
    """One document before it has its number."""

    split: str  # train, valid or test
    title: str  # the title of its page; empty without one
    text: str  # tokens joined by one blank
    n_tokens: int  # number of tokens
    raw: str  # the text before cleaning
    mentions: list[Mention]  # token span [start, end), entity, source
    # Number of the sentence in the document, tree
    trees: list[tuple[int, str]] = field(default_factory=list)

    def encode(self, seed: int, place: tuple[int, int]) -> EncodedDocument:
        """Serialize for the sort."""
        key = seed.to_bytes(16, "little", signed=True)
        digest = hashlib.blake2b(self.text.encode(), digest_size=16, key=key).digest()
        values = [self.split, self.title, self.text, self.n_tokens, self.raw]
        row = [digest.hex(), *place, *values, self.mentions, self.trees]
        line = json.dumps(row, ensure_ascii=False, separators=(",", ":"))
        return digest[0], line.encode() + b"\n"


class DocumentSorter:
    """Buckets of documents on disk; the folder is the caller's to remove, the stack closes them."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._paths = [folder / f"documents-{bucket:03d}.jsonl" for bucket in range(BUCKETS)]
        self._files = [stack.enter_context(path.open("wb")) for path in self._paths]

    def add(self, documents: Iterable[EncodedDocument]) -> None:
        """Put encoded documents into their buckets."""
        for bucket, line in documents:
            self._files[bucket].write(line)

    def documents(self, deduplicate: bool, skips: Skips) -> Iterator[Document]:
        """Give all documents by keyed hash of the text, then by place; ends the adding."""
        for opened in self._files:
            opened.close()
        for path in self._paths:
            with open(path, encoding="utf-8") as file:
                rows = sorted((json.loads(line) for line in file), key=lambda row: row[:3])
            path.unlink()
            previous = ""
            for digest, number, _, split, title, text, n_tokens, raw, *lists in rows:
                if deduplicate and digest == previous:
                    skips.add("duplicate document", title or f"record {number + 1}")
                    continue
                previous = digest
                mentions, trees = ([tuple(values) for values in items] for items in lists)
                yield Document(split, title, text, n_tokens, raw, mentions, trees)


ROWS = 16_384
CHARACTERS = 1 << 24
EVALUATED = tuple(split for split in SPLITS if split != "train")
MENTION_SOURCES = ("link", "title", "alias")
ANNOTATION_COUNTS = (
    "nested mentions",
    "crossing mentions",
    "mentions that shared a span",
    "mentions of no word",
    "mentions of unknown entities",
    "further pieces of mentions",
    "tokens of white space",
)


# What an extraction writes, beside its report.
EXTRACTED = {
    "documents": corpora.DOCUMENTS,
    "mentions": corpora.MENTIONS,
    "knowledge_graph": corpora.KNOWLEDGE_GRAPH,
    "aliases": corpora.ALIASES,
    "trees": corpora.TREES,
    "raw": corpora.RAW,
}


@dataclass
class Gathered:
    """What was extracted, on disk, with its counts; aliases are those that are no redirects."""

    sorter: DocumentSorter
    redirects: Redirects
    triples: Path
    aliases: Path
    skips: Skips
    counts: Counter[str] = field(default_factory=Counter)


class _Rows:
    """Rows on their way to one table, written `ROWS` or about `CHARACTERS` at a time."""

    def __init__(self, writer: ShardWriter, columns: list[str]) -> None:
        self._writer, self._columns = writer, columns
        self._rows: list[tuple[object, ...]] = []
        self._characters = 0
        self.count = 0

    def add(self, *row: object) -> None:
        """Add one row, its values in the order of the columns."""
        self._rows.append(row)
        self.count += 1
        self._characters += sum(len(value) for value in row if isinstance(value, str))
        if len(self._rows) >= ROWS or self._characters >= CHARACTERS:
            self.flush()

    def flush(self) -> None:
        """Write what waits."""
        columns = list(zip(*self._rows, strict=True)) or [()] * len(self._columns)
        self._writer.write(dict(zip(self._columns, map(list, columns), strict=True)))
        self._rows, self._characters = [], 0


def write_tables(
    options: ExtractionOptions,
    outputs: Mapping[str, Path],
    record: dict[str, object],
    gathered: Gathered,
) -> dict[str, object]:
    """Write the tables and the report; either all appear or none."""
    first = options.source.files()[0][0]
    with ExitStack() as stack:
        tables = {
            name: _Rows(stack.enter_context(ShardWriter(outputs[name], kind, record)), kind.names)
            for name, kind in EXTRACTED.items()
        }
        splits = _write_documents(options, gathered, tables)
        _write_triples(gathered, tables["knowledge_graph"])
        _write_aliases(gathered, tables["aliases"])
        if not tables["documents"].count:
            reasons = ", ".join(f"{n} {reason}" for reason, n in gathered.skips.counts.items())
            wrong = f"{first}: no document is left of this corpus ({reasons or 'it is empty'})"
            raise InputError(f"{wrong}; check source and documents.minimum_tokens")
        for rows in tables.values():
            rows.flush()
        report = _report(options, gathered, splits, {n: rows.count for n, rows in tables.items()})
        for warning in report["warnings"]:
            remark(f"warning: {first}: {warning}")
        target = stack.enter_context(atomic_path(outputs["report"]))
        text = json.dumps(report, indent=2, sort_keys=True, ensure_ascii=False)
        target.write_text(text + "\n", encoding="utf-8")
    return report


def _write_documents(
    options: ExtractionOptions, gathered: Gathered, tables: Mapping[str, _Rows]
) -> dict[str, Counter[str]]:
    splits = {split: Counter(documents=0, tokens=0) for split in SPLITS}
    ordered = gathered.sorter.documents(options.documents.deduplicate, gathered.skips)
    resolve = gathered.redirects.resolve
    for doc_id, document in enumerate(_count_copies(ordered, gathered.counts)):
        row = (document.split, document.title, document.text, document.n_tokens)
        tables["documents"].add(doc_id, *row)
        tables["raw"].add(doc_id, document.raw)
        splits[document.split].update(documents=1, tokens=document.n_tokens)
        for start, end, entity, source in document.mentions:
            tables["mentions"].add(doc_id, start, end, resolve(entity) or entity, source)
            gathered.counts[f"{source} written"] += 1
        for sentence, tree in document.trees:
            tables["trees"].add(doc_id, sentence, tree)
    return splits


def _count_copies(ordered: Iterable[Document], counts: Counter[str]) -> Iterator[Document]:
    """Pass documents on, those of one text beside each other; count those that train has too."""
    for _, group in groupby(ordered, key=lambda document: document.text):
        same = list(group)
        yield from same
        found = Counter(document.split for document in same)
        if found["train"]:
            counts.update({f"{split} also in train": found[split] for split in EVALUATED})


def _write_triples(gathered: Gathered, graph: _Rows) -> None:
    resolve = gathered.redirects.resolve
    with open(gathered.triples, encoding="utf-8") as file:
        for _, triples in groupby(map(json.loads, file), key=lambda triple: triple[0]):
            # a redirect and its target in one parameter become one triple
            for triple in dict.fromkeys((*pair, resolve(tail) or tail) for *pair, tail in triples):
                graph.add(*triple)


def _warnings(options: ExtractionOptions, mentions: int, trees: int) -> list[str]:
    """Say which annotation that was promised is not there."""
    name, row = options.source.format, FORMATS[options.source.format]
    found = []
    if "mentions" in row.gives and not mentions:
        found.append(
            f"0 mentions were found, though format {name} may have them: no model of entities can "
            "be trained on this corpus; are they in the last column, or in Entity of CoNLL-U?"
            if row.kind == "annotated"
            else "0 mentions were found: no page has a link that stands in its text"
        )
    if (row.treebank or options.trees.kind != "none") and not trees:
        lack = "0 trees were found: no model of trees can be trained on this corpus"
        found.append(f"{lack}; the skips in its report say what was left out")
    return found


def _empty_splits(options: ExtractionOptions, splits: dict[str, Counter[str]]) -> list[str]:
    """Say which split that was asked for has no document."""
    paths: Any = options.source.paths
    if isinstance(paths, dict):
        why = "check the files that source.paths names for it, and the skips in the report"
        asked = {split for split in SPLITS if paths.get(split)}
    else:
        total = sum(numbers["documents"] for numbers in splits.values())
        why = f"a hash gives each document to a split, and there are {total:,}; name the files of "
        why += "each split in source.paths"
        asked = {split for split in SPLITS if getattr(options.split, split)}
    empty = [split for split in SPLITS if split in asked and not splits[split]["documents"]]
    return [f"the split '{split}' has no document: {why}" for split in empty]


def _write_aliases(gathered: Gathered, aliases: _Rows) -> None:
    with open(gathered.aliases, encoding="utf-8") as file:
        for entity, alias in map(json.loads, file):
            aliases.add(entity, alias)
    for alias, entity in gathered.redirects.aliases():
        if entity is None:
            gathered.skips.add("redirect in a circle", alias)
        else:
            aliases.add(entity, alias)


def _report(
    options: ExtractionOptions,
    gathered: Gathered,
    splits: dict[str, Counter[str]],
    written: Mapping[str, int],
) -> dict[str, Any]:
    counts = gathered.counts
    names = ("pages", "articles", "articles_with_infobox", "redirects", "records")
    sources = sorted(name.removesuffix(" found") for name in counts if name.endswith(" found"))
    kind = "given" if written["trees"] else "none"
    if options.trees.kind != "none":
        kind = PARSERS[options.trees.kind].source
    warnings = _warnings(options, written["mentions"], written["trees"])
    cut = filter(None, [cut_words_told(counts)])
    report: dict[str, Any] = {name: counts[name] for name in names} | {
        "sources": [path for path, _ in options.source.files()],
        "split": {
            "unit": "given" if isinstance(options.source.paths, dict) else options.split.unit,
            # after cleaning; none where duplicates are left out
            "also_in_train": {split: counts[f"{split} also in train"] for split in EVALUATED},
        },
        "splits": {split: dict(numbers) for split, numbers in splits.items()},
        "documents": sum(numbers["documents"] for numbers in splits.values()),
        "tokens": sum(numbers["tokens"] for numbers in splits.values()),
        # found in the text, kept on edges of tokens, written after deduplication
        "mentions": {
            source: {stage: counts[f"{source} {stage}"] for stage in ("found", "kept", "written")}
            for source in dict.fromkeys([*MENTION_SOURCES, *sources])
        },
        "annotation": {name: counts[name] for name in ANNOTATION_COUNTS if counts[name]},
        "skips": gathered.skips.to_json(),
        "knowledge_graph": written["knowledge_graph"],
        "aliases": written["aliases"],
        "trees": {"kind": kind, "written": written["trees"]},
        "warnings": [*warnings, *_empty_splits(options, splits), *cut],
    }
    kinds = _compare_kinds(counts)
    return report | ({"relations": kinds} if kinds else {})


def _compare_kinds(counts: Counter[str]) -> dict[str, object]:
    """Compare the file's own kinds of mentions with those that mentions and graph alone give."""
    kinds = ("new", "related", "ongoing")
    table = {a: {d: counts[f"annotated {a}, derived {d}"] for d in kinds} for a in kinds}
    cells = [(a, d, count) for a, row in table.items() for d, count in row.items()]
    total = sum(count for *_, count in cells)
    if not total:
        return {}
    agreed = sum(count for a, d, count in cells if (a == "new") == (d == "new"))
    return {"annotated_by_derived": table, "agreement_on_new": agreed / total}

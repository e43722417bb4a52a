"""The formats of corpora and the kinds of automatic trees, a row each; nothing heavy is imported.

A row adds nothing to the code fingerprint of jobs: what a job uses of it is in its parameters, and
its module is named to it.
"""

from __future__ import annotations

import hashlib
import importlib
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from beyond_perplexity.errors import InputError
from beyond_perplexity.options import Rows, Section, Share
from beyond_perplexity.storage.inputs import PACKED

if TYPE_CHECKING:
    from beyond_perplexity.corpus.text_files import HeldTexts

_PACKAGE = "beyond_perplexity.corpus"
EMBEDDED = "embedded:"  # begins the name of a corpus that an installed package ships
Annotation = Literal["trees", "mentions", "graph"]


class SourceOption(NamedTuple):
    """An option of a corpus' source that belongs to some formats."""

    hint: Any
    default: object
    words: str  # what it says, for the documentation of the configuration
    least: int | None = None  # the smallest value
    is_file: bool = False  # whether it is a file beside the texts


class Format(NamedTuple):
    """What is known of a format."""

    words: str  # what it is, for the documentation of the configuration
    # ``module:name`` in this package. Of texts, a function that streams `readers.Record`; of pages,
    # `mediawiki.PageStream`; of a format with tokens of its own, an `AnnotatedReader`
    reader: str
    # texts, pages or annotated: with tokens of its own, which no step may cut anew
    kind: Literal["texts", "pages", "annotated"] = "texts"
    gives: tuple[Annotation, ...] = ()  # annotations that its documents may have
    treebank: bool = False  # whether all its sentences have trees
    # Its own options. Formats may share one
    options: Mapping[str, SourceOption] = MappingProxyType({})
    suffixes: tuple[str, ...] = ()  # of files that users bring
    # Of texts: whether a document has fields beside its text, such as its group
    named_fields: bool = False

    @property
    def module(self) -> str:
        """The module of the reader."""
        return f"{_PACKAGE}.{self.reader.partition(':')[0]}"

    def load(self) -> Any:
        """Import the reader."""
        return getattr(importlib.import_module(self.module), self.reader.partition(":")[2])


_FIELD = {"field": SourceOption(str | None, None, "the field or column of the texts; null: text")}
_SPANS = {
    "mentions": SourceOption(
        Literal["outermost", "all"], "outermost", "the outermost of nested mentions, or all"
    ),
    "crossing": SourceOption(
        Literal["error", "first"],
        "error",
        "where the outermost mentions are kept: of two that cross, the one that begins first is "
        "kept, or they are an error",
    ),
}
_GRAPH = {
    "aliases": SourceOption(str | None, None, "the file alias.pkl", is_file=True),
    "knowledge_graph": SourceOption(str | None, None, "the file knowledge_graph.pkl", is_file=True),
}

FORMATS: Rows[Format] = {
    "mediawiki": Format(
        "XML dump", "mediawiki:PageStream", kind="pages", gives=("mentions", "graph")
    ),
    "text": Format("one document a line", "text_files:read_text"),
    "jsonl": Format(
        "objects with the field text, or strings, one a line",
        "text_files:read_jsonl",
        options=_FIELD,
        suffixes=(".jsonl", ".ndjson", ".json"),
        named_fields=True,
    ),
    "parquet": Format(
        "column text",
        "text_files:read_parquet",
        options=_FIELD,
        suffixes=(".parquet",),
        named_fields=True,
    ),
    "csv": Format(
        "column text of a table with a header row; tabs between cells under a name that ends in "
        ".tsv",
        "text_files:read_csv",
        options=_FIELD,
        suffixes=(".csv", ".tsv"),
        named_fields=True,
    ),
    "dataset": Format(
        "a folder of the library datasets: Arrow, as save_to_disk writes it, or Parquet",
        "text_files:read_folder",
        options=_FIELD,
        named_fields=True,
    ),
    "penn": Format(
        "trees in brackets",
        "penn:Reader",
        kind="annotated",
        gives=("trees",),
        treebank=True,
        options={
            "document": SourceOption(
                Literal["file", "tree"], "file", "whether a file is a document, or every tree"
            )
        },
    ),
    "conll": Format(
        "coreference: CoNLL-2012, LitBank, GUM, OntoGUM, or CoNLL-U with Entity",
        "conll:Reader",
        kind="annotated",
        gives=("trees", "mentions"),
        options={
            "word_column": SourceOption(
                int | None,
                None,
                "the column of the word, counted from 0; by default the fourth where there are "
                "seven or more, else the second; of CoNLL-U the one of the form",
                least=0,
            ),
            **_SPANS,
        },
    ),
    "linked-wikitext": Format(
        "entities and relations",
        "linked:Reader",
        kind="annotated",
        gives=("mentions", "graph"),
        options={**_SPANS, **_GRAPH},
    ),
}


def options_of_formats() -> dict[str, SourceOption]:
    """Return the options that belong to some formats."""
    return {name: option for row in FORMATS.values() for name, option in row.options.items()}


def formats_with(option: str) -> tuple[str, ...]:
    """Return the formats that have an option."""
    return tuple(name for name, row in FORMATS.items() if option in row.options)


def formats_giving(annotation: Annotation) -> tuple[str, ...]:
    """Return the formats whose documents may have an annotation."""
    return tuple(name for name, row in FORMATS.items() if annotation in row.gives)


TEXT_FORMATS = tuple(name for name, row in FORMATS.items() if row.kind == "texts")
ANNOTATED_FORMATS = tuple(name for name, row in FORMATS.items() if row.kind == "annotated")
SIDE_FILES = tuple(name for name, option in options_of_formats().items() if option.is_file)


class Parser(NamedTuple):
    """What is known of a kind of automatic trees."""

    words: str  # what it is, for the documentation of the configuration
    module: str  # has a function ``parse_document``
    source: str  # what the report of an extraction calls it


PARSERS: Rows[Parser] = {
    "shallow": Parser(
        "the phrases that TextBlob's chunker finds, for English",
        f"{_PACKAGE}.shallow_trees",
        "automatic: textblob",
    )
}


AUTOMATIC = "auto"  # the name of no format: that which the suffix tells

FORMAT_BY_SUFFIX = {suffix: name for name, row in FORMATS.items() for suffix in row.suffixes}
NO_TEXTS = {".xlsx": "a table"} | dict.fromkeys(
    (".pdf", ".docx", ".html", ".htm", ".arrow", ".feather", ".pkl"), "no plain text"
)


def guess_format(path: PurePath) -> str:
    """Tell the format by the suffix, before that of a compression; a folder is a dataset."""
    if os.path.isdir(path):
        return "dataset"
    suffixes = [suffix.lower() for suffix in path.suffixes if suffix.lower() not in PACKED]
    last = suffixes[-1] if suffixes else ""
    if last in NO_TEXTS and last not in FORMAT_BY_SUFFIX:
        advice = "give texts as JSONL or Parquet, or as lines under a name that ends in .txt"
        raise InputError(f"{path}: is {NO_TEXTS[last]} by its name; {advice}")
    return FORMAT_BY_SUFFIX.get(last, "text")


def find_format(path: PurePath, kind: str = AUTOMATIC) -> Format:
    """Return the row of a format, by default that which the suffix tells."""
    return FORMATS[guess_format(path) if kind == AUTOMATIC else kind]


def has_named_fields(path: PurePath | HeldTexts, kind: str = AUTOMATIC) -> bool:
    """Say whether documents have fields beside their texts, such as a group; those in memory do."""
    return not isinstance(path, PurePath) or find_format(path, kind).named_fields


def check_field(path: PurePath | HeldTexts, field: str | None, kind: str = AUTOMATIC) -> None:
    """Check that a field of the texts is named only where there are fields."""
    if field is not None and not has_named_fields(path, kind):
        advice = "give JSONL or Parquet, or name none"
        raise InputError(f"{path}: is plain text and has no field '{field}'; {advice}")


SPLITS = ("train", "valid", "test")
SENTENCES = "-sentences"  # ends the name of what has the sentences of a corpus as its documents


def hash_uniform(name: str) -> float:
    """Hash a name to [0, 1): the first 53 bits of its BLAKE2b digest; uniform over names."""
    digest = hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return (int.from_bytes(digest, "big") >> 11) / 2.0**53


@dataclass(frozen=True)
class SplitOptions(Section):
    """What goes to each split.

    The split of a unit depends on its hash and the shares alone, so that a bigger dump keeps it.

    unit: What is dealt to the splits. document, by title and text before cleaning: as if all were
        shuffled and then split, so that paragraphs of a page are in training and in test. page, by
        title: all of a page is in one split. A document without a title is a page of its own.
    train: Share for training.
    valid: Share for validation.
    test: Share that samples are compared with; the three add up to one.
    """

    unit: Literal["document", "page"] = "document"
    train: Share = 0.7
    valid: Share = 0.1
    test: Share = 0.2

    def __post_init__(self) -> None:
        super().__post_init__()
        total = self.train + self.valid + self.test
        if not math.isclose(total, 1, abs_tol=1e-9):
            raise ValueError(f"the shares of train, valid and test sum to {total:g}, not to 1")

    def choose(self, title: str, text: str) -> str:
        """Return the split of a document by the title of its page and its text before cleaning."""
        if self.unit == "page":
            position = hash_uniform(title or text)
        else:
            # no text has a line feed: no other title and text give the same string
            position = hash_uniform(f"{title}\n{text}" if title else text)
        if position < self.train:
            return "train"
        return "valid" if position < self.train + self.valid or not self.test else "test"

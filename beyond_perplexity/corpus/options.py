"""The options of the extraction of one corpus."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Literal

from beyond_perplexity.corpus.normalization import Preprocessing
from beyond_perplexity.corpus.split import SPLITS, SplitShares
from beyond_perplexity.errors import InputError
from beyond_perplexity.options import parse_options

READER_MODULES = {"penn": "penn", "conll": "conll", "linked-wikitext": "linked"}
"""Formats with tokens and annotations of their own -> module of this package with its `Reader`."""

PARSER_MODULES = {"shallow": "shallow_trees"}
"""Kinds of automatic trees -> module of this package with a function ``parse_document``."""

SIDE_FILES = ("aliases", "knowledge_graph")
"""The options of a source that are files beside its texts."""

FORMATS_OF_OPTION = {
    "document": ("penn",),
    "word_column": ("conll",),
    "mentions": ("conll", "linked-wikitext"),
    "crossing": ("conll", "linked-wikitext"),
    "aliases": ("linked-wikitext",),
    "knowledge_graph": ("linked-wikitext",),
}

STEPS_IN_PLACE = ("lower_case", "remove_accents")
"""The cleaning steps of annotated formats: those that change a token and not the tokenization."""


@dataclass(frozen=True)
class SourceOptions:
    """Section ``source``.

    Parameters
    ----------
    format : str
        mediawiki, text (one document a line), jsonl or parquet (field ``text``, optional
        ``title``); with tokens and annotations of their own: penn (trees in brackets), conll
        (coreference) and linked-wikitext (entities and relations).
    paths : list of str, or dict of split to list of str
        Files, or ``embedded:NAME``; a mapping gives each file's documents their split.
    on_error : str
        Whether unreadable input is an error or a counted skip. A single broken page is always
        a skip.
    document : str
        penn: whether a file is a document, or every tree.
    word_column : int, optional
        conll: which column holds the word, counted from 0; by default the fourth where there are
        seven or more, else the second. CoNLL-U, where it is 1, is an error without it.
    mentions : str
        conll, linked-wikitext: all, or the outermost of nested ones.
    crossing : str
        conll, linked-wikitext, where the outermost mentions are kept: of two that cross, the one
        that begins first is kept, or they are an error.
    aliases, knowledge_graph : str, optional
        linked-wikitext: the files ``alias.pkl`` and ``knowledge_graph.pkl``.
    """

    format: Literal["mediawiki", "text", "jsonl", "parquet", "penn", "conll", "linked-wikitext"]
    paths: list | dict
    on_error: Literal["error", "skip"] = "error"
    document: Literal["file", "tree"] = "file"
    word_column: int | None = None
    mentions: Literal["outermost", "all"] = "outermost"
    crossing: Literal["error", "first"] = "error"
    aliases: str | None = None
    knowledge_graph: str | None = None

    def __post_init__(self) -> None:
        for name, formats in FORMATS_OF_OPTION.items():
            default = type(self).__dataclass_fields__[name].default
            if getattr(self, name) != default and self.format not in formats:
                raise ValueError(f"{name} is for format {' and '.join(formats)} only")
        if self.word_column is not None and self.word_column < 0:
            raise ValueError(f"word_column is {self.word_column}, expected at least 0")
        if isinstance(self.paths, dict) and not set(self.paths) <= set(SPLITS):
            raise ValueError(f"paths has the keys {', '.join(self.paths)}; allowed are {SPLITS}")
        lists = self.paths.values() if isinstance(self.paths, dict) else [self.paths]
        if not all(isinstance(paths, list) for paths in lists):
            raise ValueError("paths of a split are a list of files")
        names = [name for name, _ in self.files()]
        if not names or not all(isinstance(name, str) for name in names):
            raise ValueError("paths names no file, or something that is no file name")

    def files(self) -> list[tuple[str, str | None]]:
        """List the files with the split that they give, None where shares decide."""
        if isinstance(self.paths, dict):
            return [(path, split) for split in SPLITS for path in self.paths.get(split, [])]
        return [(path, None) for path in self.paths]


@dataclass(frozen=True)
class DocumentOptions:
    """Section ``documents``.

    Parameters
    ----------
    minimum_tokens, maximum_tokens : int, int or None
        Shorter and longer documents are left out and counted.
    deduplicate : bool
        Whether only the first of identical texts (after preprocessing) is kept.
    """

    minimum_tokens: int = 1
    maximum_tokens: int | None = None
    deduplicate: bool = True

    def __post_init__(self) -> None:
        if self.minimum_tokens < 1:
            raise ValueError(f"minimum_tokens is {self.minimum_tokens}, expected at least 1")
        if self.maximum_tokens is not None and self.maximum_tokens < self.minimum_tokens:
            raise ValueError(f"maximum_tokens is {self.maximum_tokens}, below minimum_tokens")


@dataclass(frozen=True)
class TreeOptions:
    """Section ``trees``: automatic trees over the document's own tokens.

    Parameters
    ----------
    kind : str
        none keeps the trees that the source has; shallow are the phrases that TextBlob's chunker
        finds.
    maximum_tokens : int
        Longer sentences get no tree and are counted.
    """

    kind: Literal["none", "shallow"] = "none"
    maximum_tokens: int = 100

    def __post_init__(self) -> None:
        if self.maximum_tokens < 1:
            raise ValueError(f"maximum_tokens is {self.maximum_tokens}, expected at least 1")


def annotated_preprocessing(
    source_format: str, values: Mapping[str, object]
) -> Mapping[str, object]:
    """Complete the section ``preprocessing`` of a format that has its own tokens.

    Parameters
    ----------
    source_format : str
        Of the corpus; a format that is not in `READER_MODULES` leaves the section as it is.
    values : mapping
        The section, as the user wrote it.

    Returns
    -------
    mapping
        With every step that would change the tokenization switched off.

    Raises
    ------
    InputError
        When such a step is asked for.
    """
    if source_format not in READER_MODULES:
        return values
    off: dict[str, object] = {
        field.name: "none" if field.name == "tokenizer" else False
        for field in fields(Preprocessing)
        if field.name not in (*STEPS_IN_PLACE, "language")
    }
    for name, value in off.items():
        if values.get(name, value) != value:
            raise InputError(
                f"preprocessing.{name}: a corpus of format {source_format} keeps the tokens of its "
                f"annotation; only {' and '.join(STEPS_IN_PLACE)} apply to it; remove this key"
            )
    return {**values, **off}


@dataclass(frozen=True)
class ExtractionOptions:
    """All options of the extraction of one corpus; see the classes of the fields."""

    source: SourceOptions
    preprocessing: Preprocessing
    documents: DocumentOptions
    split: SplitShares
    trees: TreeOptions

    @classmethod
    def from_config(cls, config: Mapping[str, object]) -> ExtractionOptions:
        """Check and read the JSON object of a corpus.

        Raises
        ------
        InputError
            When a key is unknown or missing or a value cannot be used; names the key.
        """
        allowed = ("source", "preprocessing", "documents", "split", "trees")
        for key in config:
            if key not in allowed:
                raise InputError(f"{key}: unknown key; allowed are {', '.join(allowed)}")
        source = parse_options(SourceOptions, config.get("source", {}), "source")
        if isinstance(source.paths, dict) and "split" in config:
            raise InputError("split: source.paths already gives the splits; leave one of them out")
        preprocessing = config.get("preprocessing", {})
        if not isinstance(preprocessing, Mapping):
            raise InputError(f"preprocessing: is {preprocessing!r}, expected an object of options")
        trees = parse_options(TreeOptions, config.get("trees", {}), "trees")
        if trees.kind != "none" and source.format == "penn":
            raise InputError(f"trees.kind: is {trees.kind}, but a treebank has trees; remove it")
        return cls(
            source,
            Preprocessing.from_config(annotated_preprocessing(source.format, preprocessing)),
            parse_options(DocumentOptions, config.get("documents", {}), "documents"),
            parse_options(SplitShares, config.get("split", {}), "split"),
            trees,
        )

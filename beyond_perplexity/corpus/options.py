"""The options of the extraction of one corpus."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Annotated, Literal

from beyond_perplexity.corpus.normalization import Preprocessing
from beyond_perplexity.corpus.split import SPLITS, SplitShares
from beyond_perplexity.errors import InputError
from beyond_perplexity.options import Limit, Section, parse_options

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
        mediawiki (XML dump), text (one document a line), jsonl (field text) or parquet (column
        text); with tokens and annotations of their own, penn (trees in brackets), conll
        (coreference) and linked-wikitext (entities and relations).
    paths : list of str, or dict of split to list of str
        The files in order (a pattern such as data/*.conll stands for all that match), or one list
        per split (train, valid, test) for a corpus that is already split.
    on_error : str
        A truncated or wrongly encoded file is an error, or what was read is kept and the rest
        counted. A single broken page is always a counted skip.
    document : str
        For penn, whether a file is a document, or every tree.
    word_column : int or None
        For conll, the column of the word, counted from 0; by default the fourth of seven or more,
        else the second; CoNLL-U needs 1.
    mentions : str
        For conll and linked-wikitext, the outermost of nested mentions, or all.
    crossing : str
        For conll and linked-wikitext, where the outermost mentions are kept: whether two that cross
        are an error, or the one that begins first is kept.
    aliases : str or None
        For linked-wikitext, the file alias.pkl.
    knowledge_graph : str or None
        For linked-wikitext, the file knowledge_graph.pkl.
    """

    format: Literal["mediawiki", "text", "jsonl", "parquet", "penn", "conll", "linked-wikitext"]
    paths: list | dict
    on_error: Literal["error", "skip"] = "error"
    document: Literal["file", "tree"] = "file"
    word_column: Annotated[int | None, Limit(minimum=0)] = None
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
class DocumentOptions(Section):
    """Section ``documents``.

    Parameters
    ----------
    minimum_tokens : int
        Shorter documents are left out and counted.
    maximum_tokens : int or None
        Longer documents are left out and counted; null keeps all.
    deduplicate : bool
        Keep the first of identical documents (after preprocessing) only.
    """

    minimum_tokens: Annotated[int, Limit(minimum=1)] = 1
    maximum_tokens: Annotated[int | None, Limit(minimum=1)] = None
    deduplicate: bool = True

    def __post_init__(self) -> None:
        if self.minimum_tokens < 1:
            raise ValueError(f"minimum_tokens is {self.minimum_tokens}, expected at least 1")
        if self.maximum_tokens is not None and self.maximum_tokens < self.minimum_tokens:
            raise ValueError(f"maximum_tokens is {self.maximum_tokens}, below minimum_tokens")


@dataclass(frozen=True)
class AutomaticTreeOptions(Section):
    """Section ``trees``: automatic trees over the document's own tokens.

    Parameters
    ----------
    kind : str
        none, which keeps the trees that the source has, or shallow (the phrases of TextBlob's
        chunker, for English).
    maximum_tokens : int
        Longer sentences get no tree and are counted.
    """

    kind: Literal["none", "shallow"] = "none"
    maximum_tokens: Annotated[int, Limit(minimum=1)] = 100

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
    trees: AutomaticTreeOptions

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
        trees = parse_options(AutomaticTreeOptions, config.get("trees", {}), "trees")
        if trees.kind != "none" and source.format == "penn":
            raise InputError(f"trees.kind: is {trees.kind}, but a treebank has trees; remove it")
        return cls(
            source,
            Preprocessing.from_config(annotated_preprocessing(source.format, preprocessing)),
            parse_options(DocumentOptions, config.get("documents", {}), "documents"),
            parse_options(SplitShares, config.get("split", {}), "split"),
            trees,
        )

"""Sections ``corpora``: where texts come from, how they are cleaned and split."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from beyond_perplexity.corpus.extraction_options import (
    AutomaticTreeOptions,
    DocumentOptions,
    SourceOptions,
)
from beyond_perplexity.corpus.formats import SIDE_FILES, options_of_formats
from beyond_perplexity.corpus.normalization import Preprocessing
from beyond_perplexity.corpus.split import SplitOptions
from beyond_perplexity.options import OMITTED, Limit, Parsed, Section, add_fields


@dataclass(frozen=True)
class Download(Section):
    """A file at an address, with its checksum.

    Attributes
    ----------
    url : str
        Address (http or https) that is downloaded once; without password, key or token, which the
        log would show.
    sha256 : str
        SHA-256 of the file (of its member, if one is named), 64 hexadecimal digits; another content
        is an error.
    member : str
        The file is a zip archive, and this is the path inside it that is meant.
    """

    url: Annotated[str, Limit(pattern="^https?://")]
    sha256: Annotated[str, Limit(pattern="^[0-9a-f]{64}$")]
    member: Annotated[str, Limit(minLength=1)] = OMITTED


# A local path, `embedded:enwiki-excerpt`, or an address with its checksum.
Location = Annotated[str, Limit(minLength=1)] | Download
Locations = Annotated[list[Location], Limit(minItems=1)]


@dataclass(frozen=True)
class PathsBySplit(Section):
    """The files of a corpus that is already split.

    Attributes
    ----------
    train : list of Location
        Files of the training split.
    valid : list of Location
        Files of the validation split.
    test : list of Location
        Files of the test split.
    """

    train: Locations
    valid: Locations
    test: Locations


def _with_side_files(kind: type[Parsed]) -> type[Parsed]:
    return add_fields(kind, dict.fromkeys(SIDE_FILES, (Location, OMITTED)), {})


@dataclass(frozen=True)
@_with_side_files
class Source(SourceOptions, Section):
    """Where a text comes from: files that a job gets when every address has become a path."""

    left_out = tuple(options_of_formats())

    paths: Locations | PathsBySplit  # type: ignore[assignment]


@dataclass(frozen=True)
class Corpus(Section):
    """A body of text.

    Attributes
    ----------
    source : Source
        Where the text comes from.
    trees : AutomaticTreeOptions
        Automatic trees over the documents' own tokens; a treebank has its own.
    preprocessing : Preprocessing
        The cleaning steps, in the order of XLM's preparation; each is a switch. To penn, conll and
        linked-wikitext only lower_case and remove_accents apply, token by token.
    documents : DocumentOptions
        Which documents are kept.
    split : SplitOptions
        What goes to each split, where the source does not say it.
    """

    source: Source
    trees: AutomaticTreeOptions = OMITTED
    preprocessing: Preprocessing = field(default_factory=Preprocessing)
    documents: DocumentOptions = field(default_factory=DocumentOptions)
    split: SplitOptions = OMITTED

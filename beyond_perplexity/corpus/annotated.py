"""Documents that come with their tokens and annotations: what every reader of such a format gives.

The tokens of an annotated corpus are the annotators': they are never tokenized again. Only steps
that change a token in place (lower case, accents) apply to them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from beyond_perplexity.corpus.links import Mention
from beyond_perplexity.corpus.normalization import Preprocessing, lower_case, remove_accents
from beyond_perplexity.corpus.options import SourceOptions
from beyond_perplexity.corpus.readers import Problems
from beyond_perplexity.storage.inputs import PACKED

PLACEHOLDER = "_"


@dataclass
class Annotated:
    """One document with its tokens and annotations, as a file gives it.

    Parameters
    ----------
    place : str
        File and line where it begins.
    title : str
        Name of the document; documents of the same title are of one page.
    tokens : list of str
        The words, none of them empty or with white space inside (see `single_word`).
    mentions : list of (int, int, str, str)
        Token span [start, end), entity, source, in the order of the text.
    trees : list of (int, str)
        Number of the sentence in the document, tree in the form of `penn`; sentences follow each
        other without gaps, and the leaves of all trees are the tokens unless trees were skipped.
    counts : Counter of str
        What the reader counted in it, for the report.
    """

    place: str
    title: str
    tokens: list[str]
    mentions: list[Mention] = field(default_factory=list)
    trees: list[tuple[int, str]] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)


class AnnotatedReader(ABC):
    """A reader of one annotated format; one instance reads all files of a corpus.

    Parameters
    ----------
    source : SourceOptions
        The options of the corpus.
    problems : Problems
        Where malformed input is reported.
    """

    def __init__(self, source: SourceOptions, problems: Problems) -> None:
        self.source = source
        self.problems = problems

    @abstractmethod
    def read(self, path: Path) -> Iterator[Annotated]:
        """Stream the documents of one file."""

    def triples(self) -> Iterable[tuple[str, str, str]]:
        """Give the knowledge graph (subject, relation, object); empty where the format has none."""
        return ()

    def aliases(self) -> Iterable[tuple[str, str]]:
        """Give pairs (entity, alias); empty where the format has none."""
        return ()


def single_word(text: str) -> str:
    """Make a token fit for a text of tokens joined by blanks.

    Parameters
    ----------
    text : str
        A token, perhaps with white space inside.

    Returns
    -------
    str
        Runs of white space inside have become ``_``; an empty token is ``_``.
    """
    return PLACEHOLDER.join(text.split()) or PLACEHOLDER


def clean_tokens(tokens: Sequence[str], steps: Preprocessing) -> list[str]:
    """Apply the steps that change a token in place; the number of tokens stays.

    Parameters
    ----------
    tokens : sequence of str
        Without white space inside.
    steps : Preprocessing
        Its `lower_case` and `remove_accents` count, nothing else.

    Returns
    -------
    list of str
        As many tokens; one that is nothing but accents stays as it is.
    """
    text = "\n".join(tokens)
    if steps.lower_case:
        text = lower_case(text)
    if steps.remove_accents:
        text = remove_accents(text)
    return [new or old for new, old in zip(text.split("\n"), tokens, strict=True)]


def document_name(path: Path) -> str:
    """Name the document that a whole file is: the file's name without its endings of packing."""
    while path.suffix.lower() in PACKED:
        path = path.with_suffix("")
    return path.stem

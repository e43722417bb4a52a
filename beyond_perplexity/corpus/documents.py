"""Documents on their way to the shuffled table: a bucket sort on disk by a keyed hash of the text.

The hash is the random order, and identical texts meet: so a corpus of any size is shuffled and
deduplicated with one bucket in memory, and the result does not depend on who produced what when.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from beyond_perplexity.corpus.links import Mention
from beyond_perplexity.corpus.readers import Skips

BUCKETS = 256  # one for each value of the hash's first byte

EncodedDocument = tuple[int, bytes]


@dataclass(frozen=True)
class Document:
    """One document before it has its number.

    Parameters
    ----------
    split : str
        train, valid or test.
    title : str
        The title of its page; empty without one.
    text : str
        Tokens joined by one blank.
    n_tokens : int
        Number of tokens.
    raw : str
        The text before cleaning.
    mentions : list of (int, int, str, str)
        Token span [start, end), entity, source.
    trees : list of (int, str)
        Number of the sentence in the document, tree.
    """

    split: str
    title: str
    text: str
    n_tokens: int
    raw: str
    mentions: list[Mention]
    trees: list[tuple[int, str]] = field(default_factory=list)

    def encode(self, seed: int, place: tuple[int, int]) -> EncodedDocument:
        """Serialize for the sort.

        Parameters
        ----------
        seed : int
            Of the shuffle.
        place : (int, int)
            Number of the page or record in the corpus, number of the paragraph in it: orders
            identical texts.

        Returns
        -------
        (int, bytes)
            The bucket and one line for it.
        """
        key = seed.to_bytes(16, "little", signed=True)
        digest = hashlib.blake2b(self.text.encode(), digest_size=16, key=key).digest()
        values = [digest.hex(), *place, self.split, self.title, self.text, self.n_tokens, self.raw]
        line = json.dumps(
            [*values, self.mentions, self.trees], ensure_ascii=False, separators=(",", ":")
        )
        return digest[0], line.encode() + b"\n"


class DocumentSorter:
    """Buckets of documents on disk.

    Used as a context manager that closes the files; the folder is the caller's to remove.

    Parameters
    ----------
    folder : pathlib.Path
        An existing folder for `BUCKETS` temporary files.
    """

    def __init__(self, folder: Path) -> None:
        self._paths = [folder / f"documents-{bucket:03d}.jsonl" for bucket in range(BUCKETS)]
        self._files: list[BinaryIO] = []
        self._stack = ExitStack()

    def __enter__(self) -> DocumentSorter:
        self._files = [self._stack.enter_context(path.open("wb")) for path in self._paths]
        return self

    def __exit__(self, *exception: object) -> None:
        self._stack.close()

    def add(self, documents: Iterable[EncodedDocument]) -> None:
        """Put encoded documents into their buckets."""
        for bucket, line in documents:
            self._files[bucket].write(line)

    def documents(self, deduplicate: bool, skips: Skips) -> Iterator[Document]:
        """Give all documents in their random order; ends the adding.

        Parameters
        ----------
        deduplicate : bool
            Whether to give only the first of documents with the same text.
        skips : Skips
            Where duplicates are counted.

        Yields
        ------
        Document
            Ordered by keyed hash of the text, then by place in the corpus.
        """
        self._stack.close()
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

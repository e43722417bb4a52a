"""From the files of two texts to the vectors of some of their documents."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from beyond_perplexity.inference.exchanged_units import Groups, alike_groups, unlike_groups
from beyond_perplexity.tendencies.bodies import DocumentFiles
from beyond_perplexity.tendencies.embeddings.choice import chosen_documents
from beyond_perplexity.tendencies.embeddings.embedded import (
    EmbeddedPair,
    EmbeddedText,
    TextEncoder,
    embedded_text,
)
from beyond_perplexity.tendencies.inference.human_text import first_documents, texts_as_read
from beyond_perplexity.tendencies.tokens import TokenBatch
from beyond_perplexity.verdicts import REASON_FOLLOWS

Read = Callable[[pa.Array], TokenBatch]


def embedded_documents(
    files: DocumentFiles,
    places: np.ndarray,
    n_documents: int,
    groups: np.ndarray | None,
    read: Read,
    encoder: TextEncoder,
) -> EmbeddedText:
    """Embed documents of some files.

    Parameters
    ----------
    files : DocumentFiles
        The files.
    places : numpy.ndarray of int, shape (n,)
        Which of their documents, increasing.
    n_documents : int
        Documents of the files.
    groups : numpy.ndarray of int, shape (D,), or None
        The group of each document of the files.
    read : callable
        Makes tokens of a batch of texts: the encoder sees them joined by blanks.
    encoder : TextEncoder
        What makes vectors of them.
    """
    wanted = np.zeros(int(places.max(initial=-1)) + 1, bool)
    wanted[places] = True
    batches = texts_as_read(files.texts(), read, wanted)
    texts = [text for batch in batches for text in batch.to_pylist()]
    own = None if groups is None else groups[places]
    return embedded_text(texts, own, n_documents, encoder)


def further_documents(
    reference: DocumentFiles, split: str, n_chosen: int, n: int, *, grouped: bool
) -> tuple[DocumentFiles, np.ndarray, np.ndarray | None]:
    """Choose further human documents for a floor, of another split of the reference's files.

    Parameters
    ----------
    reference : DocumentFiles
        The reference; its documents lie in random order.
    split : str
        The other split.
    n_chosen : int
        Documents of the reference that are embedded: groups of the other split are thinned alike.
    n : int
        Documents that are wanted.
    grouped : bool
        Whether the reference has groups: then whole groups are taken, as they are thinned.

    Returns
    -------
    files : DocumentFiles
    places : numpy.ndarray of int64
    groups : numpy.ndarray of int, shape (D,), or None
    """
    if not grouped:
        files = reference.other_split(split)
        held = min(n, sum(batch.num_rows for batch in _first(files, n)))
        return files, np.arange(held), None
    thin = DocumentFiles(
        reference.paths, reference.split, n_chosen, reference.view, reference.group_column
    )
    files = thin.other_split(split, as_thin=True)
    numbers = files.group_numbers()
    codes = np.zeros(0, np.int32) if numbers is None else numbers.codes()
    return files, np.flatnonzero(first_documents(codes, n)), codes


def _first(files: DocumentFiles, n: int) -> list[pa.RecordBatch]:
    """Read batches of documents until there are n."""
    held: list[pa.RecordBatch] = []
    for batch in files.rows("text"):
        held.append(batch)
        if sum(part.num_rows for part in held) >= n:
            break
    return held


def embedded_pair(
    files: tuple[DocumentFiles, DocumentFiles],
    n_documents: tuple[int, int],
    groups: Groups,
    read: Read,
    most: int,
    seed: int,
    encoder: TextEncoder,
) -> EmbeddedPair:
    """Embed random documents of two texts.

    Parameters
    ----------
    files : tuple of two DocumentFiles
        The reference and the samples.
    n_documents : tuple of two int
        Their documents.
    groups : tuple of two numpy.ndarray of int, shape (D,), or None
        The groups of all their documents.
    read : callable
        See `embedded_documents`.
    most, seed : int
        Documents of each text at most, and the seed that they are chosen by; see `choice`.
    encoder : TextEncoder
        What makes vectors.
    """
    groups = alike_groups(groups, n_documents)
    unlike = unlike_groups(groups, n_documents)
    places = chosen_documents(n_documents, groups, most, seed)
    reference, samples = (
        embedded_documents(
            files[body], places[body], n_documents[body], groups[body], read, encoder
        )
        for body in (0, 1)
    )
    return EmbeddedPair.of(reference, samples, None, f"{REASON_FOLLOWS}{unlike}" if unlike else "")

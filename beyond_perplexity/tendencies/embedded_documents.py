"""Documents as vectors: of one text, and of two that are compared.

D numbers of a vector, n documents.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa

from beyond_perplexity.errors import InputError
from beyond_perplexity.inference.permuted_units import Groups, alike_groups, scheme_of
from beyond_perplexity.inference.prompts import Prompts
from beyond_perplexity.random_streams import stream
from beyond_perplexity.schemas.tendencies import EMBEDDINGS
from beyond_perplexity.storage.shards import read_batches
from beyond_perplexity.tendencies.discrepancy import gaussian_kernel, median_distance
from beyond_perplexity.tendencies.document_files import DocumentFiles
from beyond_perplexity.tendencies.pairs import first_documents, renumbered, texts_as_read
from beyond_perplexity.tendencies.tokens import TokenBatch


class TextEncoder(Protocol):
    """What makes vectors of texts; `truncated` counts those so far of which not all was read."""

    truncated: int

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """Return vectors, float32, (n, D): rows of NaN for texts that it can make nothing of."""


@dataclass(frozen=True)
class EmbeddedText:
    """Documents of a text as vectors: float32, (n, D), rows of NaN where there is none.

    `groups` (n,) are numbered from 0 on without gaps, None where each is independent. They were
    drawn from `n_documents`; `cut` are longer than the encoder reads.
    """

    vectors: np.ndarray
    groups: np.ndarray | None
    n_documents: int
    cut: int = 0

    def __len__(self) -> int:
        return len(self.vectors)

    def first(self, n: int) -> EmbeddedText:
        """Return the first n documents, or the first whole groups, as near to n as can be."""
        kept = np.flatnonzero(first_documents(self.groups, min(n, len(self))))
        groups = None if self.groups is None else renumbered(self.groups[kept])
        return replace(self, vectors=self.vectors[kept], groups=groups)


def embedded_text(
    texts: Sequence[str], groups: np.ndarray | None, n_documents: int, encoder: TextEncoder
) -> EmbeddedText:
    """Embed documents with their groups; those that the encoder can make nothing of stay."""
    before = encoder.truncated
    vectors = np.asarray(encoder.encode(texts), np.float32)
    own = None if groups is None else renumbered(groups)
    return EmbeddedText(vectors, own, n_documents, encoder.truncated - before)


@dataclass(frozen=True)
class EmbeddedPair:
    """Two texts as vectors, and the bandwidth of their kernel."""

    reference: EmbeddedText
    samples: EmbeddedText
    bandwidth: float
    prompts: Prompts | None = None  # that both answer

    @classmethod
    def of(
        cls, reference: EmbeddedText, samples: EmbeddedText, further: EmbeddedText | None = None
    ) -> EmbeddedPair:
        """Choose the bandwidth of further human text, for all samples, or of both texts."""
        vectors = np.concatenate([reference.vectors, samples.vectors])
        if further is not None and len(further) > 1:
            vectors = further.vectors
        return cls(reference, samples, median_distance(vectors))

    @cached_property
    def kernel(self) -> np.ndarray:
        """The kernel of all documents, those of the reference first: float64, (n + m, n + m)."""
        both = np.concatenate([self.reference.vectors, self.samples.vectors])
        return gaussian_kernel(both, self.bandwidth)

    @property
    def groups(self) -> Groups:
        """The groups of both."""
        return self.prompts or (self.reference.groups, self.samples.groups)

    @property
    def n_documents(self) -> tuple[int, int]:
        """Documents of the reference n and of the samples m that are compared."""
        return len(self.reference), len(self.samples)


_PURPOSE = "embeddings/documents"


def _drawn(indices: np.ndarray, size: int, seed: int, sample_set: int) -> np.ndarray:
    """Draw so many of some indices (n,) without replacement, all where there are no more."""
    if size >= len(indices):
        return indices
    return np.sort(stream(seed, _PURPOSE, sample_set).choice(indices, size, replace=False))


def chosen_documents(
    n_documents: tuple[int, int], groups: Groups, most: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Choose at most so many documents of each text; their indices, increasing.

    Documents, and groups beside documents without: as many as are asked for, drawn at random. Under
    the null hypothesis groups stay independent whatever documents are drawn, and documents stay
    draws of their distribution, so the tests are sound for those drawn. Groups of both can be
    permuted only where they lose documents alike: of both the same share is drawn, after whole
    groups were left out of the text that has more documents.
    """
    indices, sizes = [np.arange(n) for n in n_documents], [most, most]
    if scheme_of(groups) == "groups":
        shares = [min(1.0, most / max(n, 1)) for n in n_documents]
        share = max(shares)
        for sample_set, codes in enumerate(groups):
            if codes is not None and shares[sample_set] < share:
                names = np.unique(codes)
                order = stream(seed, f"{_PURPOSE}/groups", sample_set).permutation(len(names))
                kept = max(1, round(shares[sample_set] / share * len(names)))
                indices[sample_set] = np.flatnonzero(np.isin(codes, names[order[:kept]]))
        sizes = [round(share * len(held)) for held in indices]
    first, second = (
        _drawn(indices[sample_set], sizes[sample_set], seed, sample_set) for sample_set in (0, 1)
    )
    return first, second


def drawn_documents(
    n_documents: tuple[int, int], groups: Groups, most: int, seed: int
) -> tuple[tuple[np.ndarray, np.ndarray], Groups]:
    """Choose documents of two texts, or whole prompts: indices, and the groups of the chosen."""
    if isinstance(groups, Prompts):
        return groups.drawn(most, stream(seed, f"{_PURPOSE}/prompts"))
    groups = alike_groups(groups, n_documents)
    chosen = chosen_documents(n_documents, groups, most, seed)
    both = zip(groups, chosen, strict=True)
    first, second = (None if codes is None else renumbered(codes[own]) for codes, own in both)
    return chosen, (first, second)


Read = Callable[[pa.Array], TokenBatch]


def documents_at(files: DocumentFiles, indices: np.ndarray, read: Read) -> list[str]:
    """Return the documents at indices (n,), increasing, as they are read, joined by blanks."""
    wanted = np.zeros(int(indices.max(initial=-1)) + 1, bool)
    wanted[indices] = True
    batches = texts_as_read(files.texts(), read, wanted)
    return [text for batch in batches for text in batch.to_pylist()]


def embedded_documents(
    files: DocumentFiles,
    indices: np.ndarray,
    n_documents: int,
    groups: np.ndarray | None,
    read: Read,
    encoder: TextEncoder,
) -> EmbeddedText:
    """Embed documents at indices (n,), increasing, with groups of all (D,), as they are read."""
    texts = documents_at(files, indices, read)
    own = None if groups is None else groups[indices]
    return embedded_text(texts, own, n_documents, encoder)


def further_documents(
    reference: DocumentFiles, split: str, n_chosen: int, n: int, *, grouped: bool
) -> tuple[DocumentFiles, np.ndarray, np.ndarray | None]:
    """Choose n further human documents for a baseline: files, indices and groups of documents.

    Of another split; of groups whole ones, thinned as the reference of `n_chosen` documents.
    """
    if not grouped:
        files, held = reference.other_split(split), 0
        for texts in files.texts():
            held += len(texts)
            if held >= n:
                break
        return files, np.arange(min(n, held)), None
    files = replace(reference, first=n_chosen).other_split(split, as_thin=True)
    numbers = files.group_numbers()
    codes = np.zeros(0, np.int32) if numbers is None else numbers.codes()
    return files, np.flatnonzero(first_documents(codes, n)), codes


def embedded_pair(
    files: tuple[DocumentFiles, DocumentFiles],
    n_documents: tuple[int, int],
    groups: Groups,
    read: Read,
    most: int,
    seed: int,
    encoder: TextEncoder,
) -> EmbeddedPair:
    """Embed random documents of two texts, at most so many of each; see `chosen_documents`."""
    indices, own = drawn_documents(n_documents, groups, most, seed)
    reference, samples = (
        embedded_text(
            documents_at(files[sample_set], indices[sample_set], read),
            own[sample_set],
            n_documents[sample_set],
            encoder,
        )
        for sample_set in (0, 1)
    )
    prompts = own if isinstance(own, Prompts) else None
    return replace(EmbeddedPair.of(reference, samples), prompts=prompts)


HUMAN, FURTHER = "reference", "further"  # the sources that are human text
TextKey = tuple[str, str]  # source and vocabulary


def vectors_table(key: TextKey, text: EmbeddedText) -> pa.Table:
    """Write a text as rows of schema ``embeddings``."""
    n, width = text.vectors.shape
    flat = pa.array(text.vectors.astype(np.float32).ravel(), pa.float32())
    held: dict[str, object] = {"source": key[0], "vocabulary": key[1]}
    held |= {"documents": text.n_documents, "cut": text.cut}
    columns: dict[str, object] = {name: [value] * n for name, value in held.items()}
    columns["group"] = [None] * n if text.groups is None else text.groups
    ends = pa.array(np.arange(n + 1) * width, pa.int32())
    columns["vector"] = pa.ListArray.from_arrays(ends, flat)
    return pa.table({name: columns[name] for name in EMBEDDINGS.names}, EMBEDDINGS)


def read_embeddings(path: str | Path) -> Mapping[TextKey, EmbeddedText]:
    """Read the texts of a file, by source and vocabulary."""
    batches = list(read_batches(path, EMBEDDINGS, EMBEDDINGS.names))
    table = pa.Table.from_batches(batches, EMBEDDINGS)
    keys = list(zip(table["source"].to_pylist(), table["vocabulary"].to_pylist(), strict=True))
    vectors = table["vector"].combine_chunks()
    lengths = set(np.diff(np.asarray(vectors.offsets)).tolist())
    if len(lengths) > 1:
        raise InputError(f"{path}: holds vectors of different lengths; embed all texts anew")
    flat = np.asarray(vectors.flatten(), np.float32).reshape(len(keys), -1)
    found = {}
    for key in dict.fromkeys(keys):
        rows = np.array([own == key for own in keys])
        part = table.filter(pa.array(rows))
        groups = None if part["group"].null_count else renumbered(np.asarray(part["group"]))
        counts = [int(part[name][0].as_py()) for name in ("documents", "cut")]
        found[key] = EmbeddedText(flat[rows], groups, *counts)
    return found

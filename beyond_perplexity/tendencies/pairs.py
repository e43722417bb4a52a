"""Two bodies of text side by side: their statistics, their types, and the counts of each document.

Documents are read once, for permutations, resamples and random subsets alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beyond_perplexity.errors import InputError
from beyond_perplexity.inference.document_draws import DocumentGroups
from beyond_perplexity.inference.exchanged_units import Groups, alike_groups, scheme_of
from beyond_perplexity.random_streams import stream
from beyond_perplexity.tendencies.counting import value_counter
from beyond_perplexity.tendencies.rows import LENGTH
from beyond_perplexity.tendencies.spill import add_up
from beyond_perplexity.tendencies.statistics import Histogram, Statistics, histograms_of
from beyond_perplexity.tendencies.tokens import TokenBatch, tokenize_batch
from beyond_perplexity.tendencies.unigrams import DocumentCounts, count_lengths
from beyond_perplexity.tendencies.word_classes import ClassOptions


@dataclass(frozen=True)
class BodyPair:
    """Two bodies of text, ready to be measured and tested.

    Attributes
    ----------
    reference, samples : Statistics
        Their sufficient statistics.
    types : pyarrow.StringArray, shape (V,)
        The types of both, most frequent first.
    counts : numpy.ndarray of int64, shape (2, V)
        Occurrences in the reference and in the samples.
    documents : DocumentCounts or None
        Counts of every document; None when no draw needs them.
    groups : tuple of two numpy.ndarray of int32, shape (D,), or None
        The group of each document of the reference and of the samples.
    """

    reference: Statistics
    samples: Statistics
    types: pa.Array
    counts: np.ndarray
    documents: DocumentCounts | None = None
    groups: Groups = (None, None)

    @cached_property
    def document_lengths(self) -> tuple[np.ndarray, np.ndarray]:
        """Tokens of each document of the reference and of the samples: int32, shape (D,)."""
        assert self.documents is not None
        return self.documents.values(0)[LENGTH], self.documents.values(1)[LENGTH]

    @property
    def n_documents(self) -> tuple[int, int]:
        """Documents of the reference and of the samples."""
        return self.reference.n_documents, self.samples.n_documents

    def n_groups(self, body: int) -> int | None:
        """Count the groups of a body; None where it has none."""
        groups = self.groups[body]
        return None if groups is None else len(np.unique(groups))

    @property
    def bodies(self) -> tuple[Statistics, Statistics]:
        """The reference and the samples."""
        return self.reference, self.samples

    @property
    def pooled(self) -> np.ndarray:
        """Occurrences in both bodies together: int64, shape (V,)."""
        total: np.ndarray = self.counts.sum(axis=0)
        return total

    @property
    def defined(self) -> bool:
        """Whether both bodies have tokens."""
        return bool(np.all(self.counts.sum(axis=1) > 0))


def aligned_counts(types: pa.Array, body: Statistics) -> np.ndarray:
    """Return the counts of a body by types (V,), zero where it lacks one: int64, shape (V,)."""
    aligned = np.zeros(len(types), np.int64)
    aligned[pc.index_in(body.types, value_set=types).to_numpy()] = body.counts
    return aligned


def _pair(reference: Statistics, samples: Statistics) -> BodyPair:
    bodies = (reference, samples)
    tables = [
        pa.table({"type": body.types, "count": pa.array(body.counts, pa.int64())})
        for body in bodies
    ]
    pooled = add_up(tables)
    order = np.argsort(-pooled["count"].to_numpy(), kind="stable")
    types = pooled["type"].combine_chunks().take(pa.array(order))
    counts = np.stack([aligned_counts(types, body) for body in bodies])
    return BodyPair(reference, samples, types, counts)


@contextmanager
def paired(
    reference: Statistics,
    samples: Statistics,
    texts: tuple[Iterable[pa.Array], Iterable[pa.Array]] | None,
    *,
    read: Callable[[pa.Array], TokenBatch] = tokenize_batch,
    groups: Groups = (None, None),
    classes: ClassOptions | None = None,
) -> Iterator[BodyPair]:
    """Bring two bodies of text together; their documents lie on disk as long as the context.

    Parameters
    ----------
    reference, samples : Statistics
        Sufficient statistics of both.
    texts : tuple of two iterables of pyarrow.StringArray, or None
        The documents of the reference and of the samples, in batches of any size; read once. None
        leaves `BodyPair.documents` out.
    read : callable
        Makes tokens of a batch of texts, as they were read for the statistics.
    groups : tuple of two numpy.ndarray of int32, shape (D,), or None
        The group of each document of either body, from 0 on, in the order of the texts; None where
        every document is one of its own. Samples that nearly have none lose them where the
        reference has larger ones; see `units.alike_groups`.
    classes : ClassOptions, optional
        What the shares of tokens were counted by; needed where a body has groups.

    Yields
    ------
    BodyPair

    Raises
    ------
    InputError
        When the documents are not those of the statistics.
    """
    pair = _pair(reference, samples)
    if texts is None or not pair.defined:
        yield pair
        return
    groups = alike_groups(groups, (reference.n_documents, samples.n_documents))
    count: Callable[[TokenBatch], Mapping[str, np.ndarray]] = count_lengths
    if scheme_of(groups) != "documents":
        if classes is None:
            raise ValueError("groups need the classes that shares of tokens are counted by")
        count = value_counter(classes)
    with DocumentCounts(pair.types, pair.pooled, read, count) as documents:
        names = ("reference", "sample")
        for body, (name, statistics) in enumerate(zip(names, (reference, samples), strict=True)):
            wrong = InputError(
                f"the {name} documents are not those that the {name} statistics were counted "
                "from; give the same files and the same split to both"
            )
            try:
                documents.add(body, texts[body])
            except ValueError as error:
                raise wrong from error
            if documents.n_documents(body) != statistics.n_documents:
                raise wrong
            if not np.array_equal(documents.totals(body), pair.counts[body]):
                raise wrong
        yield replace(pair, documents=documents, groups=groups)


def _draw_documents(histogram: Histogram, size: int, rng: np.random.Generator) -> Histogram:
    """Draw documents of a histogram without replacement, or all where it has no more."""
    size = min(size, int(histogram.counts.sum()))
    drawn = rng.multivariate_hypergeometric(histogram.counts, size)
    return Histogram(histogram.keys[drawn > 0], drawn[drawn > 0])


@contextmanager
def subset(
    pair: BodyPair, sizes: list[int], place: int, number: int, seed: int
) -> Iterator[BodyPair]:
    """Put a random subset of the samples' documents in their place; the reference stays whole.

    The unigrams are those of the first documents of a random order, so that the subsets of one
    number are nested. A histogram of documents needs no document: its subset is one multivariate
    hypergeometric draw.

    Parameters
    ----------
    pair : BodyPair
        With documents.
    sizes : list of int
        Documents of the nested subsets, increasing.
    place : int
        Which of the sizes is wanted.
    number, seed : int
        The subset is drawn from streams keyed by the seed and its number.

    Yields
    ------
    BodyPair
        With documents; types that neither body has any more keep their place, with count 0.
    """
    assert pair.documents is not None
    total = pair.samples.n_documents
    first = DocumentGroups(stream(seed, "subset/documents", number), [*sizes, total])
    chosen = np.where(first.next_block(total) <= place, 1, -1)
    whole = np.zeros(pair.reference.n_documents, int)
    histograms = {
        name: _draw_documents(held, sizes[place], stream(seed, f"subset/{name}/{place}", number))
        for name, held in pair.samples.histograms.items()
    }
    with pair.documents.selected((whole, chosen)) as documents:
        counts = documents.totals(1)
        types = pair.types.filter(pa.array(counts > 0))
        groups = pair.groups
        if scheme_of(groups) != "documents":  # then the numbers of documents go with their groups
            histograms = histograms_of(documents.values(1))
            if groups[1] is not None:
                own = np.unique(groups[1][chosen > 0], return_inverse=True)[1]
                groups = groups[0], own
        samples = Statistics(types, counts[counts > 0], histograms)
        both = np.stack([pair.counts[0], counts])
        yield BodyPair(pair.reference, samples, pair.types, both, documents, groups)

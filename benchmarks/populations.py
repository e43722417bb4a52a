"""Populations of documents whose law is known: whole groups of them, or documents on their own.

`Topics` is synthetic: words follow a law of Zipf, mixed with that of a topic that all documents of
a group share, as they share a factor of their length and their share of topical words. `Articles`
is a real text whose articles are drawn with replacement, so that the text is the population. Both
draw whole groups, as people write pages, and independent documents of the same law, as a perfect
model would write them. T tokens, D documents, G groups.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy.stats import nbinom

from beyond_perplexity.tendencies.document_statistics import SIZED, Sized
from beyond_perplexity.tendencies.document_values import value_counter
from beyond_perplexity.tendencies.statistics import Statistics, histograms_of
from beyond_perplexity.tendencies.taylor import segment_sums
from beyond_perplexity.tendencies.tokens import TokenBatch
from beyond_perplexity.tendencies.word_classes import ClassOptions, StopWords

UNKNOWN = "<unk>"
_FACTORS = np.array([0.6, 0.8, 1.0, 1.2, 1.4])  # of the lengths of a group's documents
_SHORTEST, _SHAPE, _MEAN = 3, 4.0, 22.0  # lengths: 3 + a negative binomial


@dataclass(frozen=True)
class Drawn:
    """Documents as ids of types, of which there are V.

    Tokens are int32, (T,), document after document, which begin at `offsets`, int64, (D + 1,);
    the group of every document, int32, (D,), goes from 0 to G − 1.
    """

    types: pa.Array
    ids: np.ndarray
    offsets: np.ndarray
    groups: np.ndarray

    def __len__(self) -> int:
        return len(self.groups)

    @property
    def texts(self) -> pa.Array:
        """The documents as strings, (D,)."""
        words = self.types.take(pa.array(self.ids))
        lists = pa.ListArray.from_arrays(pa.array(self.offsets, pa.int32()), words)
        return pc.binary_join(lists, " ")

    def take(self, documents: np.ndarray, groups: np.ndarray) -> Drawn:
        """Take documents, each as often as it is named, and give them groups."""
        lengths = np.diff(self.offsets)[documents]
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        places = np.repeat(self.offsets[documents] - offsets[:-1], lengths)
        ids = self.ids[places + np.arange(offsets[-1])]
        return Drawn(self.types, ids, offsets, groups.astype(np.int32))

    def read_in(self, vocabulary: int) -> Drawn:
        """Read the documents as a model with the first types alone could have written them."""
        types = pa.concat_arrays([self.types.slice(0, vocabulary), pa.array([UNKNOWN])])
        return replace(self, types=types, ids=np.minimum(self.ids, vocabulary).astype(np.int32))


def count(drawn: Drawn, classes: ClassOptions, names: Mapping[str, Sized] = SIZED) -> Statistics:
    """Count the sufficient statistics of documents in memory, as `StatisticsCounter` does."""
    batch = TokenBatch(drawn.types, drawn.ids, drawn.offsets)
    histograms = histograms_of(value_counter(classes, names)(batch))
    counts = np.bincount(drawn.ids, minlength=len(drawn.types))
    order = pc.sort_indices(drawn.types).to_numpy()
    order = order[counts[order] > 0]
    types, segments = drawn.types.take(pa.array(order)), segment_sums(batch)[:, order]
    return Statistics(types, counts[order], histograms, segments)


def _classes(stop_words: list[str]) -> ClassOptions:
    return ClassOptions(StopWords("calibration", frozenset(stop_words)), True)


class Topics:
    """A synthetic population of Zipf's law, with topics that have some types of their own.

    `size` and `least` are the mean and fewest documents of a group; groups are unequal, by a
    geometric number. Documents have `mean` tokens on average, and 3.
    """

    def __init__(
        self,
        n_types: int = 1_500,
        n_topics: int = 40,
        own: int = 60,
        size: float = 8.0,
        least: int = 1,
        exponent: float = 1.1,
        mean: float = _MEAN,
    ) -> None:
        rng = np.random.default_rng(2026)
        names = [f"{k}" if k % 7 == 3 else f"w{k}" for k in range(n_types)]  # symbols and words
        self.types = pa.array(names)
        self.classes = _classes(names[:60:3])
        law = (np.arange(n_types) + 3.0) ** -exponent
        self._law = law / law.sum()
        topical = np.arange(1, own + 1.0) ** -1
        self._topical = topical / topical.sum()
        choose = [rng.choice(np.arange(20, n_types), own, replace=False) for _ in range(n_topics)]
        self._table = np.stack(choose)
        self._size, self._least, self._mean = size, least, mean

    @property
    def law(self) -> np.ndarray:
        """The unigrams of the population: float64, (V,)."""
        mean = np.zeros(len(self._law))
        np.add.at(mean, self._table, np.broadcast_to(self._topical, self._table.shape))
        return 0.75 * self._law + 0.25 * mean / len(self._table)

    def length_cdf(self, lengths: np.ndarray, factor: float = 1.0) -> np.ndarray:
        """Return the distribution function of the lengths, all longer by a factor on average."""
        mean = self._mean * factor * _FACTORS[:, None]
        share = _SHAPE / (_SHAPE + mean)
        return np.asarray(nbinom.cdf(lengths - _SHORTEST, _SHAPE, share).mean(axis=0))

    def groups(self, rng: np.random.Generator, n: int, factor: float = 1.0) -> Drawn:
        """Draw n whole groups."""
        sizes = self._least - 1 + rng.geometric(1 / (self._size - self._least + 1), n)
        return self._write(rng, np.repeat(np.arange(n), sizes), factor)

    def documents(self, rng: np.random.Generator, n: int, factor: float = 1.0) -> Drawn:
        """Draw n independent documents: each the only one of its group."""
        return self._write(rng, np.arange(n), factor)

    def _write(
        self, rng: np.random.Generator, groups: np.ndarray, factor: float | np.ndarray
    ) -> Drawn:
        n = int(groups[-1]) + 1
        topics = rng.integers(len(self._table), size=n)
        topical = rng.beta(3, 9, n)  # mean 1 / 4
        means = self._mean * factor * rng.choice(_FACTORS, n)
        rates = rng.gamma(_SHAPE, means[groups] / _SHAPE)
        lengths = _SHORTEST + rng.poisson(rates)
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        own = np.repeat(groups, lengths)  # (T,)
        ids = self._choose(rng, self._law, len(own))
        changed = np.flatnonzero(rng.random(len(own)) < topical[own])
        places = self._choose(rng, self._topical, len(changed))
        ids[changed] = self._table[topics[own[changed]], places]
        return Drawn(self.types, ids.astype(np.int32), offsets, groups.astype(np.int32))

    @staticmethod
    def _choose(rng: np.random.Generator, law: np.ndarray, n: int) -> np.ndarray:
        cumulative = np.cumsum(law)
        return np.searchsorted(cumulative[:-1] / cumulative[-1], rng.random(n), side="right")


class Articles:
    """The articles of a text in the format of WikiText: a line `` = Title = `` begins each.

    Every line that is neither empty nor a heading is a document; the first `most` of an article
    count. `part` are the articles that are taken.
    """

    def __init__(self, path: Path, most: int, part: slice = slice(None)) -> None:
        articles: list[list[list[str]]] = []
        for words in map(str.split, path.read_text(encoding="utf-8").splitlines()):
            if words[:1] == ["="] and words[:2] != ["=", "="]:
                articles.append([])
            elif words and words[0] != "=" and articles:
                articles[-1].append(words)
        held = [article[:most] for article in articles[part] if article]
        texts = [text for article in held for text in article]
        encoded = pa.array([word for text in texts for word in text]).dictionary_encode()
        counts = np.bincount(encoded.indices.to_numpy())
        order = np.argsort(-counts, kind="stable")  # frequent types first
        rank = np.argsort(order)
        offsets = np.concatenate([[0], np.cumsum([len(text) for text in texts])])
        sizes = np.array([len(article) for article in held])
        codes = np.repeat(np.arange(len(held)), sizes).astype(np.int32)
        types = encoded.dictionary.take(pa.array(order))
        self.classes = _classes(types.to_pylist()[:120])
        self._all = Drawn(types, rank[encoded.indices.to_numpy()].astype(np.int32), offsets, codes)
        self._ends = np.cumsum(sizes)
        self._sizes = sizes

    @property
    def everything(self) -> Drawn:
        """The whole population."""
        return self._all

    def groups(self, rng: np.random.Generator, n: int) -> Drawn:
        """Draw n articles with replacement; one that is drawn twice makes two groups."""
        chosen = rng.integers(len(self._sizes), size=n)
        sizes = self._sizes[chosen]
        first = np.repeat(self._ends[chosen] - sizes - np.cumsum(sizes) + sizes, sizes)
        return self._all.take(first + np.arange(sizes.sum()), np.repeat(np.arange(n), sizes))

    def documents(self, rng: np.random.Generator, n: int) -> Drawn:
        """Draw n documents of all articles with replacement."""
        return self._all.take(rng.integers(len(self._all), size=n), np.arange(n))

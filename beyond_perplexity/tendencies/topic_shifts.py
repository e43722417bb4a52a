"""Shifts in the space of an encoder: more of the documents are about one topic.

Shift x: a share x of the documents is of one topic, the tenth of the human documents whose vectors
are nearest to that of one of them, which is drawn anew for each pair of samples. The population is
the mixture (1 - x) P + x Q, so its distance to P is x times that of Q. A sample says how often each
document of the population is drawn, so that any number of documents is drawn exactly (`shifts`).
N documents of the population, T of a topic, P groups, w pairs of samples at a time.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_matrix

from beyond_perplexity.inference.exchanged_units import SIDE_BY_SIDE
from beyond_perplexity.random_streams import stream
from beyond_perplexity.tendencies.definitions import EMBEDDING
from beyond_perplexity.tendencies.discrepancy import distances
from beyond_perplexity.tendencies.document_shifts import GroupedDocuments, SwapShift
from beyond_perplexity.tendencies.shifts import MeasureDraws, PairDraw, Shift

TOPIC = 0.1  # of the documents are of a topic
MMD = "mmd"


class TopicShift(Shift):
    """More documents of one topic, the samples being independent documents; kernel (N, N)."""

    tendency = EMBEDDING
    measures = (MMD,)
    unit = "distance"

    def __init__(self, kernel: np.ndarray) -> None:
        self.kernel = kernel
        n_near = max(1, round(TOPIC * len(kernel)))
        self._near = np.argsort(-kernel, axis=1, kind="stable")[:, :n_near]  # (N, T)

    def documents(self, rng: np.random.Generator, n: int, x: float, topic: int) -> np.ndarray:
        """Draw n documents, a share x of them near document `topic`: int64, shape (N,)."""
        topical = rng.binomial(n, x)
        near = self._near[topic]
        drawn = rng.multinomial(n - topical, np.full(len(self.kernel), 1 / len(self.kernel)))
        drawn[near] += rng.multinomial(topical, np.full(len(near), 1 / len(near)))
        return drawn

    def topic(self, rng: np.random.Generator) -> int:
        """Draw a topic: the document that it is around."""
        return int(rng.integers(len(self._near)))

    def draw(self, how: PairDraw, x: float, null: bool = False) -> MeasureDraws:
        """Draw pairs; see the base class."""
        parts = []
        for start in range(0, how.pairs, SIDE_BY_SIDE):
            items = range(start, min(start + SIDE_BY_SIDE, how.pairs))
            rngs = [stream(how.seed, how.purpose, i) for i in items]
            weights = [self._weights(rng, how.n, x, null) for rng in rngs]
            parts.append(distances(self.kernel, np.stack(weights, axis=1)))
        return {MMD: np.concatenate(parts)}

    def _weights(self, rng: np.random.Generator, n: int, x: float, null: bool) -> np.ndarray:
        """Draw a pair as the difference of its means: float64, shape (N,)."""
        topic, shifted = self.topic(rng), (n // 2,) * 2 if null else (0, n)
        first, second = (
            self.documents(rng, n - size, 0, topic) + self.documents(rng, size, x, topic)
            for size in shifted
        )
        return np.asarray(first - second) / n

    def topic_weights(self) -> np.ndarray:
        """Return what the mean of each topic is from that of the population: (N, N) by column."""
        n = len(self.kernel)
        weights = np.full((n, n), -1 / n)
        np.put_along_axis(weights, self._near.T, 1 / self._near.shape[1] - 1 / n, axis=0)
        return weights

    def size(self, measure: str, x: float) -> tuple[float, float]:
        """Return the mean distance of the shifted population over all topics, and x itself."""
        return x * float(distances(self.kernel, self.topic_weights()).mean()), x


class TopicSwapShift(SwapShift):
    """More documents of one topic, of whole groups against independent documents."""

    measures = (MMD,)
    effort = 0.5

    def __init__(self, inner: TopicShift, groups: GroupedDocuments) -> None:
        super().__init__(inner, groups)
        self._inner = inner
        n, n_groups = len(groups.codes), len(groups.sizes)
        ones = np.ones(n)
        self._members = csr_matrix((ones, (groups.codes, np.arange(n))), shape=(n_groups, n))

    def _measure(self, rng: np.random.Generator, drawn: np.ndarray, x: float) -> dict[str, float]:
        own = drawn @ self._members  # (2, N)
        topic, sizes = self._inner.topic(rng), drawn @ self._groups.sizes
        others = [self._inner.documents(rng, int(n), x, topic) for n in sizes]
        first, second = own[0] + others[1], own[1] + others[0]
        weights = first / first.sum() - second / second.sum()
        return {MMD: float(distances(self._inner.kernel, weights[:, None])[0])}

    def size(self, measure: str, x: float) -> tuple[float, float]:
        """See the shift of independent documents."""
        return self._inner.size(measure, x)

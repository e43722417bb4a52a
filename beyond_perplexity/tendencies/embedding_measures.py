"""The rows of tendency ``embedding``: how far two texts are in the space of an encoder.

==================== =============================================================================
measure              meaning
==================== =============================================================================
mmd                  maximum mean discrepancy of the documents' vectors (randomization of
                     documents or groups, one-sided); its one-sided limits are of the distance of
                     the distributions, so that both can lie below the value, which is too large
squared_mmd          the unbiased estimate of its square, with the same limits squared: it does
                     not grow as documents get fewer, and may be negative
standard_error       of mmd (jackknife: that of its square by twice the value)
minimum_detectable_effect: the smallest share of documents of one topic that the test finds at these
numbers in one half of the human documents, at the level and power of `SensitivityOptions`; not
defined where halves are too small (`sensitivity.halves`)
power_reached        the power of the test with this share in the other half
bandwidth            of the kernel
embedded, cut,       documents that were embedded, share of them of which the encoder read the
without_vector       beginning alone, and number of those that it could make nothing of, a cell of
                     their own (`discrepancy`; and each with _reference)
similarity and others  how alike the documents of one text are: `diversity`
==================== =============================================================================

Groups against independent documents are swapped as for the largest difference
(`inference.permuted_units`). That is sound here, unlike for the total variation: with d_g the
difference of the sums over group g and its pseudo-group, the squared distance is |sum d_g|^2 up to
a factor, a swap changes the sign of d_g, and what remains besides the constant sum |d_g|^2 are
products of independent terms of mean 0, of which random signs keep mean and variance: a degenerate
U-statistic under a wild bootstrap (Dehling and Mikosch 1994; Chwialkowski, Sejdinovic and Gretton
2014). It is asymptotic in the number of groups.

Shift x is a share x of documents of one topic, the tenth of the human documents whose vectors are
nearest to that of one of them, which is drawn anew for each pair of samples. The mixture (1 - x) P
+ x Q has x times the distance of Q to P. The few documents of a topic are farther from all than it
is: fewer of them are drawn (`TopicShift.factor`). N documents, T of a topic, P groups.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial

import numpy as np
import pyarrow as pa

from beyond_perplexity.inference import halves, p_values, permuted_units
from beyond_perplexity.random_streams import stream
from beyond_perplexity.schemas.tendencies import TENDENCY_MEASURES
from beyond_perplexity.tendencies import (
    discrepancy,
    document_shifts,
    prompt_shifts,
    sensitivity,
    shifts,
)
from beyond_perplexity.tendencies.adjustment import adjusted_rows
from beyond_perplexity.tendencies.definitions import EMBEDDING, MeasureRow
from beyond_perplexity.tendencies.discrepancy import distances, side_weights
from beyond_perplexity.tendencies.diversity import diversity_rows
from beyond_perplexity.tendencies.embedded_documents import EmbeddedPair, EmbeddedText
from beyond_perplexity.tendencies.measurement_options import MeasurementOptions, SensitivityOptions
from beyond_perplexity.tendencies.measures import too_few_groups
from beyond_perplexity.verdicts import joined_facts, reason

TOPIC = 0.1  # of the documents are of a topic
MMD = "mmd"
MOST_SHIFTED = 2_000  # documents of the population whose shifts are looked at


def randomized_distances(pair: EmbeddedPair, n: int, seed: int) -> np.ndarray:
    """Compute the MMD of n randomizations of a pair: float64, (n,); see `PermutedUnits.labels`."""
    units = permuted_units.permuted_units(pair.groups, pair.n_documents, seed)
    units = units or permuted_units.single_documents(pair.n_documents)
    codes = np.concatenate(units.codes)
    weights = np.repeat(units.weights, pair.n_documents)
    dealt = units.labels(n, seed)
    drawn = [distances(pair.kernel, side_weights(labels[codes], weights)) for labels in dealt]
    return np.concatenate(drawn) if drawn else np.zeros(0)


def averaged_distances(pair: EmbeddedPair, n: int, seed: int) -> tuple[float, np.ndarray]:
    """Compute the mean MMD over draws of one document per group of the samples, and its null."""
    found = []
    draws = permuted_units.group_draws(pair.groups, pair.n_documents, seed)
    for reference, samples in draws:
        indices = np.concatenate([reference, samples + len(pair.reference)])  # (2 P,)
        kernel = pair.kernel[np.ix_(indices, indices)]
        sides = [np.arange(len(indices))[:, None] < len(reference)]
        sides += draws.units((reference, samples)).labels(n, seed)
        found.append(np.concatenate([distances(kernel, side_weights(side)) for side in sides]))
    mean = np.mean(found, axis=0)
    return float(mean[0]), mean[1:]


def _tested(row: MeasureRow, pair: EmbeddedPair, permutations: int, seed: int) -> MeasureRow:
    if not permutations or row.value == 0:
        return row._replace(p_value=1.0) if permutations else row
    units = permuted_units.permuted_units(pair.groups, pair.n_documents, seed)
    code = "few_prompts" if pair.prompts else "few_embedded_groups"
    why = too_few_groups(pair.groups, [*map(np.ones, pair.n_documents)], code)
    if why := why or ("" if units is None else units.unlike):
        return row._replace(reason=why)
    scheme, observed = permuted_units.scheme_of(pair.groups), row.value
    if scheme == "draws":
        observed, null = averaged_distances(pair, permutations, seed)
    else:
        null = randomized_distances(pair, permutations, seed)
    told = {"documents": "", "draws": "some_draws"}.get(scheme, scheme)
    return row._replace(p_value=p_values.permutation_p(observed, null), permuted=told)


def embedding_rows(
    pair: EmbeddedPair,
    options: MeasurementOptions,
    seed: int,
    *,
    baseline: halves.Baseline | None = None,
    smallest: tuple[float, float] = (math.nan, math.nan),
) -> Iterator[MeasureRow]:
    """Measure and test a pair, of two documents of each text or more; see the module.

    P-values are not adjusted. `baseline`: of two human texts; `smallest`: the minimum detectable
    effect and the power that it reaches.
    """
    n, m = pair.n_documents
    observed = float(distances(pair.kernel, side_weights(np.arange(n + m)[:, None] < n))[0])
    texts = {"reference": pair.reference, "samples": pair.samples}
    facts = [
        f"{len(text):,} of {text.n_documents:,} documents of the {name} embedded"
        for name, text in texts.items()
        if len(text) != text.n_documents
    ]
    facts += [
        f"{silent:,} of {len(text):,} documents of the {name} have no vector: a cell of their own"
        for name, text in texts.items()
        if (silent := int(discrepancy.without_vector(text.vectors).sum()))
    ]
    if pair.prompts:
        facts.append("baseline: labels permuted within prompts")
        estimate = discrepancy.paired_square(pair.kernel, n, np.concatenate(pair.prompts))
    else:
        estimate = discrepancy.unbiased_square(pair.kernel, n, pair.groups)
    limits = estimate.limits(options.confidence)
    row = MeasureRow(EMBEDDING, MMD, observed, *limits, fact=joined_facts(*facts))
    row = _tested(row, pair, options.permutations, seed)
    if options.permutations and pair.groups[1] is None:
        row = row._replace(halves=half_distances(pair, seed))
    yield row if baseline is None else row.above(baseline)
    limits = estimate.square_limits(options.confidence)
    yield MeasureRow(EMBEDDING, "squared_mmd", estimate.value, *limits)
    error = math.sqrt(estimate.error.variance) / (2 * observed) if observed else math.nan
    yield MeasureRow(EMBEDDING, "standard_error", error)
    yield MeasureRow(EMBEDDING, "minimum_detectable_effect", smallest[0])
    yield MeasureRow(EMBEDDING, "power_reached", smallest[1])
    yield MeasureRow(EMBEDDING, "bandwidth", pair.bandwidth)
    for suffix, text in (("", pair.samples), ("_reference", pair.reference)):
        yield MeasureRow(EMBEDDING, f"embedded{suffix}", float(len(text)))
        yield MeasureRow(EMBEDDING, f"cut{suffix}", text.cut / len(text))
        unread = float(discrepancy.without_vector(text.vectors).sum())
        yield MeasureRow(EMBEDDING, f"without_vector{suffix}", unread)
    yield from diversity_rows(pair, options, seed, row.reason)


def further_baseline(
    further: EmbeddedText, pair: EmbeddedPair, seed: int
) -> halves.Baseline | None:
    """Compute the baseline of a pair from as many further human documents; None for too few."""
    m, other = len(pair.samples), further.first(len(pair.samples))
    enough = 2 * len(other) >= m if pair.reference.groups is not None else len(other) == m
    if not enough or (pair.reference.groups is None) != (other.groups is None):
        return None
    drawn = randomized_distances(replace(pair, samples=other), halves.HUMAN_SPLITS, seed)
    return halves.baseline_of(drawn)


def embedded_baseline(pair: EmbeddedPair, seed: int) -> halves.Baseline | None:
    """Compute baseline and excess from halves of the reference, if they have documents enough.

    Of answers to prompts mean and band are those of the randomization of the test.
    """
    if pair.prompts:
        return halves.baseline_of(randomized_distances(pair, halves.HUMAN_SPLITS, seed))
    halving = halves.Halving(pair.groups, pair.n_documents, seed)
    if not halving.is_possible:
        return None
    n = len(pair.reference)
    human, against = [], []
    for number in range(halves.HUMAN_SPLITS):
        first, second, samples = halving.parts(number)[0]
        human.append((first, second))
        if number < halves.EXCESS_SPLITS:
            against += [(first, samples + n), (second, samples + n)]
    baseline = halves.baseline_of(_between(pair.kernel, human))
    return baseline._replace(excess=float(_between(pair.kernel, against).mean()) - baseline.mean)


def half_distances(pair: EmbeddedPair, seed: int) -> tuple[float, ...]:
    """Compute the MMD between halves of both texts; none with too few documents or groups."""
    halving = halves.HalfSamples(pair.groups, pair.n_documents, seed)
    if not halving.is_possible:
        return ()
    parts = (halving.parts(number)[0] for number in range(halves.PAIRED_SPLITS))
    n = len(pair.reference)
    against = [(half, own + n) for first, second, own in parts for half in (first, second)]
    return tuple(_between(pair.kernel, against).tolist())


def _between(kernel: np.ndarray, parts: list[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """Compute the MMD between some sets of documents, two at a time."""
    weights = np.zeros((len(kernel), len(parts)))
    for column, (first, second) in enumerate(parts):
        weights[first, column] = 1 / len(first)
        weights[second, column] = -1 / len(second)
    return distances(kernel, weights)


def without_vectors() -> MeasureRow:
    """Return the row of a sample set where it, or human text, has no two embedded documents."""
    return MeasureRow(EMBEDDING, MMD, math.nan, reason=reason("few_vectors"))


def rows_of_pair(
    pair: EmbeddedPair, options: MeasurementOptions, how: SensitivityOptions, seed: int
) -> list[MeasureRow]:
    """Measure a pair without further human text: baseline and shift are those of the reference."""
    if min(pair.n_documents) < 2:
        return [without_vectors()]
    baseline = embedded_baseline(pair, seed) if options.permutations else None
    smallest = math.nan, math.nan  # groups of samples have no shift, nor have equal texts
    same = np.array_equal(pair.reference.vectors, pair.samples.vectors)
    if pair.samples.groups is None or (pair.prompts and not same):
        prompted = pair.prompts is not None
        both = answered_shifts(pair, seed) if prompted else human_shifts(pair.reference, seed=seed)
        smallest = smallest_topic_share(both, pair.n_documents, how, seed)
    return list(embedding_rows(pair, options, seed, baseline=baseline, smallest=smallest))


class TopicShift(shifts.Shift):
    """More documents of one topic, the samples being independent documents; kernel (N, N)."""

    tendency = EMBEDDING
    measures = (MMD,)
    unit = "distance"

    def __init__(self, kernel: np.ndarray, *, grouped: bool = False) -> None:
        self.kernel, self._grouped = kernel, grouped
        n_near = max(1, round(TOPIC * len(kernel)))
        self.near = np.argsort(-kernel, axis=1, kind="stable")[:, :n_near]  # (N, T)

    def documents(self, rng: np.random.Generator, n: int, x: float, topic: int) -> np.ndarray:
        """Draw n documents, a share x of them near document `topic`: int64, shape (N,)."""
        topical, near = rng.binomial(n, x), self.near[topic]
        drawn = rng.multinomial(n - topical, np.full(len(self.kernel), 1 / len(self.kernel)))
        drawn[near] += rng.multinomial(topical, np.full(len(near), 1 / len(near)))
        return drawn

    @cached_property
    def factor(self) -> float:
        """The distance of topics, relative to that of their T documents, which is larger."""
        if self._grouped:  # a topic is of a few pages, in the population too
            return 1.0
        (n, t), weights = self.near.shape, self.topic_weights()
        within = np.einsum("nw,nw->w", weights + 1 / n, self.kernel @ (weights + 1 / n)).mean()
        squares = float(np.mean(distances(self.kernel, weights) ** 2)) or 1.0
        return math.sqrt(max(0.0, 1 - (1 - t / n) / max(t - 1, 1) * (1 - within) / squares))

    def topic(self, rng: np.random.Generator) -> int:
        """Draw a topic: the document that it is around."""
        return int(rng.integers(len(self.near)))

    def draw(self, how: shifts.PairDraw, x: float, null: bool = False) -> shifts.MeasureDraws:
        """Draw pairs; see the base class."""
        parts = []
        for items in permuted_units.side_by_side(how.pairs):
            rngs = (stream(how.seed, how.purpose, i) for i in items)
            drawn = np.stack([self._weights(rng, how.n, x, null) for rng in rngs], axis=1)
            parts.append(distances(self.kernel, drawn))
        return {MMD: np.concatenate(parts)}

    def _weights(self, rng: np.random.Generator, n: int, x: float, null: bool) -> np.ndarray:
        """Draw a pair as the difference of its means: float64, shape (N,)."""
        topic, shifted = self.topic(rng), (n // 2,) * 2 if null else (0, n)
        x *= self.factor
        first, second = (
            self.documents(rng, n - size, 0, topic) + self.documents(rng, size, x, topic)
            for size in shifted
        )
        return np.asarray(first - second) / n

    def topic_weights(self) -> np.ndarray:
        """Return what the mean of each topic is from that of the population: (N, N) by column."""
        n = len(self.kernel)
        weights = np.full((n, n), -1 / n)
        np.put_along_axis(weights, self.near.T, 1 / self.near.shape[1] - 1 / n, axis=0)
        return weights

    def size(self, measure: str, x: float) -> tuple[float, float]:
        """Return the mean distance of the shifted population over all topics, and x itself."""
        return x * self.factor * float(distances(self.kernel, self.topic_weights()).mean()), x


class TopicSwapShift(document_shifts.SwapShift):
    """More documents of one topic, of whole groups against independent documents."""

    measures = (MMD,)
    effort = 0.5
    _inner: TopicShift

    def __init__(self, inner: TopicShift, groups: document_shifts.GroupedDocuments) -> None:
        super().__init__(inner, groups)
        self._members = groups.members.T  # (P, N)

    def _measure(self, rng: np.random.Generator, drawn: np.ndarray, x: float) -> dict[str, float]:
        topic = self._inner.topic(rng)
        others = [self._inner.documents(rng, int(n), x, topic) for n in drawn @ self._groups.sizes]
        first, second = drawn @ self._members + others[::-1]  # (N,) each
        weights = first / first.sum() - second / second.sum()
        return {MMD: float(distances(self._inner.kernel, weights[:, None])[0])}


BothHalves = tuple[shifts.Shift, shifts.Shift | None]


def human_shifts(*texts: EmbeddedText, seed: int) -> BothHalves:
    """Make the shifts of both halves of (groups of) human documents, `MOST_SHIFTED` at most.

    That of all documents, and None, where halves are too small.
    """
    texts = tuple(text.first(MOST_SHIFTED // len(texts)) for text in texts)
    vectors = np.concatenate([text.vectors for text in texts])
    kernel = discrepancy.gaussian_kernel(vectors, discrepancy.median_distance(vectors))
    groups = [text.groups for text in texts if text.groups is not None]
    grouped, codes = len(groups) == len(texts), np.arange(len(vectors))
    if grouped:
        starts = np.cumsum([0, *(int(own.max(initial=-1)) + 1 for own in groups)])
        codes = np.concatenate([own + start for own, start in zip(groups, starts, strict=False)])

    def shift(chosen: np.ndarray) -> shifts.Shift:
        inner = TopicShift(kernel[np.ix_(chosen, chosen)], grouped=grouped)
        own = np.unique(codes[chosen], return_inverse=True)[1]
        held = document_shifts.GroupedDocuments(own, np.ones(len(own)))
        return TopicSwapShift(inner, held) if grouped else inner

    parts = sensitivity.halves(codes, np.ones(len(codes)), seed)
    first, *second = map(shift, parts or [np.ones(len(codes), bool)])
    return first, next(iter(second), None)


def _topical(inner: TopicShift, drawn: prompt_shifts.DrawnAnswers, x: float) -> dict[str, float]:
    n, rng = len(inner.kernel), drawn.rng
    topical = (drawn.sides >= n) & (rng.random(drawn.sides.shape) < x * inner.factor)
    near = rng.choice(inner.near[inner.topic(rng)], drawn.sides.shape)
    first, second = np.where(topical, near, drawn.sides % n)
    weights = np.bincount(first, minlength=n) - np.bincount(second, minlength=n)
    return {MMD: float(distances(inner.kernel, weights[:, None] / len(first))[0])}


def answered_shifts(pair: EmbeddedPair, seed: int) -> BothHalves:
    """Make the shifts of both halves of the prompts that both texts answer; see `human_shifts`."""
    assert pair.prompts is not None
    prompts, own = pair.prompts, [np.argsort(codes) for codes in pair.prompts.pairs]
    order = np.stack([own[0], own[1] + len(pair.reference)])  # (2, D)

    def shift(chosen: np.ndarray) -> shifts.Shift:
        documents = order[:, chosen].ravel()
        inner = TopicShift(pair.kernel[np.ix_(documents, documents)])
        units = np.unique(prompts.units[chosen], return_inverse=True)[1]
        return prompt_shifts.PairShift(inner, units, prompts.whole, partial(_topical, inner))

    parts = sensitivity.halves(prompts.units, np.ones(len(prompts.units)), seed)
    first, *second = map(shift, parts or [np.ones(len(prompts.units), bool)])
    return first, next(iter(second), None)


def smallest_topic_share(
    both: BothHalves, n_documents: tuple[int, int], how: SensitivityOptions, seed: int
) -> tuple[float, float]:
    """Find the smallest share of documents of one topic that so many documents show, and its power.

    Texts of n and m count as two of 2 n m / (n + m).
    """
    n, m = n_documents
    how = replace(how, documents=(max(2, round(2 * n * m / (n + m))),))
    ((*_, share, power),) = sensitivity.detected_shifts(*both, how, seed)
    return share, power


def joined_measures(
    table: pa.Table, rows: Sequence[MeasureRow], permutations: int, sample_sets: int = 1
) -> pa.Table:
    """Join rows of embeddings to the measures of a sample set: the old rows, then the new ones."""
    records, old = table.to_pylist(), []
    for record in records:
        held = {name: record[name] for name in MeasureRow._fields if record.get(name) is not None}
        held |= {"fact": record["note"] or "", "family": 0, "draws": 0}
        old.append(MeasureRow(**({"value": math.nan} | held)))
    every = adjusted_rows([*old, *rows], permutations, sample_sets)
    of_sample_set = {name: x for name, x in records[0].items() if name not in rows[0].cells()}
    return pa.Table.from_pylist([row.cells() | of_sample_set for row in every], TENDENCY_MEASURES)

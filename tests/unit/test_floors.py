"""The floor: human text against human text of the same sizes.

Needs nothing but the package. Oracles: the nominal 95% of the band where nothing differs; distances
of independent draws of the same population; the documents themselves; what differs by construction.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from benchmarks.levels import opened
from benchmarks.populations import Drawn, Topics
from beyond_perplexity.tendencies.inference.floors import floors_of, smaller_floors
from beyond_perplexity.tendencies.inference.halves import halved
from beyond_perplexity.tendencies.inference.human_text import (
    HumanText,
    first_tokens,
    further_pair,
)
from beyond_perplexity.tendencies.measured import is_distance
from beyond_perplexity.tendencies.measures import measure_rows
from beyond_perplexity.tendencies.options import MeasurementOptions
from beyond_perplexity.tendencies.tokens import tokenize_batch

TEXT = Topics(n_types=300, n_topics=8, own=30, size=5.0)
OPTIONS = MeasurementOptions(permutations=1, bootstrap=0, monte_carlo=0)
ALONE = (False, False)


def batches(drawn: Drawn, cut: int = 10_000) -> list[pa.Array]:
    texts = drawn.texts
    return [texts.slice(start, cut) for start in range(0, len(texts), cut)]


def human(drawn: Drawn, cut: int = 10_000, grouped: bool = False) -> HumanText:
    groups = drawn.groups if grouped else None
    return HumanText(batches(drawn, cut), TEXT.classes, groups=groups)


def measured(pair, further, seed):
    rows = measure_rows(pair, OPTIONS, seed, floors=floors_of(pair, further, OPTIONS, seed))
    return [row for row in rows if is_distance(row.measure)]


@pytest.mark.parametrize("with_further", [True, False])
def test_equal_texts_lie_inside_the_band_and_have_no_excess(with_further):
    inside, relative = [], []
    for repeat in range(40):
        rng = np.random.default_rng([1, repeat])
        reference, samples, other = (TEXT.documents(rng, n) for n in (160, 80, 80))
        with opened(reference, samples, TEXT.classes, ALONE) as pair:
            for row in measured(pair, human(other) if with_further else None, repeat):
                above = row.floor + row.excess
                inside.append(row.floor_low <= above <= row.floor_high)
                relative.append(row.excess / row.floor)
                if with_further:
                    assert row.excess == pytest.approx(row.value - row.floor)
    assert len(inside) >= 40 * 8
    print(
        np.mean(np.reshape(inside, (-1, 8)), axis=0), np.mean(np.reshape(relative, (-1, 8)), axis=0)
    )
    assert 0.91 <= np.mean(inside) <= 1  # of two halves the mean distance varies less
    assert abs(np.mean(relative)) < 0.04


@pytest.mark.parametrize("with_further", [True, False])
def test_a_shifted_text_lies_above_the_floor(with_further):
    rng = np.random.default_rng(2)
    reference, other = TEXT.documents(rng, 300), TEXT.documents(rng, 300)
    longer = TEXT.documents(rng, 300, factor=1.6)
    turned = Drawn(TEXT.types, len(TEXT.types) - 1 - longer.ids, longer.offsets, longer.groups)
    with opened(reference, turned, TEXT.classes, ALONE) as pair:
        rows = measured(pair, human(other) if with_further else None, 1)
    above = {row.key: row.floor + row.excess > row.floor_high for row in rows}
    assert len(above) >= 8
    assert all(above[key] for key in above if key[0] in ("unigram", "length", "stop_words"))


def distances(reference: Drawn, samples: Drawn) -> dict[tuple[str, str], float]:
    how = MeasurementOptions(permutations=0, bootstrap=0, monte_carlo=0)
    with opened(reference, samples, TEXT.classes, ALONE) as pair:
        return {row.key: row.value for row in measure_rows(pair, how, 0)}


def test_the_floor_of_unequal_texts_is_the_distance_of_such_draws():
    """Oracle: the mean distance of 40 independent pairs of 240 and 60 documents."""
    rng = np.random.default_rng(3)
    drawn = [distances(TEXT.documents(rng, 240), TEXT.documents(rng, 60)) for _ in range(40)]
    found = []
    for repeat in range(4):
        reference, samples, other = (TEXT.documents(rng, n) for n in (240, 60, 90))
        with opened(reference, samples, TEXT.classes, ALONE) as pair:
            found.append(floors_of(pair, human(other), OPTIONS, repeat))
    for key in found[0]:
        expected = np.array([values[key] for values in drawn])
        floor = np.mean([floors[key].mean for floors in found])
        assert floor == pytest.approx(expected.mean(), rel=0.12, abs=0.003), key


def test_words_are_taken_at_equal_tokens():
    rng = np.random.default_rng(4)
    reference, samples, other = TEXT.documents(rng, 60), TEXT.documents(rng, 90), None
    other = TEXT.documents(rng, 200)
    with (
        opened(reference, samples, TEXT.classes, ALONE) as pair,
        further_pair(pair, human(other)) as further,
    ):
        lengths = np.diff(reference.offsets), np.diff(other.offsets)[:90]
        tokens = 900
        with first_tokens(further, tokens) as cut:
            for body, held in enumerate(lengths):
                kept = np.cumsum(held) <= tokens
                assert cut.bodies[body].n_tokens == held[kept].sum()
                assert cut.bodies[body].n_documents == kept.sum()
                expected = np.bincount(
                    (reference, other)[body].ids[: held[kept].sum()], minlength=len(TEXT.types)
                )
                names = dict(zip(cut.types.to_pylist(), cut.counts[body], strict=True))
                found = [names.get(word, 0) for word in TEXT.types.to_pylist()]
                assert found == expected.tolist()
        fewer = smaller_floors(further, 20, 300, OPTIONS, 1)
        whole = smaller_floors(further, 90, 10**9, OPTIONS, 1)
    assert set(fewer) == set(whole)
    assert all(fewer[key].mean > whole[key].mean for key in whole if key[0] != "rank_frequency")


def test_cuts_do_not_matter_and_no_more_is_read_than_needed():
    rng = np.random.default_rng(5)
    reference, samples, other = (TEXT.documents(rng, n) for n in (50, 40, 100))

    def stop_after(texts):
        yield from texts
        raise AssertionError("read too far")

    found = []
    for cut in (7, 40):
        with opened(reference, samples, TEXT.classes, ALONE) as pair:
            first = [held.texts.slice(0, 40) for held in [other]]
            pieces = [first[0].slice(start, cut) for start in range(0, 40, cut)]
            further = HumanText(stop_after(pieces), TEXT.classes)
            found.append(floors_of(pair, further, OPTIONS, 3))
    assert found[0] == found[1]
    with opened(reference, samples, TEXT.classes, ALONE) as pair:
        assert floors_of(pair, human(other), OPTIONS, 4) != found[0]


def test_further_text_is_read_as_the_reference():
    rng = np.random.default_rng(6)
    reference, samples, other = (TEXT.documents(rng, n).read_in(40) for n in (50, 50, 50))
    raw = TEXT.documents(np.random.default_rng(7), 50)

    def closed(texts: pa.Array):
        words = set(reference.types.to_pylist())
        lines = [
            " ".join(w if w in words else "<unk>" for w in t.split()) for t in texts.to_pylist()
        ]
        return tokenize_batch(pa.array(lines))

    with opened(reference, samples, TEXT.classes, ALONE) as pair:
        text = HumanText([raw.texts], TEXT.classes, read=closed)
        with further_pair(pair, text) as further:
            expected = np.bincount(raw.read_in(40).ids, minlength=41)
            names = dict(zip(further.types.to_pylist(), further.counts[1], strict=True))
            assert [names.get(w, 0) for w in reference.types.to_pylist()] == expected.tolist()
            assert further.samples.n_documents == 50
        assert floors_of(pair, human(other), OPTIONS, 1)


def test_too_few_documents_have_no_floor():
    rng = np.random.default_rng(8)
    reference, samples, other = (TEXT.documents(rng, n) for n in (20, 12, 11))
    with opened(reference, samples, TEXT.classes, ALONE) as pair:
        assert floors_of(pair, human(other), OPTIONS, 1) == {}
        assert floors_of(pair, HumanText([], TEXT.classes), OPTIONS, 1) == {}
        assert floors_of(pair, None, OPTIONS, 1)
        none = MeasurementOptions(permutations=0, bootstrap=1)
        assert floors_of(pair, None, none, 1) == {}
    for sizes in ((3, 12), (20, 1)):
        few = [TEXT.documents(rng, n) for n in sizes]
        with opened(*few, TEXT.classes, ALONE) as pair:
            assert floors_of(pair, None, OPTIONS, 1) == {}


def test_halves_are_disjoint_and_samples_are_cut():
    rng = np.random.default_rng(9)
    reference, samples = TEXT.documents(rng, 51), TEXT.documents(rng, 18)
    with opened(reference, samples, TEXT.classes, ALONE) as pair, halved(pair, 1) as parts:
        assert [body.n_documents for body in parts.human.bodies] == [18, 18]
        assert np.all(parts.human.counts.sum(axis=0) <= pair.counts[0])
        for against in parts.against:
            assert against.samples.n_documents == 18
            sums = against.counts.sum(axis=1)
            assert np.all(sums <= parts.tokens)
            assert np.all(sums > parts.tokens - np.diff(reference.offsets).max())


@pytest.mark.parametrize("samples_grouped", [True, False])
def test_groups_stay_whole(samples_grouped):
    rng = np.random.default_rng(10)
    reference, samples, other = TEXT.groups(rng, 30), TEXT.groups(rng, 20), TEXT.groups(rng, 60)
    mixed = rng.permutation(len(other))
    other = other.take(mixed, other.groups[mixed])
    grouped = (True, samples_grouped)
    with opened(reference, samples, TEXT.classes, grouped) as pair:
        with halved(pair, 1) as parts:
            sizes = [np.bincount(codes) for codes in parts.human.groups]
            whole = np.bincount(reference.groups).tolist()
            for size in np.concatenate(sizes):
                whole.remove(size)  # every group of a half is one of the reference
            assert all(len(size) >= 12 for size in sizes)
        with further_pair(pair, human(other, grouped=True)) as further:
            codes = further.groups[1]
            taken = np.bincount(codes)
            assert set(taken) <= set(np.bincount(other.groups))
            assert abs(len(codes) - len(samples)) <= np.bincount(other.groups).max()
            assert further.samples.n_documents == len(codes)
        assert floors_of(pair, human(other), OPTIONS, 1) == {}
        by_groups = floors_of(pair, human(other, grouped=True), OPTIONS, 1)
        assert by_groups == floors_of(pair, human(other, 7, grouped=True), OPTIONS, 1)
    assert {key[0] for key in by_groups} >= {"unigram", "rank_frequency", "length"}

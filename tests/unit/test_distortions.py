"""Distortions of sentences: what happens at what rate, and that nothing else matters.

Oracles: a plain loop over one sentence with its own stream; χ² tests of rates, choices,
independence.
"""

import numpy as np
import pytest
from scipy.stats import chisquare, contingency

from beyond_perplexity.corpus.distortions import (
    EVENT_PARTS,
    DistortionOptions,
    distort,
    distort_by_parts,
)
from beyond_perplexity.errors import InputError
from beyond_perplexity.options import parse_options
from beyond_perplexity.random_streams import stream
from tests.unit.evaluator_oracles import check_refused

HALVES = DistortionOptions()
ALL_FOUR = DistortionOptions(0.4, 0.3, 0.2, 0.1)
CANDIDATES = np.arange(100, 150)


def sentences(count, width, seed=0):
    """Draw sentences of all lengths from 1; each word is its place in its sentence."""
    lengths = np.random.default_rng(seed).integers(1, width + 1, count)
    return np.tile(np.arange(width), (count, 1)), lengths


def one_by_one(words, level, options, item):
    """Distort one sentence as the paper's text and its authors' program say, word by word."""
    numbers = stream(3, "test/2", item).random((len(words), 3))
    words, n = list(words), len(words)
    lots, removed, added = [], set(), {}
    for event, lot, _ in numbers:
        below = [lot < sum(options.shares[: k + 1]) for k in range(4)]
        lots.append(below.index(True) if event < level else None)
    for place, (_, _, choice) in enumerate(numbers):
        substitute = int(CANDIDATES[int(choice * len(CANDIDATES))])
        if lots[place] == 0:
            words[place] = substitute
        elif lots[place] == 1 and n > 1:
            other = [p for p in range(n) if p != place][int(choice * (n - 1))]
            words[place], words[other] = words[other], words[place]
        elif lots[place] == 2:
            removed.add(place)
        elif lots[place] == 3:
            added[place] = substitute
    if len(removed) == n:
        removed.remove(0)
    found = []
    for place, word in enumerate(words):
        found += [word] * (place not in removed)
        found += [added[place]] if place in added else []
    return found


def run(tokens, lengths, level, options=HALVES, items=None, **other):
    items = np.arange(len(tokens)) if items is None else items
    keys = {"seed": 3, "purpose": "test", "draw": 2} | other
    return distort(tokens, lengths, level, options, CANDIDATES, items=items, **keys)


def as_lists(tokens, lengths):
    return [row[:n].tolist() for row, n in zip(tokens, lengths, strict=True)]


@pytest.mark.parametrize("options", [HALVES, ALL_FOUR, DistortionOptions(0, 0, 1, 0)])
@pytest.mark.parametrize("level", [0.0, 0.1, 0.5, 1.0])
def test_equals_a_plain_loop(options, level):
    tokens, lengths = sentences(200, 12)
    found, new_lengths, _ = run(tokens, lengths, level, options)
    words = as_lists(tokens, lengths)
    expected = [one_by_one(held, level, options, item) for item, held in enumerate(words)]
    assert as_lists(found, new_lengths) == expected
    assert np.array_equal(tokens[0], np.arange(12))  # what was given is left as it was


def test_batch_order_and_padding_do_not_matter_draw_purpose_and_seed_do():
    tokens, lengths = sentences(60, 15)
    whole = as_lists(*run(tokens, lengths, 0.6, ALL_FOUR)[:2])
    order = np.random.default_rng(5).permutation(60)
    shuffled = as_lists(*run(tokens[order], lengths[order], 0.6, ALL_FOUR, order)[:2])
    assert [whole[item] for item in order] == shuffled
    for item in range(60):
        alone = tokens[item : item + 1, : lengths[item]]
        row = run(alone, lengths[item : item + 1], 0.6, ALL_FOUR, np.array([item]))
        assert as_lists(*row[:2]) == [whole[item]]
    padded = np.pad(tokens, ((0, 0), (0, 40)), constant_values=7)
    assert as_lists(*run(padded, lengths, 0.6, ALL_FOUR)[:2]) == whole
    tokens, lengths = sentences(20, 15)
    others = ({}, {"draw": 3}, {"purpose": "other"}, {"seed": 4})
    found = {str(as_lists(*run(tokens, lengths, 0.5, **held)[:2])) for held in others}
    assert len(found) == 4


def test_rates_of_events_are_those_asked_for():
    """Oracle: χ² of the counts of four events and none against their shares."""
    tokens, lengths = sentences(8000, 10)
    lengths = np.maximum(lengths, 2)
    words = lengths.sum()
    for level, options in ((0.1, HALVES), (0.5, ALL_FOUR), (0.9, DistortionOptions(0.25, 0.75))):
        counts = [events.sum() for events in run(tokens, lengths, level, options)[2]]
        rates = np.array([1 - level, *(level * share for share in options.shares)])
        seen = np.array([words - sum(counts), *counts])
        assert seen[rates == 0].sum() == 0
        assert chisquare(seen[rates > 0], words * rates[rates > 0]).pvalue > 1e-3


def test_substitutes_and_partners_are_uniform():
    """Oracle: χ² against equal shares, of words that come in and of places that are swapped."""
    tokens, lengths = np.tile(np.arange(6), (20_000, 1)), np.full(20_000, 6)
    found = run(tokens, lengths, 0.3, DistortionOptions(1, 0))[0]
    assert chisquare(np.bincount(found[found >= 100] - 100, minlength=50)).pvalue > 1e-3
    found, _, counts = run(tokens, lengths, 0.05, DistortionOptions(0, 1))
    once = found[counts.transposed == 1]
    pairs = [tuple(np.flatnonzero(row != np.arange(6))) for row in once]
    seen = np.unique(pairs, axis=0, return_counts=True)[1]
    assert len(seen) == 15  # every pair of places
    assert chisquare(seen).pvalue > 1e-3


def test_places_of_a_sentence_are_hit_independently():
    """Oracle: χ² of the table of two neighbours, and of a place in two draws."""
    tokens, lengths = np.tile(np.arange(2), (20_000, 1)), np.full(20_000, 2)
    only = DistortionOptions(1, 0)
    first, second = (run(tokens, lengths, 0.4, only, draw=draw)[0] >= 100 for draw in (0, 1))
    for one, two in ((first[:, 0], first[:, 1]), (first[:, 0], second[:, 0])):
        assert contingency.chi2_contingency(np.histogram2d(one, two, 2)[0]).pvalue > 1e-3


def test_levels_are_nested():
    """What is substituted at a level is substituted by the same word at every higher one."""
    tokens, lengths = sentences(500, 12)
    before = np.full(tokens.shape, -1)
    for level in (0.1, 0.3, 0.5, 1.0):
        found = run(tokens, lengths, level, DistortionOptions(1, 0))[0]
        hit = np.where(found >= 100, found, -1)
        assert np.array_equal(hit[before >= 0], before[before >= 0])
        assert (hit >= 0).sum() > (before >= 0).sum()
        before = hit
    tokens, lengths = sentences(50, 9)  # every word is hit at level 1
    found, same, counts = run(tokens, lengths, 1.0, DistortionOptions(1, 0))
    assert counts.substituted.tolist() == lengths.tolist() == same.tolist()
    assert all(min(words) >= 100 for words in as_lists(found, same))


def test_one_word_and_none():
    swaps, tokens = DistortionOptions(0, 1), np.array([[5], [6]])
    found, lengths, counts = run(tokens, np.array([1, 0]), 1.0, swaps)
    assert found.tolist() == [[5], [6]]
    assert lengths.tolist() == [1, 0]
    assert counts.transposed.tolist() == [0, 0]
    found, lengths, counts = run(tokens, np.array([1, 0]), 1.0, DistortionOptions(0, 0, 1, 0))
    assert as_lists(found, lengths) == [[5], []]  # the last word stays
    assert counts.deleted.tolist() == [0, 0]
    empty = np.zeros((0, 0), np.int64), np.zeros(0, np.int64)
    assert run(*empty, 0.5)[0].shape == (0, 0)


def test_levels_shares_and_substitutes_that_are_not_possible():
    for level in (-0.1, 1.5, float("nan")):
        check_refused(r"level: is .*expected 0", run, *sentences(2, 3), level)
    with pytest.raises(InputError, match=r"the shares add up to 0\.9, not to 1"):
        parse_options(DistortionOptions, {"substitution": 0.4}, "contrastive.distortion")
    with pytest.raises(InputError, match="substitution: is 2, expected at least 0 and at most 1"):
        parse_options(DistortionOptions, {"substitution": 2}, "contrastive.distortion")
    none, items = np.zeros(0, np.int64), np.arange(2)
    with pytest.raises(InputError, match="substitutes: there are none"):
        distort(*sentences(2, 3), 0.5, HALVES, none, seed=1, purpose="x", items=items)
    # a third is no float, and thirds may add up to a little less than 1
    third = DistortionOptions(1 / 3, 1 / 3, 1 / 3 - 1e-10, 0)
    assert run(*sentences(2000, 9), 1.0, third)[2].inserted.sum() == 0


def test_parts_are_applied_one_after_the_other_and_all_of_them_are_the_distortion():
    """Oracle: `distort`; a plain loop over the places of some parts, by bands as they are named."""
    rng = np.random.default_rng(5)
    lengths = rng.integers(1, 15, 60)
    tokens = np.array([50, 99, 100, 999, 1000, 4000])[rng.integers(0, 6, (60, 14))]
    owners = np.repeat(np.arange(20), 3)
    keys = {"seed": 3, "purpose": "test", "draw": 2, "items": np.arange(60)}
    options, candidates = DistortionOptions(0.4, 0.6), np.arange(2000)
    steps = distort_by_parts(tokens, lengths, 0.7, options, candidates, owners, **keys)
    whole, _, counts = distort(tokens, lengths, 0.7, options, candidates, **keys)
    assert as_lists(steps.words[-1], lengths) == as_lists(whole, lengths)
    assert steps.events[:, :3].sum() == counts.substituted.sum()
    assert steps.events[:, 3:].sum() == counts.transposed.sum()
    names = [name.split(": ")[1] for name in EVENT_PARTS]
    events = np.zeros((20, len(EVENT_PARTS)), int)
    for row, (n, owner) in enumerate(zip(lengths, owners, strict=True)):
        numbers = stream(3, "test/2", row).random((n, 3))
        for applied, words in enumerate(steps.words, start=1):
            active = {EVENT_PARTS[part] for part in steps.order[owner][:applied]}
            expected = tokens[row, :n].tolist()
            for place, (event, lot, choice) in enumerate(numbers):
                rank = tokens[row, place]
                band = "1 to 100" if rank < 100 else "101 to 1,000" if rank < 1000 else "rarer"
                name = f"substitution: {'' if band == 'rarer' else 'ranks '}{band}"
                other = int(choice * (n - 1))
                other += other >= place
                if lot >= 0.4:
                    away = abs(other - place)
                    band = "adjacent" if away == 1 else "2 to 4 apart" if away < 5 else names[-1]
                    name = f"transposition: {band}"
                if event >= 0.7 or (lot >= 0.4 and n == 1):
                    continue
                events[owner, EVENT_PARTS.index(name)] += applied == len(EVENT_PARTS)
                if name in active and lot < 0.4:
                    expected[place] = int(choice * len(candidates))
                elif name in active:
                    expected[place], expected[other] = expected[other], expected[place]
            assert words[row, :n].tolist() == expected
    assert steps.events.tolist() == events.tolist()
    # Of few known words those beyond them are unknown, however low their number.
    few = distort_by_parts(tokens, lengths, 0.7, options, np.arange(51), owners, **keys).events
    (known, never, rarer), (first, *others) = few[:, :3].sum(0), events[:, :3].sum(0)
    assert never == 0 < known < first
    assert known + rarer == first + sum(others)
    deletes = DistortionOptions(0.5, 0.4, 0.1)
    given = (distort_by_parts, tokens, lengths, 0.7, deletes, CANDIDATES, owners)
    check_refused("H_C has no parts", *given, **keys)


def test_orders_of_parts_are_uniform_and_no_document_knows_the_others():
    count = 6000
    tokens, items = np.zeros((count, 2), np.int64), np.arange(count)
    given = (tokens, np.full(count, 2), 0.5, HALVES, CANDIDATES)
    keys = {"seed": 3, "purpose": "test"}
    order = distort_by_parts(*given, items, **keys, items=items).order
    table = np.stack(
        [np.bincount(order[:, k], minlength=len(EVENT_PARTS)) for k in range(len(EVENT_PARTS))]
    )
    assert chisquare(table.ravel()).pvalue > 1e-3
    pairs = np.bincount(order[:, 0] * 6 + order[:, 1], minlength=36)
    assert chisquare(pairs[pairs > 0]).pvalue > 1e-3
    few = tuple(held[7:9] if isinstance(held, np.ndarray) else held for held in given[:4])
    alone = distort_by_parts(*few, CANDIDATES, np.arange(2), **keys, items=items[7:9])
    assert alone.order.tolist() == order[7:9].tolist()

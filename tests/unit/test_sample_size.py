"""Random subsets of the samples and the curves of measures against the number of documents.

Needs nothing but the package. Oracles: the measures of the very documents of a subset, counted and
tested as a body of their own; averages over all subsets; how documents are cut into files.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from beyond_perplexity.errors import InputError
from beyond_perplexity.inference.histogram_draws import DocumentGroups
from beyond_perplexity.random_streams import stream
from beyond_perplexity.schemas.tendencies import SAMPLE_SIZE
from beyond_perplexity.tendencies import document_counts
from beyond_perplexity.tendencies.curves import sample_sizes, sizes_below
from beyond_perplexity.tendencies.measures import measure_rows
from beyond_perplexity.tendencies.options import MeasurementOptions, SampleSizeOptions
from beyond_perplexity.tendencies.pairs import paired, subset
from scripts import measure_tendencies
from tests.unit.test_measures import REFERENCE, SAMPLES, count, write_samples

SIZES = [20, 60]
QUICK = MeasurementOptions(permutations=30, bootstrap=0, monte_carlo=0)
HOW = SampleSizeOptions(sizes=tuple(SIZES), subsets=3, permutations=30)


@pytest.fixture(scope="module")
def bodies(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sample_size")
    return count(folder / "r.parquet", REFERENCE), count(folder / "s.parquet", SAMPLES)


def batches(texts: list[str], cut: int) -> list[pa.Array]:
    return [pa.array(texts[start : start + cut]) for start in range(0, len(texts), cut)]


def open_pair(bodies, cut: int = 1000):
    return paired(*bodies, (batches(REFERENCE, cut), batches(SAMPLES, cut)))


def members(number: int, place: int, seed: int) -> list[str]:
    """Take the documents of a subset, by the draw that defines them."""
    rng = stream(seed, "subset/documents", number)
    first = DocumentGroups(rng, [*SIZES, len(SAMPLES)]).next_block(len(SAMPLES))
    return [text for text, group in zip(SAMPLES, first, strict=True) if group <= place]


def test_groups_are_nested_subsets_of_the_right_sizes_and_all_alike():
    inside = np.zeros(40)
    for number in range(400):
        groups = DocumentGroups(stream(1, "test", number), [5, 15, 40])
        first = np.concatenate([groups.next_block(n) for n in (13, 20, 7)])
        assert np.bincount(first).tolist() == [5, 10, 25]
        inside += first == 0
    expected, deviation = 400 * 5 / 40, np.sqrt(400 * 5 / 40 * 35 / 40)
    assert np.all(np.abs(inside - expected) < 4.5 * deviation)


@pytest.mark.parametrize("place", [0, 1])
def test_a_subset_has_the_words_and_tests_of_its_documents(bodies, tmp_path, place):
    chosen = members(2, place, seed=5)
    assert len(chosen) == SIZES[place]
    assert set(members(2, 0, seed=5)) <= set(chosen)
    with open_pair(bodies) as pair, subset(pair, SIZES, place, 2, seed=5) as part:
        counts = Counter(word for text in chosen for word in text.split())
        found = dict(zip(part.samples.types.to_pylist(), part.samples.counts, strict=True))
        assert found == counts
        rows = {row[:2]: row for row in measure_rows(part, QUICK, 9)}
    own = count(tmp_path / "own.parquet", chosen)
    with paired(bodies[0], own, (batches(REFERENCE, 1000), batches(chosen, 1000))) as pair:
        expected = {row[:2]: row for row in measure_rows(pair, QUICK, 9)}
    for key in [("unigram", "tvd"), ("unigram", "max_difference"), ("rank_frequency", "zipf_s")]:
        assert rows[key].value == pytest.approx(expected[key].value)
    for key in [("unigram", "tvd"), ("unigram", "max_difference")]:
        assert rows[key].p_value == expected[key].p_value
    for name, histogram in part.samples.histograms.items():
        assert histogram.counts.sum() == SIZES[place]
        held = dict(zip(*vars(bodies[1].histograms[name]).values(), strict=True))
        drawn = zip(*vars(histogram).values(), strict=True)
        assert all(number <= held[key] for key, number in drawn)


@pytest.fixture(scope="module")
def table(bodies):
    with open_pair(bodies) as pair:
        rows = measure_rows(pair, QUICK, 3)
        return sample_sizes(pair, rows, QUICK, HOW, 3, "model/beam"), rows


def test_the_last_point_is_the_table_of_measures(table):
    found, rows = table
    assert found.schema == SAMPLE_SIZE
    points = found.to_pylist()
    assert sorted({point["n"] for point in points}) == [*SIZES, len(SAMPLES)]
    last = {(p["tendency"], p["measure"]): p for p in points if p["n"] == len(SAMPLES)}
    for row in rows:
        if row[:2] in last:
            point = last[row[:2]]
            value = None if np.isnan(row.value) else row.value
            assert point["value"] == point["low"] == point["high"] == value
            assert point["p_value"] == (None if np.isnan(row.p_value) else row.p_value)
    assert ("unigram", "tvd") in last
    assert ("type_token_unigrams", "ks_heaps_reference") in last
    assert ("rank_frequency", "zipf_s_reference") not in last


def test_points_summarize_the_subsets(table):
    points = {(p["tendency"], p["measure"], p["n"]): p for p in table[0].to_pylist()}
    for n in SIZES:
        point = points["unigram", "tvd", n]
        assert point["subsets"] == 3
        assert point["low"] <= point["value"] <= point["high"]
        assert 1 / 31 <= point["p_low"] <= point["p_value"] <= point["p_high"] <= 1
    means = [points["length", "mean", n]["value"] for n in [*SIZES, len(SAMPLES)]]
    deviation = np.std([len(text.split()) for text in SAMPLES])
    assert abs(means[0] - means[-1]) < 4 * deviation / np.sqrt(3 * SIZES[0])
    widths = [points["unigram", "tvd", n]["value"] for n in SIZES]
    assert widths[0] > widths[1] > points["unigram", "tvd", len(SAMPLES)]["value"]


def test_cuts_do_not_matter_but_the_seed_does(bodies, table):
    for cut, seed, equal in ((7, 3, True), (1000, 4, False)):
        with open_pair(bodies, cut) as pair:
            rows = measure_rows(pair, QUICK, 3)
            found = sample_sizes(pair, rows, QUICK, HOW, seed, "model/beam")
        assert found.equals(table[0]) == equal


def test_blocks_do_not_change_what_a_subset_is(bodies, monkeypatch):
    """Oracle: the words of the documents themselves."""
    monkeypatch.setattr(document_counts, "BLOCK_DOCUMENTS", 17)
    with open_pair(bodies) as pair:
        places = np.arange(len(REFERENCE)) % 4 - 1, np.arange(len(SAMPLES)) % 3 - 1
        more = pa.array(["never", "seen"])
        with pair.documents.selected(places, more) as documents:
            names = [*pair.types.to_pylist(), "never", "seen"]
            for body in (0, 1):
                chosen = [
                    text.split()
                    for texts, own in zip((REFERENCE, SAMPLES), places, strict=True)
                    for text, place in zip(texts, own, strict=True)
                    if place == body
                ]
                assert documents.values(body)["length"].tolist() == list(map(len, chosen))
                counts = Counter(word for text in chosen for word in text)
                totals = dict(zip(names, documents.totals(body), strict=True))
                assert {word: n for word, n in totals.items() if n} == counts


def test_sizes():
    assert sizes_below(3_000, SampleSizeOptions()) == [100, 300, 1_000]
    assert sizes_below(3_001, SampleSizeOptions())[-1] == 3_000
    assert sizes_below(100, SampleSizeOptions()) == []
    assert sizes_below(50, SampleSizeOptions(sizes=(40, 10, 50, 10))) == [10, 40]
    assert SampleSizeOptions.from_config({"sizes": [10, 20]}).subsets == 5
    with pytest.raises(InputError, match="subsets: is -1"):
        SampleSizeOptions.from_config({"subsets": -1})
    with pytest.raises(InputError, match="sizes: is 1, expected at least 2"):
        SampleSizeOptions.from_config({"sizes": [1]})


def test_the_command_needs_documents(bodies, tmp_path, monkeypatch):
    count(tmp_path / "r.parquet", REFERENCE)
    count(tmp_path / "s.parquet", SAMPLES)
    files = [
        write_samples(tmp_path / f"{n}.parquet", t) for n, t in (("a", REFERENCE), ("b", SAMPLES))
    ]
    base = ["x", "--reference-statistics", str(tmp_path / "r.parquet"), "--source", "m"]
    base += ["--sample-statistics", str(tmp_path / "s.parquet")]
    base += ["--options", '{"permutations": 0, "bootstrap": 0, "monte_carlo": 0}']
    base += [
        "--measures",
        str(tmp_path / "m.parquet"),
        "--sample-size",
        str(tmp_path / "n.parquet"),
    ]
    base += ["--sample-size-options", '{"sizes": [20], "subsets": 2, "permutations": 5}']
    monkeypatch.setattr("sys.argv", base)
    with pytest.raises(InputError, match="--sample-size needs --measures and the documents"):
        measure_tendencies.main()
    documents = ["--reference-documents", files[0], "--sample-documents", files[1]]
    monkeypatch.setattr("sys.argv", [*base, *documents])
    measure_tendencies.main()
    assert (tmp_path / "n.parquet").stat().st_size > 0

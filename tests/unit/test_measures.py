"""The table of measures, the curves and the command that writes them.

Oracles: plain Python, scipy, a sample set against itself, documents in other batches.
"""

import math
import warnings
from collections import Counter
from itertools import combinations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from scipy.stats import binom, ks_2samp, ttest_ind

from beyond_perplexity import errors, random_streams, signature, verdicts
from beyond_perplexity.inference import permuted_units
from beyond_perplexity.inference.histogram_draws import DocumentGroups
from beyond_perplexity.schemas.tendencies import CURVES, SAMPLE_SIZE, TENDENCY_MEASURES
from beyond_perplexity.storage.shards import read_record
from beyond_perplexity.tendencies import document_counts, document_measures, power_laws, type_token
from beyond_perplexity.tendencies.curves import curves, sample_sizes, sizes_below
from beyond_perplexity.tendencies.definitions import SHARED_NGRAMS
from beyond_perplexity.tendencies.document_statistics import SIZED
from beyond_perplexity.tendencies.measurement_options import MeasurementOptions, SampleSizeOptions
from beyond_perplexity.tendencies.measures import measure_rows, measure_table
from beyond_perplexity.tendencies.pairs import paired, subset
from scripts import measure_tendencies
from tests.unit import text_pairs
from tests.unit.evaluator_oracles import check_refused
from tests.unit.text_pairs import (
    batched,
    draw_texts,
    named_parts,
    pair_of,
    run_script,
    statistics_of,
)

# The paper's exponent has ranks and frequencies of the same tokens; ranks are counted.
NOT_ESTIMATED = ("zipf_s", "zipf_s_reference", "zipf_ranks", "zipf_ranks_reference")
QUICK = MeasurementOptions(permutations=60, bootstrap=40, monte_carlo=50)


REFERENCE, SAMPLES = draw_texts(0, 150, 12, 1.5, 400, 0), draw_texts(1, 120, 10, 1.6, 400, 0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("measures")


@pytest.fixture(scope="module")
def sample_sets(folder):
    files = zip(("r", "s"), (REFERENCE, SAMPLES), strict=True)
    return [statistics_of(texts, path=folder / f"{name}.parquet") for name, texts in files]


def run(sample_sets, options=QUICK, cut=1000, texts=(REFERENCE, SAMPLES), seed=3) -> pa.Table:
    batches = batched(texts[0], cut), batched(texts[1], cut)
    with paired(*sample_sets, batches if options.draws else None) as pair:
        return measure_table(measure_rows(pair, options, seed), pair, "model/nucleus")


def as_dict(table: pa.Table) -> dict[tuple[str, str], dict[str, float]]:
    return {(row["tendency"], row["measure"]): row for row in table.to_pylist()}


@pytest.fixture(scope="module")
def table(sample_sets):
    """Measure texts of few types, whose split fits are of the few ranks that there are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(power_laws, "SPLIT_RANKS", 3)
        yield run(sample_sets)


def test_each_measure_stands_once_tested_where_it_is_defined(table):
    assert table.schema == TENDENCY_MEASURES
    rows = as_dict(table)
    assert len(rows) == table.num_rows == 54
    assert set(table["source"].to_pylist()) == {"model/nucleus"}
    assert set(table["n_reference"].to_pylist()) == {150}
    assert set(table["n_samples"].to_pylist()) == {120}
    rows = as_dict(table)
    tested = {key for key, row in rows.items() if row["p_value"] is not None}
    of_laws = {key for key, row in rows.items() if row["p_value_law"] is not None}
    kinds = ("type_token_unigrams", "type_token_bigrams")
    assert of_laws == {
        *(("rank_frequency", f"ks_zipf_{name}") for name in ("model", "reference")),
        *((kind, f"ks_heaps_{name}") for kind in kinds for name in ("model", "reference")),
    }
    expected = {(kind, "ks_empirical") for kind in ("rank_frequency", *kinds)}
    expected |= {("unigram", name) for name in ("tvd", "tvd_1000", "max_difference")}
    per_document = ("length", "stop_words", "symbols", "repetition")
    expected |= {(of, name) for of in per_document for name in ("mean_difference", "ks")}
    assert tested == expected
    for (tendency, name), row in as_dict(table).items():
        if name == "tvd":
            assert 0 <= row["low"] < row["value"] < row["high"]
        elif name.startswith(("ks", "tvd", "max_difference")):  # norms overestimate
            assert row["low"] is None
            if tendency == "recurrence":
                assert row["high"] is None  # the fixture reads no classes, and so no curves
            elif tendency == "symbols":  # no text has one, so no resample differs
                assert row["high"] is None
            else:
                assert row["value"] <= row["high"]
        elif tendency in ("vocabulary", "recurrence") or name in NOT_ESTIMATED:
            assert row["low"] is None
            assert row["high"] is None
        else:
            assert row["low"] <= row["value"] + 1e-12
            assert row["high"] >= row["value"] - 1e-12
    assert as_dict(table)["length", "mean_difference"]["p_value"] < 0.05


def first_types(counts: Counter[str], both: Counter[str], ranks: int) -> set[str]:
    return set(sorted(counts, key=lambda w: (-counts[w], -both[w], w))[:ranks])


def assert_word_values(rows, sides: list[list[list[str]]], ranks: int = 1000) -> None:
    counts = [Counter(w for t in side for w in t) for side in sides]
    n = [sum(c.values()) for c in counts]
    both = counts[0] + counts[1]
    apart = {w: abs(counts[0][w] / n[0] - counts[1][w] / n[1]) for w in both}
    assert rows["unigram", "tvd"]["value"] == pytest.approx(sum(apart.values()) / 2)
    assert rows["unigram", "max_difference"]["value"] == pytest.approx(max(apart.values()))
    word = max(apart, key=lambda w: apart[w])
    shares = [counts[sample_set][word] / n[sample_set] for sample_set in (1, 0)]
    note = f'word "{word}": {shares[0]:.4f} here, {shares[1]:.4f} in the reference'
    assert rows["unigram", "max_difference"]["note"] == note
    kept = first_types(counts[0], both, ranks) | first_types(counts[1], both, ranks)
    sums = [sum(c[w] for w in kept) for c in counts]
    first = sum(abs(counts[0][w] / sums[0] - counts[1][w] / sums[1]) for w in kept) / 2
    assert rows["unigram", "tvd_1000"]["value"] == pytest.approx(first)


def test_values_are_those_of_plain_programs(table):
    rows = as_dict(table)
    tokens = [[text.split() for text in texts] for texts in (REFERENCE, SAMPLES)]
    lengths = [[len(t) for t in side] for side in tokens]
    known = text_pairs.STOP.words
    stop = [[sum(w in known for w in t) / len(t) for t in side if t] for side in tokens]
    for tendency, (first, second) in (("length", lengths), ("stop_words", stop)):
        value = {name: rows[tendency, name]["value"] for name in ("mean_difference", "ks", "mean")}
        assert value["mean"] == pytest.approx(np.mean(second))
        assert value["mean_difference"] == pytest.approx(np.mean(second) - np.mean(first))
        assert value["ks"] == pytest.approx(ks_2samp(first, second, method="asymp").statistic)
    counts = [Counter(w for t in side for w in t) for side in tokens]
    n = [sum(c.values()) for c in counts]
    equal = [text_pairs.at_most(side, min(n), k, 3) for k, side in enumerate(tokens)]
    assert_word_values(rows, equal)
    novel = len(set(counts[1]) - set(counts[0])) / len(counts[1])
    assert rows["vocabulary", "novel_types"]["value"] == pytest.approx(novel)
    covered = sum(counts[0][w] for w in counts[1]) / n[0]
    assert rows["vocabulary", "coverage"]["value"] == pytest.approx(covered)
    assert rows["vocabulary", "tokens_reference"]["value"] == n[0]


def test_a_body_against_itself_has_no_distance_and_batches_do_not_matter(sample_sets, table):
    rows = as_dict(run((sample_sets[0], sample_sets[0]), texts=(REFERENCE, REFERENCE)))
    tested = {"ks", "ks_empirical", "tvd", "max_difference", "mean_difference"}
    for (_, name), row in rows.items():
        assert name not in {*tested, "novel_types"} or row["value"] == 0
        assert name not in tested or row["p_value"] == 1
    assert rows["vocabulary", "coverage"]["value"] == 1
    assert run(sample_sets, cut=7).equals(table)
    assert not run(sample_sets, seed=4).equals(table)


def test_without_draws_the_values_stay(sample_sets, table):
    options = MeasurementOptions(permutations=0, bootstrap=0, monte_carlo=0)
    with pair_of(REFERENCE, SAMPLES) as pair:
        bare = measure_table(measure_rows(pair, options, 3), pair, "model/nucleus")
    # What is kept in order, of texts that are read with classes, is not in the table.
    counted = bare.filter(pc.not_equal(bare["tendency"], SHARED_NGRAMS))
    assert counted["value"].equals(table["value"])
    assert bare["p_value"].null_count == bare["low"].null_count == bare.num_rows
    unread = as_dict(run(sample_sets, options, texts=([], [])))
    counts = [np.sort(sample_set.counts)[::-1].astype(float) for sample_set in sample_sets]
    assert unread["rank_frequency", "zipf_s"]["value"] == power_laws.fit_zipf(counts[1])
    assert ("rank_frequency", "zipf_s_split") not in unread  # halves need documents


def test_other_documents_are_refused_and_empty_ones_leave_out_what_is_not_defined(sample_sets):
    for wrong in (SAMPLES[:-1], [*SAMPLES[:-1], "unheard"], [*SAMPLES[:-1], "w1 w1 w1"]):
        check_refused("sample documents are not those", run, sample_sets, texts=(REFERENCE, wrong))
    empty, full = statistics_of(["", ""]), statistics_of(["a b", "a"])
    rows = as_dict(run((full, empty), texts=(["a b", "a"], ["", ""])))
    assert rows["length", "mean"]["value"] == 0
    assert ("unigram", "tvd") not in rows
    assert ("stop_words", "ks") not in rows
    assert rows["type_token_unigrams", "heaps_beta"]["value"] is None
    assert curves(empty, QUICK, "x", full).num_rows > 0
    assert MeasurementOptions.from_config({"zipf_ranks": None}).zipf_ranks is None
    assert MeasurementOptions.from_config({}) == MeasurementOptions()
    assert sizes_below(3_000, SampleSizeOptions()) == [100, 300, 1_000]
    assert sizes_below(3_001, SampleSizeOptions())[-1] == 3_000
    assert sizes_below(100, SampleSizeOptions()) == []
    assert sizes_below(50, SampleSizeOptions(sizes=(40, 10, 50, 10))) == [10, 40]
    assert SampleSizeOptions.from_config({"sizes": [10, 20]}).subsets == 5


@pytest.mark.parametrize(
    ("options", "values", "message"),
    [
        (MeasurementOptions, {"permutation": 3}, "measurement.permutation: unknown key"),
        (MeasurementOptions, {"bootstrap": -1}, "bootstrap: is -1, expected at least 0"),
        (MeasurementOptions, {"zipf_ranks": "most"}, "measurement.zipf_ranks: is 'most'"),
        (MeasurementOptions, {"confidence": 2.0}, "confidence: is 2.0"),
        (SampleSizeOptions, {"subsets": -1}, "subsets: is -1"),
        (SampleSizeOptions, {"sizes": [1]}, "sizes: is 1, expected at least 2"),
    ],
)
def test_wrong_options_are_named(options, values, message):
    check_refused(message, options.from_config, values)


def points(table: pa.Table, name: str) -> list[dict[str, float]]:
    return [row for row in table.to_pylist() if row["curve"] == name]


def test_curves_are_those_of_plain_programs(sample_sets, table):
    drawn = curves(sample_sets[1], QUICK, "model", sample_sets[0])
    assert drawn.schema == CURVES
    tokens = [text.split() for text in SAMPLES]
    at = {point["x"]: point for point in points(drawn, "type_token_unigrams")}
    assert sorted(at) == sorted({len(t) for t in tokens})
    for length, point in at.items():
        types = sorted(len(set(t)) for t in tokens if len(t) == length)
        assert point["y"] == pytest.approx(np.mean(types))
        levels = np.quantile(types, [0.05, 0.95], method="inverted_cdf")
        assert ((point["low"], point["high"]), point["n"]) == (tuple(levels), len(types))
    lengths = [len(t) for t in tokens]
    quantiles = [point["y"] for point in points(drawn, "length_quantiles")]
    expected = np.quantile(lengths, [0.05, 0.25, 0.5, 0.75, 0.95], method="inverted_cdf")
    assert quantiles == expected.tolist()
    assert sum(point["y"] for point in points(drawn, "length_pmf")) == pytest.approx(1)
    assert points(drawn, "length_mean")[0]["y"] == pytest.approx(np.mean(lengths))
    density = points(drawn, "stop_words_density")
    assert sum(point["y"] for point in density) / len(density) == pytest.approx(1)
    most_common = Counter(w for t in tokens for w in t).most_common(1)[0][1]
    first = points(drawn, "rank_frequency")[0]
    assert (first["x"], first["y"]) == (1, pytest.approx(most_common / sum(lengths)))
    named = {"ks_types_model", "ks_types_reference", "ks_bigram_types_empirical"}
    assert named <= set(drawn["curve"].to_pylist())
    # A summary is the weighted mean of its curve.
    pairs = ("ks_types_model", "ks_heaps_model"), ("ks_types_empirical", "ks_empirical")
    for curve, name in pairs:
        found = points(drawn, curve)
        mean = np.average([p["y"] for p in found], weights=[p["n"] for p in found])
        assert as_dict(table)["type_token_unigrams", name]["value"] == pytest.approx(mean)


def test_the_command_asks_for_what_its_outputs_need(folder, sample_sets, tmp_path):
    common = ["--reference-statistics", folder / "r.parquet", "--source", "m"]
    drawn, measures, sizes = (tmp_path / f"{name}.parquet" for name in ("c", "m", "n"))
    run_script(measure_tendencies, *common, "--curves", drawn)
    names = set(pq.read_table(drawn)["curve"].to_pylist())
    assert "type_token_unigrams" in names
    assert "ks_types_model" not in names
    common += ["--measures", measures]
    check_refused("--measures needs --sample-statistics", run_script, measure_tendencies, *common)
    common += ["--sample-statistics", folder / "s.parquet", "--sample-size", sizes]
    common += ["--options", '{"permutations": 0, "bootstrap": 0, "monte_carlo": 0}']
    common += ["--sample-size-options", '{"sizes": [20], "subsets": 2, "permutations": 5}']
    with pytest.raises(errors.InputError, match="--sample-size needs --measures and the documents"):
        run_script(measure_tendencies, *common)
    for name, texts in (("reference", REFERENCE), ("sample", SAMPLES)):
        common += [f"--{name}-documents", text_pairs.write_samples(tmp_path / name, texts)]
    common += ["--raw", tmp_path / "raw.parquet", "--sample-sets", 4]
    run_script(measure_tendencies, *common)
    assert sizes.stat().st_size > 0
    for path, words in ((measures, "own"), (sizes, "own"), (tmp_path / "raw.parquet", "raw")):
        line = str(read_record(path)["signature"])
        assert signature.parts_of(line) == named_parts(
            "kind=tendencies text=run tokens=0-all stopwords=test symbols=yes groups=none "
            "permutations=0 bootstrap=0 confidence=0.95 zipf=10000 baseline=none holm=4 "
            "embedding=none",
            vocabulary=words,
        )


def documents_of(n: int, lengths: str) -> list[str]:
    """Draw documents, of which the first is a word of its own when their lengths are to differ."""
    rng = np.random.default_rng(4)
    sizes = np.full(n, 30) if lengths == "equal" else rng.integers(50, 500, n)
    drawn = (np.minimum(rng.zipf(1.2, size), 5000) for size in sizes)
    texts = [" ".join(f"w{k}" for k in document) for document in drawn]
    return texts if lengths == "equal" else ["alone", *texts[1:]]


@pytest.mark.parametrize("lengths", ["equal", "different"])
@pytest.mark.parametrize(("n_first", "n_second"), [(150, 1), (1, 150), (3, 2), (2, 2)])
def test_p_values_are_those_of_all_splits(monkeypatch, n_first, n_second, lengths):
    """However few splits there are: of 151 that keep one document apart, one is the observed.

    Oracles: all splits, for words those with as many documents of each stratum; SciPy's t.
    """
    monkeypatch.setattr(document_measures, "DOCUMENTS_AT_LENGTHS", 1)
    monkeypatch.setattr(permuted_units, "LEAST_MOVED", 0)
    monkeypatch.setattr(permuted_units.Strata, "_ratio", lambda *sizes: 1.0)
    texts = documents_of(n_first + n_second, lengths)
    texts = texts if n_second > n_first else texts[::-1]
    sides = texts[:n_first], texts[n_first:]
    sample_sets = [statistics_of(side) for side in sides]
    options = MeasurementOptions(permutations=3999, bootstrap=0, monte_carlo=0, zipf_ranks=None)
    found = as_dict(run(sample_sets, options, texts=sides))
    tokens = [text.split() for text in texts]
    types = sorted({word for document in tokens for word in document})
    X = np.array([list(map(Counter(document).__getitem__, types)) for document in tokens])
    sizes = np.array([len(document) for document in tokens])
    edges = np.sort(sizes)[np.arange(n := max(1, len(sizes) // 16)) * len(sizes) // n]
    strata = np.searchsorted(np.unique(edges), sizes, side="right")
    splits, alike = [], []
    for chosen in combinations(range(len(tokens)), n_first):
        rest = [i for i in range(len(tokens)) if i not in chosen]
        pair = [[tokens[i] for i in side] for side in (chosen, rest)]
        counts = np.stack([X[list(side)].sum(axis=0) for side in (chosen, rest)])
        splits.append(text_pairs.plain_measures(pair, counts))
        alike.append(
            np.array_equal(
                *(np.bincount(strata[side]) for side in (list(chosen), list(range(n_first))))
            )
        )
        for tendency, of in (("length", len), ("stop_words", stop_share)):
            numbers = [[float(of(document)) for document in side] for side in pair]
            splits[-1][tendency, "mean_difference"] = t_of(*numbers)
    by_length = splits[0].keys() & {(name, "ks_empirical") for name in type_token.HISTOGRAM_OF}
    # Types are permuted among documents of equal length alone; the total variation is held out.
    without = by_length if lengths == "different" else set()
    for key in splits[0].keys() - without - {("unigram", "tvd")}:
        of_words = key[0] in ("rank_frequency", "unigram")
        kept = [split for split, own in zip(splits, alike, strict=True) if own or not of_words]
        observed, values = splits[0][key], [split[key] for split in kept]
        if key[1] == "mean_difference":
            if 1 in (n_first, n_second):
                # One document has no standard error; equal means need none.
                assert found[key]["p_value"] == (None if observed else 1.0)
                continue
            share = np.mean([not abs(value) < abs(observed) - 1e-9 for value in values])
        else:
            share = np.mean([value >= observed for value in values])
        longest = lengths == "different" and 1 in (n_first, n_second)
        if longest and of_words:
            assert found[key]["value"] is found[key]["p_value"] is None
            assert found[key]["reason"] == verdicts.reason("longer_documents")
            continue
        least, most = binom.ppf([1e-6, 1 - 1e-6], 3999, share)
        assert least + 1 <= round(4000 * found[key]["p_value"]) <= most + 1, key
        if key[1] != "mean_difference" and (
            (n_first == n_second and lengths == "equal") or key[0] in ("length", "stop_words")
        ):
            assert found[key]["value"] == pytest.approx(float(observed), abs=1e-12)
        assert share >= 1 / len(kept)


def stop_share(document: list[str]) -> float:
    return sum(word in text_pairs.STOP.words for word in document) / len(document)


def t_of(first: list[float], second: list[float]) -> float:
    """Welch's t by SciPy, and 0 for equal means."""
    if np.mean(first) == np.mean(second):
        return 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return float(ttest_ind(second, first, equal_var=False).statistic)


SIZES = [20, 60]
FEW_TESTS = MeasurementOptions(permutations=30, bootstrap=0, monte_carlo=0)
HOW = SampleSizeOptions(sizes=tuple(SIZES), subsets=3, permutations=30)


def open_pair(cut: int = 1000):
    return pair_of(REFERENCE, SAMPLES, cut=cut)


def members(number: int, place: int, seed: int) -> list[str]:
    rng = random_streams.stream(seed, "subset/documents", number)
    first = DocumentGroups(rng, [*SIZES, len(SAMPLES)]).next_block(len(SAMPLES))
    return [text for text, group in zip(SAMPLES, first, strict=True) if group <= place]


def test_groups_are_nested_subsets_of_the_right_sizes_and_all_alike():
    inside = np.zeros(40)
    for number in range(400):
        groups = DocumentGroups(random_streams.stream(1, "test", number), [5, 15, 40])
        first = np.concatenate([groups.next_block(n) for n in (13, 20, 7)])
        assert np.bincount(first).tolist() == [5, 10, 25]
        inside += first == 0
    expected, deviation = 400 * 5 / 40, np.sqrt(400 * 5 / 40 * 35 / 40)
    assert np.all(np.abs(inside - expected) < 4.5 * deviation)


@pytest.mark.parametrize("place", [0, 1])
def test_a_subset_has_the_words_and_tests_of_its_documents(place):
    chosen = members(2, place, seed=5)
    assert len(chosen) == SIZES[place]
    assert set(members(2, 0, seed=5)) <= set(chosen)
    with open_pair() as pair, subset(pair, SIZES, place, 2, seed=5) as part:
        counts = Counter(word for text in chosen for word in text.split())
        whole = pair.samples.histograms
        found = dict(zip(part.samples.types.to_pylist(), part.samples.counts, strict=True))
        assert found == counts
        rows = {row[:2]: row for row in measure_rows(part, FEW_TESTS, 9)}
    with pair_of(REFERENCE, chosen) as pair:
        expected = {row[:2]: row for row in measure_rows(pair, FEW_TESTS, 9)}
    for key in [("unigram", "tvd"), ("unigram", "max_difference"), ("rank_frequency", "zipf_s")]:
        assert rows[key].value == pytest.approx(expected[key].value)
    for key in [("unigram", "tvd"), ("unigram", "max_difference")]:
        assert rows[key].p_value == pytest.approx(expected[key].p_value, abs=0, nan_ok=True)
    assert math.isnan(rows["unigram", "tvd"].p_value) == (place == 0)  # of so few documents
    for name, histogram in part.samples.histograms.items():
        if name in SIZED:  # a curve is no histogram, and a number is of long documents alone
            assert name.startswith("recurrence") or histogram.counts.sum() <= SIZES[place]
            continue
        assert histogram.counts.sum() == SIZES[place]
        held = dict(zip(*vars(whole[name]).values(), strict=True))
        drawn = zip(*vars(histogram).values(), strict=True)
        assert all(number <= held[key] for key, number in drawn)


@pytest.fixture(scope="module")
def subsets():
    with open_pair() as pair:
        rows = measure_rows(pair, FEW_TESTS, 3)
        return sample_sizes(pair, rows, FEW_TESTS, HOW, 3, "model/beam"), rows


def test_points_summarize_the_subsets_whatever_the_cuts_and_the_last_is_the_table(subsets):
    found, rows = subsets
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
    points = {(p["tendency"], p["measure"], p["n"]): p for p in subsets[0].to_pylist()}
    for n in SIZES:
        point = points["unigram", "tvd", n]
        assert point["subsets"] == 3
        assert point["low"] <= point["value"] <= point["high"]
        if n == SIZES[0]:
            assert point["p_value"] is None  # fewer than 20 effective documents
        else:
            assert 0 < point["p_low"] <= point["p_value"] <= point["p_high"] <= 1
        point = points["unigram", "max_difference", n]
        assert 1 / 31 <= point["p_low"] <= point["p_value"] <= point["p_high"] <= 1
    means = [points["length", "mean", n]["value"] for n in [*SIZES, len(SAMPLES)]]
    deviation = np.std([len(text.split()) for text in SAMPLES])
    assert abs(means[0] - means[-1]) < 4 * deviation / np.sqrt(3 * SIZES[0])
    widths = [points["unigram", "tvd", n]["value"] for n in SIZES]
    assert widths[0] > widths[1] > points["unigram", "tvd", len(SAMPLES)]["value"]
    for cut, seed, equal in ((7, 3, True), (1000, 4, False)):
        with open_pair(cut) as pair:
            rows = measure_rows(pair, FEW_TESTS, 3)
            found = sample_sizes(pair, rows, FEW_TESTS, HOW, seed, "model/beam")
        assert found.equals(subsets[0]) == equal


def test_blocks_do_not_change_what_a_subset_is(monkeypatch):
    """Oracle: the words of the documents themselves."""
    monkeypatch.setattr(document_counts, "BLOCK_DOCUMENTS", 17)
    with open_pair() as pair:
        places = np.arange(len(REFERENCE)) % 4 - 1, np.arange(len(SAMPLES)) % 3 - 1
        more = pa.array(["never", "seen"])
        with pair.documents.selected(places, more) as documents:
            names = [*pair.types.to_pylist(), "never", "seen"]
            for sample_set in (0, 1):
                sides = zip((REFERENCE, SAMPLES), places, strict=True)
                held = [pair for texts, own in sides for pair in zip(texts, own, strict=True)]
                chosen = [text.split() for text, place in held if place == sample_set]
                assert documents.values(sample_set)["length"].tolist() == list(map(len, chosen))
                counts = Counter(word for text in chosen for word in text)
                totals = dict(zip(names, documents.totals(sample_set), strict=True))
                assert {word: n for word, n in totals.items() if n} == counts

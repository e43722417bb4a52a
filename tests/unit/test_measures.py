"""The table of measures, the curves and the command that writes them.

Needs nothing but the package. Oracles: plain Python over the documents, scipy's statistics, the
values of a body against itself, invariance to how documents are cut into files.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from itertools import combinations, pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.stats import binom, ks_2samp

from beyond_perplexity.errors import InputError
from beyond_perplexity.random_streams import stream
from beyond_perplexity.schemas import corpora as samples
from beyond_perplexity.schemas.tendencies import CURVES, TENDENCY_MEASURES
from beyond_perplexity.storage.shards import write_shard
from beyond_perplexity.tendencies import document_measures, power_laws
from beyond_perplexity.tendencies.curves import curves
from beyond_perplexity.tendencies.measures import measure_rows, measure_table
from beyond_perplexity.tendencies.options import MeasurementOptions
from beyond_perplexity.tendencies.pairs import paired
from beyond_perplexity.tendencies.power_laws import fit_zipf
from beyond_perplexity.tendencies.statistics import Statistics, StatisticsCounter, read_statistics
from beyond_perplexity.tendencies.word_classes import StopWords
from beyond_perplexity.verdicts import reason
from scripts import measure_tendencies

STOP = StopWords("test", frozenset({"w1", "w3"}))
# The paper's exponent has ranks and frequencies of the same tokens; ranks are counted.
NOT_ESTIMATED = ("zipf_s", "zipf_s_reference", "zipf_ranks", "zipf_ranks_reference")
QUICK = MeasurementOptions(permutations=60, bootstrap=40, monte_carlo=50)


def draw(seed: int, n: int, exponent: float, mean: float) -> list[str]:
    rng = np.random.default_rng(seed)
    lengths = rng.poisson(mean, n)
    drawn = (np.minimum(rng.zipf(exponent, length), 400) for length in lengths)
    return [" ".join(f"w{k}" for k in document) for document in drawn]


REFERENCE, SAMPLES = draw(0, 150, 1.5, 12), draw(1, 120, 1.6, 10)


def count(path: Path, texts: list[str]) -> Statistics:
    with StatisticsCounter(STOP) as counter:
        counter.add(pa.array(texts))
        counter.write(path, {})
    return read_statistics(path)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("measures")


@pytest.fixture(scope="module")
def bodies(folder):
    return count(folder / "r.parquet", REFERENCE), count(folder / "s.parquet", SAMPLES)


def run(bodies, options=QUICK, cut=1000, texts=(REFERENCE, SAMPLES), seed=3) -> pa.Table:
    batches = tuple([pa.array(t[i : i + cut]) for i in range(0, len(t), cut)] for t in texts)
    with paired(*bodies, batches if options.draws else None) as pair:
        return measure_table(measure_rows(pair, options, seed), pair, "model/nucleus")


def as_dict(table: pa.Table) -> dict[tuple[str, str], dict[str, float]]:
    return {(row["tendency"], row["measure"]): row for row in table.to_pylist()}


@pytest.fixture(scope="module")
def table(bodies):
    """Measure texts of few types, whose split fits are of the few ranks that there are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(power_laws, "SPLIT_RANKS", 3)
        yield run(bodies)


def test_table_has_its_schema_and_each_measure_once(table):
    assert table.schema == TENDENCY_MEASURES
    rows = as_dict(table)
    assert len(rows) == table.num_rows == 46
    assert set(table["source"].to_pylist()) == {"model/nucleus"}
    assert set(table["n_reference"].to_pylist()) == {150}
    assert set(table["n_samples"].to_pylist()) == {120}


def at_most(documents: list[list[str]], tokens: int, body: int, seed: int = 3) -> list[list[str]]:
    """Take whole documents in the random order of the text, each that still fits."""
    if sum(map(len, documents)) <= tokens:
        return documents
    taken: list[list[str]] = []
    for place in stream(seed, "equal_tokens", body).permutation(len(documents)):
        if sum(map(len, [*taken, documents[place]])) <= tokens:
            taken.append(documents[place])
    return taken


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
    shares = [counts[body][word] / n[body] for body in (1, 0)]
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
    stop = [[sum(w in STOP.words for w in t) / len(t) for t in side if t] for side in tokens]
    for tendency, (first, second) in (("length", lengths), ("stop_words", stop)):
        value = {name: rows[tendency, name]["value"] for name in ("mean_difference", "ks", "mean")}
        assert value["mean"] == pytest.approx(np.mean(second))
        assert value["mean_difference"] == pytest.approx(np.mean(second) - np.mean(first))
        assert value["ks"] == pytest.approx(ks_2samp(first, second, method="asymp").statistic)
    counts = [Counter(w for t in side for w in t) for side in tokens]
    n = [sum(c.values()) for c in counts]
    assert_word_values(rows, [at_most(side, min(n), body) for body, side in enumerate(tokens)])
    novel = len(set(counts[1]) - set(counts[0])) / len(counts[1])
    assert rows["vocabulary", "novel_types"]["value"] == pytest.approx(novel)
    covered = sum(counts[0][w] for w in counts[1]) / n[0]
    assert rows["vocabulary", "coverage"]["value"] == pytest.approx(covered)
    assert rows["vocabulary", "tokens_reference"]["value"] == n[0]


def test_tests_and_intervals_are_where_they_are_defined(table):
    rows = as_dict(table)
    tested = {key for key, row in rows.items() if row["p_value"] is not None}
    of_laws = {key for key, row in rows.items() if row["p_value_law"] is not None}
    kinds = ("type_token_unigrams", "type_token_bigrams")
    assert of_laws == {
        *(("rank_frequency", f"ks_zipf_{name}") for name in ("model", "reference")),
        *((kind, f"ks_heaps_{name}") for kind in kinds for name in ("model", "reference")),
    }
    assert tested == {
        ("rank_frequency", "ks_empirical"),
        *((kind, "ks_empirical") for kind in kinds),
        *(("unigram", name) for name in ("tvd", "tvd_1000", "max_difference")),
        *(
            (tendency, name)
            for tendency in ("length", "stop_words", "symbols")
            for name in ("mean_difference", "ks")
        ),
    }
    for (tendency, name), row in as_dict(table).items():
        if name == "tvd":
            assert 0 <= row["low"] < row["value"] < row["high"]
        elif name.startswith(("ks", "tvd", "max_difference")):  # norms overestimate
            assert row["low"] is None
            if tendency == "symbols":  # no text has one, so no resample differs
                assert row["high"] is None
            else:
                assert row["value"] <= row["high"]
        elif tendency == "vocabulary" or name in NOT_ESTIMATED:
            assert row["low"] is None
            assert row["high"] is None
        else:
            assert row["low"] <= row["value"] + 1e-12
            assert row["high"] >= row["value"] - 1e-12
    assert as_dict(table)["length", "mean_difference"]["p_value"] < 0.05


def test_a_body_against_itself_has_no_distance(bodies):
    rows = as_dict(run((bodies[0], bodies[0]), texts=(REFERENCE, REFERENCE)))
    for (_, name), row in rows.items():
        if name in (
            "ks",
            "ks_empirical",
            "tvd",
            "max_difference",
            "mean_difference",
            "novel_types",
        ):
            assert row["value"] == 0
            assert name == "novel_types" or row["p_value"] == 1
    assert rows["vocabulary", "coverage"]["value"] == 1


def test_batches_do_not_matter_but_the_seed_does(bodies, table):
    assert run(bodies, cut=7).equals(table)
    assert not run(bodies, seed=4).equals(table)


def test_without_draws_the_values_stay(bodies, table):
    options = MeasurementOptions(permutations=0, bootstrap=0, monte_carlo=0)
    texts = tuple([pa.array(side)] for side in (REFERENCE, SAMPLES))
    with paired(*bodies, texts) as pair:
        bare = measure_table(measure_rows(pair, options, 3), pair, "model/nucleus")
    assert bare["value"].equals(table["value"])
    assert bare["p_value"].null_count == bare["low"].null_count == bare.num_rows
    unread = as_dict(run(bodies, options, texts=([], [])))
    counts = [np.sort(body.counts)[::-1].astype(float) for body in bodies]
    assert unread["rank_frequency", "zipf_s"]["value"] == fit_zipf(counts[1])
    assert ("rank_frequency", "zipf_s_split") not in unread  # halves need documents


def test_documents_of_other_statistics_are_refused(bodies):
    for wrong in (SAMPLES[:-1], [*SAMPLES[:-1], "unheard"], [*SAMPLES[:-1], "w1 w1 w1"]):
        with pytest.raises(InputError, match="sample documents are not those"):
            run(bodies, texts=(REFERENCE, wrong))


def test_texts_without_tokens_leave_what_is_not_defined_out(folder):
    empty = count(folder / "e.parquet", ["", ""])
    full = count(folder / "f.parquet", ["a b", "a"])
    rows = as_dict(run((full, empty), texts=(["a b", "a"], ["", ""])))
    assert rows["length", "mean"]["value"] == 0
    assert ("unigram", "tvd") not in rows
    assert ("stop_words", "ks") not in rows
    assert rows["type_token_unigrams", "heaps_beta"]["value"] is None
    assert curves(empty, QUICK, "x", full).num_rows > 0


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"permutation": 3}, "measurement.permutation: unknown key"),
        ({"bootstrap": -1}, "bootstrap: is -1, expected at least 0"),
        ({"zipf_ranks": "most"}, "measurement.zipf_ranks: is 'most'"),
        ({"confidence": 2.0}, "confidence: is 2.0"),
    ],
)
def test_wrong_options_are_named(values, message):
    with pytest.raises(InputError, match=message):
        MeasurementOptions.from_config(values)


def test_all_ranks():
    assert MeasurementOptions.from_config({"zipf_ranks": None}).zipf_ranks is None
    assert MeasurementOptions.from_config({}) == MeasurementOptions()


def points(table: pa.Table, name: str) -> list[dict[str, float]]:
    return [row for row in table.to_pylist() if row["curve"] == name]


def test_curves_are_those_of_plain_programs(bodies):
    table = curves(bodies[1], QUICK, "model", bodies[0])
    assert table.schema == CURVES
    tokens = [text.split() for text in SAMPLES]
    at = {point["x"]: point for point in points(table, "type_token_unigrams")}
    assert sorted(at) == sorted({len(t) for t in tokens})
    for length, point in at.items():
        types = sorted(len(set(t)) for t in tokens if len(t) == length)
        assert point["y"] == pytest.approx(np.mean(types))
        levels = np.quantile(types, [0.05, 0.95], method="inverted_cdf")
        assert (point["low"], point["high"]) == tuple(levels)
        assert point["n"] == len(types)
    lengths = [len(t) for t in tokens]
    quantiles = [point["y"] for point in points(table, "length_quantiles")]
    expected = np.quantile(lengths, [0.05, 0.25, 0.5, 0.75, 0.95], method="inverted_cdf")
    assert quantiles == expected.tolist()
    assert sum(point["y"] for point in points(table, "length_pmf")) == pytest.approx(1)
    assert points(table, "length_mean")[0]["y"] == pytest.approx(np.mean(lengths))
    density = points(table, "stop_words_density")
    assert sum(point["y"] for point in density) / len(density) == pytest.approx(1)
    most_common = Counter(w for t in tokens for w in t).most_common(1)[0][1]
    first = points(table, "rank_frequency")[0]
    assert (first["x"], first["y"]) == (1, pytest.approx(most_common / sum(lengths)))
    assert {"ks_types_model", "ks_types_reference", "ks_bigram_types_empirical"} <= set(
        table["curve"].to_pylist()
    )


def test_summary_is_the_weighted_mean_of_the_curve(bodies, table):
    drawn = curves(bodies[1], QUICK, "model", bodies[0])
    for curve, name in (
        ("ks_types_model", "ks_heaps_model"),
        ("ks_types_empirical", "ks_empirical"),
    ):
        found = points(drawn, curve)
        mean = np.average([p["y"] for p in found], weights=[p["n"] for p in found])
        assert as_dict(table)["type_token_unigrams", name]["value"] == pytest.approx(mean)


def write_samples(path: Path, texts: list[str]) -> str:
    n = len(texts)
    columns: dict[str, object] = {name: [None] * n for name in samples.TEXT_SAMPLES.names}
    columns |= {"doc_id": list(range(n)), "text": texts}
    columns = {k: pa.array(v, samples.TEXT_SAMPLES.field(k).type) for k, v in columns.items()}
    write_shard(path, samples.TEXT_SAMPLES, columns, {})
    return str(path)


def test_command_does_not_depend_on_shards(folder, bodies, monkeypatch):
    reference = write_samples(folder / "reference.parquet", REFERENCE)
    shards = [
        write_samples(folder / f"samples{i}.parquet", SAMPLES[start : start + 50])
        for i, start in enumerate(range(0, 120, 50))
    ]
    whole = write_samples(folder / "samples.parquet", SAMPLES)
    common = ["x", "--reference-statistics", str(folder / "r.parquet"), "--source", "m"]
    common += ["--reference-documents", reference, "--options", '{"permutations": 20}']
    found = []
    for i, documents in enumerate(([whole], shards)):
        out = [str(folder / f"{name}{i}.parquet") for name in ("measures", "curves")]
        flags = ["--sample-statistics", str(folder / "s.parquet"), "--sample-documents", *documents]
        flags += ["--measures", out[0], "--curves", out[1]]
        monkeypatch.setattr("sys.argv", [*common, *flags])
        measure_tendencies.main()
        found.append([pq.read_table(path) for path in out])
    assert found[0][0].equals(found[1][0])
    assert found[0][1].equals(found[1][1])
    alone = str(folder / "alone.parquet")
    monkeypatch.setattr("sys.argv", [*common, "--curves", alone])
    measure_tendencies.main()
    names = set(pq.read_table(alone)["curve"].to_pylist())
    assert "type_token_unigrams" in names
    assert "ks_types_model" not in names
    monkeypatch.setattr("sys.argv", [*common, "--measures", alone])
    with pytest.raises(InputError, match="--measures needs --sample-statistics"):
        measure_tendencies.main()


def exact_ks(first: list, second: list) -> Fraction:
    differences = (
        Fraction(sum(y <= x for y in first), len(first))
        - Fraction(sum(y <= x for y in second), len(second))
        for x in {*first, *second}
    )
    return max(map(abs, differences))


def exact_statistics(
    sides: list[list[list[str]]], counts: np.ndarray
) -> dict[tuple[str, str], Fraction]:
    """Compute every permuted measure of two bodies of tokenized documents in whole numbers."""
    n = counts.sum(axis=1)  # (2,), of counts (2, V)
    product = int(n[0] * n[1])
    apart = np.abs(counts[0] * n[1] - counts[1] * n[0])
    ranked = -np.sort(-counts, axis=1)
    sums = np.cumsum(ranked[0] * n[1] - ranked[1] * n[0])
    found = {
        ("unigram", "tvd"): Fraction(int(apart.sum()), 2 * product),
        ("unigram", "max_difference"): Fraction(int(apart.max()), product),
        ("rank_frequency", "ks_empirical"): Fraction(int(np.abs(sums).max()), product),
    }
    numbers: dict[str, Callable[[list[str]], int | Fraction]] = {
        "length": len,
        "stop_words": lambda d: Fraction(sum(w in STOP.words for w in d), len(d)),
    }
    for tendency, number in numbers.items():
        values = [[number(document) for document in side] for side in sides]
        means = [Fraction(sum(held), len(held)) for held in values]
        found[tendency, "mean_difference"] = means[1] - means[0]
        found[tendency, "ks"] = exact_ks(*values)
    if len({len(document) for side in sides for document in side}) == 1:
        types = [[len(set(document)) for document in side] for side in sides]
        pairs = [[len(set(pairwise(document))) for document in side] for side in sides]
        found["type_token_unigrams", "ks_empirical"] = exact_ks(*types)
        found["type_token_bigrams", "ks_empirical"] = exact_ks(*pairs)
    return found


def documents_of(n: int, lengths: str) -> list[str]:
    """Draw documents, of which the first is a word of its own when their lengths are to differ."""
    rng = np.random.default_rng(4)
    sizes = np.full(n, 30) if lengths == "equal" else rng.integers(50, 500, n)
    drawn = (np.minimum(rng.zipf(1.2, size), 5000) for size in sizes)
    texts = [" ".join(f"w{k}" for k in document) for document in drawn]
    return texts if lengths == "equal" else ["alone", *texts[1:]]


@pytest.mark.parametrize("lengths", ["equal", "different"])
@pytest.mark.parametrize(("n_first", "n_second"), [(150, 1), (1, 150), (3, 2), (2, 2)])
def test_p_values_are_those_of_all_splits(tmp_path, monkeypatch, n_first, n_second, lengths):
    """However few splits there are: of 151 that keep one document apart, one is the observed."""
    monkeypatch.setattr(document_measures, "DOCUMENTS_AT_LENGTHS", 1)
    texts = documents_of(n_first + n_second, lengths)
    texts = texts if n_second > n_first else texts[::-1]
    sides = texts[:n_first], texts[n_first:]
    bodies = [count(tmp_path / f"{place}.parquet", side) for place, side in enumerate(sides)]
    options = MeasurementOptions(permutations=3999, bootstrap=0, monte_carlo=0, zipf_ranks=None)
    found = as_dict(run(bodies, options, texts=sides))
    tokens = [text.split() for text in texts]
    types = sorted({word for document in tokens for word in document})
    X = np.array([list(map(Counter(document).__getitem__, types)) for document in tokens])
    splits = []
    for chosen in combinations(range(len(tokens)), n_first):
        rest = [i for i in range(len(tokens)) if i not in chosen]
        pair = [[tokens[i] for i in side] for side in (chosen, rest)]
        counts = np.stack([X[list(side)].sum(axis=0) for side in (chosen, rest)])
        splits.append(exact_statistics(pair, counts))
    for key, observed in splits[0].items():
        values = [split[key] for split in splits]
        if key[1] == "mean_difference":
            share = np.mean([abs(value) >= abs(observed) for value in values])
        else:
            share = np.mean([value >= observed for value in values])
        if (
            lengths == "different"
            and key[0] in ("rank_frequency", "unigram")
            and 1 in (n_first, n_second)
        ):
            assert found[key]["value"] is found[key]["p_value"] is None
            assert found[key]["reason"] == reason("longer_documents")
            continue
        least, most = binom.ppf([1e-6, 1 - 1e-6], 3999, share)
        assert least + 1 <= round(4000 * found[key]["p_value"]) <= most + 1
        if (n_first == n_second and lengths == "equal") or key[0] in ("length", "stop_words"):
            assert found[key]["value"] == pytest.approx(float(observed), abs=1e-12)
        assert share >= 1 / len(splits)

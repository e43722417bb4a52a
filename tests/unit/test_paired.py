"""Paired tests of perplexity.

Oracles: `scipy.stats.permutation_test` on a small case; power of Student's t by the noncentral law
(SciPy); `measure` of the same texts; simulated levels and coverages.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from scipy import stats

from benchmarks.calibration_perplexity import Setting, calibrate
from beyond_perplexity.errors import InputError
from beyond_perplexity.inference import p_values as sign_flips
from beyond_perplexity.inference.intervals import ratio_interval
from beyond_perplexity.inference.p_values import draw_warning, sign_flip_p_values
from beyond_perplexity.perplexities.options import PairOptions
from beyond_perplexity.perplexities.paired import check_company, compare_scores, smallest_found
from beyond_perplexity.perplexities.score_files import read_scores

PAIR = [(0, 1)]


def scores(models=2, documents=60, pages=30, seed=0):
    """Columns of several models on the same documents, two a page."""
    random = np.random.default_rng(seed)
    size = random.integers(20, 400, documents)
    topic = -size * random.normal(1, 0.1, documents)
    shared = {
        "doc_id": np.arange(100, 100 + documents),
        "group": [f"page {place % pages}" for place in range(documents)],
        "bytes": size,
        "text_hash": random.integers(-(2**62), 2**62, documents),
    }
    return [
        {**shared, "log_likelihood": topic * (1 + 0.02 * k) + random.normal(0, 2, documents)}
        for k in range(models)
    ]


def write(path, columns):
    """Write a file of scores, Parquet or CSV."""
    table = pa.table(columns)
    if path.suffix == ".csv":
        pyarrow.csv.write_csv(table, path)
    else:
        pq.write_table(table, path)
    return str(path)


def compared(paths, **options):
    files = [one for path in paths for one in read_scores(path)]
    names = {path: path.rsplit("/", 1)[1].split(".")[0] for path in paths}
    return compare_scores(files, names, PairOptions((), **{"flips": 999, **options})).to_pylist()


def together(folder, *columns, suffix="parquet", **options):
    """Compare models whose scores are written: rows of each, then of the pairs."""
    return compared(saved(folder, columns, suffix), **options)


def saved(folder, columns, suffix="parquet"):
    return [write(folder / f"{'abcdef'[k]}.{suffix}", one) for k, one in enumerate(columns)]


@pytest.mark.parametrize("groups", [5, 8, 11])
def test_all_signs_give_scipys_p_value(groups):
    bits = np.random.default_rng(groups).normal([0.4, 0], size=(groups, 2))
    expected = stats.permutation_test(
        (bits[:, 0], bits[:, 1]),
        lambda first, second, axis: np.sum(first - second, axis=axis),
        permutation_type="samples",
        n_resamples=np.inf,
        vectorized=True,
    )
    (found,) = sign_flip_p_values(bits, PAIR, 1, 0)
    assert found == pytest.approx(expected.pvalue, abs=1e-12)


def test_drawn_signs_come_near_all_of_them(monkeypatch):
    bits = np.random.default_rng(3).normal([0.5, 0], size=(14, 2))
    (exact,) = sign_flip_p_values(bits, PAIR, 1, 0)
    monkeypatch.setattr(sign_flips, "EXACT_GROUPS", 0)
    (drawn,) = sign_flip_p_values(bits, PAIR, 19_999, 0)
    assert drawn == pytest.approx(exact, abs=5 * np.sqrt(exact / 20_000))
    assert 0.01 < exact < 0.5


def test_signs_do_not_depend_on_how_many_are_held_or_which_models_stand_beside(monkeypatch):
    bits = np.random.default_rng(4).normal([0.2, 0, -0.1], size=(130, 3))
    pairs = [(0, 1), (0, 2), (1, 2)]
    found = sign_flip_p_values(bits, pairs, 700, 5)
    monkeypatch.setattr(sign_flips, "CELLS", 1000)
    assert sign_flip_p_values(bits, pairs, 700, 5) == found
    assert sign_flip_p_values(bits[:, 1:], PAIR, 700, 5) == found[2:]
    assert sign_flip_p_values(bits, pairs, 700, 6) != found


def test_equal_models_have_p_1_and_ties_count():
    bits = np.random.default_rng(5).normal(size=(40, 1)) * np.ones(2)
    assert sign_flip_p_values(bits, PAIR, 99, 0) == [1.0]
    ones = np.array([[0.1, 0.0]] * 4)  # |sum| of 4 tenths: of 16 signs two are as large
    assert sign_flip_p_values(ones, PAIR, 99, 0) == [2 / 16]


def test_flips_must_do_for_the_number_of_tests():
    flip_warning = partial(draw_warning, name="flips")
    assert flip_warning(1, 9999) == flip_warning(49, 9999) == flip_warning(0, 1) == ""
    assert flip_warning(50, 9999).endswith("50 tests: 10,000 are needed")
    assert flip_warning(50, 10_000) == ""
    both = "p < 0.05 in a family of 500 tests: 100,000 are needed for p < 0.005"
    assert flip_warning(500, 9999).endswith(both)


def test_the_smallest_difference_has_a_power_of_80_percent():
    random = np.random.default_rng(6)
    found = ratio_interval(random.normal(size=40), np.ones(40))
    center = smallest_found(found) / found.standard_error
    limit = stats.t.ppf(0.975, 39)
    power = stats.nct.sf(limit, 39, center) + stats.nct.cdf(-limit, 39, center)
    assert power == pytest.approx(0.8, abs=0.01)


@pytest.mark.parametrize(
    "setting", [Setting(26, "equal", "normal"), Setting(60, "unequal", "laplace")]
)
def test_level_coverage_and_power_by_simulation(setting):
    """A small, seeded case of `benchmarks.calibration_perplexity`; 3 binomial errors of room."""
    found = calibrate(setting, 300)
    room = 3 * np.sqrt(0.05 * 0.95 / 300)
    assert found["level"] <= 0.05 + room
    assert found["coverage"] >= 0.95 - room
    assert found["own"] >= 0.95 - room
    assert abs(found["promised"] - 0.8) < 0.1
    assert found["paired"] > found["unpaired"] + 0.1


def test_a_pair_differs_by_the_difference_of_bits_and_rows_may_have_any_order(tmp_path):
    first, second = scores()
    own_a, own_b, pair = together(tmp_path, first, second)
    size = (first["bytes"] + 1).sum()
    for row, held in ((own_a, first), (own_b, second)):
        assert row["value"] == pytest.approx(-held["log_likelihood"].sum() / np.log(2) / size)
    assert pair["value"] == pytest.approx(own_a["value"] - own_b["value"])
    assert (pair["first"], pair["second"], pair["groups"]) == ("a", "b", 30)
    assert pair["low"] < pair["value"] < pair["high"]
    assert pair["p_adjusted"] == pair["p_value"] < 0.05
    assert pair["high"] - pair["low"] < own_a["high"] - own_a["low"]
    order = np.random.default_rng(0).permutation(60)
    turned = {name: np.asarray(column)[order] for name, column in second.items()}
    assert together(tmp_path, first, turned)[2] == pytest.approx(pair)


def test_files_of_other_programs_need_two_columns(tmp_path):
    plain = [{name: one[name] for name in ("bytes", "log_likelihood")} for one in scores()]
    by_order = compared(saved(tmp_path, plain, "csv"))[2]
    assert by_order["groups"] == by_order["documents"] == 60
    with_ids, _ = scores()
    del with_ids["group"], with_ids["text_hash"]
    paths = [write(tmp_path / "a.parquet", with_ids), str(tmp_path / "b.csv")]
    assert compared(paths)[2] == pytest.approx(by_order)
    no_end = compared(paths, no_count_eos=True)[2]
    assert abs(no_end["value"]) > abs(by_order["value"])


def test_scores_with_the_end_of_documents_are_not_compared_without_it(tmp_path):
    """Where a file says what its scores have; others are taken as the flag has it."""
    first, second = scores()
    expected = together(tmp_path, first, second, no_count_eos=True)[2]
    mixed = [True] * 30 + [False] * 30
    for suffix in ("csv", "parquet"):
        for ended, no_end, words in (
            ([False] * 60, True, ""),
            ([False] * 60, False, r"without the end of documents; give no count eos"),
            ([True] * 60, True, r"with the end of each document; score again with"),
            (mixed, True, r"(line 32|row 31).*ended is 'false'; give true in all"),
        ):
            held = {**first, "ended": ended}, {**second, "ended": ended}
            how = {"suffix": suffix, "no_count_eos": no_end}
            if words:
                with pytest.raises(InputError, match=words):
                    together(tmp_path, *held, **how)
            else:
                assert together(tmp_path, *held, **how)[2] == expected


def test_documents_may_have_names(tmp_path):
    first, second = scores()
    expected = together(tmp_path, first, second)[2]
    order = np.random.default_rng(1).permutation(60)
    second = {name: np.asarray(column)[order] for name, column in second.items()}
    parts = [{**one, "doc_id": [f"№ {n}" for n in one["doc_id"]]} for one in (first, second)]
    for suffix in ("csv", "parquet"):
        found = compared(saved(tmp_path, parts, suffix))[2]
        assert found["value"] == pytest.approx(expected["value"])
        assert found["low"] == pytest.approx(expected["low"])


def test_groups_of_one_file_are_those_of_all_and_names_may_be_numbers(tmp_path):
    first, second = scores()
    plain = {name: column for name, column in second.items() if name != "group"}
    expected = together(tmp_path, first, second)[2]
    assert together(tmp_path, first, plain)[2] == pytest.approx(expected)
    numbered = [{**one, "group": [int(n[5:]) for n in one["group"]]} for one in (first, second)]
    assert compared(saved(tmp_path, numbered))[2] == pytest.approx(expected)
    alone = [{**one, "group": [None] * 60} for one in (first, second)]
    assert compared(saved(tmp_path, alone))[2]["groups"] == 60
    some = [{**one, "group": [None] * 9 + one["group"][9:]} for one in (first, second)]
    assert compared(saved(tmp_path, some))[2]["groups"] == 39


def test_spelled_log_likelihoods_are_taken_and_free_spelling_is_said(tmp_path):
    first, second = scores()
    unknown = np.arange(60) % 2
    spelled = {
        **first,
        "unknown": unknown,
        "log_likelihood_open_vocabulary": first["log_likelihood"] - 9,
    }
    own_a, _, pair = together(tmp_path, spelled, second)
    paid = {**first, "log_likelihood": first["log_likelihood"] - 9}
    assert pair["value"] == together(tmp_path, paid, second)[2]["value"]
    assert (own_a["open_vocabulary"], own_a["note"], pair["note"]) == (True, "", "")
    free = {
        **first,
        "unknown": unknown,
        "log_likelihood_open_vocabulary": pa.nulls(60, pa.float64()),
    }
    own_a, own_b, pair = together(tmp_path, free, second)
    assert "a: the spelling of unknown words is not penalized" in pair["note"]
    assert own_a["note"] == pair["note"] != own_b["note"] == ""


def test_models_are_compared_on_each_text_that_they_share(tmp_path):
    first, second, third = scores(3)
    names = ("doc_id", "bytes", "log_likelihood")
    both = {name: np.concatenate([second[name], third[name]]) for name in names}
    kinds = ["raw"] * 60 + ["cleaned"] * 60
    cleaned, mixed = {**first, "scored_text": ["cleaned"] * 60}, {**both, "scored_text": kinds}
    rows = together(tmp_path, cleaned, mixed, mixed)
    pairs = sorted((r["scored_text"], r["first"] + r["second"]) for r in rows if r["second"])
    assert pairs == [("cleaned", "ab"), ("cleaned", "ac"), ("cleaned", "bc"), ("raw", "bc")]
    assert [r["scored_text"] for r in rows if not r["second"]].count("raw") == 2
    smallest = min(r["p_value"] for r in rows if r["second"])
    assert min(r["p_adjusted"] for r in rows if r["second"]) == pytest.approx(4 * smallest)


def test_few_groups_give_a_p_value_but_no_verdict(tmp_path):
    few = [{name: column[:19] for name, column in one.items()} for one in scores()]
    *own, pair = compared(saved(tmp_path, few))
    assert pair["note"] == "fewer than 20 effective groups: no verdict"
    assert 0 < pair["p_value"] <= 1
    assert [pair[name] for name in ("low", "high", "p_adjusted", "detectable")] == [None] * 4
    assert own[0]["low"] is None


def test_impossible_documents_are_an_error_or_leave_the_model_out(tmp_path):
    first, second = scores()
    second["log_likelihood"][[7, 9]] = -np.inf
    paths = saved(tmp_path, [first, second])
    words = r"b\.parquet: row 8: the log-likelihood is −inf: .* \(2 in all\)"
    with pytest.raises(InputError, match=words):
        compared(paths)
    infinite, own = compared(paths, leave_out_infinite=True)
    assert (own["first"], infinite["first"], infinite["value"]) == ("a", "b", np.inf)
    assert infinite["note"] == "2 of 60 documents are impossible"


def changed(name, place, value):
    def change(one):
        column = list(one[name])
        column[place] = value
        return {**one, name: column}

    return change


def without(name):
    return lambda one: {key: column for key, column in one.items() if key != name}


def cut(one):
    return {name: column[:59] for name, column in one.items()}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (changed("log_likelihood", 4, np.nan), r"b\.parquet: row 5: log_likelihood is nan"),
        (changed("log_likelihood", 4, 0.5), r"b\.parquet: row 5: log_likelihood is 0\.5"),
        (changed("log_likelihood", 4, None), r"b\.parquet: row 5: log_likelihood is empty or NaN;"),
        (changed("bytes", 2, 0), r"b\.parquet: row 3: bytes is 0, expected at least one byte"),
        (changed("bytes", 2, 1.5), r"b\.parquet: row 3: column 'bytes' .* invalid value 1\.5"),
        (changed("bytes", 2, 999), r"b\.parquet: row 3: has another bytes than .*a\.parquet: row"),
        (changed("doc_id", 3, 100), r"b\.parquet: row 4: an earlier row has its doc_id too"),
        (changed("doc_id", 3, None), r"b\.parquet: row 4: doc_id is empty"),
        (changed("doc_id", 3, 7), r"b\.parquet: row 4: .* that .*a\.parquet does not have"),
        (changed("text_hash", 5, 1), r"b\.parquet: row 6: has another text_hash than"),
        (changed("group", 6, "page 9"), r"b\.parquet: row 7: has another group than"),
        (cut, r"a\.parquet: row 60: .* that .*b\.parquet does not have"),
        (lambda one: cut(without("doc_id")(one)), r"b\.parquet: has 59 rows, .* has 60"),
        (without("bytes"), r"b\.parquet: column 'bytes' is missing"),
        (lambda one: {n: c[:0] for n, c in one.items()}, r"b\.parquet: has no rows"),
    ],
)
def test_what_cannot_be_compared_is_refused_with_file_and_row(tmp_path, change, words):
    first, second = scores()
    paths = saved(tmp_path, [first, change(second)])
    with pytest.raises(InputError, match=words) as error:
        compared(paths)
    assert "\n" not in str(error.value)


def test_equal_scores_find_no_smallest_difference(tmp_path):
    """A standard error of 0 is no proof that any difference would be found."""
    one, other = scores()
    rows = together(tmp_path, one, one, other)
    pairs = {(row["first"], row["second"]): row for row in rows if row["second"]}
    same, others = pairs["a", "b"], pairs["a", "c"]
    assert (same["detectable"], same["value"], same["p_value"]) == (None, 0, 1)
    assert "both give every document the same likelihood" in same["note"]
    assert others["detectable"] > 0
    assert "same likelihood" not in others["note"]


def test_half_filled_spellings_are_refused(tmp_path):
    (one,) = scores(1)
    one["log_likelihood_open_vocabulary"] = one["log_likelihood"]
    for place in (0, 30, 59):
        path = write(
            tmp_path / "a.parquet", changed("log_likelihood_open_vocabulary", place, None)(one)
        )
        words = rf"row {place + 1}: log_likelihood_open_vocabulary is empty or NaN"
        with pytest.raises(InputError, match=words):
            read_scores(path)


def test_wrong_csv_values_are_named_by_their_line_and_files_that_are_missing(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("bytes,log_likelihood\n12,-3.5\n9,nought\n")
    with pytest.raises(InputError, match=r"a\.csv: line 3: .*'nought'"):
        read_scores(str(path))
    for name in ("no.parquet", "no.csv", "no.csv.gz"):
        with pytest.raises(InputError, match=rf"{name}: no such file$"):
            read_scores(str(tmp_path / name))


def test_scores_of_different_texts_have_no_company(tmp_path):
    first, second = scores()
    parts = [{**first, "scored_text": ["cleaned"] * 60}, {**second, "scored_text": ["raw"] * 60}]
    files = [one for path in saved(tmp_path, parts) for one in read_scores(path)]
    with pytest.raises(InputError, match=r"a\.parquet: is scored on cleaned text and no other"):
        check_company(files)
    (silent,) = read_scores(write(tmp_path / "c.parquet", first))
    with pytest.raises(InputError, match=r"c\.parquet: does not say which text"):
        check_company([*files, silent])
    check_company([files[0], silent])
    with pytest.raises(InputError, match=r"a\.parquet: is the only file"):
        check_company(files[:1])

"""The measures of all papers side by side: readers, resamples, rank correlations, orders.

Oracles: sums in loops, closed forms, SciPy's rank correlation, coverage of intervals by simulation.
"""

import math
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.stats import norm, spearmanr, t

from beyond_perplexity.inference.correlations import (
    average_ranks,
    correlation_matrix,
    few_items_interval,
)
from beyond_perplexity.relations import measures, readers
from beyond_perplexity.relations.readers import PERPLEXITY, DocumentSums
from beyond_perplexity.schemas import contrastive, perplexity, tendencies
from beyond_perplexity.semantics.bleu import bleu_of
from beyond_perplexity.storage.shards import write_shard
from tests.unit.evaluator_oracles import check_refused
from tests.unit.semantic_tables import sentences, write_scores

DOCUMENTS = 40
OPTIONS = measures.RelationOptions(resamples=300)
ONES = np.ones((1, DOCUMENTS))


def write(path, schema, table):
    path.parent.mkdir(parents=True, exist_ok=True)
    write_shard(path, schema, table, {})
    return [str(path)]


def write_documents(folder, bits, *, text="cleaned", spelled=None, group=None):
    """Write documents of 99 bytes (and an end) with these bits."""
    paths = []
    for model, own in bits.items():
        n = len(own)
        columns = {name: [0] * n for name in perplexity.DOCUMENT_SCORES.names}
        columns |= {"doc_id": range(n), "bytes": [99] * n, "ended": [True] * n}
        columns |= {"scored_text": [text] * n, "log_likelihood_open_vocabulary": [spelled] * n}
        columns |= {"group": pa.nulls(n, pa.string()) if group is None else list(group)}
        columns |= {"title": pa.nulls(n, pa.string())}
        columns |= {"log_likelihood": [-float(b) * math.log(2) for b in own]}
        table = pa.table(columns, perplexity.DOCUMENT_SCORES)
        paths += write(folder / f"{model}.parquet", perplexity.DOCUMENT_SCORES, table)
    return paths


def gathered(*files, **named):
    return measures.gather_measures(measures.RelatedFiles(*files, **named), OPTIONS)


def drawn_bits(seed=1, **shift):
    random = np.random.default_rng(seed)
    shared = random.normal(200, 30, DOCUMENTS)
    return {m: shared + s + random.normal(0, 5, DOCUMENTS) for m, s in shift.items()}


def tendency(source, **changed):
    row = {"source": source, "tendency": "length", "measure": "ks"}
    row |= {"value": 0.3, "high": 0.4, "excess": 0.2, **changed}
    return dict.fromkeys(tendencies.TENDENCY_MEASURES.names) | row


def write_tendencies(folder, rows):
    table = pa.Table.from_pylist(rows, tendencies.TENDENCY_MEASURES)
    return write(folder / "measures.parquet", tendencies.TENDENCY_MEASURES, table)


def write_contrasts(folder, losses, *, sentence_level=()):
    """Write documents of 10 words that lose so much a word at level .1, and twice that at .3."""
    paths = []
    for model, lost in losses.items():
        rows = []
        for unit in range(DOCUMENTS):
            for level, share in ((0.0, 0.0), (0.1, 1.0), (0.3, 2.0)):
                row = dict.fromkeys(contrastive.CONTRAST_SCORES.names, 0)
                row |= {"parts": None, "part_events": None}
                row |= {"unit_id": unit, "group": None, "level": level, "words": 10}
                row |= {"sentences": 1, "sentence_level": model in sentence_level}
                row |= {"log_score": -50.0 - 10 * lost * share}
                rows.append(row)
        table = pa.Table.from_pylist(rows, contrastive.CONTRAST_SCORES)
        paths += write(folder / model / "00000-00000.parquet", contrastive.CONTRAST_SCORES, table)
    return paths


def by_place(found):
    return {(row["model"], row["decoding"], row["measure"]): row for row in found.rows}


def test_bits_count_ends_and_spellings_and_contrastive_entropy_is_of_likelihoods(tmp_path):
    bits = drawn_bits(a=0, b=10)
    sums, others = readers.perplexity_sums(write_documents(tmp_path, bits))
    assert others == []
    expected = [own.sum() / (100 * DOCUMENTS) for own in bits.values()]
    assert (sums.values(ONES)[0], sums.models) == (pytest.approx(expected), ["a", "b"])
    spelled = -300 * math.log(2)
    sums, _ = readers.perplexity_sums(write_documents(tmp_path, drawn_bits(a=0), spelled=spelled))
    assert sums.values(ONES)[0] == pytest.approx([3.0])
    paths = write_contrasts(tmp_path, {"a": 1.0, "s": 7.0}, sentence_level=("s",))
    (entropy,) = readers.contrast_sums(paths, 0.3)
    assert (entropy.measure, entropy.models) == ("contrastive/entropy", ["a"])
    assert entropy.values(ONES)[0] == pytest.approx([2.0])
    check_refused(r"was not distorted at level 0\.7", readers.contrast_sums, paths, 0.7)


def test_models_of_another_text_or_infinite_are_named_and_other_documents_are_refused(tmp_path):
    paths = write_documents(tmp_path, drawn_bits(a=0, b=5))
    paths += write_documents(tmp_path, drawn_bits(c=0), text="raw")
    found = gathered(perplexities=paths)
    row = by_place(found)["c", None, PERPLEXITY]
    assert row["value"] is None
    assert row["note"] == "is not scored on the text that the others are scored on"
    assert found.sums[PERPLEXITY].models == ["a", "b"]
    paths = write_documents(tmp_path, drawn_bits(a=0))
    paths += write_documents(tmp_path, {"b": np.full(7, 200.0)})
    check_refused("b: was scored on other documents than a", readers.perplexity_sums, paths)
    bits = drawn_bits(a=0, b=0)
    bits["b"][3] = math.inf
    found = gathered(perplexities=write_documents(tmp_path, bits))
    assert by_place(found)["b", None, PERPLEXITY]["value"] == math.inf
    assert by_place(found)["b", None, PERPLEXITY]["error"] is None
    missed = np.isfinite(found.draws[PERPLEXITY][:, 1]).mean()
    assert missed == pytest.approx((1 - 1 / DOCUMENTS) ** DOCUMENTS, abs=0.1)  # without document 3


def test_semantic_measures_are_of_predictions_and_tendencies_are_excesses(tmp_path):
    paths = write_scores(tmp_path, {"a": 0.0, "b": 0.5}, sentences())
    found = {one.measure: one for one in readers.semantic_sums(paths, "test")}
    words, glove = ("bleu_2", "bleu_4", "accuracy"), ("wmd", "greedy_f1", "average")
    names = {"words": words, "glove": glove, "infersent": ("similarity", "head")}
    assert set(found) == {f"semantics/{one}.{n}" for one, held in names.items() for n in held}
    scores = pq.read_table(paths[0]).to_pandas()
    own = scores[(scores["split"] == "test") & (scores["kind"] == "predicted")]
    counts = np.sum(own.loc[own["measure"] == "bleu_2", "statistics"].tolist(), axis=0)
    bleu = found["semantics/words.bleu_2"]
    value = bleu.values(np.ones((1, len(bleu.groups))))[0, 0]
    assert value == pytest.approx(float(bleu_of(counts, 2)))
    rows = [
        *(tendency("lstm/beam"), tendency("lstm/nucleus", high=1.0)),
        *(tendency("external/mine", excess=None), tendency("lstm/beam", measure="mean")),
        tendency("lstm/beam", tendency="vocabulary"),
    ]
    found = list(readers.tendency_rows(write_tendencies(tmp_path, rows), 0.95))
    places = [(row["model"], row["decoding"]) for row in found]
    assert places == [("lstm", "beam"), ("lstm", "nucleus"), ("external/mine", None)]
    assert (found[0]["value"], found[0]["error"]) == (0.2, pytest.approx(0.1 / norm.ppf(0.95)))
    assert found[1]["error"] is None  # a limit of 1 is one by definition
    # A limit is of all documents, and that of vectors is none of a standard error.
    rows = [
        tendency("lstm/beam", value_all=0.25),
        tendency("a/x", tendency="embedding", measure="mmd"),
    ]
    rows += [{**rows[1], "measure": "standard_error", "value": 0.07, "high": None}]
    other = list(readers.tendency_rows(write_tendencies(tmp_path, rows), 0.95))
    assert [row["error"] for row in other] == [pytest.approx(0.15 / norm.ppf(0.95)), 0.07]
    assert (found[2]["value"], found[2]["note"]) == (None, "the distance has no baseline")


def ratio_of(measure, numerators, groups):
    ones = np.ones_like(numerators)
    models = [f"m{k}" for k in range(numerators.shape[1])]
    return DocumentSums(measure, "x", measure, True, models, groups, numerators, ones)


def test_resamples_vary_as_the_mean_does_are_shared_and_of_the_documents_there_are():
    """Oracle: the standard error s/√n of a mean; the same numbers give the same draws."""
    random = np.random.default_rng(2)
    groups = np.sort(random.integers(0, 2**60, 400))
    one = random.normal(size=(400, 2))
    held = [ratio_of("one", one, groups), ratio_of("two", one[:, ::-1], groups)]
    drawn = readers.resampled_values(held, 2_000, 3)
    expected = one.std(axis=0) / math.sqrt(400)
    assert drawn["one"].std(axis=0) == pytest.approx(expected, rel=0.06)
    assert np.array_equal(drawn["one"], drawn["two"][:, ::-1])
    assert np.array_equal(readers.resampled_values(held[:1], 2_000, 3)["one"], drawn["one"])
    groups = np.arange(100)
    full = ratio_of("full", np.arange(100.0)[:, None], groups)
    part = ratio_of("part", np.arange(0, 100.0, 2)[:, None], groups[::2])
    drawn = readers.resampled_values([full, part], 500, 1)
    assert drawn["part"].mean() == pytest.approx(49, abs=1)
    assert np.corrcoef(drawn["full"][:, 0], drawn["part"][:, 0])[0, 1] > 0.5


def related(values, direction=1):
    return [
        {"model": m, "decoding": d, "measure": k, "value": v, "direction": direction}
        | {"model_family": m.partition("-")[0]}
        for (m, d, k), v in values.items()
    ]


def correlated(rows):
    found = measures.correlate_ranks(rows).to_pylist()
    return {(row["first"], row["second"], row["scope"]): row for row in found}


def test_a_measure_of_the_model_stands_in_all_of_its_rows():
    """Oracle: SciPy over the six rows, and the mean over both decodings."""
    random = np.random.default_rng(4)
    models = "abc"
    own = dict(zip(models, [1.0, 3.0, 2.0], strict=True))
    texts = {(m, d): random.normal() for m in models for d in ("x", "y")}
    values = {(m, None, "p"): v for m, v in own.items()}
    values |= {(m, d, "t"): v for (m, d), v in texts.items()}
    found = correlated(related(values))
    over = spearmanr([own[m] for m, _ in texts], [*texts.values()]).statistic
    assert found["p", "t", measures.OVER_ROWS]["value"] == pytest.approx(over)
    each = [spearmanr([1, 3, 2], [texts[m, d] for m in models]).statistic for d in ("x", "y")]
    assert found["p", "t", measures.WITHIN_DECODINGS]["value"] == pytest.approx(np.mean(each))
    over = found["p", "t", measures.OVER_ROWS]
    assert (over["rows"], over["models"]) == (6, 3)


def test_measures_of_models_alone_count_each_model_once_and_external_texts_are_rows():
    values = {(m, None, k): v for k in "pq" for m, v in zip("abcde", range(5), strict=True)}
    values |= {(m, d, "t"): 1.0 * k for k, m in enumerate("ab") for d in ("x", "y", "z")}
    found = correlated(related(values))["p", "q", measures.OVER_ROWS]
    assert (found["rows"], found["models"], found["value"]) == (5, 5, pytest.approx(1))
    assert found["low"] > 0
    rows = related({(m, None, "p"): v for m, v in zip("abc", [1, 2, math.inf], strict=True)}, -1)
    rows += related({(m, None, "q"): v for m, v in zip("abc", [3, 2, 1], strict=True)})
    assert correlated(rows)["p", "q", measures.OVER_ROWS]["value"] == pytest.approx(1)
    names = ["external/one", "external/two", "external/three"]
    rows = related({(m, None, k): float(v) for k in "st" for v, m in enumerate(names)})
    rows += related({("a", "x", "s"): 5.0, ("a", "x", "t"): 4.0})
    found = correlated(rows)["s", "t", measures.OVER_ROWS]
    assert (found["rows"], found["models"]) == (4, 4)


def test_rows_that_share_models_count_as_models():
    """Three decodings say the same of six models; rows as if independent would hold about 75%."""
    random = np.random.default_rng(5)
    inside = naive = 0
    for _ in range(400):
        first, second = random.normal(size=(2, 6))
        values = {(f"m{k}", d, "s"): first[k] for k in range(6) for d in "xyz"}
        values |= {(f"m{k}", d, "t"): second[k] for k in range(6) for d in "xyz"}
        row = correlated(related(values))["s", "t", measures.OVER_ROWS]
        inside += row["low"] <= 0 <= row["high"]
        half = 1.96 * math.sqrt((1 + row["value"] ** 2 / 2) / (18 - 3))
        naive += abs(math.atanh(min(abs(row["value"]), 1 - 1e-9))) <= half
    assert inside >= 0.94 * 400
    assert naive < 0.85 * 400


def test_siblings_are_one_model():
    """Two orders of six models that say the same are six; as twelve they hold 0 too rarely."""
    random = np.random.default_rng(6)
    inside = naive = 0
    for _ in range(400):
        first, second = np.repeat(random.normal(size=(2, 6)), 2, axis=1)
        values = {(f"m{k // 2}-{k % 2}", None, "s"): first[k] for k in range(12)}
        values |= {(f"m{k // 2}-{k % 2}", None, "t"): second[k] for k in range(12)}
        row = correlated(related(values))["s", "t", measures.OVER_ROWS]
        assert (row["models"], row["families"]) == (12, 6)
        inside += row["low"] <= 0 <= row["high"]
        low, high = few_items_interval(row["value"], 12, ranks=True)
        naive += low <= 0 <= high
    assert inside >= 0.94 * 400
    assert naive < 0.85 * 400


def test_the_largest_of_some_correlations_has_an_interval_of_the_choice():
    """Of 22 correlations of 9 models that are all 0, the largest one's interval holds 0."""
    random = np.random.default_rng(7)
    inside = naive = 0
    for _ in range(300):
        ranks = average_ranks(random.normal(size=(9, 23)))
        found = correlation_matrix(ranks)[0, 1:]
        most = float(found[np.argmax(np.abs(found))])
        low, high = few_items_interval(most, 9, ranks=True, of=22)
        inside += low <= 0 <= high
        low, high = few_items_interval(most, 9, ranks=True)
        naive += low <= 0 <= high
    assert inside >= 0.94 * 300
    assert naive < 0.6 * 300


def orders(found):
    rows = measures.compare_orders(found).to_pylist()
    return {(r["measure"], r["decoding"], r["first"], r["second"]): r for r in rows}


def test_an_order_that_differs_is_tested(tmp_path):
    """Oracle: shares of the same resamples, counted here; Student's t of the known error."""
    bits = write_documents(tmp_path / "p", drawn_bits(a=0, b=1.0, c=40))
    contrasts = write_contrasts(tmp_path / "c", {"a": 1.0, "b": 2.0, "c": 0.5})
    found = gathered(bits, contrasts=contrasts)
    rows = orders(found)
    bits = found.draws[PERPLEXITY]
    row = rows["contrastive/entropy", None, "a", "b"]
    assert row["differs"]
    assert row["perplexity_difference"] > 0
    assert row["difference"] == pytest.approx(2.0)  # twice the loss at level .3
    drawn = bits[:, 1] - bits[:, 0]
    assert row["share"] == np.mean(drawn > 0)  # all documents lose the same
    assert 0.5 < row["share"] < 1
    z = row["perplexity_difference"] / np.std(drawn, ddof=1)
    assert row["p_value"] == pytest.approx(2 * t.sf(z, DOCUMENTS - 1))
    assert row["p_adjusted"] == pytest.approx(min(1, 3 * row["p_value"]))
    other = rows["contrastive/entropy", None, "a", "c"]
    assert (other["differs"], other["p_value"], other["p_adjusted"]) == (False, 1, 1)
    assert rows["contrastive/entropy", None, "b", "c"]["share"] == 1


@pytest.mark.parametrize("equal", [0, 1])
def test_orders_that_agree_or_tie_in_truth_are_found_to_differ_at_the_level(equal):
    """Two measures of the same documents that depend on each other; one difference may be large."""
    random = np.random.default_rng(8 + equal)
    found = []
    for _ in range(1_000):
        x = random.normal(size=(60, 2)) @ [[1, 0.8], [0, 0.6]] + [0, 0.6 * equal]
        values, errors = x.mean(axis=0), x.std(axis=0, ddof=1) / math.sqrt(60)
        p = [measures._p_value(*both, 60) for both in zip(values, errors, strict=True)]
        found.append(max(p) <= 0.05 and values[0] < 0 < values[1])
    assert np.mean(found) <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 1_000)


def test_joint_shares_are_of_the_same_documents_and_few_groups_have_no_order(tmp_path):
    """A measure that is perplexity itself is right just when perplexity is: no product."""
    paths = write_documents(tmp_path, drawn_bits(a=0, b=0.5))
    found = gathered(perplexities=paths)
    twin = found.sums[PERPLEXITY]
    sums = {**found.sums, "twin": replace(twin, measure="twin", subject="x", title="Twin")}
    draws = {**found.draws, "twin": found.draws[PERPLEXITY]}
    (row,) = measures.compare_orders(measures.RelatedMeasures(found.rows, sums, draws)).to_pylist()
    assert not row["differs"]
    bits = found.draws[PERPLEXITY]
    assert row["share"] == np.mean(bits[:, 1] > bits[:, 0]) < 1
    bits = drawn_bits(a=0, b=10, c=20)
    bits["c"][0] = math.inf
    contrasts = write_contrasts(tmp_path / "c", {"a": 1.0, "b": 2.0, "c": 3.0})
    many = gathered(write_documents(tmp_path / "p", bits), contrasts=contrasts)
    assert {key[2:] for key in orders(many)} == {("a", "b")}
    pages = [f"page {k % 10}" for k in range(DOCUMENTS)]
    few = write_documents(tmp_path / "q", drawn_bits(a=0, b=10), group=pages)
    found = orders(gathered(few, contrasts=contrasts))
    row = found["contrastive/entropy", None, "a", "b"]
    assert (row["share"], row["p_value"], row["p_adjusted"]) == (None, None, None)
    assert row["note"].startswith("fewer than 20 effective groups")


def test_the_order_of_texts_is_from_their_errors_whatever_is_added(tmp_path):
    """Oracle: the normal p-value of a difference of two independent excesses."""
    rows = [tendency("a/x", excess=0.3), tendency("b/x", excess=0.2, high=0.5)]
    rows += [tendency("a/y", excess=0.1, high=None), tendency("b/y", excess=0.2)]
    bits = write_documents(tmp_path, drawn_bits(a=0, b=30))
    found = orders(gathered(bits, write_tendencies(tmp_path, rows)))
    row = found["tendencies/length.ks", "x", "a", "b"]
    error = math.hypot(0.1, 0.2) / norm.ppf(0.95)
    assert row["p_value"] == pytest.approx(2 * norm.sf(0.1 / error))
    assert (row["differs"], row["share"]) == (True, None)
    other = found["tendencies/length.ks", "y", "a", "b"]
    assert (other["differs"], other["p_value"]) == (False, None)
    assert other["note"] == "the measure has no standard error"
    bits = drawn_bits(a=0, b=5, c=9)
    contrasts = {"a": 1.0, "b": 2.0, "c": 1.5}
    both = []
    for names in ("ab", "abc"):
        scored = write_documents(tmp_path / names / "p", {n: bits[n] for n in names})
        lost = write_contrasts(tmp_path / names / "c", {n: contrasts[n] for n in names})
        found = orders(gathered(scored, contrasts=lost))
        own = {key: row for key, row in found.items() if key[2:] == ("a", "b")}
        both.append([row.pop("p_adjusted") and row for row in own.values()])
    assert both[0] == both[1]
    found = gathered()
    assert (found.table().num_rows, measures.compare_orders(found).num_rows) == (0, 0)
    assert measures.correlate_ranks(found.rows).num_rows == 0

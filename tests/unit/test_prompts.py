"""Answers to the same prompts: what is permuted, drawn, cut, said and refused.

Oracles: SciPy's permutation test with all swaps and paired t, all labels enumerated, sums over
pairs of prompts by loops, answers of one law (halves, a text and itself), and other formats.
"""

import itertools
import json
import math
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
import transformers
from scipy import stats

import beyond_perplexity
from benchmarks.calibration import rates
from benchmarks.levels import ANY
from benchmarks.populations import Topics
from benchmarks.prompts import WORDS as PROMPT_WORDS
from benchmarks.prompts import Answered, shorter
from beyond_perplexity.corpus.normalization import Preprocessing
from beyond_perplexity.decoding.generation import cut_prompts, generate, written_behind
from beyond_perplexity.decoding.options import parse_decoding
from beyond_perplexity.errors import InputError
from beyond_perplexity.inference import answers_of, ks_distance, mean_difference, permutation_test
from beyond_perplexity.inference.held_out import combine_pairs
from beyond_perplexity.inference.prompts import PromptHalving, Prompts, paired_t, shortest
from beyond_perplexity.models.huggingface_bring import bring
from beyond_perplexity.models.registry import save_model
from beyond_perplexity.report import TABLES
from beyond_perplexity.schemas.tendencies import TENDENCY_MEASURES
from beyond_perplexity.storage.shards import check_schema
from beyond_perplexity.tendencies.discrepancy import gaussian_kernel, paired_square
from beyond_perplexity.tendencies.embedded_documents import EmbeddedPair, EmbeddedText
from beyond_perplexity.tendencies.embedding_measures import randomized_distances, rows_of_pair
from beyond_perplexity.tendencies.measurement_options import MeasurementOptions, SensitivityOptions
from beyond_perplexity.vocabulary import BOS, EOS, ClosedVocabulary
from scripts import continue_prompts as script
from tests.unit import huggingface_models, planned, small_models, text_pairs, threads
from tests.unit.small_corpora import write_documents

WITHOUT: Any = (None, None)


def ks(x: np.ndarray, y: np.ndarray) -> float:
    support = np.union1d(x, y)
    cells = [np.searchsorted(np.sort(own), support, side="right") / len(own) for own in (x, y)]
    return float(np.abs(cells[0] - cells[1]).max())


def pairs(n: int) -> Prompts:
    return answers_of((np.arange(n), np.arange(n)), WITHOUT, 0).prompts


@pytest.mark.parametrize("ties", [False, True])
def test_swaps_of_pairs_are_those_of_scipy(ties) -> None:
    rng = np.random.default_rng(int(ties))
    x, y = rng.normal(size=9), rng.normal(0.8, size=9)
    if ties:
        x, y = np.round(x), np.round(y)
    everything = {"permutation_type": "samples", "n_resamples": np.inf, "alternative": "greater"}
    for statistic, own, two_sided in (
        (ks_distance, ks, False),
        (mean_difference, lambda a, b: abs(stats.ttest_rel(b, a).statistic), True),
    ):
        exact = stats.permutation_test((x, y), own, vectorized=False, **everything)
        found = permutation_test(
            x, y, groups=pairs(9), statistic=statistic, two_sided=two_sided, permutations=7_999
        )
        assert found.scheme == "prompts"
        assert found.p_value == pytest.approx(exact.pvalue, abs=0.02)
        drawn = np.unique(np.abs(found.null).round(9))
        assert set(drawn) <= set(np.unique(exact.null_distribution).round(9))


def test_all_labels_of_a_prompt_with_several_answers_are_permuted() -> None:
    rng = np.random.default_rng(1)
    codes = np.repeat(np.arange(5), 2), np.tile(np.arange(5), 2)
    x, y = np.round(rng.normal(size=10)), np.round(rng.normal(0.8, size=10))
    kept, prompts, _ = answers_of(codes, WITHOUT, 0)
    assert np.concatenate(kept).all()
    found = permutation_test(x, y, groups=prompts, permutations=20_000)
    pooled, own = np.concatenate([x, y]), np.concatenate(codes)
    sides = [list(itertools.combinations(np.flatnonzero(own == k), 2)) for k in range(5)]
    firsts = (np.concatenate(chosen) for chosen in itertools.product(*sides))
    exact = [ks(pooled[first], np.delete(pooled, first)) for first in firsts]
    assert found.statistic == pytest.approx(ks(x, y))
    share = np.mean(np.array(exact) >= found.statistic - 1e-12)
    assert found.p_value == pytest.approx(share, abs=0.02)
    assert sorted(np.unique(found.null.round(9))) == sorted(np.unique(np.round(exact, 9)))
    units = prompts.permuted(of_words=False)
    labels = np.concatenate(list(units.labels(64, 0)), axis=1)
    of_prompt = np.concatenate([prompts.units, prompts.units])
    for prompt in range(5):
        assert (labels[of_prompt == prompt].sum(axis=0) == 2).all()
    words = np.concatenate(list(prompts.permuted(of_words=True).labels(64, 0)), axis=1)
    assert (words[:10] != words[10:]).all()  # pairs are swapped


def test_t_is_that_of_pairs_and_a_shift_of_all_alike_is_the_least_likely() -> None:
    rng = np.random.default_rng(2)
    x = rng.normal(size=30)
    y = x + rng.normal(0.2, 0.5, size=30)
    both = pairs(30)
    found = permutation_test(x, y, groups=both, statistic=mean_difference, two_sided=True)
    assert found.p_value == pytest.approx(stats.ttest_rel(x, y).pvalue, abs=0.02)
    found = permutation_test(x, x + 1, groups=both, statistic=mean_difference, two_sided=True)
    assert found.p_value == 1 / 2000


def test_as_many_answers_of_both_are_drawn_and_groups_take_one_each() -> None:
    rng = np.random.default_rng(3)
    codes = rng.integers(12, size=40), rng.integers(2, 14, size=25)
    kept, prompts, counts = answers_of(codes, WITHOUT, 5)
    n = np.minimum(*(np.bincount(own, minlength=14) for own in codes))
    assert counts.min(axis=0).tolist() == n.tolist()
    for own, chosen, of_pairs in zip(codes, kept, prompts.pairs, strict=True):
        assert np.bincount(own[chosen], minlength=14).tolist() == n.tolist()
        assert sorted(of_pairs) == list(range(n.sum()))
    first, second = (own[chosen] for own, chosen in zip(codes, kept, strict=True))
    assert (first[np.argsort(prompts.pairs[0])] == second[np.argsort(prompts.pairs[1])]).all()
    again = answers_of(codes, WITHOUT, 5)
    assert all(map(np.array_equal, kept, again.kept))
    single = np.arange(6), np.arange(6)[::-1]
    authors = np.array([7, 7, 9, 9, 9, 7])
    _, of_authors, _ = answers_of(single, (authors[single[0]], None), 0)
    units = of_authors.permuted(of_words=False)
    assert (units.scheme, units.n) == ("prompts", (2, 2))
    labels = next(iter(units.labels(8, 0)))
    by_prompt = labels[units.codes[0]][np.argsort(single[0])]
    assert (by_prompt[[0, 1, 5]] == by_prompt[0]).all()
    assert (by_prompt[2:5] == by_prompt[2]).all()
    with pytest.raises(ValueError, match="1 prompts have several answers"):
        answers_of((np.array([0, 0]), np.array([0, 0])), (np.zeros(2, int), None), 0)
    with pytest.raises(ValueError, match="1 prompts are of two groups"):
        answers_of((np.array([0]), np.array([0])), (np.array([1]), np.array([2])), 0)


def test_parts_of_pairs_and_halves_are_of_the_same_prompts() -> None:
    lengths = np.array([9, 4, 1, 7]), np.array([5, 8, 3, 1])
    first, second = shortest((np.array([0, 1, 2, 3]), np.array([1, 0, 3, 2])), lengths)
    assert (first.tolist(), second.tolist()) == ([7, 3, 1, 2], [3, 7, 2, 1])
    human, model = np.repeat(np.arange(25), 4), np.repeat(np.arange(2, 27), 1)
    halving = PromptHalving((human, model), (100, 25), 0)
    assert halving.is_possible
    (one, other, cut), _ = halving.parts(0)
    assert not set(one) & set(other)
    assert sorted(human[one]) == sorted(human[other]) == sorted(model[cut])
    assert not PromptHalving((human[:76], model), (76, 25), 0).is_possible


def test_held_out_error_and_unbiased_distance_of_pairs() -> None:
    rng = np.random.default_rng(4)
    y, n = rng.integers(0, 20, 40), rng.integers(0, 20, 40)
    twenty = np.full(40, 20)
    e, error, df = combine_pairs(y, twenty, n, twenty)
    expected = stats.ttest_rel(y / 20, n / 20)
    assert (e / error, df) == (pytest.approx(expected.statistic), pytest.approx(expected.df))
    vectors = rng.normal(size=(24, 3)) + np.tile(rng.normal(size=(12, 3)), (2, 1))
    kernel, codes = gaussian_kernel(vectors, 2.0), np.tile(np.arange(12), 2)
    found = paired_square(kernel, 12, codes)
    x, y = kernel[:12, :12], kernel[12:, 12:]
    across = kernel[:12, 12:]
    different = [(i, j) for i in range(12) for j in range(12) if i != j]
    h = np.mean([x[i, j] + y[i, j] - across[i, j] - across[j, i] for i, j in different])
    assert found.value == pytest.approx(h)
    both = np.concatenate([np.ones(12), -np.ones(12)]) / 12
    assert found.plug_in == pytest.approx(both @ kernel @ both)


HOW: Any = {"tokenized": True, "permutations": 199, "bootstrap": 20, "seed": 3}
compared = partial(beyond_perplexity.compare, **HOW)
WORDS = [f"w{k}" for k in range(80)] + ["the", "of", "a", ",", ".", "1"]


def answers(n: int, people: int = 1, models: int = 1, other: float = 0.0) -> list[dict[str, Any]]:
    """Prompts whose answers are of few words of their own; a share of a model's are another."""
    rng, rows = np.random.default_rng(20), list[dict[str, Any]]()
    for number in range(n):
        law = rng.gamma(0.3, size=len(WORDS))
        given: tuple[list[str], list[str]] = [], []
        for k in range(people + models):
            words = rng.choice(WORDS, rng.integers(8, 30), p=law / law.sum())
            words[rng.random(len(words)) < (other if k >= people else 0)] = "delve"
            given[k >= people].append(" ".join(words))
        both = [held[0] if len(held) == 1 else held for held in given]
        rows.append({"prompt": f"question {number}", "human": both[0], "model": both[1]})
    return rows


def write(path: Path, rows: list[dict[str, Any]]) -> str:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return str(path)


def number(table: pd.DataFrame, tendency: str, measure: str, column: str = "p_value") -> Any:
    chosen = (table["tendency"] == tendency) & (table["measure"] == measure)
    return table.loc[chosen, column].item()


def test_pairs_in_files_and_memory_say_the_same_and_find_what_was_planted(tmp_path) -> None:
    rows = answers(60, other=0.12)
    found = compared(pairs=write(tmp_path / "a.jsonl", rows), out=tmp_path / "out")
    table = found.table
    pq_file, frame = tmp_path / "a.parquet", pd.DataFrame(rows)
    frame.to_parquet(pq_file)
    frame.to_csv(tmp_path / "a.csv", index=False)
    sides = [
        [{"prompt": row["prompt"], "text": row[side]} for row in rows]
        for side in ("human", "model")
    ]
    files = [write(tmp_path / f"{k}.jsonl", held) for k, held in enumerate(sides)]
    for other in (
        compared(pairs=pq_file, prompt="prompt"),
        compared(pairs=iter(rows)),
        compared(pairs=[{"of": [row], **row} for row in rows], human="of.0.human"),
        compared(pairs=tmp_path / "a.csv"),
        compared(pairs=pa.Table.from_pandas(frame)),
        compared(*files, prompt="prompt"),
        compared(pd.DataFrame(sides[0]), sides[1], prompt="prompt"),
    ):
        pd.testing.assert_frame_equal(other.table, table)
    assert number(table, "unigram", "max_difference", "p_adjusted") < 0.05
    assert number(table, "length", "ks") > 0.05
    assert set(table["permuted"].dropna()) == {"prompts"}
    assert "baseline:labels" in found.summary["signature"]
    page = (tmp_path / "out" / "compare.html").read_text(encoding="utf-8")
    assert "Labels permuted" in page
    assert "60 answers of either text to 60 prompts" in page
    mean, low, high = (
        number(table, "unigram", "max_difference", name)
        for name in ("baseline", "baseline_low", "baseline_high")
    )
    assert low <= mean <= high < number(table, "unigram", "max_difference", "value")


def test_a_text_against_itself_and_two_people(tmp_path) -> None:
    same = [{**row, "model": row["human"]} for row in answers(40)]
    table = compared(pairs=same).table
    assert set(table.loc[table["p_value"].notna(), "p_value"]) == {1.0}
    found = compared(pairs=answers(150, people=3), permutations=19, bootstrap=0)
    assert "baseline:people" in found.summary["signature"]
    # Of answers of one law the excess is 0 but for chance, and what is shown is of half of them.
    table = found.table
    for tendency, measure in (("length", "ks"), ("unigram", "tvd")):
        value, baseline, low, high, every = (
            number(table, tendency, measure, name)
            for name in ("value", "baseline", "baseline_low", "baseline_high", "value_all")
        )
        assert low <= value <= high
        assert value == pytest.approx(baseline, rel=0.2)
        assert not math.isnan(every)
    told = {(one["file"], one["unit"]): one["left_out"] for one in found.files}
    assert told["pairs: human", "documents"] == {"with no answer of the other side beside it": 300}
    assert "300 more in pairs: human, drawn at random, are left out" in found.summary["permuted"]


def test_what_is_left_out_is_counted_and_said(tmp_path, capsys) -> None:
    rows = answers(45)
    del rows[0]["model"]  # as null is: this prompt has one side only
    rows[1]["human"], rows[2]["human"], rows[3]["model"] = [], "", "   "
    rows += [{"prompt": rows[9]["prompt"], "human": "w1 w2 w3", "model": "w2 w3"}]
    name = write(tmp_path / "a.jsonl", rows)
    found = compared(pairs=name)
    told = {(one["file"], one["unit"]): one["left_out"] for one in found.files}
    human, model = f"{name}: human", f"{name}: model"
    assert told[human, "rows"] == {"without an answer": 1}
    assert told[human, "documents"] == {
        "without a token": 1,
        "with no answer of the other side beside it": 2,
    }
    assert told[f"{human}, {model}", "prompts"] == {
        f"without an answer in {human}": 2,
        f"without an answer in {model}": 2,
    }
    assert f"note: {human}: 1 rows repeat a prompt" in capsys.readouterr().err
    assert "42 answers of either text to 41 prompts" in found.summary["permuted"]
    few = compared(pairs=rows[10:29]).table
    assert few["p_value"].isna().all()
    assert few["reason"].dropna().str.contains("few_prompts").sum() >= 8


@pytest.mark.parametrize(
    ("rows", "how", "said"),
    [
        ([{"human": "a", "model": "b"}], {}, "line 1: unusable row (field 'prompt' is missing"),
        ([{"prompt": "x", "human": "a"}], {}, "field 'model' is missing; there are 'prompt'"),
        ([{"prompt": None, "human": "a", "model": "b"}], {}, "field 'prompt' is null"),
        ([{"prompt": "x", "human": 3, "model": "b"}], {}, "no string and no list of strings"),
        (["text"], {}, "line 1: unusable row (no object with the fields"),
        ([{"prompt": "x", "human": "a", "model": None}], {}, "is empty; give at least one"),
        (
            [
                {"prompt": "x", "human": "a", "model": None},
                {"prompt": 1, "human": [], "model": "b"},
            ],
            {},
            "no prompt has an answer in both",
        ),
        (answers(3, 2, 2), {"group_column": "prompt"}, "3 prompts have several answers"),
        (answers(3), {"group_column": "author"}, "'author', which names the group, is missing"),
        (answers(3), {"reference": "b.txt"}, "pairs: hold both texts"),
        (answers(3), {"group_size": 3}, "group size: has no effect on answers to prompts"),
    ],
)
def test_bad_pairs_are_one_clear_line(tmp_path, rows, how, said) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    with pytest.raises(InputError) as error:
        compared(pairs=path, **how)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_texts_or_pairs_must_be_given(tmp_path) -> None:
    with pytest.raises(InputError, match="reference, samples: give both, or pairs"):
        compared(reference="a.txt")
    with pytest.raises(InputError, match="human: has no effect without pairs"):
        compared("a.txt", "b.txt", human="people")
    path = tmp_path / "a.txt"
    path.write_text("w1 w2\n", encoding="utf-8")
    with pytest.raises(InputError, match="has no rows with a field 'prompt'"):
        compared(path, path, prompt="prompt")


def test_models_go_on_from_prompts_as_their_own_tokens() -> None:
    """Oracles: greedy tokens of the parallel pass; documents without a prompt; other batches."""
    words = ClosedVocabulary([f"w{k}" for k in range(27)], 0)
    prompts = ["w1 w2 w3", "w4", "", "w5 w6 unknown w7 w8", "w9 w10"]
    draw = partial(written_behind, vocabulary=words, purpose="t", maximum_length=12, seed=1)
    for family in ("gru", "transformer"):
        model = small_models.make(family, size=words.size, noise=0.3)
        greedy = parse_decoding({"kind": "top_k", "k": 1})
        found = draw(model, options=greedy, prompts=prompts)
        for prompt, text in zip(prompts, found, strict=True):
            ids = [BOS, *words.encode([prompt])[0].tolist()]
            with torch.inference_mode():
                while len(ids) <= 12 and ids[-1] != EOS:
                    ids.append(int(model(torch.tensor([ids]))[0, -1].argmax()))
            assert text == words.decode([np.array(ids[1 + len(prompt.split()) :])])[0]
        ancestral = parse_decoding({"kind": "ancestral"})
        every = draw(model, options=ancestral, prompts=prompts * 40)
        whole = generate(model, ancestral, seed=1, purpose="t", first=0, count=3, maximum_length=12)
        assert every[2] == words.decode([list(whole)[2].tokens])[0]
        assert every[:5] == draw(model, options=ancestral, prompts=prompts)
    with pytest.raises(InputError, match="draws whole documents"):
        draw(model, options=parse_decoding({"kind": "beam", "size": 2}), prompts=prompts)
    with pytest.raises(InputError, match="maximum length: is 12, but a prompt has 13 tokens"):
        draw(model, options=ancestral, prompts=["w1 " * 13])
    assert cut_prompts(["a b c", "d e"], 2, words) == (["a b", "d e"], ["c", ""])


def test_hugging_face_models_go_on_as_transformers_does(tmp_path) -> None:
    huggingface_models.make_gpt2(tmp_path, seed=0)
    model, words, *_ = bring({"path": str(tmp_path)}, {"language": "en", "lower_case": True})
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    prompts, human = cut_prompts(["The cat, sat on It.", "A dog is HERE (now)"], 3, words)
    assert (prompts, human) == (["The cat, sat", "A dog is"], ["on it .", "here ( now )"])
    found = written_behind(
        model,
        words,
        parse_decoding({"kind": "top_k", "k": 1}),
        prompts,
        seed=0,
        purpose="t",
        maximum_length=20,
    )
    for prompt, text in zip(prompts, found, strict=True):
        given = [words.special_ids[0], *tokenizer(prompt, add_special_tokens=False)["input_ids"]]
        more = 21 - len(given)
        ids = theirs.generate(torch.tensor([given]), do_sample=False, max_new_tokens=more)[0]
        made = tokenizer.decode(ids[len(given) :], skip_special_tokens=True)
        assert made.strip()
        assert text.split()[:6] == Preprocessing(language="en").apply([made])[0].split()[:6]


def test_vectors_are_swapped_within_prompts() -> None:
    """Oracle: SciPy's test with all swaps, of the distance by its definition."""
    rng = np.random.default_rng(6)
    topics = 3 * rng.normal(size=(8, 2))
    x, y = topics + rng.normal(size=(8, 2)), topics + rng.normal(0.7, size=(8, 2))
    both = pairs(8)
    texts = [EmbeddedText(own.astype(np.float32), np.arange(8), 8) for own in (x, y)]
    pair = replace(EmbeddedPair.of(texts[0], texts[1]), prompts=both)

    def distance(a: np.ndarray, b: np.ndarray) -> float:
        kernel = gaussian_kernel(np.concatenate([a, b]).astype(np.float32), pair.bandwidth)
        signs = np.repeat([1 / 8, -1 / 8], 8)
        return float(np.sqrt(signs @ kernel @ signs))

    def by_index(a: np.ndarray, b: np.ndarray) -> float:
        every = np.concatenate([x, y])
        return distance(every[a.astype(int)], every[b.astype(int)])

    exact = stats.permutation_test(
        (np.arange(8.0), np.arange(8.0) + 8),
        by_index,
        permutation_type="samples",
        n_resamples=np.inf,
        vectorized=False,
    )
    drawn = randomized_distances(pair, 4_000, 0)
    assert set(np.unique(drawn.round(9))) <= set(np.unique(exact.null_distribution.round(9)))
    share = np.mean(exact.null_distribution >= exact.statistic - 1e-9)
    assert np.mean(drawn >= exact.statistic - 1e-9) == pytest.approx(share, abs=0.03)
    (indices, fewer) = both.drawn(5, np.random.default_rng(0))
    assert [own.tolist() for own in indices] == [indices[0].tolist()] * 2
    assert (len(fewer.units), len(indices[0])) == (5, 5)
    many = [EmbeddedText(np.tile(t.vectors, (4, 1)), np.arange(32), 32) for t in texts]
    pair = replace(EmbeddedPair.of(many[0], many[1]), prompts=pairs(32))
    options = MeasurementOptions(permutations=99)
    rows = {r.measure: r for r in rows_of_pair(pair, options, SensitivityOptions(pairs=10), 0)}
    assert (rows["mmd"].permuted, rows["mmd"].p_value) == ("prompts", 0.01)
    assert rows["mmd"].fact == "baseline: labels permuted within prompts"
    assert rows["mmd"].low > 0
    # A share of a topic is found that is smaller where answers to a prompt are more alike.
    topics, found = 3 * rng.normal(size=(200, 2)), list[tuple[float, float]]()
    for spread in (0.3, 3.0, 0.0):
        sides = [topics + spread * rng.normal(size=(200, 2)) for _ in range(2)]
        texts = [EmbeddedText(own.astype(np.float32), np.arange(200), 200) for own in sides]
        pair = replace(EmbeddedPair.of(texts[0], texts[1]), prompts=pairs(200))
        how = SensitivityOptions(pairs=40)
        rows = {r.measure: r for r in rows_of_pair(pair, replace(options, permutations=0), how, 0)}
        found.append((rows["minimum_detectable_effect"].value, rows["power_reached"].value))
    assert 0 < found[0][0] < found[1][0] < 1
    assert 0.4 < found[0][1] <= 1
    assert all(map(math.isnan, found[2]))  # both are the same


def test_authors_change_sides_as_a_whole_and_a_vocabulary_restricts_both(tmp_path) -> None:
    rows = [{**row, "author": f"a{k // 3}"} for k, row in enumerate(answers(90, other=0.1))]
    found = compared(pairs=rows, group_column="author")
    assert found.summary["groups"] == (30, 30)
    path = tmp_path / "words.txt"
    path.write_text("\n".join([*WORDS[:40], "delve"]), encoding="utf-8")
    closed = compared(pairs=rows, group_column="author", vocabulary=path)
    raw, read = closed.table_of("raw"), closed.table
    pd.testing.assert_frame_equal(raw, found.table)
    assert number(read, "text", "unknown_share", "value") > 0
    assert number(read, "length", "ks", "value") == number(raw, "length", "ks", "value")
    swapped = [{**row, "author": str(k)} for k, row in enumerate(rows)]  # each its own author
    names = ["value", "p_value", "baseline"]
    alone, plain = (
        compared(pairs=own, group_column=name).table[names]
        for own, name in ((swapped, "author"), (rows, ""))
    )
    pd.testing.assert_frame_equal(alone, plain)


def test_prompts_that_differ_keep_the_level_and_lengths_are_none_of_words() -> None:
    """Oracle: answers of one law, of which the model's stop earlier; by simulation, seeds fixed."""
    topics, key = Topics(n_topics=40, own=60), "rank_frequency ks_empirical"
    case = Answered("test of prompts", topics, 60, model=shorter(0.6), of=PROMPT_WORDS)
    found, whole = (rates("", held, 10) for held in (case, replace(case, cut=False)))
    by_name = [{rate.measure: rate.rate for rate in held} for held in (found, whole)]
    assert max(by_name[0].values()) <= 0.2
    assert by_name[0][ANY] <= 0.1
    assert by_name[1][key] >= 0.8  # what whole answers would say of the same words
    several = Answered("test of prompts", topics, 40, (2, 3))
    stars = [x.rate for x in rates("", several, 10) if x.measure.startswith(ANY)]
    assert len(stars) == 2  # of words and of order
    assert sum(stars) <= 0.1
    long = {rate.measure: rate.rate for rate in rates("", replace(several, longer=8), 10)}
    order = ("repetition ks", "burstiness ks", "compression ks", "recurrence max_difference")
    assert max(long[name] for name in order) <= 0.4


def test_halves_of_people_are_in_random_order() -> None:
    """What is cut to fewer of them is of any prompts: was of those that come first in the file.

    Oracle: the mean number of a prompt, in 5 standard errors.
    """
    codes = np.repeat(np.arange(90), 2), np.arange(90)
    first = []
    for number in range(20):
        parts, _ = PromptHalving(codes, (180, 90), 1).parts(number)
        assert [len(np.unique(part)) for part in parts] == [90, 90, 90]
        first += [codes[k][part[:10]].mean() for k, part in zip((0, 0, 1), parts, strict=True)]
    assert np.mean(first) == pytest.approx(44.5, abs=5 * np.sqrt(90**2 / 12 / 600))


def test_one_prompt_has_no_error() -> None:
    sides = np.array([[[[3.0]], [[1.0]]], [[[4.0]], [[1.0]]]])  # sums and numbers of either
    assert np.isnan(paired_t(sides)).all()


def test_a_run_continues_prompts_where_it_is_asked_to() -> None:
    asked = {"tokens": 8, "models": ["trigram"], "decodings": ["ancestral"]}
    without, run = planned.run_of(), planned.run_of(changes={"generation.prompts": asked})
    assert (without.samples.continued(), run.samples.continued()) == ([], ["trigram/ancestral"])
    (corpus,) = run.samples.compared_corpora()
    measures = ["<results>/prompts/trigram/ancestral/measures.parquet"]
    group, table = f"tendencies/{corpus}", {"exhibit": "prompts"}
    assert run.report.inputs(TABLES, group=group, **table) == {"prompt_measures": measures}
    named = [set(one.report.shown("tables", TABLES)) for one in (without, run)]
    assert len(named[1] - named[0]) == 2
    for key, value, said in (
        ("models", ["nobody"], "generation.prompts.models"),
        ("decodings", ["beam"], "generation.prompts.decodings: 'beam' draws whole documents"),
        ("tokens", 0, "generation.prompts.tokens"),
    ):
        config = planned.load(changes={"generation.prompts": asked | {key: value}})
        config["decodings"]["beam"] = {"kind": "beam", "size": 2}
        assert said in planned.refused(config)


@pytest.mark.parametrize("grouped", [False, True])
def test_a_job_writes_answers_and_measures_of_the_same_prompts(tmp_path, grouped) -> None:
    """Oracles: documents cut by hand, and `compare` of what was written."""
    vocabulary, rng = ClosedVocabulary(WORDS, 3), np.random.default_rng(9)
    model = small_models.make("gru", {"embedding_size": 8, "hidden_size": 8}, vocabulary.size)
    save_model(tmp_path / "model", model, vocabulary, {})
    texts = [" ".join(rng.choice(WORDS, rng.integers(3, 16))) for _ in range(80)]
    titles, splits = [f"page {k // 2}" for k in range(80)], ["test", "train"] * 20 + ["test"] * 40
    documents = write_documents(tmp_path / "documents.parquet", texts, splits, titles)
    answered, measures = tmp_path / "answers.parquet", tmp_path / "measures.parquet"
    flags = {
        "model": tmp_path / "model",
        "documents": documents,
        "tokens": 5,
        "count": 40,
        "decoding": '{"kind": "ancestral"}',
        "name": "m/a",
        "seed": 2,
        "maximum-length": 20,
        "options": '{"permutations": 19, "bootstrap": 0}',
        "device": "cpu",
        "answers": answered,
        "measures": measures,
        "sensitivity": tmp_path / "sensitivity.parquet",
        **({"group-column": "title"} if grouped else {}),
    }
    with threads.set_threads(torch.get_num_threads()):
        given = [part for key, value in flags.items() for part in (f"--{key}", value)]
        text_pairs.run_script(script, *given)
    rows = pd.read_parquet(answered)
    held = [k for k in range(80) if splits[k] == "test" and len(texts[k].split()) > 5][:40]
    assert rows["prompt"].tolist() == [" ".join(texts[k].split()[:5]) for k in held]
    assert rows["human"].tolist() == [" ".join(texts[k].split()[5:]) for k in held]
    groups = [titles[k] if grouped else str(k) for k in held]
    assert rows["group"].tolist() == groups
    how = {"pairs": answered, "permutations": 19, "bootstrap": 0, "seed": 2, "tokenized": True}
    expected = beyond_perplexity.compare(**how, group_column=None if grouped else "").table
    found = pd.read_parquet(measures)
    assert set(found["source"]) == {"m/a"}
    shown = ["tendency", "measure", "value", "p_value", "baseline", "verdict"]
    pd.testing.assert_frame_equal(found[shown], expected[shown], check_dtype=False)
    check_schema(measures, TENDENCY_MEASURES)
    effects = pd.read_parquet(tmp_path / "sensitivity.parquet")
    assert set(effects["source"]) == {"m/a"}
    assert effects["reason"].str.contains("few_for_halves").all()

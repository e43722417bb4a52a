"""Contrastive entropy from texts to intervals, differences of models, pairs of sentences, commands.

Oracles: the closed form of a unigram model under substitution; plain loops over the rows of shards,
SciPy's t and jackknives; properties (0 at level 0, scaling, invariance to batches, shards, order);
models that differ by construction, the level of the tests where they are alike; SciPy's Wilson
interval; another reader of ARPA files; what one line of an error must name.
"""

import json
import math
from itertools import combinations, product

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import torch
from scipy.stats import binomtest, t, ttest_1samp

from benchmarks.calibration_contrastive import rates
from beyond_perplexity import contrast
from beyond_perplexity.commands.estimate_ngram import main as estimate_ngram
from beyond_perplexity.commands.library_functions import run_function
from beyond_perplexity.contrastive import scores as scoring
from beyond_perplexity.contrastive.differences import compare_contrasts, read_table_1
from beyond_perplexity.contrastive.entropy import (
    ContrastSums,
    LevelSums,
    measure_contrasts,
    read_sums,
)
from beyond_perplexity.contrastive.pairs import (
    SentencePair,
    contrast_pairs,
    read_pairs,
)
from beyond_perplexity.corpus import distortions, normalization
from beyond_perplexity.corpus.sentences import CutDocument, cut_sentences, sentence_item, take_units
from beyond_perplexity.errors import InputError
from beyond_perplexity.inference.intervals import ratio_test
from beyond_perplexity.inference.limits import (
    share_difference_test,
    share_interval,
    wilson_interval,
)
from beyond_perplexity.models import huggingface_bring, likelihoods, registry
from beyond_perplexity.ngrams import arpa, sentence_files
from beyond_perplexity.schemas.contrastive import CONTRAST_SCORES
from beyond_perplexity.storage.shards import write_shard
from beyond_perplexity.vocabulary import BPEVocabulary, ClosedVocabulary
from tests.unit import huggingface_models, small_corpora
from tests.unit.evaluator_oracles import check_refused, run_script

WORDS = [f"w{number}" for number in range(40)]
VOCABULARY = ClosedVocabulary(WORDS, 5)
SUBSTITUTES = scoring.Substitutes(WORDS, "words")
VERSIONS = {0.0: (0, 1), 0.1: (0, 3), 0.5: (0, 4), 1.0: (0, 2)}
HALVES = distortions.DistortionOptions()


def random_units(count, seed=0, longest=12, types=43):
    """Draw documents of one to three sentences over the words and, from 41 types on, others."""
    rng = np.random.default_rng(seed)
    units = []
    for unit_id in range(count):
        lengths = rng.integers(1, longest, rng.integers(1, 4))
        held = [[f"w{number}" for number in rng.integers(0, types, n)] for n in lengths]
        units.append(CutDocument(unit_id, f"page {unit_id // 2}", held))
    return units


def unigram(weights, scale=1.0, vocabulary=VOCABULARY):
    """Score a text by the sum of a weight of each word."""

    def run(pieces, width):
        return np.array([scale * weights[ids].sum() for ids in pieces])

    return scoring.Scorer(vocabulary, False, list, lambda piece: 1, run)


class Energies:
    """A sentence model whose score depends on the order of words."""

    device = torch.device("cpu")

    def sentence_log_scores(self, tokens, lengths):
        places = torch.arange(tokens.shape[1])
        held = places < lengths[:, None]
        return torch.where(held, torch.sin(tokens * (1.0 + places)), 0).double().sum(1)


def weights(seed=4):
    return np.log(np.random.default_rng(seed).dirichlet(np.ones(VOCABULARY.size)))


def write_scores(folder, scorer, units, *, blocks=1, draws=100, options=HALVES, versions=VERSIONS):
    """Write the shards of a scoring: so many blocks of units, each by blocks of so many draws."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    most = {level: n for level, (_, n) in versions.items()}
    for number, part in enumerate(np.array_split(np.arange(len(units)), blocks)):
        held = [units[place] for place in part]
        for first in range(0, max(most.values()), draws):
            cut = {level: (first, min(draws, n - first)) for level, n in most.items() if n > first}
            rows = scoring.score_versions(scorer, held, SUBSTITUTES, cut, options, seed=7)
            paths.append(str(folder / f"{number:05d}-{first:05d}.parquet"))
            write_shard(paths[-1], CONTRAST_SCORES, rows, {})
    return paths


def rows_of(sums, base=0.1):
    rows = measure_contrasts(sums, "model", base).to_pylist()
    return {(row["unit"], row["measure"], row["level"]): row for row in rows}


def write_documents(path, texts, splits=None):
    """Write documents of pages of three."""
    titles = [f"page {number // 3}" for number in range(len(texts))]
    return small_corpora.write_documents(path, texts, splits or ["test"] * len(texts), titles)


def corpus(folder):
    texts = [" ".join(["a", "b", "."] * (1 + number % 4)) for number in range(30)]
    splits = ["train", "test", "test"] * 10
    return write_documents(folder / "documents.parquet", [*texts, ""], [*splits, "test"])


def test_sentences_end_after_marks_and_their_items_are_their_own(tmp_path):
    assert cut_sentences("a b . . c ! d", whole=False) == [["a", "b", ".", "."], ["c", "!"], ["d"]]
    assert cut_sentences("a  b . c", whole=True) == [["a", "b", ".", "c"]]
    assert cut_sentences("", whole=True) == cut_sentences(" ", whole=False) == []
    items = {sentence_item(unit, place) for unit in range(50) for place in range(50)}
    assert len(items) == 2500
    check_refused("doc_id 3: has more than", sentence_item, 3, 1 << 20)
    path = write_documents(tmp_path / "d.parquet", ["b a", "c", "a z"], ["test", "train", "test"])
    assert scoring.types_of_split(path, "test") == ["a", "b", "z"]


def test_blocks_are_the_whole_subset_and_a_smaller_one_begins_a_larger(tmp_path):
    path = corpus(tmp_path)
    whole = take_units(path, "test", 0, 40, seed=1, limit=40)
    assert sum(len(unit.sentences) for unit in whole) <= 40
    parts = {first: min(7, 40 - first) for first in range(0, 40, 7)}
    blocks = [take_units(path, "test", *part, seed=1, limit=40) for part in parts.items()]
    assert [unit for block in blocks for unit in block] == whole
    larger = take_units(path, "test", 0, 1000, seed=1)
    assert larger[: len(whole)] == whole
    assert len(larger) == 20  # all but the empty one
    assert {unit.unit_id % 3 for unit in larger} == {1, 2}
    assert all(unit.group is None for unit in larger)
    grouped = take_units(path, "test", 0, 1000, seed=1, grouped=True)
    assert all(unit.group == f"page {unit.unit_id // 3}" for unit in grouped)
    other = take_units(path, "test", 0, 1000, seed=2)
    assert [unit.unit_id for unit in other] != [unit.unit_id for unit in larger]
    found = take_units(corpus(tmp_path), "test", 0, 1000, seed=1, whole=True)
    assert all(len(unit.sentences) == 1 for unit in found)
    path = write_documents(tmp_path / "documents.parquet", ["a . b . c ."])
    with pytest.raises(InputError, match=r"has 3 sentences, more than the 2 that are wanted"):
        take_units(path, "test", 0, 2, seed=1, limit=2)
    check_refused("the split 'valid' has no words", take_units, path, "valid", 0, 2, seed=1)
    assert take_units(path, "test", 5, 2, seed=1) == []


def texts_of(count, seed, longest):
    units = random_units(count, seed, longest)
    return [[" ".join(words) for words in unit.sentences] for unit in units]


@pytest.mark.parametrize("family", ["lstm", "gru", "transformer", "cnn", "gpt2", "llama"])
def test_a_score_does_not_depend_on_its_company(family, tmp_path, one_thread):
    """Oracle: the text alone and in other batches, bit for bit, beyond contexts of 64 too."""
    if family in huggingface_models.MAKERS:
        huggingface_models.MAKERS[family](tmp_path)
        model, vocabulary, _ = huggingface_bring.bring({"path": str(tmp_path)}, None)
    else:
        torch.manual_seed(1)
        vocabulary = VOCABULARY
        model = registry.build({"family": family, "architecture": {}}, vocabulary.size)
    scorer = scoring.make_scorer(model.eval(), vocabulary, family)
    texts = texts_of(20, 3, 30) if family in huggingface_models.MAKERS else texts_of(60, 3, 40)
    whole = scoring.score_texts(scorer, texts).log_score
    assert np.array_equal(scoring.score_texts(scorer, texts[::-1], 300).log_score[::-1], whole)
    alone = [scoring.score_texts(scorer, [text]).log_score[0] for text in texts[:15]]
    assert np.array_equal(alone, whole[:15])
    plain = likelihoods.score_documents(model, vocabulary, [" ".join(text) for text in texts])
    assert np.allclose(whole, [score.log_prob for score in plain], rtol=1e-5)


def test_windows_and_sentences_add_up_and_broken_models_are_named(one_thread):
    torch.manual_seed(1)
    options = {"family": "transformer", "architecture": {"context_length": 10}}
    model = registry.build(options, VOCABULARY.size).eval()
    texts = [[" ".join(w for s in unit.sentences for w in s)] for unit in random_units(20, 5, 30)]
    found = scoring.score_texts(scoring.document_scorer(model, VOCABULARY), texts)
    plain = list(likelihoods.score_documents(model, VOCABULARY, [text for (text,) in texts]))
    assert np.allclose(found.log_score, [score.log_prob for score in plain], rtol=1e-5)
    assert found.unknown.tolist() == [score.unknown for score in plain]
    scorer = scoring.sentence_scorer(Energies(), VOCABULARY)
    texts = texts_of(30, 0, 12)
    for text, score in zip(texts, scoring.score_texts(scorer, texts, 64).log_score, strict=True):
        ids = VOCABULARY.encode(text)
        expected = sum(math.sin(i * (1 + t)) for row in ids for t, i in enumerate(row.tolist()))
        assert score == pytest.approx(expected, abs=1e-4)
    broken = unigram(np.full(VOCABULARY.size, math.nan))
    check_refused("the score NaN", scoring.score_texts, broken, [["w1"]])
    with pytest.raises(InputError, match="latent variables"):
        scoring.make_scorer(torch.nn.Linear(1, 1), VOCABULARY, "rnng")
    assert scoring.score_texts(broken, []).log_score.shape == (0,)


def test_all_models_score_the_same_words():
    """Oracle: the texts that scorers of other vocabularies are given."""
    seen: list[list[str]] = []

    class Listening(ClosedVocabulary):
        def encode(self, texts):
            seen[-1] += texts
            return super().encode(texts)

    for words in (WORDS, WORDS[:3]):
        scorer = unigram(np.zeros(100), vocabulary=Listening(words, 1))
        seen.append([])
        scoring.score_versions(scorer, random_units(20), SUBSTITUTES, VERSIONS, HALVES, seed=7)
    assert seen[0] == seen[1]
    assert len(set(seen[0])) > 60


def test_a_unigram_model_has_its_closed_form_and_level_0_is_nothing_to_any(tmp_path):
    """Oracle: H_C(d) = x_S (mean weight of the text − mean weight of the substitutes)."""
    units = random_units(1500)
    options = distortions.DistortionOptions(1.0, 0.0)
    versions = {0.0: (0, 1), 0.3: (0, 20)}
    own_weights = weights()
    scorer = unigram(own_weights)
    paths = write_scores(tmp_path, scorer, units, options=options, versions=versions)
    row = rows_of(read_sums(paths), 0.3)["word", "contrastive_entropy", 0.3]
    ids = VOCABULARY.encode([" ".join(w) for unit in units for w in unit.sentences])
    exact = 0.3 * (own_weights[np.concatenate(ids)].mean() - own_weights[3:].mean())
    assert abs(row["value"] - exact) < 4 * row["deviation"] / math.sqrt(20)
    assert row["low"] < exact < row["high"]
    assert row["words"] == sum(len(w) for unit in units for w in unit.sentences)
    options = distortions.DistortionOptions(0.0, 1.0)
    path = write_scores(tmp_path / "a", unigram(weights()), random_units(50), options=options)
    sums = read_sums(path)
    found = rows_of(sums)
    assert found["word", "contrastive_entropy", 1.0]["value"] == pytest.approx(0, abs=1e-12)
    assert sums.levels[1.0].events[1] > 0
    scorer = scoring.sentence_scorer(Energies(), VOCABULARY)
    found = rows_of(read_sums(write_scores(tmp_path / "b", scorer, random_units(50))))
    for unit in ("word", "sentence"):
        row = found[unit, "contrastive_entropy", 0.0]
        assert (row["value"], row["low"], row["high"], row["deviation"]) == (0, 0, 0, None)


def test_a_scale_leaves_the_ratio_which_has_no_interval_over_a_base_that_may_be_zero(tmp_path):
    units = random_units(80)
    written = [write_scores(tmp_path / str(k), unigram(weights(), k), units) for k in (1.0, 4.0)]
    found = [rows_of(read_sums(scores)) for scores in written]
    assert found[0].keys() == found[1].keys()
    for key, row in found[0].items():
        factor = 4.0 if "entropy" in key[1] else 1.0
        for name in ("value", "low", "high", "deviation"):
            if row[name] is not None:
                assert found[1][key][name] == pytest.approx(factor * row[name], rel=1e-9), key
    flat = unigram(np.random.default_rng(0).normal(0, 1e-3, VOCABULARY.size))
    sums = read_sums(write_scores(tmp_path, flat, random_units(60)))
    row = rows_of(sums)["word", "ratio", 0.5]
    assert (row["low"], row["high"]) == (None, None)
    assert "H_C at 0.1 is not clearly above 0" in row["note"]
    assert ("word", "ratio", 0.5) not in rows_of(sums, base=0.7)


@pytest.mark.parametrize(
    "scorer", [unigram(weights()), scoring.sentence_scorer(Energies(), VOCABULARY)]
)
def test_shards_do_not_matter(scorer, tmp_path):
    """Oracle: the one shard; bit for bit."""
    units = random_units(47)
    one = rows_of(read_sums(write_scores(tmp_path / "one", scorer, units)))
    for blocks, draws in ((5, 100), (1, 1), (3, 2)):
        cut = write_scores(tmp_path / f"{blocks}{draws}", scorer, units, blocks=blocks, draws=draws)
        assert rows_of(read_sums(cut)) == one


def test_measures_equal_plain_loops(tmp_path):
    """Oracle: sums over the rows of the shard, and jackknives that leave out page after page; the
    limits of the ratio are those r at which H_C less r times the other one is as far from 0."""
    units = random_units(60, types=10)  # the likelier words, so that distortions cost
    paths = write_scores(tmp_path, unigram(np.sort(weights())[::-1]), units)
    rows = pq.read_table(paths[0]).to_pylist()
    own = {row["unit_id"]: row for row in rows if row["level"] == 0}
    found = rows_of(read_sums(paths))

    def entropy(level, left_out="", draw=None):
        chosen = [row for row in rows if row["level"] == level and row["group"] != left_out]
        chosen = [row for row in chosen if draw in (None, row["draw"])]
        lost = sum(own[row["unit_id"]]["log_score"] - row["log_score"] for row in chosen)
        return float(lost / sum(row["words"] for row in chosen))

    pages = sorted({str(unit.group) for unit in units})
    sizes = np.array([sum(own[u.unit_id]["words"] for u in units if u.group == p) for p in pages])
    effective = sizes.sum() ** 2 / (sizes**2).sum()
    for measure, function in (
        ("contrastive_entropy", lambda *a: entropy(0.5, *a)),
        ("ratio", lambda *a: entropy(0.5, *a) / entropy(0.1, *a)),
    ):
        row = found["word", measure, 0.5]
        assert row["value"] == pytest.approx(function())
        for side, limit in (("low", row["low"]), ("high", row["high"])):

            def apart(page="", limit=limit, measure=measure):
                other = limit if measure == "contrastive_entropy" else limit * entropy(0.1, page)
                return entropy(0.5, page) - other

            without = np.array([apart(page) for page in pages])
            error = math.sqrt((len(pages) - 1) / len(pages) * ((without - apart()) ** 2).sum())
            sign = 1 if side == "low" else -1
            assert sign * apart() / error == pytest.approx(t.ppf(0.975, effective - 1))
        draws = range(4 if measure == "contrastive_entropy" else 3)  # the base level has 3
        values = [function("", draw) for draw in draws]
        assert row["deviation"] == pytest.approx(np.std(values, ddof=1))
    cross = found["sentence", "cross_entropy", None]
    total = sum(row["log_score"] for row in own.values())
    assert cross["value"] == pytest.approx(-total / sum(len(unit.sentences) for unit in units))


def test_accuracy_equals_a_plain_loop_over_sentences_each_distorted_and_scored_alone(tmp_path):
    """Oracle: every sentence distorted and scored by itself, a jackknife and SciPy's Wilson form.

    The score of a document is no sum of those of its sentences.
    """
    units = random_units(70, longest=6)
    own_weights = weights()

    def score(ids):
        return float(np.sin(own_weights[np.asarray(ids)].sum() * 3).round(1))  # some are equal

    scorer = unigram(own_weights)._replace(
        run=lambda pieces, width: np.array([score(ids) for ids in pieces])
    )
    paths = write_scores(tmp_path, scorer, units, blocks=2, draws=3)
    found = rows_of(read_sums(paths))["sentence", "accuracy", 0.5]
    index = {word: number for number, word in enumerate(WORDS)}
    known = {"candidates": np.arange(len(WORDS)), "seed": 7, "purpose": scoring.PURPOSE}
    won = {f"page {number}": np.zeros((4, 3)) for number in range(35)}  # by draw
    sentences = [(unit, *held) for unit in units for held in enumerate(unit.sentences)]
    for (unit, place, words), draw in product(sentences, range(4)):
        own = [index.get(word, int(word[1:])) for word in words]
        item = np.array([sentence_item(unit.unit_id, place)])
        given = np.array([own]), np.array([len(own)]), 0.5, HALVES
        worse, *_ = distortions.distort(*given, **known, items=item, draw=draw)
        if worse[0].tolist() != own:
            texts = ([f"w{word}" for word in ids] for ids in (own, worse[0]))
            one, two = (score(VOCABULARY.encode([" ".join(text)])[0]) for text in texts)
            won[str(unit.group)][draw] += [1, one > two, one == two]
    counts = np.array([won[page].sum(0) for page in sorted(won)])
    pairs, right = counts[:, 0], counts[:, 1] + counts[:, 2] / 2
    value = right.sum() / pairs.sum()
    assert (found["pairs"], found["undecided"]) == (pairs.sum(), counts[:, 2].sum())
    assert found["undecided"] > 10
    assert found["value"] == pytest.approx(value)
    draws = sum(won.values())
    spread = np.std((draws[:, 1] + draws[:, 2] / 2) / draws[:, 0], ddof=1)
    assert found["deviation"] == pytest.approx(spread)
    without = (right.sum() - right) / (pairs.sum() - pairs)
    variance = 34 / 35 * np.square(without - value).sum()
    cases = value * (1 - value) / variance
    changes = without - value
    alike = 3 * np.square(changes).sum() ** 2 / (changes**4).sum()
    quantile = t.ppf(0.975, min(alike, pairs.sum() ** 2 / (pairs**2).sum()) - 1)
    # Wilson's limits are where the test of a share p by its own variance just rejects.
    for limit in (found["low"], found["high"]):
        errors = abs(value - limit) / math.sqrt(limit * (1 - limit) / cases)
        assert errors == pytest.approx(quantile)


def test_parts_add_up_to_the_loss_and_of_weights_are_what_each_replaced_word_loses(tmp_path):
    """Oracles: a loop over the words replaced, by their rank; the whole loss; the one shard."""
    words = [f"w{number}" for number in range(1200)]
    vocabulary, substitutes = ClosedVocabulary(words, 5), scoring.Substitutes(words, "words")
    units = random_units(80, types=1300)
    own_weights = np.log(np.random.default_rng(2).dirichlet(np.ones(vocabulary.size)))
    scorer = unigram(own_weights, vocabulary=vocabulary)
    versions = {0.0: (0, 1), 0.1: (0, 2), 0.4: (0, 3)}

    def shard(name, options, first=0, part=units, versions=versions, scorer=scorer):
        rows = scoring.score_versions(scorer, part, substitutes, versions, options, 7, 0.4)
        write_shard(tmp_path / name, CONTRAST_SCORES, rows, {})
        return pq.read_table(tmp_path / name).to_pylist()

    rows = shard("a.parquet", distortions.DistortionOptions(1.0, 0.0))
    for row in rows:
        if row["level"] != 0.4:
            assert row["parts"] is row["part_events"] is None
            continue
        losses = np.zeros(6)
        for place, held in enumerate(units[row["unit_id"]].sentences):
            ids = [int(word[1:]) for word in held]
            item = np.array([sentence_item(row["unit_id"], place)])
            options = distortions.DistortionOptions(1.0, 0.0)
            worse, *_ = distortions.distort(
                *(np.array([ids]), np.array([len(ids)]), 0.4, options, np.arange(1200)),
                seed=7,
                purpose=scoring.PURPOSE,
                items=item,
                draw=row["draw"],
            )
            for rank, new in zip(ids, worse[0].tolist(), strict=True):
                band = 0 if rank < 100 else 1 if rank < 1000 else 2
                one, two = vocabulary.encode([f"w{rank} w{new}"])[0]
                losses[band] += own_weights[one] - own_weights[two]
        assert row["parts"] == pytest.approx(losses, abs=1e-9)
    ordered = scoring.sentence_scorer(Energies(), vocabulary)
    rows = shard("whole.parquet", HALVES, scorer=ordered)
    own = {row["unit_id"]: row["log_score"] for row in rows if row["level"] == 0}
    split = [row for row in rows if row["level"] == 0.4]
    for row in split:
        assert sum(row["parts"]) == pytest.approx(own[row["unit_id"]] - row["log_score"], abs=1e-9)
        assert sum(row["part_events"]) == row["substituted"] + row["transposed"]
    assert np.count_nonzero([row["parts"] for row in split]) > 200
    cut = []
    for block, (begin, end) in enumerate(((0, 15), (15, 80))):
        for draw in range(3):
            held = {level: (draw, 1) for level, (_, n) in versions.items() if n > draw}
            held |= {0.0: (0, 1)} if draw == 0 else {}
            name = f"{block}-{draw}.parquet"
            shard(name, HALVES, part=units[begin:end], versions=held, scorer=ordered)
            cut.append(str(tmp_path / name))
    whole = measure_contrasts(read_sums([str(tmp_path / "whole.parquet")]), "m", 0.1)
    assert measure_contrasts(read_sums(cut), "m", 0.1).equals(whole)
    found = whole.to_pandas()
    for unit in ("word", "sentence"):
        held = found[(found["unit"] == unit) & (found["level"] == 0.4)]
        value = held.loc[held["measure"] == "contrastive_entropy", "value"].item()
        parts = held[held["measure"] == "part"].set_index("event")
        events, names = ["substitution", "transposition"], list(distortions.EVENT_PARTS)
        assert parts.index.tolist() == [events[0], *names[:3], events[1], *names[3:]]
        assert parts.loc[events, "value"].sum() == pytest.approx(value)
        assert parts.loc[names, "value"].sum() == pytest.approx(value)
        assert parts.loc[events, "words_hit"].sum() == parts.loc[names, "words_hit"].sum()
        own = parts.loc[names[:3], "value"].sum()
        assert own == pytest.approx(parts.loc["substitution", "value"])
        assert (parts["low"] < parts["value"]).all()


def test_accuracy_of_one_word_is_its_rank_and_what_is_impossible_is_worse(tmp_path):
    """Oracle: of K words a substitute is worse than the k-th of them in (k − 1)/(K − 1)."""
    never = np.arange(VOCABULARY.size, dtype=float)
    never[3:10] = -math.inf  # the first seven words
    options = distortions.DistortionOptions(1.0, 0.0)
    units = [CutDocument(number, None, [["w30"]] * 20) for number in range(100)]
    how = {"options": options, "versions": {0.0: (0, 1), 1.0: (0, 3)}}
    paths = write_scores(tmp_path, unigram(never), units, **how)
    sums = read_sums(paths)
    row = rows_of(sums)["sentence", "accuracy", 1.0]
    assert row["value"] == pytest.approx(30 / 39, abs=0.02)
    assert row["low"] < 30 / 39 < row["high"]
    assert row["pairs"] / 6000 == pytest.approx(39 / 40, abs=0.01)
    share = 1 - row["pairs"] / 6000
    assert f"{share:.1%} of the sentences came out as they were: no pairs" in row["note"]
    assert rows_of(sums)["sentence", "contrastive_entropy", 1.0]["value"] is None
    assert [key for key in rows_of(sums) if key[1] == "accuracy"] == [("sentence", "accuracy", 1.0)]
    other = read_sums(write_scores(tmp_path / "b", unigram(-never), units, **how))
    found = compare({"a": sums, "b": other})
    assert found["measure"].tolist() == ["accuracy"]  # H_C of neither is known
    (gap,) = found.to_dict("records")
    assert gap["value"] == pytest.approx(2 * row["value"] - 1)
    assert gap["p_value"] < 1e-30  # 100 documents, none of which prefers the other way
    assert gap["low"] > 0.4


def test_accuracies_that_few_pairs_tell_apart_keep_their_level_and_an_interval():
    """Oracle: McNemar's test with the mid p-value; level and coverage of drawn differences."""
    rng = np.random.default_rng(5)
    for apart in (0, 4, 5, 6, 9):
        gaps = np.array([1.0] * apart + [0.0] * (200 - apart))
        found = share_difference_test(gaps, np.ones(200))
        assert found.interval.value == apart / 200
        middle = binomtest(apart, apart).pvalue / 2 if apart else 1.0
        assert found.p_value > 0.9 * middle
        assert (found.p_value < 0.05) == (middle < 0.05)
        assert found.interval.low < apart / 200 < found.interval.high
    clear = rng.binomial(np.arange(1, 41), np.array([[0.9], [0.6]])).astype(float)
    sizes = np.arange(1.0, 41)
    found, plain = (
        test(clear[0] - clear[1], sizes) for test in (share_difference_test, ratio_test)
    )
    assert found.p_value < 1e-8  # where documents differ, two more add little
    assert np.ptp(found.interval[1:3]) == pytest.approx(np.ptp(plain.interval[1:3]), rel=0.2)
    whole = share_difference_test(np.full(20, 5.0), np.full(20, 5.0))
    assert (whole.p_value < 0.001, whole.interval.high) == (True, 1)
    assert whole.interval.low < 0.9
    alone = share_difference_test(np.array([3.0]), np.array([5.0]))
    assert np.isnan([alone.p_value, alone.interval.low]).all()
    no_one = share_difference_test(np.zeros(40), np.full(40, 6.0)).interval
    half = t.ppf(0.975, 3) * math.sqrt(42 / 41 * 2) / 42  # two groups carry the variance
    assert (no_one.low, no_one.high) == pytest.approx((-half, half), rel=0.05)
    tests = []
    for _ in range(400):
        drawn = share_difference_test(
            rng.choice([0, 1, -1], 30, p=[26 / 30, *[2 / 30] * 2]), np.ones(30)
        )
        tests.append((drawn.p_value < 0.05, drawn.interval.low <= 0 <= drawn.interval.high))
    rejected, covered = np.mean(tests, axis=0)
    assert rejected <= 0.05  # .10 without a group more on either side
    assert covered >= 0.95


def test_a_share_of_one_has_the_interval_of_as_many_cases_as_groups():
    """Oracle: Wilson's lower limit of n of n is n / (n + z²)."""
    found = share_interval(np.full(30, 8.0), np.full(30, 8.0))
    assert (found.value, found.high) == (1.0, pytest.approx(1.0))
    assert found.low == pytest.approx(30 / (30 + t.ppf(0.975, 29) ** 2))
    one_wrong = share_interval(np.array([7.0] + [8.0] * 29), np.full(30, 8.0))
    # one group determines the variance: of 3 · 1² / 1 units that are alike, nearly
    changes = np.array([1 / 240] + [-1 / 240 / 29] * 29)
    alike = 3 * np.square(changes).sum() ** 2 / (changes**4).sum()
    limit, cases = one_wrong.low, 239 / 240 / 240 / (29 / 30 * np.square(changes).sum())
    quantile = (239 / 240 - limit) / math.sqrt(limit * (1 - limit) / min(cases, 240))
    assert quantile == pytest.approx(t.ppf(0.975, alike - 1), rel=1e-3)
    assert one_wrong.low < 1 - 10 / 240
    few = share_interval(np.full(19, 8.0), np.full(19, 8.0))
    assert math.isnan(few.low)


def test_without_a_likelihood_or_where_lengths_change_measures_are_fewer(tmp_path):
    scorer = scoring.sentence_scorer(Energies(), VOCABULARY)
    found = rows_of(read_sums(write_scores(tmp_path / "a", scorer, random_units(30))))
    assert {measure for _, measure, _ in found} == {"contrastive_entropy", "ratio", "accuracy"}
    assert all(row["sentence_level"] for row in found.values())
    options = distortions.DistortionOptions(0.25, 0.25, 0.25, 0.25)
    paths = write_scores(tmp_path / "b", unigram(weights()), random_units(60), options=options)
    found = rows_of(read_sums(paths))
    assert {unit for unit, *_ in found} == {"sentence"}
    assert "change their length" in found["sentence", "contrastive_entropy", 0.5]["note"]


def test_few_documents_impossible_ones_and_what_is_counted(tmp_path):
    units = [CutDocument(number, None, [["w1"], ["w2", "zzz"]]) for number in range(19)]
    found = rows_of(read_sums(write_scores(tmp_path / "few", unigram(weights()), units)))
    row = found["word", "contrastive_entropy", 0.5]
    assert (row["low"], row["high"], row["groups"]) == (None, None, 19)
    assert "fewer than 20 effective groups" in row["note"]
    assert "19 of 38 sentences are of one word" in row["note"]
    assert "33.3% of the words are <unk>" in row["note"]
    never = weights()
    never[5] = -math.inf  # a word of some documents
    found = rows_of(read_sums(write_scores(tmp_path / "inf", unigram(never), random_units(60))))
    row = found["word", "contrastive_entropy", 0.5]
    assert (row["value"], row["deviation"]) == (None, None)
    assert "documents impossible" in row["note"]
    assert found["word", "cross_entropy", None]["value"] is None
    never = weights()
    never[3] = -math.inf  # not in these texts, but among the substitutes
    units = [CutDocument(number, None, [["w1", "w2"] * 4]) for number in range(30)]
    found = rows_of(read_sums(write_scores(tmp_path / "new", unigram(never), units)))
    assert "distorted documents impossible" in found["word", "contrastive_entropy", 1.0]["note"]
    assert found["word", "cross_entropy", None]["value"] is not None


def test_shards_substitutes_and_versions_that_are_not_possible(tmp_path):
    paths = write_scores(tmp_path, unigram(weights()), random_units(10), draws=2)
    check_refused("without distortion is in no file", read_sums, paths[1:])
    check_refused("is given twice", read_sums, [*paths, paths[0]])
    late, versions = str(tmp_path / "late.parquet"), {0.0: (0, 1), 0.1: (1, 1)}
    given = unigram(weights()), random_units(10), SUBSTITUTES, versions, HALVES
    rows = scoring.score_versions(*given, seed=7)
    write_shard(late, CONTRAST_SCORES, rows, {})
    check_refused(r"draw 0 of level 0\.1 was scored for 0 of 10", read_sums, [late])
    check_refused("other: has no words to substitute", scoring.Substitutes, [], "other")
    with pytest.raises(InputError, match="other: has no word of the text"):
        scoring.Substitutes(["x"], "other").check(random_units(3))
    assert scoring.read_versions({"0.5": [2, 3]}) == {0.5: (2, 3)}
    for wrong in ({"1.5": [0, 1]}, {"x": [0, 1]}, {"0.1": [0]}, {"0.1": [0, -1]}, {"0.1": 3}):
        check_refused(r"level: is 1\.5|versions", scoring.read_versions, wrong)


LEVELS = (0.1, 0.3, 0.5)


def made_sums(lost, *, sentence_level=False, words=10):
    """Make the sums of a model from what each unit loses at each level; a unit is a group."""
    count = len(lost[0.1])
    ids = np.arange(count)
    of_levels = {0.0: np.zeros(count), **lost}
    levels = {k: LevelSums(held * 2, np.full(2, held.sum())) for k, held in of_levels.items()}
    counts = {"words": np.full(count, words), "sentences": np.full(count, 2)}
    counts |= {"one_word": np.zeros(count, int), "unknown": np.zeros(count, int)}
    return ContrastSums(ids, ids * 7, np.full(count, -50.0), counts, levels, sentence_level)


def drawn(factors, seed, groups=60, noise=1.0):
    rng = np.random.default_rng(seed)
    pairs = zip(LEVELS, factors, strict=True)
    return {level: factor * 10 + noise * rng.normal(size=groups) for level, factor in pairs}


def compare(sums, base_level=0.1):
    return compare_contrasts(sums, base_level).to_pandas()


def mirrored(lost):
    """Put each unit's mirror image about the mean beside it: nothing is skewed."""
    return {level: np.concatenate([x, 2 * x.mean() - x]) for level, x in lost.items()}


def differences_by_key(found):
    keys = ("unit", "measure", "first", "second", "level")
    return {tuple(row[key] for key in keys): row for row in found.to_dict("records")}


def test_models_of_one_unit_and_the_same_possible_texts_are_compared():
    sums = {name: made_sums(drawn((1, 2, 3), place)) for place, name in enumerate(("one", "two"))}
    sums["three"] = made_sums(drawn((1, 2, 3), 2), sentence_level=True)
    found = compare(sums)
    per_word = found[found["unit"] == "word"]
    assert set(zip(per_word["first"], per_word["second"], strict=True)) == {("one", "two")}
    per_sentence = found[found["unit"] == "sentence"]
    assert len(set(zip(per_sentence["first"], per_sentence["second"], strict=True))) == 3
    assert set(found["level"]) == set(LEVELS)  # and not that of the text itself
    sums = {str(seed): made_sums(drawn((1, 2, 3), seed)) for seed in range(3)}
    sums["0"].scores[4] = -math.inf
    sums["1"].levels[0.3].impossible = 2
    assert compare(sums).empty
    sizes = enumerate((10, 11, 10))
    first, other, fewer = (made_sums(drawn((1, 2, 3), k > 0), words=w) for k, w in sizes)
    assert compare({"first": first}).empty
    fewer.levels[0.3].events = np.array([5, 0, 0, 0])
    for second in (other, fewer):
        with pytest.raises(InputError, match="second: was scored on other texts or distortions"):
            compare({"first": first, "second": second})
    sums = {str(seed): made_sums(drawn((1, 2, 3), seed)) for seed in range(2)}
    found = compare(sums, base_level=0.2)
    assert set(found["measure"]) == {"contrastive_entropy"}
    assert found["reading"].isna().all()
    assert read_table_1(1.0, None, -1, 1) is None
    assert read_table_1(1.0, 0.01, math.nan, math.nan) is None
    assert read_table_1(1.0, 0.05, math.nan, math.nan) == "no difference found"


def test_differences_equal_plain_loops():
    """Oracle: SciPy's t of equal groups without skewness, and the two ratios by hand."""
    factors = (1, 2.0, 3), (1.05, 2.2, 2.5)
    sums = [made_sums(mirrored(drawn(own, k, 6))) for k, own in enumerate(factors)]
    found = differences_by_key(compare({"a": sums[0], "b": sums[1]}))
    lost = [{level: one.mean(level) for level in LEVELS} for one in sums]
    for level in LEVELS:
        gap = lost[0][level] - lost[1][level]
        row = found["word", "contrastive_entropy", "a", "b", level]
        assert row["value"] == pytest.approx(gap.sum() / 120)
        residuals = gap - gap.mean()
        df = min(2 * np.sum(residuals**2) ** 2 / np.sum(residuals**4) - 1, 11)
        expected = 2 * t.sf(abs(ttest_1samp(gap, 0).statistic), df)
        assert row["p_value"] == pytest.approx(expected)
        assert math.isnan(row["low"])  # too few groups
        assert math.isnan(row["p_adjusted"])
        if level == 0.1:  # where it is 1 for both
            assert ("word", "ratio", "a", "b", level) not in found
            continue
        ratio = found["word", "ratio", "a", "b", level]
        both = [one[level].sum() / one[0.1].sum() for one in lost]
        assert ratio["value"] == pytest.approx(both[0] - both[1])


def test_intervals_and_adjusted_p_of_many_groups():
    """Oracle: a paired jackknife in a loop; Holm over pairs and levels of H_C alone."""
    sums = {str(seed): made_sums(drawn((1, 2 + seed / 10, 3), seed)) for seed in range(3)}
    table = compare(sums)
    found = differences_by_key(table)
    one, two = ({level: held.mean(level) for level in LEVELS} for held in list(sums.values())[:2])
    keep = ~np.eye(60, dtype=bool)
    ratios = [[held[0.3][k].sum() / held[0.1][k].sum() for held in (one, two)] for k in keep]
    without = np.array([first - second for first, second in ratios])
    row = found["word", "ratio", "0", "1", 0.3]
    error = math.sqrt(59 / 60 * np.square(without - row["value"]).sum())
    assert (row["high"] - row["low"]) / 2 == pytest.approx(2.000995 * error, rel=1e-5)
    # of three pairs at two levels
    half = t.ppf(1 - 0.025 / 6, 59) * error
    assert (row["high_adjusted"] - row["low_adjusted"]) / 2 == pytest.approx(half)
    assert math.isnan(row["p_value"])
    family = table[(table["unit"] == "word") & (table["measure"] == "contrastive_entropy")]
    assert len(family) == 9
    ordered = np.sort(family["p_value"].to_numpy())
    stepped = np.maximum.accumulate(ordered * np.arange(9, 0, -1)).clip(max=1)
    assert np.sort(family["p_adjusted"].to_numpy()) == pytest.approx(stepped)
    gaps = [first.mean(0.3) - second.mean(0.3) for first, second in combinations(sums.values(), 2)]
    rows = [found["word", "contrastive_entropy", *pair, 0.3] for pair in combinations("012", 2)]
    for gap, own in zip(gaps, rows, strict=True):
        expected = ratio_test(gap, np.full(60, 10))
        assert (own["low"], own["high"]) == pytest.approx(expected.interval[1:3])
        assert own["p_value"] == pytest.approx(expected.p_value)


@pytest.mark.parametrize(
    ("factors", "reading"),
    [
        ((1.2, 2.9, 4.8), "superior"),  # higher H_C, higher H_CR
        ((2.0, 4.0, 6.0), "superior"),  # scaled: higher, similar
        ((2.0, 3.0, 4.0), "scaling issues"),
        ((0.5, 1.5, 2.5), "indeterminate"),
        ((0.9, 1.2, 1.5), "inferior"),
    ],
)
def test_models_read_as_in_table_1(factors, reading):
    """Oracle: the cell of the table that the factors were chosen for."""
    sums = {"first": made_sums(drawn(factors, 0, noise=0.1))}
    sums["second"] = made_sums(drawn((1, 2, 3), 1, noise=0.1))
    found = compare(sums)
    rows = found[(found["measure"] == "contrastive_entropy") & (found["level"] == 0.5)]
    assert set(rows["reading"]) == {reading}
    at_base = found[(found["measure"] == "contrastive_entropy") & (found["level"] == 0.1)]
    assert at_base["reading"].isna().all()  # there all ratios are 1
    assert found.loc[found["measure"] == "ratio", "reading"].isna().all()


def test_models_that_are_alike_show_no_difference_and_intervals_cover():
    """Oracle: the level of the test; of 40 pairs without difference few are distinguished.

    Of a simulation the nominal rates, within what 150 repeats can miss; 1,000 are in tests/long.
    """
    readings = []
    for seed in range(40):
        sums = {name: made_sums(drawn((1, 2, 3), seed * 2 + k)) for k, name in enumerate("ab")}
        found = compare(sums)
        entropies = found.loc[found["measure"] == "contrastive_entropy", "reading"]
        readings += entropies.dropna().tolist()
    assert len(readings) == 160
    assert readings.count("no difference found") >= 144
    found = rates(150, 40)
    covered = found.entropy, found.ratio, found.difference, found.accuracy, found.high_accuracy
    assert min(covered) >= 0.89
    assert found.rejected <= 0.1
    assert max(found.accuracy_rejected, found.any_accuracy, found.any_ratio) <= 0.1


# Word w7 scores −7; what is unknown scores −3.
VALUES = -np.array([0, 0, 3, *range(len(WORDS))], float)


def pair_rows(pairs, values=VALUES):
    given = [SentencePair(*pair, f"pairs.tsv: line {k}") for k, pair in enumerate(pairs, 2)]
    found = contrast_pairs(unigram(values), given, None, "model").to_pylist()
    return list(found)


def test_accuracy_and_entropy_of_each_phenomenon():
    first = [("w1 w2", "w1 w4", "a")] * 20 + [("w5", "w4 w0", "a")] * 5  # lost 2, won −1
    ties = [("w1 w2", "w2 w1", "a")] * 4 + [("w1", "w1", "a")] * 3
    found = pair_rows([*first, *ties, ("w1", "w2", "b")])
    assert [row["phenomenon"] for row in found] == ["a", "b"]
    row = found[0]
    assert (row["pairs"], row["identical"], row["undecided"]) == (32, 3, 4)
    assert row["accuracy"] == pytest.approx((20 + 4 / 2) / 29)
    assert row["contrastive_entropy"] == pytest.approx((20 * 2 - 5) / 29)
    assert row["per_word"] == pytest.approx((20 * 2 - 5) / (20 * 2 + 5 + 4 * 2))
    assert row["length_difference"] == pytest.approx(-5 / 29)
    assert row["good_shorter"] == pytest.approx(5 / 29)
    assert "3 identical pairs are left out" in row["note"]
    assert "sums favour the shorter" in row["note"]
    gaps = np.array([2.0] * 20 + [-1.0] * 5 + [0.0] * 4)
    for limit in (row["low"], row["high"]):  # where the test has p = .05
        assert ratio_test(gaps - limit, np.ones(29)).p_value == pytest.approx(0.05)
    assert "26 pairs repeat others" in row["note"]  # of 29, three differ
    assert (found[1]["low"], found[1]["accuracy"]) == (None, 1.0)
    said = "fewer than 20 effective groups: no interval of contrastive entropy"
    assert (found[1]["note"], found[1]["accuracy_low"] > 0) == (said, True)  # Wilson's of one pair


def test_pairs_that_are_identical_impossible_or_empty_and_their_intervals(monkeypatch):
    for right, count in ((0, 7), (3, 10), (50, 50), (812, 1000)):
        known = binomtest(right, count).proportion_ci(method="wilson")
        assert wilson_interval(right / count, count) == pytest.approx((known.low, known.high))
    row = pair_rows([("w1", "w1", "a"), ("w2", "w2", "a")])[0]
    assert (row["pairs"], row["identical"], row["accuracy"]) == (2, 2, None)
    never = VALUES.copy()
    never[4] = -math.inf
    row = pair_rows([("w0", "w1", "a"), ("w0", "w2", "a")], never)[0]
    assert (row["accuracy"], row["contrastive_entropy"]) == (1.0, None)
    assert "1 pairs have an impossible sentence" in row["note"]
    lower = normalization.Preprocessing(lower_case=True)
    pairs = [SentencePair("W1", "w1", "a", "p: line 1"), SentencePair("w1", "w3", "a", "p: line 2")]
    row = contrast_pairs(unigram(VALUES), pairs, lower.apply, "model").to_pylist()[0]
    assert (row["identical"], row["contrastive_entropy"]) == (1, 2.0)
    empty = [SentencePair("\u200b", "w1", "a", "p: line 1")]
    with pytest.raises(InputError, match="p: line 1: no word is left"):
        contrast_pairs(
            unigram(VALUES), empty, lambda texts: [t.strip("\u200b") for t in texts], "m"
        )
    pairs = [(f"w{k % 7} w3", f"w{k % 5}", f"p{k % 3}") for k in range(100)]
    whole = pair_rows(pairs)
    monkeypatch.setattr("beyond_perplexity.contrastive.pairs._BATCH", 7)
    assert pair_rows(pairs) == whole


def test_json_and_tables_are_read_alike_and_may_have_no_pairs(tmp_path):
    rows = [{"sentence_good": "a b", "sentence_bad": "b a", "UID": "swap"}] * 2
    lines = [json.dumps(row) for row in rows]
    (tmp_path / "pairs.jsonl").write_text("\n\n".join(lines) + "\n")
    table = "good\tphenomenon\tbad\r\na b\tswap\tb a\r\na b\tswap\tb a\n"
    (tmp_path / "pairs.tsv").write_text(table)
    found = [list(read_pairs(tmp_path / name)) for name in ("pairs.jsonl", "pairs.tsv")]
    assert [pair[:3] for pair in found[0]] == [pair[:3] for pair in found[1]]
    assert found[0][1] == SentencePair("a b", "b a", "swap", f"{tmp_path}/pairs.jsonl: line 3")
    (tmp_path / "island.tsv").write_text("good\tbad\nx\ty\n")
    assert [pair.phenomenon for pair in read_pairs(tmp_path / "island.tsv")] == ["island"]
    (tmp_path / "a.tsv").write_text("good\tbad\n")
    with pytest.raises(InputError, match="pairs: the file has none"):
        contrast_pairs(unigram(VALUES), read_pairs(tmp_path / "a.tsv"), None, "model")
    (tmp_path / "none").mkdir()
    (tmp_path / "a.tsv").rename(tmp_path / "none" / "notes.txt")
    with pytest.raises(InputError, match=r"has no file of pairs \(\.jsonl, \.ndjson, \.tsv\)"):
        list(read_pairs(tmp_path / "none"))


def test_pairs_of_groups_have_intervals_over_these(tmp_path):
    """Oracle: the interval of sums over groups; copies of each pair in one add no certainty."""
    rng = np.random.default_rng(3)
    gains = rng.normal(0.8, 1, 40)
    given = {"groups": [f"page {k}" for k in range(40)] * 3, "words": [4] * 120}
    found = contrast([*gains] * 3, [0.0] * 120, **given).table.iloc[0]
    won = (gains > 0).astype(float)
    own = share_interval(3 * won, np.full(40, 3.0))
    assert (found["accuracy_low"], found["accuracy_high"]) == pytest.approx((own.low, own.high))
    half = t.ppf(0.975, 39) * gains.std(ddof=1) / math.sqrt(40)
    for limit in (found["low"], found["high"]):  # where the test of 40 sums has p = .05
        assert ratio_test(3 * (gains - limit), np.full(40, 3.0)).p_value == pytest.approx(0.05)
    assert found["note"] == "intervals are over 40 groups of pairs"
    alone = contrast([*gains] * 3, [0.0] * 120).table.iloc[0]
    assert alone["high"] - alone["low"] < 0.6 * 2 * half
    few = contrast([*gains] * 3, [0.0] * 120, groups=[k % 9 for k in range(120)]).table.iloc[0]
    assert math.isnan(few["accuracy_low"])
    assert "fewer than 20 effective groups" in few["note"]
    lines = [f"w1\tw{2 + k % 3}\tpage {k // 2}" for k in range(60)]
    (tmp_path / "p.tsv").write_text("\n".join(["good\tbad\tgroup", *lines]))
    read = list(read_pairs(tmp_path / "p.tsv"))
    assert [pair.group for pair in read[:3]] == ["page 0", "page 0", "page 1"]
    (row,) = contrast_pairs(unigram(VALUES), read, None, "model").to_pylist()
    assert row["note"] == "57 pairs repeat others; intervals are over 30 groups of pairs"
    for lacking in (math.nan, pd.NA, None):  # each stands for itself
        missing = contrast([*gains], [0.0] * 40, groups=[lacking] * 40, phenomena=[lacking] * 40)
        (row,) = missing.table.to_dict("records")
        assert (row["phenomenon"], row["note"], row["accuracy_low"] > 0) == ("pairs", "", True)
    few = contrast([1.0, -math.inf] * 9, [0.0] * 18, groups=[0, 1, 2] * 6).table.iloc[0]
    assert few["note"].startswith("intervals are over 3 groups of pairs; fewer than 20 effective")
    assert contrast([1e308], [-1e308]).table.iloc[0]["note"].startswith("1 pairs have an impos")


def test_minimal_distortions_are_summed_up_by_their_kind(tmp_path):
    """Oracle: by hand; w7 scores −7. Kinds of two files are one, within a phenomenon its own."""
    rows = ["w1 w2\tw1 w4\tagreement", "w3 w2\tw1 w2\tagreement", "w1\tw6\tfunction word"]
    (tmp_path / "a.tsv").write_text("\n".join(["good\tbad\tkind", *rows]))
    lines = [{"good": "w1", "bad": "w9", "distortion": "agreement"}]
    lines += [
        {"good": "w1", "bad": "w3", "UID": "npi", "kind": "agreement"},
        {"good": "w1", "bad": "w2"},
    ]
    (tmp_path / "b.jsonl").write_text("\n".join(map(json.dumps, lines)))
    found = contrast_pairs(unigram(VALUES), read_pairs(tmp_path), None, "model").to_pylist()
    told = {row["phenomenon"]: (row["accuracy"], row["contrastive_entropy"]) for row in found}
    assert told == {
        "agreement": (pytest.approx(2 / 3), (2 - 2 + 8) / 3),
        "function word": (1, 5),
        "npi: agreement": (1, 2),
        "b": (1, 1),
    }


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.tsv", "good\na b\n", "line 1: the columns are 'good'"),
        ("a.tsv", "a b\nc d\n", "line 1: the columns are 'a b'"),
        ("a.tsv", "good\tbad\na b\n", "line 2: has 1 fields, expected 2"),
        ("a.tsv", "good\tbad\na\t \n", "line 2: bad is empty"),
        ("a.jsonl", '{"good": "a"}\n', "line 1: has the fields good; a pair has"),
        ("a.jsonl", '{"good": "a", "bad": ""}\n', "line 1: bad is empty"),
        ("a.jsonl", '{"good": "a", "bad": 3}\n', "line 1: bad is empty or no text"),
        ("a.jsonl", "[1]\n", "line 1: is no JSON object"),
        ("a.jsonl", '{"good": \n', "line 1: is no JSON"),
        ("a.tsv", "", "is empty"),
    ],
)
def test_files_that_hold_no_pairs(name, content, message, tmp_path):
    (tmp_path / name).write_text(content)
    check_refused(message, read_pairs, tmp_path / name)


PAIRS = {
    "order.jsonl": [("the cat sat", "cat the sat"), ("a cat is", "is cat a")],
    "other.tsv": [("the dog sat", "dog the sat"), ("on the mat", "mat on the"), ("a", "a a")],
}


def test_a_folder_of_files_under_an_arpa_file_and_the_means_over_files(tmp_path):
    """Oracle: the scores of each sentence by the reader of ARPA files that needs no torch."""
    lines = [f"the cat sat on the mat {k}\nthe dog sat {k}\na cat is a dog" for k in range(7)]
    (tmp_path / "text.txt").write_text("\n".join(lines) + "\n")
    given = ["--text", tmp_path / "text.txt", "--order", 2, "--arpa", tmp_path / "model.arpa"]
    estimate_ngram([*map(str, given)])
    folder = tmp_path / "pairs"
    folder.mkdir()
    (folder / "README.md").write_text("no pairs")
    for name, pairs in PAIRS.items():
        held = (
            [json.dumps({"sentence_good": good, "sentence_bad": bad}) for good, bad in pairs]
            if name.endswith("jsonl")
            else ["good\tbad", *("\t".join(pair) for pair in pairs)]
        )
        (folder / name).write_text("\n".join(held) + "\n")
    model = arpa.read_arpa(tmp_path / "model.arpa")

    def score(sentence):
        (tmp_path / "s.txt").write_text(sentence + "\n")
        found = arpa.summarize_arpa(model, [tmp_path / "s.txt"], sentence_files.UnknownRule())
        return float(found["log10_prob"] * math.log(10))

    gains = [[score(good) - score(bad) for good, bad in pairs] for pairs in PAIRS.values()]
    right = [[(gain > 0) for gain in own] for own in gains]
    found = contrast(folder, model=tmp_path / "model.arpa")
    assert found.table["phenomenon"].tolist() == ["order", "other"]
    entropies = found.table["contrastive_entropy"].tolist()
    assert entropies == pytest.approx([np.mean(own) for own in gains])
    assert found.summary["contrastive_entropy"] == pytest.approx(np.mean([*map(np.mean, gains)]))
    assert found.summary["accuracy"] == pytest.approx(np.mean([*map(np.mean, right)]))
    assert found.summary["files"] == 2
    assert "mean over 2 files" in found.text
    assert f"  accuracy     {found.summary['accuracy']:.3f}\n" in found.text


LETTERS = [*"abcdefghij", "."]
GATED = {"embedding_size": 8, "hidden_size": 12, "layers": 1}
ARCHITECTURES = {"lstm": GATED, "gru": GATED, "sentence-rnn": {"size": 6}}


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Give a folder with documents, a vocabulary, and untrained models of three families."""
    folder = tmp_path_factory.mktemp("home")
    rng = np.random.default_rng(0)
    words = [*LETTERS, ".", "zz"]
    texts = [" ".join(rng.choice(words, rng.integers(3, 20)).tolist()) for _ in range(40)]
    write_documents(folder / "documents.parquet", texts)
    vocabulary = ClosedVocabulary(LETTERS, 1)
    vocabulary.save(folder / "words.json")
    ClosedVocabulary(["x", "y"], 1).save(folder / "foreign.json")
    BPEVocabulary.build([texts], 270).save(folder / "bpe.json")
    torch.manual_seed(0)
    for family, architecture in ARCHITECTURES.items():
        model = registry.find(family)(vocabulary_size=vocabulary.size, architecture=architecture)
        registry.save_model(folder / family, model, vocabulary, {})
    return folder


def score(home, output, model, *extra, **changed):
    flags = {
        "model": home / model,
        "device": "cpu",  # bit for bit
        "documents": home / "documents.parquet",
        "split_unit": "page",
        "substitutes": home / "words.json",
        "versions": json.dumps({"0.0": [0, 1], "0.1": [0, 4], "0.5": [0, 4]}),
        "seed": 3,
        "output": output,
    } | changed
    given = [part for name, held in flags.items() for part in (f"--{name.replace('_', '-')}", held)]
    run_script("score_contrast", *given, *extra)


def measured(folder, model):
    shards = sorted((folder / model).glob("*.parquet"))
    output = folder / f"{model}.parquet"
    run_script("measure_contrast", *shards, "--model", model, "--output", output)
    rows: list[dict[str, object]] = pq.read_table(output).to_pylist()
    return rows


def test_commands_give_the_same_whatever_the_shards(home, tmp_path, one_thread):
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    for model in ARCHITECTURES:
        score(home, whole / model / "0.parquet", model, "--sentences", 0, 60, "--limit", 60)
    for block, (first, count) in enumerate(((0, 25), (25, 35))):
        for draws in (0, 2):
            versions = {"0.1": [draws, 2], "0.5": [draws, 2]} | ({} if draws else {"0.0": [0, 1]})
            limit = (60,) if block else ()
            path = cut / "lstm" / f"{block}-{draws}.parquet"
            given = "--sentences", first, count, "--limit", *limit
            score(home, path, "lstm", *given, versions=json.dumps(versions))
    assert measured(cut, "lstm") == measured(whole, "lstm")
    for model in ("gru", "sentence-rnn"):
        assert measured(whole, model)
    shards = [whole / model / "0.parquet" for model in ARCHITECTURES]
    run_script("compare_contrast", *shards, "--output", tmp_path / "differences.parquet")
    found = pq.read_table(tmp_path / "differences.parquet").to_pandas()
    pairs = found[["unit", "first", "second"]].drop_duplicates()
    assert pairs["unit"].tolist() == ["word", *["sentence"] * 3]


def test_substitutes_may_be_types_of_the_split_and_folders_have_one_name(home, tmp_path):
    given = ["--sentences", 0, 60]
    text = json.dumps({"substitutes": "text"})
    score(home, tmp_path / "0.parquet", "lstm", *given, "--substitutes", distortion=text)
    rows = pq.read_table(tmp_path / "0.parquet").to_pandas()
    assert (rows.loc[rows["level"] > 0, "substituted"] > 0).any()
    for folder in ("a", "b"):
        score(home, tmp_path / folder / "lstm" / "0.parquet", "lstm", "--sentences", 0, 9)
    shards = [tmp_path / folder / "lstm" / "0.parquet" for folder in "ab"]
    with pytest.raises(Exception, match="two folders have this name"):
        run_script("compare_contrast", *shards, "--output", tmp_path / "d.parquet")


def test_a_scoring_that_is_not_possible_is_told(home, tmp_path):
    cases = {
        "foreign.json: has no word of the text": {"substitutes": home / "foreign.json"},
        "level: is 2.0, expected 0": {"versions": '{"2": [0, 1]}'},
        "distortion: substitution, transposition": {"distortion": '{"substitution": 0.2}'},
        "documents.parquet: the split 'valid' has no words": {"split": "valid"},
        "nowhere: is no model folder": {"model": "nowhere"},
        "bpe.json: has parts of words": {"substitutes": home / "bpe.json"},
    }
    output = tmp_path / "0.parquet"
    for message, changed in cases.items():
        given = home, output, changed.pop("model", "lstm"), "--sentences", 0, 9
        check_refused(message, score, *given, **changed)
    assert not output.exists()


@pytest.mark.parametrize("model", ["lstm", "sentence-rnn"])
def test_pairs_are_told_and_written(model, home, tmp_path, capsys):
    pairs = tmp_path / "pairs.tsv"
    lines = ["good\tbad\tphenomenon", *["a b c .\ta c b .\t<b>$x$</b>"] * 25, "a\ta\t<b>$x$</b>"]
    pairs.write_text("\n".join(lines) + "\n")
    output = tmp_path / "found.parquet"
    flags = ("--model", home / model, "--pairs", pairs, "--output", output)
    run_function("contrast", [*map(str, flags)])
    (row,) = pq.read_table(output).to_pylist()
    assert (row["model"], row["phenomenon"]) == (model, "<b>$x$</b>")
    assert (row["pairs"], row["identical"]) == (26, 1)
    printed = capsys.readouterr().out
    assert f"H_C          {row['contrastive_entropy']:.3f}" in printed
    assert "<b>$x$</b>: 26 pairs" in printed

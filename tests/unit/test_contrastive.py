"""Contrastive entropy from texts to intervals: sentences, scores, sums and measures.

Oracles: the closed form of a unigram model under substitution; plain loops over the rows of shards;
properties (0 at level 0, scaling, invariance to batches, shards, order). Needs nothing beyond the
package.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from scipy.stats import t
from torch import Tensor

from beyond_perplexity.contrastive.entropy import ContrastSums, contrast_rows, read_sums
from beyond_perplexity.contrastive.scores import (
    DocumentScorer,
    Scorer,
    SentenceScorer,
    Substitutes,
    make_scorer,
    read_versions,
    score_texts,
    score_versions,
    types_of_split,
)
from beyond_perplexity.corpus.distortions import DistortionOptions
from beyond_perplexity.corpus.sentences import CutDocument, cut_sentences, sentence_item, take_units
from beyond_perplexity.errors import InputError
from beyond_perplexity.models.huggingface_bring import bring
from beyond_perplexity.models.likelihoods import score_documents
from beyond_perplexity.models.registry import build
from beyond_perplexity.schemas.contrastive import CONTRAST_SCORES
from beyond_perplexity.schemas.corpora import DOCUMENTS
from beyond_perplexity.storage.shards import write_shard
from beyond_perplexity.vocabulary import ClosedVocabulary
from tests.unit.huggingface_models import MAKERS

WORDS = [f"w{number}" for number in range(40)]
VOCABULARY = ClosedVocabulary(WORDS, 5)
SUBSTITUTES = Substitutes(WORDS, "words")
VERSIONS = {0.0: (0, 1), 0.1: (0, 3), 0.5: (0, 4), 1.0: (0, 2)}
HALVES = DistortionOptions()


def random_units(
    count: int, seed: int = 0, longest: int = 12, types: int = 43
) -> list[CutDocument]:
    """Draw documents of one to three sentences over the words and, from 41 types on, others."""
    rng = np.random.default_rng(seed)
    units = []
    for unit_id in range(count):
        lengths = rng.integers(1, longest, rng.integers(1, 4))
        held = [[f"w{number}" for number in rng.integers(0, types, n)] for n in lengths]
        units.append(CutDocument(unit_id, f"page {unit_id // 2}", held))
    return units


class Unigram(Scorer):
    """A text's log score is the sum of a weight of each word."""

    sentence_level = False

    def __init__(self, weights: np.ndarray, scale: float = 1.0) -> None:
        super().__init__(VOCABULARY)
        self.weights, self.scale = weights, scale

    def strings(self, text: Sequence[str]) -> list[str]:
        return [" ".join(text)]

    def pieces(self, text: Sequence[str], ids: Sequence[np.ndarray]) -> Iterator[np.ndarray]:
        yield ids[0]

    def width(self, piece: np.ndarray) -> int:
        return 1

    def run(self, pieces: Sequence[np.ndarray], width: int) -> np.ndarray:
        return np.array([self.scale * self.weights[ids].sum() for ids in pieces])


class Energies:
    """A sentence model whose score depends on the order of words."""

    device = torch.device("cpu")

    def sentence_log_scores(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        places = torch.arange(tokens.shape[1])
        held = places < lengths[:, None]
        return torch.where(held, torch.sin(tokens * (1.0 + places)), 0).double().sum(1)


def weights(seed: int = 4) -> np.ndarray:
    return np.log(np.random.default_rng(seed).dirichlet(np.ones(VOCABULARY.size)))


def write_scores(
    folder: Path,
    scorer: Scorer,
    units: Sequence[CutDocument],
    *,
    blocks: int = 1,
    draws: int = 100,
    options: DistortionOptions = HALVES,
    versions: dict[float, tuple[int, int]] = VERSIONS,
) -> list[str]:
    """Write the shards of a scoring: so many blocks of units, each by blocks of so many draws."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for number, part in enumerate(np.array_split(np.arange(len(units)), blocks)):
        held = [units[place] for place in part]
        for block in range(-(-max(n for _, n in versions.values()) // draws)):
            first = block * draws
            cut = {
                level: (first, min(draws, n - first))
                for level, (_, n) in versions.items()
                if n > first
            }
            rows = score_versions(scorer, held, SUBSTITUTES, cut, options, seed=7)
            paths.append(str(folder / f"{number:05d}-{block:05d}.parquet"))
            write_shard(paths[-1], CONTRAST_SCORES, rows, {})
    return paths


def rows_of(sums: ContrastSums, base: float = 0.1) -> dict[tuple[str, str, float | None], Any]:
    rows = contrast_rows(sums, "model", base)
    return {(row["unit"], row["measure"], row["level"]): row for row in rows}


# ---- sentences ----


def write_documents(path: Path, texts: Sequence[str], splits: Sequence[str] | None = None) -> str:
    table = pa.table(
        {
            "doc_id": range(len(texts)),
            "split": splits or ["test"] * len(texts),
            "title": [f"page {number // 3}" for number in range(len(texts))],
            "text": texts,
            "n_tokens": [len(text.split()) for text in texts],
        },
        DOCUMENTS,
    )
    write_shard(path, DOCUMENTS, table, {})
    return str(path)


def corpus(folder: Path) -> str:
    texts = [" ".join(["a", "b", "."] * (1 + number % 4)) for number in range(30)]
    splits = ["train", "test", "test"] * 10
    return write_documents(folder / "documents.parquet", [*texts, ""], [*splits, "test"])


def test_sentences_end_after_marks_or_with_the_document() -> None:
    assert cut_sentences("a b . . c ! d", whole=False) == [["a", "b", ".", "."], ["c", "!"], ["d"]]
    assert cut_sentences("a  b . c", whole=True) == [["a", "b", ".", "c"]]
    assert cut_sentences("", whole=True) == cut_sentences(" ", whole=False) == []


def test_blocks_are_the_whole_subset_and_a_smaller_one_begins_a_larger(tmp_path: Path) -> None:
    path = corpus(tmp_path)
    whole = take_units(path, "test", 0, 40, seed=1, limit=40)
    assert sum(len(unit.sentences) for unit in whole) <= 40
    blocks = [
        unit
        for first in range(0, 40, 7)
        for unit in take_units(path, "test", first, min(7, 40 - first), seed=1, limit=40)
    ]
    assert blocks == whole
    larger = take_units(path, "test", 0, 1000, seed=1)
    assert larger[: len(whole)] == whole
    assert len(larger) == 20  # all but the empty one
    assert {unit.unit_id % 3 for unit in larger} == {1, 2}
    assert all(unit.group is None for unit in larger)
    grouped = take_units(path, "test", 0, 1000, seed=1, grouped=True)
    assert all(unit.group == f"page {unit.unit_id // 3}" for unit in grouped)
    assert [unit.unit_id for unit in take_units(path, "test", 0, 1000, seed=2)] != [
        unit.unit_id for unit in larger
    ]


def test_documents_of_one_sentence(tmp_path: Path) -> None:
    found = take_units(corpus(tmp_path), "test", 0, 1000, seed=1, whole=True)
    assert all(len(unit.sentences) == 1 for unit in found)


def test_a_subset_without_documents(tmp_path: Path) -> None:
    path = write_documents(tmp_path / "documents.parquet", ["a . b . c ."])
    with pytest.raises(InputError, match=r"has 3 sentences, more than the 2 that are wanted"):
        take_units(path, "test", 0, 2, seed=1, limit=2)
    with pytest.raises(InputError, match="the split 'valid' has no words"):
        take_units(path, "valid", 0, 2, seed=1)
    assert take_units(path, "test", 5, 2, seed=1) == []


def test_items_of_sentences_are_their_own() -> None:
    items = {sentence_item(unit, place) for unit in range(50) for place in range(50)}
    assert len(items) == 2500
    with pytest.raises(InputError, match="doc_id 3: has more than"):
        sentence_item(3, 1 << 20)


def test_types_of_a_split(tmp_path: Path) -> None:
    path = write_documents(tmp_path / "d.parquet", ["b a", "c", "a z"], ["test", "train", "test"])
    assert types_of_split(path, "test") == ["a", "b", "z"]


# ---- scores ----


@pytest.mark.parametrize("family", ["lstm", "gru", "transformer", "cnn"])
def test_a_score_does_not_depend_on_its_company(family: str, one_thread: None) -> None:
    """Oracle: the same text alone, and in other batches; bit for bit."""
    torch.manual_seed(1)
    model = build({"family": family, "architecture": {}}, VOCABULARY.size).eval()
    scorer = DocumentScorer(model, VOCABULARY)
    texts = [[" ".join(words) for words in unit.sentences] for unit in random_units(60, 3, 40)]
    whole = score_texts(scorer, texts).log_score
    assert np.array_equal(score_texts(scorer, texts[::-1], 300).log_score[::-1], whole)
    alone = [score_texts(scorer, [text]).log_score[0] for text in texts[:15]]
    assert np.array_equal(alone, whole[:15])
    plain = score_documents(model, VOCABULARY, [" ".join(text) for text in texts])
    assert np.allclose(whole, [score.log_prob for score in plain], rtol=1e-5)


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_models_of_hugging_face_score_the_same_texts(
    family: str, tmp_path: Path, one_thread: None
) -> None:
    """Oracle: each text alone, and the scoring of documents; texts go beyond the context of 64."""
    MAKERS[family](tmp_path)
    model, vocabulary, _ = bring({"path": str(tmp_path)}, None)
    scorer = make_scorer(model.eval(), vocabulary, family)
    texts = [[" ".join(words) for words in unit.sentences] for unit in random_units(20, 3, 30)]
    whole = score_texts(scorer, texts).log_score
    alone = [score_texts(scorer, [text]).log_score[0] for text in texts[:8]]
    assert np.array_equal(alone, whole[:8])
    plain = score_documents(model, vocabulary, [" ".join(text) for text in texts])
    assert np.allclose(whole, [score.log_prob for score in plain], rtol=1e-5)


def test_documents_beyond_the_context_are_scored_in_windows(one_thread: None) -> None:
    torch.manual_seed(1)
    options = {"family": "transformer", "architecture": {"context_length": 10}}
    model = build(options, VOCABULARY.size).eval()
    texts = [[" ".join(w for s in unit.sentences for w in s)] for unit in random_units(20, 5, 30)]
    found = score_texts(DocumentScorer(model, VOCABULARY), texts)
    plain = list(score_documents(model, VOCABULARY, [text for (text,) in texts]))
    assert np.allclose(found.log_score, [score.log_prob for score in plain], rtol=1e-5)
    assert found.unknown.tolist() == [score.unknown for score in plain]


def test_sentence_scores_add_up() -> None:
    scorer = SentenceScorer(Energies(), VOCABULARY)
    units = random_units(30)
    texts = [[" ".join(words) for words in unit.sentences] for unit in units]
    found = score_texts(scorer, texts, 64).log_score
    for unit, score in zip(units, found, strict=True):
        ids = [VOCABULARY.encode([" ".join(words)])[0] for words in unit.sentences]
        expected = sum(math.sin(i * (1 + t)) for row in ids for t, i in enumerate(row.tolist()))
        assert score == pytest.approx(expected, abs=1e-4)


def test_a_broken_model_and_one_with_latent_variables() -> None:
    broken = Unigram(np.full(VOCABULARY.size, math.nan))
    with pytest.raises(InputError, match="the score NaN"):
        score_texts(broken, [["w1"]])
    with pytest.raises(InputError, match="latent variables"):
        make_scorer(torch.nn.Linear(1, 1), VOCABULARY, "rnng")  # type: ignore[arg-type]
    assert score_texts(broken, []).log_score.shape == (0,)


def test_all_models_score_the_same_words() -> None:
    """Oracle: the texts that scorers of other vocabularies are given."""
    seen: list[list[tuple[str, ...]]] = []

    class Listening(Unigram):
        def strings(self, text: Sequence[str]) -> list[str]:
            seen[-1].append(tuple(text))
            return super().strings(text)

    for words in (WORDS, WORDS[:3]):
        scorer = Listening(np.zeros(100))
        scorer._vocabulary = ClosedVocabulary(words, 1)
        seen.append([])
        score_versions(scorer, random_units(20), SUBSTITUTES, VERSIONS, HALVES, seed=7)
    assert seen[0] == seen[1]
    assert len(set(seen[0])) > 60


# ---- measures ----


def test_a_unigram_model_has_its_closed_form(tmp_path: Path) -> None:
    """Oracle: H_C(d) = x_S (mean weight of the text − mean weight of the substitutes)."""
    units = random_units(1500)
    options = DistortionOptions(1.0, 0.0)
    versions = {0.0: (0, 1), 0.3: (0, 20)}
    scorer = Unigram(weights())
    paths = write_scores(tmp_path, scorer, units, options=options, versions=versions)
    row = rows_of(read_sums(paths), 0.3)["word", "contrastive_entropy", 0.3]
    ids = VOCABULARY.encode([" ".join(w) for unit in units for w in unit.sentences])
    own = scorer.weights[np.concatenate(ids)].mean()
    exact = 0.3 * (own - scorer.weights[3:].mean())
    assert abs(row["value"] - exact) < 4 * row["deviation"] / math.sqrt(20)
    assert row["low"] < exact < row["high"]
    assert row["words"] == sum(len(w) for unit in units for w in unit.sentences)


def test_transpositions_are_nothing_to_a_unigram_model_and_level_0_to_any(tmp_path: Path) -> None:
    options = DistortionOptions(0.0, 1.0)
    sums = read_sums(
        write_scores(tmp_path / "a", Unigram(weights()), random_units(50), options=options)
    )
    found = rows_of(sums)
    assert found["word", "contrastive_entropy", 1.0]["value"] == pytest.approx(0, abs=1e-12)
    assert sums.levels[1.0].events[1] > 0
    scorer = SentenceScorer(Energies(), VOCABULARY)
    found = rows_of(read_sums(write_scores(tmp_path / "b", scorer, random_units(50))))
    for unit in ("word", "sentence"):
        row = found[unit, "contrastive_entropy", 0.0]
        assert (row["value"], row["low"], row["high"], row["deviation"]) == (0, 0, 0, None)


def test_a_scale_scales_h_c_and_leaves_the_ratio(tmp_path: Path) -> None:
    units = random_units(80)
    found = [
        rows_of(read_sums(write_scores(tmp_path / str(scale), Unigram(weights(), scale), units)))
        for scale in (1.0, 4.0)
    ]
    assert found[0].keys() == found[1].keys()
    for key, row in found[0].items():
        factor = 1.0 if key[1] == "ratio" else 4.0
        for name in ("value", "low", "high", "deviation"):
            if row[name] is not None:
                assert found[1][key][name] == pytest.approx(factor * row[name], rel=1e-9), key


@pytest.mark.parametrize("kind", ["words", "sentences"])
def test_shards_do_not_matter(kind: str, tmp_path: Path) -> None:
    """Oracle: the one shard; bit for bit."""
    units = random_units(47)
    scorer = Unigram(weights()) if kind == "words" else SentenceScorer(Energies(), VOCABULARY)
    one = rows_of(read_sums(write_scores(tmp_path / "one", scorer, units)))
    for blocks, draws in ((5, 100), (1, 1), (3, 2)):
        cut = write_scores(tmp_path / f"{blocks}{draws}", scorer, units, blocks=blocks, draws=draws)
        assert rows_of(read_sums(cut)) == one


def test_measures_equal_plain_loops(tmp_path: Path) -> None:
    """Oracle: sums over the rows of the shard, and jackknives that leave out page after page."""
    units = random_units(60, types=10)  # the likelier words, so that distortions cost
    paths = write_scores(tmp_path, Unigram(np.sort(weights())[::-1]), units)
    rows = pq.read_table(paths[0]).to_pylist()
    own = {row["unit_id"]: row for row in rows if row["level"] == 0}
    found = rows_of(read_sums(paths))

    def entropy(level: float, left_out: str = "", draw: int | None = None) -> float:
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
        without = np.array([function(page) for page in pages])
        error = math.sqrt((len(pages) - 1) / len(pages) * ((without - function()) ** 2).sum())
        half = t.ppf(0.975, effective - 1) * error
        assert (row["low"], row["high"]) == pytest.approx((function() - half, function() + half))
        draws = range(4 if measure == "contrastive_entropy" else 3)  # the base level has 3
        assert row["deviation"] == pytest.approx(
            np.std([function("", draw) for draw in draws], ddof=1)
        )
    cross = found["sentence", "cross_entropy", None]
    total = sum(row["log_score"] for row in own.values())
    assert cross["value"] == pytest.approx(-total / sum(len(unit.sentences) for unit in units))


def test_without_a_likelihood_there_is_no_cross_entropy(tmp_path: Path) -> None:
    scorer = SentenceScorer(Energies(), VOCABULARY)
    found = rows_of(read_sums(write_scores(tmp_path, scorer, random_units(30))))
    assert {measure for _, measure, _ in found} == {"contrastive_entropy", "ratio"}
    assert all(row["sentence_level"] for row in found.values())


def test_where_lengths_change_there_is_nothing_per_word(tmp_path: Path) -> None:
    options = DistortionOptions(0.25, 0.25, 0.25, 0.25)
    paths = write_scores(tmp_path, Unigram(weights()), random_units(60), options=options)
    found = rows_of(read_sums(paths))
    assert {unit for unit, *_ in found} == {"sentence"}
    assert "change their length" in found["sentence", "contrastive_entropy", 0.5]["note"]


def test_few_documents_impossible_ones_and_what_is_counted(tmp_path: Path) -> None:
    units = [CutDocument(number, None, [["w1"], ["w2", "zzz"]]) for number in range(19)]
    found = rows_of(read_sums(write_scores(tmp_path / "few", Unigram(weights()), units)))
    row = found["word", "contrastive_entropy", 0.5]
    assert (row["low"], row["high"], row["groups"]) == (None, None, 19)
    assert "fewer than 20 effective groups" in row["note"]
    assert "19 of 38 sentences are of one word" in row["note"]
    assert "33.3% of the words are <unk>" in row["note"]
    never = weights()
    never[5] = -math.inf  # a word of some documents
    found = rows_of(read_sums(write_scores(tmp_path / "inf", Unigram(never), random_units(60))))
    row = found["word", "contrastive_entropy", 0.5]
    assert (row["value"], row["deviation"]) == (None, None)
    assert "documents impossible" in row["note"]
    assert found["word", "cross_entropy", None]["value"] is None
    never = weights()
    never[3] = -math.inf  # not in these texts, but among the substitutes
    units = [CutDocument(number, None, [["w1", "w2"] * 4]) for number in range(30)]
    found = rows_of(read_sums(write_scores(tmp_path / "new", Unigram(never), units)))
    assert "distorted documents impossible" in found["word", "contrastive_entropy", 1.0]["note"]
    assert found["word", "cross_entropy", None]["value"] is not None


def test_a_base_that_may_be_zero_gives_no_interval_of_the_ratio(tmp_path: Path) -> None:
    flat = Unigram(np.random.default_rng(0).normal(0, 1e-3, VOCABULARY.size))
    sums = read_sums(write_scores(tmp_path, flat, random_units(60)))
    row = rows_of(sums)["word", "ratio", 0.5]
    assert (row["low"], row["high"]) == (None, None)
    assert "H_C at 0.1 is not clearly above 0" in row["note"]
    assert ("word", "ratio", 0.5) not in rows_of(sums, base=0.7)


def test_shards_that_do_not_belong_together(tmp_path: Path) -> None:
    paths = write_scores(tmp_path, Unigram(weights()), random_units(10), draws=2)
    with pytest.raises(InputError, match="without distortion is in no file"):
        read_sums(paths[1:])
    with pytest.raises(InputError, match="is given twice"):
        read_sums([*paths, paths[0]])
    late, versions = str(tmp_path / "late.parquet"), {0.0: (0, 1), 0.1: (1, 1)}
    rows = score_versions(
        Unigram(weights()), random_units(10), SUBSTITUTES, versions, HALVES, seed=7
    )
    write_shard(late, CONTRAST_SCORES, rows, {})
    with pytest.raises(InputError, match=r"draw 0 of level 0\.1 was scored for 0 of 10"):
        read_sums([late])


def test_substitutes_and_versions_that_are_not_possible() -> None:
    with pytest.raises(InputError, match="other: has no words to substitute"):
        Substitutes([], "other")
    with pytest.raises(InputError, match="other: has no word of the text"):
        Substitutes(["x"], "other").check(random_units(3))
    assert read_versions({"0.5": [2, 3]}) == {0.5: (2, 3)}
    for wrong in ({"1.5": [0, 1]}, {"x": [0, 1]}, {"0.1": [0]}, {"0.1": [0, -1]}, {"0.1": 3}):
        with pytest.raises(InputError, match=r"level: is 1\.5|versions"):
            read_versions(wrong)

"""Sufficient statistics: counting, merging, spilling, stop words of languages, symbols, resamples.

Oracles: plain counters, merging (hypothesis), `unicodedata`, gensim's stop words, known words of
languages and the Moses rules; binomial rejections of cases of `benchmarks/calibration.py`.
"""

import json
import math
import unicodedata
from collections import Counter
from html import unescape
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from gensim.parsing.preprocessing import STOPWORDS
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.stats import binom, binomtest, skew
from scipy.stats import t as student

import beyond_perplexity
from benchmarks import calibration
from benchmarks.calibration import PARTS, Rate, rates
from benchmarks.coverages import Covered, Shifted
from benchmarks.levels import ANY, LEVEL, EqualTexts
from benchmarks.populations import Topics
from beyond_perplexity.corpus import moses, normalization
from beyond_perplexity.errors import InputError
from beyond_perplexity.inference import standard_errors
from beyond_perplexity.inference.standard_errors import StandardError, mean_error
from beyond_perplexity.planning.corpora import Corpora
from beyond_perplexity.storage.fingerprint import reached_parts
from beyond_perplexity.storage.shards import read_record, read_texts
from beyond_perplexity.tendencies import (
    document_values,
    sensitivity,
    statistics,
    tokens,
    word_classes,
)
from beyond_perplexity.tendencies.document_files import read_resample
from beyond_perplexity.tendencies.document_statistics import SIZED
from beyond_perplexity.tendencies.measurement_options import MeasurementOptions, SensitivityOptions
from beyond_perplexity.tendencies.power_laws import Heaps, fit_heaps, heaps_columns, heaps_errors
from beyond_perplexity.tendencies.word_classes import ClassOptions, load_stop_words, stop_word_list
from beyond_perplexity.vocabulary import SPECIAL_TOKENS, UNK, BPEVocabulary, ClosedVocabulary
from scripts import count_statistics
from scripts import merge_statistics as merge_script
from tests.unit.evaluator_oracles import check_refused
from tests.unit.small_corpora import write_documents
from tests.unit.text_pairs import run_script, statistics_of

WORDS = word_classes.StopWords("test", frozenset({"a", "the", "'t"}))
TOKENS = st.sampled_from(["a", "the", "'t", "cat", "Ünï", ",", "12", "-3", "$", "x1", "中"])
TEXTS = st.lists(st.lists(TOKENS, max_size=8).map(" ".join), max_size=12)


def count(path: Path, texts: list[str], batch: int = 5, stop=WORDS, **options: object) -> Path:
    statistics_of(texts, stop, path=path, batch=batch, **options)
    return path


def plain(texts: list[str]) -> Counter[tuple[object, ...]]:
    counts: Counter[tuple[object, ...]] = Counter()
    for text in texts:
        words = text.split()
        n = len(words)
        symbols = sum(all(unicodedata.category(c)[0] in "PNS" for c in token) for token in words)
        counts["length", None, n, None] += 1
        counts["types", None, n, len(set(words))] += 1
        counts["bigram_types", None, n, len(set(pairwise(words)))] += 1
        counts["stop_words", None, n, sum(token in WORDS.words for token in words)] += 1
        counts["symbols", None, n, symbols] += 1
        counts.update(("unigram", token, None, None) for token in words)
    return counts


def rows(path: Path) -> dict[tuple[object, ...], int]:
    table = pq.read_table(path)
    names = ("statistic", "type", "length", "value", "count")
    found = list(zip(*(table[name].to_pylist() for name in names), strict=True))
    assert len({row[:-1] for row in found}) == len(found)
    return {row[:-1]: row[-1] for row in found if row[0] not in SIZED}  # those: `test_order`


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(texts=TEXTS)
def test_counts_equal_a_plain_program(texts, tmp_path):
    assert rows(count(tmp_path / "s.parquet", texts)) == plain(texts)


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(texts=TEXTS.filter(bool), cut=st.integers(0, 12), batch=st.integers(1, 12))
def test_merge_is_shard_invariant_commutative_and_associative(texts, cut, batch, tmp_path):
    def merged(name: str, *parts: Path) -> Path:
        statistics.merge_statistics(parts, tmp_path / name, {})
        return tmp_path / name

    expected = pq.read_table(count(tmp_path / "whole.parquet", texts))
    first = count(tmp_path / "1.parquet", texts[:cut], batch)
    second = count(tmp_path / "2.parquet", texts[cut:], batch)
    third = count(tmp_path / "3.parquet", texts[:1])
    both = merged("12", first, second)
    assert pq.read_table(both).equals(expected)  # rows in canonical order, not only equal sets
    assert pq.read_table(merged("21", second, first)).equals(expected)
    left, right = merged("l", both, third), merged("r", first, merged("23", second, third))
    assert pq.read_table(left).equals(pq.read_table(right))


def test_spilled_types_equal_those_in_memory(tmp_path):
    rng = np.random.default_rng(0)
    texts = [" ".join(f"w{k}é" for k in rng.zipf(1.3, 30)) for _ in range(300)]
    memory = pq.read_table(count(tmp_path / "a.parquet", texts, 20))
    spilled = pq.read_table(count(tmp_path / "b.parquet", texts, 20, type_limit=200))
    assert memory.equals(spilled)
    assert pq.read_table(tmp_path / "b.parquet").num_rows > 1000
    with tokens.TypeCounter(limit=10) as counter:
        for start in range(0, 60, 6):
            types = pa.array([f"{k % 25:02d}" for k in range(start, start + 6)])
            counter.add(types, np.ones(6, np.int64))
        folder = Path(counter._folder.name)
        assert len(list(folder.iterdir())) > 2
        merged = pa.concat_tables(counter.sorted_counts())
    assert not folder.exists()
    expected = Counter(f"{k % 25:02d}" for k in range(60))
    types = sorted(expected)
    counts = merged.select(["type", "count"]).to_pydict()
    assert counts == {"type": types, "count": [expected[k] for k in types]}


@pytest.mark.parametrize("space", ["\t", "\n", "\u00a0", "\u3000", "\x1c", "\x85", "\u2028", "  "])
def test_split_is_that_of_python(space):
    texts = [f"{space}a{space}b c", "", space, f"d{space}", None]
    batch = tokens.tokenize_batch(pa.array(texts))
    types = batch.types.to_pylist()
    found = [[types[i] for i in batch.ids[a:b]] for a, b in pairwise(batch.offsets)]
    assert found == [(text or "").split() for text in texts]


def test_slices_are_read_resamples_are_subsets_and_short_documents_told_before_a_cut(documents):
    batch = tokens.tokenize_batch(pa.array(["x y", "a b", "c"]).slice(1))
    assert (batch.types.to_pylist(), batch.offsets.tolist()) == (["a", "b", "c"], [0, 2, 3])
    texts = pa.array(["a b c", "a  b", None, "a\tb\nc d"])
    assert tokens.TextView(None, 1, 3).admits(texts).tolist() == [True, False, False, True]
    assert tokens.WHOLE_TEXT.admits(texts).all()
    view = tokens.TextView(pa.array(["b", "a"]), 3, 2)
    assert json.loads(json.dumps(view.describe())) == view.describe()

    def drawn(resample: int) -> list[str]:
        batches = read_resample([documents], "train", 10, resample, 7)
        return [text for batch in batches for text in batch.to_pylist()]

    train = [t for batch in read_texts([documents], "train") for t in batch.to_pylist()]
    assert len(train) == 30
    assert len(set(drawn(0))) == 10
    assert set(drawn(0)) < set(train)
    assert drawn(0) == drawn(0) != drawn(1)
    check_refused("cannot be drawn from 30", read_resample, [documents], "train", 31, 0, 7)


@pytest.mark.parametrize(("s_symbols", "classes"), [(True, "PNS"), (False, "PN")])
def test_symbols_are_those_of_unicode(s_symbols, classes):
    points = [chr(c) for c in range(33, 0x3000) if not chr(c).isspace()]
    # RE2 and Python may know different versions of Unicode: unassigned points are left out.
    points = [c for c in points if unicodedata.category(c) not in ("Cn", "Cc", "Co")]
    types = points + [f"{c}a" for c in points[:200]] + [f"1{c}" for c in points]
    found = word_classes.symbol_mask(pa.array(types), s_symbols)
    expected = [all(unicodedata.category(c)[0] in classes for c in token) for token in types]
    assert found.tolist() == expected


def test_lists_of_stop_words_are_read_recorded_and_not_merged(tmp_path):
    assert word_classes.moses_forms("don't") == ("don", "'t")
    assert word_classes.moses_forms("they’re") == ("they", "'re")
    assert word_classes.moses_forms("the") == ("the",)
    (tmp_path / "words.txt").write_text("Don't\nthe\n\n", encoding="utf-8")
    words = word_classes.load_stop_words(str(tmp_path / "words.txt"))
    assert words.words == {"don't", "don", "'t", "the"}
    assert words.name.startswith("words.txt:")
    assert {"the", "of"} <= word_classes.load_stop_words("gensim").words
    words = (word_classes._LISTS / "gensim.txt").read_text(encoding="utf-8").split()
    assert set(words) == STOPWORDS
    check_refused("not readable", word_classes.load_stop_words, str(tmp_path / "missing.txt"))
    (tmp_path / "empty.txt").write_text("\n")
    check_refused("holds no word", word_classes.load_stop_words, str(tmp_path / "empty.txt"))
    try:
        words = word_classes.load_stop_words("nltk").words
    except InputError as error:
        message = str(error)
    else:
        message = "nltk.downloader stopwords" if "the" in words else ""
    assert "nltk.downloader stopwords" in message
    first = count(tmp_path / "1.parquet", ["a b"])
    second = count(tmp_path / "2.parquet", ["a b"], count_s_symbols=False)
    how = {"vocabulary": "raw", "maximum_tokens": None, "minimum_tokens": 0}
    assert statistics.description(first) == {"stop_words": "test", "count_s_symbols": True, **how}
    statistics.merge_statistics([first], tmp_path / "m.parquet", {"seed": 3})
    assert read_record(tmp_path / "m.parquet")["stop_words"] == "test"
    with pytest.raises(InputError, match=r"2\.parquet: counted with"):
        statistics.merge_statistics([first, second], tmp_path / "m.parquet", {})
    path = tmp_path / "m.parquet"
    check_refused("no statistics files", statistics.merge_statistics, [], path, {})
    held = statistics.read_statistics(count(tmp_path / "s.parquet", ["b a b", "", "c"]))
    assert (held.n_documents, held.n_tokens) == (3, 4)
    assert held.types.to_pylist() == ["a", "b", "c"]
    assert held.ranked(2).tolist() == [2, 1]
    empty = count(tmp_path / "empty.parquet", [])
    check_refused("holds no document", statistics.read_statistics, empty)


@pytest.fixture
def documents(tmp_path):
    splits = ["test" if i % 4 == 0 else "train" for i in range(40)]
    texts = [f"w{i} w" for i in range(40)]
    return write_documents(tmp_path / "documents.parquet", texts, splits, [""] * 40)


def test_scripts_count_and_merge(documents, tmp_path):
    output, merged = tmp_path / "s.parquet", tmp_path / "m.parquet"
    common = ["--input", documents, "--kind", "documents", "--output", output]
    run_script(count_statistics, *common, "--split", "test", "--no-count-s-symbols")
    assert statistics.read_statistics(output).n_documents == 10
    assert statistics.description(output)["count_s_symbols"] is False
    extra = ["--split", "train", "--size-of-split", "test", "--resample", "1", "--seed", "2"]
    run_script(count_statistics, *common, *extra)
    assert statistics.read_statistics(output).n_documents == 10
    run_script(merge_script, "--inputs", output, "--output", merged)
    assert pq.read_table(merged).equals(pq.read_table(output))
    assert json.dumps(read_record(merged))
    check_refused("--resample needs", run_script, count_statistics, *common, "--resample", "1")


READ_TOKENS = ["a", "the", "cat", "Ünï", "中", "<unk>", "<s>", "x1"]
READ_TEXTS = st.lists(st.lists(st.sampled_from(READ_TOKENS), max_size=8).map(" ".join), max_size=12)


def words(batch: tokens.TokenBatch) -> list[list[str]]:
    types = np.array([*batch.types.to_pylist(), ""], object)[batch.ids].tolist()
    return [types[start:end] for start, end in pairwise(batch.offsets)]


def read_by_hand(text: str, known: set[str] | None, longest: int | None) -> list[str]:
    words = text.split()[:longest]
    return [token if known is None or token in known else "<unk>" for token in words]


@settings(max_examples=200, deadline=None)
@given(
    texts=READ_TEXTS,
    known=st.none() | st.sets(st.sampled_from(READ_TOKENS)),
    longest=st.none() | st.integers(1, 9),
)
def test_a_view_reads_as_word_by_word(texts, known, longest):
    held = None if known is None else pa.array(sorted(known), pa.string())
    batch = tokens.TextView(held, longest).batch(pa.array(texts, pa.string()))
    assert words(batch) == [read_by_hand(text, known, longest) for text in texts]
    assert set(batch.types.to_pylist()) == {word for line in words(batch) for word in line}
    assert len(set(batch.types.to_pylist())) == len(batch.types)


@given(texts=READ_TEXTS)
def test_reading_twice_changes_nothing(texts):
    view = tokens.TextView(pa.array(["a", "cat"]), 3)
    once = view.batch(pa.array(texts, pa.string()))
    assert words(view.read(once)) == words(once)


@pytest.mark.parametrize("size", [1, 3, 1024])
def test_counts_of_documents_do_not_depend_on_blocks(size, monkeypatch):
    """The plain program of `test_statistics` holds at the default; here blocks are made small."""
    rng = np.random.default_rng(0)
    texts = [" ".join(f"w{k}" for k in rng.zipf(1.5, n) % 9) for n in rng.integers(0, 30, 40)]
    batch = tokens.tokenize_batch(pa.array(texts))
    monkeypatch.setattr(document_values, "_BLOCK", size)
    unigrams, bigrams = document_values.count_types(batch)
    assert unigrams.tolist() == [len(set(text.split())) for text in texts]
    assert bigrams.tolist() == [len(set(pairwise(text.split()))) for text in texts]
    names = [f"w{k}" for k in range(9)]
    masks = {name: np.array(batch.types.to_pylist()) == name for name in names}
    assert {
        name: found.tolist() for name, found in document_values.count_classes(batch, masks).items()
    } == {name: [text.split().count(name) for text in texts] for name in names}


def test_a_closed_vocabulary_reads_as_its_model_and_long_documents_take_more_passes():
    """Bits of a class are as many as the longest document needs; 3 * 21 + 3 * 21 bits here."""
    n = 2**20 + 5
    ids = (np.arange(n + 3) % 3).astype(np.int32)
    batch = tokens.TokenBatch(pa.array(["a", "b", "c"]), ids, np.array([0, n, n, n + 3]))
    masks = {str(k): np.arange(3) != k for k in range(3)}
    masks |= {f"all{k}": np.ones(3, bool) for k in range(3)}
    found = document_values.count_classes(batch, masks)
    for k in range(3):
        assert found[str(k)].tolist() == [n - np.count_nonzero(ids[:n] == k), 0, 2]
        assert found[f"all{k}"].tolist() == [n, 0, 3]
    texts = ["the cat saw a cat", "</s> the <unk> dog", ""]
    vocabulary = ClosedVocabulary(["the", "cat"], 3)
    view = tokens.TextView(pa.array(["the", "cat"]))
    assert SPECIAL_TOKENS[UNK] == tokens.UNKNOWN_WORD
    read = [" ".join(line) for line in words(view.batch(pa.array(texts)))]
    assert read == vocabulary.decode(vocabulary.encode(texts))


def test_statistics_are_of_the_view_with_vocabularies_of_models_or_users(tmp_path):
    texts = ["the cat saw a cat", "a dog", "the end"]
    view = tokens.TextView(pa.array(["the", "cat"]), 4)
    closed = count(tmp_path / "closed.parquet", texts, view=view)
    by_hand = [" ".join(read_by_hand(text, {"the", "cat"}, 4)) for text in texts]
    plain = count(tmp_path / "plain.parquet", by_hand)
    found, expected = statistics.read_statistics(closed), statistics.read_statistics(plain)
    assert found.types.equals(expected.types)
    assert found.counts.tolist() == expected.counts.tolist()
    other_order = tokens.TextView(pa.array(["cat", "the", "cat"]), 4)
    statistics.check_comparable(closed, count(tmp_path / "same.parquet", texts, view=other_order))
    check_refused("vocabulary 'raw'", statistics.check_comparable, closed, plain)
    longer = count(tmp_path / "longer.parquet", texts, view=tokens.TextView(view.words, 5))
    check_refused("maximum_tokens 5", statistics.check_comparable, closed, longer)
    closed, bpe, listed = (tmp_path / name for name in ("v.json", "bpe.json", "words.txt"))
    ClosedVocabulary(["the", "cat"], 3).save(closed)
    BPEVocabulary.build([["a cat"]], 259).save(bpe)
    listed.write_bytes("\ufeffthe\r\ncat\n\n{\n".encode())
    assert tokens.vocabulary_words(closed).to_pylist() == ["the", "cat"]
    assert tokens.vocabulary_words(bpe) is None
    assert tokens.vocabulary_words(listed).to_pylist() == ["the", "cat", "{"]
    for path, message in ((tmp_path / "none.txt", "no such file"), (tmp_path, "cannot be read")):
        check_refused(f"{path}: {message}", tokens.vocabulary_words, path)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", b"the\na cat\n", "a.txt: line 2: holds 2 words"),
        ("a.txt", b"the\n\xff\n", "a.txt: line 2: not UTF-8"),
        ("a.txt", b"the\nc\0t\n", "a.txt: line 2: holds NUL"),
        ("a.txt", b"\n \n", "a.txt: holds no word"),
        ("a.json", b"the\n", "a.json: line 1: not JSON"),
        ("a.json", b"[" * 100_000, "a.json: line 1: not JSON"),
        ("a.json", b"[1]", "a.json: has no 'kind'"),
        ("a.json", b'{"kind": "closed"}', "a.json: a closed vocabulary without 'words'"),
        ("a.json", b'{"kind": "closed", "words": ["a", 1]}', r"a.json: words\[1\] is no string"),
        ("a.txt", b'{"text": "the cat"}\n{"text": "b"}\n', "a.txt: line 2: not JSON"),
    ],
)
def test_what_is_no_vocabulary_is_told(name, content, message, tmp_path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=message) as error:
        tokens.vocabulary_words(tmp_path / name)
    assert "\n" not in str(error.value)


REPEATS = 60
TEXT = Topics(n_types=300, n_topics=8, own=30, size=6.0, least=4)
SWAPPED = {"unigram tvd", "unigram max_difference", "length ks", "length mean_difference"}


@pytest.mark.parametrize(
    ("units", "grouped", "vocabulary", "documents"),
    [
        *((60, (False, False), None, None), (24, (True, True), None, None)),
        *((30, (True, False), 80, None), (30, (True, False), 80, 900)),
    ],
)
def test_equal_populations_are_rejected_at_the_nominal_rate(units, grouped, vocabulary, documents):
    """The last has 6 times the samples, where swaps cannot test types by length."""
    case = EqualTexts(f"unit {units}", TEXT, units, grouped, vocabulary, documents)
    rejected: Counter[str] = Counter()
    for repeat in range(REPEATS):
        rejected.update({name: int(value) for name, value in case(repeat).items()})
    most = binom.isf(1e-4, REPEATS, LEVEL)
    swaps = grouped == (True, False)
    assert len(rejected) >= (9 if swaps else 11)
    assert any(name.startswith("type_token") for name in rejected) == (not swaps)
    assert set(rejected) >= SWAPPED
    assert max(rejected.values()) <= most, rejected
    assert sum(rejected.values()) > 0


def test_what_differs_is_rejected_and_a_rate_counts_what_happened():
    assert EqualTexts("few", TEXT, 12, (True, False))(0) == {ANY: False}
    # The simulation itself can reject: another population on the other side.

    class Mixed:
        classes = TEXT.classes
        documents = staticmethod(lambda rng, n: TEXT.documents(rng, n, factor=2.0))
        groups = TEXT.groups

    found = EqualTexts("apart", Mixed(), 40, (True, False))(0)
    assert found["length ks"]
    assert found[ANY]

    class Every:
        name, nominal, limits = "every third", "1/3", (0.3, 0.4)

        def __call__(self, repeat: int) -> dict[str, bool]:
            return {"a": repeat % 3 == 0} | ({"b": True} if repeat < 9 else {})

    found = rates("test", Every(), 27)
    assert rates("test", Every(), 27, 2) == found  # jobs have no part in it
    expected = [("a", pytest.approx(1 / 3), 27), ("b", 1.0, 9)]
    assert [(rate.measure, rate.rate, rate.repeats) for rate in found] == expected
    assert [rate.allowed for rate in found] == [True, False]
    assert "FAILS" in str(found[1])
    for repeats in (20, 60, 200, 1000):  # beyond the limit, and surely beyond the nominal rate
        for wrong, limits in ((0.1, (0.0, 0.075)), (0.0, (0.03, 1.0))):
            happened = round(wrong * repeats)
            interval = binomtest(happened, repeats).proportion_ci(0.998, "exact")
            sure = interval.low > 0.05 if wrong else interval.high < 0.05
            rate = Rate("test", "", "", happened / repeats, "0.05", limits, repeats)
            assert rate.allowed != sure
    assert set(PARTS) == {
        "levels",
        "attribution",
        "coverage",
        "partition",
        "zipf",
        "power",
        "prompts",
        "prompt-power",
        "words",
    }


def units_of(columns, groups=None, used=None):
    """Units of documents that have a cell each."""
    n = len(columns)
    kept = np.ones(n, bool) if used is None else used
    return standard_errors.sums_by_unit(
        np.ones(n, np.int64), columns, kept, lambda: np.arange(n), groups
    )


def test_the_error_of_a_mean_is_the_textbook_one_and_groups_are_left_out_whole():
    values = np.random.default_rng(0).normal(10, 3, 50)
    error = mean_error(units_of(values[:, None]))
    assert error.variance == pytest.approx(values.var(ddof=1) / 50)
    changes = values - values.mean()
    few = 3 * np.sum(changes**2) ** 2 / np.sum(changes**4)
    assert error.df == pytest.approx(min(50, few) - 1)
    # Oracle of skewness: SciPy's; of limits: at both Hall's transformation is Student's quantile.
    assert error.skewness == pytest.approx(skew(values) / math.sqrt(50))
    margin = student.ppf(0.975, error.df) * math.sqrt(error.variance)
    even = error._replace(skewness=0.0)
    assert even.limits(10.0, 0.95) == pytest.approx((10 - margin, 10 + margin))
    x, s = (10 - np.array(error.limits(10.0, 0.95))) / math.sqrt(error.variance), error.skewness
    moved = x + s / 6 + s * x**2 / 3 + s**2 * x**3 / 27
    assert moved == pytest.approx(student.ppf([0.975, 0.025], error.df))
    values, counts = np.array([1.0, 4.0, 6.0]), np.array([3, 0, 5])
    cells = standard_errors.sums_by_unit(counts, values[:, None], counts >= 0, lambda: counts, None)
    single = units_of(np.repeat(values, counts)[:, None])
    assert mean_error(cells) == pytest.approx(mean_error(single))
    rng = np.random.default_rng(1)
    groups = np.repeat([0, 1, 3, 4, 5], [1, 9, 4, 2, 7])  # group 2 has no document
    values = rng.normal(5, 1, 23) + groups
    used = np.arange(23) != 4
    found = mean_error(units_of(values[:, None], groups, used))
    kept = [(values[used & (groups != g)]) for g in np.unique(groups)]
    without = np.array([x.mean() for x in kept])
    assert found.variance == pytest.approx(4 / 5 * np.sum((without - values[used].mean()) ** 2))
    sizes = np.bincount(groups[used])
    changes = without - values[used].mean()
    few = 3 * np.sum(changes**2) ** 2 / np.sum(changes**4)
    assert found.df == pytest.approx(min(np.sum(sizes**2) ** 2 / np.sum(sizes**4), few) - 1)


@pytest.mark.parametrize("grouped", [False, True])
def test_one_step_without_a_unit_is_a_refit(grouped):
    """Oracle: `fit_heaps` of what remains; a step of Newton's method is near to it."""
    rng = np.random.default_rng(2)
    lengths = np.concatenate([[0, 0], 1 + rng.poisson(20, 198)])
    types = np.minimum(lengths, rng.poisson(1.4 * lengths**0.8))
    groups = np.arange(200) // 8 if grouped else np.arange(200)

    def fit(kept):
        sizes = np.bincount(lengths[kept])
        held = np.flatnonzero(sizes)
        return fit_heaps(held, sizes[held], np.bincount(lengths[kept], types[kept])[held])

    whole = fit(np.ones(200, bool))
    columns, used = heaps_columns(lengths, types, whole)
    errors = heaps_errors(units_of(columns, groups if grouped else None, used), whole)
    numbers = np.unique(groups[used])
    without = np.array([fit(groups != g) for g in numbers])
    sizes = np.bincount(groups[used])[numbers]
    ones = standard_errors.UnitSums(np.ones(len(numbers)), sizes, np.zeros((0, 1)))
    for column, error in enumerate(errors):
        exact = standard_errors.error_of(whole[column], without[:, column], ones)
        assert error == pytest.approx(exact, rel=0.01)


def test_errors_are_joined_by_their_formulas_and_what_is_not_defined_has_no_limits():
    one = units_of(np.array([[3.0]]))
    assert all(map(math.isnan, mean_error(one).limits(3.0, 0.95)))
    lengths, types = np.array([4, 4, 9]), np.array([3, 4, 6])
    fit = fit_heaps(np.array([4, 9]), np.array([2, 1]), np.array([7, 6]))
    columns, used = heaps_columns(lengths, types, fit)
    errors = heaps_errors(units_of(columns, None, used), fit)  # without the third one length
    assert all(math.isnan(error.variance) for error in errors)
    nothing = heaps_errors(units_of(columns, None, used), Heaps(math.nan, math.nan))
    assert all(math.isnan(error.variance) for error in nothing)
    found = StandardError(4.0, 9.0).mean_with(StandardError(16.0, 5.0))
    assert found == pytest.approx((9, 5, 0))
    # Oracle: the formula at two points; equal errors and sizes double the freedom.
    error = StandardError(2.0, 9.0)
    assert error.with_another(error) == pytest.approx((4, 18, 0))
    assert error.with_another(StandardError(0.0, 3.0)) == pytest.approx((2, 9, 0))
    assert StandardError(0.0, 3.0).with_another(StandardError(0.0, 5.0)) == (0, 3, 0)
    # Third moments of independent estimates add, that of what is taken away with another sign.
    found = StandardError(4.0, 9.0, 0.3).with_another(StandardError(9.0, 9.0, 0.2))
    assert found.skewness == pytest.approx((0.3 * 8 - 0.2 * 27) / 13**1.5)


@pytest.mark.parametrize(("units", "grouped"), [(200, (False, False)), (48, (True, False))])
def test_intervals_hold_what_they_name(units, grouped):
    """A small case of `benchmarks/coverages.py`: of every measure, binomially many."""
    shifted = Shifted(Topics(n_types=300, n_topics=8, own=30, size=6.0, least=3), 0.15, 1.15)
    case = Covered(f"unit {units}", shifted, shifted.targets(20_000), units, grouped)
    repeats = 40
    found = [case(repeat) for repeat in range(repeats)]
    rates = {name: sum(held[name] for held in found) for name in found[0]}
    assert len(rates) == 25
    assert min(rates.values()) >= binom.ppf(1e-4, repeats, 0.93), rates


FAST = {"permutations": 19, "bootstrap": 0}
GERMAN = [
    "Der Hund und die Katze waren für einen Tag in der Stadt .",
    "Über die Brücke ging ein alter Mann mit seinem Hund .",
    "Sie haben nicht mehr als drei Äpfel und eine Birne gegessen .",
    "Morgen regnet es .",
] * 12
SENTENCES = {
    "fr": ("L'homme qu'il a vu après l'été n'est pas d'ici.", {"l'", "qu'", "il", "a", "n'", "d'"}),
    "it": ("Dell'uomo non c'è più un'altra traccia nel paese.", {"dell'", "non", "c'", "un'"}),
    "de": ("Über dem Haus für die Kinder.", {"uber", "dem", "fur", "die"}),
    "es": ("¿Qué pasó con los niños?", {"que", "con", "los"}),
}


def stop_rows(table: pd.DataFrame) -> pd.DataFrame:
    return table[table["tendency"] == "stop_words"].set_index("measure")


def test_every_language_of_the_tokenizer_has_a_list_of_which_english_is_gensims():
    lists = [load_stop_words(stop_word_list("auto", language)) for language in moses.LANGUAGES]
    assert all(len(words.words) > 40 and not words.missing for words in lists)
    assert len({words.name for words in lists}) == len(moses.LANGUAGES)
    folder = Path(word_classes.__file__).with_name("stop_word_lists")
    assert "Redistribution and use" in (folder / "LICENSE").read_text()
    for path in folder.glob("*.txt"):
        lines = path.read_text(encoding="utf-8").splitlines()
        assert lines == [line.strip() for line in lines if line]
        assert all(" " not in line for line in lines)
        assert len(set(lines)) == len(lines)
    words = load_stop_words(stop_word_list("auto", "en"))
    assert (words.name, len(words.words)) == ("gensim", 337)
    assert words.words >= STOPWORDS
    given = [("gensim", "de"), ("nltk", "en"), ("nltk", "de"), ("my/list.txt", "de")]
    expected = ["gensim", "nltk", "nltk:de", "my/list.txt"]
    assert [stop_word_list(*both) for both in given] == expected


@pytest.mark.parametrize("language", SENTENCES)
def test_words_match_what_cleaning_makes_of_them(language) -> None:
    text, expected = SENTENCES[language]
    words = load_stop_words(f"language:{language}").words
    read = set(normalization.Preprocessing(language=language).apply([text])[0].split())
    assert expected <= read & words
    assert not {"haus", "kinder", "homme", "uomo", "ninos", "."} & words


def test_a_german_text_has_german_stop_words_and_any_a_list_of_ones_own(tmp_path) -> None:
    found = beyond_perplexity.compare(GERMAN, GERMAN[::-1], language="de", **FAST)
    words = load_stop_words("language:de").words
    cleaned = normalization.Preprocessing(language="de").apply(GERMAN)
    shares = [np.mean([token in words for token in text.split()]) for text in cleaned]
    assert 0.3 < np.mean(shares) < 0.6
    assert stop_rows(found.table)["value"]["mean"] == pytest.approx(np.mean(shares))
    english = beyond_perplexity.compare(GERMAN, GERMAN, language="de", stop_words="gensim", **FAST)
    assert stop_rows(english.table)["value"]["mean"] < 0.1
    (tmp_path / "list.txt").write_text("und\nder\n")
    how = {"tokenized": True, "stop_words": str(tmp_path / "list.txt"), **FAST}
    found = beyond_perplexity.compare(GERMAN, GERMAN, **how)
    expected = np.mean([np.mean([t in ("und", "der") for t in x.split()]) for x in GERMAN])
    assert stop_rows(found.table)["value"]["mean"] == pytest.approx(expected)
    with pytest.raises(InputError, match="language: has no effect"):
        beyond_perplexity.compare(GERMAN, GERMAN, language="et", **how)
    check_refused("there is no list for the language 'et'", load_stop_words, "nltk:et")


@pytest.mark.parametrize("grouped", [False, True])
def test_a_language_without_a_list_has_no_numbers_but_a_reason(grouped, tmp_path, capsys) -> None:
    groups = [str(k // 2) for k in range(len(GERMAN))] if grouped else None
    found = beyond_perplexity.compare(
        GERMAN, GERMAN[::-1], groups=(groups, groups), tokenized=True, language="et",
        out=tmp_path, **FAST,
    )  # fmt: skip
    reason = "there is no list of stop words for the language 'et'"
    assert reason in capsys.readouterr().err
    rows = stop_rows(found.table)
    assert rows.index.tolist() == ["ks"]
    assert rows[["value", "p_value", "p_adjusted", "baseline", "excess"]].isna().all(axis=None)
    for text in (found.text, unescape((tmp_path / "compare.html").read_text())):
        assert f"no verdict: {reason}: give one as stop words" in text
    assert not (tmp_path / "stop_words.svg").exists()
    assert (tmp_path / "distances.svg").exists()
    others = found.table[found.table["tendency"] == "symbols"]
    assert others["value"].notna().all()


@pytest.mark.parametrize(
    ("text", "language", "warned"),
    [
        ("我今天去了学校，然后回家。他说这是一个很好的主意。", "zh", True),
        ("我 今天 去 了 学校 ， 然后 回家 。 他 说 这 是 一个 很 好 的 主意 。", "zh", False),
        ("私は昨日学校へ行きました。とても楽しかったです。", "ja", True),
        ("私 は 昨日 学校 へ 行き まし た 。 とても 楽しかっ た です 。", "ja", False),
        ("나는 어제 학교에 갔습니다 . 정말 즐거웠습니다 .", "ko", False),
        ("Donaudampfschifffahrtsgesellschaft und Rindfleischetikettierungsgesetz .", "de", False),
        ("วันนี้ฉันไปโรงเรียนแล้วกลับบ้านกับเพื่อนของฉัน", "th", True),
        ("x" * 400, "en", True),
    ],
)
def test_a_text_without_blanks_is_warned_of(text, language, warned, capsys) -> None:
    tokenized = language == "th"
    how = {"language": language, "tokenized": tokenized, "permutations": 0, "bootstrap": 0}
    beyond_perplexity.compare([text, text + " ."] * 5, ["A text ."] * 5, **how)
    said = capsys.readouterr().err
    assert ("reference: its tokens have" in said) == warned
    assert ("The tokenizer icu divides Chinese, Japanese" in said) == warned
    assert "samples: its tokens have" not in said
    if not tokenized:
        beyond_perplexity.compare([text, text + " ."] * 5, ["A text ."] * 5, tokenizer="icu", **how)
        assert ("its tokens have" in capsys.readouterr().err) == (language == "en")


TEXTS = Path(__file__).with_name("texts")


@pytest.mark.parametrize(
    ("language", "reference", "samples", "tokenizer"),
    [
        ("de", "de-proverbs", "de-quotations", "moses"),
        ("zh", "zh-caigentan", "zh-analects", "icu"),
    ],
)
def test_texts_in_other_languages_are_compared_by_their_words(
    language, reference, samples, tokenizer, capsys
) -> None:
    """Oracles: a plain count of words of the list; two halves of one text do not differ."""
    paths = [str(TEXTS / f"{name}.txt") for name in (reference, samples)]
    given = {"language": language, "tokenizer": tokenizer, "permutations": 399, "bootstrap": 0}
    table = beyond_perplexity.compare(*paths, **given).table
    assert "its tokens have" not in capsys.readouterr().err
    rows = table.set_index(["tendency", "measure"])
    words = load_stop_words(f"language:{language}").words
    how = {"remove_accents": False} if tokenizer == "icu" else {}
    cleaned = normalization.Preprocessing(language=language, tokenizer=tokenizer, **how)
    read = [text.split() for text in cleaned.apply(Path(paths[1]).read_text().splitlines())]
    expected = np.mean([np.mean([token in words for token in text]) for text in read])
    assert rows["value"]["stop_words", "mean"] == pytest.approx(expected)
    assert expected > 0.15
    assert rows["value"]["length", "mean"] == pytest.approx(np.mean([len(text) for text in read]))
    assert rows["verdict"]["unigram", "tvd"] == "differs"
    lines = Path(paths[1]).read_text().splitlines()
    same = beyond_perplexity.compare(lines[::2], lines[1::2], **given)
    assert not (same.table["verdict"] == "differs").any()


def test_the_workflow_takes_the_language_of_the_corpus() -> None:
    corpora = {name: {"preprocessing": {"language": name}} for name in ("en", "de", "et")}
    for named, expected in (
        ("auto", {"en": "gensim", "de": "language:de", "et": "language:et"}),
        ("gensim", dict.fromkeys(corpora, "gensim")),
        ("nltk", {"en": "nltk", "de": "nltk:de", "et": "nltk:et"}),
        ("a/list.txt", dict.fromkeys(corpora, "a/list.txt")),
    ):
        found = Corpora.__new__(Corpora)
        found.config = {"corpora": corpora, "tendencies": {"stop_words": named}}
        assert {name: found.stop_words(name) for name in corpora} == expected
        assert found.stop_words("de-sentences") == expected["de"]
        assert found.stop_word_files() == ([named] if "/" in named else [])


@pytest.mark.parametrize("grouped", [False, True])
def test_what_is_not_counted_has_no_minimum_detectable_effect(grouped) -> None:
    classes = ClassOptions(load_stop_words("language:et"), True)
    texts = pa.array(GERMAN)
    reference = statistics_of(GERMAN, classes.stop_words)
    how = SensitivityOptions(documents=(50,), pairs=10, largest_population=50)
    groups = np.arange(len(GERMAN)) if grouped else None
    given = reference, [texts], MeasurementOptions(), how, 1, "x", classes
    found = sensitivity.minimum_detectable_effects(*given, groups=groups)
    assert {"length", "symbols"} <= set(found["tendency"].to_pylist())
    assert "stop_words" not in found["tendency"].to_pylist()


def test_outcomes_are_kept_by_the_code_of_the_cases_and_of_what_they_test(monkeypatch):
    asked = []
    monkeypatch.setattr(calibration, "fingerprint", lambda *given: asked.extend(given) or "")
    calibration._code()
    reached = {Path(part.file).name for part in reached_parts(list(map(str, asked)))}
    assert {"levels.py", "powers.py", "measures.py", "document_curves.py"} < reached
    assert {"recurrence.py", "repetition.py", "type_token.py"} < reached  # rows name these

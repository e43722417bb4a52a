"""Sufficient statistics: counting, merging, spilling, stop words, symbols, resamples.

Needs nothing but the package. Oracles: a counter of plain Python, properties of merging drawn by
hypothesis, `unicodedata` for symbols, gensim for its own stop words.
"""

from __future__ import annotations

import json
import unicodedata
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from gensim.parsing.preprocessing import STOPWORDS
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from beyond_perplexity.errors import InputError
from beyond_perplexity.schemas.corpora import DOCUMENTS
from beyond_perplexity.storage.shards import read_record, read_texts, write_shard
from beyond_perplexity.tendencies import word_classes
from beyond_perplexity.tendencies.document_files import read_resample
from beyond_perplexity.tendencies.statistics import (
    StatisticsCounter,
    description,
    merge_statistics,
    read_statistics,
)
from beyond_perplexity.tendencies.tokens import TypeCounter, tokenize_batch
from beyond_perplexity.tendencies.word_classes import (
    StopWords,
    load_stop_words,
    moses_forms,
    symbol_mask,
)

WORDS = StopWords("test", frozenset({"a", "the", "'t"}))
TOKENS = st.sampled_from(["a", "the", "'t", "cat", "Ünï", ",", "12", "-3", "$", "x1", "中"])
TEXTS = st.lists(st.lists(TOKENS, max_size=8).map(" ".join), max_size=12)


def count(path: Path, texts: list[str], batch: int = 5, **options: object) -> Path:
    with StatisticsCounter(WORDS, **options) as counter:
        for start in range(0, len(texts), batch):
            counter.add(pa.array(texts[start : start + batch], pa.string()))
        counter.write(path, {"seed": 1})
    return path


def plain(texts: list[str]) -> Counter[tuple[object, ...]]:
    counts: Counter[tuple[object, ...]] = Counter()
    for text in texts:
        tokens = text.split()
        n = len(tokens)
        symbols = sum(all(unicodedata.category(c)[0] in "PNS" for c in token) for token in tokens)
        counts["length", None, n, None] += 1
        counts["types", None, n, len(set(tokens))] += 1
        counts["bigram_types", None, n, len(set(pairwise(tokens)))] += 1
        counts["stop_words", None, n, sum(token in WORDS.words for token in tokens)] += 1
        counts["symbols", None, n, symbols] += 1
        counts.update(("unigram", token, None, None) for token in tokens)
    return counts


def rows(path: Path) -> dict[tuple[object, ...], int]:
    table = pq.read_table(path)
    names = ("statistic", "type", "length", "value", "count")
    found = list(zip(*(table[name].to_pylist() for name in names), strict=True))
    assert len({row[:-1] for row in found}) == len(found)
    return {row[:-1]: row[-1] for row in found}


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(texts=TEXTS)
def test_counts_equal_a_plain_program(texts, tmp_path):
    assert rows(count(tmp_path / "s.parquet", texts)) == plain(texts)


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(texts=TEXTS.filter(bool), cut=st.integers(0, 12), batch=st.integers(1, 12))
def test_merge_is_shard_invariant_commutative_and_associative(texts, cut, batch, tmp_path):
    whole = count(tmp_path / "whole.parquet", texts)
    first = count(tmp_path / "1.parquet", texts[:cut], batch)
    second = count(tmp_path / "2.parquet", texts[cut:], batch)
    third = count(tmp_path / "3.parquet", texts[:1])
    names = [tmp_path / f"m{i}.parquet" for i in range(5)]
    merge_statistics([first, second], names[0], {})
    merge_statistics([second, first], names[1], {})
    expected = pq.read_table(whole)
    assert pq.read_table(names[0]).equals(expected)  # rows in canonical order, not only equal sets
    assert pq.read_table(names[1]).equals(expected)
    merge_statistics([names[0], third], names[2], {})
    merge_statistics([second, third], names[3], {})
    merge_statistics([first, names[3]], names[4], {})
    assert pq.read_table(names[2]).equals(pq.read_table(names[4]))


def test_spilled_types_equal_those_in_memory(tmp_path):
    rng = np.random.default_rng(0)
    texts = [" ".join(f"w{k}é" for k in rng.zipf(1.3, 30)) for _ in range(300)]
    memory = pq.read_table(count(tmp_path / "a.parquet", texts, 20))
    spilled = pq.read_table(count(tmp_path / "b.parquet", texts, 20, type_limit=200))
    assert memory.equals(spilled)
    assert pq.read_table(tmp_path / "b.parquet").num_rows > 1000


def test_type_counter_writes_runs_and_removes_them():
    with TypeCounter(limit=10) as counter:
        for start in range(0, 60, 6):
            types = pa.array([f"{k % 25:02d}" for k in range(start, start + 6)])
            counter.add(types, np.ones(6, np.int64))
        folder = Path(counter._folder.name)
        assert len(list(folder.iterdir())) > 2
        merged = pa.concat_tables(counter.sorted_counts())
    assert not folder.exists()
    expected = Counter(f"{k % 25:02d}" for k in range(60))
    assert merged.to_pydict() == {
        "type": sorted(expected),
        "count": [expected[k] for k in sorted(expected)],
    }


@pytest.mark.parametrize("space", ["\t", "\n", "\u00a0", "\u3000", "\x1c", "\x85", "\u2028", "  "])
def test_split_is_that_of_python(space):
    texts = [f"{space}a{space}b c", "", space, f"d{space}", None]
    batch = tokenize_batch(pa.array(texts))
    types = batch.types.to_pylist()
    found = [[types[i] for i in batch.ids[a:b]] for a, b in pairwise(batch.offsets)]
    assert found == [(text or "").split() for text in texts]


def test_tokenize_reads_slices():
    batch = tokenize_batch(pa.array(["x y", "a b", "c"]).slice(1))
    assert batch.types.to_pylist() == ["a", "b", "c"]
    assert batch.offsets.tolist() == [0, 2, 3]


@pytest.mark.parametrize(("s_symbols", "classes"), [(True, "PNS"), (False, "PN")])
def test_symbols_are_those_of_unicode(s_symbols, classes):
    points = [
        chr(c) for c in range(33, 0x3000) if not chr(c).isspace() and not 0xD800 <= c < 0xE000
    ]  # RE2 and Python may know different versions of Unicode: unassigned points are left out.
    points = [c for c in points if unicodedata.category(c) not in ("Cn", "Cc", "Co")]
    types = points + [f"{c}a" for c in points[:200]] + [f"1{c}" for c in points]
    found = symbol_mask(pa.array(types), s_symbols)
    expected = [all(unicodedata.category(c)[0] in classes for c in token) for token in types]
    assert found.tolist() == expected


def test_contractions_match_their_moses_tokens(tmp_path):
    assert moses_forms("don't") == ("don", "'t")
    assert moses_forms("they’re") == ("they", "'re")
    assert moses_forms("the") == ("the",)
    path = tmp_path / "words.txt"
    path.write_text("Don't\nthe\n\n", encoding="utf-8")
    words = load_stop_words(str(path))
    assert words.words == {"don't", "don", "'t", "the"}
    assert words.name.startswith("words.txt:")
    assert {"the", "of"} <= load_stop_words("gensim").words


def test_the_shipped_words_are_gensims() -> None:
    words = (word_classes._LISTS / "gensim.txt").read_text(encoding="utf-8").split()
    assert set(words) == STOPWORDS


def test_unusable_stop_words_are_named(tmp_path):
    with pytest.raises(InputError, match="not readable"):
        load_stop_words(str(tmp_path / "missing.txt"))
    (tmp_path / "empty.txt").write_text("\n")
    with pytest.raises(InputError, match="holds no word"):
        load_stop_words(str(tmp_path / "empty.txt"))


def test_nltk_words_or_a_message_that_says_how_to_get_them():
    try:
        words = load_stop_words("nltk").words
    except InputError as error:
        message = str(error)
    else:
        message = "nltk.downloader stopwords" if "the" in words else ""
    assert "nltk.downloader stopwords" in message


def test_the_list_is_recorded_and_different_lists_do_not_merge(tmp_path):
    first = count(tmp_path / "1.parquet", ["a b"])
    second = count(tmp_path / "2.parquet", ["a b"], count_s_symbols=False)
    how = {"vocabulary": "raw", "maximum_tokens": None, "minimum_tokens": 0}
    assert description(first) == {"stop_words": "test", "count_s_symbols": True, **how}
    merge_statistics([first], tmp_path / "m.parquet", {"seed": 3})
    assert read_record(tmp_path / "m.parquet")["stop_words"] == "test"
    with pytest.raises(InputError, match=r"2\.parquet: counted with"):
        merge_statistics([first, second], tmp_path / "m.parquet", {})
    with pytest.raises(InputError, match="no statistics files"):
        merge_statistics([], tmp_path / "m.parquet", {})


def test_read_statistics(tmp_path):
    statistics = read_statistics(count(tmp_path / "s.parquet", ["b a b", "", "c"]))
    assert (statistics.n_documents, statistics.n_tokens) == (3, 4)
    assert statistics.types.to_pylist() == ["a", "b", "c"]
    assert statistics.ranked(2).tolist() == [2, 1]
    with pytest.raises(InputError, match="holds no document"):
        read_statistics(count(tmp_path / "empty.parquet", []))


@pytest.fixture
def documents(tmp_path):
    path = tmp_path / "documents.parquet"
    n = 40
    columns = {
        "doc_id": list(range(n)),
        "split": ["test" if i % 4 == 0 else "train" for i in range(n)],
        "title": [""] * n,
        "text": [f"w{i} w" for i in range(n)],
        "n_tokens": [2] * n,
    }
    write_shard(path, DOCUMENTS, columns, {})
    return path


def test_resample_is_a_subset_of_the_split(documents):
    def drawn(resample: int) -> list[str]:
        batches = read_resample([documents], "train", 10, resample, 7)
        return [text for batch in batches for text in batch.to_pylist()]

    train = [t for batch in read_texts([documents], "train") for t in batch.to_pylist()]
    assert len(train) == 30
    assert len(set(drawn(0))) == 10
    assert set(drawn(0)) < set(train)
    assert drawn(0) == drawn(0) != drawn(1)
    with pytest.raises(InputError, match="cannot be drawn from 30"):
        list(read_resample([documents], "train", 31, 0, 7))


def test_scripts_count_and_merge(documents, tmp_path, monkeypatch):
    from scripts import count_statistics, merge_statistics

    output, merged = tmp_path / "s.parquet", tmp_path / "m.parquet"
    common = ["x", "--input", str(documents), "--kind", "documents", "--output", str(output)]
    monkeypatch.setattr("sys.argv", [*common, "--split", "test", "--no-count-s-symbols"])
    count_statistics.main()
    assert read_statistics(output).n_documents == 10
    assert description(output)["count_s_symbols"] is False
    extra = ["--split", "train", "--size-of-split", "test", "--resample", "1", "--seed", "2"]
    monkeypatch.setattr("sys.argv", [*common, *extra])
    count_statistics.main()
    assert read_statistics(output).n_documents == 10
    monkeypatch.setattr("sys.argv", ["x", "--inputs", str(output), "--output", str(merged)])
    merge_statistics.main()
    assert pq.read_table(merged).equals(pq.read_table(output))
    assert json.dumps(read_record(merged))
    monkeypatch.setattr("sys.argv", [*common, "--resample", "1"])
    with pytest.raises(InputError, match="--resample needs"):
        count_statistics.main()

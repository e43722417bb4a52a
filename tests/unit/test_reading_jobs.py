"""How a run reads: the vocabulary of each sample set, the reference, the jobs end to end.

Needs nothing. Oracles: the words of the configuration, tables of the same texts read by hand, and
equality of what is cut into shards in different ways.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from beyond_perplexity.tendencies.document_files import DocumentFiles
from beyond_perplexity.tendencies.statistics import read_statistics
from beyond_perplexity.tendencies.tokens import TextView
from beyond_perplexity.vocabulary import ClosedVocabulary
from scripts import count_statistics, measure_tendencies
from tests.unit.text_pairs import run_script, write_documents, write_samples

KNOWN = ["w0", "w1", "w2", "w3", "w5", "."]


def drawn(seed: int, n: int) -> list[str]:
    rng = np.random.default_rng(seed)
    return [" ".join(f"w{k}" for k in rng.zipf(1.6, size) % 12) for size in rng.integers(1, 30, n)]


@pytest.fixture
def files(tmp_path):
    """Write 60 documents of test and 90 of training."""
    splits = ["test" if i % 5 < 2 else "train" for i in range(150)]
    titles = [f"t{i // 3}" for i in range(150)]
    write_documents(tmp_path / "documents.parquet", drawn(1, 150), splits, titles)
    ClosedVocabulary(KNOWN, 5).save(tmp_path / "words.json")
    return tmp_path


def count(folder: Path, name: str, inputs: list[str], *flags: object) -> Path:
    kind = "documents" if "--split" in flags else "samples"
    output = folder / f"{name}.parquet"
    run_script(count_statistics, "--input", *inputs, "--kind", kind, *flags, "--output", output)
    return output


def measured(files: Path, samples: list[str], *more: object) -> dict[str, pa.Table]:
    documents = str(files / "documents.parquet")
    words = ["--vocabulary", str(files / "words.json")]
    lengths = ["--minimum-tokens", "3", "--maximum-tokens", "20"]
    human = [*lengths, "--split", "test", "--first", 50]
    raw = count(files, "raw", [documents], *human)
    closed = count(files, "closed", [documents], *human, *words)
    own = count(files, "own", samples, *words, *lengths)
    run_script(
        measure_tendencies,
        *("--reference-statistics", closed, "--raw-reference-statistics", raw),
        *("--sample-statistics", own, "--sample-documents", *samples),
        *("--reference-documents", documents, "--reference-split", "test", "--first", 50),
        *("--pool-split", "train", "--training-split", "train", "--source", "m/d"),
        *("--options", '{"permutations": 39, "bootstrap": 9, "monte_carlo": 0}'),
        *("--sample-size-options", '{"sizes": [20], "subsets": 2, "permutations": 9}'),
        *("--measures", files / "measures", "--raw", files / "raw_measures"),
        *("--sample-size", files / "sizes", "--curves", files / "curves"),
        *(*words, *lengths, *more),
    )
    names = ("measures", "raw_measures", "sizes", "curves")
    return {name: pq.read_table(files / name) for name in names}


def values(table: pa.Table) -> dict[tuple[str, str], float]:
    rows = table.to_pylist()
    return {(row["tendency"], row["measure"]): row["value"] for row in rows}


def copied(texts: list[str]) -> float:
    """Return the share of 8 tokens in a row that the training text has, of known words."""

    def grams(text: str) -> list[tuple[str, ...]]:
        tokens = [token if token in KNOWN else "<unk>" for token in text.split()[:20]]
        found = [tuple(tokens[i : i + 8]) for i in range(len(tokens) - 7)]
        return [gram for gram in found if "<unk>" not in gram]

    training = [text for i, text in enumerate(drawn(1, 150)) if i % 5 >= 2]
    known = {gram for text in training for gram in grams(text)}
    return float(np.mean([gram in known for text in texts for gram in grams(text)]))


def test_a_body_is_measured_in_its_vocabulary_and_raw(files) -> None:
    texts = drawn(2, 40)
    samples = write_samples(files / "s.parquet", texts, known=True)
    found = measured(files, [samples])
    assert set(found["measures"]["vocabulary"].to_pylist()) == {"words"}
    assert set(found["raw_measures"]["vocabulary"].to_pylist()) == {"raw"}
    cut = [text.split()[:20] for text in texts if len(text.split()) >= 3]
    tokens = [token for words in cut for token in words]
    read = values(found["measures"])
    assert read["vocabulary", "tokens"] == len(tokens)
    unknown = np.mean([token not in KNOWN for token in tokens])
    assert read["text", "unknown_share"] == pytest.approx(unknown)
    assert values(found["raw_measures"])["text", "unknown_share"] == 0
    kept = [i for i, text in enumerate(texts) if len(text.split()) >= 3]
    assert read["text", "unfinished_share"] == pytest.approx(np.mean([i % 4 == 0 for i in kept]))
    human = [i for i in range(150) if i % 5 < 2][:50]
    lengths = [len(drawn(1, 150)[i].split()) for i in human]
    assert read["vocabulary", "documents_reference"] == sum(n >= 3 for n in lengths)
    assert read["text", "training_8grams"] == pytest.approx(copied(texts))
    baselines = [
        row["baseline"] for row in found["measures"].to_pylist() if row["measure"] == "tvd"
    ]
    assert 0 < baselines[0] < 1
    assert read["unigram", "tvd"] != values(found["raw_measures"])["unigram", "tvd"]


def test_shards_do_not_change_a_table(files) -> None:
    texts = drawn(2, 40)
    whole = measured(files, [write_samples(files / "s.parquet", texts, known=True)])
    parts = [
        write_samples(files / f"{start}.parquet", texts[start:end], start, known=True)
        for start, end in ((0, 7), (7, 30), (30, 40))
    ]
    again = measured(files, parts)
    assert all(whole[name].equals(again[name]) for name in whole)


def test_groups_of_the_reference_and_samples_that_were_external(files) -> None:
    samples = [write_samples(files / "s.parquet", drawn(2, 40))]
    found = measured(files, samples, "--group-column", "title")
    rows = found["measures"].to_pylist()
    kept = [i for i in range(150) if i % 5 < 2][:50]
    titles = {i // 3 for i in kept if len(drawn(1, 150)[i].split()) >= 3}
    assert {row["groups_reference"] for row in rows} == {len(titles)}
    assert ("text", "unfinished_share") not in values(found["measures"])


def test_further_documents_are_thinned_as_the_reference_is(files) -> None:
    """50 of the 60 documents of the test split are 5 in 6: of the 90 for training 75 are taken."""
    human = DocumentFiles((files / "documents.parquet",), "test", 50, TextView(), "title")
    assert human.other_split("train", as_thin=True).first == 75
    assert human.other_split("train").first is None
    whole = DocumentFiles((files / "documents.parquet",), "test", 60)
    assert whole.other_split("train", as_thin=True).first is None


def test_a_subset_is_as_large_as_the_reference(files) -> None:
    flags = ("--split", "train", "--resample", 0, "--size-of-split", "test")
    documents = [str(files / "documents.parquet")]
    for first, expected in ((10, 10), (50, 45)):  # at most half of 90
        path = count(files, "drawn", documents, *flags, "--first", first)
        assert read_statistics(path).n_documents == expected

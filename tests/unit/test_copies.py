"""Duplicates, copied 8-grams, fragments, cut and unfinished documents; groups; hashes.

Needs nothing but the package. Oracles: sets and counters of plain Python over the words themselves.
"""

import re

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beyond_perplexity.errors import InputError
from beyond_perplexity.storage.shards import read_rows
from beyond_perplexity.tendencies import document_files, tokens, word_classes
from beyond_perplexity.tendencies.definitions import MeasureRow
from beyond_perplexity.tendencies.novelty import copied_share
from beyond_perplexity.tendencies.text_comparison import TextFacts, text_rows
from beyond_perplexity.tendencies.training_text import TrainingText
from tests.unit.small_corpora import write_documents
from tests.unit.text_pairs import batched, statistics_of

TEXTS = st.lists(
    st.lists(st.sampled_from(["a", "b", "Ü", ".", "<unk>"]), max_size=14).map(" ".join), max_size=9
)
EXPECTED = """0000000000000000 dfcaa2a42bcf81d6 9590b3e10972a652 02fcc73ed6e7ea3f
fd06d086d220c421"""
NO_WORDS = word_classes.StopWords("test", frozenset())
CLOSED = tokens.TextView(pa.array(["a", "."]), 11)


def grams(text: str, view: tokens.TextView = tokens.WHOLE_TEXT) -> list[tuple[str, ...]]:
    words = text.split()[: view.maximum_tokens]
    if view.words is not None:
        known = {*view.words.to_pylist(), "<unk>"}
        words = [token if token in known else "<unk>" for token in words]
    found = [tuple(words[i : i + tokens.GRAM]) for i in range(len(words) - tokens.GRAM + 1)]
    return [gram for gram in found if tokens.UNKNOWN_WORD not in gram]


def facts(texts, size=4, longest=None, **options):
    found = TextFacts(longest, **options)
    for batch in batched(texts, size):
        found.add(batch)
    return found


@given(strings=st.lists(st.text(max_size=5), max_size=30))
def test_equal_strings_alone_have_equal_hashes(strings):
    hashes = tokens.string_hashes(pa.array(strings, pa.string()))
    assert len(set(hashes.tolist())) == len(set(strings))
    again = tokens.string_hashes(pa.array(["x", *strings], pa.string()).slice(1))
    assert hashes.tolist() == again.tolist()


def test_hashes_are_the_same_on_every_machine_and_distinct():
    """Fixed numbers: a change of the hash would change no result, but should be meant."""
    mixed = tokens.string_hashes(pa.array(["", "a", "ab", "ba", "中"]))
    assert [f"{h:016x}" for h in mixed.tolist()] == EXPECTED.split()
    short = [f"{a}{b}{c}" for a in "abcdefghij" * 3 for b in "klmnopqrst" for c in range(900)]
    long = ["x" * n for n in range(3000)] + ["x" * n + "y" + "x" * (2999 - n) for n in range(3000)]
    for strings in (short, long):
        hashes = tokens.string_hashes(pa.array(strings))
        assert len(np.unique(hashes)) == len(set(strings))
        assert abs(np.unpackbits(hashes.view(np.uint8)).mean() - 0.5) < 0.01


@given(texts=TEXTS)
def test_hashes_of_documents_are_of_their_words(texts):
    batch = tokens.tokenize_batch(pa.array(texts, pa.string()))
    documents = tokens.document_hashes(batch).tolist()
    assert len(documents) == len(texts)
    assert len(set(documents)) == len({tuple(text.split()) for text in texts})
    # and not of the batch, whose types have other numbers elsewhere
    for number, text in enumerate(texts):
        alone = tokens.tokenize_batch(pa.array([". Ü " + text, text]))
        assert tokens.document_hashes(alone)[1] == documents[number]


@settings(max_examples=60, deadline=None)
@given(texts=TEXTS, training=TEXTS, sizes=st.tuples(*[st.integers(1, 9)] * 2))
def test_shares_of_copied_8_grams_equal_those_of_sets_whatever_the_batches(texts, training, sizes):
    for view in (tokens.WHOLE_TEXT, CLOSED):
        whole = tokens.TextView(view.words)  # a training text is read whole
        read = TrainingText.of(whole.batch(batch) for batch in batched(training, sizes[0]))
        known = {gram for text in training for gram in grams(text, whole)}
        held = [gram in known for text in texts for gram in grams(text, view)]
        found = copied_share((view.batch(batch) for batch in batched(texts, sizes[1])), read)
        assert found == ((pytest.approx(np.mean(held)), len(held)) if held else None)
        assert read.n_documents == len(training)
        assert f"{sum(len(text.split()) for text in training)} tokens" in read.told


ENDS = re.compile(r"""[.?!…。？！]["'’”»)\]」』]*$""")


@settings(max_examples=60, deadline=None)
@given(
    texts=st.lists(st.sampled_from(["a .", "a b", "he said “ no !”", "你好。", "", "x.y", "?) c"])),
    size=st.integers(1, 5),
)
def test_duplicates_fragments_and_cut_documents_equal_a_plain_program(texts, size):
    found = dict(facts(texts, size, 1).shares())
    if not texts:
        assert not found
        return
    n = len(texts)
    fragments = [not any(ENDS.search(token) for token in text.split()) for text in texts]
    assert found == {
        "duplicate_share": pytest.approx(1 - len({tuple(t.split()) for t in texts}) / n),
        "cut_share": pytest.approx(np.mean([len(text.split()) > 1 for text in texts])),
        "fragment_share": pytest.approx(np.mean(fragments)),
    }


def test_rows_are_of_both_sample_sets_and_leave_out_what_is_not_known():
    reference, samples = ["a b .", "a c"], ["a <unk>", "a <unk>", "b", "a"]
    view = tokens.TextView(pa.array(["a", "."]))
    sample_sets = tuple(statistics_of(texts, NO_WORDS, view) for texts in (reference, samples))
    told = TextFacts()
    told.add(pa.array(samples), pa.array([True, False, None, False]))
    copied = MeasureRow("text", "training_8grams", 0.25)
    rows = text_rows(sample_sets, (facts(reference), told), [copied])
    assert {row.tendency for row in rows} == {"text"}
    shares = {"unknown_share": 3 / 6, "unknown_share_reference": 2 / 5, "unfinished_share": 2 / 4}
    shares |= {"duplicate_share": 1 / 4, "duplicate_share_reference": 0, "training_8grams": 0.25}
    shares |= {"cut_share": 0, "cut_share_reference": 0}
    shares |= {"fragment_share": 1, "fragment_share_reference": 1 / 2}
    found = {row.measure: row.value for row in rows}
    # Of "<unk>", "<unk>", "b" and "a" one pair of three is alike, and so is one of six.
    similar = {"neighbour_similarity": pytest.approx(1 / 6), "neighbour_similarity_reference": 0}
    assert found == shares | similar


@given(
    names=st.lists(st.sampled_from(["", "A", "B", "ÜÜ", None]), max_size=20), size=st.integers(1, 7)
)
def test_groups_are_numbered_as_they_come(names, size):
    known: dict[object, int] = {}
    expected = [known.setdefault(name or ("own", i), len(known)) for i, name in enumerate(names)]
    numbers = document_files.GroupNumbers()
    for batch in batched(names, size):
        numbers.add(batch)
    codes = numbers.codes()
    assert (codes.tolist(), codes.dtype) == (expected, np.int32)


def test_documents_are_the_first_of_a_split_and_not_too_short(tmp_path):
    texts = ["a b c", "d e f", "a", "a b d", "a b e", "a b f", "a b g", "d e g"]
    splits = ["train" if text.startswith("d") else "test" for text in texts]
    titles = ["A", "A", "B", "A", "", "", "C", "A"]
    path = write_documents(tmp_path / "d.parquet", texts, splits, titles)
    chosen = document_files.DocumentFiles((path,), "test", 5, tokens.TextView(None, 2, 2), "title")
    assert pa.concat_arrays(chosen.texts()).to_pylist() == ["a b c", "a b d", "a b e", "a b f"]
    assert chosen.groups().tolist() == [0, 0, 1, 2]
    assert document_files.DocumentFiles((path,), "test").groups() is None
    assert sum(len(batch) for batch in read_rows((path, path), ["text"], None, 9, 4)) == 9
    with pytest.raises(InputError, match=r"d\.parquet: has no column 'page'"):
        document_files.DocumentFiles((path,), "test", None, tokens.WHOLE_TEXT, "page").groups()
    of_one = document_files.DocumentFiles((path,), "train", None, tokens.WHOLE_TEXT, "title")
    assert of_one.groups() is None
    assert "'title' names no groups" in of_one.note_on_groups(None)
    assert chosen.note_on_groups(chosen.groups()) == ""


@pytest.mark.parametrize("size", [1, 7, 60])
def test_neighbours_and_copies_do_not_depend_on_batches_and_groups_are_not_tested(size):
    texts = [f"a b c d e f g h{i // 3} i{i // 3}" for i in range(60)]
    found, grouped = facts(texts, size), facts(texts, size, grouped=True)
    (row,) = found.neighbours
    assert row == facts(texts, 60).neighbours[0]
    assert "take 2 documents in a row" in row.fact
    assert found.copied().startswith("66.7% of the documents of 8 tokens or more")
    assert (grouped.neighbours, grouped.copied()) == ([], "")
    short = facts(["yes"] * 60, size)
    assert (short.copied(), short.neighbours[0].fact) == ("", "")

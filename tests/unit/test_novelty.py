"""Novelty: runs of tokens that stand in a training text.

Needs nothing but the package. Oracles: sets of n-grams of plain Python.
"""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import beyond_perplexity
from beyond_perplexity.ngrams import suffix_array
from beyond_perplexity.ngrams.suffix_array import BREAK, LONGEST_RUN, SuffixArray
from beyond_perplexity.tendencies import tokens
from beyond_perplexity.tendencies.novelty import distinct_shares, novelty
from beyond_perplexity.tendencies.training_text import TrainingText
from beyond_perplexity.tendencies.word_classes import ClassOptions, StopWords


def joined(documents):
    return np.array([t for document in documents for t in (*document, BREAK)], np.int32)


def gram_sets(documents):
    """Hold the n-grams of documents, n = 1, ..., 32: none crosses the end of one."""
    return [
        {tuple(d[i : i + n]) for d in documents for i in range(len(d) - n + 1)}
        for n in range(1, LONGEST_RUN + 1)
    ]


def longest_runs(known, document):
    """Count, for each position of a document, how many tokens from there on a set holds."""
    found = []
    for i in range(len(document)):
        most = min(LONGEST_RUN, len(document) - i)
        held = [n for n in range(1, most + 1) if tuple(document[i : i + n]) in known[n - 1]]
        found.append(max(held, default=0))
    return found


def documents(types):
    return st.lists(st.lists(st.integers(0, types - 1), max_size=45), max_size=12)


@settings(max_examples=100, deadline=None)
@given(training=documents(3), asked=documents(4), block=st.sampled_from([1, 7, 1000]))
def test_the_longest_runs_are_those_of_sets_whatever_the_blocks(training, asked, block):
    """Few types, so that runs repeat; the fourth is none of the training text."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(suffix_array, "_LEAST_BLOCK", block)
        patch.setattr(suffix_array, "_TOGETHER", block)
        array = SuffixArray.of([joined(training[:4]), joined(training[4:])])
        found = array.longest_matches(joined(asked)).tolist()
    known = gram_sets(training)
    assert found == [run for document in asked for run in [*longest_runs(known, document), 0]]


def test_runs_of_a_thousand_documents_are_those_of_sets():
    """Documents with a phrase of a training document in them, and one with all of it twice."""
    rng = np.random.default_rng(1)
    training = [list(rng.zipf(1.2, 40) % 500) for _ in range(1000)]
    asked = [list(rng.zipf(1.2, 40) % 600) for _ in range(1000)]
    for document, source in zip(asked, training, strict=True):
        start, length = rng.integers(0, 8), rng.integers(1, 32)
        document[start : start + length] = source[start : start + length]
    asked[0] = training[0] * 2
    known = gram_sets(training)
    found = SuffixArray.of([joined(training)]).longest_matches(joined(asked))
    expected = [run for document in asked for run in [*longest_runs(known, document), 0]]
    assert found.tolist() == expected
    assert np.bincount(found, minlength=LONGEST_RUN + 1)[[4, 8, 16, 32]].all()


@settings(max_examples=100, deadline=None)
@given(texts=documents(3))
def test_distinct_n_grams_are_those_of_sets(texts):
    found, total = SuffixArray.of([joined(texts)]).distinct_ngrams()
    assert found.tolist() == list(map(len, gram_sets(texts)))
    every = [sum(max(0, len(d) - n + 1) for d in texts) for n in range(1, LONGEST_RUN + 1)]
    assert total.tolist() == every


@pytest.mark.parametrize("size", [1, 7, 200])
def test_distinct_shares_are_at_as_many_tokens_whatever_the_batches(size):
    """Oracle: sets over documents that are spread over the text, the last one cut."""
    rng = np.random.default_rng(4)
    texts = [[f"w{t}" for t in rng.zipf(1.4, rng.integers(1, 30)) % 50] for _ in range(200)]
    tokens_held, most = sum(map(len, texts)), 1000
    batches = [pa.array([" ".join(d) for d in texts[k : k + size]]) for k in range(0, 200, size)]
    read = map(tokens.tokenize_batch, batches)
    found = distinct_shares(read, tokens_held, most)
    share, kept, left = 1.1 * most / tokens_held, [], most
    for number, document in enumerate(texts):
        if int((number + 1) * share) > int(number * share):
            kept.append(document[:left])
            left -= len(kept[-1])
    assert left == 0
    grams, sizes = gram_sets(kept), [sum(max(0, len(d) - n + 1) for d in kept) for n in range(1, 5)]
    expected = [len(held) / n for held, n in zip(grams[:4], sizes, strict=True)]
    assert found.tolist() == pytest.approx(expected)


NO_WORDS = StopWords("none", frozenset(), "no list")
PLACES = np.arange(1, 9)


def novel_share(known, document, n, size):
    held = [tuple(document[i : i + n]) not in known[n - 1] for i in range(size - n + 1)]
    return np.mean(held)


@settings(max_examples=60, deadline=None)
@given(training=documents(4), asked=documents(5), batch=st.integers(1, 5))
def test_novel_shares_of_the_first_tokens_are_those_of_sets_whatever_the_batches(
    training, asked, batch
):
    """Every document has as many n-grams, those of its first 16 tokens."""
    words = [[f"w{t}" for t in d] for d in training], [[f"w{t}" for t in d] for d in asked]
    texts = [pa.array([" ".join(d) for d in held], pa.string()) for held in words]
    cuts = range(0, len(training), batch)
    read = TrainingText.of(tokens.tokenize_batch(texts[0].slice(k, batch)) for k in cuts)
    count = novelty(ClassOptions(NO_WORDS, True, read))
    kept, found = count(tokens.tokenize_batch(texts[1]), 16, PLACES)
    assert kept.tolist() == [len(document) >= 16 for document in asked]
    known, long = gram_sets(words[0]), [d for d in words[1] if len(d) >= 16]
    expected = [[novel_share(known, d, n, 16) for n in PLACES] for d in long]
    np.testing.assert_allclose(found, np.reshape(expected, (-1, 8)))
    assert novelty(ClassOptions(NO_WORDS, True)) is None


def zipf_texts(rng, n):
    """Documents of 40 to 79 words, from 400 types."""
    lengths = rng.integers(40, 80, n)
    return [" ".join(f"w{t}" for t in rng.zipf(1.3, length) % 400) for length in lengths]


def with_copies(rng, texts, training, share):
    """Put 20 words of a training document into some of the texts."""
    copied = []
    for text in texts:
        words = text.split()
        if rng.random() < share:
            words[5:25] = str(rng.choice(training)).split()[10:30]
        copied.append(" ".join(words))
    return copied


def test_copies_of_a_training_text_differ_and_fresh_samples_do_not():
    """Control: unigrams of the copies are alike. Oracle of the curve: sets over all documents."""
    rng = np.random.default_rng(3)
    training, reference, samples = (zipf_texts(rng, n) for n in (300, 150, 120))
    copies = with_copies(rng, samples, training, 0.5)
    how = {"training": training, "tokenized": True, "permutations": 199, "bootstrap": 0}
    found = beyond_perplexity.compare(reference, copies, **how)
    rows = found.table.set_index(["tendency", "measure"])
    row = rows.loc["novelty", "max_difference"]
    assert row["verdict"] == "differs"
    assert rows.loc[("unigram", "tvd"), "verdict"] != "differs"
    split = [text.split() for text in training]
    known = gram_sets(split)
    curve = {}
    for name, texts in (("reference", reference), ("samples", copies)):
        cut = [text.split()[:32] for text in texts if len(text.split()) >= 32]
        own = [[novel_share(known, d, n, 32) for n in range(1, 17)] for d in cut]
        curve[name] = np.mean(own, axis=0)
    expected = np.max(np.abs(curve["samples"] - curve["reference"]))
    assert row["value_all"] == pytest.approx(expected, abs=1e-4)
    drawn = found.table_of("curves").query("curve == 'novelty'")
    for source, own in drawn.groupby("source"):
        name = "samples" if source.endswith("samples") else "reference"
        assert own["y"].tolist() == pytest.approx(curve[name].tolist(), abs=1e-4)
        assert own["x"].tolist() == list(range(1, 17))
    assert "novelty" in found.figures
    read = sum(map(len, split))
    told = rows.loc[("text", "training_8grams"), "note"]
    assert told.endswith(f"in a training text of 300 documents and {read:,} tokens")
    fresh = beyond_perplexity.compare(reference, samples, **how)
    rows = fresh.table.set_index(["tendency", "measure"])
    assert rows.loc[("novelty", "max_difference"), "verdict"] != "differs"
    without = beyond_perplexity.compare(reference, samples, **(how | {"training": None}))
    assert "novelty" not in set(without.table["tendency"])

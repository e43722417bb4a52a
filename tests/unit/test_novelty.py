"""Novelty: runs of tokens that stand in a training text.

Needs nothing but the package. Oracles: sets of n-grams of plain Python.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beyond_perplexity.ngrams import suffix_array
from beyond_perplexity.ngrams.suffix_array import BREAK, LONGEST_RUN, SuffixArray


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
        array = SuffixArray.of([joined(training[:4]), joined(training[4:])], 3)
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
    found = SuffixArray.of([joined(training)], 500).longest_matches(joined(asked))
    expected = [run for document in asked for run in [*longest_runs(known, document), 0]]
    assert found.tolist() == expected
    assert np.bincount(found, minlength=LONGEST_RUN + 1)[[4, 8, 16, 32]].all()

"""Estimating n-grams from long texts: time and memory, with ``make long``.

Oracles: memory per distinct n-gram is bounded, repeats take no more, the model sums to 1.
"""

import json
import subprocess
import sys

import pytest

from beyond_perplexity.storage.fingerprint import ROOT

ORDER = 5
BASE = 0.7e9  # bytes: the interpreter, its libraries, and a part while it is counted
PER_NGRAM = 90  # bytes: two tries while they are merged, or one and the model made of it
PROGRAM = """
import json, resource, sys, time
import numpy as np
from beyond_perplexity.ngrams.kneser_ney import (
    count_parts,
    estimate_backoff,
    extend_words,
    score_tokens,
)

tokens, repeats, order = map(int, sys.argv[1:])
WORDS, LENGTH, PART = 50_000, 25, 2_000_000

def part(seed):
    # A chain in which words have a few usual successors, and one word in thirty is any.
    rng = np.random.default_rng(seed)
    size = min(PART, tokens) // LENGTH
    text = np.zeros((size, LENGTH), np.int64)
    for place in range(1, LENGTH - 1):
        choice = np.minimum(rng.geometric(0.5, size), 12)
        usual = (text[:, place - 1] * 7919 + choice * 104_729) % WORDS
        zipf = np.minimum(rng.zipf(1.2, size), WORDS) - 1
        text[:, place] = 3 + np.where(rng.random(size) < 1 / 30, zipf, usual)
    text[:, -1] = 1
    return text.ravel()

def parts():
    count = max(tokens // PART, 1)
    for _ in range(repeats):
        for seed in range(count):
            yield part(seed)

start = time.perf_counter()
counts = extend_words(count_parts(parts(), order), WORDS + 3)
counted = time.perf_counter() - start
model = estimate_backoff(counts).model
whole = time.perf_counter() - start
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
context = part(0)[: order - 1]
rows = np.column_stack([np.tile(context, (WORDS + 2, 1)), np.arange(1, WORDS + 3)])
last = score_tokens(model, rows.ravel()).reshape(len(rows), -1)[:, -1]
print(json.dumps([counted, whole, peak, model.n_counts, float(np.exp(last).sum())]))
"""


def run(tokens: int, repeats: int = 1) -> tuple[float, int]:
    """Return the peak of memory in bytes, and the number of n-grams."""
    command = [sys.executable, "-c", PROGRAM, str(tokens), str(repeats), str(ORDER)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    counted, whole, peak, ngrams, total = json.loads(done.stdout)
    print(
        f"\n{repeats} x {tokens:,} tokens: counted in {counted:.0f} s, estimated in {whole:.0f} s "
        f"(drawing included), peak {peak / 1e9:.2f} GB, {sum(ngrams):,} n-grams {ngrams}"
    )
    assert total == pytest.approx(1, abs=1e-9)
    return peak, sum(ngrams)


@pytest.mark.parametrize("tokens", [1_000_000, 10_000_000, 100_000_000])
def test_memory_grows_with_distinct_ngrams(tokens: int) -> None:
    peak, ngrams = run(tokens)
    assert peak < BASE + PER_NGRAM * ngrams


def test_memory_does_not_grow_with_the_text() -> None:
    once, ngrams = run(4_000_000)
    again, same = run(4_000_000, repeats=10)
    assert same == ngrams
    assert again < 1.2 * once

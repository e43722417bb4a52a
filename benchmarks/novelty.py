"""Novelty of n-grams, n = 1 to 32, microseconds a token of one core: this package, and sets.

    python -m benchmarks.novelty --text FILE [--training-tokens 2000000] [--documents 1000000]

The training text is the beginning of a tokenized file, over and over in random order of its lines
until it has as many tokens. Documents of 57 tokens are drawn from its bigrams: they copy more
than people do, so that searches are long. Sets of n-grams of plain Python look up as many of the
documents as take them some seconds. Memory is what NumPy holds at most while the text is read.
"""

from __future__ import annotations

import argparse
import time
import tracemalloc
from pathlib import Path

import numpy as np
import pyarrow as pa

from beyond_perplexity.ngrams.suffix_array import LONGEST_RUN
from beyond_perplexity.tendencies.tokens import TokenBatch, tokenize_batch
from beyond_perplexity.tendencies.training_text import TrainingText

LENGTH = 57
BATCH = 4096
_BY_SETS = 1_000  # documents, and of the training text as many lines


def training_batches(path: Path, tokens: int, rng: np.random.Generator) -> list[pa.Array]:
    """Take lines with words in random order until they hold so many tokens."""
    lines = [line for line in path.read_text(encoding="utf-8").split("\n") if line.strip()]
    taken: list[str] = []
    held = 0
    while held < tokens:
        for index in rng.permutation(len(lines)):
            taken.append(lines[index])
            held += len(lines[index].split())
            if held >= tokens:
                break
    return [pa.array(taken[k : k + BATCH]) for k in range(0, len(taken), BATCH)]


def bigram_documents(text: TokenBatch, n: int, rng: np.random.Generator) -> TokenBatch:
    """Draw documents: the next token is one that follows the last one somewhere in the text."""
    order = np.argsort(text.ids[:-1], kind="stable")
    starts = np.searchsorted(text.ids[order], np.arange(len(text.types) + 1))
    ids = np.empty((n, LENGTH), np.int32)
    ids[:, 0] = text.ids[rng.integers(len(text.ids), size=n)]
    for place in range(1, LENGTH):
        low, high = starts[ids[:, place - 1]], starts[ids[:, place - 1] + 1]
        drawn = low + (rng.random(n) * (high - low)).astype(np.int64)
        ids[:, place] = text.ids[order[np.minimum(drawn, len(order) - 1)] + 1]
    return TokenBatch(text.types, ids.ravel(), np.arange(n + 1) * LENGTH)


def by_sets(training: TokenBatch, documents: TokenBatch) -> float:
    """Look n-grams of all lengths up in sets; return the seconds of the looking."""
    known: list[set[bytes]] = [set() for _ in range(LONGEST_RUN)]
    for d in range(len(training.lengths)):
        own = training.ids[training.offsets[d] : training.offsets[d + 1]]
        for n, held in enumerate(known, start=1):
            held.update(own[i : i + n].tobytes() for i in range(len(own) - n + 1))
    start = time.process_time()
    for d in range(len(documents.lengths)):
        own = documents.ids[documents.offsets[d] : documents.offsets[d + 1]]
        for n, held in enumerate(known, start=1):
            sum(own[i : i + n].tobytes() in held for i in range(len(own) - n + 1))
    return time.process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--text", type=Path, required=True, help="tokens joined by blanks")
    parser.add_argument("--training-tokens", type=int, default=2_000_000)
    parser.add_argument("--documents", type=int, default=1_000_000)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    batches = training_batches(options.text, options.training_tokens, rng)
    tracemalloc.start()
    start = time.process_time()
    training = TrainingText.of(map(tokenize_batch, batches))
    built = time.process_time() - start
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    tokens = len(training.suffixes.suffixes)
    text = tokenize_batch(pa.concat_arrays(batches))
    seconds, asked = 0.0, 0
    for first in range(0, options.documents, 65_536):
        n = min(65_536, options.documents - first)
        documents = bigram_documents(text, n, rng)
        start = time.process_time()
        training.longest_runs(documents)
        seconds += time.process_time() - start
        asked += len(documents.ids)
    few = min(_BY_SETS, n, len(text.lengths))
    plain = by_sets(text.documents(0, few), documents.documents(0, few)) / (few * LENGTH)
    print(f"training tokens            {tokens:>12,}")
    print(f"read and sorted, seconds   {built:>12.1f}")
    print(f"bytes a token while read   {peak / tokens:>12.1f}")
    print(f"documents                  {options.documents:>12,}")
    print(f"searched, seconds          {seconds:>12.1f}")
    print(f"microseconds a token       {1e6 * seconds / asked:>12.2f}")
    print(f"sets, microseconds a token {1e6 * plain:>12.2f}")
    print(f"ratio                      {plain * asked / seconds:>12.1f}")


if __name__ == "__main__":
    main()

"""Compare texts in batches, beside the programs and loops that one would use instead.

    python -m benchmarks.semantics [--documents results/corpora/wikipedia/documents.parquet]

Sentences of 20 words are cut out of a corpus, and each is compared with another, on one thread, in
seconds of the processor. Word vectors are those of the package `glove`, random ones of 50 numbers
where it is not installed. Word Mover's Distance stands beside gensim's `wmdistance`, BLEU beside
sacrebleu; encoders of the sizes of the default run (their speed does not depend on what they
learned) beside one sentence at a time.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import islice

import numpy as np
import torch
from gensim.models.keyedvectors import KeyedVectors
from sacrebleu.metrics import BLEU

from beyond_perplexity.errors import InputError
from beyond_perplexity.semantics.bleu import count_bleu
from beyond_perplexity.semantics.evaluators.contract import Encoder
from beyond_perplexity.semantics.evaluators.infersent import InferSentEncoder, InferSentNetwork
from beyond_perplexity.semantics.evaluators.skipthought import (
    SkipThoughtNetwork,
    TrainedSkipThought,
)
from beyond_perplexity.semantics.evaluators.vectors import VectorTable, load_table
from beyond_perplexity.semantics.movers import movers_distances
from beyond_perplexity.semantics.word_cosines import (
    WordIndex,
    aligned_cosines,
    greedy_alignments,
    mean_vectors,
    pairwise_cosines,
    unit_rows,
)
from beyond_perplexity.storage.shards import read_texts
from beyond_perplexity.vocabulary import N_SPECIAL

WORDS = 20  # of a sentence
LOOPED = 200  # pairs or sentences that the slow way is timed on
REPEATS = 3  # of which the fastest counts


def _sentences(path: str, known: Callable[[str], bool], count: int) -> list[str]:
    """Cut sentences of known words out of a corpus, again from its start where it ends."""

    def words() -> Iterator[str]:
        while True:
            for texts in read_texts([path]):
                for text in texts.to_pylist():
                    yield from filter(known, text.split())

    stream = words()
    return [" ".join(islice(stream, WORDS)) for _ in range(count)]


def _table(path: str) -> tuple[list[str], np.ndarray, VectorTable | None]:
    """Return the words of a corpus that have vectors, these, and the table they are of."""
    found = {
        word for texts in read_texts([path]) for text in texts.to_pylist() for word in text.split()
    }
    words = sorted(found)
    try:
        table = load_table({"package": "glove"})
    except InputError:
        return words, np.random.default_rng(0).normal(size=(len(words), 50)).astype("f4"), None
    vectors = table.find(words)
    kept = ~np.isnan(vectors[:, 0])
    return [word for word, has in zip(words, kept, strict=True) if has], vectors[kept], table


def _seconds(function: Callable[[], object]) -> float:
    """Time the fastest of a few calls, the first of which warms up."""
    times = []
    for _ in range(REPEATS):
        began = time.process_time()
        function()
        times.append(time.process_time() - began)
    return min(times)


def _report(name: str, count: int, seconds: float, slow: float | None = None) -> None:
    """Print how many a second there are, and how many times as many as the slow way does."""
    ratio = "" if slow is None else f"{slow * count / seconds:8.1f} times"
    print(f"  {name:34s} {count / seconds:12,.0f} /s {ratio}", flush=True)


def compare_movers(
    words: list[str], vectors: np.ndarray, first: list[str], other: list[str]
) -> None:
    """Time Word Mover's Distance of sentences of as many words, and of fewer, beside gensim's."""
    held = KeyedVectors(vectors.shape[1])
    held.add_vectors(words, vectors)
    index, units = WordIndex({word: row for row, word in enumerate(words)}), unit_rows(vectors)
    shorter = [" ".join(text.split()[: WORDS - 1 - k % 5]) for k, text in enumerate(other)]
    for name, second in (("WMD, 20 and 20 words", other), ("WMD, 20 and 15 to 19 words", shorter)):

        def ours(second: list[str] = second) -> np.ndarray:
            return movers_distances(units, index.read(first), index.read(second))

        def gensims(second: list[str] = second) -> list[float]:
            pairs = zip(first[:LOOPED], second[:LOOPED], strict=True)
            return [held.wmdistance(one.split(), two.split()) for one, two in pairs]

        gap = np.abs(ours()[:LOOPED] - gensims()).max()
        _report(name, len(first), _seconds(ours), _seconds(gensims) / LOOPED)
        assert gap < 1e-3, f"gensim's distances differ by {gap}"


def compare_vectors(words: list[str], vectors: np.ndarray, texts: list[str]) -> None:
    """Time what else word vectors give, reading words included."""
    index, units = WordIndex({word: row for row, word in enumerate(words)}), unit_rows(vectors)
    rows = {word: row for row, word in enumerate(words)}

    def one_by_one() -> list[np.ndarray]:
        return [vectors[[rows[w] for w in text.split()]].mean(axis=0) for text in texts[:LOOPED]]

    slow = _seconds(one_by_one) / LOOPED
    _report(
        "average of vectors",
        len(texts),
        _seconds(lambda: mean_vectors(vectors, index.read(texts))),
        slow,
    )
    half = len(texts) // 8
    read = index.read(texts[:half]), index.read(texts[half : 2 * half])
    _report("aligned cosines", half, _seconds(lambda: aligned_cosines(units, *read)))
    pairwise = _seconds(lambda: pairwise_cosines(units, *read, 2, "normalized"))
    _report("pairwise cosines", half, pairwise)
    _report("greedy alignment", half, _seconds(lambda: greedy_alignments(units, *read)))


def compare_bleu(first: list[str], second: list[str]) -> None:
    """Time the counts of BLEU beside sacrebleu's sentence scores."""
    metric = BLEU(tokenize="none", effective_order=True)
    pairs = list(zip(first, second, strict=True))

    def theirs() -> list[object]:
        return [metric.sentence_score(one, [two]) for one, two in pairs[:LOOPED]]

    _report("BLEU", len(pairs), _seconds(lambda: count_bleu(pairs)), _seconds(theirs) / LOOPED)


def compare_encoders(words: Sequence[str], table: VectorTable | None, texts: list[str]) -> None:
    """Time encoders of the default run's sizes beside one sentence at a time."""
    torch.manual_seed(0)
    network = SkipThoughtNetwork(N_SPECIAL + len(words), {}).eval()
    encoders: dict[str, Encoder] = {"SkipThought": TrainedSkipThought(network, words)}
    if table is not None:
        reader = InferSentNetwork(table.width, 1, {}).eval()
        encoders["InferSent"] = InferSentEncoder(reader, table)
    for name, encoder in encoders.items():

        def one_by_one(encoder: Encoder = encoder) -> list[np.ndarray]:
            return [encoder.encode([text]) for text in texts[:LOOPED]]

        def together(encoder: Encoder = encoder) -> np.ndarray:
            return encoder.encode(texts)

        slow = _seconds(one_by_one) / LOOPED
        _report(f"{name}, {encoder.width} units", len(texts), _seconds(together), slow)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--documents", default="results/corpora/wikipedia/documents.parquet")
    add("--pairs", type=int, default=10_000, help="of sentences (default 10,000)")
    given = parser.parse_args()
    torch.set_num_threads(1)
    words, vectors, table = _table(given.documents)
    known = set(words)
    texts = _sentences(given.documents, known.__contains__, 2 * given.pairs)
    first, second = texts[: given.pairs], texts[given.pairs :]
    source = "random vectors" if table is None else "GloVe"
    print(f"{given.pairs:,} pairs of sentences of {WORDS} words, {len(words):,} types, {source}")
    compare_movers(words, vectors, first, second)
    compare_vectors(words, vectors, texts * (-(-100_000 // len(texts))))
    compare_bleu(first, second)
    compare_encoders(words, table, first)


if __name__ == "__main__":
    main()

"""Small texts side by side, as the tests of the tendencies count and compare them.

And what is measured of them by plain Python, in whole numbers: an oracle.
"""

from collections import Counter
from contextlib import contextmanager
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from beyond_perplexity.random_streams import stream
from beyond_perplexity.schemas.corpora import TEXT_SAMPLES
from beyond_perplexity.storage.shards import write_shard
from beyond_perplexity.tendencies import measurement_options, measures, pairs, statistics
from beyond_perplexity.tendencies.tokens import WHOLE_TEXT
from beyond_perplexity.tendencies.type_token import HISTOGRAM_OF
from beyond_perplexity.tendencies.word_classes import ClassOptions, StopWords
from tests.unit.small_corpora import write_documents as write_documents

STOP = StopWords("test", frozenset({"w1", "w3"}))
NO_LIMITS = measurement_options.MeasurementOptions(
    permutations=400, bootstrap=0, monte_carlo=0, zipf_ranks=None
)


def draw_texts(seed, n, mean=6, exponent=1.5, most=60, least=1):
    """Draw documents of a Zipf law, each of so many words at least."""
    rng = np.random.default_rng(seed)
    lengths = least + rng.poisson(mean, n)
    drawn = (np.minimum(rng.zipf(exponent, length), most) for length in lengths)
    return [" ".join(f"w{k}" for k in document) for document in drawn]


def batched(texts, size=1000):
    return [pa.array(texts[i : i + size], pa.string()) for i in range(0, len(texts), size)]


def statistics_of(texts, stop=STOP, view=WHOLE_TEXT, path=None, batch=1000, **options):
    with statistics.StatisticsCounter(stop, view=view, **options) as counter:
        for part in batched(texts, batch):
            counter.add(part)
        if path is not None:
            counter.write(path, {"seed": 1})
        return counter.result()


@contextmanager
def pair_of(first, second, groups=(None, None), cut=1000):
    """Bring two lists of texts together, with the group of each document."""
    sample_sets = statistics_of(first), statistics_of(second)
    held = tuple(None if g is None else np.asarray(g, np.int32) for g in groups)
    texts = batched(first, cut), batched(second, cut)
    with pairs.paired(*sample_sets, texts, groups=held, classes=ClassOptions(STOP, True)) as pair:
        yield pair


def rows_of(first, second, groups=(None, None), options=NO_LIMITS, **more):
    """Measure two lists of texts: the rows by tendency and measure."""
    with pair_of(first, second, groups) as pair:
        return {row.key: row for row in measures.measure_rows(pair, options, 0, **more)}


def exact_ks(first, second):
    places, sides = {*first, *second}, (first, second)
    shares = [[Fraction(sum(y <= x for y in side), len(side)) for side in sides] for x in places]
    return max(abs(one - other) for one, other in shares)


def types_at_lengths(sides, tendency):
    """Yield the numbers of types of both sides' documents of each length that both have."""
    step = pairwise if tendency == "type_token_bigrams" else iter
    for length in {len(d) for d in sides[0]} & {len(d) for d in sides[1]}:
        yield [[len(set(step(d))) for d in side if len(d) == length] for side in sides]


def plain_measures(sides, counts=None):
    """Compute every permuted measure of two lists of tokenized documents; None for undefined ones.

    The counts of types (2, V) are taken from the documents where they are not given.
    """
    if counts is None:
        words = [Counter(word for document in side for word in document) for side in sides]
        counts = np.array([[own[word] for word in {**words[0], **words[1]}] for own in words])
    n = counts.sum(axis=1)
    product = int(n[0] * n[1])
    apart = np.abs(counts[0] * n[1] - counts[1] * n[0])
    ranked = -np.sort(-counts, axis=1)
    sums = np.cumsum(ranked[0] * n[1] - ranked[1] * n[0])
    found = {
        ("unigram", "tvd"): Fraction(int(apart.sum()), 2 * product),
        ("unigram", "max_difference"): Fraction(int(apart.max()), product),
        ("rank_frequency", "ks_empirical"): Fraction(int(np.abs(sums).max()), product),
    }
    stop = [[Fraction(sum(w in STOP.words for w in d), len(d)) for d in side] for side in sides]
    lengths = [list(map(len, side)) for side in sides]
    for tendency, values in (("length", lengths), ("stop_words", stop)):
        means = [Fraction(sum(held), len(held)) for held in values]
        found[tendency, "mean_difference"] = means[1] - means[0]
        found[tendency, "ks"] = exact_ks(*values)
    for name in HISTOGRAM_OF:
        at = list(types_at_lengths(sides, name))
        weight = sum(len(own) for _, own in at)
        total = sum(len(own) * exact_ks(one, own) for one, own in at)
        found[name, "ks_empirical"] = total / weight if weight else None
    return found


def at_most(documents, tokens, sample_set, seed):
    """Take whole documents in the random order of the text, each that still fits."""
    if sum(map(len, documents)) <= tokens:
        return documents
    taken = []
    for place in stream(seed, "equal_tokens", sample_set).permutation(len(documents)):
        if sum(map(len, [*taken, documents[place]])) <= tokens:
            taken.append(documents[place])
    return taken


def write_samples(path, texts, first=0, *, known=False):
    """Write samples, of a model whose probabilities are known or not; every fourth is cut off."""
    n = len(texts)
    columns = {"doc_id": list(range(first, first + n)), "text": list(texts)}
    columns["finished"] = [number % 4 > 0 for number in columns["doc_id"]]
    columns["log_prob"] = [-1.0 if known else None] * n
    arrays = [pa.array(columns.get(field.name, [None] * n), field.type) for field in TEXT_SAMPLES]
    write_shard(path, TEXT_SAMPLES, pa.table(arrays, schema=TEXT_SAMPLES), {})
    return str(path)


def run_script(script, *arguments):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["x", *map(str, arguments)])
        script.main()


def named_parts(parts, **more):
    return dict(part.split("=") for part in parts.split()) | more

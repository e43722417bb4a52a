"""Words and phrases that samples over- and under-use: n-grams of one to three words.

Rows of schema ``words``, one for each n-gram that is frequent in both texts together (see
`frequent_ngrams`), a choice that knows no difference between them. `log_odds` is that of the
samples less that of the reference, with the prior of Monroe, Colaresi and Quinn (2008); `low` and
`high` its interval over units; `z` their z, which takes tokens for independent and is not tested.

What is tested is the rate of an n-gram, its occurrences by the n-grams of its length, with a t over
units: a word of one long document has t = 1, and documents that are longer alone change no rate.
Units and randomizations are those of the tests of words (`measures`): documents of about one
length, whole groups, groups and pseudo-groups, pairs of answers; of samples in groups beside
single documents one of each group, of about one length.
`p_adjusted` is by max-T for all n-grams of the sample set, and an n-gram below 5% is named;
`q_value` is Benjamini and Yekutieli's, of p-values of t by Student's distribution:
approximate, since no number of permutations reaches what thousands of tests need.

W n-grams, D documents, U units.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain

import numpy as np
import pyarrow as pa
from scipy.sparse import csr_matrix, vstack

from beyond_perplexity import verdicts
from beyond_perplexity.inference import permuted_units
from beyond_perplexity.inference.log_odds import (
    UnitRates,
    effective_cases,
    log_odds,
    log_odds_limits,
)
from beyond_perplexity.inference.p_values import benjamini_yekutieli, max_t, needed_draws
from beyond_perplexity.inference.permuted_units import (
    VERDICT_LEVELS,
    PermutedUnits,
    effective_groups,
)
from beyond_perplexity.inference.prompts import Prompts
from beyond_perplexity.random_streams import stream
from beyond_perplexity.schemas.tendencies import WORDS_AND_PHRASES
from beyond_perplexity.tendencies.answers import cut_documents
from beyond_perplexity.tendencies.frequent_ngrams import (
    LEAST_OCCURRENCES,
    QUOTED,
    GramCounts,
    ReadTokens,
    TextStream,
    TextStreams,
    count_grams,
    least_documents,
    quotations,
)
from beyond_perplexity.tendencies.measures import without_verdict
from beyond_perplexity.tendencies.pairs import Measuring
from beyond_perplexity.tendencies.tokens import RAW_TEXT

_TESTED = ("t", "p_value", "p_adjusted", "q_value")


_Parts = list[tuple[list[csr_matrix], list[np.ndarray]]]


class _Units:
    """The n-grams in the units of a comparison: documents, or groups of them."""

    def __init__(self, how: Measuring, grams: GramCounts) -> None:
        pair, n = how.pair, how.pair.n_documents
        units = how.word_units or permuted_units.single_documents(n)
        scheme = permuted_units.scheme_of(pair.groups)
        self.told, self._clusters = None if scheme == "documents" else str(scheme), None
        if isinstance(pair.groups, Prompts):  # a prompt has answers of both texts
            own = np.arange(units.n[0]) if pair.groups.whole else pair.groups.units
            self._clusters = own, own
        groups = pair.groups[1]
        if scheme == "draws":
            units, self.told = _one_of_each_group(how), "one_draw"
        self.permuted = units
        codes = units.codes[0], units.codes[1] - units.n[0]
        self._of_limits = self._tested = _by_length(grams, _members(codes, units.n))
        if scheme == "draws" and groups is not None:
            self._of_limits = _by_length(grams, _members((codes[0], groups), (0, 0)))

    def limits(self, counts: np.ndarray, totals: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the limits of the log odds of counts and totals, (2, W): (W,) each."""
        given = (((c[0], c[1]), (n[0], n[1])) for c, n in self._of_limits)
        found = [effective_cases(*both, self._clusters) for both in given]
        cases, own = (np.concatenate(parts) for parts in zip(*found, strict=True))
        df = min(map(effective_groups, self._of_limits[0][1])) - 1
        most = np.minimum(own, df) if df > 0 else np.nan
        return log_odds_limits(counts, totals, cases, most)

    def tests(self, n: int, seed: int) -> dict[str, np.ndarray]:
        """Test all n-grams on n randomizations: t, p-values and q-values, (W,) each."""
        weights, rates = self.permuted.weights, []
        for counts, sizes in self._tested:
            held = [x * weight for x, weight in zip(counts, weights, strict=True)]
            tokens = [x * weight for x, weight in zip(sizes, weights, strict=True)]
            rates.append(UnitRates(vstack(held, format="csr"), np.concatenate(tokens)))
        ends = np.cumsum([counts[0].shape[1] for counts, _ in self._tested])
        draws, start = np.empty((n + 1, ends[-1]), np.float32), 0
        first = np.arange(sum(self.permuted.n)) < self.permuted.n[0]
        for labels in chain(self.permuted.labels(n, seed), [first[:, None]]):
            end = start + labels.shape[1]
            draws[start:end] = np.concatenate([one.t(labels) for one in rates]).T
            start = end
        found = max_t(draws)
        given = (np.split(x, ends[:-1]) for x in (found.t, found.df))
        p_values = [one.p_values(*both) for one, *both in zip(rates, *given, strict=True)]
        q_value = benjamini_yekutieli(np.concatenate(p_values))
        return dict(zip(_TESTED, (*found[:3], q_value), strict=True))


def _by_length(grams: GramCounts, members: Sequence[csr_matrix]) -> _Parts:
    """Sum n-grams and their sizes over the units of either text, by their length."""
    parts = []
    for n in np.unique(grams.lengths):
        own = grams.lengths == n
        both = list(zip(members, grams.counts, grams.sizes, strict=True))
        counts = [(m @ held[:, own]).tocsr() for m, held, _ in both]
        parts.append((counts, [m @ held[:, n - 1].astype(float) for m, _, held in both]))
    return parts


def _members(codes: tuple[np.ndarray, np.ndarray], n: tuple[int, int]) -> list[csr_matrix]:
    """Say which documents of either text are of which of n units at least, -1: of none: (U, D)."""
    found = []
    for own, least in zip(codes, n, strict=True):
        held = np.flatnonzero(own >= 0)
        shape = max(least, int(own.max(initial=-1)) + 1), len(own)
        found.append(csr_matrix((np.ones(len(held)), (own[held], held)), shape))
    return found


def _one_of_each_group(how: Measuring) -> PermutedUnits:
    """Permute one document of each group of the samples with single ones, of about one length.

    An average over draws, as other measures have it, would name a word in up to 12% of the cases
    where lengths differ alone.
    """
    groups, lengths = how.pair.groups[1], how.pair.document_lengths
    assert groups is not None
    order = stream(how.seed, "words/one_of_each_group").permutation(len(groups))
    chosen = np.sort(order[np.unique(groups[order], return_index=True)[1]])
    n = len(lengths[0]), len(chosen)
    own = lengths[0], lengths[1][chosen]
    units = permuted_units.permuted_units((None, None), n, how.seed, own)
    assert units is not None
    codes = np.full(len(groups), n[0] - 1)
    codes[chosen] = units.codes[1]
    return replace(units, codes=(units.codes[0], codes))


def _quoted(
    grams: GramCounts,
    texts: TextStreams,
    read: ReadTokens,
    named: np.ndarray,
    over: np.ndarray,
) -> dict[str, list[str | None]]:
    """Quote the n-grams that are named (bool, (W,)) from the text that has more of them."""
    found: dict[str, list[str]] = {}
    for text, own in zip(texts, (~over, over), strict=True):
        names = [name for name, quoted in zip(grams.names, named & own, strict=True) if quoted]
        found |= quotations(text, read, names) if names else {}
    return {
        f"example_{k + 1}": [(*found.get(name, ()), None, None)[k] for name in grams.names]
        for k in range(QUOTED)
    }


def _verdicts(
    p_adjusted: np.ndarray, why: str, n: int, sample_sets: int
) -> dict[str, list[str | None]]:
    """Say of each n-gram what was found on n randomizations, and why there is no verdict."""
    needed = needed_draws(sample_sets, VERDICT_LEVELS[0], n)
    if n and not why and needed:
        numbers = {"draws": n, "level": VERDICT_LEVELS[0], "family": sample_sets}
        why = verdicts.reason(verdicts.TOO_FEW, **numbers, needed=needed)
    other = verdicts.WITHOUT_VERDICT if why else verdicts.ALIKE
    other = verdicts.CANNOT_TELL if verdicts.cannot_tell(why) else other if n else verdicts.UNTESTED
    named = (p_adjusted < VERDICT_LEVELS[0]) & (not why)
    found = [verdicts.DIFFERS if own else other for own in named]
    return {"verdict": [*found], "reason": [why or None] * len(found)}


def _cut(texts: TextStream, tokens: np.ndarray) -> Iterable[pa.Array]:
    return cut_documents(texts(), tokens)


def compare_words(
    how: Measuring,
    texts: TextStreams,
    read: ReadTokens,
    source: str,
    vocabulary: str = RAW_TEXT,
    sample_sets: int = 1,
) -> pa.Table:
    """Find the n-grams that the samples of a pair over- and under-use; see the module.

    Parameters
    ----------
    how : Measuring
        The pair, which units are permuted and how often, and the seed.
    texts : tuple of two callables
        Each streams the documents (string, shape (D,)) of a text of the pair, in its order.
    read : callable
        Makes tokens of a batch, as for the pair.
    source, vocabulary : str
        Names of the sample set and of the reading, for the table.
    sample_sets : int
        How many sample sets are one family of tests.

    Returns
    -------
    pa.Table
        Of schema ``words``, the farthest n-grams first; empty where none is frequent enough.
    """
    if how.pair.cut is not None:
        both = zip(texts, how.pair.cut.document_lengths, strict=True)
        first, second = (partial(_cut, stream, tokens) for stream, tokens in both)
        texts, how = (first, second), how.for_words
    pair, n = how.pair, how.options.permutations
    if pair.documents is None or not pair.defined:
        return WORDS_AND_PHRASES.empty_table()
    grams = count_grams(texts, read, sum(pair.n_documents))
    if not len(grams.names):
        return WORDS_AND_PHRASES.empty_table()
    counts, totals, units = grams.occurrences(), grams.totals(), _Units(how, grams)
    value, z = log_odds(counts, totals)
    low, high = units.limits(counts, totals)
    why = without_verdict(pair, "unigram") or units.permuted.unlike
    if n and not why:
        tested = units.tests(n, how.seed)
    else:
        tested = dict.fromkeys(_TESTED, np.full(len(value), np.nan))
    tested["p_adjusted"] = np.minimum(1, tested["p_adjusted"] * sample_sets)
    said = _verdicts(tested["p_adjusted"], why, n, sample_sets)
    numbers = {"log_odds": value, "low": low, "high": high, "z": z, **tested}
    columns = {
        "ngram": grams.names,
        "words": grams.lengths,
        **{name: pa.array(x, pa.float64(), from_pandas=True) for name, x in numbers.items()},
        **said,
        **_quoted(grams, texts, read, np.array(said["verdict"]) == verdicts.DIFFERS, value > 0),
    }
    for text, ending in enumerate(("_reference", "")):
        documents = grams.documents()[text]
        columns[f"count{ending}"] = counts[text]
        columns[f"documents{ending}"] = documents
        columns[f"document_share{ending}"] = documents / pair.n_documents[text]
    of_all = {
        "source": source,
        "vocabulary": vocabulary,
        "family": len(value),
        "draws": n,
        "permuted": units.told,
        "least_documents": least_documents(sum(pair.n_documents)),
        "least_occurrences": LEAST_OCCURRENCES,
    }
    columns |= {name: [own] * len(value) for name, own in of_all.items()}
    order = np.argsort(-np.abs(np.where(np.isnan(tested["t"]), z, tested["t"])), kind="stable")
    return pa.table(
        {name: columns[name] for name in WORDS_AND_PHRASES.names}, WORDS_AND_PHRASES
    ).take(order)

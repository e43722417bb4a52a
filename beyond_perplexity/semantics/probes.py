"""What each measure notices: sentences against themselves, changed and unrelated ones.

N sentences.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from beyond_perplexity.corpus.sentences import CutDocument, sentence_item
from beyond_perplexity.inference import intervals
from beyond_perplexity.inference.p_values import student_quantile
from beyond_perplexity.inference.permuted_units import EFFECTIVE_GROUPS
from beyond_perplexity.random_streams import stream
from beyond_perplexity.schemas.semantics import PROBES
from beyond_perplexity.semantics.evaluators.contract import Evaluator
from beyond_perplexity.semantics.measures import MEASURES, NO_WORDS
from beyond_perplexity.semantics.word_cosines import Floats
from beyond_perplexity.storage.provenance import group_key
from beyond_perplexity.verdicts import joined_facts

_IDENTICAL, _UNRELATED = "identical", "unrelated"
# What a score must lie below another to be noticed: rounding of encoders is smaller.
NOTICED = 1e-5
_BATCH = 256  # sentences that are compared at once
_PURPOSE = "semantics/probe"  # of the random streams

# After these "not" turns an English sentence into its opposite.
_AUXILIARIES = frozenset(
    {
        *("am", "is", "are", "was", "were", "has", "have", "had", "do", "does", "did", "can"),
        *("could", "will", "would", "shall", "should", "may", "might", "must"),
    }
)
_NEGATIONS = frozenset({"not", "n't", "n’t"})

_Row = dict[str, Any]
_Words = list[str]
_Change = Callable[[_Words, np.random.Generator], _Words | None]


def negate(words: _Words, random: np.random.Generator) -> _Words | None:
    """Put "not" after the first auxiliary before the end, or take it away; None: there is none."""
    for position, word in enumerate(words[:-1]):
        if word.lower() in _AUXILIARIES:
            after = words[position + 1 :]
            negated = after[0].lower() in _NEGATIONS
            return [*words[: position + 1], *(after[1:] if negated else ["not", *after])]
    return None


def swap_words(words: _Words, random: np.random.Generator) -> _Words | None:
    """Swap two different words, drawn from all such pairs; None where there is none."""
    positions = [position for position, word in enumerate(words) if word not in NO_WORDS]
    if len({words[position] for position in positions}) < 2:
        return None
    while True:  # at least 2 of n² draws are of different words
        one, other = (positions[k] for k in random.integers(0, len(positions), 2))
        if words[one] != words[other]:
            break
    changed = list(words)
    changed[one], changed[other] = words[other], words[one]
    return changed


def shuffle_words(words: _Words, random: np.random.Generator) -> _Words | None:
    """Bring all words in a random order that differs; None where there is no other."""
    if len(set(words)) < 2:
        return None
    while True:
        changed = [words[position] for position in random.permutation(len(words)).tolist()]
        if changed != words:
            return changed


CHANGES: dict[str, _Change] = {
    "negated": negate,
    "swapped": swap_words,
    "shuffled": shuffle_words,
}
_STREAM_KEYS = {"swapped": "exchanged"}  # as of old, so that the same words are swapped
_NAMES = (_IDENTICAL, *CHANGES, _UNRELATED)


class ProbedSentences(NamedTuple):
    """Sentences and what they are changed to."""

    groups: NDArray[np.int64]  # int64, (N,): key of the group of each one's document
    # by probe, themselves first; None where a sentence cannot be changed so
    versions: dict[str, list[str | None]]


def probe_sentences(
    units: Sequence[CutDocument], partners: Sequence[Sequence[str | None]], seed: int
) -> ProbedSentences:
    """Change the sentences of documents; `partners` has an unrelated sentence for each."""
    groups: list[int] = []
    versions: dict[str, list[str | None]] = {name: [] for name in _NAMES}
    for unit, others in zip(units, partners, strict=True):
        for position, (words, other) in enumerate(zip(unit.sentences, others, strict=True)):
            groups.append(group_key(unit.group, unit.unit_id))
            versions[_IDENTICAL].append(" ".join(words))
            versions[_UNRELATED].append(other)
            item = sentence_item(unit.unit_id, position)
            for name, change in CHANGES.items():
                key = f"{_PURPOSE}/{_STREAM_KEYS.get(name, name)}"
                changed = change(words, stream(seed, key, item))
                versions[name].append(None if changed is None else " ".join(changed))
    return ProbedSentences(np.array(groups, np.int64), versions)


def _scores(evaluator: Evaluator, sentences: ProbedSentences, probe: str) -> dict[str, Floats]:
    """Score versions against sentences; NaN where there is no version."""
    pairs = list(zip(sentences.versions[probe], sentences.versions[_IDENTICAL], strict=True))
    found = {name: np.full(len(pairs), np.nan) for name in evaluator.measures}
    held = [position for position, (text, _) in enumerate(pairs) if text is not None]
    for begin in range(0, len(held), _BATCH):
        part = held[begin : begin + _BATCH]
        asked = [(str(pairs[position][0]), str(pairs[position][1])) for position in part]
        for name, values in evaluator.score(asked).items():
            found[name][part] = values
    return found


def _share(flags: NDArray[np.bool_], groups: NDArray[np.int64]) -> intervals.RatioInterval:
    """Return a share of sentences with Wilson's interval at the effective size by groups."""
    count, share = len(flags), float(flags.mean())
    sums, sizes = intervals.sum_groups(groups, flags - share, np.ones(count))
    plain = count * share * (1 - share)
    clustered = len(sums) / max(1, len(sums) - 1) * float(np.square(sums).sum())
    effect = max(1.0, clustered / plain) if plain else float(np.square(sizes).sum() / count)
    size = count / effect
    if size < EFFECTIVE_GROUPS:
        return intervals.RatioInterval(share, math.nan, math.nan, math.nan, len(sums), size)
    z = float(student_quantile((1 + intervals.INTERVAL_LEVEL) / 2, size - 1))
    middle = (share + z**2 / (2 * size)) / (1 + z**2 / size)
    half = z / (1 + z**2 / size) * math.sqrt(share * (1 - share) / size + z**2 / (4 * size**2))
    return intervals.RatioInterval(share, middle - half, middle + half, math.nan, len(sums), size)


def _effect(values: Floats, own: Floats, unrelated: Floats, groups: NDArray[np.int64]) -> _Row:
    """Return how far a change is on the way to an unrelated sentence, with an interval."""
    names = ("effect", "effect_low", "effect_high")
    known = ~np.isnan(values + own + unrelated)
    lost, most = (own - held for held in (values, unrelated))
    sums, sizes = intervals.sum_groups(groups[known], lost[known], most[known])
    if sizes.sum() <= NOTICED * known.sum():
        return dict.fromkeys(names)
    return intervals.ratio_interval(sums, sizes).columns(*names)


def _probe_row(
    measure: str, probe: str, scores: Mapping[str, Floats], sentences: ProbedSentences
) -> _Row:
    values, own = scores[probe], scores[_IDENTICAL]
    there = np.array([text is not None for text in sentences.versions[probe]], bool)
    known = ~np.isnan(values) & ~np.isnan(own)
    row: _Row = {"measure": measure, "probe": probe, "sentences": int(known.sum())}
    row |= {"undefined": int((there & ~known).sum())}
    if not known.any():
        return row | {"groups": 0, "note": "no sentence can be changed so and has a value"}
    groups = sentences.groups[known]
    sums, sizes = intervals.sum_groups(groups, values[known], np.ones(int(known.sum())))
    found = intervals.ratio_interval(sums, sizes)
    noticed = _share(values[known] < own[known] - NOTICED, groups)
    row |= found.columns("value", "low", "high")
    if probe != _IDENTICAL:
        row |= noticed.columns("noticed", "noticed_low", "noticed_high")
        row |= _effect(values, own, scores[_UNRELATED], sentences.groups)
    reached = "" if MEASURES[measure].reaches else "identical texts need not have the most"
    note = joined_facts(found.few_groups(), reached)
    return row | {"groups": found.groups, "note": note}


def probe_evaluator(evaluator: Evaluator, sentences: ProbedSentences, name: str) -> pa.Table:
    """Measure what an evaluator notices: schema ``probes``."""
    scores = {probe: _scores(evaluator, sentences, probe) for probe in sentences.versions}
    rows = []
    for measure in evaluator.measures:
        found = {probe: held[measure] for probe, held in scores.items()}
        rows += [{"evaluator": name} | _probe_row(measure, p, found, sentences) for p in found]
    return pa.Table.from_pylist(rows, PROBES)

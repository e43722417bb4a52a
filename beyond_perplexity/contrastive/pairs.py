"""Pairs of a good and a bad sentence that a user brings, such as those of BLiMP.

H_C of a phenomenon is the mean of score(good) − score(bad), nats a pair, and per word of the good
sentences. A pair is right where the good sentence scores higher; one of equal scores counts half,
as guessing would. Pairs that are identical to the model's reader are counted and left out; those
that repeat others are counted.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from beyond_perplexity.corpus.external import read_filled_lines
from beyond_perplexity.errors import InputError
from beyond_perplexity.inference.intervals import finite, ratio_test, sum_groups
from beyond_perplexity.inference.limits import share_interval, wilson_interval
from beyond_perplexity.schemas.contrastive import PAIR_CONTRASTS
from beyond_perplexity.storage.accounts import NAMES, Account
from beyond_perplexity.storage.inputs import parse_object
from beyond_perplexity.storage.provenance import group_key
from beyond_perplexity.verdicts import joined_facts

if TYPE_CHECKING:
    from beyond_perplexity.contrastive.scores import Scorer

SIDES = (("sentence_good", "sentence_bad"), ("good", "bad"))
PHENOMENA, PAIR_KINDS = ("phenomenon", "UID"), ("kind", "distortion")
_JSON, _TSV = (".jsonl", ".ndjson"), (".tsv",)
_BATCH = 1024

Clean = Callable[[list[str]], list[str]]
# Gives the log scores of texts, nats, (N,), each a list of sentences.
ScoreTexts = Callable[[Iterable[list[str]]], np.ndarray]


class SentencePair(NamedTuple):
    """A good and a bad sentence, what they are about, and where they stand."""

    good: str
    bad: str
    phenomenon: str
    place: str
    group: str | None = None  # what it belongs to, such as its page; None: it stands for itself


def pair_files(path: Path) -> list[Path]:
    """List the files of pairs of a folder, by their names; a file is one itself."""
    if not path.is_dir():
        return [path]
    found = sorted(one for one in path.iterdir() if {*one.suffixes} & {*_JSON, *_TSV})
    if not found:
        raise InputError(f"{path}: has no file of pairs ({', '.join([*_JSON, *_TSV])})")
    return found


def read_pairs(path: str | Path) -> Iterator[SentencePair]:
    """Stream the pairs of a file, or of all files of a folder; an `InputError` names the line.

    ``.jsonl`` (or ``.ndjson``) has an object a line, any other file is TSV with a header row;
    packed or not. Fields are ``sentence_good`` and ``sentence_bad``, or ``good`` and ``bad``;
    ``phenomenon`` or ``UID``, else the file's name; ``kind`` (or ``distortion``), by which pairs
    are summed up within a phenomenon; ``group``, the document or page of a pair.
    """
    for file in pair_files(Path(path)):
        yield from _read_file(file)


def _read_file(path: Path) -> Iterator[SentencePair]:
    account = Account(path, "lines")
    own = path.name.split(".")[0]
    lines = read_filled_lines(path, account)
    rows = _tsv_rows(path, lines, account)
    if any(suffix.lower() in _JSON for suffix in path.suffixes):
        places = ((f"{path}: line {number}", line) for number, line in lines)
        wanted = "give an object with both sentences"
        rows = ((place, parse_object(line, f"{place}:", wanted)) for place, line in places)
    for place, row in rows:
        names = next((pair for pair in SIDES if set(pair) <= row.keys()), None)
        if names is None:
            advice = f"a pair has {' or '.join(' and '.join(pair) for pair in SIDES)}"
            raise InputError(f"{place}: has the fields {', '.join(row) or 'none'}; {advice}")
        for name in names:
            if not isinstance(row[name], str) or not row[name].strip():
                raise InputError(f"{place}: {name} is empty or no text; give both sentences")
        named, kind = (
            next((row[n] for n in of if row.get(n)), "") for of in (PHENOMENA, PAIR_KINDS)
        )
        about = f"{named}: {kind}" if named and kind else kind or named or own
        group = row.get("group")
        owner = None if group in (None, "") else str(group)
        yield SentencePair(row[names[0]], row[names[1]], str(about), place, owner)


def _tsv_rows(
    path: Path, lines: Iterable[tuple[int, str]], account: Account
) -> Iterator[tuple[str, dict[str, Any]]]:
    header: list[str] = []
    for number, line in lines:
        fields = line.rstrip("\r\n").split("\t")
        if not header:
            header = [name.strip() for name in fields]
            account.left_out[NAMES] = 1
            if not any(set(pair) <= set(header) for pair in SIDES):
                raise InputError(
                    f"{path}: line {number}: the columns are {', '.join(header)[:80]!r}; a file of "
                    f"pairs begins with a header row, separated by tabs, with "
                    f"{' or '.join(' and '.join(pair) for pair in SIDES)}"
                )
            continue
        if len(fields) != len(header):
            wanted = f"expected {len(header)} ({', '.join(header)}), separated by tabs"
            raise InputError(f"{path}: line {number}: has {len(fields)} fields, {wanted}")
        yield f"{path}: line {number}", dict(zip(header, fields, strict=True))


# Log scores of both sides, nats, phenomenon, group, and the words of both where they are known.
_Scored = tuple[float, float, str, str | None, int | None, int | None]


def contrast_pairs(
    scorer: Scorer | ScoreTexts, pairs: Iterable[SentencePair], clean: Clean | None, model: str
) -> pa.Table:
    """Score pairs, each side a document, and sum up each phenomenon: ``pair_contrasts``, accuracy
    with Wilson's 95% interval, H_C with that of `ratio_test` over pairs or groups."""
    stream, rows, identical = iter(pairs), list[_Scored](), Counter[str]()
    seen: dict[str, set[int]] = defaultdict(set)  # hashes of the pairs of a phenomenon
    while part := list(islice(stream, _BATCH)):
        rows += _scored(scorer, part, clean, identical, seen)
    if not identical:
        raise InputError("pairs: the file has none; give a line with two sentences")
    return _table(model, rows, identical, seen)


def contrast_scores(
    rows: Iterable[tuple[float, float, str, str | None, int | None]], model: str
) -> pa.Table:
    """Sum up scored pairs: log scores (nats), phenomenon, group, words of the good one."""
    held: list[_Scored] = [(*row, None) for row in rows]
    if not held:
        raise InputError("pairs: there are none; give scores of two sentences")
    return _table(model, held, Counter({about: 0 for _, _, about, *_ in held}), {})


def _scored(
    scorer: Scorer | ScoreTexts,
    pairs: Sequence[SentencePair],
    clean: Clean | None,
    identical: Counter[str],
    seen: dict[str, set[int]],
) -> Iterator[_Scored]:
    """Score the pairs that differ; count the others by phenomenon, 0 where there are none."""
    sides = [[pair.good for pair in pairs], [pair.bad for pair in pairs]]
    good, bad = (clean(side) for side in sides) if clean else sides
    kept = []
    for pair, one, two in zip(pairs, good, bad, strict=True):
        if not one.strip() or not two.strip():
            raise InputError(f"{pair.place}: no word is left after cleaning; remove the pair")
        identical[pair.phenomenon] += one == two
        if one != two:
            kept.append((pair, one, two))
            seen[pair.phenomenon].add(hash((one, two)))
    texts = ([side] for _, *both in kept for side in both)
    if callable(scorer):
        found = scorer(texts)
    else:
        from beyond_perplexity.contrastive.scores import score_texts  # which needs torch

        found = score_texts(scorer, texts).log_score
    scores = found.reshape(-1, 2)
    for (pair, one, two), (above, below) in zip(kept, scores.tolist(), strict=True):
        yield above, below, pair.phenomenon, pair.group, len(one.split()), len(two.split())


def _table(
    model: str,
    rows: Sequence[_Scored],
    identical: Mapping[str, int],
    seen: Mapping[str, set[int]],
) -> pa.Table:
    by_name: dict[str, list[_Scored]] = {name: [] for name in identical}
    for row in rows:
        by_name[row[2]].append(row)
    found = [
        _pairs_row(model, name, held, identical[name], len(held) - len(seen.get(name, held)))
        for name, held in by_name.items()
    ]
    return pa.Table.from_pylist(found, PAIR_CONTRASTS)


def _pairs_row(
    model: str, name: str, rows: Sequence[_Scored], identical: int, repeated: int
) -> Mapping[str, Any]:
    good, bad = (np.array([row[side] for row in rows], float) for side in (0, 1))
    row: dict[str, Any] = dict.fromkeys(PAIR_CONTRASTS.names)
    row |= {"model": model, "phenomenon": name, "pairs": len(good) + identical}
    row |= {"identical": identical, "undecided": int((good == bad).sum())}
    if not len(good):
        return row | {"note": "all pairs are identical: nothing to distinguish"}
    accuracy = float((good > bad).mean() + (good == bad).mean() / 2)
    keys, ones = np.arange(len(good)), np.ones(len(good))
    if grouped := any(row[3] is not None for row in rows):
        keys = np.array([group_key(row[3], number) for number, row in enumerate(rows)])
    shares = share_interval(*sum_groups(keys, (good > bad) + (good == bad) / 2, ones))
    low, high = shares[1:3] if grouped else wilson_interval(accuracy, len(good))
    row |= {"accuracy": accuracy, "accuracy_low": finite(low), "accuracy_high": finite(high)}
    words = [np.array([row[side] for row in rows if row[side] is not None]) for side in (4, 5)]
    longer = 0.0
    if len(words[0]) == len(words[1]) == len(good):
        longer = float((words[0] - words[1]).mean())
        row |= {"length_difference": longer, "good_shorter": float((words[0] < words[1]).mean())}
    with np.errstate(invalid="ignore", over="ignore"):  # of impossible sentences
        lost = good - bad
    impossible = int((~np.isfinite(lost)).sum())
    few = shares.few_groups()
    notes = [
        f"{repeated:,} pairs repeat others" if repeated else "",
        "intervals take these for new ones" if repeated and not grouped else "",
        f"{identical:,} identical pairs are left out" if identical else "",
        f"good sentences have {longer:+.2g} words: sums favour the shorter" if longer else "",
        f"intervals are over {len(np.unique(keys)):,} groups of pairs" if grouped else "",
        few if grouped else "",
    ]
    if impossible:
        notes.append(f"{impossible:,} pairs have an impossible sentence: no contrastive entropy")
        return row | {"note": joined_facts(*notes)}
    total, cases = sum_groups(keys, lost, ones)
    found = ratio_test(total, cases).interval
    row |= found.columns("contrastive_entropy", "low", "high")
    if len(words[0]) == len(good):
        row["per_word"] = float(lost.sum() / words[0].sum())
    alone = f"{few} of contrastive entropy" if few and not grouped else ""
    return row | {"note": joined_facts(*notes, alone)}

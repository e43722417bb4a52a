"""What the tokenizer does to a text: special tokens that it reads in it, bytes that it loses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from difflib import SequenceMatcher
from itertools import compress

import numpy as np

from beyond_perplexity.auditing.checks import HARD_TEXTS, Evidence
from beyond_perplexity.auditing.subject import Subject
from beyond_perplexity.perplexities.external import finder, said_words, special_ids
from beyond_perplexity.vocabulary import BOS, EOS, SPECIAL_TOKENS, UNK, ClosedVocabulary, Vocabulary

_WHITE = ("one two", "one  two", "one\ttwo", "one\ntwo", " one two", "one two ")


def said_special(vocabulary: Vocabulary, texts: Sequence[str]) -> str:
    """Name the special tokens that texts say, and how often; empty where they say none."""
    find = finder(vocabulary).findall
    return said_words(Counter(token for text in texts for token in find(text)))


def check_special_tokens(subject: Subject) -> Evidence:
    """Count the special tokens whose strings, amid a text, become the ids of special tokens."""
    held = special_ids(subject.vocabulary)
    special = np.array(sorted({BOS, EOS, *held.values()}))
    plain, *others = subject.vocabulary.encode(["a b", *(f"a {said} b" for said in held)])
    added = int(np.isin(plain, special).sum())
    marked = [int(np.isin(ids, special).sum()) > added for ids in others]
    read = list(compress(held, marked))
    said = said_special(subject.vocabulary, subject.texts)
    detail = f"read as tokens: {', '.join(read)[:80]}" if read else "all are read as characters"
    detail += f"; the texts say {said}" if said else "; the texts say none"
    return Evidence(float(len(read)), len(held), detail)


def check_round_trip(subject: Subject) -> Evidence:
    """Turn texts into ids and back, and count those that change, but for white space.

    A word that a closed vocabulary lacks is ``<unk>`` by definition, and compared as such. Where
    the model reads texts as they are, those that differ in white space alone must also have
    different ids.
    """
    texts = [*subject.texts, *HARD_TEXTS]
    encoded = subject.vocabulary.encode(texts)
    decoded = subject.vocabulary.decode(encoded)
    closed = isinstance(subject.vocabulary, ClosedVocabulary)
    changed, detail = 0, "every text comes back"
    for text, ids, back in zip(texts, encoded, decoded, strict=True):
        want, got = text.split(), back.split()
        if closed:
            want, got = _known_words(text.split(" "), ids, got)
        elif subject.kind == "raw" and bool(np.any(ids == UNK)):
            detail = detail if changed else "texts with <unk> lose what it stands for"
            continue  # <unk> stands for what is lost, and is counted in every row
        if want != got:
            changed += 1
            detail = detail if changed > 1 else _first_change(want, got)
    if subject.kind == "raw" and not closed:
        twins = _like_white_space(subject)
        changed += bool(twins)
        detail = twins if twins and changed == 1 else detail
    return Evidence(float(changed), len(texts), detail)


def _like_white_space(subject: Subject) -> str:
    """Say which two texts that differ in white space alone have the same ids; empty: none."""
    seen: dict[bytes, str] = {}
    for text, ids in zip(_WHITE, subject.vocabulary.encode(_WHITE), strict=True):
        other = seen.setdefault(ids.tobytes(), text)
        if other != text:
            return f"{other!r} and {text!r} have the same ids"
    return ""


def _known_words(
    words: Sequence[str], ids: np.ndarray, back: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Put ``<unk>`` for the words of a text that its ids do not distinguish."""
    held = [word for word in words if word]
    if len(held) != len(ids):
        return held, list(back)
    unknown = SPECIAL_TOKENS[UNK]
    want = [unknown if token == UNK else word for word, token in zip(held, ids, strict=True)]
    return want, list(back)


def _first_change(want: list[str], got: list[str]) -> str:
    """Say what became of the first words that changed."""
    matcher = SequenceMatcher(None, want[:200], got[:200], autojunk=False)
    for kind, i, j, k, m in matcher.get_opcodes():
        if kind != "equal":
            lost, found = " ".join(want[i : min(j, i + 3)]), " ".join(got[k : min(m, k + 3)])
            return f"{lost[:60]!r} comes back as {found[:60]!r}"
    return f"{len(want)} words come back as {len(got)}"

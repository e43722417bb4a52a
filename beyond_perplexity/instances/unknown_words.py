"""Classes of unknown words by their shape, each with an id of its own.

The vocabulary has one ``<unk>``. Here it is refined by what a word looks like: capitals, digits,
hyphens and common endings, as the parsers of Berkeley do and, after them, Dyer et al. (2016).
A class that no unknown word of the training text has stays ``<unk>``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from beyond_perplexity.vocabulary import UNK, Vocabulary

SUFFIXES = ("ed", "ing", "ion", "er", "est", "ly", "ity", "al", "y", "s")


def word_class(word: str, first: bool) -> str:
    """Name the class of an unknown word.

    Parameters
    ----------
    word : str
    first : bool
        It begins a sentence, where a capital says little.

    Returns
    -------
    str
        Such as ``<unk-capital-s>``.
    """
    parts = []
    if word.isupper() and len(word) > 1:
        parts.append("capitals")
    elif word[:1].isupper():
        parts.append("initial" if first else "capital")
    if any(character.isdigit() for character in word):
        parts.append("digit")
    if "-" in word:
        parts.append("hyphen")
    lower = word.lower()
    ending = next(
        (end for end in SUFFIXES if lower.endswith(end) and len(lower) > len(end) + 1), ""
    )
    if ending and lower.isalpha():
        parts.append(ending)
    return "<unk" + "".join(f"-{part}" for part in parts) + ">"


def _unknown_classes(ids: np.ndarray, words: Sequence[str]) -> list[tuple[int, str]]:
    places = np.flatnonzero(ids == UNK).tolist()
    return [(place, word_class(words[place], place == 0)) for place in places]


def find_classes(sentences: Iterable[Sequence[str]], vocabulary: Vocabulary) -> tuple[str, ...]:
    """List the classes that the unknown words of some sentences have, sorted."""
    found: set[str] = set()
    for words in sentences:
        ids = vocabulary.encode([" ".join(words)])[0]  # (T,)
        found |= {name for _, name in _unknown_classes(ids, words)}
    return tuple(sorted(found - {"<unk>"}))


def encode_words(
    words: Sequence[str], vocabulary: Vocabulary, classes: Sequence[str]
) -> np.ndarray:
    """Turn the words of a sentence into ids, int64; class i has the id V + i.

    Parameters
    ----------
    words : sequence of str
    vocabulary : Vocabulary
        Closed, of V ids.
    classes : sequence of str
        As `find_classes` gives them; none: every unknown word is ``<unk>``.
    """
    ids = vocabulary.encode([" ".join(words)])[0].astype(np.int64)  # (T,)
    if classes:
        for place, name in _unknown_classes(ids, words):
            if name in classes:
                ids[place] = vocabulary.size + classes.index(name)
    return ids

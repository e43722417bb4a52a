"""Classes of types, such as stop words and symbols, whose share of a document is a tendency.

The row of such a tendency names a function, here or in a module of its own, that takes
`ClassOptions` and returns the test of the class: types (pyarrow.StringArray of V) in, a mask (bool,
of V) out; or None, where the class cannot be told and is not counted.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beyond_perplexity.corpus.normalization import remove_accents
from beyond_perplexity.errors import InputError
from beyond_perplexity.tendencies.definitions import NOVELTY
from beyond_perplexity.tendencies.training_text import TrainingText

_PUNCTUATION_AND_NUMBERS = r"\A[\p{P}\p{N}]+\z"
_PUNCTUATION_NUMBERS_AND_SYMBOLS = r"\A[\p{P}\p{N}\p{S}]+\z"
_APOSTROPHE = re.compile(r"(?<=\w)'(?=\w)")
AUTOMATIC_LIST = "auto"  # a list by the language
_LISTS = Path(__file__).with_name("stop_word_lists")  # by ISO 639-1 code; see its LICENSE
_LISTS_NAME = "stop-words 2025.11.4"
_SAME_LISTS = {"no": "nb"}
_ELIDING = ("fr", "it")  # Moses leaves the apostrophe with the first word: l' homme
_NLTK_NAMES = {
    "ar": "arabic", "ca": "catalan", "da": "danish", "de": "german", "el": "greek", "en": "english",
    "es": "spanish", "fi": "finnish", "fr": "french", "hu": "hungarian", "id": "indonesian",
    "it": "italian", "nl": "dutch", "no": "norwegian", "pt": "portuguese", "ro": "romanian",
    "ru": "russian", "sv": "swedish", "tr": "turkish", "zh": "chinese",
}  # fmt: skip
# Scripts that are written without blanks between words, and the characters of a word of text that
# was cut into words; all others have fewer than the last number.
_UNSPACED = {
    r"[\p{Han}\p{Hiragana}\p{Katakana}]": 4,
    r"[\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]": 10,
    "": 19,  # fewer than one blank in 20 characters
}


@dataclass(frozen=True)
class StopWords:
    """A list of lower-cased stop words; contractions stand also as Moses tokenizes them."""

    name: str  # ``gensim``, ``nltk``, the list of a language, or a file's name and its SHA-256
    words: frozenset[str]
    missing: str = ""  # why there is no list, so that stop words are not counted


def moses_forms(word: str) -> tuple[str, ...]:
    """Split a contraction as English Moses does: ``don't`` into ``don`` and ``'t``."""
    first, *rest = _APOSTROPHE.split(word.replace("’", "'"))
    return (first, *("'" + part for part in rest))


def _with_forms(words: list[str]) -> frozenset[str]:
    lowered = [word.strip().lower() for word in words if word.strip()]
    return frozenset(lowered) | {form for word in lowered for form in moses_forms(word)}


def _nltk_words(language: str) -> list[str]:
    import nltk

    if language not in _NLTK_NAMES:
        why = f"there is no list for the language '{language}'"
        raise InputError(f"stop words 'nltk': {why}; give the path of a list, one word a line")
    try:
        return list(nltk.corpus.stopwords.words(_NLTK_NAMES[language]))
    except (LookupError, OSError) as error:
        raise InputError(
            "stop words 'nltk': NLTK's stop word data is not installed; run "
            "'python -m nltk.downloader stopwords', or give the path of a list or 'gensim'"
        ) from error


def _file_words(path: Path) -> StopWords:
    try:
        content = path.read_bytes()
        words = _with_forms(content.decode("utf-8").splitlines())
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"stop words '{path}': not readable as UTF-8 text with one word a line ({error}); "
            "give such a file, 'gensim' or 'nltk'"
        ) from error
    if not words:
        raise InputError(f"stop words '{path}': the file holds no word; give one word a line")
    return StopWords(f"{path.name}:{hashlib.sha256(content).hexdigest()[:8]}", words)


def _language_words(language: str) -> StopWords:
    """Read the list of a language in all forms that tokens have: cleaned or not, elided or not."""
    code = _SAME_LISTS.get(language, language)
    if code not in {path.stem for path in _LISTS.glob("*.txt")}:
        why = (
            f"there is no list of stop words for the language '{language}': give one as stop words"
        )
        return StopWords("none", frozenset(), f"{why}, a file with one word a line")
    words = set((_LISTS / f"{code}.txt").read_text(encoding="utf-8").split())
    words |= {f"{word}'" for word in words} if code in _ELIDING else set()
    words |= {remove_accents(word) for word in words}
    return StopWords(f"{_LISTS_NAME}, {code}", frozenset(words))


def stop_word_list(spec: str, language: str) -> str:
    """Say which list texts of a language get: ``auto`` is by the language, gensim's for English."""
    if spec not in (AUTOMATIC_LIST, "nltk"):
        return spec
    if language == "en":
        return "gensim" if spec == AUTOMATIC_LIST else spec
    return f"{'language' if spec == AUTOMATIC_LIST else spec}:{language}"


def load_stop_words(spec: str = "gensim") -> StopWords:
    """Load a stop word list.

    Moses splits contractions (``don't`` becomes ``don 't``), so each entry with an inner apostrophe
    is taken in its own form and as its Moses tokens; the list matches text tokenized either way.
    `spec` is ``gensim`` (its English list), ``nltk`` (the paper's; NLTK's data must be installed;
    also ``nltk:de``), ``language:de`` (the shipped list, or none), or the path of a UTF-8 file with
    one word a line.
    """
    if spec == "gensim":
        words = (_LISTS / "gensim.txt").read_text(encoding="utf-8").split()
        return StopWords("gensim", _with_forms(words))
    kind, _, language = spec.partition(":")
    if kind == "language" and language:
        return _language_words(language)
    if kind == "nltk":
        return StopWords(spec, _with_forms(_nltk_words(language or "en")))
    return _file_words(Path(spec))


def without_blanks(types: pa.Array, counts: np.ndarray) -> str:
    """Say that tokens look like whole clauses, so that measures are not of words; else nothing."""
    characters = np.asarray(pc.utf8_length(types)) * counts
    for script, most in _UNSPACED.items():
        of_script = np.asarray(pc.match_substring_regex(types, script), bool)
        n, held = counts[of_script].sum(), characters[of_script].sum()
        if n and held > most * n and 2 * held > characters.sum():
            return (
                f"its tokens have {held / n:.0f} characters on average: words are not divided by "
                "blanks, and no measure is of words. The tokenizer icu divides Chinese, Japanese, "
                "Thai, Lao, Khmer and Burmese; or divide them first (jieba, MeCab, PyThaiNLP or "
                "the like), join them by blanks, and give the text as tokenized"
            )
    return ""


def symbol_mask(types: pa.Array, count_s_symbols: bool = True) -> np.ndarray:
    """Say which types are made only of punctuation and numerals (P*, N*, if wanted S*): (V,)."""
    pattern = _PUNCTUATION_NUMBERS_AND_SYMBOLS if count_s_symbols else _PUNCTUATION_AND_NUMBERS
    # Most types begin with a letter of ASCII; the regular expression sees only the others.
    _, offsets, data = types.buffers()
    first = np.frombuffer(offsets, np.int32)[types.offset : types.offset + len(types)]
    text = np.append(np.frombuffer(data or b"", np.uint8), np.uint8(0))
    mask = (text[first] | 32) - np.uint8(97) >= 26
    mask[mask] = pc.match_substring_regex(types.filter(pa.array(mask)), pattern)
    return mask


class ClassOptions(NamedTuple):
    """What the tests of all classes are made from; see `symbol_mask`."""

    stop_words: StopWords
    count_s_symbols: bool
    training: TrainingText | None = None  # what novelty is counted by

    @property
    def later(self) -> tuple[str, ...]:
        """The tendencies that are counted beside the texts, and not in shards."""
        return (NOVELTY,) if self.training else ()


ClassTest = Callable[[pa.Array], np.ndarray]


def stop_word_test(options: ClassOptions) -> ClassTest | None:
    """Return the test for stop words; None where there is no list."""
    if options.stop_words.missing:
        return None
    words = pa.array(sorted(options.stop_words.words), pa.string())
    return lambda types: np.asarray(pc.is_in(types, value_set=words))


def symbol_test(options: ClassOptions) -> ClassTest:
    """Return the test for symbols."""
    return partial(symbol_mask, count_s_symbols=options.count_s_symbols)

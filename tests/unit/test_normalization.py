"""The cleaning steps of XLM, alone and in a chain.

Oracles: sacremoses' punctuation normalizer and tokenizer, and Unicode's definitions. The result
does not depend on how texts are grouped. Needs sacremoses.
"""

from __future__ import annotations

import random
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sacremoses import MosesPunctNormalizer, MosesTokenizer

from beyond_perplexity.corpus import normalization
from beyond_perplexity.corpus.normalization import (
    Preprocessing,
    lower_case,
    normalize_punctuation,
    remove_accents,
    remove_non_printing,
    replace_unicode_punctuation,
)
from beyond_perplexity.errors import InputError

# Each character of the normalizer's rules, and neighbours that its patterns ask for.
PIECES = [
    *"ab19 <()[].,:;?!%`´'\"„“”–—‘‚’…«»",
    "\xa0",
    "\r",
    "nº",
    "ºC",
    "cm",
    "''",
    "  ",
    '",',
    '."',
]
WIDE = "，。、”“∶：？《》）！（；」「０１２３４５６７８９．～’…━〈〉【】％"


def random_lines(pieces, n=4000):
    source = random.Random(11)
    return ["".join(source.choices(pieces, k=source.randrange(14))) for _ in range(n)]


@pytest.mark.parametrize("language", ["en", "de", "es", "fr", "cs", "it"])
def test_normalize_punctuation_equals_sacremoses(language):
    lines = random_lines(PIECES)
    normalizer = MosesPunctNormalizer(language)
    expected = [normalizer.normalize(line) for line in lines]
    assert normalize_punctuation("\n".join(lines), language).split("\n") == expected


def test_replace_unicode_punctuation_equals_sacremoses():
    lines = random_lines([*WIDE, "a", "é", "中", " ", "\t"])
    normalizer = MosesPunctNormalizer("en")
    expected = [normalizer.replace_unicode_punct(line) for line in lines]
    assert replace_unicode_punctuation("\n".join(lines)).split("\n") == expected


@settings(max_examples=100, deadline=None)
@given(text=st.text(max_size=60))
def test_non_printing_and_accents_by_definition(text):
    """Oracle: the categories of ``unicodedata``, character by character, as XLM's scripts do."""
    blanks = [" " if unicodedata.category(c)[0] == "C" and c != "\n" else c for c in text]
    assert remove_non_printing(text) == "".join(blanks)
    decomposed = unicodedata.normalize("NFD", text)
    bare = "".join(c for c in decomposed if unicodedata.category(c) != "Mn")
    assert remove_accents(text) == bare


def test_known_texts():
    assert lower_case("ÀB\nÇ") == "àb\nç"
    assert remove_accents("Crème brûlée, Ångström") == "Creme brulee, Angstrom"
    assert normalize_punctuation("« oui » ,\n“Hello”, 1\xa0000") == '" oui " ,\n"Hello," 1.000'


@settings(max_examples=100, deadline=None)
@given(
    texts=st.lists(
        st.one_of(
            st.text(max_size=15),
            st.lists(st.sampled_from([*PIECES, *WIDE, "É", "\n"])).map("".join),
        ),
        max_size=8,
    ),
    chunk=st.integers(1, 3),
    off=st.sets(st.sampled_from(["normalize_punctuation", "remove_non_printing", "lower_case"])),
)
def test_apply_gives_one_line_per_text(texts, chunk, off):
    """Property: each text alone gives the same as among others, as one line of single blanks."""
    for tokenizer in ("moses", "none"):
        steps = Preprocessing(tokenizer=tokenizer, **dict.fromkeys(off, False))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(normalization, "CHUNK", chunk)
            together = steps.apply(texts)
        assert together == [steps.apply([text])[0] for text in texts]
        assert all(line == " ".join(line.split()) for line in together)


def test_apply_is_the_chain_of_the_oracles():
    texts = ["“Café”, it’s １２％ off…", "Dr. No\u200b said:\tÇa va ?", "(see  a ) .", ""]
    punctuation = MosesPunctNormalizer("en")
    tokenizer = MosesTokenizer("en")
    expected = []
    for text in texts:
        line = punctuation.normalize(punctuation.replace_unicode_punct(text))
        line = "".join(" " if unicodedata.category(c)[0] == "C" else c for c in line)
        line = unicodedata.normalize("NFD", tokenizer.tokenize(line, False, True, False).lower())
        expected.append("".join(c for c in line if unicodedata.category(c) != "Mn"))
    assert Preprocessing().apply(texts) == expected
    assert expected[0] == '" cafe , " it \'s 12 % off ...'


def test_switches_are_independent():
    none = dict.fromkeys(
        ["replace_unicode_punctuation", "normalize_punctuation", "remove_non_printing"], False
    )
    plain = Preprocessing(**none, tokenizer="none", lower_case=False, remove_accents=False)
    assert plain.apply(["“É”,\r\n  don't\x85x"]) == ["“É”, don't x"]
    assert Preprocessing(**none, lower_case=False).apply(["“É” don't"]) == ["“ E ” don 't"]


def test_from_config():
    assert Preprocessing.from_config({}) == Preprocessing()
    assert Preprocessing.from_config({"language": "fr"}).language == "fr"
    with pytest.raises(InputError, match=r"unknown key 'lowercase'.*lower_case"):
        Preprocessing.from_config({"lowercase": True})
    with pytest.raises(InputError, match=r"'lower_case' is 'yes'.*true or false"):
        Preprocessing.from_config({"lower_case": "yes"})
    with pytest.raises(InputError, match="tokenizer 'perl'"):
        Preprocessing.from_config({"tokenizer": "perl"})
    with pytest.raises(InputError, match="language 'xx'"):
        Preprocessing.from_config({"language": "xx"})
    assert Preprocessing.from_config({"tokenizer": "none", "language": "xx"}).language == "xx"

"""Moses tokenization: equal to sacremoses (the oracle), whatever the chunks, line for line.

Needs sacremoses; the test on real text also needs the development data in ``../shared/data`` and is
skipped where that is missing.
"""

from __future__ import annotations

import random
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sacremoses import MosesDetokenizer, MosesTokenizer

from beyond_perplexity.corpus import moses
from beyond_perplexity.corpus.moses import LANGUAGES, tokenize_lines
from beyond_perplexity.errors import InputError

ROOT = Path(__file__).parents[2]
DATA = Path(__file__).parents[3] / "shared" / "data"

# Dense in what the rules look at; leaves out the documented differences (U+25CC, DOTMULTI).
PIECES = [
    *"aabBz1٣²Ⅷ''''..,,:  -`\"éŒß&°–\xa0\x01\t中あ한ა\u0301\u00ad()",
    "Mr.",
    "No.",
    " 5",
    "...",
]

text_lines = st.lists(
    st.one_of(
        st.lists(st.sampled_from(PIECES), max_size=12).map("".join),
        st.text(max_size=12),
        st.sampled_from(["", " ", "\n", "a\x0bb", "a\x85b\u2028c.", "x\r\ny", "\x0c", "Inc."]),
    ),
    max_size=12,
)


def reference(lines: list[str], language: str) -> list[str]:
    tokenizer = MosesTokenizer(language)
    return [" ".join(tokenizer.tokenize(line, escape=False)) for line in lines]


@pytest.mark.parametrize(
    ("line", "tokens"),
    [
        ("I don't, she'll; the dogs' 1990's", "I don 't , she 'll ; the dogs ' 1990 's"),
        ("See https://a.org/b?c=1&d.", "See https : / / a.org / b ? c = 1 & d ."),
        ("5,300 or 5, 300 (1,2,x)", "5,300 or 5 , 300 ( 1,2 , x )"),
        ("Well... he said.. no.", "Well ... he said .. no ."),
        ("Mr. X met Dr. Y at No. 5. No. It was.", "Mr. X met Dr. Y at No. 5 . No . It was ."),
        ("the U.S. Army, i.e. ours etc. and so", "the U.S. Army , i.e. ours etc. and so"),
        ("rock'n'roll well-known", "rock 'n'roll well-known"),
        ('"Stop!" <b> a|b [c] 50%', '" Stop ! " < b > a | b [ c ] 50 %'),
        ("led by Mr.", "led by Mr."),  # the Perl script splits the last word
        ("'tis the dogs'", "'tis the dogs'"),
        ("he said 'go.'", "he said ' go . '"),
    ],
)
def test_known_lines(line: str, tokens: str) -> None:
    """By the rules as written, and sacremoses agrees."""
    assert tokenize_lines([line]) == [tokens] == reference([line], "en")


@pytest.mark.parametrize("language", ["en", "fr", "it", "de", "ru", "cs"])
def test_random_lines_equal_sacremoses(language: str) -> None:
    random_source = random.Random(5)
    lines = [
        "".join(random_source.choices(PIECES, k=random_source.randrange(15))) for _ in range(3000)
    ]
    assert tokenize_lines(lines, language) == reference(lines, language)


@pytest.mark.parametrize("language", ["zh", "ja", "ko", "fi", "sv"])
def test_other_scripts_equal_sacremoses_on_letters(language: str) -> None:
    """Without the signs in which this module follows the Perl script instead."""
    random_source = random.Random(6)
    pieces = [piece for piece in PIECES if piece != ":"] + list("東京カな韓국龍")
    lines = [
        "".join(random_source.choices(pieces, k=random_source.randrange(15))) for _ in range(60)
    ]
    assert tokenize_lines(lines, language) == reference(lines, language)


def test_rules_of_the_perl_script_that_sacremoses_lacks() -> None:
    assert tokenize_lines(["EU:ssa on: A:B"], "fi") == ["EU:ssa on : A : B"]
    assert tokenize_lines(["東京。「はい」"], "ja") == ["東京 。 「 はい 」"]


@settings(max_examples=150, deadline=None)
@given(lines=text_lines, language=st.sampled_from(["en", "de", "it", "fi"]))
def test_lines_are_independent(lines: list[str], language: str) -> None:
    """A line alone gives the same as among others; tokens never hold white space."""
    together = tokenize_lines(lines, language)
    assert together == [tokenize_lines([line], language)[0] for line in lines]
    assert all(line == " ".join(line.split()) for line in together)


@settings(max_examples=60, deadline=None)
@given(lines=text_lines, chunk=st.integers(1, 5))
def test_chunks_do_not_matter(lines: list[str], chunk: int) -> None:
    together = tokenize_lines(lines)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(moses, "CHUNK", chunk)
        assert tokenize_lines(lines) == together


def test_unknown_language_lists_the_allowed() -> None:
    with pytest.raises(InputError, match=r"'tlh'.*cs, de, en"):
        tokenize_lines(["a"], "tlh")
    assert all(
        tokenize_lines(["A b, wxyz."], language) == ["A b , wxyz ."] for language in LANGUAGES
    )


def raw_texts() -> dict[str, list[str]]:
    """Raw-like text: as stored, detokenized, and with the blanks before punctuation removed."""
    wiki = (DATA / "wikitext-2" / "valid.txt").read_text(encoding="utf-8").split("\n")[:1500]
    wiki = [re.sub(r" @(.)@ ", r"\1", line) for line in wiki]
    gum = []
    for path in sorted((DATA / "treebank-gum").glob("*.ptb"))[:25]:
        for tree in re.split(r"\n(?=\(ROOT)", path.read_text(encoding="utf-8")):
            words = " ".join(re.findall(r"\(\S+ ([^()\s]+)\)", tree))
            words = words.replace("-LRB-", "(").replace("-RRB-", ")")
            gum.append(words.replace("``", '"').replace("''", '"'))
    stored = wiki + gum
    detokenizer = MosesDetokenizer("en")
    return {
        "stored": stored,
        "detokenized": [detokenizer.detokenize(line.split()) for line in stored],
        "despaced": [re.sub(r" (n't|'\w+|[^\w\s])", r"\1", line) for line in stored],
    }


@pytest.mark.skipif(not DATA.is_dir(), reason="needs the development data in ../shared/data")
def test_real_text_equals_sacremoses() -> None:
    """At least 99.9% of the lines to the character, and every line in its tokens."""
    tokenizer = MosesTokenizer("en")
    for form, lines in raw_texts().items():
        ours = tokenize_lines(lines)
        theirs = [tokenizer.tokenize(line, escape=False, return_str=True) for line in lines]
        same = sum(a == b for a, b in zip(ours, theirs, strict=True)) / len(lines)
        assert same >= 0.999, form
        assert [line.split() for line in ours] == [line.split() for line in theirs], form


def run_filter(text: bytes, *flags: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "beyond_perplexity", "tokenize", *flags]
    return subprocess.run(command, input=text, capture_output=True, cwd=ROOT, check=False)


def test_filter() -> None:
    text = "\ufeffDon't go.\r\n\nA\u2028CAFÉ, x\n"
    done = run_filter(text.encode(), "--language", "en")
    assert done.stdout.decode() == "Don 't go .\n\nA CAFÉ , x\n"
    done = run_filter(text.encode(), "--lower-case", "--remove-accents")
    assert done.stdout.decode() == "don 't go .\n\na cafe , x\n"


def test_filter_names_the_line_of_a_wrong_encoding() -> None:
    done = run_filter(b"good\nbad \xff\n")
    assert done.returncode == 1
    assert b"stdin: line 2, byte 5: not UTF-8" in done.stderr
    assert run_filter(b"", "--language", "xx").returncode == 1

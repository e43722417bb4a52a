"""Moses tokenization: equal to sacremoses (the oracle), whatever the chunks, line for line.

Needs sacremoses; real text in ``../shared/data`` or a skip. Oracles of cleaning: sacremoses'
normalizer, Unicode.
"""

import random
import re
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sacremoses import MosesDetokenizer, MosesPunctNormalizer, MosesTokenizer

from beyond_perplexity.corpus import moses, normalization
from beyond_perplexity.corpus.moses import LANGUAGES, tokenize_lines
from beyond_perplexity.corpus.normalization import Preprocessing
from tests.unit.evaluator_oracles import check_refused

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


def reference(lines, language):
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
def test_known_lines(line, tokens):
    """By the rules as written, and sacremoses agrees."""
    assert tokenize_lines([line]) == [tokens] == reference([line], "en")


@pytest.mark.parametrize("language", ["en", "fr", "it", "de", "ru", "cs"])
def test_random_lines_equal_sacremoses(language):
    lines = random_lines(PIECES, 3000, 14, 5)
    assert tokenize_lines(lines, language) == reference(lines, language)


@pytest.mark.parametrize("language", ["zh", "ja", "ko", "fi", "sv"])
def test_other_scripts_equal_sacremoses_on_letters(language):
    """Without the signs in which this module follows the Perl script instead."""
    pieces = [piece for piece in PIECES if piece != ":"] + list("東京カな韓国龍")
    lines = random_lines(pieces, 60, 14, 6)
    assert tokenize_lines(lines, language) == reference(lines, language)


def test_rules_that_sacremoses_lacks_and_languages_that_are_allowed():
    assert tokenize_lines(["EU:ssa on: A:B"], "fi") == ["EU:ssa on : A : B"]
    assert tokenize_lines(["東京。「はい」"], "ja") == ["東京 。 「 はい 」"]
    check_refused(r"'tlh'.*cs, de, en", tokenize_lines, ["a"], "tlh")
    assert all(tokenize_lines(["A b, wxyz."], name) == ["A b , wxyz ."] for name in LANGUAGES)


@settings(max_examples=150, deadline=None)
@given(lines=text_lines, language=st.sampled_from(["en", "de", "it", "fi"]))
def test_lines_are_independent(lines, language):
    """A line alone gives the same as among others; tokens never hold white space."""
    together = tokenize_lines(lines, language)
    assert together == [tokenize_lines([line], language)[0] for line in lines]
    assert all(line == " ".join(line.split()) for line in together)


@settings(max_examples=60, deadline=None)
@given(lines=text_lines, chunk=st.integers(1, 5))
def test_chunks_do_not_matter(lines, chunk):
    together = tokenize_lines(lines)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(moses, "CHUNK", chunk)
        assert tokenize_lines(lines) == together


def raw_texts():
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
    plain = [detokenizer.detokenize(line.split()) for line in stored]
    despaced = [re.sub(r" (n't|'\w+|[^\w\s])", r"\1", line) for line in stored]
    return {"stored": stored, "detokenized": plain, "despaced": despaced}


@pytest.mark.skipif(not DATA.is_dir(), reason="needs the development data in ../shared/data")
def test_real_text_equals_sacremoses():
    """At least 99.9% of the lines to the character, and every line in its tokens."""
    tokenizer = MosesTokenizer("en")
    for form, lines in raw_texts().items():
        ours = tokenize_lines(lines)
        theirs = [tokenizer.tokenize(line, escape=False, return_str=True) for line in lines]
        same = sum(a == b for a, b in zip(ours, theirs, strict=True)) / len(lines)
        assert same >= 0.999, form
        assert [line.split() for line in ours] == [line.split() for line in theirs], form


def run_filter(text, *flags):
    command = [sys.executable, "-m", "beyond_perplexity", "tokenize", *flags]
    return subprocess.run(command, input=text, capture_output=True, cwd=ROOT, check=False)


def test_filter_and_that_it_names_the_line_of_a_wrong_encoding():
    text = "\ufeffDon't go.\r\n\nA\u2028CAFÉ, x\n"
    done = run_filter(text.encode(), "--language", "en")
    assert done.stdout.decode() == "Don 't go .\n\nA CAFÉ , x\n"
    done = run_filter(text.encode(), "--lower-case", "--remove-accents")
    assert done.stdout.decode() == "don 't go .\n\na cafe , x\n"
    assert b"cuts" not in done.stderr
    done = run_filter(b"a <unk>\n")
    assert done.stdout == b"a < unk >\n"
    said = b"warning: stdin: the tokenizer cuts <unk> into three tokens (occurrences: 1; texts: 1)"
    assert said in done.stderr
    done = run_filter(b"good\nbad \xff\n")
    assert done.returncode == 1
    assert b"stdin: line 2, byte 5: not UTF-8" in done.stderr
    assert run_filter(b"", "--language", "xx").returncode == 1


# Each character of the normalizer's rules, and neighbours that its patterns ask for.
CLEANED_PIECES = [
    *"ab19 <()[].,:;?!%`´'\"„“”–—‘‚’…«»\xa0\r",
    *("nº", "ºC", "cm", "''", "  ", '",', '."'),
]
WIDE = "，。、”“∶：？《》）！（；」「０１２３４５６７８９．～’…━〈〉【】％"


def random_lines(pieces, n=4000, longest=13, seed=11):
    source = random.Random(seed)
    return ["".join(source.choices(pieces, k=source.randrange(longest + 1))) for _ in range(n)]


@pytest.mark.parametrize("language", ["en", "de", "es", "fr", "cs", "it"])
def test_normalize_punctuation_equals_sacremoses(language):
    lines = random_lines(CLEANED_PIECES)
    normalizer = MosesPunctNormalizer(language)
    expected = [normalizer.normalize(line) for line in lines]
    assert normalization.normalize_punctuation("\n".join(lines), language).split("\n") == expected


def test_punctuation_is_replaced_as_by_sacremoses_and_in_known_texts():
    lines = random_lines([*WIDE, "a", "é", "中", " ", "\t"])
    normalizer = MosesPunctNormalizer("en")
    expected = [normalizer.replace_unicode_punct(line) for line in lines]
    assert normalization.replace_unicode_punctuation("\n".join(lines)).split("\n") == expected
    assert normalization.lower_case("ÀB\nÇ") == "àb\nç"
    assert normalization.remove_accents("Crème brûlée, Ångström") == "Creme brulee, Angstrom"
    found = normalization.normalize_punctuation("« oui » ,\n“Hello”, 1\xa0000")
    assert found == '" oui " ,\n"Hello," 1.000'


@settings(max_examples=100, deadline=None)
@given(text=st.text(max_size=60))
def test_non_printing_and_accents_by_definition(text):
    """Oracle: the categories of ``unicodedata``, character by character, as XLM's scripts do."""
    blanks = [" " if unicodedata.category(c)[0] == "C" and c != "\n" else c for c in text]
    assert normalization.remove_non_printing(text) == "".join(blanks)
    decomposed = unicodedata.normalize("NFD", text)
    bare = "".join(c for c in decomposed if unicodedata.category(c) != "Mn")
    assert normalization.remove_accents(text) == bare


@settings(max_examples=100, deadline=None)
@given(
    texts=st.lists(
        st.one_of(
            st.text(max_size=15),
            st.lists(st.sampled_from([*CLEANED_PIECES, *WIDE, "É", "\n"])).map("".join),
        ),
        max_size=8,
    ),
    chunk=st.integers(1, 3),
    off=st.sets(st.sampled_from(["normalize_punctuation", "remove_non_printing", "lower_case"])),
)
def test_apply_gives_one_line_per_text(texts, chunk, off):
    """Property: each text alone gives the same as among others, as one line of single blanks."""
    for tokenizer in ("moses", "icu", "none"):
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


def test_switches_are_independent_and_read_from_a_configuration():
    off = ["replace_unicode_punctuation", "normalize_punctuation", "remove_non_printing"]
    none = dict.fromkeys(off, False)
    plain = Preprocessing(**none, tokenizer="none", lower_case=False, remove_accents=False)
    assert plain.apply(["“É”,\r\n  don't\x85x"]) == ["“É”, don't x"]
    assert Preprocessing(**none, lower_case=False).apply(["“É” don't"]) == ["“ E ” don 't"]
    assert Preprocessing.from_config({}) == Preprocessing()
    assert Preprocessing.from_config({"language": "fr"}).language == "fr"
    for wrong, message in (
        ({"lowercase": True}, r"preprocessing\.lowercase: unknown key; .*lower_case"),
        ({"lower_case": "yes"}, r"preprocessing\.lower_case: is 'yes', expected bool"),
        ({"tokenizer": "perl"}, "tokenizer: is 'perl', expected one of 'moses', 'icu', 'none'"),
        ({"language": "xx"}, "language 'xx'"),
    ):
        check_refused(message, Preprocessing.from_config, wrong)
    assert Preprocessing.from_config({"tokenizer": "none", "language": "xx"}).language == "xx"


@pytest.mark.parametrize(
    ("language", "words"),
    [
        ("zh", "我 来到 北京 清华大学 。 他 说 这 是 一个 很好 的 主意 。"),
        ("ja", "私 は 昨日 学校 へ 行き"),
        ("th", "วัน นี้ ฉัน ไป โรงเรียน"),
        ("de", "Er sagte : „ Das ist's ! “ 3.14"),
    ],
)
def test_icu_divides_scripts_without_blanks_into_words(language, words):
    """Oracle: words as a reader divides them."""
    text = words.replace(" ", "") if language != "de" else "Er sagte: „Das ist's!“ 3.14"
    steps = dict.fromkeys(normalization._STEPS, False) | {"tokenizer": "icu", "language": language}
    assert Preprocessing.from_config(steps).apply([text, text]) == [words, words]

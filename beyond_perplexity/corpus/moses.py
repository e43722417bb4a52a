"""Moses tokenization by regular expressions over chunks of lines.

The rules are those of the Moses project's ``tokenizer.perl`` without escaping and without splitting
at hyphens, as sacremoses (``MosesTokenizer(language).tokenize(line, escape=False)``) reads them. No
rule can look past a newline, so that line *i* of the output is line *i* of the input whatever the
chunks are. Lines that depend on the order in which Moses consumes its matches (``rock'n'roll``, or
two commas or apostrophes that touch) are run through the sequential form of the same rules.

Differences from sacremoses
---------------------------
All of them, by class; the test of this module checks that real text shows no other.

1. A line that ends in ``.'``: sacremoses leaves double or trailing blanks around the tokens.
   The tokens are the same; here they are joined by single blanks.
2. The literal text ``DOTMULTI``, which sacremoses uses as its own placeholder and turns into dots.
3. Finnish and Swedish: a colon before a lower-case letter stays inside the word (``EU:ssa``), as in
   the Perl script; in sacremoses this rule is commented out.
4. Chinese, Japanese, Korean: punctuation and symbols that sacremoses lists among the letters of
   these scripts (``。``) are split off, as in the Perl script.
5. A full stop before a character that sacremoses lists as lower case but not as a letter: Cherokee
   small letters, letters beyond the Basic Multilingual Plane (mathematical alphabets), U+25CC.
   sacremoses keeps the stop on its word; here it is split off.

On WikiText-2 and GUM's sentences, as stored, detokenized and without blanks at punctuation, at
least 99.95% of the lines are identical and only the first class occurs.

Shared with sacremoses against the Perl script: a non-breaking prefix at the end of a line keeps its
full stop (``Mr.``), the Perl script splits the last word always; outside the languages zh, ja and
ko every Chinese, Japanese or Korean character becomes a token of its own.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from beyond_perplexity.errors import InputError

_FACTS: dict[str, Any] = tomllib.loads(
    Path(__file__).with_name("moses.toml").read_text(encoding="utf-8")
)
#: ja and ko have no list of prefixes of their own and use the English one, as Moses does.
LANGUAGES = tuple(sorted({*_FACTS["prefixes"], *_FACTS["scripts"]}))

CHUNK = 1000

_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1b]")
_ASCII_SPECIAL = '!"#$%&()*+/:;<=>?@[\\]^_{|}~\x7f'
_DOTS = re.compile(r"\.(?=\.)\.*")
_BLANKS = re.compile("  +")
# Not a run of dots, and at the end of a token.
_FULL_STOP = r"\.(?<=[^ \n.]\.)(?= [^{lower}]|\n)"
_FINAL_STOP_APOSTROPHE = re.compile(r"\.'(?=\n)")

_Substitutions = tuple[tuple[re.Pattern[str], str], ...]


class _Rules(NamedTuple):
    """The compiled rules of one language."""

    ascii_special: str
    other_special: re.Pattern[str]
    regular: _Substitutions
    sequential: _Substitutions  # for lines with touching commas or apostrophes
    irregular: re.Pattern[str]  # finds these
    full_stop: re.Pattern[str]
    prefixes: frozenset[str]
    numeric_prefixes: frozenset[str]
    letter: re.Pattern[str]


def check_language(language: str) -> None:
    """Raise `InputError` unless Moses rules exist for the language (a code such as ``en``)."""
    if language not in LANGUAGES:
        wrong = f"language '{language}' has no Moses tokenizer rules"
        raise InputError(f"{wrong}; use one of {', '.join(LANGUAGES)}")


def _characters(ranges: str) -> set[int]:
    found: set[int] = set()
    for part in ranges.split():
        first, _, last = part.partition("-")
        found.update(range(int(first, 16), int(last or first, 16) + 1))
    return found


def _class(characters: Iterable[int]) -> str:
    """Spell a set of characters as the inside of a regular expression's brackets, as ranges."""
    spans: list[list[int]] = []
    for code in sorted(characters):
        if spans and code == spans[-1][1] + 1:
            spans[-1][1] = code
        else:
            spans.append([code, code])
    return "".join(rf"\U{first:08x}-\U{last:08x}" for first, last in spans)


def _compile(*rules: tuple[str, str], **classes: str) -> _Substitutions:
    return tuple((re.compile(pattern.format(**classes)), new) for pattern, new in rules)


# N: numbers, L: letters. The text starts and ends with a newline. A search begins with the literal
# character, which is far faster than beginning with a class, hence the lookbehinds over it.
_COMMA = (r",(?!(?<=[\n{N}],)[{N}])", " , ")
_COMMA_SEQUENTIAL = (
    (r"([^\n{N}]),", r"\1 , "),
    (r",([^\n{N}])", r" , \1"),
    (r"([{N}]),(?=\n)", r"\1 , "),
)
_ENGLISH = (
    (r"'(?<=[^\n]')(?=[^\n])(?!(?<=[{L}{N}]')[{L}])", " ' "),
    (r"'(?:(?<=[{L}]')(?=[{L}])|(?<=[{N}]')(?=s))", " '"),
)
_ENGLISH_SEQUENTIAL = (
    (r"([^\n{L}])'([^\n{L}])", r"\1 ' \2"),
    (r"([^\n{L}{N}])'([{L}])", r"\1 ' \2"),
    (r"([{L}])'([^\n{L}])", r"\1 ' \2"),
    (r"([{L}])'([{L}])", r"\1 '\2"),
    (r"([{N}])'(s)", r"\1 '\2"),
)
_FRENCH = (
    (r"'(?<=[^\n]')(?=[^\n])(?!(?<=[{L}]')[{L}])", " ' "),
    (r"'(?<=[{L}]')(?=[{L}])", "' "),
)
_FRENCH_SEQUENTIAL = (
    (r"([^\n{L}])'([^\n{L}])", r"\1 ' \2"),
    (r"([^\n{L}])'([{L}])", r"\1 ' \2"),
    (r"([{L}])'([^\n{L}])", r"\1 ' \2"),
    (r"([{L}])'([{L}])", r"\1' \2"),
)
_APOSTROPHES = {
    "en": (_ENGLISH, _ENGLISH_SEQUENTIAL),
    "fr": (_FRENCH, _FRENCH_SEQUENTIAL),
    "it": (_FRENCH, _FRENCH_SEQUENTIAL),
}
_OTHER_APOSTROPHES = (((r"'", " ' "),), ((r"'", " ' "),))


@cache
def _rules(language: str) -> _Rules:
    check_language(language)
    alnum = _characters(_FACTS["alnum"]) | _characters(_FACTS["scripts"].get(language, ""))
    letters = _class(code for code in alnum if not chr(code).isdecimal())
    # Georgian was without case when Moses was written; a sentence may begin with these letters.
    lower = _class(c for c in alnum if chr(c).islower() and not 0x10D0 <= c <= 0x10FF)
    classes = {"L": letters, "N": _class(_characters(_FACTS["number"]))}
    inside_words = ":" if language in {"fi", "sv"} else ""
    colon = ((rf":(?=\n|[^{lower}])", " : "),) if inside_words else ()
    regular, sequential = _APOSTROPHES.get(language, _OTHER_APOSTROPHES)
    listed = _FACTS["prefixes"].get(language, _FACTS["prefixes"]["en"])
    prefixes = listed.format(**_FACTS["shared"]).split()
    numeric = {prefix[:-1] for prefix in prefixes if prefix.endswith("#")}
    return _Rules(
        ascii_special="".join(c for c in _ASCII_SPECIAL if c not in inside_words),
        other_special=re.compile(rf"[^\x00-\x7f{_class(c for c in alnum if c > 0x7F)}]+"),
        regular=_compile(*colon, _COMMA, *regular, **classes),
        sequential=_compile(*colon, *_COMMA_SEQUENTIAL, *sequential, **classes),
        irregular=re.compile(r",,|'.?'" if language in _APOSTROPHES else ",,"),
        full_stop=re.compile(_FULL_STOP.format(lower=lower)),
        prefixes=frozenset(prefixes) - numeric,
        numeric_prefixes=frozenset(numeric),
        letter=re.compile(rf"[{letters}]"),
    )


def _clean(line: str) -> str:
    """Turn white space of every kind into single blanks and drop control characters."""
    if line.isprintable() and "  " not in line:
        return line.strip()
    return _CONTROL.sub("", " ".join(line.split())).strip()


def _split_full_stops(text: str, rules: _Rules) -> str:
    """Split a full stop from the end of each token, unless the token is an abbreviation."""

    def split(stop: re.Match[str]) -> str:
        end = stop.start()
        start = text.rfind(" ", 0, end) + 1
        start = max(start, text.rfind("\n", start, end) + 1)
        prefix = text[start:end]
        if prefix in rules.prefixes or ("." in prefix and rules.letter.search(prefix)):
            return "."
        if prefix in rules.numeric_prefixes and "0" <= text[end + 2 : end + 3] <= "9":
            return "." if text[end + 1] == " " else " ."
        return " ."

    return rules.full_stop.sub(split, text)


def _tokenize_chunk(
    lines: Sequence[str], rules: _Rules, substitutions: _Substitutions
) -> list[str]:
    """Tokenize clean lines that all take the same form of the comma and apostrophe rules."""
    text = "\n".join(["", *lines, ""])
    for special in rules.ascii_special:
        text = text.replace(special, f" {special} ")
    if not text.isascii():
        text = rules.other_special.sub(lambda run: f" {' '.join(run[0])} ", text)
    text = _DOTS.sub(r" \g<0> ", text)
    for pattern, new in substitutions:
        text = pattern.sub(new, text)
    # Moses splits these stops last; earlier is the same, for a stop alone is left alone below.
    text = _FINAL_STOP_APOSTROPHE.sub(" . '", text)
    text = _BLANKS.sub(" ", text).replace(" \n", "\n").replace("\n ", "\n")
    text = _split_full_stops(text, rules)
    return text[1:-1].split("\n")


def tokenize_lines(lines: Sequence[str], language: str = "en") -> list[str]:
    """Tokenize lines of text with the rules of Moses."""
    rules = _rules(language)
    tokens: list[str] = []
    for start in range(0, len(lines), CHUNK):
        clean = [_clean(line) for line in lines[start : start + CHUNK]]
        odd = [i for i, line in enumerate(clean) if rules.irregular.search(line)]
        found = _tokenize_chunk(clean, rules, rules.regular)
        if odd:
            again = _tokenize_chunk([clean[i] for i in odd], rules, rules.sequential)
            for i, line in zip(odd, again, strict=True):
                found[i] = line
        tokens += found
    return tokens

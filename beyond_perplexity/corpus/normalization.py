"""The cleaning steps of XLM, each a pure function, and the switches that put them together.

No line of a string sees another, so that a thousand texts joined by newlines cost one pass of each
rule. The order is that of XLM (Conneau and Lample 2019) and of the tendencies paper: Unicode
punctuation, punctuation, non-printing characters, Moses tokenizer, lower case, accents.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import partial
from itertools import chain
from typing import Literal

from beyond_perplexity.corpus.moses import CHUNK, check_language, tokenize_lines
from beyond_perplexity.errors import extras_named
from beyond_perplexity.foreign_text import remark
from beyond_perplexity.options import Section, parse_options

_UNICODE_PUNCTUATION = str.maketrans(
    {
        **dict(zip("，、∶：？！；～’━％", ",,::?!;~'-%", strict=True)),
        **dict(zip("（）〈〉【】０１２３４５６７８９", "()<>[]0123456789", strict=True)),
        **dict.fromkeys("”“《》「」", '"'),
        "…": "...",
    }
)
_WIDE_STOP = re.compile(r"[。．][^\S\n]*")

# (what must occur, pattern or None for that literal, replacement), in the order of the Perl script.
_Step = tuple[str, re.Pattern[str] | None, str]
_BLANKS: _Step = ("  ", re.compile("  +"), " ")
_NO_BREAK = "\u00a0"


def _literals(*replacements: tuple[str, str]) -> tuple[_Step, ...]:
    """Make the steps that replace a literal; a ``~`` in it is a no-break space."""
    return tuple((old.replace("~", _NO_BREAK), None, new) for old, new in replacements)


_PUNCTUATION: tuple[_Step, ...] = (
    *_literals(("\r", ""), ("(", " ("), (")", ") ")),
    _BLANKS,
    (") ", re.compile(r" (?<=\) )(?=[.!:?;,])"), ""),
    *_literals(("( ", "("), (" )", ")")),
    (" %", re.compile(r" (?<=\d )(?=%)"), ""),
    *_literals((" :", ":"), (" ;", ";"), ("`", "'"), ("''", ' " '), ("„", '"'), ("“", '"')),
    *_literals(("”", '"'), ("–", "-"), ("—", " - ")),
    _BLANKS,
    *_literals(("´", "'"), ("‘", "'"), ("‚", "'"), ("’", "'"), ("''", '"'), ("…", "...")),
    *_literals(("~«~", '"'), ("«~", '"'), ("«", '"'), ("~»~", '"'), ("~»", '"'), ("»", '"')),
    *_literals(("~%", "%"), ("nº~", "nº "), ("~:", ":"), ("~ºC", " ºC"), ("~cm", " cm")),
    *_literals(("~?", "?"), ("~!", "!"), ("~;", ";"), (",~", ", ")),
    _BLANKS,
)
_ENGLISH_QUOTES: tuple[_Step, ...] = (('"', re.compile(r'"([,.]+)'), r'\1"'),)
_CONTINENTAL_QUOTES: tuple[_Step, ...] = (
    (',"', None, '",'),
    ('."', re.compile(r'(\.+)"([^\S\n]*[^<\n])'), r'"\1\2'),
)
_QUOTES = {"en": _ENGLISH_QUOTES, **dict.fromkeys(("de", "es", "fr"), _CONTINENTAL_QUOTES)}
_DIGIT_GROUP = re.compile(rf"(\d){_NO_BREAK}(\d)")
_DECIMAL_COMMA = {"cs", "de", "es", "fr"}

_NON_ASCII = re.compile(r"[^\x00-\x7f]+")
_UNUSUAL = re.compile(r"[^\n -~]+")
# What is one word in text that is tokenized already (WikiText, BERT), and three tokens of Moses.
_ONE_WORD = re.compile(r"<unk>|<UNK>|\[UNK\]|@[-,.]@")
_TEXTS = "texts with words that the tokenizer cuts"


def replace_unicode_punctuation(text: str) -> str:
    """Replace full-width and typographic punctuation and full-width digits by their ASCII forms."""
    if text.isascii():
        return text
    text = _WIDE_STOP.sub(". ", text)
    return _NON_ASCII.sub(lambda run: run[0].translate(_UNICODE_PUNCTUATION), text)


def normalize_punctuation(text: str, language: str = "en") -> str:
    """Normalize quotes, dashes, parentheses and the blanks around punctuation; lines are stripped.

    Moses' ``normalize-punctuation.perl`` as sacremoses reads it. English puts a comma or full stop
    before a closing quote, German, Spanish and French after it; these and Czech write a decimal
    comma for a no-break space between digits.
    """
    for needle, pattern, new in (*_PUNCTUATION, *_QUOTES.get(language, ())):
        if needle in text:
            text = pattern.sub(new, text) if pattern else text.replace(needle, new)
    if _NO_BREAK in text:
        mark = "," if language in _DECIMAL_COMMA else "."
        text = _DIGIT_GROUP.sub(rf"\1{mark}\2", text)
    return "\n".join([line.strip() for line in text.split("\n")])


def remove_non_printing(text: str) -> str:
    """Replace characters of the Unicode categories C* but the newline by blanks, as Moses'
    ``remove-non-printing-char.perl`` does; sacremoses drops them."""

    def blank(run: re.Match[str]) -> str:
        return "".join([" " if unicodedata.category(c)[0] == "C" else c for c in run[0]])

    return _UNUSUAL.sub(blank, text)


def lower_case(text: str) -> str:
    """Lower-case one or more lines by the rules of Unicode, without regard to the language."""
    return text.lower()


def remove_accents(text: str) -> str:
    """Decompose characters (NFD) and drop their non-spacing marks (category Mn), as XLM does."""

    def strip(run: re.Match[str]) -> str:
        return "".join([c for c in run[0] if unicodedata.category(c) != "Mn"])

    if text.isascii():
        return text
    return _NON_ASCII.sub(strip, unicodedata.normalize("NFD", text))


def _tokenize(text: str, language: str) -> str:
    return "\n".join(tokenize_lines(text.split("\n"), language))


def segment(text: str, language: str) -> str:
    """Divide text into words by ICU's rules and dictionaries (Unicode Standard Annex 29), also of
    scripts without blanks; newlines stay."""
    with extras_named():
        from icu4py.breakers import WordBreaker
    return " ".join(WordBreaker(text, language))


@dataclass(frozen=True)
class Preprocessing(Section):
    """Which cleaning steps a corpus gets; the defaults are XLM's.

    replace_unicode_punctuation: Replace full-width and typographic punctuation and full-width
        digits by ASCII.
    normalize_punctuation: Moses' normalization of quotes, dashes and spacing.
    remove_non_printing: Replace control, format and unassigned characters by blanks.
    tokenizer: moses; icu (extra ``icu``), which also divides Chinese, Japanese, Thai, Lao, Khmer
        and Burmese into words; or none for text that is tokenized already: it is split at white
        space only.
    language: Language of the rules of punctuation and tokenizer.
    lower_case: Lower-case everything.
    remove_accents: Remove combining marks after decomposition.
    """

    replace_unicode_punctuation: bool = True
    normalize_punctuation: bool = True
    remove_non_printing: bool = True
    tokenizer: Literal["moses", "icu", "none"] = "moses"
    language: str = "en"
    lower_case: bool = True
    remove_accents: bool = True

    def __post_init__(self) -> None:
        if self.tokenizer == "moses":
            check_language(self.language)
        elif self.tokenizer == "icu":
            segment("", self.language)  # which says what is not installed

    @classmethod
    def from_config(cls, config: Mapping[str, object]) -> Preprocessing:
        """Make the switches from a config section."""
        return parse_options(cls, config, "preprocessing")

    @property
    def name(self) -> str:
        """What a signature calls the text: ICU's dictionaries change with its version."""
        if self.tokenizer == "none":
            return "tokenized"
        if self.tokenizer == "moses":
            return f"cleaned-{self.language}"
        from icu4py import icu_version

        return f"cleaned-icu{icu_version}-{self.language}"

    def apply(self, texts: Sequence[str]) -> list[str]:
        """Run the steps that are on, in XLM's order: each text becomes one line of tokens."""
        steps: dict[Callable[[str], str], bool] = {
            replace_unicode_punctuation: self.replace_unicode_punctuation,
            partial(normalize_punctuation, language=self.language): self.normalize_punctuation,
            remove_non_printing: self.remove_non_printing,
            partial(_tokenize, language=self.language): self.tokenizer == "moses",
            partial(segment, language=self.language): self.tokenizer == "icu",
            lower_case: self.lower_case,
            remove_accents: self.remove_accents,
        }
        done: list[str] = []
        for start in range(0, len(texts), CHUNK):
            part = texts[start : start + CHUNK]
            lines = "\n".join([text.replace("\r\n", " ").replace("\n", " ") for text in part])
            for step in (step for step, on in steps.items() if on):
                lines = step(lines)
            done += [" ".join(line.split()) for line in lines.split("\n")]
        return done

    def cut_words(self, texts: Iterable[str]) -> Counter[str]:
        """Count what the tokenizer cuts though it stands for one word, such as ``<unk>``."""
        return _one_words(() if self.tokenizer == "none" else texts)


def _one_words(texts: Iterable[str]) -> Counter[str]:
    found = map(_ONE_WORD.findall, texts)
    return Counter(chain.from_iterable([_TEXTS, *words] for words in found if words))


def cut_words_told(counts: Mapping[str, int], raw: bool = False) -> str:
    """Say what was counted by `Preprocessing.cut_words` and what to do; nothing for none."""
    words = {word: n for word, n in counts.items() if _ONE_WORD.fullmatch(word)}
    if not words:
        return ""
    named = ", ".join(words)
    found = f"(occurrences: {sum(words.values()):,}; texts: {counts[_TEXTS]:,})"
    if raw:
        return (
            f"the texts hold {named} {found}, a mark of tokenized text, but are read as raw text: "
            "give the texts as they were before they were tokenized, or replace it"
        )
    return (
        f"the tokenizer cuts {named} into three tokens {found}: if these texts are tokens joined "
        "by blanks, have them read so (option tokenized, or tokenizer none), and <unk> is one "
        "word, the unknown one where a vocabulary is closed; else replace it"
    )


@contextmanager
def watched(
    steps: Preprocessing | None, name: object
) -> Iterator[Callable[[Sequence[str]], list[str]]]:
    """Give what cleans the texts of a file, and warn at the end of the words that the tokenizer
    cut; without steps texts stay raw, and the warning is of these words in them."""
    counts = Counter[str]()

    def clean(texts: Sequence[str]) -> list[str]:
        counts.update(_one_words(texts) if steps is None else steps.cut_words(texts))
        return list(texts) if steps is None else steps.apply(texts)

    yield clean
    if told := cut_words_told(counts, raw=steps is None):
        remark(f"warning: {name}: {told}")


_STEPS = [one.name for one in fields(Preprocessing) if one.default is True]
# For text that is tokens joined by blanks already: white space is collapsed, nothing else.
WHITE_SPACE_ONLY = Preprocessing.from_config({"tokenizer": "none", **dict.fromkeys(_STEPS, False)})

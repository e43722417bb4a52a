"""Stop words of a language: lists, forms of their tokens, languages without a list, no blanks.

Needs no data. Oracles: plain counting with words that everybody knows, the Moses rules, and the
list of gensim for English.
"""

from __future__ import annotations

from html import unescape
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from gensim.parsing.preprocessing import STOPWORDS

import beyond_perplexity
from beyond_perplexity.corpus.moses import LANGUAGES
from beyond_perplexity.corpus.normalization import Preprocessing
from beyond_perplexity.errors import InputError
from beyond_perplexity.planning.corpora import Corpora
from beyond_perplexity.tendencies import word_classes
from beyond_perplexity.tendencies.definitions import MeasurementOptions, SensitivityOptions
from beyond_perplexity.tendencies.sensitivity import minimum_detectable_effects
from beyond_perplexity.tendencies.word_classes import ClassOptions, load_stop_words, stop_word_list
from tests.unit.text_pairs import statistics_of

FAST = {"permutations": 19, "bootstrap": 0}
GERMAN = [
    "Der Hund und die Katze waren für einen Tag in der Stadt .",
    "Über die Brücke ging ein alter Mann mit seinem Hund .",
    "Sie haben nicht mehr als drei Äpfel und eine Birne gegessen .",
    "Morgen regnet es .",
] * 12
SENTENCES = {
    "fr": ("L'homme qu'il a vu après l'été n'est pas d'ici.", {"l'", "qu'", "il", "a", "n'", "d'"}),
    "it": ("Dell'uomo non c'è più un'altra traccia nel paese.", {"dell'", "non", "c'", "un'"}),
    "de": ("Über dem Haus für die Kinder.", {"uber", "dem", "fur", "die"}),
    "es": ("¿Qué pasó con los niños?", {"que", "con", "los"}),
}


def stop_rows(table: pd.DataFrame) -> pd.DataFrame:
    return table[table["tendency"] == "stop_words"].set_index("measure")


def test_every_language_of_the_tokenizer_has_a_list_and_its_licence():
    lists = [load_stop_words(stop_word_list("auto", language)) for language in LANGUAGES]
    assert all(len(words.words) > 40 and not words.missing for words in lists)
    assert len({words.name for words in lists}) == len(LANGUAGES)
    folder = Path(word_classes.__file__).with_name("stop_word_lists")
    assert "Redistribution and use" in (folder / "LICENSE").read_text()
    for path in folder.glob("*.txt"):
        lines = path.read_text(encoding="utf-8").splitlines()
        assert lines == [line.strip() for line in lines if line]
        assert all(" " not in line for line in lines)
        assert len(set(lines)) == len(lines)


def test_english_is_gensims_list_as_before() -> None:
    words = load_stop_words(stop_word_list("auto", "en"))
    assert words.name == "gensim"
    assert len(words.words) == 337
    assert words.words >= STOPWORDS
    given = [("gensim", "de"), ("nltk", "en"), ("nltk", "de"), ("my/list.txt", "de")]
    expected = ["gensim", "nltk", "nltk:de", "my/list.txt"]
    assert [stop_word_list(*both) for both in given] == expected


@pytest.mark.parametrize("language", SENTENCES)
def test_words_match_what_cleaning_makes_of_them(language) -> None:
    text, expected = SENTENCES[language]
    words = load_stop_words(f"language:{language}").words
    tokens = set(Preprocessing(language=language).apply([text])[0].split())
    assert expected <= tokens & words
    assert not {"haus", "kinder", "homme", "uomo", "ninos", "."} & words


def test_a_german_text_has_german_stop_words() -> None:
    found = beyond_perplexity.compare(GERMAN, GERMAN[::-1], language="de", **FAST)
    words = load_stop_words("language:de").words
    shares = [
        np.mean([token in words for token in text.split()])
        for text in Preprocessing(language="de").apply(GERMAN)
    ]
    assert 0.3 < np.mean(shares) < 0.6
    assert stop_rows(found.table)["value"]["mean"] == pytest.approx(np.mean(shares))
    english = beyond_perplexity.compare(GERMAN, GERMAN, language="de", stop_words="gensim", **FAST)
    assert stop_rows(english.table)["value"]["mean"] < 0.1


@pytest.mark.parametrize("grouped", [False, True])
def test_a_language_without_a_list_has_no_numbers_but_a_reason(grouped, tmp_path, capsys) -> None:
    groups = [str(k // 2) for k in range(len(GERMAN))] if grouped else None
    found = beyond_perplexity.compare(
        GERMAN, GERMAN[::-1], groups=(groups, groups), tokenized=True, language="et",
        out=tmp_path, **FAST,
    )  # fmt: skip
    reason = "there is no list of stop words for the language 'et'"
    assert reason in capsys.readouterr().err
    rows = stop_rows(found.table)
    assert rows.index.tolist() == ["ks"]
    assert rows[["value", "p_value", "p_adjusted", "baseline", "excess"]].isna().all(axis=None)
    for text in (found.text, unescape((tmp_path / "compare.html").read_text())):
        assert f"no verdict: {reason}: give one as stop words" in text
    assert not (tmp_path / "stop_words.svg").exists()
    assert (tmp_path / "distances.svg").exists()
    others = found.table[found.table["tendency"] == "symbols"]
    assert others["value"].notna().all()


def test_a_list_of_ones_own_serves_any_language(tmp_path) -> None:
    (tmp_path / "list.txt").write_text("und\nder\n")
    how = {"tokenized": True, "stop_words": str(tmp_path / "list.txt"), **FAST}
    found = beyond_perplexity.compare(GERMAN, GERMAN, **how)
    expected = np.mean([np.mean([t in ("und", "der") for t in x.split()]) for x in GERMAN])
    assert stop_rows(found.table)["value"]["mean"] == pytest.approx(expected)
    with pytest.raises(InputError, match="language: has no effect"):
        beyond_perplexity.compare(GERMAN, GERMAN, language="et", **how)
    with pytest.raises(InputError, match="there is no list for the language 'et'"):
        load_stop_words("nltk:et")


@pytest.mark.parametrize(
    ("text", "language", "warned"),
    [
        ("我今天去了学校，然后回家。他说这是一个很好的主意。", "zh", True),
        ("我 今天 去 了 学校 ， 然后 回家 。 他 说 这 是 一个 很 好 的 主意 。", "zh", False),
        ("私は昨日学校へ行きました。とても楽しかったです。", "ja", True),
        ("私 は 昨日 学校 へ 行き まし た 。 とても 楽しかっ た です 。", "ja", False),
        ("나는 어제 학교에 갔습니다 . 정말 즐거웠습니다 .", "ko", False),
        ("Donaudampfschifffahrtsgesellschaft und Rindfleischetikettierungsgesetz .", "de", False),
        ("วันนี้ฉันไปโรงเรียนแล้วกลับบ้านกับเพื่อนของฉัน", "th", True),
        ("x" * 400, "en", True),
    ],
)
def test_a_text_without_blanks_is_warned_of(text, language, warned, capsys) -> None:
    tokenized = language == "th"
    how = {"language": language, "tokenized": tokenized, "permutations": 0, "bootstrap": 0}
    beyond_perplexity.compare([text, text + " ."] * 5, ["A text ."] * 5, **how)
    said = capsys.readouterr().err
    assert ("reference: its tokens have" in said) == warned
    assert ("Divide them first (jieba, MeCab, PyThaiNLP" in said) == warned
    assert "samples: its tokens have" not in said


def test_the_workflow_takes_the_language_of_the_corpus() -> None:
    corpora = {name: {"preprocessing": {"language": name}} for name in ("en", "de", "et")}
    for given, expected in (
        ("auto", {"en": "gensim", "de": "language:de", "et": "language:et"}),
        ("gensim", dict.fromkeys(corpora, "gensim")),
        ("nltk", {"en": "nltk", "de": "nltk:de", "et": "nltk:et"}),
        ("a/list.txt", dict.fromkeys(corpora, "a/list.txt")),
    ):
        found = Corpora.__new__(Corpora)
        found.config = {"corpora": corpora, "tendencies": {"stop_words": given}}
        assert {name: found.stop_words(name) for name in corpora} == expected
        assert found.stop_words("de-sentences") == expected["de"]
        assert found.stop_word_files() == ([given] if "/" in given else [])


@pytest.mark.parametrize("grouped", [False, True])
def test_what_is_not_counted_has_no_minimum_detectable_effect(grouped) -> None:
    classes = ClassOptions(load_stop_words("language:et"), True)
    texts = pa.array(GERMAN)
    reference = statistics_of(GERMAN, classes.stop_words)
    how = SensitivityOptions(documents=(50,), pairs=10, largest_population=50)
    groups = np.arange(len(GERMAN)) if grouped else None
    found = minimum_detectable_effects(
        reference, [texts], MeasurementOptions(), how, 1, "x", groups=groups, classes=classes
    )
    assert {"length", "symbols"} <= set(found["tendency"].to_pylist())
    assert "stop_words" not in found["tendency"].to_pylist()

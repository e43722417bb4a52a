"""Vocabularies, the words that texts are compared in, and the spelling of unknown words.

Oracles: counts and cuts by hand, round trips, plain sets; equal shares over many random splits. Of
spelling: all words up to a length with the mass of longer ones, a plain program with dictionaries,
sums by hand, a known entropy, UTF-8.
"""

import itertools
import json
import math
import os
import random
import subprocess
import sys
from collections import Counter, defaultdict
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beyond_perplexity.errors import InputError
from beyond_perplexity.models import registry
from beyond_perplexity.models.registry import save_model
from beyond_perplexity.ngrams import character_ngrams as ngrams
from beyond_perplexity.ngrams import spelling_model as spelling
from beyond_perplexity.perplexities.summary import measure, score_rows
from beyond_perplexity.schemas.corpora import DOCUMENTS
from beyond_perplexity.storage.shards import write_shard
from beyond_perplexity.tendencies import document_files as module
from beyond_perplexity.tendencies.document_files import DocumentFiles, least_units, shared_words
from beyond_perplexity.vocabulary import (
    BOS,
    EOS,
    UNK,
    BPEVocabulary,
    ClosedVocabulary,
    build_vocabulary,
    load_vocabulary,
)
from tests.unit.evaluator_oracles import check_refused
from tests.unit.small_corpora import put, write_documents
from tests.unit.test_perplexity import Fixed
from tests.unit.text_pairs import run_script

TEXTS = ["b b b a a c c d", "e the lowest of the low , the lower low"]
BPE = BPEVocabulary.build([TEXTS], 300)
WORDS = st.text(st.characters(exclude_characters=" ", codec="utf-8"), min_size=1, max_size=6)


def test_words_are_cut_by_count_and_encoded_and_decoded():
    built = ClosedVocabulary.build([["b b b c"], pa.array(["a a c d </s>"])], minimum_count=2)
    assert (built.describe()["words"], built.size, built.unknown_types) == (["b", "a", "c"], 6, 1)
    cut = ClosedVocabulary.build([["b b b c", "a a c d"]], maximum_size=2)
    assert (cut.describe()["words"], cut.unknown_types) == (["b", "a"], 2)
    closed = ClosedVocabulary(["a", "b"], 0)
    ids = closed.encode(["a  x b ", "", "<unk> a"])
    assert [part.tolist() for part in ids] == [[3, UNK, 4], [], [UNK, 3]]
    assert all(part.dtype == np.int32 for part in ids)
    assert closed.decode([*ids, np.array([BOS, 3, EOS])]) == ["a <unk> b", "", "<unk> a", "a"]


@pytest.mark.parametrize("vocabulary", [ClosedVocabulary(["a"], 0), BPE])
def test_written_special_tokens_are_ordinary_text(vocabulary):
    (ids,) = vocabulary.encode(["<s> a </s> <s></s>"])
    assert not set(ids.tolist()) & {BOS, EOS}


@given(st.lists(WORDS, max_size=8))
def test_bpe_gives_back_any_text(words):
    text = " ".join(words)
    ids = BPE.encode([text])
    assert BPE.decode(ids) == [text]
    assert all(3 <= token < BPE.size for token in ids[0])


def test_bpe_words_are_alike_everywhere_and_broken_ids_decode_to_clean_words():
    first, inside = BPE.encode(["low", "the low"])
    assert inside.tolist() == [*BPE.encode(["the"])[0], *first]
    byte = BPE.encode(["\u00e9"])[0]
    broken = np.concatenate([[BOS], byte[:-1], byte[:1], byte[:1], [EOS]])
    (text,) = BPE.decode([broken])
    assert "  " not in text
    assert "<s>" not in text


@pytest.mark.parametrize("vocabulary", [ClosedVocabulary(["a", "é"], 7), BPE])
def test_files_hold_all_of_it(vocabulary, tmp_path):
    vocabulary.save(tmp_path / "v.json")
    loaded = load_vocabulary(tmp_path / "v.json")
    assert loaded.hash == vocabulary.hash
    assert (loaded.kind, loaded.size) == (vocabulary.kind, vocabulary.size)
    texts = ["a é low", "zz"]
    for ours, theirs in zip(vocabulary.encode(texts), loaded.encode(texts), strict=True):
        assert ours.tolist() == theirs.tolist()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "no such file"),
        ("{", "is no vocabulary file"),
        ('{"kind": "other"}', "unknown kind"),
        ('{"kind": "bpe", "tokenizer": {}}', "is no vocabulary file"),
        ('{"kind": "closed", "words": ["a", "a"], "unknown_types": 0}', "names a word twice"),
    ],
)
def test_foreign_files_are_named(content, words, tmp_path):
    path = tmp_path / "v.json"
    if content is not None:
        path.write_text(content)
    check_refused(words, load_vocabulary, path)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"kind": "closed", "minimum": 2}, "minimum: unknown key; did you mean 'minimum_count'"),
        ({"kind": "words"}, "vocabulary.kind: is 'words'"),
        ({"kind": "bpe", "size": 100}, "at least 259"),
        ({"kind": "bpe"}, "missing"),
        ({"kind": "closed", "minimum_count": 99}, "no word is left"),
    ],
)
def test_wrong_options_are_named(config, words):
    check_refused(words, build_vocabulary, [TEXTS], config)


def test_bpe_does_not_depend_on_threads_and_options_are_json_safe():
    json.dumps(build_vocabulary([TEXTS], {"kind": "closed"}).describe())
    code = (
        "import sys; from beyond_perplexity.vocabulary import *;"
        "texts = [' '.join(f'w{i % 97}x{j % 13}' for j in range(50)) for i in range(400)];"
        "print(BPEVocabulary.build([texts[:100], texts[100:]], 500).hash)"
    )
    found = set()
    for parallel, hashing in (("false", "1"), ("true", "2")):
        environment = {"TOKENIZERS_PARALLELISM": parallel, "PYTHONHASHSEED": hashing}
        command, own = [sys.executable, "-c", code], {**os.environ, **environment}
        found.add(subprocess.run(command, env=own, capture_output=True, check=True).stdout)
    assert len(found) == 1


ALL_TYPES, MINIMUM = 400, 3


def texts(count, seed):
    generator = np.random.default_rng(seed)
    shares = 1 / np.arange(1, ALL_TYPES + 1) ** 1.1
    lengths = generator.geometric(1 / 30, count)
    p = shares / shares.sum()
    drawn = [generator.choice(ALL_TYPES, size=length, p=p) for length in lengths]
    return [[f"w{word}" for word in words] for words in drawn]


def written(path, documents, n_train, titles):
    splits = ["train"] * n_train + ["test"] * (len(documents) - n_train)
    return write_documents(path, [" ".join(words) for words in documents], splits, titles)


def chosen(path, words, group_column=None):
    test = DocumentFiles((path,), "test", group_column=group_column)
    found = shared_words(pa.array(words), replace(test, split="train"), test)
    return found.to_pylist()


def vocabulary(training):
    counts = Counter(word for words in training for word in words)
    return sorted(word for word, count in counts.items() if count >= MINIMUM)


@pytest.mark.parametrize("waiting", [1, 4_000_000])
@pytest.mark.parametrize("grouped", [False, True])
def test_words_are_those_of_a_plain_count(tmp_path, monkeypatch, grouped, waiting):
    monkeypatch.setattr(module, "_WAITING", waiting)
    documents, n_train = texts(300, 0), 200
    titles = [f"page {place // 5}" for place in range(300)]
    path = written(tmp_path / "documents.parquet", documents, n_train, titles)
    units = titles if grouped else [str(place) for place in range(300)]
    known = vocabulary(documents[:n_train])
    least = math.ceil((MINIMUM + 3 * math.sqrt(MINIMUM)) / (n_train / 300))
    pairs = {(word, u) for u, words in zip(units, documents, strict=True) for word in words}
    holding = Counter(word for word, _ in pairs)
    expected = [word for word in known if holding[word] >= least]
    assert 10 < len(expected) < len(known) - 10
    assert chosen(path, known, "title" if grouped else None) == expected


def test_the_number_of_units_is_that_of_the_module_and_few_keep_a_word(tmp_path):
    assert (least_units(np.array([0, 4, 9]), 0.5), least_units(np.array([0, 0]), 1.0)) == (20, 4)
    path = written(tmp_path / "d.parquet", [["a", "b"], ["a"], ["a", "b"]], 2, ["", "", ""])
    assert chosen(path, ["b", "a"]) == ["a"]


def test_training_text_is_read_like_test_text(tmp_path):
    documents, n_train = texts(240, 1), 160
    generator = np.random.default_rng(2)
    differences = {"vocabulary": [], "compared": []}
    for repeat in range(60):
        order = generator.permutation(len(documents))
        mixed = [documents[place] for place in order]
        path = written(tmp_path / f"{repeat}.parquet", mixed, n_train, [""] * len(mixed))
        known = vocabulary(mixed[:n_train])
        for name, words in (("vocabulary", known), ("compared", chosen(path, known))):
            held = set(words)
            sides = mixed[:n_train], mixed[n_train:]
            shares = [np.mean([word in held for words in side for word in words]) for side in sides]
            differences[name].append(float(shares[0] - shares[1]))
    errors = {name: np.std(x) / math.sqrt(len(x)) for name, x in differences.items()}
    assert np.mean(differences["vocabulary"]) > 5 * errors["vocabulary"]
    assert abs(np.mean(differences["compared"])) < 3 * errors["compared"]


THREE = ngrams.Smoothing((0.9, 0.4, 0.6), (1.5, 2.0, 0.3))
TYPES = ["ab", "abba", "b", "bab", "aab", "ba"]


class PlainSpellingModel:
    """The formulas of the module, a dictionary an n-gram: another program for the same numbers."""

    def __init__(self, types, smoothing):
        self.smoothing, order = smoothing, smoothing.order
        self.symbols = [*sorted({letter for word in types for letter in word}), "END", "ESC"]
        occurrences, before = Counter(), defaultdict(set)
        for word in types:
            marked = ["BEGIN", *word, "END"]
            for end in range(1, len(marked)):
                for length in range(min(order, end + 1)):
                    start = end - length
                    gram = tuple(marked[start : end + 1])
                    occurrences[gram] += 1
                    if start:
                        before[gram].add(marked[start - 1])
        self.counts = {
            gram: n if len(gram) == order or gram[0] == "BEGIN" else len(before[gram])
            for gram, n in occurrences.items()
        }

    def p(self, symbol, history):
        found = 1 / len(self.symbols)
        for level in range(min(self.smoothing.order, len(history) + 1)):
            context = tuple(history[len(history) - level :])
            after = [self.counts.get((*context, other), 0) for other in self.symbols]
            if total := sum(after):
                n, distinct = self.counts.get((*context, symbol), 0), sum(map(bool, after))
                d, a = self.smoothing.discounts[level], self.smoothing.concentrations[level]
                found = (max(n - d, 0) + (d * distinct + a) * found) / (total + a)
        return found

    def log_p(self, word):
        marked = ["BEGIN", *(letter if letter in self.symbols else "ESC" for letter in word), "END"]
        logs = [math.log(self.p(marked[end], marked[:end])) for end in range(1, len(marked))]
        return sum(logs) - math.log(1 - self.p("END", ["BEGIN"]))


def words_up_to(length, letters):
    for size in range(1, length + 1):
        yield from map("".join, itertools.product(letters, repeat=size))


def test_probabilities_are_those_of_a_plain_program_and_long_words_do_not_underflow():
    model, plain = spelling.CharacterModel(TYPES, THREE), PlainSpellingModel(TYPES, THREE)
    words = list(words_up_to(5, "ab"))
    expected = [plain.log_p(word) for word in words]
    np.testing.assert_allclose(model.log_probs(words), expected, rtol=1e-12)
    plain = PlainSpellingModel(TYPES, THREE)
    for history in itertools.product(["a", "b", "ESC"], repeat=3):
        assert plain.p("END", ["BEGIN", *history]) > 0
    model = spelling.CharacterModel(["abc"], spelling.UNTUNED)
    assert np.isfinite(model.log_probs(["a", "ab", "c" * 5, "xyz"])).all()
    model = spelling.CharacterModel(TYPES, THREE)
    one, many = model.log_probs(["ab" * 10, "ab" * 100_000])
    assert -1e6 < many < 1_000 * one


@pytest.mark.parametrize("smoothing", [THREE, spelling.UNTUNED, ngrams.Smoothing((0.5,), (0.2,))])
@pytest.mark.parametrize("types", [TYPES, ["a"], []])
def test_all_words_sum_to_one_with_the_mass_of_longer_ones(types, smoothing):
    """A word of n seen letters either ends or goes on; an escape stands for all other letters."""
    model = spelling.CharacterModel(types, smoothing)
    letters = sorted(set("".join(types)))
    # Any unseen letter: divided by p of that letter given an escape, it is the whole escape.
    unseen = "\N{SNOWMAN}"
    log_unseen = float(ngrams.Alphabet(types).log_escape(np.array([ord(unseen)]))[0])
    depth = 9 if len(letters) < 2 else 7
    total, missing = 0.0, []
    for length in range(1, depth + 1):
        words = ["".join(word) for word in itertools.product([*letters, unseen], repeat=length)]
        logs = model.log_probs(words) - [word.count(unseen) * log_unseen for word in words]
        total += math.fsum(np.exp(logs))
        missing.append(1 - total)
    # No more than 1, and what is missing falls by a share each time: it is that of longer words.
    assert 0 < missing[-1] < missing[0]
    assert all(0 < later < earlier for earlier, later in itertools.pairwise(missing))
    plain = PlainSpellingModel(types, smoothing)
    going = [("BEGIN", *word) for word in itertools.product([*letters, "ESC"], repeat=depth)]
    longer = 0.0
    for marked in going:
        p = 1 / (1 - plain.p("END", ["BEGIN"]))
        for end in range(1, len(marked)):
            p *= plain.p(marked[end], marked[:end])
        longer += p * (1 - plain.p("END", marked))
    assert total + longer == pytest.approx(1, abs=1e-9)


def test_unseen_characters_sum_to_one_and_leave_none_out():
    alphabet = ngrams.Alphabet(["aé", "日本", "\N{PILE OF POO}"])
    seen = set(map(ord, "aé日本\N{PILE OF POO} "))
    every = [point for point in range(0x110000) if not 0xD800 <= point < 0xE000]
    unseen = np.array([point for point in every if point not in seen])
    p = np.exp(alphabet.log_escape(unseen))
    assert (p > 0).all()
    assert math.fsum(p) == pytest.approx(1, abs=1e-9)
    # One lead byte of UTF-8, one probability; more where characters with that lead byte were seen.
    leads = defaultdict(set)
    for point, value in zip(unseen.tolist(), p.tolist(), strict=True):
        leads[chr(point).encode()[0]].add(round(value, 15))
    assert {len(values) for values in leads.values()} == {1}
    assert np.exp(alphabet.log_escape(np.array([ord("語")]))) > 0
    assert alphabet.log_escape(np.array([ord("è")])) > alphabet.log_escape(np.array([ord("ā")]))


@pytest.mark.parametrize(
    "word", ["\N{PILE OF POO}", "\x00", "\x1b[0m", "\n", "a\tb", "\u2028", "\U0010ffff", "\ue000"]
)
def test_every_string_without_a_blank_is_possible(word):
    for types in (TYPES, [], ["日本"]):
        (log,) = spelling.CharacterModel(types, THREE).log_probs([word])
        assert -200 < log < 0


@pytest.mark.parametrize(("word", "message"), [("", "empty"), ("a b", "blank"), ("\ud800", "D800")])
def test_what_is_no_word_is_refused(word, message):
    check_refused(message, spelling.CharacterModel(TYPES, THREE).log_probs, ["a", word])
    assert ngrams.code_points(["aé"])[0].tolist() == [97, 233]


def test_order_and_neighbours_do_not_matter(monkeypatch):
    words = list(words_up_to(4, "abc"))
    expected = spelling.CharacterModel(TYPES, THREE).log_probs(words)
    for seed in range(3):
        shuffled = random.Random(seed).sample(TYPES, len(TYPES))
        assert (spelling.CharacterModel(shuffled, THREE).log_probs(words) == expected).all()
    alone = [spelling.CharacterModel(TYPES, THREE).log_probs([word]) for word in words]
    assert (np.concatenate(alone) == expected).all()
    module = "beyond_perplexity.ngrams.spelling_model"
    monkeypatch.setattr(f"{module}.SPELLED_AT_ONCE", 7)
    monkeypatch.setattr(f"{module}.EVENTS_AT_ONCE", 4)
    assert (spelling.CharacterModel(TYPES, THREE).log_probs(words) == expected).all()
    assert len(spelling.CharacterModel(TYPES, THREE).log_probs([])) == 0


def test_the_slope_is_that_of_differences():
    alphabet = ngrams.Alphabet(TYPES)
    events = ngrams.word_events(["abab", "bb", "x"], alphabet)
    levels = ngrams.NgramCounts(TYPES, alphabet, 3).look_up(events)
    _, slope = ngrams._log_likelihood(levels, THREE, alphabet.size)
    values, step = np.concatenate(THREE), 1e-6
    for place in range(6):
        sides = []
        for sign in (1, -1):
            moved = values.copy()
            moved[place] += sign * step
            moved_smoothing = ngrams.Smoothing(tuple(moved[:3]), tuple(moved[3:]))
            sides.append(np.log(ngrams.probabilities(levels, moved_smoothing, alphabet.size)).sum())
        assert slope[place] == pytest.approx((sides[0] - sides[1]) / (2 * step), rel=1e-5)


class Source:
    """A source that is known: after each letter one of four may follow, or the word ends."""

    END = 1 / 8

    def __init__(self, seed=0):
        self.draw = random.Random(seed)
        self.rows = {letter: self.draw.sample("abcdefgh", 4) for letter in "abcdefgh"}

    def word(self):
        word = self.draw.choice("abcdefgh")
        while self.draw.random() > self.END:
            word += self.draw.choice(self.rows[word[-1]])
        return word

    def bits(self, word):
        return -math.log2(self.END / 8) - (len(word) - 1) * math.log2((1 - self.END) / 4)


def test_words_of_a_known_source_cost_little_more_than_under_the_source_itself():
    source = Source()
    learnt = {source.word() for _ in range(6_000)}
    held_out, test = ([source.word() for _ in range(2_000)] for _ in range(2))
    vocabulary = ClosedVocabulary(["zz"], unknown_types=len(learnt))
    spelling_model = spelling.build_spelling_model(learnt, held_out, vocabulary)
    bits = -spelling_model.log_probs(test).mean() / math.log(2)
    least = np.mean([source.bits(word) for word in test])
    assert least * 0.999 < bits < least * 1.04
    uniform = np.mean([(len(word) + 1) * math.log2(10) for word in test])
    assert bits < 0.8 * uniform


def test_weights_of_the_best_order_are_the_best_of_all_tried():
    words = small_corpus()
    alphabet = ngrams.Alphabet(words[:800])
    counts = ngrams.NgramCounts(words[:800], alphabet, 4)
    levels = counts.look_up(ngrams.word_events(words[800:], alphabet))
    fitted = ngrams.fit_smoothing(levels, 3, alphabet.size)
    best, _ = ngrams._log_likelihood(levels, fitted, alphabet.size)
    for d, a in itertools.product([0.1, 0.5, 0.9], [0.1, 1.0, 10.0]):
        smoothing = ngrams.Smoothing((d,) * 3, (a,) * 3)
        value, _ = ngrams._log_likelihood(levels, smoothing, alphabet.size)
        assert value < best


def test_unknown_words_sum_to_one_again_whatever_mass_the_vocabulary_has():
    vocabulary = ClosedVocabulary(["ab", "b", "bbb"], unknown_types=3)
    spelling_model = spelling.SpellingModel(spelling.CharacterModel(TYPES, THREE), vocabulary)
    plain = PlainSpellingModel(TYPES, THREE)
    mass = sum(math.exp(plain.log_p(word)) for word in ("ab", "b", "bbb"))
    assert spelling_model.mass == pytest.approx(mass, rel=1e-12)
    words = [word for word in words_up_to(6, "ab") if word not in ("ab", "b", "bbb")]
    expected = [plain.log_p(word) - math.log(1 - mass) for word in words]
    np.testing.assert_allclose(spelling_model.log_probs(words), expected, rtol=1e-12)
    check_refused("'bbb' is in the vocabulary", spelling_model.log_probs, ["a", "bbb"])
    model = spelling.CharacterModel(["a"], ngrams.Smoothing((0.001,) * 3, (0.001,) * 3))
    known = ["a" * length for length in range(1, 6)]
    spelling_model = spelling.SpellingModel(model, ClosedVocabulary(known, 0))
    assert 1 - spelling_model.mass < 1e-4
    plain = PlainSpellingModel(["a"], model.smoothing)
    rest = ["a" * length for length in range(6, 30)]
    # What is left is escapes and longer words: by the plain program, one step at a time.
    left = 1 - math.fsum(math.exp(plain.log_p(word)) for word in known)
    assert 1 - spelling_model.mass == pytest.approx(left, rel=1e-6)
    assert (spelling_model.log_probs(rest) < 0).all()
    closed = ClosedVocabulary(known, 0)
    check_refused("leaves none", spelling.SpellingModel, model, closed, mass=1.0)


def test_perplexity_with_a_spelling_model_is_the_sum_by_hand():
    vocabulary = ClosedVocabulary(["é", "bb"], unknown_types=3)
    model = Fixed([0.0, 0.25, 0.125, 0.5, 0.125])  # <s> </s> <unk> é bb
    types = ["ab", "é", "bb", "ba"]
    spelling_model = spelling.SpellingModel(spelling.CharacterModel(types, THREE), vocabulary)
    texts = ["é bb ab é", "xy <unk> é bb ba ab"]  # ten words
    plain = PlainSpellingModel(types, THREE)
    escapes = ngrams.Alphabet(types)

    def spelled(word):
        strange = np.array([ord(letter) for letter in word if letter not in "abé"], int)
        held = plain.log_p(word) + float(escapes.log_escape(strange).sum())
        return held - math.log(1 - sum(math.exp(plain.log_p(known)) for known in ("é", "bb")))

    p = {"é": 0.5, "bb": 0.125}
    words = [word for text in texts for word in text.split()]
    logs = [math.log(p[w]) if w in p else math.log(0.125) + spelled(w) for w in words]
    expected = 2 * math.log(0.25) + sum(logs)
    found = measure(model, vocabulary, texts, spell=spelling_model.spell)
    assert found["open_vocabulary"]["log_prob"] == pytest.approx(expected, abs=1e-5)
    size = sum(len(text.encode()) + 1 for text in texts)
    bits = -expected / math.log(2)
    assert found["open_vocabulary"]["bits"]["byte"] == pytest.approx(bits / size, rel=1e-6)
    per_word = math.exp(-expected / 12)
    assert found["open_vocabulary"]["perplexity"]["word"] == pytest.approx(per_word, rel=1e-6)
    parts = score_rows(model, vocabulary, texts, spell=spelling_model.spell)
    total = math.fsum(row.log_likelihood_open_vocabulary for rows in parts for row in rows)
    assert total == pytest.approx(expected, abs=1e-5)
    assert "open_vocabulary" not in measure(model, vocabulary, texts)


def test_the_spelled_distribution_sums_to_one_over_texts():
    """All texts of at most two words over one letter and the mass of what is longer."""
    vocabulary = ClosedVocabulary(["a"], unknown_types=4)
    model = Fixed([0.0, 0.25, 0.25, 0.5])
    letters = spelling.CharacterModel(["aa", "aaa"], THREE)
    spelling_model = spelling.SpellingModel(letters, vocabulary)
    words = ["a" * length for length in range(1, 60)]
    unseen = "\N{SNOWMAN}"
    total = 0.25 * (1 + 0.5 + 0.25 * math.fsum(np.exp(spelling_model.log_probs(words[1:]))))
    each = [measure(model, vocabulary, [word], spell=spelling_model.spell) for word in words]
    found = sum(math.exp(one["open_vocabulary"]["log_prob"]) for one in each)
    assert 0.25 + found == pytest.approx(total, rel=1e-6)
    assert spelling_model.log_probs([unseen]) < 0


def test_a_file_gives_the_same_spelling_model_and_known_words_read_as_unknown_are_errors(tmp_path):
    vocabulary = ClosedVocabulary(["a", "bb"], 4)
    spelling_model = spelling.SpellingModel(spelling.CharacterModel(TYPES, THREE), vocabulary)
    assert spelling_model.spell(["a bb", "a ba"], [0, 1]).tolist()[0] == 0
    with pytest.raises(InputError, match="reads 2 words of the text that begins 'a ba' as <unk>"):
        spelling_model.spell(["a ba"], [2])
    other = ClosedVocabulary(["a"], 5)
    with pytest.raises(InputError, match="its vocabulary lacks 1"):
        measure(Fixed([0.0, 0.5, 0.25, 0.25]), other, ["a bb ba"], spell=spelling_model.spell)
    spelling_model, vocabulary, path = saved(tmp_path)
    again = spelling.load_spelling_model(path, vocabulary)
    words = [*small_corpus()[200:], "日本", "\n"]
    assert (again.log_probs(words) == spelling_model.log_probs(words)).all()
    assert (again.mass, again.origin) == (spelling_model.mass, spelling_model.origin)
    again.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == path.read_bytes()


def small_corpus(number=400):
    draw = random.Random(5)
    ends = ["ing", "ed", "s", "", "ly"]
    stems = ["".join(draw.choices("abcdefgh", k=draw.randint(2, 5))) for _ in range(number)]
    words = sorted({draw.choice(stems) + draw.choice(ends) for _ in range(4 * number)})
    draw.shuffle(words)
    return words


def test_building_is_the_same_in_whatever_order_and_says_what_was_tried():
    words = small_corpus()
    known, rare, held_out = words[:200], words[200:600], words[500:]
    vocabulary = ClosedVocabulary(known, len(rare))
    spelling_model = spelling.build_spelling_model(known + rare, held_out + known, vocabulary)
    again = spelling.build_spelling_model(reversed(known + rare), set(held_out), vocabulary)
    assert again.origin == spelling_model.origin
    assert (again.log_probs(held_out) == spelling_model.log_probs(held_out)).all()
    origin = spelling_model.origin
    assert origin["held_out_types"] == len(held_out) >= spelling.LEAST_HELD_OUT
    assert set(origin["bits_per_held_out_type"]) == {"all", "rare"}
    bits = -spelling_model.log_probs(sorted(held_out)).mean() / math.log(2)
    assert origin["bits_per_held_out_type"][origin["taught"]] == pytest.approx(bits, abs=1e-3)
    assert bits == pytest.approx(min(origin["bits_per_held_out_type"].values()), abs=1e-3)
    orders = origin["bits_by_order"][origin["taught"]]
    assert list(orders) == [str(order) for order in spelling.ORDERS]
    assert spelling_model.model.smoothing.order == int(min(orders, key=lambda order: orders[order]))


@pytest.mark.parametrize("rare", [[], ["zq"]])
def test_hardly_any_unknown_type_still_makes_a_distribution(rare):
    known = small_corpus()[:300]
    vocabulary = ClosedVocabulary(known, len(rare))
    for held_out in ([], small_corpus()[300:]):
        spelling_model = spelling.build_spelling_model(known + rare, held_out, vocabulary)
        logs = spelling_model.log_probs(["zq", "abcing", "日本"])
        assert np.isfinite(logs).all()
        assert (logs < 0).all()
        assert spelling_model.origin["held_out_types"] == len(held_out)
        assert logs[1] > logs[2]


def test_special_tokens_are_words_like_others_and_samples_of_types_a_matter_of_letters():
    words = small_corpus()
    vocabulary = ClosedVocabulary(words[:200], 200)
    seen = [*words[:400], "<unk>", "<s>"]
    spelling_model = spelling.build_spelling_model(seen, words[400:], vocabulary)
    assert np.isfinite(spelling_model.log_probs(["<unk>", "</s>"])).all()
    with pytest.raises(InputError, match="lacks 3 types of its training text, of this one 2"):
        spelling.build_spelling_model(["a", "b", "c"], [], ClosedVocabulary(["a"], 3))
    chosen = spelling.sample_types(words, 50)
    assert len(chosen) == 50
    assert chosen == spelling.sample_types(words[::-1], 50) == sorted(chosen)
    assert set(chosen) <= set(spelling.sample_types(words, 60))
    assert spelling.sample_types(words, 10_000) == sorted(words)


def saved(tmp_path):
    words = small_corpus()
    vocabulary = ClosedVocabulary(words[:200], len(words) - 300)
    seen = words[:200] + words[300:]
    spelling_model = spelling.build_spelling_model(seen, words[200:300], vocabulary)
    spelling_model.save(tmp_path / "words.spelling_model.json")
    return spelling_model, vocabulary, tmp_path / "words.spelling_model.json"


def test_broken_files_give_one_clear_error(tmp_path):
    _, vocabulary, path = saved(tmp_path)
    held = json.loads(path.read_text())
    broken = {"cut": path.read_text()[:200], "no_json": "spelling_model", "list": "[]"}
    broken |= {"number": "3", "vocabulary": '{"kind": "closed", "words": []}'}
    broken |= {"changed": json.dumps({**held, "mass": 0.01}), "deep": "[" * 100_000}
    broken |= {"types": json.dumps({**held, "types": held["types"][:-3]})}
    broken |= {"lacks": json.dumps({key: held[key] for key in held if key != "sha256"})}
    for name, content in broken.items():
        other = put(tmp_path / f"{name}.json", content)
        with pytest.raises(InputError, match=f"{name}.json: is no spelling model file") as caught:
            spelling.load_spelling_model(other, vocabulary)
        assert "\n" not in str(caught.value)
    binary, missing = put(tmp_path / "binary.json", b"\xff\xfe\x00"), tmp_path / "missing.json"
    for other, words, message in (
        (binary, vocabulary, "is no spelling model file"),
        (missing, vocabulary, r"missing\.json: no such file"),
        (path, ClosedVocabulary(["a"], 1), "made for another vocabulary"),
        (path, BPEVocabulary.build([["a"]], 259), "open and needs no spelling model"),
    ):
        check_refused(message, spelling.load_spelling_model, other, words)


def test_a_model_folder_finds_its_spelling_model(tmp_path):
    _, vocabulary, path = saved(tmp_path)
    folder = tmp_path / "results/models/lstm"
    folder.mkdir(parents=True)
    assert spelling.find_spelling_model(folder, vocabulary) is None
    made = tmp_path / "results/vocabularies/wikipedia/words.spelling_model.json"
    made.parent.mkdir(parents=True)
    made.write_bytes(path.read_bytes())
    assert spelling.find_spelling_model(folder, vocabulary) == made
    assert spelling.find_spelling_model(folder, ClosedVocabulary(["a"], 1)) is None
    assert spelling.find_spelling_model(folder, BPEVocabulary.build([["a"]], 259)) is None
    (folder / "spelling_model.json").write_bytes(path.read_bytes())
    assert spelling.find_spelling_model(folder, vocabulary) == folder / "spelling_model.json"
    assert spelling.find_spelling_model("/", vocabulary) is None


def written_documents(tmp_path):
    words = small_corpus()
    splits = {"train": words[:500], "valid": words[400:], "test": words[300:600]}
    rows = [(split, word) for split, found in splits.items() for word in found]
    size = len(rows)
    columns = {name: [0] * size for name in DOCUMENTS.names} | {"doc_id": list(range(size))}
    columns |= {"split": [split for split, _ in rows], "title": [""] * size}
    columns |= {"text": [f"{word} the" for _, word in rows]}
    path = tmp_path / "documents.parquet"
    write_shard(path, DOCUMENTS, {name: columns[name] for name in DOCUMENTS.names}, {})
    counted = ClosedVocabulary.build([[f"{word} the" for word in splits["train"]]], maximum_size=80)
    vocabulary = tmp_path / "results/vocabularies/corpus/words.json"
    vocabulary.parent.mkdir(parents=True)
    counted.save(vocabulary)
    return path, vocabulary


def test_the_commands_build_a_spelling_model_and_take_that_of_the_run(tmp_path, capsys):
    from beyond_perplexity.commands import perplexity as command
    from scripts import build_spelling_model as build

    documents, path = written_documents(tmp_path)
    spelling_model = path.with_suffix(".spelling_model.json")
    config = {"family": "lstm", "architecture": {"embedding_size": 4, "hidden_size": 4}}
    vocabulary = load_vocabulary(path)
    folder = tmp_path / "results/models/lstm"
    save_model(folder, registry.build(config, vocabulary.size), vocabulary, {})
    (tmp_path / "text.txt").write_text("the quux\nzzz the\n", encoding="utf-8")
    flags = ["--model", folder, "--text", tmp_path / "text.txt", "--tokenized", "--device", "cpu"]
    run_script(command, *flags)
    free = capsys.readouterr()
    assert "leave the spelling of 2 unknown words free" in free.err
    assert json.loads(free.out)["spelling_model"] is None
    built = ["--documents", documents, "--vocabulary", path, "--output", spelling_model]
    run_script(build, *built)
    for more in ([], ["--spelling-model", spelling_model]):
        run_script(command, *flags, *more)
        found = capsys.readouterr()
        assert "free" not in found.err
        summary = json.loads(found.out)
        assert summary["spelling_model"] == str(spelling_model)
        loaded = spelling.load_spelling_model(spelling_model, vocabulary)
        gained = summary["open_vocabulary"]["log_prob"] - summary["log_prob"]
        assert gained == pytest.approx(loaded.log_probs(["quux", "zzz"]).sum())
    built[3] = tmp_path / "bpe.json"
    BPEVocabulary.build([["a"]], 259).save(built[3])
    check_refused("is an open vocabulary", run_script, build, *built)

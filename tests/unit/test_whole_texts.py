"""Every document of a file is read, whatever its format, reader and command; and counted.

Property: a word of the last document, or the number of the last row, shows in the result. Files
have more than four batches of any reader: 20,000 documents, or 11 and batches of 2 where a model
runs. Needs torch; models are counted or have random weights.
"""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from beyond_perplexity.commands import (
    audit,
    compare_perplexity,
    contrast,
    estimate,
    estimate_ngram,
    perplexity,
    similarity,
    tokenize,
)
from beyond_perplexity.contrastive import pairs, scores
from beyond_perplexity.corpus import external
from beyond_perplexity.corpus.external import GroupField, read_cleaned, read_grouped
from beyond_perplexity.corpus.formats import TEXT_FORMATS
from beyond_perplexity.corpus.normalization import WHITE_SPACE_ONLY
from beyond_perplexity.errors import InputError
from beyond_perplexity.library.compare import compare
from beyond_perplexity.models import likelihoods as likelihoods
from beyond_perplexity.models.kneser_ney import KneserNey
from beyond_perplexity.models.registry import save_model
from beyond_perplexity.models.sentence_rnn import SentenceRNN
from beyond_perplexity.ngrams import sentence_files
from beyond_perplexity.ngrams.sentence_files import (
    UnknownRule,
    read_grouped_sentences,
    read_sentence_texts,
)
from beyond_perplexity.perplexities import summary as documents
from beyond_perplexity.storage import table_files
from beyond_perplexity.storage.accounts import Account, accounts, tell
from beyond_perplexity.storage.inputs import PACKED
from beyond_perplexity.vocabulary import ClosedVocabulary
from scripts import estimate_partition, import_samples
from tests.unit.test_library_models import ARPA

MANY, FEW = 20_000, 11
MARKED = "a zebra"
SUFFIXES = {"text": ".txt", "jsonl": ".jsonl", "parquet": ".parquet"}
FORMS = pytest.mark.parametrize("form", TEXT_FORMATS)


def zstd(content: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(content)
    return sink.getvalue().to_pybytes()


PACKERS = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress, ".zst": zstd}


def texts_of(count: int, last: str = MARKED) -> list[str]:
    """Give documents of two words, one of them empty, and the last."""
    return ["a b"] * 5 + [""] + ["a b"] * (count - 7) + [last]


def write(path: Path, texts: Sequence[str]) -> Path:
    if path.suffix == ".parquet":
        pq.write_table(pa.table({"text": texts}), path)
        return path
    as_json = ".jsonl" in path.suffixes
    lines = [json.dumps({"text": text}) if as_json else text for text in texts]
    content = "\n".join(lines).encode()  # the last line has no end
    path.write_bytes(PACKERS.get(path.suffix, bytes)(content))
    return path


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, int], Path]:
    """Give files of many and of few documents, in every format."""
    folder = tmp_path_factory.mktemp("files")
    assert set(SUFFIXES) == set(TEXT_FORMATS)
    return {
        (form, count): write(folder / f"{count}{suffix}", texts_of(count))
        for form, suffix in SUFFIXES.items()
        for count in (MANY, FEW)
    }


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Callable[[], list[str]]:
    """Return what was said of the files that were read, without their names."""

    def lines() -> list[str]:
        err = capsys.readouterr().err.replace("\r", "\n").splitlines()
        return [line.partition(": ")[2] for line in err if " read, " in line]

    return lines


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    held = (external, "BATCH"), (pairs, "_BATCH"), (scores, "POOL"), (documents, "POOL")
    for module, name in (*held, (likelihoods, "POOL")):
        monkeypatch.setattr(module, name, 2)


def counts(read: int, reason: str = "") -> str:
    if not reason:
        return f"{read:,} documents read, all used"
    return f"{read:,} documents read, {read - 1:,} used; left out: 1 ({reason})"


NO_GROUPS = GroupField("group", needed=False)
READERS = {
    "cleaned": lambda path: (t for part in read_cleaned(path, WHITE_SPACE_ONLY) for t in part),
    "as they are": lambda path: (t for part in read_cleaned(path, None) for t in part),
    "grouped": lambda path: (text for text, _ in read_grouped(path, None, NO_GROUPS)),
    "sentences": lambda path: read_sentence_texts([path], UnknownRule()),
    "grouped sentences": lambda path: (
        text for text, _ in read_grouped_sentences(path, UnknownRule(), NO_GROUPS)
    ),
}


@FORMS
@pytest.mark.parametrize("reader", READERS)
def test_readers_give_the_last_document(files, form, reader, monkeypatch) -> None:
    monkeypatch.setattr(sentence_files, "READ_BYTES", 10_000)
    with accounts() as read:
        found = list(READERS[reader](files[form, MANY]))
    left_out = {"empty line": 1} if "sentences" in reader else {}
    assert found == [text for text in texts_of(MANY) if text or not left_out]
    assert [(one["read"], one["left_out"]) for one in read] == [(MANY, left_out)]


@pytest.mark.parametrize("suffix", PACKED)
@pytest.mark.parametrize("form", [".txt", ".jsonl"])
def test_packed_files_are_read_to_their_end(tmp_path, form, suffix) -> None:
    path = write(tmp_path / f"a{form}{suffix}", texts_of(MANY))
    assert list(READERS["as they are"](path)) == texts_of(MANY)


def test_a_reader_that_is_left_early_is_an_error(files) -> None:
    with pytest.raises(InputError, match="4,096 documents were read, but it has more"), accounts():
        assert next(read_cleaned(files["text", MANY], None))


def test_an_account_that_does_not_agree_is_an_error() -> None:
    account = Account("a.txt", "documents")
    account.read = 8192
    with pytest.raises(InputError, match=r"a\.txt: 8,192 documents were read, but it has 20,000"):
        account.close(MANY)


@FORMS
def test_compare_reads_both_texts_and_the_training_text(files, form, tmp_path, said) -> None:
    suffix = SUFFIXES[form]
    copied = " ".join(f"c{place}" for place in range(9))
    others = texts_of(MANY, last="a b")
    plain, first, training = (
        write(tmp_path / f"{name}{suffix}", texts)
        for name, texts in (
            ("plain", others),
            ("first", [copied, *others]),
            ("training", texts_of(MANY, copied)),
        )
    )
    quick = {"tokenized": True, "permutations": 0, "bootstrap": 0}

    def run(*texts, **options):
        found = compare(*texts, **options)
        tell(found.files)
        return found

    def row(found, tendency: str, measure: str) -> float:
        table = found.table.set_index(["tendency", "measure"])
        return float(table.loc[(tendency, measure), "value"])

    run(plain, files[form, MANY], **quick)
    assert said() == [counts(MANY, "without a token")] * 2
    distances = [
        row(run(*both, **quick), "unigram", "tvd")
        for both in ((plain, files[form, MANY]), (files[form, MANY], plain))
    ]
    assert distances == pytest.approx([1 / (2 * (MANY - 1))] * 2)
    found = run(plain, first, training=training, **quick)
    assert row(found, "text", "training_8grams") == 1
    assert said()[-1] == counts(MANY)


@FORMS
def test_programs_without_torch_read_all_sentences(files, form, tmp_path, capsys, said) -> None:
    path, model = files[form, MANY], tmp_path / "model.arpa"
    estimate_ngram.main(["--text", str(path), "--arpa", str(model), "--order", "2"])
    assert "\tzebra\t" in model.read_text()
    line = f"{MANY:,} sentences read, {MANY - 1:,} used; left out: 1 (empty line)"
    shown = capsys.readouterr()
    assert shown.err.endswith(f": {line}\n")
    assert json.loads(shown.out)["files"][0]["used"] == MANY - 1
    (tmp_path / "small.arpa").write_text(ARPA)
    flags = ["--arpa", str(tmp_path / "small.arpa"), "--text", str(path), "--json"]
    perplexity.main(flags)
    shown = capsys.readouterr()
    found = json.loads(shown.out)
    assert (found["oov"], found["sentences"]) == (1, MANY - 1)
    assert shown.err.endswith(f": {line}\n")


@FORMS
def test_imported_samples_are_all_documents(files, form, tmp_path, monkeypatch, said) -> None:
    flags = ["--input", files[form, MANY], "--format", form, "--output", tmp_path / "s.parquet"]
    flags += ["--preprocessing", '{"tokenizer": "none"}']
    monkeypatch.setattr(sys, "argv", ["import_samples", *map(str, flags)])
    import_samples.main()
    found = pq.read_table(tmp_path / "s.parquet")["text"].to_pylist()
    assert (len(found), found[-1]) == (MANY - 1, MARKED)
    assert said() == [counts(MANY, "without a token")]


def test_tokenize_writes_a_line_for_each(monkeypatch, capsysbinary) -> None:
    lines = "\n".join(texts_of(MANY))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(lines.encode())))
    tokenize.main(["--tokenizer", "none"])
    shown = capsysbinary.readouterr()
    assert shown.out.decode().splitlines() == texts_of(MANY)
    assert shown.err == b"stdin: 20,000 lines read, all used\n"


@pytest.fixture(params=[".parquet", ".csv", ".csv.gz"])
def table(request, tmp_path, monkeypatch) -> Callable[..., str]:
    """Return a function that writes a table, in each format, for readers of small batches."""
    monkeypatch.setattr(table_files, "BATCH_ROWS", 1000)

    def make(name: str, frame: pd.DataFrame) -> str:
        path = tmp_path / f"{name}{request.param}"
        parquet = request.param == ".parquet"
        frame.to_parquet(path, row_group_size=3000) if parquet else frame.to_csv(path, index=False)
        return str(path)

    return make


def test_estimate_uses_the_last_row(table, tmp_path, said) -> None:
    rows = np.arange(MANY)
    columns = {"instance_id": rows // 1000, "sample_id": rows % 1000, "n_tokens": 1}
    frame = pd.DataFrame({**columns, "log_p": -1.0, "log_q": -1.0})
    quick = ["--no-bracket", "--options", '{"subsets": 2, "bootstrap": 2}']
    estimate.main(["--weights", table("a", frame), *quick, "--output", str(tmp_path / "out_a.csv")])
    frame.loc[MANY - 1, "log_p"] = 5.0
    estimate.main(["--weights", table("b", frame), *quick, "--output", str(tmp_path / "out_b.csv")])
    first, second = (pd.read_csv(tmp_path / f"out_{name}.csv") for name in "ab")
    assert (first["value"] != second["value"]).any()
    assert said() == ["20,000 rows read, all used"] * 2


def test_compare_perplexity_uses_the_last_row(table, capsys, said) -> None:
    frame = pd.DataFrame({"bytes": np.full(MANY, 8), "log_likelihood": -8.0})
    paths = [table("a", frame)]
    frame.loc[MANY - 1, "log_likelihood"] = -8.0 - MANY
    paths.append(table("b", frame))
    compare_perplexity.main([*paths, "--flips", "9"])
    shown = capsys.readouterr()
    assert "0.1603" in shown.out  # bits per byte: 20,000 nats; an end is a byte
    assert shown.err.count("20,000 rows read, all used") == 2


@pytest.mark.parametrize("suffix", [".tsv", ".csv"])
def test_similarity_scores_the_last_pair(tmp_path, capsys, suffix) -> None:
    mark = "\t" if suffix == ".tsv" else ","
    pair_lines = [mark.join(pair) for pair in [("x", "y"), *[("b", "b")] * MANY, ("a", "b")]]
    (tmp_path / f"p{suffix}").write_text("\n".join(pair_lines))
    (tmp_path / "v.txt").write_text("a 1 0\nb 0 1\n")
    flags = ["--evaluator", str(tmp_path / "v.txt"), "--pairs", str(tmp_path / f"p{suffix}")]
    similarity.main([*flags, "--tokenized"])
    shown = capsys.readouterr()
    assert [float(line) for line in shown.out.split()] == pytest.approx([1.0] * MANY + [0.0])
    assert "20,002 lines read, 20,001 used; left out: 1 (line of names)" in shown.err


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("models")
    vocabulary = ClosedVocabulary(["a", "b"], 1)
    counted = KneserNey.fit([vocabulary.encode(["a b", "b", "a zebra"])], 5, {"order": 2})
    save_model(folder / "counted", counted, vocabulary, {})
    torch.manual_seed(1)
    save_model(folder / "sentence-rnn", SentenceRNN(5, {"size": 4}), vocabulary, {})
    return folder


@FORMS
@pytest.mark.usefixtures("small_batches")
def test_perplexity_scores_the_last_document(files, models, form, tmp_path, capsys) -> None:
    flags = ["--model", str(models / "counted"), "--text", str(files[form, FEW]), "--tokenized"]
    perplexity.main([*flags, "--per-document", str(tmp_path / "d.parquet"), "--device", "cpu"])
    shown = capsys.readouterr()
    assert json.loads(shown.out)["unknown"] == 1
    assert pq.read_table(tmp_path / "d.parquet")["unknown"].to_pylist() == [0] * 9 + [1]
    assert counts(FEW, "without a token") in shown.err


@FORMS
@pytest.mark.usefixtures("small_batches")
def test_audits_look_at_the_last_document(files, models, form, tmp_path, capsys) -> None:
    plain = write(tmp_path / f"p{SUFFIXES[form]}", texts_of(FEW, last="a b"))

    def numbers(path: Path, *more: str) -> str:
        flags = ["--model", str(models / "counted"), "--text", str(path), "--device", "cpu"]
        audit.main([*flags, "--json", *more])
        shown = capsys.readouterr()
        assert counts(FEW, "without a token") in shown.err
        found = json.loads(shown.out)
        return json.dumps([found["table"], found["summary"]["rosetta"]])

    for more in ((), ("--rosetta", "--documents", "1", "--check", "end")):
        assert numbers(plain, *more) != numbers(files[form, FEW], *more)


@pytest.mark.usefixtures("small_batches")
def test_an_audit_says_how_many_documents_it_drew(files, models, said) -> None:
    flags = ["--model", str(models / "counted"), "--text", str(files["text", FEW])]
    audit.main([*flags, "--documents", "3", "--check", "end", "--device", "cpu"])
    drawn = "11 documents read, 3 used; left out: 7 (not drawn for the checks), 1 (without a token)"
    assert said() == [drawn]


@FORMS
@pytest.mark.usefixtures("small_batches")
def test_the_partition_function_is_of_all_sentences(files, models, form, capsys, monkeypatch):
    flags = ["--model", models / "sentence-rnn", "--text", files[form, FEW], "--tokenized"]
    flags += ["--options", '{"samples": 20}', "--device", "cpu"]
    monkeypatch.setattr(sys, "argv", ["estimate_partition", *map(str, flags)])
    estimate_partition.main()
    shown = capsys.readouterr()
    found = json.loads(shown.out)
    assert (found["sentences"], found["words"], found["unknown"]) == (10, 20, 1)
    assert found["files"][0]["used"] == 10
    assert counts(FEW, "without a token") in shown.err


@pytest.mark.parametrize("suffix", [".tsv", ".jsonl"])
@pytest.mark.usefixtures("small_batches")
def test_contrast_scores_the_last_pair(models, tmp_path, capsys, suffix) -> None:
    sides = [("a b", "b a", "one")] * (FEW - 1) + [("b a", "b b", "last")]
    names = ("good", "bad", "phenomenon")
    rows = [json.dumps(dict(zip(names, row, strict=True))) for row in sides]
    if suffix == ".tsv":
        rows = ["\t".join(row) for row in (names, *sides)]
    (tmp_path / f"p{suffix}").write_text("\n".join(rows))
    flags = ["--model", str(models / "counted"), "--pairs", str(tmp_path / f"p{suffix}")]
    contrast.main([*flags, "--tokenized", "--device", "cpu"])
    shown = capsys.readouterr()
    assert "last: 1 pairs" in shown.out
    line = "12 lines read, 11 used; left out: 1 (line of names)"
    assert (line if suffix == ".tsv" else "11 lines read, all used") in shown.err

"""Every document of a file is read, whatever its format, reader and command; and counted.

Property: a word of the last document, or the number of the last row, shows. Files have over four
batches of any reader (20,000 documents, or 11 in twos). External models: their own loss and
tokenizer on raw text.
"""

import bz2
import copy
import gzip
import io
import json
import lzma
import math
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import torch
from torch.nn import functional
from transformers import AutoModelForCausalLM, AutoTokenizer

from beyond_perplexity.commands import estimate_ngram, perplexity, tokenize
from beyond_perplexity.commands.library_functions import run_function
from beyond_perplexity.contrastive import pairs, partition
from beyond_perplexity.corpus import external, extraction, extraction_options, normalization, tables
from beyond_perplexity.corpus.formats import TEXT_FORMATS
from beyond_perplexity.errors import InputError
from beyond_perplexity.library.compare import compare
from beyond_perplexity.models import likelihoods
from beyond_perplexity.models.kneser_ney import KneserNey
from beyond_perplexity.models.registry import load_model, save_model
from beyond_perplexity.models.sentence_rnn import SentenceRNN
from beyond_perplexity.ngrams import sentence_files
from beyond_perplexity.ngrams.sentence_files import (
    UnknownRule,
    read_grouped_sentences,
    read_sentence_texts,
)
from beyond_perplexity.perplexities import scored_texts
from beyond_perplexity.perplexities.scored_texts import texts_of_split
from beyond_perplexity.perplexities.summary import measure
from beyond_perplexity.planning.run import Run
from beyond_perplexity.planning.validation import validate
from beyond_perplexity.schemas.corpora import RAW
from beyond_perplexity.storage import inputs, shards, table_files
from beyond_perplexity.storage.accounts import Account, accounts, tell
from beyond_perplexity.training.fitting import fit_files
from beyond_perplexity.vocabulary import ClosedVocabulary, build_vocabulary
from scripts import estimate_partition, import_samples, measure_perplexity
from tests.unit.evaluator_oracles import check_refused
from tests.unit.huggingface_models import MAKERS, make_gpt2, make_llama
from tests.unit.small_corpora import put
from tests.unit.test_configuration import load
from tests.unit.test_huggingface import never
from tests.unit.test_library import ARPA
from tests.unit.text_pairs import run_script

MANY, FEW = 20_000, 11
MARKED = "a zebra"
SUFFIXES = {"text": ".txt", "jsonl": ".jsonl", "parquet": ".parquet", "csv": ".csv"}
SUFFIXES |= {"dataset": ".folder"}
FORMS = pytest.mark.parametrize("form", TEXT_FORMATS)


def zstd(content):
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(content)
    return sink.getvalue().to_pybytes()


PACKERS = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress, ".zst": zstd}


def texts_of(count, last=MARKED):
    """Give documents of two words, one of them empty, and the last."""
    return ["a b"] * 5 + [""] + ["a b"] * (count - 7) + [last]


def write(path, texts):
    table = pa.table({"text": texts})
    if path.suffix == ".parquet":
        pq.write_table(table, path)
        return path
    if path.suffix == ".csv":
        pa.csv.write_csv(table, path)
        return path
    if path.suffix == ".folder":
        path.mkdir()
        for number, part in enumerate((table.slice(0, 7), table.slice(7))):
            pq.write_table(part, path / f"part-{number}.parquet")
        return path
    as_json = ".jsonl" in path.suffixes
    lines = [json.dumps({"text": text}) if as_json else text for text in texts]
    content = "\n".join(lines).encode()  # the last line has no end
    path.write_bytes(PACKERS.get(path.suffix, bytes)(content))
    return path


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Give files of many and of few documents, in every format."""
    folder = tmp_path_factory.mktemp("files")
    assert set(SUFFIXES) == set(TEXT_FORMATS)
    return {
        (form, count): write(folder / f"{count}{suffix}", texts_of(count))
        for form, suffix in SUFFIXES.items()
        for count in (MANY, FEW)
    }


@pytest.fixture
def said(capsys):
    """Return what was said of the files that were read, without their names."""

    def lines():
        err = capsys.readouterr().err.replace("\r", "\n").splitlines()
        return [line.partition(": ")[2] for line in err if " read, " in line]

    return lines


@pytest.fixture
def small_batches(monkeypatch):
    held = (external, "BATCH"), (pairs, "_BATCH"), (partition, "POOL")
    for module, name in (*held, (likelihoods, "POOL")):
        monkeypatch.setattr(module, name, 2)


def counts(read, reason=""):
    if not reason:
        return f"{read:,} documents read, all used"
    return f"{read:,} documents read, {read - 1:,} used; left out: 1 ({reason})"


NO_GROUPS = external.GroupField("group", needed=False)
READERS = {
    "cleaned": lambda path: (
        t for part in external.read_cleaned(path, normalization.WHITE_SPACE_ONLY) for t in part
    ),
    "as they are": lambda path: (t for part in external.read_cleaned(path, None) for t in part),
    "grouped": lambda path: (text for text, _ in external.read_grouped(path, None, NO_GROUPS)),
    "sentences": lambda path: read_sentence_texts([path], UnknownRule()),
    "grouped sentences": lambda path: (
        text for text, _ in read_grouped_sentences(path, UnknownRule(), NO_GROUPS)
    ),
}


@FORMS
@pytest.mark.parametrize("reader", READERS)
def test_readers_give_the_last_document(files, form, reader, monkeypatch):
    monkeypatch.setattr(sentence_files, "READ_BYTES", 10_000)
    with accounts() as read:
        found = list(READERS[reader](files[form, MANY]))
    left_out = {"empty line": 1} if "sentences" in reader else {}
    assert found == [text for text in texts_of(MANY) if text or not left_out]
    assert [(one["read"], one["left_out"]) for one in read] == [(MANY, left_out)]


@pytest.mark.parametrize("suffix", inputs.PACKED)
@pytest.mark.parametrize("form", [".txt", ".jsonl"])
def test_packed_files_are_read_to_their_end(tmp_path, form, suffix):
    path = write(tmp_path / f"a{form}{suffix}", texts_of(MANY))
    assert list(READERS["as they are"](path)) == texts_of(MANY)


def test_a_reader_that_is_left_early_and_an_account_that_does_not_agree_are_errors(files):
    with pytest.raises(InputError, match="4,096 documents were read, but it has more"), accounts():
        assert next(external.read_cleaned(files["text", MANY], None))
    account = Account("a.txt", "documents")
    account.read = 8192
    check_refused(r"a\.txt: 8,192 documents were read, but it has 20,000", account.close, MANY)


def test_tokenize_writes_a_line_for_each(monkeypatch, capsysbinary):
    lines = "\n".join(texts_of(MANY))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(lines.encode())))
    tokenize.main(["--tokenizer", "none"])
    shown = capsysbinary.readouterr()
    assert shown.out.decode().splitlines() == texts_of(MANY)
    assert shown.err == b"stdin: 20,000 lines read, all used\n"


@FORMS
def test_compare_reads_both_texts_and_the_training_text(files, form, tmp_path, said):
    suffix = SUFFIXES[form]
    copied = " ".join(f"c{place}" for place in range(9))
    others = texts_of(MANY, last="a b")
    held = {"plain": others, "first": [copied, *others], "training": texts_of(MANY, copied)}
    plain, first, training = (write(tmp_path / f"{k}{suffix}", held[k]) for k in held)
    quick = {"tokenized": True, "permutations": 0, "bootstrap": 0}

    def run(*texts, **options):
        found = compare(*texts, **options)
        tell(found.files)
        return found

    def row(found, tendency, measure):
        table = found.table.set_index(["tendency", "measure"])
        return float(table.loc[(tendency, measure), "value"])

    run(plain, files[form, MANY], **quick)
    assert said() == [counts(MANY, "without a token")] * 2
    pairs = (plain, files[form, MANY]), (files[form, MANY], plain)
    distances = [row(run(*both, **quick), "unigram", "tvd") for both in pairs]
    assert distances == pytest.approx([1 / (2 * (MANY - 1))] * 2)
    found = run(plain, first, training=training, **quick)
    assert row(found, "text", "training_8grams") == 1
    assert said()[-1] == counts(MANY)


@FORMS
def test_programs_without_torch_read_all_sentences(files, form, tmp_path, capsys, said):
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
def test_imported_samples_are_all_documents(files, form, tmp_path, said):
    flags = ["--input", files[form, MANY], "--format", form, "--output", tmp_path / "s.parquet"]
    flags += ["--preprocessing", '{"tokenizer": "none"}']
    run_script(import_samples, *flags)
    found = pq.read_table(tmp_path / "s.parquet")["text"].to_pylist()
    assert (len(found), found[-1]) == (MANY - 1, MARKED)
    assert said() == [counts(MANY, "without a token")]


@pytest.fixture(params=[".parquet", ".csv", ".csv.gz"])
def table(request, tmp_path, monkeypatch):
    """Return a function that writes a table, in each format, for readers of small batches."""
    monkeypatch.setattr(table_files, "BATCH_ROWS", 1000)

    def make(name, frame):
        path = tmp_path / f"{name}{request.param}"
        parquet = request.param == ".parquet"
        frame.to_parquet(path, row_group_size=3000) if parquet else frame.to_csv(path, index=False)
        return str(path)

    return make


def test_estimate_and_compare_perplexity_use_the_last_row(table, tmp_path, said, capsys):
    rows = np.arange(MANY)
    columns = {"instance_id": rows // 1000, "sample_id": rows % 1000, "n_tokens": 1}
    frame = pd.DataFrame({**columns, "log_p": -1.0, "log_q": -1.0})
    quick = ["--no-two-sided", "--options", '{"subsets": 2, "bootstrap": 2}']
    for name in "ab":
        output = str(tmp_path / f"out_{name}.csv")
        run_function("estimate", ["--weights", table(name, frame), *quick, "--output", output])
        frame.loc[MANY - 1, "log_p"] = 5.0
    first, second = (pd.read_csv(tmp_path / f"out_{name}.csv") for name in "ab")
    assert (first["value"] != second["value"]).any()
    assert said() == ["20,000 rows read, all used"] * 2
    frame = pd.DataFrame({"bytes": np.full(MANY, 8), "log_likelihood": -8.0})
    paths = [table("a", frame)]
    frame.loc[MANY - 1, "log_likelihood"] = -8.0 - MANY
    paths.append(table("b", frame))
    run_function("compare_perplexity", paths)
    shown = capsys.readouterr()
    assert "0.1603" in shown.out  # bits per byte: 20,000 nats; an end is a byte
    assert shown.err.count("20,000 rows read, all used") == 2


@pytest.mark.parametrize("suffix", [".tsv", ".csv"])
def test_similarity_scores_the_last_pair(tmp_path, capsys, suffix):
    mark = "\t" if suffix == ".tsv" else ","
    pair_lines = [mark.join(pair) for pair in [("x", "y"), *[("b", "b")] * MANY, ("a", "b")]]
    (tmp_path / f"p{suffix}").write_text("\n".join(pair_lines))
    (tmp_path / "v.txt").write_text("a 1 0\nb 0 1\n")
    flags = ["--evaluator", str(tmp_path / "v.txt"), "--pairs", str(tmp_path / f"p{suffix}")]
    run_function("similarity", [*flags, "--tokenized"])
    shown = capsys.readouterr()
    assert [float(line) for line in shown.out.split()] == pytest.approx([1.0] * MANY + [0.0])
    assert "20,002 lines read, 20,001 used; left out: 1 (header row)" in shown.err


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    vocabulary = ClosedVocabulary(["a", "b"], 1)
    counted = KneserNey.fit([vocabulary.encode(["a b", "b", "a zebra"])], 5, {"order": 2})
    save_model(folder / "counted", counted, vocabulary, {})
    torch.manual_seed(1)
    save_model(folder / "sentence-rnn", SentenceRNN(5, {"size": 4}), vocabulary, {})
    return folder


@FORMS
@pytest.mark.usefixtures("small_batches")
def test_perplexity_and_partition_are_of_all_documents(files, models, form, tmp_path, capsys):
    flags = ["--model", str(models / "counted"), "--text", str(files[form, FEW]), "--tokenized"]
    perplexity.main([*flags, "--per-document", str(tmp_path / "d.parquet"), "--device", "cpu"])
    shown = capsys.readouterr()
    assert json.loads(shown.out)["unknown"] == 1
    assert pq.read_table(tmp_path / "d.parquet")["unknown"].to_pylist() == [0] * 9 + [1]
    assert counts(FEW, "without a token") in shown.err
    flags = ["--model", models / "sentence-rnn", "--text", files[form, FEW], "--tokenized"]
    flags += ["--options", '{"samples": 20}', "--device", "cpu"]
    run_script(estimate_partition, *flags)
    shown = capsys.readouterr()
    found = json.loads(shown.out)
    assert (found["sentences"], found["words"], found["unknown"]) == (10, 20, 1)
    assert found["files"][0]["used"] == 10
    assert counts(FEW, "without a token") in shown.err


@FORMS
@pytest.mark.usefixtures("small_batches")
def test_audits_look_at_the_last_document(files, models, form, tmp_path, capsys):
    plain = write(tmp_path / f"p{SUFFIXES[form]}", texts_of(FEW, last="a b"))

    def numbers(path, *more):
        flags = ["--model", str(models / "counted"), "--text", str(path), "--device", "cpu"]
        run_function("audit", [*flags, "--json", *more])
        shown = capsys.readouterr()
        assert counts(FEW, "without a token") in shown.err
        found = json.loads(shown.out)
        return json.dumps([found["table"], found["summary"]["rosetta"]])

    for more in ((), ("--rosetta", "--documents", "1", "--check", "end")):
        assert numbers(plain, *more) != numbers(files[form, FEW], *more)


@pytest.mark.usefixtures("small_batches")
def test_an_audit_says_how_many_documents_it_drew(files, models, said):
    flags = ["--model", str(models / "counted"), "--text", str(files["text", FEW])]
    run_function("audit", [*flags, "--documents", "3", "--check", "end", "--device", "cpu"])
    drawn = "11 documents read, 3 used; left out: 7 (not drawn for the checks), 1 (without a token)"
    assert said() == [drawn]


@pytest.mark.parametrize("suffix", [".tsv", ".jsonl"])
@pytest.mark.usefixtures("small_batches")
def test_contrast_scores_the_last_pair(models, tmp_path, capsys, suffix):
    sides = [("a b", "b a", "one")] * (FEW - 1) + [("b a", "b b", "last")]
    names = ("good", "bad", "phenomenon")
    rows = [json.dumps(dict(zip(names, row, strict=True))) for row in sides]
    if suffix == ".tsv":
        rows = ["\t".join(row) for row in (names, *sides)]
    (tmp_path / f"p{suffix}").write_text("\n".join(rows))
    flags = ["--model", str(models / "counted"), "--pairs", str(tmp_path / f"p{suffix}")]
    run_function("contrast", [*flags, "--tokenized", "--device", "cpu"])
    shown = capsys.readouterr()
    assert "last: 1 pairs" in shown.out
    line = "12 lines read, 11 used; left out: 1 (header row)"
    assert (line if suffix == ".tsv" else "11 lines read, all used") in shown.err


TEXTS = [f"The Cat  sat,\n\non Mat {n}; isn't\tit “Été”?" for n in range(30)]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """Extract documents with capitals, double blanks and line feeds; return the folder."""
    folder = tmp_path_factory.mktemp("corpus")
    path = put(folder / "texts.jsonl", "".join(json.dumps({"text": text}) + "\n" for text in TEXTS))
    source = {"format": "jsonl", "paths": [str(path)]}
    shares = {"train": 0.5, "valid": 0.2, "test": 0.3}
    outputs = {name: folder / f"{name}.parquet" for name in tables.EXTRACTED}
    outputs["report"] = folder / "extraction.json"
    options = extraction_options.ExtractionOptions.from_config({"source": source, "split": shares})
    extraction.extract(options, outputs, {}, seed=1, workers=1)
    return folder


def fit(corpus, folder, config, vocabulary=None):
    arguments = (folder / "m", folder / "checkpoints", {"language": "en"})
    device = torch.device("cpu")
    fit_files(corpus / "documents.parquet", vocabulary, config, 1, device, *arguments)
    return folder / "m"


@pytest.fixture(params=MAKERS)
def external_model(request, corpus, tmp_path):
    """Bring a model; return its own folder and the one that it was loaded to."""
    MAKERS[request.param](tmp_path / "source")
    config = {"family": "huggingface", "architecture": {"path": str(tmp_path / "source")}}
    return tmp_path / "source", fit(corpus, tmp_path, config)


def their_bits(source, texts):
    """Return the bits of whole documents under a model, by transformers alone."""
    model = AutoModelForCausalLM.from_pretrained(source).eval()
    tokenizer = AutoTokenizer.from_pretrained(source)
    total = 0.0
    for text in texts:
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        row = torch.tensor([[tokenizer.bos_token_id, *ids, tokenizer.eos_token_id]])
        with torch.no_grad():
            logits = model(input_ids=row).logits[0, :-1].double()
        # what no text can have, such as rows without a token, has no probability here
        logits = logits.index_fill(1, torch.tensor(never(model), dtype=torch.int64), -math.inf)
        total += float(functional.cross_entropy(logits, row[0, 1:], reduction="sum"))
    return total / math.log(2)


def score(corpus, model, *raw):
    """Run the script of the workflow; return the summary and the rows of documents."""
    output, rows = model.parent / "p.json", model.parent / "p.parquet"
    documents = f"--documents={corpus / 'documents.parquet'}"
    files = (f"--output={output}", f"--per-document={rows}", "--raw", *raw)
    run_script(measure_perplexity, f"--model={model}", documents, *files)
    return json.loads(output.read_text()), pq.read_table(rows).to_pylist()


def texts_of_split_held(corpus, *, raw):
    documents = pq.read_table(corpus / "documents.parquet").to_pylist()
    before = pq.read_table(corpus / "raw.parquet").to_pylist()
    pairs = zip(documents, before, strict=True)
    return [(held if raw else row)["text"] for row, held in pairs if row["split"] == "test"]


def test_bits_per_byte_of_the_raw_text_are_the_models_own(external_model, corpus):
    source, folder = external_model
    summary, rows = score(corpus, folder, corpus / "raw.parquet")
    raw, cleaned = (texts_of_split_held(corpus, raw=kind) for kind in (True, False))
    assert len(raw) > 3
    assert set(raw) <= set(TEXTS)  # capitals, double blanks and line feeds
    assert not set(raw) & set(cleaned)
    for found, texts, kind in ((summary, raw, "raw"), (summary["cleaned"], cleaned, "cleaned")):
        assert found["text"] == kind
        size = sum(len(text.encode()) for text in texts) + len(texts)  # and </s>
        assert found["n"]["byte"] == size
        assert found["n"]["character"] == sum(map(len, texts)) + len(texts)
        assert found["n"]["word"] == sum(len(text.split()) for text in texts) + len(texts)
        assert found["bits"]["byte"] == pytest.approx(their_bits(source, texts) / size, rel=1e-5)
    assert [row["scored_text"] for row in rows] == ["raw"] * len(raw) + ["cleaned"] * len(raw)
    assert [row["bytes"] for row in rows[: len(raw)]] == [len(text.encode()) for text in raw]
    assert summary["bits"]["byte"] != pytest.approx(summary["cleaned"]["bits"]["byte"], rel=0.01)


def test_the_cleaned_part_is_that_of_the_cleaned_text_alone(corpus, tmp_path):
    make_llama(tmp_path / "source")
    config = {"family": "huggingface", "architecture": {"path": str(tmp_path / "source")}}
    folder = fit(corpus, tmp_path, config)
    both, _ = score(corpus, folder, corpus / "raw.parquet")
    alone, _ = score(corpus, folder)
    assert alone["text"] == "cleaned"
    assert "cleaned" not in alone
    assert both["cleaned"] == {key: alone[key] for key in both["cleaned"]}


def test_raw_text_of_others_is_refused_but_may_be_cut_otherwise(corpus, tmp_path, monkeypatch):
    held = pq.read_table(corpus / "raw.parquet")
    path = str(corpus / "documents.parquet")
    tables = {"fewer": held.slice(0, 10), "none": held.slice(0, 0)}
    tables |= {"order": held.take(list(range(len(held)))[::-1])}
    tables |= {"more": pa.concat_tables([held, held.slice(3, 1)])}
    for name, table in tables.items():
        shards.write_shard(tmp_path / name, RAW, table, {})
        with pytest.raises(InputError, match=f"{name}: does not hold the documents of .*in their"):
            list(texts_of_split(path, "test", raw=str(tmp_path / name)))
    with shards.ShardWriter(tmp_path / "raw.parquet", RAW, {}) as writer:
        for first in range(0, len(held), 4):
            writer.write(held.slice(first, 4))
    for rows in (3, 7, 1000):
        monkeypatch.setattr(scored_texts, "READ", rows)
        found = texts_of_split(path, "test", raw=str(tmp_path / "raw.parquet"))
        assert [item.text for item in found] == texts_of_split_held(corpus, raw=True)


def score_text(capsys, *arguments):
    run_script(perplexity, *arguments)
    return json.loads(capsys.readouterr().out)


def test_a_file_is_scored_as_it_is_by_a_model_that_was_external(external_model, tmp_path, capsys):
    source, folder = external_model
    plain, records = tmp_path / "t.txt", tmp_path / "t.jsonl"
    lines = ["  Two  Blanks, and the End ", "isn't “it”?"]
    plain.write_text("\n".join([lines[0], "   ", lines[1]]) + "\n", encoding="utf-8")
    records.write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS[:3]))
    for path, texts in ((plain, lines), (records, TEXTS[:3])):
        found = score_text(capsys, f"--model={folder}", f"--text={path}")
        size = sum(len(text.encode()) for text in texts) + len(texts)
        assert (found["text"], found["n"]["byte"]) == ("raw", size)
        assert found["bits"]["byte"] == pytest.approx(their_bits(source, texts) / size, rel=1e-5)
    model, vocabulary, _ = load_model(folder)
    for flag, texts in (
        ("--cleaned", ["two blanks , and the end", 'isn \'t " it " ?']),
        ("--tokenized", ["Two Blanks, and the End", "isn't “it”?"]),
    ):
        found = score_text(capsys, f"--model={folder}", f"--text={plain}", flag)
        assert found["text"] == "cleaned"
        assert found["log_prob"] == pytest.approx(measure(model, vocabulary, texts)["log_prob"])


def test_a_model_that_was_trained_here_reads_cleaned_text(corpus, tmp_path, capsys):
    texts = pq.read_table(corpus / "documents.parquet")["text"].to_pylist()
    build_vocabulary([texts], {"kind": "closed"}).save(tmp_path / "words.json")
    make_gpt2(tmp_path / "source")
    training = {"maximum_epochs": 1, "batch_tokens": 256, "warmup_steps": 1}
    further = {"family": "huggingface", "architecture": {"path": str(tmp_path / "source")}}
    folders = [
        fit(corpus, tmp_path / "a", {"family": "trigram"}, tmp_path / "words.json"),
        fit(corpus, tmp_path / "b", {**further, "training": training}),
    ]
    path = put(tmp_path / "t.jsonl", json.dumps({"text": TEXTS[0]}) + "\n")
    for folder in folders:
        found = score_text(capsys, f"--model={folder}", f"--text={path}")
        again = score_text(capsys, f"--model={folder}", f"--text={path}", "--cleaned")
        assert (found, found["text"]) == (again, "cleaned")
        words = 'the cat sat , on mat 0 ; isn \'t it " ete " ?'
        assert found["n"]["word"] == words.count(" ") + 1 + 1  # and </s>


def test_only_a_model_that_is_taken_as_it_is_asks_for_raw_text():
    config = load()
    plain = {"family": "huggingface", "corpus": "wikipedia", "architecture": {"path": "x"}}
    config["models"]["mine"] = {**copy.deepcopy(plain), "training": {}}
    config["models"]["further"] = {**copy.deepcopy(plain), "training": {"maximum_epochs": 1}}
    validate(config)
    models = Run(config).models
    assert models.raw_texts("mine") == ["<results>/corpora/wikipedia/raw.parquet"]
    for name in ("further", "lstm", "trigram"):
        assert models.raw_texts(name) == []

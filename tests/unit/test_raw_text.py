"""Models that were brought are scored on the text before cleaning; others on the cleaned one.

Needs transformers; the models are tiny and random. Oracles: the model's own loss and tokenizer, as
transformers gives them for the string by itself; its length and bytes; the cleaned text scored
alone.
"""

from __future__ import annotations

import copy
import json
import math
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from torch.nn import functional
from transformers import AutoModelForCausalLM, AutoTokenizer

from beyond_perplexity.commands import perplexity as score_file
from beyond_perplexity.corpus.extraction import extract
from beyond_perplexity.corpus.extraction_options import ExtractionOptions
from beyond_perplexity.corpus.tables import Outputs
from beyond_perplexity.errors import InputError
from beyond_perplexity.models.registry import load_model
from beyond_perplexity.perplexities import summary as documents_module
from beyond_perplexity.perplexities.summary import measure, texts_of_split
from beyond_perplexity.planning.run import Run
from beyond_perplexity.planning.validation import validate
from beyond_perplexity.schemas.corpora import RAW
from beyond_perplexity.storage.shards import ShardWriter, write_shard
from beyond_perplexity.training.fitting import fit_files
from beyond_perplexity.vocabulary import build_vocabulary
from scripts import measure_perplexity
from tests.unit.huggingface_models import MAKERS, make_gpt2, make_llama
from tests.unit.test_configuration import load
from tests.unit.test_huggingface import never

TEXTS = [f"The Cat  sat,\n\non Mat {n}; isn't\tit “Été”?" for n in range(30)]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Extract documents with capitals, double blanks and line feeds; return the folder."""
    folder = tmp_path_factory.mktemp("corpus")
    path = folder / "texts.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS))
    source = {"format": "jsonl", "paths": [str(path)]}
    shares = {"train": 0.5, "valid": 0.2, "test": 0.3}
    names = ("documents", "mentions", "knowledge_graph", "aliases", "trees", "raw")
    outputs = Outputs(*(folder / f"{name}.parquet" for name in names), folder / "extraction.json")
    options = ExtractionOptions.from_config({"source": source, "split": shares})
    extract(options, outputs, {}, seed=1, workers=1)
    return folder


def fit(corpus: Path, folder: Path, config: dict[str, Any], vocabulary: Path | None = None) -> Path:
    """Train or bring a model; return its folder."""
    documents, device = corpus / "documents.parquet", torch.device("cpu")
    cleaning = {"language": "en"}
    arguments = (folder / "m", folder / "checkpoints", cleaning)
    fit_files(documents, vocabulary, config, 1, device, *arguments)
    return folder / "m"


@pytest.fixture(params=MAKERS)
def brought(request: pytest.FixtureRequest, corpus: Path, tmp_path: Path) -> tuple[Path, Path]:
    """Bring a model; return its own folder and the one that it was brought to."""
    MAKERS[request.param](tmp_path / "source")
    config = {"family": "huggingface", "architecture": {"path": str(tmp_path / "source")}}
    return tmp_path / "source", fit(corpus, tmp_path, config)


def their_bits(source: Path, texts: list[str]) -> float:
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


def run(monkeypatch: pytest.MonkeyPatch, script: Any, *arguments: object) -> None:
    monkeypatch.setattr(sys, "argv", ["script", *map(str, arguments)])
    script.main()


def score(
    monkeypatch: pytest.MonkeyPatch, corpus: Path, model: Path, *raw: Path
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Run the script of the workflow; return the summary and the rows of documents."""
    output, rows = model.parent / "p.json", model.parent / "p.parquet"
    documents = f"--documents={corpus / 'documents.parquet'}"
    files = (f"--output={output}", f"--per-document={rows}", "--raw", *raw)
    run(monkeypatch, measure_perplexity, f"--model={model}", documents, *files)
    return json.loads(output.read_text()), pq.read_table(rows).to_pylist()


def texts_of(corpus: Path, *, raw: bool) -> list[str]:
    documents = pq.read_table(corpus / "documents.parquet").to_pylist()
    before = pq.read_table(corpus / "raw.parquet").to_pylist()
    return [
        (held if raw else row)["text"]
        for row, held in zip(documents, before, strict=True)
        if row["split"] == "test"
    ]


def test_bits_per_byte_of_the_raw_text_are_the_models_own(
    brought: tuple[Path, Path], corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, folder = brought
    summary, rows = score(monkeypatch, corpus, folder, corpus / "raw.parquet")
    raw, cleaned = (texts_of(corpus, raw=kind) for kind in (True, False))
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


def test_the_cleaned_part_is_that_of_the_cleaned_text_alone(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_llama(tmp_path / "source")
    config = {"family": "huggingface", "architecture": {"path": str(tmp_path / "source")}}
    folder = fit(corpus, tmp_path, config)
    both, _ = score(monkeypatch, corpus, folder, corpus / "raw.parquet")
    alone, _ = score(monkeypatch, corpus, folder)
    assert alone["text"] == "cleaned"
    assert "cleaned" not in alone
    assert both["cleaned"] == {key: alone[key] for key in both["cleaned"]}


def test_raw_text_of_other_documents_is_refused(corpus: Path, tmp_path: Path) -> None:
    held = pq.read_table(corpus / "raw.parquet")
    documents = str(corpus / "documents.parquet")
    for name, table in (
        ("fewer", held.slice(0, 10)),
        ("order", held.take(list(range(len(held)))[::-1])),
        ("none", held.slice(0, 0)),
        ("more", pa.concat_tables([held, held.slice(3, 1)])),
    ):
        write_shard(tmp_path / name, RAW, table, {})
        with pytest.raises(InputError, match=f"{name}: does not hold the documents of .*in their"):
            list(texts_of_split(documents, "test", raw=str(tmp_path / name)))


def test_raw_text_may_be_cut_into_other_row_groups(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = pq.read_table(corpus / "raw.parquet")
    with ShardWriter(tmp_path / "raw.parquet", RAW, {}) as writer:
        for first in range(0, len(held), 4):
            writer.write(held.slice(first, 4))
    documents = str(corpus / "documents.parquet")
    for rows in (3, 7, 1000):
        monkeypatch.setattr(documents_module, "READ", rows)
        found = texts_of_split(documents, "test", raw=str(tmp_path / "raw.parquet"))
        assert [item.text for item in found] == texts_of(corpus, raw=True)


def score_text(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: object
) -> dict[str, Any]:
    """Run the command that users call."""
    run(monkeypatch, score_file, *arguments)
    printed: dict[str, Any] = json.loads(capsys.readouterr().out)
    return printed


def test_a_file_is_scored_as_it_is_by_a_model_that_was_brought(
    brought: tuple[Path, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    source, folder = brought
    plain, records = tmp_path / "t.txt", tmp_path / "t.jsonl"
    lines = ["  Two  Blanks, and the End ", "isn't “it”?"]
    plain.write_text("\n".join([lines[0], "   ", lines[1]]) + "\n", encoding="utf-8")
    records.write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS[:3]))
    for path, texts in ((plain, lines), (records, TEXTS[:3])):
        found = score_text(monkeypatch, capsys, f"--model={folder}", f"--text={path}")
        size = sum(len(text.encode()) for text in texts) + len(texts)
        assert (found["text"], found["n"]["byte"]) == ("raw", size)
        assert found["bits"]["byte"] == pytest.approx(their_bits(source, texts) / size, rel=1e-5)
    model, vocabulary, _ = load_model(folder)
    for flag, texts in (
        ("--cleaned", ["two blanks , and the end", 'isn \'t " it " ?']),
        ("--tokenized", ["Two Blanks, and the End", "isn't “it”?"]),
    ):
        found = score_text(monkeypatch, capsys, f"--model={folder}", f"--text={plain}", flag)
        assert found["text"] == "cleaned"
        assert found["log_prob"] == pytest.approx(measure(model, vocabulary, texts)["log_prob"])


def test_a_model_that_was_trained_here_reads_cleaned_text(
    corpus: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    texts = pq.read_table(corpus / "documents.parquet")["text"].to_pylist()
    build_vocabulary([texts], {"kind": "closed"}).save(tmp_path / "words.json")
    make_gpt2(tmp_path / "source")
    training = {"maximum_epochs": 1, "batch_tokens": 256, "warmup_steps": 1}
    further = {"family": "huggingface", "architecture": {"path": str(tmp_path / "source")}}
    folders = [
        fit(corpus, tmp_path / "a", {"family": "trigram"}, tmp_path / "words.json"),
        fit(corpus, tmp_path / "b", {**further, "training": training}),
    ]
    path = tmp_path / "t.jsonl"
    path.write_text(json.dumps({"text": TEXTS[0]}) + "\n")
    for folder in folders:
        found = score_text(monkeypatch, capsys, f"--model={folder}", f"--text={path}")
        again = score_text(monkeypatch, capsys, f"--model={folder}", f"--text={path}", "--cleaned")
        assert found == again
        assert found["text"] == "cleaned"
        words = 'the cat sat , on mat 0 ; isn \'t it " ete " ?'
        assert found["n"]["word"] == words.count(" ") + 1 + 1  # and </s>


def test_only_a_model_that_is_taken_as_it_is_asks_for_raw_text() -> None:
    config = load()
    plain = {"family": "huggingface", "corpus": "wikipedia", "architecture": {"path": "x"}}
    config["models"]["mine"] = {**copy.deepcopy(plain), "training": {}}
    config["models"]["further"] = {**copy.deepcopy(plain), "training": {"maximum_epochs": 1}}
    validate(config)
    models = Run(config).models
    assert models.raw_texts("mine") == ["<results>/corpora/wikipedia/raw.parquet"]
    for name in ("further", "lstm", "trigram"):
        assert models.raw_texts(name) == []

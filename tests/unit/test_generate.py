"""The generate step: shards of samples.

Oracles: one shard against several, and the decoding package's documents. Needs nothing beyond the
package; the model folder is written by the test.
"""

from __future__ import annotations

import json

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

from beyond_perplexity.decoding.generation import generate
from beyond_perplexity.decoding.options import parse_decoding
from beyond_perplexity.errors import InputError
from beyond_perplexity.models.kneser_ney import KneserNey
from beyond_perplexity.models.registry import load_model, save_model
from beyond_perplexity.models.trigram import Trigram
from beyond_perplexity.schemas.corpora import TEXT_SAMPLES
from beyond_perplexity.storage.provenance import content_hash
from beyond_perplexity.storage.shards import check_schema, read_record
from beyond_perplexity.vocabulary import ClosedVocabulary
from scripts import generate as script
from tests.unit.small_models import make
from tests.unit.threads import set_threads

WORDS = [f"w{index}" for index in range(20)]


@pytest.fixture(scope="module", params=["lstm", "trigram", "kneser-ney"])
def folder(request, tmp_path_factory):
    vocabulary = ClosedVocabulary(WORDS, 3)
    model = make("lstm", {"embedding_size": 32, "hidden_size": 32}, vocabulary.size)
    if request.param != "lstm":
        generator = np.random.default_rng(0)
        texts = [" ".join(generator.choice(WORDS[:6], generator.integers(9))) for _ in range(99)]
        counted = Trigram if request.param == "trigram" else KneserNey
        model = counted.fit([vocabulary.encode(texts)], vocabulary.size)
    path = tmp_path_factory.mktemp("model")
    save_model(path, model, vocabulary, {})
    return path


def run(monkeypatch, folder, output, **options):
    flags = {
        "model": folder,
        "decoding": json.dumps({"kind": "nucleus"}),
        "name": "m/nucleus",
        "seed": 3,
        "count": 50,
        "maximum-length": 30,
        "device": "cpu",
        "output": output,
        **{key.replace("_", "-"): value for key, value in options.items()},
    }
    arguments = [str(part) for key, value in flags.items() for part in (f"--{key}", value)]
    monkeypatch.setattr("sys.argv", ["generate", *arguments])
    with set_threads(torch.get_num_threads()):  # the command sets its own
        script.main()


def test_shards_join_to_the_whole(folder, tmp_path, monkeypatch):
    run(monkeypatch, folder, tmp_path / "whole.parquet")
    whole = pq.read_table(tmp_path / "whole.parquet")
    assert whole["doc_id"].to_pylist() == list(range(50))
    rows = []
    for index, (first, count) in enumerate([(0, 13), (13, 30), (43, 7)]):
        output = tmp_path / f"{index}.parquet"
        run(monkeypatch, folder, output, first=first, count=count, batch_size=index + 1)
        rows += pq.read_table(output).to_pylist()
    assert rows == whole.to_pylist()


def test_shard_has_schema_record_and_the_documents_of_the_engine(folder, tmp_path, monkeypatch):
    output = tmp_path / "shard.parquet"
    values = {"kind": "beam", "size": 2}
    run(monkeypatch, folder, output, decoding=json.dumps(values), first=5, count=9)
    check_schema(output, TEXT_SAMPLES)
    record = read_record(output)
    assert record["checkpoint_hash"] == content_hash(folder / "model.safetensors")
    assert record["seed"] == 3
    assert record["precision"] == "float32"
    model, vocabulary, _ = load_model(folder)
    how = {"seed": 3, "purpose": "generate/m/nucleus", "first": 5, "count": 9}
    documents = generate(model, parse_decoding(values), maximum_length=30, **how)
    for row, document in zip(pq.read_table(output).to_pylist(), documents, strict=True):
        assert row["doc_id"] == document.doc_id
        assert row["text"] == vocabulary.decode([document.tokens])[0]
        assert row["n_tokens"] == len(document.tokens)
        assert row["log_prob"] == document.log_prob
        assert row["log_prob_decoding"] is None
        assert row["finished"] == document.finished


def test_precision_is_recorded_and_memory_changes_nothing(folder, tmp_path, monkeypatch):
    run(monkeypatch, folder, tmp_path / "a.parquet", precision="bfloat16")
    run(monkeypatch, folder, tmp_path / "b.parquet", precision="bfloat16", memory_mb=1)
    first, second = (tmp_path / f"{name}.parquet" for name in "ab")
    assert read_record(first)["precision"] == "bfloat16"
    assert pq.read_table(first).equals(pq.read_table(second))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"decoding": "{"}, "is no JSON"),
        ({"decoding": '{"kind": "nucleus", "n": 1}'}, r"--decoding\.n: unknown key"),
        ({"batch_size": "many"}, "batch size: is 'many'"),
        ({"maximum_length": 0}, "--maximum-length: is 0, expected at least 1"),
        ({"precision": "half"}, "precision: is 'half'"),
        ({"first": -1}, "--first: is -1, expected at least 0"),
        ({"first": 2**63 - 1}, "--first: is 9223372036854775807, expected at most"),
    ],
)
def test_wrong_flags_are_named_and_nothing_is_written(
    folder, tmp_path, monkeypatch, options, message
):
    with pytest.raises(InputError, match=message):
        run(monkeypatch, folder, tmp_path / "x.parquet", **options)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"first": -1}, "first, count: are -1 and 2"),
        ({"count": -1}, "first, count: are 0 and -1"),
        ({"maximum_length": 0}, "maximum length: is 0"),
    ],
)
def test_a_caller_of_the_library_is_told_the_same(folder, changed, message):
    numbers = {"seed": 1, "first": 0, "count": 2, "maximum_length": 3} | changed
    model, options = load_model(folder)[0], parse_decoding({"kind": "ancestral"}, "decoding")
    with pytest.raises(InputError, match=message):
        list(generate(model, options, purpose="x", **numbers))

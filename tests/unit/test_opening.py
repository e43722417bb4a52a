"""Models that a user names: folders of a run and of Hugging Face, names on the hub, and none.

Needs transformers (extra hf). Oracle: the sum of the log-probabilities that Hugging Face's own
forward pass gives the same text, token by token; for pairs, the difference of two such sums.
"""

from __future__ import annotations

import json

import pyarrow.parquet as pq
import pytest
import torch

from beyond_perplexity.commands import contrast, perplexity
from beyond_perplexity.errors import InputError
from beyond_perplexity.models import registry as opening
from beyond_perplexity.models.registry import open_any, open_scorer
from beyond_perplexity.storage.shards import read_record
from tests.unit.huggingface_models import CONTEXT, END, MAKERS, TEXTS

transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module", params=list(MAKERS))
def folder(request, tmp_path_factory):
    made = tmp_path_factory.mktemp(request.param) / "model"
    MAKERS[request.param](made)
    return made


@torch.no_grad()
def log_likelihood(folder, text):
    """Score a short text, its end included, by the library alone; return tokens too."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    whole = torch.tensor([[tokenizer.bos_token_id, *ids, tokenizer.eos_token_id]])
    assert whole.shape[1] <= CONTEXT
    logits = model(whole[:, :-1]).logits[0].double()
    # what no text can hold has no probability: special tokens but the end, rows without a token
    special = set(tokenizer.all_special_ids) - {tokenizer.eos_token_id, tokenizer.unk_token_id}
    none = [*special, *range(len(tokenizer), logits.shape[1])]
    logits[:, none] = -torch.inf
    found = logits.log_softmax(-1).gather(1, whole[0, 1:, None])
    return float(found.sum()), len(ids) + 1


def run(monkeypatch, command, *arguments):
    monkeypatch.setattr("sys.argv", ["x", *map(str, arguments)])
    command.main()


def test_perplexity_of_a_folder_of_hugging_face(folder, tmp_path, monkeypatch, capsys):
    text, rows = tmp_path / "texts.jsonl", tmp_path / "rows.parquet"
    text.write_text("".join(json.dumps({"body": line}) + "\n" for line in TEXTS))
    given = ["--model", folder, "--text", text, "--field", "body", "--per-document", rows]
    run(monkeypatch, perplexity, *given)
    found = json.loads(capsys.readouterr().out)
    expected = [log_likelihood(folder, line) for line in TEXTS]
    assert found["text"] == "raw"
    assert found["n"]["token"] == sum(count for _, count in expected)
    assert found["log_prob"] == pytest.approx(sum(value for value, _ in expected), rel=1e-5)
    each = pq.read_table(rows).to_pylist()
    assert [row["log_likelihood"] for row in each] == pytest.approx(
        [value for value, _ in expected], rel=1e-5
    )
    record = read_record(rows)
    assert list(record["options"]["source"]["weights"]) == ["model.safetensors"]
    assert record["checkpoint_hash"] is None


def test_pairs_under_a_folder_of_hugging_face(folder, tmp_path, monkeypatch):
    pairs, output = tmp_path / "pairs.jsonl", tmp_path / "pairs.parquet"
    good, bad = TEXTS[0], TEXTS[0].replace("sat on", "on sat")
    pairs.write_text(json.dumps({"good": good, "bad": bad}) + "\n")
    run(monkeypatch, contrast, "--model", folder, "--pairs", pairs, "--output", output)
    (row,) = pq.read_table(output).to_pylist()
    difference = log_likelihood(folder, good)[0] - log_likelihood(folder, bad)[0]
    assert row["contrastive_entropy"] == pytest.approx(difference, rel=1e-4, abs=1e-4)
    assert row["accuracy"] == float(difference > 0)


def test_a_name_is_looked_for_on_the_hub(folder, monkeypatch):
    from beyond_perplexity.models import huggingface_bring as bring

    asked = []

    def download(name, **_):
        asked.append(name)
        return str(folder)

    monkeypatch.setattr(bring.huggingface_hub, "snapshot_download", download)
    model, opened = open_scorer("some-one/tiny.model")
    assert asked == ["some-one/tiny.model"]
    assert opened.description["source"]["path"] == "some-one/tiny.model"
    assert model is opened.model
    assert not model.training


def test_what_cannot_be_opened_is_told_in_a_line(folder, tmp_path, monkeypatch):
    def fail(*_, **__):
        raise OSError("no network\nand more")

    monkeypatch.setattr("huggingface_hub.snapshot_download", fail)
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "config.json").write_text("{}")
    for name, message in (
        (tmp_path / "no", "no such folder; give a model's folder or its name on the hub"),
        ("./no", "no such folder"),
        (tmp_path / "file", "is a file; give the folder of a model"),
        (tmp_path / "empty", r"has no model\.json and no config\.json of Hugging Face"),
        (tmp_path / "config", "has no weights"),
        ("some/name", "^'some/name' is no folder, and no model of that name .*no network.*check"),
    ):
        for read in (open_any, open_scorer):
            with pytest.raises(InputError, match=message) as caught:
                read(str(name))
            assert "\n" not in str(caught.value)
    text = tmp_path / "a.txt"
    text.write_text("a\n")
    with pytest.raises(InputError, match="cleaned: this model has no corpus"):
        run(monkeypatch, perplexity, "--model", folder, "--text", text, "--cleaned")
    assert opening.is_foreign(str(folder))
    assert END not in str(caught.value)

"""Models behind a server: numbers, windows, resuming, what is refused.

Oracles: the package's own scores of the same model from its folder, transformers' logits, a model
whose predictions depend on the last token alone, and the requests that a fake server counted.
"""

import errno
import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import nullcontext, suppress
from itertools import product
from types import SimpleNamespace

import httpx2
import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from tokenizers import Tokenizer
from transformers import GPT2LMHeadModel

import beyond_perplexity
from beyond_perplexity.auditing.checks import SERVED_CHECKS
from beyond_perplexity.commands.perplexity import main as command
from beyond_perplexity.errors import InputError
from beyond_perplexity.models.served import client
from beyond_perplexity.models.served.client import api_address, seconds_asked
from beyond_perplexity.models.served.journal import Journal
from beyond_perplexity.models.served.protocols import KEY, PROTOCOLS, Prompted
from beyond_perplexity.models.served.token_texts import text_scores, token_bytes, token_starts
from beyond_perplexity.models.token_scores import TokenScores
from beyond_perplexity.signature import parts_of
from beyond_perplexity.storage.fingerprint import ROOT
from tests.unit.evaluator_oracles import check_refused
from tests.unit.fake_server import FakeServer
from tests.unit.huggingface_models import CONTEXT, END, make_gpt2

TEXTS = [
    "the cat sat on the mat , and the dog sat on the log .",
    "a rose is a rose",
    "Café au lait 😀 \u4e2d\u6587",
    "the lowest of the low",
]
LONG = " ".join(TEXTS[:2] * 8) + " \u4e2d\u6587\u4e2d\u6587 😀"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("gpt2")
    make_gpt2(path)
    return str(path)


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Wait for milliseconds where a user waits for seconds."""
    monkeypatch.setattr(client.Client.__init__, "__kwdefaults__",
                        {"pause": 0.001, "patience": 0.3, "repair": 0.05})  # fmt: skip
    for name in (KEY, "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)


def rows_of(found):
    return found.table_of("documents").drop(columns="scored_text").to_dict("list")


SOUND = (
    ("vllm", {}, {"end": END}),
    ("vllm", {"echoes": False}, {"end": END}),
    ("openai", {"begins": 0}, {"beginning": END, "end": END}),
    ("vllm", {"begins": 0}, {"beginning": END, "end": END, "concurrency": 1}),
    ("vllm", {"begins": 0, "echoes": False}, {"beginning": END, "end": END}),
)


@pytest.mark.parametrize(("style", "server", "options"), SOUND)
def test_a_served_model_has_the_numbers_of_its_folder(style, server, options, folder):
    own = beyond_perplexity.perplexity(folder, TEXTS, device="cpu")
    with FakeServer(folder, style, **server) as fake:
        found = beyond_perplexity.perplexity(url=fake.url, texts=TEXTS, **options)
    protocol = "completions" if server.get("echoes", True) else "prompt_logprobs"
    assert found.summary["served"]["protocol"] == protocol
    assert found.table["unit"].tolist() == own.table["unit"].tolist()
    for name in ("perplexity", "bits", "n", "perplexity_low", "perplexity_high"):
        assert found.table[name].tolist() == pytest.approx(own.table[name].tolist(), nan_ok=True)
    scores = rows_of(found).pop("log_likelihood"), rows_of(own).pop("log_likelihood")
    assert scores[0] == pytest.approx(scores[1], abs=1e-5)
    rest = [
        {k: v for k, v in rows_of(one).items() if "likelihood" not in k} for one in (found, own)
    ]
    assert rest[0] == rest[1]
    one, two = (parts_of(held.summary["signature"]) for held in (found, own))
    assert one == two
    beyond_perplexity.compare_perplexity({"served": found, "own": own})


def logits_of(folder, ids):
    model = GPT2LMHeadModel.from_pretrained(folder).eval()
    with torch.no_grad():
        return model(torch.tensor([ids])).logits[0].double().log_softmax(-1).numpy()


UNSCORED = [("llama-cpp-python", 1, True), ("openai", 0, True), ("vllm", 0, True)]
UNSCORED += [("vllm", 0, False)]


@pytest.mark.parametrize(("style", "begins", "echoes"), UNSCORED)
def test_a_first_token_that_is_not_scored_is_no_byte(style, begins, echoes, folder):
    with FakeServer(folder, style, begins=begins, echoes=echoes) as fake:
        found = beyond_perplexity.perplexity(url=fake.url, texts=[*TEXTS, "x"])
    tokenizer = Tokenizer.from_file(f"{folder}/tokenizer.json")
    total = size = 0
    for text in TEXTS:
        encoded = tokenizer.encode(text, add_special_tokens=False)
        ids, known = [0] * begins + encoded.ids, begins + 1
        rows = logits_of(folder, ids)
        total += sum(rows[i - 1][ids[i]] for i in range(known, len(ids)))
        first = bytes_of_first(encoded)
        size += len(text.encode()) - first
    summary = found.summary
    assert summary["log_prob"] == pytest.approx(total, abs=1e-4)
    assert (summary["n"]["byte"], summary["documents"]) == (size, len(TEXTS))
    assert summary["bits"]["byte"] == pytest.approx(-total / size / np.log(2))
    assert parts_of(summary["signature"])["first"] == "no"
    assert parts_of(summary["signature"])["eos"] == "no"
    (left,) = [one["left_out"] for one in found.files]
    assert left == {"one token, which the server does not score": 1}
    own = beyond_perplexity.perplexity(folder, [*TEXTS, "x"], no_count_eos=True)
    check_refused("differ in first", beyond_perplexity.compare_perplexity,
                  {"served": found, "own": own})  # fmt: skip


def bytes_of_first(encoded):
    """Return the bytes of the first token, a letter of GPT-2 each."""
    return len(encoded.tokens[0])


def bigram(folder, target):
    """Save the model without positions and attention: it sees the last token alone."""
    model = GPT2LMHeadModel.from_pretrained(folder)
    with torch.no_grad():
        model.transformer.wpe.weight.zero_()
        for block in model.transformer.h:
            block.attn.c_proj.weight.zero_()
            block.attn.c_proj.bias.zero_()
    model.save_pretrained(target)
    Tokenizer.from_file(f"{folder}/tokenizer.json").save(f"{target}/tokenizer.json")


@pytest.mark.parametrize("echoes", [True, False])
def test_windows_by_any_protocol(echoes, folder, tmp_path):
    check_windows("vllm", folder, tmp_path, echoes)


@pytest.mark.parametrize("style", ["openai", "llama-cpp-python"])
def test_windows_of_strings(style, folder, tmp_path):
    check_windows(style, folder, tmp_path, True)


def check_windows(style, folder, tmp_path, echoes):
    """Each token of a long document is scored once."""
    bigram(folder, str(tmp_path))
    ids = Tokenizer.from_file(f"{folder}/tokenizer.json").encode(LONG).ids
    assert len(ids) > 2 * CONTEXT
    rows = logits_of(str(tmp_path), [0])
    pairs = {before: logits_of(str(tmp_path), [before])[0] for before in {0, *ids}}
    expected = [pairs[one][two] for one, two in zip([0, *ids], [*ids, 0], strict=True)]
    assert rows[0] == pytest.approx(pairs[0])
    begins = int(style != "openai")
    with FakeServer(str(tmp_path), style, begins=begins, echoes=echoes) as fake:
        given = {"url": fake.url, "texts": [LONG, "the cat"], "concurrency": 2}
        found = [beyond_perplexity.perplexity(**given)]
        for context, stride in ((None, None), (32, 20), (24, 24), (40, 30)):
            sizes = {"context_length": context, "stride": stride}
            found.append(beyond_perplexity.perplexity(**given, **sizes))
    for one in found:
        row = one.table_of("documents").iloc[0]
        first = int(not one.summary["served"]["first_token_scored"])
        assert row["tokens"] == len(ids) - first
        assert row["log_likelihood"] == pytest.approx(sum(expected[first:-1]), abs=1e-3)


def test_windows_by_ids_are_those_of_local_models(folder):
    sizes = {"context_length": 30, "stride": 7}
    own = beyond_perplexity.perplexity(folder, [LONG, *TEXTS], device="cpu", **sizes)
    with FakeServer(folder, "vllm") as fake:
        given = {"url": fake.url, "texts": [LONG, *TEXTS], "end": END}
        found = beyond_perplexity.perplexity(**given, **sizes)
        check_refused("expected 1 to 62", beyond_perplexity.perplexity, **given, context_length=63)
    scores = [rows_of(one)["log_likelihood"] for one in (found, own)]
    assert scores[0] == pytest.approx(scores[1], abs=1e-4)


def test_bytes_of_tokens_by_whatever_a_server_shows():
    text = "é\u201c中 x"
    exact = ["bytes:\\xc3", "bytes:\\xa9", "\u201c", "bytes:\\xe4\\xb8", "bytes:\\xad", " x"]
    assert token_starts(text.encode(), exact).tolist() == [0, 1, 2, 5, 7, 8]
    parts = ["bytes:a \\xc3", "<0xA9>", "bytes:", "b", "<s>"]
    assert [token_bytes(one) for one in parts] == [b"a \xc3", b"\xa9", b"bytes:", b"b", b"<s>"]
    for unknown in ("\ufffd", ""):
        shown = [unknown, unknown, "\u201c", unknown, unknown, " x"]
        assert token_starts(text.encode(), shown).tolist() == [0, 0, 2, 5, 5, 8]
    shown = ["", "", "\u201c", "", "", " x"]
    offsets = {(5, 5, 6, 7, 7, 8): [0, 0, 2, 5, 5, 8], (5, 6, 7, 8, 9, 10): [0, 0, 2, 5, 5, 8]}
    for held, expected in offsets.items():  # from the fifth character on; the last are of lengths
        assert token_starts(text.encode(), shown, held).tolist() == expected
    two = "\u4e2d\u6587"  # six tokens of a byte, by the characters before each
    assert token_starts(two.encode(), [""] * 6, (0, 0, 0, 1, 1, 1)).tolist() == [0] * 3 + [3] * 3
    assert token_starts(b"the the", ["", " the"]).tolist() == [0, 3]
    assert token_starts("éé".encode(), ["\ufffd", "\ufffd", "é"]).tolist() == [0, 0, 2]
    for wrong in (["The"], ["the", "the"], ["the", " the", "x"], ["th"], ["\ufffd", "z"]):
        assert token_starts(b"the the", wrong) is None
    said = Prompted(["<s>", " the", " cat", "</s>", " x"], [np.nan, -1, -2, -3, -4], (), 1)
    found = text_scores(said, "the cat", after="</s>")
    assert (found.log_probs.tolist(), found.starts.tolist()) == ([-1, -2, -3], [0, 3, 7])
    assert (found.tokens, found.ended) == ([" the", " cat", "</s>"], True)
    check_refused("end: the server does not read", text_scores, said, "the cat", after="<e>")
    lacking = said._replace(log_probs=[np.nan, -1, np.nan, -3, -4])
    words = "no log-probability of token 2"
    check_refused(words, text_scores, lacking, "the cat", after="</s>")
    check_refused("do not join", text_scores, said, "the dog", after="</s>")


WRONG = [
    ({"key": "sk-secret"}, "wants a key; set OPENAI_API_KEY", {}),
    ({"pages": True}, "answers HTML; give the address of its API", {}),
    ({"name": "other"}, "served_model: .* has no 'tiny'; it has other", {"served_model": "tiny"}),
    ({"faults": ("generated",)}, r"generates alone.*ggml-org/llama\.cpp#27174", {}),
    ({"faults": ("shifted",)}, "shifted by one, or of another distribution", {}),
    ({"faults": ("lower",)}, "do not join to the text", {}),
    ({"busy": 9**9}, r"answers 429 \(slow down\) after \d seconds of waiting", {}),
    ({"lasts": 7}, "does not answer", {}),
    ({}, "beginning: the server does not score the token after it", {"beginning": END}),
    ({}, "end: the server does not read 'the dog' as one token", {"end": "the dog"}),
]


@pytest.mark.parametrize(("server", "words", "options"), WRONG)
def test_a_server_that_is_wrong_is_one_line(server, words, options, folder, capfd):
    with FakeServer(folder, **server) as fake:
        given = {"url": fake.url, "texts": TEXTS, "concurrency": 1, **options}
        check_refused(words, beyond_perplexity.perplexity, **given)
    said = capfd.readouterr().err
    assert "Traceback" not in said
    assert ("1 finished documents are lost; name a file of scores" in said) == ("lasts" in server)


def test_a_key_is_sent_and_never_shown(folder, tmp_path, monkeypatch, capfd):
    key = "sk-verysecret"
    monkeypatch.setenv(KEY, f"{key}\n")
    (tmp_path / "a.txt").write_text("\n".join(TEXTS))
    given = [
        "--text",
        str(tmp_path / "a.txt"),
        "--per-document",
        str(tmp_path / "a.parquet"),
        "--concurrency",
        "1",
    ]
    with FakeServer(folder, key=key, busy=2) as fake:
        command(["--url", fake.url, *given])
        (tmp_path / "a.parquet").rename(tmp_path / "b.parquet")
        fake.lasts = 2 * (fake.requests - fake.busy)  # all but two documents
        with pytest.raises(InputError) as raised:
            command(["--url", fake.url, *given])
    assert (tmp_path / "a.parquet.journal").exists()
    with FakeServer(folder, key="another") as fake, pytest.raises(InputError) as refused:
        command(["--url", fake.url, *given])
    assert "refuses the key in OPENAI_API_KEY" in str(refused.value)
    said = "".join(capfd.readouterr()) + str(raised.value) + str(refused.value)
    for path in tmp_path.iterdir():
        assert key.encode() not in path.read_bytes()
    assert key not in said
    assert "answers 429 (slow down); it is asked again" in said
    monkeypatch.setenv(KEY, "sk-é")
    check_refused("has characters that no key has", command, ["--url", "h", *given])


def test_a_server_that_is_slow_and_then_broken_is_asked_again(folder, monkeypatch):
    """An answer takes longer than a broken server is waited for."""
    with FakeServer(folder, latency=0.1, busy=2, refusal=502) as fake:
        found = beyond_perplexity.perplexity(url=fake.url, texts=TEXTS[:1])
    assert found.summary["documents"] == 1
    monkeypatch.setattr(client, "_TIMEOUT", httpx2.Timeout(0.3))
    with FakeServer(folder, latency=2.0) as fake:
        given = {"url": fake.url, "texts": TEXTS[:1]}
        check_refused(r"ReadTimeout.* after 0 seconds", beyond_perplexity.perplexity, **given)


def test_addresses_and_waits():
    assert api_address("localhost:8000") == "http://localhost:8000/v1"
    assert api_address("https://h.org/api/v1/") == "https://h.org/api/v1"
    for wrong in ("http://", "ftp://h", "http://a:b@h", "http://h/v1?key=x"):
        with pytest.raises(InputError, match=r"^url: ") as raised:
            api_address(wrong)
        assert "key=x" not in str(raised.value)
    assert seconds_asked({"retry-after": "7"}) == 7
    assert seconds_asked({"retry-after": "Fri, 31 Dec 2100 23:59:59 GMT"}) > 1e9
    assert seconds_asked({"retry-after": "soon"}) == seconds_asked({}) == 0


def test_a_scoring_that_dies_goes_on_with_what_it_has(folder, tmp_path):
    texts = [f"{text} {number}" for number in range(6) for text in TEXTS]
    whole, path = tmp_path / "whole.parquet", tmp_path / "a.parquet"
    with FakeServer(folder) as fake:
        given = {"url": fake.url, "texts": texts, "concurrency": 1}
        beyond_perplexity.perplexity(**given, per_document=whole)
        probing = fake.requests - len(texts)
        for last in (9, 8, None):
            before = fake.requests
            fake.lasts = before + probing + last if last else np.inf
            died = pytest.raises(InputError, match="does not answer") if last else nullcontext()
            with died:
                beyond_perplexity.perplexity(**given, per_document=path)
            if last:
                with open(f"{path}.journal", "ab") as journal:  # killed in the midst of a record
                    journal.write(b"0123456789abcdef half a rec")
                assert not path.exists()
                time.sleep(0.2)  # what was cancelled may still be on its way
        sent = [body["prompt"] for body in fake.asked if body["prompt"] in texts]
    assert max(map(sent[len(texts) :].count, texts)) == 1  # each once, in three calls together
    assert sorted(sent[len(texts) :]) == sorted(texts)
    assert not os.path.exists(f"{path}.journal")
    assert not [name for name in os.listdir(tmp_path) if "partial" in name]
    tables = [pq.read_table(one) for one in (whole, path)]
    assert tables[0].equals(tables[1])


def test_a_journal_keeps_whole_records_of_the_same_settings(tmp_path):
    scores = TokenScores(np.array([-0.1, -np.inf]), np.array([0, 3]), ["a\n", " b"], False)
    output = tmp_path / "a.parquet"
    with suppress(KeyError), Journal(output) as journal:
        journal.settings = {"model": "a"}
        assert journal.find("x") is None
        journal.keep("x", scores)
        with pytest.raises(InputError, match="another process"), Journal(output):
            pass
        raise KeyError
    path = tmp_path / "a.parquet.journal"
    content = path.read_bytes()
    path.write_bytes(content[:10] + b"damaged\n" + content + content[: len(content) // 2])
    with suppress(KeyError), Journal(output) as journal:
        journal.settings = {"model": "a"}
        found = journal.find("x")
        assert found.log_probs.tolist() == scores.log_probs.tolist()
        assert (found.tokens, found.ended) == (scores.tokens, False)
        assert journal.find("y") is None
        journal.settings = {"model": "b"}
        assert journal.find("x") is None
        journal.keep("x", scores)
        assert journal.find("x").starts.tolist() == [0, 3]
        raise KeyError
    assert path.read_bytes().count(b"\n") == 3
    with Journal(output) as journal:
        whole, held = path.read_bytes(), journal._file

        def write_half(line):
            if len(line) < 20:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return held.write(line[: len(line) // 2])

        journal._file = SimpleNamespace(write=write_half, truncate=held.truncate, close=held.close)
        with pytest.raises(OSError, match="No space") as full:
            journal.keep("z", scores)
        assert (path.read_bytes(), full.value.filename) == (whole, str(path))
    assert not path.exists()


def test_the_command_prints_the_same_as_the_function(folder, tmp_path, capsys):
    (tmp_path / "a.txt").write_text("\n".join([*TEXTS, "", f"say {END} now"]))
    with FakeServer(folder, "vllm") as fake:
        command(["--url", fake.url, "--text", str(tmp_path / "a.txt"), "--end", END])
        printed = json.loads(capsys.readouterr().out)
        found = beyond_perplexity.perplexity(url=fake.url, texts=tmp_path / "a.txt", end=END)
    assert printed == json.loads(json.dumps({**found.summary, "files": found.files}))
    assert parts_of(printed["signature"])["special"] == "server"
    assert printed["served"]["first_token_scored"]
    for wrong in ({}, {"url": "h", "model": "m"}, {"model": "m", "end": "x"}):
        with pytest.raises(InputError):
            beyond_perplexity.perplexity(texts=TEXTS, **wrong)
    with pytest.raises(TypeError, match=r"missing a required argument: .texts"):
        beyond_perplexity.perplexity(url="h")


FOUND = {
    "generated": "prompt",
    "shifted": "generation",
    "temperature": "sampling",
    "top_p": "sampling",
    "unnormalized": "top",
    "batch": "batch",
    "order": "order",
    "cache": "cache",
    "doubled": "beginning",
    "missing": "beginning",
    "cut": "context",
    "lower": "round trip",
    "restless": "repetition",
}


@pytest.mark.parametrize("style", ["vllm", "llama-cpp-python"])
@pytest.mark.parametrize("fault", FOUND)
def test_an_audit_finds_a_planted_fault_by_its_check_alone(fault, style, folder):
    with FakeServer(folder, style, faults=(fault,)) as fake:
        found = beyond_perplexity.audit(url=fake.url, texts=TEXTS)
    assert found.failed_checks == [FOUND[fault]], found.text


EACH = [("llama-cpp-python", 1, True), ("vllm", 1, True), ("vllm", 1, False), ("openai", 0, True)]


@pytest.mark.parametrize(("style", "begins", "echoes"), EACH)
def test_an_audit_of_a_sound_server_has_no_failed_check(style, begins, echoes, folder):
    with FakeServer(folder, style, begins=begins, echoes=echoes) as fake:
        given = {"url": fake.url, "texts": TEXTS, "beginning": None if begins else END}
        found = beyond_perplexity.audit(**given)
        check_refused("there is no 'windows'; the checks are: prompt, ", beyond_perplexity.audit,
                      **given, check="windows")  # fmt: skip
        some = beyond_perplexity.audit(**given, check=["top", "cache"], precision="bfloat16")
    assert found.sound, found.text
    assert found.table["check"].tolist() == list(SERVED_CHECKS)
    assert (found.table["compared"] > 0).all()
    assert some.table["tolerance"].tolist() == [8 / 128, 64 / 128]
    assert set(FOUND.values()) == set(SERVED_CHECKS)
    page = (ROOT / "docs/audit.md").read_text()
    assert all(f"| `{name}` |" in page for name in SERVED_CHECKS)


def test_pairs_are_scored_by_a_server_as_by_the_model_in_its_folder(folder):
    sides = ["the cat sat on the mat", "a rose is a rose"], ["the mat sat cat", "rose a is a rose"]
    own = beyond_perplexity.contrast(*sides, model=folder)
    with FakeServer(folder, "openai", begins=0) as fake:
        found = beyond_perplexity.contrast(*sides, url=fake.url, beginning=END, end=END)
        without = beyond_perplexity.contrast(*sides, url=fake.url, beginning=END)
        other = beyond_perplexity.contrast(*sides, url=fake.url, beginning="\n")
        assert parts_of(other.summary["signature"])["before"] == "\\n"
        words = "beginning: is missing; pairs may differ in the first token"
        check_refused(words, beyond_perplexity.contrast, *sides, url=fake.url)
    for name in ("accuracy", "contrastive_entropy", "per_word"):
        assert found.table[name].tolist() == pytest.approx(own.table[name].tolist(), abs=1e-5)
    signed = [one.summary["signature"] for one in (own, found, without)]
    assert signed[0] == signed[1] == signed[2].replace("|eos:no", "")


def test_rosetta_of_a_server_has_the_numbers_of_the_folder_where_they_are_defined(folder, capsys):
    own = beyond_perplexity.audit(folder, TEXTS, check="repetition", rosetta=True)
    known = own.table_of("rosetta").set_index(["program", "name"])["value"]
    sizes = []
    with FakeServer(folder, "openai", begins=0) as fake:
        for given in ({"beginning": END, "end": END}, {"beginning": END}, {}):
            found = beyond_perplexity.audit(url=fake.url, texts=TEXTS, check="top", rosetta=True,
                                            **given)  # fmt: skip
            rows = found.table_of("rosetta").set_index(["program", "name"])["value"]
            sizes.append(set(rows.index.get_level_values(0)))
            ours = rows.index.get_level_values(0) == "beyond-perplexity"
            kept = rows if given.get("end") else rows[~ours]
            assert kept.tolist() == pytest.approx(known.loc[kept.index].tolist(), rel=1e-5)
    whole = {"lm-evaluation-harness", "evaluate"}
    assert sizes == [
        {"beyond-perplexity", "KenLM", *whole},
        {"beyond-perplexity", *whole},
        {"beyond-perplexity"},
    ]
    assert "rosetta: stride recipe, llama.cpp: not defined" in capsys.readouterr().err


WITHOUT_TORCH = """
import sys
for name in ("safetensors", "tokenizers", "torch", "transformers"):
    sys.modules[name] = None
import beyond_perplexity
assert "httpx2" not in sys.modules
url, path = sys.argv[1:]
found = beyond_perplexity.perplexity(url=url, texts=["the cat sat", "a rose"], per_document=path)
beyond_perplexity.compare_perplexity([path], output=f"{path}.all", no_count_eos=True)
assert beyond_perplexity.audit(url=url, texts=["the cat sat"], check="top", rosetta=True).sound
beyond_perplexity.contrast(["the cat sat"], ["the sat cat"], url=url)
print(found.summary["documents"])
"""


def test_a_server_is_asked_without_torch_and_its_tokens_have_a_file(folder, tmp_path):
    with FakeServer(folder, "vllm") as fake:
        command = [sys.executable, "-c", WITHOUT_TORCH, fake.url, str(tmp_path / "a.parquet")]
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
        assert (done.returncode, done.stdout) == (0, "2\n"), done.stderr
    given = {"texts": TEXTS, "per_token": tmp_path / "served.parquet"}
    with FakeServer(folder, "openai", begins=0) as fake:
        beyond_perplexity.perplexity(url=fake.url, beginning=END, end=END, **given)
    given["per_token"] = tmp_path / "own.parquet"
    beyond_perplexity.perplexity(folder, device="cpu", **given)
    tables = [pq.read_table(tmp_path / f"{name}.parquet").to_pydict() for name in ("served", "own")]
    for name in ("doc_id", "start", "end", "position", "ending", "text"):
        assert tables[0][name] == tables[1][name], name
    assert tables[0]["log_prob"] == pytest.approx(tables[1]["log_prob"], abs=1e-5)


INTERRUPTED = """
import signal, sys
from beyond_perplexity.__main__ import main
from beyond_perplexity.errors import prepare_process, run_command
signal.signal(signal.SIGINT, signal.default_int_handler)  # as in the foreground of a shell
prepare_process()
run_command(lambda: main(sys.argv[1:]))
"""


def test_ctrl_c_ends_with_one_line_and_keeps_what_is_finished(folder, tmp_path):
    (tmp_path / "a.txt").write_text("".join(f"the cat {number}\n" for number in range(400)))
    output = tmp_path / "a.parquet"
    with FakeServer(folder, latency=0.05) as fake:
        flags = ["--url", fake.url, "--text", str(tmp_path / "a.txt"), "--concurrency", "2"]
        command = [sys.executable, "-c", INTERRUPTED, "perplexity", *flags]
        command += ["--per-document", str(output)]
        running = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=ROOT)
        while fake.requests < 30:
            assert running.poll() is None
            time.sleep(0.02)
        running.send_signal(signal.SIGINT)
        _, said = running.communicate(timeout=20)
        assert running.returncode == 130
        assert said.splitlines()[-1] == "error: stopped by Ctrl-C"
        assert "Traceback" not in said
        kept = int(re.search(r"keeps (\d+) finished documents", said)[1])
        assert kept > 10
        fake.latency, fake.requests = 0, 0
        beyond_perplexity.perplexity(url=fake.url, texts=tmp_path / "a.txt", per_document=output)
        assert 400 - kept <= fake.requests < 400
    assert sorted(os.listdir(tmp_path)) == ["a.parquet", "a.txt"]


HOSTILE = [None, [], {}, 0, -1, "x", [None], [[]], {"tokens": 1}, [1.5], 1e308, True, [{}] * 9]


def parts_within(held, way=()):
    """List the ways to all parts of an answer."""
    items = held.items() if isinstance(held, dict) else enumerate(held)
    for key, value in items if isinstance(held, dict | list) else ():
        yield (*way, key)
        if isinstance(value, dict | list):
            yield from parts_within(value, (*way, key))


def test_answers_of_any_shape_are_refused_in_a_line(folder):
    """Each part of a sound answer is replaced by what it should not be."""
    asked = {"prompt": "a b", "echo": True, "logprobs": 1, "prompt_logprobs": 1}
    refused = tried = 0
    with FakeServer(folder, "vllm") as fake:
        whole = json.dumps(fake.answer(asked, True)[1])
    for way, value, row in product(parts_within(json.loads(whole)), HOSTILE, PROTOCOLS.values()):
        answer = held = json.loads(whole)
        for step in way[:-1]:
            held = held[step]
        held[way[-1]] = value
        tried, refused = tried + 1, refused + 1
        with suppress(InputError):
            text_scores(row.read(answer), "a b")
            refused -= 1
    assert tried > 500
    assert refused > tried / 3

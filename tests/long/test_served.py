"""A random GPT-2 behind llama-cpp-python's own server, against transformers: 1e-3 nats a token.

Oracle: transformers' logits of the same weights, float32; the server reads them as GGUF, in an
environment of its own (or ``LLAMA_PYTHON``). What it answers is what the fake server of
`tests/unit/fake_server.py` answers. Needs pip, and a compiler where there is no wheel.
"""

import os
import socket
import subprocess
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx2
import numpy as np
import pytest
from tokenizers import Tokenizer

import beyond_perplexity
from beyond_perplexity.errors import InputError
from beyond_perplexity.models.served.journal import Journal
from beyond_perplexity.models.served.protocols import ServedOptions
from beyond_perplexity.models.served.server import ServedModel
from tests.long.test_rosetta import calm, python_with
from tests.unit.fake_server import FakeServer
from tests.unit.huggingface_models import make_gpt2
from tests.unit.test_served import LONG, TEXTS, logits_of

PACKAGES = ("llama-cpp-python[server]==0.3.36", "gguf==0.19.0", "torch==2.13.0")
PACKAGES += ("transformers==5.23.0",)
CONTEXT = 256  # llama.cpp rounds less up to it
ROOT = Path(__file__).parents[2]
WRITE = "import sys; from tests.long.rosetta_programs import write_gguf; "
WRITE += "write_gguf(sys.argv[1], sys.argv[2], sys.argv[3] == 'True')"


@pytest.fixture(scope="session")
def interpreter(tmp_path_factory):
    return python_with(PACKAGES, "LLAMA_PYTHON", tmp_path_factory)


@contextmanager
def llama_server(python, folder, begins):
    """Serve the model of a folder, keys and values in float32."""
    path = str(folder / "model.gguf")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run(
        [python, "-c", WRITE, str(folder), path, str(begins)], check=True, env=environment
    )
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
    flags = ["--model", path, "--model_alias", "tiny", "--port", str(port), "--logits_all", "true"]
    flags += ["--n_ctx", str(CONTEXT), "--type_k", "0", "--type_v", "0", "--n_threads", "1"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    server = subprocess.Popen([python, "-m", "llama_cpp.server", *flags], **quiet)
    url = f"http://127.0.0.1:{port}"
    try:
        for _ in range(600):
            with suppress(httpx2.TransportError):
                httpx2.get(f"{url}/v1/models")
                break
            assert server.poll() is None
            time.sleep(0.1)
        yield url
    finally:
        server.terminate()
        server.wait()


@pytest.fixture(scope="module")
def served(interpreter, tmp_path_factory):
    folder = tmp_path_factory.mktemp("gpt2")
    make_gpt2(folder, context=CONTEXT)
    calm(folder)
    with llama_server(interpreter, folder, True) as url:
        yield folder, url


def test_a_real_server_gives_the_numbers_of_transformers(served):
    folder, url = served
    tokenizer = Tokenizer.from_file(f"{folder}/tokenizer.json")
    for before in ("", "\n"):
        options = ServedOptions(url=url, beginning=before or None)
        with ServedModel(options) as model:
            found = list(model.score(((text, text) for text in TEXTS), Journal()))
        for text, scores in zip(TEXTS, found, strict=True):
            ids = [0, *tokenizer.encode(f"{before}{text}", add_special_tokens=False).ids]
            rows = logits_of(str(folder), ids)
            first = 2  # the number of the first token is hidden
            expected = [rows[i - 1][ids[i]] for i in range(first, len(ids))]
            assert len(scores.log_probs) == len(expected)
            print(text[:20], np.abs(scores.log_probs - expected).max())
            assert np.abs(scores.log_probs - expected).max() < 1e-3


def test_the_fake_server_answers_as_the_real_one(served):
    folder, url = served
    body = {"model": "tiny", "echo": True, "logprobs": 2, "max_tokens": 1, "temperature": 1.0}
    with FakeServer(str(folder), begins=1, context=CONTEXT) as fake:
        for prompt in (*TEXTS, LONG * 3):
            asked = body | {"prompt": prompt}
            theirs, ours = (
                httpx2.post(f"{one}/v1/completions", json=asked, timeout=60)
                for one in (url, fake.url)
            )
            assert ours.status_code == theirs.status_code
            if theirs.status_code != 200:
                said = [one.json()["error"]["message"] for one in (ours, theirs)]
                assert said[0] == said[1]
                continue
            lists = [one.json()["choices"][0]["logprobs"] for one in (theirs, ours)]
            count = len(lists[1]["tokens"]) - 1  # each generates what it draws
            for name in ("tokens", "text_offset"):
                assert lists[0][name][:count] == lists[1][name][:count]
            numbers = [one["token_logprobs"][:count] for one in lists]
            assert numbers[0][0] is numbers[1][0] is None
            assert numbers[0][1:] == pytest.approx(numbers[1][1:], abs=1e-3)
            used = [one.json()["usage"]["prompt_tokens"] for one in (theirs, ours)]
            assert used[0] == used[1]


def test_a_real_server_is_sound_and_one_without_a_beginning_is_shifted(
    interpreter, served, tmp_path
):
    _, url = served
    given = {"url": url, "texts": TEXTS}
    found = beyond_perplexity.audit(**given)
    print(found.text)
    assert found.sound
    make_gpt2(tmp_path, context=CONTEXT)
    with llama_server(interpreter, tmp_path, False) as shifted:
        with pytest.raises(InputError, match="shifted by one"):
            beyond_perplexity.perplexity(url=shifted, texts=TEXTS)
        found = beyond_perplexity.audit(url=shifted, texts=TEXTS)
    print(found.text)
    assert found.failed_checks == ["generation", "beginning"]

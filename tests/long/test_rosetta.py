"""The numbers of other programs, against the programs themselves, to 1e-4.

Oracles, in an environment of their own (or ``ROSETTA_PYTHON``): lm-eval 0.4.13; Hugging Face's
recipe with transformers 5.23; evaluate's mean of perplexities (its script too where
``EVALUATE_SCRIPT`` is); kenlm 0.3.0; llama.cpp b11549 (xllamacpp; its program too where
``LLAMA_PERPLEXITY`` is). Needs pip.
"""

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file
from tokenizers import processors
from transformers import AutoTokenizer

from beyond_perplexity.auditing import audit, checks
from beyond_perplexity.auditing.rosetta import Speech
from beyond_perplexity.models.kneser_ney import KneserNey
from beyond_perplexity.ngrams.arpa import read_arpa
from beyond_perplexity.vocabulary import N_SPECIAL, ClosedVocabulary
from tests.unit.huggingface_models import make_gpt2, make_llama

PACKAGES = ("lm-eval==0.4.13", "evaluate==0.4.6", "kenlm==0.3.0", "transformers==5.23.0")
PACKAGES += ("torch==2.13.0", "accelerate", "gguf==0.19.0", "xllamacpp==2026.10.11549")
SCRIPT = Path(__file__).with_name("rosetta_programs.py")
TOLERANCE = 1e-4
TEXTS = [
    "the cat sat on the mat , and the dog sat on the log . " * 6,
    "a rose is a rose",
    "  café 中文 is good\n\tindeed ",
    "the lowest of the low , the lower low ; the newest of the new .",
] * 3


def python_with(packages: tuple[str, ...], variable: str, folders: pytest.TempPathFactory) -> str:
    """Give the interpreter that a variable names, else one of an environment made for packages."""
    if held := os.environ.get(variable):
        return held
    folder = folders.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    python = str(folder / "bin" / "python")
    subprocess.run([python, "-m", "pip", "install", "-q", *packages], check=True)
    return python


@pytest.fixture(scope="session")
def interpreter(tmp_path_factory) -> str:
    """Give an interpreter with the programs."""
    return python_with(PACKAGES, "ROSETTA_PYTHON", tmp_path_factory)


def printed(python: str, folder: Path, *flags: str) -> dict[str, dict[str, float]]:
    quiet = {"HF_HUB_OFFLINE": "1", "HF_HOME": str(folder / "home"), "PYTHONPATH": ""}
    command = [python, str(SCRIPT), *flags]
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, **quiet}, check=False
    )
    assert not done.returncode, done.stderr[-2000:]
    found: dict[str, dict[str, float]] = json.loads(done.stdout.splitlines()[-1])
    return found


def add_beginning(folder: Path) -> None:
    """Let a saved tokenizer put its beginning of text before every text, as those of Llama do."""
    tokenizer = AutoTokenizer.from_pretrained(folder).backend_tokenizer
    tokenizer.post_processor = processors.TemplateProcessing("<s> $A", special_tokens=[("<s>", 1)])
    (folder / "tokenizer.json").write_text(tokenizer.to_str())


def calm(folder: Path) -> None:
    """Make the numbers of a saved model smaller: llama.cpp reads GELU from a table of float16."""
    path = folder / "model.safetensors"
    weights = {k: part * 0.25 if part.ndim > 1 else part for k, part in load_file(path).items()}
    save_file(weights, path, metadata={"format": "pt"})


@pytest.mark.parametrize("kind", ["GPT-2", "Llama", "Llama with <s>"])
def test_our_numbers_are_theirs(kind, interpreter, tmp_path):
    {"G": make_gpt2, "L": make_llama}[kind[0]](tmp_path)
    if "<s>" in kind:
        add_beginning(tmp_path)
    texts = tmp_path / "texts.jsonl"
    texts.write_text("\n".join(json.dumps({"text": text}) for text in TEXTS))
    flags = ["--model", str(tmp_path), "--texts", str(texts)]
    if script := os.environ.get("EVALUATE_SCRIPT"):
        flags += ["--evaluate-script", script]
    if kind == "GPT-2":
        calm(tmp_path)
        flags += ["--gguf", str(tmp_path / "model.gguf")]
        if program := os.environ.get("LLAMA_PERPLEXITY"):
            flags += ["--llama-perplexity", program]
    theirs = printed(interpreter, tmp_path, *flags)
    itself = theirs.pop("llama-perplexity", None)
    held = audit.load_audited(tmp_path, "cpu")
    ours = checks.translate(Speech(held.model, held.vocabulary, TEXTS, held.kind), list(theirs))
    compare_numbers(ours, theirs)
    if itself:
        chunked = [one for one in ours if one.program == "llama.cpp"]
        compare_numbers(chunked, {"llama.cpp": itself})
    named = {"lm-evaluation-harness", "stride recipe", "evaluate", "llama.cpp"}
    assert set(theirs) == named - ({"llama.cpp"} if kind != "GPT-2" else set())


def test_our_kenlm_is_kenlm(interpreter, tmp_path):
    text, arpa = tmp_path / "text.txt", tmp_path / "model.arpa"
    text.write_text("\n".join(" ".join(one.split()) for one in TEXTS[:2] + TEXTS[3:4]) + "\n")
    command = [sys.executable, "-m", "beyond_perplexity", "estimate-ngram", "--order", "3"]
    subprocess.run([*command, "--text", str(text), "--arpa", str(arpa)], check=True)
    sentences = ["the cat sat on the log .", "a zebra is a rose", "low", "the the the"]
    lines = tmp_path / "lines.txt"
    lines.write_text("\n".join(sentences) + "\n")
    theirs = printed(interpreter, tmp_path, "--arpa", str(arpa), "--sentences", str(lines))
    held = read_arpa(str(arpa))
    vocabulary = ClosedVocabulary(held.words[N_SPECIAL:], 0)
    speech = Speech(KneserNey.of(held.model), vocabulary, sentences)
    compare_numbers(checks.translate(speech, ["KenLM"]), theirs)


def compare_numbers(ours, theirs):
    assert len(ours) == sum(map(len, theirs.values()))
    for one in ours:
        expected = theirs[one.program][one.name]
        print(f"{one.program:22} {one.name:28} {one.value:.8g} {expected:.8g}")
        assert math.isclose(one.value, expected, rel_tol=TOLERANCE), one

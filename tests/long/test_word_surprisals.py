"""Surprisals of words beside those of minicons, another program, on a tiny GPT-2.

Needs minicons from PyPI, which is put beside this environment and leaves it as it is. It leaves the
end of a document out of what may follow a word, against Pimentel and Meister (2024), and knows the
blank alone as what begins one: the same is done here.
"""

import json
import math
import subprocess
import sys

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
import transformers

import beyond_perplexity
from beyond_perplexity.perplexities import words
from tests.unit.huggingface_models import make_gpt2

TEXTS = ["the cat sat on the mat", "a rose is a rose , said the lowest dog", "newest unseen words"]
PROGRAM = """
import json, sys, warnings
warnings.simplefilter("ignore")
import transformers
from minicons import scorer
folder, texts = sys.argv[1], json.loads(sys.argv[2])
tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
model = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
found = scorer.IncrementalLMScorer(model, "cpu", tokenizer=tokenizer)
given = {"tokenize_function": str.split, "bos_token": True}
print(json.dumps([
    [[score for _, score in text]
     for text in found.word_score_tokenized(texts, bow_correction=corrected, **given)]
    for corrected in (False, True)
]))
"""


@pytest.fixture(scope="module")
def minicons(tmp_path_factory):
    """Install minicons by itself; return the folder that has it."""
    folder = tmp_path_factory.mktemp("site")
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", folder]
    done = subprocess.run([*install, "minicons==0.3.39", "wonderwords"], capture_output=True)
    if done.returncode:
        pytest.skip(f"minicons cannot be installed: {done.stderr.decode()[-300:]}")
    return folder


def test_words_have_the_scores_of_minicons(minicons, tmp_path, monkeypatch):
    make_gpt2(tmp_path)
    command = [sys.executable, "-c", PROGRAM, tmp_path, json.dumps(TEXTS)]
    environment = {"PYTHONPATH": str(minicons), "PATH": "", "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    plain, corrected = json.loads(done.stdout.splitlines()[-1])

    def blanks_alone(vocabulary):
        found = np.zeros(vocabulary.size, bool)
        tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)
        for token, index in tokenizer.get_vocab().items():
            found[index + 3] = token.startswith("Ġ")
        return found

    monkeypatch.setattr(words, "word_beginnings", blanks_alone)
    torch.set_num_threads(1)
    path = tmp_path / "words.parquet"
    given = {"per_word": path, "no_count_eos": True, "device": "cpu"}
    beyond_perplexity.perplexity(tmp_path, TEXTS, **given)
    held = pq.read_table(path).to_pandas()
    for place in range(len(TEXTS)):
        own = held[held["doc_id"] == place]
        assert own["word"].tolist() == TEXTS[place].split()
        np.testing.assert_allclose(own["log_prob_tokens"], plain[place], atol=1e-4)
        np.testing.assert_allclose(own["log_prob"], corrected[place], atol=1e-4)
        np.testing.assert_allclose(own["surprisal"], -own["log_prob"] / math.log(2))

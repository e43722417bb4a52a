"""The numbers of other programs, for the same model and text.

Oracles: windows, sums and means that are worked out here with the logits of a model of Hugging
Face's own, its own tokenizer and its own softmax over every row, and by hand for a model of counts.
`tests/long/test_rosetta.py` compares with the programs themselves. Needs torch and transformers.
"""

from __future__ import annotations

import json
import math
import re

import numpy as np
import pytest
import torch
from tokenizers import processors
from transformers import AutoModelForCausalLM, AutoTokenizer

from beyond_perplexity.auditing.audit import load_audited
from beyond_perplexity.auditing.rosetta import Speech
from beyond_perplexity.auditing.rosetta_programs import PROGRAMS, translate
from beyond_perplexity.models.kneser_ney import KneserNey
from beyond_perplexity.vocabulary import BOS, EOS, UNK, ClosedVocabulary
from tests.unit.huggingface_models import CONTEXT, make_gpt2, make_llama

TEXTS = [
    "the cat sat on the mat , and the dog sat on the log . " * 4,
    "a rose is a rose",
    "  café 中文 is good\n\tindeed ",
    "<s> is no token <|endoftext|>" + " of the low" * 30,
] * 2


def add_beginning(folder):
    """Let a saved tokenizer put its beginning of text before every text, as those of Llama do."""
    path = folder / "tokenizer.json"
    tokenizer = AutoTokenizer.from_pretrained(folder).backend_tokenizer
    tokenizer.post_processor = processors.TemplateProcessing("<s> $A", special_tokens=[("<s>", 1)])
    path.write_text(tokenizer.to_str())


@pytest.fixture(scope="module", params=["GPT-2", "Llama", "Llama with <s>"])
def spoken(request, tmp_path_factory):
    """Give a model as we speak it, the same of the library, and its tokenizer."""
    folder = tmp_path_factory.mktemp("model")
    {"G": make_gpt2, "L": make_llama}[request.param[0]](folder)
    if "<s>" in request.param:
        add_beginning(folder)
    held = load_audited(folder, "cpu")
    theirs = AutoModelForCausalLM.from_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    speech = Speech(held.model, held.vocabulary, TEXTS, held.kind)
    return speech, theirs, tokenizer


def numbers(speech, program):
    return {one.name: one for one in translate(speech, [program])}


@torch.no_grad()
def log_probs(theirs, ids):
    """Return ln p of each id but the first, over all rows of the library's own output."""
    row = torch.tensor([ids])
    logits = theirs(row[:, :-1]).logits[0].double()
    return logits.log_softmax(-1).gather(1, row[0, 1:, None])[:, 0].numpy()


def test_rolling_windows(spoken):
    speech, theirs, tokenizer = spoken
    total = 0.0
    for text in TEXTS:
        ids = [tokenizer.bos_token_id, *tokenizer(text).input_ids]
        for begin in range(0, len(ids) - 1, CONTEXT):  # of predictions
            end = min(begin + CONTEXT, len(ids) - 1)
            start = max(0, end - CONTEXT)
            total += log_probs(theirs, ids[start : end + 1])[begin - end :].sum()
    found = numbers(speech, "lm-evaluation-harness")
    words = sum(len(re.split(r"\s+", text)) for text in TEXTS)
    size = sum(len(text.encode()) for text in TEXTS)
    assert found["word_perplexity"].value == pytest.approx(math.exp(-total / words), rel=1e-5)
    assert found["byte_perplexity"].value == pytest.approx(math.exp(-total / size), rel=1e-5)
    assert found["bits_per_byte"].value == pytest.approx(-total / size / math.log(2), rel=1e-5)
    adds = tokenizer("a").input_ids[0] == tokenizer.bos_token_id
    assert ("adds another beginning" in found["bits_per_byte"].definition) == adds


def test_stride_recipe(spoken):
    speech, theirs, tokenizer = spoken
    ids = tokenizer("\n\n".join(TEXTS)).input_ids
    sums, weights, means, before = 0.0, 0, [], 0
    for begin in range(0, len(ids), CONTEXT // 2):
        end = min(begin + CONTEXT, len(ids))
        added = end - before
        mean = log_probs(theirs, ids[begin:end])[-added:].mean()
        sums, weights, before = sums + mean * (added - 1), weights + added - 1, end
        means.append(mean)
        if end == len(ids):
            break
    found = numbers(speech, "stride recipe")
    assert found["perplexity"].value == pytest.approx(math.exp(-sums / weights), rel=1e-5)
    earlier = found["perplexity, earlier recipe"].value
    assert earlier == pytest.approx(math.exp(-np.mean(means)), rel=1e-5)
    assert found["perplexity"].predictions == len(ids) - 1


def test_mean_of_perplexities(spoken):
    speech, theirs, tokenizer = spoken
    expected, cut = [], 0
    for text in TEXTS:
        cut += len(tokenizer(text, add_special_tokens=False).input_ids) >= CONTEXT
        ids = tokenizer(text, add_special_tokens=False).input_ids[: CONTEXT - 1]
        expected.append(math.exp(-log_probs(theirs, [tokenizer.bos_token_id, *ids]).mean()))
    (found,) = numbers(speech, "evaluate").values()
    assert found.value == pytest.approx(np.mean(expected), rel=1e-5)
    assert f"{cut} of 8 texts are cut off at 63 tokens" in found.definition


def test_chunks(spoken):
    speech, theirs, tokenizer = spoken
    ids = tokenizer("\n".join(TEXTS), split_special_tokens=True).input_ids  # as llama.cpp
    adds = ids[0] == tokenizer.bos_token_id
    scores = []
    for begin in range(0, len(ids) - CONTEXT + 1, CONTEXT):
        chunk = ids[begin : begin + CONTEXT]
        chunk[0] = tokenizer.bos_token_id if adds else chunk[0]
        scores.append(log_probs(theirs, chunk)[CONTEXT // 2 :])
    (found,) = numbers(speech, "llama.cpp").values()
    assert found.value == pytest.approx(math.exp(-np.concatenate(scores).mean()), rel=1e-5)
    assert found.predictions == len(scores) * (CONTEXT // 2 - 1)


def test_our_softmax_is_over_fewer_rows_than_theirs(spoken):
    speech, theirs, _ = spoken
    row = torch.tensor([[BOS, 20, 30]])
    ours, plain = speech.model(row), speech.plain(row)
    with torch.no_grad():
        logits = theirs(torch.where(row == BOS, theirs.config.bos_token_id, row - 3)).logits
    assert torch.allclose(plain[..., 3:], logits, atol=1e-4)
    assert bool((plain[..., :3] == -torch.inf).all())
    assert bool((ours[..., EOS] > -torch.inf).all()), "the model itself is as it was"


def counted():
    texts = ["a b a c", "b a b", "c a b a"]
    vocabulary = ClosedVocabulary(["a", "b", "c"], 0)
    model = KneserNey.fit([vocabulary.encode(texts)], vocabulary.size, {"order": 2})
    return model, vocabulary


def test_kenlm_counts_the_end_and_leaves_unknown_words_out():
    model, vocabulary = counted()
    texts = ["a d b", "d", "b a"]
    scores, unknown = [], []
    for text in texts:
        ids = [BOS, *vocabulary.encode([text])[0].tolist(), EOS]
        row = torch.tensor([ids])
        found = model(row[:, :-1])[0].double().log_softmax(-1).gather(1, row[0, 1:, None])[:, 0]
        scores += found.tolist()
        unknown += (row[0, 1:] == UNK).tolist()
    found = numbers(Speech(model, vocabulary, texts), "KenLM")
    kept = [score for score, is_unknown in zip(scores, unknown, strict=True) if not is_unknown]
    including = found["Perplexity including OOVs"].value
    assert including == pytest.approx(math.exp(-np.mean(scores)), rel=1e-6)
    excluding = found["Perplexity excluding OOVs"].value
    assert excluding == pytest.approx(math.exp(-np.mean(kept)), rel=1e-6)
    assert (len(kept), len(scores)) == (7, 9)


@pytest.mark.parametrize(
    ("texts", "refused"),
    [
        ([], {"evaluate", "stride recipe", "llama.cpp", "lm-evaluation-harness", "KenLM"}),
        ([""], {"evaluate", "stride recipe", "llama.cpp", "lm-evaluation-harness"}),
        (["a"], {"stride recipe", "llama.cpp"}),
        (["a b", ""], {"evaluate", "llama.cpp"}),
    ],
)
def test_what_a_program_refuses_has_no_number(texts, refused):
    model, vocabulary = counted()
    others = [name for name in PROGRAMS if name != "beyond-perplexity"]
    found = translate(Speech(model, vocabulary, texts), others)
    assert {one.program for one in found if math.isnan(one.value)} == refused
    assert all(one.definition for one in found)


def test_numbers_are_those_of_one_batch_or_many(monkeypatch):
    model, vocabulary = counted()
    texts = ["a b a", "c", "b b a c c a"] * 5
    whole = translate(Speech(model, vocabulary, texts, context_length=4))
    monkeypatch.setattr("beyond_perplexity.auditing.rosetta.POSITIONS", 4)
    parts = translate(Speech(model, vocabulary, texts, context_length=4))
    assert json.dumps(whole) == json.dumps(parts)

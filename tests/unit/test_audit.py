"""The audit finds planted faults by the check that names them, and is silent on sound models.

Oracles: faults that are planted, one at a time, into a sound model, tokenizer or scoring program
(`audited_faults`), and sound models of five kinds, whose families' own tests compare them with
enumeration and other implementations. Needs torch and transformers.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

from beyond_perplexity.auditing.audit import audit_subject
from beyond_perplexity.auditing.loading import load_audited
from beyond_perplexity.auditing.subject import Subject
from beyond_perplexity.models.kneser_ney import KneserNey
from beyond_perplexity.models.registry import build
from beyond_perplexity.models.trigram import Trigram
from beyond_perplexity.vocabulary import BPEVocabulary, ClosedVocabulary
from tests.unit import audited_faults
from tests.unit.huggingface_models import make_gpt2, make_llama

TEXTS = [
    "The cat sat on the mat , and the dog sat on the log .",
    "the lowest of the low , the lower low ; the newest of the new .",
    "a rose is a rose is a rose , said the cat to the dog . " * 3,
    "Café au lait",
    "x",
]
SIZES = {
    "transformer": {"layers": 1, "width": 16, "heads": 2, "feedforward_size": 32},
    "lstm": {"layers": 1, "embedding_size": 16, "hidden_size": 16},
}


def bpe_subject(seed=1, context=48, train=0):
    vocabulary = BPEVocabulary.build([TEXTS], 300)
    torch.manual_seed(seed)
    options = {**SIZES["transformer"], "context_length": context}
    model = build({"family": "transformer", "architecture": options}, vocabulary.size, True)
    fit(model, vocabulary, train)
    return Subject(model.eval(), vocabulary, TEXTS, seed=seed)


def fit(model, vocabulary, steps):
    """Train a model a little: sharp distributions show more than flat ones."""
    ids = np.concatenate([np.append(one, 1) for one in vocabulary.encode(TEXTS)])[:40]
    row = torch.from_numpy(np.concatenate([[0], ids]).astype(np.int64))[None]
    optimizer = torch.optim.Adam(model.parameters(), 0.02)
    for _ in range(steps):
        loss = torch.nn.functional.cross_entropy(model(row[:, :-1])[0], row[0, 1:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def sound(kind, seed, folder):
    """Make a sound subject of a kind."""
    closed = ClosedVocabulary.build([TEXTS], minimum_count=2)
    torch.manual_seed(seed)
    if kind == "transformer, BPE, trained":
        return bpe_subject(seed, train=30)
    if kind in ("GPT-2", "Llama"):
        {"GPT-2": make_gpt2, "Llama": make_llama}[kind](folder, seed)
        held = load_audited(folder, "cpu")
        return Subject(held.model, held.vocabulary, TEXTS, held.kind, seed=seed)
    if kind == "LSTM":
        model = build({"family": "lstm", "architecture": SIZES["lstm"]}, closed.size)
        fit(model, closed, 20)
    else:
        maker = {"Kneser-Ney": KneserNey, "trigram": Trigram}[kind]
        model = maker.fit([closed.encode(TEXTS)], closed.size)
    return Subject(model.eval(), closed, TEXTS, seed=seed)


def alarms(subject):
    return {one.check: one for one in audit_subject(subject) if not one.sound}


KINDS = ("transformer, BPE, trained", "GPT-2", "Llama", "Kneser-Ney", "LSTM", "trigram")


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_a_sound_model_raises_no_alarm(kind, seed, tmp_path):
    assert alarms(sound(kind, seed, tmp_path)) == {}


@pytest.mark.parametrize("name", audited_faults.FAULTS)
def test_a_planted_fault_is_found_by_the_check_that_names_it(name):
    check, plant = audited_faults.FAULTS[name]
    found = alarms(plant(bpe_subject(train=30)))
    assert check in found, found
    print(name, "->", {n: f.detail for n, f in found.items()})

"""The audit finds planted faults by the check that names them, and is silent on sound models.

Oracles: faults that are planted, one at a time, into a sound model, tokenizer or scoring program
(`audited_faults`), and sound models of five kinds, whose families' own tests compare them with
enumeration and other implementations. Needs torch and transformers.
"""

from __future__ import annotations

import math
import re
from copy import deepcopy
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
from tokenizers import processors
from transformers import AutoTokenizer

from beyond_perplexity.auditing.audit import (
    CUT_AT,
    audit_subject,
    load_audited,
    sample_texts,
    tolerance_of,
)
from beyond_perplexity.auditing.checks import CHECKS
from beyond_perplexity.auditing.probabilities import _ALL as ALL
from beyond_perplexity.auditing.probabilities import _DRAWN as DRAWN
from beyond_perplexity.auditing.probabilities import _LIKELIEST as LIKELIEST
from beyond_perplexity.auditing.scores import _WINDOWS as WINDOWS
from beyond_perplexity.auditing.scores import count_scored
from beyond_perplexity.auditing.subject import Subject
from beyond_perplexity.errors import InputError
from beyond_perplexity.library.audit import audit
from beyond_perplexity.models.huggingface_vocabulary import HuggingFaceVocabulary
from beyond_perplexity.models.kneser_ney import KneserNey
from beyond_perplexity.models.registry import build
from beyond_perplexity.models.trigram import Trigram
from beyond_perplexity.storage.fingerprint import ROOT
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


@cache
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
    assert [one.check for one in found.values() if not one.because] == [check]
    assert "failed" not in found[check].detail


@pytest.mark.parametrize("name", ["numbers", "normalization", "reserved"])
def test_what_the_evidence_names_is_there(name):
    kind = {
        "numbers": audited_faults.Overflows,
        "normalization": audited_faults.Penalized,
        "reserved": audited_faults.Padded,
    }[name]
    subject = bpe_subject(train=30)
    broken = replace(subject, model=kind(subject.model))
    (found,) = audit_subject(broken, [name])
    logits = broken.logits(subject.pieces)
    if name == "reserved":
        expected = float(logits.softmax(-1)[..., subject.vocabulary.size :].sum(-1).max())
    elif name == "normalization":  # Σ p^(1/1.1), by the closed form
        shares = subject.logits(subject.pieces)[:4, :16].double().softmax(-1)
        expected = float(((shares ** (1 / 1.1)).sum(-1) - 1).abs().max())
    else:
        assert "after 31 tokens is nan" in found.detail
        return
    assert found.worst == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("kind", ["bfloat16", "float16"])
@pytest.mark.parametrize("maker", [make_gpt2, make_llama])
def test_rounding_is_no_fault(maker, kind, tmp_path):
    maker(tmp_path, dropout=0.3) if maker is make_gpt2 else maker(tmp_path)
    held = load_audited(tmp_path, "cpu", kind)
    subject = Subject(held.model, held.vocabulary, TEXTS, held.kind)
    assert alarms(subject) == {}
    assert tolerance_of(CHECKS["batch"], subject) == 64 * torch.finfo(getattr(torch, kind)).eps


OF_MODELS = dict(list(audited_faults.FAULTS.items())[:12]) | audited_faults.LITTLE_FAULTS


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", OF_MODELS)
def test_a_fault_is_found_in_16_bits(name, kind):
    check, plant = OF_MODELS[name]
    subject = bpe_subject(train=30)
    rounded = plant(replace(subject, model=deepcopy(subject.model).to(kind)))
    before = {key: part.clone() for key, part in rounded.model.state_dict().items()}
    assert [one.sound for one in audit_subject(rounded, [check])] == [False]
    after = rounded.model.state_dict()
    assert all(after[key].dtype == part.dtype == kind for key, part in before.items())
    assert all(torch.equal(after[key], part) for key, part in before.items())


@pytest.mark.parametrize("kind", ["bfloat16", "float16"])
def test_a_trained_model_of_16_bits_raises_no_alarm(kind):
    subject = bpe_subject(context=160, train=30)
    model = deepcopy(subject.model).to(getattr(torch, kind))
    assert alarms(replace(subject, model=model)) == {}


def test_a_model_that_cannot_calculate_in_float32_keeps_its_findings():
    class Fixed(audited_faults.Wrapped):
        def forward(self, tokens):
            if next(self.parameters()).dtype == torch.float32:
                raise RuntimeError("only bfloat16 is supported")
            return super().forward(tokens)

    subject = bpe_subject()
    model = Fixed(deepcopy(subject.model).to(torch.bfloat16)).eval()
    (found,) = audit_subject(replace(subject, model=model), ["padding"])
    assert found.sound
    assert "not tried in float32: the model failed: only bfloat16" in found.detail


@pytest.mark.parametrize("name", audited_faults.LATE_FAULTS)
def test_a_fault_that_shows_late_is_found(name):
    check, plant = audited_faults.LATE_FAULTS[name]
    subject = bpe_subject(context=160, train=30)
    assert [one.sound for one in audit_subject(subject, [check])] == [True]
    (found,) = audit_subject(plant(subject), [check])
    assert not found.sound
    assert "failed" not in found.detail


@pytest.mark.parametrize("texts", [["x"], ["", "a b"], ["word " * 200]])
@pytest.mark.parametrize("context", [1, 2, 5, 48])
def test_short_and_empty_texts_and_contexts_raise_no_alarm(texts, context):
    subject = bpe_subject(context=context)
    assert alarms(replace(subject, texts=texts)) == {}


def test_changes_that_show_late_by_chance_are_no_fault():
    """A trigram model backs off after words that it never saw together."""
    closed = ClosedVocabulary.build([TEXTS], minimum_count=1)
    model = Trigram.fit([closed.encode(TEXTS)], closed.size)
    subject = Subject(model.eval(), closed, ["a <s> cat </s> <unk> dog"])
    assert alarms(subject) == {}


def test_a_check_is_named_alone_and_a_context_of_one_has_few_numbers():
    subject = bpe_subject(context=1)
    found = audit(
        subject.model, TEXTS, vocabulary=subject.vocabulary, check="numbers", rosetta=True
    )
    assert found.table["check"].tolist() == ["numbers"]
    table = found.table_of("rosetta")
    none = table[table["value"].isna()]
    assert set(none["program"]) == {"stride recipe", "evaluate", "llama.cpp"}


def test_a_mask_that_fails_beyond_a_window_is_found():
    class Late(audited_faults.Bidirectional):
        def forward(self, tokens):
            return super().forward(tokens) if tokens.shape[1] > 40 else self.model(tokens)

    subject = bpe_subject(train=30)
    assert "future" in alarms(replace(subject, model=Late(subject.model).eval()))


class AddsItsOwn(HuggingFaceVocabulary):
    """A program that lets the tokenizer add what it adds, and adds <s> as well."""

    def encode(self, texts):
        return [self._ours[self._tokenizer.encode(text).ids] for text in texts]


@pytest.mark.parametrize(("template", "end"), [("<s> $A", "beginning"), ("$A </s>", "end")])
def test_what_the_tokenizer_adds_by_itself_is_found(template, end, tmp_path):
    make_llama(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path).backend_tokenizer
    tokenizer.post_processor = processors.TemplateProcessing(
        template, special_tokens=[("<s>", 1), ("</s>", 2)]
    )
    (tmp_path / "tokenizer.json").write_text(tokenizer.to_str())
    held = load_audited(tmp_path, "cpu")
    subject = Subject(held.model, held.vocabulary, TEXTS, held.kind)
    assert alarms(subject) == {}, "ours asks the tokenizer for nothing but the text"
    twice = AddsItsOwn.from_description(held.vocabulary.describe())
    (found,) = audit_subject(replace(subject, vocabulary=twice), ["beginning"])
    assert not found.sound
    assert f"a special token at the {end} of every text" in found.detail


@pytest.mark.parametrize("maker", [make_gpt2, make_llama])
def test_special_tokens_that_a_text_says_are_characters(maker, tmp_path):
    maker(tmp_path)
    held = load_audited(tmp_path, "cpu")
    said = list(held.vocabulary.special_tokens)
    subject = Subject(held.model, held.vocabulary, [*TEXTS, f"{said[0]} a"], held.kind)
    (found,) = audit_subject(subject, ["special tokens"])
    assert found.sound
    assert f"the texts say {said[0]} (1 times)" in found.detail
    read = replace(subject, vocabulary=held.vocabulary.with_special_tokens())
    (found,) = audit_subject(read, ["special tokens"])
    assert not found.sound
    assert said[-1] in found.detail


def test_a_sample_without_probability_is_no_model_without_one():
    """An unsmoothed trigram finds other texts impossible, but not what it writes itself."""
    vocabulary = ClosedVocabulary.build([TEXTS])
    model = Trigram.fit([vocabulary.encode(TEXTS)], vocabulary.size).eval()
    (found,) = audit_subject(Subject(model, vocabulary, ["mat on the"]), ["possible"])
    assert found.sound
    assert "what the model writes ends after" in found.detail
    endless = audited_faults.Endless(model).eval()
    (found,) = audit_subject(Subject(endless, vocabulary, ["mat on the"]), ["possible"])
    assert not found.sound
    assert "P = 0 of all 1 texts" in found.detail


def test_texts_without_a_token_are_refused():
    with pytest.raises(InputError, match="no token to audit with"):
        replace(bpe_subject(), texts=["", ""])
    with pytest.raises(InputError, match="no document to audit with"):
        sample_texts(["", "  "], 4, 1)


def test_a_check_that_is_none_is_refused():
    with pytest.raises(InputError, match="there is no 'colour'; the checks are: numbers, norm"):
        audit_subject(bpe_subject(), ["colour"])


@pytest.mark.parametrize(("context", "stride"), [(None, None), (8, 3), (4, 4), (5, 1)])
def test_a_witness_counts_what_is_scored(context, stride):
    counts = count_scored(bpe_subject(), 23, context, stride).counts
    assert counts == pytest.approx(np.ones(24), abs=1e-9)


def test_a_witness_tells_twice_from_never():
    plant = audited_faults.FAULTS["overlaps scored twice"][1]
    counts = count_scored(plant(bpe_subject()), 11, 4, 2).counts
    # windows of 4 predictions begin at 0, 2, 4, 6, 8 of 12 predictions
    assert counts == pytest.approx([1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1])


def test_a_sample_is_cut_and_drawn_evenly():
    texts = [f"{number} " + "word " * 400 for number in range(40)]
    drawn = [sample_texts(texts, 10, seed) for seed in range(200)]
    assert all(len(text) <= CUT_AT and text.endswith("word") for text in drawn[0])
    numbers = np.array([[int(text.split()[0]) for text in one] for one in drawn])
    assert (np.diff(numbers, axis=1) > 0).all()
    shares = np.bincount(numbers.ravel(), minlength=40) / 200
    assert abs(shares - 0.25).max() < 5 * math.sqrt(0.25 * 0.75 / 200)
    assert drawn[3] == sample_texts(iter(texts), 10, 3)


def test_the_page_names_every_check_with_its_tolerance():
    page = (ROOT / "docs" / "audit.md").read_text(encoding="utf-8")
    lines = re.findall(r"^\| `([a-z ]+)` \|.*\| (\S+) \|$", page, re.MULTILINE)
    assert [name for name, _ in lines] == list(CHECKS)
    assert [float(tolerance) for _, tolerance in lines] == [c.tolerance for c in CHECKS.values()]
    assert len(WINDOWS) == 8
    assert f"{ALL:,} ids" in page
    assert f"{LIKELIEST} of the likeliest ids and {DRAWN} at random" in page


def test_what_an_alarm_implies_are_checks():
    for name, row in CHECKS.items():
        assert set(row.implies) <= set(CHECKS) - {name}

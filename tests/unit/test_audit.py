"""The audit finds planted faults by the check that names them, and is silent on sound models.

Oracles: faults planted one at a time (`audited_faults`) and sound models of five kinds. Of Rosetta:
windows, sums and means from the logits, tokenizer and softmax of Hugging Face (the programs are in
`tests/long`).
"""

import json
import math
import re
from copy import deepcopy
from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
from tokenizers import normalizers, processors
from transformers import AutoModelForCausalLM, AutoTokenizer

import beyond_perplexity
from beyond_perplexity.auditing import checks, probabilities, rosetta, scores
from beyond_perplexity.auditing.audit import (
    audit_subject,
    load_audited,
)
from beyond_perplexity.auditing.scores import count_scored
from beyond_perplexity.auditing.subject import Subject
from beyond_perplexity.commands.library_functions import run_function
from beyond_perplexity.commands.perplexity import main as score
from beyond_perplexity.errors import InputError
from beyond_perplexity.library.audit import audit
from beyond_perplexity.models import huggingface_vocabulary, trigram
from beyond_perplexity.models.kneser_ney import KneserNey
from beyond_perplexity.models.registry import build, save_model
from beyond_perplexity.perplexities.external import read_special
from beyond_perplexity.storage.fingerprint import ROOT
from beyond_perplexity.vocabulary import BOS, EOS, UNK, BPEVocabulary, ClosedVocabulary
from tests.unit import audited_faults
from tests.unit.evaluator_oracles import check_refusals, check_refused
from tests.unit.huggingface_models import CONTEXT, make_gpt2, make_llama

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
        maker = {"Kneser-Ney": KneserNey, "trigram": trigram.Trigram}[kind]
        model = maker.fit([closed.encode(TEXTS)], closed.size)
    return Subject(model.eval(), closed, TEXTS, seed=seed)


def failed_checks(subject):
    return {one.check: one for one in audit_subject(subject) if not one.sound}


KINDS = ("transformer, BPE, trained", "GPT-2", "Llama", "Kneser-Ney", "LSTM", "trigram")


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_a_sound_model_raises_no_failed_check(kind, seed, tmp_path):
    assert failed_checks(sound(kind, seed, tmp_path)) == {}


@pytest.mark.parametrize("name", audited_faults.FAULTS)
def test_a_planted_fault_is_found_by_the_check_that_names_it(name):
    check, plant = audited_faults.FAULTS[name]
    found = failed_checks(plant(bpe_subject(train=30)))
    assert [one.check for one in found.values() if not one.because] == [check]
    assert "failed" not in found[check].detail


@pytest.mark.parametrize("name", ["numbers", "normalization", "reserved"])
def test_what_the_evidence_names_is_there(name):
    faults = {"numbers": "overflow in long texts", "normalization": "length penalty"}
    fault = (faults | {"reserved": "probability for padding rows"})[name]
    subject = bpe_subject(train=30)
    broken = audited_faults.FAULTS[fault][1](subject)
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
    assert failed_checks(subject) == {}
    allowed = checks.CHECKS["batch"].allowed(subject.rounding)
    assert allowed == 64 * torch.finfo(getattr(torch, kind)).eps


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
def test_a_trained_model_of_16_bits_raises_no_failed_check(kind):
    subject = bpe_subject(context=160, train=30)
    model = deepcopy(subject.model).to(getattr(torch, kind))
    assert failed_checks(replace(subject, model=model)) == {}


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
def test_short_and_empty_texts_and_contexts_raise_no_failed_check(texts, context):
    assert failed_checks(replace(bpe_subject(context=context), texts=texts)) == {}


def test_late_changes_by_chance_are_no_fault_but_a_mask_that_fails_beyond_a_window_is():
    """A trigram model backs off after words that it never saw together."""
    closed = ClosedVocabulary.build([TEXTS], minimum_count=1)
    model = trigram.Trigram.fit([closed.encode(TEXTS)], closed.size)
    subject = Subject(model.eval(), closed, ["a <s> cat </s> <unk> dog"])
    assert failed_checks(subject) == {}

    def late(logits, tokens):
        return audited_faults.bidirectional(logits, tokens) if tokens.shape[1] > 40 else logits

    assert "future" in failed_checks(audited_faults.with_logits(late)(bpe_subject(train=30)))


def test_a_check_is_named_alone_and_a_context_of_one_has_few_numbers():
    subject = bpe_subject(context=1)
    how = {"vocabulary": subject.vocabulary, "check": "numbers", "rosetta": True}
    found = audit(subject.model, TEXTS, **how)
    assert found.table["check"].tolist() == ["numbers"]
    table = found.table_of("rosetta")
    none = table[table["value"].isna()]
    assert set(none["program"]) == {"stride recipe", "evaluate", "llama.cpp"}


class AddsItsOwn(huggingface_vocabulary.HuggingFaceVocabulary):
    """A program that lets the tokenizer add what it adds, and adds <s> as well."""

    def encode(self, texts):
        return [self._ours[self._tokenizer.encode(text).ids] for text in texts]


@pytest.mark.parametrize(("template", "end"), [("<s> $A", "beginning"), ("$A </s>", "end")])
def test_what_the_tokenizer_adds_by_itself_is_found(template, end, tmp_path):
    make_llama(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path).backend_tokenizer
    marks = [("<s>", 1), ("</s>", 2)]
    tokenizer.post_processor = processors.TemplateProcessing(template, special_tokens=marks)
    (tmp_path / "tokenizer.json").write_text(tokenizer.to_str())
    held = load_audited(tmp_path, "cpu")
    subject = Subject(held.model, held.vocabulary, TEXTS, held.kind)
    assert failed_checks(subject) == {}, "ours asks the tokenizer for nothing but the text"
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
    model = trigram.Trigram.fit([vocabulary.encode(TEXTS)], vocabulary.size).eval()
    (found,) = audit_subject(Subject(model, vocabulary, ["mat on the"]), ["possible"])
    assert found.sound
    assert "what the model writes ends after" in found.detail
    endless = audited_faults.with_logits(audited_faults.endless, steps=True)
    (found,) = audit_subject(endless(Subject(model, vocabulary, ["mat on the"])), ["possible"])
    assert not found.sound
    assert "P = 0 of all 1 texts" in found.detail


def test_samples_are_cut_and_drawn_evenly_and_no_token_or_check_is_refused():
    check_refused("no token to audit with", lambda: replace(bpe_subject(), texts=["", ""]))
    check_refused("no document to audit with", checks.sample_texts, ["", "  "], 4, 1)
    with pytest.raises(InputError, match="there is no 'colour'; the checks are: numbers, norm"):
        audit_subject(bpe_subject(), ["colour"])
    texts = [f"{number} " + "word " * 400 for number in range(40)]
    drawn = [checks.sample_texts(texts, 10, seed) for seed in range(200)]
    assert all(len(text) <= checks.CUT_AT and text.endswith("word") for text in drawn[0])
    numbers = np.array([[int(text.split()[0]) for text in one] for one in drawn])
    assert (np.diff(numbers, axis=1) > 0).all()
    shares = np.bincount(numbers.ravel(), minlength=40) / 200
    assert abs(shares - 0.25).max() < 5 * math.sqrt(0.25 * 0.75 / 200)
    assert drawn[3] == checks.sample_texts(iter(texts), 10, 3)


def test_a_witness_counts_what_is_scored_and_tells_twice_from_never():
    for context, stride in ((None, None), (8, 3), (4, 4), (5, 1)):
        counts = count_scored(bpe_subject(), 23, context, stride).counts
        assert counts == pytest.approx(np.ones(24), abs=1e-9)
    plant = audited_faults.FAULTS["overlaps scored twice"][1]
    counts = count_scored(plant(bpe_subject()), 11, 4, 2).counts
    # windows of 4 predictions begin at 0, 2, 4, 6, 8 of 12 predictions
    assert counts == pytest.approx([1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1])


def test_the_page_names_every_check_with_its_tolerance():
    page = (ROOT / "docs" / "audit.md").read_text(encoding="utf-8")
    lines = re.findall(r"^\| `([a-z ]+)` \|.*\| (\S+) \|$", page, re.MULTILINE)
    rows = [*checks.CHECKS.items(), *checks.SERVED_CHECKS.items()]
    assert [name for name, _ in lines] == [name for name, _ in rows]
    assert [float(tolerance) for _, tolerance in lines] == [row.tolerance for _, row in rows]
    assert len(scores._WINDOWS) == 8
    assert f"{probabilities._ALL:,} ids" in page
    drawn = f"{probabilities._MOST_PROBABLE} most probable ids and {probabilities._DRAWN} at random"
    assert drawn in page
    for table in (checks.CHECKS, checks.SERVED_CHECKS):  # what a failed check implies are checks
        assert all(set(row.implies) <= set(table) - {name} for name, row in table.items())


ASKED = ["The cat sat on the mat", "a dog <b>barks</b>", "the cat and the dog", "a mat"] * 3


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text("\n".join(ASKED) + "\n", encoding="utf-8")
    return str(path)


@pytest.fixture(scope="module")
def counted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("counted")
    texts = [text.lower() for text in ASKED]
    vocabulary = ClosedVocabulary.build([texts], minimum_count=4)
    model = KneserNey.fit([vocabulary.encode(texts)], vocabulary.size, {"order": 2})
    save_model(folder, model, vocabulary, {"preprocessing": {}})
    return folder


@pytest.fixture(scope="module")
def uncased(tmp_path_factory):
    """Save a GPT-2 whose tokenizer makes letters small."""
    folder = tmp_path_factory.mktemp("uncased")
    make_gpt2(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder).backend_tokenizer
    tokenizer.normalizer = normalizers.Lowercase()
    (folder / "tokenizer.json").write_text(tokenizer.to_str())
    return folder


def test_a_sound_model_ends_well_and_numbers_of_others_stand_beside_ours(counted, text, capsys):
    run_function("audit", ["--model", str(counted), "--text", text])
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == f"no failed check in {len(checks.CHECKS)} checks"
    assert [line[6:20].strip() for line in lines[:-1]] == list(checks.CHECKS)
    flags = ["--text", text, "--check", "numbers", "--rosetta"]
    run_function("audit", ["--model", str(counted), *flags])
    out = capsys.readouterr().out
    assert all(f"\n{name}: " in out for name in checks.PROGRAMS)


def test_an_alarm_ends_with_status_1_and_its_evidence(uncased, text, capsys):
    flags = ["--text", text, "--json", "--check", "round trip", "end"]
    with pytest.raises(SystemExit) as ended:
        run_function("audit", ["--model", str(uncased), *flags])
    assert ended.value.code == 1
    found = json.loads(capsys.readouterr().out)
    assert found["summary"]["failed_checks"] == ["round trip"]
    (row,) = [row for row in found["table"] if not row["sound"]]
    assert row["detail"] == "'The' comes back as 'the'"
    assert row["worst"] >= 1
    assert (row["tolerance"], row["explanation"]) == (0, checks.CHECKS["round trip"].explanation)


def test_what_cannot_be_used_is_said_in_a_line(counted, text, tmp_path):
    (tmp_path / "empty.txt").write_text("\n \n")
    cases = {
        "/nowhere: no such folder; give a model": ["--model", "/nowhere"],
        "there is no 'colour'; the checks are: numbers": ["--check", "colour"],
        "--documents: is 0, expected at least 1": ["--documents", "0"],
        "/nowhere: ": ["--text", "/nowhere"],
        "has no document to audit with": ["--text", str(tmp_path / "empty.txt")],
    }
    given = ["--model", str(counted), "--text", text]
    given = {words: ("audit", [*given, *flags]) for words, flags in cases.items()}
    check_refusals(run_function, given)


def test_the_function_takes_texts_in_any_form_and_a_model_in_memory(counted, text):
    names = ["normalization", "likelihood"]
    forms = [text, ASKED, iter(ASKED), pd.DataFrame({"text": ASKED}), pa.table({"text": ASKED})]
    found = [beyond_perplexity.audit(counted, form, check=names, rosetta=True) for form in forms]
    assert all(one.sound for one in found)
    assert len({one.to_json().replace(str(text), "texts") for one in found}) == 1
    first = found[0]
    assert first.table["check"].tolist() == names
    assert set(first.table_of("rosetta")["program"]) == set(checks.PROGRAMS)
    assert first.figures == ("deviations",)
    ticks = [tick.get_text() for tick in first.figure("deviations").axes[0].get_yticklabels()]
    assert ticks == names
    frame = pd.DataFrame({"body": ASKED})  # the field that is named
    found = beyond_perplexity.audit(counted, frame, field="body", check=["numbers"])
    alone = beyond_perplexity.audit(counted, ASKED, check=["numbers"])
    assert found.table.equals(alone.table)
    vocabulary = ClosedVocabulary.build([ASKED])
    model = KneserNey.fit([vocabulary.encode(ASKED)], vocabulary.size)
    assert beyond_perplexity.audit(model, ASKED, vocabulary=vocabulary).sound
    check_refused("vocabulary: is missing", beyond_perplexity.audit, model, ASKED)
    one, two = (beyond_perplexity.audit(counted, text, seed=3).to_json() for _ in range(2))
    assert one == two


LONG_TEXTS = [
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
    speech = rosetta.Speech(held.model, held.vocabulary, LONG_TEXTS, held.kind)
    return speech, theirs, tokenizer


def numbers(speech, program):
    return {one.name: one for one in checks.translate(speech, [program])}


@torch.no_grad()
def log_probs(theirs, ids):
    """Return ln p of each id but the first, over all rows of the library's own output."""
    row = torch.tensor([ids])
    logits = theirs(row[:, :-1]).logits[0].double()
    return logits.log_softmax(-1).gather(1, row[0, 1:, None])[:, 0].numpy()


def test_rolling_windows(spoken):
    speech, theirs, tokenizer = spoken
    total = 0.0
    for text in LONG_TEXTS:
        ids = [tokenizer.bos_token_id, *tokenizer(text).input_ids]
        for begin in range(0, len(ids) - 1, CONTEXT):  # of predictions
            end = min(begin + CONTEXT, len(ids) - 1)
            start = max(0, end - CONTEXT)
            total += log_probs(theirs, ids[start : end + 1])[begin - end :].sum()
    found = numbers(speech, "lm-evaluation-harness")
    words = sum(len(re.split(r"\s+", text)) for text in LONG_TEXTS)
    size = sum(len(text.encode()) for text in LONG_TEXTS)
    assert found["word_perplexity"].value == pytest.approx(math.exp(-total / words), rel=1e-5)
    assert found["byte_perplexity"].value == pytest.approx(math.exp(-total / size), rel=1e-5)
    assert found["bits_per_byte"].value == pytest.approx(-total / size / math.log(2), rel=1e-5)
    adds = tokenizer("a").input_ids[0] == tokenizer.bos_token_id
    assert ("adds another beginning" in found["bits_per_byte"].definition) == adds


def test_stride_recipe(spoken):
    speech, theirs, tokenizer = spoken
    ids = tokenizer("\n\n".join(LONG_TEXTS)).input_ids
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
    for text in LONG_TEXTS:
        cut += len(tokenizer(text, add_special_tokens=False).input_ids) >= CONTEXT
        ids = tokenizer(text, add_special_tokens=False).input_ids[: CONTEXT - 1]
        expected.append(math.exp(-log_probs(theirs, [tokenizer.bos_token_id, *ids]).mean()))
    (found,) = numbers(speech, "evaluate").values()
    assert found.value == pytest.approx(np.mean(expected), rel=1e-5)
    assert f"{cut} of 8 texts are cut off at 63 tokens" in found.definition


def test_chunks(spoken):
    speech, theirs, tokenizer = spoken
    ids = tokenizer("\n".join(LONG_TEXTS), split_special_tokens=True).input_ids  # as llama.cpp
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


def model_of_counts():
    texts = ["a b a c", "b a b", "c a b a"]
    vocabulary = ClosedVocabulary(["a", "b", "c"], 0)
    model = KneserNey.fit([vocabulary.encode(texts)], vocabulary.size, {"order": 2})
    return model, vocabulary


def test_kenlm_counts_the_end_leaves_unknown_words_out_and_batches_do_not_matter(monkeypatch):
    model, vocabulary = model_of_counts()
    texts = ["a d b", "d", "b a"]
    scores, unknown = [], []
    for text in texts:
        ids = [BOS, *vocabulary.encode([text])[0].tolist(), EOS]
        row = torch.tensor([ids])
        found = model(row[:, :-1])[0].double().log_softmax(-1).gather(1, row[0, 1:, None])[:, 0]
        scores += found.tolist()
        unknown += (row[0, 1:] == UNK).tolist()
    found = numbers(rosetta.Speech(model, vocabulary, texts), "KenLM")
    kept = [score for score, is_unknown in zip(scores, unknown, strict=True) if not is_unknown]
    including = found["Perplexity including OOVs"].value
    assert including == pytest.approx(math.exp(-np.mean(scores)), rel=1e-6)
    excluding = found["Perplexity excluding OOVs"].value
    assert excluding == pytest.approx(math.exp(-np.mean(kept)), rel=1e-6)
    assert (len(kept), len(scores)) == (7, 9)
    model, vocabulary = model_of_counts()
    texts = ["a b a", "c", "b b a c c a"] * 5
    whole = checks.translate(rosetta.Speech(model, vocabulary, texts, context_length=4))
    monkeypatch.setattr("beyond_perplexity.auditing.rosetta.POSITIONS", 4)
    parts = checks.translate(rosetta.Speech(model, vocabulary, texts, context_length=4))
    assert json.dumps(whole) == json.dumps(parts)


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
    model, vocabulary = model_of_counts()
    others = [name for name in checks.PROGRAMS if name != "beyond-perplexity"]
    found = checks.translate(rosetta.Speech(model, vocabulary, texts), others)
    assert {one.program for one in found if math.isnan(one.value)} == refused
    assert all(one.definition for one in found)


SAYING = ["a cat <|endoftext|> the dog", "<|endoftext|>a rose</s> is <pad><unk> a rose <s>"]
SAYING_TEXTS = ["the cat sat on the mat", SAYING[0], "a rose is a rose", SAYING[1]]
MAKERS = {"GPT-2": make_gpt2, "Llama": make_llama}


@pytest.fixture(scope="module", params=MAKERS)
def external(request, tmp_path_factory):
    """Save a model; give its folder, the model and the tokenizer of the library, and a file."""
    folder = tmp_path_factory.mktemp("model")
    MAKERS[request.param](folder)
    texts = folder / "texts.jsonl.txt"
    texts.write_text("\n".join(SAYING_TEXTS) + "\n", encoding="utf-8")
    theirs = AutoModelForCausalLM.from_pretrained(folder)
    return folder, theirs, AutoTokenizer.from_pretrained(folder), texts


def nats(theirs, ids):
    return -float(log_probs(theirs, ids).sum())


def test_with_the_flag_a_text_is_scored_as_lm_eval_scores_it(external):
    folder, theirs, tokenizer, path = external
    ids = [[tokenizer.bos_token_id, *tokenizer(text).input_ids] for text in SAYING_TEXTS]
    expected = sum(nats(theirs, one) for one in ids) / math.log(2)
    size = sum(len(text.encode()) for text in SAYING_TEXTS)
    found = beyond_perplexity.perplexity(folder, path, special_tokens=True, no_count_eos=True)
    assert found.summary["bits"]["byte"] == pytest.approx(expected / size, rel=1e-5)
    assert found.summary["special_tokens"]["read_as"] == "tokens"
    assert "|special:tokens|" in found.summary["signature"]
    held = load_audited(folder, "cpu")
    speech = rosetta.Speech(held.model, held.vocabulary, SAYING_TEXTS, "raw")
    numbers = checks.translate(speech, ["lm-evaluation-harness"])
    rolling = {one.name: one.value for one in numbers}
    assert found.summary["bits"]["byte"] == pytest.approx(rolling["bits_per_byte"], rel=1e-5)
    # each row of the output is possible once: with the flag too there is a distribution
    model, _ = read_special(held.model, held.vocabulary)
    scores = model(torch.tensor([[0, 20, 30]])).detach()
    rows = theirs(torch.tensor([[tokenizer.bos_token_id, 17, 27]])).logits.detach()
    finite = scores[0, -1][scores[0, -1] > -math.inf].sort().values
    torch.testing.assert_close(finite, rows[0, -1].sort().values, atol=1e-4, rtol=0)


def test_marks_of_tokenized_text_are_told_of_raw_text(external, tmp_path, capsys) -> None:
    """Oracle: they are counted by hand."""
    folder = external[0]
    path = tmp_path / "raw.txt"
    path.write_text("the @-@ cat [UNK] sat\n[UNK] the dog\nthe cat\n")
    told = f"{path}: the texts hold @-@, [UNK] (occurrences: 3; texts: 2), a mark of tokenized text"
    for score_raw in (
        lambda **how: beyond_perplexity.perplexity(folder, path, **how),
        lambda **how: beyond_perplexity.audit(folder, path, **how),
    ):
        score_raw()
        assert capsys.readouterr().err.count(told) == 1
    beyond_perplexity.contrast(["a [UNK]"], ["[UNK] a"], model=folder)
    assert "texts: the texts hold [UNK] (occurrences: 2; texts: 2)" in capsys.readouterr().err
    path.write_text("the cat sat\n")
    beyond_perplexity.perplexity(folder, path)
    assert "tokenized text" not in capsys.readouterr().err


def test_without_it_the_difference_is_said(external, capsys):
    folder, theirs, tokenizer, path = external
    special = tokenizer.all_special_tokens
    saying = [text for text in SAYING_TEXTS if any(token in text for token in special)]
    score(["--model", str(folder), "--text", str(path)])
    out, err = capsys.readouterr()
    found = json.loads(out)["special_tokens"]
    assert (found["read_as"], found["documents"]) == ("characters", len(saying))
    times = {token: sum(text.count(token) for text in SAYING_TEXTS) for token in found["said"]}
    assert found["said"] == times
    bits, size = found["bits_per_byte"], sum(len(text.encode()) + 1 for text in saying)
    begin, end = tokenizer.bos_token_id, tokenizer.eos_token_id
    tokens = [[begin, *tokenizer(text).input_ids, end] for text in saying]
    total = sum(nats(theirs, ids) for ids in tokens) / size / math.log(2)
    assert bits["tokens"] == pytest.approx(total, rel=1e-5)
    split = [tokenizer(text, split_special_tokens=True).input_ids for text in saying]
    total = sum(nats(theirs, [begin, *ids, end]) for ids in split) / size / math.log(2)
    if len(tokenizer.all_special_tokens) == 1:  # the softmax is over every row in both
        assert bits["characters"] == pytest.approx(total, rel=1e-5)
    else:
        assert bits["characters"] == pytest.approx(total, rel=0.05)
    assert abs(bits["tokens"] / bits["characters"] - 1) > 0.05
    line = next(line for line in err.splitlines() if "special tokens" in line)
    assert f"{bits['characters']:.3f} bits per byte" in line
    assert f"{bits['tokens']:.3f} as a token" in line
    assert max(times, key=times.get) in line


def test_a_text_that_says_none_and_a_model_of_this_package_have_none(external, tmp_path, capsys):
    folder, *_ = external
    path = tmp_path / "plain.txt"
    path.write_text("a rose is a rose\n")
    assert beyond_perplexity.perplexity(folder, path).summary["special_tokens"] is None
    assert "special" not in capsys.readouterr().err
    vocabulary = ClosedVocabulary.build([SAYING_TEXTS])
    model = KneserNey.fit([vocabulary.encode(SAYING_TEXTS)], vocabulary.size, {"order": 2})
    save_model(tmp_path, model, vocabulary, {"preprocessing": {}})
    assert beyond_perplexity.perplexity(tmp_path, SAYING_TEXTS).summary["special_tokens"] is None
    with pytest.raises(InputError, match="special tokens: is for models of Hugging Face"):
        beyond_perplexity.perplexity(tmp_path, SAYING_TEXTS, special_tokens=True)


def test_rosetta_names_the_cause(external):
    folder, _, tokenizer, _ = external
    held = load_audited(folder, "cpu")
    for texts in (SAYING_TEXTS, SAYING_TEXTS[::2]):
        for one in checks.translate(rosetta.Speech(held.model, held.vocabulary, texts, "raw")):
            reads = checks.PROGRAMS[one.program].reads_special and len(texts) > 2
            assert ("a token to this program" in one.definition) == reads
            if reads:
                assert tokenizer.eos_token in one.definition

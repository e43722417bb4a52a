"""Special tokens that a text says: characters to us, tokens with a flag, and the difference said.

Oracles: the logits, tokenizer and softmax of transformers itself, with and without its
``split_special_tokens``; Rosetta's number of lm-evaluation-harness, which `tests/long` compares
with the program. Needs torch and transformers.
"""

from __future__ import annotations

import json
import math

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

import beyond_perplexity
from beyond_perplexity.auditing.audited_texts import load_audited
from beyond_perplexity.auditing.rosetta_programs import PROGRAMS
from beyond_perplexity.auditing.rosetta_speech import Speech, translate
from beyond_perplexity.commands.perplexity import main
from beyond_perplexity.errors import InputError
from beyond_perplexity.models.kneser_ney import KneserNey
from beyond_perplexity.models.registry import save_model
from beyond_perplexity.perplexities.brought import read_special
from beyond_perplexity.vocabulary import ClosedVocabulary
from tests.unit.huggingface_models import make_gpt2, make_llama

SAYING = ["a cat <|endoftext|> the dog", "<|endoftext|>a rose</s> is <pad><unk> a rose <s>"]
TEXTS = ["the cat sat on the mat", SAYING[0], "a rose is a rose", SAYING[1]]
MAKERS = {"GPT-2": make_gpt2, "Llama": make_llama}


@pytest.fixture(scope="module", params=MAKERS)
def brought(request, tmp_path_factory):
    """Save a model; give its folder, the model and the tokenizer of the library, and a file."""
    folder = tmp_path_factory.mktemp("model")
    MAKERS[request.param](folder)
    texts = folder / "texts.jsonl.txt"
    texts.write_text("\n".join(TEXTS) + "\n", encoding="utf-8")
    theirs = AutoModelForCausalLM.from_pretrained(folder)
    return folder, theirs, AutoTokenizer.from_pretrained(folder), texts


@torch.no_grad()
def nats(theirs, ids):
    """Return −ln P of all ids but the first, over every row of the library's own output."""
    row = torch.tensor([ids])
    scores = theirs(row[:, :-1]).logits[0].double().log_softmax(-1)
    return -float(scores.gather(1, row[0, 1:, None]).sum())


def said_by(tokenizer, text):
    return any(token in text for token in tokenizer.all_special_tokens)


def test_with_the_flag_a_text_is_scored_as_lm_eval_scores_it(brought):
    folder, theirs, tokenizer, path = brought
    ids = [[tokenizer.bos_token_id, *tokenizer(text).input_ids] for text in TEXTS]
    expected = sum(nats(theirs, one) for one in ids) / math.log(2)
    size = sum(len(text.encode()) for text in TEXTS)
    found = beyond_perplexity.perplexity(folder, path, special_tokens=True, no_count_eos=True)
    assert found.summary["bits"]["byte"] == pytest.approx(expected / size, rel=1e-5)
    assert found.summary["special_tokens"]["read_as"] == "tokens"
    held = load_audited(folder, "cpu")
    numbers = translate(
        Speech(held.model, held.vocabulary, TEXTS, "raw"), ["lm-evaluation-harness"]
    )
    rolling = {one.name: one.value for one in numbers}
    assert found.summary["bits"]["byte"] == pytest.approx(rolling["bits_per_byte"], rel=1e-5)
    # each row of the output is possible once: with the flag too there is a distribution
    model, _ = read_special(held.model, held.vocabulary)
    scores = model(torch.tensor([[0, 20, 30]])).detach()
    rows = theirs(torch.tensor([[tokenizer.bos_token_id, 17, 27]])).logits.detach()
    finite = scores[0, -1][scores[0, -1] > -math.inf].sort().values
    torch.testing.assert_close(finite, rows[0, -1].sort().values, atol=1e-4, rtol=0)


def test_without_it_the_difference_is_said(brought, capsys):
    folder, theirs, tokenizer, path = brought
    saying = [text for text in TEXTS if said_by(tokenizer, text)]
    main(["--model", str(folder), "--text", str(path)])
    out, err = capsys.readouterr()
    found = json.loads(out)["special_tokens"]
    assert (found["read_as"], found["documents"]) == ("characters", len(saying))
    times = {token: sum(text.count(token) for text in TEXTS) for token in found["said"]}
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


def test_a_text_that_says_none_is_told_nothing(brought, tmp_path, capsys):
    folder, *_ = brought
    path = tmp_path / "plain.txt"
    path.write_text("a rose is a rose\n")
    plain = beyond_perplexity.perplexity(folder, path)
    assert plain.summary["special_tokens"] is None
    assert "special" not in capsys.readouterr().err


def test_a_model_of_this_package_has_none(tmp_path):
    vocabulary = ClosedVocabulary.build([TEXTS])
    model = KneserNey.fit([vocabulary.encode(TEXTS)], vocabulary.size, {"order": 2})
    save_model(tmp_path, model, vocabulary, {"preprocessing": {}})
    assert beyond_perplexity.perplexity(tmp_path, TEXTS).summary["special_tokens"] is None
    with pytest.raises(InputError, match="special tokens: is for models of Hugging Face"):
        beyond_perplexity.perplexity(tmp_path, TEXTS, special_tokens=True)


def test_rosetta_names_the_cause(brought):
    folder, _, tokenizer, _ = brought
    held = load_audited(folder, "cpu")
    for texts in (TEXTS, TEXTS[::2]):
        for one in translate(Speech(held.model, held.vocabulary, texts, "raw")):
            reads = PROGRAMS[one.program].reads_special and len(texts) > 2
            assert ("a token to this program" in one.definition) == reads
            if reads:
                assert tokenizer.eos_token in one.definition

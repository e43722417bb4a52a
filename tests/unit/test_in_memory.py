"""Models in memory, functions, precision, and models that are read one row at a time.

Oracles: the same model from its folder; logits of transformers, a document at a time.
"""

import math
from functools import partial

import numpy as np
import pytest
import torch
import transformers

import beyond_perplexity
from beyond_perplexity.models.contract import TokenPrefixes
from beyond_perplexity.models.huggingface_bring import bring
from beyond_perplexity.models.registry import open_scorer
from beyond_perplexity.perplexities.summary import score_rows
from beyond_perplexity.vocabulary import ClosedVocabulary
from tests.unit.evaluator_oracles import check_refused
from tests.unit.huggingface_models import END, TEXTS, make_gpt2, make_tokenizer
from tests.unit.small_models import TINIEST, make

CPU = {"device": "cpu"}
CHECKED = ["normalization", "batch", "steps", "likelihood", "beginning", "end"]
LONG = [*TEXTS, "a rose " * 40, "x"]


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory):
    folder = tmp_path_factory.mktemp("gpt2")
    make_gpt2(folder)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder)
    return folder, model, transformers.AutoTokenizer.from_pretrained(folder)


def test_a_model_in_memory_is_scored_as_its_folder_and_left_as_it_was(gpt2):
    folder, model, tokenizer = gpt2
    expected = beyond_perplexity.perplexity(folder, LONG, **CPU)
    model.train()
    before = {name: part.clone() for name, part in model.state_dict().items()}
    found = beyond_perplexity.perplexity(model, LONG, tokenizer=tokenizer)
    assert found.summary["log_prob"] == expected.summary["log_prob"]
    assert found.summary["signature"] == expected.summary["signature"]
    assert all(part.training for part in model.modules())
    model.eval()
    assert all(torch.equal(before[name], part) for name, part in model.state_dict().items())
    told = beyond_perplexity.audit(model, LONG, tokenizer=tokenizer)
    assert told.sound, told.text
    assert told.text == beyond_perplexity.audit(folder, LONG, **CPU).text


def test_a_function_is_scored_as_the_model_that_it_asks(gpt2):
    folder, model, tokenizer = gpt2
    expected = beyond_perplexity.perplexity(folder, LONG, **CPU).summary
    asked = []

    @torch.no_grad()
    def log_probs(ids):
        asked.append(ids)
        return model(torch.tensor([ids])).logits[0].log_softmax(-1).numpy()

    log_probs.context_length = 64
    found = beyond_perplexity.perplexity(log_probs, LONG, tokenizer=tokenizer).summary
    assert found["log_prob"] == pytest.approx(expected["log_prob"], abs=1e-3)
    assert all(ids[0] == tokenizer.eos_token_id or len(ids) == 64 for ids in asked)
    assert found["n"] == expected["n"]
    told = beyond_perplexity.audit(log_probs, TEXTS[:1], tokenizer=tokenizer, check=CHECKED)
    assert told.sound, told.text
    wrong = (
        (lambda ids: np.zeros((len(ids), 3)), "the model has only 3 ids"),
        (lambda ids: log_probs(ids)[-1], "gives an array of shape"),
        (lambda ids: log_probs(ids) + 1, "add up to 2.72"),
    )
    for call, words in wrong:
        given = partial(beyond_perplexity.perplexity, call, TEXTS, tokenizer=tokenizer)
        check_refused(words, given)


def test_our_own_model_and_what_does_not_go_together(gpt2):
    _, model, tokenizer = gpt2
    vocabulary = ClosedVocabulary(["a", "b"], 0)
    own = make("lstm", TINIEST, vocabulary.size)
    found = beyond_perplexity.perplexity(own, ["a b", "c"], tokenizer=vocabulary).summary
    rows = [row for part in score_rows(own, vocabulary, ["a b", "c"]) for row in part]
    assert found["log_prob"] == pytest.approx(sum(row.log_likelihood for row in rows))
    uniform = np.full(5, -math.log(4.0))
    uniform[0] = -np.inf
    flat = beyond_perplexity.perplexity(
        lambda ids: [uniform] * len(ids), ["a b"], tokenizer=vocabulary
    )
    assert flat.summary["perplexity"]["token"] == pytest.approx(4)
    for given, words in (
        ((model, TEXTS), "tokenizer: is missing"),
        ((3, TEXTS), "model: is of type int"),
    ):
        check_refused(words, beyond_perplexity.perplexity, *given)
    check_refused(
        "tokenizer: is of type str",
        lambda: beyond_perplexity.perplexity(model, TEXTS, tokenizer="gpt2"),
    )
    check_refused(
        "tokenizer: has no effect",
        lambda: beyond_perplexity.perplexity("folder", TEXTS, tokenizer=tokenizer),
    )
    check_refused(
        "dtype: has no effect with a model in memory",
        lambda: beyond_perplexity.perplexity(model, TEXTS, tokenizer=tokenizer, dtype="bfloat16"),
    )


def save_mamba(folder):
    rows = make_tokenizer(folder, {"bos_token": END, "eos_token": END})
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "state_size": 4, "vocab_size": rows}
    torch.manual_seed(0)
    model = transformers.MambaForCausalLM(transformers.MambaConfig(eos_token_id=0, **sizes)).eval()
    model.save_pretrained(folder)
    return model


def save_mixture(folder):
    rows = make_tokenizer(folder, {"bos_token": END, "eos_token": END})
    sizes = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2}
    sizes |= {"num_attention_heads": 2, "num_key_value_heads": 1, "num_local_experts": 4}
    config = transformers.MixtralConfig(
        vocab_size=rows, max_position_embeddings=64, eos_token_id=0, bos_token_id=0, **sizes
    )
    torch.manual_seed(0)
    model = transformers.MixtralForCausalLM(config).eval()
    model.save_pretrained(folder)
    return model


@torch.no_grad()
def by_hand(model, vocabulary, text):
    """Return ln P of a document by transformers alone, without any padding."""
    ids = [0, *(vocabulary.encode([text])[0] - 3).tolist(), 0]
    logits = model(torch.tensor([ids[:-1]]), use_cache=False).logits[0].double()
    scores = logits.log_softmax(-1)[range(len(ids) - 1), ids[1:]]
    return float(scores.sum())


@pytest.mark.parametrize("save", [save_mamba, save_mixture])
def test_models_whose_rows_depend_on_their_batch_are_read_one_at_a_time(save, tmp_path, capsys):
    theirs = save(tmp_path)
    texts = [*TEXTS, "a rose " * 9, "x"]
    found = beyond_perplexity.perplexity(tmp_path, texts, **CPU)
    assert "one row at a time" in capsys.readouterr().err
    assert "one row at a time" in found.summary["rows"]
    model, opened = open_scorer(str(tmp_path), "cpu")
    documents = found.table_of("documents")
    for text, value in zip(texts, documents["log_likelihood"], strict=True):
        assert value == pytest.approx(by_hand(theirs, opened.vocabulary, text), abs=2e-4)
        (row,) = next(score_rows(model, opened.vocabulary, [text], text="raw"))
        assert row.log_likelihood == pytest.approx(value, abs=1e-5)
    told = beyond_perplexity.audit(tmp_path, texts, **CPU)
    assert told.sound, told.text
    if save is save_mamba:
        check_refused("mamba models cannot be stepped", bring, {"path": str(tmp_path)}, None)


def test_prefixes_are_selected_and_put_back():
    state = (
        TokenPrefixes(((), (), ()))
        .extended(torch.tensor([3, 4, 5]))
        .extended(torch.tensor([6, 7, 8]))
    )
    assert state.select(torch.tensor([2, 0])).rows == ((5, 8), (3, 6))
    assert state.reset(torch.tensor([1])).rows == ((3, 6), (), (5, 8))


def test_a_lower_precision_says_what_it_moves(gpt2, tmp_path):
    folder, _, tokenizer = gpt2
    exact = beyond_perplexity.perplexity(folder, LONG, **CPU).summary
    assert exact["precision"] is None
    found = beyond_perplexity.perplexity(folder, LONG, dtype="bfloat16", **CPU).summary
    held = found["precision"]
    assert (held["dtype"], held["documents"]) == ("bfloat16", len(LONG))
    assert held["bits_per_byte"]["float32"] == pytest.approx(exact["bits"]["byte"], rel=1e-6)
    assert held["bits_per_byte"]["bfloat16"] == pytest.approx(found["bits"]["byte"], rel=1e-6)
    assert "|dtype:bfloat16|" in found["signature"]
    assert found["signature"].replace("|dtype:bfloat16", "") == exact["signature"]
    assert found["bits"]["byte"] != exact["bits"]["byte"]
    assert found["log_prob"] == pytest.approx(exact["log_prob"], rel=0.02)
    half = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16)
    half.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    stored = beyond_perplexity.perplexity(tmp_path, LONG, dtype="auto", **CPU).summary
    assert stored["precision"]["dtype"] == "bfloat16"
    assert stored["log_prob"] == pytest.approx(found["log_prob"], rel=1e-6)
    live = beyond_perplexity.perplexity(half, LONG, tokenizer=tokenizer).summary
    assert live["precision"]["bits_per_byte"] == pytest.approx(held["bits_per_byte"], rel=1e-3)
    assert half.dtype == torch.bfloat16
    plain = beyond_perplexity.perplexity(folder, LONG, dtype="auto", **CPU).summary
    assert (plain["precision"], plain["log_prob"]) == (None, exact["log_prob"])


def test_models_in_memory_are_compared(gpt2):
    _, model, tokenizer = gpt2
    found = beyond_perplexity.compare_perplexity(
        model=model, against=model, texts=LONG, tokenizer=tokenizer
    )
    assert (found.table_of("parts")["value"] == 0).all()
    assert found.table_of("agreement")["value"].tolist() == [0, 0, 1]

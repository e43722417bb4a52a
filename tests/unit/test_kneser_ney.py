"""The family of Kneser–Ney models: a language model like any other.

Oracles: p from the definition in dictionaries (`kneser_ney_reference`); the scores that the
library without torch gives; sums over the vocabulary; the same texts from other batches.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from beyond_perplexity.decoding.generation import generate, set_precision
from beyond_perplexity.decoding.options import parse_decoding
from beyond_perplexity.errors import InputError
from beyond_perplexity.models import registry
from beyond_perplexity.models.kneser_ney import KneserNey
from beyond_perplexity.models.likelihoods import score_encoded
from beyond_perplexity.models.registry import load_model, save_model
from beyond_perplexity.ngrams.arpa import read_arpa, write_arpa
from beyond_perplexity.vocabulary import ClosedVocabulary
from tests.unit.kneser_ney_reference import PlainKneserNey
from tests.unit.test_ngrams import V, draw_sentences, fit, flat

pytestmark = pytest.mark.usefixtures("one_thread")
KINDS = [
    {"kind": "ancestral"},
    {"kind": "nucleus", "mass": 0.8},
    {"kind": "top_k", "k": 3},
    {"kind": "typical", "mass": 0.7},
    {"kind": "min_p", "p": 0.25},
    {"kind": "beam", "size": 3},
]


def documents(seed: int = 0, count: int = 150) -> list[np.ndarray]:
    return [np.array(sentence, dtype=np.int32) for sentence in draw_sentences(count, seed)]


def model(order: int = 3, **options: object) -> KneserNey:
    return KneserNey.fit([documents()], V, {"order": order, **options}).eval()


def padded(texts: list[np.ndarray]) -> torch.Tensor:
    tokens = torch.full((len(texts), max(map(len, texts)) + 1), 1)
    tokens[:, 0] = 0
    for row, ids in enumerate(texts):
        tokens[row, 1 : len(ids) + 1] = torch.from_numpy(ids)
    return tokens


@pytest.mark.parametrize("order", [1, 2, 3, 5])
def test_the_parallel_pass_and_steps_are_the_definition(order: int) -> None:
    held, texts = model(order), documents(seed=4, count=12)
    plain = PlainKneserNey(draw_sentences(), order, V)
    tokens = padded(texts)
    dense = held(tokens)
    assert dense.dtype == torch.float32
    state = held.initial_state(len(texts), 100)
    for place in range(tokens.shape[1]):
        logits, state = held.step(tokens[:, place], state)
        assert torch.equal(logits, dense[:, place])
        for row, ids in enumerate(texts):
            if place > len(ids):
                continue
            context = tuple(tokens[row, : place + 1].tolist())
            expected = [plain.probability(context, word) for word in range(V)]
            assert np.allclose(logits[row].double().exp(), expected, rtol=2e-6, atol=1e-9)
    total = dense.double().exp().sum(-1)
    assert torch.allclose(total, torch.ones_like(total), atol=1e-6)


@pytest.mark.parametrize("prune", [[0], [0, 0, 1]], ids=str)
def test_scores_are_those_without_torch_and_of_any_batch(prune: list[int]) -> None:
    held, texts = model(4, prune=prune), documents(seed=2, count=80)
    scores = list(score_encoded(held, texts))
    library = fit(draw_sentences(), 4, prune)
    from beyond_perplexity.ngrams.backoff import score_tokens

    for ids, score in zip(texts, scores, strict=True):
        expected = score_tokens(library, flat([ids.tolist()])).sum()
        assert score.log_prob == pytest.approx(float(expected), rel=1e-12)
    for size in (1, 30):
        assert list(score_encoded(held, texts, batch_tokens=size)) == scores
    dense = held(padded(texts[:1]))[0].double()
    chosen = dense[range(len(texts[0]) + 1), [*texts[0], 1]].sum()
    assert scores[0].log_prob == pytest.approx(float(chosen), abs=1e-5)


@pytest.mark.parametrize("values", KINDS, ids=str)
def test_texts_do_not_depend_on_the_batch(values: dict[str, object]) -> None:
    held, options = model(), parse_decoding(values)
    found = []
    for batch, first, count in ((16, 0, 60), (64, 0, 60), (16, 40, 20)):
        drawn = generate(
            held,
            options,
            seed=1,
            purpose="t",
            first=first,
            count=count,
            maximum_length=40,
            batch_size=batch,
        )
        found.append([(d.doc_id, d.tokens.tolist(), d.log_prob) for d in drawn])
    assert found[0] == found[1]
    assert found[0][40:] == found[2]
    assert not any(0 in tokens for _, tokens, _ in found[0])
    finished = [tokens for _, tokens, _ in found[0] if len(tokens) < 30]
    assert len(set(map(tuple, finished))) > 3


def test_drawn_texts_have_the_log_probability_of_scoring() -> None:
    held = model(5)
    drawn = list(
        generate(
            held,
            parse_decoding({"kind": "ancestral"}),
            seed=3,
            purpose="t",
            first=0,
            count=200,
            maximum_length=60,
        )
    )
    kept = [document for document in drawn if document.finished]
    assert len(kept) > 100
    scores = score_encoded(held, [document.tokens for document in kept])
    for document, score in zip(kept, scores, strict=True):
        assert document.log_prob == pytest.approx(score.log_prob, abs=1e-4)
    # Expectation: first tokens are drawn as the model says.
    expected = held(torch.tensor([[0]]))[0, 0].double().exp().numpy()
    firsts = [document.tokens[0] if len(document.tokens) else 1 for document in drawn]
    shares = np.bincount(firsts, minlength=V) / len(drawn)
    assert np.abs(shares - expected).max() < 4 * math.sqrt(0.25 / len(drawn))


def test_states_follow_their_rows() -> None:
    held = model(4)
    tokens = padded(documents(seed=6, count=6)[:4])[:, :4]
    state = held.initial_state(len(tokens), 9)
    for column in tokens.T:
        logits, state = held.step(column, state)
    again, _ = held.step(tokens[:, 0] + 4, state.select(torch.tensor([2, 0, 1, 1])))
    longer, _ = held.step(tokens[:, 0] + 4, state)
    assert torch.equal(again, longer[[2, 0, 1, 1]])
    empty, _ = held.step(torch.zeros(4, dtype=torch.int64), held.initial_state(4, 9))
    for fresh in (
        state.reset(torch.tensor([1, 3])),
        state.restart(torch.tensor([False, True, False, True])),
    ):
        logits, _ = held.step(torch.zeros(4, dtype=torch.int64), fresh)
        assert torch.equal(logits[[1, 3]], empty[[1, 3]])


def test_a_folder_gives_the_same_model(tmp_path: Path) -> None:
    held = model(4, prune=[0, 0, 1])
    vocabulary = ClosedVocabulary([f"w{n}" for n in range(3, V)], 2)
    save_model(tmp_path, held, vocabulary, {})
    again, _, description = load_model(tmp_path)
    assert description["family"] == "kneser-ney"
    assert description["config"]["architecture"] == {"order": 4, "prune": [0, 0, 1]}
    levels = range(1, 5)
    ngrams = sum(len(held.get_buffer(f"log_probs_{order}")) for order in levels)
    assert description["parameters"] == held.parameter_count() == ngrams
    texts = documents(seed=8, count=20)
    assert list(score_encoded(again, texts)) == list(score_encoded(held, texts))
    assert again.config == held.config
    assert torch.equal(again(padded(texts)), held(padded(texts)))


def test_precision_does_not_round_the_tables() -> None:
    held = model()
    before = held.get_buffer("log_probs_2").clone()
    set_precision(held, "bfloat16")
    assert torch.equal(held.get_buffer("log_probs_2"), before)
    assert held(torch.tensor([[0]])).dtype == torch.float32


def test_bpe_has_no_unknown_token_and_a_closed_vocabulary_trains_it() -> None:
    held = KneserNey.fit([documents()], V, {}, True).eval()
    logits = held(torch.tensor([[0, 4, 2]]))[0]
    assert torch.isneginf(logits[:, 2]).all()
    assert torch.allclose(logits.exp().sum(-1), torch.ones(3), atol=1e-6)
    texts = [np.array([2, 3, 2], np.int32)] * 5 + documents()
    seen = KneserNey.fit([texts], V, {"order": 3}).eval()
    assert float(seen(torch.tensor([[0, 2, 3]]))[0, 2, 2].exp()) > 0.2


def test_any_back_off_model_can_be_taken(tmp_path: Path) -> None:
    words = ["<s>", "</s>", "<unk>", *(f"w{n}" for n in range(3, V))]
    library = fit(draw_sentences(), 3)
    write_arpa(tmp_path / "m.arpa", library, words)
    taken = KneserNey.of(read_arpa(tmp_path / "m.arpa").model).eval()
    texts = documents(seed=2, count=30)
    pairs = zip(score_encoded(taken, texts), score_encoded(model(3), texts), strict=True)
    assert all(math.isclose(a.log_prob, b.log_prob, rel_tol=1e-5) for a, b in pairs)


def test_bad_input_is_named() -> None:
    with pytest.raises(InputError, match="has no document"):
        KneserNey.fit([], V)
    with pytest.raises(InputError, match=r"architecture\.layers: unknown key"):
        KneserNey.fit([documents()], V, {"layers": 2})
    with pytest.raises(InputError, match="order: is 0, expected at least 1"):
        KneserNey(V, {"order": 0})
    with pytest.raises(InputError, match="prune: is 1"):
        registry.build({"family": "kneser-ney", "architecture": {"prune": [1]}}, V)

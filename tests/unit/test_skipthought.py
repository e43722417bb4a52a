"""SkipThought: encoder, decoders, official weights, training on neighbours.

Oracles: GRUs in plain loops with the same weights; the official program's formulas of a GRU, with
made-up weights in its layout; log probabilities a word at a time; neighbours by hand.
"""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from beyond_perplexity.corpus.latent_instances import TOKENS, InstanceStore
from beyond_perplexity.errors import InputError
from beyond_perplexity.semantics.evaluators.contract import load_evaluator
from beyond_perplexity.semantics.evaluators.job import EvaluatorTraining
from beyond_perplexity.semantics.evaluators.sentence_training import (
    Neighbours,
    fit_skipthought,
    ordered_sentences,
)
from beyond_perplexity.semantics.evaluators.skipthought import (
    NeighbourBatch,
    SkipThoughtNetwork,
    TrainedSkipThought,
    read_official_gru,
)
from beyond_perplexity.vocabulary import BOS, EOS, BPEVocabulary, ClosedVocabulary
from tests.unit.evaluator_oracles import (
    check_batches,
    check_refusals,
    gru_states,
    job_of,
    sigmoid,
    some_texts,
    weights_of,
    write_documents,
)

SIZE, WIDTH, HIDDEN = 12, 5, 6
WORDS = [f"w{place}" for place in range(SIZE - 3)]
pytestmark = pytest.mark.usefixtures("one_thread")


def make(directions="bi"):
    torch.manual_seed(1)
    options = {
        "directions": directions,
        "embedding_size": WIDTH,
        "hidden_size": HIDDEN,
        "decoder_size": 4,
    }
    return SkipThoughtNetwork(SIZE, options).eval()


def last_states(layer, rows, directions):
    parts = [gru_states(rows, weights_of(layer))[-1]]
    if directions == "bi":
        parts.append(gru_states(rows[::-1], weights_of(layer, reverse=True))[-1])
    return np.concatenate(parts)


@pytest.mark.parametrize("directions", ["uni", "bi"])
def test_the_encoder_is_a_loop_over_words(directions):
    network = make(directions)
    table = network.embedding.weight.detach().double().numpy()
    encoder = TrainedSkipThought(network, WORDS)
    texts = some_texts(words=WORDS)
    assert encoder.width == HIDDEN
    for text, vector in zip(texts, encoder.encode(texts), strict=True):
        rows = table[[3 + WORDS.index(word) for word in text.split()]]
        wanted = last_states(network.reader.layer, rows, directions)
        np.testing.assert_allclose(vector, wanted, atol=2e-6)


@pytest.mark.parametrize("directions", ["uni", "bi"])
def test_a_vector_does_not_depend_on_its_batch(directions):
    check_batches(TrainedSkipThought(make(directions), WORDS), some_texts(70, words=WORDS))


def test_unknown_words_are_read_as_unknown_and_counted():
    encoder = TrainedSkipThought(make(), WORDS)
    found = encoder.encode(["w1 x w2", "w1 y w2", "w1 <unk> w2", "w1 w2", "x y", "", "<unk>"])
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[2], found[3])  # <unk> is no word at all
    assert not np.array_equal(found[0], found[2])
    assert np.isnan(found[4:]).all()
    assert (encoder.words, encoder.unknown) == (12, 4)


def log_probs_by_hand(network, decoder, vector, ids):
    """Return log p of a sentence and its end, a word at a time, with the vector beside each."""
    table = network.embedding.weight.detach().double().numpy()
    weight, bias = (part.detach().double().numpy() for part in network.output.parameters())
    rows = np.array([np.concatenate([table[token], vector]) for token in [BOS, *ids]])
    total = 0.0
    for state, token in zip(gru_states(rows, weights_of(decoder)), [*ids, EOS], strict=True):
        logits = weight @ state + bias
        logits[BOS] = -np.inf
        total += logits[token] - np.log(np.exp(logits).sum())
    return total


def test_the_loss_is_that_of_both_neighbours_a_word_at_a_time():
    network = make()
    rows = [[3, 4, 5], [6], [7, 8]]
    after, before = [[9, 10], [], [3]], [[4], [5, 6, 7], []]
    tokens = [[row + [0] * (3 - len(row)) for row in part] for part in (rows, before, after)]
    parts = [torch.tensor(part) for part in tokens]
    lengths = [torch.tensor([len(row) for row in part]) for part in (rows, before, after)]
    batch = NeighbourBatch(*(part for pair in zip(parts, lengths, strict=True) for part in pair))
    table = network.embedding.weight.detach().double().numpy()
    wanted, predictions = 0.0, 0
    for row, one, other in zip(rows, before, after, strict=True):
        vector = last_states(network.reader.layer, table[row], "bi")
        for decoder, ids in ((network.before, one), (network.after, other)):
            if ids:
                wanted -= log_probs_by_hand(network, decoder, vector, ids)
                predictions += len(ids) + 1
    assert network.loss(batch).item() == pytest.approx(wanted, rel=1e-5)
    assert batch.predictions == predictions


# ---- official weights ----


def official_arrays(prefixes, seed=0):
    random = np.random.default_rng(seed)
    shapes = {
        "W": (WIDTH, 2 * HIDDEN),
        "U": (HIDDEN, 2 * HIDDEN),
        "b": (2 * HIDDEN,),
        "Wx": (WIDTH, HIDDEN),
        "Ux": (HIDDEN, HIDDEN),
        "bx": (HIDDEN,),
    }
    return {
        f"{prefix}{name}": random.normal(size=shape).astype(np.float32)
        for prefix in prefixes
        for name, shape in shapes.items()
    }


def official_state(arrays, prefix, rows):
    """Return the last state by the official program's `gru_layer`."""
    w, u, b, wx, ux, bx = (
        arrays[f"{prefix}{name}"].astype(float) for name in ("W", "U", "b", "Wx", "Ux", "bx")
    )
    state = np.zeros(HIDDEN)
    for row in rows.astype(float):
        gates = sigmoid(state @ u + row @ w + b)
        reset, update = gates[:HIDDEN], gates[HIDDEN:]
        fresh = np.tanh((state @ ux) * reset + row @ wx + bx)
        state = update * state + (1 - update) * fresh
    return state


@pytest.fixture
def official(tmp_path):
    """Write files in the official layouts; return options, arrays and tables."""
    words = ["UNK", *WORDS, "<eos>"]
    (tmp_path / "dictionary.txt").write_text("\n".join(words) + "\n", encoding="utf-8")
    options = {"family": "skipthought", "dictionary": str(tmp_path / "dictionary.txt")}
    arrays, tables = {}, {}
    for seed, (kind, prefixes) in enumerate(
        {"uni": ["encoder_"], "bi": ["encoder_", "encoder_r_"]}.items()
    ):
        arrays[kind] = official_arrays(prefixes, seed)
        tables[kind] = np.random.default_rng(9 + seed).normal(size=(len(words), WIDTH))
        tables[kind] = tables[kind].astype(np.float32)
        weights, table = tmp_path / f"{kind}_skip.npz", tmp_path / f"{kind[0]}table.npy"
        np.savez(weights, Wemb=np.zeros(2), **arrays[kind])
        np.save(table, tables[kind])
        options |= {kind: str(weights), f"{kind}_table": str(table)}
    return options, arrays, tables, words


@pytest.mark.parametrize("kinds", [("uni",), ("bi",), ("uni", "bi")])
def test_official_weights_give_what_the_official_formulas_give(kinds, official):
    options, arrays, tables, words = official
    chosen = {key: value for key, value in options.items() if key in ("family", "dictionary")}
    for kind in kinds:
        chosen |= {kind: options[kind], f"{kind}_table": options[f"{kind}_table"]}
    evaluator = load_evaluator(chosen, device="cpu")
    for text in ("w1 w2 w3", "w4 strange w5 w5", "w0"):
        ids = [words.index(word) if word in words else 0 for word in text.split()]
        parts = []
        for kind in kinds:
            rows = tables[kind][ids]
            states = [official_state(arrays[kind], "encoder_", rows)]
            if kind == "bi":
                states.append(official_state(arrays[kind], "encoder_r_", rows[::-1]))
            state = np.concatenate(states)
            parts.append(state / np.sqrt(state @ state))
        (found,) = evaluator.encoder.encode([text])
        np.testing.assert_allclose(found, np.concatenate(parts), atol=2e-6)
    assert np.isnan(evaluator.encoder.encode(["strange"])).all()
    title = " and ".join(f"{kind}-skip" for kind in kinds)
    assert evaluator.describe()["title"] == f"SkipThought ({title})"


def test_what_are_no_official_weights_is_refused(official, tmp_path):
    options, arrays, _, _ = official
    sound = arrays["uni"]
    changed = {
        "lacks the array encoder_Ux": {k: v for k, v in sound.items() if "Ux" not in k},
        "is no .npz file of plain arrays": {**sound, "encoder_U": np.array([{}], dtype=object)},
        "its arrays do not fit each other": {**sound, "encoder_b": np.zeros(3, np.float32)},
        "are NaN or infinite": {**sound, "encoder_bx": np.full(HIDDEN, np.inf, np.float32)},
    }
    cases = {r"of 5 numbers, but .* have 620": (tmp_path / "uni_skip.npz", "uni", 620)}
    for number, (words, held) in enumerate(changed.items()):
        cases[words] = (tmp_path / f"{number}.npz", "uni", WIDTH)
        np.savez(cases[words][0], **held)
    for words, content in {"page of HTML": b"<html>", "or damaged": b"PK\x03\x04junk"}.items():
        cases[words] = (tmp_path / words, "uni", WIDTH)
        cases[words][0].write_bytes(content)
    check_refusals(read_official_gru, cases)
    (tmp_path / "dictionary.txt").write_text("a\nb\n", encoding="utf-8")
    nothing = ({"family": "skipthought"},)
    cases = {"give path, of a trained folder, or uni or bi": nothing}
    check_refusals(load_evaluator, {"has 11 rows for 2 words": (options,), **cases})


# ---- neighbours and training ----

TEXTS = ["w0 w1 . w2 . w3 x w4 .", "w5 .", "w6 . w7 ."]


def test_neighbours_are_of_the_same_document(tmp_path):
    path = tmp_path / "documents.parquet"
    write_documents(path, TEXTS)
    words = ClosedVocabulary([*WORDS, "."], 0)
    found = ordered_sentences(path, "train", words, EvaluatorTraining(), keep_unknown=True)
    source = Neighbours(InstanceStore.write(tmp_path / "store", "train", found), 1000)
    (plan,) = source.ordered()
    batch = source.batch(plan)

    def texts(tokens, lengths):
        held = ["<s>", "</s>", "<unk>", *WORDS, "."]
        rows = zip(tokens.tolist(), lengths.tolist(), strict=True)
        return [" ".join(held[token] for token in row[:length]) for row, length in rows]

    found = zip(
        texts(batch.before, batch.before_lengths),
        texts(batch.tokens, batch.lengths),
        texts(batch.after, batch.after_lengths),
        strict=True,
    )
    assert set(found) == {
        ("", "w0 w1 .", "w2 ."),
        ("w0 w1 .", "w2 .", "w3 <unk> w4 ."),
        ("w2 .", "w3 <unk> w4 .", ""),
        ("", "w6 .", "w7 ."),
        ("w6 .", "w7 .", ""),
    }


@pytest.fixture
def job(tmp_path):
    random = np.random.default_rng(0)
    texts = []
    for place in range(80):
        words = WORDS[:4] if place % 3 else WORDS[4:]
        texts.append(" . ".join([" ".join(random.choice(words, 4)) for _ in range(4)]) + " .")
    write_documents(tmp_path / "documents.parquet", texts)
    ClosedVocabulary([*WORDS, "."], 0).save(tmp_path / "words.json")
    training = {"maximum_epochs": 6, "batch_tokens": 128, "warmup_steps": 0, "learning_rate": 0.02}
    architecture = {"embedding_size": 8, "hidden_size": 8, "decoder_size": 8}
    options = {"family": "skipthought", "training": training, "architecture": architecture}
    held = {"vocabulary": tmp_path / "words.json", "preprocessing": {"lower_case": True}}
    return job_of(tmp_path, options, **held)


def test_neighbours_are_learned_and_the_folder_loads(job):
    fit_skipthought(job)
    held = json.loads((job.output / "evaluator.json").read_text(encoding="utf-8"))
    # A topic has four or five words, a sentence four and two marks: log 10 without a clue.
    assert held["valid_loss"] < math.log(4)
    given = {"family": "skipthought", "path": str(job.output)}
    evaluator = load_evaluator(given, device="cpu")
    assert evaluator.cleaning.apply(["W1 w2."]) == ["w1 w2 ."]
    same, other = evaluator.score([("w1 w2 .", "w0 w3 ."), ("w1 w2 .", "w7 w8 .")])["similarity"]
    assert same > other
    ClosedVocabulary(WORDS, 0).save(job.output / "vocabulary.json")
    with pytest.raises(InputError, match="is not the vocabulary the network was trained with"):
        load_evaluator(given)


def test_what_cannot_be_trained_is_told(job, tmp_path):
    subwords = BPEVocabulary.build([["w1 w2"]], 300)
    subwords.save(tmp_path / "subwords.json")
    sampled = {"training": {"scheduled_sampling": "linear"}}
    cases = {
        "is of parts of words": {"vocabulary": tmp_path / "subwords.json"},
        "give --vocabulary": {"vocabulary": None},
        "give --documents": {"documents": None},
        "sampling_k: is None|leave it out": {"options": {**job.options, **sampled}},
        "an even number": {"options": {**job.options, "architecture": {"hidden_size": 7}}},
    }
    jobs = {words: (replace(job, **changed),) for words, changed in cases.items()}
    check_refusals(fit_skipthought, jobs)


def test_sentences_are_cut_at_the_maximum_length(tmp_path):
    path = tmp_path / "documents.parquet"
    write_documents(path, ["w1 w2 w3 w4 . w5 ."])
    options = EvaluatorTraining(maximum_length=3)
    words = ClosedVocabulary([*WORDS, "."], 0)
    rows = [row.arrays[TOKENS] for row in ordered_sentences(path, "train", words, options, True)]
    assert [len(row) for row in rows] == [3, 2]

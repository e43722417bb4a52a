"""Encoders of sentences: InferSent, SkipThought, their trainings; Transformers, foreign folders.

Oracles: plain loops with the same weights; the official files' layout and program's formulas; a
killed training; neighbours by hand; toy tasks; equation 9 by hand from blocks and from
transformers' hidden states; sentence-transformers on one text at a time, where it is.
"""

import json
import math
import pickle
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn
from transformers import BertConfig, BertModel

from beyond_perplexity.corpus.latent_instances import TOKENS, InstanceStore
from beyond_perplexity.errors import InputError
from beyond_perplexity.invariant_tensors import QUANTUM
from beyond_perplexity.models import registry
from beyond_perplexity.semantics.evaluators import infersent, sentence_transformers, skipthought
from beyond_perplexity.semantics.evaluators import infersent_training as training_of_pairs
from beyond_perplexity.semantics.evaluators import sentence_training as training_of_sentences
from beyond_perplexity.semantics.evaluators.contract import load_evaluator
from beyond_perplexity.semantics.evaluators.families import is_installed, package_folder
from beyond_perplexity.semantics.evaluators.infersent import InferSentEncoder, InferSentNetwork
from beyond_perplexity.semantics.evaluators.infersent_training import LabelMeaning, fit_infersent
from beyond_perplexity.semantics.evaluators.job import EvaluatorTraining, PairTraining
from beyond_perplexity.semantics.evaluators.networks import QUANTUM_OF_ROWS, groups_of_one_length
from beyond_perplexity.semantics.evaluators.skipthought import TrainedSkipThought
from beyond_perplexity.semantics.evaluators.transformer import RunLayers
from beyond_perplexity.semantics.evaluators.vectors import open_file
from beyond_perplexity.training import interruptions
from beyond_perplexity.vocabulary import BOS, EOS, BPEVocabulary, ClosedVocabulary
from tests.unit import evaluator_oracles as oracles
from tests.unit.evaluator_oracles import check_refusals, check_refused, sigmoid, some_texts
from tests.unit.huggingface_models import TEXTS, make_gpt2, make_tokenizer

WIDTH, HIDDEN = 6, 6
WORDS = [f"w{place}" for place in range(20)]
pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("table") / "vectors.txt"
    held = oracles.write_vectors(path, [*WORDS, "<s>", "</s>"], WIDTH)
    return open_file(path), held


def given_vectors(path):
    return {"family": "vectors", "path": str(path)}


def loaded(family, **options):
    given = {key: str(held) if isinstance(held, Path) else held for key, held in options.items()}
    return load_evaluator({"family": family, **given}, device="cpu")


load_infersent = partial(loaded, "infersent")
load_transformer = partial(loaded, "transformer")


def make(**architecture):
    torch.manual_seed(1)
    options = {"hidden_size": HIDDEN, "dropout": 0.3, **architecture}
    return InferSentNetwork(WIDTH, 1, options).eval()


def pooled(network, states):
    """Pool the states of one sentence as equations 7 and 8 say."""
    if network.options.pooling == "max":
        return states.max(axis=0)
    if network.options.pooling == "mean":
        return states.mean(axis=0)
    first, _, last = network.attention
    weight, bias = (part.detach().double().numpy() for part in first.parameters())
    scores = np.tanh(states @ weight.T + bias) @ last.weight.detach().double().numpy()[0]
    shares = np.exp(scores) / np.exp(scores).sum()
    return shares @ states


@pytest.mark.parametrize("pooling", ["max", "mean", "attention"])
@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_the_encoder_is_a_loop_over_words(cell, pooling, table):
    network = make(cell=cell, pooling=pooling)
    read = oracles.lstm_states if cell == "lstm" else oracles.gru_states
    texts = some_texts()
    found = InferSentEncoder(network, table[0]).encode(texts)
    for text, vector in zip(texts, found, strict=True):
        rows = np.array([table[1][word] for word in text.split()], np.float64)
        states = oracles.both_ways(read, rows, network.reader.layer)
        np.testing.assert_allclose(vector, pooled(network, states), atol=2e-6)
    oracles.check_batches(InferSentEncoder(network, table[0]), some_texts(70, 23))


def test_groups_have_one_length_and_unknown_words_are_left_out_or_counted(table):
    assert QUANTUM_OF_ROWS == QUANTUM  # that of the matrix products, which imports torch
    lengths = np.random.default_rng(0).integers(1, 30, 300)
    seen: list[int] = []
    for group in groups_of_one_length(lengths, step=4, rows=32):
        assert (len(set(-(-lengths[group] // 4))), len(group) % QUANTUM) == (1, 0)
        assert len(group) <= 32
        seen += dict.fromkeys(group.tolist())
    assert sorted(seen) == list(range(300))  # each text once
    encoder = InferSentEncoder(make(), table[0])
    found = encoder.encode(["w1 none w2", "w1 w2", "<unk> w1 </s> w2", "none", "", "<unk>"])
    np.testing.assert_array_equal(found[[1, 2]], found[[0, 0]])
    assert np.isnan(found[3:]).all()
    assert (encoder.words, encoder.unknown) == (8, 2)
    encoder = TrainedSkipThought(make_skipthought(), WORDS)
    found = encoder.encode(["w1 x w2", "w1 y w2", "w1 <unk> w2", "w1 w2", "x y", "", "<unk>"])
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[2], found[3])  # <unk> is no word at all
    assert not np.array_equal(found[0], found[2])
    assert np.isnan(found[4:]).all()
    assert (encoder.words, encoder.unknown) == (12, 4)


def test_the_classifier_is_equation_6_in_both_orders(table):
    network = make()
    encoder = InferSentEncoder(network, table[0])
    vectors = encoder.encode(some_texts(8))
    first, second = vectors[:4], vectors[4:]
    found = encoder.scores(first, second, None)
    weight, bias = (part.detach().double().numpy() for part in network.head.parameters())
    for u, v, score in zip(first.astype(float), second.astype(float), found, strict=True):
        orders = [np.concatenate([a, b, abs(a - b), a * b]) for a, b in ((u, v), (v, u))]
        wanted = np.mean([sigmoid(weight[0] @ part + bias[0]) for part in orders])
        assert score == pytest.approx(wanted, abs=1e-6)
    np.testing.assert_array_equal(encoder.scores(second, first, None), found)


def official_weights(seed=2, width=WIDTH):
    torch.manual_seed(seed)
    layer = nn.LSTM(width, HIDDEN, bidirectional=True)
    return layer, {f"enc_lstm.{name}": part for name, part in layer.state_dict().items()}


@pytest.mark.parametrize("legacy", [False, True])
def test_official_weights_are_read_with_the_marks_around_a_sentence(legacy, table, tmp_path):
    """The official files are of torch's old layout; words in NO_WORDS are marks only there."""
    layer, held = official_weights()
    path = tmp_path / "infersent1.pkl"
    torch.save(held, path, _use_new_zipfile_serialization=not legacy)
    evaluator = load_infersent(path=path, vectors=given_vectors(table[0].path), version=1)
    assert (evaluator.measures, evaluator.describe()["title"]) == (("similarity",), "InferSent 1")
    texts = some_texts(6)
    found = evaluator.encoder.encode(texts)
    for text, vector in zip(texts, found, strict=True):
        words = ["<s>", *text.split(), "</s>"]
        rows = np.array([table[1][word] for word in words], np.float64)
        wanted = oracles.both_ways(oracles.lstm_states, rows, layer).max(0)
        np.testing.assert_allclose(vector, wanted, atol=2e-6)
    first, second = found[0].astype(float), found[1].astype(float)
    wanted = first @ second / np.sqrt((first @ first) * (second @ second))
    assert evaluator.score([(texts[0], texts[1])])["similarity"][0] == pytest.approx(wanted)


def test_marks_without_a_vector_are_left_out_and_damaged_weights_are_told(tmp_path, table):
    """Version 2 has `<p>` and `</p>`, which a table may lack."""
    _, held = official_weights()
    path = tmp_path / "infersent.pkl"
    torch.save(held, path)
    oracles.write_vectors(tmp_path / "some.txt", WORDS, WIDTH)
    vectors = given_vectors(tmp_path / "some.txt")
    one, two = (load_infersent(path=path, vectors=vectors, version=n).encoder for n in (1, 2))
    np.testing.assert_array_equal(one.encode(["w1 w2"]), two.encode(["w1 w2"]))
    name = "enc_lstm.bias_hh_l0"
    damaged = torch.full_like(held[name], torch.nan)
    cases = {"are NaN or infinite": damaged, "do not fit each other": torch.zeros(3)}
    for words, bias in cases.items():
        torch.save(held | {name: bias}, path)
        check_refused(words, load_infersent, path=path, vectors=given_vectors(table[0].path))
    check_refused("InferSent reads word vectors; give vectors", load_infersent, path=path)


class Trap:
    """What runs code when it is unpickled."""

    def __reduce__(self):
        return (print, ("a pickle was run",))


def test_what_are_no_official_weights_is_refused(tmp_path, capsys):
    paths = [tmp_path / name for name in ("page", "trap", "empty", "other", "sound")]
    contents = b"<!doctype html><title>gone</title>", pickle.dumps({"enc_lstm": Trap()}), b""
    for path, content in zip(paths, contents, strict=False):
        path.write_bytes(content)
    torch.save({"weight": torch.zeros(1)}, paths[3])
    torch.save(official_weights()[1], paths[4])
    cases = {
        "is a page of HTML": (paths[0], WIDTH),
        "is no file of weights alone": (paths[1], WIDTH),
        "is empty": (paths[2], WIDTH),
        "has not the layout of InferSent's weights": (paths[3], WIDTH),
        r"of 6 numbers, but those .* have 300": (paths[4], 300),
    }
    check_refusals(infersent.read_official, cases)
    assert capsys.readouterr().out == ""  # nothing was run


def store_sentences(folder, texts, keep_unknown):
    oracles.write_documents(folder / "documents.parquet", texts)
    words, options = ClosedVocabulary([*WORDS, "."], 0), EvaluatorTraining()
    path = folder / "documents.parquet"
    found = training_of_sentences.ordered_sentences(path, "train", words, options, keep_unknown)
    return InstanceStore.write(folder / "store", "train", found)


def test_half_of_the_pairs_follow_each_other_and_the_others_are_of_another_sentence(tmp_path):
    texts = ["w0 w1 . w2 w3 w4 . w5 .", "w6 .", "w7 none . none x . w8 w9 . w10 w11 ."]
    store = store_sentences(tmp_path, texts, False)
    vectors = np.arange(24 * 2, dtype=np.float32).reshape(24, 2)
    pairs = training_of_pairs.NextSentences(store, vectors, 64, 1, "train")
    held = [" ".join([*WORDS, "."][token - 3] for token in row.arrays[TOKENS]) for row in store]
    texts = ["w0 w1 .", "w2 w3 w4 .", "w5 .", "w6 .", "w7 .", ".", "w8 w9 .", "w10 w11 ."]
    assert held == texts
    assert pairs._indices.tolist() == [0, 1, 4, 5, 6]  # that the next one comes after
    orders = set()
    for epoch in range(8):
        (plan,) = pairs.shuffled(1, epoch)
        batch, again = pairs.batch(plan), pairs.batch(plan)
        assert torch.equal(batch.second, again.second)
        count = len(batch.labels) // 2
        assert batch.labels.tolist() == [1.0] * count + [0.0] * count
        assert (batch.second[:count] == batch.first[:count] + count).all()
        assert sorted(batch.second[count:].tolist()) == list(range(count, 2 * count))
        assert (batch.second[count:] != batch.first[count:] + count).all()
        orders.add(tuple(batch.second[count:].tolist()))
    assert len(orders) > 3
    assert batch.vectors.shape == (2 * count, int(batch.lengths.max()), 2)
    assert set(batch.vectors[..., 0].flatten().tolist()) <= set(vectors[:, 0].tolist())


def test_documents_are_sentences_and_sentences_are_cut_at_the_maximum_length(tmp_path):
    path = tmp_path / "documents.parquet"
    oracles.write_documents(path, [f"w{place} . w0" for place in range(9)])
    options = EvaluatorTraining(sentences="documents", maximum_length=2)
    words = ClosedVocabulary(WORDS, 0)
    rows = [*training_of_sentences.ordered_sentences(path, "train", words, options, True)]
    # Document 7 is of the other split.
    assert [row.instance_id for row in rows] == [0, 1, 2, 3, 4, 5, 6, 8]
    assert [row.arrays[TOKENS].tolist() for row in rows[:2]] == [[3, 2], [4, 2]]
    oracles.write_documents(path, ["w1 w2 w3 w4 . w5 ."])
    options, words = EvaluatorTraining(maximum_length=3), ClosedVocabulary([*WORDS, "."], 0)
    rows = training_of_sentences.ordered_sentences(path, "train", words, options, True)
    assert [len(row.arrays[TOKENS]) for row in rows] == [3, 2]


def chain_texts(count=160):
    """Write documents whose sentences are about one of two topics each."""
    random = np.random.default_rng(0)
    texts = []
    for place in range(count):
        words = WORDS[:10] if place % 3 else WORDS[10:]
        sentences = [" ".join(random.choice(words, random.integers(3, 7))) for _ in range(4)]
        texts.append(" . ".join([*sentences, "."]))
    return texts


def job_of(folder, **options):
    path = folder / "documents.parquet"
    if not path.exists():
        oracles.write_documents(path, chain_texts())
        oracles.write_vectors(folder / "vectors.txt", WORDS, WIDTH)
    training = {"maximum_epochs": 8, "batch_tokens": 256, "warmup_steps": 0, "checkpoint_steps": 9}
    training |= {"learning_rate": 0.02, **options.pop("training", {})}
    given = {"family": "infersent", "vectors": given_vectors(folder / "vectors.txt")}
    given |= {"architecture": {"hidden_size": 8, "dropout": 0.1}, "training": training, **options}
    return oracles.job_of(folder, given, documents=None if "pairs" in options else path)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    job = job_of(tmp_path_factory.mktemp("next"))
    fit_infersent(job)
    return job


def test_the_next_sentence_is_learned_and_the_folder_knows_all(trained):
    held = json.loads((trained.output / "evaluator.json").read_text(encoding="utf-8"))
    assert held["title"] == "InferSent architecture (next sentence)"
    assert held["valid_loss"] < 0.6  # log 2 = 0.69 without a clue; others of a topic are alike
    evaluator = load_infersent(path=trained.output)
    assert evaluator.measures == ("similarity",)  # to come next is no likeness
    text = "w1 w2 w3"
    pairs = [(text, "w4 w5 w6"), (text, "w14 w15 w16"), (text, text)]
    same, other, itself = evaluator.score(pairs)["similarity"]
    assert same > other
    assert itself == pytest.approx(1)
    assert evaluator.describe()["sha256"] == held["sha256"]


def test_resumed_equals_uninterrupted_and_other_files_are_refused(trained, tmp_path, monkeypatch):
    kept = interruptions.save_checkpoint

    def stop(folder, step, tensors, state):
        kept(folder, step, tensors, state)
        if state["progress"]["epoch"] == 3:
            raise KeyboardInterrupt

    job = job_of(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(interruptions, "save_checkpoint", stop)
        with pytest.raises((KeyboardInterrupt, SystemExit)):
            fit_infersent(job)
    assert not (job.output / "evaluator.json").exists()
    fit_infersent(job)
    name = "model.safetensors"
    assert (job.output / name).read_bytes() == (trained.output / name).read_bytes()
    other = tmp_path / "other.txt"
    oracles.write_vectors(other, WORDS, WIDTH, seed=5)
    with pytest.raises(InputError, match=r"are not the word vectors that .* was trained with"):
        load_infersent(path=trained.output, vectors=given_vectors(other))
    folder = tmp_path / "copy"
    shutil.copytree(trained.output, folder)
    cases = {"is a page of HTML": b"<html>", r"the file that evaluator\.json describes": b"\0" * 40}
    for words, content in cases.items():
        (folder / "model.safetensors").write_bytes(content)
        check_refused(words, load_infersent, path=folder)
    check_refused(r"it has no evaluator\.json", load_infersent, path=tmp_path)


def write_lines(path, rows):
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")


def write_pairs(path, labels, count=240):
    """Write pairs of texts, of one topic or of two; SNLI's names."""
    random = np.random.default_rng(4)
    rows = []
    for place in range(count):
        topics = [WORDS[:10], WORDS[10:]][:: random.choice([-1, 1])]
        first = " ".join(random.choice(topics[0], 4))
        second = " ".join(random.choice(topics[place % 2], 4))
        rows.append({"sentence1": first, "sentence2": second, "gold_label": labels[place % 2]})
    write_lines(path, [*rows, rows[-1] | {"gold_label": "-"}])  # nobody agreed


@pytest.mark.parametrize("labels", [("entailment", "contradiction"), ("4.5", "0.5")])
def test_pairs_train_the_classifier(labels, tmp_path):
    pairs = tmp_path / "pairs.jsonl"
    write_pairs(pairs, labels)
    job = job_of(tmp_path, pairs=str(pairs), training={"maximum_epochs": 25})
    fit_infersent(job)
    evaluator = load_infersent(path=job.output)
    kind = "inference" if labels[0] == "entailment" else "scored"
    assert evaluator.describe()["title"] == f"InferSent architecture ({kind} pairs)"
    found = evaluator.score([("w1 w2", "w3 w4"), ("w1 w2", "w13 w14"), ("none", "w1"), ("w1", "x")])
    assert set(found) == {"similarity", "head"}
    assert found["head"][0] > 0.6 > 0.4 > found["head"][1]
    assert found["head"][2] == 0
    assert np.isnan(found["head"][3])


def test_a_head_is_trained_on_official_weights_that_stay(tmp_path):
    """Oracles: the official encoder alone, equation 6 in NumPy, pairs that can be distinguished."""
    pairs, weights = tmp_path / "pairs.jsonl", tmp_path / "infersent1.pkl"
    rows = []
    for place, text in enumerate(some_texts(240, 6)):  # the same text again, or another
        other = text if place % 2 else " ".join(f"w{19 - int(word[1:])}" for word in text.split())
        rows.append({"sentence1": text, "sentence2": other, "score": 5 * (place % 2)})
    write_lines(pairs, rows)
    torch.save(official_weights()[1], weights)
    job = job_of(tmp_path, pairs=str(pairs), path=str(weights), training={"maximum_epochs": 30})
    vectors = job.options["vectors"]
    oracles.write_vectors(tmp_path / "vectors.txt", [*WORDS, "<s>"], WIDTH)  # </s> is lacking
    fit_infersent(job)
    found, alone = load_infersent(path=job.output), load_infersent(path=weights, vectors=vectors)
    texts = some_texts(9)
    vectors = found.encoder.encode(texts)
    np.testing.assert_array_equal(vectors, alone.encoder.encode(texts))
    assert found.cleaning == alone.cleaning
    assert found.describe()["title"] == "InferSent 1 (scored pairs)"
    assert (found.measures, alone.measures) == (("similarity", "head"), ("similarity",))
    head = load_file(job.output / "model.safetensors")
    weight, bias = head["head.weight"].double().numpy()[0], float(head["head.bias"][0])
    u, v = vectors[:2].astype(float)
    orders = [np.concatenate([a, b, abs(a - b), a * b]) for a, b in ((u, v), (v, u))]
    wanted = np.mean([sigmoid(weight @ part + bias) for part in orders])
    assert found.score([tuple(texts[:2])])["head"][0] == pytest.approx(wanted, abs=1e-6)
    told = found.score([("w1 w2", "w1 w2"), ("w1 w2", "w18 w17")])["head"]
    assert told[0] > 0.6 > 0.4 > told[1]


def test_labels_are_scores_or_classes_and_what_cannot_be_trained_is_told(tmp_path):
    path = tmp_path / "pairs.tsv"
    scores = LabelMeaning.of(path, {"0", "2.5", "5"}, PairTraining())
    assert (scores.classes, scores.low, scores.high) == ((), 0, 5)
    three = {"entailment", "neutral", "contradiction"}
    assert LabelMeaning.of(path, three, PairTraining()).classes == tuple(sorted(three))
    plain, scored = PairTraining(), PairTraining(labels="scores")
    cases = {
        "has 1 different labels": (path, {"1"}, plain),
        "none of its labels .* is entailment": (path, {"yes", "no"}, plain),
        "the score 'many' is no finite number": (path, {"1", "many"}, scored),
    }
    check_refusals(LabelMeaning.of, cases)
    job, alone, strange = job_of(tmp_path), tmp_path / "alone.parquet", tmp_path / "x.parquet"
    oracles.write_documents(alone, ["w1 w2"] * 9)
    oracles.write_documents(strange, ["x y . z"] * 9)
    cases = {"no document has two sentences": alone, "give --documents": None}
    cases |= {"has a vector of no word of the training text": strange}
    jobs = {words: (replace(job, documents=path),) for words, path in cases.items()}
    check_refusals(fit_infersent, jobs)


def make_skipthought(directions="bi"):
    torch.manual_seed(1)
    options = {"embedding_size": WIDTH, "hidden_size": HIDDEN, "directions": directions}
    network = skipthought.SkipThoughtNetwork(len(WORDS) + 3, options | {"decoder_size": 4})
    return network.eval()


def last_states(layer, rows, directions):
    parts = [oracles.gru_states(rows, oracles.weights_of(layer))[-1]]
    if directions == "bi":
        parts.append(oracles.gru_states(rows[::-1], oracles.weights_of(layer, reverse=True))[-1])
    return np.concatenate(parts)


@pytest.mark.parametrize("directions", ["uni", "bi"])
def test_skipthoughts_encoder_is_a_loop_over_words(directions):
    network = make_skipthought(directions)
    table = network.embedding.weight.detach().double().numpy()
    encoder = TrainedSkipThought(network, WORDS)
    assert encoder.width == HIDDEN
    texts = some_texts(words=WORDS)
    for text, vector in zip(texts, encoder.encode(texts), strict=True):
        rows = table[[3 + WORDS.index(word) for word in text.split()]]
        wanted = last_states(network.reader.layer, rows, directions)
        np.testing.assert_allclose(vector, wanted, atol=2e-6)
    oracles.check_batches(encoder, some_texts(70, 23))


def log_probs_by_hand(network, decoder, vector, ids):
    """Return log p of a sentence and its end, a word at a time, with the vector beside each."""
    table = network.embedding.weight.detach().double().numpy()
    weight, bias = (part.detach().double().numpy() for part in network.output.parameters())
    rows = np.array([np.concatenate([table[token], vector]) for token in [BOS, *ids]])
    total = 0.0
    states = oracles.gru_states(rows, oracles.weights_of(decoder))
    for state, token in zip(states, [*ids, EOS], strict=True):
        logits = weight @ state + bias
        logits[BOS] = -np.inf
        total += logits[token] - np.log(np.exp(logits).sum())
    return total


def test_the_loss_is_that_of_both_neighbours_a_word_at_a_time():
    network = make_skipthought()
    rows = [[3, 4, 5], [6], [7, 8]]
    after, before = [[9, 10], [], [3]], [[4], [5, 6, 7], []]
    tokens = [[row + [0] * (3 - len(row)) for row in part] for part in (rows, before, after)]
    parts = [torch.tensor(part) for part in tokens]
    lengths = [torch.tensor([len(row) for row in part]) for part in (rows, before, after)]
    sides = zip(parts, lengths, strict=True)
    batch = skipthought.NeighbourBatch(*(part for side in sides for part in side))
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


def official_arrays(prefixes, seed=0):
    random = np.random.default_rng(seed)
    shapes = {"W": (WIDTH, 2 * HIDDEN), "U": (HIDDEN, 2 * HIDDEN), "b": (2 * HIDDEN,)}
    shapes |= {"Wx": (WIDTH, HIDDEN), "Ux": (HIDDEN, HIDDEN), "bx": (HIDDEN,)}
    keys = [(f"{prefix}{name}", shape) for prefix in prefixes for name, shape in shapes.items()]
    return {key: random.normal(size=shape).astype(np.float32) for key, shape in keys}


def official_state(arrays, prefix, rows):
    """Return the last state by the official program's `gru_layer`."""
    names = ("W", "U", "b", "Wx", "Ux", "bx")
    w, u, b, wx, ux, bx = (arrays[f"{prefix}{name}"].astype(float) for name in names)
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
    prefixes = ["encoder_", "encoder_r_"]
    for seed, kind in enumerate(("uni", "bi")):
        arrays[kind] = official_arrays(prefixes[: 1 + seed], seed)
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


def test_what_are_no_official_weights_of_skipthought_is_refused(official, tmp_path):
    options, arrays, _, _ = official
    sound = arrays["uni"]
    changed = {
        "lacks the array encoder_Ux": {k: v for k, v in sound.items() if "Ux" not in k},
        "is no .npz file of plain arrays": {**sound, "encoder_U": np.array([{}], dtype=object)},
        "its arrays do not fit each other": {**sound, "encoder_b": np.zeros(3, np.float32)},
        "are NaN or infinite": {**sound, "encoder_bx": np.full(HIDDEN, np.inf, np.float32)},
    }
    cases = {r"of 6 numbers, but .* have 620": (tmp_path / "uni_skip.npz", "uni", 620)}
    for number, (words, held) in enumerate(changed.items()):
        cases[words] = (tmp_path / f"{number}.npz", "uni", WIDTH)
        np.savez(cases[words][0], **held)
    for words, content in {"page of HTML": b"<html>", "or damaged": b"PK\x03\x04junk"}.items():
        cases[words] = (tmp_path / words, "uni", WIDTH)
        cases[words][0].write_bytes(content)
    check_refusals(skipthought.read_official_gru, cases)
    (tmp_path / "dictionary.txt").write_text("a\nb\n", encoding="utf-8")
    cases = {"give path, of a trained folder, or uni or bi": ({"family": "skipthought"},)}
    check_refusals(load_evaluator, {"has 22 rows for 2 words": (options,), **cases})


def test_neighbours_are_of_the_same_document(tmp_path):
    texts = ["w0 w1 . w2 . w3 x w4 .", "w5 .", "w6 . w7 ."]
    source = training_of_sentences.Neighbours(store_sentences(tmp_path, texts, True), 1000)
    (plan,) = source.ordered()
    batch = source.batch(plan)

    def said(tokens, lengths):
        held = ["<s>", "</s>", "<unk>", *WORDS, "."]
        rows = zip(tokens.tolist(), lengths.tolist(), strict=True)
        return [" ".join(held[token] for token in row[:length]) for row, length in rows]

    sides = (batch.before, batch.before_lengths), (batch.tokens, batch.lengths)
    sides += ((batch.after, batch.after_lengths),)
    assert set(zip(*(said(*side) for side in sides), strict=True)) == {
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
        words = WORDS[:4] if place % 3 else WORDS[4:9]
        texts.append(" . ".join([" ".join(random.choice(words, 4)) for _ in range(4)]) + " .")
    oracles.write_documents(tmp_path / "documents.parquet", texts)
    ClosedVocabulary([*WORDS[:9], "."], 0).save(tmp_path / "words.json")
    training = {"maximum_epochs": 6, "batch_tokens": 128, "warmup_steps": 0, "learning_rate": 0.02}
    architecture = {"embedding_size": 8, "hidden_size": 8, "decoder_size": 8}
    options = {"family": "skipthought", "training": training, "architecture": architecture}
    held = {"vocabulary": tmp_path / "words.json", "preprocessing": {"lower_case": True}}
    return oracles.job_of(tmp_path, options, **held)


def test_neighbours_are_learned_and_what_skipthought_cannot_train_on_is_told(job, tmp_path):
    training_of_sentences.fit_skipthought(job)
    held = json.loads((job.output / "evaluator.json").read_text(encoding="utf-8"))
    # A topic has four or five words, a sentence four and two marks: log 10 without a clue.
    assert held["valid_loss"] < math.log(4)
    evaluator = loaded("skipthought", path=job.output)
    assert evaluator.cleaning.apply(["W1 w2."]) == ["w1 w2 ."]
    same, other = evaluator.score([("w1 w2 .", "w0 w3 ."), ("w1 w2 .", "w7 w8 .")])["similarity"]
    assert same > other
    ClosedVocabulary(WORDS, 0).save(job.output / "vocabulary.json")
    with pytest.raises(InputError, match="is not the vocabulary the network was trained with"):
        loaded("skipthought", path=job.output)
    BPEVocabulary.build([["w1 w2"]], 300).save(tmp_path / "subwords.json")
    sampled = {"training": {"scheduled_sampling": "linear"}}
    cases = {
        "is of parts of words": {"vocabulary": tmp_path / "subwords.json"},
        "give --vocabulary": {"vocabulary": None},
        "give --documents": {"documents": None},
        "sampling_k: is None|leave it out": {"options": {**job.options, **sampled}},
        "an even number": {"options": {**job.options, "architecture": {"hidden_size": 7}}},
    }
    jobs = {words: (replace(job, **changed),) for words, changed in cases.items()}
    check_refusals(training_of_sentences.fit_skipthought, jobs)


STATES, LAYERS = 8, 3
MINILM = pytest.mark.skipif(not is_installed("minilm"), reason="the extra pretrained is not there")


def make_transformer(family="transformer", **architecture):
    torch.manual_seed(2)
    size = {"width": STATES, "heads": 2, "layers": LAYERS, "feedforward_size": 16}
    size |= {"context_length": 16} if family == "transformer" else {}
    config = {"family": family, "architecture": {**size, **architecture}}
    return registry.build(config, len(WORDS) + 3).eval()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    model, path = make_transformer(), tmp_path_factory.mktemp("run") / "model"
    settings = {"preprocessing": {"lower_case": True}}
    registry.save_model(path, model, ClosedVocabulary(WORDS, 0), settings)
    return model, path


def upper_means(model, ids, layers):
    """Return the means over words of the outputs of the upper blocks, (K, W), of one text."""
    with torch.no_grad():
        stream = model._embed(torch.tensor([[0, *ids]]), model.positions[: 1 + len(ids)])
        held = []
        for block in model.blocks:
            stream = block(stream)
            held.append(stream)
        held[-1] = model.final_norm(stream)
    return np.array([part[0, 1:].double().mean(0).numpy() for part in held[-layers:]])


@pytest.mark.parametrize("layers", [1, 2, LAYERS])
def test_equation_9_by_hand(layers, folder):
    model, path = folder
    evaluator = load_transformer(model=path, layers=layers)
    texts = some_texts(8, 12)
    pairs = list(zip(texts[:4], texts[4:], strict=True))
    found = evaluator.score(pairs)
    for place, pair in enumerate(pairs):
        ids = [[3 + WORDS.index(word) for word in text.split()] for text in pair]
        first, second = (upper_means(model, each, layers) for each in ids)
        product = (first * second).sum() / layers
        assert found["inner"][place] == pytest.approx(sigmoid(product), abs=1e-5)
        assert found["inner_scaled"][place] == pytest.approx(sigmoid(product / STATES), abs=1e-6)
    assert (evaluator.cleaning.apply(["W1  W2"]), evaluator.texts) == (["w1 w2"], "tokens")


def test_states_do_not_depend_on_the_batch_and_models_may_have_other_layers(folder):
    words = ClosedVocabulary(WORDS, 0)
    encoder = RunLayers(make_transformer("transformer-adaptive-softmax", cutoffs=[0.5]), words, 2)
    assert encoder.encode(["w1 w2"]).shape == (1, 2 * STATES)
    config = {"family": "lstm", "architecture": {"embedding_size": 4, "hidden_size": 4}}
    recurrent = registry.build(config, len(WORDS) + 3)
    cases = {"lstm has no layers of attention that are read here": (recurrent, words, 1)}
    check_refusals(RunLayers, cases)
    with pytest.raises(InputError, match="layers: is 9, but the Transformer has 3"):
        load_transformer(model=folder[1], layers=9)
    check_refusals(load_transformer, {"give model, of a run, or path": ()})
    evaluator = load_transformer(model=folder[1])
    encoder = evaluator.encoder
    texts = some_texts(60, 18)
    long = sum(len(text.split()) > 15 for text in texts)
    assert encoder.limit == 15
    oracles.check_batches(encoder, texts, (1, 7))
    assert encoder.truncated == 4 * long > 0
    unknown = encoder.encode(["x y", "", "<unk> </s>", "w1 <unk> w2", "w1 w2"])
    assert np.isnan(unknown[:3]).all()
    np.testing.assert_array_equal(unknown[3], unknown[4])
    described = evaluator.describe()
    assert (described["truncated"], described["title"]) == (4 * long, "Transformer (model)")


def make_bert(folder, layers=2):
    marks = {"cls_token": "[CLS]", "sep_token": "[SEP]", "pad_token": "[PAD]", "unk_token": "[UNK]"}
    size = make_tokenizer(folder, marks)
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 32}
    sizes |= {"max_position_embeddings": 24, "num_hidden_layers": layers}
    config = BertConfig(vocab_size=size, initializer_range=0.5, **sizes)
    model = BertModel(config).eval()
    model.save_pretrained(folder)
    return model


@pytest.mark.parametrize("make_model", [make_bert, make_gpt2])
def test_equation_9_of_a_folder_of_hugging_face(make_model, tmp_path):
    """A text at a time through transformers; none of these texts has a special token."""
    model = make_model(tmp_path)
    evaluator = load_transformer(path=tmp_path, layers=2)
    assert evaluator.texts == "raw"
    texts = ["the cat sat .", "the dog sat on the log .", "a rose", "the low"]
    vectors = []
    for text in texts:
        ids = evaluator.encoder._tokenizer(text)["input_ids"]
        with torch.no_grad():
            body = model.base_model
            held = body(input_ids=torch.tensor([ids]), output_hidden_states=True).hidden_states
        vectors.append(np.array([part[0].double().mean(0).numpy() for part in held[-2:]]))
    found = evaluator.score([(texts[0], texts[1]), (texts[2], texts[3])])
    for place, (first, second) in enumerate(((0, 1), (2, 3))):
        product = (vectors[first] * vectors[second]).sum() / 2
        width = vectors[0].shape[1]
        assert found["inner_scaled"][place] == pytest.approx(sigmoid(product / width), abs=1e-4)
    long = evaluator.encoder.encode([" ".join(TEXTS * 4), "the cat"])
    assert evaluator.encoder.truncated == 1
    assert np.isfinite(long).all()


def test_folders_with_pickles_or_code_are_refused(tmp_path):
    def refused(words):
        check_refused(words, load_transformer, path=tmp_path)

    refused(r"has no config\.json")
    make_bert(tmp_path)
    config = tmp_path / "config.json"
    sound = config.read_text(encoding="utf-8")
    config.write_text(json.dumps(json.loads(sound) | {"auto_map": {"AutoModel": "x.Y"}}), "utf-8")
    refused("wants code of its own")
    config.write_text(sound, encoding="utf-8")
    (tmp_path / "model.safetensors").rename(tmp_path / "pytorch_model.bin")
    refused("its weights are pickled")


def write_folder(folder, kind="models.Transformer", weights="model.safetensors"):
    folder.mkdir(exist_ok=True)
    kind = kind if kind.startswith("my.") else f"sentence_transformers.{kind}"
    modules = [{"idx": 0, "name": "0", "path": "", "type": kind}]
    (folder / "modules.json").write_text(json.dumps(modules), encoding="utf-8")
    (folder / "config.json").write_text("{}", encoding="utf-8")
    (folder / weights).write_bytes(b"weights")
    return folder


def test_folders_of_sentence_transformers_are_checked_before_anything_is_loaded(tmp_path):
    folder = write_folder(tmp_path / "whole")
    assert sentence_transformers.check_folder(folder) == [folder / "model.safetensors"]
    pickled, none = ({"weights": name} for name in ("pytorch_model.bin", "vocab.txt"))
    cases = {
        "names my.code.Layer, whose code is not run": {"kind": "my.code.Layer"},
        "names sentence_transformers.util.http_get, whose code": {"kind": "util.http_get"},
        "are weights that would be unpickled": pickled,
        "has no weights": none,
    }
    folders = [write_folder(tmp_path / str(n), **given) for n, given in enumerate(cases.values())]
    paths = dict(zip(cases, folders, strict=True)) | {"it is not there": tmp_path / "nowhere"}
    for words, path in paths.items():
        check_refused(words, loaded, "sentence-transformers", path=path)
    (folder / "1_Dense").mkdir()
    (folder / "1_Dense" / "pytorch_model.bin").write_bytes(b"weights")
    check_refusals(sentence_transformers.check_folder, {r"1_Dense.* would be unpickled": (folder,)})
    (folder / "1_Dense" / "pytorch_model.bin").unlink()
    (folder / "config.json").write_text('{"auto_map": {}}', encoding="utf-8")
    check_refusals(sentence_transformers.check_folder, {"wants code of its own": (folder,)})
    (folder / "modules.json").unlink()
    check_refusals(sentence_transformers.check_folder, {r"it has no modules\.json": (folder,)})
    check_refusals(loaded, {"give path, of a folder, or package": ("sentence-transformers",)})


@MINILM
def test_a_folder_without_pooling_is_refused_and_every_known_layer_is_one(tmp_path):
    """Oracle: the library imports each of the allowed names as one of its modules."""
    misc = pytest.importorskip("sentence_transformers.util.misc")
    for name in sentence_transformers._LAYERS:
        kind = misc.import_from_string(f"sentence_transformers.models.{name}")
        assert issubclass(kind, torch.nn.Module)
    folder = tmp_path / "alone"
    shutil.copytree(package_folder("minilm"), folder)
    modules = json.loads((folder / "modules.json").read_text(encoding="utf-8"))
    (folder / "modules.json").write_text(json.dumps(modules[:1]), encoding="utf-8")
    with pytest.raises(InputError, match=r"modules\.json: has no layer that makes one vector"):
        loaded("sentence-transformers", path=folder)


@MINILM
def test_minilm_is_that_of_sentence_transformers_and_its_marks_are_no_words():
    """MiniLM puts [CLS] before a text and [SEP] behind it."""
    sentence_transformers = pytest.importorskip("sentence_transformers")
    evaluator = loaded("sentence-transformers", package="minilm")
    encoder = evaluator.encoder
    texts = ["A man rides a horse.", "the cat", "Two dogs play in the snow .", "the dog sat", "x"]
    model = sentence_transformers.SentenceTransformer(str(package_folder("minilm")), device="cpu")
    wanted = np.array([model.encode(text, show_progress_bar=False) for text in texts])
    found = encoder.encode(texts)
    np.testing.assert_allclose(found, wanted, atol=1e-5)
    np.testing.assert_array_equal(np.concatenate([encoder.encode([t]) for t in texts]), found)
    assert np.isnan(encoder.encode(["<unk>", ""])).all()
    assert encoder.truncated == 0
    encoder.encode(["word " * 300])
    assert encoder.truncated == 1
    pairs = [("a man is riding", "a person rides"), ("a man", "the tax law")]
    near, far = evaluator.score(pairs)["similarity"]
    assert near > far
    described = evaluator.describe()
    assert described["title"] == "all-MiniLM-L6-v2"
    assert set(described["versions"]) == {"sentence-transformers", "transformers", "torch"}
    assert (encoder.width, encoder.limit) == (384, 256)
    check_refused("package: glove has no encoder", loaded, "sentence-transformers", package="glove")
    path = package_folder("minilm")
    encoder = load_transformer(path=path, layers=1).encoder
    model = BertModel.from_pretrained(path).eval()
    ids = encoder._tokenizer("the cat sat")["input_ids"]
    assert len(ids) == 5
    with torch.no_grad():
        states = model(input_ids=torch.tensor([ids])).last_hidden_state[0]
    wanted = states[1:-1].mean(0).numpy()
    np.testing.assert_allclose(encoder.encode(["the cat sat"])[0], wanted, atol=1e-5)

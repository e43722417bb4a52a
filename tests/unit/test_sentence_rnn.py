"""The sentence level RNN: its energy, its hinge, its training on distorted sentences.

Oracles: the energy in a loop, finite differences, two epochs in NumPy, sentences by hand, a toy
corpus whose distortions can be told, the schedule in closed form.
"""

import json
import math

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

from beyond_perplexity.corpus.latent_instances import TOKENS, InstanceStore
from beyond_perplexity.errors import InputError
from beyond_perplexity.models.registry import load_any, load_model
from beyond_perplexity.models.sentence_rnn import SentenceRNN
from beyond_perplexity.training import fitting, learning
from beyond_perplexity.training import learning as contrasts
from beyond_perplexity.training.options import ContrastiveTrainingOptions
from beyond_perplexity.vocabulary import BPEVocabulary, ClosedVocabulary, load_vocabulary
from tests.unit.evaluator_oracles import check_refused
from tests.unit.small_corpora import write_corpus
from tests.unit.threads import set_threads

CPU = torch.device("cpu")
SIZE = 20


def make(vocabulary=SIZE, **architecture):
    torch.manual_seed(0)
    return SentenceRNN(vocabulary, {"size": 6, **architecture}).eval()


def some_sentences(count=40, longest=30, size=SIZE):
    generator = np.random.default_rng(1)
    lengths = generator.integers(1, longest + 1, count)
    return [generator.integers(2, size, n) for n in lengths]


def padded(rows, padding=0):
    lengths = torch.tensor([len(row) for row in rows])
    tokens = torch.full((len(rows), int(lengths.max())), padding)
    for row, ids in zip(tokens, rows, strict=True):
        row[: len(ids)] = torch.as_tensor(ids)
    return tokens, lengths


def numpy_weights(model):
    parts = model.embedding.weight, model.layer.of_input, model.layer.of_state, model.output[0]
    names = "vectors", "of_word", "of_state", "w"
    return {n: part.detach().double().numpy().copy() for n, part in zip(names, parts, strict=True)}


def states_of(weights, ids):
    """Give the states x(0) to x(n) of a sentence, as the paper's equations 12 to 14 say."""
    states = [np.zeros(len(weights["w"]))]
    for id in ids:
        drive = weights["of_word"] @ weights["vectors"][id] + weights["of_state"] @ states[-1]
        states.append(1 / (1 + np.exp(-drive)))
    return states


def energy(model, ids):
    """Give S(W), in float64, a word at a time."""
    weights = numpy_weights(model)
    return sum(float(weights["w"] @ state) for state in states_of(weights, ids)[1:])


@torch.no_grad()
def test_the_score_is_the_negative_energy_of_a_plain_loop():
    model, rows = make(), some_sentences()
    found = model.sentence_log_scores(*padded(rows))
    assert found.dtype == torch.float64
    expected = [-energy(model, row) for row in rows]
    np.testing.assert_allclose(found.numpy(), expected, rtol=0, atol=1e-5)


@torch.no_grad()
def test_word_by_word_the_score_is_the_same():
    model, rows = make(), some_sentences(20, 12)
    tokens, lengths = padded(rows)
    state, changes = model.initial_state(20), []
    for place in range(tokens.shape[1]):
        change, state = model.extend(tokens[:, place], state)
        changes.append(change)
    sums = torch.stack(changes, 1).cumsum(1).gather(1, lengths[:, None] - 1)[:, 0]
    torch.testing.assert_close(sums, model.sentence_log_scores(tokens, lengths), atol=1e-5, rtol=0)
    rows = torch.tensor([3, 3, 0])
    again, _ = model.extend(torch.tensor([4, 5, 4]), state.select(rows).reset(torch.tensor([1])))
    alone, _ = model.extend(torch.tensor([5]), model.initial_state(1))
    torch.testing.assert_close(again[1:2], alone, atol=1e-6, rtol=0)


@torch.no_grad()
def test_batch_order_and_padding_do_not_change_a_bit():
    model, rows = make(500), some_sentences(100, 40, 500)
    whole = model.sentence_log_scores(*padded(rows))
    order = np.random.default_rng(3).permutation(100)
    for size in (1, 7, 16, 100):
        for start in range(0, 100, size):
            part = order[start : start + size]
            found = model.sentence_log_scores(*padded([rows[place] for place in part], 7))
            assert torch.equal(found, whole[torch.from_numpy(part)])


def contrast_batch(count=9):
    rows = some_sentences(count, 12)
    generator = np.random.default_rng(5)
    others = [generator.integers(2, SIZE, len(row)) for row in rows]
    tokens, lengths = padded(rows)
    return learning.ContrastBatch(tokens, padded(others)[0], lengths), rows, others


def test_the_hinge_is_that_of_the_energies_and_its_gradient_that_of_differences():
    model = make()
    batch, rows, others = contrast_batch()
    margins = [energy(model, b) - energy(model, a) for a, b in zip(rows, others, strict=True)]
    np.testing.assert_allclose(model.margins(batch).detach().numpy(), margins, atol=1e-5)
    expected = sum(max(0.0, 1 - margin) for margin in margins)
    assert float(model.loss(batch).detach()) == pytest.approx(expected, abs=1e-5)
    assert batch.predictions == 9
    model = make().double()
    with torch.no_grad():
        model.output.mul_(9)  # so that some sentences are beyond the margin
    batch, _, _ = contrast_batch()
    margins = model.margins(batch).detach()
    assert 0 < int((margins > 1).sum()) < 9
    assert (margins - 1).abs().min() > 1e-3  # where the hinge has a slope
    model.loss(batch).backward()
    for weight in model.parameters():
        for place in range(0, weight.numel(), max(1, weight.numel() // 5)):
            flat, ends = weight.detach().view(-1), []
            for shift in (1e-5, -2e-5):
                flat[place] += shift
                ends.append(float(model.loss(batch).detach()))
            flat[place] += 1e-5
            slope = (ends[0] - ends[1]) / 2e-5
            assert float(weight.grad.view(-1)[place]) == pytest.approx(slope, abs=1e-6)


# Training


TRAINING = {"batch_tokens": 300, "maximum_epochs": 6, "learning_rate": 1.0, "checkpoint_steps": 3}
CONFIG = {"family": "sentence-rnn", "architecture": {"size": 8}, "training": TRAINING}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Write documents of two sentences, in which words count up: distortions can be told."""
    folder = tmp_path_factory.mktemp("data")
    generator = np.random.default_rng(0)
    texts = []
    for _ in range(150):
        starts, sizes = generator.integers(0, 10, 2), generator.integers(1, 12, 2)
        pairs = zip(starts, sizes, strict=True)
        first, second = ([f"w{(a + i) % 10}" for i in range(n)] for a, n in pairs)
        texts.append(" ".join([*first, ".", *second, "!", "!"]))
    texts[7] = ""
    return write_corpus(folder, texts, 120, [*(f"w{i}" for i in range(10)), ".", "!"])


def fit(data, folder, config=CONFIG, vocabulary=None):
    files = data / "documents.parquet", vocabulary or data / "vocabulary.json"
    with set_threads(1):
        fitting.fit_files(*files, config, 1, CPU, folder / "model", folder / "checkpoints")
    return folder / "model"


def read_contrasts(data, folder, split, **training):
    """Read the sentences of a split with their distortions, as the training does."""
    options = ContrastiveTrainingOptions(**training)
    vocabulary = load_vocabulary(data / "vocabulary.json")
    found = learning.encode_sentences(data / "documents.parquet", split, vocabulary, options)
    store = InstanceStore.write(folder, split, found)
    return learning.Contrasts(store, options, vocabulary.size, 1, split)


def pairs_of(batch):
    for row, other, n in zip(batch.tokens, batch.distorted, batch.lengths, strict=True):
        yield row[:n], other[:n]


@pytest.fixture(scope="module")
def whole(data, tmp_path_factory):
    return fit(data, tmp_path_factory.mktemp("whole"))


def curve(model, split):
    rows = pq.read_table(model / "training.parquet").drop_columns("seconds").to_pylist()
    return [row for row in rows if row["split"] == split]


def test_training_raises_the_contrastive_entropy_of_what_is_no_language_model(whole):
    for split in ("train", "valid"):
        rows = curve(whole, split)
        assert len(rows) == 6
        entropies = [row["contrastive_entropy"] for row in rows]
        assert entropies[-1] > max(0.5, 2 * entropies[0])
        assert rows[-1]["loss"] < rows[0]["loss"] < 1
        assert {row["perplexity"] for row in rows} == {None}
    check_refused(r"scores sentences without a likelihood.*estimate_partition", load_model, whole)
    assert math.isfinite(json.loads((whole / "model.json").read_text())["valid_loss"])


def test_the_curve_has_the_contrastive_entropy_of_the_distortions_of_the_training(data, whole):
    model, _, description = load_any(whole)
    assert description["valid_perplexity"] is None
    best = [row for row in curve(whole, "valid") if row["step"] == description["best_step"]]
    source = read_contrasts(data, whole.parent / "again", "valid", **TRAINING)
    pairs = [pair for entry in source.ordered() for pair in pairs_of(source.batch(entry))]
    assert len(pairs) == 60
    by_hand = [energy(model, b) - energy(model, a) for a, b in pairs]
    assert best[0]["contrastive_entropy"] == pytest.approx(np.mean(by_hand), abs=1e-5)
    assert best[0]["loss"] == pytest.approx(np.mean([max(0, 1 - m) for m in by_hand]), abs=1e-5)


def test_sentences_are_cut_where_they_end_and_distortions_redrawn_each_epoch(data, tmp_path):
    def distorted(epoch):
        """Give the distortion of each sentence, which appears once an epoch, by its words."""
        pairs = (pair for one in source.shuffled(1, epoch) for pair in pairs_of(source.batch(one)))
        return sorted((tuple(a.tolist()), tuple(b.tolist())) for a, b in pairs)

    for redraw in (True, False):
        source = read_contrasts(data, tmp_path, "train", distortion=0.5, redraw=redraw)
        first, other, again = map(distorted, (0, 1, 1))
        assert other == again
        assert (first == other) != redraw
    write_corpus(tmp_path, ["a b . c ! ! d", "", "a a a a a"], 3)
    vocabulary = ClosedVocabulary(["a", "b", "c", "d", ".", "!"], 0)

    def read(**options):
        given = ContrastiveTrainingOptions(**options)
        path = tmp_path / "documents.parquet"
        held = list(learning.encode_sentences(path, "train", vocabulary, given))
        assert [one.instance_id for one in held] == list(range(len(held)))
        return vocabulary.decode([one.arrays[TOKENS] for one in held])

    assert read() == ["a b .", "c ! !", "d", "a a a a a"]
    assert read(maximum_length=3) == ["a b .", "c ! !", "d", "a a a", "a a"]
    assert read(sentences="documents") == ["a b . c ! ! d", "a a a a a"]


def test_watched_sentences_are_fixed_and_open_vocabularies_refused(monkeypatch, data, tmp_path):
    assert learning.watched_places(40, 1).tolist() == list(range(40))
    monkeypatch.setattr(contrasts, "WATCHED", 10)
    found = learning.watched_places(40, 1)
    assert len(set(found.tolist())) == 10
    assert (np.diff(found) > 0).all()
    assert np.array_equal(found, learning.watched_places(40, 1))
    assert not np.array_equal(found, learning.watched_places(40, 2))
    BPEVocabulary.build([["a b c"]], 260).save(tmp_path / "bpe.json")
    with pytest.raises(InputError, match="vocabulary: is of parts of words, but a sentence-rnn"):
        fit(data, tmp_path, vocabulary=tmp_path / "bpe.json")


AS_THE_AUTHORS = {"batch_tokens": 1, "maximum_epochs": 2, "redraw": False, "distortion": 0.3}
AS_THE_AUTHORS |= {"gradient_clip": None, "l2": 0.002, "l2_on": "matrices"}
AS_THE_AUTHORS |= {"unit_vectors": True, "epoch_decay": 0.5}


def hinge_step(weights, true, distorted, rate, penalty):
    """Make one step of SGD on max(0, 1 − S(Ŵ) + S(W)) + λ (Σ U² + Σ w²) in place, float64."""
    slopes = {name: 2 * penalty * weights[name] for name in ("of_word", "of_state", "w")}
    slopes["vectors"] = np.zeros_like(weights["vectors"])
    margin, parts = 0.0, []
    for ids, sign in ((true, 1.0), (distorted, -1.0)):  # the loss grows with S(W), falls with S(Ŵ)
        states = states_of(weights, ids)
        margin -= sign * sum(float(weights["w"] @ state) for state in states[1:])
        parts.append((ids, sign, states))
    for ids, sign, states in parts if margin < 1 else []:
        later = np.zeros(len(weights["w"]))
        for place in reversed(range(len(ids))):
            state, before = states[place + 1], states[place]
            slopes["w"] += sign * state
            inner = (sign * weights["w"] + later) * state * (1 - state)
            slopes["of_word"] += np.outer(inner, weights["vectors"][ids[place]])
            slopes["of_state"] += np.outer(inner, before)
            slopes["vectors"][ids[place]] += weights["of_word"].T @ inner
            later = weights["of_state"].T @ inner
    for name, slope in slopes.items():
        weights[name] -= rate * slope
    return math.sqrt(sum(float((slope**2).sum()) for slope in slopes.values()))


def test_training_as_the_authors_train_is_that_of_a_plain_loop(data, tmp_path, monkeypatch):
    """Two epochs in NumPy, a sentence a step: penalty on U and w, no clipping, unit vectors."""
    started = {}
    kept = SentenceRNN.build

    def build(self):
        kept(self)
        started.setdefault("weights", numpy_weights(self))

    monkeypatch.setattr(SentenceRNN, "build", build)
    config = {**CONFIG, "training": AS_THE_AUTHORS}
    model, _, description = load_any(fit(data, tmp_path, config))
    source = read_contrasts(data, tmp_path / "again", "train", **AS_THE_AUTHORS)
    weights, norms = started["weights"], []
    for epoch in range(2):
        plan = source.shuffled(1, epoch)
        assert len(plan) == len(source._store)
        for entry in plan:
            ((true, distorted),) = pairs_of(source.batch(entry))
            rate = 0.1 / (1 + 0.5 * epoch)
            norms.append(hinge_step(weights, true.numpy(), distorted.numpy(), rate, 0.001))
        weights["vectors"] /= np.linalg.norm(weights["vectors"], axis=1, keepdims=True)
    assert description["best_step"] == description["steps"] == 2 * len(source._store)
    assert np.mean(np.array(norms) > 1) > 0.25, "clipping at 1 would show"
    for name, part in numpy_weights(model).items():
        np.testing.assert_allclose(part, weights[name], rtol=0, atol=2e-5, err_msg=name)

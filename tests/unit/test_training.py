"""Training, its batches, its checkpoints, scheduled sampling.

Oracles: torch's cross entropy and autograd, an undisturbed training, enumeration. Of scheduled
sampling: the formulas, plain training, a table model (certain; χ² of frequencies), whole steps.
"""

import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Barrier

import numpy as np
import pytest
import torch
from scipy.stats import chisquare
from torch.nn import functional

from beyond_perplexity.corpus.token_batches import IGNORED, Pieces, TokenStore
from beyond_perplexity.errors import InputError
from beyond_perplexity.models import factored
from beyond_perplexity.models.contract import LanguageModel
from beyond_perplexity.models.registry import load_model
from beyond_perplexity.options import parse_options
from beyond_perplexity.perplexities.summary import measure
from beyond_perplexity.schemas import perplexity as training_schema
from beyond_perplexity.schemas.corpora import DOCUMENTS
from beyond_perplexity.storage import fingerprint, shards
from beyond_perplexity.training import fitting, interruptions, loop
from beyond_perplexity.training.options import (
    ContrastiveTrainingOptions,
    TrainingOptions,
    scheduled_rate,
)
from beyond_perplexity.vocabulary import ClosedVocabulary, load_vocabulary
from tests.unit import small_corpora, threads
from tests.unit.evaluator_oracles import check_refused
from tests.unit.small_models import Fixed, TableModel, make

CPU, WEIGHTS = torch.device("cpu"), "model.safetensors"
TRAINING = {"batch_tokens": 64, "maximum_length": 40, "maximum_epochs": 4, "validation_steps": 7}
TRAINING |= {"warmup_steps": 4, "checkpoint_steps": 3}
CONFIG = {"family": "lstm", "training": TRAINING}
CONFIG |= {"architecture": {"embedding_size": 8, "hidden_size": 8, "layers": 2, "dropout": 0.3}}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Write a small corpus of counting words, with its vocabulary."""
    folder = tmp_path_factory.mktemp("data")
    generator = np.random.default_rng(0)
    pairs = zip(generator.integers(0, 10, 80), generator.integers(0, 25, 80), strict=True)
    texts = [" ".join(f"w{(a + i) % 10}" for i in range(n)) for a, n in pairs]
    return small_corpora.write_corpus(folder, texts, 60, [f"w{i}" for i in range(9)], 1)


def fit(data, output, checkpoints, config=CONFIG, seed=1):
    files = data / "documents.parquet", data / "vocabulary.json"
    with threads.set_threads(1):
        fitting.fit_files(*files, config, seed, CPU, output, checkpoints)


@pytest.fixture(scope="module")
def whole(data):
    fit(data, data / "whole", data / "whole-checkpoints")
    return data / "whole"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_command_that_is_ended_goes_on_and_equals_an_unended_one(data, whole, tmp_path, number):
    """The checkpoint of SIGTERM is that of a step at which none was due."""
    flags = {"seed": 1, "threads": 1, "device": "cpu", "config": json.dumps(CONFIG)}
    flags |= {"documents": data / "documents.parquet", "vocabulary": data / "vocabulary.json"}
    flags |= {"output": tmp_path / "out", "checkpoints": tmp_path / "ck"}
    given = [str(part) for name, value in flags.items() for part in (f"--{name}", value)]
    command = [sys.executable, "-m", "scripts.train", *given]
    process = subprocess.Popen(command, cwd=fingerprint.ROOT, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 120
    while not list(tmp_path.glob("ck/*/0*.safetensors")):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.001)
    process.send_signal(number)
    said = process.communicate()[1].decode()
    assert not (tmp_path / "out" / "model.json").exists()
    if number == signal.SIGTERM:
        assert process.returncode == 128 + signal.SIGTERM
        assert "Traceback" not in said
        (step,) = re.findall("step ([0-9]+) is kept: the same command goes on from there", said)
        assert "error: stopped by SIGTERM" in said
        assert not (tmp_path / "out").exists()
        (newest,) = sorted(tmp_path.glob("ck/*/0*.safetensors"))[-1:]
        assert int(newest.name.partition("-")[0]) == int(step)
    fit(data, tmp_path / "out", tmp_path / "ck")
    assert_equal_models(tmp_path / "out", whole)


STEP, VALIDATION = "training_step", "validation_step"


@pytest.mark.parametrize(
    ("hook", "call", "number"),
    [
        (STEP, 3, signal.SIGTERM),
        (STEP, 7, signal.SIGTERM),  # the last step before a validation
        (STEP, 8, signal.SIGUSR1),  # the first one after it
        (VALIDATION, 1, signal.SIGTERM),
        (VALIDATION, "last", signal.SIGINT),
    ],
)
def test_a_signal_at_any_moment_leaves_a_training_that_goes_on_alike(
    data, whole, tmp_path, monkeypatch, hook, call, number
):
    """Oracle: the training without interruption, bit for bit."""
    calls, real = iter(range(1, 10_000)), getattr(loop.Training, hook)
    words = load_vocabulary(data / "vocabulary.json")
    store = TokenStore.write(tmp_path / "store", data / "documents.parquet", "valid", words)
    last = len(Pieces(store, 512, TRAINING["batch_tokens"]).ordered())
    when = last if call == "last" else call

    def signalling(self, *arguments):
        if next(calls) == when:
            os.kill(os.getpid(), number)
        return real(self, *arguments)

    before = signal.getsignal(number)
    monkeypatch.setattr(loop.Training, hook, signalling)
    with pytest.raises(SystemExit) as left:
        fit(data, tmp_path / "out", tmp_path / "ck")
    assert left.value.code == 128 + number
    assert signal.getsignal(number) == before
    assert not (tmp_path / "out").exists()
    fit(data, tmp_path / "out", tmp_path / "ck")
    assert_equal_models(tmp_path / "out", whole)


def assert_equal_models(found, expected):
    for name in ("model.safetensors", "model.json", "vocabulary.json"):
        assert (found / name).read_bytes() == (expected / name).read_bytes()
    assert curve(found) == curve(expected)


SAMPLED = {"scheduled_sampling": "exponential", "sampling_k": 0.8}
PLATEAU = {"optimizer": "sgd", "schedule": "plateau", "plateau_epochs": 1.0, "patience": 9}
PLATEAU |= {"learning_rate": 6.0, "warmup_steps": 0, "maximum_epochs": 8, "gradient_clip": 5.0}
SENTENCES = {"batch_tokens": 300, "maximum_epochs": 6, "learning_rate": 1.0, "checkpoint_steps": 3}


@pytest.mark.parametrize(
    "config",
    [
        {**CONFIG, "family": "gru", "training": {**TRAINING, **SAMPLED}},
        {**CONFIG, "training": {**TRAINING, **PLATEAU}},
        {"family": "sentence-rnn", "architecture": {"size": 8}, "training": SENTENCES},
    ],
)
def test_a_training_that_ends_in_its_midst_goes_on_alike(data, tmp_path, monkeypatch, config):
    """The first checkpoint of the last epoch but one is the newest that is left."""
    kept, last = interruptions.save_checkpoint, config["training"]["maximum_epochs"] - 2

    def stop(folder, step, tensors, state):
        kept(folder, step, tensors, state)
        if state["progress"]["epoch"] >= last:
            raise KeyboardInterrupt

    fit(data, tmp_path / "whole", tmp_path / "whole-checkpoints", config)
    with monkeypatch.context() as patch:
        patch.setattr(interruptions, "save_checkpoint", stop)
        with pytest.raises((KeyboardInterrupt, SystemExit)):
            fit(data, tmp_path / "out", tmp_path / "ck", config)
    assert not (tmp_path / "out" / "model.json").exists()
    assert list(tmp_path.glob("ck/*/0*.safetensors"))
    fit(data, tmp_path / "out", tmp_path / "ck", config)
    assert_equal_models(tmp_path / "out", tmp_path / "whole")


def test_damaged_and_other_seeds_checkpoints_are_passed_over(data, whole, tmp_path, caplog):
    shutil.copytree(data / "whole-checkpoints", tmp_path / "ck")
    *_, newest = sorted(tmp_path.glob("ck/*/0*.safetensors"))
    newest.write_bytes(newest.read_bytes()[:-100])
    fit(data, tmp_path / "out", tmp_path / "ck")
    assert "is damaged" in caplog.text
    assert (tmp_path / "out" / WEIGHTS).read_bytes() == (whole / WEIGHTS).read_bytes()
    shutil.copytree(data / "whole-checkpoints", tmp_path / "other-ck")
    fit(data, tmp_path / "other", tmp_path / "other-ck", seed=2)
    assert len(list((tmp_path / "other-ck").iterdir())) == 2
    assert (tmp_path / "other" / WEIGHTS).read_bytes() != (whole / WEIGHTS).read_bytes()


def curve(folder):
    """Read the curve without its seconds, which no two runs share."""
    columns = [name for name in training_schema.TRAINING.names if name != "seconds"]
    (batch,) = shards.read_batches(folder / "training.parquet", training_schema.TRAINING, columns)
    return batch.to_pylist()


def test_the_folder_holds_the_best_model_and_the_curve(data, whole):
    model, vocabulary, description = load_model(whole)
    rows = curve(whole)
    valid = [row for row in rows if row["split"] == "valid"]
    assert [row["step"] for row in valid][:2] == [7, 14]
    assert description["valid_loss"] == min(row["loss"] for row in valid)
    assert description["best_step"] == min(valid, key=lambda row: row["loss"])["step"]
    assert valid[-1]["loss"] < valid[0]["loss"] < math.log(vocabulary.size) + 0.2
    (batch,) = shards.read_batches(data / "documents.parquet", DOCUMENTS, ["split", "text"])
    texts = [row["text"] for row in batch.to_pylist() if row["split"] == "valid"]
    found = measure(model, vocabulary, texts)["perplexity"]["token"]
    assert math.log(found) == pytest.approx(description["valid_loss"], abs=1e-5)


ARCHITECTURES = {
    "transformer": {"width": 8, "heads": 2, "feedforward_size": 8, "context_length": 12},
    "transformer-adaptive-softmax": {"width": 16, "heads": 2, "context_length": 12},
    "cnn": {"embedding_size": 8, "width": 12, "layers": 2, "layer_dropout": 0.2},
    "gru": {"embedding_size": 8, "hidden_size": 8, "layers": 2, "locked_dropout": True},
}


@pytest.mark.parametrize("family", ARCHITECTURES)
def test_every_neural_family_trains_is_saved_and_scores_what_training_saw(data, tmp_path, family):
    training = {**TRAINING, "maximum_steps": 9, "maximum_length": 12}
    config = {"family": family, "architecture": ARCHITECTURES[family], "training": training}
    fit(data, tmp_path / "out", tmp_path / "ck", config)
    model, vocabulary, description = load_model(tmp_path / "out")
    assert (description["steps"], description["parameters"]) == (9, model.parameter_count())
    store = TokenStore.write(tmp_path, data / "documents.parquet", "valid", vocabulary)
    pieces, loss, tokens = Pieces(store, 12, 64), 0.0, 0
    with torch.no_grad():
        for rows in pieces.ordered():
            batch = pieces.batch(rows)
            pair = model(batch.inputs).flatten(0, 1), batch.targets.flatten()
            loss += float(functional.cross_entropy(*pair, ignore_index=IGNORED, reduction="sum"))
            tokens += int((batch.targets != IGNORED).sum())
    assert loss / tokens == pytest.approx(description["valid_loss"], abs=1e-5)


@pytest.mark.parametrize("family", ["lstm", *ARCHITECTURES])
def test_training_in_bfloat16_is_that_in_single_precision_rounded(data, tmp_path, family):
    """Also on a CPU for which oneDNN has no LSTM of bfloat16. Oracle: float32."""
    losses = []
    for precision in ("32", "bf16-mixed"):
        training = {**TRAINING, "maximum_steps": 9, "maximum_length": 12, "precision": precision}
        architecture = ARCHITECTURES.get(family, CONFIG["architecture"])
        config = {"family": family, "architecture": architecture, "training": training}
        fit(data, tmp_path / precision, tmp_path / f"{precision}-checkpoints", config)
        losses.append(load_model(tmp_path / precision)[2]["valid_loss"])
    assert losses[0] != losses[1] == pytest.approx(losses[0], abs=0.02)


@pytest.mark.parametrize(
    ("family", "architecture"),
    [("trigram", {}), ("kneser-ney", {}), ("kneser-ney", {"order": 3, "prune": [0, 0, 1]})],
)
def test_counted_models_go_through_the_same_door(data, tmp_path, family, architecture):
    config = {"family": family, "architecture": architecture}
    fit(data, tmp_path / "model", tmp_path / "ck", config)
    model, _, description = load_model(tmp_path / "model")
    assert description["family"] == model.config["family"] == family
    assert architecture.items() <= model.config["architecture"].items()
    (row,) = curve(tmp_path / "model")
    assert row["split"] == "valid"
    assert description["valid_infinite"] == (family == "trigram")
    assert math.isfinite(row["loss"]) == (family != "trigram")
    wrong = {"family": family, "architecture": {"layers": 1}}
    check_refused(r"architecture\.layers", fit, data, tmp_path / "wrong", tmp_path / "ck", wrong)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"family": "lstm", "train": {}}, "config.train: unknown key; allowed are family"),
        ({"family": "lstm", "training": {"epochs": 1}}, "training.epochs: unknown key"),
        ({"family": "lstm", "training": {"patience": 0}}, "patience: is 0"),
    ],
)
def test_wrong_configs_are_named(data, tmp_path, config, words):
    check_refused(words, fit, data, tmp_path / "out", tmp_path / "ck", config)


PLAIN, DISTORTED = TrainingOptions, ContrastiveTrainingOptions


@pytest.mark.parametrize(
    ("kind", "values", "words"),
    [
        (PLAIN, {"schedule": "step"}, "one of 'cosine', 'constant'"),
        (PLAIN, {"sampling_k": 0.5}, "sampling_k: is 0.5, expected null without"),
        (PLAIN, {"scheduled_sampling": "linear"}, "sampling_k: is None, expected above 0"),
        (PLAIN, {"scheduled_sampling": "exponential", "sampling_k": 1.0}, "between 0 and 1"),
        (PLAIN, {"scheduled_sampling": "inverse-sigmoid", "sampling_k": 0.5}, "at least 1"),
        (PLAIN, {"sampling_c": 0.1}, "sampling_c: belongs to the linear schedule"),
        (PLAIN, {"sampling_minimum": 2.0}, "sampling_minimum: is 2.0"),
        (PLAIN, {"scheduled_sampling": "cosine"}, "one of 'none', 'linear'"),
        (DISTORTED, {"distortion": 0}, "training: distortion: is 0, expected above 0 and below 1"),
        (DISTORTED, {"distortion": 1.5}, "distortion: is 1.5"),
        (DISTORTED, {"redraw": "once"}, "training.redraw: is 'once', expected bool"),
        (DISTORTED, {"sentences": "lines"}, "sentences: is 'lines', expected one of 'cut'"),
        (DISTORTED, {"substitution": 0.9}, "substitution, transposition: add up to 1.4, not to 1"),
        (DISTORTED, {"optimizer": "adamw"}, "l2: belongs to sgd; with adamw set it to 0"),
        (DISTORTED, {"scheduled_sampling": "linear", "sampling_k": 1.0}, "models that predict"),
    ],
)
def test_wrong_options_are_named(kind, values, words):
    check_refused(words, parse_options, kind, values, "training")


def test_every_prediction_is_in_one_batch_of_every_epoch_and_empty_splits_are_named(data, tmp_path):
    vocabulary = ClosedVocabulary(["w1"], 0)
    with pytest.raises(InputError, match="the split 'test' has no documents"):
        TokenStore.write(tmp_path, data / "documents.parquet", "test", vocabulary)
    vocabulary = ClosedVocabulary([f"w{i}" for i in range(9)], 1)
    store = TokenStore.write(tmp_path, data / "documents.parquet", "train", vocabulary)
    expected = sorted(token for ids in store for token in [*ids.tolist(), 1])
    pieces = Pieces(store, 10, 40)
    orders = [pieces.ordered(), pieces.shuffled(1, 0), pieces.shuffled(1, 1)]
    for order in orders:
        batches = [pieces.batch(rows) for rows in order]
        targets = torch.cat([batch.targets[batch.targets != IGNORED] for batch in batches])
        assert sorted(targets.tolist()) == expected
        assert all(batch.inputs.numel() <= 40 and batch.inputs.shape[1] <= 10 for batch in batches)
    again = Pieces(store, 10, 40).shuffled(1, 1)
    assert all(np.array_equal(a, b) for a, b in zip(again, orders[2], strict=True))
    flat = [np.concatenate(order).tolist() for order in orders]
    assert flat[1] != flat[2]


@pytest.mark.parametrize("with_bias", [True, False])
@pytest.mark.parametrize(
    ("how", "tolerance"),
    [
        (factored.chunked_cross_entropy, 1e-4),
        (partial(factored.chunked_cross_entropy, dtype=torch.bfloat16), 0.1),
        (partial(factored.checkpointed_cross_entropy, rows=9), 1e-4),
    ],
)
def test_cross_entropy_in_parts_equals_torchs(with_bias, how, tolerance):
    torch.manual_seed(0)
    features = torch.randn(600, 6, requires_grad=True)
    weight = torch.randn(11, 6, requires_grad=True)
    bias = torch.randn(11, requires_grad=True) if with_bias else None
    targets = torch.randint(1, 11, (600,))
    leaves = [leaf for leaf in (features, weight, bias) if leaf is not None]
    logits = functional.linear(features, weight, bias)
    logits = logits.index_fill(1, torch.tensor([0]), -torch.inf)
    expected = functional.cross_entropy(logits, targets, reduction="sum")
    found = how(features, weight, bias, targets, torch.tensor([0]))
    torch.testing.assert_close(found, expected, atol=0, rtol=tolerance / 100)
    grads = (torch.autograd.grad(value / 3, leaves) for value in (found, expected))
    for ours, theirs in zip(*grads, strict=True):
        torch.testing.assert_close(ours, theirs, atol=tolerance, rtol=1e-4)


def test_the_schedule_rises_falls_and_is_halved_without_improvement(data, tmp_path, monkeypatch):
    # Oracle: the rates worked out again from the losses of the curve itself.
    config = {**CONFIG, "training": {**TRAINING, **PLATEAU}}
    fit(data, tmp_path / "out", tmp_path / "ck", config)
    rows = curve(tmp_path / "out")
    expected, best, halvings = [], math.inf, 0
    for row in (row for row in rows if row["split"] == "valid"):
        expected.append(6.0 * 0.5**halvings)
        halvings += row["loss"] >= best and row["epoch"] >= 1.0
        best = min(best, row["loss"])
    assert halvings > 0
    assert [row["learning_rate"] for row in rows if row["split"] == "valid"] == expected
    options = TrainingOptions(learning_rate=1.0, warmup_steps=4)
    rates = [scheduled_rate(options, step, 12) for step in range(12)]
    assert (rates[:4], rates[8]) == ([0.25, 0.5, 0.75, 1.0], pytest.approx(0.5))
    assert rates[4:] == sorted(rates[4:], reverse=True)
    constant = TrainingOptions(learning_rate=1.0, warmup_steps=0, schedule="constant")
    assert {scheduled_rate(constant, step, 12) for step in range(12)} == {1.0}
    inverse = ContrastiveTrainingOptions()
    assert inverse.distortion == 0.1
    rates = [scheduled_rate(inverse, 9, 99, 0, epoch) for epoch in (0, 1, 100)]
    assert rates == [0.1, pytest.approx(0.1 / 1.001), pytest.approx(0.1 / 1.1)]
    for instructions in ({"avx512_bf16": False}, {"avx512_bf16": True}, {}):
        held = {"avx512_f": True, **instructions} if instructions else {}
        monkeypatch.setattr(torch.cpu, "get_capabilities", lambda held=held: held)
        able = instructions.get("avx512_bf16", False)
        expected = torch.bfloat16 if able else torch.float32
        assert factored.fastest_products.__wrapped__() == expected


def save(folder, step):
    interruptions.save_checkpoint(folder, step, {"a": torch.tensor([step])}, {"at": step})


def test_two_checkpoints_are_kept_whoever_wrote_them(tmp_path, monkeypatch):
    """Two trainings as after a hard kill of Snakemake: both have written before either renames."""
    assert interruptions.load_checkpoint(tmp_path / "empty") is None
    for step in range(4):
        save(tmp_path / "one", step)
    both, read = Barrier(2), interruptions.content_hash

    def wait_and_hash(path):
        both.wait(timeout=60)
        return read(path)

    with monkeypatch.context() as patch, ThreadPoolExecutor(2) as pool:
        patch.setattr(interruptions, "content_hash", wait_and_hash)
        list(pool.map(partial(save, tmp_path / "two"), (1, 2)))
    for folder, steps in (("one", [2, 3]), ("two", [1, 2])):
        tensors, state = interruptions.load_checkpoint(tmp_path / folder)
        assert tensors["a"].item() == state["at"] == steps[1]
        assert sorted(int(path.name[:10]) for path in (tmp_path / folder).iterdir()) == steps


def test_what_a_kill_left_of_encoded_texts_is_removed_by_the_next_attempt(data, tmp_path):
    code = (
        "import os, sys\n"
        "from beyond_perplexity.corpus.token_batches import TokenStore\n"
        "from beyond_perplexity.vocabulary import ClosedVocabulary\n"
        "ClosedVocabulary.encode = lambda *_: os.kill(os.getpid(), 9)\n"
        "TokenStore.write(sys.argv[1], sys.argv[2], 'train', ClosedVocabulary(['a'], 1))\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path), str(data / "documents.parquet")]
    killed = subprocess.run(command, cwd=fingerprint.ROOT, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert [path.suffix for path in tmp_path.iterdir()] == [".raw"]
    words = load_vocabulary(data / "vocabulary.json")
    TokenStore.write(tmp_path, data / "documents.parquet", "train", words)
    assert {path.name for path in tmp_path.iterdir()} == {"train.values.npy", "train.ends.npy"}


def options(schedule, **values):
    named = {f"sampling_{key}": value for key, value in values.items()}
    return TrainingOptions(scheduled_sampling=schedule, **named)


@pytest.mark.parametrize("step", [0, 1, 7, 100, 10_000])
def test_the_schedules_are_the_papers(step):
    linear = loop.truth_probability(options("linear", k=0.9, c=0.01, minimum=0.2), step)
    assert linear == pytest.approx(max(0.2, 0.9 - 0.01 * step))
    assert loop.truth_probability(options("exponential", k=0.99), step) == pytest.approx(0.99**step)
    sigmoid = loop.truth_probability(options("inverse-sigmoid", k=20.0), step)
    assert sigmoid == pytest.approx(20 / (20 + math.exp(min(step / 20, 700))))
    assert loop.truth_probability(TrainingOptions(), step) == 1
    assert loop.truth_probability(options("linear", k=3.0, c=0.01), 5) == 1


def tokens(rows=6, places=9, size=6):
    found = torch.randint(3, size - 1, (rows, places), generator=torch.Generator().manual_seed(0))
    found[:, 0] = 0
    return found


def certain(token, size=6):
    return Fixed([float(one == token) for one in range(size)])


def test_the_share_of_true_tokens_is_the_probability_and_others_are_drawn_from_before():
    true, model = tokens(200, 50), certain(5).train()  # the last id is not among the true ones
    assert torch.equal(loop.mix_inputs(model, true, 1.0, seed=1, step=3), true)
    mixed = loop.mix_inputs(model, true, 0.0, seed=1, step=3)
    assert torch.equal(mixed[:, 0], true[:, 0])
    assert (mixed[:, 1:] == 5).all()
    mixed = loop.mix_inputs(model, true, 0.3, seed=1, step=3)
    kept = (mixed[:, 1:] == true[:, 1:]).float().mean()
    assert kept == pytest.approx(0.3, abs=4 * math.sqrt(0.21 / 9800))
    assert model.training
    assert torch.equal(mixed, loop.mix_inputs(model, true, 0.3, seed=1, step=3))
    for other in ({"seed": 1, "step": 4}, {"seed": 2, "step": 3}):
        assert not torch.equal(mixed, loop.mix_inputs(model, true, 0.3, **other))
    torch.manual_seed(0)
    table = torch.randn(3, 5, 5)
    table[:, :, 0] = -torch.inf
    model = TableModel(table.log_softmax(-1))
    mixed = loop.mix_inputs(model, tokens(4000, 3, 5), 0.0, seed=1, step=0).numpy()
    p = model.table.detach().double().exp().numpy()
    joint = p[0, 0][:, None] * p[1]  # of the tokens at places 1 and 2
    joint /= joint.sum()
    observed = np.zeros((5, 5))
    np.add.at(observed, (mixed[:, 1], mixed[:, 2]), 1)
    possible = joint > 0
    assert not observed[~possible].any()
    assert chisquare(observed[possible], 4000 * joint[possible]).pvalue > 1e-3


@pytest.mark.parametrize("family", ["gru", "cnn", "transformer", "transformer-adaptive-softmax"])
@pytest.mark.parametrize("probability", [0.0, 0.7, 0.98])
def test_logits_where_nothing_is_drawn_change_no_draw(family, probability, monkeypatch):
    model, true = make(family, {}, 40, seed=3).train(), tokens(9, 12, 40)
    mixed = loop.mix_inputs(model, true, probability, seed=1, step=2)
    monkeypatch.setattr(factored.FactoredModel, "step_some", LanguageModel.step_some)  # whole steps
    assert torch.equal(mixed, loop.mix_inputs(model, true, probability, seed=1, step=2))
    assert not torch.equal(mixed, true)


def fit_sampled(data, folder, family="gru", **training):
    architecture = {"embedding_size": 8, "hidden_size": 8, "dropout": 0.3}
    short = {"maximum_steps": 9, "validation_steps": 4, "checkpoint_steps": 2, **training}
    config = {"family": family, "architecture": architecture, "training": {**TRAINING, **short}}
    fit(data, folder / "model", folder / "ck", config)
    return (folder / "model" / WEIGHTS).read_bytes()


@pytest.mark.parametrize("family", ["lstm", "gru"])
def test_a_truth_of_one_is_plain_training_and_less_is_not(data, tmp_path, family):
    plain = fit_sampled(data, tmp_path / "plain", family)
    linear = {"scheduled_sampling": "linear"}
    assert fit_sampled(data, tmp_path / "one", family, **linear, sampling_k=1.0) == plain
    assert fit_sampled(data, tmp_path / "less", family, **linear, sampling_k=0.5) != plain

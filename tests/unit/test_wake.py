"""Wake training of proposals: its gradient, what it converges to, its restarts and its errors.

Oracles: enumeration of all z of a toy; gradients by autograd; the training without interruption.
"""

import itertools
import math
from functools import partial

import numpy as np
import pytest
import torch
import yaml

from beyond_perplexity.corpus.latent_instances import (
    Instance,
    InstanceBatch,
    InstanceStore,
    WholeInstances,
)
from beyond_perplexity.models import families, registry
from beyond_perplexity.models.latents.entitynlm import EntityNLM
from beyond_perplexity.models.latents.kglm import KGLM
from beyond_perplexity.models.latents.kglm_tagger import KGLMTagger
from beyond_perplexity.models.latents.rnng_discriminative import DiscriminativeRNNG
from beyond_perplexity.models.latents.rnng_span_crf import SpanCRF
from beyond_perplexity.planning import run, validation
from beyond_perplexity.schemas.perplexity import TRAINING
from beyond_perplexity.storage.fingerprint import ROOT
from beyond_perplexity.storage.shards import read_batches
from beyond_perplexity.training import fitting, loop
from beyond_perplexity.training.options import ProposalTrainingOptions, TrainingOptions
from beyond_perplexity.training.wake import wake_loss
from beyond_perplexity.vocabulary import ClosedVocabulary
from tests.unit import test_entitynlm, test_kglm, test_rnng, test_rnng_top_down, threads, toy_latent
from tests.unit.evaluator_oracles import check_refused

CPU = torch.device("cpu")
WORDS = (3, 4)
EVERY = torch.tensor(list(itertools.product((0, 1), repeat=2)))  # (4, 2): all z of two words


def make_pair(independent=False):
    torch.manual_seed(5)
    model, proposal = toy_latent.ToyModel(6, {}).eval(), toy_latent.ToyProposal(6, {}).eval()
    if independent:  # then the posterior is a product over words, as q is
        with torch.no_grad():
            model.bits.copy_(model.bits[:1].expand(3, 2))
    return model, proposal


def instances(count, words=WORDS):
    arrays = {"tokens": np.array(words), "bits": np.zeros(len(words))}
    return [Instance(number, arrays) for number in range(count)]


def enumerate_z(model, proposal, words=WORDS):
    """Return log p(x, z) and log q(z | x), (4,) each, of all z."""
    batch, owner = InstanceBatch.of(instances(1, words)), torch.zeros(4, dtype=torch.int64)
    log_q = proposal.log_prob(batch, owner, EVERY, [1.0])[:, 0]
    return model.log_joint(batch, owner, EVERY).detach(), log_q


def gradient_of(value, proposal):
    (found,) = torch.autograd.grad(value, [proposal.logits], retain_graph=True)
    return found


def expected_gradient(model, proposal, count):
    """Return the mean over all tuples of draws of Σ w̃ ∇ log q and of log p̂, by enumeration."""
    log_p, log_q = enumerate_z(model, proposal)
    chance, weights = log_q.detach().exp(), (log_p - log_q.detach()).exp()
    terms, bound = 0.0, 0.0
    for draw in itertools.product(range(4), repeat=count):
        probability = math.prod(float(chance[z]) for z in draw)
        total = sum(float(weights[z]) for z in draw)
        terms = terms + probability * sum(float(weights[z]) / total * log_q[z] for z in draw)
        bound += probability * math.log(total / count)
    return gradient_of(terms, proposal), bound


def test_the_gradient_is_that_of_all_tuples_of_draws_and_draws_of_a_row_are_its_own():
    """Means over 20,000 instances alike, within 4 standard errors; K = 2 and 3."""
    model, proposal = make_pair()
    for count in (2, 3):
        expected, bound = expected_gradient(model, proposal, count)
        blocks, values = [], []
        held = instances(20_000)
        for start in range(0, 20_000, 1000):
            proposal.train()
            batch = InstanceBatch.of(held[start : start + 1000])
            loss = wake_loss(proposal, model, count, 11, batch, 0.0)
            blocks.append(-gradient_of(loss, proposal) / 1000)
            values.append(-float(loss.detach()) / 1000)
        found = torch.stack(blocks)  # (20, V, 2)
        error = found.std(0) / math.sqrt(20)
        assert ((found.mean(0) - expected).abs() <= 4 * error + 1e-9).all()
        assert error.max() < 0.01 < expected.abs().max()
        deviation = np.std(values, ddof=1) / math.sqrt(20)
        assert abs(np.mean(values) - bound) < 4 * deviation
    # The numbers of an instance do not depend on its batch; each pass has numbers of its own
    model, proposal = make_pair()
    loss = partial(wake_loss, proposal, model, 4, 3)
    alone = sum(float(loss(InstanceBatch.of([one]), 2.5)) for one in instances(6))
    assert float(loss(InstanceBatch.of(instances(6)), 2.0)) == pytest.approx(alone, rel=1e-6)
    assert float(loss(InstanceBatch.of(instances(6)), 3.0)) != pytest.approx(alone, rel=1e-6)


FAMILIES = {
    "discriminative-rnng": (
        lambda: (test_rnng_top_down.make(), test_rnng_top_down.make(DiscriminativeRNNG)),
        lambda: test_rnng_top_down.batch_of([4, 3, 8], [6]),
    ),
    "entity-tagger": (
        lambda: (test_entitynlm.make_model(), test_entitynlm.make_proposal(dropout=0.0, noise=0.0)),
        lambda: test_entitynlm.make_batch((3, 4, 8, 5), (4, 4)),
    ),
    "kglm-tagger": (
        lambda: (test_kglm.make(KGLM), test_kglm.make(KGLMTagger, dropout=0.0, seed=3)),
        lambda: test_kglm.batch_of([3, 4, 3], [4, 3]),
    ),
    "span-crf": (
        lambda: (test_rnng.make(), test_rnng.make(SpanCRF)),
        lambda: test_rnng.batch_of([4, 3, 8, 5], [7, 2, 5]),
    ),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_every_proposal_learns(family):
    """Value and gradient are those of the draws, scored again one instance at a time."""
    make, batch_of = FAMILIES[family]
    model, proposal = make()
    whole, count = batch_of(), 6
    kept = {}

    class Watched(type(proposal)):
        def sample(self, batch, owner, *given):
            kept["latents"] = super().sample(batch, owner, *given)
            return kept["latents"]

    proposal.__class__ = Watched
    loss = wake_loss(proposal.train(), model, count, 5, whole, 1.0)
    loss.backward()
    found = {name: p.grad.clone() for name, p in proposal.named_parameters() if p.grad is not None}
    proposal.zero_grad()
    value = 0.0
    for place in range(len(whole)):
        rows = kept["latents"][place * count : (place + 1) * count]
        owner = torch.full((count,), place)
        log_q = proposal.learnable_log_prob(whole, owner, rows)
        with torch.no_grad():
            weights = model.log_joint(whole, owner, rows) - log_q
            shares = (weights - weights.logsumexp(0)).exp()
            value -= float(weights.logsumexp(0)) - math.log(count)
        (-(shares * log_q).sum()).backward()
    assert float(loss.detach()) == pytest.approx(value, rel=1e-5)
    assert any(grad.abs().max() > 1e-3 for grad in found.values())
    for name, parameter in proposal.named_parameters():
        if name in found:
            torch.testing.assert_close(found[name], parameter.grad, rtol=1e-3, atol=1e-5)


def test_with_many_latents_the_gradient_is_of_the_divergence_and_all_families_are_here():
    kinds = {name: families.find_row(name).training for name in families.families_of("proposal")}
    assert {name for name, kind in kinds.items() if "Proposal" in kind} == set(FAMILIES)
    # −∇ KL(p(z | x) ‖ q(z | x)) = Σ_z p(z | x) ∇ log q(z | x), by enumeration
    model, proposal = make_pair()
    log_p, log_q = enumerate_z(model, proposal)
    expected = gradient_of((log_p.softmax(0) * log_q).sum(), proposal)
    proposal.train()
    batch = InstanceBatch.of(instances(200))
    found = -gradient_of(wake_loss(proposal, model, 500, 3, batch, 0.0), proposal) / 200
    torch.testing.assert_close(found, expected, rtol=0, atol=0.02)
    one_sample = expected_gradient(model, proposal, 1)[0]  # E_q ∇ log q = 0: no wake at all
    assert one_sample.abs().max() < 1e-12
    assert expected.abs().max() > 0.1


def train_toy(model, proposal, folder, **options):
    held = list(itertools.product(range(2, 6), repeat=2))
    stores = []
    for split in ("train", "valid"):
        times = 4 if split == "train" else 64
        found = [Instance(n, instances(1, words)[0].arrays) for n, words in enumerate(held * times)]
        stores.append(WholeInstances(InstanceStore.write(folder, split, found), 96))
    settings = {"warmup_steps": 0, "weight_decay": 0.0, "patience": 99, "precision": "32"}
    chosen = TrainingOptions(**{"learning_rate": 0.1, "maximum_epochs": 60, **settings, **options})
    loss = partial(wake_loss, proposal, model, 32, 1)
    return loop.train(proposal.train(), tuple(stores), chosen, 1, folder / "c", CPU, loss=loss)


def divergence(model, proposal):
    """Return the mean of KL(p(z | x) ‖ q(z | x)) over all x of two words, by enumeration."""
    total = 0.0
    for words in itertools.product(range(2, 6), repeat=2):
        log_p, log_q = enumerate_z(model, proposal, words)
        posterior = log_p.log_softmax(0)
        total += float((posterior.exp() * (posterior - log_q.detach())).sum()) / 16
    return total


def exact_loss(model, proposal):
    """Return −Σ log p(x) over the predictions, of all x of two words, by enumeration."""
    pairs = itertools.product(range(2, 6), repeat=2)
    total = sum(float(enumerate_z(model, proposal, one)[0].logsumexp(0)) for one in pairs)
    return -total / 16 / 3


def test_a_proposal_converges_to_the_posterior_and_weights_that_no_step_betters_are_kept(tmp_path):
    model, proposal = make_pair(independent=True)
    before = divergence(model, proposal)
    result = train_toy(model, proposal, tmp_path)
    after = divergence(model, proposal.eval())
    assert before > 0.2
    assert after < 2e-3
    losses = [row["loss"] for row in result.rows if row["split"] == "valid"]
    assert losses[0] - exact_loss(model, proposal) > 0.005
    assert losses[-1] == pytest.approx(exact_loss(model, proposal), abs=5e-4)
    assert result.rows[0]["step"] == 0
    # The exact posterior, and steps that leave it: it stays, and its bound is log p(x)
    model, proposal = make_pair(independent=True)
    with torch.no_grad():
        words, bits = model.words.log_softmax(1), model.bits[0].log_softmax(0)
        proposal.logits.copy_((words + bits[:, None]).T)
    before = proposal.logits.detach().clone()
    assert divergence(model, proposal) == pytest.approx(0, abs=1e-12)
    result = train_toy(model, proposal, tmp_path / "exact", learning_rate=5.0, maximum_epochs=2)
    assert torch.equal(proposal.logits.detach(), before)
    assert result.best_step == 0
    assert result.valid_loss == pytest.approx(exact_loss(model, proposal), rel=1e-5)


FIT = {"batch_tokens": 64, "maximum_epochs": 2, "warmup_steps": 2, "learning_rate": 0.02}
FIT |= {"checkpoint_steps": 2, "validation_steps": 3}
WAKE = {"wake_steps": 9, "wake_samples": 3, "wake_batch_tokens": 40, "wake_learning_rate": 0.02}
SIZES = {"size": 8, "maximum_entities": 3, "maximum_length": 2}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wake")
    generator = np.random.default_rng(0)
    documents, mentions = [], []
    for number in range(40):
        words = [f"w{word}" for word in generator.integers(0, 8, int(generator.integers(3, 9)))]
        split = "train" if number < 30 else "valid"
        documents.append((number, split, "", " ".join(words), len(words)))
        mentions += [(number, place, place + 1, words[place], "gold") for place in range(0, 3, 2)]
    test_entitynlm.write_corpus(folder, documents, mentions)
    vocabulary = ClosedVocabulary([f"w{i}" for i in range(8)], 1)
    vocabulary.save(folder / "vocabulary.json")
    for name, caps in (("model", {}), ("other", {"maximum_entities": 2})):
        torch.manual_seed(3)
        model = EntityNLM(vocabulary.size, {**SIZES, "word_classes": 2, **caps})
        registry.save_model(folder / name, model, vocabulary, {})
    return folder


def fit(data, folder, wake="model", checkpoints="checkpoints", **training):
    config = {"family": "entity-tagger", "training": {**FIT, **training}}
    config |= {"architecture": {**SIZES, "dropout": 0.2, "noise": 0.1}}
    files = data / "documents.parquet", data / "vocabulary.json"
    places = folder / "out", folder / checkpoints
    with threads.set_threads(1):
        fitting.fit_files(*files, config, 1, CPU, *places, wake=data / wake if wake else None)
    model, _, description = registry.load_any(folder / "out")
    batches = read_batches(folder / "out" / "training.parquet", TRAINING, TRAINING.names)
    rows = [row for batch in batches for row in batch.to_pylist()]
    return model.state_dict(), description, [{**row, "seconds": 0} for row in rows]


def test_wake_training_follows_the_fit_and_resumes_bit_for_bit(data, tmp_path):
    plain, without, curve = fit(data, tmp_path, wake=None)
    assert without["wake"] is None
    held = {path.name for path in (tmp_path / "checkpoints").glob("*/[0-9]*")}
    weights, description, rows = fit(data, tmp_path, **WAKE)
    # The fit is taken from its checkpoint, not made again.
    assert held == {path.name for path in (tmp_path / "checkpoints").glob("*/[0-9]*")}
    assert (rows[: len(curve)], {row["phase"] for row in curve}) == (curve, {"fit"})
    assert {row["phase"] for row in rows[len(curve) :]} == {"wake"}
    assert any(not torch.equal(weights[name], plain[name]) for name in plain)
    wake = description["wake"]
    assert wake["steps"] == 9
    assert wake["valid_loss"] < wake["valid_loss_before"]
    newest = max((tmp_path / "checkpoints").glob("*/wake-*/[0-9]*"))
    newest.unlink()
    again, same, curve_again = fit(data, tmp_path, **WAKE)
    assert curve_again == rows
    assert same["wake"] == wake
    model = registry.load_any(data / "model")[0].state_dict()
    whole, _, _ = fit(data, tmp_path, checkpoints="fresh", **WAKE)
    after = registry.load_any(data / "model")[0].state_dict()
    assert all(torch.equal(tensor, after[name]) for name, tensor in model.items())  # it stays
    for name, tensor in weights.items():
        assert torch.equal(again[name], tensor), name
        assert torch.equal(whole[name], tensor), name


@pytest.mark.parametrize(
    ("wake", "training", "message"),
    [
        (None, WAKE, r"training\.wake_steps: is 9, but there is no model .* give --wake"),
        ("model", {}, r"--wake: .*model: training\.wake_steps is 0"),
        ("other", WAKE, "maximum_entities is 3, but 2 in .*other"),
        ("model", {"wake_samples": 1}, "wake_samples: is 1, expected at least 2"),
    ],
)
def test_wrong_wakes_are_errors(data, tmp_path, wake, training, message):
    check_refused(message, fit, data, tmp_path, wake=wake, **training)


def test_only_wake_training_waits_for_its_model_and_other_models_are_errors(data, tmp_path):
    fit(data, tmp_path, wake=None)
    words = ClosedVocabulary([f"v{i}" for i in range(8)], 1)
    registry.save_model(tmp_path / "foreign", EntityNLM(words.size, SIZES), words, {})
    cases = {"out": "out: is no model with latent variables"}
    cases |= {"foreign": "foreign: has another vocabulary than the proposal"}
    for name, message in cases.items():
        check_refused(message, fit, data, tmp_path, wake=tmp_path / name, **WAKE)
    assert ProposalTrainingOptions().wake_steps == 0
    config = yaml.safe_load((ROOT / "configs" / "smoke-importance.yaml").read_text())
    config["proposals"]["rnng-crf"]["training"] = {"wake_steps": 5}
    validation.validate(config)
    models = run.Run(config).models
    plain = ("rnng", "kglm-peeking", "entitynlm", "entitynlm-peeking")
    assert not any(models.wake_files(name) for name in plain)
    assert models.wake_files("rnng-crf") == ["<results>/models/rnng/model.json"]
    wake = "beyond_perplexity/training/wake.py"
    assert {*models.code("rnng"), wake} < set(models.training_code("rnng-crf"))
    assert not any(wake in models.training_code(name) for name in plain)
    config["models"]["rnng"]["training"] = {"wake_steps": 5}
    check_refused(r"models\.rnng\.training\.wake_steps: unknown key", validation.validate, config)

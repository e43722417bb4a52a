"""Scheduled sampling.

Oracles: the paper's formulas written out, plain training, a table model whose predictions are known
(certain ones; frequencies by chi-square), whole steps, an uninterrupted training. Writes a small
corpus.
"""

from __future__ import annotations

import math
import shutil

import numpy as np
import pytest
import torch
from scipy.stats import chisquare

from beyond_perplexity.errors import InputError
from beyond_perplexity.models import registry
from beyond_perplexity.models.contract import LanguageModel
from beyond_perplexity.options import parse_options
from beyond_perplexity.training.fitting import fit_files
from beyond_perplexity.training.loop import mix_inputs, truth_probability
from beyond_perplexity.training.options import TrainingOptions
from tests.unit.small_corpora import write_corpus
from tests.unit.small_models import TableModel

TRAINING = {"batch_tokens": 64, "maximum_steps": 9, "validation_steps": 4, "checkpoint_steps": 2}


def options(schedule, **values):
    return TrainingOptions(
        scheduled_sampling=schedule, **{f"sampling_{key}": value for key, value in values.items()}
    )


@pytest.mark.parametrize("step", [0, 1, 7, 100, 10_000])
def test_the_schedules_are_the_papers(step):
    linear = truth_probability(options("linear", k=0.9, c=0.01, minimum=0.2), step)
    assert linear == pytest.approx(max(0.2, 0.9 - 0.01 * step))
    assert truth_probability(options("exponential", k=0.99), step) == pytest.approx(0.99**step)
    sigmoid = truth_probability(options("inverse-sigmoid", k=20.0), step)
    assert sigmoid == pytest.approx(20 / (20 + math.exp(min(step / 20, 700))))
    assert truth_probability(TrainingOptions(), step) == 1
    assert truth_probability(options("linear", k=3.0, c=0.01), 5) == 1


def tokens(rows=6, places=9, size=6):
    found = torch.randint(3, size - 1, (rows, places), generator=torch.Generator().manual_seed(0))
    found[:, 0] = 0
    return found


def certain(token, size=6):
    """Make a model that predicts one token, whatever came before."""
    table = torch.full((1, size, size), -torch.inf)
    table[..., token] = 0
    return TableModel(table)


def test_without_truth_only_the_first_token_is_fed():
    true = tokens()  # the last id is not among them
    mixed = mix_inputs(certain(5).train(), true, 0.0, seed=1, step=3)
    assert torch.equal(mixed[:, 0], true[:, 0])
    assert (mixed[:, 1:] == 5).all()


def test_with_truth_only_nothing_is_drawn():
    true = tokens()
    assert torch.equal(mix_inputs(certain(5), true, 1.0, seed=1, step=3), true)


def test_the_share_of_true_tokens_is_the_probability_and_steps_differ():
    true, model = tokens(200, 50), certain(5).train()
    mixed = mix_inputs(model, true, 0.3, seed=1, step=3)
    kept = (mixed[:, 1:] == true[:, 1:]).float().mean()
    assert kept == pytest.approx(0.3, abs=4 * math.sqrt(0.21 / 9800))
    assert model.training
    assert torch.equal(mixed, mix_inputs(model, true, 0.3, seed=1, step=3))
    assert not torch.equal(mixed, mix_inputs(model, true, 0.3, seed=1, step=4))
    assert not torch.equal(mixed, mix_inputs(model, true, 0.3, seed=2, step=3))


def test_tokens_are_drawn_from_the_prediction_at_the_place_before():
    torch.manual_seed(0)
    table = torch.randn(3, 5, 5)
    table[:, :, 0] = -torch.inf
    model = TableModel(table.log_softmax(-1))
    mixed = mix_inputs(model, tokens(4000, 3, 5), 0.0, seed=1, step=0).numpy()
    p = model.table.detach().double().exp().numpy()
    joint = p[0, 0][:, None] * p[1]  # of the tokens at places 1 and 2
    joint /= joint.sum()
    observed = np.zeros((5, 5))
    np.add.at(observed, (mixed[:, 1], mixed[:, 2]), 1)
    possible = joint > 0
    assert not observed[~possible].any()
    assert chisquare(observed[possible], 4000 * joint[possible]).pvalue > 1e-3


class Whole(LanguageModel):
    """A model of which only whole steps are known."""

    def __init__(self, model):
        super().__init__()
        self.model, self.vocabulary_size = model, model.vocabulary_size

    config = property(lambda self: {})

    def forward(self, tokens):
        return self.model(tokens)

    def initial_state(self, batch_size, maximum_length):
        return self.model.initial_state(batch_size, maximum_length)

    def step(self, tokens, state):
        return self.model.step(tokens, state)


@pytest.mark.parametrize("family", ["gru", "cnn", "transformer", "transformer-adaptive-softmax"])
@pytest.mark.parametrize("probability", [0.0, 0.7, 0.98])
def test_logits_where_nothing_is_drawn_change_no_draw(family, probability):
    torch.manual_seed(3)
    model = registry.build({"family": family}, 40)
    true = tokens(9, 12, 40)
    mixed = mix_inputs(model, true, probability, seed=1, step=2)
    assert torch.equal(mixed, mix_inputs(Whole(model), true, probability, seed=1, step=2))
    assert not torch.equal(mixed, true)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    texts = [" ".join(f"w{(i + j) % 7}" for j in range(i % 9)) for i in range(40)]
    return write_corpus(folder, texts, 30, [f"w{i}" for i in range(7)])


def fit(data, output, checkpoints, family="gru", **training):
    config = {
        "family": family,
        "architecture": {"embedding_size": 8, "hidden_size": 8, "dropout": 0.3},
        "training": {**TRAINING, **training},
    }
    files = data / "documents.parquet", data / "vocabulary.json"
    fit_files(*files, config, 1, torch.device("cpu"), output, checkpoints)
    return (output / "model.safetensors").read_bytes()


@pytest.mark.parametrize("family", ["lstm", "gru"])
def test_a_truth_of_one_is_plain_training_and_less_is_not(data, tmp_path, family):
    plain = fit(data, tmp_path / "plain", tmp_path / "ck", family)
    one = {"scheduled_sampling": "linear", "sampling_k": 1.0}
    assert fit(data, tmp_path / "one", tmp_path / "ck", family, **one) == plain
    less = {"scheduled_sampling": "linear", "sampling_k": 0.5}
    assert fit(data, tmp_path / "less", tmp_path / "ck", family, **less) != plain


def test_a_resumed_training_equals_an_uninterrupted_one(data, tmp_path):
    schedule = {"scheduled_sampling": "exponential", "sampling_k": 0.8}
    whole = fit(data, tmp_path / "whole", tmp_path / "ck", **schedule)
    shutil.rmtree(tmp_path / "whole")
    checkpoints = sorted(tmp_path.glob("ck/*/0*.safetensors"))
    assert len(checkpoints) == 2
    checkpoints[-1].unlink()  # as if it had been killed before its end
    assert fit(data, tmp_path / "resumed", tmp_path / "ck", **schedule) == whole


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"sampling_k": 0.5}, "sampling_k: is 0.5, expected null without"),
        ({"scheduled_sampling": "linear"}, "sampling_k: is None, expected above 0"),
        ({"scheduled_sampling": "exponential", "sampling_k": 1.0}, "between 0 and 1"),
        ({"scheduled_sampling": "inverse-sigmoid", "sampling_k": 0.5}, "at least 1"),
        ({"sampling_c": 0.1}, "sampling_c: belongs to the linear schedule"),
        ({"sampling_minimum": 2.0}, "sampling_minimum: is 2.0"),
        ({"scheduled_sampling": "cosine"}, "one of 'none', 'linear'"),
    ],
)
def test_wrong_options_are_named(values, words):
    with pytest.raises(InputError, match=words):
        parse_options(TrainingOptions, values, "training")

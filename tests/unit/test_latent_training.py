"""Training of models with latent variables through the common loop, interrupted and resumed.

Needs no data. Oracle: the same training without an interruption, bit for bit.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

from beyond_perplexity.corpus.latent_instances import Instance, InstanceStore, WholeInstances
from beyond_perplexity.models.latent import LatentModule
from beyond_perplexity.training.loop import train
from beyond_perplexity.training.options import TrainingOptions
from tests.unit.test_entitynlm import make_model, make_proposal

OPTIONS = TrainingOptions(
    batch_tokens=40,
    maximum_steps=9,
    maximum_epochs=20,
    validation_steps=4,
    warmup_steps=2,
    checkpoint_steps=2,
    learning_rate=0.01,
)
MAKERS = {
    "entitynlm": lambda: make_model(double=False, dropout=0.3, noise=0.1),
    "entity-tagger": lambda: make_proposal(double=False, dropout=0.3, noise=0.1),
}


def sources(folder) -> tuple[WholeInstances, WholeInstances]:
    generator = np.random.default_rng(0)
    held = []
    for split, count in (("train", 30), ("valid", 8)):
        instances = []
        for number, length in enumerate(generator.integers(2, 12, count).tolist()):
            tokens = generator.integers(3, 9, length)
            codes = np.where(generator.random(length) < 0.3, 1, 0)
            instances.append(Instance(number, {"tokens": tokens, "latents": codes}))
        store = InstanceStore.write(folder, split, instances)
        held.append(WholeInstances(store, OPTIONS.batch_tokens))
    return held[0], held[1]


def fit(make, folder, checkpoints) -> tuple[LatentModule, list[dict]]:
    model = make().train()
    result = train(model, sources(folder), OPTIONS, 7, checkpoints, torch.device("cpu"))
    rows = [{key: row[key] for key in row if key != "seconds"} for row in result.rows]
    return model, rows


@pytest.mark.parametrize("family", MAKERS)
def test_resumed_equals_uninterrupted_bit_for_bit(family, tmp_path):
    whole, curve = fit(MAKERS[family], tmp_path / "data", tmp_path / "checkpoints")
    newest = max((tmp_path / "checkpoints").glob("[0-9]*-*.safetensors"))
    newest.unlink()
    resumed, again = fit(MAKERS[family], tmp_path / "data", tmp_path / "checkpoints")
    assert again == curve
    expected = whole.state_dict()
    for name, tensor in resumed.state_dict().items():
        assert torch.equal(tensor, expected[name]), name


def test_the_loss_falls(tmp_path):
    _, curve = fit(MAKERS["entitynlm"], tmp_path / "data", tmp_path / "checkpoints")
    losses = [row["loss"] for row in curve if row["split"] == "valid"]
    assert losses[-1] < losses[0]

"""Weights counted from a configuration: those of the models that are really built.

Needs no data. Oracle: the tensors of every family that is trained by itself, made without memory
(PyTorch's device ``meta``), and the counts of the papers' models.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import yaml

from beyond_perplexity.models import registry
from beyond_perplexity.models.families import families_of
from beyond_perplexity.planning.defaults import with_defaults
from beyond_perplexity.planning.model_sizes import (
    ASSUMED_BYTES,
    ASSUMED_WORDS,
    ModelSizes,
    count_weights,
    vocabulary_limit,
)
from beyond_perplexity.planning.run import Run
from beyond_perplexity.planning.validation import validate

ROOT = Path(__file__).parents[2]


def really(family: str, architecture: dict, vocabulary: int) -> int:
    with torch.device("meta"):
        model = registry.build({"family": family, "architecture": architecture}, vocabulary)
    return sum(weight.numel() for weight in model.parameters())


def counted(family: str, architecture: dict, vocabulary: int) -> int:
    return count_weights(with_defaults(f"architecture-{family}", architecture), vocabulary)


@pytest.mark.parametrize("vocabulary", [500, 52_000])
@pytest.mark.parametrize("family", families_of("trained"))
def test_a_family_with_its_defaults_is_counted_about_right(family, vocabulary) -> None:
    """A GRU or an Elman network has fewer gates than the LSTM that it is taken for."""
    found, true = counted(family, {}, vocabulary), really(family, {}, vocabulary)
    assert 0.95 * true < found < 2.6 * true


@pytest.mark.parametrize(
    ("name", "millions"),
    [
        ("transformer", 204.4),
        ("transformer-adaptive-softmax", 315.0),
        ("cnn", 133.0),
        ("lstm", 59.6),
    ],
)
def test_the_papers_models_are_counted_to_a_hundredth(name, millions) -> None:
    config = yaml.safe_load((ROOT / "configs" / "paper.yaml").read_text())
    validate(config, ROOT / "rules" / "config.schema.yaml")
    sizes = ModelSizes(Run(config).models)
    assert sizes.weights(name) == pytest.approx(millions * 1e6, rel=0.01)
    assert sizes.weights("trigram") == 0
    assert sizes.training(name)["batch_tokens"] == 65536
    assert sizes.training(name)["optimizer"] == "adamw"  # a default


@pytest.mark.parametrize(
    ("family", "architecture"),
    [
        ("cnn", {"layers": 3, "width": 200, "embedding_size": 80, "bottleneck": 30}),
        ("lstm", {"layers": 2, "hidden_size": 300, "embedding_size": 100, "tie_weights": False}),
        ("transformer", {"layers": 3, "width": 96, "feedforward_size": 200, "heads": 2}),
        ("transformer-adaptive-softmax", {"cutoffs": [0.2], "reduction": 2}),
    ],
)
def test_options_change_the_count_as_they_change_the_model(family, architecture) -> None:
    true = really(family, architecture, 5_000)
    assert counted(family, architecture, 5_000) == pytest.approx(true, rel=0.1)


def test_every_other_family_has_a_count_that_grows_with_its_vocabulary() -> None:
    """The default run has all of them; what is worked out or counted has none."""
    config = yaml.safe_load((ROOT / "config.yaml").read_text())
    validate(config, ROOT / "rules" / "config.schema.yaml")
    small = ModelSizes(Run(config).models)
    for name in [*config["models"], *config["proposals"]]:
        family = Run(config).models.find(name)["family"]
        none = family in (*families_of("counted"), "optimal")
        assert (small.weights(name) == 0) == none
    config["vocabularies"]["words"]["maximum_size"] = ASSUMED_WORDS * 10
    large = ModelSizes(Run(config).models)
    assert large.weights("rnng") > 5 * small.weights("rnng")


def test_what_nothing_limits_is_assumed(tmp_path) -> None:
    assert vocabulary_limit({"kind": "closed", "minimum_count": 2}) == ASSUMED_WORDS
    assert vocabulary_limit({"kind": "closed", "maximum_size": 70}) == 70
    assert vocabulary_limit({"kind": "bpe", "size": 300}) == 300
    (tmp_path / "model.safetensors").write_bytes(b"\0" * 4_000)
    config = yaml.safe_load((ROOT / "configs" / "smoke.yaml").read_text())
    for name, path in (("here", str(tmp_path)), ("there", "someone/model")):
        held = {"family": "huggingface", "corpus": "wikipedia", "architecture": {"path": path}}
        config["models"][name] = held
    validate(config, ROOT / "rules" / "config.schema.yaml")
    sizes = ModelSizes(Run(config).models)
    assert sizes.weights("here") == 1_000
    assert sizes.weights("there") == ASSUMED_BYTES // 4

"""The caps of models that shape numbers: named with their values where a reader of the CSV looks.

Needs nothing but the checkout. Oracle: the options that are written here, and the defaults of the
dataclasses that the commands read.
"""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
import yaml

from beyond_perplexity.figures import with_data
from beyond_perplexity.figures.labels import Labels
from beyond_perplexity.models.latents.entitynlm import EntityNLMOptions
from beyond_perplexity.planning.parameters import caps
from beyond_perplexity.planning.run import Run
from beyond_perplexity.planning.validation import validate
from beyond_perplexity.training.options import TrainingOptions

ROOT = Path(__file__).parents[2]
PIECE = f"training.maximum_length {TrainingOptions().maximum_length}"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"family": "lstm"}, [PIECE]),
        ({"family": "lstm", "training": {"maximum_steps": 5}}, [PIECE]),
        ({"family": "lstm", "training": {"maximum_length": 7}}, ["training.maximum_length 7"]),
        ({"family": "trigram"}, []),
        ({"family": "kneser-ney"}, []),
        ({"family": "huggingface", "architecture": {"path": "x"}}, []),
        ({"family": "huggingface", "training": {"maximum_epochs": 1}}, [PIECE]),
        (
            {"family": "sentence-rnn", "training": {"maximum_length": 9}},
            ["training.maximum_length 9"],
        ),
        (
            {"family": "entitynlm", "architecture": {"maximum_length": 3}},
            [f"maximum_entities {EntityNLMOptions().maximum_entities}", "maximum_length 3"],
        ),
    ],
)
def test_caps_are_named_with_their_values(options: dict, expected: list[str]) -> None:
    assert caps(options) == expected


def test_the_tables_of_a_run_are_told_the_caps_of_what_it_wrote() -> None:
    config = yaml.safe_load((ROOT / "configs" / "smoke.yaml").read_text(encoding="utf-8"))
    config["generation"]["maximum_length"] = 41
    validate(config, ROOT / "rules" / "config.schema.yaml")
    report = Run(config).report
    groups = [group for group in report.groups() if group.startswith("tendencies")]
    assert groups
    for group in groups:
        data = json.loads(report.labels(group))["data"]
        assert list(data) == config["generation"]["models"]
        assert all(words.endswith("generation.maximum_length 41") for words in data.values())


def test_the_csv_says_them_beside_every_number() -> None:
    labels = Labels(data={"a": "caps: x 1"})
    by_model = with_data(pd.DataFrame({"model": ["a", "b"]}), labels)
    assert [value if isinstance(value, str) else None for value in by_model["data"]] == [
        "caps: x 1",
        None,
    ]
    by_source = with_data(pd.DataFrame({"source": ["a/ancestral", "external/a"]}), labels)
    assert by_source["data"].notna().tolist() == [True, False]
    for unknown in (pd.DataFrame({"model": ["b"]}), pd.DataFrame({"value": [1.0]})):
        assert with_data(unknown, labels) is unknown

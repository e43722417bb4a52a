"""Models of sentences in a configuration: what is refused, what is a sentence, what is estimated.

Needs nothing but the schema. The oracle of each message is the key that the test itself broke.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from beyond_perplexity.contrastive.partition_options import PartitionOptions
from beyond_perplexity.errors import InputError
from beyond_perplexity.options import parse_options
from beyond_perplexity.planning.run import Run
from beyond_perplexity.planning.validation import validate
from beyond_perplexity.training.options import ContrastiveTrainingOptions

ROOT = Path(__file__).parents[2]
NAME = "sentence-rnn"


def load(**sections):
    config = yaml.safe_load((ROOT / "configs" / "smoke.yaml").read_text(encoding="utf-8"))
    for section, values in sections.items():
        config[section] |= values
    return config


def checked(config):
    validate(config)
    return config


def trained(config):
    options = json.loads(Run(checked(config)).models.options(NAME))
    return parse_options(ContrastiveTrainingOptions, options["training"], "training")


def test_it_generates_nothing():
    config = load(generation={"models": ["lstm", NAME]})
    words = f"generation.models: '{NAME}' \\({NAME}\\) scores sentences alone; remove"
    with pytest.raises(InputError, match=words):
        checked(config)


def test_its_vocabulary_is_of_words():
    config = load(vocabularies={"parts": {"kind": "bpe", "size": 300}})
    config["models"][NAME]["vocabulary"] = "parts"
    words = f"models.{NAME}.vocabulary: 'parts' is of parts of words, but a {NAME} is trained on"
    with pytest.raises(InputError, match=words):
        checked(config)


@pytest.mark.parametrize(
    ("training", "words"),
    [
        ({"distortion": 2}, "distortion: is 2, expected less than 1"),
        ({"substitution": 0.2}, "substitution, transposition: add up to 0.7, not to 1"),
        ({"distorsion": 0.1}, "did you mean 'distortion'"),
    ],
)
def test_wrong_options_of_its_training_are_named(training, words):
    config = load()
    config["models"][NAME]["training"] = training
    with pytest.raises(InputError, match=f"models.{NAME}.training.*{words}"):
        checked(config)


def test_other_families_have_no_distortion():
    config = load()
    config["models"]["lstm"]["training"]["distortion"] = 0.1
    with pytest.raises(InputError, match=r"models.lstm.training.distortion: unknown key"):
        checked(config)


def test_it_is_trained_on_what_is_a_sentence_when_it_is_scored():
    assert trained(load()).sentences == "cut"
    assert trained(load(contrastive={"documents_are_sentences": True})).sentences == "documents"
    trees = load()
    source = {"format": "penn", "document": "tree", "paths": ["x.mrg"]}
    trees["corpora"]["wikipedia"] = {
        "source": source,
        "split": {"train": 0.5, "valid": 0.2, "test": 0.3},
    }
    assert trained(trees).sentences == "documents"
    own = load(contrastive={"documents_are_sentences": True})
    own["models"][NAME]["training"]["sentences"] = "cut"
    assert trained(own).sentences == "cut"


def test_its_partition_function_is_estimated_where_a_proposal_is_named():
    files = ["<results>/partitions/sentence-rnn.parquet"]
    plan = Run(checked(load())).contrastive
    assert [file for file in plan.files() if "partitions" in file] == files
    assert json.loads(plan.partition_options()) == {"samples": 30, "particles": 2, "uniform": 0.5}
    parse_options(PartitionOptions, json.loads(plan.partition_options()), "options")
    without = Run(checked(load(contrastive={"partition": {}}))).contrastive
    assert not [file for file in without.files() if "partitions" in file]


def test_wrong_options_of_the_partition_are_named():
    for partition, words in (
        ({"proposal": "gpt"}, "contrastive.partition.proposal"),
        ({"proposal": NAME}, "is no language model of the run"),
        ({"proposal": "rnn", "samples": 0}, "contrastive.partition.samples"),
        ({"proposal": "rnn", "uniform": 2}, "contrastive.partition.uniform"),
    ):
        with pytest.raises(InputError, match=words):
            checked(load(contrastive={"partition": partition}))

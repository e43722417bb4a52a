"""Configuration: a typo is rejected by its path at every level, defaults, references.

Needs nothing. The oracle of each message is the key that the test itself broke.
"""

from __future__ import annotations

import copy
import dataclasses
import json
import re
import warnings
from collections import Counter
from pathlib import Path
from pkgutil import resolve_name

import pytest
import torch
import yaml
from pydantic.json_schema import PydanticJsonSchemaWarning

from beyond_perplexity.errors import InputError
from beyond_perplexity.models import registry
from beyond_perplexity.models.families import FAMILIES
from beyond_perplexity.models.latents.kglm_embedding import GraphOptions
from beyond_perplexity.planning.configuration import Configuration
from beyond_perplexity.planning.run import Run
from beyond_perplexity.planning.validation import validate
from beyond_perplexity.vocabulary import N_SPECIAL
from scripts.update_configuration_page import render

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "configuration.md"
CONFIGS = ["config.yaml", *sorted(f"configs/{p.name}" for p in (ROOT / "configs").glob("*.yaml"))]


def load(name: str = "configs/smoke.yaml") -> dict:
    return yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))


def mappings(value: object, path: tuple = ()) -> list[tuple]:
    """List the path of every mapping in a nested value."""
    if isinstance(value, dict):
        found = [path]
        for key, item in value.items():
            found += mappings(item, (*path, key))
        return found
    return []


@pytest.mark.parametrize("name", CONFIGS)
def test_shipped_configurations_are_valid(name):
    validate(load(name))


NAMED = {"corpora", "vocabularies", "models", "decodings", "external_samples", "evaluators"}


@pytest.mark.parametrize(
    "path", [p for p in mappings(load()) if not (len(p) == 1 and p[0] in NAMED)], ids=".".join
)
def test_a_typo_at_any_level_is_named_with_its_path(path):
    config = load()
    level = config
    for key in path:
        level = level[key]
    level["tpyo"] = 1
    with pytest.raises(InputError) as error:
        validate(config)
    assert ".".join([*path, "tpyo"]) in str(error.value)
    assert "allowed are" in str(error.value)


def test_defaults_are_filled_in_and_equal_what_the_schema_says():
    config = load()
    del config["seed"]
    validate(config)
    assert config["seed"] == 1
    assert config["external_samples"] == {}


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("generation", "models"), ["gpt9"], "generation.models: no model is named 'gpt9'"),
        (("generation", "decodings"), ["greedy"], "no decoding is named 'greedy'"),
        (("models", "trigram", "corpus"), "moon", "models.trigram.corpus: no corpus"),
        (("models", "trigram", "vocabulary"), "moon", "models.trigram.vocabulary"),
        (
            ("models", "trigram", "family"),
            "lsmt",
            "models.trigram.family: is 'lsmt', expected 'cnn'",
        ),
        (
            ("generation", "documents"),
            "many",
            "generation.documents: is 'many', expected a valid integer",
        ),
        (("seed",), -1, "seed: is -1, expected greater than or equal to 0"),
        (("decodings", "beam", "size"), 0, "config: decodings.beam: size: is 0"),
        (("models", "lstm", "training"), {"learning_rate": -1.0}, "config: models.lstm.training"),
        (
            ("tendencies", "measurement"),
            {"permutations": -3},
            "measurement.permutations: is -3, expected greater than or equal to 0",
        ),
        (
            ("importance",),
            {"smc": {"particles": 0}},
            "importance.smc.particles: is 0, expected greater",
        ),
        (("importance",), {"smc": {"particels": 9}}, "importance.smc.particels: unknown key"),
    ],
)
def test_a_wrong_value_is_named_with_its_path(path, value, message):
    config = load()
    level = config
    for key in path[:-1]:
        level = level[key]
    level[path[-1]] = value
    with pytest.raises(InputError) as error:
        validate(config)
    assert message in str(error.value)


@pytest.mark.parametrize("folder", ["", "  ", "\t", "/", "//"])
@pytest.mark.parametrize("name", ["results", "logs", "benchmarks"])
def test_no_folder_is_the_root_of_the_file_system(name, folder):
    """Snakemake puts `/models/...` behind the folder, whatever it is."""
    config = load()
    config["pathvars"] = {"results": "elsewhere", name: folder}
    with pytest.raises(InputError, match=rf"config: pathvars\.{name}: .*; name a folder"):
        validate(config)
    config["pathvars"][name] = "a b/c"
    validate(config)


BROUGHT = {"family": "huggingface", "corpus": "wikipedia", "architecture": {"path": "somewhere"}}


def test_a_model_that_is_brought_has_no_vocabulary():
    config = load()
    config["models"]["mine"] = dict(BROUGHT)
    validate(config)
    assert config["models"]["mine"]["training"] == {}
    config["models"]["mine"]["vocabulary"] = "words"
    with pytest.raises(InputError, match=r"models\.mine\.vocabulary: .* its own tokenizer"):
        validate(config)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"architecture": {}}, r"models\.mine\.architecture: key 'path' is missing"),
        (
            {"architecture": {"path": "x", "trust": 1}},
            r"models\.mine\.architecture\.trust: unknown",
        ),
        ({"training": {"epochs": 1}}, r"models\.mine\.training\.epochs: unknown key"),
        ({"family": "lstm", "architecture": {}}, r"models\.mine: key 'vocabulary' is missing"),
    ],
)
def test_a_wrong_key_of_a_model_that_is_brought_is_named(changes, message):
    config = load()
    config["models"]["mine"] = {**BROUGHT, **changes}
    with pytest.raises(InputError, match=message):
        validate(config)


@pytest.mark.parametrize(
    ("path", "key"), [("models.lstm", "family"), ("vocabularies.words", "kind")]
)
def test_a_missing_family_or_kind_is_the_only_thing_that_is_reported(path, key):
    config = load()
    section, name = path.split(".")
    del config[section][name][key]
    with pytest.raises(InputError) as error:
        validate(config)
    assert str(error.value) == f"config: {path}: key '{key}' is missing"


def test_documents_longer_than_a_models_context_are_refused_before_the_first_job():
    config = load("config.yaml")
    config["generation"]["maximum_length"] = 600
    with pytest.raises(InputError, match=r"maximum_length: is 600, but 'transformer' .* 512"):
        validate(config)
    for name in config["generation"]["models"]:
        if name.startswith("transformer"):
            config["models"][name]["architecture"] = {"context_length": 600}
    validate(config)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": "lstm"}, r"proposals\.mine\.model: 'lstm' \(lstm\) has no latent variables"),
        (
            {"family": "kglm-tagger"},
            r"proposals\.mine\.family: of rnng it is one of span-crf, joint",
        ),
        ({"family": "joint"}, r"joint needs architecture\.training: unsupervised in models\.rnng"),
        ({"model": "rng"}, r"proposals\.mine\.model: no model is named 'rng'"),
    ],
)
def test_a_proposal_that_is_for_another_model_is_named(changes, message):
    config = load("config.yaml")
    config["proposals"]["mine"] = {"model": "rnng", "family": "span-crf", **changes}
    with pytest.raises(InputError, match=message):
        validate(config)


def latent() -> dict:
    return load("configs/smoke-importance.yaml")


@pytest.mark.parametrize("key", ["models.entitynlm", "proposals.entitynlm-no-peeking"])
def test_scheduled_sampling_is_not_for_models_with_latent_variables(key):
    config, (section, name) = latent(), key.split(".")
    training = {"scheduled_sampling": "linear", "sampling_k": 1.0, "sampling_c": 0.1}
    config[section][name]["training"] = training
    with pytest.raises(InputError, match=rf"{key}\.training\.scheduled_sampling: is for models w"):
        validate(config)


def test_a_proposal_has_the_caps_of_its_model():
    config = latent()
    config["models"]["entitynlm"]["architecture"] = {"maximum_length": 25}
    validate(config)
    own = config["proposals"]["entitynlm-no-peeking"]["architecture"]
    assert own == {"context": "causal", "maximum_length": 25, "maximum_entities": 50}


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (
            ("proposals", "entitynlm-peeking", "architecture"),
            {"maximum_length": 25},
            "proposals.entitynlm-peeking.architecture.maximum_length: is 25, but 8 in",
        ),
        (("vocabularies", "words"), {"kind": "bpe", "size": 300}, "vocabulary: 'words' is bpe"),
        (("corpora", "wikipedia", "trees"), {"kind": "none"}, "models.rnng.corpus: rnng needs tre"),
        (
            ("corpora", "wikipedia", "source"),
            {"format": "text", "paths": ["a.txt"]},
            "models.entitynlm.corpus: entitynlm needs mentions",
        ),
        (
            ("corpora", "wikipedia", "source"),
            {"format": "conll", "paths": ["a.conll"]},
            "models.kglm.corpus: kglm needs a knowledge graph",
        ),
        (
            ("importance", "reduction"),
            {"confidence": 2.0},
            "reduction.confidence: is 2.0, expected less than",
        ),
        (("importance", "temperatures"), [1.0, float("nan")], "importance.temperatures.1: is nan"),
        (("importance", "temperatures"), [1e-320], "importance.temperatures: 1e-320"),
        (("importance", "smc"), {"temperature": 1e-300}, "importance.smc.temperature: 1e-300"),
        (("importance", "temperatures"), [float("inf")], "importance.temperatures.0: is inf"),
        (
            ("corpora", "wikipedia", "split"),
            {"train": 0.9, "valid": 0.1, "test": 0.0},
            "corpora.wikipedia.split.test: is 0, but models.rnng is evaluated on it",
        ),
        (
            ("corpora", "wikipedia", "source", "paths"),
            {"train": ["a"], "valid": ["b"]},
            "source.paths: key 'test' is missing",
        ),
    ],
)
def test_what_latent_models_need_is_asked_for_before_the_first_job(path, value, message):
    config = latent()
    level = config
    for key in path[:-1]:
        level = level[key]
    level[path[-1]] = value
    with pytest.raises(InputError) as error:
        validate(config)
    assert message in str(error.value)


def test_models_with_latent_variables_generate_by_ancestral_sampling_alone():
    config = load("config.yaml")
    config["generation"]["models"] = ["lstm", "rnng"]
    validate(config)
    config["generation"]["decodings"] = ["nucleus", "beam"]
    with pytest.raises(InputError, match=r"generation\.models: 'rnng' has latent variables"):
        validate(config)


def test_a_split_may_name_its_unit_alone_or_shares_alone():
    for given, expected in (
        ({"unit": "page"}, {"unit": "page", "train": 0.7, "valid": 0.1, "test": 0.2}),
        ({"train": 0.5, "valid": 0.2, "test": 0.3}, {"unit": "document"}),
    ):
        config = load()
        config["corpora"]["wikipedia"]["split"] = dict(given)
        validate(config)
        split = config["corpora"]["wikipedia"]["split"]
        assert split == {**given, **expected}
        assert Run(config).models.split_unit("lstm") == split["unit"]
        assert json.loads(Run(config).corpora.options("wikipedia"))["split"] == split


def test_files_that_give_the_splits_keep_their_pages_whole():
    config = load()
    paths = {split: [f"{split}.txt"] for split in ("train", "valid", "test")}
    config["corpora"]["wikipedia"]["source"] = {"format": "text", "paths": paths}
    del config["corpora"]["wikipedia"]["split"]
    validate(config)
    assert Run(config).models.split_unit("lstm") == "page"


def test_split_shares_must_add_up():
    config = load()
    config["corpora"]["wikipedia"]["split"] = {"train": 0.5, "valid": 0.1, "test": 0.1}
    with pytest.raises(
        InputError,
        match=r"corpora\.wikipedia\.split: the shares .* sum to 0\.7",
    ):
        validate(config)


def test_patterns_of_paths_are_expanded_in_order(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("b.txt", "a.txt", "a.md", "really[1].txt"):
        (tmp_path / name).write_text("text")
    config = load()
    corpus = config["corpora"]["wikipedia"]
    corpus["source"] = {"format": "text", "paths": ["?.txt", "really[1].txt", "missing.txt"]}
    validate(config)
    expected = ["a.txt", "b.txt", "really[1].txt", "missing.txt"]
    assert config["corpora"]["wikipedia"]["source"]["paths"] == expected


def test_a_pattern_that_nothing_matches_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = load()
    paths = {"train": ["*.txt"], "valid": ["v.txt"], "test": ["t.txt"]}
    config["corpora"]["wikipedia"]["source"] = {"format": "text", "paths": paths}
    del config["corpora"]["wikipedia"]["split"]
    message = r"corpora\.wikipedia\.source\.paths\.train: no file matches \*\.txt"
    with pytest.raises(InputError, match=message):
        validate(config)


def test_the_name_of_external_samples_is_kept_for_them():
    config = load()
    config["models"]["external"] = copy.deepcopy(config["models"]["trigram"])
    with pytest.raises(InputError, match=r"models\.external"):
        validate(config)


def test_the_page_of_all_keys_has_not_drifted():
    advice = "run python -m scripts.update_configuration_page"
    assert REFERENCE.read_text(encoding="utf-8") == render(Configuration), advice


def test_the_page_of_all_keys_has_a_row_for_each_and_its_links_lead_somewhere():
    # oracles: pydantic's schema, the dataclasses of the families; GitHub's rule for anchors
    page = REFERENCE.read_text(encoding="utf-8")
    keys = Counter({"kind": 1, "family": 1})  # by which vocabularies and evaluators are told apart
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PydanticJsonSchemaWarning)  # keys that have no default
        schema = Configuration.model_json_schema()
    for held in (schema, *schema["$defs"].values()):
        keys.update(list(held["properties"]))
    found = [resolve_name(row.options) for row in FAMILIES.values() if row.options]
    for kind in [GraphOptions, *found, *{resolve_name(row.training) for row in FAMILIES.values()}]:
        keys.update(field.name for field in dataclasses.fields(kind))
    assert Counter(re.findall(r"^\| `([^`]+)` \|", page, re.MULTILINE)) == keys
    headings = re.findall(r"^## (.+)$", page, re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
    assert len(anchors) == len(headings)
    links = set(re.findall(r"\(#([^)]+)\)", page))
    assert links == anchors - {"top-level"}
    rows = [line for line in page.splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {5}


def test_the_page_of_all_keys_says_what_trains_and_makes_a_model():
    page = REFERENCE.read_text(encoding="utf-8")
    section = page.partition("## models.NAME.architecture (family: rnng)\n")[2]
    section = section.partition("\n## ")[0]
    assert "| `maximum_words` | integer | `40` | Longer sentences are left out" in section
    assert "| `minimum_words` |" in section
    assert "## models.NAME.training" in page


@pytest.mark.parametrize(
    ("name", "millions"),
    [  # Table 1 of Meister & Cotterell (2021)
        ("transformer", 205),
        ("transformer-closed", 205),
        ("transformer-adaptive-softmax", 315),
        ("transformer-adaptive-softmax-bpe", 315),
        ("cnn", 133),
        ("cnn-closed", 133),
        ("lstm", 59),
        ("lstm-closed", 59),
    ],
)
def test_the_papers_models_have_its_parameter_counts(name, millions):
    config = load("configs/paper.yaml")
    model = config["models"][name]
    vocabulary = config["vocabularies"][model["vocabulary"]]
    closed = vocabulary["kind"] == "closed"
    size = vocabulary["maximum_size"] + N_SPECIAL if closed else vocabulary["size"]
    with torch.device("meta"):  # shapes without memory
        built = registry.build(model, size, not closed)
    assert built.parameter_count() == pytest.approx(millions * 1e6, rel=0.011)
    assert (built.context_length or 1e9) >= config["generation"]["maximum_length"]

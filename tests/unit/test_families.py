"""Families and folders of models: every row is true, nothing else tests for a family's name.

Oracles: the classes of the rows, the syntax trees, a folder with a thing broken, torch's errors.
"""

import ast
import dataclasses
import importlib
import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch

from beyond_perplexity.errors import InputError
from beyond_perplexity.models import contract, kneser_ney, latent, registry, trigram, word_by_word
from beyond_perplexity.models.families import (
    FAMILIES,
    families_of,
    family_modules,
    generating_modules,
    is_analytic,
    proposal_modules,
    training_modules,
)
from beyond_perplexity.models.registry import check_finite, load_any, load_model, save_model
from beyond_perplexity.planning.latent_checks import REQUIREMENTS, describe_annotation
from beyond_perplexity.storage.provenance import content_hash
from beyond_perplexity.training.options import TrainingOptions
from beyond_perplexity.vocabulary import ClosedVocabulary
from tests.unit.evaluator_oracles import check_refused
from tests.unit.small_models import make

ROOT = Path(__file__).parents[2]
MODELS = "beyond_perplexity/models"
KINDS = {"counted": contract.CountedModel, "unnormalized": latent.UnnormalizedModel}
KINDS |= dict.fromkeys(("trained", "external"), contract.LanguageModel)
KINDS |= {"latent": latent.LatentModel, "proposal": latent.Proposal}
# The papers' numbers are listed by family; a kind of vocabulary is called like the family with it.
ALLOWED = {"models/families.py", "models/huggingface_vocabulary.py", "vocabulary.py"}
ALLOWED |= {"report/importance.py", "report/published.py"}
ALLOWED |= {"report/semantic_tables.py"}  # columns of the paper
PARTIAL = {"startswith", "endswith", "removeprefix", "removesuffix"}


def resolve(reference):
    module, _, name = str(reference).partition(":")
    return getattr(importlib.import_module(module), name)


@pytest.mark.parametrize("family", [name for name, row in FAMILIES.items() if row.reference])
def test_a_row_agrees_with_its_class(family):
    row, found = FAMILIES[family], registry.find(family)
    assert found.family == family
    assert issubclass(found, KINDS[row.kind])
    assert issubclass(found, contract.CountedModel) == (row.kind == "counted")
    assert found.normalized == (row.kind != "unnormalized")
    assert issubclass(registry.find_training(family), TrainingOptions)
    assert not found.__abstractmethods__
    if issubclass(found, contract.ConfiguredModel):
        expected = resolve(row.options) if row.options else trigram.TrigramOptions
        assert found.options_kind is expected
    walked = {"start", "extend", "finish"} <= set(dir(found))
    assert row.sequential == (row.kind == "latent" and walked)


@pytest.mark.parametrize("family", FAMILIES)
def test_what_a_row_names_is_there(family):
    row = FAMILIES[family]
    assert row.options is None or dataclasses.is_dataclass(resolve(row.options))
    assert set(row.needs) <= set(REQUIREMENTS)
    assert bool(row.proposals) == (row.kind == "latent")
    assert {FAMILIES[name].kind for name in row.proposals} <= {"proposal"}
    assert (row.bring is not None) == bool(row.files)
    assert (row.kind == "external") <= (row.bring is not None)
    assert row.bring is None or callable(registry.find_named(row.bring))
    engines = registry.find_engines(family)
    names = ("SamplingEngine", "BeamEngine", "DEFAULT_BATCH")
    assert engines is None or all(getattr(engines, name) for name in names)
    assert all((ROOT / file).is_file() for file in family_modules(family))


@pytest.mark.parametrize("family", families_of("latent"))
def test_proposals_fit_their_model_and_the_optimal_one_is_its_own(family):
    options = {field.name for field in dataclasses.fields(resolve(FAMILIES[family].options))}
    for name in FAMILIES[family].proposals:
        proposal = FAMILIES[name]
        assert is_analytic(name) or proposal.needs == FAMILIES[family].needs
        assert set(proposal.shares) | set(proposal.asks) <= options
        own = resolve(proposal.options) if proposal.options else None
        assert own is None or set(proposal.shares) <= {f.name for f in dataclasses.fields(own)}
    row = FAMILIES[family]
    found = registry.find_named(row.optimal)
    made = [name for name in row.proposals if is_analytic(name)]
    assert made == ([found.family] if found else [])
    if found is not None:
        assert issubclass(found, word_by_word.OptimalProposal)
        assert not found.__abstractmethods__
        file = f"{found.__module__.replace('.', '/')}.py"
        assert file in proposal_modules(family, found.family)
        others = {name for name in row.proposals if name != found.family}
        assert all(file not in proposal_modules(family, name) for name in others)


def test_every_proposal_belongs_to_a_model_and_titles_are_unique():
    held = [name for row in FAMILIES.values() for name in row.proposals if not is_analytic(name)]
    made = {name for name in FAMILIES if is_analytic(name)}
    assert made == {name for row in FAMILIES.values() for name in row.proposals} & made
    assert sorted([*held, *made]) == sorted(families_of("proposal"))
    titles = [row.title for row in FAMILIES.values()]
    assert len(set(titles)) == len(titles)


def subclasses(kind):
    for found in kind.__subclasses__():
        yield found
        yield from subclasses(found)


def test_every_family_has_a_row_its_modules_and_one_without_a_class_none():
    for family in families_of(*KINDS):
        if FAMILIES[family].reference:
            registry.find(family)
    package = "beyond_perplexity."
    # Evaluators, a witness, a user's function.
    aside = tuple(f"{package}{part}" for part in ("semantics.", "auditing.", "models.in_memory"))
    named = [c for c in subclasses(contract.TrainedModel) if c.__module__.startswith(package)]
    models = [c for c in named if not c.__module__.startswith(aside)]
    names = {found.family for found in models if not found.__abstractmethods__}
    held = {name for name in names if not is_analytic(name)}
    assert held == {name for name, row in FAMILIES.items() if row.reference}
    check_refused("'joint' is trained within its model", registry.find, "joint")
    check_refused("family: is 'lsmt'; allowed are cnn, ", registry.find, "lsmt")
    assert family_modules("joint") == []
    assert family_modules("trigram") == training_modules("trigram") == [f"{MODELS}/trigram.py"]
    assert generating_modules("trigram") == ["beyond_perplexity/decoding/ngram.py"]
    external = [f"{MODELS}/huggingface_{part}.py" for part in ("bring", "model")]
    assert family_modules("huggingface") == external
    assert family_modules("lstm") == [f"{MODELS}/recurrent.py"]
    assert training_modules("lstm")[1:] == ["beyond_perplexity/training/learning.py"]
    assert generating_modules("lstm") == []


def test_each_origin_of_an_annotation_is_said_once():
    linked = {"source": {"format": "mediawiki"}, "trees": {"kind": "shallow"}}
    links = "entity chains of links, no coreference"
    both = ("trees", "mentions")
    assert describe_annotation(("graph", "mentions"), linked) == links
    assert describe_annotation(both, linked) == f"automatic trees (TextBlob's chunker), {links}"
    held = {"source": {"format": "conll"}}
    assert describe_annotation(both, held) == "trees of the corpus, mentions of the corpus"


def _tests(tree):
    """Yield what values are compared with: by operators, prefixes, endings and patterns."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            yield from (node.left, *node.comparators)
        elif isinstance(node, ast.MatchValue):
            yield node.value
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") in PARTIAL:
            yield from node.args


def names_outside(source, listed=False):
    """List the families that a module names, or, where it may list them, that it tests for."""
    tree = ast.parse(source)
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    held = [part for node in classes for part in node.body]
    begin = ("family =", "family:")  # of which family a class is
    said = {id(part.value) for part in held if ast.unparse(part).startswith(begin)}
    parts = [c for part in (_tests(tree) if listed else [tree]) for c in ast.walk(part)]
    named = [c for c in parts if isinstance(c, ast.Constant) and isinstance(c.value, str)]
    return [c.value for c in named if c.value in FAMILIES and id(c) not in said]


def test_no_module_script_benchmark_or_rule_names_a_family():
    package = ROOT / "beyond_perplexity"
    # Families and cells of evaluators are named alike.
    evaluators = {*(package / "semantics" / "evaluators").glob("*.py")}
    evaluators.add(package / "planning" / "measurement_sections.py")
    for path in [*package.rglob("*.py"), *(ROOT / "scripts").glob("*.py")]:
        if path in evaluators:
            continue
        listed = path.is_relative_to(package) and str(path.relative_to(package)) in ALLOWED
        assert not names_outside(path.read_text(encoding="utf-8"), listed), path
    for path in (ROOT / "benchmarks").rglob("*.py"):
        assert not names_outside(path.read_text(encoding="utf-8"), listed=True), path
    pattern = re.compile("[\"'](" + "|".join(map(re.escape, FAMILIES)) + ")[\"']")
    for path in [ROOT / "Snakefile", *(ROOT / "rules").glob("*.smk")]:
        assert not pattern.search(path.read_text(encoding="utf-8")), path


@pytest.mark.parametrize(
    "code",
    [
        *('f == "lstm"', 'f in ("cnn", "x")', 'f.startswith("rnng")'),
        *("match f:\n    case 'kglm':\n        pass", 'HELD = frozenset({"trigram"})'),
    ],
)
def test_the_search_finds_a_name(code):
    assert len(names_outside(code)) == 1
    assert len(names_outside(code, listed=True)) == ("HELD" not in code)


def test_the_search_lets_a_class_say_what_it_is():
    assert not names_outside('class A:\n    family = "lstm"\n    other: str = "x"\n')
    assert names_outside('family = "lstm"') == ["lstm"]


VOCABULARY = ClosedVocabulary.build([["a b c d e f"] * 3])
TEXT = [[np.array([3, 4, 5, 3, 4], np.int32), np.array([4, 4, 3], np.int32)]]
LSTM = {"embedding_size": 8, "hidden_size": 8, "layers": 1}
OTHER_WORDS = '{"kind": "closed", "words": ["b"], "unknown_types": 0}'


def model_of(family):
    if family == "lstm":
        return make("lstm", LSTM, VOCABULARY.size)
    kind = {"trigram": trigram.Trigram, "kneser-ney": kneser_ney.KneserNey}[family]
    return kind.fit(TEXT, VOCABULARY.size)


def folder(path, family, describe=None, change=None):
    """Write a model, then break its description or its tensors, with the hash of what is there."""
    save_model(path, model_of(family), VOCABULARY, {})
    held = json.loads((path / "model.json").read_text())
    if change:
        tensors = safetensors.torch.load_file(path / "model.safetensors")
        change(tensors)
        safetensors.torch.save_file(tensors, path / "model.safetensors")
        held["weights_sha256"] = content_hash(path / "model.safetensors")
    if describe:
        describe(held)
    (path / "model.json").write_text(json.dumps(held))
    return path


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("model.json", None, "is no model folder"),
        ("model.json", "{}", "does not describe a model"),
        ("model.safetensors", None, "is missing; train the model again"),
        ("model.safetensors", "", "is not the file that model.json describes"),
        ("vocabulary.json", None, "no such file"),
        ("vocabulary.json", OTHER_WORDS, "is not the vocabulary the model was trained with"),
    ],
)
def test_incomplete_and_foreign_model_folders_are_named(tmp_path, name, content, words):
    path = folder(tmp_path, "lstm") / name
    held = bytearray(path.read_bytes())
    path.unlink()
    if content == "":
        held[-1] ^= 1
        path.write_bytes(held)
    elif content:
        path.write_text(content)
    check_refused(words, load_model, tmp_path)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_weights_that_are_no_numbers_are_named_with_their_file(tmp_path, value):
    name, weight = list(model_of("lstm").named_parameters())[1]

    def spoil(tensors):
        tensors[name].flatten()[-1] = value

    words = f"model.safetensors: 1 of the {weight.numel()} numbers of '{name}' are NaN or infinite"
    check_refused(re.escape(words), lambda: load_model(folder(tmp_path, "lstm", change=spoil)))


def test_buffers_may_be_infinite_but_no_nan():
    module = torch.nn.Module()
    module.register_buffer("mask", torch.tensor([0, -math.inf]))
    module.register_buffer("counts", torch.tensor([1, 2]))
    check_finite(module, "a file")
    module.mask[0] = math.nan
    check_refused("a file: 1 of the 2 numbers of 'mask'", check_finite, module, "a file")


@pytest.mark.parametrize("family", ["lstm", "trigram", "kneser-ney"])
def test_sound_folders_are_read(tmp_path, family):
    model, vocabulary, _ = load_any(folder(tmp_path, family))
    assert vocabulary.size == VOCABULARY.size
    if family == "lstm":
        return
    whole = model_of(family).state_dict()
    assert all(torch.equal(tensor, whole[name]) for name, tensor in model.state_dict().items())


@pytest.mark.parametrize("content", ["[" * 100_000, '{"n": ' + "1" * 5000 + "}", "[]", "\0", ""])
def test_descriptions_that_are_no_json_are_one_line(tmp_path, content):
    (tmp_path / "model.json").write_text(content)
    check_refused(r"model\.json: .*description|describe a model", load_any, tmp_path)


def put(section, **values):
    return lambda held: (held["config"][section] if section else held["config"]).update(values)


def sized(**values):
    return put("architecture", **values)


def replace(change):
    return lambda held: held.update({"embedding.weight": change(held["embedding.weight"])})


JSON, WEIGHTS = "model.json", "model.safetensors"


@pytest.mark.parametrize(
    ("family", "file", "change", "message"),
    [
        ("lstm", JSON, sized(layers=9), "weight_ih_l1' is missing, and 31 more like it"),
        ("lstm", JSON, sized(hidden_size=9), "has the shape .*, expected .*more like it"),
        ("lstm", JSON, sized(hidden_size=-3), "hidden_size: is -3, expected at least 1"),
        ("lstm", JSON, sized(hidden_size="8"), "hidden_size"),
        ("lstm", JSON, put("", family=["lstm"]), r"model\.json"),
        ("lstm", JSON, put("", family="optimal"), "analytic, made of its model"),
        ("lstm", JSON, put("", extra=1), "unexpected keyword"),
        ("lstm", JSON, lambda held: held.update(config=[["family", "lstm"]]), "lacks config"),
        ("lstm", JSON, lambda held: held.update(vocabulary="abc"), "lacks config"),
        ("lstm", JSON, lambda held: held.update(weights_sha256=3), "lacks config"),
        ("lstm", WEIGHTS, replace(lambda t: t[:1].clone()), r"has the shape \(1, 8\)"),
        ("lstm", WEIGHTS, replace(lambda t: t.long()), "is torch.int64, expected"),
        ("lstm", WEIGHTS, lambda held: held.update(other=torch.zeros(1)), "'other' belongs to no"),
        ("trigram", WEIGHTS, lambda held: held.pop("counts"), r"KeyError\('counts'\)"),
    ],
)
def test_a_file_that_does_not_fit_is_one_line(tmp_path, family, file, change, message):
    with pytest.raises(InputError, match=message) as caught:
        load_any(folder(tmp_path, family, **{"describe" if file == JSON else "change": change}))
    said = str(caught.value)
    assert str(tmp_path) in said
    assert "\n" not in said
    assert len(said) < 500 + len(str(tmp_path))
    assert file == JSON or WEIGHTS in said

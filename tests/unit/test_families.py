"""The table of families: every row is true, and nothing else tests for a family's name.

Needs nothing. Oracle: the classes that the rows name, and the syntax trees of the whole package.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib
import re
from pathlib import Path

import pytest

from beyond_perplexity.errors import InputError
from beyond_perplexity.models import registry
from beyond_perplexity.models.contract import (
    ConfiguredModel,
    CountedModel,
    LanguageModel,
    TrainedModel,
)
from beyond_perplexity.models.families import (
    FAMILIES,
    families_of,
    family_modules,
    generating_modules,
    is_worked_out,
    proposal_modules,
    training_modules,
)
from beyond_perplexity.models.latent import LatentModel, Proposal, UnnormalizedModel
from beyond_perplexity.models.optimal import OptimalProposal
from beyond_perplexity.models.trigram import TrigramOptions
from beyond_perplexity.planning.latent_checks import REQUIREMENTS, describe_annotation
from beyond_perplexity.training.options import TrainingOptions

ROOT = Path(__file__).parents[2]
MODELS = "beyond_perplexity/models"
KINDS = {
    "counted": CountedModel,
    "trained": LanguageModel,
    "brought": LanguageModel,
    "unnormalized": UnnormalizedModel,
    "latent": LatentModel,
    "proposal": Proposal,
}
# The papers' numbers are listed by family; a kind of vocabulary is called like the family with it.
ALLOWED = {
    "models/families.py",
    "models/huggingface_vocabulary.py",
    "report/importance.py",
    "report/published.py",
    "report/semantic_tables.py",  # columns of the paper
    "vocabulary.py",
}
PARTIAL = {"startswith", "endswith", "removeprefix", "removesuffix"}


def resolve(reference):
    module, _, name = str(reference).partition(":")
    return getattr(importlib.import_module(module), name)


@pytest.mark.parametrize("family", [name for name, row in FAMILIES.items() if row.reference])
def test_a_row_agrees_with_its_class(family):
    row, found = FAMILIES[family], registry.find(family)
    assert found.family == family
    assert issubclass(found, KINDS[row.kind])
    assert issubclass(found, CountedModel) == (row.kind == "counted")
    assert found.normalized == (row.kind != "unnormalized")
    assert issubclass(registry.find_training(family), TrainingOptions)
    assert not found.__abstractmethods__
    if issubclass(found, ConfiguredModel):
        expected = resolve(row.options) if row.options else TrigramOptions
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
    assert (row.bring is not None) == (row.kind == "brought") == bool(row.files)
    assert row.bring is None or callable(registry.find_named(row.bring))
    engines = registry.find_engines(family)
    assert engines is None or (
        engines.SamplingEngine and engines.BeamEngine and engines.DEFAULT_BATCH
    )
    assert all((ROOT / file).is_file() for file in family_modules(family))


@pytest.mark.parametrize("family", families_of("latent"))
def test_a_proposal_fits_its_model(family):
    options = {field.name for field in dataclasses.fields(resolve(FAMILIES[family].options))}
    for name in FAMILIES[family].proposals:
        proposal = FAMILIES[name]
        assert is_worked_out(name) or proposal.needs == FAMILIES[family].needs
        assert set(proposal.shares) | set(proposal.asks) <= options
        own = resolve(proposal.options) if proposal.options else None
        assert own is None or set(proposal.shares) <= {f.name for f in dataclasses.fields(own)}


@pytest.mark.parametrize("family", families_of("latent"))
def test_an_optimal_proposal_is_that_of_the_model_that_names_it(family):
    row = FAMILIES[family]
    found = registry.find_named(row.optimal)
    assert (found is not None) == ("optimal" in row.proposals)
    if found is not None:
        assert issubclass(found, OptimalProposal)
        assert not found.__abstractmethods__
        file = f"{found.__module__.replace('.', '/')}.py"
        assert file in proposal_modules(family, "optimal")
        others = {name for name in row.proposals if name != "optimal"}
        assert all(file not in proposal_modules(family, name) for name in others)


def test_every_proposal_belongs_to_a_model_and_titles_are_unique():
    held = [name for row in FAMILIES.values() for name in row.proposals if not is_worked_out(name)]
    assert sorted([*held, "optimal"]) == sorted(families_of("proposal"))
    titles = [row.title for row in FAMILIES.values()]
    assert len(set(titles)) == len(titles)


def subclasses(kind):
    for found in kind.__subclasses__():
        yield found
        yield from subclasses(found)


def test_every_family_has_a_row():
    for family in families_of(*KINDS):
        if FAMILIES[family].reference:
            registry.find(family)
    package = "beyond_perplexity."
    aside = ("beyond_perplexity.semantics.", "beyond_perplexity.auditing.")  # evaluators, a witness
    named = [c for c in subclasses(TrainedModel) if c.__module__.startswith(package)]
    models = [c for c in named if not c.__module__.startswith(aside)]
    names = {found.family for found in models if not found.__abstractmethods__}
    assert names - {"optimal"} == {name for name, row in FAMILIES.items() if row.reference}


def test_a_family_without_a_class_is_not_found_and_an_unknown_one_is_named():
    with pytest.raises(InputError, match="'joint' is trained within its model"):
        registry.find("joint")
    with pytest.raises(InputError, match="family: is 'lsmt'; allowed are cnn, "):
        registry.find("lsmt")
    assert family_modules("joint") == []


def test_the_modules_of_a_family_are_those_that_its_row_names():
    assert family_modules("trigram") == training_modules("trigram") == [f"{MODELS}/trigram.py"]
    assert generating_modules("trigram") == ["beyond_perplexity/decoding/ngram.py"]
    assert family_modules("huggingface") == [
        "beyond_perplexity/models/huggingface_bring.py",
        "beyond_perplexity/models/huggingface_model.py",
    ]
    assert family_modules("lstm") == [f"{MODELS}/recurrent.py"]
    assert training_modules("lstm")[1:] == ["beyond_perplexity/training/learning.py"]
    assert generating_modules("lstm") == []


def test_each_origin_of_an_annotation_is_said_once():
    linked = {"source": {"format": "mediawiki"}, "trees": {"kind": "shallow"}}
    assert describe_annotation(("graph", "mentions"), linked) == (
        "entity chains of links, no coreference"
    )
    assert describe_annotation(("trees", "mentions"), linked) == (
        "automatic trees (TextBlob's chunker), entity chains of links, no coreference"
    )
    held = {"source": {"format": "conll"}}
    assert describe_annotation(("trees", "mentions"), held) == (
        "trees of the corpus, mentions of the corpus"
    )


def _constants(tree):
    """Yield the strings of a module but those that say of which family a class is."""
    named: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            for statement in node.body:
                targets = getattr(statement, "targets", [getattr(statement, "target", None)])
                if any(isinstance(t, ast.Name) and t.id == "family" for t in targets):
                    named.add(id(statement.value))
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in named:
            yield node


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
    if not listed:
        return [node.value for node in _constants(tree) if node.value in FAMILIES]
    tested = [
        c.value for part in _tests(tree) for c in ast.walk(part) if isinstance(c, ast.Constant)
    ]
    return [value for value in tested if value in FAMILIES]


def test_no_module_or_script_names_a_family():
    package = ROOT / "beyond_perplexity"
    # Families and cells of evaluators are named alike.
    evaluators = {*(package / "semantics" / "evaluators").glob("*.py")}
    evaluators.add(package / "planning" / "evaluator_sections.py")
    for path in [*package.rglob("*.py"), *(ROOT / "scripts").glob("*.py")]:
        if path in evaluators:
            continue
        listed = path.is_relative_to(package) and str(path.relative_to(package)) in ALLOWED
        assert not names_outside(path.read_text(encoding="utf-8"), listed), path


def test_no_benchmark_tests_for_a_family():
    for path in (ROOT / "benchmarks").rglob("*.py"):
        assert not names_outside(path.read_text(encoding="utf-8"), listed=True), path


def test_no_rule_names_a_family():
    pattern = re.compile("[\"'](" + "|".join(map(re.escape, FAMILIES)) + ")[\"']")
    for path in [ROOT / "Snakefile", *(ROOT / "rules").glob("*.smk")]:
        assert not pattern.search(path.read_text(encoding="utf-8")), path


@pytest.mark.parametrize(
    "code",
    [
        'f == "lstm"',
        'f in ("cnn", "x")',
        'f.startswith("rnng")',
        "match f:\n    case 'kglm':\n        pass",
        'HELD = frozenset({"trigram"})',
    ],
)
def test_the_search_finds_a_name(code):
    assert len(names_outside(code)) == 1
    assert len(names_outside(code, listed=True)) == ("HELD" not in code)


def test_the_search_lets_a_class_say_what_it_is():
    assert not names_outside('class A:\n    family = "lstm"\n    other: str = "x"\n')
    assert names_outside('family = "lstm"') == ["lstm"]

"""Check a run's configuration before the first job starts, and look things up in it."""

from __future__ import annotations

import glob
import typing
from collections.abc import Iterable, Iterator
from itertools import chain, product
from pathlib import Path
from typing import Any

from beyond_perplexity.corpus.extraction_options import ExtractionOptions, annotated_preprocessing
from beyond_perplexity.corpus.formats import ANNOTATED_FORMATS, SENTENCES, SIDE_FILES
from beyond_perplexity.decoding.options import DecodingOptions, decoding_row
from beyond_perplexity.errors import InputError
from beyond_perplexity.figures.labels import EXTERNAL
from beyond_perplexity.models.families import FAMILIES
from beyond_perplexity.options import parse_options
from beyond_perplexity.planning import configuration_file
from beyond_perplexity.planning.configuration import Configuration, Model, ProposalSection
from beyond_perplexity.planning.contrastive import CONTRAST_FILES, check_contrastive
from beyond_perplexity.planning.corpora import check_text_formats
from beyond_perplexity.planning.latent_checks import check_latent_models
from beyond_perplexity.planning.measurement_sections import Importance
from beyond_perplexity.planning.sections import Nothing, fill, keys_of, read_late, read_section
from beyond_perplexity.planning.semantics import SEMANTIC_FILES, check_evaluators
from beyond_perplexity.schemas.semantics import WORDS_EVALUATOR
from beyond_perplexity.semantics.evaluators.families import EVALUATORS
from beyond_perplexity.tendencies.tokens import RAW_TEXT

# By the section, and what is in it: the keys that name one; ``*`` stands for each of their names.
_REFERENCES = {
    ("corpora", "corpus"): "models.*.corpus external_samples.*.corpus evaluators.*.corpus "
    "report.published.* contrastive.documents_are_sentences semantics.documents_are_sentences",
    ("vocabularies", "vocabulary"): "models.*.vocabulary external_samples.*.vocabulary "
    "contrastive.vocabulary evaluators.*.vocabulary",
    ("models", "model"): "generation.models generation.prompts.models contrastive.models "
    "contrastive.partition.proposal semantics.models importance.beside proposals.*.model "
    "evaluators.*.model perplexity.parts_of thoughts.*.models tendencies.judge.model",
    ("decodings", "decoding"): "generation.decodings generation.prompts.decodings",
    ("proposals", "proposal"): "importance.proposals",
    ("evaluators", "evaluator"): "semantics.evaluators evaluators.*.vectors "
    "tendencies.embedding.encoder",
}
_GENERATING = "generation.models", "generation.prompts.models"
# Keys that name models, the kinds of families that they can name, and what others are.
_WRITING, _EXACT = ("counted", "trained", "external", "latent"), ("counted", "trained", "external")
_KINDS = (
    ("generation.models", _WRITING, "scores sentences alone; remove it"),
    ("generation.prompts.models", _EXACT, "draws no next word by itself; remove it"),
    (
        "contrastive.models",
        (*_EXACT, "unnormalized"),
        "has latent variables, its scores are estimates; remove it",
    ),
    ("semantics.models", _EXACT, "gives no next word a probability; remove it"),
    ("perplexity.parts_of", _EXACT, "has no exact likelihood; remove it"),
    ("thoughts.*.models", _EXACT, "gives no next word a probability; remove it"),
    ("importance.beside", _EXACT[:2], "is no model that scores the same words; remove it"),
    ("contrastive.partition.proposal", _EXACT[:2], "is no language model of the run"),
    ("tendencies.judge.model", _EXACT, "gives no text a probability; name a language model"),
)
# Names that files or texts have: of the entries of a section, or of those that a key names.
_KEPT = {
    "models": (EXTERNAL,),
    "vocabularies": (RAW_TEXT,),
    "evaluators": (WORDS_EVALUATOR,),
    "contrastive.models": CONTRAST_FILES,
    "semantics.models": SEMANTIC_FILES,
}


def _named(held: Any, path: str, key: str = "") -> Iterator[tuple[str, str]]:
    """List the names that a path of keys leads to, a name or several, with their keys."""
    first, _, rest = path.partition(".")
    if first:
        for part in held if first == "*" else {first} & (held or {}).keys():
            yield from _named(held[part], rest, f"{key}.{part}".lstrip("."))
    elif isinstance(held, str):
        yield key, held
    elif isinstance(held, Iterable):
        yield from ((key, name) for name in held)


def _check_references(config: configuration_file.Config) -> None:
    """Refuse names that nothing has, and those that something else has."""
    for (section, kind), paths in _REFERENCES.items():
        for path in paths.split():
            for key, name in _named(config, path):
                configuration_file.require(key, name, config[section], kind)
    for path, kept in _KEPT.items():
        for key, name in _named(config, path):
            if name in kept:
                raise InputError(f"{key}: '{name}' is a name that is kept; rename it")


def _check_kinds(config: configuration_file.Config) -> None:
    """Refuse models and vocabularies that are not of the kind that a key needs."""
    for path, kinds, words in _KINDS:
        for key, name in _named(config, path):
            family = config["models"][name]["family"]
            if FAMILIES[family].kind not in kinds:
                raise InputError(f"{key}: '{name}' ({family}) {words}")
    for key, name in _named(config, "generation.prompts.decodings"):
        if decoding_row(config["decodings"][name]["kind"]).beam:
            raise InputError(f"{key}: '{name}' draws whole documents; remove it")
    for path in ("contrastive.vocabulary", "evaluators.*.vocabulary"):
        for key, name in _named(config, path):
            if config["vocabularies"][name]["kind"] != "closed":
                raise InputError(f"{key}: '{name}' has parts of words; name a closed one")


def _check_vocabulary(name: str, config: configuration_file.Config) -> None:
    model = config["models"][name]
    family, given = model["family"], model.get("vocabulary")
    row, key = FAMILIES[family], f"models.{name}.vocabulary"
    if row.bring:
        if given:
            raise InputError(f"{key}: a {family} model brings its own tokenizer; remove this key")
        return
    if not given:
        raise InputError(f"models.{name}: key 'vocabulary' is missing")
    of_words = {
        "unnormalized": f"a {family} is trained on distorted words",
        "latent": "trees and mentions are over words",
    }
    if row.kind in of_words and config["vocabularies"][given]["kind"] != "closed":
        held = config["vocabularies"][given]["kind"]
        wanted = f"{of_words[row.kind]}; name a closed one"
        raise InputError(f"{key}: '{given}' is {held}, but {wanted}")


def _check_writing(name: str, config: configuration_file.Config) -> None:
    """Refuse a latent model without a decoding that it can write by, or a name that it needs."""
    decodings = [config["decodings"][one] for one in config["generation"]["decodings"]]
    if not any(parse_options(DecodingOptions, one, "decodings").ancestral for one in decodings):
        fault = f"'{name}' has latent variables and writes by ancestral sampling alone"
        advice = "add such a decoding, without a temperature, or remove the model"
        raise InputError(f"generation.models: {fault}; {advice}")
    model = config["models"][name]
    taken = f"{model['corpus']}{SENTENCES}"
    if FAMILIES[model["family"]].unit == "sentence" and taken in config["corpora"]:
        kept = f"this name is kept for the sentences of '{model['corpus']}'"
        fault = f"{kept}, which the samples of '{name}' are compared with"
        raise InputError(f"corpora.{taken}: {fault}; rename it")


def _check_folders(config: configuration_file.Config) -> None:
    for name, folder in config.get("pathvars", {}).items():
        words = ""
        if not folder.strip().strip("/"):
            words = "stands for the root of the file system; name a folder or remove this key"
        elif folder.startswith(("~", "-")):
            words = "begins as an option or a home; give the whole path, or begin it with ./"
        if words:
            raise InputError(f"config: pathvars.{name}: {folder!r} {words}")


def _check_lengths(config: configuration_file.Config) -> None:
    length = config["generation"]["maximum_length"]
    for _, name in chain(*(_named(config, path) for path in _GENERATING)):
        context = configuration_file.architecture(config["models"][name]).get("context_length")
        if context is not None and length > context:
            fault = f"is {length}, but '{name}' conditions on {context} tokens at most"
            advice = f"lower it or raise models.{name}.architecture.context_length"
            raise InputError(f"generation.maximum_length: {fault}; {advice}")


def _check_families(config: configuration_file.Config) -> None:
    """Hold the options of each model and proposal against the dataclasses of its family."""
    for section, kind in (("models", Model), ("proposals", ProposalSection)):
        for name, held in config[section].items():
            (mark,) = typing.get_args(keys_of(kind)["training"].hint)[1:]
            options = mark.choices[held["family"]] or Nothing
            read_section(options, held["training"], f"{section}.{name}.training")
            configuration_file.architecture(held, f"{section}.{name}.architecture")
    (late,) = typing.get_args(keys_of(Importance)["graph"].hint)[1:]
    read_late(late.options, config["importance"]["graph"], "importance.graph")


def _check_splits(config: configuration_file.Config) -> None:
    for name, corpus in config["corpora"].items():
        words = "key 'split' is missing; give the share of each split, or {}"
        if named := isinstance(corpus["source"]["paths"], dict):
            words = "split: source.paths already names the splits; remove one of them"
        if named == ("split" in corpus):
            raise InputError(f"corpora.{name}: {words}")


def _evaluations(config: configuration_file.Config) -> Iterator[tuple[str, str, str]]:
    """List on which split which model is evaluated, and the key that says so."""
    for name, model in config["models"].items():
        if FAMILIES[model["family"]].kind != "latent":
            yield name, config["perplexity"]["split"], "perplexity.split"
            continue
        yield name, config["importance"]["split"], "importance.split"
        if config["importance"]["choose"] == "validation":
            yield name, "valid", "importance.choose"
    for name in config["contrastive"]["models"]:
        yield name, config["contrastive"]["split"], "contrastive.split"
    for name, split in product(config["semantics"]["models"], config["semantics"]["splits"]):
        yield name, split, "semantics.splits"


def _check_evaluated_splits(config: configuration_file.Config) -> None:
    """Refuse models whose evaluation is on a split that gets no documents."""
    for name, split, key in _evaluations(config):
        corpus = config["models"][name]["corpus"]
        if config["corpora"][corpus].get("split", {}).get(split) == 0:
            fault = f"is 0, but models.{name} is evaluated on it ({key})"
            raise InputError(f"corpora.{corpus}.split.{split}: {fault}")


def _settle_preprocessing(config: configuration_file.Config) -> None:
    """Switch off, before defaults are filled in, the steps that annotated corpora do not get."""
    corpora = config.get("corpora")
    for name, corpus in corpora.items() if isinstance(corpora, dict) else ():
        source = corpus.get("source") if isinstance(corpus, dict) else None
        kind = source.get("format") if isinstance(source, dict) else None
        if kind not in ANNOTATED_FORMATS:
            continue
        steps = corpus.get("preprocessing", {})
        if isinstance(steps, dict):
            try:
                corpus["preprocessing"] = dict(annotated_preprocessing(kind, steps))
            except InputError as error:
                raise InputError(f"config: corpora.{name}.{error}") from error


def _matching(key: str, location: Any) -> list[Any]:
    """List the files, in order of their names, that a pattern of a path stands for."""
    if not isinstance(location, str) or not glob.has_magic(location) or Path(location).exists():
        return [location]
    found = sorted(glob.glob(location, recursive=True))
    if not found:
        raise InputError(f"config: {key}: no file matches {location}; check the path")
    for path in found:
        configuration_file.check_path(key, path)
    return found


def _expand_patterns(config: configuration_file.Config) -> None:
    """Replace patterns among the paths of corpora by the files that match them, in place."""
    for name, corpus in config["corpora"].items():
        paths = corpus["source"]["paths"]
        for split, locations in paths.items() if isinstance(paths, dict) else [("", paths)]:
            key = f"corpora.{name}.source.paths.{split}".rstrip(".")
            locations[:] = [file for held in locations for file in _matching(key, held)]


def _check_sources(config: configuration_file.Config) -> None:
    """Check what belongs to some formats of source only; where files lie does not matter here."""
    for name, corpus in config["corpora"].items():
        source = {**corpus["source"], "paths": ["-"]}
        source |= {key: "-" for key in SIDE_FILES if key in source}
        try:
            ExtractionOptions.from_config({"source": source, "trees": corpus.get("trees", {})})
        except InputError as error:
            raise InputError(f"config: corpora.{name}.{error}") from error


def _check_encoder(config: configuration_file.Config) -> None:
    """Refuse to compare documents by an evaluator that has no vectors of texts."""
    for key, name in _named(config, "tendencies.embedding.encoder"):
        family = config["evaluators"][name]["family"]
        if "similarity" not in EVALUATORS[family].measures:
            able = [name for name, row in EVALUATORS.items() if "similarity" in row.measures]
            advice = f"name one of family {', '.join(able)}"
            raise InputError(f"{key}: '{name}' ({family}) has no vectors of texts; {advice}")


def _check_thoughts(config: configuration_file.Config) -> None:
    for name, held in config["thoughts"].items():
        if not all(part in held["shown"] for part in ("{prompt}", "{answer}")):
            fault = "lacks {prompt} or {answer}; say where both stand"
            raise InputError(f"thoughts.{name}.shown: {fault}")


def validate(config: dict[str, Any]) -> None:
    """Check a configuration, fill in its defaults and expand patterns of paths, in place."""
    configuration_file.check_values(config)
    _settle_preprocessing(config)
    fill(config, read_section(Configuration, config))
    _check_folders(config)
    configuration_file.check_paths(config)
    _expand_patterns(config)
    _check_sources(config)
    check_text_formats(config)
    _check_splits(config)
    _check_families(config)
    _check_references(config)
    _check_kinds(config)
    for name in config["models"]:
        _check_vocabulary(name, config)
    for name in config["generation"]["models"]:
        if FAMILIES[config["models"][name]["family"]].kind == "latent":
            _check_writing(name, config)
    _check_evaluated_splits(config)
    _check_lengths(config)
    check_latent_models(config)
    _check_thoughts(config)
    check_contrastive(config)
    check_evaluators(config)
    _check_encoder(config)

"""Check a run's configuration before the first job starts, and look things up in it."""

from __future__ import annotations

import glob
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from beyond_perplexity.corpus.extraction_options import ExtractionOptions, annotated_preprocessing
from beyond_perplexity.corpus.formats import ANNOTATED_FORMATS, SENTENCES, SIDE_FILES
from beyond_perplexity.decoding.options import DecodingOptions
from beyond_perplexity.errors import InputError
from beyond_perplexity.figures.labels import EXTERNAL
from beyond_perplexity.models.families import FAMILIES
from beyond_perplexity.options import parse_options
from beyond_perplexity.planning.configuration import Configuration, Model, ProposalSection
from beyond_perplexity.planning.configuration_file import check_path, check_paths, check_values
from beyond_perplexity.planning.contrastive import check_contrastive
from beyond_perplexity.planning.corpora import check_text_formats
from beyond_perplexity.planning.evaluators import check_evaluators
from beyond_perplexity.planning.latent_checks import check_latent_models, require
from beyond_perplexity.planning.measurement_sections import Importance
from beyond_perplexity.planning.parameters import Config, architecture
from beyond_perplexity.planning.samples import check_embedding
from beyond_perplexity.planning.sections import Nothing, fill, keys_of, read_late, read_section
from beyond_perplexity.planning.semantics import check_semantics
from beyond_perplexity.tendencies.tokens import RAW_TEXT

# Kinds of families that generate nothing, and why.
UNGENERATING = {"unnormalized": "scores sentences alone"}


def _check_vocabulary(name: str, model: Mapping[str, Any], vocabularies: Config) -> None:
    given, brought = "vocabulary" in model, FAMILIES[model["family"]].kind == "brought"
    if brought and given:
        raise InputError(
            f"models.{name}.vocabulary: a {model['family']} model brings its own tokenizer; "
            "remove this key"
        )
    if brought:
        return
    if not given:
        raise InputError(f"models.{name}: key 'vocabulary' is missing")
    require(f"models.{name}.vocabulary", model["vocabulary"], vocabularies, "vocabulary")
    unnormalized = FAMILIES[model["family"]].kind == "unnormalized"
    if unnormalized and vocabularies[model["vocabulary"]]["kind"] != "closed":
        raise InputError(
            f"models.{name}.vocabulary: '{model['vocabulary']}' is of parts of words, but a "
            f"{model['family']} is trained on distorted words; name a closed one"
        )


def _check_writing(name: str, config: Config) -> None:
    """Refuse a latent model without a decoding that it can write by, or a name that it needs."""
    given = config["generation"]["decodings"]
    decodings = [config["decodings"][one] for one in given if one in config["decodings"]]
    if not any(parse_options(DecodingOptions, one, "decodings").ancestral for one in decodings):
        raise InputError(
            f"generation.models: '{name}' has latent variables and writes by ancestral sampling "
            "alone; add such a decoding, without a temperature, or remove the model"
        )
    model = config["models"][name]
    taken = f"{model['corpus']}{SENTENCES}"
    if FAMILIES[model["family"]].unit == "sentence" and taken in config["corpora"]:
        raise InputError(
            f"corpora.{taken}: this name is kept for the sentences of '{model['corpus']}', which "
            f"the samples of '{name}' are compared with; rename it"
        )


def _named_corpora(config: Config) -> Iterator[tuple[str, str]]:
    """List the keys that name a corpus, with the names."""
    for section in ("models", "external_samples"):
        for name, held in config[section].items():
            yield f"{section}.{name}.corpus", held["corpus"]
    for paper, names in config["report"]["published"].items():
        yield from ((f"report.published.{paper}", name) for name in names)
    for section in ("contrastive", "semantics"):
        named = config[section]["documents_are_sentences"]
        for name in named if isinstance(named, dict) else ():
            yield f"{section}.documents_are_sentences", name


def _check_references(config: Config) -> None:
    for name, model in config["models"].items():
        if name == EXTERNAL:
            raise InputError(f"models.{name}: this name is kept for external_samples; rename it")
        _check_vocabulary(name, model, config["vocabularies"])
    for name in config["generation"]["models"]:
        require("generation.models", name, config["models"], "model")
        family = config["models"][name]["family"]
        kind = FAMILIES[family].kind
        if kind in UNGENERATING:
            raise InputError(f"generation.models: '{name}' ({family}) {UNGENERATING[kind]}; remove")
        if kind == "latent":
            _check_writing(name, config)
    for name in config["generation"]["decodings"]:
        require("generation.decodings", name, config["decodings"], "decoding")
    for name, external in config["external_samples"].items():
        if external["vocabulary"] is not None:
            found = external["vocabulary"], config["vocabularies"]
            require(f"external_samples.{name}.vocabulary", *found, "vocabulary")
    if RAW_TEXT in config["vocabularies"]:
        raise InputError(
            f"vocabularies.{RAW_TEXT}: this name is kept for texts as they are; rename it"
        )


def _check_folders(config: Config) -> None:
    for name, folder in config.get("pathvars", {}).items():
        if not folder.strip().strip("/"):
            raise InputError(
                f"config: pathvars.{name}: {folder!r} stands for the root of the file system; "
                "name a folder or remove this key"
            )
        if folder.startswith(("~", "-")):
            raise InputError(
                f"config: pathvars.{name}: {folder!r} begins as an option or a home does, and "
                "is taken for none here; give the whole path, or begin it with ./"
            )


def _check_lengths(config: Config) -> None:
    length = config["generation"]["maximum_length"]
    for name in config["generation"]["models"]:
        context = architecture(config["models"][name]).get("context_length")
        if context is not None and length > context:
            raise InputError(
                f"generation.maximum_length: is {length}, but '{name}' conditions on {context} "
                f"tokens at most; lower it or raise models.{name}.architecture.context_length"
            )


def _check_families(config: Config) -> None:
    """Hold the options of each model and proposal against the dataclasses of its family."""
    for section, kind in (("models", Model), ("proposals", ProposalSection)):
        for name, held in config[section].items():
            (mark,) = typing.get_args(keys_of(kind)["training"].hint)[1:]
            options = mark.choices[held["family"]] or Nothing
            read_section(options, held["training"], f"{section}.{name}.training")
            architecture(held, f"{section}.{name}.architecture")
    (late,) = typing.get_args(keys_of(Importance)["graph"].hint)[1:]
    read_late(late.options, config["importance"]["graph"], "importance.graph")


def _check_splits(config: Config) -> None:
    for name, corpus in config["corpora"].items():
        given = isinstance(corpus["source"]["paths"], dict)
        if given and "split" in corpus:
            raise InputError(
                f"corpora.{name}.split: source.paths already names the splits; remove one of them"
            )
        if not given and "split" not in corpus:
            raise InputError(
                f"corpora.{name}: key 'split' is missing; give the share of each split, or {{}}"
            )


def _check_evaluated_splits(config: Config) -> None:
    """Refuse models whose evaluation is on a split that gets no documents."""
    for name, model in config["models"].items():
        latent = FAMILIES[model["family"]].kind == "latent"
        section = "importance" if latent else "perplexity"
        corpus, wanted = model["corpus"], {"split": config[section]["split"]}
        if latent and config["importance"]["choose"] == "validation":
            wanted["choose"] = "valid"
        for key, split in wanted.items():
            if config["corpora"][corpus].get("split", {}).get(split) == 0:
                raise InputError(
                    f"corpora.{corpus}.split.{split}: is 0, but models.{name} is evaluated on it "
                    f"({section}.{key})"
                )


def _settle_preprocessing(config: Config) -> None:
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
        check_path(key, path)
    return found


def _expand_patterns(config: Config) -> None:
    """Replace patterns among the paths of corpora by the files that match them, in place."""
    for name, corpus in config["corpora"].items():
        key, paths = f"corpora.{name}.source.paths", corpus["source"]["paths"]
        by_split = paths if isinstance(paths, dict) else {"": paths}
        for split, locations in by_split.items():
            where = f"{key}.{split}".rstrip(".")
            locations[:] = [file for held in locations for file in _matching(where, held)]


def _check_sources(config: Config) -> None:
    """Check what belongs to some formats of source only; where files lie does not matter here."""
    for name, corpus in config["corpora"].items():
        source = {**corpus["source"], "paths": ["-"]}
        source |= {key: "-" for key in SIDE_FILES if key in source}
        try:
            ExtractionOptions.from_config({"source": source, "trees": corpus.get("trees", {})})
        except InputError as error:
            raise InputError(f"config: corpora.{name}.{error}") from error


def validate(config: dict[str, Any]) -> None:
    """Check a configuration, fill in its defaults and expand patterns of paths, in place."""
    check_values(config)
    _settle_preprocessing(config)
    fill(config, read_section(Configuration, config))
    _check_folders(config)
    check_paths(config)
    _expand_patterns(config)
    _check_sources(config)
    check_text_formats(config)
    _check_splits(config)
    _check_families(config)
    for key, corpus in _named_corpora(config):
        require(key, corpus, config["corpora"], "corpus")
    _check_references(config)
    _check_evaluated_splits(config)
    _check_lengths(config)
    check_latent_models(config)
    check_contrastive(config)
    check_evaluators(config)
    check_embedding(config)
    check_semantics(config)

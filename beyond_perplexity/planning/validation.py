"""Check a run's configuration before the first job starts, and look things up in it."""

from __future__ import annotations

import glob
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import yaml
from jsonschema import Draft202012Validator, ValidationError
from jsonschema.validators import extend

from beyond_perplexity.corpus.extraction_options import ExtractionOptions, annotated_preprocessing
from beyond_perplexity.corpus.formats import ANNOTATED_FORMATS, SIDE_FILES
from beyond_perplexity.corpus.split import SENTENCES, SPLITS
from beyond_perplexity.decoding.options import DecodingOptions
from beyond_perplexity.errors import InputError
from beyond_perplexity.figures.labels import EXTERNAL
from beyond_perplexity.importance.ways_to_draw import SMCOptions
from beyond_perplexity.models.families import FAMILIES
from beyond_perplexity.options import parse_options
from beyond_perplexity.planning.configuration_file import check_path, check_paths, check_values
from beyond_perplexity.planning.contrastive import check_contrastive
from beyond_perplexity.planning.corpora import check_text_formats
from beyond_perplexity.planning.evaluators import check_evaluators
from beyond_perplexity.planning.latent_checks import check_latent_models, require
from beyond_perplexity.planning.parameters import Config
from beyond_perplexity.planning.samples import check_embedding
from beyond_perplexity.planning.semantics import check_semantics
from beyond_perplexity.tendencies.options import (
    MeasurementOptions,
    SampleSizeOptions,
    SensitivityOptions,
)
from beyond_perplexity.tendencies.tokens import RAW_TEXT

# Kinds of families that generate nothing, and why.
UNGENERATING = {"unnormalized": "scores sentences alone"}

# Every process of Snakemake reads the schema; libyaml takes a tenth of the time.
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def _filling_validator() -> type[Draft202012Validator]:
    """Extend the validator: it writes the defaults of the schema, and ``$`` is the end of a text.

    As in the language of JSON schema; Python's also stands before a last line feed.
    """
    check = Draft202012Validator.VALIDATORS["properties"]

    def match(
        validator: Draft202012Validator, pattern: str, instance: Any, schema: Any
    ) -> Iterator[ValidationError]:
        whole = f"{pattern[:-1]}\\Z" if pattern.endswith("$") else pattern
        if isinstance(instance, str) and not re.search(whole, instance):
            yield ValidationError(f"{instance!r} does not match {pattern!r}")

    def fill(
        validator: Draft202012Validator, properties: Mapping[str, Any], instance: Any, schema: Any
    ) -> Iterator[ValidationError]:
        if isinstance(instance, dict):
            for name, definition in properties.items():
                if isinstance(definition, dict) and "default" in definition:
                    instance.setdefault(name, json.loads(json.dumps(definition["default"])))
        yield from check(validator, properties, instance, schema)

    return extend(Draft202012Validator, {"properties": fill, "pattern": match})


def _key(path: Iterable[str | int]) -> str:
    return ".".join(str(part) for part in path) or "the top level"


def _explain(error: ValidationError) -> str:
    """Say in one line which key is wrong, how, and what is allowed."""
    if error.context:  # of several alternatives, report the one that came closest
        closest = max(error.context, key=lambda e: (len(e.absolute_path), e.validator != "type"))
        return _explain(closest)
    where, rule, value = _key(error.absolute_path), error.validator, error.validator_value
    schema: Any = error.schema
    instance: Any = error.instance
    if rule == "additionalProperties":
        allowed = sorted(schema.get("properties", {}))
        unknown = min(set(instance) - set(allowed))
        near = get_close_matches(unknown, allowed, n=1)
        hint = f"; did you mean '{near[0]}'?" if near else ""
        key = _key([*error.absolute_path, unknown])
        return f"{key}: unknown key{hint}; allowed are {', '.join(allowed) or 'none'}"
    if rule == "required" and isinstance(value, list):
        missing = [name for name in value if name not in instance]
        return f"{where}: key '{missing[0]}' is missing"
    if rule == "enum" and isinstance(value, list):
        return f"{where}: {instance!r} is not allowed; choose one of {', '.join(map(str, value))}"
    return f"{where}: {error.message}"


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


def _check_references(config: Config) -> None:
    for name, model in config["models"].items():
        if name == EXTERNAL:
            raise InputError(f"models.{name}: this name is kept for external_samples; rename it")
        require(f"models.{name}.corpus", model["corpus"], config["corpora"], "corpus")
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
        key = f"external_samples.{name}"
        require(f"{key}.corpus", external["corpus"], config["corpora"], "corpus")
        if external["vocabulary"] is not None:
            found = external["vocabulary"], config["vocabularies"]
            require(f"{key}.vocabulary", *found, "vocabulary")
    if RAW_TEXT in config["vocabularies"]:
        raise InputError(
            f"vocabularies.{RAW_TEXT}: this name is kept for texts as they are; rename it"
        )


def _check_published(config: Config) -> None:
    for paper, names in config["report"]["published"].items():
        for name in names:
            require(f"report.published.{paper}", name, config["corpora"], "corpus")


def _check_sentences(config: Config) -> None:
    for section in ("contrastive", "semantics"):
        named = config[section]["documents_are_sentences"]
        for name in named if isinstance(named, dict) else ():
            require(f"{section}.documents_are_sentences", name, config["corpora"], "corpus")


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


def _check_lengths(config: Config, definitions: Mapping[str, Any]) -> None:
    length = config["generation"]["maximum_length"]
    for name in config["generation"]["models"]:
        model = config["models"][name]
        options = definitions.get(f"architecture-{model['family']}", {}).get("properties", {})
        default = options.get("context_length", {}).get("x-default")
        context = model["architecture"].get("context_length", default)
        if context is not None and length > context:
            raise InputError(
                f"generation.maximum_length: is {length}, but '{name}' conditions on {context} "
                f"tokens at most; lower it or raise models.{name}.architecture.context_length"
            )


def _check_values(config: Config) -> None:
    """Refuse values that a job would refuse, where telling takes no heavy library."""
    importance, tendencies = config["importance"], config["tendencies"]
    checked: list[tuple[str, type[Any], Any]] = [
        ("importance.smc", SMCOptions, importance["smc"] or {}),
        ("tendencies.measurement", MeasurementOptions, tendencies["measurement"]),
        ("tendencies.sample_size", SampleSizeOptions, tendencies["sample_size"]),
        ("tendencies.sensitivity", SensitivityOptions, tendencies["sensitivity"]),
    ]
    for section in ("models", "proposals"):
        for name, held in config[section].items():
            if "training" in held:
                kind = resolve_name(FAMILIES[held["family"]].training)
                checked.append((f"{section}.{name}.training", kind, held["training"]))
    for name, decoding in config["decodings"].items():
        checked.append((f"decodings.{name}", DecodingOptions, decoding))
    for where, kind, values in checked:
        parse_options(kind, values, f"config: {where}")


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
        total = sum(corpus["split"][split] for split in SPLITS) if not given else 1.0
        if abs(total - 1.0) > 1e-9:
            raise InputError(f"corpora.{name}.split: the shares add up to {total:g}, not to 1")


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


def validate(config: dict[str, Any], schema_path: str | Path) -> None:
    """Check a configuration, fill in its defaults and expand patterns of paths, in place."""
    text = Path(schema_path).read_text(encoding="utf-8")
    schema = yaml.load(text, Loader=_Loader)
    validator = _filling_validator()(schema)
    check_values(config)
    _settle_preprocessing(config)
    errors = sorted(validator.iter_errors(config), key=lambda error: list(map(str, error.path)))
    if errors:
        raise InputError("; ".join(dict.fromkeys(f"config: {_explain(e)}" for e in errors)))
    _check_folders(config)
    check_paths(config)
    _expand_patterns(config)
    _check_sources(config)
    check_text_formats(config)
    _check_splits(config)
    _check_values(config)
    _check_references(config)
    _check_published(config)
    _check_sentences(config)
    _check_evaluated_splits(config)
    _check_lengths(config, schema["$defs"])
    check_latent_models(config, schema["$defs"])
    check_contrastive(config)
    check_evaluators(config)
    check_embedding(config)
    check_semantics(config)

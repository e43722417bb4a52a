"""The part of the configuration schema that follows from the options dataclasses in the code."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import re
import types
import typing
from typing import Any, Literal

OPTIONS = {
    "architecture-cnn": "beyond_perplexity.models.cnn:CNNOptions",
    "architecture-discriminative-rnng": (
        "beyond_perplexity.models.rnng.top_down_actions:TopDownOptions"
    ),
    "architecture-entity-tagger": ("beyond_perplexity.models.entitynlm.tagger:EntityTaggerOptions"),
    "architecture-entitynlm": "beyond_perplexity.models.entitynlm.model:EntityNLMOptions",
    "architecture-gru": "beyond_perplexity.models.recurrent:RecurrentOptions",
    "architecture-kglm": "beyond_perplexity.models.kglm.model:KGLMOptions",
    "architecture-kglm-tagger": ("beyond_perplexity.models.kglm.tagger:TaggerOptions"),
    "architecture-huggingface": "beyond_perplexity.models.huggingface.bring:HuggingFaceOptions",
    "architecture-lstm": "beyond_perplexity.models.recurrent:RecurrentOptions",
    "architecture-rnng": "beyond_perplexity.models.rnng.model:RNNGOptions",
    "architecture-rnng-top-down": "beyond_perplexity.models.rnng.top_down_model:TopDownRNNGOptions",
    "architecture-span-crf": ("beyond_perplexity.models.rnng.span_crf:SpanCRFOptions"),
    "architecture-transformer": "beyond_perplexity.models.transformer:TransformerOptions",
    "architecture-transformer-adaptive-softmax": (
        "beyond_perplexity.models.transformer_adaptive_softmax:AdaptiveTransformerOptions"
    ),
    "graph": "beyond_perplexity.models.kglm.embedding:GraphOptions",
    "training": "beyond_perplexity.training.options:TrainingOptions",
    "decoding": "beyond_perplexity.decoding.options:DecodingOptions",
    "reduction": "beyond_perplexity.importance.options:ReductionOptions",
    "smc": "beyond_perplexity.importance.options:SMCOptions",
    "measurement": "beyond_perplexity.tendencies.options:MeasurementOptions",
    "sample-size": "beyond_perplexity.tendencies.options:SampleSizeOptions",
    "sensitivity": "beyond_perplexity.tendencies.options:SensitivityOptions",
}

_NAMES = {int: "integer", float: "number", bool: "boolean", str: "string", type(None): "null"}


def _type_schema(hint: Any) -> dict[str, Any]:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin in (typing.Union, types.UnionType):
        parts = [_type_schema(argument) for argument in arguments]
        if all(set(part) == {"type"} for part in parts):
            return {"type": [part["type"] for part in parts]}
        return {"anyOf": parts}
    if origin in (list, tuple):
        return {"type": "array", "items": _type_schema(arguments[0])}
    return {"type": _NAMES[hint]}


def _descriptions(kind: type) -> dict[str, str]:
    """Read what the numpydoc docstring says of each field, as one line."""
    pattern = r"^(\w+) : [^\n]*\n((?:[ ]{4}[^\n]*\n?|\n)+)"
    described: dict[str, str] = {}
    for part in reversed(kind.__mro__):  # a dataclass says only what it adds to its base
        found = re.findall(pattern, inspect.cleandoc(part.__doc__ or ""), flags=re.MULTILINE)
        described |= {name: " ".join(body.split()) for name, body in found}
    return described


def option_schema(kind: type) -> dict[str, Any]:
    """Describe an options dataclass as a JSON schema.

    Parameters
    ----------
    kind : type
        A dataclass whose docstring describes every field in a numpydoc section.

    Returns
    -------
    dict
        An object schema that refuses unknown keys, with types, descriptions and defaults in words.

    Raises
    ------
    ValueError
        When the docstring leaves a field out.
    """
    assert dataclasses.is_dataclass(kind)
    hints = typing.get_type_hints(kind)
    descriptions = _descriptions(kind)
    properties = {}
    required = []
    for field in dataclasses.fields(kind):
        if field.name not in descriptions:
            raise ValueError(f"{kind.__name__}: the docstring does not describe '{field.name}'")
        property_ = {"description": descriptions[field.name], **_type_schema(hints[field.name])}
        if field.default is dataclasses.MISSING:
            required.append(field.name)
        else:
            default = list(field.default) if isinstance(field.default, tuple) else field.default
            property_["description"] += f" Default: {default}."
            # Not "default", which would be filled in: options that are left out stay out.
            property_["x-default"] = default
        properties[field.name] = property_
    schema = {"type": "object", "additionalProperties": False, "properties": properties}
    return {**schema, "required": required} if required else schema


def all_option_schemas() -> dict[str, Any]:
    """Describe every options dataclass that a configuration can fill, by its definition's name."""
    found = {}
    for name, reference in OPTIONS.items():
        module, _, kind = reference.partition(":")
        found[name] = option_schema(getattr(importlib.import_module(module), kind))
    return found

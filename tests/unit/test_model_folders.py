"""Folders of models that somebody else wrote: descriptions, shapes, kinds. Needs torch.

Oracles: a sound folder, of which the test itself breaks one thing; what torch raises on its own.
"""

from __future__ import annotations

import json
import math
import re

import numpy as np
import pytest
import safetensors.torch
import torch
from torch import Tensor

from beyond_perplexity.errors import InputError
from beyond_perplexity.models import registry
from beyond_perplexity.models.kneser_ney import KneserNey
from beyond_perplexity.models.registry import check_finite, load_any, load_model, save_model
from beyond_perplexity.models.trigram import Trigram
from beyond_perplexity.storage.provenance import content_hash
from beyond_perplexity.vocabulary import ClosedVocabulary

pytestmark = pytest.mark.usefixtures("one_thread")
VOCABULARY = ClosedVocabulary.build([["a b c d e f"] * 3])
TEXT = [[np.array([3, 4, 5, 3, 4], np.int32), np.array([4, 4, 3], np.int32)]]
LSTM = {"family": "lstm", "architecture": {"embedding_size": 8, "hidden_size": 8, "layers": 1}}

Tensors = dict[str, Tensor]


def model_of(family):
    if family == "lstm":
        return registry.build(LSTM, VOCABULARY.size)
    kind = {"trigram": Trigram, "kneser-ney": KneserNey}[family]
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
        (
            "vocabulary.json",
            '{"kind": "closed", "words": ["b"], "unknown_types": 0}',
            "is not the vocabulary the model was trained with",
        ),
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
    with pytest.raises(InputError, match=words):
        load_model(tmp_path)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_weights_that_are_no_numbers_are_named_with_their_file(tmp_path, value):
    name, weight = list(model_of("lstm").named_parameters())[1]

    def spoil(tensors):
        tensors[name].flatten()[-1] = value

    words = f"model.safetensors: 1 of the {weight.numel()} numbers of '{name}' are NaN or infinite"
    with pytest.raises(InputError, match=re.escape(words)):
        load_model(folder(tmp_path, "lstm", change=spoil))


def test_buffers_may_be_infinite_but_no_nan():
    module = torch.nn.Module()
    module.register_buffer("mask", torch.tensor([0, -math.inf]))
    module.register_buffer("counts", torch.tensor([1, 2]))
    check_finite(module, "a file")
    module.mask[0] = math.nan
    with pytest.raises(InputError, match="a file: 1 of the 2 numbers of 'mask'"):
        check_finite(module, "a file")


@pytest.mark.parametrize("family", ["lstm", "trigram", "kneser-ney"])
def test_sound_folders_are_read(tmp_path, family):
    model, vocabulary, _ = load_any(folder(tmp_path, family))
    assert vocabulary.size == VOCABULARY.size
    if family == "lstm":
        return
    whole = model_of(family).state_dict()
    assert all(torch.equal(tensor, whole[name]) for name, tensor in model.state_dict().items())


def put(section, **values):
    return lambda held: (held["config"][section] if section else held["config"]).update(values)


@pytest.mark.parametrize(
    ("describe", "message"),
    [
        (put("architecture", layers=9), "weight_ih_l1' is missing, and 31 more like it"),
        (put("architecture", hidden_size=9), "has the shape .*, expected .*more like it"),
        (put("architecture", hidden_size=-3), "hidden_size: is -3, expected at least 1"),
        (put("architecture", hidden_size="8"), "hidden_size"),
        (put("", family=["lstm"]), r"model\.json"),
        (put("", family="optimal"), "worked out from its model"),
        (put("", extra=1), "unexpected keyword"),
        (lambda held: held.update(config=[["family", "lstm"]]), "lacks config"),
        (lambda held: held.update(vocabulary="abc"), "lacks config"),
        (lambda held: held.update(weights_sha256=3), "lacks config"),
    ],
)
def test_a_description_that_does_not_fit_is_one_line(tmp_path, describe, message):
    with pytest.raises(InputError, match=message) as caught:
        load_any(folder(tmp_path, "lstm", describe))
    assert str(tmp_path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500 + len(str(tmp_path))


@pytest.mark.parametrize("content", ["[" * 100_000, '{"n": ' + "1" * 5000 + "}", "[]", "\0", ""])
def test_descriptions_that_are_no_json_are_one_line(tmp_path, content):
    (tmp_path / "model.json").write_text(content)
    with pytest.raises(InputError, match=r"model\.json: .*description|describe a model"):
        load_any(tmp_path)


def replace(name, make):
    return lambda tensors: tensors.update({name: make(tensors[name])})


BROKEN = [
    ("lstm", replace("embedding.weight", lambda t: t[:1].clone()), "has the shape (1, 8)"),
    ("lstm", replace("embedding.weight", lambda t: t.long()), "is torch.int64, expected"),
    ("lstm", lambda t: t.update(other=torch.zeros(1)), "'other' belongs to no part"),
    ("trigram", lambda t: t.pop("counts"), "KeyError('counts')"),
]


@pytest.mark.parametrize(("family", "change", "message"), BROKEN)
def test_tensors_of_wrong_shapes_kinds_or_signs_are_told(tmp_path, family, change, message):
    with pytest.raises(InputError, match=re.escape(message)) as caught:
        load_any(folder(tmp_path, family, change=change))
    assert "model.safetensors" in str(caught.value)
    assert "\n" not in str(caught.value)

"""Folders of models that somebody else wrote: shapes, sizes, signs. Needs torch.

Oracles: a sound folder, of which the test itself breaks one thing; what torch raises on its own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch
from torch import Tensor, nn

from beyond_perplexity.errors import InputError
from beyond_perplexity.models import registry
from beyond_perplexity.models.checkpoint import load_any, save_model
from beyond_perplexity.models.contract import TrainedModel
from beyond_perplexity.models.kneser_ney import KneserNey
from beyond_perplexity.models.latents.kglm_instances import KnowledgeGraph
from beyond_perplexity.models.read_tensors import build_bounded, check_all_tables
from beyond_perplexity.models.trigram import Trigram
from beyond_perplexity.storage.provenance import content_hash
from beyond_perplexity.vocabulary import ClosedVocabulary

pytestmark = pytest.mark.usefixtures("one_thread")
VOCABULARY = ClosedVocabulary.build([["a b c d e f"] * 3])
TEXT = [[np.array([3, 4, 5, 3, 4], np.int32), np.array([4, 4, 3], np.int32)]]
LSTM = {
    "family": "lstm",
    "architecture": {"embedding_size": 8, "hidden_size": 8, "layers": 1},
}

Tensors = dict[str, Tensor]


def model_of(family: str) -> TrainedModel:
    if family == "lstm":
        return registry.build(LSTM, VOCABULARY.size)
    kind = {"trigram": Trigram, "kneser-ney": KneserNey}[family]
    return kind.fit(TEXT, VOCABULARY.size)


def folder(
    path: Path,
    family: str,
    describe: Callable[[dict[str, Any]], object] | None = None,
    change: Callable[[Tensors], object] | None = None,
) -> Path:
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


@pytest.mark.parametrize("family", ["lstm", "trigram", "kneser-ney"])
def test_sound_folders_are_read(tmp_path: Path, family: str) -> None:
    model, vocabulary, _ = load_any(folder(tmp_path, family))
    assert vocabulary.size == VOCABULARY.size
    if family == "lstm":
        return
    check_all_tables(model)
    whole = model_of(family).state_dict()
    assert all(torch.equal(tensor, whole[name]) for name, tensor in model.state_dict().items())


def put(section: str, **values: object) -> Callable[[dict[str, Any]], object]:
    return lambda held: (held["config"][section] if section else held["config"]).update(values)


@pytest.mark.parametrize(
    ("describe", "message"),
    [
        (put("architecture", hidden_size=100_000), "a far larger model than the file holds"),
        (
            put("architecture", embedding_size=10**6, hidden_size=64),
            "a far larger model than the file holds",
        ),
        (put("architecture", layers=1000), "more layers than the file has tensors for"),
        (put("architecture", layers=9), "weight_ih_l1' is missing, and 31 more like it"),
        (put("architecture", hidden_size=9), "has the shape .*, expected .*more like it"),
        (put("architecture", hidden_size=-3), "hidden_size: is -3, expected at least 1"),
        (put("architecture", hidden_size="8"), "hidden_size"),
        (put("", vocabulary_size=10**12), "vocabulary_size is 1000000000000, but .* 9 ids"),
        (put("", vocabulary_size=-5), "vocabulary_size is -5"),
        (put("", vocabulary_size="9"), "vocabulary_size is '9'"),
        (put("", vocabulary_size=9.0), r"vocabulary_size is 9\.0"),
        (put("", family=["lstm"]), r"model\.json"),
        (put("", family="optimal"), "worked out from its model"),
        (put("", extra=1), "unexpected keyword"),
        (lambda held: held.update(config=[["family", "lstm"]]), "lacks config"),
        (lambda held: held.update(vocabulary="abc"), "lacks config"),
        (lambda held: held.update(weights_sha256=3), "lacks config"),
    ],
)
def test_a_description_that_does_not_fit_is_one_line(
    tmp_path: Path, describe: Callable[[dict[str, Any]], object], message: str
) -> None:
    with pytest.raises(InputError, match=message) as caught:
        load_any(folder(tmp_path, "lstm", describe))
    assert str(tmp_path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500 + len(str(tmp_path))


@pytest.mark.parametrize("content", ["[" * 100_000, '{"n": ' + "1" * 5000 + "}", "[]", "\0", ""])
def test_descriptions_that_are_no_json_are_one_line(tmp_path: Path, content: str) -> None:
    (tmp_path / "model.json").write_text(content)
    with pytest.raises(InputError, match=r"model\.json: .*description|describe a model"):
        load_any(tmp_path)


def replace(name: str, make: Callable[[Tensor], Tensor]) -> Callable[[Tensors], object]:
    return lambda tensors: tensors.update({name: make(tensors[name])})


def swap(table: Tensor) -> Tensor:
    return table.flip(0).contiguous()


BROKEN = [
    ("lstm", replace("embedding.weight", lambda t: t[:1].clone()), "has the shape (1, 8)"),
    ("lstm", replace("embedding.weight", lambda t: t.long()), "is torch.int64, expected"),
    ("lstm", lambda t: t.update(other=torch.zeros(1)), "'other' belongs to no part"),
    ("lstm", replace("layers.weight_ih_l0", lambda t: t * torch.nan), "are NaN or infinite"),
    ("trigram", replace("counts", lambda t: -t), "'counts' has numbers from"),
    ("trigram", replace("counts", lambda t: t.double()), "'counts' holds torch.float64"),
    ("trigram", replace("counts", lambda t: t + (1 << 61)), "'counts' adds up to more"),
    ("trigram", replace("counts", lambda t: t[:0].clone()), "'counts' is empty"),
    ("trigram", lambda t: t.pop("counts"), "KeyError('counts')"),
    ("trigram", replace("successors", lambda t: t + 10**6), "'successors' has numbers"),
    ("trigram", replace("successors", lambda t: t[:1].clone()), "'successors' has the shape"),
    ("trigram", replace("successors", torch.zeros_like), "'successors' does not rise"),
    ("trigram", replace("offsets", lambda t: t + 10**6), "'offsets' has numbers"),
    ("trigram", replace("offsets", lambda t: t.clamp(max=3)), "'offsets' goes from 0 to 3"),
    ("trigram", replace("contexts", swap), "'contexts' does not rise"),
    ("trigram", replace("contexts", lambda t: t - 10**6), "'contexts' has numbers"),
    ("kneser-ney", replace("log_probs_1", lambda t: -t), "'log_probs_1' has the number"),
    ("kneser-ney", replace("log_probs_2", lambda t: t * torch.nan), "'log_probs_2' has the number"),
    ("kneser-ney", replace("backoffs_1", lambda t: t + 1e5), "'backoffs_1' has the number"),
    ("kneser-ney", replace("log_probs_1", lambda t: t[:3].clone()), "'log_probs_1' holds"),
    ("kneser-ney", replace("keys_2", swap), "'keys_2' does not rise"),
    ("kneser-ney", replace("keys_2", lambda t: t + (1 << 60)), "'keys_2' has numbers"),
    ("kneser-ney", replace("keys_2", lambda t: t + 1000), "'keys_2 (words)' has numbers"),
    ("kneser-ney", lambda t: t.pop("backoffs_1"), "'backoffs_1' is missing"),
    ("kneser-ney", lambda t: t.update(keys_99=torch.zeros(1)), "'keys_99' is missing, or"),
]


@pytest.mark.parametrize(("family", "change", "message"), BROKEN)
def test_tensors_of_wrong_shapes_kinds_or_signs_are_told(
    tmp_path: Path, family: str, change: Callable[[Tensors], object], message: str
) -> None:
    with pytest.raises(InputError, match=re.escape(message)) as caught:
        load_any(folder(tmp_path, family, change=change))
    assert "model.safetensors" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_graph_whose_tables_do_not_fit_is_told() -> None:
    sizes = {
        **dict.fromkeys(("name_bytes", "relation_bytes", "words", "word_bytes"), 0),
        "entities": 3,
        "relations": 2,
        "edges": 3,
        "dimension": 4,
        "cutoff": 5,
    }
    graph = KnowledgeGraph(sizes)
    graph.edge_offsets = torch.tensor([0, 2, 2, 3])
    graph.edge_keys = torch.tensor([1, 2, 6])
    graph.edge_relations = torch.tensor([0, 1, 1])
    graph.check_tables()
    for name, value, message in [
        ("edge_offsets", [0, 2, 1, 3], "does not rise"),
        ("edge_offsets", [0, 1, 2, 2], "goes from 0 to 2, expected 0 to 3"),
        ("edge_keys", [2, 1, 6], "does not rise"),
        ("edge_keys", [1, 2, 9], "has numbers"),
        ("edge_keys", [1, 2, 5], "does not fit 'edge_offsets'"),
        ("edge_relations", [0, 1, -1], "has numbers"),
    ]:
        sound = getattr(graph, name)
        setattr(graph, name, torch.tensor(value))
        with pytest.raises(InputError, match=message):
            graph.check_tables()
        setattr(graph, name, sound)


class Table(nn.Module):
    """Asks for memory in one of the ways in which a model may."""

    def __init__(self, way: str, size: int) -> None:
        super().__init__()
        column, row = torch.ones(size, 1), torch.ones(1, size)
        makers: dict[str, Callable[[], Tensor]] = {
            "size": lambda: torch.zeros(size, size),
            "tuple": lambda: torch.empty((size, size)),
            "keyword": lambda: torch.ones(size=(size, size)),
            "full": lambda: torch.full((size, size), 1.0),
            "arange": lambda: torch.arange(size * size),
            "repeat": lambda: row.repeat(size, 1),
            "product": lambda: column * row,
        }
        self.register_buffer("table", makers[way](), persistent=False)


@pytest.mark.parametrize("way", ["size", "tuple", "keyword", "full", "arange", "repeat", "product"])
def test_memory_is_counted_before_it_is_asked_for(way: str) -> None:
    """10¹² numbers are 4 TB: asked for, they would be refused by the system with another error."""
    with pytest.raises(InputError, match="far larger model"):
        build_bounded(lambda: Table(way, 10**6), {})
    assert isinstance(build_bounded(lambda: Table(way, 100), {}), Table)


def test_counting_changes_no_weight() -> None:
    torch.manual_seed(3)
    plain = registry.build(LSTM, VOCABULARY.size).state_dict()
    torch.manual_seed(3)
    counted = build_bounded(lambda: registry.build(LSTM, VOCABULARY.size), plain).state_dict()
    assert all(torch.equal(tensor, plain[name]) for name, tensor in counted.items())

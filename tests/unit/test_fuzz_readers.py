"""Every reader is given files that are broken somewhere: it reads them or says why not, in a line.

A sound file of each kind is changed by hypothesis: bytes that upset parsers are put in, parts are
cut out, doubled or moved, the end is missing. Needs hypothesis. Oracle: the contract of readers.
A reader returns, or raises `InputError` with one line that is short and names the file; nothing
else is raised, a warning neither. The examples are always the same.
"""

from __future__ import annotations

import functools
import importlib
import json
import struct
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch
import yaml
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from beyond_perplexity.errors import InputError
from beyond_perplexity.models.kneser_ney import KneserNey
from beyond_perplexity.models.registry import build, load_any, open_any, save_model
from beyond_perplexity.models.trigram import Trigram
from beyond_perplexity.planning.validation import validate
from beyond_perplexity.storage.provenance import content_hash
from tests.unit.sound_files import CASES, VOCABULARY, parquet

pytestmark = pytest.mark.usefixtures("one_thread")
LONGEST_MESSAGE = 900  # characters, without the path

# What upsets parsers: of text, JSON, XML, wikitext, CSV, pickles, numbers.
NASTY = [
    *(b"\0", b"\xff\xfe", b"\xed\xa0\x80", b"\xef\xbb\xbf", "\u2028é".encode(), b"\r", b"\n\n"),
    *(b"[" * 2000, b"{", b"}", b'"', b"\\ud800", b"9" * 5000, b"-1", b"1e999", b"NaN", b"null"),
    *(b"<", b"<page>", b"</page>", b"&#x1;", b"<!--", b"{{", b"[[", b"<ref name=", b"(", b")"),
    *(b",", b"\t", b" ", b"#begin document (x)", b"(1", b"1)", b"t.", b"R", b"\x85", b"\x94"),
    struct.pack("<q", -1),
    struct.pack("<q", 1 << 62),
    struct.pack("<i", -2),
]
PLACE = st.floats(0, 1)
EDIT = st.one_of(
    st.tuples(st.just("insert"), PLACE, st.sampled_from(NASTY)),
    st.tuples(st.just("replace"), PLACE, st.sampled_from(NASTY)),
    st.tuples(st.just("replace"), PLACE, st.binary(min_size=1, max_size=4)),
    st.tuples(st.just("cut"), PLACE, PLACE),
    st.tuples(st.just("double"), PLACE, PLACE),
    st.tuples(st.just("end"), PLACE, st.none()),
)


def broken(content: bytes, edits: list[tuple[str, float, Any]]) -> bytes:
    """Apply edits, whose places are shares of the length."""
    for kind, share, more in edits:
        place = int(share * len(content))
        if kind == "end":
            content = content[:place]
        elif kind == "insert":
            content = content[:place] + more + content[place:]
        elif kind == "replace":
            content = content[:place] + more + content[place + len(more) :]
        else:
            start, stop = sorted((place, int(more * len(content))))
            middle = content[start:stop]
            content = content[:start] + (2 * middle if kind == "double" else b"") + content[stop:]
    return content


sound = functools.cache(lambda name: CASES[name][1]())
SETTINGS = settings(
    max_examples=25,
    derandomize=True,
    deadline=None,  # a limit of time would depend on the machine
    database=None,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


def check(read: Callable[[], object], path: Path) -> None:
    """Read; whatever is wrong must be an `InputError` of one short line."""
    try:
        read()
    except InputError as error:
        message = str(error).replace(str(path), "").replace(str(path.parent), "")
        assert "\n" not in message, message
        assert len(message) < LONGEST_MESSAGE, message[:LONGEST_MESSAGE]


@pytest.mark.parametrize("name", CASES)
def test_a_broken_file_is_read_or_told_in_a_line(name: str) -> None:
    file, _, read = CASES[name]

    @SETTINGS
    @given(st.lists(EDIT, min_size=1, max_size=4))
    def fuzz(edits: list[tuple[str, float, Any]]) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / file
            path.write_bytes(broken(sound(name), edits))
            check(lambda: read(path), path)

    fuzz()


@pytest.mark.parametrize("name", sorted(set(CASES) - {"speller", "modules"}))
def test_the_files_are_sound_before_they_are_broken(name: str, tmp_path: Path) -> None:
    """Else the test above would break what no reader takes anyway."""
    file, _, read = CASES[name]
    (tmp_path / file).write_bytes(sound(name))
    read(tmp_path / file)


# ---- folders of models ----


@functools.cache
def model_folder(family: str) -> tuple[bytes, bytes, bytes]:
    """Return description, weights and vocabulary of a small model."""
    text = [[np.array([3, 4, 5, 3], np.int32)]]
    sizes = {"embedding_size": 4, "hidden_size": 4, "layers": 1}
    model = {
        "trigram": lambda: Trigram.fit(text, VOCABULARY.size),
        "kneser-ney": lambda: KneserNey.fit(text, VOCABULARY.size),
        "lstm": lambda: build({"family": "lstm", "architecture": sizes}, VOCABULARY.size),
    }[family]()
    with tempfile.TemporaryDirectory() as folder:
        save_model(folder, model, VOCABULARY, {})
        names = ("model.json", "model.safetensors", "vocabulary.json")
        return tuple(Path(folder, name).read_bytes() for name in names)  # type: ignore[return-value]


def write_folder(folder: Path, description: bytes, weights: bytes, vocabulary: bytes) -> None:
    (folder / "model.json").write_bytes(description)
    (folder / "model.safetensors").write_bytes(weights)
    (folder / "vocabulary.json").write_bytes(vocabulary)


@pytest.mark.parametrize("family", ["lstm", "trigram"])
@SETTINGS
@given(edits=st.lists(EDIT, min_size=1, max_size=3), which=st.integers(0, 2))
def test_a_broken_file_of_a_model_is_told(
    family: str, edits: list[tuple[str, float, Any]], which: int
) -> None:
    parts = list(model_folder(family))
    parts[which] = broken(parts[which], edits)
    with tempfile.TemporaryDirectory() as folder:
        write_folder(Path(folder), *parts)
        check(lambda: load_any(folder), Path(folder) / "model.json")


VALUES = st.one_of(
    *(st.none(), st.booleans(), st.integers(-2, 9), st.floats(), st.text(max_size=5)),
    st.sampled_from([1 << 31, 1 << 62, 1 << 63, -(1 << 63), 10**30, [], {}, [[]], {"a": 1}]),
)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """List where something stands in nested objects and lists."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in items:
        yield (*path, key)
        if isinstance(item, dict | list):
            yield from places(item, (*path, key))


def replaced(value: Any, path: tuple[Any, ...], new: object) -> None:
    for key in path[:-1]:
        value = value[key]
    value[path[-1]] = new


@pytest.mark.parametrize("family", ["lstm", "trigram", "kneser-ney"])
@SETTINGS
@given(data=st.data())
def test_another_value_in_a_description_is_told(family: str, data: st.DataObject) -> None:
    description, weights, vocabulary = model_folder(family)
    held = json.loads(description)
    replaced(held, data.draw(st.sampled_from(list(places(held)))), data.draw(VALUES))
    with tempfile.TemporaryDirectory() as folder:
        write_folder(Path(folder), json.dumps(held).encode(), weights, vocabulary)
        check(lambda: load_any(folder), Path(folder) / "model.json")


@SETTINGS
@given(data=st.data())
def test_other_tensors_are_told_or_a_model_that_scores(data: st.DataObject) -> None:
    description, weights, vocabulary = model_folder("lstm")
    tensors = safetensors.torch.load(weights)
    name = data.draw(st.sampled_from(sorted(tensors)))
    change = data.draw(
        st.sampled_from(
            [
                lambda t: -t,
                lambda t: t[1:].clone(),
                lambda t: t.flatten(),
                lambda t: torch.zeros_like(t),
                lambda t: t + 7,
                lambda t: t.double() * torch.inf,
                lambda t: t.to(torch.int16),
                lambda t: t.flip(0).contiguous(),
                lambda t: torch.cat([t, t]),
                lambda t: torch.zeros(0),
            ]
        )
    )
    tensors[name] = change(tensors[name])
    held = json.loads(description)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        write_folder(Path(folder), b"", safetensors.torch.save(tensors), vocabulary)
        held["weights_sha256"] = content_hash(path)
        (Path(folder) / "model.json").write_text(json.dumps(held))

        def score() -> None:
            model, _, _ = load_any(folder)
            with torch.inference_mode():
                logits = model(torch.tensor([[0, 3, 4, 5]]))
            assert logits.shape == (1, 4, VOCABULARY.size)
            assert not logits.isnan().any()

        check(score, path)


# ---- weights of other programs ----


@functools.cache
def huggingface_folder() -> dict[str, bytes]:
    """Return the files of a tiny model of Hugging Face by their names."""
    pytest.importorskip("transformers")
    from tests.unit.huggingface_models import make_gpt2

    with tempfile.TemporaryDirectory() as folder:
        make_gpt2(Path(folder))
        return {file.name: file.read_bytes() for file in Path(folder).iterdir()}


def open_folder(files: dict[str, bytes]) -> None:
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the library, about a foreign file
        for name, content in files.items():
            Path(folder, name).write_bytes(content)
        check(lambda: open_any(folder), Path(folder) / "x")


@pytest.mark.parametrize("which", ["config.json", "model.safetensors", "tokenizer.json"])
@settings(SETTINGS, max_examples=8)
@given(edits=st.lists(EDIT, min_size=1, max_size=2))
def test_a_broken_file_of_hugging_face_is_told(
    which: str, edits: list[tuple[str, float, Any]]
) -> None:
    files = dict(huggingface_folder())
    open_folder({**files, which: broken(files[which], edits)})


@settings(SETTINGS, max_examples=25)
@given(data=st.data())
def test_another_value_in_a_configuration_of_hugging_face_is_told(data: st.DataObject) -> None:
    files = dict(huggingface_folder())
    held = json.loads(files["config.json"])
    replaced(held, data.draw(st.sampled_from(list(places(held)))), data.draw(VALUES))
    open_folder({**files, "config.json": json.dumps(held).encode()})


# ---- configurations ----


@functools.cache
def smoke() -> str:
    return (Path(__file__).parents[2] / "configs" / "smoke.yaml").read_text(encoding="utf-8")


@settings(SETTINGS, max_examples=15)
@given(data=st.data())
def test_another_value_in_a_configuration_is_told(data: st.DataObject) -> None:
    config = yaml.safe_load(smoke())
    path = data.draw(st.sampled_from(list(places(config))))
    replaced(config, path, data.draw(VALUES))
    check(lambda: validate(config))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("word vectors", b"2 3"),
        ("ARPA", b"\\data\\\n" + b"9" * 5000 + b"\n"),
        ("table", b"log_p,\xff\n1,2\n"),
        ("Parquet table", parquet(log_p=[1.0]).replace(b"log_p", b"log_\xff")),
        ("text", b"\x28\xb5\x2f\xfd and no more"),
    ],
)
def test_what_a_longer_search_found(name: str, content: bytes, tmp_path: Path) -> None:
    file, _, read = CASES[name]
    (tmp_path / file).write_bytes(content)
    check(lambda: read(tmp_path / file), tmp_path / file)


def test_every_format_of_a_corpus_is_among_them() -> None:
    formats = importlib.import_module("beyond_perplexity.corpus.formats").FORMATS
    named = {"mediawiki": "dump", "text": "text", "jsonl": "JSON lines", "parquet": "Parquet"}
    named |= {"penn": "trees", "conll": "coreference", "linked-wikitext": "linked text"}
    assert set(named) == set(formats)
    assert set(named.values()) <= set(CASES)

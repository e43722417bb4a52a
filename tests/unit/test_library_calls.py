"""How the library is called: what it refuses, converts and leaves as it was.

Needs torch; models have random weights or are counted. Oracles: calls with plain values of Python,
the argument that was made wrong, exceptions made here, and the state of the process before a call.
"""

from __future__ import annotations

import inspect
import logging
import os
import random
import signal
import sys
import tempfile
import warnings
from collections.abc import Iterator

import matplotlib as mpl
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch

import beyond_perplexity
from beyond_perplexity.commands import perplexity as perplexity_command
from beyond_perplexity.errors import InputError
from beyond_perplexity.models import registry
from beyond_perplexity.models.registry import save_model
from beyond_perplexity.storage.shards import read_record
from beyond_perplexity.vocabulary import ClosedVocabulary
from tests.unit.test_library import FAST, HUMAN, MODEL, QUICK, SAMPLES, scores
from tests.unit.test_library_models import ARPA, TEXTS

FUNCTIONS = sorted(set(beyond_perplexity.__all__) - {"__version__", "load_results"})


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """Give what the functions are called with, by the names of the cases below."""
    folder = tmp_path_factory.mktemp("given")
    vocabulary = ClosedVocabulary(["a", "b"], 0)
    config = {"family": "lstm", "architecture": {"embedding_size": 4, "hidden_size": 4}}
    network = registry.build(config, vocabulary.size)
    save_model(folder / "lstm", network, vocabulary, {})
    (folder / "model.arpa").write_text(ARPA)
    (folder / "pairs.tsv").write_text("good\tbad\na b\tb a\n")
    (folder / "vectors.txt").write_text("cat 1 0\ndog 1 1\n")
    (folder / "similar.tsv").write_text("x\ty\tscore\ncat\tdog\t1\ndog\tdog\t2\ncat\tcat\t3\n")
    frame = pd.DataFrame({"text": HUMAN})
    return {
        "lstm": folder / "lstm", "arpa": folder / "model.arpa", "texts": TEXTS, "human": HUMAN,
        "generated": MODEL, "good": [-1.0, -2.0], "bad": [-2.0, -1.0], "first": ["a", "b a"],
        "second": ["b", "a"], "pairs": folder / "pairs.tsv", "vectors": folder / "vectors.txt",
        "similar": folder / "similar.tsv", "frame": frame, "network": network,
        "vocabulary": vocabulary, "weights": pa.table(dict(SAMPLES)),
        "scores": {"a": scores(1, 0.0), "b": scores(2, 0.2)},
    }  # fmt: skip


def call(given: dict[str, object], name: str, inputs: str, **options: object):
    """Call a function with what `inputs` names: positions, and keywords as ``keyword=name``."""
    places = [given[one] for one in inputs.split() if "=" not in one]
    named = dict(one.split("=") for one in inputs.split() if "=" in one)
    held = {keyword: given[one] for keyword, one in named.items()}
    return getattr(beyond_perplexity, name)(*places, **held, **options)


IGNORED = [
    ("perplexity", "arpa texts", {"cleaned": True, "speller": "x"}, "cleaned, speller: have no"),
    ("perplexity", "arpa texts", {"tokenized": True}, "tokenized: has no effect with an ARPA file"),
    ("perplexity", "lstm texts", {"unk_as": "a"}, "unk as: has no effect without an ARPA file"),
    ("perplexity", "lstm texts", {"unk_as_unknown": True}, "unk as unknown: has no effect"),
    ("perplexity", "lstm texts", {"cleaned": True, "tokenized": True}, "cleaned: has no effect on"),
    ("perplexity", "lstm texts", {"field": "x"}, "field: has no effect on texts in memory"),
    ("perplexity", "lstm texts", {"group_column": "x"}, "group column: has no effect on texts in"),
    ("contrast", "good bad", {"tokenized": True}, "tokenized: has no effect without a model"),
    ("contrast", "good bad", {"threads": 1, "device": "cpu"}, "threads, device: have no effect"),
    ("contrast", "first second model=lstm", {"words": [1, 2]}, "words: has no effect with a model"),
    ("contrast", "pairs model=lstm", {"phenomena": ["x"]}, "phenomena: has no effect on a file"),
    ("contrast", "pairs", {}, "originals: is a file of sentences; name the model"),
    ("similarity", "similar evaluator=vectors", {"vectors": "x"}, "vectors: has no effect with"),
    ("similarity", "similar evaluator=vectors", {"layers": 3}, "layers: has no effect with this"),
    ("similarity", "similar evaluator=vectors", {"config": "x"}, "config: has no effect with"),
    ("similarity", "similar evaluator=vectors", {"gold": [1]}, "gold: references is a file; name"),
    ("compare", "human generated", {"field": "x"}, "field: has no effect on texts in memory"),
    ("compare", "frame generated", {"samples_field": "x"}, "samples field: has no effect"),
    ("compare", "human generated", {"group_column": "x"}, "group column: has no effect on texts"),
    ("compare", "human frame", {"groups": HUMAN, "group_column": ""}, "groups: has no effect wher"),
    (
        "compare",
        "human generated",
        {"language": "de", "stop_words": "gensim"},
        "language: has no effect on tokenized",
    ),
    ("compare", "human generated", {"embedding_documents": 30}, "embedding documents: has no eff"),
    ("audit", "lstm texts", {"vocabulary": 3}, "vocabulary: has no effect with a model that has"),
    ("audit", "lstm texts", {"field": "x"}, "field: has no effect on texts in memory"),
    ("audit", "network texts vocabulary=vocabulary", {"precision": "float16"}, "precision: has no"),
]  # fmt: skip
WRONG = [
    ("perplexity", "network texts", {}, "model: is of type "),
    ("perplexity", "lstm texts", {"tokenized": "no"}, "tokenized: is 'no', expected True or False"),
    ("similarity", "first second", {"evaluator": 3}, "evaluator: is of type int; give a path"),
    ("contrast", "first second", {"model": 3}, "model: is of type int; give a path"),
    ("contrast", "good bad", {"phenomena": ["a", "\ud800"]}, "phenomena: pair 2 has half a surro"),
    ("compare", "human generated", {"groups": 3}, "groups: is of type int; give the group of each"),
    ("audit", "lstm texts", {"check": 3}, "check: is of type int; give a name"),
    ("estimate", "good", {}, "weights[0]: is of type float; give a path"),
    ("estimate", "weights", {"options": 3}, "options: is of type int; give a dict"),
    ("estimate", "weights", {"log_q": 3}, "log_q: is of type int; give a path, or several"),
    ("estimate", "weights", {"diagnostics": 3}, "diagnostics: is of type int"),
    ("estimate", "weights", {"output": "x.txt"}, "output x.txt: expected a name that ends in"),
]


@pytest.mark.parametrize(("name", "inputs", "options", "message"), IGNORED + WRONG)
def test_what_would_be_ignored_is_refused_by_its_keyword(given, name, inputs, options, message):
    held = FAST if name == "compare" else {}
    with pytest.raises(InputError) as caught:
        call(given, name, inputs, **held | options)
    said = str(caught.value)
    assert said.startswith(message)
    assert "--" not in said
    assert "\n" not in said


@pytest.mark.parametrize(
    ("made", "message"),
    [
        ({}, "scores: are of no model; give those of two"),
        ([], "scores: are of no model; give those of two"),
        ({"a": scores(1, 0.0)}, "scores: are of one model alone; give those of two"),
        (3, "scores: is of type int; give a path, or several in a list"),
        (b"x", "scores: is of type bytes"),
    ],
)
def test_too_few_models_are_no_comparison(made, message) -> None:
    with pytest.raises(InputError) as caught:
        beyond_perplexity.compare_perplexity(made)
    assert str(caught.value).startswith(message)


def test_the_command_refuses_by_the_same_code_and_the_same_words(given) -> None:
    flags = ["--arpa", str(given["arpa"]), "--text", "x", "--speller", "y"]
    with pytest.raises(InputError, match=r"^speller: has no effect with an ARPA file"):
        perplexity_command.main(flags)


def test_remarks_name_keywords_and_arguments(capsys) -> None:
    titled = pd.DataFrame({"text": HUMAN, "title": ["x"] * len(HUMAN)})
    beyond_perplexity.compare(titled, titled, **FAST)
    said = capsys.readouterr().err
    assert "warning: reference: 59 documents repeat a title" in said
    assert "give as group column title" in said
    assert tempfile.gettempdir() + os.sep not in said


def converted() -> Iterator[tuple[str, str, dict[str, object], dict[str, object]]]:
    """Give calls with arrays and scalars, and the same with plain values."""
    groups = [f"page {k // 2}" for k in range(len(HUMAN))]
    held = pa.chunked_array([groups[:7], groups[7:]])
    numbers = {"seed": np.int64(3), "minimum_tokens": np.uint8(1), "groups": held}
    plain = {"seed": 3, "minimum_tokens": 1, "groups": groups}
    yield "compare", "human generated", numbers, plain
    yield "compare_perplexity", "scores", {"flips": np.int32(99)}, {"flips": 99}
    options = {"subsets": np.int64(10), "bootstrap": pa.scalar(10), "confidence": np.float32(0.5)}
    plain = QUICK | {"confidence": 0.5}
    yield "estimate", "weights", {"options": options, "seed": np.int8(1)}, {
        "options": plain, "seed": 1,
    }  # fmt: skip
    for held in (pa.array([2, 4]), np.array([2, 4])):
        yield "contrast", "good bad", {"words": held}, {"words": [2, 4]}
    for held in (pa.array(["x", "y"]), np.array(["x", "y"]), pd.Series(["x", "y"])):
        yield "contrast", "good bad", {"phenomena": held}, {"phenomena": ["x", "y"]}


@pytest.mark.parametrize(("name", "inputs", "odd", "plain"), list(converted()))
def test_arrays_and_scalars_are_what_they_hold(given, name, inputs, odd, plain) -> None:
    held = FAST if name == "compare" else {}
    found = call(given, name, inputs, **held | odd)
    assert found.to_json() == call(given, name, inputs, **held | plain).to_json()


class Streamed:
    """What only offers Arrow's stream, as Polars and DuckDB do."""

    def __init__(self, held: pa.Table | pa.ChunkedArray) -> None:
        self.held = held

    def __arrow_c_stream__(self, schema: object = None) -> object:
        return self.held.__arrow_c_stream__(schema)


@pytest.mark.parametrize(
    "form",
    [
        pa.array(TEXTS),
        pa.array(TEXTS, pa.large_string()),
        pa.array(TEXTS).dictionary_encode(),
        pa.chunked_array([TEXTS[:1], [], TEXTS[1:]]),
        pa.table({"text": pa.array(TEXTS, pa.string_view())}),
        Streamed(pa.table({"n": range(4), "text": TEXTS})),
        Streamed(pa.chunked_array([TEXTS])),
        np.array(TEXTS, object),
        pd.Series(TEXTS, dtype="string"),
    ],
    ids=lambda form: f"{type(form).__name__}",
)
def test_whatever_holds_texts_is_scored_as_a_list(given, form) -> None:
    found = beyond_perplexity.perplexity(given["arpa"], form, device="cpu")
    again = beyond_perplexity.perplexity(given["arpa"], TEXTS, device="cpu")
    assert found.to_json() == again.to_json()


class OwnError(Exception):
    """Of a caller."""


@pytest.mark.parametrize(
    "error",
    [
        TypeError("mine"),
        ValueError("mine"),
        pa.ArrowInvalid("mine"),
        OwnError("mine"),
        OSError("mine"),
        ModuleNotFoundError("mine", name="torch"),
        KeyboardInterrupt(),
    ],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize("name", ["compare", "perplexity", "audit", "contrast", "similarity"])
def test_exceptions_of_the_caller_pass_through(given, name, error, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def texts() -> Iterator[str]:
        yield "a b"
        raise error

    inputs, options = {
        "compare": ([texts(), HUMAN], FAST),
        "perplexity": ([given["lstm"], texts()], {}),
        "audit": ([given["lstm"], texts()], {}),
        "contrast": ([texts(), HUMAN], {"model": given["lstm"]}),
        "similarity": ([texts(), HUMAN], {"evaluator": given["vectors"]}),
    }[name]
    with pytest.raises(type(error)) as caught:
        getattr(beyond_perplexity, name)(*inputs, **options)
    assert caught.value is error
    assert not list(tmp_path.iterdir())


def test_groups_of_an_arpa_files_sentences_widen_what_is_independent(given, tmp_path) -> None:
    """The documents' table has them as they were given."""
    groups = ["x", "x", "y", "y"]
    beside = beyond_perplexity.perplexity(given["arpa"], TEXTS, groups=groups, device="cpu")
    assert beside.summary["interval"]["groups"] == 2
    assert beside.table_of("documents")["group"].tolist() == groups
    path = tmp_path / "t.parquet"
    pd.DataFrame({"text": TEXTS, "page": groups}).to_parquet(path)
    file = beyond_perplexity.perplexity(given["arpa"], path, group_column="page", device="cpu")
    assert file.to_json().replace(str(path), "texts") == beside.to_json()
    without = beyond_perplexity.perplexity(given["arpa"], TEXTS, device="cpu")
    assert without.table["perplexity"].tolist() == beside.table["perplexity"].tolist()
    path = tmp_path / "t.txt"
    path.write_text("a b\n")
    with pytest.raises(InputError, match="is plain text and has no 'page'"):
        beyond_perplexity.perplexity(given["arpa"], path, group_column="page")


def test_records_name_no_file_that_is_gone(given, tmp_path) -> None:
    output, table = tmp_path / "e.parquet", given["weights"]
    beyond_perplexity.estimate([table.slice(0, 60), table.slice(60)], options=QUICK, output=output)
    record = read_record(output)
    assert record["options"]["weights"] == ["weights[0] in memory", "weights[1] in memory"]
    assert "beyond-perplexity-" not in str(record)


def state() -> dict[str, object]:
    """Return what belongs to the process, not to a function of a library."""
    own = logging.getLogger("beyond_perplexity")
    return {
        "folder": os.getcwd(),
        "environment": dict(os.environ),
        "random": random.getstate(),
        "numpy": repr(np.random.get_state()),  # noqa: NPY002
        "torch": torch.get_rng_state().tolist(),
        "threads": torch.get_num_threads(),
        "gradients": torch.is_grad_enabled(),
        "precision": (torch.get_default_dtype(), torch.get_float32_matmul_precision()),
        "warnings": (list(warnings.filters), warnings.showwarning),
        "matplotlib": dict(mpl.rcParams),
        "logging": (logging.root.level, list(logging.root.handlers), own.level, own.handlers),
        "signals": [signal.getsignal(one) for one in sorted(signal.valid_signals())],
        "numbers": (np.geterr(), np.get_printoptions()),
        "system": (sys.excepthook, sys.stdout, sys.stderr, sys.getrecursionlimit(), [*sys.path]),
    }


STATE = [
    ("compare", "human generated", FAST),
    ("perplexity", "lstm texts", {"threads": 3, "device": "cpu"}),
    ("perplexity", "arpa texts", {"threads": 3, "device": "cpu"}),
    ("contrast", "first second model=lstm", {"threads": 3, "device": "cpu"}),
    ("contrast", "good bad", {}),
    ("similarity", "similar evaluator=vectors", {"threads": 3, "gold": "score"}),
    ("audit", "lstm texts", {"threads": 3, "device": "cpu", "documents": 2}),
    ("compare_perplexity", "scores", {"flips": 9}),
    ("estimate", "weights", {"options": QUICK}),
]


@pytest.mark.parametrize(("name", "inputs", "options"), STATE)
def test_a_call_leaves_the_process_as_it_was(given, name, inputs, options) -> None:
    call(given, name, inputs, **options)  # what is imported first may set what it likes
    before = state()
    found = call(given, name, inputs, **options)
    if found.figures:
        found.figure(found.figures[0])
    assert found.to_json()
    after = state()
    for kind, held in before.items():
        assert after[kind] == held, kind


def test_every_keyword_is_documented_and_signatures_are_kept() -> None:
    for name in FUNCTIONS:
        function = getattr(beyond_perplexity, name)
        for keyword in inspect.signature(function).parameters:
            assert keyword in function.__doc__


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_call_that_does_not_fit_names_the_function(name: str) -> None:
    function = getattr(beyond_perplexity, name)
    keyword = [*inspect.signature(function).parameters][-1]
    wrong = f"{keyword[:-1]}{keyword[-1].upper()}x"
    meant = rf"{name}\(\) got an unexpected keyword argument '{wrong}'; did you mean '{keyword}'\?"
    with pytest.raises(TypeError, match=f"^{meant}$"):
        function(**{wrong: 1})
    with pytest.raises(TypeError, match=rf"^{name}\(\) got .* 'q'$"):
        function(q=1)
    with pytest.raises(TypeError, match=rf"^{name}\(\) (missing|too many)"):
        function() if name != "compare_perplexity" else function(*range(20))


def test_threads_are_as_before_after_an_error_too(given) -> None:
    before = torch.get_num_threads()
    with pytest.raises(InputError):
        beyond_perplexity.perplexity(given["lstm"], [" "], threads=before + 2, device="cpu")
    assert torch.get_num_threads() == before


def test_a_path_that_only_says_so_is_a_path(given) -> None:
    class Named(os.PathLike):
        def __fspath__(self) -> str:
            return str(given["arpa"])

    found = beyond_perplexity.perplexity(Named(), TEXTS, device="cpu")
    assert found.summary["documents"] == len(TEXTS)

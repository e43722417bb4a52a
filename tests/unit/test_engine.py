"""How the engine keeps a device busy, and shards of samples.

Oracles: the same engine with other intervals, undisturbed or without recordings; the float32 model;
sizes of states; one shard. A GPU's recordings are made on tensors without data, which refuse what
they would.
"""

import json
import logging
from itertools import count

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

from beyond_perplexity.decoding import generation
from beyond_perplexity.decoding.generation import generate, make_engine, set_precision
from beyond_perplexity.decoding.options import parse_decoding
from beyond_perplexity.decoding.rooms import Graphs
from beyond_perplexity.errors import InputError
from beyond_perplexity.models import kneser_ney, trigram
from beyond_perplexity.models.registry import load_model, save_model
from beyond_perplexity.schemas.corpora import TEXT_SAMPLES
from beyond_perplexity.storage import provenance, shards
from beyond_perplexity.vocabulary import ClosedVocabulary
from scripts import generate as script
from tests.unit import evaluator_oracles, small_models, text_pairs, threads

pytestmark = pytest.mark.usefixtures("one_thread")
FAMILIES = [name for name in small_models.TINY if name != "rnn"]
KINDS = {kind: {"kind": kind} for kind in ("ancestral", "min_p")}
KINDS |= {"top_k": {"kind": "top_k", "k": 7}, "nucleus": {"kind": "nucleus", "mass": 0.8}}
KINDS |= {"beam": {"kind": "beam", "size": 2, "temperature": 2.0}}
LENGTH, COUNT = 40, 40


def small_model(family, size=30):
    if family == "trigram":
        rng = np.random.default_rng(0)
        texts = [rng.integers(3, 12, rng.integers(20, 40)).astype(np.int32) for _ in range(200)]
        return trigram.Trigram.fit([texts], 12)
    if family == "table":
        return small_models.TableModel.random(seed=2)
    return small_models.make(family, small_models.TINY[family], size, seed=1)


def engine(model, kind, batch=32):
    return make_engine(model, parse_decoding(KINDS[kind]), 3, "engine", LENGTH, batch)


@pytest.mark.parametrize("family", [*FAMILIES, "trigram", "table"])
@pytest.mark.parametrize("kind", ["ancestral", "beam"])
def test_when_the_host_looks_does_not_change_a_text(family, kind):
    model = small_model(family)
    expected = list(engine(model, kind).documents(5, COUNT))
    assert [document.doc_id for document in expected] == list(range(5, 5 + COUNT))
    for interval, batch in ((1, 32), (3, 16), (64, 16)):  # in 64 steps, the rooms run out
        machine = engine(model, kind, batch)
        machine._interval = interval
        assert small_models.same(expected, list(machine.documents(5, COUNT)))


class Recorder:
    """Stands for CUDA graphs: replays by a call, and sees that tensors keep their places."""

    def __init__(self, machine):
        self.machine, self.recorded, self.replayed = machine, 0, 0

    def places(self):
        rooms, state = self.machine.rooms, self.machine.state
        held = [*self.machine.slots.values(), *(state.tensors() or ()), rooms.done, rooms._queue]
        held += [*rooms.fields.values(), rooms._head, rooms._tail]
        return [tensor.data_ptr() for tensor in [*held, rooms.window._values, rooms.window._base]]

    def __call__(self, function):
        places = self.places()
        self.recorded += 1

        def replay():
            assert self.places() == places
            function()
            assert self.places() == places
            self.replayed += 1

        return replay


@pytest.mark.parametrize("family", [*FAMILIES, "trigram"])
@pytest.mark.parametrize("kind", KINDS)
def test_recorded_steps_give_the_same_texts(family, kind):
    machine = engine(small_model(family), kind, 16)
    expected = list(machine.documents(0, COUNT))
    recorder = Recorder(machine)
    machine._graphs = Graphs(recorder)
    assert small_models.same(expected, list(machine.documents(0, COUNT)))
    assert recorder.recorded
    assert recorder.replayed > 5 * recorder.recorded


def refuse(message):
    def fail(*_):
        raise RuntimeError(message)

    return fail


def test_steps_go_on_where_they_cannot_be_recorded(caplog):
    recorder = refuse("operation not permitted when stream is capturing\nat line 7")
    for family, reason in (("lstm", "not permitted"), ("table", "TableModel does not name")):
        machine = engine(small_model(family), "ancestral", 16)
        expected = list(machine.documents(0, COUNT))
        machine._graphs = Graphs(recorder)
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            assert small_models.same(expected, list(machine.documents(0, COUNT)))
        assert len(caplog.records) == 1
        assert reason in caplog.text


@pytest.mark.parametrize("family", ["gru", "transformer"])
def test_a_recording_that_fails_half_way_changes_nothing(family, monkeypatch):
    machine = engine(small_model(family), "ancestral", 16)
    expected = list(machine.documents(0, COUNT))

    def record(function):
        with monkeypatch.context() as patch:
            patch.setattr(machine, "_refill", refuse("not permitted"))  # the last part of a step
            function()
        return function

    machine._graphs = Graphs(record)
    assert small_models.same(expected, list(machine.documents(0, COUNT)))
    assert not machine._graphs.active


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_recorded_step_never_looks_at_a_value(family, kind, precision):
    """Tensors without data take the branches of a GPU and refuse every look."""
    model = small_model(family, 700).to("meta")
    set_precision(model, precision)
    machine = engine(model, kind, 64)
    machine._graphs = Graphs(lambda function: function)
    machine._open, machine._waiting = 1000, range(1000)
    with torch.inference_mode():
        machine._start()
        assert machine._step_model_now().dtype == torch.float32
        if kind == "nucleus":  # just the model's part is recorded
            machine._step_model()
            machine._step_model()
            with pytest.raises((NotImplementedError, RuntimeError), match=r"nonzero|meta"):
                machine._in_place(machine._advance)
        for _ in range(3 if machine.recordable else 0):
            machine._recorded(machine._advance)
    assert machine.recordable == (kind != "nucleus")


OUT_OF_MEMORY = {
    "cuda": torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 9 GiB"),
    "cpu": RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: 9 bytes"),
}


def fail_at(function, calls, device):
    """Wrap a function so that it runs out of memory in some of its calls."""
    made = count(1)

    def wrapped(*arguments, **options):
        if next(made) in calls:
            raise OUT_OF_MEMORY[device]
        return function(*arguments, **options)

    return wrapped


@pytest.mark.parametrize("kind", ["ancestral", "beam"])
@pytest.mark.parametrize("family", ["cnn", "transformer", "trigram"])
@pytest.mark.parametrize(
    ("where", "calls", "device"),
    [
        *(("_extend", {1}, "cpu"), ("_extend", {11, 12}, "cuda"), ("_extend", {18}, "cpu")),
        ("_collect", {1, 3}, "cpu"),
        ("_arrange", {1, 2}, "cpu"),  # after documents were picked up
        ("_fields", {1}, "cuda"),
        ("_set_up_graphs", {1, 2}, "cpu"),
    ],
)
def test_want_of_memory_costs_no_text(family, kind, where, calls, device, caplog):
    model = small_model(family)
    expected = list(engine(model, kind, 128).documents(2, 100))
    machine = engine(model, kind, 128)
    setattr(machine, where, fail_at(getattr(machine, where), calls, device))
    with caplog.at_level(logging.WARNING):
        found = list(machine.documents(2, 100))
    assert small_models.same(expected, found)
    assert caplog.text.count("halving") == len(calls)
    assert machine._batch_slots * machine.beams < 128


def test_want_of_memory_at_the_smallest_batch_and_other_errors_are_errors(monkeypatch):
    for failure, kind, words in (
        (fail_at(None, range(1, 99), "cpu"), InputError, "with the smallest batch, 16 rows"),
        (refuse("shapes do not fit"), RuntimeError, "shapes do not fit"),
    ):
        machine = engine(small_model("lstm"), "ancestral", 64)
        monkeypatch.setattr(machine, "_extend", failure)
        with pytest.raises(kind, match=words):
            list(machine.documents(0, 100))


def test_rows_follow_the_free_memory_that_the_job_may_hold(monkeypatch):
    device = torch.device("cpu")
    assert generation.free_memory(device) > 10**7
    used = generation._used_by_process()
    assert used > 10**7
    assert generation.free_memory(device, used // 2) == 0
    assert 0 < generation.free_memory(device, used + 10**7) < 10**8
    model = small_model("transformer", 1000)
    # Keys and values of 2 layers for 64 places (whole buckets) of width 32, one length.
    held = 2 * 2 * 64 * 32 * 4 + 8
    row = held + generation.VOCABULARY_BYTES * 1000
    assert generation.bytes_per_row(model, LENGTH) == row
    for rows, expected in ((1000, 128), (128, 128), (127, 64), (40, 32), (1, 1), (0.3, 1)):
        free = int(rows * row / generation.SHARE) + 1
        monkeypatch.setattr(generation, "free_memory", lambda device, given, free=free: free)
        assert generation.fitting_rows(model, LENGTH, 128) == expected
    machine = make_engine(model, parse_decoding({"kind": "ancestral"}), 1, "x", LENGTH)
    assert machine._batch_slots == 16  # a quantum


@pytest.mark.parametrize("family", FAMILIES)
def test_bfloat16_is_near_the_float32_model(family):
    exact, model = small_model(family), small_model(family)
    assert set(generation.PRECISIONS) == {"float32", "bfloat16"}
    assert (set_precision(exact), set_precision(model, "bfloat16")) == ("float32", "bfloat16")
    tokens = torch.randint(3, 30, (16, 9), generator=torch.Generator().manual_seed(0))  # (B, T)
    states = exact.initial_state(16, 9), model.initial_state(16, 9)
    with torch.inference_mode():
        for step in tokens.T:
            wanted, first = exact.step(step, states[0])
            found, second = model.step(step, states[1])
            states = first, second
            assert found.dtype == torch.float32
            assert not torch.equal(found, wanted)
            difference = found.softmax(-1) - wanted.softmax(-1)  # (B, V)
            assert float(difference.abs().sum(-1).max()) < 0.05
    options = parse_decoding({"kind": "ancestral"})
    engines = (make_engine(model, options, 1, "x", 20, batch) for batch in (16, 64))
    assert small_models.same(*(list(machine.documents(0, 20)) for machine in engines))


WORDS = [f"w{index}" for index in range(20)]


@pytest.fixture(scope="module", params=["lstm", "trigram", "kneser-ney"])
def folder(request, tmp_path_factory):
    vocabulary = ClosedVocabulary(WORDS, 3)
    model = small_models.make("lstm", {"embedding_size": 32, "hidden_size": 32}, vocabulary.size)
    if request.param != "lstm":
        generator = np.random.default_rng(0)
        texts = [" ".join(generator.choice(WORDS[:6], generator.integers(9))) for _ in range(99)]
        counted = trigram.Trigram if request.param == "trigram" else kneser_ney.KneserNey
        model = counted.fit([vocabulary.encode(texts)], vocabulary.size)
    path = tmp_path_factory.mktemp("model")
    save_model(path, model, vocabulary, {})
    return path


def run(folder, output, **options):
    flags = {
        "model": folder,
        "decoding": json.dumps({"kind": "nucleus"}),
        "name": "m/nucleus",
        "seed": 3,
        "count": 50,
        "maximum-length": 30,
        "device": "cpu",
        "output": output,
        **{key.replace("_", "-"): value for key, value in options.items()},
    }
    with threads.set_threads(torch.get_num_threads()):  # the command sets its own
        given = [part for key, value in flags.items() for part in (f"--{key}", value)]
        text_pairs.run_script(script, *given)


def test_shards_have_schema_record_and_documents_join_and_record_precision(folder, tmp_path):
    output = tmp_path / "shard.parquet"
    values = {"kind": "beam", "size": 2}
    run(folder, output, decoding=json.dumps(values), first=5, count=9)
    shards.check_schema(output, TEXT_SAMPLES)
    record = shards.read_record(output)
    assert record["checkpoint_hash"] == provenance.content_hash(folder / "model.safetensors")
    assert (record["seed"], record["precision"]) == (3, "float32")
    model, vocabulary, _ = load_model(folder)
    how = {"seed": 3, "purpose": "generate/m/nucleus", "first": 5, "count": 9}
    documents = generate(model, parse_decoding(values), maximum_length=30, **how)
    for row, document in zip(pq.read_table(output).to_pylist(), documents, strict=True):
        assert row["doc_id"] == document.doc_id
        assert row["text"] == vocabulary.decode([document.tokens])[0]
        assert (row["n_tokens"], row["log_prob"]) == (len(document.tokens), document.log_prob)
        assert row["log_prob_decoding"] is None
        assert row["finished"] == document.finished
    run(folder, tmp_path / "whole.parquet")
    whole = pq.read_table(tmp_path / "whole.parquet")
    assert whole["doc_id"].to_pylist() == list(range(50))
    rows = []
    for index, (first, number) in enumerate([(0, 13), (13, 30), (43, 7)]):
        output = tmp_path / f"{index}.parquet"
        run(folder, output, first=first, count=number, batch_size=index + 1)
        rows += pq.read_table(output).to_pylist()
    assert rows == whole.to_pylist()
    run(folder, tmp_path / "a.parquet", precision="bfloat16")
    run(folder, tmp_path / "b.parquet", precision="bfloat16", memory_mb=1)
    first, second = (tmp_path / f"{name}.parquet" for name in "ab")
    assert shards.read_record(first)["precision"] == "bfloat16"
    assert pq.read_table(first).equals(pq.read_table(second))


def test_wrong_flags_are_named_and_nothing_is_written(folder, tmp_path):
    for options, message in (
        ({"decoding": "{"}, "is no JSON"),
        ({"decoding": '{"kind": "nucleus", "n": 1}'}, r"--decoding\.n: unknown key"),
        ({"batch_size": "many"}, "batch size: is 'many'"),
        ({"maximum_length": 0}, "--maximum-length: is 0, expected at least 1"),
        ({"precision": "half"}, "precision: is 'half'"),
        ({"first": -1}, "--first: is -1, expected at least 0"),
        ({"first": 2**63 - 1}, "--first: is 9223372036854775807, expected at most"),
    ):
        evaluator_oracles.check_refused(message, run, folder, tmp_path / "x.parquet", **options)
    assert not list(tmp_path.iterdir())
    model, ancestral = load_model(folder)[0], parse_decoding({"kind": "ancestral"}, "decoding")
    for changed, message in (  # a caller of the library is told the same
        ({"first": -1}, "first, count: are -1 and 2"),
        ({"count": -1}, "first, count: are 0 and -1"),
        ({"maximum_length": 0}, "maximum length: is 0"),
    ):
        numbers = {"seed": 1, "first": 0, "count": 2, "maximum_length": 3} | changed
        evaluator_oracles.check_refused(message, generate, model, ancestral, purpose="x", **numbers)

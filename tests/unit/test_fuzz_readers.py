"""Every reader is given files that are broken somewhere: it reads them or says why not, in a line.

Sound files are changed by hypothesis, always in the same ways. Oracle: a reader returns, or raises
`InputError` with one short line that names the file; nothing else, no warning.
"""

import functools
import gzip
import importlib
import json
import pickle
import struct
import tempfile
import warnings
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import safetensors.torch
import torch
import yaml
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from beyond_perplexity.contrastive.pairs import read_pairs
from beyond_perplexity.corpus import conll, extraction_options, linked, markup, mediawiki, penn
from beyond_perplexity.corpus.readers import Problems
from beyond_perplexity.corpus.text_files import (
    read_csv,
    read_folder,
    read_jsonl,
    read_parquet,
    read_text,
)
from beyond_perplexity.errors import InputError
from beyond_perplexity.importance.draw_files import file_labels
from beyond_perplexity.models import kneser_ney, registry, trigram
from beyond_perplexity.ngrams import arpa, spelling_model
from beyond_perplexity.ngrams.sentence_files import UnknownRule, read_sentence_texts
from beyond_perplexity.perplexities.score_files import read_scores
from beyond_perplexity.planning.validation import validate
from beyond_perplexity.semantics import scored_pairs
from beyond_perplexity.semantics.evaluators.infersent import load_infersent
from beyond_perplexity.semantics.evaluators.job import EVALUATOR_FILE, read_description
from beyond_perplexity.semantics.evaluators.sentence_transformers import check_folder
from beyond_perplexity.semantics.evaluators.skipthought import read_official_gru
from beyond_perplexity.semantics.evaluators.vectors import load_table
from beyond_perplexity.storage import inputs, provenance, table_files
from beyond_perplexity.storage.shards import RECORD_KEY, read_record, read_texts
from beyond_perplexity.tendencies.tokens import vocabulary_words
from beyond_perplexity.tendencies.word_classes import load_stop_words
from beyond_perplexity.vocabulary import BPEVocabulary, ClosedVocabulary, load_vocabulary

VOCABULARY = ClosedVocabulary.build([["a b c d e f"] * 3])


def drain(items):
    return sum(1 for _ in items)


def parquet(**columns):
    table = pa.table(columns).replace_schema_metadata({RECORD_KEY: b'{"seed": 1}'})
    return written(lambda path: pq.write_table(table, path, compression="none"))


def arrow(**columns):
    sink, table = pa.BufferOutputStream(), pa.table(columns)
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return sink.getvalue().to_pybytes()


def read_beside(path, problems):
    return read_folder(path.parent, problems)


def drained(reader, *arguments):
    return lambda path: drain(reader(path, *arguments))


def annotated(kind, name, **options):
    def read(path):
        source = extraction_options.SourceOptions(name, [str(path)], **options)
        for skip in (True, False):
            drain(kind.Reader(source, Problems(skip)).read(path))

    return read


def texts(reader):
    return lambda path: [drain(reader(path, Problems(skip))) for skip in (True, False)]


def find_words(path):
    return load_table({"path": str(path)}).find(["a", "b", "ccc"])


def read_side_file(key):
    def read(path):
        source = extraction_options.SourceOptions("linked-wikitext", ["x"], **{key: str(path)})
        reader = linked.Reader(source, Problems(False))
        return drain(reader.aliases() if key == "aliases" else reader.triples())

    return read


def read_dump(path):
    for raw in mediawiki.PageStream(path, Problems(False)):
        try:
            markup.parse_article(mediawiki.parse_page(raw).text)
        except (mediawiki.PageError, markup.MarkupError):
            continue


def read_table(path):
    file = table_files.TableFile(path)
    file_labels(file)
    kinds = {"log_p": pa.float64(), "instance_id": pa.int64()}
    file.require(list(kinds), "files")
    return [drain(file.batches(kinds, group)) for group in range(file.n_groups)]


def read_member(path):
    with tempfile.TemporaryFile() as target:
        inputs.copy_member(path, "a.txt", target)


def written(save, suffix=""):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"file{suffix}"
        save(path)
        return path.read_bytes()


def zip_files(path):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.txt", b"some words\n" * 50)


def fasttext_model():
    head = struct.pack("<ii12id", 793712314, 12, 2, 5, 5, 1, 5, 1, 1, 2, 3, 1, 2, 0, 0.0)
    sizes = struct.pack("<iiiqq", 2, 2, 0, 9, -1)
    words = b"".join(word + b"\0" + struct.pack("<qb", 3, 0) for word in (b"a", b"b"))
    rows = np.arange(10, dtype="<f4").tobytes()
    return head + sizes + words + b"\0" + struct.pack("<qq", 5, 2) + rows


def skipthought_weights():
    hidden, width = 3, 2
    shapes = {
        "W": (width, 2 * hidden), "U": (hidden, 2 * hidden), "b": (2 * hidden,),
        "Wx": (width, hidden), "Ux": (hidden, hidden), "bx": (hidden,),
    }  # fmt: skip
    arrays = {f"encoder_{name}": np.ones(shape, np.float32) for name, shape in shapes.items()}
    return written(lambda path: np.savez(path, **arrays), ".npz")


def infersent_state():
    """Make weights of the layout of the official ones: vectors of 2 numbers, 3 hidden ones."""
    torch.manual_seed(0)
    layer = torch.nn.LSTM(2, 3, bidirectional=True)
    return {f"enc_lstm.{name}": part for name, part in layer.state_dict().items()}


def infersent_weights(zipped):
    save = partial(torch.save, _use_new_zipfile_serialization=zipped)
    return lambda: written(partial(save, infersent_state()))


def read_infersent(path):
    with tempfile.TemporaryDirectory() as folder:
        vectors = Path(folder) / "v.txt"
        vectors.write_text("a 1 2\nb 3 4\n")
        return load_infersent({"path": path, "vectors": {"path": str(vectors)}}, {}, "cpu")


def spelling_model_file():
    held = {"kind": "spelling_model", "types": "a b", "discounts": [0.5], "concentrations": [1.0]}
    return json.dumps({**held, "sha256": "0" * 64}).encode()


DUMP = (
    "<mediawiki><page><title>A</title><ns>0</ns><revision><text>'''A''' is [[b|c]]. {{x|y}}"
    "&lt;ref&gt;z&lt;/ref&gt;</text></revision></page></mediawiki>"
)
CONLL = (
    "#begin document (a)\na 0 0 The DT (S(NP* - - - - (1\na 0 1 cat NN *)) - - - - 1)\n\n"
    "#end document\n"
)
CONLLU = (
    "# newdoc id = a\n# global.Entity = eid-etype\n"
    "1\tThe\tthe\tDET\tDT\t_\t2\tdet\t_\tEntity=(e1-animal\n"
    "2\tcat\tcat\tNOUN\tNN\t_\t0\troot\t_\tEntity=e1)|SpaceAfter=No\n\n"
)
GUM = "# begin document a\n0\tThe\t(animal-1-Cat\n1\tcat\tanimal-1-Cat)\n# end document\n"
LINKED = {"title": "A", "tokens": ["The", "cat", "sat"]}
LINKED["annotations"] = [{"id": "Q1", "source": "w", "span": [0, 2], "relation": ["@@NEW@@"]}]
ARPA = "\\data\\\nngram 1=3\nngram 2=1\n\n\\1-grams:\n-1\t<s>\t-0.5\n-1\t</s>\n-1\ta\t-0.5\n\n"
PAIR = {"sentence1": "a b", "sentence2": "c", "gold_label": "entailment"}
GOOD = {"sentence_good": "a b", "sentence_bad": "b a", "UID": "order"}
WEIGHTS = {"instance_id": pa.array([0, 0, 1]), "sample_id": pa.array([0, 1, 0])}
WEIGHTS |= dict.fromkeys(("log_p", "log_q"), pa.array([-1.0, -2.0, -3.0]))
CSV = "instance_id,sample_id,log_p,log_q,model\n0,0,-1.5,-2,m\n0,1,-1,-2,m\n1,0,-3,-1,m\n"
SAMPLES = {"doc_id": pa.array([0, 1], pa.int64()), "text": pa.array(["a b", "c"])}
SAMPLES |= {"n_tokens": pa.array([2, 1], pa.int32())}
SAMPLES |= {"log_prob": pa.array([-1.0, None], pa.float64())}
SAMPLES |= {"log_prob_decoding": pa.array([None, None], pa.float64())}
SAMPLES |= {"finished": pa.array([True, False])}
SCORES = "bytes,log_likelihood,doc_id,group\n12,-4.5,0,a\n9,-3,1,b\n"

Case = tuple[str, Callable[[], bytes], Callable[[Path], object]]
TREE = b"( (S (NP (DT The)\n (NN cat))) )\n"
KGRAPH = {"Q1": [("P1", "Q2"), ("P2", "Q3")], "Q2": []}
JSON_LINE, WORDS_BIN = b'{"text": "a b", "title": "c"}\n', struct.pack("<2f", 1, 2)
BPE_TEXTS, TWO_GRAMS = [["a b ab"]], f"{ARPA}\\2-grams:\n-1\t<s> a\n\n\\end\\\n"
CHAT = b'{"messages": [{"role": "assistant", "content": [{"type": "text", "text": "a"}]}]}\n'
CSV_PAIRS = b'sentence1,sentence2,score\n"a, b",c,1.5\nd,e,0\n'
MODULES = b'[{"type": "sentence_transformers.models.Transformer", "path": ""}]'
labelled = drained(scored_pairs.read_labelled_texts, scored_pairs.PairColumns())
as_linked = annotated(linked, "linked-wikitext", mentions="all")
as_conll = annotated(conll, "conll", mentions="all")
CASES = {
    "text": ("a.txt", lambda: "One two .\r\né\n\nlast".encode(), texts(read_text)),
    "packed text": ("a.gz", lambda: gzip.compress(b"one two\n" * 40, mtime=0), texts(read_text)),
    "JSON lines": ("a.jsonl", lambda: JSON_LINE * 3, texts(read_jsonl)),
    "Parquet": ("a.parquet", lambda: parquet(text=["a b", "c"] * 9), texts(read_parquet)),
    "CSV": ("a.csv", lambda: b'text,title\n"a, b",c\n"d\ne",f\n', texts(read_csv)),
    "Arrow": ("a.arrow", lambda: arrow(text=["a b", "c"] * 9), texts(read_beside)),
    "chats": ("a.jsonl", lambda: CHAT * 3, texts(read_jsonl)),
    "samples": ("a.parquet", lambda: parquet(**SAMPLES), lambda path: drain(read_texts([path]))),
    "record": ("a.parquet", lambda: parquet(text=["a"]), read_record),
    "dump": ("a.xml", DUMP.encode, read_dump),
    "trees": ("a.mrg", lambda: TREE * 3, annotated(penn, "penn")),
    "coreference": ("a.conll", lambda: CONLL.encode() * 2, as_conll),
    "CoNLL-U": ("a.conllu", lambda: CONLLU.encode() * 2, as_conll),
    "GUM": ("a.conll", lambda: GUM.encode() * 2, as_conll),
    "linked text": ("a.jsonl", lambda: json.dumps(LINKED).encode() + b"\n", as_linked),
    "graph": ("a.pkl", lambda: pickle.dumps(KGRAPH, 4), read_side_file("knowledge_graph")),
    "aliases": (
        "a.pkl",
        lambda: pickle.dumps({"Q1": ["a", "b c"], "Q2": {"d"}}, 2),
        read_side_file("aliases"),
    ),
    "table": ("a.csv", CSV.encode, read_table),
    "packed table": ("a.csv.gz", lambda: gzip.compress(CSV.encode(), mtime=0), read_table),
    "Parquet table": ("a.parquet", lambda: parquet(**WEIGHTS), read_table),
    "scores": ("a.csv", SCORES.encode, lambda path: read_scores(str(path))),
    "vocabulary": ("v.json", lambda: written(VOCABULARY.save), load_vocabulary),
    "BPE": ("v.json", lambda: written(BPEVocabulary.build(BPE_TEXTS, 260).save), load_vocabulary),
    "words": ("v.json", lambda: written(VOCABULARY.save), vocabulary_words),
    "list of words": ("v.txt", lambda: b"a\nb\n", vocabulary_words),
    "stop words": ("s.txt", lambda: b"the\ndon't\n", lambda path: load_stop_words(str(path))),
    "spelling_model": (
        "s.json",
        spelling_model_file,
        lambda path: spelling_model.load_spelling_model(path, VOCABULARY),
    ),
    "ARPA": ("a.arpa", TWO_GRAMS.encode, arpa.read_arpa),
    "sentences": (
        "a.txt",
        lambda: b"a b c\n\nd <unk>\n",
        lambda path: drain(read_sentence_texts([path], UnknownRule("word"))),
    ),
    "labelled pairs": ("a.jsonl", lambda: json.dumps(PAIR).encode() + b"\n", labelled),
    "pairs as CSV": ("a.csv", lambda: CSV_PAIRS, labelled),
    "pairs with tabs": ("a.tsv", lambda: b"a\tb\t1.5\nc\td\t2\n", labelled),
    "scored pairs": (
        "a.csv",
        lambda: b'first,second,gold\n"a, b",c,1.5\nd,e,0\n',
        drained(scored_pairs.read_scored_pairs, "gold"),
    ),
    "sentence pairs": ("a.jsonl", lambda: json.dumps(GOOD).encode() + b"\n", drained(read_pairs)),
    "word vectors": ("a.txt", lambda: b"2 3\na 1 2 3\nb .5 0 -1e-3\n", find_words),
    "binary vectors": ("a.bin", lambda: b"2 2\na %b\nb %b" % (WORDS_BIN, WORDS_BIN), find_words),
    "fastText": ("a.bin", fasttext_model, find_words),
    "SkipThought": ("u.npz", skipthought_weights, lambda path: read_official_gru(path, "uni", 2)),
    "InferSent": ("infersent1.pkl", infersent_weights(False), read_infersent),
    "zipped InferSent": ("infersent1.pkl", infersent_weights(True), read_infersent),
    "evaluator": (
        EVALUATOR_FILE,
        lambda: b'{"family": "word2vec", "title": "x"}',
        lambda path: read_description(path.parent),
    ),
    "modules": ("modules.json", lambda: MODULES, lambda path: check_folder(path.parent)),
    "zip archive": ("a.zip", lambda: written(zip_files), read_member),
}


pytestmark = pytest.mark.usefixtures("one_thread")
LONGEST_MESSAGE = 900  # characters, without the path

# What upsets parsers: of text, JSON, XML, wikitext, CSV, pickles, numbers.
NASTY = [
    *(b"\0", b"\xff\xfe", b"\xed\xa0\x80", b"\xef\xbb\xbf", "\u2028é".encode(), b"\r", b"\n\n"),
    *(b"[" * 2000, b"{", b"}", b'"', b"\\ud800", b"9" * 5000, b"-1", b"1e999", b"NaN", b"null"),
    *(b"<", b"<page>", b"</page>", b"&#x1;", b"<!--", b"{{", b"[[", b"<ref name=", b"(", b")"),
    *(b",", b"\t", b" ", b"#begin document (x)", b"(1", b"1)", b"t.", b"R", b"\x85", b"\x94"),
    *(struct.pack("<q", -1), struct.pack("<q", 1 << 62), struct.pack("<i", -2)),
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


def broken(content, edits):
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


def check(read, path):
    """Read; whatever is wrong must be an `InputError` of one short line."""
    try:
        read()
    except InputError as error:
        message = str(error).replace(str(path), "").replace(str(path.parent), "")
        assert "\n" not in message, message
        assert len(message) < LONGEST_MESSAGE, message[:LONGEST_MESSAGE]


@pytest.mark.parametrize("name", CASES)
def test_a_broken_file_is_read_or_told_in_a_line(name):
    file, _, read = CASES[name]

    @SETTINGS
    @given(st.lists(EDIT, min_size=1, max_size=4))
    def fuzz(edits):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / file
            path.write_bytes(broken(sound(name), edits))
            check(lambda: read(path), path)

    fuzz()


@pytest.mark.parametrize("name", sorted(set(CASES) - {"spelling_model", "modules"}))
def test_the_files_are_sound_before_they_are_broken(name, tmp_path):
    """Else the test above would break what no reader takes anyway."""
    file, _, read = CASES[name]
    (tmp_path / file).write_bytes(sound(name))
    read(tmp_path / file)


@functools.cache
def model_folder(family):
    text = [[np.array([3, 4, 5, 3], np.int32)]]
    sizes = {"embedding_size": 4, "hidden_size": 4, "layers": 1}
    model = {
        "trigram": lambda: trigram.Trigram.fit(text, VOCABULARY.size),
        "kneser-ney": lambda: kneser_ney.KneserNey.fit(text, VOCABULARY.size),
        "lstm": lambda: registry.build({"family": "lstm", "architecture": sizes}, VOCABULARY.size),
    }[family]()
    with tempfile.TemporaryDirectory() as folder:
        registry.save_model(folder, model, VOCABULARY, {})
        names = ("model.json", "model.safetensors", "vocabulary.json")
        return tuple(Path(folder, name).read_bytes() for name in names)  # type: ignore[return-value]


def write_folder(folder, description, weights, vocabulary):
    (folder / "model.json").write_bytes(description)
    (folder / "model.safetensors").write_bytes(weights)
    (folder / "vocabulary.json").write_bytes(vocabulary)


@pytest.mark.parametrize("family", ["lstm", "trigram"])
@SETTINGS
@given(edits=st.lists(EDIT, min_size=1, max_size=3), which=st.integers(0, 2))
def test_a_broken_file_of_a_model_is_told(family, edits, which):
    parts = list(model_folder(family))
    parts[which] = broken(parts[which], edits)
    with tempfile.TemporaryDirectory() as folder:
        write_folder(Path(folder), *parts)
        check(lambda: registry.load_any(folder), Path(folder) / "model.json")


VALUES = st.one_of(
    *(st.none(), st.booleans(), st.integers(-2, 9), st.floats(), st.text(max_size=5)),
    st.sampled_from([1 << 31, 1 << 62, 1 << 63, -(1 << 63), 10**30, [], {}, [[]], {"a": 1}]),
)


def places(value, path=()):
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in items:
        yield (*path, key)
        if isinstance(item, dict | list):
            yield from places(item, (*path, key))


def replaced(value, path, new):
    for key in path[:-1]:
        value = value[key]
    value[path[-1]] = new


@pytest.mark.parametrize("family", ["lstm", "trigram", "kneser-ney"])
@SETTINGS
@given(data=st.data())
def test_another_value_in_a_description_is_told(family, data):
    description, weights, vocabulary = model_folder(family)
    held = json.loads(description)
    replaced(held, data.draw(st.sampled_from(list(places(held)))), data.draw(VALUES))
    with tempfile.TemporaryDirectory() as folder:
        write_folder(Path(folder), json.dumps(held).encode(), weights, vocabulary)
        check(lambda: registry.load_any(folder), Path(folder) / "model.json")


CHANGES = [
    *(lambda t: -t, lambda t: t[1:].clone(), lambda t: t.flatten(), torch.zeros_like),
    *(lambda t: t + 7, lambda t: t.double() * torch.inf, lambda t: t.to(torch.int16)),
    *(lambda t: t.flip(0).contiguous(), lambda t: torch.cat([t, t]), lambda t: torch.zeros(0)),
]


@SETTINGS
@given(data=st.data())
def test_other_tensors_are_told_or_a_model_that_scores(data):
    description, weights, vocabulary = model_folder("lstm")
    tensors = safetensors.torch.load(weights)
    name = data.draw(st.sampled_from(sorted(tensors)))
    tensors[name] = data.draw(st.sampled_from(CHANGES))(tensors[name])
    held = json.loads(description)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        write_folder(Path(folder), b"", safetensors.torch.save(tensors), vocabulary)
        held["weights_sha256"] = provenance.content_hash(path)
        (Path(folder) / "model.json").write_text(json.dumps(held))

        def score():
            model, _, _ = registry.load_any(folder)
            with torch.inference_mode():
                logits = model(torch.tensor([[0, 3, 4, 5]]))
            assert logits.shape == (1, 4, VOCABULARY.size)
            assert not logits.isnan().any()

        check(score, path)


@functools.cache
def huggingface_folder():
    pytest.importorskip("transformers")
    from tests.unit.huggingface_models import make_gpt2

    with tempfile.TemporaryDirectory() as folder:
        make_gpt2(Path(folder))
        return {file.name: file.read_bytes() for file in Path(folder).iterdir()}


def open_folder(files):
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the library, about a foreign file
        for name, content in files.items():
            Path(folder, name).write_bytes(content)
        check(lambda: registry.open_any(folder), Path(folder) / "x")


@pytest.mark.parametrize("which", ["config.json", "model.safetensors", "tokenizer.json"])
@settings(SETTINGS, max_examples=8)
@given(edits=st.lists(EDIT, min_size=1, max_size=2))
def test_a_broken_file_of_hugging_face_is_told(which, edits):
    files = dict(huggingface_folder())
    open_folder({**files, which: broken(files[which], edits)})


@settings(SETTINGS, max_examples=25)
@given(data=st.data())
def test_another_value_in_a_configuration_of_hugging_face_is_told(data):
    files = dict(huggingface_folder())
    held = json.loads(files["config.json"])
    replaced(held, data.draw(st.sampled_from(list(places(held)))), data.draw(VALUES))
    open_folder({**files, "config.json": json.dumps(held).encode()})


@functools.cache
def smoke():
    return (Path(__file__).parents[2] / "configs" / "smoke.yaml").read_text(encoding="utf-8")


@settings(SETTINGS, max_examples=15)
@given(data=st.data())
def test_another_value_in_a_configuration_is_told(data):
    config = yaml.safe_load(smoke())
    replaced(config, data.draw(st.sampled_from(list(places(config)))), data.draw(VALUES))
    check(lambda: validate(config), Path("config.yaml"))


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
def test_what_a_longer_search_found(name, content, tmp_path):
    file, _, read = CASES[name]
    (tmp_path / file).write_bytes(content)
    check(lambda: read(tmp_path / file), tmp_path / file)


def test_every_format_of_a_corpus_is_among_them():
    formats = importlib.import_module("beyond_perplexity.corpus.formats").FORMATS
    named = {"mediawiki": "dump", "text": "text", "jsonl": "JSON lines", "parquet": "Parquet"}
    named |= {"csv": "CSV", "dataset": "Arrow"}
    named |= {"penn": "trees", "conll": "coreference", "linked-wikitext": "linked text"}
    assert set(named) == set(formats)
    assert set(named.values()) <= set(CASES)

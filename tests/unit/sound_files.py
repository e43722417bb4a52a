"""Readers by what they read, each with a sound file of its kind, for `test_fuzz_readers`."""

from __future__ import annotations

import gzip
import json
import pickle
import struct
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from beyond_perplexity.contrastive.pairs import read_pairs
from beyond_perplexity.corpus import conll, linked, markup, penn
from beyond_perplexity.corpus.extraction_options import SourceOptions
from beyond_perplexity.corpus.markup import MarkupError
from beyond_perplexity.corpus.mediawiki import PageError, PageStream, parse_page
from beyond_perplexity.corpus.readers import Problems
from beyond_perplexity.corpus.text_files import read_jsonl, read_parquet, read_text
from beyond_perplexity.importance.weight_labels import file_labels
from beyond_perplexity.ngrams.arpa import read_arpa
from beyond_perplexity.ngrams.sentence_files import UnknownRule, read_sentence_texts
from beyond_perplexity.ngrams.spelling_model import load_speller
from beyond_perplexity.perplexities.score_files import read_scores
from beyond_perplexity.semantics.evaluators.infersent import load_infersent
from beyond_perplexity.semantics.evaluators.job import EVALUATOR_FILE, read_description
from beyond_perplexity.semantics.evaluators.sentence_transformers import check_folder
from beyond_perplexity.semantics.evaluators.skipthought import read_official_gru
from beyond_perplexity.semantics.evaluators.vectors import load_table
from beyond_perplexity.semantics.scored_pairs import (
    PairColumns,
    read_labelled_texts,
    read_scored_pairs,
)
from beyond_perplexity.storage.inputs import copy_member
from beyond_perplexity.storage.shards import RECORD_KEY, read_record, read_texts
from beyond_perplexity.storage.table_files import TableFile
from beyond_perplexity.tendencies.tokens import vocabulary_words
from beyond_perplexity.tendencies.word_classes import load_stop_words
from beyond_perplexity.vocabulary import BPEVocabulary, ClosedVocabulary, load_vocabulary

VOCABULARY = ClosedVocabulary.build([["a b c d e f"] * 3])


def drain(items: Iterator[object]) -> int:
    return sum(1 for _ in items)


def parquet(**columns: object) -> bytes:
    with tempfile.NamedTemporaryFile() as file:
        table = pa.table(columns).replace_schema_metadata({RECORD_KEY: b'{"seed": 1}'})
        pq.write_table(table, file.name, compression="none")
        return Path(file.name).read_bytes()


def annotated(kind: Any, name: str) -> Callable[[Path], object]:
    def read(path: Path) -> object:
        for skip in (True, False):
            source = (
                SourceOptions(name, [str(path)], mentions="all")
                if name != "penn"
                else (SourceOptions(name, [str(path)]))
            )
            drain(kind.Reader(source, Problems(skip)).read(path))

    return read


def texts(reader: Callable[..., Any]) -> Callable[[Path], object]:
    def read(path: Path) -> object:
        for skip in (True, False):
            drain(reader(path, Problems(skip)))

    return read


def read_side_file(key: str) -> Callable[[Path], object]:
    def read(path: Path) -> object:
        source = SourceOptions("linked-wikitext", ["x"], **{key: str(path)})
        reader = linked.Reader(source, Problems(False))
        return drain(reader.aliases() if key == "aliases" else reader.triples())

    return read


def read_dump(path: Path) -> object:
    for raw in PageStream(path, Problems(False)):
        try:
            markup.parse_article(parse_page(raw).text)
        except (PageError, MarkupError):
            continue


def read_table(path: Path) -> object:
    file = TableFile(path)
    file_labels(file)
    kinds = {"log_p": pa.float64(), "instance_id": pa.int64()}
    file.require(list(kinds), "files")
    return [drain(file.batches(kinds, group)) for group in range(file.n_groups)]


def read_member(path: Path) -> object:
    with tempfile.TemporaryFile() as target:
        copy_member(path, "a.txt", target)


def zipped() -> bytes:
    with tempfile.NamedTemporaryFile() as file:
        with zipfile.ZipFile(file.name, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("a.txt", b"some words\n" * 50)
        return Path(file.name).read_bytes()


def written(save: Callable[[Path], object], suffix: str = "") -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"file{suffix}"
        save(path)
        return path.read_bytes()


def fasttext_model() -> bytes:
    head = struct.pack("<ii12id", 793712314, 12, 2, 5, 5, 1, 5, 1, 1, 2, 3, 1, 2, 0, 0.0)
    sizes = struct.pack("<iiiqq", 2, 2, 0, 9, -1)
    words = b"".join(word + b"\0" + struct.pack("<qb", 3, 0) for word in (b"a", b"b"))
    rows = np.arange(10, dtype="<f4").tobytes()
    return head + sizes + words + b"\0" + struct.pack("<qq", 5, 2) + rows


def skipthought_weights() -> bytes:
    hidden, width = 3, 2
    shapes = {
        "W": (width, 2 * hidden), "U": (hidden, 2 * hidden), "b": (2 * hidden,),
        "Wx": (width, hidden), "Ux": (hidden, hidden), "bx": (hidden,),
    }  # fmt: skip
    arrays = {f"encoder_{name}": np.ones(shape, np.float32) for name, shape in shapes.items()}
    return written(lambda path: np.savez(path, **arrays), ".npz")


def infersent_state() -> dict[str, torch.Tensor]:
    """Make weights of the layout of the official ones: vectors of 2 numbers, 3 hidden ones."""
    torch.manual_seed(0)
    layer = torch.nn.LSTM(2, 3, bidirectional=True)
    return {f"enc_lstm.{name}": part for name, part in layer.state_dict().items()}


def infersent_weights(zipped: bool) -> Callable[[], bytes]:
    def save(path: Path) -> None:
        torch.save(infersent_state(), path, _use_new_zipfile_serialization=zipped)

    return lambda: written(save)


def read_infersent(path: Path) -> object:
    with tempfile.TemporaryDirectory() as folder:
        vectors = Path(folder) / "v.txt"
        vectors.write_text("a 1 2\nb 3 4\n")
        return load_infersent({"path": path, "vectors": {"path": str(vectors)}}, {}, "cpu")


def speller_file() -> bytes:
    held = {"kind": "speller", "types": "a b", "discounts": [0.5], "concentrations": [1.0]}
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
LINKED = {
    "title": "A",
    "tokens": ["The", "cat", "sat"],
    "annotations": [{"id": "Q1", "source": "w", "span": [0, 2], "relation": ["@@NEW@@"]}],
}
ARPA = "\\data\\\nngram 1=3\nngram 2=1\n\n\\1-grams:\n-1\t<s>\t-0.5\n-1\t</s>\n-1\ta\t-0.5\n\n"
PAIR = {"sentence1": "a b", "sentence2": "c", "gold_label": "entailment"}
GOOD = {"sentence_good": "a b", "sentence_bad": "b a", "UID": "order"}
WEIGHTS: dict[str, Any] = {
    "instance_id": pa.array([0, 0, 1]),
    "sample_id": pa.array([0, 1, 0]),
    "log_p": pa.array([-1.0, -2.0, -3.0]),
    "log_q": pa.array([-1.0, -2.0, -3.0]),
}
CSV = "instance_id,sample_id,log_p,log_q,model\n0,0,-1.5,-2,m\n0,1,-1,-2,m\n1,0,-3,-1,m\n"
SAMPLES: dict[str, Any] = {
    "doc_id": pa.array([0, 1], pa.int64()),
    "text": pa.array(["a b", "c"]),
    "n_tokens": pa.array([2, 1], pa.int32()),
    "log_prob": pa.array([-1.0, None], pa.float64()),
    "log_prob_decoding": pa.array([None, None], pa.float64()),
    "finished": pa.array([True, False]),
}
SCORES = "bytes,log_likelihood,doc_id,group\n12,-4.5,0,a\n9,-3,1,b\n"

Case = tuple[str, Callable[[], bytes], Callable[[Path], object]]
CASES: dict[str, Case] = {
    "text": ("a.txt", lambda: "One two .\r\né\n\nlast".encode(), texts(read_text)),
    "packed text": ("a.gz", lambda: gzip.compress(b"one two\n" * 40, mtime=0), texts(read_text)),
    "JSON lines": ("a.jsonl", lambda: b'{"text": "a b", "title": "c"}\n' * 3, texts(read_jsonl)),
    "Parquet": ("a.parquet", lambda: parquet(text=["a b", "c"] * 9), texts(read_parquet)),
    "samples": ("a.parquet", lambda: parquet(**SAMPLES), lambda path: drain(read_texts([path]))),
    "record": ("a.parquet", lambda: parquet(text=["a"]), read_record),
    "dump": ("a.xml", DUMP.encode, read_dump),
    "trees": ("a.mrg", lambda: b"( (S (NP (DT The)\n (NN cat))) )\n" * 3, annotated(penn, "penn")),
    "coreference": ("a.conll", lambda: CONLL.encode() * 2, annotated(conll, "conll")),
    "CoNLL-U": ("a.conllu", lambda: CONLLU.encode() * 2, annotated(conll, "conll")),
    "GUM": ("a.conll", lambda: GUM.encode() * 2, annotated(conll, "conll")),
    "linked text": (
        "a.jsonl",
        lambda: json.dumps(LINKED).encode() + b"\n",
        annotated(linked, "linked-wikitext"),
    ),
    "graph": (
        "a.pkl",
        lambda: pickle.dumps({"Q1": [("P1", "Q2"), ("P2", "Q3")], "Q2": []}, 4),
        read_side_file("knowledge_graph"),
    ),
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
    "BPE": (
        "v.json",
        lambda: written(BPEVocabulary.build([["a b ab"]], 260).save),
        load_vocabulary,
    ),
    "words": ("v.json", lambda: written(VOCABULARY.save), vocabulary_words),
    "list of words": ("v.txt", lambda: b"a\nb\n", vocabulary_words),
    "stop words": ("s.txt", lambda: b"the\ndon't\n", lambda path: load_stop_words(str(path))),
    "speller": ("s.json", speller_file, lambda path: load_speller(path, VOCABULARY)),
    "ARPA": ("a.arpa", lambda: f"{ARPA}\\2-grams:\n-1\t<s> a\n\n\\end\\\n".encode(), read_arpa),
    "sentences": (
        "a.txt",
        lambda: b"a b c\n\nd <unk>\n",
        lambda path: drain(read_sentence_texts([path], UnknownRule("word"))),
    ),
    "labelled pairs": (
        "a.jsonl",
        lambda: json.dumps(PAIR).encode() * 1 + b"\n",
        lambda path: drain(read_labelled_texts(path, PairColumns())),
    ),
    "pairs as CSV": (
        "a.csv",
        lambda: b'sentence1,sentence2,score\n"a, b",c,1.5\nd,e,0\n',
        lambda path: drain(read_labelled_texts(path, PairColumns())),
    ),
    "pairs with tabs": (
        "a.tsv",
        lambda: b"a\tb\t1.5\nc\td\t2\n",
        lambda path: drain(read_labelled_texts(path, PairColumns())),
    ),
    "scored pairs": (
        "a.csv",
        lambda: b'first,second,gold\n"a, b",c,1.5\nd,e,0\n',
        lambda path: drain(read_scored_pairs(path, "gold")),
    ),
    "sentence pairs": (
        "a.jsonl",
        lambda: json.dumps(GOOD).encode() + b"\n",
        lambda path: drain(read_pairs(path)),
    ),
    "word vectors": (
        "a.txt",
        lambda: b"2 3\na 1 2 3\nb .5 0 -1e-3\n",
        lambda path: load_table({"path": str(path)}).find(["a", "b", "c"]),
    ),
    "binary vectors": (
        "a.bin",
        lambda: b"2 2\na " + struct.pack("<2f", 1, 2) + b"\nb " + struct.pack("<2f", 3, 4),
        lambda path: load_table({"path": str(path)}).find(["a", "b", "c"]),
    ),
    "fastText": (
        "a.bin",
        fasttext_model,
        lambda path: load_table({"path": str(path)}).find(["a", "b", "ccc"]),
    ),
    "SkipThought": ("u.npz", skipthought_weights, lambda path: read_official_gru(path, "uni", 2)),
    "InferSent": ("infersent1.pkl", infersent_weights(False), read_infersent),
    "zipped InferSent": ("infersent1.pkl", infersent_weights(True), read_infersent),
    "evaluator": (
        EVALUATOR_FILE,
        lambda: b'{"family": "word2vec", "title": "x"}',
        lambda path: read_description(path.parent),
    ),
    "modules": (
        "modules.json",
        lambda: b'[{"type": "sentence_transformers.models.Transformer", "path": ""}]',
        lambda path: check_folder(path.parent),
    ),
    "zip archive": ("a.zip", zipped, read_member),
}

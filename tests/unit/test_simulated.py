"""Samples of models with latent variables: who writes by what, and what they are compared with.

Needs no data: a model of hidden bits that is simulated here, small tables. Oracles: the enumerated
probability of each text (χ²), the configuration, NLTK's trees.
"""

from __future__ import annotations

import math
from collections import Counter
from itertools import product
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
import yaml
from nltk.tree import Tree
from scipy.stats import chisquare

from beyond_perplexity.corpus.latent_instances import Instance, InstanceBatch
from beyond_perplexity.corpus.sentences import sentence_documents
from beyond_perplexity.decoding.generation import (
    SIMULATED_AT_ONCE,
    simulate_texts,
    write_samples,
)
from beyond_perplexity.decoding.options import parse_decoding
from beyond_perplexity.errors import InputError
from beyond_perplexity.models.latent import Simulated
from beyond_perplexity.planning.run import Run
from beyond_perplexity.planning.validation import validate
from beyond_perplexity.schemas.corpora import DOCUMENTS, TREES
from beyond_perplexity.tendencies.document_files import DocumentFiles
from beyond_perplexity.vocabulary import ClosedVocabulary
from tests.unit.toy_latent import STOP, ToyModel

ROOT = Path(__file__).parents[2]
ANCESTRAL = parse_decoding({"kind": "ancestral"})
WORDS = ClosedVocabulary(["a", "b", "c"], 0)


def draw(first: int, count: int, most: int = 3) -> list[Simulated]:
    torch.manual_seed(2)
    model = ToyModel(2, {}).eval()
    given = {"seed": 1, "first": first, "count": count, "maximum_length": most}
    return list(simulate_texts(model, WORDS, ANCESTRAL, "p", **given))


def test_texts_are_as_probable_as_the_sum_over_their_latents():
    torch.manual_seed(2)
    model = ToyModel(2, {}).eval()
    probability = {"w": STOP}  # of the empty text
    for length in (1, 2):
        for ids in product(range(2), repeat=length):
            tokens = np.array(ids)
            batch = InstanceBatch.of([Instance(0, {"tokens": tokens, "bits": tokens})])
            every = torch.tensor(list(product((0, 1), repeat=length)))
            owner = torch.zeros(len(every), dtype=torch.int64)
            joint = model.log_joint(batch, owner, every).logsumexp(0).item()
            probability["w" + "".join(map(str, ids))] = math.exp(joint)
    probability["cut"] = 1 - sum(probability.values())
    drawn = Counter()
    for one in draw(0, 4000):
        name = "w" + "".join(word[1:] for word in one.words)
        drawn["cut" if len(one.words) > 2 else name] += 1
    observed = [drawn[name] for name in probability]
    assert chisquare(observed, [4000 * p for p in probability.values()]).pvalue > 1e-3


def test_a_document_does_not_depend_on_the_shard():
    whole = draw(0, SIMULATED_AT_ONCE + 30)
    part = draw(SIMULATED_AT_ONCE - 5, 20)
    assert [one.instance.instance_id for one in whole] == list(range(SIMULATED_AT_ONCE + 30))
    expected = whole[SIMULATED_AT_ONCE - 5 : SIMULATED_AT_ONCE + 15]
    assert [one.words for one in part] == [one.words for one in expected]


def test_a_shard_has_words_as_written_and_no_log_p(tmp_path):
    documents = draw(3, 40)
    write_samples(tmp_path / "a.parquet", documents, 40, WORDS, {})
    rows = pq.read_table(tmp_path / "a.parquet").to_pylist()
    assert [row["doc_id"] for row in rows] == list(range(3, 43))
    assert [row["text"] for row in rows] == [" ".join(one.words) for one in documents]
    assert {row["log_prob"] for row in rows} == {None}
    assert [row["finished"] for row in rows] == [not one.truncated for one in documents]
    assert {row["finished"] for row in rows} == {True, False}
    assert not DocumentFiles([tmp_path / "a.parquet"]).are_generated()
    write_samples(tmp_path / "b.parquet", documents, 40, WORDS, {"precision": "float32"})
    assert DocumentFiles([tmp_path / "b.parquet"]).are_generated()


@pytest.mark.parametrize("change", [{"temperature": 0.5}, {"unknown": "exclude"}, {"kind": "beam"}])
def test_only_the_models_own_distribution_can_be_drawn_from(change):
    options = parse_decoding({"kind": "ancestral", **change})
    assert not options.ancestral
    with pytest.raises(InputError, match="ancestral sampling alone"):
        list(
            simulate_texts(
                ToyModel(2, {}), WORDS, options, "p", seed=1, first=0, count=1, maximum_length=2
            )
        )


# ---- planning ----


def planned(models: list[str], decodings: list[str], **corpora) -> Run:
    config = yaml.safe_load((ROOT / "config.yaml").read_text(encoding="utf-8"))
    config["generation"] |= {"models": models, "decodings": decodings}
    config["corpora"] |= corpora
    validate(config)
    return Run(config)


def test_latent_models_write_by_ancestral_sampling_and_are_not_scored():
    run = planned(["lstm", "kglm", "rnng"], ["ancestral", "nucleus"])
    ancestral = ["lstm/ancestral", "lstm/nucleus", "kglm/ancestral"]
    assert run.samples.sources("wikipedia") == ancestral
    assert run.samples.sources("wikipedia-sentences") == ["rnng/ancestral"]
    assert run.models.scored() == ["lstm"]


def test_a_model_of_sentences_is_compared_with_sentences():
    run = planned(["lstm", "rnng"], ["ancestral"])
    assert run.samples.compared_corpora() == ["wikipedia", "wikipedia-sentences"]
    files = run.samples.compared_files("rnng", "ancestral")
    folder = "<results>/references/wikipedia-sentences"
    assert files["reference"] == f"{folder}/words/statistics.parquet"
    assert files["documents"] == "<results>/corpora/wikipedia-sentences/documents.parquet"
    found = run.samples.vocabulary_file("wikipedia-sentences", "words")
    assert found == "<results>/vocabularies/wikipedia/words.json"
    assert run.samples.group_column("wikipedia-sentences") == ["title"]
    assert run.samples.group_column("wikipedia") == []
    group = "tendencies/wikipedia-sentences"
    assert group in run.report.groups("tendencies")
    assert "Sentences of the test set" in run.report.labels(group)
    assert "Sentences of the test set" not in run.report.labels("tendencies/wikipedia")


def test_no_table_of_sentences_is_planned_without_files():
    from beyond_perplexity.report import TABLES

    report = planned(["lstm", "rnng"], ["ancestral"]).report
    names = report.names(TABLES, "tendencies/wikipedia-sentences")
    assert "table_2" in names
    assert "table_1" not in names
    assert "sentence" in report.caption(TABLES, "tendencies/wikipedia-sentences", "table_2")
    assert "*sentence*" not in report.caption(TABLES, "tendencies/wikipedia", "table_2")


def test_a_latent_model_needs_a_decoding_and_a_free_name():
    with pytest.raises(InputError, match="'kglm' has latent variables and writes by ancestral"):
        planned(["lstm", "kglm"], ["nucleus"])
    config = yaml.safe_load((ROOT / "config.yaml").read_text(encoding="utf-8"))
    taken = {"wikipedia-sentences": config["corpora"]["wikipedia"]}
    with pytest.raises(InputError, match="wikipedia-sentences: this name is kept"):
        planned(["rnng"], ["ancestral"], **taken)


# ---- sentences ----

SENTENCES_OF = {
    3: ["(S (NP (DT the) (NN cat)) (VP (VBZ sits)))", "(S (NN yes) (-LRB- -LRB-))"],
    5: ["(S (NN no))"],
}


def write_corpus(folder: Path) -> tuple[str, str]:
    documents = {"doc_id": [1, 3, 5], "split": ["train", "test", "valid"], "n_tokens": [1, 5, 1]}
    documents |= {"title": ["", "Cats", ""], "text": ["a", "the cat sits yes (", "no"]}
    rows = [(d, n, tree) for d, trees in SENTENCES_OF.items() for n, tree in enumerate(trees)]
    trees = dict(zip(("doc_id", "sentence", "tree"), zip(*rows, strict=True), strict=True))
    paths = str(folder / "documents.parquet"), str(folder / "trees.parquet")
    for path, columns, schema in zip(paths, (documents, trees), (DOCUMENTS, TREES), strict=True):
        table = pa.table({name: list(columns[name]) for name in schema.names}, schema)
        pq.write_table(table, path)
    return paths


@pytest.mark.parametrize("unit", ["document", "page"])
def test_sentences_become_documents_in_their_groups(tmp_path, unit):
    table = pa.concat_tables(list(sentence_documents(*write_corpus(tmp_path), unit)))
    rows = table.to_pylist()
    assert [row["doc_id"] for row in rows] == [3 * 65_536, 3 * 65_536 + 1, 5 * 65_536]
    trees = [tree for held in SENTENCES_OF.values() for tree in held]
    leaves = [Tree.fromstring(tree).leaves() for tree in trees]
    written = [" ".join(words).replace("-LRB-", "(") for words in leaves]
    assert [row["text"] for row in rows] == written
    assert [row["n_tokens"] for row in rows] == [3, 2, 1]
    assert [row["split"] for row in rows] == ["test", "test", "valid"]
    first = "Cats" if unit == "page" else "document 3"
    assert [row["title"] for row in rows] == [first, first, "document 5"]


def test_trees_of_other_documents_are_an_error(tmp_path):
    documents, trees = write_corpus(tmp_path)
    table = pq.read_table(documents)
    pq.write_table(table.slice(0, 2), documents)
    with pytest.raises(InputError, match="document 5 is not in"):
        list(sentence_documents(documents, trees, "page"))

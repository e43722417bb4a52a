"""What a run plans where documents are compared by their vectors.

Needs nothing but the package. Oracles: the configuration itself, read by hand.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest
import yaml

from beyond_perplexity.errors import InputError
from beyond_perplexity.planning import evaluators
from beyond_perplexity.planning.run import Run
from beyond_perplexity.planning.validation import validate

ROOT = Path(__file__).parents[2]
SMOKE = yaml.safe_load((ROOT / "configs" / "smoke.yaml").read_text())
JOINED = "<results>/embeddings/wikipedia"


def planned(**changes) -> Run:
    config = copy.deepcopy(SMOKE)
    config["tendencies"].update(changes)
    config["evaluators"]["minilm"] = {"family": "sentence-transformers", "package": "minilm"}
    validate(config)
    return Run(config)


def test_what_shows_measures_reads_those_with_embeddings():
    run = planned()
    assert run.embeddings.measures("wikipedia") == [f"{JOINED}/measures.parquet"]
    assert run.embeddings.sensitivity("wikipedia") == [f"{JOINED}/sensitivity.parquet"]
    assert run.report.sensitivities() == [f"{JOINED}/sensitivity.parquet"]
    assert any("/embeddings.html" in file for file in run.report.files("tendencies"))


def test_without_an_encoder_all_is_as_it_was(monkeypatch):
    monkeypatch.setattr(evaluators, "is_installed", lambda name: False)
    for run in (planned(embedding=None), planned(embedding={"encoder": "minilm"})):
        assert run.embeddings.measures("wikipedia") == run.samples.measures("wikipedia")
        assert run.embeddings.sensitivity("wikipedia") == [
            "<results>/references/wikipedia/sensitivity.parquet"
        ]
        assert not any("/embeddings.html" in file for file in run.report.files("tendencies"))
        assert run.embeddings.describe().startswith("none")
    assert "the package of 'minilm' is not installed" in run.embeddings.describe()


def test_only_as_many_shards_are_read_as_hold_the_documents():
    """60 documents of a body lie in two shards of 30."""
    for documents, shards in ((20, 1), (30, 1), (31, 2), (500, 2)):
        run = planned(embedding={"encoder": "skipthought", "documents": documents})
        found = run.embeddings.sample_files("wikipedia")
        assert len(found) == 4 * shards  # two models, two decodings
        assert found[0] == "<results>/samples/lstm/ancestral/00000.parquet"


def test_the_readings_are_those_of_every_body():
    held = planned().embeddings
    sources = ("lstm/ancestral", "lstm/beam", "trigram/ancestral", "trigram/beam")
    assert json.loads(held.readings("wikipedia")) == dict.fromkeys(sources, "words")
    assert held.documents == 20


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("elmo", r"tendencies\.embedding\.encoder: .*'elmo'"),
        ("word2vec", r"tendencies\.embedding\.encoder: 'word2vec' \(word2vec\) has no vectors of"),
    ],
)
def test_an_encoder_without_vectors_of_texts_is_refused(name, wrong):
    with pytest.raises(InputError, match=wrong):
        planned(embedding={"encoder": name})


def test_too_many_documents_are_refused():
    with pytest.raises(InputError, match=r"tendencies\.embedding\.documents: .*4000"):
        planned(embedding={"encoder": "skipthought", "documents": 4001})

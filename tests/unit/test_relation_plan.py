"""What the rules look up for relations of measures, and what the report has of meaning.

Needs no data. Oracles: lists by hand from the smoke configuration, and what must be there for it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from beyond_perplexity.figures import FIGURES
from beyond_perplexity.planning.run import Run
from beyond_perplexity.planning.validation import validate
from beyond_perplexity.report import TABLES

ROOT = Path(__file__).parents[2]


def run_of(**sections: Any) -> Run:
    text = (ROOT / "configs" / "smoke.yaml").read_text(encoding="utf-8")
    config: dict[str, Any] = yaml.safe_load(text)
    for name, changed in sections.items():
        config[name] = config.get(name, {}) | changed
    validate(config)
    return Run(config)


NOTHING_ELSE = {"semantics": {"models": []}, "contrastive": {"models": []}}


def test_all_measures_of_a_corpus_are_related() -> None:
    run = run_of()
    assert run.relations.corpora() == ["wikipedia"]
    assert set(run.relations.models("wikipedia")) == {"lstm", "trigram", "kn-3", "rnn"}
    assert set(run.relations.names("wikipedia")) == {
        *("lstm", "trigram", "kn-3", "rnn", "sentence-rnn")
    }
    inputs = run.relations.inputs("wikipedia")
    assert "<results>/perplexity/kn-3.parquet" in inputs["perplexities"]
    assert not any("sentence-rnn" in path for path in inputs["perplexities"])
    assert inputs["contrasts"] == run.contrastive.all_score_files("wikipedia")
    assert inputs["semantics"] == run.semantics.all_score_files("wikipedia")
    assert inputs["tendencies"] == run.embeddings.measures("wikipedia")


def test_one_model_or_perplexity_alone_relates_to_nothing() -> None:
    one = {"models": ["lstm"]}
    assert run_of(generation=one, **NOTHING_ELSE).relations.corpora() == []
    nothing = run_of(generation={"models": []}, **NOTHING_ELSE)
    assert nothing.relations.files() == []
    assert nothing.report.groups("relations") == nothing.report.groups("semantics") == []
    texts = run_of(**NOTHING_ELSE)
    assert texts.relations.corpora() == ["wikipedia"]
    assert texts.relations.inputs("wikipedia")["semantics"] == []


def test_the_flags_say_what_is_measured() -> None:
    given = {"levels": [0.5, 0.1, 0.2, 1.0], "base_level": 0.1}
    held = run_of(contrastive=given, semantics={"splits": ["valid"]}).relations
    assert (held.split, held.level, held.confidence) == ("valid", 0.5, 0.95)
    assert run_of().relations.split == "test"


def test_what_the_report_has() -> None:
    report = run_of().report
    assert report.groups("semantics") == ["semantics/wikipedia"]
    assert report.names(TABLES, "semantics/wikipedia") == [
        *("findings", "table_1", "measures", "values", "differences", "probes")
    ]
    assert report.names(FIGURES, "semantics/wikipedia") == ["figure_1", "figure_2", "figure_3"]
    assert report.names(TABLES, "relations/wikipedia") == ["findings", "measures", "orders"]
    assert report.names(FIGURES, "relations/wikipedia") == ["figure_1"]
    alone = run_of(semantics={"models": ["lstm"]}).report
    assert alone.names(TABLES, "semantics/wikipedia") == [
        "findings",
        "table_1",
        "measures",
        "values",
        "probes",
    ]
    assert alone.names(FIGURES, "semantics/wikipedia") == ["figure_3"]


def test_human_scores_have_a_table_where_there_are_any() -> None:
    given = {"human_scores": {"sts": {"path": "pairs.tsv", "gold": "score"}}}
    report = run_of(semantics=given).report
    assert "human" in report.names(TABLES, "semantics/wikipedia")
    files = report.inputs(TABLES, "semantics/wikipedia", "human")
    assert all("/human/" in path for path in files["human_correlations"])


def test_evaluators_are_called_what_they_are() -> None:
    labels = json.loads(run_of().report.labels("semantics/wikipedia"))
    assert "(next sentence)" in labels["names"]["evaluator/infersent"]
    assert labels["families"]["evaluator/word2vec"] == "word2vec"
    assert labels["families"]["lstm"] == "lstm"
    across = json.loads(run_of().report.labels("relations/wikipedia"))
    assert across["names"]["evaluator/infersent"] == labels["names"]["evaluator/infersent"]
    assert across["decodings"] == ["ancestral", "beam"]

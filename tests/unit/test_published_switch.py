"""Published values stand beside ours only where the configuration says that the data are theirs.

Needs no data. Oracles: the configuration, and the columns of the tables made with and without.
"""

from __future__ import annotations

import json
import re

import pandas as pd
import pytest
import yaml

from beyond_perplexity.errors import InputError
from beyond_perplexity.figures.exhibit import with_titles, without_titles
from beyond_perplexity.figures.labels import Labels
from beyond_perplexity.planning.run import Run
from beyond_perplexity.planning.validation import validate
from beyond_perplexity.report import TABLES, tabulate
from beyond_perplexity.report.latex import to_latex
from beyond_perplexity.storage.fingerprint import ROOT
from tests.unit.synthetic_tables import make_measures


def run_with(**published: list[str]) -> Run:
    config = yaml.safe_load((ROOT / "configs" / "smoke.yaml").read_text())
    config["report"] = {"published": published}
    validate(config)
    return Run(config)


def test_the_key_switches_the_tables_of_its_paper_and_corpus() -> None:
    plain, switched = run_with().report, run_with(tendencies=["wikipedia"]).report
    for report, expected in ((plain, False), (switched, True)):
        labels = json.loads(report.labels("tendencies/wikipedia"))
        assert labels["published"] is expected
        assert labels["subject"] == "wikipedia"
        caption = report.caption(TABLES, "tendencies/wikipedia", "table_3")
        assert ("Published values" in caption) is expected
    assert not json.loads(switched.labels("contrastive/wikipedia"))["published"]


def test_an_unknown_corpus_is_refused() -> None:
    with pytest.raises(InputError, match=r"report\.published\.tendencies: no corpus is named 'x'"):
        run_with(tendencies=["x"])


@pytest.mark.parametrize("name", ["table_2", "table_3", "table_5", "table_6"])
def test_what_is_published_goes_and_nothing_else(name: str) -> None:
    measures = make_measures(["lstm/beam", "cnn/ancestral"])
    both, ours = (
        tabulate(f"tendencies/{name}", {"measures": measures}, Labels(published=published))
        for published in (True, False)
    )
    kept = [place for place, one in enumerate(both.columns) if not one.published]
    assert len(kept) < len(both.columns)
    assert [list(row) for row in ours.rows] == [[row[place] for place in kept] for row in both.rows]
    shared = [column for column in both.tidy if not column.startswith("published")]
    pd.testing.assert_frame_equal(ours.tidy, both.tidy[shared])
    assert "Meister" in both.note
    assert "Meister" not in ours.note
    assert all(re.fullmatch("[a-z][a-z0-9_]*", column) for column in both.tidy)


def test_tables_of_two_corpora_have_two_labels_in_latex() -> None:
    measures = make_measures(["lstm/beam"])
    texts = [
        to_latex(tabulate("tendencies/table_2", {"measures": measures}, Labels(subject=subject)))
        for subject in ("", "wikipedia", "my_own-texts")
    ]
    labels = [re.findall(r"\\label{(.*)}", text) for text in texts]
    assert labels == [["tab:table_2"], ["tab:table_2-wikipedia"], ["tab:table_2-my_own-texts"]]


def test_titles_are_shown_and_names_are_written() -> None:
    """One title may stand for proposals of several models: a name is found again by both."""
    frame = pd.DataFrame(
        {
            "model": ["rnng", "kglm", "kglm"],
            "proposal": ["rnng-optimal", "kglm-optimal", "other"],
            "value": [1.0, 2.0, 3.0],
        }
    )
    given = {"estimates": frame, "latents": [{"model": "rnng"}], "beside": None}
    titles = {"rnng": "RNNG", "rnng-optimal": "Optimal", "kglm-optimal": "Optimal"}
    labels = Labels(families={"rnng": "rnng"}, data={"rnng": "trees"}, titles=titles)
    shown, named = with_titles(given, labels)
    assert shown["estimates"]["model"].tolist() == ["RNNG", "kglm", "kglm"]
    assert shown["estimates"]["proposal"].tolist() == ["Optimal", "Optimal", "other"]
    assert shown["latents"] == [{"model": "RNNG"}]
    assert shown["beside"] is None
    assert (named.families, named.data) == ({"RNNG": "rnng"}, {"RNNG": "trees"})
    pd.testing.assert_frame_equal(without_titles(shown["estimates"], given, labels), frame)
    assert with_titles(given, Labels()) == (given, Labels())


def test_the_titles_of_a_run_are_told_apart() -> None:
    config = yaml.safe_load((ROOT / "config.yaml").read_text())
    config["proposals"]["rnng-again"] = dict(config["proposals"]["rnng-crf"])
    validate(config)
    titles = Run(config).importance.titles()
    assert (titles["rnng"], titles["kglm"]) == ("RNNG", "KGLM")
    assert titles["rnng-crf"] == "Span CRF (crf)"
    assert titles["rnng-again"] == "Span CRF (again)"
    assert titles["entitynlm-peeking"] == "Entity tagger (peeking)"
    assert titles["kglm-optimal"] == titles["entitynlm-optimal"] == "Optimal proposal"

"""The first page of the report: five lines, the main table, and that no name is markup.

Needs no data. Oracles: synthetic tables of known numbers, and docutils, which must find nothing to
complain about.
"""

from __future__ import annotations

import base64
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import snakemake
from docutils import nodes
from docutils.core import publish_doctree, publish_parts

from beyond_perplexity.planning.run import Run
from beyond_perplexity.report import TABLES
from beyond_perplexity.report.answers import answers
from beyond_perplexity.report.findings import Compared, by_corpus, five_lines
from beyond_perplexity.report.overview import main_table, render_overview
from tests.unit.synthetic_tables import (
    WITHHELD_NOTE,
    make_measures,
    make_sensitivity,
    set_distance,
    withhold,
)
from tests.unit.test_exhibits import planned
from tests.unit.test_tables import scored

CORPORA = {
    "wikipedia": {
        "splits": {"test": {"documents": 1234, "tokens": 56789}},
        "split": {"unit": "document"},
    }
}


def published(text: str) -> nodes.document:
    return publish_doctree(text, settings_overrides={"report_level": 1, "halt_level": 2})


def plain(lines: list[str]) -> list[str]:
    return [published(line).astext() for line in lines]


@pytest.fixture
def measures() -> pd.DataFrame:
    """Give two sources of which one is as human text is, and the other has one large distance."""
    table = make_measures(["lstm/beam", "trigram/beam"])
    floored = table["floor"].notna()
    table.loc[floored, "value"] = table["floor"]
    table.loc[floored, "excess"] = 0.0
    table.loc[floored, ["p_value", "p_adjusted"]] = [0.01, 0.4]
    far = (table["source"] == "trigram/beam") & (table["measure"] == "ks")
    far &= table["tendency"] == "stop_words"
    table.loc[far, ["p_value", "p_adjusted"]] = [0.0005, 0.004]
    return set_distance(table, "stop_words", "ks", 0.35, "trigram/beam")


def lines(measures: pd.DataFrame, unit: str = "document", sensitivity=None) -> list[str]:
    return plain(five_lines(Compared("wikipedia", unit, measures, sensitivity)))


def test_the_largest_excess_is_by_the_width_of_the_band(measures) -> None:
    """Of types per length .60 is farther in absolute terms, but .60 is in the band of .4 to .6."""
    measures = set_distance(measures, "type_token_unigrams", "ks_empirical", 0.6)
    said = lines(measures)[0]
    assert "stop words (KS) of Trigram, beam, 0.350**" in said
    assert "is 0.050 from itself (95% of the draws: 0.040 to 0.060)" in said
    assert (
        "Of 14 distances 1 lie above the band of human text against itself, 1 have a star." in said
    )
    near = measures.assign(excess=0.0)
    assert "no distance lies above the band" in lines(near)[0]
    assert "no distance has a floor" in lines(measures.assign(floor=np.nan))[0]


def test_withheld_verdicts_are_counted(measures) -> None:
    said = lines(withhold(measures, "length", "ks", WITHHELD_NOTE))[0]
    assert "1 have a star, 2 have no verdict." in said


def test_the_floor_names_every_tendency(measures) -> None:
    measures.loc[measures["source"].eq("lstm/beam") & measures["measure"].eq("tvd"), "floor"] = 0.3
    said = lines(measures)[1]
    for part in ("rank-frequency 0.020", "unigrams 0.220–0.300", "length 0.050", "symbols 0.050"):
        assert part in said


def test_what_is_missed_is_of_the_size_of_this_run(measures) -> None:
    table = make_sensitivity()
    at_1000 = table[(table["n"] == 1000) & (table["tendency"] == "length")]
    shift = at_1000[at_1000["measure"] == "ks"]["shift"].iloc[0]
    small = measures.assign(n_reference=4000, n_samples=2000)
    said = lines(small, sensitivity=table)[2]
    assert "with 1,000 documents in each text (compared were 2,000)" in said
    assert "p < 0.005 in 80% of the cases" in said
    assert f"length {shift:.3f} tokens" in said
    assert "with 10,000 documents" in lines(measures, sensitivity=table)[2]
    tiny = measures.assign(n_reference=40)
    assert (
        "with 1,000 documents in each text (compared were 40, which find less)"
        in lines(tiny, sensitivity=table)[2]
    )
    assert "was not measured" in lines(measures)[2]
    none = table.assign(shift=np.nan)
    assert "length none" in lines(measures, sensitivity=none)[2]


def test_the_worst_of_the_texts_is_named(measures) -> None:
    copied = measures["measure"] == "training_8grams"
    measures.loc[copied & (measures["source"] == "trigram/beam"), "value"] = 0.9
    said = lines(measures)[3]
    assert "copied 8-grams 90.0% (Trigram, beam, human text 1.0%)" in said
    assert "unfinished 20.0% (LSTM, beam)" in said
    bare = lines(measures[measures["tendency"] != "text"])[3]
    assert "nothing was counted" in bare


@pytest.mark.parametrize(
    ("unit", "part"),
    [
        ("document", "perplexity is in-topic"),
        ("page", "new pages"),
        ("given", "splits of its own"),
        ("", "not known"),
    ],
)
def test_the_law_follows_from_the_unit_of_the_split(measures, unit: str, part: str) -> None:
    found = lines(measures, unit)
    assert len(found) == 5
    assert part in found[4]


def test_the_main_table_has_a_row_for_each_body_of_text(measures) -> None:
    measures = withhold(measures, "length", "ks", WITHHELD_NOTE)
    header, human, first, second = main_table(measures)
    by_name = dict(zip(header, second, strict=True))
    assert by_name["stars"] == "1 of 7"  # those that were not embedded have no eighth
    assert by_name["largest excess"] == "+0.30 stop words"
    assert by_name["copied 8-grams"] == "31.0%"
    assert published(human[0]).astext() == "Human text (words)"
    assert first[header.index("stars")] == "0 of 7"  # one has a raw p of 0.01
    assert len(header) == 7  # for half of a screen of 1,400 pixels
    bare = main_table(measures[measures["tendency"] == "length"].assign(excess=np.nan))
    assert bare[2][1:3] == ["0 of 1", "—"]


def test_the_answer_stands_first(measures) -> None:
    """Bits per byte are those that were given; of two bodies one has a star and an excess."""
    bits = {
        name: scored(value, interval={"bits": {"byte": [value - 0.1, value + 0.1]}})
        for name, value in (("lstm", 1.9), ("gru", 1.4), ("cnn", 2.5))
    }
    page = published(render([Compared("wikipedia", "document", measures)], perplexities=bits))
    paragraphs = [one.astext().replace("\n", " ") for one in page.findall(nodes.paragraph)]
    assert paragraphs[0] == (
        "Generated text: of 2 bodies LSTM, beam is nearest to human text: 0 of 7 distances are "
        "significantly above 0, the largest excess over human text itself is 0.00 rank-frequency. "
        "Trigram, beam is farthest: 1 of 7, +0.30 stop words."
    )
    assert paragraphs[1] == (
        "Human text is likeliest under GRU, 1.40 [1.30, 1.50] bits per byte; least under CNN, "
        "2.50 [2.40, 2.60]."
    )
    assert answers([], {}) == []
    assert answers([], {**bits, "other": scored(1.0, size=99)}) == []  # of another text
    unknown = measures.assign(excess=np.nan)
    assert answers([Compared("wikipedia", "document", unknown)], {}) == []


def test_the_beginning_can_be_scrolled_to() -> None:
    """Oracle: Snakemake's own page, which centres its content and so cuts off a long one."""
    page = Path(snakemake.__file__).parent / "report/html_reporter/template/components/content.js"
    centred = "items-center justify-center h-screen overflow-auto"
    assert centred in page.read_text(encoding="utf-8")
    body = publish_parts(render_overview({}, {}, [], (), None, []), writer="html")["body"]
    style = body.partition("<style>")[2].partition("</style>")[0]
    for rule in ("align-items: flex-start; min-width: 0", "justify-content: flex-start"):
        assert f".items-center.justify-center.overflow-auto {{{rule}}}" in style
    assert "#rulegraph {display: none}" in style


def test_the_figure_stands_before_the_table(measures, tmp_path) -> None:
    figure = tmp_path / "main.svg"
    figure.write_text("<svg/>")
    page = published(render([Compared("wikipedia", "document", measures)], figures=[figure]))
    kinds = [type(node) for node in page.findall() if isinstance(node, nodes.image | nodes.table)]
    assert kinds == [nodes.image, nodes.table]


def render(compared: list[Compared], kinds: set[str] = frozenset({"trained"}), **more):  # type: ignore[assignment]
    given = {"perplexities": {}, "estimates": None, "figures": []} | more
    return render_overview(
        CORPORA, given["perplexities"], compared, kinds, given["estimates"], given["figures"]
    )


@pytest.mark.parametrize(
    ("kinds", "known"),
    [
        ({"trained", "counted", "latent"}, True),
        ({"trained", "brought"}, False),
        ({"trained", "external"}, False),
    ],
)
def test_unseen_is_said_only_of_models_that_were_trained_here(measures, kinds, known) -> None:
    compared = [Compared("wikipedia", "document", measures)]
    said = published(render(compared, kinds)).astext().replace("\n", " ")
    assert ("a test split that no model has seen." in said) == known
    assert ("what others have seen is not known." in said) != known


def test_the_plan_knows_the_kinds_of_the_compared_models() -> None:
    config = planned("configs/smoke.yaml").config
    told = Run(config).report.compared()
    assert '"kinds":["counted","trained"]' in told.replace(" ", "")
    config["external_samples"] = {"mine": {"corpus": "wikipedia", "path": "x", "format": "text"}}
    assert '"external"' in Run(config).report.compared()
    assert Run(config).report.sensitivities() == [
        *Run(config).report.inputs(TABLES, "tendencies/wikipedia", "sensitivity")["sensitivity"]
    ]


def test_corpora_are_told_apart(measures) -> None:
    corpora = {"a": ["lstm/beam"], "b": ["trigram/beam"], "c": ["gru/beam"]}
    extractions = {"a": {"split": {"unit": "page"}}, "b": {}, "c": {}}
    first, second = by_corpus(corpora, extractions, measures, [make_sensitivity()])
    assert (first.name, first.unit, set(first.measures["source"])) == ("a", "page", {"lstm/beam"})
    assert first.sensitivity is not None
    assert (second.name, second.unit, second.sensitivity) == ("b", "", None)
    assert by_corpus(corpora, extractions, None, []) == []
    text = published(render([first, second])).astext()
    assert text.count("What differs most:") == 2
    assert "Corpus b:" in text


def test_the_first_page_is_sound(measures, tmp_path) -> None:
    figure = tmp_path / "main.svg"
    drawing = "<svg xmlns='http://www.w3.org/2000/svg'>" + "<g/>" * 5000 + "</svg>"
    figure.write_text(drawing)
    perplexity = {
        "perplexity": {"token": 93.5, "word": None},
        "bits": {"character": 1.5, "byte": 1.25},
        "unknown": 0,
        "documents": 60,
        "n": {"byte": 9000},
        "unknown_share": 0.01,
    }
    common = {"model": "rnng", "proposal": "crf", "measure": "perplexity", "n_samples": 100}
    common["bound"] = "stochastic"
    drawn = {**common, "method": "importance_sampling", "ess_median": 7.5, "beam_size": None}
    estimates = pd.DataFrame(
        [
            {**drawn, "aggregation": "instance", "pairing": None, "temperature": 1, "value": 181.7},
            {**drawn, "aggregation": "instance", "pairing": None, "temperature": 2, "value": 180.6},
            {**drawn, "aggregation": "corpus", "pairing": "sample_id", "value": 199.8},
            {**common, "method": "smc", "aggregation": "instance", "value": 188.3},
            {**common, "method": "beam", "aggregation": "instance", "value": 235.8}
            | {"bound": "strict"},
        ]
    )
    compared = [Compared("wikipedia", "document", measures, make_sensitivity())]
    text = render(
        compared, perplexities={"lstm": perplexity}, estimates=estimates, figures=[figure]
    )
    tree = published(text)
    (image,) = tree.findall(nodes.image)
    assert base64.b64decode(image["uri"].partition(",")[2]).decode() == drawing
    (bullets,) = tree.findall(nodes.bullet_list)
    assert len(bullets) == 5
    shown = tree.astext()
    for expected in ("2 bodies", "1,234 test documents", "93.50", "∞", "1.00%", "0.350**"):
        assert expected in shown
    for expected in ("188.3", "Sequential Monte Carlo, crf"):  # no temperature was chosen for it
        assert expected in shown
    for expected in ("180.6", "crf, τ = 2", "7.5 of 100", "199.8", "235.8"):
        assert expected in shown
    alone = published(render([], estimates=estimates)).astext()
    assert "180.6" in alone
    assert "generated text" not in alone


def test_names_are_no_markup(measures) -> None:
    nasty = "*x* `y`_ |z| <b> \\ :role:`a` __ [1]_\x00"
    table = measures.replace({"source": {"trigram/beam": f"external/{nasty}"}})
    compared = [Compared("wikipedia", "document", table)]
    tree = published(render(compared, {"external"}))
    shown = nasty.replace("\x00", "\N{REPLACEMENT CHARACTER}")
    shown = " ".join(shown.replace("_", " ").split())
    assert shown in tree.astext()
    assert not list(tree.findall(nodes.system_message))
    assert not list(tree.findall(nodes.problematic))

"""The first page of the report: its sentences and tables, and that no name is markup.

Oracles: synthetic tables of known numbers, and docutils without a complaint.
"""

import base64
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import snakemake
from docutils import nodes
from docutils.core import publish_doctree, publish_parts
from scipy.stats import t

from beyond_perplexity.planning.run import Run
from beyond_perplexity.report import TABLES
from beyond_perplexity.report.overview import answers, render_overview
from beyond_perplexity.report.tendency_findings import (
    Compared,
    by_corpus,
    main_table,
    nearest_table,
    power_line,
    shares_table,
    tendency_table,
)
from tests.unit import planned, synthetic_tables, test_tables

HALVES = {
    source: np.random.default_rng(seed).normal(0, 0.001, 60).tolist()
    for seed, source in enumerate(("lstm/beam", "trigram/beam"))
}
TEST = {"documents": 1234, "tokens": 56789}
CORPORA = {"wikipedia": {"splits": {"test": TEST}, "split": {"unit": "document"}}}


def published(text: str) -> nodes.document:
    return publish_doctree(text, settings_overrides={"report_level": 1, "halt_level": 2})


@pytest.fixture
def measures() -> pd.DataFrame:
    """Give two sources of which one is as human text is, and the other has one large distance."""
    table = synthetic_tables.make_measures(["lstm/beam", "trigram/beam"])
    with_baseline = table["baseline"].notna()
    table.loc[with_baseline, "value"] = table["baseline"]
    table.loc[with_baseline, "excess"] = 0.0
    table.loc[with_baseline, ["p_value", "p_adjusted"]] = [0.01, 0.4]
    far = (table["source"] == "trigram/beam") & (table["measure"] == "ks")
    far &= table["tendency"] == "stop_words"
    table.loc[far, ["p_value", "p_adjusted"]] = [0.0005, 0.004]
    table["halves"] = table["source"].map(HALVES)
    return synthetic_tables.set_distance(table, "stop_words", "ks", 0.35, "trigram/beam")


def told(measures: pd.DataFrame, row: str, sensitivity=None) -> dict[str, str]:
    """Return the cells of the table of tendencies whose row begins so, by their headings."""
    header, *rows = tendency_table(Compared("wikipedia", "document", measures, sensitivity))
    (found,) = (one for one in rows if one[0].startswith(row))
    return {head: published(cell).astext() for head, cell in zip(header, found, strict=True)}


def test_the_largest_excess_is_by_the_width_of_the_band(measures) -> None:
    """Of types per length .60 is farther in absolute terms, but .60 is in the band of .4 to .6."""
    measures = synthetic_tables.set_distance(measures, "type_token_unigrams", "ks_empirical", 0.6)
    found = told(measures, "all")
    assert found == told(measures, "all; most in stop words")
    assert found["farthest sample set"] == "Trigram, beam"
    assert found["its distance"] == told(measures, "stop words (KS)")["its distance"] == "0.350**"
    assert found["human text of its size (95% of its random splits)"] == "0.050 (0.040 to 0.060)"
    assert (found["above that band"], found["with a star"]) == ("1 of 30", "1 of 30")
    assert told(measures.assign(excess=0.0), "all")["above that band"] == "0 of 30"
    assert told(measures.assign(baseline=np.nan), "all")["its distance"] == "—"
    held = synthetic_tables.withhold(measures, "length", "ks", synthetic_tables.WITHHELD_NOTE)
    found = told(held, "all")
    assert (found["with a star"], found["without verdict"]) == ("1 of 30", "2 of 30")
    distant = measures["source"].eq("lstm/beam") & measures["measure"].eq("tvd")
    measures.loc[distant, "baseline"] = 0.3
    baselines = {"rank-frequency": "0.020", "unigrams": "0.220–0.300", "length": "0.050"}
    for tendency, baseline in {**baselines, "symbols": "0.050"}.items():
        assert told(measures, tendency)["human text from itself"] == baseline


def test_what_is_missed_is_of_the_size_of_this_run(measures) -> None:
    def line(rows: pd.DataFrame, sensitivity: pd.DataFrame | None) -> str:
        return power_line(Compared("wikipedia", "document", rows, sensitivity))

    table = synthetic_tables.make_sensitivity()
    at_1000 = table[(table["n"] == 1000) & (table["tendency"] == "length")]
    shift = at_1000[at_1000["measure"] == "ks"]["minimum_detectable_effect"].iloc[0]
    small = measures.assign(n_reference=4000, n_samples=2000)
    assert "with 1,000 documents in each text (compared were 2,000)" in line(small, table)
    assert "p < 0.005 in 80% of the cases" in line(small, table)
    least = told(small, "length", table)["minimum detectable effect"]
    assert least.startswith(f"{shift:.3f} tokens")
    assert least.endswith(", power 0.77")
    assert "with 10,000 documents" in line(measures, table)
    tiny = measures.assign(n_reference=40)
    few = "with 1,000 documents in each text (compared were 40, which find less)"
    assert few in line(tiny, table)
    assert "was not measured" in line(measures, None)
    none = table.assign(minimum_detectable_effect=np.nan)
    assert told(measures, "length", none)["minimum detectable effect"] == "none"


def test_the_main_table_has_a_row_a_body_and_the_worst_text_is_named(measures) -> None:
    measures = synthetic_tables.withhold(measures, "length", "ks", synthetic_tables.WITHHELD_NOTE)
    header, human, first, second = main_table(measures)
    by_name = dict(zip(header, second, strict=True))
    assert by_name["stars"] == "1 of 15"  # those that were not embedded have no eighth
    assert (by_name["largest excess"], by_name["copied 8-grams"]) == ("+0.30 stop words", "31.0%")
    assert published(human[0]).astext() == "Human text (words)"
    assert first[header.index("stars")] == "0 of 15"  # one has a raw p of 0.01
    assert len(header) == 7  # for half of a screen of 1,400 pixels
    bare = main_table(measures[measures["tendency"] == "length"].assign(excess=np.nan))
    assert bare[2][1:3] == ["0 of 1", "—"]
    copied = measures["measure"] == "training_8grams"
    measures.loc[copied & (measures["source"] == "trigram/beam"), "value"] = 0.9
    rows = {row[0]: row[1:] for row in shares_table(measures)}
    assert rows["copied 8-grams"] == ["90.0%", "Trigram\\, beam", "1.0%"]
    assert rows["unfinished"] == ["20.0%", "LSTM\\, beam", "—"]
    bare = measures[measures["tendency"] != "text"]
    assert len(shares_table(bare)) == 1
    assert "Nothing was counted" in render([Compared("wikipedia", "document", bare)])
    parts = {"document": "perplexity is in-topic", "page": "new pages"}
    for unit, part in {**parts, "given": "splits of its own", "": "not known"}.items():
        assert part in render([Compared("wikipedia", unit, measures)])


def test_the_answer_stands_first(measures) -> None:
    """Bits per byte are those that were given; of two sample sets one has a star and an excess."""
    bits = {
        name: test_tables.scored(value, interval={"bits": {"byte": [value - 0.1, value + 0.1]}})
        for name, value in (("lstm", 1.9), ("gru", 1.4), ("cnn", 2.5))
    }
    page = published(render([Compared("wikipedia", "document", measures)], perplexities=bits))
    paragraphs = [one.astext().replace("\n", " ") for one in page.findall(nodes.paragraph)]
    assert paragraphs[0] == (
        "Generated text: 2 sample sets were compared with one another in 15 distances to human "
        "text (paired differences of the excess over the human baseline, adjusted for all). Behind "
        "another one in 0: LSTM, beam; in 1: Trigram, beam."
    )
    cells = {row[0]: row[1:] for row in nearest_table(measures)}
    assert cells["stop words"][:2] == ["*LSTM\\, beam*", "*Trigram\\, beam*"]
    difference = np.std(np.subtract(*HALVES.values()), ddof=1) * t.ppf(1 - 0.025 / 7, 59)
    limits = f"[{0.3 - difference:.3f}, {0.3 + difference:.3f}]"
    assert cells["stop words"][2] == f"+0.300 {limits}"
    assert cells["length"][0] == "*LSTM\\, beam*, *Trigram\\, beam*"  # no test puts one behind
    others = measures.assign(
        n_samples=measures["source"].map({"lstm/beam": 400, "trigram/beam": 99})
    )
    assert answers([Compared("wikipedia", "document", others)], {}) == []  # of other sizes
    assert paragraphs[1] == (
        "Human text is most probable in bits per byte under GRU, 1.40 [1.30, 1.50]."
    )
    pairs = [("lstm", "gru", 0.2), ("gru", "cnn", 0.01), ("lstm", "cnn", 0.001)]
    pairs += [("rnn", "gru", np.nan), ("gru", None, np.nan)]
    columns = ["first", "second", "p_adjusted"]
    tested = pd.DataFrame(pairs, columns=columns).assign(
        scored_text="cleaned", value=0.1, low=0.0, high=0.2
    )
    assert answers([], bits, tested)[0].endswith(
        "under *GRU*, 1.40 [1.30, 1.50]; least under *CNN*, 2.50 [2.40, 2.60]. No paired test puts "
        "behind it: *LSTM*, 1.90 [1.80, 2.00]."
    )
    assert answers([], {}) == []
    assert answers([], {**bits, "other": test_tables.scored(1.0, size=99)}) == []  # of another text
    unknown = measures.assign(excess=np.nan)
    assert answers([Compared("wikipedia", "document", unknown)], {}) == []


def test_the_beginning_can_be_scrolled_to_and_the_figure_is_before_the_table(measures, tmp_path):
    """Oracle: Snakemake's own page, which centres its content and so cuts off a long one."""
    page = Path(snakemake.__file__).parent / "report/html_reporter/template/components/content.js"
    centred = "items-center justify-center h-screen overflow-auto"
    assert centred in page.read_text(encoding="utf-8")
    body = publish_parts(render_overview({}, {}, [], (), None, []), writer="html")["body"]
    style = body.partition("<style>")[2].partition("</style>")[0]
    for rule in ("align-items: flex-start; min-width: 0", "justify-content: flex-start"):
        assert f".items-center.justify-center.overflow-auto {{{rule}}}" in style
    assert "#rulegraph {display: none}" in style
    figure = tmp_path / "main.svg"
    figure.write_text("<svg/>")
    page = published(render([Compared("wikipedia", "document", measures)], figures=[figure]))
    kinds = [type(node) for node in page.findall() if isinstance(node, nodes.image | nodes.table)]
    assert kinds == [nodes.image, *[nodes.table] * 4]


def render(compared: list[Compared], kinds: set[str] = frozenset({"trained"}), **more):  # type: ignore[assignment]
    given = {"perplexities": {}, "estimates": None, "figures": []} | more
    rest = given["estimates"], given["figures"]
    return render_overview(CORPORA, given["perplexities"], compared, kinds, *rest)


def test_corpora_are_distinguished_and_unseen_is_said_of_models_trained_here_alone(measures):
    for more, known in (({"counted", "latent"}, True), ({"external"}, False)):
        compared = [Compared("wikipedia", "document", measures)]
        said = published(render(compared, {"trained", *more})).astext().replace("\n", " ")
        assert ("a test split that no model has seen." in said) == known
        assert ("what others have seen is not known." in said) != known
    corpora = {"a": ["lstm/beam"], "b": ["trigram/beam"], "c": ["gru/beam"]}
    extractions = {"a": {"split": {"unit": "page"}}, "b": {}, "c": {}}
    first, second = by_corpus(corpora, extractions, measures, [synthetic_tables.make_sensitivity()])
    assert (first.name, first.unit, set(first.measures["source"])) == ("a", "page", {"lstm/beam"})
    assert first.sensitivity is not None
    assert (second.name, second.unit, second.sensitivity) == ("b", "", None)
    assert by_corpus(corpora, extractions, None, []) == []
    both = [one._replace(measures=measures) for one in (first, second)]
    text = published(render(both)).astext()
    assert text.count("minimum detectable effect") == 2
    assert "Corpus b:" in text


def test_the_plan_knows_the_kinds_of_the_compared_models() -> None:
    config = planned.run_of("configs/smoke.yaml").config
    assert '"kinds":["counted","trained"]' in Run(config).report.compared().replace(" ", "")
    mine = {"corpus": "wikipedia", "path": "x", "format": "text", "vocabulary": None}
    config["external_samples"] = {"mine": mine}
    assert '"external"' in Run(config).report.compared()
    inputs = Run(config).report.inputs(TABLES, "tendencies/wikipedia", "sensitivity")
    assert Run(config).report.sensitivities() == [*inputs["sensitivity"]]


def test_the_first_page_is_sound(measures, tmp_path) -> None:
    figure = tmp_path / "main.svg"
    drawing = "<svg xmlns='http://www.w3.org/2000/svg'>" + "<g/>" * 5000 + "</svg>"
    figure.write_text(drawing)
    perplexity = {**test_tables.scored(1.25), "perplexity": {"token": 93.5, "word": None}}
    perplexity["unknown_share"] = 0.01
    common = {"model": "rnng", "proposal": "crf", "measure": "perplexity", "n_samples": 100}
    common["bound"] = "stochastic"
    common["aggregation"] = "instance"
    drawn = {**common, "method": "importance_sampling", "ess_median": 7.5, "beam_size": None}
    estimates = pd.DataFrame(
        [
            {**drawn, "pairing": None, "temperature": 1, "value": 181.7},
            {**drawn, "pairing": None, "temperature": 2, "value": 180.6},
            {**drawn, "aggregation": "corpus", "pairing": "sample_id", "value": 199.8},
            {**common, "method": "smc", "value": 188.3},
            {**common, "method": "beam", "value": 235.8, "bound": "strict"},
        ]
    )
    compared = [Compared("wikipedia", "document", measures, synthetic_tables.make_sensitivity())]
    given = {"estimates": estimates, "figures": [figure]}
    text = render(compared, perplexities={"lstm": perplexity}, **given)
    tree = published(text)
    (image,) = tree.findall(nodes.image)
    assert base64.b64decode(image["uri"].partition(",")[2]).decode() == drawing
    shown = tree.astext()
    for expected in (
        *("2 sample sets", "1,234 test documents", "93.50", "∞", "1.00%", "0.350**"),
        *("188.3", "Sequential Monte Carlo, crf"),  # no temperature was chosen for it
        *("180.6", "crf, τ = 2", "7.5 of 100", "199.8", "235.8"),
    ):
        assert expected in shown
    alone = published(render([], estimates=estimates)).astext()
    assert "180.6" in alone
    assert "generated text" not in alone


def test_names_are_no_markup(measures) -> None:
    nasty = "*x* `y`_ |z| <b> \\ :role:`a` __ [1]_\x00"
    table = measures.replace({"source": {"trigram/beam": f"external/{nasty}"}})
    tree = published(render([Compared("wikipedia", "document", table)], {"external"}))
    shown = nasty.replace("\x00", "\N{REPLACEMENT CHARACTER}")
    shown = " ".join(shown.replace("_", " ").split())
    assert shown in tree.astext()
    assert not list(tree.findall(nodes.system_message))
    assert not list(tree.findall(nodes.problematic))

"""Tables and figures as rows: each says all, and a new one needs a function and a row.

Oracle: what the functions of a toy table and a toy figure do with given numbers.
"""

import json
import math
import re
import xml.etree.ElementTree as ET
from importlib import import_module
from inspect import signature
from itertools import product

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from docutils.core import publish_doctree
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from pandas.api.types import is_integer_dtype

import beyond_perplexity.report
from beyond_perplexity.errors import NothingToShowError
from beyond_perplexity.figures import FIGURES, Exhibit, draw_figure, with_titles, without_titles
from beyond_perplexity.figures.labels import Labels
from beyond_perplexity.figures.style import save
from beyond_perplexity.foreign_text import escape_rst, printable
from beyond_perplexity.planning.report import PAPERS
from beyond_perplexity.planning.run import Run
from beyond_perplexity.planning.validation import validate
from beyond_perplexity.report import TABLES, examples, tabulate, tendency_findings
from beyond_perplexity.report.findings import Answer, read_findings
from beyond_perplexity.report.inputs import INPUTS, read_input, read_inputs
from beyond_perplexity.report.latex import escape_latex, to_latex
from beyond_perplexity.report.layout import to_html_table
from beyond_perplexity.report.overview import FOUND_TEXTS, render_overview
from beyond_perplexity.schemas import contrastive, perplexity
from beyond_perplexity.schemas.corpora import TEXT_SAMPLES
from beyond_perplexity.storage.fingerprint import fingerprint
from beyond_perplexity.storage.shards import write_shard
from scripts import plot
from tests.unit import small_corpora, synthetic_tables, test_tables
from tests.unit.evaluator_oracles import check_refused
from tests.unit.exhibit_inputs import SOURCES, as_read, make_inputs
from tests.unit.planned import load, run_of

TOYS = """
import pandas as pd
from matplotlib.figure import Figure
from beyond_perplexity.report.layout import (Column, Table)

def count(training, models, labels):
    cells = [[labels.model(name), str(n)] for name, n in training["model"].value_counts().items()]
    heads = [Column("Model", text=True), Column("Points")]
    return Table("toy", "Toy", "", heads, cells, pd.DataFrame(cells, columns=["model", "points"]))

def line(training, labels):
    figure = Figure()
    figure.subplots().plot(training["epoch"], training["loss"])
    return figure
"""


@pytest.fixture
def toys(tmp_path, monkeypatch):
    """Add a table and a figure as one does: a function in a new file, and a row."""
    (tmp_path / "toys.py").write_text(TOYS)
    places = [*beyond_perplexity.report.__path__, str(tmp_path)]
    monkeypatch.setattr(beyond_perplexity.report, "__path__", places)
    inputs = ("training", "models")
    table = Exhibit("report.toys:count", inputs, "Toys", "How many.", optional=("models",))
    monkeypatch.setitem(TABLES, "tendencies/toy", table)
    figure = Exhibit("report.toys:line", ("training",), "Toy line", "How far.")
    monkeypatch.setitem(FIGURES, "tendencies/toy", figure)


@pytest.mark.parametrize(
    "row", [*TABLES.values(), *FIGURES.values()], ids=[*TABLES, *(f"{f} (figure)" for f in FIGURES)]
)
def test_every_row_says_all(row):
    module, function = row.code.split(":")
    made = getattr(import_module(f"beyond_perplexity.{module}"), function)
    signature(made).bind(*row.inputs, "labels")  # else a TypeError
    fingerprint("scripts/plot.py", row.reference)  # else a FileNotFoundError
    assert set(row.optional) <= set(row.inputs) <= set(INPUTS)
    assert row.title
    assert len(row.caption) > 20
    settings = {"report_level": 1, "halt_level": 2}
    text = publish_doctree(f"**{row.title}.** {row.caption}", settings_overrides=settings).astext()
    assert text.startswith(f"{row.title}. ")


def has_files(key, config):
    """Return whether there is something that a row of a planned paper can be made of."""
    given = config["contrastive"]
    asked = {
        "contrastive/pairs": given["pairs"],
        "contrastive/partition": given["partition"]["proposal"],
        "tendencies/embeddings": Run(config).embeddings.encoder,
        "semantics/human": config["semantics"]["human_scores"],
        "importance/table_gaps": config["importance"]["bidirectional"],
        "importance/figure_gaps": config["importance"]["bidirectional"],
    }
    asked |= dict.fromkeys(("thoughts/perplexity", "thoughts/samples"), config["thoughts"])
    return bool(asked.get(key, True))


@pytest.mark.parametrize("name", ["config.yaml", "configs/smoke-importance.yaml"])
def test_every_row_is_planned_and_every_kind_of_files_is_found(name):
    run = run_of(name)
    report = run.report
    papers = {group.split("/")[0] for group in report.groups()}
    for rows in (TABLES, FIGURES):
        named = {report.name(g, n) for g in report.groups() for n in report.names(rows, g)}
        held = {key for key in rows if key.split("/")[0] in papers}
        assert named == {key for key in held if has_files(key, run.config)}
        for group in report.groups():
            for exhibit in report.names(rows, group):
                files = report.inputs(rows, group, exhibit)
                assert tuple(files) == rows[report.name(group, exhibit)].inputs
    made = [make(run).files(run, "wikipedia") for make in PAPERS.values()]
    assert {kind for files in made for kind in files} == set(INPUTS)


def test_a_toy_is_planned_made_and_captioned(toys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    report = run_of().report
    group, *others = report.groups()
    assert group == "tendencies/wikipedia"
    assert others == [f"{paper}/wikipedia" for paper in ("contrastive", "semantics", "relations")]
    files = [name for name in report.files() if "/toy." in name]
    folders = [f"<results>/{kind}/tendencies/wikipedia" for kind in ("tables", "figures")]
    tables = [f"{folders[0]}/toy.{suffix}" for suffix in ("csv", "tex", "html")]
    assert files == [*tables, *(f"{folders[1]}/toy.{suffix}" for suffix in ("svg", "pdf"))]
    found = {k: v for k, v in report.inputs(TABLES, group, "toy").items() if v}
    assert found["training"] == ["<results>/models/lstm/training.parquet"]
    assert len(found["models"]) == 2
    assert report.caption(TABLES, group, "toy") == "**Toys.** How many."
    assert report.caption(FIGURES, group, "toy") == "**Toy line.** How far."

    points = synthetic_tables.make_training(["lstm"]).drop(columns="model")
    path = tmp_path / "lstm" / "training.parquet"
    path.parent.mkdir()
    rows = pa.Table.from_pandas(points, perplexity.TRAINING, preserve_index=False)
    write_shard(path, perplexity.TRAINING, rows, {})
    given, labels = {"training": [str(path)]}, ["--labels", report.labels(group)]
    csv, *_ = synthetic_tables.run_tabulate(monkeypatch, tmp_path, "tendencies/toy", given, *labels)
    assert pd.read_csv(csv).to_dict("records") == [{"model": "LSTM", "points": len(points)}]
    shared = ["--inputs", json.dumps(given), *labels, "--output", "f.svg"]
    monkeypatch.setattr("sys.argv", ["plot", "--figure", "tendencies/toy", *shared])
    plot.main()
    assert "<svg" in (tmp_path / "f.svg").read_text()


def test_a_corpus_may_be_called_as_a_paper_is():
    config = load("config.yaml")
    config["corpora"]["importance"] = config["corpora"].pop("wikipedia")
    for part in (*config["models"].values(), *config["evaluators"].values()):
        if "corpus" in part:
            part["corpus"] = "importance"
    validate(config)
    report = Run(config).report
    others = [f"{paper}/importance" for paper in ("contrastive", "semantics", "relations")]
    assert report.groups() == ["tendencies/importance", "importance", *others]
    files = report.files()
    tables, figures = (sum(has_files(key, config) for key in rows) for rows in (TABLES, FIGURES))
    assert len(set(files)) == len(files) == 3 * tables + 2 * figures


def test_what_a_command_is_not_given_or_given_in_vain_is_named():
    nothing = {kind: read_input(kind, []) for kind in INPUTS}
    assert nothing["measures"] is None
    assert (nothing["models"], nothing["latents"]) == ({}, [])
    row = TABLES["contrastive/partition"]
    check_refused("needs files 'partitions'", read_inputs, "it", row, {"given_lengths": []})
    check_refused("no list of files 'models'", read_inputs, "it", row, {"models": []})


def run_with(**published):
    return run_of(report={"published": published})


def test_the_key_switches_the_tables_of_its_paper_and_corpus():
    plain, switched = run_with().report, run_with(tendencies=["wikipedia"]).report
    for report, expected in ((plain, False), (switched, True)):
        labels = json.loads(report.labels("tendencies/wikipedia"))
        assert labels["published"] is expected
        assert labels["subject"] == "wikipedia"
        caption = report.caption(TABLES, "tendencies/wikipedia", "table_3")
        assert ("Published values" in caption) is expected
    assert not json.loads(switched.labels("contrastive/wikipedia"))["published"]
    said = r"report\.published\.tendencies: no corpus is named 'x'"
    check_refused(said, run_with, tendencies=["x"])


@pytest.mark.parametrize("name", ["table_2", "table_3", "table_5", "table_6"])
def test_what_is_published_goes_and_nothing_else(name):
    measures = synthetic_tables.make_measures(["lstm/beam", "cnn/ancestral"])
    labels = (Labels(published=published) for published in (True, False))
    both, ours = (tabulate(f"tendencies/{name}", {"measures": measures}, one) for one in labels)
    kept = [place for place, one in enumerate(both.columns) if not one.published]
    assert len(kept) < len(both.columns)
    assert [list(row) for row in ours.rows] == [[row[place] for place in kept] for row in both.rows]
    shared = [column for column in both.tidy if not column.startswith("published")]
    pd.testing.assert_frame_equal(ours.tidy, both.tidy[shared])
    assert "Meister" in both.note
    assert "Meister" not in ours.note
    assert all(re.fullmatch("[a-z][a-z0-9_]*", column) for column in both.tidy)


def test_tables_of_two_corpora_have_two_labels_in_latex():
    given = {"measures": synthetic_tables.make_measures(["lstm/beam"])}
    labels = [Labels(subject=subject) for subject in ("", "wikipedia", "my_own-texts")]
    texts = [to_latex(tabulate("tendencies/table_2", given, one)) for one in labels]
    labels = [re.findall(r"\\label{(.*)}", text) for text in texts]
    assert labels == [["tab:table_2"], ["tab:table_2-wikipedia"], ["tab:table_2-my_own-texts"]]


def test_titles_are_shown_distinguished_and_names_are_written():
    """One title may stand for proposals of several models: a name is found again by both."""
    rows = [("rnng", "rnng-optimal", 1.0), ("kglm", "kglm-optimal", 2.0), ("kglm", "other", 3.0)]
    frame = pd.DataFrame(rows, columns=["model", "proposal", "value"])
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
    config = load("config.yaml")
    config["proposals"]["rnng-again"] = dict(config["proposals"]["rnng-crf"])
    validate(config)
    titles = Run(config).importance.titles()
    assert (titles["rnng"], titles["kglm"]) == ("RNNG", "KGLM")
    assert (titles["rnng-crf"], titles["rnng-again"]) == ("Span CRF (crf)", "Span CRF (again)")
    assert titles["entitynlm-peeking"] == "Entity tagger (peeking)"
    assert titles["kglm-optimal"] == titles["entitynlm-optimal"] == "Optimal proposal"


# What a row is of, which is always known.
KEYS = {
    *("source", "tendency", "measure", "curve", "x", "n", "unit", "scope", "subject", "title"),
    *("model", "models", "first", "second", "proposal", "beside", "method", "aggregation", "draw"),
    *("temperature", "beam_size", "n_samples", "n_tokens", "instance_id", "sentence_level"),
    *("level", "base_level", "length", "phenomenon", "split", "kind", "evaluator", "probe"),
    *("step", "epoch", "phase", "file", "pair", "part", "direction", "structure", "seconds_of"),
    *("doc_id", "text", "alpha", "power", "over", "first_evaluator", "first_measure"),
    *("second_evaluator", "second_measure", "differs", "resampled", "open_vocabulary"),
    *("scored_text", "vocabulary", "bound", "replicate", "stage", "ngram"),
}


def unknown(table, share):
    """Take a share of the cells away that need not be known; a count is, where all others are."""
    random = np.random.default_rng(7)
    names = [n for n in table.columns if n not in KEYS and not is_integer_dtype(table[n])]
    changed = {n: table[n].mask(random.random(len(table)) < share, other=None) for n in names}
    return table.assign(**changed)


CHANGES = {
    "all": lambda table: unknown(table, 1.0),
    "some": lambda table: unknown(table, 0.4),
    "none": lambda table: table.iloc[:0],
}
READ_OTHERWISE = ("example_samples", "example_documents")


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """Give what exhibits are made of as it should be, and with each change."""
    known = make_inputs(tmp_path_factory.mktemp("scores"))
    found = {"known": known}
    tables = [kind for kind, row in INPUTS.items() if row.schema]
    for name, change in CHANGES.items():
        found[name] = known | {kind: as_read(kind, change(known[kind])) for kind in tables}
        found[name] |= {kind: change(known[kind]) for kind in READ_OTHERWISE}
    return found


def shown_text(name, figure, given):
    labels = Labels(published=True)
    if figure:
        drawn = draw_figure(name, given, labels)
        assert isinstance(drawn, Figure)
        return "\n".join(text.get_text() for text in drawn.findobj(Text))
    table = tabulate(name, given, labels)
    to_latex(table)
    return to_html_table(table)


EXHIBITS = [*((name, False) for name in TABLES), *((name, True) for name in FIGURES)]
NAMES = [f"{name}{' (figure)' * figure}" for name, figure in EXHIBITS]


@pytest.mark.parametrize("change", ["known", *CHANGES])
@pytest.mark.parametrize(("name", "figure"), EXHIBITS, ids=NAMES)
def test_an_exhibit_is_made_or_says_what_it_lacks(name, figure, change, inputs):
    try:
        text = shown_text(name, figure, inputs[change])
    except NothingToShowError:
        if change == "known":
            raise
    else:
        bare = re.sub(r"<!--.*?-->", "", text)
        assert not re.findall(r".{0,40}(?:\bnan\b|[>+-]None\b|<NA>|\bNaT\b).{0,20}", bare)


@pytest.mark.parametrize("name", FIGURES)
def test_no_text_of_a_figure_is_below_7_points_where_it_is_printed(name, inputs):
    """Also the ticks that drawing adds; wider than a page lying on its side, it would shrink."""
    figure = draw_figure(name, inputs["known"], Labels())
    FigureCanvasAgg(figure).draw()
    sizes = {t.get_text(): t.get_fontsize() for t in figure.findobj(Text) if t.get_text().strip()}
    assert {text: size for text, size in sizes.items() if size < 7} == {}
    assert figure.get_figwidth() <= 9.5


def named_by_users(given, text):
    """Put a text into every name: of models, proposals, decodings, evaluators and the test set."""

    def held(kinds, *columns):
        tables = [given[kind] for kind in kinds if isinstance(given[kind], pd.DataFrame)]
        return {n for t in tables for name in columns if name in t for n in t[name].dropna()}

    names = held(given, "model", "first", "second", "beside", "decoding") | set(given["models"])
    names |= {part for source in SOURCES for part in source.split("/")}
    names |= {f"evaluator/{name}" for name in held(given, "evaluator")}
    latent = held(["estimates", "gaps", "costs", "posteriors"], "model", "proposal")
    mention = {"start": 0, "end": 2, "entity": text, "kind": text}
    other = {"start": 2, "end": 3, "entity": f"E {text}", "kind": "related"}
    mentions = [mention, {**other, "relation": text, "parent": text}]
    shown = {"title": "d", "tokens": [text, "$", "US$", "it"]}
    tree = {"tree": f"({text.split()[0]} (PRP$ #0 #1 #2) ($x^$ #3))"}
    latents = [{"model": text, **shown, **tree}, {"model": text, **shown, "mentions": mentions}]
    titles, printed = ({name: f"{name} {text}" for name in some} for some in (latent, names))
    labels = Labels(names=printed, titles=titles, reference=f"R {text}", published=True)
    return {**given, "latents": latents}, labels


@pytest.mark.parametrize("name", FIGURES)
def test_figures_have_equal_bytes_and_draw_names_as_they_stand(name, inputs, tmp_path):
    given, labels = named_by_users(inputs["known"], synthetic_tables.HOSTILE)
    files = [[tmp_path / f"{turn}.{end}" for end in ("svg", "pdf")] for turn in "ab"]
    for paths in files:
        save(draw_figure(name, given, labels), paths)
    for one, other in zip(*files, strict=True):
        assert one.read_bytes() == other.read_bytes()
    synthetic_tables.check_drawn_as_it_stands(files[0][0].read_text(), at_least=1)
    assert b"<dc:date>" not in files[0][0].read_bytes()
    assert b"CreationDate" not in files[0][1].read_bytes()


@pytest.mark.parametrize("name", TABLES)
def test_names_are_no_markup_in_tables(name, inputs):
    wild = r"<b>$x_1$ & \alpha 50%</b>"
    table = tabulate(name, *named_by_users(inputs["known"], wild))
    html, latex = to_html_table(table), to_latex(table)
    assert "<b>" not in html + latex
    assert "$x_1$" not in latex
    assert latex.isascii()
    assert {len(row) for row in table.rows} == {len(table.columns)}
    assert "&lt;b&gt;" in html


@pytest.mark.parametrize("change", ["known", *CHANGES])
def test_the_first_page_is_made(change, inputs):
    given = inputs[change]
    corpora, told = {"wikipedia": SOURCES}, {"wikipedia": {"splits": {}}}
    compared = tendency_findings.by_corpus(corpora, told, given["measures"], [given["sensitivity"]])
    found = pd.DataFrame([{"question": "Q", **Answer("A", "W", first_page=True)._asdict()}])
    papers = {paper: {"wikipedia": found} for paper in FOUND_TEXTS}
    shown = told, test_tables.PERPLEXITIES, compared, {"trained"}, given["estimates"], []
    text = render_overview(*shown, papers)
    assert not re.findall(r".{0,40}\bnan\b.{0,20}", text)


def test_a_table_of_nothing_is_written_and_its_findings_are_none(tmp_path, monkeypatch, capsys):
    """Of contrasts without rows: the report is made, and the first page says nothing of them."""
    source = tmp_path / "contrasts.parquet"
    write_shard(source, contrastive.CONTRASTS, contrastive.CONTRASTS.empty_table(), {})
    given = {"contrasts": [str(source)]}
    made = synthetic_tables.run_tabulate(monkeypatch, tmp_path, "contrastive/findings", given)
    csv, _, html = made
    said = "warning: table contrastive/findings: the files of 'contrasts' have no row"
    assert said in capsys.readouterr().err
    assert "have no row" in html.read_text()
    assert read_findings([csv]) == {}


NASTY = (
    "<script>alert('x')</script> & \\input{/etc/passwd} $y_2^ 50% `r`_ *s* |t|\n"
    "\x00\x1b[31m\u202e ~#"
)


def write_samples(path, texts):
    n = len(texts)
    columns = {"doc_id": range(n), "text": texts, "n_tokens": [len(t.split()) for t in texts]}
    columns |= {"log_prob": [-6.0, *[math.nan] * (n - 1)], "log_prob_decoding": [math.nan] * n}
    columns |= {"finished": [True, False, *[True] * (n - 2)]}
    path.parent.mkdir(parents=True)
    write_shard(path, TEXT_SAMPLES, columns, {})
    return str(path)


@pytest.fixture
def files(tmp_path):
    """Give a shard of a model and the documents of a corpus, whose test split begins late."""
    texts = [NASTY, "b " * (examples.WORDS + 1), "c " * examples.WORDS, "never shown"]
    samples = write_samples(tmp_path / "samples/lstm/beam/00000.parquet", texts)
    splits = ["train"] * 3000 + ["test", "valid"] * 5
    texts = [f"document {place}" for place in range(len(splits))]
    return samples, small_corpora.write_documents(tmp_path / "documents.parquet", texts, splits)


def read_examples(files):
    return examples.read_example_samples([files[0]]), examples.read_example_documents([files[1]])


def test_the_first_documents_are_read_and_each_text_has_its_numbers(files):
    samples, documents = read_examples(files)
    assert (samples["doc_id"].tolist(), set(samples["source"])) == ([0, 1, 2], {"lstm/beam"})
    assert documents["text"].tolist() == ["document 3000", "document 3002", "document 3004"]
    said = r"documents\.parquet: column .* is missing"
    check_refused(said, examples.read_example_samples, [files[1]])
    table = examples.examples_table(*read_examples(files), Labels())
    names = ["Test set"] * examples.EXAMPLES + ["LSTM"] * examples.EXAMPLES
    assert [row[0] for row in table.rows] == names
    human, model = table.rows[0], table.rows[examples.EXAMPLES :]
    assert human[1:] == ["", "3000", "2", "", "", "document 3000"]
    words = len(NASTY.split())
    assert model[0][3:6] == [str(words), "yes", f"\N{MINUS SIGN}{6 / (words + 1):.2f}"]
    assert [row[4] for row in model] == ["yes", "no", "yes"]
    assert [row[5] for row in model[1:]] == ["", ""]
    assert model[1][6] == " ".join("b" * examples.WORDS) + examples.CUT
    assert examples.CUT not in model[2][6]
    a_token = table.tidy["log_likelihood_a_token"][examples.EXAMPLES]
    assert a_token == pytest.approx(-6 / (words + 1))


def test_texts_are_no_markup(files):
    table = examples.examples_table(*read_examples(files), Labels())
    page = to_html_table(table)
    found = ET.fromstring(page)
    tags = "div table caption strong span thead tr th tbody td"
    assert {element.tag for element in found.iter()} == set(tags.split())
    text = "".join(found.itertext())
    assert "<script>alert('x')</script> & \\input{/etc/passwd} $y_2^ 50%" in text
    assert not {"\x00", "\x1b", "\u202e"} & set(page)
    latex = to_latex(table)
    assert r"\input" not in latex
    assert r"\textbackslash{}input\{/etc/passwd\} \$y\_2\textasciicircum{} 50\%" in latex
    assert re.search(r"p\{[\d.]+em\}@\{\}\}", latex)  # passages stand last, and wrap
    assert len(table.tidy.to_csv(index=False).splitlines()) == 1 + len(table.rows)


def test_marks_that_act_are_not_handed_on():
    marks = ["\x00", "\x07", "\x1b", "\x85", "\u2028", "\u202e", "\u2066", "\n"]
    for mark, write in product(marks, (printable, escape_latex, escape_rst, examples.shorten)):
        assert mark not in write(f"a{mark}b")
    assert printable("नमस्ते \u200d עברית ﷽ 👩\u200d🔬") == "नमस्ते \u200d עברית ﷽ 👩\u200d🔬"


def test_the_page_is_planned_and_made(files, tmp_path, monkeypatch):
    found = run_of().report.inputs(TABLES, "tendencies/wikipedia", "samples")
    assert found["example_documents"] == ["<results>/corpora/wikipedia/documents.parquet"]
    assert all(name.endswith("/00000.parquet") for name in found["example_samples"])
    given = {"example_samples": [files[0]], "example_documents": [files[1]]}
    csv, _, html = synthetic_tables.run_tabulate(monkeypatch, tmp_path, "tendencies/samples", given)
    assert len(pd.read_csv(csv)) == 2 * examples.EXAMPLES
    assert "document 3004" in html.read_text()

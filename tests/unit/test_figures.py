"""Figures: what they draw, stable bytes, legends that cover nothing, fixed colours, clear errors.

Oracles: the table that was drawn, an average cell by cell, the layout that matplotlib measures.
"""

import json
import math
from functools import cache
from itertools import combinations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from beyond_perplexity.errors import InputError, NothingToShowError
from beyond_perplexity.figures import FIGURES, draw_figure, numbers, style
from beyond_perplexity.figures.curves import _bins
from beyond_perplexity.figures.labels import PALETTE, Labels, Looks, parse_source
from beyond_perplexity.schemas.tendencies import CURVES
from beyond_perplexity.storage.shards import write_shard
from beyond_perplexity.tendencies.definitions import TENDENCIES, of_counts
from scripts import plot
from tests.unit import evaluator_oracles, synthetic_tables
from tests.unit.synthetic_tables import make_curves, make_measures, sources_of

SMALL = ["external/mine"]
DECODED = ["ancestral", "nucleus", "beam"]
USUAL = [*sources_of(["lstm", "trigram"], DECODED), *SMALL]
OTHERS = ["top_k", "typical", "min_p"]
LARGE = sources_of([f"transformer-of-size-{i}" for i in range(9)], [*DECODED, *OTHERS])
WITH_LEGEND = ["figure_1", "figure_3", "figure_4", "figure_6", "figure_7", "sample_size"]
WITH_LEGEND += ["sample_size_p_values", "sensitivity", "training"]


@cache
def table(kind: str, sources: tuple[str, ...]) -> pd.DataFrame:
    models = sorted({parse_source(name).model.split("/")[-1] for name in sources})
    if kind == "training":
        return synthetic_tables.make_training(models)
    if kind == "sensitivity":
        return synthetic_tables.make_sensitivity()
    sizes = synthetic_tables.make_sample_size
    makers = {"measures": make_measures, "curves": make_curves, "sample_size": sizes}
    return makers[kind](list(sources))


OF_COUNTS = [row for row in of_counts().values() if row.distance]  # columns of the main figure


def draw(name: str, table: pd.DataFrame, labels: Labels) -> Figure:
    """Draw a figure of the tendencies from the one table that it is made of."""
    (kind,) = FIGURES[f"tendencies/{name}"].inputs
    return draw_figure(f"tendencies/{name}", {kind: table}, labels)


def make(name: str, sources: list[str]) -> Figure:
    (kind,) = FIGURES[f"tendencies/{name}"].inputs
    return draw(name, table(kind, tuple(sources)), Labels())


@pytest.mark.parametrize("sources", [SMALL, LARGE], ids=["small", "large"])
@pytest.mark.parametrize("name", WITH_LEGEND)
def test_legend_is_inside_the_figure_and_covers_no_panel(name: str, sources: list[str]) -> None:
    figure = make(name, sources)
    FigureCanvasAgg(figure).draw()
    assert len(figure.legends) == 1
    for legend in figure.legends:
        box = legend.get_window_extent()
        assert figure.bbox.x0 <= box.x0
        assert box.x1 <= figure.bbox.x1
        for axis in figure.axes:
            assert not axis.get_visible() or not axis.get_tightbbox().overlaps(box)


def test_a_model_keeps_its_colour_and_models_differ_in_colour_or_mark() -> None:
    labels = Labels(models=["trigram", "lstm", "cnn"])
    for sources in (["lstm/beam"], ["lstm/beam", "cnn/beam"], ["aaa/beam", "lstm/nucleus"]):
        looks = Looks(labels, sources)
        assert looks.colour("lstm") == PALETTE[1]
        assert looks.marker("lstm") == Looks(labels, []).marker("lstm")
    names = [f"m{i}" for i in range(16)]
    looks = Looks(Labels(models=names), [])
    assert len({(looks.colour(name), looks.marker(name)) for name in names}) == 16
    for count in (len({*map(of, names[:10])}) for of in (looks.colour, looks.marker)):
        assert count == 10


def test_rank_frequency_draws_the_points_of_the_table() -> None:
    curves = make_curves(USUAL)
    figure = draw("figure_6", curves, Labels())
    titles = [axis.get_title() for axis in figure.axes]
    assert titles == ["Ancestral", "Nucleus", "Beam", "External samples"]
    drawn = figure.axes[1].lines[1]
    chosen = curves[(curves["source"] == "lstm/nucleus") & (curves["curve"] == "rank_frequency")]
    truth = dict(zip(chosen["x"], chosen["y"], strict=True))
    assert len(drawn.get_xdata()) > 100
    assert all(truth[x] == y for x, y in zip(drawn.get_xdata(), drawn.get_ydata(), strict=True))


@pytest.mark.parametrize("name", ["figure_3", "figure_4", "figure_6", "figure_7"])
def test_no_line_leaves_its_panel_however_large_the_later_ones_are(name: str) -> None:
    curves = make_curves(USUAL)
    later = curves["source"].str.endswith(("/nucleus", "/beam"))
    curves.loc[later, "x"] *= 3
    if name != "figure_4":  # whose distances end at 1
        curves.loc[later, ["y", "low", "high"]] *= 5
    for axis in draw(name, curves, Labels()).axes:
        (left, right), (bottom, top) = axis.get_xlim(), axis.get_ylim()
        for line in axis.lines:
            x, y = line.get_data()
            assert left <= x.min() <= x.max() <= right
            assert bottom <= y.min() <= y.max() <= top


def test_no_density_leaves_its_panel_upwards() -> None:
    curves = make_curves(USUAL)
    curves.loc[curves["source"].str.endswith("/beam"), "y"] *= 5
    for density in ("figure_8", "figure_9"):
        for axis in draw(density, curves, Labels()).axes:
            assert all(line.get_ydata().max() <= axis.get_ylim()[1] for line in axis.lines)


def cells(figure: Figure) -> dict[tuple[int, int], tuple[str, tuple[float, ...]]]:
    """Return the text and the colour of each cell of the main figure, by row and column."""
    axis = figure.axes[0]
    fills = {tuple(map(round, p.get_center())): p.get_facecolor() for p in axis.patches}
    places = {(int(y), int(x)): t.get_text() for t in axis.texts for x, y in [t.get_position()]}
    return {(y, x): (text, fills[x, y]) for (y, x), text in places.items()}


def test_main_figure_prints_each_distance_with_its_adjusted_stars() -> None:
    measures = make_measures(USUAL)
    figure = draw("main", measures, Labels())
    found = cells(figure)
    assert len(found) == len(OF_COUNTS) * (len(USUAL) + 2)  # human text in two vocabularies
    names = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert names[:2] == ["Human text (baseline), words", "Human text (baseline), raw"]
    own = measures[(measures["tendency"] == "length") & (measures["measure"] == "ks")]
    for row in own.to_dict("records"):
        mark = "**" if row["p_adjusted"] < 0.005 else "*" if row["p_adjusted"] < 0.05 else ""
        line = names.index(Labels().source(row["source"]))
        assert found[line, 4][0] == f"{row['value']:.3f}{mark}".replace("0.", ".")
    assert found[0, 4][0] == ".050"


def test_numbers_of_narrow_cells_have_four_characters_at_most() -> None:
    written = {0.0: ".000", 0.0004: "≈0", 0.0006: ".001", 0.25: ".250", 0.9994: ".999"}
    written |= {0.9996: "1.00", 1.0: "1.00", 1.414: "1.41"}
    assert {value: numbers.shown_narrow(value) for value in written} == written


def test_main_figure_is_white_inside_the_band_and_marks_what_is_withheld() -> None:
    measures = make_measures(["lstm/ancestral", "lstm/beam", "lstm/nucleus", "lstm/top_k"])
    for source, value in zip(measures["source"].unique(), (0.06, 0.2, 0.4, 0.01), strict=True):
        measures = synthetic_tables.set_distance(measures, "length", "ks", value, source)
    chosen = measures["measure"] == "ks"
    measures.loc[chosen, ["p_value", "p_adjusted"]] = [0.0005, 0.2]
    measures = synthetic_tables.withhold(measures, "symbols", "ks", "too few groups")
    figure = draw("main", measures, Labels(decodings=["ancestral", "beam", "nucleus", "top_k"]))
    found = cells(figure)
    inside, far, farther, close = (found[line, 4] for line in (1, 2, 3, 4))
    assert inside == (".060", (1, 1, 1, 1))  # the raw p gives it no star
    assert farther[1][0] < far[1][0] < 1  # the darker, the farther
    red, _, blue, _ = close[1]
    assert red > blue  # closer than human text is another hue
    assert all(found[line, 6][0].endswith("†") for line in (1, 2, 3, 4))
    said = figure.legends[0].get_title().get_text()
    assert "adjusted p" in said
    assert "† no verdict" in said
    measures[["baseline", "baseline_low", "baseline_high"]] = np.nan
    grey = cells(draw("main", measures, Labels()))[1, 4][1]
    assert len(set(grey[:3])) == 1
    assert grey[0] < 1


@pytest.mark.parametrize("place", ["inside", "above", "below", "no band"])
@pytest.mark.parametrize(("verdict", "mark"), [("differs", "*"), ("no", ""), ("withheld", "†")])
def test_colour_is_the_place_beside_the_band_and_no_star_is_on_white(place, verdict, mark) -> None:
    """Oracle: a cell of each place beside the band and each verdict, by the legend's words."""
    value = {"inside": 0.06, "above": 0.3, "below": 0.01, "no band": 0.06}[place]
    plain = make_measures(["lstm/beam"])
    measures = synthetic_tables.set_distance(plain, "length", "ks", value, "lstm/beam")
    chosen = (measures["tendency"] == "length") & (measures["measure"] == "ks")
    measures.loc[chosen, ["p_value", "p_adjusted"]] = [0.001, 0.03 if verdict == "differs" else 0.2]
    if verdict == "withheld":
        measures = synthetic_tables.withhold(measures, "length", "ks", "too few groups")
    if place == "no band":
        measures.loc[chosen, ["baseline_low", "baseline_high"]] = np.nan
    figure = draw("main", measures, Labels())
    text, face = cells(figure)[1, 4]
    said = {"above": "farther", "below": "closer than human text", "no band": "no baseline"}
    meant = said.get(place, f"in the band, {'with a' if mark == '*' else 'no'} star")
    faces = {p.get_label(): p.get_facecolor() for p in figure.legends[0].legend_handles}
    assert text == f"{value:.3f}{mark}".replace("0.", ".")
    assert (face == (1, 1, 1, 1)) == (meant == "in the band, no star")
    assert place == "above" or face == faces[meant]  # of blue the legend has one of many shades


def test_numbers_of_the_main_figure_stay_inside_their_cells() -> None:
    sources = sources_of(["transformer-adaptive-softmax", *(f"m{i}" for i in range(6))], DECODED)
    measures = make_measures(sources)
    measures.loc[measures["source"].str.endswith("beam"), "baseline"] *= 1.4
    figure = draw("main", measures, Labels())
    FigureCanvasAgg(figure).draw()
    axis = figure.axes[0]
    assert len(axis.get_yticklabels()) == 22
    boxes = [text.get_window_extent() for text in axis.texts]
    width = axis.get_window_extent().width / len(OF_COUNTS)
    assert max(box.width for box in boxes) < width
    assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))
    legend = figure.legends[0].get_window_extent()
    assert not any(box.overlaps(legend) for box in boxes)


def test_every_reference_that_occurs_is_drawn_and_named() -> None:
    references = ("reference", "reference/words", "reference/small")
    curves = make_curves(USUAL, references=references)
    names = {"Test set", "Test set in the vocabulary small", "Test set in the vocabulary words"}
    for name in ("figure_1", "figure_3", "figure_6", "figure_8"):
        figure = draw(name, curves, Labels())
        pairs = [zip(one.get_texts(), one.get_lines(), strict=True) for one in figure.legends]
        entries = {text.get_text(): line for pair in pairs for text, line in pair}
        assert names <= set(entries)
        looks = {(entries[n].get_color(), str(entries[n]._dash_pattern)) for n in names}
        assert len(looks) == 3
    boxes = draw("figure_5", curves, Labels()).axes[0]
    drawn = [label.get_text() for label in boxes.get_yticklabels()]
    assert len(drawn) == len(USUAL) + 3  # whose lengths differ in this table
    same = curves["source"].isin(references) & (curves["curve"].str.startswith("length"))
    first = curves[curves["source"] == "reference"].set_index(["curve", "x"])["y"]
    keys = list(zip(curves[same]["curve"], curves[same]["x"], strict=True))
    curves.loc[same, "y"] = first.loc[keys].to_numpy()
    boxes = draw("figure_5", curves, Labels()).axes[0]
    names = [label.get_text() for label in boxes.get_yticklabels()]
    assert names[:2] == ["Test set", "LSTM, ancestral"]
    bars = draw("figure_2", make_measures(["lstm/beam", "external/mine"]), Labels()).axes[0]
    names = [label.get_text() for label in bars.get_yticklabels()]
    assert names == ["Test set", "Test set in the vocabulary words", "LSTM, beam", "mine"]


def test_sample_size_and_sensitivity_draw_the_points_and_tests_of_the_table() -> None:
    rows = synthetic_tables.make_sample_size(USUAL)
    axis = draw("sample_size", rows, Labels()).axes[1]
    chosen = rows[(rows["tendency"] == "rank_frequency") & (rows["measure"] == "ks_empirical")]
    chosen = chosen[chosen["source"] == USUAL[0]]
    assert axis.get_title() == "Rank-frequency, KS"
    baseline, line = axis.lines[0], axis.lines[1]
    assert len(axis.lines) == len(USUAL) + 1
    assert line.get_xdata().tolist() == [100, 300, 1000, 3000, 10_000]
    assert line.get_ydata().tolist() == chosen["value"].tolist()
    assert baseline.get_ydata().tolist() == pytest.approx(chosen["baseline"].tolist())
    legend = [text.get_text() for text in draw("sample_size", rows, Labels()).legends[0].texts]
    assert "Human against human" in legend
    # no baseline where none is known
    panels = draw("sample_size", rows, Labels()).axes
    assert len(panels[0].lines) == len(USUAL)  # Zipf's s is no distance
    empty = draw("sample_size", rows.assign(baseline=np.nan), Labels())
    assert all(len(axis.lines) in (0, len(USUAL)) for axis in empty.axes)
    names = [text.get_text() for text in empty.legends[0].texts]
    assert "Human against human" not in names
    p_values = draw("sample_size_p_values", rows, Labels())
    assert "Human against human" not in [t.get_text() for t in p_values.legends[0].texts]
    rows = synthetic_tables.make_sensitivity()
    axis, reached = draw("sensitivity", rows, Labels()).axes
    assert len(axis.lines) == len(set(zip(rows["tendency"], rows["measure"], strict=True))) == 11
    assert {tuple(line.get_ydata()) for line in reached.lines[:-1]} == {(0.77,) * 4}
    assert reached.lines[-1].get_ydata()[0] == 0.8
    every = [rows[rows["tendency"] == "length"].assign(tendency=name) for name in TENDENCIES]
    drawn = draw("sensitivity", pd.concat(every), Labels()).axes[0].lines
    looks = {(line.get_color(), line.get_marker()) for line in drawn}
    assert len(looks) == len(TENDENCIES)  # more than there are colours
    unknown = rows.assign(relative=np.nan)
    evaluator_oracles.check_refused("no shift to draw", draw, "sensitivity", unknown, Labels())


def test_bins_are_averages_weighted_by_documents() -> None:
    n = np.random.default_rng(3).integers(1, 50, 400)
    x = np.arange(1.0, 401)
    points = pd.DataFrame({"x": x, "y": np.sqrt(x), "low": x, "high": x, "n": n}, index=x + 7)
    means = _bins(points)
    assert len(means) <= 60
    middle, total = 0.0, n.sum()
    members: dict[int, list[int]] = {}
    for i, weight in enumerate(n):
        members.setdefault(int((middle + weight / 2) / total * 60), []).append(i)
        middle += weight
    for place, chosen in members.items():
        expected = sum(n[i] * np.sqrt(x[i]) for i in chosen) / sum(n[i] for i in chosen)
        assert means.loc[place, "y"] == pytest.approx(expected)
        assert np.isnan(means.loc[place, "low"]) == (np.mean(n[chosen]) < 20)


def test_errors_say_what_is_wrong() -> None:
    with pytest.raises(InputError, match="no figure 'tendencies/figure_10'"):
        draw_figure("tendencies/figure_10", {"curves": make_curves(SMALL)}, Labels())
    with pytest.raises(InputError, match="no 'rank_frequency'"):
        draw("figure_6", make_curves(SMALL).query("curve == 'length_mean'"), Labels())
    evaluator_oracles.check_refused("source 'lstm' is neither", parse_source, "lstm")
    evaluator_oracles.check_refused(r"ends in \.svg", lambda: style.save(Figure(), ["figure.gif"]))
    bad = {"{": "is no JSON", "[]": "is no JSON object", '{"model": []}': "model: unknown key"}
    bad['{"models": {}}'] = "labels.models: is {}, expected a list of str"
    for text, message in bad.items():
        evaluator_oracles.check_refused(message, Labels.from_json, text)


def test_few_texts_have_figures_that_say_what_is_lacking(tmp_path, monkeypatch, capsys) -> None:
    """Where no length is that of a test document; a row that has data keeps it."""
    curves = make_curves(USUAL)
    figure = draw("figure_4", curves[curves["curve"] != "ks_types_empirical"], Labels())
    drawn = [bool(axis.lines) for axis in figure.axes]
    assert drawn == [True] * 8 + [False] * 4
    lacking = curves[~curves["curve"].str.startswith("ks_")]
    with pytest.raises(NothingToShowError, match="the curves have no 'ks_types_model', "):
        draw("figure_4", lacking, Labels())
    rows = pa.Table.from_pandas(lacking, CURVES, preserve_index=False)
    write_shard(tmp_path / "curves.parquet", CURVES, rows, {})
    given = json.dumps({"curves": [str(tmp_path / "curves.parquet")]})
    flags = ["--figure", "tendencies/figure_4", "--inputs", given]
    output = tmp_path / "figure.svg"
    monkeypatch.setattr("sys.argv", ["plot", *flags, "--output", str(output)])
    plot.main()
    warned = capsys.readouterr().err
    assert "warning: figure tendencies/figure_4: the curves have no 'ks_types_model'" in warned
    assert "<svg" in output.read_text()


def test_command_draws_from_files(tmp_path, monkeypatch) -> None:
    frame = make_curves(USUAL)
    paths = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    for path in paths:  # the reference's rows are in both files, and are drawn once
        rows = pa.Table.from_pandas(frame, CURVES, preserve_index=False)
        write_shard(path, CURVES, rows, {})
    outputs = [tmp_path / "f.svg", tmp_path / "f.pdf"]
    labels = json.dumps({"models": ["trigram", "lstm"], "names": {"lstm": "LSTM (3)"}})
    given = json.dumps({"curves": [*map(str, paths)]})
    arguments = ["plot", "--figure", "tendencies/figure_5", "--labels", labels]
    arguments += ["--inputs", given, "--output", *map(str, outputs)]
    monkeypatch.setattr("sys.argv", arguments)
    plot.main()
    assert all(path.stat().st_size > 1000 for path in outputs)
    monkeypatch.setattr("sys.argv", ["plot", "--figure", "tendencies/main", "--output", "f.svg"])
    evaluator_oracles.check_refused("needs files 'measures'", plot.main)


def test_all_files_of_a_figure_have_one_layout(tmp_path) -> None:
    """Oracle: the positions of the panel after one file alone; the engine works again after."""
    figure, axis = style.single_panel(3, 2)
    axis.set_ylabel("a label")
    style.save(figure, [tmp_path / "a.svg"])
    alone = axis.get_position().bounds
    style.save(figure, [tmp_path / "b.svg", tmp_path / "b.pdf", tmp_path / "b.png"])
    assert axis.get_position().bounds == pytest.approx(alone)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    axis.set_ylabel("a label\nof two lines")
    style.save(figure, [tmp_path / "c.pdf"])
    assert axis.get_position().bounds[0] > alone[0]


@pytest.mark.parametrize(
    ("values", "kept"),
    [
        ([1.83, 1.84, 1.85, 1.87, 2.37], (1.83, 1.87)),
        ([-50.0, 1.0, 2.0, 3.0], (1.0, 3.0)),
        ([1.0, 2.0, 3.0, 4.0, math.inf, math.nan], None),  # what is not finite squashes nothing
        ([1.0, 2.0, 9.0], None),  # of three values none is far from the others
        ([1.0, 2.0, 3.0, 8.9], None),  # less than four times as far
        ([1.0, 1.0, 1.0, 5.0], None),  # no range is left to be drawn
        ([*range(10), 100, 110], (0, 9)),
        ([0, 1, 2, 3, 4, 5, 100, 200, 300], None),  # a third of all are no outliers
        ([], None),
    ],
)
def test_far_values_are_left_out(values, kept) -> None:
    assert style.range_without_outliers(values) == kept


def test_what_is_cut_off_is_said_and_what_is_near_stays_whole() -> None:
    axis = Figure().subplots()
    places = enumerate([1, 2, 3])
    points = [style.AxisPoint((x - 0.2, x, x + 0.2), y, f"{x:g}", "#000000") for y, x in places]
    far = [
        style.AxisPoint((90, 95, 99), 3, "95", "#FF0000"),
        style.AxisPoint((math.nan, math.inf, 1), 4, "∞", "#000"),
    ]
    for point in [*points, far[0]]:
        axis.plot(point.x[1], point.y, "o")
    style.cut_outliers(axis, [*points, *far])
    low, high = axis.get_xlim()
    assert low < 0.8
    assert 3.2 < high < 4
    assert [text.get_text() for text in axis.texts] == ["95 →"]
    untouched = Figure().subplots()
    untouched.set_xlim(0, 7)
    style.cut_outliers(untouched, points)
    assert untouched.get_xlim() == (0, 7)
    assert not untouched.texts

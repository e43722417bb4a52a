"""The table, the figure and the command of differences in bits per byte.

Oracle: the numbers that each is given, and the files that the command writes.
"""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd
import pytest

from beyond_perplexity.commands.library_functions import run_function
from beyond_perplexity.figures import draw_figure
from beyond_perplexity.figures.labels import Labels
from beyond_perplexity.report import tabulate
from beyond_perplexity.report.bits_per_byte import describe_differences
from beyond_perplexity.schemas.perplexity import PERPLEXITY_DIFFERENCES
from beyond_perplexity.storage.shards import check_schema
from tests.unit.test_paired import compared, saved, scores

NAME = "tendencies/perplexity_differences"


def differences(folder, models=3, texts=("cleaned",)):
    """Rows of some models, one of them infinite."""
    parts = scores(models)
    parts[-1]["log_likelihood"][0] = -np.inf
    rows = compared(saved(folder, parts), leave_out_infinite=True)
    frames = [pd.DataFrame(rows, columns=PERPLEXITY_DIFFERENCES.names) for _ in texts]
    return pd.concat([f.assign(scored_text=text) for f, text in zip(frames, texts, strict=True)])


def made(rows):
    given = {"perplexity_differences": rows}
    return tabulate(NAME, given, Labels()), draw_figure(NAME, given, Labels())


def texts_of(axis):
    return [text.get_text() for text in axis.texts]


def test_the_table_has_a_row_for_every_model_and_every_pair(tmp_path):
    rows = differences(tmp_path)
    table, _ = made(rows)
    pair = rows[rows["second"].notna()].iloc[0]
    assert [cells[1:3] for cells in table.rows] == [["a", ""], ["b", ""], ["c", ""], ["a", "b"]]
    assert table.rows[2][3] == "∞"
    assert table.rows[2][-1] == "1 of 60 documents are impossible"
    assert table.rows[3][3] == f"{pair['value']:+.4f}**".replace("-", "−")
    assert table.rows[3][8] == f"30 ({pair['groups_effective']:.0f} effective)"
    assert "two trained models" in table.note
    assert len(table.tidy) == 4
    assert ",30," in table.tidy.to_csv()  # a count, though an infinite model has none


def test_the_figure_colours_what_was_found_and_says_how_sure_it_is(tmp_path):
    rows = differences(tmp_path, 4)
    pairs = rows["second"].notna()
    hidden = pairs & (rows["first"] == "b")
    rows.loc[hidden, "p_adjusted"] = 0.5
    _, figure = made(rows)
    left, right = figure.axes
    assert [tick.get_text() for tick in left.get_yticklabels()] == ["a", "b", "c", "d"]
    assert texts_of(left) == ["∞"]
    written = texts_of(right)
    assert len(written) == 2 * pairs.sum() == 6
    row = rows[pairs].iloc[0]
    half = (row["high"] - row["low"]) / 2
    number, error = written[0].split("\n")
    assert float(number.rstrip("*").replace("−", "-")) == pytest.approx(row["value"], abs=1e-3)
    assert float(error.removeprefix("±")) == pytest.approx(half, abs=1e-3)
    (image,) = right.images
    shades = np.asarray(image.get_array().filled(np.nan))
    assert shades.shape == (4, 3)  # no column for what is infinite
    assert np.isnan(shades[1, 2])
    assert shades[0, 1] < 0 < shades[1, 0]


def test_each_text_has_a_row_of_panels_also_a_lone_infinite_model(tmp_path):
    _, figure = made(differences(tmp_path, texts=("cleaned", "raw")))
    assert [axis.get_title() for axis in figure.axes[::2]] == ["cleaned text", "raw text"]
    _, figure = made(differences(tmp_path, 1))
    assert texts_of(figure.axes[0]) == ["∞"]
    assert not figure.axes[1].get_visible()


def test_the_command_prints_writes_and_warns(tmp_path, capsys, monkeypatch):
    paths = saved(tmp_path, scores(3))
    outputs = ["--csv", str(tmp_path / "d.csv"), "--output", str(tmp_path / "d.parquet")]
    monkeypatch.setattr(sys, "argv", ["compare_perplexity", *paths, "--flips", "499", *outputs])
    run_function("compare_perplexity")
    printed = capsys.readouterr().out
    held = check_schema(tmp_path / "d.parquet", PERPLEXITY_DIFFERENCES).read().to_pandas()
    written = pd.read_csv(tmp_path / "d.csv")
    np.testing.assert_allclose(written["value"], held["value"], rtol=1e-15)
    assert (len(held), held["second"].notna().sum()) == (6, 3)
    assert "Row less column:" in printed
    assert "only several trainings (seeds) of each can say something" in " ".join(printed.split())
    assert "499 flips cannot give p < 0.005 in a family of 3 tests: 600 are needed" in printed
    assert max(map(len, printed.splitlines())) <= 120
    # two files of one name go by their paths
    paths = []
    for folder, one in zip("xy", scores(), strict=True):
        (tmp_path / folder).mkdir()
        paths += saved(tmp_path / folder, [one])
    monkeypatch.setattr(sys, "argv", ["compare_perplexity", *paths, "--flips", "99"])
    run_function("compare_perplexity")
    printed = capsys.readouterr().out
    assert all(path in printed for path in paths)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["{0}", "{0}"], "is given twice"),
        (["{0}", "{1}", "--flips", "0"], "--flips: is 0, expected at least 1"),
        (["{0}"], "a.parquet: is the only file; give the scores of another model too"),
        (["{0}", "nowhere.csv"], "nowhere.csv: "),
    ],
)
def test_wrong_flags_are_one_line(tmp_path, monkeypatch, capsys, flags, words):
    from beyond_perplexity.errors import run_command

    paths = saved(tmp_path, scores())
    given = [flag.format(*paths) for flag in flags]
    monkeypatch.setattr(sys, "argv", ["compare_perplexity", *given])
    with pytest.raises(SystemExit):
        run_command(lambda: run_function("compare_perplexity"))
    said = capsys.readouterr().err
    assert words in said
    assert said.startswith("error: ")
    assert said.count("\n") == 1


def test_the_terminal_drops_columns_without_content(tmp_path):
    said = describe_differences(differences(tmp_path), Labels())
    models, pairs = (line for line in said.splitlines() if line.startswith("Model"))
    assert "p adjusted" not in models
    assert "less model" not in models
    assert "p adjusted" in pairs

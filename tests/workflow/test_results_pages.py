"""The pages of results name every file, table, figure and column that a finished run has.

Oracle: the folder of the run. Also for a default run, where RESULTS names its folder.
"""

import csv
import os
import re
import tomllib
from pathlib import Path

import pytest

from beyond_perplexity.report.layout import NOTHING_COLUMN
from tests.workflow.conftest import ROOT

PAGE = (ROOT / "results/README.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def folders(request):
    if given := os.environ.get("RESULTS"):
        return Path(given)
    return request.getfixturevalue("finished").path / "results"


def patterns() -> list[re.Pattern[str]]:
    """Read the paths of the page: a name in braces is one part of a path, ** any number."""
    found = []
    for row in re.findall(r"^\| (`[^|]+) \|", PAGE, re.MULTILINE):
        first, *others = re.findall(r"`([^`]+)`", row)
        stem = first.rpartition(".")[0]
        for path in [first, *(stem + o if o.startswith(".") else o for o in others)]:
            pattern = re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(path)).replace(r"\*\*", ".+")
            found.append(re.compile(pattern))
    return found


def test_every_file_has_a_row(folders):
    known = patterns()
    files = (path for path in folders.rglob("*") if path.is_file())
    names = {str(path.relative_to(folders)) for path in files} - {"README.md"}
    assert names
    unknown = {name for name in names if not any(path.fullmatch(name) for path in known)}
    assert not unknown


@pytest.mark.parametrize("kind", ["tables", "figures"])
def test_every_table_and_figure_has_a_line(folders, kind):
    for path in (folders / kind).rglob("*.csv" if kind == "tables" else "*.svg"):
        numbered = re.fullmatch(r"figure_\d", path.stem)
        assert f"`{path.stem}`" in PAGE or (numbered and "`figure_1` …" in PAGE), path


def test_every_column_of_a_table_has_a_meaning(folders):
    meanings = tomllib.loads((ROOT / "docs/making/meanings.toml").read_text(encoding="utf-8"))
    for path in (folders / "tables").rglob("*.csv"):
        with path.open(encoding="utf-8", newline="") as file:
            for column in next(csv.reader(file)):
                assert column in {*meanings, NOTHING_COLUMN}, (path, column)


def test_the_static_page_shows_every_figure_and_table(folders):
    page = (folders / "index.html").read_text(encoding="utf-8")
    assert "<script" not in page
    assert "system-message" not in page  # of what docutils cannot read
    for kind, suffix in (("figures", "svg"), ("tables", "csv")):
        files = {path.relative_to(folders) for path in (folders / kind).rglob(f"*.{suffix}")}
        assert files
        assert all(f"'{file}'" in page for file in files)

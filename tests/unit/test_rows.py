"""What rows say is what the house does: tendencies and decodings are named in their rows alone.

Oracles: the tables, figures and measures, numbers counted by hand, the syntax trees.
"""

import ast
import json
import shutil
import subprocess
import sys
from pathlib import Path
from pkgutil import resolve_name

import pytest

from beyond_perplexity.decoding.options import DECODINGS
from beyond_perplexity.figures import FIGURES, sample_size, texts
from beyond_perplexity.figures import curves as densities
from beyond_perplexity.report import comparison_page, sensitivity
from beyond_perplexity.report.measured import MEASURED_TABLES
from beyond_perplexity.tendencies.definitions import (
    JUDGE,
    NOVELTY,
    SHARED_NGRAMS,
    SHARES,
    TENDENCIES,
    of_counts,
    tendencies_of,
)
from beyond_perplexity.tendencies.statistics import HISTOGRAMS
from tests.unit.test_measures import (
    folder,  # noqa: F401 (fixtures)
    sample_sets,  # noqa: F401 (fixtures)
    table,  # noqa: F401 (fixtures)
)

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "beyond_perplexity"


@pytest.mark.parametrize("name", [name for name, row in of_counts().items() if row.distance])
def test_a_tendency_is_measured_tabulated_and_drawn(name: str, table) -> None:  # noqa: F811
    row = TENDENCIES[name]
    own = (name, row.distance)
    columns = [column[:2] for held in MEASURED_TABLES.values() for column in held.columns]
    measured = zip(table["tendency"].to_pylist(), table["measure"].to_pylist(), strict=True)
    # These texts are shorter, and have no training text, judge or words that are kept in order.
    elsewhere = min(row.sizes, default=64) >= 32 or name in (NOVELTY, JUDGE, SHARED_NGRAMS)
    assert own in set(measured) or elsewhere
    assert own in texts.EFFECTS
    assert own in [panel[:2] for panel in sample_size.PANELS]
    assert own in [(line.tendency, line.distance) for line in comparison_page.MAIN_ROWS]
    assert any(tendency == name for tendency, _ in columns) or row.kind == "types"
    names = {f"{row.histogram}_{size}" for size in row.sizes if row.histogram}
    names = names or {row.histogram} - {""}
    assert names <= set(HISTOGRAMS)


@pytest.mark.parametrize("name", SHARES)
def test_a_share_has_its_class_its_mean_and_its_figure(name: str) -> None:
    row = SHARES[name]
    assert callable(resolve_name(row.word_class))
    assert FIGURES[f"tendencies/{row.figure}"].code == f"figures.curves:{name}"
    assert callable(getattr(densities, name))
    assert row.noun in comparison_page.PAGE_FIGURES[name][1]
    assert (name, "mean") in [line[:2] for line in sensitivity.TEST_SET_ROWS]
    assert [held.figure for held in SHARES.values()].count(row.figure) == 1
    with pytest.raises(AttributeError, match="no density of 'length'"):
        densities.length  # noqa: B018


def literals() -> dict[str, set[str]]:
    """Find every text of the package and the scripts, with the files that hold it."""
    found: dict[str, set[str]] = {}
    for path in [*PACKAGE.rglob("*.py"), *(ROOT / "scripts").glob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.setdefault(node.value, set()).add(str(path.relative_to(ROOT)))
    return found


def test_names_stand_in_rows_alone() -> None:
    """Published values are keyed by names; the list of stop words is a key of the configuration."""
    held = literals()
    package = "beyond_perplexity"
    rows, published = f"{package}/tendencies/definitions.py", f"{package}/report/published.py"
    signed = f"{package}/tendencies/measurement_options.py"  # keys of what was counted
    files = ("planning/corpora", "planning/configuration_file", "report/comparison_page")
    listed = {"stop_words": {f"{package}/{name}.py" for name in (*files, "tendencies/statistics")}}
    for name in SHARES:
        assert held[name] - listed.get(name, set()) <= {rows, published, signed}
    asked = f"{package}/importance/served_thoughts.py"  # what servers call it
    for name in set(DECODINGS) - {"beam"}:  # beams are searched in importance sampling too
        assert held[name] <= {"beyond_perplexity/decoding/options.py", published, asked}


ROW = """    "shouts": Tendency(
        "Shouts", "share", "ks", "shouts", word_class=f"{_CLASSES}:shout_test",
        figure="figure_10",
    ),
    "vocabulary":"""
TEST = '''
def shout_test(options: ClassOptions) -> ClassTest:
    """Return the test for words of capital letters."""
    return lambda types: np.asarray(pc.utf8_is_upper(types))
'''
PROGRAM = """
import json, sys
import pandas as pd, pyarrow as pa
from beyond_perplexity.figures import (FIGURES, draw_figure)
from beyond_perplexity.figures.labels import (Labels)
from beyond_perplexity.report.measured import (table_3)
from beyond_perplexity.tendencies.curves import curves
from beyond_perplexity.tendencies.measures import measure_rows, measure_table
from beyond_perplexity.tendencies.measurement_options import MeasurementOptions
from beyond_perplexity.tendencies.pairs import paired
from beyond_perplexity.tendencies.statistics import StatisticsCounter, read_statistics
from beyond_perplexity.tendencies.word_classes import StopWords
def count(path, texts):
    with StatisticsCounter(StopWords("test", frozenset({"the"}))) as counter:
        counter.add(pa.array(texts)); counter.write(path, {})
    return read_statistics(path)
first = count("r.parquet", ["the YES 1 , YES", "a NO , the", "b"])
second = count("s.parquet", ["GO", "the the , b"])
options = MeasurementOptions(permutations=0, bootstrap=0, monte_carlo=0)
with paired(first, second, None) as pair:
    found = measure_table(measure_rows(pair, options, 1), pair, "m/ancestral")
rows = {f"{r['tendency']} {r['measure']}": r["value"] for r in found.to_pylist()}
table = table_3(found.to_pandas(), Labels())
both = [curves(first, options, "reference"), curves(second, options, "m/ancestral")]
frame = pd.concat([c.to_pandas() for c in both])
figure = draw_figure("tendencies/figure_10", {"curves": frame}, Labels())
heads = [column.group for column in table.columns]
print(json.dumps([rows, heads, figure.axes[0].get_xlabel(), FIGURES["tendencies/figure_10"].title]))
"""


def test_a_row_and_a_function_make_a_share(tmp_path: Path) -> None:
    """In a copy of the package: words in capitals are counted beside the two that there are."""
    shutil.copytree(PACKAGE, tmp_path / "beyond_perplexity")
    rows = tmp_path / "beyond_perplexity/tendencies/definitions.py"
    rows.write_text(rows.read_text().replace('    "vocabulary":', ROW))
    classes = tmp_path / "beyond_perplexity/tendencies/word_classes.py"
    classes.write_text(classes.read_text() + TEST)
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    values, heads, label, title = json.loads(done.stdout)
    assert values["shouts mean_reference"] == pytest.approx((2 / 5 + 1 / 4) / 3)
    assert values["shouts mean"] == pytest.approx(1 / 2)
    assert values["stop_words mean_reference"] == pytest.approx((1 / 5 + 1 / 4) / 3)
    assert values["symbols mean_reference"] == pytest.approx((2 / 5 + 1 / 4) / 3)
    assert values["symbols mean"] == pytest.approx((1 / 4) / 2)
    assert "Shouts KS" in heads
    assert label == "Fraction of shouts"
    assert title == "Share of shouts"


def test_kinds_of_tendencies_cover_the_table() -> None:
    kinds = {row.kind for row in TENDENCIES.values()}
    assert set(tendencies_of(*kinds)) == set(TENDENCIES)

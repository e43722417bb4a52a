"""The numbers of pages come from their file of numbers or are right; every measure is described.

Oracles: the templates and the file of numbers; the registries; closed forms, worked out here.
"""

import json
import math
import re
import sys
import tomllib
from pathlib import Path

import pytest
from scipy.special import zeta

from beyond_perplexity.importance.ways_to_draw import ESTIMATORS
from beyond_perplexity.schemas import contrastive, estimates
from beyond_perplexity.semantics import measures, word_cosines
from beyond_perplexity.tendencies.definitions import TENDENCIES

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "docs/making"))
from run_numbers import MEANINGS, NUMBERS, TEMPLATES, file_kinds, kind_of, page_of, render  # noqa: E402

PAGES = sorted(TEMPLATES.glob("*.md"))
# What the authors of contrastive entropy print, some of which the run has too, rounded.
OTHER = {"1.23", "1.35", "2.74", "2.82"}


def measured(numbers):
    """Yield the numbers of a run that have three digits or more where they are printed."""
    if isinstance(numbers, dict | list):
        for held in numbers.values() if isinstance(numbers, dict) else numbers:
            yield from measured(held)
    elif isinstance(numbers, float):
        for digits in range(4):
            text = f"{numbers:,.{digits}f}"
            yield from {text, re.sub(r"^(-?)0\.", r"\1.", text)}


@pytest.mark.parametrize("template", PAGES, ids=lambda path: path.name)
def test_a_page_is_what_its_template_makes_and_no_number_of_the_run_is_typed(template):
    numbers = json.loads(NUMBERS.read_text(encoding="utf-8"))
    assert page_of(template).read_text(encoding="utf-8") == render(template, numbers)
    known = {n for n in measured(numbers) if sum(c.isdigit() for c in n.strip("0.")) >= 3} - OTHER
    text = re.sub(r"\{[{%].*?[%}]\}", "", template.read_text(encoding="utf-8"), flags=re.DOTALL)
    text = re.sub(r"```.*?```|`[^`]*`|\([^)]*://[^)]*\)", "", text, flags=re.DOTALL)
    typed = set(re.findall(r"(?<![\w.,-])\d*[.,]?\d[\d,.]*\d(?![\w-])", text))
    assert not typed & known


def test_missing_numbers_are_errors_and_every_column_has_a_meaning(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("{{ perplexity.nobody.token }}")
    with pytest.raises(Exception, match="nobody"):
        render(page, {"perplexity": {}})
    meanings = tomllib.loads(MEANINGS.read_text(encoding="utf-8"))
    tables = json.loads(NUMBERS.read_text(encoding="utf-8"))["tables"]
    kinds = [*file_kinds().items(), *tables.items()]
    own = {f"{kind_of(kind)}.{name}" for kind, held in kinds for name in held}
    names = {name.rpartition(".")[2] for name in own}
    assert names <= meanings.keys()
    assert meanings.keys() <= names | own
    assert all(len(row) == 3 and row[0] for row in meanings.values())


PAGE = (ROOT / "docs/measures.md").read_text()
NAMES = set(re.findall(r"`([^`\s]+)`", PAGE))
CONTRASTS = contrastive.CONTRASTIVE_ENTROPY, contrastive.CONTRASTIVE_RATIO
CONTRASTS += (contrastive.SENTENCE_CROSS_ENTROPY,)
DESCRIBED = {"vocabulary", "text"}  # counted and shown, with no distance


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(set(ESTIMATORS), id="estimators"),
        pytest.param(set(measures.MEASURES), id="meaning"),
        pytest.param(set(TENDENCIES) - DESCRIBED, id="tendencies"),
        pytest.param({row.distance for row in TENDENCIES.values()} - {""}, id="distances"),
        pytest.param(set(CONTRASTS), id="contrastive entropy"),
    ],
)
def test_every_measure_is_described(names):
    assert names - NAMES == set()


def test_diagnostics_are_columns_of_the_table():
    told = re.findall(r"^\| (`(?:ess|largest_weight|k_hat|unique)_.*?) \|", PAGE, re.MULTILINE)
    named = {name for cell in told for name in re.findall(r"`(\w+)`", cell)}
    assert len(named) >= 7
    assert named <= set(estimates.ESTIMATES.names)


def perplexity_of_shares(*probabilities):
    """Return that of rolls in the shares of the probabilities (they need not sum to 1)."""
    return math.exp(-sum(p * math.log(p) for p in probabilities))


def test_numbers_of_the_text_are_right():
    dice = [1 / 6] * 6, [7 / 12] + [1 / 12] * 5
    assert [f"{perplexity_of_shares(*die):.4g}" for die in dice] == ["6", "3.857"]
    hundred = math.exp(-(99 * math.log(99 / 100) + math.log(1 / 500)) / 100)
    assert f"{hundred:.4f}" == "1.0748"
    beyond = 1 - sum(k**-1.1997 for k in range(1, 10_001)) / zeta(1.1997)
    assert f"{beyond:.4f}" == "0.1421"
    options = measures.MeasureOptions()
    assert (options.temperature, options.bias) == (0.1, 8.0)
    assert f"{float(word_cosines.scaled_cosine(0.82, 0.1, 8.0)):.2f}" == "0.55"
    for number in ("it is 6;", "3.857", "1.0748", "0.1421", "0.82 becomes 0.55"):
        assert number in PAGE

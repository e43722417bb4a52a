"""The numbers that pages give of the default run come from its file of numbers, none by hand.

Oracles: the templates and the file of numbers, read here by themselves.
"""

import json
import re
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "docs/making"))
from run_numbers import MEANINGS, NUMBERS, TEMPLATES, file_kinds, page_of, render  # noqa: E402

PAGES = sorted(TEMPLATES.glob("*.md"))
# What the authors of contrastive entropy print, some of which the run has too, rounded.
OTHER = {"1.23", "1.35", "2.74"}


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
    own = {f"{kind.rpartition('/')[2]}.{name}" for kind, held in kinds for name in held}
    names = {name.rpartition(".")[2] for name in own}
    assert names <= meanings.keys()
    assert meanings.keys() <= names | own
    assert all(len(row) == 3 and row[0] for row in meanings.values())

r"""Every table is compiled by pdfLaTeX and fits its page.

Needs pdflatex with adjustbox, booktabs, rotating (texlive-latex-extra, texlive-fonts-recommended),
else skipped. Oracle: TeX's log of the tables in results/ (or LATEX_RESULTS) and of nasty ones.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from beyond_perplexity.report.latex import to_latex
from beyond_perplexity.storage.fingerprint import ROOT
from tests.unit.hostile_tables import hostile_table

RESULTS = Path(os.environ.get("LATEX_RESULTS", ROOT / "results"))
COMPLAINTS = re.compile(
    r"^(?:!|Overfull \\[hv]box|.*Float too large|.*undefined|Missing character|.*multiply).*", re.M
)
SEEDS = range(120)
# With Times, as conferences ask, and other sizes of letters: an explicit size does not grow.
CLASSES = (
    r"\documentclass{article}",
    r"\documentclass[11pt]{article}\usepackage[T1]{fontenc}\usepackage{mathptmx}",
    r"\documentclass[12pt,a4paper]{article}\usepackage[T1]{fontenc}",
    r"\documentclass[twocolumn]{article}",
)

pytestmark = pytest.mark.skipif(not shutil.which("pdflatex"), reason="needs pdflatex")


def skip_without_fonts(head: str) -> None:
    found = subprocess.run(["kpsewhich", "ptmr8t.tfm"], capture_output=True, check=False)
    if "mathptmx" in head and not found.stdout:
        pytest.skip("needs the fonts of texlive-fonts-recommended")


def complaints(folder: Path, head: str, tables: list[str]) -> list[str]:
    """Compile tables into one document and return what TeX complains of, and after which table."""
    sample_set = "".join(
        f"\\typeout{{TABLE {place}}}\n{latex}\n\\clearpage\n" for place, latex in enumerate(tables)
    )
    document = folder / "paper.tex"
    packages = r"\usepackage{adjustbox,booktabs,rotating}"
    document.write_text(f"{head}{packages}\n\\begin{{document}}\n{sample_set}\\end{{document}}\n")
    command = ["pdflatex", "-interaction=nonstopmode", "-no-shell-escape", document.name]
    subprocess.run(command, cwd=folder, capture_output=True, check=False)
    log = (folder / "paper.log").read_text(errors="replace")
    assert "Output written" in log, log[-2000:]
    found = []
    for part in re.split(r"^(?=TABLE \d+)", log, flags=re.M)[1:]:
        number = part.split(maxsplit=2)[1]
        found += [f"{number}: {line}" for line in COMPLAINTS.findall(part)]
    return found


@pytest.mark.parametrize("head", CLASSES)
def test_every_table_of_a_run_fits_its_page(head: str, tmp_path: Path) -> None:
    skip_without_fonts(head)
    files = sorted(RESULTS.glob("tables/**/*.tex"))
    if not files:
        pytest.skip(f"there are no tables in {RESULTS}: make run")
    print(f"{len(files)} tables of {RESULTS}")
    found = complaints(tmp_path, head, [file.read_text() for file in files])
    assert not [line for line in found if "multiply" not in line], [str(file) for file in files]


@pytest.mark.parametrize("head", CLASSES)
def test_tables_that_are_hard_to_print_fit_their_page(head: str, tmp_path: Path) -> None:
    skip_without_fonts(head)
    tables = [hostile_table(seed) for seed in SEEDS]
    assert not complaints(tmp_path, head, [to_latex(table) for table in tables])


def test_a_complaint_is_noticed(tmp_path: Path) -> None:
    wide = r"\begin{table*}\noindent\rule{400pt}{1pt}\rule{1pt}{700pt}\end{table*}"
    found = complaints(tmp_path, CLASSES[0], ["fine", wide])
    assert any("Overfull" in line for line in found)
    assert any("Float too large" in line for line in found)
    assert all(line.startswith("1:") for line in found)

"""The package as a user installs it: built by `build`, its dependencies from PyPI, extra by extra.

Needs PyPI and 3 GB. Oracles: what pip says; the exit status of a command of every extra.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# What needs no extra does not get these.
OF_MODELS = {"torch", "safetensors", "tokenizers", "transformers"}
OF_WORKFLOW = {"snakemake", "mwparserfromhell", "textblob"}
MODEL = "import torch; from beyond_perplexity.models.registry import load_any"


def run(*command: str | Path, folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return done.stdout


def environment(folder: Path, *packages: str | Path) -> Path:
    """Make an environment with some packages and return the folder of its programs."""
    run(sys.executable, "-m", "venv", folder / "environment", folder=folder)
    programs = folder / "environment" / "bin"
    run(programs / "python", "-m", "pip", "install", "--quiet", *packages, folder=folder)
    return programs


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build as the packaging guide says, out of a clean clone."""
    folder = tmp_path_factory.mktemp("built")
    run("git", "clone", "--quiet", "--depth=1", f"file://{ROOT}", folder / "clone", folder=folder)
    programs = environment(folder, "build")
    run(programs / "python", "-m", "build", "--outdir", folder / "dist", folder=folder / "clone")
    (found,) = (folder / "dist").glob("*.whl")
    assert list((folder / "dist").glob("*.tar.gz"))
    assert run("git", "status", "--porcelain", "--ignored", folder=folder / "clone").split() in (
        [],
        ["!!", "beyond_perplexity.egg-info/"],
    )
    return found


def installed(programs: Path, folder: Path) -> set[str]:
    listed = run(programs / "python", "-m", "pip", "list", "--format=json", folder=folder)
    return {package["name"].lower() for package in json.loads(listed)}


def test_without_an_extra_texts_are_compared(wheel: Path, tmp_path: Path) -> None:
    programs = environment(tmp_path, wheel)
    assert not installed(programs, tmp_path) & (OF_MODELS | OF_WORKFLOW)
    lines = [f"the cat number {n % 7} sat on mat {n} .\n" for n in range(60)]
    (tmp_path / "a.txt").write_text("".join(lines))
    (tmp_path / "b.txt").write_text("".join(lines[10:]))
    flags = ["--reference", "a.txt", "--samples", "b.txt", "--out", "out", "--permutations", "99"]
    run(programs / "beyond-perplexity", "compare", *flags, folder=tmp_path)
    assert (tmp_path / "out" / "compare.html").stat().st_size > 10_000
    run(programs / "python", "-m", "pip", "check", folder=tmp_path)
    flags = ["--text", "a.txt", "--arpa", "a.arpa", "--order", "2"]
    run(programs / "beyond-perplexity", "estimate-ngram", *flags, folder=tmp_path)


def test_with_the_workflow_a_run_is_planned_and_begun(wheel: Path, tmp_path: Path) -> None:
    programs = environment(tmp_path, f"{wheel}[workflow]", "torch==2.13.0")
    assert installed(programs, tmp_path) >= OF_WORKFLOW | (OF_MODELS - {"transformers"})
    run(programs / "python", "-c", MODEL, folder=tmp_path)
    command = programs / "beyond-perplexity"
    run(command, "run", "--init", "mine", folder=tmp_path)
    run(command, "run", "--dry-run", "--quiet", folder=tmp_path / "mine")
    said = run(command, "run", "--dry-run", "--cores=1", "corpora", folder=tmp_path / "mine")
    assert "extract_corpus" in said
    run(command, "run", "--cores=2", "corpora", folder=tmp_path / "mine")
    assert (tmp_path / "mine/results/corpora/wikipedia/documents.parquet").is_file()

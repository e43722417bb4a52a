"""What a job imports before it begins: each script no heavy library that it does not need.

Oracle: the table below, of what each script works with; and `sys.modules` of a fresh interpreter
that has imported it. Importing them takes, in seconds of a CPU: torch 0.9,
transformers 0.5, SciPy's statistics 0.6 and optimization 0.3, pandas and matplotlib 0.3 each,
NLTK and arviz-stats 0.7.
"""

from __future__ import annotations

import json
import pkgutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import beyond_perplexity.commands
import beyond_perplexity.figures
import beyond_perplexity.models
from beyond_perplexity.commands.library_functions import OPTION_SETS
from beyond_perplexity.storage.fingerprint import ROOT
from tests.unit.huggingface_models import make_gpt2

HEAVY = {
    *("torch", "transformers", "pandas", "matplotlib", "scipy"),
    *("scipy.stats", "arviz_stats", "nltk", "gensim", "textblob", "sacremoses", "networkx"),
    *("pydantic", "snakemake"),
}
# The scripts that have imported some of these; all others, and the commands of the package before
# their options are read, none.
NEEDS = {
    ("torch",): [
        *("describe_latents", "draw", "embed_graph", "estimate_partition", "generate"),
        *("measure_perplexity", "predict_words", "score_beside", "score_contrast", "train"),
    ],
    ("scipy",): ["embed", "measure_tendencies"],
    ("scipy", "scipy.stats"): ["measure_embeddings", "measure_sensitivity"],
    ("matplotlib", "pandas"): ["plot"],
    ("pandas",): [
        *("compare_semantics", "measure_semantics", "probe_evaluator", "relate_measures"),
        *("score_semantics", "tabulate", "write_overview"),
    ],
    ("pydantic",): ["update_configuration_page"],
}
SCRIPTS = [path.stem for path in sorted(Path(ROOT, "scripts").glob("[!_]*.py"))]


def modules_of(package: ModuleType) -> list[str]:
    return [row.name for row in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")]


COMMANDS = [
    *modules_of(beyond_perplexity.commands),
    *(f"beyond_perplexity.{place.partition(':')[0]}" for place in OPTION_SETS.values()),
]
# Which further modules it then chooses from by name.
LATER = {
    "build_vocabulary": ["beyond_perplexity.vocabulary"],
    "generate": [  # all but what is made of transformers
        name for name in modules_of(beyond_perplexity.models) if "huggingface" not in name
    ],
    "plot": modules_of(beyond_perplexity.figures),
}
IMPORT_ALL = """
import importlib, json, sys
heavy, names = json.loads(sys.argv[1])
found = {}
for name in names:
    importlib.import_module(name)
    found[name] = [library for library in heavy if library in sys.modules]
print(json.dumps(found))
"""
SCORE = """
import sys
from beyond_perplexity.__main__ import main

main(["perplexity", "--model", sys.argv[1], "--text", sys.argv[2]])
# What transformers brings itself is not ours to leave out.
print({"pandas", "matplotlib", "scipy.stats", "nltk"} & set(sys.modules) or "none")
"""


def python(*arguments: str) -> str:
    command = [sys.executable, "-c", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert not done.returncode, done.stderr
    return done.stdout


@pytest.mark.parametrize("needs", [(), *NEEDS])
def test_scripts_import_what_they_need_and_no_more(needs: tuple[str, ...]) -> None:
    """Scripts of equal needs share an interpreter."""
    named = {script for scripts in NEEDS.values() for script in scripts}
    assert named | set(LATER) <= set(SCRIPTS)
    names = [] if needs else [*COMMANDS]
    for script in NEEDS.get(needs, sorted(set(SCRIPTS) - named)):
        names += [f"scripts.{script}", *LATER.get(script, [])]
    found = json.loads(python(IMPORT_ALL, json.dumps([sorted(HEAVY), names])))
    assert set(found) == set(names)
    for name in names:
        assert set(found[name]) <= set(needs), f"{name} imports what it does not need"
    assert set(found[names[-1]]) == set(needs), "the table says too much"


def test_a_plan_imports_neither_torch_nor_statistics() -> None:
    """Every start of Snakemake, and so every job on a cluster, pays for what planning imports."""
    modules = [f"beyond_perplexity.planning.{name}" for name in ("run", "job_costs", "validation")]
    found = json.loads(python(IMPORT_ALL, json.dumps([sorted(HEAVY), modules])))
    assert not {"torch", "transformers", "scipy.stats", "nltk"} & set(found[modules[-1]])


def test_scoring_by_a_hugging_face_model_imports_little_but_its_library(tmp_path: Path) -> None:
    make_gpt2(tmp_path)
    (tmp_path / "text.txt").write_text("the cat sat on the mat .\n")
    assert python(SCORE, str(tmp_path), str(tmp_path / "text.txt")).splitlines()[-1] == "none"


def test_gensims_stop_words_come_without_gensim() -> None:
    load = "from beyond_perplexity.tendencies.word_classes import load_stop_words as load; "
    assert python(f"import sys; {load}load('gensim'); print('gensim' in sys.modules)") == "False\n"

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

import pytest

import beyond_perplexity.figures
import beyond_perplexity.models
from beyond_perplexity.storage.fingerprint import ROOT
from tests.unit.huggingface_models import make_gpt2

HEAVY = {
    *("torch", "transformers", "pandas", "matplotlib", "scipy"),
    *("scipy.stats", "arviz_stats", "nltk", "gensim", "textblob", "sacremoses", "networkx"),
    *("pydantic", "snakemake"),
}
# What a script has imported of these (the commands of the package: before their options are
# read); which further modules it then chooses from by name.
NEEDS = {
    "audit": set(),
    "build_speller": set(),
    "build_vocabulary": set(),
    "choose_words": set(),
    "compare": set(),
    "compare_contrast": set(),
    "compare_perplexity": set(),
    "compare_semantics": set(),
    "contrast": set(),
    "count_statistics": set(),
    "cut_sentences": set(),
    "describe_latents": {"torch"},
    "draw": {"torch"},
    "embed": {"scipy"},
    "embed_graph": {"torch"},
    "estimate": set(),
    "estimate_ngram": set(),
    "estimate_partition": {"torch"},
    "extract_corpus": set(),
    "generate": {"torch"},
    "import_samples": set(),
    "measure_contrast": set(),
    "measure_embeddings": {"scipy", "scipy.stats"},
    "measure_perplexity": {"torch"},
    "measure_semantics": set(),
    "measure_sensitivity": {"scipy", "scipy.stats"},
    "measure_tendencies": {"scipy"},
    "merge_statistics": set(),
    "perplexity": set(),
    "plan": set(),
    "plot": {"pandas", "matplotlib"},
    "predict_words": {"torch"},
    "progress": set(),
    "provenance": set(),
    "probe_evaluator": set(),
    "reduce_weights": set(),
    "relate_measures": set(),
    "score_beside": {"torch"},
    "score_contrast": {"torch"},
    "score_semantics": set(),
    "similarity": set(),
    "tabulate": {"pandas"},
    "tokenize": set(),
    "train": {"torch"},
    "train_evaluator": set(),
    "update_configuration_page": {"pydantic"},
    "verify_download": set(),
    "write_overview": {"pandas"},
}
LATER = {
    "build_vocabulary": ["beyond_perplexity.vocabulary"],
    "generate": [
        found.name
        for found in pkgutil.walk_packages(
            beyond_perplexity.models.__path__, "beyond_perplexity.models."
        )
        if "huggingface" not in found.name  # which is made of transformers
    ],
    "plot": [
        found.name
        for found in pkgutil.walk_packages(
            beyond_perplexity.figures.__path__, "beyond_perplexity.figures."
        )
    ],
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


def test_the_table_names_every_script() -> None:
    assert set(NEEDS) == {path.stem for path in Path(ROOT, "scripts").glob("[!_]*.py")}
    assert set(LATER) <= set(NEEDS)


@pytest.mark.parametrize("needs", sorted({tuple(sorted(needs)) for needs in NEEDS.values()}))
def test_scripts_import_what_they_need_and_no_more(needs: tuple[str, ...]) -> None:
    """Scripts of equal needs share an interpreter."""
    names = []
    for script in (script for script, found in NEEDS.items() if found == set(needs)):
        names += [f"scripts.{script}", *LATER.get(script, [])]
    found = json.loads(python(IMPORT_ALL, json.dumps([sorted(HEAVY), names])))
    assert set(found) == set(names)
    for name in names:
        assert set(found[name]) <= set(needs), f"{name} imports what it does not need"
    assert set(found[names[-1]]) == set(needs), "the table says too much"


def test_scoring_by_a_hugging_face_model_imports_little_but_its_library(tmp_path: Path) -> None:
    make_gpt2(tmp_path)
    (tmp_path / "text.txt").write_text("the cat sat on the mat .\n")
    assert python(SCORE, str(tmp_path), str(tmp_path / "text.txt")).splitlines()[-1] == "none"


def test_gensims_stop_words_come_without_gensim() -> None:
    load = "from beyond_perplexity.tendencies.word_classes import load_stop_words as load; "
    assert python(f"import sys; {load}load('gensim'); print('gensim' in sys.modules)") == "False\n"

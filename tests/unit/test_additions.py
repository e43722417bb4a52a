"""What an addition changes among the fingerprints of all jobs: nothing that does not use it.

Each is added to a temporary copy of the code. Oracle: the jobs that use what was added.
"""

import dataclasses
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from pkgutil import resolve_name

import pytest

from beyond_perplexity.models.families import FAMILIES
from beyond_perplexity.planning.models import Models
from tests.workflow.toys import ROOT, add

# All jobs of a run with every family of models, every decoding and all draws.
PROGRAM = """
import json, yaml
from beyond_perplexity.figures import (FIGURES)
from beyond_perplexity.importance.ways_to_draw import DRAWS
from beyond_perplexity.planning.run import Run
from beyond_perplexity.planning.validation import validate
from beyond_perplexity.report import (TABLES)
from beyond_perplexity.storage.fingerprint import fingerprint
config, latent = (
    yaml.safe_load(open(f"configs/smoke{name}.yaml")) for name in ("", "-importance")
)
split = {"train": 0.5, "valid": 0.1, "test": 0.4}
plain = {"corpus": "wikipedia", "vocabulary": "words"}
families = ("cnn", "gru", "transformer", "transformer-adaptive-softmax")
config["models"] |= {name: {"family": name, **plain} for name in families} | latent["models"]
config |= {name: latent[name] for name in ("corpora", "proposals", "importance")}
config["corpora"] |= {
    form: {"source": {"format": form, "paths": ["x"]}, "split": split}
    for form in ("text", "jsonl", "parquet", "penn", "conll", "linked-wikitext")
}
config["external_samples"] = {"own": {"corpus": "wikipedia", "path": "x"}}
kinds = ("ancestral", "nucleus", "top_k", "typical", "min_p")
config["decodings"] |= {kind: {"kind": kind} for kind in kinds}
validate(config)
run = Run(config)
plan, codes = run.importance, {}
def note(script, *others, what=""):
    functions = ("compare_perplexity", "contrast")
    folder = "beyond_perplexity/library" if script in functions else "scripts"
    codes[f"{script} {what}".strip()] = fingerprint(f"{folder}/{script}.py", *others)
alone = "verify_download build_vocabulary embed_graph merge_statistics measure_tendencies "
alone += "measure_sensitivity measure_contrast compare_perplexity compare_contrast "
for script in f"{alone} measure_semantics compare_semantics".split():
    note(script)
for evaluator in run.semantics.evaluators():
    note("score_semantics", *run.evaluators.code(evaluator), what=evaluator)
    note("probe_evaluator", *run.evaluators.code(evaluator), what=evaluator)
for corpus in config["corpora"]:
    note("extract_corpus", *run.corpora.code(corpus), what=corpus)
note("import_samples", *run.corpora.external_code("own"))
for model in config["models"]:
    note("train", *run.models.training_code(model), what=model)
    if model in latent["models"]:
        continue
    exact = run.models.row(model).kind != "unnormalized"
    scripts = ["measure_perplexity", "predict_words", "draw_thoughts"] * exact
    for script in ["score_contrast", "contrast", *scripts]:
        note(script, *run.models.code(model), what=model)
    if not exact:
        continue
    for decoding in config["decodings"]:
        code = run.samples.generating_code(model, decoding)
        note("generate", *code, what=f"{model}/{decoding}")
for proposal in config["proposals"]:
    model = plan.model_of(proposal)
    note("train", *run.models.training_code(proposal), what=proposal)
    note("describe_latents", *plan.code(model, proposal), what=proposal)
    for draw in DRAWS:
        note("draw", *plan.code(model, proposal, draw), what=f"{proposal}/{draw}")
    note("reduce_weights", *plan.reduction_code(proposal), what=proposal)
note("reduce_thoughts", *run.thoughts.reduction_code())
codes["count_statistics"] = run.samples.counting_code("scripts/count_statistics.py")
codes["write_overview"] = run.report.overview_code("scripts/write_overview.py")
for script, rows in (("tabulate", TABLES), ("plot", FIGURES)):
    for name in rows:
        group, exhibit = name.split("/")
        codes[f"{script} {name}"] = run.report.code(script, rows, group, exhibit)
print(json.dumps(codes))
"""
SCHEMA = """
import pyarrow as pa

from beyond_perplexity.schemas import columns, int32s

TOYS = columns("toys", int32s("toy"))
"""


def make_copy(folder: Path) -> Path:
    ignored = shutil.ignore_patterns("__pycache__")
    for name in ("beyond_perplexity", "scripts", "configs", "rules"):
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    return folder


def find_codes(tree: Path) -> dict[str, str]:
    """Return the fingerprint of every job by its script and what it is about."""
    environment = {**os.environ, "XDG_CACHE_HOME": str(tree.parent / "cache")}
    asked = {"cwd": tree, "env": environment, "capture_output": True, "text": True}
    done = subprocess.run([sys.executable, "-c", PROGRAM], **asked)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def before(tmp_path_factory) -> dict[str, str]:
    return find_codes(make_copy(tmp_path_factory.mktemp("before")))


@pytest.fixture
def tree(tmp_path) -> Path:
    return make_copy(tmp_path)


def find_changed(before: dict[str, str], tree: Path) -> tuple[set[str], set[str]]:
    """Return the jobs whose code is another than before, and those that are new."""
    after = find_codes(tree)
    assert before.keys() <= after.keys()
    return {job for job in before if after[job] != before[job]}, after.keys() - before.keys()


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))


def pick(jobs: dict[str, str], *beginnings: str) -> set[str]:
    return {job for job in jobs if job.startswith(beginnings)}


def test_what_no_result_has_changes_nothing(before, tree) -> None:
    """What nobody uses; schemas in all modules and in a new one; messages of commands."""
    for kind in ("model family", "latent family", "decoding", "reader", "figure", "table"):
        add(tree, kind)
    for path in sorted((tree / "beyond_perplexity/schemas").glob("*.py")):
        if path.name not in ("__init__.py", "columns.py"):
            path.write_text(path.read_text() + SCHEMA)
    (tree / "beyond_perplexity/schemas/toys.py").write_text(SCHEMA)
    errors = tree / "beyond_perplexity/errors.py"
    edit(errors, "stopped by Ctrl-C", "ended by Ctrl-C")
    edit(errors, "check the path", "look at the path")
    added = {"plot tendencies/losses", "tabulate tendencies/epochs"}
    assert find_changed(before, tree) == (set(), added)


def test_an_estimator_changes_what_estimates_and_shows_estimates(before, tree) -> None:
    add(tree, "estimator")
    beginnings = ("reduce_", "tabulate importance/", "plot importance/", "write_overview")
    assert find_changed(before, tree) == (pick(before, *beginnings), set())


@pytest.mark.parametrize(
    ("kind", "figure"),
    [("tendency", set()), ("tendency of a class of words", {"plot tendencies/figure_digits"})],
)
def test_a_tendency_changes_what_counts_measures_and_shows_tendencies(
    before, tree, kind, figure
) -> None:
    """Figures of curves, what is of models alone, real texts, importance sampling show no more."""
    add(tree, kind)
    changed, new = find_changed(before, tree)
    assert new == figure
    measured = pick(before, "count_", "merge_", "measure_tendencies", "measure_sensitivity")
    shown = {
        "main",
        "novelty",
        "recurrence",
        "sample_size",
        "sample_size_p_values",
        "sensitivity",
        "figure_8",
        "figure_9",
    }
    figures = {f"plot tendencies/{name}" for name in shown}
    unmeasured = ("samples", "perplexity_differences", "perplexity_parts", "embeddings", "words")
    unmeasured += ("table_1",)
    others = {f"tabulate tendencies/{name}" for name in unmeasured}
    tables = pick(before, "tabulate tendencies/") - others
    assert changed == measured | figures | tables | {"write_overview"}


def test_an_edit_of_what_counts_changes_what_counts(tree) -> None:
    add(tree, "tendency")
    added = find_codes(tree)
    edit(tree / "beyond_perplexity/tendencies/word_length.py", "utf8_length", "binary_length")
    assert find_changed(added, tree) == ({"count_statistics"}, set())


def test_an_edit_of_a_vocabulary_changes_what_builds_and_reads_one(before, tree) -> None:
    old = "class ClosedVocabulary(Vocabulary):"
    edit(tree / "beyond_perplexity/vocabulary.py", old, f"{old}\n    edited = True\n")
    changed, _ = find_changed(before, tree)
    users = ("build_vocabulary", "train", "measure_perplexity", "generate", "draw", "describe_")
    assert changed >= pick(before, *users)


def test_an_edit_of_a_title_changes_what_prints_it(before, tree) -> None:
    families = tree / "beyond_perplexity/models/families.py"
    edit(families, '"LSTM", options="RecurrentOptions"', '"LSTM", "Other", "RecurrentOptions"')
    papers = ("tendencies", "contrastive", "semantics", "relations")
    beginnings = [f"{script} {paper}/" for script in ("tabulate", "plot") for paper in papers]
    assert find_changed(before, tree) == (pick(before, *beginnings, "write_overview"), set())


@pytest.mark.parametrize(
    ("file", "users"),
    [
        ("models/recurrent", ("lstm", "gru")),
        ("models/latents/kglm_tagger", ("kglm-peeking",)),
        ("models/latents/rnng_span_crf", ("rnng",)),  # which can be trained with it
        ("decoding/nucleus", ("/nucleus",)),
        ("corpus/conll", ("conll",)),
        ("semantics/evaluators/skipthought", ("skipthought",)),
        ("semantics/evaluators/infersent", ("infersent",)),
        ("semantics/probes", ("probe_evaluator",)),
        ("decoding/beam", ("generate ",)),
    ],
)
def test_an_edit_changes_just_its_own(before, tree, file, users) -> None:
    path = tree / f"beyond_perplexity/{file}.py"
    path.write_text(path.read_text() + "\nassert True\n")
    changed, new = find_changed(before, tree)
    assert changed
    assert not new
    assert all(any(user in job for user in users) for job in changed), sorted(changed)
    assert all(any(user in job for job in changed) for user in users)


def test_a_default_of_training_trains_no_counted_model(before, tree) -> None:
    options = tree / "beyond_perplexity/training/options.py"
    edit(options, "patience: Count = 3", "patience: Count = 4")
    changed, _ = find_changed(before, tree)
    trained = pick(before, "train ")
    assert trained - changed == {f"train {name}" for name in ("trigram", "kn-3", "kneser-ney")}


@pytest.mark.parametrize("family", ["lstm", "sentence-rnn", "discriminative-rnng", "huggingface"])
def test_a_default_that_is_written_out_is_the_same_training(family) -> None:
    """And another value is another one; an external model with defaults alone is still trained."""
    row = FAMILIES[family]
    section = "proposals" if row.kind == "proposal" else "models"
    defaults = dataclasses.asdict(resolve_name(row.training)())

    def ask(**training) -> str:
        model = {"family": family, "architecture": {}, "training": training}
        model |= {"model": "of", "corpus": "", "vocabulary": ""}
        config = {"models": {"of": model}, "proposals": {}}
        config[section] = {**config[section], "own": model}
        return Models(config).options("own")

    assert defaults["patience"] == 3
    first = ask(maximum_epochs=99)
    assert ask(maximum_epochs=99, patience=3) == first
    assert ask(**{**defaults, "maximum_epochs": 99}) == first
    assert ask(maximum_epochs=99, patience=4) != first
    assert ask(patience=3) == ask(**defaults)
    assert (ask() == ask(patience=3)) == (row.kind != "external")

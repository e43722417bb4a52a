"""The package installed outside the checkout: its command, the workflow in it, what extras are for.

A wheel is built and installed as pip does. Oracles: the checkout (bytes, fingerprints), exit
statuses, folders, and `sys.modules` of a fresh interpreter: imports take, in seconds of a CPU,
torch 0.9, transformers 0.5, SciPy's statistics 0.6 and optimization 0.3, pandas and matplotlib 0.3,
NLTK and arviz-stats 0.7.
"""

import json
import pkgutil
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from types import ModuleType

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import beyond_perplexity
import beyond_perplexity.commands
import beyond_perplexity.figures
import beyond_perplexity.models
from beyond_perplexity import __main__, errors
from beyond_perplexity.commands.library_functions import OPTION_SETS
from beyond_perplexity.storage.fingerprint import fingerprint
from beyond_perplexity.storage.shards import read_record
from tests.unit.huggingface_models import make_gpt2
from tests.unit.installed import ROOT, TINY_CONFIG, Installed, install

CARRIED = ("Snakefile", "config.yaml", "configs", "envs", "profiles", "rules", "scripts")
OF_MODELS = "safetensors tokenizers torch transformers"
OF_SEMANTICS = "gensim ot"
OF_WORKFLOW = "mwparserfromhell pydantic snakemake textblob yaml"
VECTORS = "the 0.1 0.2\ncat 0.3 0.1\nsat -0.2 0.5\non 0.4 0.7\nmat -0.1 -0.3\n"
FINGERPRINT = """
from beyond_perplexity.storage.fingerprint import ROOT, fingerprint
print(fingerprint("scripts/train.py", "beyond_perplexity/models/elman.py"), ROOT)
"""

WITHOUT_EXTRAS = """
import pandas as pd
import beyond_perplexity as library
from beyond_perplexity.__main__ import main

few = ["--permutations", "9", "--bootstrap", "9"]
main(["compare", "--reference", "a.txt", "--samples", "b.txt", "--out", "out", *few])
main(["estimate-ngram", "--text", "a.txt", "--order", "2", "--arpa", "a.arpa"])
scores = pd.DataFrame({"bytes": [9, 8, 7], "log_likelihood": [-9.0, -7.0, -8.0]})
assert len(library.compare_perplexity({"a": scores, "b": scores - [0, 1]}).table)
weights = {"instance_id": [0, 0, 1, 1], "sample_id": [0, 1, 0, 1], "n_tokens": [3, 3, 4, 4]}
weights |= {"log_p": [-9.0, -8.5, -11.0, -12.0], "log_q": [-2.0, -2.5, -1.0, -2.0]}
assert len(library.estimate(pd.DataFrame(weights)).table)
assert len(library.contrast([-1.0, -2.0, -3.0], [-2.0, -3.0, -5.0]).table)
assert len(library.similarity(["the cat"], ["the cat sat"], evaluator="words.txt").table)
print("all of them")
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return install(tmp_path_factory.mktemp("installed"))


def listing(folder: Path) -> dict[str, int]:
    """Return the files below a folder with when they were changed, compiled code aside."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    return {str(path): path.stat().st_mtime_ns for path in files}


def test_the_wheel_carries_the_workflow_of_the_checkout_with_its_fingerprint(installed: Installed):
    tops = [ROOT / name for name in CARRIED]
    files = [path for top in tops for path in ([top] if top.is_file() else top.rglob("*"))]
    kept = [path for path in files if path.is_file() and "__pycache__" not in path.parts]
    wanted = {f"beyond_perplexity/workflow/{p.relative_to(ROOT)}": p.read_bytes() for p in kept}
    with zipfile.ZipFile(installed.wheel) as wheel:
        held = {name: wheel.read(name) for name in wheel.namelist()}
    assert {n: c for n, c in held.items() if n.startswith("beyond_perplexity/workflow/")} == wanted
    modules = {str(path.relative_to(ROOT)) for path in ROOT.glob("beyond_perplexity/**/*.py")}
    assert modules == {name for name in held if name.endswith(".py") and "/workflow/" not in name}
    metadata = f"beyond_perplexity-{beyond_perplexity.__version__}.dist-info"
    assert {name.split("/")[0] for name in held} <= {"beyond_perplexity", metadata}
    assert "beyond_perplexity/py.typed" in held
    assert not (ROOT / "beyond_perplexity" / "workflow").exists()
    # So what a checkout made is not made again by the installed package
    status, said, error = installed.call("python", "-c", FINGERPRINT)
    found, root = said.split()
    assert (status, error) == ("0", "")
    assert found == fingerprint("scripts/train.py", "beyond_perplexity/models/elman.py")
    assert root == str(installed.packages / "beyond_perplexity" / "workflow")


def test_version_help_wrong_use_and_a_filter(installed: Installed) -> None:
    version = f"beyond-perplexity {beyond_perplexity.__version__}\n"
    assert installed.call("beyond-perplexity", "--version") == ["0", version, ""]
    assert installed.call("python", "-m", "beyond_perplexity", "--version") == ["0", version, ""]
    status, said, _ = installed.call("beyond-perplexity", "--help")
    assert status == "0"
    assert all(re.search(rf"^  {name} ", said, re.MULTILINE) for name in __main__.SUBCOMMANDS)
    for number in ("0", "1", "2", "130", "141", "143"):
        assert re.search(rf"\b{number}\b", said.partition("exit status")[2])
    for wrong in ([], ["compute"], ["--seed", "1"], ["compare", "--no-such"]):
        status, said, error = installed.call("beyond-perplexity", *wrong)
        assert (status, said) == ("2", "")
        assert "Traceback" not in error
        assert error.startswith("usage: beyond-perplexity")
    status, said, error = installed.call("beyond-perplexity", "tokenize", text="Hello, world!\n")
    assert (status, said, error) == ("0", "Hello , world !\n", "stdin: 1 line read, all used\n")
    status, _, error = installed.call("beyond-perplexity", "compare-perplexity", "none.csv")
    assert status == "1"
    assert re.fullmatch(r"error: none\.csv: [^\n]+\n", error)


def test_what_reads_texts_scores_and_weights_needs_no_extra(installed: Installed) -> None:
    lines = [f"the cat number {n % 7} sat on mat {n} .\n" for n in range(60)]
    (installed.outside / "a.txt").write_text("".join(lines))
    (installed.outside / "b.txt").write_text("".join(lines[20:]))
    (installed.outside / "words.txt").write_text(VECTORS)
    lacking = f"{OF_MODELS} {OF_SEMANTICS} {OF_WORKFLOW}"
    status, said, error = installed.call("python", "-c", WITHOUT_EXTRAS, lacking=lacking)
    assert status == "0", error
    assert said.endswith("all of them\n")
    written = {path.name for path in (installed.outside / "out").iterdir()}
    assert {"compare.html", "tendencies.csv"} <= written


@pytest.mark.parametrize(
    ("command", "lacking", "extra"),
    [
        ("perplexity --model m --text t", OF_MODELS, "models"),
        ("contrast --model m --pairs p", OF_MODELS, "models"),
        ("similarity --pairs p.tsv --evaluator words.txt --measure wmd", OF_SEMANTICS, "semantics"),
        ("run --configfile c.yaml", OF_WORKFLOW, "workflow"),
    ],
)
def test_what_lacks_an_extra_names_it(command, lacking, extra, installed) -> None:
    (installed.outside / "words.txt").write_text(VECTORS)
    (installed.outside / "p.tsv").write_text("a\tb\nthe cat\tsat on mat\n")
    status, said, error = installed.call("beyond-perplexity", *command.split(), lacking=lacking)
    assert (status, said) == ("1", "")
    wanted = rf"error: [^\n]*\bpip install 'beyond-perplexity\[{extra}\]'\n"
    assert re.fullmatch(wanted, error), error


def test_options_are_read_without_an_extra(installed: Installed) -> None:
    """Help is there for all: what a command needs is imported after its options are read."""
    for name in sorted(__main__.SUBCOMMANDS):
        lacking = f"{OF_MODELS} {OF_SEMANTICS} {OF_WORKFLOW}"
        status, said, error = installed.call("beyond-perplexity", name, "--help", lacking=lacking)
        assert status == "0", error
        assert said.startswith(f"usage: beyond-perplexity {name} ")
        assert "exit status: 0" in said


def test_the_workflow_runs_where_other_scripts_are(installed: Installed) -> None:
    """In a folder with other packages of these names; the environment is in a repository."""
    place = installed.outside / "project"
    for name in ("scripts", "beyond_perplexity"):
        (place / name).mkdir(parents=True)
        (place / name / "__init__.py").write_text("raise SystemExit('not ours')\n")
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "init", "-q", "."], cwd=installed.environment, check=True)
    commit = [*git, "commit", "-q", "--allow-empty", "-m", "x"]
    subprocess.run(commit, cwd=installed.environment, check=True)
    (place / "config.yaml").write_text(TINY_CONFIG)
    (place / "text.txt").write_text("The cat sat on the mat, and the dog ran away.\n" * 20)
    before = listing(installed.packages)
    target = "results/corpora/mine/documents.parquet"
    options = ["--quiet", "--", target]  # how many cores: the profile in the package says it
    status, _, error = installed.call("beyond-perplexity", "run", *options, folder="project")
    assert status == "0", error
    record = read_record(place / target)
    assert record["git_commit"] is None  # not that of the repository that the package lies in
    script = "scripts/extract_corpus.py"
    assert (record["script"], record["code_fingerprint"]) == (script, fingerprint(script))
    assert listing(installed.packages) == before


def test_run_begins_with_a_configuration(installed: Installed) -> None:
    place = installed.outside / "new"
    place.mkdir()
    status, _, error = installed.call("beyond-perplexity", "run", folder="new")
    assert (status, error.count("\n")) == ("1", 1)
    assert "beyond-perplexity run --init ." in error
    status, said, error = installed.call("beyond-perplexity", "run", "--init", ".", folder="new")
    assert (status, error) == ("0", "")
    written = ["config.yaml", "profiles/slurm/config.yaml", "profiles/slurm/partitions.yaml"]
    assert sorted(str(p.relative_to(place)) for p in place.rglob("*.*") if p.is_file()) == written
    for name in written:
        assert (place / name).read_text() == (ROOT / name).read_text()
        assert name in said
    assert (place / "config.yaml").read_text().startswith("# ")
    assert yaml.safe_load((place / "config.yaml").read_text())
    (place / "config.yaml").write_text("mine")
    for folder in (".", "../new"):
        given = "run", "--init", folder
        status, _, error = installed.call("beyond-perplexity", *given, folder="new")
        assert (status, error.count("\n")) == ("1", 1)
        assert "is there already" in error
    assert (place / "config.yaml").read_text() == "mine"
    template = ["--init", "paper", "--template", "paper-importance"]
    assert installed.call("beyond-perplexity", "run", *template, folder="new")[0] == "0"
    source = ROOT / "configs" / "paper-importance.yaml"
    assert (place / "paper" / "config.yaml").read_bytes() == source.read_bytes()
    alone = installed.call("beyond-perplexity", "run", *template[2:], folder="new")
    assert (alone[0], alone[1]) == ("2", "")
    for missing in (["--configfile=none.yaml"], ["--cores", "1", "--configfile", "none.yaml"]):
        lost = installed.call("beyond-perplexity", "run", *missing, folder="new")
        assert lost == ["1", "", "error: none.yaml: no such file\n"]
    conda = installed.call("beyond-perplexity", "run", "--sdm", "conda", folder="new")
    assert (conda[0], conda[2].count("\n")) == ("1", 1)


def test_subcommands_are_modules_and_functions_and_extras_install_what_messages_say() -> None:
    files = {path.stem for path in ROOT.glob("beyond_perplexity/commands/[a-z]*")}
    names = files - {"library_functions"} | OPTION_SETS.keys()
    assert {name.replace("_", "-") for name in names} == set(__main__.SUBCOMMANDS)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    optional = project["optional-dependencies"].items()
    extras = {extra: {Requirement(r).name.lower() for r in held} for extra, held in optional}
    base = {Requirement(r).name.lower() for r in project["dependencies"]}
    for module, extra in errors.EXTRAS.items():
        name = {"yaml": "pyyaml", "ot": "pot"}.get(module, module)
        assert name in extras[extra]
        assert name not in base


def locked() -> dict[str, str]:
    """Return the pins of the lock, each of which has hashes, and that of torch, which has none."""
    pin = r"([\w.-]+)==(\S+)"
    entry = rf"{pin} \\\n(?:    --hash=sha256:[0-9a-f]{{64}}(?: \\)?\n)+"
    lock = (ROOT / "requirements.lock").read_text()
    assert re.fullmatch(f"(?:{entry})+", lock), "requirements.lock pins versions with hashes"
    torch = re.search(rf"^TORCH := {pin}$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    pins = [torch.groups(), *re.findall(entry, lock)]
    return {canonicalize_name(name): version for name, version in pins}


def declared() -> list[Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    listed = project["dependencies"] + [r for extra in extras.values() for r in extra]
    return [r for r in map(Requirement, listed) if r.name != project["name"]]  # an extra of ours


def test_the_lock_satisfies_every_declared_range_and_names_no_build_of_one_machine():
    pins = locked()
    for requirement in declared():
        assert requirement.specifier.contains(pins[canonicalize_name(requirement.name)])
    assert not [pin for pin in locked().values() if "+" in pin]


@pytest.mark.parametrize("name", ["cpu", "gpu"])
def test_conda_environments_pin_what_the_lock_pins(name):
    environment = yaml.safe_load((ROOT / "envs" / f"{name}.yaml").read_text())
    pip = next(d["pip"] for d in environment["dependencies"] if isinstance(d, dict))
    pinned = dict(line.split("==") for line in pip if "==" in line)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    chosen = ("models", "semantics", "workflow", "hf", "icu", "pretrained")
    wanted = [requirement for name in chosen for requirement in extras[name]]
    names = {canonicalize_name(Requirement(r).name) for r in wanted + project["dependencies"]}
    names.discard(project["name"])
    assert set(pinned) == names
    assert pinned == {n: v for n, v in locked().items() if n in names}


def test_jobs_that_ask_for_a_gpu_have_the_environment_with_cuda():
    """Oracle: what a rule asks for, `gpu=`, in the text of the rule itself."""
    asking = 0
    for path in sorted(ROOT.glob("rules/*.smk")):
        for rule in re.split(r"^(?=(?:use )?rule )", path.read_text(), flags=re.MULTILINE)[1:]:
            if rule.startswith("use rule") and "conda:" not in rule:
                continue
            asked = re.search(r"^        gpu=(.*),$", rule, re.MULTILINE)
            (named,) = re.findall(r"^    conda:\n        (.*)$", rule, re.MULTILINE)
            expected = {None: '"../envs/cpu.yaml"', "1": '"../envs/gpu.yaml"'}
            asking += asked is not None
            key = asked and asked[1]
            assert named == expected.get(key, f"environment({key})"), rule[:40]
    assert asking > 10


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
        *("measure_perplexity", "predict_words", "score_beside", "score_contrast", "score_tokens"),
        "train",
    ],
    ("scipy", "torch"): ["judge"],
    ("scipy",): ["embed", "measure_tendencies", "measure_words"],
    ("pandas", "scipy", "scipy.stats", "torch"): ["continue_prompts"],
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


COMMANDS = [f"beyond_perplexity.{place.partition(':')[0]}" for place in OPTION_SETS.values()]
COMMANDS += modules_of(beyond_perplexity.commands)
# Which further modules it then chooses from by name.
LATER = {
    "build_vocabulary": ["beyond_perplexity.vocabulary"],
    "generate": [  # all but what is made of transformers, or of Triton on a GPU
        name
        for name in modules_of(beyond_perplexity.models)
        if "huggingface" not in name and "cached_attention" not in name
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


def test_plans_stop_words_and_scoring_by_hugging_face_import_little(tmp_path: Path) -> None:
    """Every start of Snakemake, and so every job on a cluster, pays for what planning imports."""
    modules = [f"beyond_perplexity.planning.{name}" for name in ("run", "job_costs", "validation")]
    found = json.loads(python(IMPORT_ALL, json.dumps([sorted(HEAVY), modules])))
    assert not {"torch", "transformers", "scipy.stats", "nltk"} & set(found[modules[-1]])
    load = "from beyond_perplexity.tendencies.word_classes import load_stop_words as load; "
    assert python(f"import sys; {load}load('gensim'); print('gensim' in sys.modules)") == "False\n"
    make_gpt2(tmp_path)
    (tmp_path / "text.txt").write_text("the cat sat on the mat .\n")
    assert python(SCORE, str(tmp_path), str(tmp_path / "text.txt")).splitlines()[-1] == "none"

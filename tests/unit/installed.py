"""The package as it is installed outside the checkout: sdist, wheel, and an environment with it."""

import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import numpy

ROOT = Path(__file__).parents[2]
BUILD = "import sys; from setuptools import build_meta as b; getattr(b, sys.argv[1])(sys.argv[2])"
# A run of one corpus and one model of counts, out of `text.txt`.
TINY_CONFIG = """\
seed: 1
corpora:
  mine:
    source: {format: text, paths: [text.txt]}
    split: {unit: document, train: 0.6, valid: 0.2, test: 0.2}
vocabularies:
  words: {kind: closed, minimum_count: 1}
models:
  kn: {family: kneser-ney, corpus: mine, vocabulary: words, architecture: {order: 2}}
"""
# In the environment: what extras install can be made to look as if it were not there.
BLOCKER = """\
import os, sys


class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in os.environ.get("LACKING", "").split():
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, Blocker())
"""


class Installed(NamedTuple):
    """An environment with the wheel, and the wheel; `outside` is an empty folder to work in."""

    environment: Path
    wheel: Path
    outside: Path

    @property
    def packages(self):
        """The folder that the package was installed to."""
        return next(self.environment.glob("lib/python3*/site-packages"))

    def call(self, *command, lacking="", text="", folder="", variables=MappingProxyType({})):
        """Run a program of the environment: its status, standard output and standard error."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
        program = str(self.environment / "bin" / command[0])
        done = subprocess.run(
            [program, *command[1:]],
            input=text,
            capture_output=True,
            text=True,
            cwd=self.outside / folder,
            env={**kept, "PATH": "/usr/local/bin:/usr/bin:/bin", "LACKING": lacking, **variables},
            check=False,
        )
        return [str(done.returncode), done.stdout, done.stderr]


def _copy_tree(target):
    """Copy what a build reads, and nothing that was made in the checkout."""
    left = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for name in ("beyond_perplexity", "configs", "envs", "profiles", "rules", "scripts"):
        shutil.copytree(ROOT / name, target / name, ignore=left)
    for path in ROOT.iterdir():
        if path.is_file():
            shutil.copy2(path, target)


def _build(tree, kind, folder):
    command = [sys.executable, "-c", BUILD, kind, str(folder)]
    done = subprocess.run(command, cwd=tree, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def install(folder):
    """Build the sdist, the wheel out of the sdist, and install it without its dependencies.

    As `python -m build --no-isolation` and `pip install --no-deps` do; the dependencies are those
    of this environment.
    """
    tree, built = folder / "tree", folder / "dist"
    for made in (tree, built, folder / "outside"):
        made.mkdir()
    _copy_tree(tree)
    _build(tree, "build_sdist", built)
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as packed:
        packed.extractall(folder / "unpacked", filter="data")
    unpacked = folder / "unpacked" / sdist.name.removesuffix(".tar.gz")
    ghost = unpacked / "build" / "lib" / "beyond_perplexity" / "ghost.py"  # of an earlier build
    ghost.parent.mkdir(parents=True)
    ghost.touch()
    _build(unpacked, "build_wheel", built)
    (wheel,) = built.glob("*.whl")
    environment = folder / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    pip = [sys.executable, "-m", "pip", "--python", environment / "bin" / "python", "install"]
    subprocess.run([*pip, "--quiet", "--no-index", "--no-deps", "--no-compile", wheel], check=True)
    found = Installed(environment, wheel, folder / "outside")
    (found.packages / "blocker.py").write_text(BLOCKER)
    path = Path(numpy.__file__).parents[1]
    (found.packages / "dependencies.pth").write_text(f"{path}\nimport blocker\n")
    return found

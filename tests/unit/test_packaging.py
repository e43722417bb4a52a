"""Packaging: the lock file, the conda environments and pyproject.toml say the same.

Needs nothing but the checkout. The oracle of each file is the other one.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]


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


def test_the_lock_satisfies_every_declared_range():
    pins = locked()
    for requirement in declared():
        assert requirement.specifier.contains(pins[canonicalize_name(requirement.name)])


def test_the_lock_names_no_build_of_one_machine():
    assert not [pin for pin in locked().values() if "+" in pin]


@pytest.mark.parametrize("name", ["cpu", "gpu"])
def test_conda_environments_pin_what_the_lock_pins(name):
    environment = yaml.safe_load((ROOT / "envs" / f"{name}.yaml").read_text())
    pip = next(d["pip"] for d in environment["dependencies"] if isinstance(d, dict))
    pinned = dict(line.split("==") for line in pip if "==" in line)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = [
        r for name in ("models", "semantics", "workflow", "hf", "pretrained") for r in extras[name]
    ]
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

"""The example of annotated text runs as it stands, on files of the formats that it names.

Needs nothing but the checkout. Oracle: the words, trees and mentions of the files that are written
here.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from beyond_perplexity.planning.run import Run
from beyond_perplexity.planning.validation import validate
from tests.unit.test_linked import run_options, write

ROOT = Path(__file__).parents[2]
TREE = "( (S (NP (DT The) (NN cat{0})) (VP (VBZ sits))) )\n"
COLUMNS = "#begin document ({0})\n0\tAnn{0}\t(1)\n1\tsat\t-\n2\tshe\t(1)\n#end document\n"
LINKED = {"title": "A", "tokens": ["The", "cat"], "annotations": []}


def examples() -> list[dict]:
    """Return the configurations that the page of latent models shows of annotated text."""
    text = (
        (ROOT / "docs/latent-models.md")
        .read_text(encoding="utf-8")
        .partition("Your own annotated text")[2]
    )
    section = text.partition("\n## ")[0]
    return [yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", section, re.DOTALL)]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("wsj", "litbank"):
        (tmp_path / name).mkdir()
    for name in ("02-21", "22", "23"):
        (tmp_path / "wsj" / f"{name}.mrg").write_text("".join(map(TREE.format, range(3))))
    for n in range(60):  # so that every split has some
        (tmp_path / "litbank" / f"{n}.conll").write_text(COLUMNS.format(n))
    write(tmp_path, LINKED)
    for split in ("train", "valid", "test"):
        (tmp_path / f"{split}.jsonl").write_text((tmp_path / "d.jsonl").read_text())
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_configuration_is_whole_and_plans_its_jobs(folder: Path) -> None:
    whole, _ = examples()
    validate(whole)
    run = Run(whole)
    assert run.corpora.source_files("treebank") == [f"wsj/{n}.mrg" for n in ("02-21", "22", "23")]


def test_the_other_corpora_can_be_added(folder: Path) -> None:
    whole, others = examples()
    whole["corpora"] |= others["corpora"]
    validate(whole)
    assert len(Run(whole).corpora.source_files("coreference")) == 60


def test_every_corpus_is_read(folder: Path) -> None:
    found = {}
    for example in examples():
        for name, corpus in example["corpora"].items():
            paths = corpus["source"]["paths"]
            if isinstance(paths, list):  # the workflow expands patterns
                paths[:] = [str(path) for pattern in paths for path in sorted(Path().glob(pattern))]
            found[name] = run_options(folder / "out" / name, corpus)
    assert len(found["treebank"]["trees"]) == 9
    assert found["treebank"]["documents"][0]["text"].startswith("The cat")
    assert len(found["coreference"]["mentions"]) == 120
    assert len(found["linked"]["documents"]) == 1
    assert not any(held["report"]["warnings"] for name, held in found.items() if name != "linked")

"""What pages tell their readers to type: README and the tutorials are run as they stand.

Commands of other pages are read by their own parsers, configurations by the schema. Needs the extra
`hf`. Oracles: the commands and functions themselves; files that stand for those of a reader; the
numbers that a page names beside what it runs.
"""

from __future__ import annotations

import random
import warnings
from copy import deepcopy
from functools import cache
from pathlib import Path

import pandas as pd
import pytest
import yaml

from beyond_perplexity.planning.run import Run
from beyond_perplexity.planning.validation import validate
from tests.unit.huggingface_models import make_gpt2
from tests.unit.page_snippets import (
    ROOT,
    code_blocks,
    execute_subcommand,
    parse_subcommand,
    read_command,
    shell_commands,
)
from tests.unit.test_results_folder import write_tree

TUTORIALS = sorted((ROOT / "docs/tutorials").glob("*.md"))
RUN_PAGES = [ROOT / "README.md", *TUTORIALS]
OTHERS = sorted({*ROOT.glob("docs/*.md"), ROOT / "CONTRIBUTING.md", ROOT / "results/README.md"})


def lines_of_words(seed: int, n: int = 40) -> str:
    """Write n short documents of words with frequencies like those of a language."""
    draws = random.Random(seed)
    words = [*["the", "of", "a", ","], *(f"w{k}" for k in range(150))]
    weights = [1 / (k + 1) for k in range(len(words))]
    texts = (" ".join(draws.choices(words, weights, k=draws.randint(8, 20))) for _ in range(n))
    return "".join(f"{text} .\n" for text in texts)


@pytest.fixture(scope="module")
def readers_folder(tmp_path_factory) -> Path:
    """Give the files that the pages suppose a reader has."""
    folder = tmp_path_factory.mktemp("reader")
    (folder / "human.txt").write_text(lines_of_words(1))
    (folder / "generated.txt").write_text(lines_of_words(2))
    (folder / "test.txt").write_text(lines_of_words(3, 6))
    make_gpt2(folder / "gpt2", seed=0)
    make_gpt2(folder / "gpt2-tuned", seed=1)
    rows = [(n, k, 5, -20.0 - k % 3, -2.0 - n) for n in range(3) for k in range(8)]
    names = ["instance_id", "sample_id", "n_tokens", "log_p", "log_q"]
    pd.DataFrame(rows, columns=names).to_parquet(folder / "weights.parquet")
    write_tree(folder / "results")
    return folder


@pytest.mark.parametrize("page", RUN_PAGES, ids=lambda page: page.stem)
def test_the_blocks_of_a_page_run_as_they_stand(page, readers_folder, monkeypatch, capsys) -> None:
    monkeypatch.chdir(readers_folder)
    names: dict[str, object] = {"__name__": "page"}
    for block in code_blocks(page.read_text()):
        if block.language == "python":
            exec(compile(block.text, page.name, "exec"), names)
        elif block.language == "sh":
            for words in shell_commands(block.text):
                read_command(words, lambda given: run(*given))
    if page.stem == "latent-weights":
        printed = capsys.readouterr().out + names["result"].text  # type: ignore[attr-defined]
        for number in ("404.01", "400.06 to 406.09", "413.21", "1.77", "42.94"):
            assert number in printed
            assert number in page.read_text().replace("\n", " ")


@cache
def run(*given: str) -> None:
    """Run a subcommand; what two pages say in the same words is run once."""
    if given[0] == "run":
        return parse_subcommand(list(given))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return execute_subcommand(list(given))


@pytest.mark.parametrize("page", OTHERS, ids=lambda page: page.stem)
def test_the_commands_of_a_page_are_known(page, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    for block in code_blocks(page.read_text()):
        if block.language == "sh":
            for words in shell_commands(block.text):
                read_command(words, parse_subcommand)


@pytest.mark.parametrize("page", [*RUN_PAGES, *OTHERS], ids=lambda page: page.stem)
def test_configurations_of_a_page_are_valid(page, tmp_path, monkeypatch) -> None:
    """What a page says replaces what the default configuration has of the same name."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "litbank").mkdir()
    (tmp_path / "litbank/one.conll").touch()  # for a pattern
    base = yaml.safe_load((ROOT / "config.yaml").read_text())
    for block in code_blocks(page.read_text()):
        if block.language == "yaml":
            config = deepcopy(base)
            for section, held in yaml.safe_load(block.text).items():
                config[section] = {**config.get(section, {}), **held}
            validate(config)
            Run(config)


def test_a_page_that_is_wrong_is_found(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = "text\n\n    make nothing   # a comment\n\n```sh\nrm -r /\n```\n\n```yaml\na: 1\n```\n"
    blocks = code_blocks(page)
    assert [block.language for block in blocks] == ["sh", "sh", "yaml"]
    for block in blocks[:2]:
        with pytest.raises(AssertionError, match=r"nothing|known kind"):
            read_command(next(shell_commands(block.text)), parse_subcommand)
    for wrong in (
        "pip install '.[no-such-extra]'",
        "snakemake --configfile configs/none.yaml",
        "conda env create -f envs/none.yaml",
        "pytest tests/none",
    ):
        with pytest.raises((AssertionError, FileNotFoundError)):
            read_command(next(shell_commands(wrong)), parse_subcommand)
    with pytest.raises(SystemExit):
        read_command(["beyond-perplexity", "compare", "--refrence", "a"], parse_subcommand)

"""When `beyond-perplexity run` makes the report: after a run of everything, and of nothing less.

Oracle: Snakemake's own parser, for which options ask for less than everything.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from beyond_perplexity.commands.run import snakemake_command


@pytest.mark.parametrize(
    ("options", "folder"),
    [
        ([], "results"),
        (["--cores", "2", "--forcerun", "train", "--keep-going"], "results"),
        (["--configfile", "other.yaml", "--profile=profiles/slurm"], "elsewhere/made"),
        (["--directory", "inner"], "inner-results"),
        (["-n"], None),
        (["--touch"], None),
        (["--until", "train"], None),
        (["--quiet", "--", "results/models/lstm/model.json"], None),
        (["perplexity"], None),
        (["--report", "results/report.zip"], None),
    ],
)
def test_the_report_is_made_after_a_run_of_everything(
    options: list[str], folder: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "inner").mkdir()
    for name, text in {
        "config.yaml": "seed: 1\n",
        "other.yaml": "pathvars: {results: elsewhere/made}\n",
        "inner/config.yaml": "pathvars: {results: inner-results}\n",
    }.items():
        (tmp_path / name).write_text(text)
    command = snakemake_command(options)
    added = command[command.index(options[-1]) + 1 :] if options else command[5:]
    expected = ["--report", f"{folder}/report.html", "--report-after-run"] if folder else []
    assert added == expected

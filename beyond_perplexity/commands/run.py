"""Run the whole workflow out of the package, in the current folder: results go to `results/` there.

    beyond-perplexity run --init DIR            # write config.yaml, commented, and profiles/slurm
    beyond-perplexity run --init DIR --template paper
    beyond-perplexity run --cores 4             # run it; --dry-run says what a run would do
    beyond-perplexity run --configfile FILE --profile profiles/slurm
    beyond-perplexity run --remake FILE ...     # make files again, and what is made of them

A run prints a line a job, and where its report is; the whole of it is in `.snakemake/log`. All
options but --init, --template and --remake are those of Snakemake, which `snakemake --help` lists.
Without any, as many jobs run side by side as the machine has cores. The configuration is
`config.yaml` of the current folder unless --configfile names another. It needs the extra
`workflow`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from beyond_perplexity.arguments import CommandParser, output_file, output_folder
from beyond_perplexity.errors import InputError
from beyond_perplexity.foreign_text import say
from beyond_perplexity.storage.fingerprint import PACKAGE, ROOT
from beyond_perplexity.storage.outputs import atomic_path

# What a user changes: the configuration, and what a cluster wants.
CONFIG = "config.yaml"
PROFILES = ("profiles/slurm/config.yaml", "profiles/slurm/partitions.yaml")


def _parser() -> CommandParser:
    parser = CommandParser(
        prog="beyond-perplexity run",
        usage="%(prog)s [--init DIR [--template NAME] | Snakemake's options ...]",
        description=__doc__,
        raw=True,
        allow_abbrev=False,
    )
    parser.ends = f"{parser.ends}; while the workflow runs, Snakemake's own"
    add = parser.add_argument
    made = "write a commented configuration to a folder; no file is replaced"
    add("--init", type=output_folder, metavar="DIR", help=made)
    names = sorted(path.stem for path in (ROOT / "configs").glob("*.yaml"))
    other = f"with --init: another than the default one: {', '.join(names)}"
    add("--template", choices=names, metavar="NAME", help=other)
    again = "make files of the results again, missing or not, and all that is made of them"
    add("--remake", type=output_file, nargs="+", default=[], metavar="FILE", help=again)
    return parser


def remake_options(files: Sequence[str]) -> list[str]:
    """Return Snakemake's options that make files again, from the current folder."""
    return ["--forcerun", *map(os.path.relpath, files)] if files else []


def write_templates(folder: Path, template: str | None = None) -> list[Path]:
    """Write a configuration of ``configs/``, or the default one, and the profile of a cluster."""
    targets = [folder / name for name in (CONFIG, *PROFILES)]
    sources = [f"configs/{template}.yaml" if template else CONFIG, *PROFILES]
    for target in targets:
        if os.path.lexists(target):
            raise InputError(f"{target}: is there already; remove it, or name another folder")
    for name, target in zip(sources, targets, strict=True):
        with atomic_path(target) as temporary:
            temporary.write_bytes((ROOT / name).read_bytes())
    return targets


def snakemake_command(options: Sequence[str]) -> list[str]:
    """Return the command that runs the workflow, wherever the package is installed."""
    if find_spec("snakemake") is None:
        raise ModuleNotFoundError("No module named 'snakemake'", name="snakemake")
    from snakemake.cli import get_argument_parser

    from beyond_perplexity.planning.configuration_file import read_configuration

    known, _ = get_argument_parser().parse_known_args(options)
    if not known.configfile and not Path(CONFIG).is_file():
        write = "write one with `beyond-perplexity run --init .`"
        wrong = f"{CONFIG}: is not in this folder"
        raise InputError(f"{wrong}; {write}, or name another with --configfile")
    paths = known.configfile or [os.path.join(known.directory or ".", CONFIG)]
    configurations = [read_configuration(str(path)) for path in paths]
    conda = known.use_conda or known.software_deployment_method
    if conda and PACKAGE.parent != ROOT:
        raise InputError(
            "conda: its environments do not have the installed package; leave the option out (all "
            "jobs run with what is installed here), or run in a checkout"
        )
    command = [sys.executable, "-P", "-m", "snakemake", f"--snakefile={ROOT / 'Snakefile'}"]
    parts = (known.targets, known.until, known.omit_from, known.target_jobs)
    if known.dryrun or known.touch or known.report or any(parts):
        return [*command, *options]
    results = "results"
    for held in configurations:
        results = (held.get("pathvars") or {}).get("results", results)
    return [*command, *options, "--report", f"{results}/report.html", "--report-after-run"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command, with the options of the process by default; Snakemake takes its place."""
    options = list(sys.argv[1:] if arguments is None else arguments)
    parser = _parser()
    given, others = parser.parse_known_args(options)
    if given.init:
        if others:
            parser.error(f"--init goes without other options: {' '.join(others)}")
        for path in write_templates(given.init, given.template):
            say(f"{path}: written")
        say("\nChange the configuration, then run there: beyond-perplexity run --dry-run")
        return
    if given.template:
        parser.error("--template goes with --init")
    command = [*snakemake_command(others), *remake_options(given.remake)]
    sys.stdout.flush()
    os.execv(command[0], command)

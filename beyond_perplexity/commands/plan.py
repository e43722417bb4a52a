"""Measure small shards of every rule and model, and say what a whole configuration takes."""

from __future__ import annotations

from collections.abc import Sequence

from beyond_perplexity.arguments import CommandParser, output_file, whole
from beyond_perplexity.foreign_text import say
from beyond_perplexity.planning.pilot_size import PilotSize
from beyond_perplexity.planning.timings import PLAN_FILE

MOST = 1_000_000  # of anything that a pilot makes
PILOT_SIZES = {
    "documents": "documents or sentences of the smaller shards",
    "instances": "instances of the smaller shards",
    "samples": "samples of an instance, at most",
    "steps": "steps of models that are not trained yet",
}


def _parser() -> CommandParser:
    parser = CommandParser(
        description=__doc__,
        epilog="Ends with a dry run's summary. It needs the extra workflow.",
    )
    add = parser.add_argument
    add(
        "--configfile",
        default="config.yaml",
        help="the run that is planned (default: config.yaml of the current folder)",
    )
    for name, default in PilotSize()._asdict().items():
        words = f"{PILOT_SIZES[name]} (default {default})"
        add(f"--{name}", type=whole(1, MOST), default=default, help=words)
    add(
        "--output",
        type=output_file,
        help=f"plan to write (default: {PLAN_FILE} in the folder of the results)",
    )
    add("snakemake", nargs="*", help="after --: Snakemake's options (default --cores all)")
    return parser


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command.

    Parameters
    ----------
    arguments : sequence of str, optional
        The options; those of the process by default.
    """
    given = _parser().parse_args(arguments)
    from beyond_perplexity.planning.pilot_run import run_pilot

    size = PilotSize(given.documents, given.instances, given.samples, given.steps)
    options = given.snakemake or ["--cores=all"]
    say(run_pilot(given.configfile, size, options, given.output))

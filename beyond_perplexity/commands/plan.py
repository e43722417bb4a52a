"""Say what a whole configuration takes: measure small shards of every rule and model.

Or read what the jobs of a finished run took (--finished), scaled linearly.
"""

from __future__ import annotations

from collections.abc import Sequence

from beyond_perplexity.arguments import CommandParser, output_file, whole
from beyond_perplexity.foreign_text import say

MOST = 1_000_000  # of anything that a pilot makes
# How small a pilot is: the default, and what it counts.
PILOT_SIZES = {
    "documents": (16, "documents or sentences of the smaller shards"),
    "instances": (2, "instances of the smaller shards"),
    "samples": (50, "samples of an instance, at most"),
    "steps": (20, "steps of models that are not trained yet"),
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command."""
    ends = "Ends with a dry run's summary. It needs the extra workflow."
    parser = CommandParser(description=__doc__, epilog=ends)
    add = parser.add_argument
    planned = "the run that is planned (default: config.yaml of the current folder)"
    add("--configfile", default="config.yaml", help=planned)
    for name, (default, words) in PILOT_SIZES.items():
        help_text = f"{words} (default {default})"
        add(f"--{name}", type=whole(1, MOST), default=default, help=help_text)
    add("--finished", help="results of a finished run with models of the same names; no pilot then")
    written = "plan to write (default: plan.json in the folder of the results)"
    add("--output", type=output_file, help=written)
    add("snakemake", nargs="*", help="after --: Snakemake's options (default --cores all)")
    given = parser.parse_args(arguments)
    from beyond_perplexity.planning.pilot import run_plan

    size = {name: getattr(given, name) for name in PILOT_SIZES}
    options = given.snakemake or ["--cores=all"]
    say(run_plan(given.configfile, size, options, given.output, given.finished))

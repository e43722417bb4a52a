"""Estimate the perplexity of any latent language model from importance samples of yours.

A file (.parquet, or .csv or .csv.gz with a line of names) has a row for every sample
z_k ~ q(z | x_n):
instance_id n and sample_id k (integers), n_tokens (T of the instance), log_p = log p(x_n, z_k) and
log_q = log q(z_k | x_n), natural logarithms. log_p may be -inf. Used when there: n_unknown (unknown
tokens of the instance, counted in T too), log_p_penalized (log p(x_n, z_k) with unknown words
penalized, where that is not the logarithm of the unknown types for each of them), latent_hash (an
integer, equal for equal latents), model, proposal and temperature (one value in a file: give the
samples of each in a file of their own).
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import fields

from beyond_perplexity.arguments import SEED, CommandParser, output_path, whole
from beyond_perplexity.foreign_text import say
from beyond_perplexity.importance.draw_files import add_draw_flags
from beyond_perplexity.importance.ways_to_draw import ReductionOptions as Options
from beyond_perplexity.options import json_object


def _parser() -> CommandParser:
    parser = CommandParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--weights", required=True, nargs="+", help="files of samples, cut in any way")
    add("--log-q", nargs="*", default=[], help="log q at all temperatures (schema log_q)")
    add_draw_flags(parser)
    add("--unknown-types", type=whole(), help="training types that read <unk>, to charge for them")
    add("--t-definition", help="what n_tokens counts, such as 'words and </s>'")
    defaults = ", ".join(f'"{one.name}": {json.dumps(one.default)}' for one in fields(Options))
    add("--options", type=json_object, default={}, help=f"JSON object (default: {{{defaults}}})")
    add("--no-bracket", action="store_true", help="leave out the bounds from both sides")
    add("--seed", type=SEED, default=0, help="seed of subsets, pairings and bootstraps (default 0)")
    add("--output", type=output_path, help="table to write as well: .csv or .parquet")
    add(
        "--diagnostics", type=output_path, help="table of every instance to write: .csv or .parquet"
    )
    return parser


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command; see the module.

    Parameters
    ----------
    arguments : sequence of str, optional
        Those of the process by default.
    """
    given = vars(_parser().parse_args(arguments))
    # Late: it takes a second.
    from beyond_perplexity.library.calls import for_command
    from beyond_perplexity.library.estimate import estimate

    say(for_command(estimate)(given.pop("weights"), **given).text)

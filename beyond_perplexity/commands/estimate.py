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

from collections.abc import Sequence

from beyond_perplexity.arguments import CommandParser
from beyond_perplexity.foreign_text import say
from beyond_perplexity.library.call_options import EstimateOptions
from beyond_perplexity.option_sets import add_flags
from beyond_perplexity.storage.accounts import tell

_FLAGS = (
    *("weights", "log_q", "beams", "smc", "bidirectional", "unknown_types", "t_definition"),
    *("options", "no_bracket", "seed", "output", "diagnostics"),
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command, with the options of the process by default."""
    parser = CommandParser(description=__doc__, raw=True)
    add_flags(parser, EstimateOptions, *_FLAGS, options={})
    given = parser.parse_args(arguments)
    # Late: it takes a second.
    from beyond_perplexity.library.estimate import estimate

    found = estimate(**vars(given))
    tell(found.files)
    say(found.text)

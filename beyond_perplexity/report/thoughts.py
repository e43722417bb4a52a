"""The perplexity of answers by all thoughts, with no thought, and with the greedy one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from beyond_perplexity.figures.labels import Labels
from beyond_perplexity.figures.numbers import shown, shown_interval, shown_share
from beyond_perplexity.figures.thoughts import PROPOSAL_WORDS, two_sided_rows
from beyond_perplexity.importance.estimate_wording import k_hat_cell, sampling_error
from beyond_perplexity.importance.estimator import BY_THOUGHTS, TWO_SIDED
from beyond_perplexity.report import layout

_PAIR = ["model", "proposal"]
_NOTE = (
    "Perplexities of the tokens of the answers, with the end of the turn. All thoughts: by "
    "importance sampling, a stochastic upper bound of the perplexity by thoughts that end in time, "
    "with its standard error over samples; two-sided bounds enclose that perplexity unless a "
    "question mark withholds the claim (why: the CSV). No thought, greedy thought: what is printed "
    "elsewhere, which bounds nothing; ∞: some greedy thought gives no answer, in brackets the "
    "other prompts. Cut: probability of thoughts that reach the most tokens without their end, and "
    "so give no answer; any length: bounds with all of these wrong above and all right below. "
    "Of K thoughts of each prompt; k̂ above its limit: prompts whose largest weights decide."
)


def _bounds(row: Mapping[Any, Any], of: str, *, claimed: bool) -> str:
    ends = shown_interval(row[f"{of}low"], row[f"{of}high"])
    return ends + "?" * (bool(ends) and not claimed)


def _greedy(row: Mapping[Any, Any]) -> str:
    others = shown(row["greedy_of_others"]) if row["greedy"] == float("inf") else ""
    return (shown(row["greedy"]) or layout.EN_DASH) + (f" ({others})" if others else "")


def _k_hat(row: Mapping[Any, Any]) -> str:
    counts = [row[name] for name in ("k_hat_above", "k_hat_undefined", "n_prompts")]
    return k_hat_cell(*map(int, counts)) if not pd.isna(counts).any() else layout.EN_DASH


def answers_table(estimates: pd.DataFrame, sums: pd.DataFrame, labels: Labels) -> layout.Table:
    """Lay out the perplexity of answers, a row a model and proposal."""
    sampled = estimates["method"] == BY_THOUGHTS
    plain = sampled & (estimates["aggregation"] == "instance")
    held = estimates[plain & (estimates["measure"] == "perplexity")]
    names = ["n_samples", "value", "standard_error", "standard_error_samples", "standard_deviation"]
    names += ["ess_median", "ess_low_share", "k_hat_median", "k_hat_above", "k_hat_undefined"]
    ends = two_sided_rows(estimates)[[*_PAIR, "low", "high", "bound", "note"]]
    tidy = sums.merge(held[[*_PAIR, *names]], on=_PAIR, how="left")
    tidy = tidy.merge(ends, on=_PAIR, how="left")
    columns = [
        layout.Column("Model", text=True, form=labels.model),
        layout.Column(
            "Thoughts", text=True, of="proposal", form=lambda x: PROPOSAL_WORDS.get(x, x)
        ),
        layout.Column("Prompts", of="n_prompts", form=",.0f"),
        layout.Column("K", of="n_samples", form=",.0f"),
        *layout.under(
            "All thoughts",
            layout.Column("perplexity", of="value", form=shown),
            layout.Column("±", of=lambda row: shown(sampling_error(row)[0]) or layout.EN_DASH),
            layout.Column(
                "two-sided", of=lambda row: _bounds(row, "", claimed=row["bound"] == TWO_SIDED)
            ),
        ),
        layout.Column("No thought", of="no_thought", form=shown),
        layout.Column("Greedy thought", of=_greedy),
        layout.Column("Cut", of="cut", form=shown_share),
        layout.Column(
            "Any length",
            of=lambda row: _bounds(
                row, "any_length_", claimed=row["any_length_claimed"] in (True,)
            ),
        ),
        layout.Column("median", "Effective samples", of="ess_median", form=".1f"),
        layout.Column("tokens below 5", "Effective samples", of="ess_low_share", form=".0%"),
        layout.Column("median", "k̂", of="k_hat_median", form=".2f"),
        layout.Column("above limit", "k̂", of=_k_hat),
    ]
    title = "Perplexity of answers, summed over thoughts"
    return layout.lay_out("thoughts", title, _NOTE, columns, tidy)

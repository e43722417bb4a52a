"""What reads each kind of draws beside the samples themselves; nothing is imported."""

from __future__ import annotations

from typing import NamedTuple

_HERE = "beyond_perplexity.importance.reading"


class DrawReader(NamedTuple):
    """What reads the files of a kind of draws.

    Attributes
    ----------
    reference : str
        Module and class; the class takes the files and the `WeightReader` of the same instances.
        Its ``settings`` are what tells the estimates from such draws apart: columns of the table.
    words : str
        What the files hold.
    """

    reference: str
    words: str


# By the kind: the flag of the scripts, what estimators say that they need.
DRAW_READERS = {
    "beams": DrawReader(f"{_HERE}.beams:Beams", "beams"),
    "smc": DrawReader(f"{_HERE}.smc_runs:SMCRuns", "sequential Monte Carlo"),
}

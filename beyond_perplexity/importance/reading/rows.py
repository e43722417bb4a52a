"""What reads each kind of draws beside the samples themselves; nothing is imported.

A reader takes the files and the `WeightReader` of the same instances. Its ``settings`` are what
tells the estimates from such draws apart: columns of schema ``estimates``.
"""

from __future__ import annotations

from beyond_perplexity.options import Rows

# By the kind: the schema, the flag of the scripts, and what estimators say that they need.
DRAW_READERS: Rows[str] = {
    "beams": "beyond_perplexity.importance.reading.beams:Beams",
    "smc": "beyond_perplexity.importance.reading.smc_runs:SMCRuns",
    "bidirectional": "beyond_perplexity.importance.reading.bidirectional:SimulatedRuns",
}

"""The estimators by the value of column ``method``, in the order of tables; nothing is imported."""

from __future__ import annotations

from beyond_perplexity.options import Rows

_HERE = "beyond_perplexity.importance.estimators"

ESTIMATORS: Rows[str] = {
    "importance_sampling": f"{_HERE}.importance_sampling:ImportanceSampling",
    "jackknife": f"{_HERE}.jackknife:Jackknife",
    "mixture": f"{_HERE}.mixture:Mixture",
    "beam_plus_tail": f"{_HERE}.beam_plus_tail:BeamPlusTail",
    "smc": f"{_HERE}.smc:SequentialMonteCarlo",
    "beam": f"{_HERE}.beam:Beam",
    "bracket": f"{_HERE}.bracket:Bracket",
}

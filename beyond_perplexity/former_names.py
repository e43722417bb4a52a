"""What columns, keys and options were called before: whoever meets one is told its name of now."""

from collections.abc import Collection
from difflib import get_close_matches

FORMER = {
    "baseline": "floor",
    "baseline_high": "floor_high",
    "baseline_low": "floor_low",
    "failed_checks": "alarms",
    "log_likelihood_open_vocabulary": "log_likelihood_spelled",
    "minimum_detectable_effect": "shift",
    "no_two_sided": "no_bracket",
    "open_vocabulary": "spelled",
    "permuted": "exchanged",
    "sample_sets": "bodies",
    "spelling_model": "speller",
    "two_sided": "bracket",
    "two_sided_bound": "bracket_bound",
    "two_sided_high": "bracket_high",
    "two_sided_low": "bracket_low",
}


def renamed(new: str, held: Collection[str]) -> str:
    """Say which of the names that are there a missing one had; empty where it is not there."""
    old = FORMER.get(new)
    return f"; its '{old}' is called so now: rename it" if old in held else ""


def hint_for(wrong: str, known: Collection[str]) -> str:
    """Say which name is meant: what a former one is called now, or the nearest; empty for none."""
    for new, old in FORMER.items():
        if old == wrong and new in known:
            return f"; it is called '{new}' now"
    near = get_close_matches(wrong, known, n=1)
    return f"; did you mean '{near[0]}'?" if near else ""

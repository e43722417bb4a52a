"""What a test found, why it was not made, and the prose of both where it is printed.

Tables hold a reason as a code and its numbers, a JSON object; it becomes words where it is shown.
"""

from __future__ import annotations

import json
import math
from typing import Any

DIFFERS, ALIKE = "differs", "no difference found"
WITHOUT_VERDICT, UNTESTED = "no verdict", "not tested"
CANNOT_TELL = "cannot tell"
TOO_FEW = "too_few_permutations"
INSIDE_BAND, PARENT_INSIDE = "inside_band", "parent_inside"
REASON_TEXTS = {
    TOO_FEW: "{draws:,} permutations, where p < {level} in {family} tests needs {needed:,}",
    "few_moved": "only {moved} {what} in either text, fewer than {least}",
    "unlike_sizes": "{what}, as nearly as there are, still differ by a factor of {ratio:.2f} "
    "between the texts, more than {most}",
    INSIDE_BAND: "parts of the human text are as far apart: {value:.4g} is at most {high:.4g}",
    PARENT_INSIDE: "parts of the human text are as far apart by {parent}",
    "few_groups": "{effective:.1f} effective groups in the {text}, fewer than {least}",
    "few_prompts": "{effective:.1f} effective prompts, or groups of them, fewer than {least}",
    "few_units": "{effective:.1f} effective documents or groups in the {text}, fewer than {least}",
    "few_embedded_groups": "{effective:.1f} effective groups among the embedded documents of the "
    "{text}, fewer than {least}",
    "few_documents": "{n} documents of the reference, fewer than {least}",
    "few_sample_groups": "{n} groups of samples, fewer than {least}",
    "few_at_lengths": "{note} ({there} of the reference), fewer than {least}",
    "few_of_size": "{n} documents of a text are as long as {size}, fewer than {least}",
    "unlike_lengths": "{ratio:.2f} times as many documents of one text are as long as {size}, more "
    "than {most}",
    "few_segments": "{n} segments of a text can be compared, fewer than {least}",
    "clustered": "its expectation depends on groups and lengths, which only one text has or which "
    "swaps do not keep",
    "lengths_not_kept": "the numbers of types depend on lengths, which swaps do not keep",
    "longer_documents": "every document of one text is longer than the other text",
    "few_for_halves": "half of the reference has fewer than {least} effective documents or groups",
    "few_vectors": "a text has fewer than two embedded documents",
    "not_counted": "{why}",
}
# What units other than documents are permuted.
PERMUTED = {
    "documents": "documents",
    "groups": "whole groups",
    "prompts": "answers within each prompt",
    "swaps": "groups of the reference with as many single samples",
    "draws": "one document per group of the samples with single documents, mean over {n} draws",
    "one_draw": "one document per group of the samples with single documents, one draw",
    "some_draws": "one document per group of the samples with single documents",
}


def joined_facts(*facts: str) -> str:
    """Write a note of facts; empty ones are left out."""
    return "; ".join(filter(None, facts))


def facts_of(note: str) -> list[str]:
    """Take a note apart."""
    return note.split("; ") if note else []


def is_known(value: Any) -> bool:
    """Tell a cell of a table that is neither null nor NaN."""
    return value is not None and not (isinstance(value, float) and math.isnan(value))


def reason(code: str, **numbers: object) -> str:
    """Write why there is no verdict: a code of `REASON_TEXTS` and its numbers, as JSON."""
    return json.dumps({"code": code, **numbers}, ensure_ascii=False)


def cannot_tell(held: Any) -> bool:
    """Say whether a `reason` is of a test that so few permutations cannot decide."""
    return _has_code(held, TOO_FEW)


def within_band(held: Any) -> bool:
    """Say whether a `reason` is of a distance that two human texts have too, or of its child."""
    return _has_code(held, INSIDE_BAND) or _has_code(held, PARENT_INSIDE)


def is_of_test(held: Any) -> bool:
    """Say whether a `reason` is of a test that was made, and not why there is none."""
    return cannot_tell(held) or within_band(held)


def _has_code(held: Any, code: str) -> bool:
    return isinstance(held, str) and held.startswith(json.dumps({"code": code})[:-1])


def reason_text(held: str) -> str:
    """Say a `reason` in words; empty where there is none."""
    numbers = json.loads(held) if held else {"code": ""}
    return REASON_TEXTS[numbers["code"]].format(**numbers) if held else ""


def no_verdict_text(held: str) -> str:
    """Say a `reason` where nothing else says that there is no verdict; empty for none."""
    return held and f"{WITHOUT_VERDICT}: {reason_text(held)}"


def permuted_text(permuted: str) -> str:
    """Say what a test permuted: a key of `PERMUTED` with, of draws, their number behind it."""
    scheme, _, n = permuted.partition(" ")
    return permuted and f"permuted: {PERMUTED[scheme].format(n=n)}"

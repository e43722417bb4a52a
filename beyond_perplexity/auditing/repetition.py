"""The same text scored again: nothing is drawn, and nothing is remembered."""

from __future__ import annotations

import torch

from beyond_perplexity.auditing.apart import Apart
from beyond_perplexity.auditing.evidence import Evidence
from beyond_perplexity.auditing.subject import Subject


def check_repetition(subject: Subject) -> Evidence:
    """Score the same rows again, at once and after other rows.

    Where they differ, the random numbers are put back to say which it is: what agrees then is
    drawn (dropout that is on), what does not is remembered from call to call (a state).
    """
    apart, pieces = Apart(), subject.pieces
    with torch.random.fork_rng():
        torch.manual_seed(subject.seed)
        first = subject.logits(pieces)
        apart.compare(first, subject.logits(pieces), pieces, "scored twice")
        subject.logits(subject.others)
        apart.compare(first, subject.logits(pieces), pieces, "scored again after other texts")
        found = apart.evidence()
        if found.worst <= 1e-6:
            return found
        torch.manual_seed(subject.seed)
        again = Apart()
        again.compare(first, subject.logits(pieces), pieces, "")
    reason = "it remembers earlier texts" if again.worst > found.worst / 10 else "it draws numbers"
    return found._replace(detail=f"{found.detail}: {reason}")

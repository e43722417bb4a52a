"""The same text scored again: nothing is drawn, and nothing is remembered."""

from __future__ import annotations

import torch
from torch import Tensor

from beyond_perplexity.auditing.apart import Apart
from beyond_perplexity.auditing.evidence import Evidence
from beyond_perplexity.auditing.subject import Subject

_SAME = 1e-6  # total variation or nats, up to which nothing is explained


def check_repetition(subject: Subject) -> Evidence:
    """Score the same rows again, at once and after other rows; then longer rows likewise.

    Where they differ, the random numbers are put back to say which it is: what agrees then is
    drawn (dropout that is on), what does not is remembered from call to call (a state).
    """
    found = _repeat(subject, subject.pieces, subject.others)
    if found.worst <= _SAME and len(subject.late_pieces):
        late = _repeat(subject, subject.late_pieces, subject.late_others)
        worse = late if not late.worst <= found.worst else found
        return worse._replace(places=found.places + late.places)
    return found


def _repeat(subject: Subject, pieces: Tensor, others: Tensor) -> Evidence:
    apart = Apart()
    with torch.random.fork_rng():
        torch.manual_seed(subject.seed)
        first = subject.logits(pieces)
        apart.compare(first, subject.logits(pieces), pieces, "scored twice")
        subject.logits(others)
        apart.compare(first, subject.logits(pieces), pieces, "scored again after other texts")
        found = apart.evidence()
        if found.worst <= _SAME:
            return found
        torch.manual_seed(subject.seed)
        again = Apart()
        again.compare(first, subject.logits(pieces), pieces, "")
    reason = "it remembers earlier texts" if again.worst > found.worst / 10 else "it draws numbers"
    return found._replace(detail=f"{found.detail}: {reason}")

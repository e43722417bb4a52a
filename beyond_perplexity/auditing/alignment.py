"""Logits that stand at the token that they are for."""

from __future__ import annotations

from beyond_perplexity.auditing.evidence import Evidence
from beyond_perplexity.auditing.subject import Subject, distributions, shift_between

SEEN = 1e-4  # total variation above which a distribution has noticed a token


def check_alignment(subject: Subject) -> Evidence:
    """Change one token, and see at which row of the logits the change begins.

    A row is for the token after it: it knows its own token, and none later. When all changes begin
    just one row early, the row knows the very token that it is scored on: logits and targets were
    not shifted against each other. One that begins late leaves the newest token out. Changes that
    begin anywhere before are those of a model that sees the future, and not of its rows' places.
    """
    pieces, places = subject.pieces, subject.pieces.shape[1]
    base = distributions(subject.logits(pieces))  # (B, T, V)
    begins: list[int] = []
    for place in range(2, places - 1):
        changed = pieces.clone()
        changed[:, place] = subject.others[:, place]
        moved = shift_between(base, distributions(subject.logits(changed))) > SEEN  # (B, T)
        first = moved.any(0).nonzero()  # rows that any piece notices
        if len(first):
            begins.append(int(first[0]) - place)
    if not begins:
        return Evidence(0.0, 0, "no token changes what is predicted after it")
    earliest, latest = min(begins), max(begins)
    if earliest == latest == -1:
        detail = "each row of logits already knows the token that it is scored on: shift them by 1"
        return Evidence(1.0, len(begins), detail)
    if earliest >= 1:
        detail = f"the newest token is noticed {earliest} rows late"
        return Evidence(float(earliest), len(begins), detail)
    return Evidence(0.0, len(begins), "a row knows the tokens up to its own")

"""Logits that stand at the token that they are for."""

from __future__ import annotations

import torch

from beyond_perplexity.auditing.checks import Evidence
from beyond_perplexity.auditing.subject import Subject, distributions, shift_between
from beyond_perplexity.vocabulary import BOS

_FIRSTS = 64  # ids that are tried as a text's first token
_SEEN = 1e-4  # total variation above which a distribution has noticed a token


def check_alignment(subject: Subject) -> Evidence:
    """Change one token, and see at which row of the logits the change begins.

    A row is for the token after it: it knows its own token, and none later. When all changes begin
    just one row early, the row knows the very token that it is scored on: logits and targets were
    not shifted against each other. One that begins late leaves the newest token out. Changes that
    begin anywhere before are those of a model that sees the future, and not of its rows' places.
    """
    begins: list[int] = []
    for piece, other in zip(subject.pieces[:3].split(1), subject.others.split(1), strict=False):
        base = distributions(subject.logits(piece))  # (1, T, V)
        for place in range(2, piece.shape[1] - 1):
            changed = piece.clone()
            changed[:, place] = other[:, place]
            moved = shift_between(base, distributions(subject.logits(changed))) > _SEEN  # (1, T)
            first = moved[0].nonzero()
            if len(first):
                begins.append(int(first[0]) - place)
    if not begins:
        return Evidence(0.0, 0, "no token changes what is predicted after it")
    earliest, latest = min(begins), max(begins)
    if earliest == latest == -1:
        detail = "each row of logits already knows the token that it is scored on: shift them by 1"
        return Evidence(1.0, len(begins), detail)
    if earliest >= 1 and earliest == latest and not _newest_is_noticed(subject):
        detail = f"the newest token is noticed {earliest} rows late"
        return Evidence(float(earliest), len(begins), detail)
    return Evidence(0.0, len(begins), "a row knows the tokens up to its own")


def _newest_is_noticed(subject: Subject) -> bool:
    """Say whether the row of a first token depends on it, of many that it could be.

    Changes may happen to show late only: a model of n-grams backs off after words that it never saw
    together, and then forgets the newest.
    """
    firsts = torch.from_numpy(subject.possible[:_FIRSTS])  # (N,)
    inputs = torch.stack([torch.full_like(firsts, BOS), firsts], 1)  # (N, 2)
    rows = torch.cat([distributions(subject.logits(pair))[:, 1] for pair in inputs.split(1)])
    return bool((shift_between(rows, rows[:1]) > _SEEN).any())

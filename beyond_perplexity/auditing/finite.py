"""Logits that are numbers, and no probability above one."""

from __future__ import annotations

import torch

from beyond_perplexity.auditing.evidence import Evidence
from beyond_perplexity.auditing.subject import Subject


def check_logits(subject: Subject) -> Evidence:
    """Count logits that are NaN or +∞, and scores that are NaN or above ln 1 = 0.

    Beside the pieces one row is as long as the context allows. −∞ is no fault: it is the logit of
    what is impossible.
    """
    rows = [subject.pieces, subject.long_row(subject.pieces)]
    long = rows[1].shape[1]
    wrong, seen, first = 0, 0, ""
    for inputs in rows:
        logits = subject.logits(inputs).cpu()  # (B, T, V)
        bad = logits.isnan() | (logits == torch.inf)  # (B, T, V)
        scores = subject.log_probs(inputs[:, :-1], inputs[:, 1:])  # (B, T − 1)
        odd = scores.isnan() | (scores > 1e-3)
        if bad.any() and not first:
            row, place, token = bad.nonzero()[0].tolist()
            value = float(logits[row, place, token])
            first = f"the logit of id {token} after {place + 1} tokens is {value}"
        elif odd.any() and not first:
            row, place = odd.nonzero()[0].tolist()
            first = f"ln p of token {place + 1} is {float(scores[row, place]):g}"
        wrong += int(bad.sum()) + int(odd.sum())
        seen += bad.numel() + odd.numel()
    return Evidence(float(wrong), seen, first or f"up to {long} tokens of context")

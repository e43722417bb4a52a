"""Logits that are numbers, no probability above one, and some text whose probability is not 0."""

from __future__ import annotations

import math

import torch

from beyond_perplexity.auditing.checks import Evidence
from beyond_perplexity.auditing.subject import Subject, distributions
from beyond_perplexity.models.likelihoods import score_encoded
from beyond_perplexity.random_streams import stream
from beyond_perplexity.vocabulary import BOS, EOS

_ROWS, _LONGEST = 4, 128  # texts that the model writes, and how long they may become


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


def check_possible(subject: Subject) -> Evidence:
    """Look for one text with a probability above 0, in the sample and in what the model writes.

    A model of counts may find each text of a sample impossible, and yet be a distribution: what it
    writes by itself is possible as soon as it may end.
    """
    scores = [score.log_prob for score in score_encoded(subject.model, subject.encoded)]
    found = sum(score != -math.inf for score in scores)
    if found:
        return Evidence(0.0, len(scores), f"{found} of {len(scores)} texts of the sample have one")
    limit = min(_LONGEST, subject.model.context_length or _LONGEST)
    uniforms = stream(subject.seed, "audit/possible").random((limit, _ROWS))
    texts = torch.full((_ROWS, 1), BOS)  # (R, T)
    for place in range(limit):
        shares = distributions(subject.logits(texts))[:, -1]  # (R, V)
        if bool((shares[:, EOS] > 0).any()):
            detail = f"no text of the sample has one, but what the model writes ends after {place}"
            return Evidence(0.0, len(scores) + _ROWS, f"{detail} tokens")
        alive = shares.sum(1) > 0  # (R,)
        if not alive.any():
            break
        reached = shares.cumsum(1) / shares.sum(1, keepdim=True)  # (R, V)
        below = reached <= torch.from_numpy(uniforms[place])[:, None]  # (R, V)
        texts = torch.cat([texts, below.sum(1, keepdim=True)], 1)[alive]
        uniforms = uniforms[:, alive.numpy()]
    return Evidence(
        1.0,
        len(scores) + _ROWS,
        f"P = 0 of all {len(scores)} texts of the sample; what the model writes by itself may not "
        f"end within {limit} tokens either",
    )

"""Probabilities of the next token that add up to one."""

from __future__ import annotations

import torch
from torch import Tensor

from beyond_perplexity.auditing.evidence import Evidence
from beyond_perplexity.auditing.subject import Subject, distributions
from beyond_perplexity.random_streams import stream

_ALL = 2048  # so many ids are all scored; of more, some
_LIKELIEST, _DRAWN = 256, 128
_ROWS_SUMMED, _PLACES_SUMMED = 4, 16
_AT_ONCE = 16


def chosen_ids(subject: Subject, shares: Tensor) -> Tensor:
    """Choose the ids to score after prefixes: all, or the likeliest and some at random.

    Parameters
    ----------
    subject : Subject
    shares : Tensor
        What the softmax of the logits says, (..., V).

    Returns
    -------
    Tensor
        int64, rising.
    """
    size = shares.shape[-1]
    if size <= _ALL:
        return torch.arange(size)
    likely = shares.flatten(0, -2).sum(0).topk(_LIKELIEST).indices
    drawn = stream(subject.seed, "audit/ids").choice(size, _DRAWN, replace=False)
    return torch.cat([likely, torch.from_numpy(drawn)]).unique()


def check_normalization(subject: Subject) -> Evidence:
    """Add up what the model scores every id with, after the prefixes of some pieces.

    Of a large vocabulary the likeliest ids and some at random are scored, and the rest is taken to
    have what the softmax of the logits leaves it. A prefix that is itself impossible has no
    distribution and is left out.
    """
    inputs = subject.pieces[:_ROWS_SUMMED, :_PLACES_SUMMED]  # (B, T)
    rows = len(inputs)
    shares = distributions(subject.logits(inputs))  # (B, T, V)
    ids = chosen_ids(subject, shares)  # (N,)
    total = 1 - shares[..., ids].sum(-1)  # (B, T)
    if len(ids) == shares.shape[-1]:
        total = torch.zeros_like(total)
    for part in ids.split(_AT_ONCE):
        repeated = inputs.repeat(len(part), 1)  # (N' B, T)
        targets = part.repeat_interleave(rows)[:, None].expand_as(repeated)  # (N' B, T)
        scores = subject.log_probs(repeated, targets.contiguous())  # (N' B, T)
        total += scores.exp().view(len(part), rows, -1).sum(0)
    before = subject.log_probs(inputs[:, :-1], inputs[:, 1:]).cumsum(1)  # (B, T − 1)
    seen = torch.cat([torch.ones(rows, 1, dtype=torch.bool), before > -torch.inf], 1)  # (B, T)
    off = torch.where(seen, (total - 1).abs(), 0.0)
    place = int(off.nan_to_num(torch.inf).argmax())
    sums = f"after {place % off.shape[1] + 1} tokens the sum is {float(total.flatten()[place]):.6g}"
    how = "all" if len(ids) == shares.shape[-1] else "the likeliest and some other"
    return Evidence(float(off.max()), int(seen.sum()), f"{sums} ({len(ids):,} ids: {how})")

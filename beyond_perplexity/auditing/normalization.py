"""Probabilities that add up to one: of the next token, of continuations; and none that is lost."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from beyond_perplexity.auditing.checks import Evidence
from beyond_perplexity.auditing.subject import Subject, distributions
from beyond_perplexity.models.likelihoods import score_encoded
from beyond_perplexity.random_streams import stream
from beyond_perplexity.vocabulary import BOS, EOS, UNK

_ALL = 2048  # so many ids are all scored; of more, some
_LIKELIEST, _DRAWN = 256, 128
_ROWS_SUMMED, _PLACES_SUMMED = 4, 16
_AT_ONCE = 16
_DEPTH = 3


def chosen_ids(subject: Subject, shares: Tensor) -> Tensor:
    """Choose the ids to score after prefixes, int64, rising: all, or the likeliest and some others.

    `shares`, (..., V), is what the softmax of the logits says.
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


def check_continuations(subject: Subject) -> Evidence:
    """Compare P(prefix) with the sum of P of all that may follow it: each next token, and the end.

    P is that of whole token strings, scored from their beginning, and not a row of logits. From the
    empty text on the likeliest tokens are followed to a depth, and a random one.
    """
    limit = subject.model.context_length or math.inf
    nodes: list[tuple[int, ...]] = [()]
    aside: tuple[int, ...] | None = None  # followed by one token alone
    worst, detail, seen = 0.0, "", 0
    drawn = int(stream(subject.seed, "audit/continuations").choice(subject.possible))
    while nodes:
        node = nodes.pop(0)
        ratio, likely = _share(subject, node)
        seen += 1
        if math.isnan(ratio) or abs(ratio - 1) >= worst:
            worst = abs(ratio - 1)
            detail = f"what follows {len(node)} tokens {list(node)} has {ratio:.6g} of their P"
        if math.isnan(ratio):
            break
        if len(node) < min(_DEPTH, limit - 1) and likely is not None and node != aside:
            nodes.append((*node, likely))
            if not node and likely != drawn:
                aside = (drawn,)
                nodes.append(aside)
    return Evidence(worst, seen, detail)


def _share(subject: Subject, node: tuple[int, ...]) -> tuple[float, int | None]:
    """Return the part of a prefix' probability that follows it, and the likeliest next token."""
    inputs = torch.tensor([[BOS, *node]])  # (1, T)
    shares = distributions(subject.logits(inputs))[:, -1]  # (1, V)
    ids = chosen_ids(subject, shares)
    followers = ids[(ids != EOS) & (ids < subject.vocabulary.size)].numpy()
    strings = [np.array([*node, token]) for token in followers]
    prefix = np.array(node, np.int64)
    own = next(iter(score_encoded(subject.model, [prefix], count_eos=False))).log_prob
    if own == -math.inf:  # it has no continuations to speak of
        return 1.0, None
    ended = next(iter(score_encoded(subject.model, [prefix]))).log_prob
    open_ends = score_encoded(subject.model, strings, count_eos=False)
    found = np.array([score.log_prob for score in open_ends])
    rest = 0.0 if len(ids) == shares.shape[-1] else float(1 - shares[0, ids].sum())
    if rest and not bool((ids == EOS).any()):
        rest -= float(shares[0, EOS])
    total = float(np.exp(found - own).sum()) + math.exp(ended - own) + rest
    likely = int(followers[found.argmax()])
    return total, likely if found.max() > -math.inf else None


def check_reserved(subject: Subject) -> Evidence:
    """Add up the probability of ``<s>``, and of rows of the output that stand for no token.

    A vocabulary that was filled up to a round number has such rows; what they get is lost to every
    text. The deviation is the largest sum after a prefix.
    """
    size = subject.vocabulary.size
    shares = distributions(subject.logits(subject.pieces))  # (B, T, V)
    named = getattr(subject.vocabulary, "impossible", [BOS])
    idle = np.unique([BOS, *(token for token in named if token not in (EOS, UNK))])
    beyond = shares[..., size:].sum(-1)  # (B, T)
    lost = beyond + shares[..., torch.from_numpy(idle)].sum(-1)  # (B, T)
    place = int(lost.nan_to_num(torch.inf).argmax())
    count = len(idle) + max(0, shares.shape[-1] - size)
    detail = f"after {place % lost.shape[1] + 1} tokens, {count} ids that no text has"
    return Evidence(float(lost.max()), lost.numel(), detail)

"""Continuations of a prefix that share its probability, to a depth."""

from __future__ import annotations

import math

import numpy as np
import torch

from beyond_perplexity.auditing.evidence import Evidence
from beyond_perplexity.auditing.normalization import chosen_ids
from beyond_perplexity.auditing.subject import Subject, distributions
from beyond_perplexity.invariance.streams import stream
from beyond_perplexity.models.likelihoods import score_encoded
from beyond_perplexity.vocabulary import BOS, EOS

_DEPTH = 3


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

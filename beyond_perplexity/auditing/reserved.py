"""Probability that goes to ids which no text has."""

from __future__ import annotations

import numpy as np
import torch

from beyond_perplexity.auditing.evidence import Evidence
from beyond_perplexity.auditing.subject import Subject, distributions
from beyond_perplexity.vocabulary import BOS, EOS, UNK


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

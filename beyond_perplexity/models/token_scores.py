"""What a model says of each token of a document, whoever computes it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class TokenScores(NamedTuple):
    """What a model says of the tokens of one document, in their order."""

    log_probs: np.ndarray  # float64, (n,), nats, the end last where it is scored
    # int64, (n,): byte of the scored UTF-8 text at which each begins (end of the text: its length)
    starts: np.ndarray
    tokens: list[str]  # as shown
    ended: bool  # whether the last one is the end of the document

"""The likelihood of words under a language model that is kept from ending.

Given how many words a sentence has, nothing is left to say of its end: it is what the perplexity,
given the lengths, of a model without a likelihood is to be compared with.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

import numpy as np
import torch

from beyond_perplexity.models.contract import LanguageModel
from beyond_perplexity.models.likelihoods import LOGIT_ROWS, POOL
from beyond_perplexity.models.losses import chosen_log_probs
from beyond_perplexity.vocabulary import BOS, UNK


@torch.no_grad()
def endless_log_probs(model: LanguageModel, encoded: Iterable[np.ndarray]) -> Iterator[float]:
    """Yield Σ log p(word | words before it, no end) of sentences, nats, in any order.

    Parameters
    ----------
    model : LanguageModel
        Of a closed vocabulary, in evaluation mode; its probabilities of ``<unk>`` and of words are
        made to add up to 1.
    encoded : iterable of ndarray
        Ids of the words of each sentence, at least one, at most as many as the model's context.
    """
    stream = iter(encoded)
    while pool := sorted(islice(stream, POOL), key=len):
        while pool:
            rows = max(1, LOGIT_ROWS // len(pool[-1]))
            batch, pool = pool[-rows:], pool[:-rows]
            yield from _score_words(model, batch)


def _score_words(model: LanguageModel, batch: list[np.ndarray]) -> list[float]:
    width = len(batch[-1])
    inputs = np.full((len(batch), width), BOS, np.int64)
    targets = np.full((len(batch), width), UNK, np.int64)
    for row, ids in enumerate(batch):
        inputs[row, 1 : len(ids)] = ids[:-1]
        targets[row, : len(ids)] = ids
    logits = model(torch.from_numpy(inputs).to(model.device))[..., UNK:]  # (B, T, W)
    goals = torch.from_numpy(targets - UNK).to(model.device).flatten()  # (B T,)
    log_probs = chosen_log_probs(logits.flatten(0, 1), goals).view(len(batch), width)
    held = torch.tensor([len(ids) for ids in batch], device=model.device)  # (B,)
    behind = torch.arange(width, device=model.device) >= held[:, None]  # (B, T)
    sums: list[float] = log_probs.masked_fill(behind, 0.0).sum(1).tolist()
    return sums

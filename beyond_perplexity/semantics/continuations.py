"""What a model writes itself after the first words of a sentence, with all that stands before it.

All rows of a batch are at the same step, and a batch has whole quanta of rows: on a CPU a
continuation does not depend on its batch.

B rows, T steps, V ids.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from beyond_perplexity.decoding.kernels import pick, unnormalized
from beyond_perplexity.invariant_tensors import QUANTUM
from beyond_perplexity.models.contract import LanguageModel
from beyond_perplexity.random_streams import stream
from beyond_perplexity.semantics.next_words import best_tokens
from beyond_perplexity.vocabulary import BOS, EOS

_ROWS = 8 * QUANTUM  # of a batch
_PURPOSE = "semantics/continuation"  # of the random streams


class Prompt(NamedTuple):
    """What is continued.

    Attributes
    ----------
    ids : ndarray of int32
        Tokens from the beginning of the document, without ``<s>``.
    wanted : int
        Tokens that are to follow, one at least.
    item : int
        Key of the random stream.
    """

    ids: np.ndarray
    wanted: int
    item: int


@torch.no_grad()
def continue_prompts(
    model: LanguageModel, prompts: Sequence[Prompt], sampled: bool, seed: int
) -> list[np.ndarray | None]:
    """Let a model write as many tokens as are wanted; ``</s>`` is none of them.

    Parameters
    ----------
    model : LanguageModel
    prompts : sequence of Prompt
        Where the context is limited, of a long one only the end is read.
    sampled : bool
        Tokens are drawn; else each is the likeliest one.
    seed : int
        Of the run.

    Returns
    -------
    list of ndarray of int64 or None
        None where the context has no room for what is wanted.
    """
    room = model.context_length
    found: list[np.ndarray | None] = [None] * len(prompts)
    possible = [k for k, prompt in enumerate(prompts) if room is None or prompt.wanted <= room]
    # rows of like length together: a batch runs to the end of its longest
    possible.sort(key=lambda k: (len(prompts[k].ids) + prompts[k].wanted, k))
    for first in range(0, len(possible), _ROWS):
        places = possible[first : first + _ROWS]
        held = [_fit(prompts[k], room) for k in places]
        written = _write(model, held, [prompts[k] for k in places], sampled, seed)
        for place, ids in zip(places, written, strict=True):
            found[place] = ids
    return found


def _fit(prompt: Prompt, room: int | None) -> np.ndarray:
    """Return ``<s>`` and the tokens of a prompt: as many of the last as the context has room for.

    The last token that is written is not read again.
    """
    ids = np.concatenate([[BOS], prompt.ids]).astype(np.int64)
    return ids if room is None else ids[-(room - prompt.wanted + 1) :]


def _write(
    model: LanguageModel,
    starts: Sequence[np.ndarray],
    prompts: Sequence[Prompt],
    sampled: bool,
    seed: int,
) -> list[np.ndarray]:
    """Continue the rows of one batch, the last one repeated up to a whole number of quanta."""
    missing = -len(starts) % QUANTUM
    starts = [*starts, *[starts[-1]] * missing]
    prompts = [*prompts, *[prompts[-1]] * missing]
    lengths = np.array([len(ids) for ids in starts])
    ends = lengths + np.array([prompt.wanted for prompt in prompts])
    tokens = np.zeros((len(starts), ends.max()), np.int64)
    numbers = np.zeros(tokens.shape if sampled else (0, 0))
    for row, (ids, prompt) in enumerate(zip(starts, prompts, strict=True)):
        tokens[row, : len(ids)] = ids
        if sampled:
            drawn = stream(seed, _PURPOSE, prompt.item).random(prompt.wanted)
            numbers[row, len(ids) : ends[row]] = drawn
    device = model.device
    held, uniform = torch.from_numpy(tokens).to(device), torch.from_numpy(numbers).to(device)
    state = model.initial_state(len(tokens), int(ends.max()) - 1)
    for place in range(1, int(ends.max())):
        writing = torch.from_numpy((lengths <= place) & (place < ends)).to(device)  # (B,)
        if not bool(writing.any()):
            nothing = held.new_empty(0)
            _, state = model.step_some(held[:, place - 1], state, nothing)
            continue
        logits, state = model.step(held[:, place - 1], state)  # (B, V)
        chosen = _next(logits, uniform[:, place] if sampled else None)  # (B,)
        held[:, place] = torch.where(writing, chosen, held[:, place])
    written = held.cpu().numpy()
    real = zip(written, lengths.tolist(), ends.tolist(), strict=True)
    return [row[start:end] for row, start, end in real][: len(starts) - missing]


def _next(logits: Tensor, uniform: Tensor | None) -> Tensor:
    """Return a token of each row, (B,), of logits (B, V) that are overwritten."""
    logits[:, EOS] = -torch.inf
    best = best_tokens(logits)
    return best if uniform is None else pick(unnormalized(logits), uniform)

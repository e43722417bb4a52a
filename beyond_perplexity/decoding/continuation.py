"""Continue human prompts: documents whose first tokens are given, drawn by any engine of one row.

The prompt's tokens stand in the place of those that are drawn, step by step, so that a model reads
them as its own; they add nothing to log probabilities. Random numbers are those of the document's
id and step, whatever its prompt. S slots, P rooms, L tokens of a document at most.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from beyond_perplexity.corpus.normalization import Preprocessing
from beyond_perplexity.decoding import sampling
from beyond_perplexity.decoding.options import DecodingOptions, decoding_row
from beyond_perplexity.decoding.sampling import SamplingEngine, TokenDraw
from beyond_perplexity.errors import InputError
from beyond_perplexity.models.contract import LanguageModel
from beyond_perplexity.models.registry import find_engines
from beyond_perplexity.vocabulary import Vocabulary

AT_ONCE = 128  # of a step; halved where the memory asks for it


class _Continuing(SamplingEngine):
    """An engine whose documents 0 to N - 1 begin with the tokens of `given`, (N, L), then -1."""

    given: Tensor

    def _fields(self, rooms: int) -> dict[str, Tensor]:
        begun = torch.full((rooms, self.maximum_length), -1, device=self.device)  # (P + 1, L)
        return super()._fields(rooms) | {"begun": begun}

    def _work(self) -> None:
        items = torch.from_numpy(np.maximum(self._held.items, 0)).to(self.device)  # (P,)
        self._held.fields["begun"][:-1].copy_(self.given[items])
        super()._work()

    def next_tokens(self) -> TokenDraw:
        """Draw the next token of every slot, or take that of its prompt."""
        drawn, slots = super().next_tokens(), self.slots
        begun = self._held.fields["begun"][slots["room"], slots["length"]]  # (S,)
        mine = begun < 0  # (S,)
        token = torch.where(mine, drawn.token, begun)
        log_probs = (torch.where(mine, one, 0.0) for one in drawn[1:])
        return TokenDraw(token, *log_probs)


def written_behind(
    model: LanguageModel,
    vocabulary: Vocabulary,
    options: DecodingOptions,
    prompts: Sequence[str],
    *,
    seed: int,
    purpose: str,
    maximum_length: int,
) -> list[str]:
    """Draw a continuation of each prompt, of at most so many tokens with it: its text alone."""
    if decoding_row(options.kind).beam:
        wrong = f"is {options.given()}, which draws whole documents"
        raise InputError(f"decoding: {wrong}; name one that draws a token at a time")
    ids = vocabulary.encode(prompts)
    longest = max(map(len, ids), default=0)
    if longest >= maximum_length:
        raise InputError(f"maximum length: is {maximum_length}, but a prompt has {longest} tokens")
    given = np.full((len(ids), maximum_length), -1, np.int64)
    for row, own in zip(given, ids, strict=True):
        row[: len(own)] = own
    own_engines = find_engines(model.config["family"]) or sampling
    held = {"given": torch.from_numpy(given).to(model.device)}
    kind = type("Continuing", (_Continuing, own_engines.SamplingEngine), held)
    engine = kind(model.eval(), options, seed, purpose, maximum_length, AT_ONCE)
    drawn = engine.documents(0, len(ids))
    return vocabulary.decode([one.tokens[len(own) :] for one, own in zip(drawn, ids, strict=True)])


def cut_prompts(
    texts: Sequence[str], tokens: int, vocabulary: Vocabulary
) -> tuple[list[str], list[str]]:
    """Cut texts behind so many words: prompts, and their continuations as a model's are cleaned."""
    words = [text.split() for text in texts]
    prompts = [" ".join(own[:tokens]) for own in words]
    rests = [" ".join(own[tokens:]) for own in words]
    cleaning = vocabulary.describe().get("cleaning")
    return prompts, Preprocessing.from_config(cleaning).apply(rests) if cleaning else rests

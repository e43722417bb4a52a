"""Documents and latents drawn from KGLM, token by token: (x, z) ~ p.

An unknown word that is generated is one of the U unknown types, all as probable as each other: a
word of an alias, as a copy of it would be, or one that nothing is known of, written ``<unk>``. So p
is that of the model with unknown words penalized (`LatentModel.as_simulated`).

R rows (documents of a block, in whole quanta), Q of them in a mention, P = 1 position, V ids, S
aliases of an entity, L words of an alias.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from beyond_perplexity.corpus.latent_instances import LATENTS, TOKENS, Instance
from beyond_perplexity.invariant_tensors import invert, round_up, uniforms
from beyond_perplexity.models.latent import Simulated
from beyond_perplexity.models.latents.kglm_instances import SPELLINGS, UNSPELLED, Spellings
from beyond_perplexity.models.latents.kglm_steps import TOKEN_DRAWS, LatentState, draw_links
from beyond_perplexity.models.latents.kglm_words import LinkedWords
from beyond_perplexity.models.recurrent_layers import AWDLSTM
from beyond_perplexity.vocabulary import BOS, EOS, UNK, Vocabulary

_BLOCK = 64  # documents that are drawn side by side
STEP_DRAWS = TOKEN_DRAWS + 2  # of a token: those of its latent, its word, which unknown one
DRAWN_AT_ONCE = 64  # tokens whose random numbers are held


class _Text(NamedTuple):
    """What a block of documents has come to, int64, (R, T) each."""

    ids: Tensor  # Of the vocabulary; `EOS` from the end on
    spellings: Tensor  # Of words that are copied and of unknown ones, `UNSPELLED` for the others
    codes: Tensor


class _Encoder:
    """The model's LSTMs, a word at a time."""

    def __init__(self, model: LinkedWords, encoder: AWDLSTM) -> None:
        self._embedding, self._layers = model.embedding, encoder.layers
        self._states: list[tuple[Tensor, Tensor] | None] = [None] * len(self._layers)

    def read(self, tokens: Tensor) -> Tensor:
        """Read words (R,): what stands at the next position, (R, 1, D + 2 d)."""
        stream: Tensor = self._embedding(tokens)[:, None]  # (R, 1, E)
        for number, layer in enumerate(self._layers):
            assert isinstance(layer, nn.LSTM)
            stream, self._states[number] = layer(stream, self._states[number])
        return stream


@torch.no_grad()
def simulate_links(
    model: LinkedWords,
    encoder: AWDLSTM,
    seed: int,
    purpose: str,
    numbers: range,
    maximum_words: int,
    vocabulary: Vocabulary,
) -> list[Simulated]:
    """Draw documents; see `LatentModel.simulate`.

    `encoder`: its own; `seed`, `purpose`, `numbers`, `maximum_words`, `vocabulary`: see there.
    """
    spellings, found = Spellings(model.graph), []
    types = model.types_of_unknown(getattr(vocabulary, "unknown_types", None) or 1)
    spelled = np.array([*model.graph.alias_vocabulary(), ""], dtype=object)
    for start in range(numbers.start, numbers.stop, _BLOCK):
        held = torch.arange(start, min(start + _BLOCK, numbers.stop))  # (R',)
        text = _draw_block(model, encoder, seed, purpose, round_up(held), maximum_words, types)
        for row, number in enumerate(held.tolist()):
            ids, numbered, codes = (part[row].cpu().numpy() for part in text)
            end = int(np.argmax(np.append(ids, EOS) == EOS))
            length = min(end, maximum_words)
            ids, numbered, codes = ids[:length], numbered[:length], codes[:length]
            generated = [vocabulary.decode([ids[i : i + 1]])[0] for i in range(length)]
            words = np.where(numbered == UNSPELLED, np.array(generated, object), spelled[numbered])
            arrays = {
                TOKENS: ids,
                SPELLINGS: spellings.of(words.tolist(), UNSPELLED),
                LATENTS: codes,
            }
            latents, cut = torch.from_numpy(codes), end > maximum_words
            found.append(Simulated(words.tolist(), Instance(number, arrays), latents, cut))
    return found


def _draw_block(
    model: LinkedWords,
    encoder: AWDLSTM,
    seed: int,
    purpose: str,
    items: Tensor,
    longest: int,
    types: int,
) -> _Text:
    """Draw a block of documents of at most T words, and what comes after the last of them."""
    device, count = model.device, len(items)
    reader, words = _Encoder(model, encoder), torch.full((count,), BOS, device=device)  # (R,)
    ones = torch.ones_like(words)  # (R,)
    state: LatentState | None = None
    columns: list[tuple[Tensor, Tensor, Tensor]] = []
    ended = words < 0  # (R,)
    for time, draws in enumerate(_numbers(seed, purpose, items, longest + 1, device)):
        streams = model.heads.split(reader.read(words), ones, keep=True)
        if state is None:
            state = LatentState.of(model.graph, streams, torch.arange(count, device=device))
        state = state._replace(streams=streams)
        codes = draw_links(model.heads, state, 0, draws[:, :TOKEN_DRAWS], 1.0)  # (R,)
        state = state._replace(memory=state.memory.follow(codes, time))
        words, spelled = _draw_words(
            model, streams.token[:, 0], state.memory.current, draws[:, TOKEN_DRAWS:-1]
        )
        nameless = (words == UNK) & (spelled == UNSPELLED)  # (R,)
        spelled = torch.where(nameless, _draw_unknown(model, types, draws[:, -1]), spelled)  # (R,)
        words = words.masked_fill(ended, EOS)  # (R,)
        ended = words == EOS
        columns.append((words, spelled, codes))
        if ended.all():
            break
    return _Text(*(torch.stack(parts, 1) for parts in zip(*columns, strict=True)))


def _numbers(
    seed: int, purpose: str, items: Tensor, tokens: int, device: torch.device
) -> Iterator[Tensor]:
    """Yield the random numbers of each token of a block of documents, (R, 5)."""
    for start in range(0, tokens, DRAWN_AT_ONCE):
        several = min(DRAWN_AT_ONCE, tokens - start)
        window = start * STEP_DRAWS, several * STEP_DRAWS
        numbers = uniforms(seed, purpose, items, *window, device)  # (R, several · 5)
        yield from numbers.unflatten(1, (several, STEP_DRAWS)).unbind(1)


def _draw_words(
    model: LinkedWords, hidden: Tensor, entities: Tensor, draws: Tensor
) -> tuple[Tensor, Tensor]:
    """Draw words after h (R, D) in mentions of entities (R,), −1 for none: ids and copies, (R,)."""
    logits = model.vocabulary_logits(model.mix_words(hidden), [BOS])  # (R, V)
    mentioned = (entities >= 0).nonzero()[:, 0]  # (Q,)
    width = logits.shape[1]
    slots = model.alias_words[0].numel()  # S L
    wide = functional.pad(logits, (0, slots), value=-torch.inf)  # (R, V + S L)
    spelled = torch.full((len(hidden), slots), UNSPELLED, device=hidden.device)  # (R, S L)
    if len(mentioned):
        rows = round_up(mentioned)  # (Q',)
        scores, words = model.mention_logits(hidden[rows], entities[rows])
        wide[mentioned] = scores[: len(mentioned)]
        spelled[mentioned] = words[: len(mentioned)]
    sums = (wide - wide.amax(1, keepdim=True)).double().exp_().cumsum(1)  # (R, V + S L)
    place = invert(sums, draws)  # (R, 1)
    slot = (place - width).clamp_min(0)  # (R, 1)
    copies = torch.where(place >= width, spelled.gather(1, slot), UNSPELLED)[:, 0]  # (R,)
    return torch.where(copies == UNSPELLED, place[:, 0], model.ids_of(copies)), copies


def _draw_unknown(model: LinkedWords, types: int, draws: Tensor) -> Tensor:
    """Draw one of U unknown types for each row, (R,): its spelling, `UNSPELLED` without one."""
    spelled = functional.pad(model.unknown_spellings, (0, 1), value=UNSPELLED)  # (A + 1,)
    return spelled[(draws * types).long().clamp_max(len(spelled) - 1)]  # (R,)

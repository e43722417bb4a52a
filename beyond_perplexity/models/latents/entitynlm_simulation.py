"""Documents that EntityNLM writes itself, with who is mentioned where: (x, z) ~ p.

All documents of a block go word by word side by side, as the model is defined: t, e and l, then
the word or the end. ``</s>`` in the place of a first word gives a document without words.

R documents of a block (whole quanta of them), D width, N words of a document at most.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from beyond_perplexity.corpus.latent_instances import LATENTS, TOKENS, Instance
from beyond_perplexity.invariant_tensors import QUANTUM, round_up, uniforms_by_step
from beyond_perplexity.models.latent import FILLING, Simulated
from beyond_perplexity.models.latents.entitynlm_dynamic_entities import (
    Steps,
    join_mention_codes,
    split_mention_codes,
)
from beyond_perplexity.models.latents.entitynlm_walks import (
    WORD_DRAWS,
    EntityState,
    begins,
    draw_start,
    take_code,
)
from beyond_perplexity.vocabulary import BOS, EOS, Vocabulary, split_words

if TYPE_CHECKING:
    from beyond_perplexity.models.latents.entitynlm import EntityNLM

DOCUMENTS_AT_ONCE = 256
_DRAWS = WORD_DRAWS + 2  # for t, e and l, and for the word in two steps


class Writers(NamedTuple):
    """Documents that have not ended."""

    place: Tensor  # int64, (R,): which documents of the block; the last may be repeated
    state: Tensor  # (R, D): what the LSTM says after the words so far
    carried: tuple[Tensor, Tensor]  # (layers, R, D) each: its hidden and cell states
    choices: EntityState  # Its steps are of the next word

    def select(self, rows: Tensor) -> Writers:
        """Return the writers in those rows."""
        hidden, cell = self.carried
        held = hidden[:, rows].contiguous(), cell[:, rows].contiguous()
        return Writers(self.place[rows], self.state[rows], held, self.choices.select(rows))


@torch.no_grad()
def simulate_documents(
    model: EntityNLM,
    seed: int,
    purpose: str,
    numbers: range,
    maximum_words: int,
    vocabulary: Vocabulary,
) -> list[Simulated]:
    """Draw documents with their latents; see `models.latent.LatentModel.simulate`."""
    found: list[Simulated] = []
    for start in range(numbers.start, numbers.stop, DOCUMENTS_AT_ONCE):
        part = range(start, min(start + DOCUMENTS_AT_ONCE, numbers.stop))
        tokens, codes, lengths = _write(model, seed, purpose, part, maximum_words)
        for row, number in enumerate(part):
            size = int(lengths[row])
            kept = slice(0, min(size, maximum_words))
            ids, latents = tokens[row, kept], codes[row, kept]
            arrays = {TOKENS: ids.numpy(), LATENTS: latents.numpy()}
            words = split_words(vocabulary.decode([arrays[TOKENS]])[0])
            cut = size > maximum_words
            found.append(Simulated(words, Instance(number, arrays), latents, cut))
    return found


def _write(
    model: EntityNLM, seed: int, purpose: str, numbers: range, most: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the words and the codes of documents, (R, N), and their lengths, (R,), on the CPU.

    A document that has not ended after N words has the length N + 1.
    """
    device, count = model.device, len(numbers)
    items = torch.arange(numbers.start, numbers.stop)  # (R,)
    tokens = torch.full((count, most), EOS)  # (R, N)
    codes = torch.full((count, most), FILLING)  # (R, N)
    lengths = torch.full((count,), most + 1)  # (R,)
    writers = _begin(model, round_up(torch.arange(count)).to(device))
    numbers_of_words = uniforms_by_step(seed, purpose, items, _DRAWS, device)
    for time, draws in zip(range(most + 1), numbers_of_words, strict=False):
        word, code = _choose(model, writers, time, draws[writers.place])  # (R',) each
        place, word, code = (part.cpu() for part in (writers.place, word, code))
        alive = lengths[place] > most  # (R',): others are carried along until a quantum is free
        ended = alive & (word == EOS)
        lengths[place[ended]] = time
        going = (alive & ~ended).nonzero()[:, 0]  # (R'',)
        if time == most or not len(going):
            break
        tokens[place[going], time], codes[place[going], time] = word[going], code[going]
        writers = _read(model, writers, time, word.to(device), code.to(device))
        if len(going) <= len(word) - QUANTUM:
            writers = writers.select(round_up(going).to(device))
    return tokens, codes, lengths


def _begin(model: EntityNLM, place: Tensor) -> Writers:
    """Let documents read ``<s>``."""
    state, carried = _step(model, torch.full_like(place, BOS), None)
    rows = torch.arange(len(place), device=place.device)  # (R,)
    choices = EntityState.of(model.entities, _steps(model, state), rows)
    return Writers(place, state, carried, choices)


def _step(
    model: EntityNLM, word: Tensor, carried: tuple[Tensor, Tensor] | None
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """Run the LSTM over a word each, (R,): its output, (R, D), and its states."""
    embedded = model.text.embedding(word)[:, None]  # (R, 1, D)
    output, held = model.text.layers(embedded, carried)
    return output[:, 0], held


def _steps(model: EntityNLM, state: Tensor) -> Steps:
    """Return what states, (R, D), say of the choices of the next word, (R, 1, ...)."""
    return model.entities.steps(state[:, None], state[:, None])


def _choose(model: EntityNLM, writers: Writers, time: int, draws: Tensor) -> tuple[Tensor, Tensor]:
    """Draw the word, or the end, and the code of documents, int64, (R,) each."""
    heads, choices = model.entities, writers.choices
    at = choices.steps.at(choices.owner, torch.zeros_like(choices.owner))
    times = torch.full_like(writers.place, time)  # (R,)
    mention = begins(at.begin, draws[:, 0], 1.0)  # (R,)
    started = draw_start(heads, at, choices.memory, times, draws[:, 1:WORD_DRAWS], 1.0, time)
    code = join_mention_codes(mention, *started)  # (R,)
    code = torch.where(choices.running, choices.last - 1, code)
    inside, entity, _ = split_mention_codes(code)  # (R,)
    held = heads.vectors(choices.memory, entity)  # (R, D)
    context = torch.where(inside[:, None], held, choices.context)  # (R, D)
    features = writers.state + model.context(context)  # (R, D)
    word = model.words.sample(features, inside & ~choices.running, draws[:, WORD_DRAWS:])
    return word, code


def _read(model: EntityNLM, writers: Writers, time: int, word: Tensor, code: Tensor) -> Writers:
    """Let documents read the words that they have written; those that have ended go on, unseen."""
    state, carried = _step(model, word, writers.carried)
    steps = _steps(model, state)
    at = Steps(*(part[:, 0] for part in steps))  # of it the gate and the update
    read = take_code(model.entities, writers.choices, at, time, code)
    rows = torch.arange(len(word), device=word.device)  # (R,)
    return Writers(writers.place, state, carried, read._replace(steps=steps, owner=rows))

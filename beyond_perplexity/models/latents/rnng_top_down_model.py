"""The labelled, top-down recurrent neural network grammar (Dyer et al. 2016).

z are the actions that open phrases by their label, SHIFT words and close phrases, until the root is
closed, which is the end of a sentence: there is no ``</s>``. LSTMs over the stack, the actions and
the words so far decide on the next possible action, and name the word to shift. A closed phrase is
put together from its label and its children by a bidirectional LSTM. Limits for open phrases and
for phrases opened in a row belong to the model: z is finite.

B instances, R rows, W actions of a row, M distinct prefixes of actions, A actions, D width.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from beyond_perplexity.corpus.latent_instances import TOKENS, Instance, InstanceBatch
from beyond_perplexity.invariant_tensors import invert, round_up, sum_rows
from beyond_perplexity.models.latent import PADDING, check_ends
from beyond_perplexity.models.latents import rnng_top_down, rnng_top_down_actions
from beyond_perplexity.models.latents.rnng_instances import (
    FIRST_LABEL,
    REDUCE,
    SHIFT,
    DrawnSentences,
    TreeModel,
    draw_words,
)
from beyond_perplexity.models.latents.rnng_stack_memory import ROWS_AT_ONCE
from beyond_perplexity.models.word_softmax import Words, score_words, word_log_probs
from beyond_perplexity.vocabulary import BOS


@dataclass(frozen=True)
class TopDownRNNGOptions(rnng_top_down_actions.TopDownOptions):
    """Architecture of the labelled, top-down RNNG.

    count_eos: T counts the end of a sentence, which the model predicts by closing the root, and log
        p has it.
    train_eos: The training loss has the closing of the root too; where log p has it, it must.
    """

    count_eos: bool = True
    train_eos: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_ends(self.count_eos, self.train_eos)


class TopDownRNNG(rnng_top_down.LabelledTreeModule, TreeModel):
    """Labelled, top-down RNNG; see the module. Parameters are those of `LabelledTreeModule`."""

    family = "rnng-top-down"
    options_kind = TopDownRNNGOptions
    options: TopDownRNNGOptions

    def build(self) -> None:
        """Make the layers, untrained."""
        super().build()
        self.terminals = rnng_top_down.word_lstm(self.options)
        self.choice = nn.Linear(self.options.size, FIRST_LABEL + len(self.labels))
        self.word_bias = nn.Parameter(torch.zeros(len(self.encoder.embedding.weight)))

    def readable(self, instance: Instance, latent: Tensor) -> dict[str, Any]:
        """Write a tree as brackets over the positions of the words."""
        parts, word = list[str](), 0
        for action in latent.tolist():
            if action == SHIFT:
                parts.append(f" #{word}")
                word += 1
            elif action == REDUCE:
                parts.append(")")
            elif action >= FIRST_LABEL:
                parts.append(f" ({self.labels[action - FIRST_LABEL]}")
        return {"tree": "".join(parts).strip()}

    def log_joint(self, batch: InstanceBatch, owner: Tensor, latents: Tensor) -> Tensor:
        """Return log p(x, z), nats, float64, (R,); −inf where z is no tree over x."""
        reading, ended = self.reading(batch), self.options.count_eos  # (B, T + 1, D)
        blocks = torch.arange(len(owner), device=owner.device).split(ROWS_AT_ONCE)
        return torch.cat(
            [self._block(batch, reading, owner[rows], latents[rows], ended)[1] for rows in blocks]
        )

    # ---- word by word ----

    def extend(
        self, state: rnng_top_down.LabelledParticles, time: int, choice: Tensor
    ) -> tuple[Tensor, rnng_top_down.LabelledParticles]:
        """Take the actions up to a word; see `SequentialModel`."""
        return state.read(choice, self._score_actions)

    def finish(self, state: rnng_top_down.LabelledParticles, time: int) -> Tensor:
        """Close what is open, or all but the root, where a sentence ends; see `SequentialModel`."""
        log_prob = torch.zeros(len(state.at), dtype=torch.float64, device=state.at.device)  # (K,)
        here = state.batch.lengths[TOKENS][state.owner] == time  # (K,)
        state, last = state.pruned(), int(not self.options.count_eos)
        while True:
            opened = state.course.nodes.opened[state.at]  # (K,)
            rows = (here & (opened > last)).nonzero()[:, 0]  # (R,)
            if not len(rows):
                return log_prob
            action = torch.full_like(rows, REDUCE)  # (R,)
            log_prob = log_prob.index_add(0, rows, self._score_actions(state, rows, action))
            state = state.take(rows, action)

    def join_choices(self, choices: Tensor, lengths: Tensor) -> Tensor:
        """Make rows of actions of those up to each word, (R, T, C): int64, (R, W)."""
        word = torch.arange(choices.shape[1], device=choices.device)  # (T,)
        inside = (word < lengths[:, None])[..., None]  # (R, T, 1)
        flat = torch.where(inside, choices, PADDING).flatten(1)  # (R, T C)
        order = (flat == PADDING).long().argsort(stable=True, dim=1)  # (R, T C)
        return rnng_top_down_actions.close_phrases(flat.gather(1, order))

    def split_latents(self, latents: Tensor, lengths: Tensor) -> Tensor:
        """Cut rows of actions, (R, W), into those up to each word: int64, (R, T, C)."""
        longest, shifts = int(lengths.max()), (latents == SHIFT).long()  # (R, W)
        word = shifts.cumsum(1) - shifts  # (R, W): the word that an action leads to
        counted = (latents != PADDING) & (word < longest)  # (R, W)
        slot = torch.where(counted, word, longest)  # (R, W)
        counts = torch.zeros(len(latents), longest + 1, dtype=torch.int64, device=latents.device)
        counts = counts.scatter_add(1, slot, torch.ones_like(slot))  # (R, T + 1)
        position = torch.arange(latents.shape[1], device=latents.device)  # (W,)
        before = (counts.cumsum(1) - counts).gather(1, slot)  # (R, W): actions of earlier words
        widest = max(1, int(counts[:, :-1].max()))
        found = latents.new_full((len(latents), (longest + 1) * widest + 1), PADDING)
        spot = torch.where(counted, slot * widest + position - before, found.shape[1] - 1)  # (R, W)
        found = found.scatter(1, spot, torch.where(counted, latents, PADDING))
        return found[:, : longest * widest].unflatten(1, (longest, widest))

    def draw_trees(self, count: int, lots: Iterator[Tensor], maximum_words: int) -> DrawnSentences:
        """Draw sentences with their trees; see `TreeModel.draw_trees`."""
        return draw_labelled_trees(self, count, lots, maximum_words)

    def _score_actions(
        self, state: rnng_top_down.LabelledParticles, rows: Tensor, action: Tensor
    ) -> Tensor:
        """Return log p of actions of some particles, (R,), and of the words that they shift."""
        log_actions = self.action_log_probs(state, rows)  # (R, A)
        log_prob = log_actions.gather(1, action[:, None])[:, 0]  # (R,)
        shifts = (action == SHIFT).nonzero()[:, 0]  # (S,)
        if not len(shifts):
            return log_prob
        nodes, at = state.course.nodes, state.at[rows]  # (R,)
        distinct, inverse = torch.unique(at[shifts], return_inverse=True)  # (P,), (S,)
        one = torch.empty_like(distinct).scatter_(0, inverse, rows[shifts])  # (P,): a particle each
        one, distinct = round_up(one), round_up(distinct)  # (P',)
        targets = state.batch.tokens[nodes.owner[distinct], nodes.words[distinct]]  # (P',)
        goal = Words(targets, torch.zeros_like(targets, dtype=torch.bool))
        weight, bias = self.encoder.embedding.weight, self.word_bias
        words = word_log_probs(state.context[one], weight, bias, goal)[inverse]  # (S,)
        return log_prob.index_add(0, shifts, words)

    # ---- log p(x, z) ----

    def loss(self, batch: InstanceBatch, epoch: float = math.inf) -> Tensor:
        """Return −Σ log p(x, z) of the annotated trees."""
        everyone = torch.arange(len(batch), device=batch.ids.device)  # (B,)
        rows, ended = self.annotated(batch), self.options.train_eos  # (B, W)
        return -self._block(batch, self.reading(batch), everyone, rows, ended)[0].float()

    def _read(self, batch: InstanceBatch) -> Tensor:
        """Run the LSTM over the words: its output before each position, (B, T + 1, D)."""
        words = functional.pad(batch.tokens, (1, 0), value=BOS)  # (B, T + 1)
        output: Tensor = self.terminals(self.encoder.drop(self.encoder.embedding(words)))[0]
        return output

    def _block(
        self,
        batch: InstanceBatch,
        reading: Tensor,
        owner: Tensor,
        latents: Tensor,
        ended: bool,
    ) -> tuple[Tensor, Tensor]:
        """Return Σ log p(x, z), with gradient, and log p(x, z) of each row, (R,)."""
        rows = self.follow_rows(batch, reading, owner, latents)
        nodes, counted = rows.nodes, rows.counted  # (R, W)
        here, shifts = rows.prefixes.nodes[:, :-1], rows.latents == SHIFT  # (R, W)
        log_actions = rnng_top_down_actions.action_log_probs(
            self.choice(rows.contexts), rows.possible
        )  # (M, A)
        taken = log_actions[here, rows.latents.clamp(min=0)]  # (R, W)
        going = functional.pad(counted[:, 1:], (0, 1))  # (R, W): all but the closing of the root
        actions = sum_rows(torch.where(counted if ended else going, taken, 0.0))  # (R,)
        counts = torch.bincount(here[shifts & counted], minlength=len(nodes))  # (M,)
        position = nodes.words.clamp(max=batch.tokens.shape[1])  # (M,)
        targets = functional.pad(batch.tokens, (0, 1))[nodes.owner, position]  # (M,)
        goal = Words(targets, torch.zeros_like(targets, dtype=torch.bool))  # (M,)
        weight, bias = self.encoder.embedding.weight, self.word_bias
        summed, by_word = score_words(rows.contexts, weight, bias, goal, counts)  # (), (M,)
        words = sum_rows(torch.where(shifts & counted, by_word[here], 0.0))  # (R,)
        missing = torch.where(rows.valid, 0.0, -torch.inf).double()  # (R,)
        return summed + actions.sum() + missing.sum(), words + actions.detach() + missing


class _Reader:
    """The words so far, and what the LSTM over them says, written as they come."""

    def __init__(self, model: TopDownRNNG, count: int, maximum_words: int) -> None:
        self._model = model
        device, size = model.device, model.options.size
        self.words = torch.zeros(count, maximum_words, dtype=torch.int64, device=device)  # (R, T)
        self.reading = model.word_bias.new_zeros(count, maximum_words + 1, size)  # (R, T + 1, D)
        first = torch.full((count,), BOS, device=device)  # (R,)
        output, self._state = self._step(first, None)  # (R, D)
        self.reading[:, 0] = output

    def read(self, rows: Tensor, positions: Tensor, words: Tensor) -> None:
        """Read words, (S,), of some sentences, (S,), at their positions, (S,)."""
        self.words[rows, positions] = words
        every = torch.zeros_like(self.words[:, 0]).index_copy(0, rows, words)  # (R,)
        output, after = self._step(every, self._state)  # (R, D)
        self.reading[rows, positions + 1] = output[rows]
        for old, new in zip(self._state, after, strict=True):  # (L, R, D) each
            old[:, rows] = new[:, rows]

    def _step(
        self, words: Tensor, state: tuple[Tensor, Tensor] | None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        embedded = self._model.encoder.embedding(words)[:, None]  # (R, 1, D)
        output, after = self._model.terminals(embedded, state)
        return output[:, 0], after


@torch.no_grad()
def draw_labelled_trees(
    model: TopDownRNNG, count: int, numbers: Iterator[Tensor], maximum_words: int
) -> DrawnSentences:
    """Draw sentences from a top-down RNNG in evaluation mode, by two numbers an action, (R, 2); one
    that is too long is cut: phrases without a word are dropped, the others closed."""
    reader = _Reader(model, count, maximum_words)
    going = torch.arange(count, device=reader.words.device)  # (R',): sentences that go on
    lengths, cut = torch.zeros_like(going), torch.zeros_like(going, dtype=torch.bool)  # (R,)
    batch = InstanceBatch(going, {TOKENS: reader.words}, {TOKENS: lengths})
    state = rnng_top_down.LabelledParticles.of(model, batch, reader.reading, going)
    columns: list[Tensor] = []
    while len(going):
        each = model.action_log_probs(state, going)  # (R', A)
        both = next(numbers)[going]  # (R', 2)
        action = invert(each.exp().cumsum(1), both[:, :1])[:, 0]  # (R',)
        long = (action == SHIFT) & (lengths[going] == maximum_words)  # (R',)
        cut[going[long]] = True
        going, action, both = going[~long], action[~long], both[~long]
        shifts = action == SHIFT  # (R',)
        rows = going[shifts]  # (S,)
        weight, bias = model.encoder.embedding.weight, model.word_bias
        never = torch.zeros_like(rows, dtype=torch.bool)  # (S,)
        drawn = draw_words(state.context[rows], weight, bias, never, both[shifts, 1])  # (S,)
        reader.read(rows, lengths[rows], drawn)
        lengths[rows] += 1
        columns.append(torch.full_like(lengths, PADDING).index_copy(0, going, action))
        state = state.take(going, action).pruned() if len(going) else state
        going = going[~rnng_top_down_actions.root_is_closed(state.course.nodes, state.at[going])]
    return DrawnSentences(_closed(torch.stack(columns, 1), cut), reader.words, lengths, cut)


def _closed(actions: Tensor, cut: Tensor) -> Tensor:
    """Drop the phrases without a word of rows that are cut, (R, W), and close the others."""
    position = torch.arange(actions.shape[1], device=actions.device)  # (W,)
    solid = (actions != PADDING) & (actions < FIRST_LABEL)  # (R, W)
    last = torch.where(solid, position, -1).amax(1, keepdim=True)  # (R, 1)
    actions = actions.masked_fill(cut[:, None] & (position > last), PADDING)  # (R, W)
    return rnng_top_down_actions.close_phrases(actions)

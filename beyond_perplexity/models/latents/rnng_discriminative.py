"""The discriminative, labelled, top-down RNNG: a proposal that reads the words to come.

q(z | x) is a product over the actions of a tree (Dyer et al. 2016, section 3.4). LSTMs over the
stack, over the actions and, from the end of the sentence back to the next word, over the buffer
decide among the actions that can still lead to a tree over the sentence. The temperature is local:
the scores of each action are divided by τ.

B instances, R rows, W actions of a row, T words of the longest, M nodes, A actions, D width.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from beyond_perplexity.corpus.latent_instances import TOKENS, InstanceBatch
from beyond_perplexity.invariant_tensors import invert, sum_rows
from beyond_perplexity.models.latent import PADDING, Proposal
from beyond_perplexity.models.latents.rnng_instances import FIRST_LABEL, REDUCE, SHIFT
from beyond_perplexity.models.latents.rnng_stack_memory import ROWS_AT_ONCE, run_packed
from beyond_perplexity.models.latents.rnng_top_down import (
    Course,
    LabelledParticles,
    LabelledTreeModule,
    word_lstm,
)
from beyond_perplexity.models.latents.rnng_top_down_actions import (
    Nodes,
    TopDownOptions,
    action_log_probs,
    root_is_closed,
)
from beyond_perplexity.vocabulary import EOS


class DiscriminativeRNNG(LabelledTreeModule, Proposal):
    """Discriminative RNNG; see the module."""

    family = "discriminative-rnng"
    options_kind = TopDownOptions
    options: TopDownOptions

    def build(self) -> None:
        """Make the layers, untrained."""
        super().build()
        self.buffer = word_lstm(self.options)
        self.choice = nn.Linear(self.options.size, FIRST_LABEL + len(self.labels))

    def draws(self, batch: InstanceBatch) -> int:
        """Return U, the actions of the longest possible tree: runs of opened phrases before each
        word, and each is closed."""
        return batch.tokens.shape[1] * (2 * self.options.maximum_run + 1)

    def log_prob(
        self, batch: InstanceBatch, owner: Tensor, latents: Tensor, temperatures: Sequence[float]
    ) -> Tensor:
        """Return log q_τ(z | x), nats, float64, (R, A); −inf where z is no tree over x."""
        reading = self.reading(batch)  # (B, T + 1, D)
        blocks = torch.arange(len(owner), device=owner.device).split(ROWS_AT_ONCE)
        return torch.cat(
            [self._block(batch, reading, owner[b], latents[b], temperatures) for b in blocks]
        )

    def sample(
        self, batch: InstanceBatch, owner: Tensor, uniforms: Tensor, temperature: float
    ) -> Tensor:
        """Draw trees action by action; see `Proposal.sample`."""
        with torch.no_grad():
            blocks = torch.arange(len(owner), device=owner.device).split(ROWS_AT_ONCE)
            parts = [self._draw(batch, owner[b], uniforms[b], temperature) for b in blocks]
        width = max(part.shape[1] for part in parts)
        wide = [nn.functional.pad(p, (0, width - p.shape[1]), value=PADDING) for p in parts]
        return torch.cat(wide)

    def beam(self, batch: InstanceBatch, size: int, temperature: float = 1.0) -> Tensor:
        """Return probable trees, int64, (B, size, W), by a beam in step with the actions that ends
        when no prefix can come among the `size` best finished trees."""
        with torch.no_grad():
            found = [self._search(batch, i, size, temperature) for i in range(len(batch))]
        width = max(rows.shape[1] for rows in found)
        filled = torch.full((len(batch), size, width), PADDING, device=batch.ids.device)
        for position, rows in enumerate(found):
            filled[position, : rows.shape[0], : rows.shape[1]] = rows
        return filled

    # ---- word by word ----

    @property
    def word_draws(self) -> int:
        """Random numbers of a word: for the phrases closed and opened before it, and for it."""
        return self.options.maximum_open + self.options.maximum_run + 1

    def propose(
        self, state: LabelledParticles, time: int, uniforms: Tensor, temperature: float
    ) -> tuple[Tensor, Tensor, LabelledParticles]:
        """Draw the actions up to a word, (K, C); see `SequentialProposal`."""
        state = state.pruned()
        rows = torch.arange(len(state.at), device=state.at.device)  # (R,): not yet at the word
        log_q = torch.zeros(len(rows), dtype=torch.float64, device=rows.device)  # (K,)
        columns: list[Tensor] = []
        while len(rows):
            each = self.action_log_probs(state, rows, temperature)  # (R, A)
            number = uniforms[rows, len(columns), None]  # (R, 1)
            action = invert(each.exp().cumsum(1), number)[:, 0]  # (R,)
            taken = each.gather(1, action[:, None])[:, 0]  # (R,)
            log_q = log_q.index_add(0, rows, taken)
            columns.append(torch.full_like(state.at, PADDING).index_copy(0, rows, action))
            state = state.take(rows, action)
            rows = rows[action != SHIFT]
        return torch.stack(columns, 1), log_q, state

    def follow(
        self, state: LabelledParticles, time: int, choice: Tensor, temperature: float
    ) -> tuple[Tensor, LabelledParticles]:
        """Take given actions up to a word, (K, C); see `SequentialProposal`."""

        def score(state: LabelledParticles, rows: Tensor, action: Tensor) -> Tensor:
            each = self.action_log_probs(state, rows, temperature)  # (R, A)
            return each.gather(1, action[:, None])[:, 0]  # (R,)

        return state.read(choice, score)

    # ---- parts ----

    def _read(self, batch: InstanceBatch) -> Tensor:
        """Run the LSTM over the buffer: its output from each position to the end, (B, T + 1, D)."""
        lengths, longest = batch.lengths[TOKENS], batch.tokens.shape[1]
        position = torch.arange(longest + 1, device=lengths.device)  # (T + 1,)
        back = (lengths[:, None] - position).clamp(min=0)  # (B, T + 1): the sentence read backwards
        words = nn.functional.pad(batch.tokens, (0, 1))  # (B, T + 1)
        words = words.scatter(1, lengths[:, None], EOS).gather(1, back)  # (B, T + 1)
        embedded = self.encoder.drop(self.encoder.embedding(words))  # (B, T + 1, D)
        output = run_packed(self.buffer, embedded, lengths + 1)  # (B, T + 1, D)
        return output.gather(1, back[..., None].expand_as(output))  # (B, T + 1, D)

    def possible(self, batch: InstanceBatch, nodes: Nodes, at: Tensor) -> Tensor:
        """Tell which actions can still lead to a tree over the sentence, bool, (P, A)."""
        possible = super().possible(batch, nodes, at)  # (P, A)
        left = nodes.words[at] < batch.lengths[TOKENS][nodes.owner[at]]  # (P,)
        possible &= left[:, None] | (torch.arange(possible.shape[1], device=at.device) == REDUCE)
        possible[:, REDUCE] &= (nodes.opened[at] > 1) | ~left
        return possible

    def _block(
        self,
        batch: InstanceBatch,
        reading: Tensor,
        owner: Tensor,
        latents: Tensor,
        temperatures: Sequence[float],
    ) -> Tensor:
        rows = self.follow_rows(batch, reading, owner, latents)
        scores = self.choice(rows.contexts)  # (M, A)
        found = []
        for temperature in temperatures:
            each = action_log_probs(scores, rows.possible, temperature)  # (M, A)
            taken = each[rows.prefixes.nodes[:, :-1], rows.latents.clamp(min=0)]  # (R, W)
            total = sum_rows(torch.where(rows.counted, taken, 0.0))  # (R,)
            found.append(torch.where(rows.valid, total, -torch.inf))
        return torch.stack(found, 1)  # (R, A)

    def _draw(
        self, batch: InstanceBatch, owner: Tensor, uniforms: Tensor, temperature: float
    ) -> Tensor:
        course = Course(self.encoder, batch.tokens, self.reading(batch), owner)
        at = torch.arange(len(owner), device=owner.device)  # (R,): the newest node of each row
        columns: list[Tensor] = []
        while True:
            done = root_is_closed(course.nodes, at)  # (R,)
            if bool(done.all()):
                return torch.stack(columns, 1)  # (R, W)
            possible = self.possible(batch, course.nodes, at)  # (R, A)
            scores = self.choice(course.contexts[-1])  # (R, A)
            shares = action_log_probs(scores, possible, temperature).exp().cumsum(1)  # (R, A)
            number = uniforms[:, len(columns), None]  # (R, 1)
            action = invert(shares, number)[:, 0]  # (R,)
            columns.append(torch.where(done, PADDING, action))
            # A finished row goes on by words that nobody looks at, so that all rows keep step.
            at = course.extend(at, torch.where(done, SHIFT, action))  # (R,)

    def _search(self, batch: InstanceBatch, position: int, size: int, temperature: float) -> Tensor:
        reading = self.reading(batch)  # (B, T + 1, D)
        first = torch.full((1,), position, device=reading.device)
        course = Course(self.encoder, batch.tokens, reading, first)
        at, score = torch.zeros_like(first), reading.new_zeros(1, dtype=torch.float64)  # (K,)
        rows = first.new_zeros(1, 0)  # (K, W)
        best: list[tuple[float, Tensor]] = []
        while len(at):
            possible = self.possible(batch, course.nodes, at)  # (K, A)
            scores = self.choice(course.contexts[-1])  # (K, A)
            each = score[:, None] + action_log_probs(scores, possible, temperature)  # (K, A)
            value, flat = each.flatten().topk(min(size, int(possible.sum())))  # (K',)
            parent, action = flat // each.shape[1], flat % each.shape[1]  # (K',)
            rows = torch.cat([rows[parent], action[:, None]], 1)  # (K', W + 1)
            at, score = course.extend(at[parent], action), value
            done = root_is_closed(course.nodes, at)  # (K',)
            best += zip(score[done].tolist(), rows[done], strict=True)
            best = sorted(best, key=lambda one: -one[0])[:size]
            bar = best[-1][0] if len(best) == size else -math.inf
            going = ~done & (score > bar)  # (K',)
            course.contexts[-1] = course.contexts[-1][going]
            at, score, rows = at[going], score[going], rows[going]
        return nn.utils.rnn.pad_sequence([row for _, row in best], True, PADDING)  # (K, W)

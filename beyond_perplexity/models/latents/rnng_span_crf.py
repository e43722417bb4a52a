"""A conditional random field over the spans of binary trees, which sees the whole sentence.

q_τ(z | x) ∝ exp(Σ s_ij / τ) over the spans [i, j] of at least two words: q^(1/τ), normalized. s_ij
is of a small network on differences of a bidirectional LSTM's outputs over ``<s>`` x ``</s>`` (Kim
et al. 2019, section 2.2; Wang & Chang 2016).

B instances, R rows, T words of the longest, P spans of two words or more, E embedding, H hidden, S
scorer, A temperatures.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from beyond_perplexity.corpus.latent_instances import TOKENS, InstanceBatch
from beyond_perplexity.invariant_tensors import invert, sum_rows
from beyond_perplexity.models.latent import PADDING, Proposal
from beyond_perplexity.models.latents.rnng_binary_trees import from_closings, spans, trace
from beyond_perplexity.models.latents.rnng_instances import SentenceOptions, TreeModule
from beyond_perplexity.models.latents.rnng_span_charts import (
    ChainParticles,
    Chains,
    Chart,
    SpanTotals,
    best_closings,
    inside,
    sample_closings,
)
from beyond_perplexity.models.latents.rnng_stack_memory import run_packed
from beyond_perplexity.options import Count, Dropout, Width
from beyond_perplexity.vocabulary import BOS, EOS


@dataclass(frozen=True)
class SpanCRFOptions(SentenceOptions):
    """Architecture of the span CRF.

    The paper's scale is embedding_size 650, hidden_size and scorer_size 256 and 512, dropout 0.5.

    embedding_size: E, the width of the word and of the position embedding.
    hidden_size: H, the width of each direction of the LSTM.
    scorer_size: S, the width of the hidden layer that scores a span.
    positions: Positions that have an embedding of their own; later ones share the last.
    dropout: Probability of dropping an element of the embedding and of the LSTM's output in
        training.
    """

    embedding_size: Width = 64
    hidden_size: Width = 64
    scorer_size: Width = 64
    positions: Count = 64
    dropout: Dropout = 0.2


class SpanCRF(TreeModule, Proposal):
    """Span CRF; see the module. Parameters and errors are those of `TreeModule`."""

    family = "span-crf"
    options_kind = SpanCRFOptions
    options: SpanCRFOptions
    word_draws = 1

    def build(self) -> None:
        """Make the layers, untrained."""
        options = self.options
        width, hidden, scorer = options.embedding_size, options.hidden_size, options.scorer_size
        self.embedding = nn.Embedding(self.ids, width)
        self.position = nn.Embedding(options.positions, width)
        self.encoder = nn.LSTM(width, hidden, bidirectional=True, batch_first=True)
        # The scorer's first layer is linear in the outputs at the two ends of a span.
        self.forward_part = nn.Linear(hidden, scorer, bias=False)
        self.backward_part = nn.Linear(hidden, scorer, bias=False)
        self.hidden_bias = nn.Parameter(torch.zeros(scorer))
        self.norm = nn.LayerNorm(scorer)
        self.score = nn.Linear(scorer, 1)
        for embedding in (self.embedding, self.position):
            nn.init.normal_(embedding.weight, std=width**-0.5)

    def loss(self, batch: InstanceBatch, epoch: float = math.inf) -> Tensor:
        """Return −Σ log q(z | x) of the annotated trees."""
        everyone = torch.arange(len(batch), device=batch.ids.device)  # (B,)
        scores = self.scores(batch)  # (B, T, T)
        chart = inside(scores, batch.lengths[TOKENS])
        totals = self.add_spans(scores, batch, everyone, self.annotated(batch))  # (B,)
        return -(totals - chart.log_z).sum().float()

    def draws(self, batch: InstanceBatch) -> int:
        """Return U: a number for each span but words, T − 1 of the longest sentence."""
        return max(1, batch.tokens.shape[1] - 1)

    def sample(
        self, batch: InstanceBatch, owner: Tensor, uniforms: Tensor, temperature: float
    ) -> Tensor:
        """Draw trees from the top down, exactly; see `Proposal.sample`."""
        return self.draw_trees(self._chart(batch, temperature), batch, owner, uniforms)

    def log_prob(
        self, batch: InstanceBatch, owner: Tensor, latents: Tensor, temperatures: Sequence[float]
    ) -> Tensor:
        """Return log q_τ(z | x), nats, float64, (R, A); −inf where z is no tree over x."""
        totals = self.add_spans(self._scores(batch), batch, owner, latents)  # (R,)
        charts = [(t, self._chart(batch, t).log_z[owner]) for t in temperatures]
        found = [totals / temperature - log_z for temperature, log_z in charts]
        return torch.stack(found, 1)  # (R, A)

    def beam(self, batch: InstanceBatch, size: int, temperature: float = 1.0) -> Tensor:
        """Return the most probable trees, int64, (B, size, W): exact at any temperature alike."""
        scores = self._scores(batch).detach()  # (B, T, T)
        width = 2 * batch.tokens.shape[1] - 1
        found = torch.full((len(batch), size, width), PADDING, device=scores.device)
        for row, length in enumerate(batch.lengths[TOKENS].tolist()):
            closings = best_closings(scores[row], length, size)  # (K, T)
            rows = from_closings(closings, torch.full_like(closings[:, 0], length))  # (K, W)
            found[row, : len(rows), : rows.shape[1]] = rows
        return found

    # ---- word by word ----

    def start(self, batch: InstanceBatch, owner: Tensor) -> ChainParticles:
        """Return the state of particles, without charts, as no temperature is known yet."""
        return ChainParticles(batch, None, owner)

    def propose(
        self, state: ChainParticles, time: int, uniforms: Tensor, temperature: float
    ) -> tuple[Tensor, Tensor, ChainParticles]:
        """Draw how many subtrees are joined before a word, (K,), by the whole sentence; log q of
        all words add up to that of the tree."""
        chains, log_q = self._choices(state, time, temperature)  # (K, C)
        choice = invert(log_q.exp().cumsum(1), uniforms)[:, 0]  # (K,)
        return choice, *_joined(state, chains, time, choice, log_q)

    def follow(
        self, state: ChainParticles, time: int, choice: Tensor, temperature: float
    ) -> tuple[Tensor, ChainParticles]:
        """Take given numbers of subtrees to join; see `SequentialProposal`."""
        chains, log_q = self._choices(state, time, temperature)  # (K, C)
        return _joined(state, chains, time, choice, log_q)

    def _choices(
        self, state: ChainParticles, time: int, temperature: float
    ) -> tuple[Chains, Tensor]:
        """Return the chains and log q of joining 0, 1, ... subtrees before a word, (K, C)."""
        chains = state.chains or Chains(self._spread(state.batch, temperature))
        if time == 0:
            return chains, state.top.new_zeros(len(state.top), 1, dtype=torch.float64)
        return chains, chains.choices(state.top, time - 1).log_softmax(1)

    def _spread(self, batch: InstanceBatch, temperature: float) -> SpanTotals:
        def make() -> SpanTotals:
            scores = self._scores(batch) / temperature  # (B, T, T)
            return SpanTotals.of(scores, self._chart(batch, temperature), batch.lengths[TOKENS])

        return batch.keep((self, "spread", temperature), make)

    # ---- parts, which the unsupervised training of a model needs too ----

    def scores(self, batch: InstanceBatch) -> Tensor:
        """Score all spans, float64, (B, T, T); what is no span of it is of no meaning."""
        tokens, lengths = batch.tokens, batch.lengths[TOKENS]
        longest = tokens.shape[1]
        words = functional.pad(tokens, (1, 1), value=BOS)  # (B, T + 2)
        words = words.scatter(1, lengths[:, None] + 1, EOS)
        positions = torch.arange(words.shape[1], device=tokens.device)  # (T + 2,)
        positions = positions.clamp(max=self.options.positions - 1)
        embedded = self._drop(self.embedding(words) + self.position(positions))  # (B, T + 2, E)
        output = run_packed(self.encoder, embedded, lengths + 2)  # (B, T + 2, 2 H)
        ahead, back = self._drop(output).chunk(2, 2)  # (B, T + 2, H) each
        ahead, back = self.forward_part(ahead), self.backward_part(back)  # (B, T + 2, S) each
        start = ahead[:, 1:-1] - back[:, :-2]  # (B, T, S)
        end = ahead[:, 2:] - back[:, 1:-1]  # (B, T, S)
        first, last = torch.triu_indices(longest, longest, 1, device=tokens.device)  # (P,)
        hidden = end.index_select(1, last) - start.index_select(1, first)  # (B, P, S)
        found = self.score(self.norm(torch.relu(hidden + self.hidden_bias)))[..., 0]  # (B, P)
        scores = found.new_zeros(len(tokens), longest**2, dtype=torch.float64)
        scores = scores.index_copy(1, first * longest + last, found.double())
        return scores.unflatten(1, (longest, longest))  # (B, T, T)

    def draw_trees(
        self, chart: Chart, batch: InstanceBatch, owner: Tensor, uniforms: Tensor
    ) -> Tensor:
        """Draw trees, int64, (R, W), from a chart of the batch."""
        lengths = batch.lengths[TOKENS][owner]  # (R,)
        return from_closings(sample_closings(chart, owner, lengths, uniforms), lengths)

    def add_spans(
        self, scores: Tensor, batch: InstanceBatch, owner: Tensor, latents: Tensor
    ) -> Tensor:
        """Add up the scores of each row's spans, (R,); −inf where the row is no tree."""
        traced = trace(latents, batch.lengths[TOKENS][owner])
        first, last, counts = spans(latents, traced)  # (R, W) each
        longest = scores.shape[1] - 1
        first, last = first.clamp(0, longest), last.clamp(0, longest)
        found = scores[owner[:, None], first, last] * counts  # (R, W)
        return torch.where(traced.valid, sum_rows(found), -torch.inf)

    def _scores(self, batch: InstanceBatch) -> Tensor:
        return batch.keep((self, "scores"), lambda: self.scores(batch))

    def _chart(self, batch: InstanceBatch, temperature: float) -> Chart:
        return batch.keep(
            (self, "chart", temperature),
            lambda: inside(self._scores(batch) / temperature, batch.lengths[TOKENS]),
        )

    def _drop(self, values: Tensor) -> Tensor:
        return functional.dropout(values, self.options.dropout, self.training)


def _joined(
    state: ChainParticles, chains: Chains, time: int, choice: Tensor, log_q: Tensor
) -> tuple[Tensor, ChainParticles]:
    """Join subtrees, shift a word: log q of the choices, (K,), and the new state."""
    if time == 0:
        top = chains.begin(state.top)  # (K,)
    else:
        chains, top = chains.pruned(state.top)
        top = chains.push(chains.nodes.chain[top, choice], time)  # (K,)
    taken = log_q.gather(1, choice[:, None])[:, 0]  # (K,)
    return taken, ChainParticles(state.batch, chains, top)

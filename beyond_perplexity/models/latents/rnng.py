"""The binary, unlabelled recurrent neural network grammar (Kim et al. 2019).

z are the 2T − 1 actions SHIFT and REDUCE of a binary tree over the T words x. An LSTM over the
stack decides between the two wherever both are possible, and names the word to shift. REDUCE puts
the composition of the two topmost nodes by a binary TreeLSTM (Tai et al. 2015) in their place, and
steps on from the LSTM state beneath. Other than in the published program the distribution is
normalized: ``</s>`` can be shifted only when the stack holds one tree, has no share in the softmax
elsewhere, and ends the sentence with certainty.

B instances, R rows, W actions of a row, M distinct prefixes of actions, D width, L layers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from beyond_perplexity.corpus.latent_instances import TOKENS, Instance, InstanceBatch
from beyond_perplexity.errors import InputError
from beyond_perplexity.invariant_tensors import round_up, sum_rows
from beyond_perplexity.models.latent import PADDING
from beyond_perplexity.models.latents import rnng_instances
from beyond_perplexity.models.latents.rnng_binary_trees import (
    BinaryCourse,
    Traced,
    TreeParticles,
    closings_before,
    draw_binary_trees,
    from_closings,
    trace,
)
from beyond_perplexity.models.latents.rnng_span_charts import inside
from beyond_perplexity.models.latents.rnng_span_crf import SpanCRF
from beyond_perplexity.models.latents.rnng_stack_memory import (
    ROWS_AT_ONCE,
    Prefixes,
    StackLSTM,
    StackMemory,
    share_prefixes,
)
from beyond_perplexity.models.word_softmax import Words, score_words
from beyond_perplexity.options import Amount, Dropout, Layers, Width
from beyond_perplexity.random_streams import stream
from beyond_perplexity.vocabulary import BOS, EOS


@dataclass(frozen=True)
class RNNGOptions(rnng_instances.SentenceOptions):
    """Architecture of a binary RNNG.

    The paper's scale is size 650 with 2 layers, dropout 0.5 and a proposal of size 256.

    size: D, the width of the embedding (shared with the output layer) and of the stack LSTM.
    layers: L, layers of the stack LSTM.
    dropout: Probability of dropping an element of the embedding and of each layer's output in
        training.
    eos: The model predicts the end of a sentence; without it, the model is no distribution over
        sentences.
    count_eos: T counts the end of a sentence when the model predicts it, and log p has it. Training
        has it all the same; ``eos: false`` leaves it out of that too.
    training: Whether it is trained on the trees of the corpus, or by the evidence lower bound,
        together with a span CRF that becomes a part of the model (URNNG).
    samples: Trees that the unsupervised training draws for a sentence.
    warmup_epochs: Epochs in which the weight of the divergence rises to 1 in unsupervised training.
    proposal_size: Width of the span CRF of unsupervised training: embedding, each LSTM direction,
        scorer.
    """

    size: Width = 64
    layers: Layers = 1
    dropout: Dropout = 0.2
    eos: bool = True
    count_eos: bool = True
    training: Literal["supervised", "unsupervised"] = "supervised"
    samples: int = 8
    warmup_epochs: Amount = 2.0
    proposal_size: Width = 64

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.samples < 2:
            raise ValueError(
                "samples: each sample's baseline is the mean of the others; at least 2"
            )


class _Scores(NamedTuple):
    """What words and actions add to log p(x, z), float64, (R,), −inf if impossible; of the words
    only the sum over all rows, `summed_words`, has a gradient."""

    words: Tensor
    actions: Tensor
    summed_words: Tensor


class RNNG(rnng_instances.TreeModel):
    """Binary RNNG; see the module; unsupervised training has trained its `proposal` along."""

    family = "rnng"
    options_kind = RNNGOptions
    options: RNNGOptions

    def build(self) -> None:
        """Make the layers, untrained."""
        options = self.options
        size = options.size
        self.embedding = nn.Embedding(self.ids, size)
        self.word_bias = nn.Parameter(torch.zeros(self.ids))
        self.stack = StackLSTM(size, options.layers, options.dropout)
        self.composition = nn.Linear(2 * size, 5 * size)
        self.reduce = nn.Linear(size, 1)
        self.proposal: SpanCRF | None = None
        nn.init.normal_(self.embedding.weight, std=size**-0.5)
        if options.training == "unsupervised":
            shared = (*rnng_instances.SentenceOptions.__dataclass_fields__, "dropout")
            own = {name: getattr(options, name) for name in shared}
            sizes = ("embedding_size", "hidden_size", "scorer_size")
            own |= dict.fromkeys(sizes, options.proposal_size)
            self.proposal = SpanCRF(self.vocabulary_size, own, **self.shapes)

    @property
    def counts_end(self) -> bool:
        """Whether T counts the end of a sentence, which there may be none of."""
        return self.options.eos and self.options.count_eos

    def readable(self, instance: Instance, latent: Tensor) -> dict[str, Any]:
        """Write a tree as brackets over the positions of the words."""
        stack, word = list[str](), 0
        for action in latent.tolist():
            if action == rnng_instances.SHIFT:
                stack.append(f"#{word}")
                word += 1
            elif action == rnng_instances.REDUCE:
                right, left = stack.pop(), stack.pop()
                stack.append(f"(X {left} {right})")
        return {"tree": " ".join(stack)}

    def log_joint(self, batch: InstanceBatch, owner: Tensor, latents: Tensor) -> Tensor:
        """Return log p(x, z), nats, float64, (R,); −inf where z is no tree over x."""
        scores = self._scores(batch, owner, latents, self.counts_end)
        return scores.words + scores.actions

    # ---- word by word ----

    def start(self, batch: InstanceBatch, owner: Tensor) -> TreeParticles:
        """Return the state of particles; see `SequentialModel`."""
        return TreeParticles(BinaryCourse(self, len(batch)), owner, owner, batch)

    def extend(
        self, state: TreeParticles, time: int, choice: Tensor
    ) -> tuple[Tensor, TreeParticles]:
        """Read a word with the REDUCEs before it; see `SequentialModel`."""
        course, at = state.course.pruned(state.at)
        log_prob, at = course.close(at, choice)
        logits, free = course.nodes.logit[at], course.nodes.depth[at] >= 2  # (K,)
        log_prob = log_prob + functional.logsigmoid(-logits).masked_fill(~free, 0.0)
        words = state.batch.tokens[state.owner, time]  # (K,)
        log_prob = log_prob + course.word_log_probs(at, words)
        return log_prob, state._replace(course=course, at=course.shift(at, words))

    def finish(self, state: TreeParticles, time: int) -> Tensor:
        """Join what is left and read the end where a sentence ends; see `SequentialModel`."""
        log_prob = torch.zeros(len(state.at), dtype=torch.float64, device=state.at.device)  # (K,)
        rows = (state.batch.lengths[TOKENS][state.owner] == time).nonzero()[:, 0]  # (E,)
        course, at = state.course.pruned(state.at)
        closed, at = course.close(at[rows], course.nodes.depth[at[rows]] - 1)  # (E,)
        if self.counts_end:
            closed = closed + course.word_log_probs(at, torch.full_like(at, EOS))
        return log_prob.index_copy(0, rows, closed)

    def join_choices(self, choices: Tensor, lengths: Tensor) -> Tensor:
        """Make rows of actions of the REDUCEs before each word, (R, T): int64, (R, W)."""
        after = functional.pad(choices[:, 1:], (0, 1)).clamp(min=0)  # (R, T)
        return from_closings(after, lengths)

    def split_latents(self, latents: Tensor, lengths: Tensor) -> Tensor:
        """Count the REDUCEs before each word of rows of actions, (R, W): int64, (R, T)."""
        return closings_before(latents, int(lengths.max()))

    def draw_trees(
        self, count: int, lots: Iterator[Tensor], maximum_words: int
    ) -> rnng_instances.DrawnSentences:
        """Draw sentences; raises InputError when the model has no ends (``eos: false``)."""
        if not self.options.eos:
            raise InputError(
                "rnng: its sentences have no ends to simulate; train it with architecture.eos: true"
            )
        return draw_binary_trees(self, count, lots, maximum_words)

    # ---- log p(x, z) ----

    def loss(self, batch: InstanceBatch, epoch: float = math.inf) -> Tensor:
        """Return −Σ log p(x, z) of the annotated trees, or the negative evidence lower bound."""
        if self.proposal is not None:
            return self._negative_bound(self.proposal, batch, epoch)
        everyone = torch.arange(len(batch), device=batch.ids.device)  # (B,)
        scores = self._scores(batch, everyone, self.annotated(batch), self.options.eos)
        return -(scores.summed_words + scores.actions.sum()).float()

    def _scores(self, batch: InstanceBatch, owner: Tensor, latents: Tensor, ended: bool) -> _Scores:
        """Return what words, with the end if `ended`, and actions add to log p(x, z)."""
        parts = [
            self._block(batch.tokens, batch.lengths[TOKENS], owner[rows], latents[rows], ended)
            for rows in torch.arange(len(owner), device=owner.device).split(ROWS_AT_ONCE)
        ]
        words, actions, summed = zip(*parts, strict=True)
        return _Scores(torch.cat(words), torch.cat(actions), torch.stack(summed).sum())

    def _block(
        self, tokens: Tensor, lengths: Tensor, owner: Tensor, latents: Tensor, ended: bool
    ) -> _Scores:
        traced = trace(latents, lengths[owner])
        prefixes = share_prefixes(owner, latents)
        contexts = self._contexts(tokens, owner, latents, traced, prefixes)  # (M, D)
        here, shifts = prefixes.nodes[:, :-1], latents == rnng_instances.SHIFT  # (R, W)
        asked = prefixes.nodes[:, -1:] if ended else here[:, :0]  # (R, 1 or 0)
        asked = torch.cat([asked.flatten(), here[shifts]])  # (positions,): nodes that say a word
        counts = torch.bincount(asked, minlength=len(contexts))  # (M,)
        row, step = prefixes.rows, prefixes.steps  # (M,)
        word, depth = traced.words[row, step], traced.depth[row, step]  # (M,)
        ids = functional.pad(tokens, (0, 1))[owner[row], word.clamp(max=tokens.shape[1])]  # (M,)
        goal = torch.where(word < lengths[owner[row]], ids, EOS)  # (M,)
        may_end = (depth == 1) & self.options.eos  # (M,)
        words_of = Words(goal, may_end)
        weight, bias = self.embedding.weight, self.word_bias
        summed, by_word = score_words(contexts, weight, bias, words_of, counts)  # (), (M,)
        words = sum_rows(torch.where(shifts, by_word[here], 0.0))  # (R,)
        if ended:
            words = words + by_word[prefixes.nodes[:, -1]]  # (R,)
        logit = self.reduce(contexts)[:, 0].double()[here]  # (R, W)
        free = (depth >= 2)[here] & (latents != PADDING)  # (R, W): forced actions cost nothing
        choice = functional.logsigmoid(torch.where(shifts, -logit, logit))  # (R, W)
        actions = sum_rows(torch.where(free, choice, 0.0))  # (R,)
        return _Scores(torch.where(traced.valid, words, -torch.inf), actions, summed)

    def _contexts(
        self, tokens: Tensor, owner: Tensor, latents: Tensor, traced: Traced, prefixes: Prefixes
    ) -> Tensor:
        """Run the stack: the top layer's output at every node, (M, D)."""
        sizes = prefixes.sizes
        row, step = prefixes.rows, prefixes.steps  # (M,)
        before = (step - 1).clamp(min=0)  # (M,)
        parent = prefixes.nodes[row, before].split(sizes)  # (P,) at each step
        below = prefixes.nodes[row, traced.below[row, step]].split(sizes)
        left = prefixes.nodes[row, traced.below[row, before]].split(sizes)
        joins = (latents[row, before] == rnng_instances.REDUCE).split(sizes)
        last = (traced.words[row, step] - 1).clamp(0, tokens.shape[1] - 1)  # (M,)
        embedded = self._drop(self.embedding(tokens[owner[row], last])).split(sizes)  # (P, D)
        items = StackMemory(len(row), 2 * self.options.size, self.word_bias)
        states = StackMemory(len(row), self.stack.width, self.word_bias)
        start = self._drop(self.embedding(torch.full_like(row[: sizes[0]], BOS)))  # (P, D)
        context, state = self.stack(start)
        items.write(start.new_zeros(len(start), items.values.shape[1]))
        states.write(state)
        found = [context]
        for at in range(1, len(sizes)):
            if not sizes[at]:
                continue
            item = functional.pad(embedded[at], (0, self.options.size))  # (P, 2 D)
            joined = joins[at].nonzero()[:, 0]  # (J,)
            if len(joined):
                both = round_up(joined)  # (J')
                children = items.read(torch.cat([left[at][both], parent[at][both]]))  # (2 J', 2 D)
                composed = self.compose(*children.chunk(2))[: len(joined)]  # (J, 2 D)
                item = item.index_copy(0, joined, composed.to(item.dtype))  # (P, 2 D)
            context, state = self.stack(item[:, : self.options.size], states.read(below[at]))
            items.write(item)
            states.write(state)
            found.append(context)
        return self._drop(torch.cat(found))  # (M, D)

    def compose(self, left: Tensor, right: Tensor) -> Tensor:
        """Join two nodes, output and cell side by side, (J, 2 D) each, by the TreeLSTM."""
        size = self.options.size
        gates = self.composition(torch.cat([left[:, :size], right[:, :size]], 1))  # (J, 5 D)
        enter, keep_left, keep_right, leave = gates[:, : 4 * size].sigmoid().chunk(4, 1)
        cell = keep_left * left[:, size:] + keep_right * right[:, size:]  # (J, D)
        cell = cell + enter * gates[:, 4 * size :].tanh()  # (J, D)
        return torch.cat([leave * cell.tanh(), cell], 1)  # (J, 2 D)

    def _drop(self, values: Tensor) -> Tensor:
        return functional.dropout(values, self.options.dropout, self.training)

    # ---- unsupervised training ----

    def _negative_bound(self, proposal: SpanCRF, batch: InstanceBatch, epoch: float) -> Tensor:
        """Return −Σ (E_q[log p(x, z)] + H(q)), float32 scalar (Kim et al. 2019, section 2.3).

        The gradient for q is REINFORCE with the mean of the other samples as baseline, and that of
        the exact entropy. The divergence, which is actions and entropy, counts less at first.
        """
        count, device = self.options.samples, batch.ids.device
        weight = min(1.0, epoch / self.options.warmup_epochs) if self.options.warmup_epochs else 1.0
        owner = torch.arange(len(batch), device=device).repeat_interleave(count)  # (R,)
        scores = proposal.scores(batch)  # (B, T, T)
        chart = inside(scores, batch.lengths[TOKENS], with_entropy=True)
        assert chart.entropy is not None
        with torch.no_grad():
            uniforms = self._uniforms(batch, proposal.draws(batch))  # (R, U)
            latents = proposal.draw_trees(chart, batch, owner, uniforms)  # (R, W)
        log_q = proposal.add_spans(scores, batch, owner, latents) - chart.log_z[owner]  # (R,)
        found = self._scores(batch, owner, latents, self.options.eos)
        reward = (found.words + weight * found.actions.detach()).reshape(-1, count)  # (B, K)
        others = (reward.sum(1, keepdim=True) - reward) / (count - 1)  # (B, K)
        score = (reward - others).flatten() * (log_q - log_q.detach())  # (R,): 0, with a gradient
        expected = found.summed_words + weight * found.actions.sum() + score.sum()
        bound = expected / count + weight * chart.entropy.sum()
        return -bound.float()

    def _uniforms(self, batch: InstanceBatch, draws: int) -> Tensor:
        """Return random numbers, float64, (R, U); those of validation are always the same."""
        count = self.options.samples
        if self.training:
            return torch.rand(
                len(batch) * count, draws, dtype=torch.float64, device=batch.ids.device
            )
        numbers = batch.ids.tolist()
        rows = [stream(0, "rnng/validation", n).random((draws, count)).T for n in numbers]
        return torch.from_numpy(np.concatenate(rows)).to(batch.ids.device)  # (R, U)

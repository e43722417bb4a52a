"""The sentence level RNN: an energy of whole sentences, trained to tell them from distortions.

B sentences, T words of the longest, V ids, H size of the latent space.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from beyond_perplexity.invariant_tensors import round_up, sum_rows
from beyond_perplexity.models.contract import State
from beyond_perplexity.models.latent import UnnormalizedModel
from beyond_perplexity.models.recurrent_layers import RecurrentState, SigmoidLayer
from beyond_perplexity.options import Limited, Width


@dataclass(frozen=True)
class SentenceRNNOptions(Limited):
    """Architecture of a sentence level RNN.

    size: H, the size of the latent space: of the vectors of words, and of those of sentences.
    """

    size: Width = 75


class SentenceRNN(UnnormalizedModel):
    """p(W) = e^(−S(W)) / Z with S(W) = Σ_t y(t), y(t) = w · x(t), x(t) = σ(U [x(t−1); w(t)]).

    x(0) = 0 and there are no biases, as the paper's equations 12 to 15 have it. The authors'
    program (github.com/kushalarora/sentenceRNN) goes beyond the paper. It is followed where the
    options of the training say so, as in ``configs/paper-contrastive.yaml``: one sentence a step,
    no clipping, λ θ² on U and w alone, vectors of words scaled to length 1 after each epoch, one
    distortion for all epochs. Not followed:

    - its first state is the vector of the first word, and its sum has N + 1 terms: the vectors of
      the first two words, then N − 1 states;
    - U and w start at 0 there by a division of integers, here by Glorot's rule; the vectors of
      words uniformly in ±4 √(6/V) there, here normally with variance 1;
    - its learning rate is 0.1 / (1 + 0.001 e) with e from 1, here from 0;
    - it passes over sentences of one word;
    - its substitutes are drawn from the types of the file that is distorted, here from the
      vocabulary, as the paper says; its ids begin with one for unknown words, here with three;
    - it keeps the weights with the largest contrastive entropy of the validation split at 30% of
      distortion, the mean of ten draws; here those with the least hinge loss of one draw at the
      distortion of the training.

    References
    ----------
    Arora & Rangarajan (2016). Contrastive entropy: a new evaluation metric for unnormalized
    language models, section 4.
    """

    family = "sentence-rnn"
    options_kind = SentenceRNNOptions
    options: SentenceRNNOptions

    def build(self) -> None:
        """Make the layers, untrained."""
        size = self.options.size
        self.embedding = nn.Embedding(self.vocabulary_size, size)
        self.layer = SigmoidLayer(size, size)
        self.output = nn.Parameter(torch.empty(1, size))  # (1, H)
        nn.init.xavier_uniform_(self.output)

    def sentence_log_scores(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Return −S(W), nats, float64, (B,), for words (B, T) of lengths (B,)."""
        count, wide = len(tokens), round_up(tokens)  # (B', T)
        terms = self._terms(self.layer(self.embedding(wide)))[:count]  # (B, T)
        positions = torch.arange(terms.shape[1], device=terms.device)  # (T,)
        return sum_rows(terms.masked_fill(positions >= lengths[:, None], 0.0))

    def initial_state(self, batch_size: int) -> RecurrentState:
        """Return the state of B empty sentences."""
        return RecurrentState.empty(self.output, 1, batch_size, self.options.size)

    def extend(self, tokens: Tensor, state: State) -> tuple[Tensor, RecurrentState]:
        """Put a word, of (B,), to the end of each sentence: −y(t), float64, (B,), and the state."""
        assert isinstance(state, RecurrentState)
        (before,) = state.parts  # (1, B, H)
        units = self.layer.step(self.embedding(tokens), before[0])  # (B, H)
        return self._terms(units), RecurrentState((units[None],))

    @torch.no_grad()
    def scale_vectors(self) -> None:
        """Scale the vectors of words to length 1, in place."""
        vectors = self.embedding.weight  # (V, H)
        vectors /= vectors.norm(dim=1, keepdim=True)

    def _terms(self, units: Tensor) -> Tensor:
        """Return −y, float64, (...), for units (..., H)."""
        # Not a product of matrices, whose rounding would depend on how many rows there are.
        return -(units * self.output[0]).sum(-1).double()

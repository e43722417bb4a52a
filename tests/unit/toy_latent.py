"""A latent model and its proposal that are small enough to be enumerated.

p(x, z) = prod_t p(z_t | z_{t-1}) p(x_t | z_t) (1 - s), times s for the end; q(z_t | x_t) with a
local temperature. The rest is in the toys of the workflow, whose bits are independent.
"""

import math

import numpy as np
import torch
from torch import nn

from beyond_perplexity.corpus.latent_instances import Instance
from beyond_perplexity.models.latent import PADDING, Simulated
from beyond_perplexity.random_streams import stream
from tests.workflow.toys.hidden_bits import BitTagger, HiddenBits

STOP = 0.25


class ToyModel(HiddenBits):
    """p(x, z)."""

    family = "toy"

    def build(self):
        self.words = nn.Parameter(torch.randn(2, self.vocabulary_size, dtype=torch.float64))
        self.bits = nn.Parameter(torch.randn(3, 2, dtype=torch.float64))

    def log_joint(self, batch, owner, latents):
        tokens = batch.tokens[owner]  # (R, T)
        inside = latents != PADDING  # (R, T)
        bits = latents.clamp(min=0)  # (R, T)
        before = torch.cat([torch.full_like(bits[:, :1], 2), bits[:, :-1]], 1)  # (R, T)
        log_bits = self.bits.log_softmax(1)[before, bits]  # (R, T)
        log_words = self.words.log_softmax(1)[bits, tokens]  # (R, T)
        terms = (log_bits + log_words + math.log(1 - STOP)).where(inside, 0)  # (R, T)
        return terms.sum(1) + math.log(STOP)

    def simulate(self, seed, purpose, numbers, maximum_words, vocabulary):
        found = []
        bits, words = (table.softmax(1).detach().numpy() for table in (self.bits, self.words))
        for number in numbers:
            random, z, x = stream(seed, purpose, number), [2], []
            while random.random() >= STOP:
                z.append(int(random.random() >= bits[z[-1], 0]))
                x.append(int(random.choice(words.shape[1], p=words[z[-1]])))
            truncated = len(x) > maximum_words
            x, latents = x[:maximum_words], torch.tensor(z[1:][:maximum_words])
            arrays = {"tokens": np.array(x, np.int64), "bits": latents.numpy()}
            names = [f"w{word}" for word in x]
            found.append(Simulated(names, Instance(number, arrays), latents, truncated))
        return found


class ToyProposal(BitTagger):
    """q(z | x)."""

    family = "toy-proposal"

    def build(self):
        self.logits = nn.Parameter(torch.randn(self.vocabulary_size, 2, dtype=torch.float64))

    def _log_q(self, tokens, temperature):
        return (self.logits[tokens] / temperature).log_softmax(-1)  # (..., 2)

"""How well a model tells a text from its distortions; how partition functions are estimated."""

from __future__ import annotations

from dataclasses import dataclass

from beyond_perplexity.options import BeamSize, Count, Limited, Share


@dataclass(frozen=True)
class PartitionOptions(Limited):
    """How log Z of an unnormalized model is estimated.

    samples: K, independent estimates of Z of every length that are averaged: sequences of words, or
        with several particles runs of these.
    particles: Sequences of a run. They are drawn anew in proportion to their weights where fewer
        than half of them are effective (sequential Monte Carlo); 1: plain importance sampling.
    uniform: Share of the sequences whose words are drawn uniformly and not from the proposal: no
        weight is then more than 1 / share times what it is with uniform words alone.
    """

    samples: Count = 64
    particles: BeamSize = 16
    uniform: Share = 0.5

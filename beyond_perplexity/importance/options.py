"""The options of draws and of the reduction: temperatures, how many draws, which sizes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from beyond_perplexity.options import (
    MOST_DRAWS,
    BeamSize,
    Count,
    Length,
    Level,
    Limit,
    Limited,
    Natural,
    Positive,
    Share,
)


@dataclass(frozen=True)
class ReductionOptions(Limited):
    """Options of `reduction.reduce_weights`.

    Attributes
    ----------
    subsets : int
        Random orders of the samples of each instance: random subsets of each size for the curves,
        and random pairings of the samples for the corpus level; fewer where there are very many
        samples, as the column ``replicates`` says. 0 leaves both out.
    bootstrap : int
        Bootstrap replicates of the standard errors, over samples and over instances; 0 leaves
        them out.
    replicate_samples : int
        Samples of each independent replicate, of which the densities are made (the paper: 100).
        There are as many replicates as disjoint blocks of so many samples. In a run of fewer than
        1,000 samples the default is a tenth of them.
    confidence : float
        Share of the subsets inside the bands and the spreads over pairings.
    bracket : bool
        Whether to enclose log p from both sides where there are samples enough (`bracket.py`).
    """

    subsets: Annotated[int, Limit(minimum=0, maximum=MOST_DRAWS)] = 200
    bootstrap: Natural = 200
    replicate_samples: Count = 100
    confidence: Level = 0.95
    bracket: bool = True


@dataclass(frozen=True)
class WeightOptions(Limited):
    """Options of `weights.weigh`.

    Attributes
    ----------
    temperature : float
        τ of the proposal.
    """

    temperature: Positive


@dataclass(frozen=True)
class LogQOptions(Limited):
    """Options of `log_q.score_temperatures`.

    Attributes
    ----------
    temperatures : tuple of float
        Each τ that samples are drawn at.
    """

    temperatures: tuple[Positive, ...]


@dataclass(frozen=True)
class BeamOptions(Limited):
    """Options of `beams.search`.

    Attributes
    ----------
    sizes : tuple of int
        Of the beams.
    """

    sizes: tuple[BeamSize, ...]


@dataclass(frozen=True)
class SMCOptions(Limited):
    """Options of `smc.run_smc`.

    Attributes
    ----------
    particles : int
        K of each run.
    runs : int
        Runs of each instance that are independent of each other; p̂ is their mean, and they show
        how much it varies. More of them leave those that are drawn as they are.
    temperature : float
        τ of the proposal.
    threshold : float
        Particles are drawn anew, in proportion to their weights, when fewer than this share of
        them are effective. 0: never, which is plain importance sampling; 1: after every word.
    """

    particles: BeamSize = 100
    runs: Count = 4
    temperature: Positive = 1.0
    threshold: Share = 0.5


@dataclass(frozen=True)
class BidirectionalOptions(Limited):
    """Options of `bidirectional.estimate_simulated`.

    Attributes
    ----------
    maximum_words : int
        Documents that would be longer are left out, and counted.
    grid : tuple of float
        Each τ that plain samples are drawn at.
    sizes : tuple of int
        K, numbers of plain samples; the fewer are the first of the more.
    particles : int
        K of each run of sequential Monte Carlo, with a model that goes word by word.
    smc_temperature : float
        τ of the proposal of the particles.
    threshold : float
        See `SMCOptions`.
    """

    maximum_words: Length
    grid: tuple[Positive, ...] = ()
    sizes: tuple[BeamSize, ...] = ()
    particles: Count = 100
    smc_temperature: Positive = 1.0
    threshold: Share = 0.5

    @property
    def smc(self) -> SMCOptions:
        """The options of the particles."""
        return SMCOptions(
            self.particles, temperature=self.smc_temperature, threshold=self.threshold
        )


@dataclass(frozen=True)
class SimulationOptions(Limited):
    """How bidirectional Monte Carlo checks a model on documents that it generates itself.

    Attributes
    ----------
    documents : int
        Simulated documents.
    sizes : list of int or null
        K, numbers of plain samples at each temperature; null takes `samples`.
    maximum_words : int
        Documents that would be longer are left out, and counted.
    """

    documents: Count = 20
    sizes: tuple[BeamSize, ...] | None = None
    maximum_words: Length = 500


@dataclass(frozen=True)
class PosteriorOptions(Limited):
    """Options of `posterior.compare_latents`.

    Attributes
    ----------
    samples : int
        Samples of the proposal, and particles (else weighted samples) of the posterior.
    temperature : float
        τ of the proposal.
    """

    samples: Count = 100
    temperature: Positive = 1.0

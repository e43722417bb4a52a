"""The options of draws and of the reduction: temperatures, how many draws, which sizes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ReductionOptions:
    """Options of `reduction.reduce_weights`.

    Attributes
    ----------
    subsets : int
        Random orders of the samples of each instance: random subsets of each size for the curves,
        and random pairings of the samples for the corpus level. 0 leaves both out.
    bootstrap : int
        Bootstrap replicates of the standard errors, over samples and over instances; 0 leaves
        them out.
    replicate_samples : int
        Samples of each independent replicate, of which the densities are made (the paper: 100).
        There are as many replicates as disjoint blocks of so many samples.
    confidence : float
        Share of the subsets inside the bands and the spreads over pairings.
    """

    subsets: int = 200
    bootstrap: int = 200
    replicate_samples: int = 100
    confidence: float = 0.95

    def __post_init__(self) -> None:
        for name, minimum in {"subsets": 0, "bootstrap": 0, "replicate_samples": 1}.items():
            value = getattr(self, name)
            if value < minimum:
                raise ValueError(f"{name}: is {value}, expected at least {minimum}")
        if not 0 < self.confidence < 1:
            raise ValueError(f"confidence: is {self.confidence}, expected between 0 and 1")


@dataclass(frozen=True)
class WeightOptions:
    """Options of `weights.weigh`.

    Attributes
    ----------
    temperature : float
        τ of the proposal.
    """

    temperature: float

    def __post_init__(self) -> None:
        _check_temperatures(self.temperature)


@dataclass(frozen=True)
class LogQOptions:
    """Options of `log_q.score_temperatures`.

    Attributes
    ----------
    temperatures : tuple of float
        Each τ that samples are drawn at.
    """

    temperatures: tuple[float, ...]

    def __post_init__(self) -> None:
        _check_temperatures(*self.temperatures)


@dataclass(frozen=True)
class BeamOptions:
    """Options of `beams.search`.

    Attributes
    ----------
    sizes : tuple of int
        Of the beams.
    """

    sizes: tuple[int, ...]


@dataclass(frozen=True)
class SMCOptions:
    """Options of `smc.run_smc`.

    Attributes
    ----------
    particles : int
        K of each run.
    runs : int
        Runs of each instance that are independent of each other; p̂ is their mean, and they show
        how much it varies.
    temperature : float
        τ of the proposal.
    """

    particles: int = 100
    runs: int = 4
    temperature: float = 1.0

    def __post_init__(self) -> None:
        for name in ("particles", "runs"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: is {getattr(self, name)}, expected at least 1")
        _check_temperatures(self.temperature)


def _check_temperatures(*temperatures: float) -> None:
    for value in temperatures:
        if not value > 0:
            raise ValueError(f"temperature: is {value}, expected above 0")

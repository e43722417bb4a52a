"""The ways to draw from a proposal and the estimators, a row each, and their options; no row
imports what it names before it is asked for, as plans read the rows too."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Annotated, Any

from beyond_perplexity.errors import InputError
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
    Rows,
    Share,
)


@dataclass(frozen=True)
class ReductionOptions(Limited):
    """Options of `reduction.reduce_weights`.

    subsets: Random orders of the samples of each instance: random subsets of each size for the
        curves, and random pairings of the samples for the corpus level; fewer where there are very
        many samples, as the column ``replicates`` says. 0 leaves both out.
    bootstrap: Bootstrap replicates of the standard errors, over samples and over instances; 0
        leaves them out.
    replicate_samples: Samples of each independent replicate, of which the densities are made (the
        paper: 100). There are as many replicates as disjoint blocks of so many samples. In a run of
        fewer than 1,000 samples the default is a tenth of them.
    confidence: Share of the subsets inside the bands and the spreads over pairings.
    two_sided: Whether to enclose log p from both sides where there are samples enough
        (`two_sided.py`).
    """

    subsets: Annotated[int, Limit(minimum=0, maximum=MOST_DRAWS)] = 200
    bootstrap: Natural = 200
    replicate_samples: Count = 100
    confidence: Level = 0.95
    two_sided: bool = True


@dataclass(frozen=True)
class WeightOptions(Limited):
    """Options of `model_pair.weigh`: τ of the proposal."""

    temperature: Positive


@dataclass(frozen=True)
class LogQOptions(Limited):
    """Options of `model_pair.score_temperatures`: each τ that samples are drawn at."""

    temperatures: tuple[Positive, ...]


@dataclass(frozen=True)
class BeamOptions(Limited):
    """Options of `model_pair.search`."""

    sizes: tuple[BeamSize, ...]


@dataclass(frozen=True)
class SMCOptions(Limited):
    """Options of `particle_runs.run_smc`.

    particles: K of each run.
    runs: Runs of each instance that are independent of each other; p̂ is their mean, and they show
        how much it varies. Further runs leave the earlier ones as they are.
    temperature: τ of the proposal.
    threshold: Particles are drawn anew, in proportion to their weights, when fewer than this share
        of them are effective. 0: never, which is plain importance sampling; 1: after every word.
    """

    particles: BeamSize = 100
    runs: Count = 4
    temperature: Positive = 1.0
    threshold: Share = 0.5


@dataclass(frozen=True)
class BidirectionalOptions(Limited):
    """Options of `simulated_documents.estimate_simulated`: at each τ of `grid` plain samples of all
    `sizes`, fewer being the first of more, and particles where a model goes word by word."""

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

    documents: Simulated documents.
    sizes: K, numbers of plain samples at each temperature; null takes `samples`.
    maximum_words: Documents that would be longer are left out, and counted.
    """

    documents: Count = 20
    sizes: tuple[BeamSize, ...] | None = None
    maximum_words: Length = 500


@dataclass(frozen=True)
class PosteriorOptions(Limited):
    """Options of `posterior_latents.compare_latents`.

    samples: Samples of the proposal, and particles (else weighted samples) of the posterior.
    temperature: τ of the proposal.
    """

    samples: Count = 100
    temperature: Positive = 1.0


DrawSettings = dict[str, dict[str, Any]]
_HERE = "beyond_perplexity.importance"
_SCHEMAS = "beyond_perplexity.schemas.draws"


@dataclass(frozen=True)
class Draw:
    """What is known of a way to draw; functions are named as ``module:function``."""

    title: str  # for people
    # Of a pair, instances, options and, where `cut_by` names something, a range of that; it yields
    # columns of the schema.
    run: str
    options: str  # a dataclass; those named ``temperatures`` have a column each
    schema: str
    # The options of each of its jobs on a block, by a name that stands in their path; from the
    # configuration of ``importance`` and the temperatures of the proposal, ascending.
    settings: Callable[[Mapping[str, Any], Sequence[float]], DrawSettings]
    # What of an instance is cut into blocks too in a setting: "samples", "runs" or nothing, "".
    cut_by: Callable[[str], str] = lambda _: ""
    sequential: bool = False  # whether the model must go through a text word by word
    spans: bool = False  # whether latents must be spans of words, as an annotation has them
    # Makes the documents that it draws for, of a pair, a range of numbers, options and the
    # vocabulary; None: it draws for instances of the corpus.
    documents: str | None = None
    reduced: bool = True  # whether estimates of the likelihood are made of it

    @property
    def code(self) -> list[str]:
        """Return what no import names and its jobs depend on, for `fingerprint`."""
        made = [self.documents] if self.documents else []
        return [self.run, self.options, self.schema, *made]


def _options_of_a_run(importance: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a run of particles: how many there are is no option of a job."""
    return {key: value for key, value in importance["smc"].items() if key != "runs"}


def _bidirectional(importance: Mapping[str, Any], temperatures: Sequence[float]) -> DrawSettings:
    if importance["bidirectional"] is None:
        return {}
    chosen = SimulationOptions(**importance["bidirectional"])
    words = {"maximum_words": chosen.maximum_words}
    sizes = list(chosen.sizes or [importance["samples"]])
    found: DrawSettings = {"samples": {"grid": list(temperatures), "sizes": sizes, **words}}
    if importance["smc"] is not None:
        run = _options_of_a_run(importance)
        degrees = {"smc_temperature": run.pop("temperature")} if "temperature" in run else {}
        found["particles"] = {**run, **degrees, **words}
    return found


def _of(function: str, options: str, schema: str) -> tuple[str, str, str]:
    return f"{_HERE}.{function}", f"{_HERE}.ways_to_draw:{options}", f"{_SCHEMAS}:{schema}"


DRAWS: Rows[Draw] = {
    "weights": Draw(
        "Importance weights",
        *_of("model_pair:weigh", "WeightOptions", "LOG_WEIGHTS"),
        lambda _, temperatures: {f"tau_{value}": {"temperature": value} for value in temperatures},
        cut_by=lambda _: "samples",
    ),
    "log_q": Draw(
        "log q at all temperatures",
        *_of("model_pair:score_temperatures", "LogQOptions", "LOG_Q"),
        lambda _, several: {"all": {"temperatures": list(several)}} if len(several) > 1 else {},
        cut_by=lambda _: "samples",
    ),
    "beams": Draw(
        "Beams",
        *_of("model_pair:search", "BeamOptions", "BEAMS"),
        lambda given, _: {"all": {"sizes": given["beams"]}} if given["beams"] else {},
    ),
    "smc": Draw(
        "Sequential Monte Carlo",
        *_of("particle_runs:run_smc", "SMCOptions", "SMC"),
        lambda given, _: {} if given["smc"] is None else {"all": _options_of_a_run(given)},
        cut_by=lambda _: "runs",
        sequential=True,
    ),
    "bidirectional": Draw(
        "Bidirectional Monte Carlo",
        *_of("simulated_documents:estimate_simulated", "BidirectionalOptions", "BIDIRECTIONAL"),
        _bidirectional,
        cut_by=lambda setting: "runs" if setting == "particles" else "",
        documents=f"{_HERE}.simulated_documents:generate_known",
    ),
    "posterior": Draw(
        "Latents under the posterior",
        *_of("posterior_latents:compare_latents", "PosteriorOptions", "POSTERIOR"),
        lambda given, _: {} if given["posterior"] is None else {"all": dict(given["posterior"])},
        reduced=False,
        spans=True,
    ),
}


if TYPE_CHECKING:
    from beyond_perplexity.importance.estimator import Estimator

ESTIMATORS: Rows[str] = {
    "importance_sampling": f"{_HERE}.importance_sampling:ImportanceSampling",
    "jackknife": f"{_HERE}.jackknife:Jackknife",
    "mixture": f"{_HERE}.temperature_mixture:Mixture",
    "beam_plus_tail": f"{_HERE}.beam_plus_tail:BeamPlusTail",
    "smc": f"{_HERE}.sequential_monte_carlo:SequentialMonteCarlo",
    "beam": f"{_HERE}.beam_marginalization:Beam",
    "two_sided": f"{_HERE}.two_sided:TwoSided",
}
# What reads each kind of draws beside the samples themselves, by the schema, which is the flag of
# the scripts and what estimators say that they need. A reader takes the files and the
# `WeightReader` of the same instances. Its ``settings`` are what tells the estimates from such
# draws apart: columns of schema ``estimates``.
DRAW_READERS: Rows[str] = {
    "beams": f"{_HERE}.draw_files:Beams",
    "smc": f"{_HERE}.draw_files:SMCRuns",
    "bidirectional": f"{_HERE}.bidirectional_gaps:SimulatedRuns",
}


def load_estimators() -> dict[str, type[Estimator]]:
    """Return every estimator by its method, in the order of `ESTIMATORS`."""
    return {method: find_estimator(method) for method in ESTIMATORS}


def find_estimator(method: str) -> type[Estimator]:
    """Return the estimator of a method; an `InputError` lists those that there are."""
    if method not in ESTIMATORS:
        raise InputError(f"method: is {method!r}; the estimators are {', '.join(ESTIMATORS)}")
    found: type[Estimator] = resolve_name(ESTIMATORS[method])
    return found


def estimator_code(kinds: Collection[str] = tuple(DRAW_READERS)) -> list[str]:
    """List, for `storage.fingerprint`, what makes estimates of samples and some kinds of draws."""
    lacking = DRAW_READERS.keys() - kinds
    made = [name for name, one in load_estimators().items() if not lacking & set(one.needs)]
    readers = [reader for kind, reader in DRAW_READERS.items() if kind in kinds]
    return readers + [ESTIMATORS[name] for name in made]

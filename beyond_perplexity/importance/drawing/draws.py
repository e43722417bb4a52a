"""The ways to draw from a proposal: a row says all that the rest of the house knows of one.

One more is a module in this folder, a schema and a row here. Nothing heavy is imported: plans read
the rows too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from beyond_perplexity.importance.options import SimulationOptions
from beyond_perplexity.options import Rows

DrawSettings = dict[str, dict[str, Any]]
_DRAWING = "beyond_perplexity.importance.drawing"
_SCHEMAS = "beyond_perplexity.schemas.draws"
_OPTIONS = "beyond_perplexity.importance.options"


def _whole(_: str) -> str:
    return ""


def _by_samples(_: str) -> str:
    return "samples"


def _by_runs(_: str) -> str:
    return "runs"


@dataclass(frozen=True)
class Draw:
    """What is known of a way to draw.

    Attributes
    ----------
    title : str
        For people.
    run : str
        ``module:function`` of a pair, instances, options and, where `cut_by` names something, a
        range of that; it yields columns.
    options : str
        ``module:Dataclass`` of its options. Those named ``temperatures`` have a column each.
    schema : str
        ``module:NAME`` of the columns.
    settings : callable
        The options of each of its jobs on a block, by a name that stands in their path; from the
        configuration of ``importance`` and the temperatures of the proposal, ascending.
    cut_by : callable
        What of an instance is cut into blocks too in a setting: "samples", "runs" or nothing, "".
    sequential : bool
        Whether the model must be one that goes through a text word by word.
    documents : str or None
        ``module:function`` that makes the documents which it draws for, of a pair, a range of
        numbers, options and the vocabulary; None: it draws for instances of the corpus.
    reduced : bool
        Whether estimates of the likelihood are made of it.
    """

    title: str
    run: str
    options: str
    schema: str
    settings: Callable[[Mapping[str, Any], Sequence[float]], DrawSettings]
    cut_by: Callable[[str], str] = _whole
    sequential: bool = False
    documents: str | None = None
    reduced: bool = True

    @property
    def code(self) -> list[str]:
        """Return what no import names and its jobs depend on, for `fingerprint`."""
        return [f"{self.run.partition(':')[0].replace('.', '/')}.py", self.options, self.schema]


def _each_temperature(_: Mapping[str, Any], temperatures: Sequence[float]) -> DrawSettings:
    return {f"tau_{value}": {"temperature": value} for value in temperatures}


def _several_temperatures(_: Mapping[str, Any], temperatures: Sequence[float]) -> DrawSettings:
    return {"all": {"temperatures": list(temperatures)}} if len(temperatures) > 1 else {}


def _beam_sizes(importance: Mapping[str, Any], _: Sequence[float]) -> DrawSettings:
    return {"all": {"sizes": importance["beams"]}} if importance["beams"] else {}


def _smc_options(importance: Mapping[str, Any], _: Sequence[float]) -> DrawSettings:
    return {"all": _of_a_run(importance)} if importance["smc"] is not None else {}


def _of_a_run(importance: Mapping[str, Any]) -> dict[str, Any]:
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
        run = _of_a_run(importance)
        degrees = {"smc_temperature": run.pop("temperature")} if "temperature" in run else {}
        found["particles"] = {**run, **degrees, **words}
    return found


def _runs_of_particles(setting: str) -> str:
    return "runs" if setting == "particles" else ""


def _posterior_options(importance: Mapping[str, Any], _: Sequence[float]) -> DrawSettings:
    return {} if importance["posterior"] is None else {"all": dict(importance["posterior"])}


DRAWS: Rows[Draw] = {
    "weights": Draw(
        "Importance weights",
        f"{_DRAWING}.weights:weigh",
        f"{_OPTIONS}:WeightOptions",
        f"{_SCHEMAS}:LOG_WEIGHTS",
        _each_temperature,
        cut_by=_by_samples,
    ),
    "log_q": Draw(
        "log q at all temperatures",
        f"{_DRAWING}.log_q:score_temperatures",
        f"{_OPTIONS}:LogQOptions",
        f"{_SCHEMAS}:LOG_Q",
        _several_temperatures,
        cut_by=_by_samples,
    ),
    "beams": Draw(
        "Beams",
        f"{_DRAWING}.beams:search",
        f"{_OPTIONS}:BeamOptions",
        f"{_SCHEMAS}:BEAMS",
        _beam_sizes,
    ),
    "smc": Draw(
        "Sequential Monte Carlo",
        f"{_DRAWING}.smc:run_smc",
        f"{_OPTIONS}:SMCOptions",
        f"{_SCHEMAS}:SMC",
        _smc_options,
        cut_by=_by_runs,
        sequential=True,
    ),
    "bidirectional": Draw(
        "Bidirectional Monte Carlo",
        f"{_DRAWING}.bidirectional:estimate_simulated",
        f"{_OPTIONS}:BidirectionalOptions",
        f"{_SCHEMAS}:BIDIRECTIONAL",
        _bidirectional,
        cut_by=_runs_of_particles,
        documents=f"{_DRAWING}.bidirectional:generate_known",
    ),
    "posterior": Draw(
        "Latents under the posterior",
        f"{_DRAWING}.posterior:compare_latents",
        f"{_OPTIONS}:PosteriorOptions",
        f"{_SCHEMAS}:POSTERIOR",
        _posterior_options,
        reduced=False,
    ),
}

"""The ways to draw from a proposal: a row says all that the rest of the house knows of one.

One more is a module in this folder, a schema and a row here. Nothing heavy is imported: plans read
the rows too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from beyond_perplexity.importance.options import SimulationOptions, SMCOptions
from beyond_perplexity.options import Rows

DrawSettings = dict[str, dict[str, Any]]
_DRAWING = "beyond_perplexity.importance.drawing"
_SCHEMAS = "beyond_perplexity.schemas.draws"
_OPTIONS = "beyond_perplexity.importance.options"


@dataclass(frozen=True)
class Draw:
    """What is known of a way to draw.

    Attributes
    ----------
    title : str
        For people.
    run : str
        ``module:function`` of a pair, instances, options and, if `by_samples`, a range of samples;
        it yields columns.
    options : str
        ``module:Dataclass`` of its options. Those named ``temperatures`` have a column each.
    schema : str
        ``module:NAME`` of the columns.
    settings : callable
        The options of each of its jobs on a block, by a name that stands in their path; from the
        configuration of ``importance`` and the temperatures of the proposal, ascending.
    by_samples : bool
        Whether the samples of an instance are cut into blocks too.
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
    by_samples: bool = False
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
    return {"all": dict(importance["smc"])} if importance["smc"] is not None else {}


def _bidirectional(importance: Mapping[str, Any], temperatures: Sequence[float]) -> DrawSettings:
    if importance["bidirectional"] is None:
        return {}
    chosen = SimulationOptions(**importance["bidirectional"])
    options: dict[str, Any] = {
        "grid": list(temperatures),
        "sizes": list(chosen.sizes or [importance["samples"]]),
        "maximum_words": chosen.maximum_words,
    }
    if importance["smc"] is not None:
        smc = asdict(SMCOptions(**importance["smc"]))
        options |= {"smc_temperature": smc.pop("temperature"), **smc}
    return {"all": options}


def _posterior_options(importance: Mapping[str, Any], _: Sequence[float]) -> DrawSettings:
    return {} if importance["posterior"] is None else {"all": dict(importance["posterior"])}


DRAWS: Rows[Draw] = {
    "weights": Draw(
        "Importance weights",
        f"{_DRAWING}.weights:weigh",
        f"{_OPTIONS}:WeightOptions",
        f"{_SCHEMAS}:LOG_WEIGHTS",
        _each_temperature,
        by_samples=True,
    ),
    "log_q": Draw(
        "log q at all temperatures",
        f"{_DRAWING}.log_q:score_temperatures",
        f"{_OPTIONS}:LogQOptions",
        f"{_SCHEMAS}:LOG_Q",
        _several_temperatures,
        by_samples=True,
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
        sequential=True,
    ),
    "bidirectional": Draw(
        "Bidirectional Monte Carlo",
        f"{_DRAWING}.bidirectional:estimate_simulated",
        f"{_OPTIONS}:BidirectionalOptions",
        f"{_SCHEMAS}:BIDIRECTIONAL",
        _bidirectional,
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

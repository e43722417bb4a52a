"""What the rules look up for latent models: proposals, shards and files of importance sampling."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from beyond_perplexity.importance.ways_to_draw import DRAWS, SimulationOptions, estimator_code
from beyond_perplexity.models.families import FAMILIES, Family, proposal_modules
from beyond_perplexity.planning.configuration_file import as_json, block_names, block_range, caps
from beyond_perplexity.planning.latent_checks import describe_annotation

REDUCED = [draw for draw, row in DRAWS.items() if row.reduced]
# A flag for every way to draw, for the command of a rule whose parameters have these names.
DRAW_FLAGS = " ".join(f"--{draw.replace('_', '-')} {{params.{draw}:q}}" for draw in REDUCED)


# Draws and estimates that choose lie in folders of their own, under the same names.
CHOICES, CHOOSING_SPLIT = "choices", "valid"


class ImportancePlan:
    """The importance sampling of a validated configuration."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._corpora: Mapping[str, Any] = config["corpora"]
        self._models: Mapping[str, Any] = config["models"]
        self._proposals: Mapping[str, Any] = config["proposals"]
        self.options: Mapping[str, Any] = config["importance"]

    def proposals(self) -> list[str]:
        """List the proposals that are drawn from."""
        chosen = self.options["proposals"]
        return list(self._proposals if chosen is None else chosen)

    def describe(self) -> str:
        """Say in words how much is weighed."""
        draws = [(name, len(self.temperatures(name))) for name in self.proposals()]
        if not draws:
            return "none"
        total = sum(count for _, count in draws)
        samples = total * self.options["instances"] * self.options["samples"]
        return (
            f"{samples:,} samples ({len(draws)} proposals at {total} temperatures in all, "
            f"{self.options['instances']:,} instances, {self.options['samples']:,} samples each)"
        )

    def models(self) -> list[str]:
        """List the latent models of the run, in the order of their first proposal."""
        return list(dict.fromkeys(self.model_of(name) for name in self.proposals()))

    def shown_models(self) -> list[str]:
        """List the latent models whose latents a figure can show."""
        return [name for name in self.models() if self._row(name).spans]

    def model_of(self, proposal: str) -> str:
        """Return the name of the model that a proposal is for."""
        name: str = self._proposals[proposal]["model"]
        return name

    def families(self) -> dict[str, str]:
        """Return the family of each latent model of the run."""
        return {name: self._models[name]["family"] for name in self.models()}

    def titles(self) -> dict[str, str]:
        """Say what is printed for latent models and proposals: distinct titles of families."""
        found = _distinguished({n: FAMILIES[kind].title for n, kind in self.families().items()})
        for model in self.models():
            plain = {}
            for name in self.proposals_of(model):
                own = self._proposals[name]
                peeking = own.get("architecture", {}).get("context") == "peeking"
                plain[name] = FAMILIES[own["family"]].title + " (peeking)" * peeking
            found |= _distinguished(plain, f"{model}-")
        return found

    def data(self) -> dict[str, str]:
        """Say in words what each latent model is evaluated on, and which caps it has."""
        found = {}
        for name in self.models():
            corpus, held = self.corpus(name), caps(self._models[name])
            words = describe_annotation(self._row(name).needs, self._corpora[corpus])
            limits = f", caps: {', '.join(held)}" if held else ""
            found[name] = f"{corpus} ({self.options['split']}), {words or 'words alone'}{limits}"
        return found

    def _row(self, model: str) -> Family:
        return FAMILIES[self._models[model]["family"]]

    def proposals_of(self, model: str) -> list[str]:
        """List the proposals for a model."""
        return [name for name in self.proposals() if self.model_of(name) == model]

    def shown_proposal(self, model: str) -> str:
        """Return whose latents a figure shows: the analytic one, which sees most, or the first."""
        names = self.proposals_of(model)
        return next((one for one in names if self.trained_proposal(one) == model), names[0])

    def trained_proposal(self, proposal: str) -> str:
        """Return whose model folder a proposal is in: its own, or the model's."""
        row = FAMILIES[self._proposals[proposal]["family"]]
        return self.model_of(proposal) if row.reference is None else proposal

    def corpus(self, model: str) -> str:
        """Return the corpus of a model."""
        name: str = self._models[model]["corpus"]
        return name

    def code(self, model: str, proposal: str, draw: str | None = None) -> list[str]:
        """Return the source files of the two families and of a way to draw, for a fingerprint."""
        names = self._models[model]["family"], self._proposals[proposal]["family"]
        files = proposal_modules(*names)
        return [*files, *DRAWS[draw].code] if draw else files

    def temperatures(self, proposal: str) -> list[float]:
        """List the temperatures that samples of a proposal are drawn at."""
        own = self._proposals[proposal]["temperatures"]
        return [float(value) for value in (own or self.options["temperatures"])]

    # ---- draws ----

    def settings(self, draw: str, proposal: str) -> dict[str, dict[str, Any]]:
        """Return the options of each job on a block, by the name in their path."""
        row = self._row(self.model_of(proposal))
        if DRAWS[draw].sequential > row.sequential or DRAWS[draw].spans > row.spans:
            return {}
        chosen, own = dict(self.options), self._proposals[proposal]["particles"]
        if own is not None and chosen["smc"] is not None:
            chosen["smc"] = {**chosen["smc"], "particles": own}
        return DRAWS[draw].settings(chosen, sorted(self.temperatures(proposal)))

    def draw_options(self, draw: str, proposal: str, setting: str) -> str:
        """Return the options of a job as JSON."""
        return as_json(self.settings(draw, proposal)[setting])

    def _cut(self, what: str, draw: str) -> tuple[int, int]:
        """Return how many instances, samples or runs a way to draw is for, and those of a block."""
        size: int = self.options[f"{what}_per_shard"]
        if DRAWS[draw].documents and what == "instances":
            return SimulationOptions(**self.options["bidirectional"]).documents, size
        held = self.options["smc"] if what == "runs" else self.options
        return held[what], size

    def instance_range(self, draw: str, block: str) -> list[int]:
        """Return the first of a block of instances (or of simulated documents) and their number."""
        return block_range(block, *self._cut("instances", draw))

    def sample_range(self, draw: str, setting: str, block: str) -> list[int]:
        """Return the first of a block of samples (of particles: runs) and their number, if cut."""
        what = DRAWS[draw].cut_by(setting)
        return block_range(block, *self._cut(what, draw)) if what else []

    def split_of(self, folder: str) -> str:
        """Return the split that the draws of a folder are from: for choosing, another one."""
        chosen: str = CHOOSING_SPLIT if folder.startswith(CHOICES) else self.options["split"]
        return chosen

    def draw_files(self, draw: str, proposal: str, folder: str = "draws") -> list[str]:
        """List the shards of one way to draw from a proposal; none where it is not wanted."""
        if DRAWS[draw].documents and folder.startswith(CHOICES):
            return []  # simulated documents are of no split
        folder = f"<results>/{folder}/{draw}/{self.model_of(proposal)}/{proposal}"
        return [
            f"{folder}/{setting}/{instances}-{samples}.parquet"
            for setting in self.settings(draw, proposal)
            for instances in block_names(*self._cut("instances", draw))
            for what in [DRAWS[draw].cut_by(setting)]
            for samples in (block_names(*self._cut(what, draw)) if what else ["00000"])
        ]

    # ---- beside ----

    def beside(self, model: str) -> list[str]:
        """List the models without latent variables of the same corpus and vocabulary, and the model
        itself where it can do without them, unless there shall be none."""
        chosen, row = self.options["beside"], self._row(model)
        own = row.deterministic and (chosen is None or len(chosen) > 0)
        return self._plain_models(model) + [model] * own

    def _plain_models(self, model: str) -> list[str]:
        chosen = self.options["beside"]
        if chosen is None:
            rows = {name: FAMILIES[held["family"]] for name, held in self._models.items()}
            chosen = [name for name, row in rows.items() if row.plain]
        # The corpus and the vocabulary decide which ids a model reads.
        ids = {k: (held["corpus"], held.get("vocabulary")) for k, held in self._models.items()}
        read = [name for name in chosen if ids[name] == ids[model]]
        if self.options["beside"] is not None:
            return read
        first = {self._models[name]["family"]: name for name in reversed(read)}
        return [name for name in read if name in first.values()]

    def beside_files(self) -> list[str]:
        """List the scores of all models beside all latent ones."""
        pairs = [(model, beside) for model in self.models() for beside in self.beside(model)]
        return [f"<results>/beside/{model}/{beside}.parquet" for model, beside in pairs]

    # ---- estimates ----

    def draws_of(self, proposal: str, folder: str = "estimates") -> dict[str, list[str]]:
        """Return the shards that the estimates of a folder are made of, by the way to draw."""
        drawn = folder.replace("estimates", "draws")
        return {draw: self.draw_files(draw, proposal, drawn) for draw in REDUCED}

    def reduction_code(self, proposal: str) -> list[str]:
        """List the code of the estimators that the draws from a proposal allow."""
        return estimator_code([draw for draw, files in self.draws_of(proposal).items() if files])

    def gap_files(self) -> list[str]:
        """List the gaps on simulated documents of all proposals; none where there are none."""
        return self.estimate_files("gaps") if self.options["bidirectional"] is not None else []

    def cost_files(self) -> list[str]:
        """List what every job that estimates are made of has cost."""
        drawn = "<results>/draws/"
        return [
            file.replace(drawn, "<benchmarks>/costs/draws/")
            for name in self.proposals()
            for draw, files in self.draws_of(name).items()
            for file in files
            if not DRAWS[draw].documents  # no estimate is made of simulated documents
        ]

    def choice_files(self) -> list[str]:
        """List the estimates of all proposals on the split that chooses; none without a choice."""
        chosen = self.options["choose"] == "validation"
        return self.estimate_files("estimates", f"{CHOICES}/estimates") if chosen else []

    def estimate_files(self, kind: str, folder: str = "estimates") -> list[str]:
        """List the reduced files of one kind of all proposals."""
        names = self.proposals()
        return [f"<results>/{folder}/{self.model_of(name)}/{name}/{kind}.parquet" for name in names]


def _distinguished(titles: Mapping[str, str], beginning: str = "") -> dict[str, str]:
    """Give those of one title their names, without a beginning, in brackets behind it."""
    shared = Counter(titles.values())
    own = {name: name.removeprefix(beginning).replace("_", " ") for name in titles}
    return {k: t if shared[t] == 1 else f"{t} ({own[k]})" for k, t in titles.items()}

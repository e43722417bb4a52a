"""The tables and figures of a configuration, and the files that each is made of."""

from __future__ import annotations

from beyond_perplexity.figures import FIGURES, FLAGS
from beyond_perplexity.planning.models import Models
from beyond_perplexity.planning.parameters import Config, as_json
from beyond_perplexity.planning.samples import Samples
from beyond_perplexity.report import TABLES


class Report:
    """The tables and figures of a run.

    Parameters
    ----------
    config : dict
        The configuration after `validation.validate`.
    models : Models
        The models of the run.
    samples : Samples
        Its bodies of text.
    """

    def __init__(self, config: Config, models: Models, samples: Samples) -> None:
        self.config = config
        self._models = models
        self._samples = samples

    def model_files(self, corpus: str) -> list[str]:
        """List the descriptions of the models that are trained on a corpus."""
        return [f"<results>/models/{name}/model.json" for name in self._models.scored(corpus)]

    def perplexity_files(self, corpus: str) -> list[str]:
        """List the perplexities of the models that are trained on a corpus."""
        return [f"<results>/perplexity/{name}.json" for name in self._models.scored(corpus)]

    def figure_inputs(self, corpus: str, figure: str) -> list[str]:
        """List the tidy tables that a figure draws."""
        folder, sources = f"<results>/references/{corpus}", self._samples.sources(corpus)
        curves = [f"<results>/tendencies/{source}/curves.parquet" for source in sources]
        return {
            "training": self.training_files(corpus),
            "tendencies": self._samples.measures(corpus),
            "curves": [f"{folder}/curves.parquet", *curves],
            "sample_size": [f"<results>/tendencies/{s}/sample_size.parquet" for s in sources],
            "sensitivity": self.sensitivity_files(corpus),
        }[FIGURES[figure].kind]

    def sensitivity_files(self, corpus: str) -> list[str]:
        """List the file with the smallest detectable shifts of a corpus."""
        return [f"<results>/references/{corpus}/sensitivity.parquet"]

    def tables(self) -> list[str]:
        """List the tables of a corpus."""
        return list(TABLES)

    def table_inputs(self, corpus: str, table: str, name: str) -> list[str]:
        """List the files of one kind that a table is made of; none of a kind that it does not need.

        Parameters
        ----------
        corpus, table : str
            Their names.
        name : str
            One of the inputs that `report.TABLES` names.
        """
        if name not in TABLES[table].inputs:
            return []
        return {
            "measures": self._samples.measures,
            "resamples": self._samples.resample_measures,
            "models": self.model_files,
            "perplexities": self.perplexity_files,
            "sensitivity": self.sensitivity_files,
        }[name](corpus)

    def figure_code(self, figure: str) -> str:
        """Return the source file of a figure, which only its jobs depend on."""
        return f"beyond_perplexity/figures/{FIGURES[figure].module}.py"

    def table_code(self, table: str) -> str:
        """Return the source file of a table, which only its jobs depend on."""
        return TABLES[table].path

    def figure_flag(self, figure: str) -> str:
        """Return the flag of `scripts.plot_tendencies` that a figure's tables are given with."""
        return FLAGS[FIGURES[figure].kind]

    def training_files(self, corpus: str) -> list[str]:
        """List the training curves of the neural models that are trained on a corpus."""
        return [
            f"<results>/models/{name}/training.parquet"
            for name in self._models.scored(corpus)
            if self._models.learns(name)
        ]

    def figures(self, corpus: str) -> list[str]:
        """List the figures of a corpus: all that have something to show."""
        return [name for name in FIGURES if self.figure_inputs(corpus, name)]

    def labels(self) -> str:
        """Return names, order, kinds of models and decodings, as JSON, for tables and figures."""
        generation = self.config["generation"]
        return as_json(
            {
                "models": generation["models"],
                "decodings": generation["decodings"],
                "families": {
                    name: self._models.find(name)["family"] for name in generation["models"]
                },
                "kinds": {
                    name: self.config["decodings"][name]["kind"] for name in generation["decodings"]
                },
            }
        )

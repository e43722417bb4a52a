"""Make the tables and figures of importance sampling from the estimates of all proposals."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from beyond_perplexity.errors import run_command
from beyond_perplexity.figures.bounds import bounds
from beyond_perplexity.figures.importance import aggregation, densities, sample_size
from beyond_perplexity.figures.latents import latent_states
from beyond_perplexity.figures.style import save
from beyond_perplexity.models.families import example
from beyond_perplexity.options import json_object
from beyond_perplexity.report.importance import TABLES, Models
from beyond_perplexity.report.inputs import read_tables
from beyond_perplexity.report.layout import write_table


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m scripts.report_importance", description=__doc__
    )
    add = parser.add_argument
    add("--estimates", nargs="+", required=True, help="files of schema estimates")
    add("--curves", nargs="+", required=True, help="files of schema importance_curves")
    add("--replicates", nargs="+", required=True, help="files of schema importance_replicates")
    add("--latents", nargs="+", required=True, help="JSON of describe_latents")
    add("--families", type=json_object, required=True, help="JSON: family of each model")
    add("--data", type=json_object, required=True, help="JSON: what each model is evaluated on")
    add("--tables", required=True, help="folder for table_*.{csv,tex,html}")
    add("--figures", required=True, help="folder for figure_*.{svg,pdf}")
    given = parser.parse_args()
    estimates = read_tables(given.estimates, "estimates")
    models = Models(given.families, given.data)
    folder = Path(given.tables)
    for name, make in TABLES.items():
        base = folder / f"table_{name}"
        paths = [base.with_suffix(suffix) for suffix in (".csv", ".tex", ".html")]
        write_table(make(estimates, models), *paths)
    curves = read_tables(given.curves, "importance_curves")
    described = [
        entry for path in given.latents for entry in json.loads(Path(path).read_text("utf-8"))
    ]
    figures = {
        "1": latent_states(described),
        "2": sample_size(curves),
        "3": aggregation(curves, example(given.families)),
        "4": densities(read_tables(given.replicates, "importance_replicates")),
        "bounds": bounds(estimates),
    }
    for name, figure in figures.items():
        base = Path(given.figures) / f"figure_{name}"
        save(figure, [base.with_suffix(".svg"), base.with_suffix(".pdf")])


if __name__ == "__main__":
    run_command(main)

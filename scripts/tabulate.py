"""Make one of Tables 1 to 6 as CSV (full precision), LaTeX and HTML."""

from __future__ import annotations

import argparse

from beyond_perplexity.errors import InputError, run_command
from beyond_perplexity.figures.labels import Labels
from beyond_perplexity.report.inputs import read_descriptions, read_tables
from beyond_perplexity.report.layout import Table, write_table
from beyond_perplexity.report.tables import measured_table, model_table, reference_table


def make(options: argparse.Namespace) -> Table:
    labels = Labels.from_json(options.labels)
    models = read_descriptions(options.models, named_by_folder=True)
    if options.table == 1:
        perplexities = read_descriptions(options.perplexities, named_by_folder=False)
        return model_table(models, perplexities, labels)
    if not options.measures:
        raise InputError(f"table {options.table} needs --measures")
    for name, model in models.items():
        labels.families.setdefault(name, str(model.get("family", name)))
    measures = read_tables(options.measures, "tendencies")
    if options.table == 4:
        resamples = read_tables(options.resamples, "tendencies") if options.resamples else None
        return reference_table(measures, resamples, labels)
    return measured_table(options.table, measures, labels)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--table", required=True, type=int, choices=range(1, 7), help="its number")
    parser.add_argument("--measures", nargs="*", default=[], help="tables 2 to 6: measures")
    parser.add_argument("--resamples", nargs="*", default=[], help="table 4: measures of resamples")
    parser.add_argument("--models", nargs="*", default=[], help="model.json files, for families")
    parser.add_argument("--perplexities", nargs="*", default=[], help="table 1: JSON by model")
    parser.add_argument("--labels", help="names and order of models and decodings, JSON")
    parser.add_argument("--csv", required=True, help="full precision, one number a row")
    parser.add_argument("--latex", required=True, help="rounded, for booktabs")
    parser.add_argument("--html", required=True, help="rounded, a page of its own")
    options = parser.parse_args()
    write_table(make(options), options.csv, options.latex, options.html)


if __name__ == "__main__":
    run_command(main)

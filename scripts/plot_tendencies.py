"""Draw one figure from measures, curves or training curves."""

from __future__ import annotations

import argparse

from beyond_perplexity.errors import InputError, run_command
from beyond_perplexity.figures import FIGURES, draw
from beyond_perplexity.figures.labels import Labels
from beyond_perplexity.figures.style import save
from beyond_perplexity.report.inputs import read_tables


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--figure", required=True, choices=list(FIGURES), help="which figure")
    parser.add_argument("--curves", nargs="*", default=[], help="files of schema curves")
    parser.add_argument("--measures", nargs="*", default=[], help="files of schema tendencies")
    parser.add_argument("--training", nargs="*", default=[], help="training.parquet of the models")
    parser.add_argument("--labels", help="names and order of models and decodings, JSON")
    parser.add_argument("--output", nargs="+", required=True, help="files: .svg, .pdf, .png")
    options = parser.parse_args()
    entry = FIGURES[options.figure]
    given = {
        "tendencies": ("--measures", options.measures),
        "curves": ("--curves", options.curves),
        "training": ("--training", options.training),
    }
    flag, paths = given[entry.kind]
    if not paths:
        raise InputError(f"figure {options.figure} needs {flag}")
    labels = Labels.from_json(options.labels)
    save(draw(options.figure, read_tables(paths, entry.kind), labels), options.output)


if __name__ == "__main__":
    run_command(main)

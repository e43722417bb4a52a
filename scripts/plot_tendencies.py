"""Draw one figure from measures, curves, sample sizes, sensitivity or training curves."""

from __future__ import annotations

import argparse

from beyond_perplexity.errors import InputError, run_command
from beyond_perplexity.figures import FIGURES, FLAGS, draw
from beyond_perplexity.figures.labels import Labels
from beyond_perplexity.figures.style import save
from beyond_perplexity.report.inputs import read_tables


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--figure", required=True, choices=list(FIGURES), help="which figure")
    for kind, flag in FLAGS.items():
        parser.add_argument(flag, nargs="*", default=[], dest=kind, help=f"files of schema {kind}")
    parser.add_argument("--labels", help="names and order of models and decodings, JSON")
    parser.add_argument("--output", nargs="+", required=True, help="files: .svg, .pdf, .png")
    options = parser.parse_args()
    kind = FIGURES[options.figure].kind
    paths = getattr(options, kind)
    if not paths:
        raise InputError(f"figure {options.figure} needs {FLAGS[kind]}")
    labels = Labels.from_json(options.labels)
    save(draw(options.figure, read_tables(paths, kind), labels), options.output)


if __name__ == "__main__":
    run_command(main)

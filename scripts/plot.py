"""Draw a figure."""

from __future__ import annotations

from beyond_perplexity.arguments import CommandParser, output_file
from beyond_perplexity.errors import NothingToShowError, run_command
from beyond_perplexity.figures import FIGURES, draw_figure
from beyond_perplexity.figures.labels import Labels
from beyond_perplexity.figures.style import empty_figure, save
from beyond_perplexity.foreign_text import remark
from beyond_perplexity.options import json_object
from beyond_perplexity.report.inputs import read_inputs


def main() -> None:
    parser = CommandParser(description=__doc__)
    add = parser.add_argument
    add("--figure", required=True, choices=list(FIGURES), help="which figure")
    add("--inputs", type=json_object, default={}, help="lists of the files, by kind, JSON")
    add("--labels", help="names and order of models and decodings, JSON")
    add("--output", type=output_file, nargs="+", required=True, help="files: .svg, .pdf, .png")
    options = parser.parse_args()
    given = read_inputs(options.figure, FIGURES[options.figure], options.inputs)
    labels = Labels.from_json(options.labels)
    try:
        figure = draw_figure(options.figure, given, labels)
    except NothingToShowError as error:
        remark(f"warning: figure {options.figure}: {error}")
        figure = empty_figure(f"Nothing to draw: {error}.")
    save(figure, options.output)


if __name__ == "__main__":
    run_command(main)

"""Draw a figure."""

from __future__ import annotations

from beyond_perplexity.arguments import output_file
from beyond_perplexity.errors import NothingToShowError
from beyond_perplexity.figures import FIGURES, draw_figure
from beyond_perplexity.figures.labels import Labels
from beyond_perplexity.figures.style import empty_figure, save
from beyond_perplexity.foreign_text import remark
from beyond_perplexity.report.inputs import read_inputs
from scripts._job import Given, flag, job, json_flag, needed


@job(
    needed("--figure", "which figure", choices=FIGURES),
    json_flag("--inputs", "lists of the files, by kind, JSON"),
    flag("--labels", "names and order of models and decodings, JSON"),
    needed("--output", "files: .svg, .pdf, .png", output_file, nargs="+"),
)
def main(options: Given) -> None:
    given = read_inputs(options.figure, FIGURES[options.figure], options.inputs)
    try:
        figure = draw_figure(options.figure, given, Labels.from_json(options.labels))
    except NothingToShowError as error:
        remark(f"warning: figure {options.figure}: {error}")
        figure = empty_figure(f"Nothing to draw: {error}.")
    save(figure, options.output)

"""Write the first page of the report, and a table of the time and memory that jobs took."""

from __future__ import annotations

from pathlib import Path

from beyond_perplexity.arguments import CommandParser, output_file
from beyond_perplexity.errors import run_command
from beyond_perplexity.options import json_object
from beyond_perplexity.report.findings import read_findings
from beyond_perplexity.report.inputs import read_descriptions, read_input
from beyond_perplexity.report.layout import html_page, to_html_table
from beyond_perplexity.report.overview import render_overview, resources_table
from beyond_perplexity.report.tendency_findings import by_corpus
from beyond_perplexity.storage.outputs import write_text


def _parser() -> CommandParser:
    parser = CommandParser(description=__doc__)
    add = parser.add_argument
    add("--extractions", nargs="+", required=True, help="extraction.json of every corpus")
    add("--perplexities", nargs="*", default=[], help="perplexity JSON of every model")
    add("--measures", nargs="*", default=[], help="measures of every source")
    add("--sensitivity", nargs="*", default=[], help="sensitivity of every corpus, in order")
    add(
        "--compared",
        type=json_object,
        default={"corpora": {}, "kinds": []},
        help="JSON: bodies of text by compared corpus, and kinds of the models that wrote them",
    )
    add("--estimates", nargs="*", default=[], help="estimates of every proposal")
    add("--figures", nargs="*", default=[], help="main figure of every corpus, SVG")
    for paper in ("contrastive", "semantics", "relations"):
        add(f"--{paper}", nargs="*", default=[], help=f"findings.csv of {paper}, by corpus")
    add("--output", type=output_file, required=True, help="reStructuredText file to write")
    add("--benchmarks", type=Path, help="folder of the benchmark files of the run")
    add("--resources", nargs=2, type=output_file, metavar=("CSV", "HTML"), help="their table")
    return parser


def main() -> None:
    options = _parser().parse_args()
    extractions = read_descriptions(options.extractions, named_by_folder=True, keys=["splits"])
    text = render_overview(
        extractions,
        read_input("perplexities", options.perplexities),
        by_corpus(
            options.compared["corpora"],
            extractions,
            read_input("measures", options.measures),
            [read_input("sensitivity", [path]) for path in options.sensitivity],
        ),
        options.compared["kinds"],
        read_input("estimates", options.estimates),
        options.figures,
        {
            paper: read_findings(getattr(options, paper))
            for paper in ("contrastive", "semantics", "relations")
        },
    )
    write_text(options.output, text)
    if options.benchmarks and options.resources:
        table = resources_table(options.benchmarks)
        csv, html = options.resources
        write_text(csv, table.tidy.to_csv(index=False, lineterminator="\n"))
        write_text(html, html_page(table.title, to_html_table(table)))


if __name__ == "__main__":
    run_command(main)

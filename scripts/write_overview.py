"""Write the first page of the report, and a table of the time and memory that jobs took."""

from __future__ import annotations

from pathlib import Path

from beyond_perplexity.arguments import output_file
from beyond_perplexity.options import json_object
from beyond_perplexity.report import findings, layout, overview, tendency_findings
from beyond_perplexity.report.inputs import read_descriptions, read_input
from beyond_perplexity.storage.outputs import write_text
from scripts._job import Given, flag, job, needed, output

PAPERS = ("contrastive", "semantics", "relations")


@job(
    needed("--extractions", "extraction.json of every corpus", nargs="+"),
    flag("--perplexities", "perplexity JSON of every model", nargs="*", default=[]),
    flag("--differences", "perplexity differences of every corpus", nargs="*", default=[]),
    flag("--measures", "measures of every source", nargs="*", default=[]),
    flag("--sensitivity", "sensitivity of every corpus, in order", nargs="*", default=[]),
    flag(
        "--compared",
        "JSON: sample sets by compared corpus, and kinds of the models that wrote them",
        json_object,
        default={"corpora": {}, "kinds": []},
    ),
    flag("--estimates", "estimates of every proposal", nargs="*", default=[]),
    flag("--figures", "main figure of every corpus, SVG", nargs="*", default=[]),
    *(
        flag(f"--{paper}", f"findings.csv of {paper}, by corpus", nargs="*", default=[])
        for paper in PAPERS
    ),
    output("--output", "reStructuredText file to write"),
    flag("--benchmarks", "folder of the benchmark files of the run", Path),
    flag("--resources", "their table", output_file, nargs=2, metavar=("CSV", "HTML")),
)
def main(options: Given) -> None:
    extractions = read_descriptions(options.extractions, named_by_folder=True, keys=["splits"])
    measures = read_input("measures", options.measures)
    shifts = [read_input("sensitivity", [path]) for path in options.sensitivity]
    text = overview.render_overview(
        extractions,
        read_input("perplexities", options.perplexities),
        tendency_findings.by_corpus(options.compared["corpora"], extractions, measures, shifts),
        options.compared["kinds"],
        read_input("estimates", options.estimates),
        options.figures,
        {paper: findings.read_findings(getattr(options, paper)) for paper in PAPERS},
        read_input("perplexity_differences", options.differences),
    )
    write_text(options.output, text)
    if options.benchmarks and options.resources:
        table = overview.resources_table(options.benchmarks)
        csv, html = options.resources
        write_text(csv, table.tidy.to_csv(index=False, lineterminator="\n"))
        write_text(html, layout.html_page(table.title, layout.to_html_table(table)))

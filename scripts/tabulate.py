"""Make a table as CSV (full precision), LaTeX and HTML."""

from __future__ import annotations

from beyond_perplexity.errors import NothingToShowError
from beyond_perplexity.figures.labels import Labels
from beyond_perplexity.foreign_text import remark
from beyond_perplexity.report import TABLES, inputs, latex, layout, tabulate
from scripts._job import Given, flag, job, json_flag, needed, output


@job(
    needed("--table", "which table", choices=TABLES),
    json_flag("--inputs", "lists of the files, by kind, JSON"),
    flag("--labels", "names and order of models and decodings, JSON"),
    output("--csv", "full precision, one number a row"),
    output("--latex", "rounded, for booktabs"),
    output("--html", "rounded, a page of its own"),
)
def main(options: Given) -> None:
    given = inputs.read_inputs(options.table, TABLES[options.table], options.inputs)
    try:
        table = tabulate(options.table, given, Labels.from_json(options.labels))
    except NothingToShowError as error:
        remark(f"warning: table {options.table}: {error}")
        name = options.table.replace("/", "-")
        table = layout.empty_table(name, TABLES[options.table].title, f"{error}")
    latex.write_table(table, options.csv, options.latex, options.html)

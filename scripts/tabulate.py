"""Make a table as CSV (full precision), LaTeX and HTML."""

from __future__ import annotations

from beyond_perplexity.arguments import CommandParser, output_file
from beyond_perplexity.errors import NothingToShowError, run_command
from beyond_perplexity.figures.labels import Labels
from beyond_perplexity.foreign_text import remark
from beyond_perplexity.options import json_object
from beyond_perplexity.report import TABLES, tabulate
from beyond_perplexity.report.inputs import read_inputs
from beyond_perplexity.report.latex import write_table
from beyond_perplexity.report.layout import empty_table


def main() -> None:
    parser = CommandParser(description=__doc__)
    add = parser.add_argument
    add("--table", required=True, choices=list(TABLES), help="which table")
    add("--inputs", type=json_object, default={}, help="lists of the files, by kind, JSON")
    add("--labels", help="names and order of models and decodings, JSON")
    add("--csv", type=output_file, required=True, help="full precision, one number a row")
    add("--latex", type=output_file, required=True, help="rounded, for booktabs")
    add("--html", type=output_file, required=True, help="rounded, a page of its own")
    options = parser.parse_args()
    given = read_inputs(options.table, TABLES[options.table], options.inputs)
    try:
        table = tabulate(options.table, given, Labels.from_json(options.labels))
    except NothingToShowError as error:
        remark(f"warning: table {options.table}: {error}")
        name = options.table.replace("/", "-")
        table = empty_table(name, TABLES[options.table].title, f"{error}")
    write_table(table, options.csv, options.latex, options.html)


if __name__ == "__main__":
    run_command(main)

"""Write the first page of the report."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pandas as pd

from beyond_perplexity.errors import run_command
from beyond_perplexity.report.overview import render_overview
from beyond_perplexity.shards import atomic_path, read_table


def _by_name(paths: list[str], name_of: str) -> dict[str, dict[str, object]]:
    """Read JSON files; each is named by its stem or its folder."""
    names = [Path(path).stem if name_of == "stem" else Path(path).parent.name for path in paths]
    return {n: json.loads(Path(p).read_text()) for n, p in zip(names, paths, strict=True)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--extractions", nargs="+", required=True, help="extraction.json of every corpus"
    )
    parser.add_argument(
        "--perplexities", nargs="*", default=[], help="perplexity JSON of every model"
    )
    parser.add_argument("--measures", nargs="+", required=True, help="measures of every source")
    parser.add_argument(
        "--figures", nargs="+", required=True, help="main figure of every corpus (SVG)"
    )
    parser.add_argument("--output", required=True, help="reStructuredText file to write")
    options = parser.parse_args()
    text = render_overview(
        _by_name(options.extractions, "folder"),
        _by_name(options.perplexities, "stem"),
        pd.concat([read_table(path, "tendencies") for path in options.measures]),
        options.figures,
    )
    with atomic_path(options.output) as temporary:
        temporary.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    run_command(main)

"""Documents in CSV, a line each: title and text."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

from beyond_perplexity.corpus.readers import Problems, Record, read_lines


def read_csv(path: Path, problems: Problems) -> Iterator[Record]:
    """Read the lines of a file; one that has not two fields is a problem."""
    for number, line in read_lines(path, problems):
        place, fields = f"{path}: line {number}", next(csv.reader([line.rstrip("\r")]), [])
        if len(fields) == 2:
            yield Record(place, fields[0], " ".join(fields[1].split()))
        else:
            problems.report("unusable CSV line", place, f"{len(fields)} fields instead of 2")

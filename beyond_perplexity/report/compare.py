"""Compare any two bodies of text in every tendency: no model needed."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from beyond_perplexity.corpus.external import check_file
from beyond_perplexity.errors import InputError
from beyond_perplexity.figures import draw_figure
from beyond_perplexity.figures.labels import EXTERNAL, REFERENCE, Labels
from beyond_perplexity.figures.style import save
from beyond_perplexity.report.comparison_input import (
    CompareOptions,
    Comparison,
    check_same_counting,
    read_body,
)
from beyond_perplexity.report.comparison_page import (
    all_measures_table,
    comparison_page,
    comparison_table,
)
from beyond_perplexity.report.layout import to_text
from beyond_perplexity.schemas.tendencies import TENDENCY_MEASURES
from beyond_perplexity.storage.provenance import run_record
from beyond_perplexity.storage.shards import atomic_path
from beyond_perplexity.tendencies.curves import curves
from beyond_perplexity.tendencies.measures import measured_tendencies
from beyond_perplexity.tendencies.rows import SHARES
from beyond_perplexity.tendencies.word_classes import load_stop_words

COMPARED_SOURCE = f"{EXTERNAL}/samples"
CSV_COLUMNS = [name for name in TENDENCY_MEASURES.names if name != "source"]
# Figure of `figures.FIGURES` -> name of its files.
FIGURE_FILES = {
    "tendencies/main": "distances",
    "tendencies/figure_5": "length",
    "tendencies/figure_3": "types_by_length",
    "tendencies/figure_4": "types_by_length_distances",
    "tendencies/figure_6": "rank_frequency",
    "tendencies/figure_2": "vocabulary",
    **{f"tendencies/{row.figure}": name for name, row in SHARES.items()},
}


def _say(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


@contextmanager
def compare_bodies(options: CompareOptions) -> Iterator[Comparison]:
    """Read, count and measure two files; the working files live as long as the context.

    Parameters
    ----------
    options : CompareOptions
        What to compare.

    Yields
    ------
    Comparison

    Raises
    ------
    InputError
        When a file cannot be read; names file and line.
    """
    paths = {"reference": Path(options.reference), "samples": Path(options.samples)}
    for path in paths.values():
        check_file(path)
    preprocessing, measurement = options.preprocessing(), options.measurement()
    stop_words = load_stop_words(options.stop_words)
    record = run_record("scripts/compare.py", asdict(options), seed=options.seed)
    with tempfile.TemporaryDirectory(prefix="compare-") as folder:
        bodies = {}
        for name, path in paths.items():
            own = Path(folder) / name
            own.mkdir()
            bodies[name] = read_body(path, options.kind, preprocessing, stop_words, own, record)
        reference, samples = bodies["reference"], bodies["samples"]
        _say("measuring, permuting and resampling")
        table = measured_tendencies(
            reference.statistics,
            samples.statistics,
            reference.texts(),
            samples.texts(),
            measurement,
            options.seed,
            COMPARED_SOURCE,
        )
        own_curves = curves(samples.statistics, measurement, COMPARED_SOURCE, reference.statistics)
        reference_curves = curves(reference.statistics, measurement, REFERENCE)
        both = pd.concat([reference_curves.to_pandas(), own_curves.to_pandas()], ignore_index=True)
        labels = Labels(
            names={COMPARED_SOURCE: "Samples"},
            reference="Reference",
        )
        yield Comparison(reference, samples, table.to_pandas(), both, labels)


def draw_figures(comparison: Comparison) -> dict[str, Figure]:
    """Draw every figure that the texts have the data for, by the name of its file."""
    tables = {"measures": comparison.measures, "curves": comparison.curves}
    drawn = {}
    for name, file in FIGURE_FILES.items():
        try:
            drawn[file] = draw_figure(name, tables, comparison.labels)
        except InputError as error:
            _say(f"no figure '{file}': {error}")
    return drawn


def run(options: CompareOptions, out: Path) -> str:
    """Compare two files and write ``tendencies.csv``, the figures and ``compare.html``.

    Parameters
    ----------
    options : CompareOptions
        What to compare.
    out : pathlib.Path
        Folder for the results; made when it is missing. Nothing is written before all is done.

    Returns
    -------
    str
        The tables as text, for the terminal.

    Raises
    ------
    InputError
        When a file cannot be read, or `out` is no folder.
    """
    if out.exists() and not out.is_dir():
        raise InputError(f"{out}: is a file; give a folder for the results")
    with compare_bodies(options) as found:
        figures = draw_figures(found)
        described = check_same_counting(found.reference, found.samples)
        with tempfile.TemporaryDirectory(prefix="compare-") as folder:
            drawn = Path(folder)
            for name, figure in figures.items():
                save(figure, [drawn / f"{name}.svg", drawn / f"{name}.pdf"])
            page = comparison_page(found, options, described, drawn, list(figures))
            csv = found.measures[CSV_COLUMNS].to_csv(index=False, lineterminator="\n")
            files = {path.name: path.read_bytes() for path in sorted(drawn.iterdir())}
        files |= {"tendencies.csv": csv.encode(), "compare.html": page.encode()}
        for name, content in files.items():
            with atomic_path(out / name) as temporary:
                temporary.write_bytes(content)
        tables = comparison_table(found.measures), all_measures_table(found.measures)
    return "\n\n".join(f"{table.title}\n\n{to_text(table)}" for table in tables)

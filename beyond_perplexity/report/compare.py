"""Compare any two bodies of text in every tendency: no model needed."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
import pyarrow as pa

from beyond_perplexity.corpus.external import check_file, read_cleaned
from beyond_perplexity.errors import InputError, NothingToShowError
from beyond_perplexity.figures import draw_figure
from beyond_perplexity.figures.labels import EXTERNAL, REFERENCE, Labels
from beyond_perplexity.foreign_text import remark
from beyond_perplexity.report.comparison_input import (
    Body,
    Comparison,
    EmbeddingComparison,
    check_groups,
    group_fields,
    read_body,
)
from beyond_perplexity.report.comparison_page import (
    all_measures_table,
    comparison_page,
    comparison_table,
)
from beyond_perplexity.report.layout import csv_text, to_text
from beyond_perplexity.schemas.tendencies import TENDENCY_MEASURES
from beyond_perplexity.storage.outputs import atomic_path, check_output_folder
from beyond_perplexity.storage.provenance import run_record
from beyond_perplexity.tendencies.compare_options import CompareOptions, source_of
from beyond_perplexity.tendencies.curves import curves
from beyond_perplexity.tendencies.definitions import SHARES, MeasureRow
from beyond_perplexity.tendencies.human_baselines import reference_floors
from beyond_perplexity.tendencies.measures import (
    exchanged_told,
    measure_rows,
    measure_table,
    star_warning,
)
from beyond_perplexity.tendencies.statistics import check_comparable
from beyond_perplexity.tendencies.text_comparison import TextComparison, count_texts
from beyond_perplexity.tendencies.tokens import RAW_TEXT, TextView
from beyond_perplexity.tendencies.word_classes import (
    ClassOptions,
    load_stop_words,
    stop_word_list,
    without_blanks,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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


@contextmanager
def compare_bodies(options: CompareOptions) -> Iterator[Comparison]:
    """Read, count and measure two files; the working files live as long as the context."""
    paths = options.sources()
    has_training = options.training is not None
    for path in (*paths, *([source_of(options.training)] if has_training else [])):
        check_file(path)
    options.check_fields()
    views, groups = options.views(), group_fields(paths, options)
    stop_words = load_stop_words(stop_word_list(options.stop_words, options.language))
    if stop_words.missing:
        remark(f"warning: {stop_words.missing}; the row of stop words is left out")
    # of working files
    record = run_record("beyond_perplexity/library/compare.py", {}, seed=options.seed)
    main = next(iter(views))
    embedding = EmbeddingComparison(options) if options.embedding else None
    if options.vocabulary and main == RAW_TEXT:
        remark(f"{options.vocabulary}: an open vocabulary, which can write every word: read raw")
    with tempfile.TemporaryDirectory(prefix="compare-") as folder:
        bodies: list[Body] = []
        for path, group in zip(paths, groups, strict=True):
            own = Path(folder) / str(len(bodies))
            own.mkdir()
            field = options.field_of(path, samples=bool(bodies))
            body = read_body(path, options, views[main], group, stop_words, own, record, field)
            bodies.append(body)
            if found := without_blanks(body.statistics.types, body.statistics.counts):
                remark(
                    f"warning: {body.path}: {found}{'' if options.tokenized else ' (tokenized)'}"
                )
        check_groups(bodies, options)
        _warn_of_titles(bodies, options)
        reference, samples = bodies
        remark("measuring, permuting and resampling")
        classes = ClassOptions(stop_words, True)
        others = embedding.rows(reference, samples, views[main]) if embedding else []
        tables, exchanged = _measured(reference, samples, views, classes, options, others)
        counts = [None if b.groups is None else int(b.groups.max()) + 1 for b in bodies]
        yield Comparison(
            reference,
            samples,
            tables[main],
            _curves(reference, samples, options),
            Labels(names={COMPARED_SOURCE: "Samples"}, reference="Reference"),
            check_comparable(reference.counted, samples.counted),
            raw=tables[RAW_TEXT] if main != RAW_TEXT else None,
            groups=(counts[0], counts[1]),
            exchanged=exchanged,
            encoder=embedding.title if embedding else "",
        )


def _curves(reference: Body, samples: Body, options: CompareOptions) -> pd.DataFrame:
    """Return the curves of both texts."""
    measurement = options.measurement()
    own = curves(samples.statistics, measurement, COMPARED_SOURCE, reference.statistics)
    both = curves(reference.statistics, measurement, REFERENCE), own
    return pd.concat([table.to_pandas() for table in both], ignore_index=True)


def _warn_of_titles(bodies: Sequence[Body], options: CompareOptions) -> None:
    """Say where documents look as if they were of one page, and nothing tells the pages."""
    if bodies[0].grouped or options.group_column is not None:
        return
    whole = all(body.without_title in (0, body.statistics.n_documents) for body in bodies)
    todo = "title" if whole else "with a field that tells the groups"
    for body in bodies:
        if body.repeated and not body.grouped:
            remark(
                f"warning: {body.path}: {body.repeated:,} documents repeat a title. Documents of "
                "one page are alike, and tests that take them for independent find differences "
                f"where there are none: give as group column {todo} (or '' if they are independent)"
            )


def _measured(
    reference: Body,
    samples: Body,
    views: Mapping[str, TextView],
    classes: ClassOptions,
    options: CompareOptions,
    others: Sequence[MeasureRow],
) -> tuple[dict[str, pd.DataFrame], str]:
    """Measure the samples in every reading: a table each, and what the tests exchange.

    `others` are further rows of the first reading.
    """
    measurement, found, exchanged = options.measurement(), {}, ""
    files = reference.files, samples.files
    groups = reference.groups, samples.groups
    training = (lambda: _training_texts(options)) if options.training is not None else None
    comparison = TextComparison(files, views, classes, groups, training)
    pair_of_bodies = reference.statistics, samples.statistics
    for place, (name, view) in enumerate(views.items()):
        if place:
            counted = [count_texts(body.texts(), classes, view) for body in files]
            pair_of_bodies = counted[0], counted[1]
        with comparison.pair(name, pair_of_bodies) as pair:
            exchanged = exchanged_told(pair, groups) if measurement.permutations else ""
            floors = reference_floors(pair, measurement, options.seed)
            more = others if place == 0 else ()
            rows = measure_rows(pair, measurement, options.seed, floors=floors, others=more)
            if place == 0 and (warning := star_warning(rows, measurement.permutations)):
                remark(f"warning: {warning}")
            rows += comparison.text_rows(name, pair_of_bodies)
            found[name] = measure_table(rows, pair, COMPARED_SOURCE, name).to_pandas()
    return found, exchanged


def _training_texts(options: CompareOptions) -> Iterator[pa.Array]:
    """Stream the training text, cleaned as both texts are."""
    path = source_of(options.training)
    field = options.field_of(path)
    for texts in read_cleaned(path, options.preprocessing(), options.format, field):
        yield pa.array(texts, pa.string())


def draw_one(name: str, comparison: Comparison) -> Figure:
    """Draw a figure of `FIGURE_FILES`; see `figures.draw_figure`."""
    tables = {"measures": comparison.measures, "curves": comparison.curves}
    return draw_figure(name, tables, comparison.labels)


def draw_figures(comparison: Comparison) -> dict[str, Figure]:
    """Draw every figure that the texts have the data for, by the name of its file."""
    drawn = {}
    for name, file in FIGURE_FILES.items():
        try:
            drawn[file] = draw_one(name, comparison)
        except NothingToShowError:
            remark(f"no figure '{file}': the texts hold nothing of it")
        except InputError as error:
            remark(f"no figure '{file}': {error}")
    return drawn


def comparison_text(found: Comparison) -> str:
    """Return the tables of a comparison as text, for a terminal."""
    tables = comparison_table(found.measures), all_measures_table(found.measures)
    return "\n\n".join(f"{table.title}\n\n{to_text(table)}" for table in tables)


def write_comparison(found: Comparison, options: CompareOptions, out: Path) -> None:
    """Write ``tendencies.csv``, the figures and ``compare.html``; nothing before all is drawn.

    With a vocabulary, ``raw.csv`` holds the comparison of the texts as they are.
    """
    from beyond_perplexity.figures.style import save  # late: matplotlib

    figures = draw_figures(found)
    with tempfile.TemporaryDirectory(prefix="compare-") as folder:
        drawn = Path(folder)
        for name, figure in figures.items():
            save(figure, [drawn / f"{name}.svg", drawn / f"{name}.pdf"])
        files = {path.name: path.read_bytes() for path in sorted(drawn.iterdir())}
    tables = {"tendencies.csv": found.measures, "raw.csv": found.raw}
    page = comparison_page(found, options, {name: files[f"{name}.svg"] for name in figures})
    texts = {n: csv_text(t[CSV_COLUMNS]) for n, t in tables.items() if t is not None}
    for name, text in {**texts, "compare.html": page}.items():
        files[name] = text.encode()
    for name, content in files.items():
        with atomic_path(out / name) as temporary:
            temporary.write_bytes(content)


def run_comparison(options: CompareOptions, out: Path | None = None) -> Comparison:
    """Compare two files, and write what `write_comparison` writes, where a folder is given."""
    if out is not None:
        check_output_folder(out)
    with compare_bodies(options) as found:
        pass  # its working files are gone
    if out is not None:
        write_comparison(found, options, out)
    return found

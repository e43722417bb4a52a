"""Read any two sample sets and compare them in every tendency: no model needed.

Texts are read and counted without holding them in memory.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from beyond_perplexity.corpus.external import GroupField, check_file, import_texts, read_cleaned
from beyond_perplexity.corpus.formats import has_named_fields
from beyond_perplexity.corpus.readers import Record
from beyond_perplexity.corpus.text_files import HeldTexts
from beyond_perplexity.errors import InputError
from beyond_perplexity.figures.labels import EXTERNAL, REFERENCE, Labels
from beyond_perplexity.foreign_text import remark
from beyond_perplexity.storage.provenance import run_record
from beyond_perplexity.storage.shards import read_texts
from beyond_perplexity.tendencies.compare_options import CompareOptions, source_of
from beyond_perplexity.tendencies.curves import curves
from beyond_perplexity.tendencies.definitions import MeasureRow, SensitivityOptions
from beyond_perplexity.tendencies.document_files import DocumentFiles, GroupNumbers, found_groups
from beyond_perplexity.tendencies.human_baselines import reference_baselines
from beyond_perplexity.tendencies.measures import (
    measure_rows,
    measure_table,
    permuted_told,
    star_warning,
)
from beyond_perplexity.tendencies.pairs import Measuring
from beyond_perplexity.tendencies.statistics import (
    Statistics,
    StatisticsCounter,
    check_comparable,
    description,
    read_statistics,
)
from beyond_perplexity.tendencies.text_comparison import TextComparison, count_texts
from beyond_perplexity.tendencies.tokens import RAW_TEXT, TextView
from beyond_perplexity.tendencies.word_classes import (
    ClassOptions,
    StopWords,
    load_stop_words,
    stop_word_list,
    without_blanks,
)
from beyond_perplexity.tendencies.words_and_phrases import compare_words

COMPARED_SOURCE = f"{EXTERNAL}/samples"
_SHIFT_PAIRS = 100  # of samples, that find the minimum detectable effect


@dataclass(frozen=True)
class SampleSet:
    """A sample set, ready to be compared: its file, cleaned documents and statistics.

    Groups are int32 of shape (D,), or None; `grouped` says that the file names them. Left out are
    lines without a token; `repeated` titles are those that an earlier document has.
    """

    path: Path
    documents: Path
    counted: Path
    statistics: Statistics
    left_out: int
    short: int = 0
    groups: np.ndarray | None = None
    grouped: bool = False
    repeated: int = 0
    without_title: int = 0

    @property
    def files(self) -> DocumentFiles:
        """The cleaned documents, as files that are read."""
        return DocumentFiles((self.documents,))


@dataclass(frozen=True)
class Comparison:
    """The result of `compare_sample_sets`: schemas ``tendencies``, ``curves`` and ``words``.

    `raw` is of the raw texts where the measures are of a closed vocabulary; groups are counted,
    where there are any; `permuted` says what the tests permute, `encoder` what documents are
    embedded by.
    """

    reference: SampleSet
    samples: SampleSet
    measures: pd.DataFrame
    curves: pd.DataFrame
    words: pd.DataFrame
    labels: Labels
    described: Mapping[str, object]
    raw: pd.DataFrame | None = None
    groups: tuple[int | None, int | None] = (None, None)
    permuted: str = ""
    encoder: str = ""
    signature: str = ""


class _Fields:
    """What stands beside the texts of a file: their groups and titles."""

    def __init__(self) -> None:
        self.groups, self.titles = GroupNumbers(), GroupNumbers()
        self.grouped = False
        self.without_title = 0

    def add(self, records: list[Record]) -> None:
        self.titles.add(pa.array([record.title for record in records], pa.string()))
        self.without_title += sum(not record.title for record in records)
        self.groups.add(pa.array([record.group or "" for record in records], pa.string()))
        self.grouped |= any(record.group is not None for record in records)

    def repeated(self) -> int:
        """Count the documents with a title that an earlier one has."""
        codes = self.titles.codes()
        return len(codes) - len(np.unique(codes))


def read_sample_set(
    path: Path | HeldTexts,
    options: CompareOptions,
    view: TextView,
    groups: GroupField | None,
    stop_words: StopWords,
    folder: Path,
    record: dict[str, object],
    field: str | None = None,
    group_size: int = 1,
) -> SampleSet:
    """Read, clean and count a file; working files, with their run record, go to a folder."""
    documents, counted = folder / "documents.parquet", folder / "statistics.parquet"
    fields = _Fields()
    how: Any = {"minimum_tokens": options.minimum_tokens, "groups": groups, "field": field}
    cleaning = options.preprocessing()
    counts = import_texts(path, options.format, cleaning, documents, record, seen=fields.add, **how)
    codes = None
    if groups and fields.grouped:
        codes = found_groups(fields.groups, f"{path}: field '{groups.name}'")
    with StatisticsCounter(stop_words, view=view) as counter:
        for texts in read_texts([documents]):
            counter.add(texts)
        counter.write(counted, record)
    statistics, titles = read_statistics(counted), (fields.repeated(), fields.without_title)
    if group_size > 1:
        if codes is not None:
            raise InputError(f"{path}: names its groups; leave the group size out")
        codes = np.arange(statistics.n_documents, dtype=np.int32) // group_size
    told = (*counts, codes, fields.grouped, *titles)
    return SampleSet(Path(str(path)), documents, counted, statistics, *told)


def group_fields(
    paths: tuple[Path | HeldTexts, Path | HeldTexts], options: CompareOptions
) -> tuple[GroupField | None, GroupField | None]:
    """Say where the groups of both texts stand: in the named field, or in ``group``."""
    name = options.group_column
    first, second = (has_named_fields(path, options.format) for path in paths)
    if name and not (first or second):
        raise InputError(f"{paths[0]}: plain text has no field '{name}'; give JSONL or Parquet")
    if name == "":
        return None, None
    needed = name is not None and not (first and second)  # where one text alone can have them
    field = GroupField(name or "group", needed, "all documents of a text must have it, or none")
    return field if first else None, field if second else None


def check_groups(sample_sets: Sequence[SampleSet], options: CompareOptions) -> None:
    """Raise `InputError` where a field is named for the groups that no text has."""
    if options.group_column and not any(sample_set.grouped for sample_set in sample_sets):
        raise InputError(
            f"{sample_sets[0].path}: field '{options.group_column}', which names the group, is "
            f"missing here and in {sample_sets[1].path}; name one that either has"
        )


def embedding_comparison(
    options: CompareOptions,
) -> tuple[str, Callable[[SampleSet, SampleSet, TextView], list[MeasureRow]]]:
    """Return what compares documents by their vectors, and the title of its encoder.

    The encoder is loaded at once: errors come first. See `tendencies.embedding_measures`.
    """
    from beyond_perplexity.semantics.evaluators.contract import encoder_of, named_evaluator

    evaluator, most = named_evaluator(str(options.embedding)), options.most_embedded()
    encoder, held = encoder_of(evaluator), evaluator.describe()

    def rows(reference: SampleSet, samples: SampleSet, view: TextView) -> list[MeasureRow]:
        from beyond_perplexity.tendencies.embedded_documents import embedded_pair
        from beyond_perplexity.tendencies.embedding_measures import rows_of_pair

        remark(f"embedding {most:,} documents of each text at most")
        files, groups = (reference.files, samples.files), (reference.groups, samples.groups)
        sizes = reference.statistics.n_documents, samples.statistics.n_documents
        pair = embedded_pair(files, sizes, groups, view.batch, most, options.seed, encoder)
        how = SensitivityOptions(pairs=_SHIFT_PAIRS)
        return rows_of_pair(pair, options.measurement(), how, options.seed)

    return f"{held['title']} (SHA-256 {str(held['sha256'])[:12]}…)", rows


@contextmanager
def compare_sample_sets(options: CompareOptions) -> Iterator[Comparison]:
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
    record = run_record("beyond_perplexity/library/compare.py", {}, seed=options.seed)
    main = next(iter(views))
    encoder, compare_vectors = embedding_comparison(options) if options.embedding else ("", None)
    if options.vocabulary and main == RAW_TEXT:
        remark(f"{options.vocabulary}: an open vocabulary, which can write every word: read raw")
    with tempfile.TemporaryDirectory(prefix="compare-") as folder:
        sample_sets: list[SampleSet] = []
        for path, group in zip(paths, groups, strict=True):
            own = Path(folder) / str(len(sample_sets))
            own.mkdir()
            field = options.field_of(path, samples=bool(sample_sets))
            size = options.samples_group_size if sample_sets else options.group_size
            sample_set = read_sample_set(
                path, options, views[main], group, stop_words, own, record, field, size
            )
            sample_sets.append(sample_set)
            if found := without_blanks(sample_set.statistics.types, sample_set.statistics.counts):
                what = "" if options.tokenized else " (tokenized)"
                remark(f"warning: {sample_set.path}: {found}{what}")
        check_groups(sample_sets, options)
        _warn_of_titles(sample_sets, options)
        reference, samples = sample_sets
        remark("measuring, permuting and resampling")
        classes = ClassOptions(stop_words, True)
        others = compare_vectors(reference, samples, views[main]) if compare_vectors else []
        tables, words, permuted = _measured(reference, samples, views, classes, options, others)
        counts = [None if b.groups is None else int(b.groups.max()) + 1 for b in sample_sets]
        yield Comparison(
            reference,
            samples,
            tables[main],
            _curves(reference, samples, options),
            words,
            Labels(names={COMPARED_SOURCE: "Samples"}, reference="Reference"),
            check_comparable(reference.counted, samples.counted),
            raw=tables[RAW_TEXT] if main != RAW_TEXT else None,
            groups=(counts[0], counts[1]),
            permuted=permuted,
            encoder=encoder,
            signature=_signature(options, description(reference.counted), counts),
        )


def _signature(
    options: CompareOptions, counted: Mapping[str, object], groups: Sequence[int | None]
) -> str:
    names = zip(("reference", "samples"), groups, strict=True)
    encoder = options.embedding and Path(options.embedding).name
    return options.measurement().signature(
        counted,
        text="tokenized" if options.tokenized else f"cleaned-{options.language}",
        groups=[name for name, count in names if count is not None],
        baseline="halves",
        embedding=encoder and f"{encoder}-{options.embedding_documents}",
    )


def _curves(reference: SampleSet, samples: SampleSet, options: CompareOptions) -> pd.DataFrame:
    """Return the curves of both texts."""
    measurement = options.measurement()
    own = curves(samples.statistics, measurement, COMPARED_SOURCE, reference.statistics)
    both = curves(reference.statistics, measurement, REFERENCE), own
    return pd.concat([table.to_pandas() for table in both], ignore_index=True)


def _warn_of_titles(sample_sets: Sequence[SampleSet], options: CompareOptions) -> None:
    """Say where documents look as if they were of one page, and nothing tells the pages."""
    grouped = sample_sets[0].grouped or sample_sets[0].groups is not None
    if grouped or options.group_column is not None:
        return
    whole = all(one.without_title in (0, one.statistics.n_documents) for one in sample_sets)
    todo = "title" if whole else "with a field that tells the groups"
    for sample_set in sample_sets:
        if sample_set.repeated and not sample_set.grouped and sample_set.groups is None:
            remark(
                f"warning: {sample_set.path}: {sample_set.repeated:,} documents repeat a title. "
                "Documents of one page are alike, and tests that take them for independent find "
                f"differences where there are none: give as group column {todo} (or '' if they are "
                "independent)"
            )


def _measured(
    reference: SampleSet,
    samples: SampleSet,
    views: Mapping[str, TextView],
    classes: ClassOptions,
    options: CompareOptions,
    others: Sequence[MeasureRow],
) -> tuple[dict[str, pd.DataFrame], pd.DataFrame, str]:
    """Measure the samples in every reading, with `others` and words in the first; say the units."""
    measurement, found, permuted, words = options.measurement(), {}, "", pd.DataFrame()
    files = reference.files, samples.files
    groups = reference.groups, samples.groups
    training = (lambda: _training_texts(options)) if options.training is not None else None
    comparison = TextComparison(files, views, classes, groups, training)
    for warning in comparison.warnings((reference.path, samples.path)):
        remark(warning)
    pair_of_sample_sets = reference.statistics, samples.statistics
    for place, (name, view) in enumerate(views.items()):
        if place:
            counted = [count_texts(sample_set.texts(), classes, view) for sample_set in files]
            pair_of_sample_sets = counted[0], counted[1]
        with comparison.pair(name, pair_of_sample_sets) as pair:
            permuted = permuted_told(pair, groups) if measurement.permutations else ""
            baselines = reference_baselines(pair, measurement, options.seed)
            more = others if place == 0 else ()
            rows = measure_rows(pair, measurement, options.seed, baselines=baselines, others=more)
            if place == 0 and (warning := star_warning(rows, measurement.permutations)):
                remark(f"warning: {warning}")
            rows += comparison.text_rows(name, pair_of_sample_sets)
            if place == 0:
                how = Measuring.of(pair, measurement, options.seed)
                texts = reference.files.texts, samples.files.texts
                words = compare_words(how, texts, view.batch, COMPARED_SOURCE, name).to_pandas()
            found[name] = measure_table(rows, pair, COMPARED_SOURCE, name).to_pandas()
    return found, words, permuted


def _training_texts(options: CompareOptions) -> Iterator[pa.Array]:
    """Stream the training text, cleaned as both texts are."""
    path = source_of(options.training)
    field = options.field_of(path)
    for texts in read_cleaned(path, options.preprocessing(), options.format, field):
        yield pa.array(texts, pa.string())

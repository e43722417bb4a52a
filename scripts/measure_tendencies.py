"""Measure the tendencies of samples against a reference, and make the curves of the figures."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from beyond_perplexity import arguments, errors, foreign_text, signature
from beyond_perplexity.inference.halves import Baseline
from beyond_perplexity.schemas.tendencies import CURVES, SAMPLE_SIZE, TENDENCY_MEASURES
from beyond_perplexity.storage.shards import write_shard
from beyond_perplexity.tendencies.adjustment import star_warning
from beyond_perplexity.tendencies.curves import curves, sample_sizes
from beyond_perplexity.tendencies.definitions import MeasureKey
from beyond_perplexity.tendencies.document_files import DocumentFiles
from beyond_perplexity.tendencies.human_baselines import (
    further_baselines,
    held_out_baselines,
    with_halves,
)
from beyond_perplexity.tendencies.judge import judge_part, rows_of_files
from beyond_perplexity.tendencies.measurement_options import (
    MeasurementOptions,
    SampleSizeOptions,
    check_inputs,
)
from beyond_perplexity.tendencies.measures import measure_rows, measure_table
from beyond_perplexity.tendencies.novelty import with_novelty
from beyond_perplexity.tendencies.pairs import SampleSetPair, paired
from beyond_perplexity.tendencies.statistics import (
    Statistics,
    check_comparable,
    read_statistics,
)
from beyond_perplexity.tendencies.text_comparison import (
    SampleSets,
    TextComparison,
    count_texts,
    known_training,
)
from beyond_perplexity.tendencies.tokens import RAW_TEXT, TextView, vocabulary_words
from beyond_perplexity.tendencies.training_text import TrainingText
from beyond_perplexity.tendencies.word_classes import ClassOptions, load_stop_words, without_blanks
from scripts._job import COUNTING, OF_REFERENCE, Given, flag, job, json_flag, needed, output, shards


def _human(given: Given) -> tuple[DocumentFiles, dict[str, TextView]]:
    """Say where the reference is and how it is read; with --raw, a second time as it is."""
    words = vocabulary_words(given.vocabulary) if given.vocabulary else None
    raw = TextView(None, given.maximum_tokens, given.minimum_tokens)
    views = {} if words is None else {Path(given.vocabulary).stem: replace(raw, words=words)}
    if given.raw or not views:
        views[RAW_TEXT] = raw
    human = DocumentFiles(given.reference_documents, given.reference_split, given.first, raw)
    return replace(human, group_column=given.group_column), views


def _comparison(given: Given) -> TextComparison:
    """Say where the texts are and how they are read."""
    (human, views), raw = _human(given), TextView(None, given.maximum_tokens, given.minimum_tokens)
    samples = DocumentFiles(given.sample_documents, given.sample_split, None, raw)
    groups, training, pool = human.groups(), None, None
    if note := human.note_on_groups(groups):
        foreign_text.remark(note)
    if given.training_split:
        training = human.other_split(given.training_split).texts
    if given.pool_split:
        pool = human.other_split(given.pool_split, as_thin=groups is not None)
    classes = ClassOptions(load_stop_words(given.stop_words), given.count_s_symbols)
    return TextComparison((human, samples), views, classes, (groups, None), training, pool)


def _baselines(
    pair: SampleSetPair, further: SampleSetPair | None, options: MeasurementOptions, seed: int
) -> dict[MeasureKey, Baseline]:
    """Return the baselines of a pair, by further human text where it is there."""
    found = {}
    if further is not None and options.permutations:
        found = further_baselines(pair, further, options, seed)
    return found | held_out_baselines(pair, options, seed)


def _measure(
    given: Given, sample_sets: SampleSets, options: MeasurementOptions, record: dict[str, object]
) -> SampleSets:
    """Write the tables of a sample set, read in its vocabulary, as it is, and of subsets; return
    what was counted of both texts in the vocabulary."""
    if not (given.reference_documents and given.sample_documents):
        with paired(*sample_sets, None) as pair:
            rows = measure_rows(pair, options, given.seed)
            table = measure_table(rows, pair, given.source)
        write_shard(given.measures, TENDENCY_MEASURES, table, record)
        return sample_sets
    comparison, counted = _comparison(given), sample_sets
    judged = rows_of_files(given.judged, given.source, options, given.seed)
    main = next(iter(comparison.views))
    for warning in comparison.warnings((given.reference_documents[0], given.source)):
        foreign_text.remark(warning)
    raw = record | {"signature": signature.changed(str(record["signature"]), vocabulary="raw")}
    for vocabulary in comparison.views:
        if vocabulary != main:
            sample_sets = _raw_sample_sets(given, comparison)
        with (
            comparison.pair(vocabulary, sample_sets) as pair,
            comparison.further(vocabulary, pair) as further,
        ):
            rows = measure_rows(
                pair,
                options,
                given.seed,
                baselines=_baselines(pair, further, options, given.seed),
                sample_sets=given.sample_sets,
                others=judged if vocabulary == main else (),
            )
            rows = with_halves(rows, pair, options, given.seed, given.source)
            warning = star_warning(rows, options.permutations, given.sample_sets)
            if warning and vocabulary == main:
                foreign_text.remark(f"warning: {given.source}: {warning}")
            told = comparison.text_rows(vocabulary, sample_sets)
            table = measure_table([*rows, *told], pair, given.source, vocabulary)
            wanted = {given.measures: vocabulary == main, given.raw: vocabulary == RAW_TEXT}
            for path in (path for path, true in wanted.items() if path and true):
                write_shard(path, TENDENCY_MEASURES, table, raw if path == given.raw else record)
            counted = pair.sample_sets if vocabulary == main else counted
            if given.sample_size and vocabulary == main:
                how = SampleSizeOptions.from_config(given.sample_size_options)
                table = sample_sizes(pair, rows, options, how, given.seed, given.source, further)
                write_shard(given.sample_size, SAMPLE_SIZE, table, record)
    return counted


def _described(given: Given, reference: Statistics) -> Statistics:
    """Count the novelty of the reference in the reading of its statistics, where it is known."""
    if not (given.training_split and given.reference_documents):
        return reference
    human, views = _human(given)
    view = next(iter(views.values()))
    whole = replace(view, maximum_tokens=None)
    texts = human.other_split(given.training_split).texts()
    training = TrainingText.of(whole.batch(batch) for batch in texts)
    classes = ClassOptions(load_stop_words(given.stop_words), given.count_s_symbols)
    return with_novelty(reference, human.texts(), known_training(classes, training), view)


def _raw_sample_sets(given: Given, comparison: TextComparison) -> SampleSets:
    """Return the statistics of both sample sets as they are; the samples are counted here."""
    if not given.raw_reference_statistics:
        raise errors.InputError("--raw needs --raw-reference-statistics beside a vocabulary")
    files, view = comparison.files[1], comparison.views[RAW_TEXT]
    samples = count_texts(files.texts(), comparison.classes, view)
    return read_statistics(given.raw_reference_statistics), samples


@job(
    needed("--reference-statistics", "statistics of the reference"),
    flag("--raw-reference-statistics", "statistics of the reference without a vocabulary"),
    flag("--sample-statistics", "statistics; without: curves of the reference"),
    flag("--reference-documents", "Parquet files of the reference", nargs="+", default=[]),
    flag("--reference-split", "split of the reference's documents"),
    flag("--pool-split", "split of the same files with further human documents, for baselines"),
    flag("--training-split", "split of the same files that the model was trained on", nargs="?"),
    *OF_REFERENCE,
    shards("--sample-documents", "Parquet files of the samples", required=False),
    flag("--sample-split", "split of the samples, if they are documents"),
    flag("--judged", "what a judge said of both", nargs="*", default=[]),
    flag("--vocabulary", "closed vocabulary that both are read in", nargs="?"),
    *COUNTING,
    needed("--source", "name of the samples in the tables"),
    flag("--sample-sets", "sample sets that share one family of tests", arguments.COUNT, default=1),
    json_flag("--options", "JSON; see tendencies/measurement_options.py"),
    json_flag("--sample-size-options", "JSON object; likewise"),
    flag("--seed", "seed of all draws", arguments.SEED, default=0),
    output("--measures", "table of measures to write", required=False),
    output("--raw", "table of measures without a vocabulary to write", required=False),
    output("--sample-size", "table of random subsets to write; needs --measures", required=False),
    output("--curves", "table of curves to write", required=False),
)
def main(given: Given) -> None:
    options = MeasurementOptions.from_config(given.options)
    check_inputs(given, options)
    record = given.record()
    paths = given.reference_statistics, given.sample_statistics or given.reference_statistics
    record["signature"] = options.signature(
        check_comparable(*paths) | {"vocabulary": "own"},  # which is none of an open one
        text="run",
        groups=given.group_column and "reference",
        baseline=given.pool_split and f"split-{given.pool_split}",
        holm=given.sample_sets,
        **judge_part(given.judged),
    )
    reference, sample_set = map(read_statistics, paths)
    if found := without_blanks(sample_set.types, sample_set.counts):
        foreign_text.remark(f"warning: {paths[1]}: {found}")
    if given.measures:
        reference, sample_set = _measure(given, (reference, sample_set), options, record)
    if given.curves:
        other = reference if given.sample_statistics else None
        sample_set = sample_set if other else _described(given, reference)
        write_shard(given.curves, CURVES, curves(sample_set, options, given.source, other), record)

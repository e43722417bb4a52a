"""Read any two sample sets, not held in memory, and compare them in every tendency: no model
needed."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import pandas as pd
import pyarrow as pa

from beyond_perplexity import verdicts
from beyond_perplexity.corpus.external import check_file, read_cleaned
from beyond_perplexity.figures.labels import EXTERNAL, REFERENCE, Labels
from beyond_perplexity.foreign_text import remark
from beyond_perplexity.inference.permuted_units import Groups, scheme_of
from beyond_perplexity.report.sample_sets import (
    SampleSet,
    group_fields,
    read_sample_sets,
)
from beyond_perplexity.storage.provenance import run_record
from beyond_perplexity.tendencies.adjustment import star_warning
from beyond_perplexity.tendencies.answers import PairedAnswers
from beyond_perplexity.tendencies.compare_options import CompareOptions, source_of
from beyond_perplexity.tendencies.curves import curves
from beyond_perplexity.tendencies.definitions import MeasureRow
from beyond_perplexity.tendencies.document_files import population_texts
from beyond_perplexity.tendencies.embedded_documents import drawn_documents
from beyond_perplexity.tendencies.human_baselines import reference_baselines
from beyond_perplexity.tendencies.judge import (
    judge_rows,
    judged_pair,
    open_judge,
    pair_of_values,
    told_of,
)
from beyond_perplexity.tendencies.measurement_options import MeasurementOptions, SensitivityOptions
from beyond_perplexity.tendencies.measures import measure_rows, measure_table, permuted_told
from beyond_perplexity.tendencies.pairs import Measuring, SampleSetPair
from beyond_perplexity.tendencies.prompt_shifts import prompt_effects
from beyond_perplexity.tendencies.sensitivity import (
    Population,
    effects_of,
    minimum_detectable_effects,
)
from beyond_perplexity.tendencies.statistics import check_comparable, description
from beyond_perplexity.tendencies.text_comparison import SampleSets, TextComparison, count_texts
from beyond_perplexity.tendencies.tokens import RAW_TEXT, TextView
from beyond_perplexity.tendencies.word_classes import (
    ClassOptions,
    load_stop_words,
    stop_word_list,
)
from beyond_perplexity.tendencies.words_and_phrases import compare_words

COMPARED_SOURCE = f"{EXTERNAL}/samples"
_SHIFT_PAIRS = 100  # of samples, that find the minimum detectable effect


class BaselineWords(NamedTuple):
    """What a baseline is, in words."""

    heading: str  # of a column
    row: str  # of a figure
    band: str  # of what its band holds 95%
    note: str  # what the three numbers of one size are


_CUT = "Words, ranks and types are of pairs of answers that are cut to equal lengths"
BASELINES = {
    "halves": BaselineWords(
        "Baseline",
        "Human text (baseline)",
        "random splits of this human text",
        "baseline, the mean distance between random halves of the reference; distance, that of as "
        "many samples from such halves; excess, distance minus baseline; types by length of "
        "documents without groups: all of them, and permutations at each length",
    ),
    "people": BaselineWords(
        "Two people",
        "Two people (baseline)",
        "halves of people's answers to the same prompts",
        "baseline, the mean distance of answers of people to other answers of people to the same "
        "prompts; distance, that of as many samples from such answers; excess, distance minus "
        "baseline. " + _CUT,
    ),
    "labels": BaselineWords(
        "Labels permuted",
        "Labels permuted (baseline)",
        "permutations of labels within prompts",
        "baseline, the mean distance where labels are permuted within each prompt, as people gave "
        "one answer; distance, that of the answers as they are; excess, distance minus baseline. "
        + _CUT,
    ),
}


@dataclass(frozen=True)
class Comparison:
    """The result of `compare_sample_sets`: tables, `raw` those of raw texts where a closed
    vocabulary measures, what the tests permute, and what documents are embedded and scored by."""

    reference: SampleSet
    samples: SampleSet
    measures: pd.DataFrame
    curves: pd.DataFrame
    labels: Labels
    described: Mapping[str, object]
    raw: pd.DataFrame | None = None
    groups: tuple[int | None, int | None] = (None, None)
    permuted: str = ""
    encoder: str = ""
    judge: str = ""
    signature: str = ""
    words: pd.DataFrame = field(default_factory=pd.DataFrame)
    sensitivity: pd.DataFrame | None = None  # minimum detectable effects
    baseline: BaselineWords = BASELINES["halves"]


def embedding_comparison(
    options: CompareOptions,
) -> tuple[str, Callable[..., list[MeasureRow]]]:
    """Return what compares documents by their vectors, and the title of its encoder."""
    from beyond_perplexity.semantics.evaluators.contract import encoder_of, named_evaluator

    evaluator, most = named_evaluator(str(options.embedding)), options.most_embedded()
    encoder, held = encoder_of(evaluator), evaluator.describe()

    def rows(
        reference: SampleSet, samples: SampleSet, answered: PairedAnswers | None, view: TextView
    ) -> list[MeasureRow]:
        from beyond_perplexity.tendencies.embedded_documents import embedded_pair
        from beyond_perplexity.tendencies.embedding_measures import rows_of_pair

        remark(f"embedding {most:,} documents of each text at most")
        files = reference.files, samples.files
        groups = answered.prompts if answered else (reference.groups, samples.groups)
        sizes = reference.statistics.n_documents, samples.statistics.n_documents
        pair = embedded_pair(files, sizes, groups, view.batch, most, options.seed, encoder)
        how = SensitivityOptions(pairs=_SHIFT_PAIRS)
        return rows_of_pair(pair, options.measurement(), how, options.seed)

    return f"{held['title']} (SHA-256 {str(held['sha256'])[:12]}…)", rows


def judge_comparison(
    options: CompareOptions, effects: list[pa.Table]
) -> tuple[str, Callable[..., list[MeasureRow]] | None]:
    """Return what compares documents by a judge's bits, adding minimum detectable effects; none
    without a judge."""
    if options.judge is None:
        return "", None
    judge, most, seed = open_judge(options.judge), options.judge_documents, options.seed

    def rows(
        reference: SampleSet, samples: SampleSet, answered: PairedAnswers | None, view: TextView
    ) -> list[MeasureRow]:
        remark(f"judging {most:,} documents of each text at most")
        files, human = (reference.files, samples.files), None
        groups: Groups = answered.prompts if answered else (reference.groups, samples.groups)
        sizes = reference.statistics.n_documents, samples.statistics.n_documents
        chosen, groups = drawn_documents(sizes, groups, most, seed)
        names = reference.path, samples.path
        judged = judged_pair(judge, files, chosen, view.batch, names)
        if answered and answered.human:
            held = answered.human
            chosen, codes = held.drawn(most, seed)
            human = judged_pair(judge, held.files, chosen, view.batch, names, judged[0].size), codes
        with pair_of_values([own.values for own in judged], groups) as pair:
            effects.extend(_numbers_effects(pair, options))
        return judge_rows(judged, groups, options.measurement(), seed, told_of(judge.title), human)

    return judge.title, rows


def _effects(
    pair: SampleSetPair,
    text: SampleSet,
    classes: ClassOptions,
    view: TextView,
    options: CompareOptions,
) -> pa.Table:
    """Find the effects of as many documents as are compared, of the reference's population."""
    remark("finding minimum detectable effects")
    how = SensitivityOptions(documents=(_alike(*pair.n_documents),), pairs=_SHIFT_PAIRS)
    seed, most = options.seed, how.largest_population
    texts, groups = population_texts(text.files, text.groups, most, seed)
    given = options.measurement(), how, seed, COMPARED_SOURCE, classes, view.batch, groups
    return minimum_detectable_effects(pair.reference, texts, *given)


def _alike(n: int, m: int) -> int:
    """Say how many documents of each text have the error of n and m of them."""
    return max(2, round(2 * n * m / (n + m)))


def _numbers_effects(pair: SampleSetPair, options: CompareOptions) -> Iterator[pa.Table]:
    """Find the effects of numbers alone, where their tests are those that are simulated."""
    measurement, (n, m) = options.measurement(), pair.n_documents
    how, given = SensitivityOptions(pairs=_SHIFT_PAIRS), (options.seed, COMPARED_SOURCE)
    if not options.permutations or scheme_of(pair.groups) in ("draws", "groups"):
        return
    if pair.prompted:
        yield prompt_effects(pair, measurement, how, *given)
    elif pair.documents is not None:
        text = Population.of_documents(pair.documents.values(0), pair.groups[0], None)
        how = replace(how, documents=(_alike(n, m),))
        yield effects_of(text, measurement, how, *given)


@contextmanager
def compare_sample_sets(options: CompareOptions) -> Iterator[Comparison]:
    """Read, count and measure two files; the working files live as long as the context."""
    paths = options.sources()
    for path in (one for one in (*paths, options.training) if one is not None):
        check_file(source_of(path))
    options.check_fields()
    views, groups = options.views(), group_fields(paths, options)
    stop_words = load_stop_words(stop_word_list(options.stop_words, options.language))
    if stop_words.missing:
        remark(f"warning: {stop_words.missing}; the row of stop words is left out")
    record = run_record("beyond_perplexity/library/compare.py", {}, seed=options.seed)
    main = next(iter(views))
    effects: list[pa.Table] = []
    encoder, compare_vectors = embedding_comparison(options) if options.embedding else ("", None)
    judge, let_judge = judge_comparison(options, effects)
    if options.vocabulary and main == RAW_TEXT:
        remark(f"{options.vocabulary}: an open vocabulary, which can write every word: read raw")
    with tempfile.TemporaryDirectory(prefix="compare-") as folder:
        read = views[main], groups, stop_words, record, Path(folder)
        (reference, samples), answered = read_sample_sets(paths, options, *read)
        remark("measuring, permuting and resampling")
        of_sets, further = (reference, samples, answered), (compare_vectors, let_judge)
        others = [row for rows in filter(None, further) for row in rows(*of_sets, views[main])]
        tables, words, drawn, permuted = _measured(
            *of_sets, views, ClassOptions(stop_words, True), options, others, effects
        )
        codes = (reference.groups, samples.groups)
        counts = [None if own is None else int(own.max()) + 1 for own in codes]
        baseline = "halves" if answered is None else answered.baseline
        yield Comparison(
            reference,
            samples,
            tables[main],
            drawn,
            Labels(
                names={COMPARED_SOURCE: "Samples"},
                reference="Reference",
                baseline=BASELINES[baseline].row,
                band=BASELINES[baseline].band,
            ),
            check_comparable(reference.counted, samples.counted),
            raw=tables[RAW_TEXT] if main != RAW_TEXT else None,
            groups=(counts[0], counts[1]),
            permuted=permuted,
            encoder=encoder,
            judge=judge,
            words=words,
            sensitivity=pa.concat_tables(effects).to_pandas() if any(effects) else None,
            signature=_signature(options, description(reference.counted), counts, baseline, judge),
            baseline=BASELINES[baseline],
        )


def _signature(
    options: CompareOptions,
    counted: Mapping[str, object],
    groups: Sequence[int | None],
    baseline: str,
    judge: str,
) -> str:
    names = zip(("reference", "samples"), groups, strict=True)
    encoder = options.embedding and Path(options.embedding).name
    return options.measurement().signature(
        counted,
        text=options.preprocessing().name,
        groups=[name for name, count in names if count is not None],
        baseline=baseline,
        embedding=encoder and f"{encoder}-{options.embedding_documents}",
        **({"judge": f"{judge}-{options.judge_documents}"} if judge else {}),
    )


def _curves(sample_sets: SampleSets, options: MeasurementOptions) -> pd.DataFrame:
    """Return the curves of both texts."""
    reference, samples = sample_sets
    both = (
        curves(reference, options, REFERENCE),
        curves(samples, options, COMPARED_SOURCE, reference),
    )
    return pd.concat([table.to_pandas() for table in both], ignore_index=True)


def _measured(
    reference: SampleSet,
    samples: SampleSet,
    answered: PairedAnswers | None,
    views: Mapping[str, TextView],
    classes: ClassOptions,
    options: CompareOptions,
    others: Sequence[MeasureRow],
    effects: list[pa.Table],
) -> tuple[dict[str, pd.DataFrame], pd.DataFrame, pd.DataFrame, str]:
    """Measure the samples in every reading, with `others`, words and curves in the first; what
    tests of answers to prompts can find joins `effects`. Last are the units, in words."""
    measurement, found, permuted = options.measurement(), {}, ""
    words = drawn = pd.DataFrame()
    files = reference.files, samples.files
    groups: Groups = answered.prompts if answered else (reference.groups, samples.groups)
    training = (lambda: _training_texts(options)) if options.training is not None else None
    comparison = TextComparison(files, views, classes, groups, training)
    comparison.human = answered.human if answered else None
    for warning in comparison.warnings((reference.path, samples.path)):
        remark(warning)
    pair_of_sample_sets = reference.statistics, samples.statistics
    for place, (name, view) in enumerate(views.items()):
        if place:
            counted = [count_texts(sample_set.texts(), classes, view) for sample_set in files]
            pair_of_sample_sets = counted[0], counted[1]
        with (
            comparison.pair(name, pair_of_sample_sets) as pair,
            comparison.human_pair(name) as human,
        ):
            permuted = permuted_told(pair, groups) if measurement.permutations else ""
            baselines = reference_baselines(pair, measurement, options.seed, human)
            more = others if place == 0 else ()
            rows = measure_rows(pair, measurement, options.seed, baselines=baselines, others=more)
            if place == 0 and (warning := star_warning(rows, measurement.permutations)):
                remark(f"warning: {warning}")
            rows += comparison.text_rows(name, pair_of_sample_sets)
            if place == 0:
                how = Measuring.of(pair, measurement, options.seed)
                texts = reference.files.texts, samples.files.texts
                words = compare_words(how, texts, view.batch, COMPARED_SOURCE, name).to_pandas()
                drawn = _curves(pair.sample_sets, measurement)
                if answered and measurement.permutations and pair.defined:
                    given = SensitivityOptions(pairs=_SHIFT_PAIRS), options.seed, COMPARED_SOURCE
                    effects.insert(0, prompt_effects(pair, measurement, *given))
                elif options.sensitivity and samples.groups is None:
                    by = comparison.counted_by(name)
                    effects.insert(0, _effects(pair, reference, by, view, options))
            found[name] = measure_table(rows, pair, COMPARED_SOURCE, name).to_pandas()
    said = verdicts.joined_facts(permuted, answered.told if answered else "")
    return found, words, drawn, said


def _training_texts(options: CompareOptions) -> Iterator[pa.Array]:
    """Stream the training text, cleaned as both texts are."""
    path = source_of(options.training)
    field = options.field_of(path)
    for texts in read_cleaned(path, options.preprocessing(), options.format, field):
        yield pa.array(texts, pa.string())

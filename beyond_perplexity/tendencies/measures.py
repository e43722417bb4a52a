"""The table of tendencies of samples against a reference.

Rows of schema ``tendencies``. `value` is the measure; `low` and `high` its interval or limits
(`inference.intervals`); `p_value` the test named below, one-sided for a distance and two-sided for
a signed difference; `p_adjusted` is adjusted for the `family` of all tests of the body
(`tested_rows`), each of so many `draws`; `verdict` says what was found. Where there is no sound
test, `reason` has a code of `verdicts.REASON_TEXTS` and its numbers; `exchanged` says what a test
exchanged in the place of documents, `note` what else is to be known of the value. `p_value_law` is
the Monte Carlo test of a fitted law, which says nothing of the reference; `floor`, `floor_low` and
`floor_high` what two human texts as large are apart, and `excess` = `value` - `floor`. Where the
floor is of halves of the reference (`inference.halves`), `value` is the distance at their size and
`value_all` that of all documents, which limits and p-values are of. `n_reference` and `n_samples`
count documents, `groups_reference` the reference's groups; `vocabulary` names the closed vocabulary
that both texts are read in.

==================== ==================== ========================================================
tendency             measure              meaning (p-value)
==================== ==================== ========================================================
rank_frequency       zipf_s               exponent fitted to the samples, as in the paper: ranks
and frequencies of the same tokens
rank_frequency       zipf_s_reference     ... to the reference
rank_frequency       zipf_s_split         exponent with ranks and frequencies of different halves
of the samples; its interval names that at these ranks
(`power_laws`)
rank_frequency       zipf_s_split_reference: ... of the reference
rank_frequency       zipf_ranks           ranks that it is fitted to; no fit below 30 in a half
rank_frequency       zipf_ranks_reference: ... of the reference
rank_frequency       ks_zipf_model        samples against Zipf with zipf_s (law: the split fit)
rank_frequency       ks_zipf_reference    samples against Zipf with zipf_s_reference (likewise)
rank_frequency       ks_empirical         samples against the reference's ranks (randomization)
type_token_unigrams  heaps_alpha          Heaps' alpha of the samples
type_token_unigrams  heaps_beta           Heaps' beta of the samples
type_token_unigrams  heaps_alpha_reference, heaps_beta_reference: of the reference
type_token_unigrams  ks_heaps_model       mean over lengths: against the samples' fit (law)
type_token_unigrams  ks_heaps_reference   ... against the reference's fit (law)
type_token_unigrams  ks_empirical         ... against the reference's documents (randomization; no
verdict where the reference alone has groups)
type_token_bigrams   the same for distinct bigrams of a document of that many tokens
unigram              tvd                  half of sum |p1 - p2| (randomization; held out where
the reference alone has groups)
unigram              tvd_1000             the same over both sides' first 1,000 ranks
unigram              max_difference       sup |p1 - p2|, the paper's eq. 11 (randomization)
unigram              max_difference_known the same without the unknown word, where there is one
length               mean, mean_reference tokens of a document
length               mean_difference      samples minus reference (randomization)
length               ks                   sup |F1 - F2| (randomization)
each share           the same for the share of the tokens of a document
vocabulary           documents, tokens, types (and each with _reference)
vocabulary           novel_types          share of the samples' types that the reference lacks
vocabulary           coverage             share of the reference's tokens whose type the samples
have
embedding            mmd and what stands beside it: where documents are embedded, see
`embedding_measures`
==================== ==================== ========================================================

Values and limits of rank_frequency and unigram are at equal tokens (`word_distances`), those of all
others and all p-values of all documents. Randomizations exchange documents, or groups of them
(`inference.exchanged_units`). A value that is not defined (no tokens, a single length, ...) is
null. The reduction of a type-token curve to its mean is defined in `type_token`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beyond_perplexity.inference.exchanged_units import ExchangedUnits, exchanged_units, scheme_of
from beyond_perplexity.inference.halves import Floor
from beyond_perplexity.inference.intervals import widest_spread
from beyond_perplexity.schemas.tendencies import TENDENCY_MEASURES
from beyond_perplexity.tendencies import type_token
from beyond_perplexity.tendencies.definitions import MeasureKey, MeasureRow, tendencies_of
from beyond_perplexity.tendencies.document_measures import (
    histogram_rows,
    randomized_documents,
    type_token_rows,
)
from beyond_perplexity.tendencies.options import MeasurementOptions
from beyond_perplexity.tendencies.pairs import BodyPair, paired
from beyond_perplexity.tendencies.statistics import Statistics
from beyond_perplexity.tendencies.tested_rows import adjusted_rows, averaged_draws, tested_rows
from beyond_perplexity.tendencies.word_measures import randomized_words, word_rows


def _vocabulary_rows(reference: Statistics, samples: Statistics) -> Iterator[MeasureRow]:
    for suffix, body in (("", samples), ("_reference", reference)):
        yield MeasureRow("vocabulary", f"documents{suffix}", float(body.n_documents))
        yield MeasureRow("vocabulary", f"tokens{suffix}", float(body.n_tokens))
        yield MeasureRow("vocabulary", f"types{suffix}", float(len(body.types)))
    if len(samples.types):
        shared = np.asarray(pc.is_in(samples.types, value_set=reference.types))
        yield MeasureRow("vocabulary", "novel_types", float(1 - shared.mean()))
    if reference.n_tokens:
        shared = np.asarray(pc.is_in(reference.types, value_set=samples.types))
        coverage = float(reference.counts[shared].sum() / reference.n_tokens)
        yield MeasureRow("vocabulary", "coverage", coverage)


def null_draws(
    pair: BodyPair, options: MeasurementOptions, seed: int
) -> dict[MeasureKey, np.ndarray]:
    """Draw every measure that compares two texts under randomizations of all documents: (B,).

    The groups of the pair say what is exchanged (`inference.exchanged_units`). A draw that is not
    defined is NaN. Measures that the bodies do not have, and those on which the randomization gives
    no verdict, are left out; without documents no unigram is randomized.
    """
    if not options.permutations:
        return {}
    if scheme_of(pair.groups) == "draws":
        return averaged_draws(pair, options, seed)[1]
    units = _units(pair, seed)
    words = randomized_words(pair, units, options, seed)
    return words | randomized_documents(pair, units, options, seed)


def _units(pair: BodyPair, seed: int) -> ExchangedUnits | None:
    return exchanged_units(pair.groups, pair.n_documents, seed)


def _described(pair: BodyPair, options: MeasurementOptions, seed: int) -> Iterator[MeasureRow]:
    """Measure everything; p-values of comparisons are left out."""
    held = None if pair.documents is None else pair.document_lengths
    spread = widest_spread(pair.groups, held)
    yield from word_rows(pair, options, seed)
    for tendency in type_token.HISTOGRAM_OF:
        yield from type_token_rows(pair, tendency, options, spread, seed)
    for tendency in tendencies_of("length", "share"):
        yield from histogram_rows(pair, tendency, options, spread, seed)
    yield from _vocabulary_rows(*pair.bodies)


def measure_rows(
    pair: BodyPair,
    options: MeasurementOptions,
    seed: int,
    *,
    floors: Mapping[MeasureKey, Floor] | None = None,
    bodies: int = 1,
    others: Sequence[MeasureRow] = (),
) -> list[MeasureRow]:
    """Measure all tendencies of a pair; the rows are listed in the docstring of this module.

    `floors` say what two human texts as large are apart; the tests of so many `bodies` of text are
    one family; p-values are adjusted for `others`, rows of the same body that are tested elsewhere,
    too.
    """
    rows = list(_described(pair, options, seed))
    rows = tested_rows(rows, pair, options, seed, _units(pair, seed), null_draws)
    rows = adjusted_rows([*rows, *others], options.permutations, bodies)
    known = floors or {}
    return [row.above(known[row.key]) if row.key in known else row for row in rows]


def measure_table(
    rows: Sequence[MeasureRow], pair: BodyPair, source: str, vocabulary: str = "raw"
) -> pa.Table:
    """Write the rows of `measure_rows` as a table of schema ``tendencies``.

    `vocabulary` names the closed vocabulary that both sides are read in.
    """
    of_body = {
        "source": source,
        "n_reference": pair.reference.n_documents,
        "n_samples": pair.samples.n_documents,
        "groups_reference": pair.n_groups(0),
        "vocabulary": vocabulary,
    }
    return pa.Table.from_pylist([row.cells() | of_body for row in rows], TENDENCY_MEASURES)


def measured_tendencies(
    reference: Statistics,
    samples: Statistics,
    reference_texts: Iterable[pa.Array],
    sample_texts: Iterable[pa.Array],
    options: MeasurementOptions,
    seed: int,
    source: str,
) -> pa.Table:
    """Measure all tendencies of the samples `source` against a reference: schema ``tendencies``.

    The documents are read once, for permutations and resamples of unigrams; not at all without
    either.
    """
    texts = (reference_texts, sample_texts) if options.draws else None
    with paired(reference, samples, texts) as pair:
        return measure_table(measure_rows(pair, options, seed), pair, source)

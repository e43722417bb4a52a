"""Which sample sets each tendency tells from people, as ``compare`` gives its stars.

Run ``python -m benchmarks.sample_sets --results FOLDER [--repeats 40] [--documents 400]``. FOLDER
are the results of a run with samples of `MODELS`, such as those of the default run. In every repeat
random documents of its test split stand against as many documents of a sample set: others of the
same split (nothing differs), the same with the words of each shuffled, or with its sentences
shuffled, and samples of a model, of which it draws more than the run has. Both are read as the run
reads them, in the vocabulary that it shares. Baselines are of halves of the reference; p-values are
adjusted for the sample set (Holm). The judge is a model of the run that wrote none of the samples,
the encoder its evaluator `ENCODER`: how alike documents are has a column of its own.

A cell is the share of the repeats in which a tendency has a star, in any of its rows. Its standard
error is at most 1 / (2 √repeats). Repeats share documents: they are of one split and one model.
D documents.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

from beyond_perplexity import verdicts
from beyond_perplexity.corpus.sentences import cut_sentences
from beyond_perplexity.random_streams import stream, stream_key
from beyond_perplexity.semantics.evaluators.contract import encoder_of, evaluator_at, load_evaluator
from beyond_perplexity.storage.shards import read_texts
from beyond_perplexity.tendencies.definitions import SIMILARITY, TENDENCIES, MeasureRow
from beyond_perplexity.tendencies.embedded_documents import (
    EmbeddedPair,
    TextEncoder,
    embedded_text,
)
from beyond_perplexity.tendencies.embedding_measures import embedded_baseline, embedding_rows
from beyond_perplexity.tendencies.human_baselines import reference_baselines
from beyond_perplexity.tendencies.judge import Judge, JudgedText, judge_rows, open_judge
from beyond_perplexity.tendencies.measurement_options import MeasurementOptions
from beyond_perplexity.tendencies.measures import measure_rows
from beyond_perplexity.tendencies.pairs import paired
from beyond_perplexity.tendencies.text_comparison import count_texts
from beyond_perplexity.tendencies.tokens import WHOLE_TEXT, TextView
from beyond_perplexity.tendencies.training_text import TrainingText
from beyond_perplexity.tendencies.word_classes import ClassOptions, load_stop_words

SEED = 20261126
DRAWN = 1_200  # documents of a model, from which those of a repeat are taken
JUDGE = "kn-5"
ENCODER = "infersent"
TESTS = MeasurementOptions(permutations=399, bootstrap=0, monte_carlo=0)
MODELS = {
    "trigram": ("ancestral",),
    "lstm": ("ancestral", "nucleus", "beam"),
    "transformer": ("ancestral", "nucleus", "beam"),
}
Change = Callable[[str, np.random.Generator], str]


def shuffled_words(text: str, rng: np.random.Generator) -> str:
    """Shuffle the words of a document."""
    words = text.split()
    return " ".join(words[k] for k in rng.permutation(len(words)))


def shuffled_sentences(text: str, rng: np.random.Generator) -> str:
    """Shuffle the sentences of a document."""
    held = cut_sentences(text, whole=False)
    return " ".join(word for k in rng.permutation(len(held)) for word in held[k])


CHANGES: dict[str, Change] = {
    "human text": lambda text, _: text,
    "human text, words shuffled": shuffled_words,
    "human text, sentences shuffled": shuffled_sentences,
}


class Remembered:
    """An encoder that makes the vector of a text once: repeats share most documents."""

    def __init__(self, encoder: TextEncoder) -> None:
        self._encoder, self._vectors = encoder, dict[str, np.ndarray]()
        self.truncated = 0

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """Return vectors, float32, (n, D)."""
        new = [text for text in dict.fromkeys(texts) if text not in self._vectors]
        self._vectors |= zip(new, self._encoder.encode(new), strict=True)
        self.truncated = self._encoder.truncated
        return np.stack([self._vectors[text] for text in texts])


@dataclass(frozen=True)
class Compared:
    """A sample set beside human documents, called with the number of the repeat.

    Without `samples` it is of further human documents, changed.
    """

    name: str
    human: Sequence[str] = field(repr=False)
    classes: ClassOptions = field(repr=False)
    view: TextView = field(repr=False, default=WHOLE_TEXT)
    judge: Judge | None = field(repr=False, default=None)
    encoder: TextEncoder | None = field(repr=False, default=None)
    samples: Sequence[str] | None = field(repr=False, default=None)
    change: Change = field(repr=False, default=CHANGES["human text"])
    n: int = 400

    def texts(self, repeat: int) -> tuple[pa.Array, pa.Array]:
        """Draw documents of both sides without replacement: (D,) each."""
        rng = stream(SEED, f"sample sets/{self.name}", repeat)
        order = rng.permutation(len(self.human))
        first, further = order[: self.n], order[self.n : 2 * self.n]
        if self.samples is None:
            other = [self.change(self.human[k], rng) for k in further]
        else:
            chosen = rng.permutation(len(self.samples))[: self.n]
            other = [self.samples[k] for k in chosen]
        return pa.array([self.human[k] for k in first]), pa.array(other, pa.string())

    def rows(self, repeat: int) -> list[MeasureRow]:
        """Measure and test both sides."""
        texts = self.texts(repeat)
        reference, samples = (count_texts([side], self.classes, self.view) for side in texts)
        given = reference, samples, ([texts[0]], [texts[1]])
        seed = stream_key(SEED, f"sample sets/{self.name}/{repeat}")
        read = [self.view.batch(side).texts().to_pylist() for side in texts]
        others = self._judged(read, seed) + self._embedded(read, seed)
        with paired(*given, read=self.view.batch, classes=self.classes) as pair:
            baselines = reference_baselines(pair, TESTS, seed)
            return measure_rows(pair, TESTS, seed, baselines=baselines, others=others)

    def _judged(self, read: list[list[str]], seed: int) -> list[MeasureRow]:
        if self.judge is None:
            return []
        reference = JudgedText.of(read[0], self.judge, None, "the reference")
        samples = JudgedText.of(read[1], self.judge, reference.size, self.name)
        return judge_rows((reference, samples), (None, None), TESTS, seed, "")

    def _embedded(self, read: list[list[str]], seed: int) -> list[MeasureRow]:
        if self.encoder is None:
            return []
        sides = [embedded_text(side, None, len(side), self.encoder) for side in read]
        pair = EmbeddedPair.of(*sides)
        return list(embedding_rows(pair, TESTS, seed, baseline=embedded_baseline(pair, seed)))

    def __call__(self, repeat: int) -> dict[str, str]:
        """Say of every tendency what was found: a star in any row, else what its distance says."""
        found = dict[str, str]()
        for row in self.rows(repeat):
            alike = row.measure == SIMILARITY
            distance = alike or row.measure == TENDENCIES[row.tendency].distance
            if distance or row.verdict == verdicts.DIFFERS:
                column = SIMILARITY if alike else row.tendency
                old = found.get(column)
                found[column] = old if old == verdicts.DIFFERS else row.verdict
        return found


def cases(results: Path, n: int) -> Iterator[Compared]:
    """List the sample sets of a run."""
    from beyond_perplexity.decoding.generation import generate, to_table
    from beyond_perplexity.decoding.options import parse_decoding
    from beyond_perplexity.models.registry import load_model

    given = json.loads(Path(results, "configuration.json").read_text(encoding="utf-8"))
    (corpus,) = given["corpora"]
    documents = Path(results, "corpora", corpus, "documents.parquet")
    words = Path(results, "shared_vocabulary", corpus, "words.txt").read_text(encoding="utf-8")
    view = TextView(pa.array(words.split()), given["tendencies"]["maximum_tokens"])
    whole = TextView(view.words)
    training = TrainingText.of(map(whole.batch, read_texts([documents], split="train")))
    classes = ClassOptions(load_stop_words("gensim"), True, training)
    judge = open_judge(str(Path(results, "models", JUDGE)), "cpu")
    evaluator = load_evaluator(evaluator_at(Path(results, "evaluators", ENCODER)))
    encoder = Remembered(encoder_of(evaluator))
    human = [x for texts in read_texts([documents], split="test") for x in texts.to_pylist()]
    for name, change in CHANGES.items():
        yield Compared(name, human, classes, view, judge, encoder, None, change, n)
    for family, decodings in MODELS.items():
        model, vocabulary, _ = load_model(Path(results, "models", family))
        for decoding in decodings:
            drawn = generate(
                model,
                parse_decoding(given["decodings"][decoding]),
                seed=given["seed"],
                purpose=f"generate/{family}/{decoding}",
                first=0,
                count=DRAWN,
                maximum_length=given["generation"]["maximum_length"],
            )
            samples = to_table(list(drawn), vocabulary)["text"].to_pylist()
            how = classes, view, judge, encoder, samples
            yield Compared(f"{family}, {decoding}", human, *how, n=n)


def table(found: Mapping[str, Sequence[Mapping[str, str]]]) -> str:
    """Write shares of stars as Markdown; a dash where there is no verdict in any repeat."""
    every = {name for repeats in found.values() for held in repeats for name in held}
    nouns = {name: tendency.noun for name, tendency in TENDENCIES.items()}
    nouns[SIMILARITY] = "similarity"
    columns = [name for name in nouns if name in every]
    lines = [["", *(nouns[name] for name in columns)], ["---"] * (len(columns) + 1)]
    for case, repeats in found.items():
        cells = []
        for name in columns:
            held = [one[name] for one in repeats if name in one]
            tested = [one for one in held if one in (verdicts.DIFFERS, verdicts.ALIKE)]
            stars = np.mean([one == verdicts.DIFFERS for one in held]) if tested else None
            cells.append("–" if stars is None else f"{stars:.2f}")
        lines.append([case, *cells])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, required=True, help="folder of a finished run")
    parser.add_argument("--repeats", type=int, default=40, help="repeats of every sample set")
    parser.add_argument("--documents", type=int, default=400, help="of each side")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="after which it ends")
    given = parser.parse_args()
    end, listed = time.monotonic() + 60 * given.minutes, list(cases(given.results, given.documents))
    found: dict[str, list[Mapping[str, str]]] = {case.name: [] for case in listed}
    for repeat in range(given.repeats):
        for case in listed:
            found[case.name].append(case(repeat))
        if time.monotonic() > end:
            break
    print(f"{repeat + 1} repeats of {given.documents} documents a side")
    print(table(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())

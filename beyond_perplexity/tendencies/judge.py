"""Judge: bits per byte of documents under a language model.

Of a document the first words, as it is read, joined by blanks: -log2 of their probability over
their bytes of UTF-8, without the end of the text, as they are its beginning. All documents are cut
to one size, the largest that half of the reference's have. Compared is the distribution over
documents, from both sides: text that repeats itself has fewer bits than that of people, text that
rambles more, and neither is better. The mean alone, read as a score of quality, is known as
generative perplexity; see arXiv 2604.02718. Words that the judge does not know are free in
spelling.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beyond_perplexity.errors import InputError, extras_named
from beyond_perplexity.foreign_text import remark
from beyond_perplexity.inference.permuted_units import Groups, alike_groups
from beyond_perplexity.schemas.tendencies import JUDGED
from beyond_perplexity.storage.shards import read_batches, read_record
from beyond_perplexity.tendencies.definitions import JUDGE, LENGTH, TENDENCIES, MeasureRow
from beyond_perplexity.tendencies.document_counts import DocumentCounts
from beyond_perplexity.tendencies.document_files import DocumentFiles
from beyond_perplexity.tendencies.document_measures import histogram_rows
from beyond_perplexity.tendencies.document_statistics import ABSENT, Sized, chosen_size
from beyond_perplexity.tendencies.embedded_documents import Read, documents_at
from beyond_perplexity.tendencies.human_baselines import reference_baselines
from beyond_perplexity.tendencies.measurement_options import MeasurementOptions
from beyond_perplexity.tendencies.measures import tested_rows
from beyond_perplexity.tendencies.pairs import Measuring, SampleSetPair
from beyond_perplexity.tendencies.statistics import Statistics, histograms_of
from beyond_perplexity.verdicts import joined_facts

if TYPE_CHECKING:
    from beyond_perplexity.models.contract import LanguageModel
    from beyond_perplexity.models.likelihoods import DocumentScore
    from beyond_perplexity.vocabulary import Vocabulary

# Texts beside the reference in its file: the row of each one's mean, and of what that is.
_CONTROLS = (
    ("mean_training", "documents of the training split"),
    ("mean_own_samples", "ancestral samples of the judge"),
)


class Judge(NamedTuple):
    """A model that scores texts: log P of each, nats, without the end of the text."""

    title: str
    score: Callable[[Iterable[str]], Iterable[DocumentScore]]
    opened: tuple[LanguageModel, Vocabulary] | None = None


def open_judge(given: Any, device: str = "auto") -> Judge:
    """Open a model that is a judge.

    Parameters
    ----------
    given : str, path or pair
        Folder of a model of a run or of Hugging Face, its name on the hub, or an ARPA file; or a
        model in memory with its tokenizer, as `perplexity` takes them.
    device : str
        ``auto``, ``cpu`` or ``cuda``; of a model in memory the one that it is on.

    Raises
    ------
    InputError
        When there is no such model, or the extra ``models`` is not installed.
    """
    with extras_named():  # late: needs torch
        from beyond_perplexity.models import in_memory, kneser_ney, registry
        from beyond_perplexity.models.likelihoods import score_documents

        try:
            if isinstance(given, tuple) and len(given) == 2:
                title, (model, vocabulary) = type(given[0]).__name__, in_memory.hold(*given)
            elif not (isinstance(given, Path) or (isinstance(given, str) and given)):
                raise InputError("give a path, or a model in memory and its tokenizer as a tuple")
            elif Path(given).is_file():
                title, (model, vocabulary) = Path(given).name, kneser_ney.open_arpa(given, device)
            else:
                model, opened = registry.open_scorer(str(given), device)
                title, vocabulary = Path(given).absolute().name, opened.vocabulary
        except InputError as error:
            raise InputError(f"judge: {error}") from error
    score = partial(score_documents, model, vocabulary, count_eos=False)
    return Judge(title, score, (model, vocabulary))


@dataclass(frozen=True)
class JudgedText:
    """Documents of a text, cut to a size: bits per byte in units of the row, int32, (n,).

    `ABSENT` are those that are shorter, and those that are impossible.
    """

    size: int
    units: np.ndarray
    impossible: int = 0
    unknown: float = 0.0  # share of the judge's tokens

    @property
    def bits_per_byte(self) -> np.ndarray:
        """Bits per byte, float64, (n,); NaN where there are none."""
        return np.where(self.units == ABSENT, np.nan, self.units * _UNIT)

    @property
    def values(self) -> dict[str, np.ndarray]:
        """What is known of every document, which weigh alike: int32, (n,), by name."""
        name = Sized(JUDGE, _ROW, self.size).name
        return {LENGTH: np.ones(len(self.units), np.int32), name: self.units}

    @classmethod
    def of(cls, texts: Sequence[str], judge: Judge, size: int | None, name: object) -> JudgedText:
        """Let documents be judged, tokens joined by blanks; without a size it is chosen."""
        words = [text.split(" ") for text in texts]
        size = size or chosen_size(_ROW.sizes, np.array([len(own) for own in words]))
        long = np.array([len(own) >= size for own in words], bool)
        cut = [" ".join(own[:size]) for own in words if len(own) >= size]
        if texts and not cut:
            told = f"no document of {name} has {size} tokens: nothing is compared"
            remark(f"warning: judge {judge.title}: {told}")
        scores = list(judge.score(cut))
        log_p = np.array([score.log_prob for score in scores], float)
        if np.isnan(log_p).any():
            raise InputError(
                f"judge {judge.title}: gives a document of {name} the log-probability NaN; its "
                "weights are damaged or its numbers overflow: train or bring the model again"
            )
        impossible = int(np.isneginf(log_p).sum())
        if impossible:
            remark(
                f"warning: judge {judge.title}: {impossible:,} of {len(cut):,} documents of {name} "
                "are impossible under it (probability 0) and are left out; take a judge that can "
                "write every text"
            )
        n_bytes = np.array([len(text.encode()) for text in cut], float)
        bits = np.where(np.isneginf(log_p), ABSENT, -log_p / math.log(2) / n_bytes / _UNIT)
        units = np.full(len(texts), ABSENT, np.int32)
        units[long] = np.rint(bits)
        tokens = sum(score.tokens for score in scores)
        unknown = sum(score.unknown for score in scores)
        return cls(size, units, impossible, unknown / max(tokens, 1))


def judged_pair(
    judge: Judge,
    files: tuple[DocumentFiles, DocumentFiles],
    chosen: tuple[np.ndarray, np.ndarray],
    read: Read,
    names: tuple[object, object],
    size: int | None = None,
) -> tuple[JudgedText, JudgedText]:
    """Let documents at indices (n,) of a reference and of samples be judged at one size."""
    texts = [documents_at(*both, read) for both in zip(files, chosen, strict=True)]
    reference = JudgedText.of(texts[0], judge, size, names[0])
    return reference, JudgedText.of(texts[1], judge, reference.size, names[1])


_ROW = TENDENCIES[JUDGE]
_UNIT = _ROW.unit


@contextmanager
def pair_of_values(
    values: Sequence[Mapping[str, np.ndarray]], groups: Groups
) -> Iterator[SampleSetPair]:
    """Bring two texts together as documents of which only values, (D,) each, are known."""
    types, counts = pa.array([], pa.string()), np.zeros(0, np.int64)
    with DocumentCounts(types, counts) as documents:
        for sample_set, own in enumerate(values):
            documents.add_numbers(sample_set, own)
        first, second = (Statistics(types, counts, histograms_of(own)) for own in values)
        groups = alike_groups(groups, (first.n_documents, second.n_documents))
        yield SampleSetPair(first, second, types, np.zeros((2, 0), np.int64), documents, groups)


def judge_rows(
    texts: tuple[JudgedText, JudgedText],
    groups: Groups,
    options: MeasurementOptions,
    seed: int,
    told: str,
    human: tuple[tuple[JudgedText, JudgedText], Groups] | None = None,
) -> list[MeasureRow]:
    """Compare two judged texts, which are of one size: the rows of `histogram_rows`, tested.

    `groups` (n,) are numbered from 0 on; `human`: answers of people and of a model to prompts that
    people answered twice, with their prompts; `told` is said of the judge.
    """
    with pair_of_values([own.values for own in texts], groups) as pair:
        how = Measuring.of(pair, options, seed)
        rows = tested_rows(list(histogram_rows(how, JUDGE)), how)
        if human is None:
            known = reference_baselines(pair, options, seed)
        else:
            with pair_of_values([own.values for own in human[0]], human[1]) as answers:
                known = reference_baselines(pair, options, seed, answers)
    unknown = max(own.unknown for own in texts)
    free = f"up to {unknown:.1%} of its tokens are unknown words, free in spelling"
    left = " and ".join(f"{own.impossible:,}" for own in texts)
    left = f"impossible under it and left out: {left}" * any(own.impossible for own in texts)
    told = joined_facts(told, free * bool(unknown), left)
    rows = [row._replace(fact=joined_facts(row.fact, told)) if row.fact else row for row in rows]
    return [row.above(known[row.key]) if row.key in known else row for row in rows]


def told_of(title: str, *, own: bool = False) -> str:
    """Say what the numbers of a judge are; `own`: beside its own samples."""
    control = (
        "a control: the judge's own samples" if own else f"{title}'s own samples are a control"
    )
    return f"bits per byte under {title}: neither larger nor smaller is better; {control}"


def judged_table(text: JudgedText, groups: np.ndarray | None, name: str) -> pa.Table:
    """Write a judged text as rows of schema ``judged``; its other fields are for the record."""
    n = len(text.units)
    bits = pa.array(text.bits_per_byte, from_pandas=True)
    codes = pa.nulls(n, pa.int32()) if groups is None else pa.array(groups, pa.int32())
    return pa.table({"split": [name] * n, "group": codes, "bits_per_byte": bits}, JUDGED)


def read_judged(path: str | Path) -> tuple[list[JudgedText], np.ndarray | None]:
    """Read the judged texts of a file, in their order, and the groups of the first."""
    record: Any = read_record(path)
    batches = list(read_batches(path, JUDGED, JUDGED.names))
    table, found = pa.Table.from_batches(batches, JUDGED), []
    for own in record["judged"]:
        name, facts = own["name"], {key: x for key, x in own.items() if key != "name"}
        bits = table.filter(pc.equal(table["split"], name))["bits_per_byte"].to_numpy()
        units = np.where(np.isnan(bits), ABSENT, np.rint(bits / _UNIT)).astype(np.int32)
        found.append(JudgedText(units=units, **facts))
    groups = table["group"][: len(found[0].units)]
    return found, None if groups.null_count else groups.to_numpy()


def judge_part(paths: Sequence[str | Path]) -> dict[str, str]:
    """Return what a signature says of the judge of files, where there is one."""
    if not paths:
        return {}
    record = read_record(paths[0])
    return {"judge": f"{record['judge']}-{record['documents']}"}


def rows_of_files(
    paths: Sequence[str | Path], source: str, options: MeasurementOptions, seed: int
) -> list[MeasureRow]:
    """Compare the files of a reference, with a text that was trained on, and of samples, if any."""
    if not paths:
        return []
    (reference, *controls), groups = read_judged(paths[0])
    samples, _ = read_judged(paths[1])
    title = str(read_record(paths[0])["judge"])
    told = told_of(title, own=source.startswith(f"{title}/"))
    rows = judge_rows((reference, samples[0]), (groups, None), options, seed, told)
    return rows + [
        MeasureRow(
            JUDGE,
            measure,
            float(np.nanmean(own.bits_per_byte)),
            fact=f"of {np.sum(own.units >= 0):,} of {len(own.units):,} {what}",
        )
        for (measure, what), own in zip(_CONTROLS, controls, strict=True)
        if np.any(own.units >= 0)
    ]

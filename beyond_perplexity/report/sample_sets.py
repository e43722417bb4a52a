"""Sample sets of `compare`: read, cleaned and counted, with what stands beside their texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

from beyond_perplexity.corpus.external import AnswerRecord, GroupField, import_texts
from beyond_perplexity.corpus.formats import has_named_fields
from beyond_perplexity.corpus.readers import Record
from beyond_perplexity.corpus.text_files import HeldTexts
from beyond_perplexity.errors import InputError
from beyond_perplexity.foreign_text import remark
from beyond_perplexity.storage.accounts import Account
from beyond_perplexity.storage.shards import read_texts
from beyond_perplexity.tendencies.answers import PairedAnswers, pair_answers, write_chosen
from beyond_perplexity.tendencies.compare_options import CompareOptions
from beyond_perplexity.tendencies.document_files import DocumentFiles, GroupNumbers, found_groups
from beyond_perplexity.tendencies.statistics import Statistics, StatisticsCounter, read_statistics
from beyond_perplexity.tendencies.tokens import TextView
from beyond_perplexity.tendencies.word_classes import StopWords, without_blanks


class _Fields:
    """What stands beside the texts of a file: groups, titles, prompts and the groups of these."""

    def __init__(self) -> None:
        self.groups, self.titles = GroupNumbers(), GroupNumbers()
        self.prompts, self.above = GroupNumbers(), GroupNumbers()
        self.grouped = False
        self.without_title = 0

    def add(self, records: list[Record]) -> None:
        answers = [one for one in records if isinstance(one, AnswerRecord)]
        self.prompts.add(pa.array([f"={one.prompt}" for one in answers], pa.string()))
        self.above.add(pa.array([one.group or f"={one.prompt}" for one in answers], pa.string()))
        self.titles.add(pa.array([record.title for record in records], pa.string()))
        self.without_title += sum(not record.title for record in records)
        self.groups.add(pa.array([record.group or "" for record in records], pa.string()))
        self.grouped |= any(record.group is not None for record in records)

    def repeated(self) -> int:
        """Count the documents with a title that an earlier one has."""
        codes = self.titles.codes()
        return len(codes) - len(np.unique(codes))


@dataclass(frozen=True)
class SampleSet:
    """A sample set, ready to be compared: its file, cleaned documents, statistics, groups, int32
    (D,) or None, and how many lines without a token were left out."""

    path: Path
    documents: Path
    counted: Path
    statistics: Statistics
    left_out: int
    short: int = 0
    groups: np.ndarray | None = None
    fields: _Fields = field(default_factory=_Fields)

    @property
    def files(self) -> DocumentFiles:
        """The cleaned documents, as files that are read."""
        return DocumentFiles((self.documents,))


@dataclass(frozen=True)
class _Imported:
    """The cleaned documents of a file, with what stands beside them."""

    path: Path | HeldTexts
    documents: Path
    fields: _Fields
    account: Account
    left_out: tuple[int, int]  # without a token, and too short


def _import(
    path: Path | HeldTexts,
    options: CompareOptions,
    groups: GroupField | None,
    name: str | None,
    folder: Path,
    record: dict[str, object],
) -> _Imported:
    folder.mkdir()
    documents, fields, account = folder / "documents.parquet", _Fields(), Account(path, "documents")
    counts = import_texts(
        path,
        options.format,
        options.preprocessing(),
        documents,
        record,
        minimum_tokens=options.minimum_tokens,
        groups=groups,
        field=name,
        seen=fields.add,
        account=account,
    )
    return _Imported(path, documents, fields, account, counts)


def _paired(
    both: list[_Imported], seed: int, record: dict[str, object]
) -> tuple[list[Path], PairedAnswers]:
    """Keep as many answers of both texts to each prompt."""
    first, second = (one.fields for one in both)
    codes, above = first.prompts.with_others(second.prompts), first.above.with_others(second.above)
    groups = above[0] if first.grouped else None, above[1] if second.grouped else None
    files = DocumentFiles((both[0].documents,)), DocumentFiles((both[1].documents,))
    found = pair_answers(files, codes, groups, seed, (str(both[0].path), str(both[1].path)))
    paths = [one.documents.with_name("answers.parquet") for one in both]
    for one, held, kept, path in zip(both, files, found.kept, paths, strict=True):
        write_chosen(held, kept, path, record)
        one.account.left_out["with no answer of the other side beside it"] = int((~kept).sum())
    return paths, found


def _groups_in_file(
    one: _Imported, field: GroupField | None, size: int, n: int
) -> np.ndarray | None:
    """Return the groups that a file names, or those of so many of n documents in a row."""
    codes = None
    if field and one.fields.grouped:
        codes = found_groups(one.fields.groups, f"{one.path}: field '{field.name}'")
    if size == 1:
        return codes
    if codes is not None:
        raise InputError(f"{one.path}: names its groups; leave the group size out")
    return np.arange(n, dtype=np.int32) // size


def read_sample_sets(
    paths: tuple[Path | HeldTexts, Path | HeldTexts],
    options: CompareOptions,
    view: TextView,
    groups: Sequence[GroupField | None],
    stop_words: StopWords,
    record: dict[str, object],
    folder: Path,
) -> tuple[list[SampleSet], PairedAnswers | None]:
    """Read, clean and count both files; of answers to prompts as many of both are kept."""
    both = []
    for number, (path, group) in enumerate(zip(paths, groups, strict=True)):
        name = options.field_of(path, samples=bool(number))
        both.append(_import(path, options, group, name, folder / str(number), record))
    _check_groups(both, options)
    documents, answered = [one.documents for one in both], None
    if options.prompted:
        documents, answered = _paired(both, options.seed, record)
    made, sizes = [], (options.group_size, options.samples_group_size)
    for number, (one, path) in enumerate(zip(both, documents, strict=True)):
        counted = path.with_name("statistics.parquet")
        with StatisticsCounter(stop_words, view=view) as counter:
            for texts in read_texts([path]):
                counter.add(texts)
            counter.write(counted, record)
        held = read_statistics(counted)
        if found := without_blanks(held.types, held.counts):
            what = "" if options.tokenized else " (tokenized)"
            remark(f"warning: {one.path}: {found}{what}")
        codes: np.ndarray | None
        if answered:
            codes = answered.prompts[number].astype(np.int32)
        else:
            codes = _groups_in_file(one, groups[number], sizes[number], held.n_documents)
        own = Path(str(one.path)), path, counted, held, *one.left_out, codes, one.fields
        made.append(SampleSet(*own))
    if answered is None:
        _warn_of_titles(made, options)
    return made, answered


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


def _check_groups(both: Sequence[_Imported], options: CompareOptions) -> None:
    """Raise `InputError` where a field is named for the groups that no text has."""
    if options.group_column and not any(one.fields.grouped for one in both):
        raise InputError(
            f"{both[0].path}: field '{options.group_column}', which names the group, is "
            f"missing here and in {both[1].path}; name one that either has"
        )


def _warn_of_titles(sample_sets: Sequence[SampleSet], options: CompareOptions) -> None:
    """Say where documents look as if they were of one page, and nothing tells the pages."""
    grouped = sample_sets[0].fields.grouped or sample_sets[0].groups is not None
    if grouped or options.group_column is not None:
        return
    whole = all(one.fields.without_title in (0, one.statistics.n_documents) for one in sample_sets)
    todo = "title" if whole else "with a field that tells the groups"
    for sample_set in sample_sets:
        fields, repeated = sample_set.fields, sample_set.fields.repeated()
        if repeated and not fields.grouped and sample_set.groups is None:
            remark(
                f"warning: {sample_set.path}: {repeated:,} documents repeat a title. "
                "Documents of one page are alike, and tests that take them for independent find "
                f"differences where there are none: give as group column {todo} (or '' if they are "
                "independent)"
            )

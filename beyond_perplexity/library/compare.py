"""Two bodies of text in every statistical tendency, from a program."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from beyond_perplexity.corpus.formats import AUTOMATIC, TEXT_FORMATS
from beyond_perplexity.errors import InputError
from beyond_perplexity.library.calls import Unused, in_memory, library_function
from beyond_perplexity.library.given import GivenFiles, check_numbers
from beyond_perplexity.library.result import Result
from beyond_perplexity.report.compare import (
    FIGURE_FILES,
    comparison_text,
    draw_one,
    run_comparison,
)
from beyond_perplexity.report.comparison_input import CompareOptions, Comparison

_NAMES = ("reference", "samples")


def _unused(given: Mapping[str, Any]) -> Iterator[Unused]:
    fields, texts = given["samples_field"], (given["reference"], given["samples"])
    read = [texts[0], *[texts[1]] * (fields is None)]
    read += [given["training"]] * (given["training"] is not None)
    if all(map(in_memory, read)):
        yield Unused("on texts in memory", ("field",))
    if in_memory(texts[1]):
        yield Unused("on texts in memory", ("samples_field",))
    if all(map(in_memory, texts)):
        yield Unused("on texts in memory; groups stand beside them", ("group_column",))
    if given["group_column"] == "":
        yield Unused("where --group-column is empty", ("groups",))
    if given["tokenized"] and given["stop_words"] not in ("auto", "nltk"):
        yield Unused("on --tokenized texts with a list of stop words", ("language",))
    if given["embedding"] is None:
        yield Unused("without --embedding", ("embedding_documents",))


@library_function(_unused)
def compare(
    reference: Any,
    samples: Any,
    *,
    groups: Any = None,
    out: str | Path | None = None,
    format: str = CompareOptions.kind,
    tokenized: bool = False,
    language: str = CompareOptions.language,
    stop_words: str = CompareOptions.stop_words,
    permutations: int = CompareOptions.permutations,
    bootstrap: int = CompareOptions.bootstrap,
    seed: int = CompareOptions.seed,
    vocabulary: str | Path | None = None,
    group_column: str | None = None,
    minimum_tokens: int = 0,
    maximum_tokens: int | None = None,
    field: str | None = None,
    samples_field: str | None = None,
    embedding: str | None = None,
    embedding_documents: int = CompareOptions.embedding_documents,
    training: Any = None,
) -> Result:
    """Compare two bodies of text in every statistical tendency; no model is needed.

    Parameters
    ----------
    reference, samples : path, iterable of str, DataFrame or Arrow table
        Human text, and generated text: one document each. A str is a path (text, JSONL, Parquet);
        tables have a column ``text``. An iterator is read once and never held.
    groups : iterable, or pair of iterables, optional
        Which documents of the reference belong together (pages, authors, prompts), where it is an
        iterable of texts: then groups are exchanged in the tests. A tuple of two: of the reference
        and of the samples, such as several answers of a prompt; either may be None.
    out : path, optional
        Folder for ``compare.html``, ``tendencies.csv`` and the figures, as the command writes.
    format : str
        Where all are paths: ``"text"``, ``"jsonl"``, ``"parquet"``, or ``"auto"``: by the suffix.
    tokenized : bool
        The texts are tokens joined by blanks: they are not cleaned.
    language : str
        Of the tokenizer, and of the stop words.
    stop_words : str
        ``"auto"`` (the language's list, gensim's for English), ``"gensim"`` (English), ``"nltk"``,
        or a file. Without a list for the language its row says so, and has no numbers.
    permutations, bootstrap : int
        Draws of each test and of the intervals; 0 leaves them out.
    seed : int
        Of all draws.
    vocabulary : path, optional
        ``vocabulary.json`` of a model, or a word a line: both texts are read in it.
    group_column : str, optional
        Column or field of the groups in tables and files (default: ``group`` where a text has it;
        ``""``: there are none).
    minimum_tokens, maximum_tokens : int
        Documents of fewer tokens are left out; of longer ones so many are read.
    field, samples_field : str, optional
        Field or column of the texts of files and tables, and that of the samples where it is
        another (default: ``text``).
    embedding : str, optional
        ``"minilm"`` or a folder of sentence-transformers, to compare documents by their vectors.
    embedding_documents : int
        Documents of each text for it.
    training : path, iterable of str, DataFrame or Arrow table, optional
        Text that the samples' model was trained on, to find copies of it.

    Returns
    -------
    Result
        ``table`` has a row a measure (schema ``tendencies``): its value in both texts, the
        distance (`value`) at the size of its `floor`, `excess` = `value` - `floor`, p-values and
        limits, and the distance of all documents (`value_all`). Tables ``curves``, and with a
        vocabulary ``raw``. Figures are those of the command.

    Raises
    ------
    InputError
        When something that was given cannot be used; names it, and the line where it can.
    """
    check_numbers(0, permutations=permutations, bootstrap=bootstrap, seed=seed)
    check_numbers(0, minimum_tokens=minimum_tokens)
    check_numbers(1, maximum_tokens=maximum_tokens)
    _check_format(format, reference=reference, samples=samples, training=training)
    with GivenFiles() as files:
        made = _files_of(files, (reference, samples), groups, (field, samples_field), group_column)
        if training is not None:
            training = str(files.texts(training, "training", field=field))
        pairs = zip(_NAMES, made, strict=True)
        shown = [name if files.holds(path) else str(path) for name, path in pairs]
        given = CompareOptions(
            str(made[0]), str(made[1]), kind=format, tokenized=tokenized, language=language,
            stop_words=stop_words, permutations=permutations, bootstrap=bootstrap, seed=seed,
            vocabulary=None if vocabulary is None else str(vocabulary), group_column=group_column,
            minimum_tokens=minimum_tokens, maximum_tokens=maximum_tokens, field=field,
            samples_field=samples_field, training=training, embedding=embedding,
            embedding_documents=embedding_documents, names=(shown[0], shown[1]),
        )  # fmt: skip
        finished = run_comparison(given, None if out is None else Path(out))
    return _result(finished.found)


def _result(found: Comparison) -> Result:
    held = {"curves": found.curves, "raw": found.raw}
    return Result(
        "compare",
        found.measures,
        text=comparison_text(found),
        summary={"groups": found.groups, "exchanged": found.exchanged},
        tables={name: one for name, one in held.items() if one is not None},
        figures={file: partial(draw_one, name, found) for name, file in FIGURE_FILES.items()},
    )


def _files_of(
    files: GivenFiles,
    texts: tuple[Any, Any],
    groups: Any,
    fields: tuple[str | None, str | None],
    group_column: str | None,
) -> list[Path]:
    """Return the files of the reference and of the samples."""
    beside = groups if isinstance(groups, tuple) and len(groups) == 2 else (groups, None)
    columns = fields[0], fields[0] if fields[1] is None else fields[1]
    several = zip(texts, _NAMES, beside, columns, strict=True)
    return [
        files.texts(one, name, own, field=column, group_column=group_column)
        for one, name, own, column in several
    ]


def _check_format(kind: str, **given: Any) -> None:
    """Refuse a format of files for what is no file."""
    if kind not in (AUTOMATIC, *TEXT_FORMATS):
        known = ", ".join((AUTOMATIC, *TEXT_FORMATS))
        raise InputError(f"format: is {kind!r}, expected one of {known}")
    for name, one in given.items():
        if kind != AUTOMATIC and one is not None and not isinstance(one, str | os.PathLike):
            raise InputError(f"format: {name} is no path; leave it out, and name files by suffix")

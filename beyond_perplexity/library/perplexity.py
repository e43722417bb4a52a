"""The perplexity of texts under a model in all its definitions, from a program."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from beyond_perplexity.errors import extras_named
from beyond_perplexity.library.calls import Unused, in_memory, library_function, torch_kept
from beyond_perplexity.library.given import (
    GROUP_COLUMN,
    GivenFiles,
    check_numbers,
    check_outputs,
    check_path_or_name,
)
from beyond_perplexity.library.result import Result
from beyond_perplexity.ngrams.sentence_files import UnknownRule

if TYPE_CHECKING:
    import pandas as pd


def _is_arpa(given: Mapping[str, Any]) -> bool:
    check_path_or_name("model", given["model"])
    return os.path.isfile(given["model"]) if given["arpa"] is None else bool(given["arpa"])


def _unused(given: Mapping[str, Any]) -> Iterator[Unused]:
    if _is_arpa(given):
        text = "with an ARPA file, whose text is read as it is"
        yield Unused(text, ("cleaned", "tokenized", "speller", "special_tokens"))
    else:
        yield Unused("without an ARPA file", ("unk_as", "unk_as_unknown"))
    if given["tokenized"]:
        yield Unused("on --tokenized texts", ("cleaned",))
    if in_memory(given["texts"]):
        yield Unused("on texts in memory", ("field",))
        yield Unused("on texts in memory; groups stand beside them", ("group_column",))


@library_function(_unused)
def perplexity(
    model: str | Path,
    texts: Any,
    *,
    groups: Any = None,
    arpa: bool | None = None,
    unk_as: str | None = None,
    unk_as_unknown: bool = False,
    field: str | None = None,
    cleaned: bool = False,
    tokenized: bool = False,
    context_length: int | None = None,
    stride: int | None = None,
    count_bos: bool = False,
    no_count_eos: bool = False,
    special_tokens: bool = False,
    speller: str | Path | None = None,
    group_column: str | None = None,
    per_document: bool | str | Path = True,
    threads: int | None = None,
    device: str = "auto",
) -> Result:
    """Score texts under a model: perplexity and bits in all their definitions.

    Parameters
    ----------
    model : path or str
        Folder of a model of a run or of Hugging Face, or its name on the hub; or the file of an
        n-gram model in ARPA format.
    texts : path, iterable of str, DataFrame or Arrow table
        One document each (of an ARPA file one sentence, read as it is). A str is a path; tables
        have a column ``text``. An iterator is read once and never held.
    groups : iterable, optional
        Which documents belong together, where `texts` is an iterable: intervals are over groups.
    arpa : bool, optional
        Whether the model is an ARPA file (default: whether it is a file).
    unk_as : str, optional
        Of an ARPA file: a literal ``<unk>`` is this ordinary word.
    unk_as_unknown : bool
        Of an ARPA file: it is the unknown word.
    field : str, optional
        Field or column of the texts of files and tables (default: ``text``).
    cleaned, tokenized : bool
        Clean the text as the model's corpus was; or it is cleaned already.
    context_length, stride : int, optional
        Tokens that a prediction sees (default: the model's), and predictions that each window adds
        (default: half the context).
    count_bos : bool
        Count ``<s>`` in every N.
    no_count_eos : bool
        Leave ``</s>`` out of log P and of every N.
    special_tokens : bool
        Read special tokens that the texts say, such as ``<|endoftext|>``, as those tokens, and take
        the softmax over every row of the output layer, as transformers and lm-evaluation-harness
        do; else they are characters, and the difference is said. Of models of Hugging Face.
    speller : path, optional
        Speller of the words that the vocabulary lacks (default: that of the model or its run).
    group_column : str, optional
        Column or field of the groups in tables and files (default: ``group`` where it is there).
    per_document : bool or path
        Whether the result has the table ``documents``, a row a document; or a Parquet file that it
        is written to as well. False: nothing is held but a few numbers a document.
    threads : int, optional
        CPU threads of this call (default: as PyTorch has them).
    device : str
        ``"auto"``, ``"cpu"`` or ``"cuda"``.

    Returns
    -------
    Result
        ``table`` has a row for each unit (token, word, character, byte): its number N, perplexity
        and bits (base 2), with 95% limits over documents or groups, and both with the spelling of
        unknown words (``_spelled``) or a penalty for them (``_unknown_penalized``) where there is
        one. Of an impossible text they are infinite; what is not known is NaN. ``summary`` has all
        that the command prints; see `perplexities.summary`. Table ``documents`` (schema
        ``document_scores``).

    Raises
    ------
    InputError
        When the model or a text cannot be used, or the extra ``models`` is not installed.
    """
    check_numbers(1, context_length=context_length, stride=stride, threads=threads)
    written = None if isinstance(per_document, bool) else per_document
    check_outputs(written)
    is_arpa = _is_arpa({"model": model, "arpa": arpa})
    if group_column is None and groups is not None:
        group_column = GROUP_COLUMN
    with extras_named():
        from beyond_perplexity.perplexities.brought import ScoringOptions, score_file
    with GivenFiles() as files:
        path = files.texts(texts, "texts", groups, field=field, group_column=group_column)
        options = ScoringOptions(
            str(model), str(path), arpa=is_arpa, rule=UnknownRule(unk_as, unk_as_unknown),
            field=field, cleaned=cleaned, tokenized=tokenized, context_length=context_length,
            stride=stride, count_bos=count_bos, count_eos=not no_count_eos,
            special_tokens=special_tokens, speller=None if speller is None else str(speller),
            group_column=group_column,
            per_document=written, keep_documents=bool(per_document), device=device,
        )  # fmt: skip
        with extras_named(), torch_kept(threads):
            found = score_file(options)
    tables = {"documents": found.documents} if found.documents is not None else {}
    table, text = partial(_table, found.summary), partial(_text, found.summary)
    return Result("perplexity", table, text=text, summary=found.summary, tables=tables)


def _table(summary: Mapping[str, Any]) -> pd.DataFrame:
    from beyond_perplexity.library.perplexity_rows import perplexity_by_unit  # late: pandas

    return perplexity_by_unit(summary)


def _text(summary: Mapping[str, Any]) -> str:
    return str(_table(summary).to_string(index=False))

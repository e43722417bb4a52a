"""Two models on one text: where they differ, and how far they agree, from a program."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from beyond_perplexity.corpus.external import read_cleaned
from beyond_perplexity.errors import extras_named
from beyond_perplexity.library import calls
from beyond_perplexity.perplexities.options import PairOptions, ScoringOptions
from beyond_perplexity.perplexities.parts import compare_tokens
from beyond_perplexity.perplexities.score_files import FileScores, read_scores, read_tokens
from beyond_perplexity.storage.accounts import Account
from beyond_perplexity.storage.accounts import accounts as held_accounts
from beyond_perplexity.storage.shards import ParquetInput
from beyond_perplexity.storage.table_files import HeldTable

_PASSED = (
    *("field", "group_column", "group_size", "cleaned", "tokenized", "context_length"),
    *("no_count_eos", "tokenizer"),
)
Sources = list[tuple[str, str]]  # path and name of each model


def score_models(given: PairOptions, folder: str) -> tuple[Sources, pa.Table | None]:
    """Score a text under two models, into files of a folder; of one vocabulary, how they agree."""
    with extras_named():
        from beyond_perplexity.perplexities.agreement import agreement
        from beyond_perplexity.perplexities.external import load_scoring, score_given
    texts = list(given.texts) if calls.in_memory(given.texts) else given.texts
    how: dict[str, Any] = {name: getattr(given, name) for name in (*_PASSED, "device")}
    models = [given.model, given.against]
    named = [str(one) if isinstance(one, str | Path) else type(one).__name__ for one in models]
    stems = [Path(name).name.removesuffix(".gz").removesuffix(".arpa") for name in named]
    names = stems if stems[0] != stems[1] else named
    if named[0] == named[1]:  # as of a model against itself
        names = [stems[0], f"{stems[0]} (again)"]
    sources, opened = Sources(), []
    with calls.torch_kept(given.threads):
        for name, model in zip(names, models, strict=True):
            held = {"field": given.field, "group_column": given.group_column}
            source, path = calls.text_source(texts, "texts", **held), f"{len(sources)}.parquet"
            files: Any = {"per_document": False, "per_token": str(Path(folder, path))}
            with extras_named():
                is_file = isinstance(model, str | Path) and os.path.isfile(model)
                options = ScoringOptions(model, source, arpa=is_file, **files, **how)
                opened.append(load_scoring(options))
            score_given(opened[-1])
            sources.append((files["per_token"], name))
        first, second = opened
        if first.vocabulary.hash != second.vocabulary.hash:
            return sources, None
        items = (document.item for document in read_tokens(sources[0][0]))
        both = (first.model, second.model), (names[0], names[1])
        return sources, agreement(*both, first.vocabulary, items, given.context_length)


def locate(
    sources: Sequence[tuple[str, str]], given: PairOptions, is_own: bool
) -> tuple[pa.Table, list[FileScores]]:
    """Split differences by files with a row a token; `is_own`: they are no files of the user's."""
    paths, names = zip(*sources, strict=True)
    accounts = [None if is_own else Account(path, "tokens") for path in paths]
    reference = None if given.frequencies is None else _words_of(Path(given.frequencies), given)
    parts, tables = compare_tokens(paths, names, reference, accounts, given.group_size)
    files = []
    for path, table in zip(paths, tables, strict=True):
        with ParquetInput(path) as file:
            held = HeldTable(table, path)
            held.metadata = file.metadata.metadata or {}
        with held_accounts():  # what was read is told of the tokens
            files += read_scores(held)
    return parts, files


def _words_of(path: Path, given: PairOptions) -> Iterator[str]:
    for texts in read_cleaned(path, None, field=given.field):
        yield from texts

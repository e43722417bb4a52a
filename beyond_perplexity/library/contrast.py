"""Good and bad sentences, or originals and distortions of them, from a program."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from itertools import zip_longest
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from beyond_perplexity.contrastive.pairs import (
    SentencePair,
    contrast_pairs,
    contrast_scores,
    pair_files,
    read_pairs,
)
from beyond_perplexity.corpus.normalization import WHITE_SPACE_ONLY, Preprocessing
from beyond_perplexity.errors import InputError, extras_named
from beyond_perplexity.foreign_text import printable
from beyond_perplexity.library.calls import Unused, library_function, torch_kept
from beyond_perplexity.library.given import (
    check_numbers,
    check_outputs,
    check_path_or_name,
    values_of,
)
from beyond_perplexity.library.result import Result
from beyond_perplexity.models.families import is_taken_as_it_is
from beyond_perplexity.schemas.contrastive import PAIR_CONTRASTS
from beyond_perplexity.storage.provenance import run_record
from beyond_perplexity.storage.shards import write_shard
from beyond_perplexity.vocabulary import N_SPECIAL, ClosedVocabulary

if TYPE_CHECKING:
    from beyond_perplexity.models.opening import OpenedModel

_LACKING = object()
_ALL = "pairs"  # what the pairs are called that have no phenomenon


def _unused(given: Mapping[str, Any]) -> Iterator[Unused]:
    if given["model"] is None:
        yield Unused("without --model, on log scores", ("tokenized", "threads", "device"))
        return
    yield Unused("with --model, which counts words itself", ("words",))
    if isinstance(given["originals"], str | os.PathLike):
        yield Unused("on a file of pairs, which names them", ("phenomena",))


@library_function(_unused)
def contrast(
    originals: Any,
    distorted: Iterable[Any] | None = None,
    *,
    model: str | Path | None = None,
    phenomena: Iterable[str] | None = None,
    words: Iterable[int] | None = None,
    tokenized: bool = False,
    name: str | None = None,
    threads: int | None = None,
    device: str = "auto",
    output: str | Path | None = None,
) -> Result:
    """Tell sentences from distortions of them: accuracy and contrastive entropy H_C.

    Parameters
    ----------
    originals, distorted : iterable of str or float
        Pair by pair. With a model its sentences; without one their log scores (natural logarithms,
        may be −inf), which any program may have computed. `originals` alone: the path of a file of
        pairs (JSONL, or TSV with a line of names; see `contrastive.pairs`), or of a folder of them.
    model : path or str, optional
        Folder of a model of a run or of Hugging Face, or its name on the hub; or the file of an
        n-gram model in ARPA format, which reads sentences as they are.
    phenomena : iterable of str, optional
        What each pair is about: each gets a row.
    words : iterable of int, optional
        Of scores: the words of each original, for H_C per word.
    tokenized : bool
        The sentences are cleaned already.
    name : str, optional
        Of the model (default: that of its folder).
    threads : int, optional
        CPU threads of this call (default: as PyTorch has them).
    device : str
        ``"auto"``, ``"cpu"`` or ``"cuda"``.
    output : path, optional
        Parquet file to write.

    Returns
    -------
    Result
        ``table`` (schema ``pair_contrasts``) has a row a phenomenon: pairs, accuracy with Wilson's
        95% interval, H_C = mean of score(original) − score(distorted), nats a pair, with its own.
        ``summary`` has their means over phenomena, each counted once.

    Raises
    ------
    InputError
        When a pair or the model cannot be used, or the extra ``models`` is not installed.
    """
    check_numbers(1, threads=threads)
    check_outputs(output)
    if model is None:
        if isinstance(originals, str | os.PathLike):
            raise InputError("originals: is a file of sentences; name the --model that reads them")
        table = _of_scores(originals, distorted, phenomena, words, name or "scores")
        flags: dict[str, object] = {"pairs": "scores"}
        record: dict[str, Any] = {}
    else:
        check_path_or_name("model", model)
        with torch_kept(threads):
            with extras_named():
                opened = _open(str(model), device)
            table = _of_texts(opened, originals, distorted, phenomena, tokenized, str(model), name)
        flags = {"pairs": _shown_source(originals), "tokenized": tokenized, **opened.source}
        record = {"device": str(opened.model.device), "checkpoint": opened.weights}
    if output:
        write_shard(
            output, PAIR_CONTRASTS, table, run_record("scripts/contrast.py", flags, **record)
        )
    summary = _means(table, originals)
    text = "\n".join([_describe(table), *_said_of_means(summary)])
    return Result("contrast", table, text=text, summary=summary)


def _open(model: str, device: str) -> OpenedModel:
    from beyond_perplexity.models.checkpoint import choose_device
    from beyond_perplexity.models.opening import OpenedModel, open_any

    if not os.path.isfile(model):
        return open_any(model, device)
    from beyond_perplexity.models.kneser_ney import KneserNey
    from beyond_perplexity.ngrams.arpa import read_arpa

    held = read_arpa(model)
    network = KneserNey.of(held.model).to(choose_device(device)).eval()
    words = ClosedVocabulary(held.words[N_SPECIAL:], 0)
    return OpenedModel(network, words, {"config": network.config, "arpa": True}, Path(model))


def _means(table: pa.Table, originals: Any) -> dict[str, Any]:
    """Return the means over phenomena, each counted once, and how many files they are from."""
    is_path = isinstance(originals, str | os.PathLike)
    found: dict[str, Any] = {"files": len(pair_files(Path(originals))) if is_path else 0}
    for name in ("accuracy", "contrastive_entropy"):
        values = table[name].drop_null().to_pylist()
        found[name] = fmean(values) if values else None
        found[f"{name}_phenomena"] = len(values)
    return found


def _said_of_means(means: Mapping[str, Any]) -> list[str]:
    """Say what the means are where there are several phenomena."""
    count, files = means["accuracy_phenomena"], means["files"]
    if count < 2:
        return []
    of = f" of {files:,} files" if files > 1 and files != count else ""
    lines = [f"mean over {count:,} {'files' if files == count else 'phenomena'}{of}"]
    lines.append(f"  accuracy     {means['accuracy']:.3f}")
    if means["contrastive_entropy_phenomena"] == count:
        lines.append(f"  H_C          {means['contrastive_entropy']:.3f} nats a pair")
    return lines


def _shown_source(originals: Any) -> str:
    return str(originals) if isinstance(originals, str | os.PathLike) else "texts"


def _of_texts(
    opened: OpenedModel,
    originals: Any,
    distorted: Iterable[Any] | None,
    phenomena: Iterable[str] | None,
    tokenized: bool,
    model: str,
    name: str | None,
) -> pa.Table:
    from beyond_perplexity.contrastive.scores import make_scorer

    if isinstance(originals, str | os.PathLike):
        if distorted is not None:
            raise InputError("distorted: originals is a file of both sentences; leave it out")
        pairs = read_pairs(Path(originals))
    else:
        pairs = _sentence_pairs(originals, distorted, phenomena)
    cleaning = _cleaning(opened.description, tokenized)
    return contrast_pairs(
        make_scorer(opened.model, opened.vocabulary, model),
        pairs,
        cleaning.apply if cleaning else None,
        name or Path(model).resolve().name,
    )


def _cleaning(description: dict[str, Any], tokenized: bool) -> Preprocessing | None:
    """Return how sentences are cleaned for a model; None: not at all, for one of plain text."""
    if tokenized:
        return WHITE_SPACE_ONLY
    if description.get("arpa") or is_taken_as_it_is(
        description["config"]["family"], description.get("training")
    ):
        return None
    return Preprocessing.from_config(description.get("preprocessing", {}))


def _rows(**columns: Iterable[Any] | None) -> Iterator[tuple[Any, ...]]:
    """Give the values of each pair; a column that is None has None everywhere.

    Raises
    ------
    InputError
        When one has fewer values than another.
    """
    for name in ("originals", "distorted"):
        given = columns[name]
        if isinstance(given, str | bytes) or not isinstance(given, Iterable):
            kind = type(given).__name__
            raise InputError(f"{name}: is of type {kind}; give one of each pair, in an iterable")
    for name in ("phenomena", "words"):
        given = columns.get(name)
        if given is not None and not isinstance(given, Iterable):
            raise InputError(f"{name}: is of type {type(given).__name__}; give one for each pair")
    held = {name: values_of(values) for name, values in columns.items() if values is not None}
    for number, row in enumerate(zip_longest(*held.values(), fillvalue=_LACKING), start=1):
        for name, value in zip(held, row, strict=True):
            if value is _LACKING:
                raise InputError(f"{name}: has no value for pair {number}; give one for each pair")
        known = dict(zip(held, row, strict=True))
        yield tuple(known.get(name) for name in columns)


def _sentence_pairs(
    originals: Any, distorted: Iterable[Any] | None, phenomena: Iterable[str] | None
) -> Iterator[SentencePair]:
    rows = _rows(originals=originals, distorted=distorted, phenomena=phenomena)
    for number, (good, bad, about) in enumerate(rows, start=1):
        for side, text in (("originals", good), ("distorted", bad)):
            if not isinstance(text, str) or not text.strip():
                raise InputError(f"{side}: pair {number} has {text!r:.80}; give a sentence")
        yield SentencePair(good, bad, _phenomenon(about, number), f"pair {number}")


def _phenomenon(about: Any, number: int) -> str:
    name = str(_ALL if about is None else about)
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise InputError(f"phenomena: pair {number} has half a surrogate pair") from error
    return name


def _of_scores(
    originals: Any,
    distorted: Iterable[Any] | None,
    phenomena: Iterable[str] | None,
    words: Iterable[int] | None,
    name: str,
) -> pa.Table:
    given = _rows(originals=originals, distorted=distorted, phenomena=phenomena, words=words)

    def rows() -> Iterator[tuple[float, float, str, int | None]]:
        for number, (good, bad, about, count) in enumerate(given, start=1):
            check_numbers(1, words=count)
            sides = _score(good, "originals", number), _score(bad, "distorted", number)
            yield *sides, _phenomenon(about, number), count

    return contrast_scores(rows(), name)


def _score(value: Any, side: str, number: int) -> float:
    try:
        found = float(value) if not isinstance(value, str) else float("nan")
    except (TypeError, ValueError):
        found = float("nan")
    if not found < float("inf"):
        raise InputError(
            f"{side}: pair {number} has {value!r:.80}, expected a log score (a number, or -inf); "
            "of sentences name a model"
        )
    return found


def _limits(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f" ({low:.3f} to {high:.3f})"


def _describe(table: pa.Table) -> str:
    """Say in lines what was found; a phenomenon may have any name."""
    lines = []
    for row in table.to_pylist():
        lines.append(f"{printable(row['phenomenon'])}: {row['pairs']:,} pairs")
        if row["accuracy"] is not None:
            limits = _limits(row["accuracy_low"], row["accuracy_high"])
            lines.append(f"  accuracy     {row['accuracy']:.3f}{limits}")
        if row["contrastive_entropy"] is not None:
            limits = _limits(row["low"], row["high"])
            lines.append(f"  H_C          {row['contrastive_entropy']:.3f}{limits} nats a pair")
        if row["per_word"] is not None:
            lines.append(f"               {row['per_word']:.3f} nats a word of the good sentences")
        if row["undecided"]:
            lines.append(f"  equal scores {row['undecided']:,} pairs, which count half")
        if row["note"]:
            lines.append(f"  note         {row['note']}")
    return "\n".join(lines)

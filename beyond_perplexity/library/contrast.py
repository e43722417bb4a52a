"""Good and bad sentences, or originals and distortions of them, from a program."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa

from beyond_perplexity.arguments import check_number
from beyond_perplexity.contrastive import pairs
from beyond_perplexity.corpus.normalization import watched
from beyond_perplexity.errors import InputError, extras_named
from beyond_perplexity.foreign_text import printable
from beyond_perplexity.library import calls
from beyond_perplexity.library.call_options import ContrastOptions
from beyond_perplexity.library.result import Result
from beyond_perplexity.models.served.protocols import ASKED
from beyond_perplexity.schemas.contrastive import PAIR_CONTRASTS
from beyond_perplexity.signature import sign
from beyond_perplexity.storage.inputs import told
from beyond_perplexity.storage.provenance import run_record
from beyond_perplexity.storage.shards import write_shard

if TYPE_CHECKING:
    from beyond_perplexity.models.registry import OpenedModel

_ALL = "pairs"  # what the pairs are called that have no phenomenon


def _unused(given: ContrastOptions) -> Iterator[calls.Unused]:
    if given.url is None:
        yield "without a url", ASKED
    else:
        yield "with a server", ("model", "tokenized", "device")
    if given.model is None and given.url is None:
        if not isinstance(given.originals, str | os.PathLike):
            yield "without a model, on log scores", ("tokenized", "threads", "device")
        return
    yield "with a model, which counts words itself", ("words",)
    if isinstance(given.originals, str | os.PathLike):
        yield "on a file of pairs, which names them", ("phenomena", "groups")


@calls.library_function(ContrastOptions, _unused)
def contrast(given: ContrastOptions) -> Result:
    """Tell sentences from distortions of them: accuracy and contrastive entropy H_C.

    Returns
    -------
    Result
        ``table`` (schema ``pair_contrasts``) has a row a phenomenon: pairs, accuracy with Wilson's
        95% interval, H_C = mean of score(original) − score(distorted), nats a pair, with its own;
        over groups of pairs where there are any.
        ``summary`` has their means over phenomena, each counted once.

    Raises
    ------
    InputError
        When a pair or the model cannot be used, or the extra ``models`` is not installed.
    """
    is_file = isinstance(given.originals, str | os.PathLike)
    ends: dict[str, object] = {} if given.url is None or given.end else {"eos": False}
    ends |= given.signed
    read_as = "tokenized" if given.tokenized else "own"
    read_as = "scores" if given.model is None and given.url is None else read_as
    signature = sign("contrast", text=read_as, distortion="pairs", **ends)
    record: dict[str, Any] = {}
    if given.url is not None:
        table = _of_server(given)
        flags: dict[str, object] = {name: getattr(given, name) for name in ("url", *ASKED)}
    elif given.model is None:
        if is_file:
            raise InputError(
                "originals: is a file of sentences; name the model that reads them, or a url"
            )
        table = pairs.contrast_scores(_scores(given), given.name or "scores")
        flags = {"pairs": "scores"}
    else:
        calls.check_path_or_name("model", given.model)
        with calls.torch_kept(given.threads):
            with extras_named():
                opened = _open(str(given.model), given.device)
            table = _of_texts(opened, given)
        shown = str(given.originals) if is_file else "texts"
        flags = {"pairs": shown, "tokenized": given.tokenized, **opened.source}
        record = {"device": str(opened.model.device), "checkpoint": opened.weights}
    summary = {**_means(table, given.originals), "signature": signature}
    if given.output:
        written = run_record("beyond_perplexity/library/contrast.py", flags, **record)
        write_shard(given.output, PAIR_CONTRASTS, table, written | {"signature": signature})
    text = "\n".join([_describe(table), *_said_of_means(summary)])
    return Result("contrast", table, text=text, summary=summary)


def _of_server(given: ContrastOptions) -> pa.Table:
    """Score sentences each as a text of its own, from its first token on."""
    from beyond_perplexity.models.served.journal import Journal
    from beyond_perplexity.models.served.server import ServedModel

    with ServedModel(given) as served:
        if not served.first:
            raise InputError("beginning: is missing; pairs may differ in the first token")

        def score(texts: Iterable[Sequence[str]]) -> np.ndarray:
            named = ((f"sentence {n}", " ".join(text)) for n, text in enumerate(texts, 1))
            found = served.score(named, Journal())
            return np.array([math.fsum(one.log_probs) for one in found])

        return pairs.contrast_pairs(score, _given_pairs(given), None, given.name or served.model)


def _open(model: str, device: str) -> OpenedModel:
    from beyond_perplexity.models.registry import OpenedModel, open_any

    if not os.path.isfile(model):
        return open_any(model, device)
    from beyond_perplexity.models.kneser_ney import open_arpa

    network, words = open_arpa(model, device)
    return OpenedModel(network, words, {"config": network.config, "arpa": True}, Path(model))


def _means(table: pa.Table, originals: Any) -> dict[str, Any]:
    """Return the means over phenomena, each counted once, and how many files they are from."""
    is_path = isinstance(originals, str | os.PathLike)
    found: dict[str, Any] = {"files": len(pairs.pair_files(Path(originals))) if is_path else 0}
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


def _of_texts(opened: OpenedModel, given: ContrastOptions) -> pa.Table:
    from beyond_perplexity.contrastive.scores import make_scorer
    from beyond_perplexity.models.registry import cleaning_of

    description, model = opened.description, str(given.model)
    plain = description.get("arpa") and not given.tokenized  # whose text is read as it is
    cleaning = None if plain else cleaning_of(description, tokenized=given.tokenized)
    scorer = make_scorer(opened.model, opened.vocabulary, model)
    where = "texts" if given.distorted is not None else given.originals
    with nullcontext() if plain else watched(cleaning, where) as clean:
        return pairs.contrast_pairs(
            scorer, _given_pairs(given), clean, given.name or Path(model).resolve().name
        )


def _given_pairs(given: ContrastOptions) -> Iterator[pairs.SentencePair]:
    if not isinstance(given.originals, str | os.PathLike):
        return _sentence_pairs(given)
    if given.distorted is not None:
        raise InputError("distorted: originals is a file of both sentences; leave it out")
    return pairs.read_pairs(Path(given.originals))


def _sentence_pairs(given: ContrastOptions) -> Iterator[pairs.SentencePair]:
    sides = {"originals": given.originals, "distorted": given.distorted}
    about = {"phenomena": given.phenomena, "groups": given.groups}
    rows = calls.rows_of("one of each pair", **sides, **about)
    for number, row in enumerate(rows, start=1):
        for side in sides:
            if not isinstance(row[side], str) or not row[side].strip():
                raise InputError(f"{side}: pair {number} has {row[side]!r:.80}; give a sentence")
        phenomenon, group = _about(row, number)
        place = f"pair {number}"
        yield pairs.SentencePair(row["originals"], row["distorted"], phenomenon, place, group)


def _about(row: Mapping[str, Any], number: int) -> tuple[str, str | None]:
    """Return the phenomenon and the group of a pair."""
    held = {"phenomena": row.get("phenomena"), "groups": row.get("groups")}
    for name, value in held.items():
        if pd.api.types.is_scalar(value) and pd.isna(value):  # as tables have what is missing
            held[name] = None
            continue
        with told(f"{name}: pair {number} has half a surrogate pair"):
            held[name] = str(value).encode().decode()
    return _ALL if held["phenomena"] is None else held["phenomena"], held["groups"]


def _scores(given: ContrastOptions) -> Iterator[tuple[float, float, str, str | None, int | None]]:
    sides = {"originals": given.originals, "distorted": given.distorted}
    about = {"phenomena": given.phenomena, "groups": given.groups, "words": given.words}
    rows = calls.rows_of("one of each pair", **sides, **about)
    for number, row in enumerate(rows, start=1):
        if row.get("words") is not None:
            check_number("words", row["words"], 1)
        good, bad = (_score(row[side], side, number) for side in sides)
        yield good, bad, *_about(row, number), row.get("words")


def _score(value: Any, side: str, number: int) -> float:
    try:
        found = float(value) if not isinstance(value, str) else float("nan")
    except (TypeError, ValueError):
        found = float("nan")
    if not found < float("inf"):
        wrong = f"{side}: pair {number} has {value!r:.80}, expected a log score (a number, or -inf)"
        raise InputError(f"{wrong}; of sentences name a model")
    return found


def _describe(table: pa.Table) -> str:
    """Say in lines what was found; a phenomenon may have any name."""
    lines = []
    for row in table.to_pylist():
        lines.append(f"{printable(row['phenomenon'])}: {row['pairs']:,} pairs")
        for title, name, limits, unit in (
            ("accuracy", "accuracy", ("accuracy_low", "accuracy_high"), ""),
            ("H_C", "contrastive_entropy", ("low", "high"), " nats a pair"),
            ("", "per_word", (), " nats a word of the good sentences"),
        ):
            if row[name] is not None:
                known = [f"{row[one]:.3f}" for one in limits if row[one] is not None]
                within = f" ({' to '.join(known)})" if known else ""
                lines.append(f"  {title:<13}{row[name]:.3f}{within}{unit}")
        if row["undecided"]:
            lines.append(f"  equal scores {row['undecided']:,} pairs, which count half")
        if row["note"]:
            lines.append(f"  note         {row['note']}")
    return "\n".join(lines)

# ruff: noqa: RUF009 (fields are declared by `option`)
"""The options of functions of the library and of their commands; nothing heavy is imported."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any

from beyond_perplexity.arguments import MOST_THREADS
from beyond_perplexity.auditing.checks import CHECKS, PRECISION_NAMES
from beyond_perplexity.importance.ways_to_draw import ReductionOptions
from beyond_perplexity.option_sets import option
from beyond_perplexity.options import json_object
from beyond_perplexity.semantics.evaluators.families import PACKAGES
from beyond_perplexity.storage.shards import FileRanges

_DEFAULTS = json.dumps({one.name: one.default for one in fields(ReductionOptions)})


def _threads() -> Any:
    more = "Default: as PyTorch has them."
    return option(None, "CPU threads", "int, optional", more=more, least=1, most=MOST_THREADS)


def _draws(kind: str) -> Any:
    words = f"draws of the same instances (schema {kind})"
    return option((), words, "as `weights`, optional", nargs="*", action=FileRanges)


@dataclass(frozen=True)
class AuditOptions:
    """What is audited, with which texts, and how."""

    model: Any = option(
        MISSING,
        "model folder, ours or of Hugging Face, or a hub's name",
        "str, path or LanguageModel",
        more="Or a model in memory.",
        positional=True,
    )
    texts: Any = option(
        MISSING,
        "text, JSONL or Parquet file, one document a line or row; cleaned as the model's corpus "
        "was, or read as it is by a model that reads plain text",
        "path, iterable of str, DataFrame or Arrow table",
        more="Or the documents; a str is a path.",
        positional=True,
    )
    vocabulary: Any = option(None, "that of a model in memory", "Vocabulary, optional")
    field: str | None = option(
        None, "field or column of the texts in JSONL or Parquet (default: text)", "str, optional"
    )
    documents: int = option(16, "documents to look at, drawn at random", "int", least=1, most=4096)
    check: Any = option(
        None,
        f"these alone: {', '.join(CHECKS)}",
        "str or sequence of str, optional",
        nargs="+",
        metavar="NAME",
    )
    rosetta: bool = option(
        False,
        "the numbers of other programs, of the whole text",
        "bool",
        more="It is then held as those programs hold it.",
    )
    precision: str = option(
        "float32",
        "type of the model's numbers; tolerances follow its rounding",
        "str",
        choices=PRECISION_NAMES,
    )
    seed: int = option(1, "seed of what is drawn", "int", least=0)
    threads: int | None = _threads()
    device: str = option("auto", "auto, cpu or cuda, for a model folder", "str")


@dataclass(frozen=True)
class ContrastOptions:
    """Which sentences or scores are told apart, and by what."""

    originals: Any = option(
        MISSING,
        "file of pairs, .jsonl or .tsv; or their folder",
        "iterable of str or float, or path",
        more="Or, pair by pair with `distorted`: with a model its sentences; without one their log "
        "scores (natural logarithms, may be −inf), which any program may have computed. For files "
        "see `contrastive.pairs`.",
        positional=True,
    )
    distorted: Any = option(
        None, "the other side of each pair", "iterable of str or float, optional", positional=True
    )
    model: str | Path | None = option(
        None,
        "folder of a model: of a run or of Hugging Face; or its name on the hub; or an n-gram "
        "model: ARPA file, plain or .gz",
        "path or str, optional",
        more="An ARPA model reads sentences as they are.",
    )
    phenomena: Any = option(
        None, "what each pair is about: each gets a row", "iterable of str, optional"
    )
    words: Any = option(
        None, "of scores: the words of each original, for H_C per word", "iterable of int, optional"
    )
    tokenized: bool = option(False, "the sentences are cleaned already", "bool")
    name: str | None = option(
        None, "name of the model (default: that of its folder)", "str, optional"
    )
    threads: int | None = _threads()
    device: str = option("auto", "auto, cpu or cuda", "str")
    output: str | Path | None = option(
        None, "Parquet file to write, a row a phenomenon", "path, optional", writes="file"
    )


@dataclass(frozen=True)
class SimilarityOptions:
    """Which pairs of texts are scored, and by what."""

    references: Any = option(
        MISSING,
        "TSV or CSV with a line of names; texts first",
        "iterable of str, or path",
        more="Or the first text of each pair, raw: for evaluators that read tokens they are "
        "cleaned as those were trained.",
        positional=True,
    )
    hypotheses: Any = option(
        None, "the second text of each pair", "iterable of str, optional", positional=True
    )
    evaluator: str | Path = option(
        MISSING,
        f"{', '.join(PACKAGES)} (extra pretrained), an evaluator of the run, or a path: a folder "
        "of sentence-transformers, of Hugging Face, of a model or evaluator of a run, a file of "
        "word vectors",
        "str or path",
    )
    gold: Any = option(
        None,
        "column with scores that people gave: correlations are printed",
        "iterable of float, or str, optional",
        more="Or these scores, of texts in memory.",
    )
    measure: str | None = option(
        None, "of an evaluator with several, such as wmd of word vectors", "str, optional"
    )
    tokenized: bool = option(False, "the texts are tokens: they are not cleaned", "bool")
    vectors: str | Path | None = option(
        None,
        "word vectors that official InferSent weights read: glove or a path",
        "path or str, optional",
    )
    layers: int = option(2, "upper layers of a Transformer", "int", least=1, most=1_000)
    config: str | Path = option("config.yaml", "of the run", "path", type=Path)
    threads: int | None = _threads()
    device: str = option("auto", "auto, cpu or cuda", "str")
    output: str | Path | None = option(
        None, "file for the scores: .csv or .parquet", "path, optional", writes="file"
    )


@dataclass(frozen=True)
class EstimateOptions:
    """Which importance samples are reduced to estimates, and how."""

    weights: Any = option(
        MISSING,
        "files of samples, cut in any way",
        "path, DataFrame, Arrow table, or iterable of these",
        more="A row for every sample z_k ~ q(z | x_n): ``instance_id`` n and ``sample_id`` k "
        "(integers), ``n_tokens`` (T of the instance), ``log_p`` = log p(x_n, z_k) and ``log_q`` = "
        "log q(z_k | x_n), natural logarithms; ``log_p`` may be −inf. Used when there: "
        "``n_unknown``, ``log_p_penalized``, ``latent_hash``, ``model``, ``proposal``, "
        "``temperature``.",
        positional=True,
        nargs="+",
    )
    log_q: Any = option(
        (), "log q at all temperatures (schema log_q)", "as `weights`, optional", nargs="*"
    )
    beams: Any = _draws("beams")
    smc: Any = _draws("smc")
    bidirectional: Any = _draws("bidirectional")
    unknown_types: int | None = option(
        None,
        "training types that read <unk>, to charge for them",
        "int, optional",
        least=0,
    )
    t_definition: str | None = option(
        None, "what n_tokens counts, such as 'words and </s>'", "str, optional"
    )
    options: Mapping[str, Any] | None = option(
        None, f"JSON object (default: {_DEFAULTS})", "mapping, optional", more="See "
        "`ReductionOptions`.", type=json_object,
    )  # fmt: skip
    no_bracket: bool = option(False, "leave out the bounds from both sides", "bool")
    seed: int = option(0, "seed of subsets, pairings and bootstraps", "int", least=0)
    output: str | Path | None = option(
        None, "table to write as well: .csv or .parquet", "path, optional", writes="file"
    )
    diagnostics: str | Path | None = option(
        None,
        "table of every instance to write: .csv or .parquet",
        "path, optional",
        writes="file",
    )

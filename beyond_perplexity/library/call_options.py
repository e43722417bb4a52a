# ruff: noqa: RUF009 (fields are declared by `option`)
"""The options of functions of the library and of their commands; nothing heavy is imported."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import KW_ONLY, MISSING, dataclass, fields
from pathlib import Path
from typing import Any

from beyond_perplexity.arguments import option, output_folder, output_path, threads_option
from beyond_perplexity.auditing.checks import CHECKS, PRECISION_NAMES, SERVED_CHECKS
from beyond_perplexity.importance.thought_draws import END_OF_THOUGHT, SHOWN_ANSWER
from beyond_perplexity.importance.ways_to_draw import ReductionOptions
from beyond_perplexity.models.served.protocols import ServedOptions
from beyond_perplexity.options import json_object
from beyond_perplexity.semantics.evaluators.families import PACKAGES
from beyond_perplexity.storage.shards import FileRanges

_DEFAULTS = json.dumps({one.name: one.default for one in fields(ReductionOptions)})


def _draws(kind: str) -> Any:
    words = f"draws of the same instances (schema {kind})"
    return option((), words, "as `weights`, optional", nargs="*", action=FileRanges)


def _in_memory(words: str, hint: str) -> Any:
    """Declare what has no flag, as it stands beside texts in memory."""
    return option(None, words, f"{hint}, optional", called="")


def _written(words: str) -> Any:
    return option(None, words, type=output_path)


@dataclass(frozen=True)
class AuditOptions(ServedOptions):
    """Whether a model, its tokenizer and the scoring of texts keep what a perplexity promises.

    Each check compares what must be equal, or adds up what must be 1, for some documents of a text.
    It has a name, a tolerance and an explanation. A failed check says what was measured and where;
    one that follows from another says so. --rosetta adds what other programs would print for the
    same model and text, each number with the definition that makes it differ. The exit status is 1
    where a check fails, too. A server (--url) has checks of its own, which need no weights.
    """

    model: Any = option(
        None,
        "model folder, ours or of Hugging Face, or a hub's name",
        "str, path, model or callable",
        more="Or a model in memory, of this package or of transformers, or a function from token "
        "ids to log-probabilities of the next token after every prefix, (T,) to (T, N).",
    )
    texts: Any = option(
        None,
        "text, JSONL, CSV or Parquet, one document a line or row; cleaned as the model's corpus "
        "was, or read as it is by a model that reads plain text",
        "path, iterable of str, DataFrame or Arrow table",
        more="Or the documents; a str is a path.",
        called="--text",
        in_command=MISSING,
        metavar="TEXT",
    )
    _: KW_ONLY
    vocabulary: Any = _in_memory("that of a model in memory", "Vocabulary")
    tokenizer: Any = _in_memory("that of a model in memory, or a vocabulary", "tokenizer")
    field: str | None = option(
        None, "field or column of the texts, or a path to it, as answers.0.text (default: text)"
    )
    documents: int = option(16, "documents to look at, drawn at random", least=1, most=4096)
    check: Any = option(
        None,
        f"these alone: {', '.join(CHECKS)}; of a server {', '.join(SERVED_CHECKS)}",
        "str or sequence of str, optional",
        nargs="+",
        metavar="NAME",
    )
    rosetta: bool = option(
        False,
        "the numbers of other programs, of the whole text",
        more="It is then held as those programs hold it.",
    )
    precision: str = option(
        "float32",
        "type of the model's numbers; tolerances follow its rounding",
        choices=PRECISION_NAMES,
    )
    seed: int = option(1, "seed of what is drawn", least=0)
    threads: int | None = threads_option()
    device: str = option("auto", "auto, cpu or cuda, for a model folder")


@dataclass(frozen=True)
class ContrastOptions(ServedOptions):
    """Score pairs of a good and a bad sentence under a model: accuracy and H_C of each phenomenon.

    A file of pairs is JSONL (an object a line) or TSV with a header row, plain or compressed.
    Fields or columns: sentence_good and sentence_bad, or good and bad; phenomenon or UID, where
    there is one. H_C is the mean of score(good) - score(bad), in nats a pair: larger is better, 0
    is no difference. Of several phenomena, as of a folder with a file each, the mean stands at the
    end.
    """

    originals: Any = option(
        MISSING,
        "file of pairs, .jsonl or .tsv; or their folder",
        "iterable of str or float, or path",
        more="Or, pair by pair with `distorted`: with a model its sentences; without one their log "
        "scores (natural logarithms, may be −inf), which any program may have computed. For files "
        "see `contrastive.pairs`.",
        called="--pairs",
        metavar="PAIRS",
    )
    distorted: Any = _in_memory("the other side of each pair", "iterable of str or float")
    _: KW_ONLY
    model: str | Path | None = option(
        None,
        "folder of a model: of a run or of Hugging Face; or its name on the hub; or an n-gram "
        "model: ARPA file, plain or .gz",
        more="An ARPA model reads sentences as they are.",
    )
    phenomena: Any = _in_memory("what each pair is about: each gets a row", "iterable of str")
    groups: Any = _in_memory("document or page of each pair, for intervals", "iterable of str")
    words: Any = _in_memory(
        "of scores: the words of each original, for H_C per word", "iterable of int"
    )
    tokenized: bool = option(False, "the sentences are cleaned already")
    name: str | None = option(None, "name of the model (default: that of its folder)")
    threads: int | None = threads_option()
    device: str = option("auto", "auto, cpu or cuda")
    output: str | Path | None = _written("Parquet file to write, a row a phenomenon")


@dataclass(frozen=True)
class SimilarityOptions:
    """How alike pairs of texts are, by an evaluator; no language model is needed.

    Standard output: one score a pair, in their order; `nan` where an evaluator knows no word of the
    second text. With --gold it has the correlations with these scores alone, with 95% intervals.
    Texts are raw: for evaluators that read tokens they are cleaned as those were trained.
    """

    references: Any = option(
        MISSING,
        "TSV or CSV with a header row; texts first",
        "iterable of str, or path",
        more="Or the first text of each pair, raw: for evaluators that read tokens they are "
        "cleaned as those were trained.",
        called="--pairs",
        metavar="PAIRS",
    )
    hypotheses: Any = _in_memory("the second text of each pair", "iterable of str")
    _: KW_ONLY
    evaluator: str | Path = option(
        MISSING,
        f"{', '.join(PACKAGES)} (extra pretrained), an evaluator of the run, or a path: a folder "
        "of sentence-transformers, of Hugging Face, of a model or evaluator of a run, a file of "
        "word vectors",
    )
    gold: Any = option(
        None,
        "column with scores that people gave: correlations are printed",
        "iterable of float, or str, optional",
        more="Or these scores, of texts in memory.",
    )
    measure: str | None = option(None, "of an evaluator with several, such as wmd of word vectors")
    tokenized: bool = option(False, "the texts are tokens: they are not cleaned")
    vectors: str | Path | None = option(
        None, "word vectors that official InferSent weights read: glove or a path"
    )
    layers: int = option(2, "upper layers of a Transformer", least=1, most=1_000)
    config: str | Path = option("config.yaml", "of the run", "path", type=Path)
    threads: int | None = threads_option()
    device: str = option("auto", "auto, cpu or cuda")
    output: str | Path | None = _written("file for the scores: .csv or .parquet")


@dataclass(frozen=True)
class EstimateOptions:
    """Estimate the perplexity of any latent language model from importance samples of yours.

    A file (.parquet, or .csv or .csv.gz with a header row) has a row for every sample
    z_k ~ q(z | x_n):
    instance_id n and sample_id k (integers), n_tokens (T of the instance), log_p = log p(x_n, z_k)
    and log_q = log q(z_k | x_n), natural logarithms. log_p may be -inf. Used when there: n_unknown
    (unknown tokens of the instance, counted in T too), log_p_penalized (log p(x_n, z_k) with
    unknown words penalized, where that is not the logarithm of the unknown types for each of them),
    latent_hash (an integer, equal for equal latents), model, proposal and temperature (one value in
    a file: give the samples of each in a file of their own).
    """

    weights: Any = option(
        (),
        "files of samples, cut in any way",
        "path, DataFrame, Arrow table, or iterable of these",
        more="A row for every sample z_k ~ q(z | x_n): ``instance_id`` n and ``sample_id`` k "
        "(integers), ``n_tokens`` (T of the instance), ``log_p`` = log p(x_n, z_k) and ``log_q`` = "
        "log q(z_k | x_n), natural logarithms; ``log_p`` may be −inf. Used when there: "
        "``n_unknown``, ``log_p_penalized``, ``latent_hash``, ``model``, ``proposal``, "
        "``temperature``.",
        nargs="*",
        called="--weights",
    )
    _: KW_ONLY
    thoughts: Any = option(
        (),
        "in place of weights: thoughts of a reasoning model and what they give its answers, as "
        "beyond-perplexity thoughts writes them",
        "as `weights`, optional",
        more="A row a thought z: ``instance``, ``sample``, ``n_tokens`` of the answer, "
        "``log_p_answer`` = log p(y | x, z), and ``log_p_thought``, ``log_q_thought`` where "
        "thoughts were not drawn from the model itself; see `importance.thought_files`.",
        nargs="*",
    )
    log_q: Any = option(
        (), "log q at all temperatures (schema log_q)", "as `weights`, optional", nargs="*"
    )
    beams: Any = _draws("beams")
    smc: Any = _draws("smc")
    bidirectional: Any = _draws("bidirectional")
    unknown_types: int | None = option(
        None, "training types that read <unk>, to penalize them", least=0
    )
    t_definition: str | None = option(None, "what n_tokens counts, such as 'words and </s>'")
    options: Mapping[str, Any] | None = option(
        None,
        f"JSON object (default: {_DEFAULTS})",
        "mapping, optional",
        more="See `ReductionOptions`.",
        type=json_object,
    )
    no_two_sided: bool = option(False, "leave out the bounds from both sides")
    seed: int = option(0, "seed of subsets, pairings and bootstraps", least=0)
    output: str | Path | None = _written("table to write as well: .csv or .parquet")
    diagnostics: str | Path | None = _written("table of every instance to write: .csv or .parquet")


@dataclass(frozen=True)
class DrawThoughtsOptions(ServedOptions):
    """Draw thoughts of a reasoning model, and score the given answers after them.

    The probability of an answer is a sum over all thoughts; of the shards that are written
    `estimate --thoughts` gives the perplexity of the answers, its bounds and diagnostics, beside
    those with no thought and with the greedy one. A thought that reaches the most tokens without
    its end is cut, and counts as one with no answer; the share of these is told. A server (--url)
    must say the ids of what it writes, and take them, as vLLM does.
    """

    prompts: Any = option(
        MISSING,
        "JSONL or Parquet file with a prompt and its answer in a row",
        "path, or table or iterable of dict",
        called="--prompts",
    )
    out: Any = option(
        MISSING, "folder for the shards; finished ones are kept", "path", type=output_folder
    )
    _: KW_ONLY
    model: Any = option(None, "model folder, ours or of Hugging Face, or a hub's name", "path")
    prompt: str = option("prompt", "field of the prompt (default: prompt)")
    answer: str = option("answer", "field of the answer (default: answer)")
    samples: int = option(64, "thoughts of each prompt (default: 64)", least=1, most=1_000_000)
    proposal: str = option(
        "own",
        "what thoughts are drawn from: the model given the prompt (own), given a prompt that shows "
        "the answer (answer), or both (mixture)",
        choices=("own", "answer", "mixture"),
    )
    own_share: float = option(0.5, "share of own thoughts in the mixture (default: 0.5)")
    most_tokens: int = option(
        1024, "longest thought, in tokens (default: 1024)", least=1, most=10_000_000
    )
    end_of_thought: str = option(END_OF_THOUGHT, "what ends a thought (default: </think>)")
    between: str | None = option(
        None,
        "what stands between the end of a thought and the answer (default: an empty line where "
        "there is a chat template, else nothing)",
    )
    shown: str = option(
        SHOWN_ANSWER,
        "how a prompt shows its answer, with {prompt} and {answer}",
    )
    shard_size: int = option(16, "prompts of a shard (default: 16)", least=1, most=1_000_000)
    seed: int = option(1, "seed of all draws (default: 1)", least=0)
    threads: int | None = threads_option()
    device: str = option("auto", "auto, cpu or cuda")

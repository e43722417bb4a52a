# ruff: noqa: RUF009 (fields are declared by `option`)
"""What is scored under which model, and how: for the library, its command and the scoring."""

from __future__ import annotations

from dataclasses import KW_ONLY, MISSING, dataclass
from pathlib import Path
from typing import Any

from beyond_perplexity.arguments import (
    MOST_COUNT,
    option,
    output_folder,
    output_path,
    threads_option,
)
from beyond_perplexity.models.served.protocols import ServedOptions


def group_size_option() -> int:
    """Declare how many documents in a row belong together where none is said to."""
    return option(
        1,
        "documents in a row that make a group, where they name none (default: 1)",
        least=1,
        most=MOST_COUNT,
        more="Such as paragraphs of a book, which resemble those beside them.",
    )


@dataclass(frozen=True)
class ScoringOptions(ServedOptions):
    """What is scored, and how; `texts` are a path or, for the scoring itself, `HeldTexts`."""

    model: Any = option(
        None,
        "folder of a model: of a run or of Hugging Face; or its name on the hub",
        "str, path, model or callable, optional",
        more="Or the file of an n-gram model in ARPA format; or a model in memory, of this package "
        "or of transformers; or a function from token ids to log-probabilities of the next token "
        "after every prefix, (T,) to (T, N). None: `url` names a server.",
    )
    texts: Any = option(
        None,
        "text, JSONL, CSV or Parquet, one document a line or row; of an ARPA file a "
        "sentence, which is read as it is",
        "path, iterable of str, DataFrame or Arrow table",
        more="Or the documents: a str is a path; tables have a column ``text``. An iterator is "
        "read once and never held.",
        called="--text",
        in_command=MISSING,
        metavar="TEXT",
    )
    _: KW_ONLY
    tokenizer: Any = option(
        None, "that of a model in memory, or its vocabulary", "tokenizer, optional", called=""
    )
    groups: Any = option(
        None,
        "which documents belong together, where `texts` is an iterable: intervals are over groups",
        "iterable, optional",
    )
    arpa: bool | None = option(
        None, "whether the model is an ARPA file (default: whether it is a file)"
    )
    unk_as: str | None = option(
        None, "of an ARPA file: a literal <unk> is this ordinary word", metavar="WORD"
    )
    unk_as_unknown: bool = option(False, "of an ARPA file: a literal <unk> is the unknown word")
    field: str | None = option(
        None, "field or column of the texts, or a path to it, as answers.0.text (default: text)"
    )
    cleaned: bool = option(False, "clean the text as the model's corpus")
    tokenized: bool = option(False, "the text is cleaned already")
    context_length: int | None = option(
        None, "tokens that a prediction sees (default: the model's)", least=1, most=MOST_COUNT
    )
    stride: int | None = option(
        None,
        "predictions that each window adds (default: half the context)",
        least=1,
        most=MOST_COUNT,
    )
    count_bos: bool = option(False, "count <s> in every N, as Campagnola (2020) does")
    no_count_eos: bool = option(False, "leave </s> out of log P and of every N")
    special_tokens: bool = option(
        False,
        "read special tokens that the text says, such as <|endoftext|>, as those tokens, as "
        "lm-eval does (default: as characters)",
        more="Then the softmax is over every row of the output layer. Of models of Hugging Face.",
    )
    dtype: str = option(
        "float32",
        "type of the weights; auto: that in which they are stored. What a lower one moves is in "
        "the result",
        choices=("float32", "bfloat16", "auto"),
    )
    spelling_model: str | Path | None = option(
        None,
        "spelling model of words out of the vocabulary (default: spelling_model.json in the model "
        "folder, or that of the run which the folder is of)",
    )
    group_column: str | None = option(
        None, "field or column of the documents that belong together (default: group)"
    )
    group_size: int = group_size_option()
    per_document: bool | str | Path = option(
        True,
        "Parquet file to write, one row a document",
        "bool or path",
        more="Or whether the result has the table ``documents``, a row a document. False: nothing "
        "is held but a few numbers a document.",
        in_command=None,
        type=output_path,
    )
    per_token: str | Path | None = option(
        None, "Parquet file to write, one row a token", type=output_path
    )
    per_word: str | Path | None = option(
        None,
        "Parquet file to write, one row a word: its surprisal with the blank behind it",
        type=output_path,
    )
    threads: int | None = threads_option()
    device: str = option("auto", "auto, cpu or cuda")


@dataclass(frozen=True)
class PairOptions:
    """Compare models on the same documents: bits per byte, differences, p-values.

    Two models are scored on a text, and their difference is split by kinds of words, places and
    documents. Or give scores that you have: a file (.parquet, or .csv or .csv.gz with a header row)
    with a row for every document: bytes and log_likelihood (nats, with the end of the document).
    `beyond-perplexity perplexity --per-document` writes one; those of other programs are read too.
    Used where they are there: doc_id (else rows are matched by their order), group (documents that
    belong together), title (of the page: a group where none are named), text_hash, words and
    characters (to tell other texts), unknown, log_likelihood_open_vocabulary, scored_text (cleaned,
    raw). Of files with a row for every token (--per-token) the differences are split, too.
    """

    scores: Any = option(
        None,
        "scores of one model each, of the same documents",
        "mapping of str to scores, or iterable of paths, optional",
        more="Of each model by its name, or files whose names are taken. Scores are a path, a "
        "DataFrame, an Arrow table or a result of `perplexity`, with a row for every document: "
        "``bytes`` and ``log_likelihood`` (nats); see `score_files` for the columns that are used "
        "where they are there. Or paths of files with a row a token.",
        in_command=(),
        called="scores",
        nargs="*",
    )
    _: KW_ONLY
    model: Any = option(None, "a model to score --text under, instead of scores", "path, optional")
    against: Any = option(None, "the model that it is compared with", "path or model, optional")
    tokenizer: Any = option(
        None, "that of models in memory, or their vocabulary", "tokenizer, optional", called=""
    )
    texts: Any = option(
        None,
        "text, JSONL, CSV or Parquet, one document a line or row",
        "path, iterable of str, DataFrame or Arrow table, optional",
        called="--text",
        metavar="TEXT",
    )
    field: str | None = option(
        None, "field or column of the texts, or a path to it, as answers.0.text (default: text)"
    )
    group_column: str | None = option(
        None, "field or column of the documents that belong together (default: group)"
    )
    group_size: int = group_size_option()
    cleaned: bool = option(False, "clean the text as the models' corpus")
    tokenized: bool = option(False, "the text is cleaned already")
    context_length: int | None = option(
        None, "tokens that a prediction sees (default: the model's)", least=1, most=MOST_COUNT
    )
    frequencies: str | Path | None = option(
        None, "text whose words say which are frequent (default: the scored text)"
    )
    out: str | Path | None = option(
        None, "folder for difference.html, figures and tables", type=output_folder
    )
    threads: int | None = threads_option()
    device: str = option("auto", "auto, cpu or cuda")
    no_count_eos: bool = option(
        False, "the scores are without the end of documents, and it is no byte"
    )
    leave_out_infinite: bool = option(
        False, "name models that find a document impossible, and compare the others"
    )
    csv: str | Path | None = option(None, "table to write, in full precision", type=output_path)
    output: str | Path | None = option(
        None, "the same as Parquet; then one model alone is no error", type=output_path
    )

    @property
    def count_eos(self) -> bool:
        """Whether the end of each document counts as a byte, and log-likelihoods are with it."""
        return not self.no_count_eos

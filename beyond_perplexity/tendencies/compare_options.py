# ruff: noqa: RUF009 (fields are declared by `option`)
"""What of two texts is compared, and how: for the library, its command and the comparison."""

from __future__ import annotations

from dataclasses import KW_ONLY, MISSING, dataclass, replace
from pathlib import Path
from typing import Any

from beyond_perplexity.arguments import MOST_COUNT, MOST_ITEMS, option, output_folder
from beyond_perplexity.corpus.external import HeldRows, answer_texts
from beyond_perplexity.corpus.formats import AUTOMATIC, TEXT_FORMATS, check_field, has_named_fields
from beyond_perplexity.corpus.normalization import WHITE_SPACE_ONLY, Preprocessing
from beyond_perplexity.corpus.text_files import TEXT_FIELD, HeldTexts
from beyond_perplexity.errors import InputError
from beyond_perplexity.tendencies.measurement_options import EmbeddingOptions, MeasurementOptions
from beyond_perplexity.tendencies.tokens import RAW_TEXT, TextView, vocabulary_words
from beyond_perplexity.tendencies.word_classes import AUTOMATIC_LIST

PROMPT = "prompt"  # field of the prompt in pairs
_TEXTS = "path, iterable of str, DataFrame or Arrow table"


@dataclass(frozen=True)
class CompareOptions:
    """Compare two sample sets in every statistical tendency. No model is needed.

    Each file holds one document a line: plain text, or in JSONL an object with a field "text" or a
    string; or it is Parquet with a column "text". The folder of --out gets tendencies.csv, the
    figures, and compare.html; with --vocabulary also raw.csv, of the texts as they are.
    """

    reference: Any = option(
        None,
        "human text, or what to compare with",
        f"{_TEXTS}, optional",
        more="One document each. A str is a path (text, JSONL, CSV, Parquet); tables have a column "
        "``text``. An iterator is read once and never held.",
    )
    samples: Any = option(
        None, "generated text, or what to compare", f"{_TEXTS}, optional", more="As before."
    )
    _: KW_ONLY
    pairs: Any = option(
        None,
        "instead of both: JSONL, Parquet or CSV, a prompt with answers of people and a model a row",
        "path, iterable of dict, DataFrame or Arrow table, optional",
        more="An answer is a string, or several are a list.",
    )
    prompt: str | None = option(
        None,
        "field of the prompt in pairs (default: prompt), or in both texts, which then are answers: "
        "labels are permuted within each prompt",
    )
    human: str = option("human", "field of the answers of people in pairs")
    model: str = option("model", "field of the answers of a model in pairs")
    groups: Any = option(
        None,
        "which documents of the reference belong together (pages, authors, prompts)",
        "iterable, or pair of iterables, optional",
        more="Where it is an iterable of texts: then groups are permuted in the tests. A tuple of "
        "two: of the reference and of the samples, such as several answers of a prompt; either may "
        "be None.",
        called="",
    )
    out: str | Path | None = option(
        None,
        "folder for the results; files of their names are replaced",
        more="Those are ``compare.html``, ``tendencies.csv`` and the figures.",
        in_command=MISSING,
        type=output_folder,
    )
    format: str = option(
        AUTOMATIC,
        "what both texts are, where they are paths (default: by the suffix)",
        choices=(AUTOMATIC, *TEXT_FORMATS),
    )
    tokenized: bool = option(
        False, "the texts are tokens joined by blanks: no tokenizer, lower case or other cleaning"
    )
    tokenizer: str = option(
        "moses",
        "moses, or icu (extra 'icu'), which also divides Chinese, Japanese, Thai, Lao, Khmer and "
        "Burmese, written without blanks, into words, and keeps their marks (default: moses)",
        choices=("moses", "icu"),
    )
    language: str = option("en", "of tokenizer and stop words")
    stop_words: str = option(
        AUTOMATIC_LIST,
        "auto (default: the language's list, gensim's for en), gensim, nltk, or a file",
        more="Without a list for the language its row says so, and has no numbers.",
    )
    permutations: int = option(1999, "draws of each test (default: 1999; 0: none)", least=0)
    bootstrap: int = option(1000, "draws of the intervals (default: 1000; 0: none)", least=0)
    seed: int = option(1, "seed of all draws", least=0)
    vocabulary: str | Path | None = option(
        None,
        "vocabulary.json of a model's folder, or a file with one word a line: both texts are read "
        "in it, other words as <unk>",
    )
    group_column: str | None = option(
        None,
        "key or column with the group of a document, such as its page or prompt (default: 'group' "
        "where a text has it; '' for none)",
    )
    group_size: int = option(
        1,
        "documents in a row that make a group of the reference, where it names none (default: 1)",
        least=1,
        most=MOST_COUNT,
        more="Such as paragraphs of a book, which resemble those beside them.",
    )
    samples_group_size: int = option(
        1, "that of the samples", least=1, most=MOST_COUNT, more="Such as the answers of a prompt."
    )
    minimum_tokens: int = option(
        0, "documents of fewer tokens are left out", least=0, most=MOST_ITEMS
    )
    maximum_tokens: int | None = option(
        None, "tokens read of a document (default: all)", least=1, most=MOST_COUNT
    )
    field: str | None = option(
        None, "field or column of the texts, or a path to it, as answers.0.text (default: text)"
    )  # fmt: skip
    samples_field: str | None = option(None, "that of the samples, where it is another")
    embedding: str | None = option(
        None,
        "minilm (extra 'pretrained') or a folder of sentence-transformers: documents are also "
        "compared by their vectors",
    )
    embedding_documents: int = option(
        EmbeddingOptions.documents,
        "documents of each text for the embedding, at random",
        least=20,
        most=4_000,
    )
    judge: Any = option(
        None,
        "folder of a model, of a run or of Hugging Face, its name on the hub, or an ARPA file: "
        "documents are also compared by their bits per byte under it",
        "str, path, or tuple of a model in memory and its tokenizer, optional",
        metavar="MODEL",
    )
    judge_documents: int = option(
        1000, "documents of each text for the judge, at random", least=20, most=MOST_ITEMS
    )
    training: Any = option(
        None,
        "text that the samples' model was trained on: which n-grams are novel, which are copies",
        f"{_TEXTS}, optional",
    )
    sensitivity: bool = option(
        False,
        "find the minimum detectable effects of as many documents as are compared",
        more="Answers to prompts and a judge have theirs without; where the samples have groups "
        "there are none.",
    )

    @property
    def prompted(self) -> bool:
        """Whether both texts are answers to prompts."""
        return self.pairs is not None or self.prompt is not None

    def check_texts(self) -> None:
        """Refuse anything but two texts, or pairs of answers to prompts."""
        missing = [one is None for one in (self.reference, self.samples)]
        if self.pairs is not None and not all(missing):
            raise InputError("pairs: hold both texts; give them, or reference and samples")
        if self.pairs is None and any(missing):
            raise InputError("reference, samples: give both, or pairs of answers to prompts")

    def sources(self) -> tuple[Path | HeldTexts, Path | HeldTexts]:
        """Return what the reference and the samples are read from."""
        if not self.prompted:
            return source_of(self.reference), source_of(self.samples)
        given, fields = [self.pairs] * 2, [self.human, self.model]
        if self.pairs is None:
            own = self.field or TEXT_FIELD
            given, fields = [self.reference, self.samples], [own, self.samples_field or own]
        rows = [one if isinstance(one, HeldRows) else Path(one) for one in given]
        name = self.prompt or PROMPT
        first = answer_texts(rows[0], name, fields[0], self.format, told=self.pairs is not None)
        return first, answer_texts(rows[1], name, fields[1], self.format)

    def preprocessing(self) -> Preprocessing:
        """Return the cleaning steps: those of the paper, or none."""
        if self.tokenized:
            return WHITE_SPACE_ONLY
        moses = self.tokenizer == "moses"  # marks are vowels in Thai and voices in Japanese
        given = {"tokenizer": self.tokenizer, "language": self.language, "remove_accents": moses}
        return Preprocessing.from_config(given)

    def field_of(self, path: Path | HeldTexts, *, samples: bool = False) -> str | None:
        """Return the field of the texts of a file; None where it is plain text, or ``text``."""
        if samples and self.samples_field is not None:
            check_field(path, self.samples_field, self.format)
            return self.samples_field
        return self.field if has_named_fields(path, self.format) else None

    def check_fields(self) -> None:
        """Refuse a field of the texts where all files are plain text."""
        files = self.sources()
        if not any(has_named_fields(path, self.format) for path in files):
            check_field(files[0], self.field, self.format)

    def views(self) -> dict[str, TextView]:
        """Return how the texts are read, by the name of the vocabulary; raw comes last."""
        raw = TextView(None, self.maximum_tokens, self.minimum_tokens)
        words = vocabulary_words(str(self.vocabulary)) if self.vocabulary else None
        if words is None:
            return {RAW_TEXT: raw}
        path = Path(str(self.vocabulary))
        name = path.stem if path.stem != RAW_TEXT else path.name
        name = name if name != RAW_TEXT else f"{RAW_TEXT} words"  # a file without a suffix
        return {name: replace(raw, words=words), RAW_TEXT: raw}

    def most_embedded(self) -> int:
        """Return how many documents of each text are embedded at most."""
        try:
            return EmbeddingOptions(str(self.embedding), self.embedding_documents).documents
        except ValueError as error:
            raise InputError(f"embedding documents: {error}") from error

    def measurement(self) -> MeasurementOptions:
        """Return the options of the measures; one-sample tests draw as often as permutations."""
        return MeasurementOptions(
            permutations=self.permutations, bootstrap=self.bootstrap, monte_carlo=self.permutations
        )


def source_of(given: Any) -> Path | HeldTexts:
    """Return a path as such; what texts in memory are read from is that already."""
    return given if isinstance(given, HeldTexts) else Path(given)

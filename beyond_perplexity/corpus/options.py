"""The options of the extraction of one corpus."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from beyond_perplexity.corpus.normalization import Preprocessing
from beyond_perplexity.corpus.split import SPLITS, SplitShares
from beyond_perplexity.errors import InputError
from beyond_perplexity.options import parse_options


@dataclass(frozen=True)
class SourceOptions:
    """Section ``source``.

    Parameters
    ----------
    format : str
        mediawiki, text (one document a line), jsonl or parquet (field ``text``, optional
        ``title``).
    paths : list of str, or dict of split to list of str
        Files, or ``embedded:NAME``; a mapping gives each file's documents their split.
    on_error : str
        Whether unreadable input is an error or a counted skip. A single broken page is always
        a skip.
    """

    format: Literal["mediawiki", "text", "jsonl", "parquet"]
    paths: list | dict
    on_error: Literal["error", "skip"] = "error"

    def __post_init__(self) -> None:
        if isinstance(self.paths, dict) and not set(self.paths) <= set(SPLITS):
            raise ValueError(f"paths has the keys {', '.join(self.paths)}; allowed are {SPLITS}")
        lists = self.paths.values() if isinstance(self.paths, dict) else [self.paths]
        if not all(isinstance(paths, list) for paths in lists):
            raise ValueError("paths of a split are a list of files")
        names = [name for name, _ in self.files()]
        if not names or not all(isinstance(name, str) for name in names):
            raise ValueError("paths names no file, or something that is no file name")

    def files(self) -> list[tuple[str, str | None]]:
        """List the files with the split that they give, None where shares decide."""
        if isinstance(self.paths, dict):
            return [(path, split) for split in SPLITS for path in self.paths.get(split, [])]
        return [(path, None) for path in self.paths]


@dataclass(frozen=True)
class DocumentOptions:
    """Section ``documents``.

    Parameters
    ----------
    minimum_tokens, maximum_tokens : int, int or None
        Shorter and longer documents are left out and counted.
    deduplicate : bool
        Whether only the first of identical texts (after preprocessing) is kept.
    """

    minimum_tokens: int = 1
    maximum_tokens: int | None = None
    deduplicate: bool = True

    def __post_init__(self) -> None:
        if self.minimum_tokens < 1:
            raise ValueError(f"minimum_tokens is {self.minimum_tokens}, expected at least 1")
        if self.maximum_tokens is not None and self.maximum_tokens < self.minimum_tokens:
            raise ValueError(f"maximum_tokens is {self.maximum_tokens}, below minimum_tokens")


@dataclass(frozen=True)
class ExtractionOptions:
    """All options of the extraction of one corpus; see the classes of the fields."""

    source: SourceOptions
    preprocessing: Preprocessing
    documents: DocumentOptions
    split: SplitShares

    @classmethod
    def from_config(cls, config: Mapping[str, object]) -> ExtractionOptions:
        """Check and read the JSON object of a corpus.

        Raises
        ------
        InputError
            When a key is unknown or missing or a value cannot be used; names the key.
        """
        allowed = ("source", "preprocessing", "documents", "split")
        for key in config:
            if key not in allowed:
                raise InputError(f"{key}: unknown key; allowed are {', '.join(allowed)}")
        source = parse_options(SourceOptions, config.get("source", {}), "source")
        if isinstance(source.paths, dict) and "split" in config:
            raise InputError("split: source.paths already gives the splits; leave one of them out")
        preprocessing = config.get("preprocessing", {})
        if not isinstance(preprocessing, Mapping):
            raise InputError(f"preprocessing: is {preprocessing!r}, expected an object of options")
        return cls(
            source,
            Preprocessing.from_config(dict(preprocessing)),
            parse_options(DocumentOptions, config.get("documents", {}), "documents"),
            parse_options(SplitShares, config.get("split", {}), "split"),
        )

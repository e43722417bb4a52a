"""The options of the extraction of one corpus."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from beyond_perplexity.corpus.formats import (
    ANNOTATED_FORMATS,
    FORMATS,
    PARSERS,
    SPLITS,
    SplitOptions,
    formats_with,
    options_of_formats,
)
from beyond_perplexity.corpus.normalization import Preprocessing
from beyond_perplexity.errors import InputError
from beyond_perplexity.options import Count, Limit, Limited, Section, add_fields, parse_options

_Class = TypeVar("_Class")

# The cleaning steps of annotated formats: those that change a token and not the tokenization.
STEPS_IN_PLACE = ("lower_case", "remove_accents")


def _words_of_formats() -> str:
    def listed(annotated: bool) -> str:
        rows = FORMATS.items()
        found = (pair for pair in rows if (pair[1].kind == "annotated") == annotated)
        return ", ".join(f"{name} ({row.words})" for name, row in found)

    return f"{listed(False)}; with tokens and annotations of their own, {listed(True)}."


def _with_formats(kind: type[_Class]) -> type[_Class]:
    """Add the formats and their options, from the rows."""
    fields: dict[str, tuple[Any, Any]] = {"format": (Literal[tuple(FORMATS)], MISSING)}
    described = []
    for name, option in options_of_formats().items():
        least = {} if option.least is None else {"minimum": option.least}
        fields[name] = (Annotated[option.hint, Limit(**least)], option.default)
        owners = " and ".join(formats_with(name))
        described.append(f"{name} : optional\n        For {owners}, {option.words}.")
    words = {"formats": _words_of_formats(), "options": "\n    ".join(described)}
    return add_fields(kind, fields, words)


def _with_parsers(kind: type[_Class]) -> type[_Class]:
    """Add the kinds of automatic trees, from the rows."""
    words = "; ".join(f"{name}: {row.words}" for name, row in PARSERS.items())
    return add_fields(kind, {"kind": (Literal[("none", *PARSERS)], "none")}, {"kinds": words})


@dataclass(frozen=True)
@_with_formats
class SourceOptions(Limited):
    """Section ``source``.

    Parameters
    ----------
    format : str
        <formats>
    paths : list of str, or dict of split to list of str
        The files in order (a pattern such as data/*.conll stands for all that match), or one list
        per split (train, valid, test) for a corpus that is already split.
    on_error : str
        A truncated or wrongly encoded file is an error, or what was read is kept and the rest
        counted. A single broken page is always a counted skip.
    <options>
    """

    format: str
    paths: list | dict
    on_error: Literal["error", "skip"] = "error"

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Return an option of the format."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, option in options_of_formats().items():
            formats = formats_with(name)
            if getattr(self, name) != option.default and self.format not in formats:
                raise ValueError(f"{name} is for format {' and '.join(formats)} only")
        if isinstance(self.paths, dict):
            if not set(self.paths) <= set(SPLITS):
                keys = ", ".join(self.paths)
                raise ValueError(f"paths has the keys {keys}; allowed are {SPLITS}")
            if not all(isinstance(paths, list) for paths in self.paths.values()):
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
class DocumentOptions(Section):
    """Section ``documents``.

    minimum_tokens: Shorter documents are left out and counted.
    maximum_tokens: Longer documents are left out and counted; null keeps all.
    deduplicate: Keep the first of identical documents (after preprocessing) only.
    """

    minimum_tokens: Count = 1
    maximum_tokens: Count | None = None
    deduplicate: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.maximum_tokens is not None and self.maximum_tokens < self.minimum_tokens:
            raise ValueError(f"maximum_tokens is {self.maximum_tokens}, below minimum_tokens")


@dataclass(frozen=True)
@_with_parsers
class AutomaticTreeOptions(Section):
    """Section ``trees``: automatic trees over the document's own tokens.

    kind: none keeps the trees that the source has. <kinds>.
    maximum_tokens: Longer sentences get no tree and are counted.
    """

    kind: str = "none"
    maximum_tokens: Count = 100


def annotated_preprocessing(
    source_format: str, values: Mapping[str, object]
) -> Mapping[str, object]:
    """Complete the section ``preprocessing`` of a format that has its own tokens."""
    if source_format not in ANNOTATED_FORMATS or not isinstance(values, Mapping):
        return values
    off: dict[str, object] = {
        field.name: "none" if field.name == "tokenizer" else False
        for field in fields(Preprocessing)
        if field.name not in (*STEPS_IN_PLACE, "language")
    }
    for name, value in off.items():
        if values.get(name, value) != value:
            kept = f"a corpus of format {source_format} keeps the tokens of its annotation"
            steps = f"only {' and '.join(STEPS_IN_PLACE)} apply to it; remove this key"
            raise InputError(f"preprocessing.{name}: {kept}; {steps}")
    return {**values, **off}


@dataclass(frozen=True)
class ExtractionOptions:
    """All options of the extraction of one corpus; see the classes of the fields."""

    source: SourceOptions
    preprocessing: Preprocessing
    documents: DocumentOptions
    split: SplitOptions
    trees: AutomaticTreeOptions

    @classmethod
    def from_config(cls, config: Mapping[str, object]) -> ExtractionOptions:
        """Check and read the JSON object of a corpus."""
        allowed = [field.name for field in fields(cls)]
        if wrong := [key for key in config if key not in allowed]:
            raise InputError(f"{wrong[0]}: unknown key; allowed are {', '.join(allowed)}")
        source = parse_options(SourceOptions, config.get("source", {}), "source")
        if isinstance(source.paths, dict) and "split" in config:
            raise InputError("split: source.paths already gives the splits; leave one of them out")
        trees = parse_options(AutomaticTreeOptions, config.get("trees", {}), "trees")
        if trees.kind != "none" and FORMATS[source.format].treebank:
            raise InputError(f"trees.kind: is {trees.kind}, but a treebank has trees; remove it")
        cleaning: Any = config.get("preprocessing", {})
        steps = Preprocessing.from_config(annotated_preprocessing(source.format, cleaning))
        documents = parse_options(DocumentOptions, config.get("documents", {}), "documents")
        split = parse_options(SplitOptions, config.get("split", {}), "split")
        return cls(source, steps, documents, split, trees)

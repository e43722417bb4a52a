"""Sections ``corpora``: where texts come from, how they are cleaned and split."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pkgutil import resolve_name
from typing import Annotated, Any, Literal

from beyond_perplexity.corpus.extraction_options import (
    AutomaticTreeOptions,
    DocumentOptions,
    SourceOptions,
)
from beyond_perplexity.corpus.formats import (
    AUTOMATIC,
    SIDE_FILES,
    TEXT_FORMATS,
    SplitOptions,
    options_of_formats,
)
from beyond_perplexity.corpus.normalization import Preprocessing
from beyond_perplexity.models.families import FAMILIES, Family
from beyond_perplexity.options import (
    OMITTED,
    Count,
    Length,
    Limit,
    Parsed,
    Positive,
    Section,
    add_fields,
)
from beyond_perplexity.planning.sections import NO_NAMES, DependsOn, SectionModel


class Download(SectionModel):
    """A file at an address, with its checksum.

    url: Address (http or https) that is downloaded once; without password, key or token, which the
        log would show.
    sha256: SHA-256 of the file (of its member, if one is named), 64 hexadecimal digits; another
        content is an error.
    member: The file is a zip archive, and this is the path inside it that is meant.
    """

    url: Annotated[str, Limit(pattern="^https?://")]
    sha256: Annotated[str, Limit(pattern="^[0-9a-f]{64}$")]
    member: Annotated[str, Limit(minLength=1)] = OMITTED


# A local path, `embedded:enwiki-excerpt`, or an address with its checksum.
Location = Annotated[str, Limit(minLength=1)] | Download
Locations = Annotated[list[Location], Limit(minItems=1)]


class PathsBySplit(SectionModel):
    """The files of a corpus that is already split.

    train: Files of the training split.
    valid: Files of the validation split.
    test: Files of the test split.
    """

    train: Locations
    valid: Locations
    test: Locations


def _with_side_files(kind: type[Parsed]) -> type[Parsed]:
    return add_fields(kind, dict.fromkeys(SIDE_FILES, (Location, OMITTED)), {})


@dataclass(frozen=True)
@_with_side_files
class Source(SourceOptions, Section):
    """Where a text comes from: files that a job gets when every address has become a path."""

    left_out = tuple(options_of_formats())

    paths: Locations | PathsBySplit  # type: ignore[assignment]

    def __post_init__(self) -> None:
        """Leave the checks to `SourceOptions`, which a job gets."""


class Corpus(SectionModel):
    """A body of text.

    source: Where the text comes from.
    trees: Automatic trees over the documents' own tokens; a treebank has its own.
    preprocessing: The cleaning steps, in the order of XLM's preparation; each is a switch. To penn,
        conll and linked-wikitext only lower_case and remove_accents apply, token by token.
    documents: Which documents are kept.
    split: What goes to each split, where the source does not say it.
    """

    source: Source
    trees: AutomaticTreeOptions = OMITTED
    preprocessing: Preprocessing = Preprocessing()
    documents: DocumentOptions = DocumentOptions()
    split: SplitOptions = OMITTED


Temperatures = Annotated[tuple[Positive, ...], Limit(minItems=1, uniqueItems=True)]
Names = Annotated[tuple[str, ...], Limit(uniqueItems=True)]


class Generation(SectionModel):
    """Section ``generation``.

    models: Names of the models that generate.
    decodings: Names of the decodings that each of them uses.
    documents: Documents per model and decoding; they are compared with as many of the test split.
    documents_per_shard: Documents of one job; 10 to 90 minutes of work on a cluster.
    maximum_length: Model tokens at which a document is cut; it is kept and counted as unfinished.
    precision: Of the weights in decoding; auto takes bfloat16 on a GPU and float32 on a CPU. On a
        CPU bfloat16 can be several times faster, but texts then differ between kinds of CPU.
    """

    models: Names
    decodings: Names
    documents: Annotated[int, Limit(minimum=2)]
    documents_per_shard: Count = 10_000
    maximum_length: Length = 512
    precision: Literal["auto", "float32", "bfloat16"] = "auto"


class External(SectionModel):
    """Samples that are brought.

    corpus: Name of the corpus whose test split it is compared with.
    path: The file, one document a line.
    format: Format of the file; auto: by its suffix, .jsonl, .ndjson, .json and .parquet, else text.
    field: The field or column of the texts in JSONL or Parquet; null: text.
    preprocessing: Cleaning steps; should end in the same kind of tokens as the corpus.
    vocabulary: Name of the closed vocabulary, built from the corpus, that they and the human text
        are read in: that of the model that wrote them. null: as they are.
    """

    corpus: str
    path: Location
    format: Annotated[str, Limit(enum=(AUTOMATIC, *TEXT_FORMATS))] = AUTOMATIC
    field: str | None = None
    preprocessing: Preprocessing = Preprocessing()
    vocabulary: str | None = None


MODELS = {name: row for name, row in FAMILIES.items() if row.kind != "proposal"}
PROPOSALS = {name: row for name, row in FAMILIES.items() if row.kind == "proposal"}


def _architectures(rows: Mapping[str, Family]) -> DependsOn:
    return DependsOn("family", {name: row.options for name, row in rows.items()})


def _trainings(rows: Mapping[str, Family]) -> DependsOn:
    """Name the options of the training of families, None where they have none of their own."""
    none = [name for name, row in rows.items() if not row.reference or row.kind == "counted"]
    found = {name: resolve_name(row.training) for name, row in rows.items() if name not in none}
    return DependsOn("family", {name: found.get(name) for name in rows})


class Model(SectionModel):
    """A language model.

    family: The architecture; one file of beyond_perplexity/models. huggingface takes a trained
        model of yours.
    corpus: Name of the corpus it is trained on and compared with.
    vocabulary: Name of its vocabulary; a huggingface model has none, it brings its tokenizer.
    architecture: Sizes of the network; for huggingface, where the model is.
    training: How it is trained. A huggingface model is trained further where an option is given,
        and else taken as it is.
    """

    family: Annotated[str, Limit(enum=list(MODELS))]
    corpus: str
    vocabulary: str = OMITTED
    architecture: Annotated[dict[str, Any], _architectures(MODELS)] = NO_NAMES
    training: Annotated[dict[str, Any], _trainings(MODELS)] = NO_NAMES


class ProposalSection(SectionModel):
    """A distribution of the latent variables of a model given the words.

    model: Name of the model with latent variables that it is for.
    family: The architecture, one file of beyond_perplexity/models; or joint, trained with the
        model; or optimal, worked out from the model without training.
    architecture: Sizes of the network, and what it sees of the words.
    training: How it is trained.
    temperatures: Temperatures that samples are drawn at; null takes those of `importance`.
    particles: K of each run of sequential Monte Carlo; null takes that of `importance.smc`. More
        pay where particles share their states, as those of KGLM do.
    """

    model: str
    family: Annotated[str, Limit(enum=list(PROPOSALS))]
    architecture: Annotated[dict[str, Any], _architectures(PROPOSALS)] = NO_NAMES
    training: Annotated[dict[str, Any], _trainings(PROPOSALS)] = NO_NAMES
    temperatures: Temperatures | None = None
    particles: Count | None = None

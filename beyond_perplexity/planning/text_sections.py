"""Sections ``corpora``: where texts come from, how they are cleaned and split."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass, field
from pkgutil import resolve_name
from typing import Annotated, Literal

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
from beyond_perplexity.models.families import FAMILIES
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
from beyond_perplexity.planning.schema import DependsOn


@dataclass(frozen=True)
class Download(Section):
    """A file at an address, with its checksum.

    Attributes
    ----------
    url : str
        Address (http or https) that is downloaded once; without password, key or token, which the
        log would show.
    sha256 : str
        SHA-256 of the file (of its member, if one is named), 64 hexadecimal digits; another content
        is an error.
    member : str
        The file is a zip archive, and this is the path inside it that is meant.
    """

    url: Annotated[str, Limit(pattern="^https?://")]
    sha256: Annotated[str, Limit(pattern="^[0-9a-f]{64}$")]
    member: Annotated[str, Limit(minLength=1)] = OMITTED


# A local path, `embedded:enwiki-excerpt`, or an address with its checksum.
Location = Annotated[str, Limit(minLength=1)] | Download
Locations = Annotated[list[Location], Limit(minItems=1)]


@dataclass(frozen=True)
class PathsBySplit(Section):
    """The files of a corpus that is already split.

    Attributes
    ----------
    train : list of Location
        Files of the training split.
    valid : list of Location
        Files of the validation split.
    test : list of Location
        Files of the test split.
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


@dataclass(frozen=True)
class Corpus(Section):
    """A body of text.

    Attributes
    ----------
    source : Source
        Where the text comes from.
    trees : AutomaticTreeOptions
        Automatic trees over the documents' own tokens; a treebank has its own.
    preprocessing : Preprocessing
        The cleaning steps, in the order of XLM's preparation; each is a switch. To penn, conll and
        linked-wikitext only lower_case and remove_accents apply, token by token.
    documents : DocumentOptions
        Which documents are kept.
    split : SplitOptions
        What goes to each split, where the source does not say it.
    """

    source: Source
    trees: AutomaticTreeOptions = OMITTED
    preprocessing: Preprocessing = field(default_factory=Preprocessing)
    documents: DocumentOptions = field(default_factory=DocumentOptions)
    split: SplitOptions = OMITTED


Temperatures = Annotated[tuple[Positive, ...], Limit(minItems=1, uniqueItems=True)]
Names = Annotated[tuple[str, ...], Limit(uniqueItems=True)]


@dataclass(frozen=True)
class Generation(Section):
    """Section ``generation``.

    Attributes
    ----------
    models : list of str
        Names of the models that generate.
    decodings : list of str
        Names of the decodings that each of them uses.
    documents : int
        Documents per model and decoding; they are compared with as many of the test split.
    documents_per_shard : int
        Documents of one job; 10 to 90 minutes of work on a cluster.
    maximum_length : int
        Model tokens at which a document is cut; it is kept and counted as unfinished.
    precision : "auto", "float32" or "bfloat16"
        Of the weights in decoding; auto takes bfloat16 on a GPU and float32 on a CPU. On a CPU
        bfloat16 can be several times faster, but texts then differ between kinds of CPU.
    """

    models: Names
    decodings: Names
    documents: Annotated[int, Limit(minimum=2)]
    documents_per_shard: Count = 10_000
    maximum_length: Length = 512
    precision: Literal["auto", "float32", "bfloat16"] = "auto"


@dataclass(frozen=True)
class External(Section):
    """Samples that are brought.

    Attributes
    ----------
    corpus : str
        Name of the corpus whose test split it is compared with.
    path : Location
        The file, one document a line.
    format : str
        Format of the file; auto: by its suffix, .jsonl, .ndjson, .json and .parquet, else text.
    field : str or None
        The field or column of the texts in JSONL or Parquet; null: text.
    preprocessing : Preprocessing
        Cleaning steps; should end in the same kind of tokens as the corpus.
    vocabulary : str or None
        Name of the closed vocabulary, built from the corpus, that they and the human text are read
        in: that of the model that wrote them. null: as they are.
    """

    corpus: str
    path: Location
    format: Annotated[str, Limit(enum=(AUTOMATIC, *TEXT_FORMATS))] = AUTOMATIC
    field: str | None = None
    preprocessing: Preprocessing = dataclasses.field(default_factory=Preprocessing)
    vocabulary: str | None = None


def _options(*, proposals: bool) -> dict[str, str | None]:
    """Return the options dataclasses of the families of models or of proposals, None for none."""
    return {
        name: row.options for name, row in FAMILIES.items() if (row.kind == "proposal") == proposals
    }


def _training(names: Iterable[str]) -> dict[str, type | str | None]:
    """Return the options of the training of families, None where they have none of their own."""
    rows = {name: FAMILIES[name] for name in names}
    return {
        name: resolve_name(row.training) if row.reference and row.kind != "counted" else None
        for name, row in rows.items()
    }


MODELS, PROPOSALS = _options(proposals=False), _options(proposals=True)


@dataclass(frozen=True)
class Model(Section):
    """A language model.

    Attributes
    ----------
    family : str
        The architecture; one file of beyond_perplexity/models. huggingface takes a trained model of
        yours.
    corpus : str
        Name of the corpus it is trained on and compared with.
    vocabulary : str
        Name of its vocabulary; a huggingface model has none, it brings its tokenizer.
    architecture : dict
        Sizes of the network; for huggingface, where the model is.
    training : dict
        How it is trained. A huggingface model is trained further where an option is given, and else
        taken as it is.
    """

    family: Annotated[str, Limit(enum=list(MODELS))]
    corpus: str
    vocabulary: str = OMITTED
    architecture: Annotated[dict, DependsOn("family", MODELS)] = field(default_factory=dict)
    training: Annotated[dict, DependsOn("family", _training(MODELS))] = field(default_factory=dict)


@dataclass(frozen=True)
class ProposalSection(Section):
    """A distribution of the latent variables of a model given the words.

    Attributes
    ----------
    model : str
        Name of the model with latent variables that it is for.
    family : str
        The architecture, one file of beyond_perplexity/models; or joint, trained with the model; or
        optimal, worked out from the model without training.
    architecture : dict
        Sizes of the network, and what it sees of the words.
    training : dict
        How it is trained.
    temperatures : list of float or None
        Temperatures that samples are drawn at; null takes those of `importance`.
    particles : int or None
        K of each run of sequential Monte Carlo; null takes that of `importance.smc`. More pay where
        particles share their states, as those of KGLM do.
    """

    model: str
    family: Annotated[str, Limit(enum=list(PROPOSALS))]
    architecture: Annotated[dict, DependsOn("family", PROPOSALS)] = field(default_factory=dict)
    training: Annotated[dict, DependsOn("family", _training(PROPOSALS))] = field(
        default_factory=dict
    )
    temperatures: Temperatures | None = None
    particles: Count | None = None

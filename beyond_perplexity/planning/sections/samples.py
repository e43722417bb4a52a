"""Sections ``generation`` and ``external_samples``: the texts that are compared with a corpus."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Annotated, Literal

from beyond_perplexity.corpus.formats import AUTOMATIC, TEXT_FORMATS
from beyond_perplexity.corpus.normalization import Preprocessing
from beyond_perplexity.options import Count, Length, Limit, Section
from beyond_perplexity.planning.sections.corpora import Location

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

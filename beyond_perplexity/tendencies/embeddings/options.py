"""The options of the comparison of texts by the vectors of their documents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from beyond_perplexity.options import Limit, Limited


@dataclass(frozen=True)
class EmbeddingOptions(Limited):
    """Options of the test in the space of an encoder.

    Attributes
    ----------
    encoder : str
        ``minilm`` (of the extra `pretrained`), or a folder of sentence-transformers.
    documents : int
        Documents of each text that are embedded, a random subset of them: time grows with their
        number, and the memory of the test with its square.
    """

    encoder: str = "minilm"
    documents: Annotated[int, Limit(minimum=20, maximum=4000)] = 500

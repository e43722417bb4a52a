"""The options of the comparison of texts by the vectors of their documents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from beyond_perplexity.options import Limit, Section


@dataclass(frozen=True)
class EmbeddingOptions(Section):
    """Options of the test in the space of an encoder.

    Attributes
    ----------
    encoder : str
        Name of the evaluator (section `evaluators`) whose vectors of texts are compared.
    documents : int
        Documents of each text that are embedded, a random subset of them: time grows with their
        number, and the memory of the test with its square.
    """

    encoder: str
    documents: Annotated[int, Limit(minimum=20, maximum=4000)] = 500

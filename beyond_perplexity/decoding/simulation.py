"""Documents of models with latent variables: words and latents are drawn together."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from beyond_perplexity.decoding.options import DecodingOptions
from beyond_perplexity.errors import InputError
from beyond_perplexity.models.latent import LatentModel, Simulated
from beyond_perplexity.vocabulary import Vocabulary

SIMULATED_AT_ONCE = 256  # documents


def simulate_texts(
    model: LatentModel,
    vocabulary: Vocabulary,
    options: DecodingOptions,
    purpose: str,
    *,
    seed: int,
    first: int,
    count: int,
    maximum_length: int,
) -> Iterator[Simulated]:
    """Draw documents (x, z) ~ p, some at a time.

    Parameters
    ----------
    model : LatentModel
        In evaluation mode.
    vocabulary : Vocabulary
        Of its words.
    options : DecodingOptions
        Ancestral: other decodings would change p(x), which is a sum over latents.
    purpose : str
        Keys the random streams, with the seed and the number of the document.
    seed : int
        Of the run.
    first, count : int
        Number of the first document, and how many.
    maximum_length : int
        Words at which a document is cut.

    Raises
    ------
    InputError
        When the decoding is another one, or the family cannot be simulated.
    """
    if not options.ancestral:
        raise InputError(
            f"decoding: is {options.given()}, but a model with latent variables writes by "
            "ancestral sampling alone; name such a decoding, without a temperature"
        )
    with torch.inference_mode():
        for start in range(first, first + count, SIMULATED_AT_ONCE):
            numbers = range(start, min(start + SIMULATED_AT_ONCE, first + count))
            yield from model.simulate(seed, purpose, numbers, maximum_length, vocabulary)

"""llama.cpp's program ``llama-perplexity``.

The file is one string of tokens, after the beginning of text where the model adds one. It is cut
into chunks of n_ctx tokens that share nothing; where the model adds a beginning of text, that
replaces the first token of each chunk. Only the second half of a chunk is scored, so that each
prediction sees at least n_ctx / 2 tokens; the other half, and what is left at the end, never is.
Special tokens that the text says are characters to it.

References
----------
ggml-org, llama.cpp, ``tools/perplexity/perplexity.cpp``, function ``perplexity`` (n_ctx = 512).
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from beyond_perplexity.rosetta.numbers import PrintedNumber
from beyond_perplexity.rosetta.speech import Speech, after_beginning, power_of
from beyond_perplexity.scoring.scores import ScoreWindow
from beyond_perplexity.vocabulary import BOS

_CONTEXT = 512


def chunk_windows(ids: np.ndarray, context: int, begins: bool) -> Iterator[ScoreWindow]:
    """Cut a text of ids, the beginning of text among them where there is one, into chunks."""
    for number in range(len(ids) // context):
        chunk = ids[number * context : (number + 1) * context].copy()
        if begins:
            chunk[0] = BOS
        yield ScoreWindow(number, chunk, context - context // 2 - 1)


def translate_chunks(speech: Speech) -> list[PrintedNumber]:
    """Return the "Final estimate" of the perplexity."""
    context = min(_CONTEXT, speech.context)
    begins = speech.adds_beginning
    ids = speech.join("\n", literal=True)
    ids = after_beginning(ids) if begins else ids
    how = (
        f"per token of the second halves of chunks of {context} tokens; the others are context "
        "alone, and the last, shorter chunk is left out; documents are lines of one text"
    )
    if len(ids) < 2 * context or context < 3:
        refused = f"the program refuses a text of fewer than {2 * context} tokens; {how}"
        return [PrintedNumber("llama.cpp", "PPL", math.nan, 0, refused)]
    scores = [found for _, found in speech.score(chunk_windows(ids, context, begins))]
    scored = sum(map(len, scores))
    log_prob = math.fsum(float(found.sum()) for found in scores)
    return [PrintedNumber("llama.cpp", "PPL", power_of(log_prob, scored), scored, how)]

"""Our own numbers, beside those of others: with the end of every document, in log P and in N."""

from __future__ import annotations

import math
from typing import Any

from beyond_perplexity.rosetta.numbers import PrintedNumber
from beyond_perplexity.rosetta.speech import Speech
from beyond_perplexity.scoring.summary import measure


def translate_own(speech: Speech) -> list[PrintedNumber]:
    """Return the perplexities per token and word and the bits per byte."""
    found: dict[str, Any] = measure(
        speech.model,
        speech.vocabulary,
        speech.texts,
        text=speech.kind,
        context_length=speech.context_length,
    )
    context = found["context_length"]
    windows = f"windows of {context} tokens, half of them new" if context else "no limit of context"
    how = f"<s> is seen, </s> is scored and counts in N; {windows}"
    numbers = {
        "perplexity per token": found["perplexity"]["token"],
        "perplexity per word": found["perplexity"]["word"],
        "bits per byte": found["bits"]["byte"],
    }
    return [
        PrintedNumber("beyond-perplexity", name, _value(value), found["n"]["token"], how)
        for name, value in numbers.items()
    ]


def _value(value: float | None) -> float:
    return math.inf if value is None else value

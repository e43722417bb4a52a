"""What other programs would print of a served model, where the scores of its tokens decide it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from statistics import fmean

from beyond_perplexity.auditing.checks import PROGRAMS, PrintedNumber
from beyond_perplexity.foreign_text import remark
from beyond_perplexity.models.served.journal import Journal
from beyond_perplexity.models.served.server import ServedModel
from beyond_perplexity.models.token_scores import TokenScores
from beyond_perplexity.perplexities.served import row_of
from beyond_perplexity.perplexities.summary import ScoredText, perplexity_of, summarize_rows

_OPEN = "the beginning of text is seen, the end of a document is not scored"


def translate_server(served: ServedModel, texts: Sequence[str]) -> list[PrintedNumber]:
    """Return the numbers of programs that the scores of texts decide; the others are named.

    Those that read a text from its first token on have none where it is not scored, nor where a
    text is longer than the context, which they cut in windows of token ids of their own.
    """
    named = ((f"document {number}", text) for number, text in enumerate(texts, 1))
    scores = list(served.score(named, Journal()))
    numbers = [*_own(texts, scores)]
    longest = max(len(one.log_probs) for one in scores)
    whole = served.first and longest <= (served.most or math.inf)
    if whole:
        numbers += _of_whole_texts(texts, scores)
        numbers += _of_lines(texts, scores) if served.after else []
    lacking = ", ".join(name for name in PROGRAMS if name not in {one.program for one in numbers})
    why = "they need windows of token ids, the first token, or the end of each text"
    remark(f"rosetta: {lacking}: not defined of what this server scores ({why})")
    return numbers


def _own(texts: Sequence[str], scores: Sequence[TokenScores]) -> Iterator[PrintedNumber]:
    rows = [
        row_of(ScoredText(place, text), one)
        for place, (text, one) in enumerate(zip(texts, scores, strict=True))
        if len(one.log_probs)
    ]
    ended = all(one.ended for one in scores)
    found = summarize_rows([rows], None, {"text": "raw"}, count_eos=ended)
    values = (
        ("perplexity per token", found["perplexity"]["token"]),
        ("perplexity per word", found["perplexity"]["word"]),
        ("bits per byte", found["bits"]["byte"]),
    )
    how = f"of what is scored; the end {'is scored and counts in N' if ended else 'is not scored'}"
    for name, value in values:
        number = math.inf if value is None else value
        yield PrintedNumber("beyond-perplexity", name, number, found["n"]["token"], how)


def _of_whole_texts(texts: Sequence[str], scores: Sequence[TokenScores]) -> Iterator[PrintedNumber]:
    """Give the numbers of lm-evaluation-harness and of evaluate."""
    held = [one.log_probs[: len(one.tokens) - one.ended] for one in scores]
    total, count = math.fsum(map(math.fsum, held)), sum(map(len, held))
    words = sum(len(re.split(r"\s+", text)) for text in texts)
    size = sum(len(text.encode()) for text in texts)
    for name, value, unit in (
        ("word_perplexity", perplexity_of(total, words), "per word, split at white space"),
        ("byte_perplexity", perplexity_of(total, size), "per byte"),
        ("bits_per_byte", -total / size / math.log(2), "base 2, per byte of UTF-8"),
    ):
        yield PrintedNumber("lm-evaluation-harness", name, value, count, f"{unit}; {_OPEN}")
    mean = fmean(perplexity_of(math.fsum(one), len(one)) for one in held)
    how = f"arithmetic mean of the texts' perplexities per token; {_OPEN}"
    yield PrintedNumber("evaluate", "mean_perplexity", mean, count, how)


def _of_lines(texts: Sequence[str], scores: Sequence[TokenScores]) -> Iterator[PrintedNumber]:
    """Give the number of KenLM's program: no word is unknown to a model of pieces of words."""
    total = math.fsum(math.fsum(one.log_probs) for one in scores)
    tokens = sum(len(text.split()) for text in texts) + len(texts)
    count = sum(len(one.log_probs) for one in scores)
    how = "per word, the end of each line being a word; each document is a line"
    for name in ("Perplexity including OOVs", "Perplexity excluding OOVs"):
        yield PrintedNumber("KenLM", name, perplexity_of(total, tokens), count, how)

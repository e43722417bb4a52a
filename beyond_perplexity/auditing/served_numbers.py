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

_Number = tuple[str, str, float, int, str]  # as `PrintedNumber`
_OPEN = "the beginning of text is seen, the end of a document is not scored"


def translate_server(served: ServedModel, texts: Sequence[str]) -> list[PrintedNumber]:
    """Return the numbers of programs that the scores of texts decide; the others are named.

    Those that read a text from its first token on have none where it is not scored, nor where a
    text is longer than the context, which they cut in windows of token ids of their own. KenLM's
    program also scores the end; no word is unknown to a model of pieces of words.
    """
    named = ((f"document {number}", text) for number, text in enumerate(texts, 1))
    scores = list(served.score(named, Journal()))
    found = list(_own(texts, scores))
    if served.first and max(len(one.log_probs) for one in scores) <= (served.most or math.inf):
        found += _of_whole_texts(texts, scores)
    numbers = [PrintedNumber(*one) for one in found]
    lacking = ", ".join(name for name in PROGRAMS if name not in {one.program for one in numbers})
    why = "they need windows of token ids, the first token, or the end of each text"
    remark(f"rosetta: {lacking}: not defined of what this server scores ({why})")
    return numbers


def _own(texts: Sequence[str], scores: Sequence[TokenScores]) -> Iterator[_Number]:
    held = enumerate(zip(texts, scores, strict=True))
    rows = [
        row_of(ScoredText(k, text), one) for k, (text, one) in held if len(one.tokens) > one.ended
    ]
    ended = all(one.ended for one in scores)
    found = summarize_rows([rows], None, {"text": "raw"}, count_eos=ended)
    how = f"of what is scored; the end {'is scored and counts in N' if ended else 'is not scored'}"
    for name, value in (
        ("perplexity per token", found["perplexity"]["token"]),
        ("perplexity per word", found["perplexity"]["word"]),
        ("bits per byte", found["bits"]["byte"]),
    ):
        number = math.inf if value is None else value
        yield "beyond-perplexity", name, number, found["n"]["token"], how


def _of_whole_texts(texts: Sequence[str], scores: Sequence[TokenScores]) -> Iterator[_Number]:
    held = [one.log_probs[: len(one.tokens) - one.ended] for one in scores]
    total, count = math.fsum(map(math.fsum, held)), sum(map(len, held))
    words = sum(len(re.split(r"\s+", text)) for text in texts)
    size = sum(len(text.encode()) for text in texts)
    for name, value, unit in (
        ("word_perplexity", perplexity_of(total, words), "per word, split at white space"),
        ("byte_perplexity", perplexity_of(total, size), "per byte"),
        ("bits_per_byte", -total / size / math.log(2), "base 2, per byte of UTF-8"),
    ):
        yield "lm-evaluation-harness", name, value, count, f"{unit}; {_OPEN}"
    mean = fmean(perplexity_of(math.fsum(one), len(one)) for one in held)
    how = f"arithmetic mean of the texts' perplexities per token; {_OPEN}"
    yield "evaluate", "mean_perplexity", mean, count, how
    if all(one.ended for one in scores):
        total = math.fsum(math.fsum(one.log_probs) for one in scores)
        value = perplexity_of(total, sum(len(text.split()) + 1 for text in texts))
        how = "per word, the end of each line being a word; each document is a line"
        for name in ("Perplexity including OOVs", "Perplexity excluding OOVs"):
            yield "KenLM", name, value, count + len(texts), how

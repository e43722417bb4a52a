"""Scores of texts that are the logarithms of the softmax of the logits, and nothing else."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from beyond_perplexity.auditing.checks import Evidence
from beyond_perplexity.auditing.subject import MOST_LOGITS, Subject
from beyond_perplexity.models.contract import chosen_log_probs
from beyond_perplexity.vocabulary import BOS, EOS

_TEXTS = 6
_LONGEST_TEXT = 64  # tokens
_LATE_TEXT = 256  # of one text of all texts: scores may go wrong late
_NOTICED = 1e-3  # nats a prediction, above which an explanation is looked for


def check_likelihood(subject: Subject) -> Evidence:
    """Compare ln P that the scoring program gives texts with the sum over the rows of logits.

    The texts are beginnings that the context holds whole, so that no window is cut, and an empty
    one. The deviation is in nats a prediction. Where it is too large, the detail names the mistake
    that explains the number, if one does.
    """
    texts = _beginnings(subject)
    encoded = subject.vocabulary.encode(texts)
    rows = {row.doc_id: row for row in subject.rows(texts)}
    worst, detail = 0.0, "as the logits say"
    for index, ids in enumerate(encoded):
        said = rows[index].log_likelihood if index in rows else math.nan
        parts = _rows_of_logits(subject, ids)
        expected = float(parts["scores"].sum())
        off = 0.0 if said == expected else abs(said - expected) / (len(ids) + 1)
        if math.isnan(off) or off > worst:
            worst = off
            detail = f"text {index + 1} has {said:.6g}, its logits say {expected:.6g} nats"
            if not off <= _NOTICED:
                detail += _explain(said, parts)
        if math.isnan(off):
            break
    return Evidence(worst, len(texts), detail)


def _beginnings(subject: Subject) -> list[str]:
    """Return an empty text, and beginnings of texts, and of all in one, that the context holds."""
    model = subject.model
    whole = min(model.context_length or _LATE_TEXT, MOST_LOGITS // model.vocabulary_size)
    starts = [_beginning(subject, text, min(whole, _LONGEST_TEXT)) for text in subject.texts]
    late = _beginning(subject, " ".join(text for text in subject.texts if text), whole)
    return ["", *[text for text in starts if text][: _TEXTS - 1], *([late] if late else [])]


def _beginning(subject: Subject, text: str, room: int) -> str:
    """Return a beginning of a text, of whole words, that has fewer tokens than there is room."""
    words = text.split(" ")
    if subject.kind == "cleaned":  # blanks at the ends and double ones are not scored
        words = [word for word in words if word]
    words = words[:room]
    while words and len(subject.vocabulary.encode([" ".join(words)])[0]) >= room:
        words = words[: len(words) * 3 // 4]
    return " ".join(words)


def _rows_of_logits(subject: Subject, ids: np.ndarray) -> dict[str, Tensor]:
    """Return ln p of each prediction of a text, float64, (T,), and its readings by mistake."""
    whole = torch.tensor([[BOS, *ids.tolist(), EOS]])  # (1, T + 1)
    logits = subject.logits(whole[:, :-1])[0].cpu()  # (T, V)
    scores = chosen_log_probs(logits, whole[0, 1:])
    return {
        "scores": scores,
        "its logits are not shifted": chosen_log_probs(logits, whole[0, :-1]),
    }


def _explain(said: float, parts: dict[str, Tensor]) -> str:
    """Name the mistake that gives the number, where one does."""
    scores = parts["scores"]
    total = float(scores.sum())
    guesses = {
        "the first token is left out": total - float(scores[0]),
        "the first token counts twice": total + float(scores[0]),
        "the end is left out": total - float(scores[-1]),
        "the first token and the end are left out": total - float(scores[0] + scores[-1]),
        "the end counts twice": total + float(scores[-1]),
        "it is in bits": total / math.log(2),
        "it is a logarithm of base 10": total / math.log(10),
        "its sign is turned": -total,
        "it is a mean": total / len(scores),
        "its logits are not shifted": float(parts["its logits are not shifted"].sum()),
    }
    for reason, guess in guesses.items():
        if math.isfinite(guess) and math.isclose(said, guess, rel_tol=1e-4, abs_tol=1e-4):
            return f": {reason}"
    return ""

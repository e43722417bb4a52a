"""Surprisal of words: of all tokens of a word, with the blank behind it.

Most tokenizers put the blank before a word into its first token, so that the tokens of a word alone
say nothing of where it ends: "a" is as probable as all words that begin with it. With B the
probability that what comes next begins a word, or ends the document, P(word) = Π p(token) ·
B(behind) / B(before), and words and the end multiply to the probability of the document. This is
exact where every token that begins a word begins with white space; where one token holds a border
of words, both are one row. Of models whose tokens are words B is 1.

Pimentel and Meister (2024), How to compute the probability of a word; Oh and Schuler (2024),
Leading whitespaces of language models' subword vocabulary pose a confound for calculating word
probabilities.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from beyond_perplexity.models import likelihoods
from beyond_perplexity.models.contract import LanguageModel
from beyond_perplexity.models.token_scores import TokenScores, word_beginnings
from beyond_perplexity.perplexities.summary import ScoredText, TextKind
from beyond_perplexity.schemas.perplexity import WORD_SURPRISALS
from beyond_perplexity.vocabulary import Vocabulary

_LOGIT_ROWS = 1024  # positions whose logits are held at once
_BLANKS = re.compile(rb"[ \t\n\r\v\f]+")


def _masses(
    model: LanguageModel, begins: Tensor, windows: Sequence[likelihoods.ScoreWindow]
) -> Iterator[np.ndarray]:
    """Yield ln of the probability that what comes next begins a word, at each counted position."""
    inputs = torch.from_numpy(likelihoods.padded_windows(windows)[0]).to(model.device)  # (B, T)
    chunks = model.next_logits(inputs, _LOGIT_ROWS)  # (n, V) each
    found = [part[:, begins].double().logsumexp(1) - part.double().logsumexp(1) for part in chunks]
    yield from likelihoods.counted_parts(windows, torch.cat(found))


def word_surprisals(
    model: LanguageModel,
    vocabulary: Vocabulary,
    window: tuple[int | None, int | None],
    items: Sequence[ScoredText],
    kind: TextKind,
    scores: Sequence[TokenScores],
) -> pa.Table:
    """Turn what a model says of tokens, scored with a `window` of context and stride, into
    ``word_surprisals``; another pass finds blanks' probabilities, where tokens are no words."""
    begins = word_beginnings(vocabulary)
    encoded = vocabulary.encode([item.text for item in items])
    if begins is None:
        masses = [np.zeros(len(ids) + 1) for ids in encoded]
    else:
        run = partial(_masses, model, torch.from_numpy(begins).to(model.device))
        masses = []
        for ids, parts in likelihoods.run_windows(
            encoded, run, *likelihoods.check_window(model, *window)
        ):
            masses.append(np.empty(len(ids) + 1))
            for first, found in parts:
                masses[-1][first : first + len(found)] = found
    rows = [row for one in zip(items, scores, masses, strict=True) for row in _word_rows(*one)]
    return pa.Table.from_pylist(rows, WORD_SURPRISALS)


def _word_rows(
    item: ScoredText, scores: TokenScores, masses: np.ndarray
) -> Iterator[dict[str, Any]]:
    content, n = item.text.encode(), len(scores.log_probs) - scores.ended
    starts = np.append(scores.starts[:n], len(content))
    places, borders = [0][:n], [0.0][:n]  # of the first token of each word; ln B before it
    for blank in _BLANKS.finditer(content):
        place = int(np.searchsorted(starts[:n], blank.start()))
        if 0 < place < n and starts[place] <= blank.end() and place > places[-1]:
            places.append(place)
            # Behind a token that ends with white space a word begins in any case.
            borders.append(float(masses[place]) if starts[place] == blank.start() else 0.0)
    is_open = not content or content[-1:].isspace()
    places, borders = [*places, n], [*borders, 0.0 if is_open else float(masses[n])]
    ends = [(n, n + 1, -borders[-1])] if scores.ended else []
    words = zip(places, places[1:], np.diff(borders).tolist(), strict=False)
    for position, (first, last, blank_share) in enumerate([*words, *ends]):
        total = float(scores.log_probs[first:last].sum())
        start, end = int(starts[first]), int(starts[min(last, n)])
        word = content[start:end].strip().decode("utf-8", "backslashreplace")
        row: dict[str, Any] = {
            "doc_id": item.doc_id,
            "group": item.group,
            "title": item.title,
            "start": start,
        }
        row |= {"position": position, "end": end, "word": word if first < n else "</s>"}
        row |= {"log_prob_tokens": total, "log_prob": total + blank_share}
        yield row | {"surprisal": -(total + blank_share) / math.log(2)}

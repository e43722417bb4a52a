"""The evaluator that needs nothing but the words: BLEU of sentences and accuracy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from beyond_perplexity.semantics.bleu import bleu_of, count_bleu
from beyond_perplexity.semantics.evaluators.contract import Evaluator, TextPair
from beyond_perplexity.semantics.measures import ACCURACY, BLEU_NAMES, NO_WORDS
from beyond_perplexity.semantics.word_cosines import Floats, Ids


def accuracies(pairs: Sequence[TextPair]) -> Floats:
    """Return the share of the longer text's words that are the same at the same position, (N,),
    never of what is no word; NaN of an empty text."""
    found = np.full(len(pairs), np.nan)
    for index, (predicted, target) in enumerate(pairs):
        mine, wanted = predicted.split(), target.split()
        if mine and wanted:
            both = zip(mine, wanted, strict=False)
            same = sum(one == other and one not in NO_WORDS for one, other in both)
            found[index] = same / max(len(mine), len(wanted))
    return found


class WordEvaluator(Evaluator):
    """Compares texts word by word."""

    measures = (*BLEU_NAMES, ACCURACY)

    def score(self, pairs: Sequence[TextPair]) -> dict[str, Floats]:
        """Score pairs: BLEU of each by itself, orders longer than the text left out; accuracy."""
        return self.score_and_count(pairs)[0]

    def score_and_count(self, pairs: Sequence[TextPair]) -> tuple[dict[str, Floats], Ids]:
        """Return also what BLEU is made of, (N, 10); see `bleu.count_bleu`."""
        counts = count_bleu(pairs)
        scores = {name: bleu_of(counts, n, effective=True) for name, n in BLEU_NAMES.items()}
        empty = np.array([not (one.split() and other.split()) for one, other in pairs], bool)
        bleu = {name: np.where(empty, np.nan, found) for name, found in scores.items()}
        return bleu | {ACCURACY: accuracies(pairs)}, counts

    def describe(self) -> dict[str, Any]:
        """Return the title: there is nothing else to say."""
        return {"title": "words"}

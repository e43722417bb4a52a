"""What Figure 1 shows of a document.

Oracles: the mentions that were put into a document, by their places.
"""

from __future__ import annotations

import numpy as np
import torch

from beyond_perplexity.corpus.latent_instances import Instance
from beyond_perplexity.importance.model_pair import Pair
from beyond_perplexity.importance.readable_latents import MOST_WORDS, describe
from beyond_perplexity.models.latent import FILLING
from beyond_perplexity.models.latents.entitynlm_dynamic_entities import RADIX
from beyond_perplexity.vocabulary import ClosedVocabulary
from tests.unit.test_entitynlm import make_model, make_proposal

WORDS = [f"w{number}" for number in range(6)]


def document(length: int, mentions: list[tuple[int, int]], number: int = 7) -> Instance:
    """Make a document whose mentions, (place, entity), are one word long."""
    codes = np.zeros(length, np.int64)
    for place, entity in mentions:
        codes[place] = 1 + RADIX * entity
    return Instance(number, {"tokens": 3 + np.arange(length) % 6, "latents": codes})


def shown(instance: Instance) -> list[dict]:
    pair = Pair(make_model(), make_proposal(), 1, "m/q")
    vocabulary = ClosedVocabulary.build([WORDS], 1, None)
    assert vocabulary.size == pair.model.vocabulary_size
    return describe(pair, "m", [document(3, []), instance], vocabulary)


def test_of_a_long_document_the_part_with_most_mentions_is_shown():
    places = [(5, 0), (130, 1), (133, 0), (139, 1), (150, 1)]
    annotation, likeliest = shown(document(400, places))
    assert len(annotation["tokens"]) == MOST_WORDS
    _, _, first, _, last, _, whole = annotation["title"].split()  # ..., words 1 to 2 of 3
    start = int(first) - 1
    assert (int(last) - start, int(whole)) == (MOST_WORDS, 400)
    assert annotation["tokens"] == [WORDS[(start + i) % 6] for i in range(MOST_WORDS)]
    found = [start + mention["start"] for mention in annotation["mentions"]]
    assert found == [130, 133, 139, 150]
    assert all(0 <= m["start"] < m["end"] <= MOST_WORDS for m in likeliest["mentions"])


def test_a_short_document_is_shown_whole_and_a_shorter_one_not():
    annotation, _ = shown(document(9, [(2, 0), (4, 0)]))
    assert annotation["title"] == "annotation"
    assert [mention["start"] for mention in annotation["mentions"]] == [2, 4]
    assert shown(document(4, [])) == []


class Finding:
    """A proposal whose most probable latent has the mentions of one document, of others none."""

    def __init__(self, number: int) -> None:
        self.number = number

    def beam(self, batch, size):
        codes = pair_of(self).model.annotated(batch)  # (1, W)
        if batch.ids.tolist() != [self.number]:
            codes = torch.where(codes == FILLING, codes, 0)
        return torch.stack([codes, torch.full_like(codes, FILLING)], 1)  # (1, 2, W)


def pair_of(proposal) -> Pair:
    return Pair(make_model(), proposal, 1, "m/q")


def test_the_document_is_shown_in_which_the_proposal_finds_most():
    """The others have more mentions, which this proposal does not find."""
    held = [document(9, [(k, 0) for k in range(9 - number)], number) for number in range(3)]
    vocabulary = ClosedVocabulary.build([WORDS], 1, None)
    annotation, likeliest = describe(pair_of(Finding(2)), "m", held, vocabulary)
    assert annotation["instance_id"] == 2
    assert [m["start"] for m in likeliest["mentions"]] == [*range(7)]
    nothing = describe(pair_of(Finding(-1)), "m", held, vocabulary)
    assert nothing[0]["instance_id"] == 0  # the one with most to see

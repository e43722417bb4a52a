"""The latents of one instance of a run, for people: what Figure 1 draws."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch

from beyond_perplexity.corpus.latent_instances import TOKENS, Instance, InstanceBatch
from beyond_perplexity.importance.model_pair import Pair
from beyond_perplexity.models.latent import FILLING
from beyond_perplexity.vocabulary import UNK, Vocabulary

LOOKED_AT = 40_000  # words of the split
UNKNOWN_COST = 5.0
FEWEST_WORDS, MOST_WORDS, MOST_OF_A_TREE = 7, 60, 12
STRIDE = 20  # words from one window of a long document to the next
DOCUMENTS_TRIED = 40  # documents in which the proposal looks for mentions
Described = dict[str, Any]


class _Choice(NamedTuple):
    """A part of an instance that could be shown: words from `start`, and how much is to see."""

    worth: float
    instance: Instance
    start: int
    described: Described


def _richness(described: Described) -> float:
    """Say how much there is to see: brackets of a tree, or mentions and re-mentions."""
    if described.get("tree"):
        return float(str(described["tree"]).count("("))
    entities = [mention["entity"] for mention in described["mentions"]]
    return len(entities) + 5.0 * (len(entities) - len(set(entities)))


def _window(described: Described, start: int) -> Described:
    """Keep the mentions that lie in `MOST_WORDS` words from a place on, and count from there."""
    kept = [
        {**mention, "start": mention["start"] - start, "end": mention["end"] - start}
        for mention in described["mentions"]
        if mention["start"] >= start and mention["end"] <= start + MOST_WORDS
    ]
    return {"mentions": kept}


def _choices(
    pair: Pair, instances: Iterable[Instance], vocabulary: Vocabulary
) -> Iterator[_Choice]:
    """List what could be shown: short sentences under trees, windows of documents."""
    seen = 0
    for instance in instances:
        words = _known(instance, vocabulary)
        seen += len(words)
        if seen > LOOKED_AT:
            return
        if len(words) < FEWEST_WORDS:
            continue
        batch = InstanceBatch.of([instance]).to(pair.model.device)
        described = pair.model.readable(instance, pair.model.annotated(batch)[0])
        if described.get("tree"):
            windows = [(0, described)] if len(words) <= MOST_OF_A_TREE else []
        elif "mentions" in described:
            starts = range(0, max(1, len(words) - MOST_WORDS + STRIDE), STRIDE)
            windows = [(start, _window(described, start)) for start in starts]
        else:
            continue  # a tree that the model cannot have
        for start, part in windows:
            shown = words[start : start + MOST_WORDS]
            unknown = np.count_nonzero(shown == UNK) / len(shown)
            worth = _richness(part) / len(shown) - UNKNOWN_COST * unknown
            yield _Choice(worth, instance, start, part)


def _candidates(choices: Iterable[_Choice]) -> list[_Choice]:
    """Return the best part of each of the instances with most to see; of trees the best alone."""
    held: dict[int, _Choice] = {}
    for choice in sorted(choices, key=lambda c: c.worth, reverse=True):
        held.setdefault(choice.instance.instance_id, choice)
        if len(held) == DOCUMENTS_TRIED or choice.described.get("tree"):
            break
    return list(held.values())


def _likeliest(pair: Pair, choice: _Choice) -> Described | None:
    """Describe the most probable latent under the proposal, where a beam finds one."""
    batch = InstanceBatch.of([choice.instance]).to(pair.model.device)
    found = pair.proposal.beam(batch, 10)[0]  # (10, W)
    found = found[(found != FILLING).any(1)]  # (k, W)
    if not len(found):
        return None
    described = pair.model.readable(choice.instance, found[0])
    return _window(described, choice.start) if "mentions" in described else described


def _n_shared(choice: _Choice, found: Described | None) -> int:
    """Count the mentions of the annotation that a proposal finds."""
    spans = [
        {(mention["start"], mention["end"]) for mention in (held or {}).get("mentions") or []}
        for held in (choice.described, found)
    ]
    return len(spans[0] & spans[1])


def _known(instance: Instance, vocabulary: Vocabulary) -> np.ndarray:
    """Return the words with ``<unk>`` for classes of unknown words, int64, (T,)."""
    words = instance.arrays[TOKENS]
    return np.where(words < vocabulary.size, words, UNK)


@torch.inference_mode()
def describe(
    pair: Pair, name: str, instances: Iterable[Instance], vocabulary: Vocabulary
) -> list[Described]:
    """Choose an instance, or a part of a long document, with much to see; describe its latents.

    Gives ``model`` (the name), ``title``, ``instance_id``, ``tokens`` and what
    `LatentModel.readable` says: of the annotation, then of the most probable latent that a beam of
    10 finds. The first `LOOKED_AT` words are looked at. Of a document with more than `MOST_WORDS`
    words a part is shown, with the mentions that lie in it; of the `DOCUMENTS_TRIED` documents with
    most to see, that in which the proposal finds most mentions of the annotation. Empty when no
    sentence under a tree has from `FEWEST_WORDS` to `MOST_OF_A_TREE` words, or no document the
    fewest.
    """
    candidates = _candidates(_choices(pair, instances, vocabulary))
    if not candidates:
        return []
    beams = [(one, _likeliest(pair, one)) for one in candidates]
    best, likeliest = max(beams, key=lambda held: _n_shared(*held))
    words = _known(best.instance, vocabulary)
    shown = words[best.start : best.start + MOST_WORDS]
    tokens = vocabulary.decode([np.array([word]) for word in shown])
    end = best.start + len(shown)
    part = f", words {best.start + 1} to {end} of {len(words)}" if len(shown) < len(words) else ""
    common = {"model": name, "instance_id": best.instance.instance_id, "tokens": tokens}
    shown_latents = [{**common, "title": f"annotation{part}", **best.described}]
    if likeliest:
        title = f"most probable under the proposal{part}"
        shown_latents.append({**common, "title": title, **likeliest})
    return shown_latents

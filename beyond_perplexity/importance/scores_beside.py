"""Models without latent variables on the very instances that a latent model is weighed on.

A reader can tell what latent variables bring only from the same text, the same vocabulary and the
same T. An instance is scored alone, after ``<s>``: as the latent model reads it. T counts the end
where the latent model's T does, and log p then has it; else neither has.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any

import numpy as np
import torch

from beyond_perplexity.corpus.latent_instances import TOKENS, Instance, InstanceBatch, document_of
from beyond_perplexity.errors import InputError
from beyond_perplexity.importance.posterior_latents import words_inside
from beyond_perplexity.inference.intervals import group_key
from beyond_perplexity.models.contract import LanguageModel
from beyond_perplexity.models.families import find_row
from beyond_perplexity.models.latent import LatentModel
from beyond_perplexity.models.likelihoods import check_window, cut_windows, score_windows
from beyond_perplexity.schemas.corpora import DOCUMENTS
from beyond_perplexity.storage.shards import read_batches
from beyond_perplexity.vocabulary import UNK


@torch.inference_mode()
def plain_log_probs(model: LanguageModel, ids: np.ndarray) -> np.ndarray:
    """Return ln p of each word and of the end, float64, (T + 1,), of one text (T,) read alone.

    One text at a time: what else is scored does not change a bit of it.
    """
    windows = cut_windows(0, ids, *check_window(model, None, None))
    return np.concatenate([part for one in windows for part in score_windows(model, [one])])


def score_beside(
    latent: LatentModel, model: LanguageModel, instances: Iterable[Instance]
) -> Iterator[dict[str, Any]]:
    """Score instances of a latent model under another of the same vocabulary that has no latents.

    Yields columns of schema ``instance_scores`` but for the names and the group. The latent model
    says what T counts, which must be words and at most one end, and which words are in mentions.
    Classes of unknown words are ``<unk>``.
    """
    for instance in instances:
        words = np.asarray(instance.arrays[TOKENS])  # (T,)
        words = np.where(words < model.vocabulary_size, words, UNK)
        batch = InstanceBatch.of([instance])
        counted = int(latent.n_tokens(batch)[0])
        if counted - len(words) not in (0, 1):
            raise InputError(
                f"instance {instance.instance_id}: the latent model counts {counted} tokens of "
                f"{len(words)} words: no model can be held against it"
            )
        scores = plain_log_probs(model, words)  # (T + 1,)
        described = latent.outline(instance, latent.annotated(batch.to(latent.device))[0])
        inside = words_inside(described, len(words))  # (T,)
        yield {
            "instance_id": instance.instance_id,
            "n_words": len(words),
            "n_tokens": counted,
            "n_unknown": int((words == UNK).sum()),
            "n_inside": None if inside is None else int(inside.sum()),
            "log_likelihood": float(scores[:counted].sum()),
            "log_likelihood_inside": None if inside is None else float(scores[:-1][inside].sum()),
            "log_likelihood_end": float(scores[-1]),
        }


def group_instances(
    family: object, instance_ids: Collection[int], documents: str, split_unit: str
) -> dict[int, int]:
    """Say which instances belong together: those of a document or, if these were split, of a page.

    Returns the key of the group (`group_key`) by the instance; the row of the family of the latent
    model says what an instance is, `documents` is a file of that schema.
    """
    unit = find_row(family).unit
    wanted = {number: document_of(number, unit) for number in instance_ids}
    held = set(wanted.values())
    titles: dict[int, str] = {}
    if split_unit == "page":
        for batch in read_batches(documents, DOCUMENTS, ["doc_id", "title"]):
            rows = zip(batch["doc_id"].to_pylist(), batch["title"].to_pylist(), strict=True)
            titles.update((number, title) for number, title in rows if number in held)
    return {one: group_key(titles.get(doc) or None, doc) for one, doc in wanted.items()}

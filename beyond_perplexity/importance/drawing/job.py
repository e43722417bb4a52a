"""What a job that draws works on: a block of instances, a model and a proposal."""

from __future__ import annotations

import argparse
import heapq
from collections.abc import Iterable
from itertools import chain, islice
from pkgutil import resolve_name
from typing import Any, NamedTuple

import torch

from beyond_perplexity.errors import InputError
from beyond_perplexity.importance.drawing.draws import Draw
from beyond_perplexity.importance.drawing.pair import Pair, load_pair
from beyond_perplexity.instances.store import CorpusFiles, Instance
from beyond_perplexity.invariance.streams import stream_key
from beyond_perplexity.models.checkpoint import WEIGHTS
from beyond_perplexity.storage.fingerprint import fingerprint
from beyond_perplexity.storage.provenance import run_record
from beyond_perplexity.vocabulary import Vocabulary

UNDETERMINING = ("output", "costs", "threads")  # flags that do not change a number


class Job(NamedTuple):
    """A block of instances, the pair that it is worked on with, and the run record for a footer.

    The instances are those of the corpus, or what the row's ``documents`` makes.
    """

    pair: Pair
    instances: list[Any]
    record: dict[str, object]


def take_instances(instances: Iterable[Instance], places: range, seed: int) -> list[Instance]:
    """Take a block of instances, in an order in which fewer of them are the first of more.

    Parameters
    ----------
    instances : iterable of Instance
        A split; no more than ``places.stop`` of them are held.
    places : range
        In that order. Where the split ends before, the block is short or empty.
    seed : int
        With the instance's id it decides alone on the order, which is random.
    """
    keyed = (
        (stream_key(seed, f"importance/instance/{instance.instance_id}"), place, instance)
        for place, instance in enumerate(instances)
    )
    first = heapq.nsmallest(places.stop, keyed, key=lambda entry: entry[:2])
    return [instance for _, _, instance in first[places.start :]]


def _of_the_corpus(
    given: argparse.Namespace, pair: Pair, words: Vocabulary, places: range
) -> list[Instance]:
    """Take a block of instances of the split that the flags name."""
    split = iter(pair.model.instances(CorpusFiles.of(given.corpus), given.split, words))
    one = list(islice(split, 1))
    if not one:
        raise InputError(
            f"{given.corpus}: the split '{given.split}' has no instance that {given.model} can "
            "read; extraction.json there says how many documents it has"
        )
    return take_instances(chain(one, split), places, given.seed)


def open_job(given: argparse.Namespace, script: str, row: Draw, options: Any) -> Job:
    """Read the models and the block of instances that the flags name.

    Parameters
    ----------
    given : argparse.Namespace
        The flags of `scripts.draw`; all but `UNDETERMINING` go into the record.
    script : str
        The script that runs, for the record.
    row : Draw
    options : instance of the row's dataclass
        Its ``temperature``, if it has one, labels the shard.

    Raises
    ------
    InputError
        See `pair.load_pair`; or when the split has no instances.
    """
    torch.set_num_threads(max(given.threads, 1))
    pair, words = load_pair(given.model, given.proposal, given.device, given.seed, given.name)
    places = range(given.instances[0], sum(given.instances))
    if row.documents:
        taken = resolve_name(row.documents)(pair, places, options, words)
    else:
        taken = _of_the_corpus(given, pair, words, places)
    flags = {key: value for key, value in vars(given).items() if key not in UNDETERMINING}
    weights = f"{given.model}/{WEIGHTS}"
    record = run_record(script, flags, seed=given.seed, device=given.device, checkpoint=weights)
    record["code_fingerprint"] = fingerprint(script, *row.code)
    labels = pair.labels(words, getattr(options, "temperature", None))
    return Job(pair, taken, labels.in_record(record))

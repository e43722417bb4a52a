"""A job that draws: its block of instances, its pair of models, and what each instance cost.

Costs are seconds of one core, or of one GPU. They lie in files of their own, which no estimate is
made of, and differ from run to run.
"""

from __future__ import annotations

import argparse
import heapq
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from pkgutil import resolve_name
from typing import Any, NamedTuple, TypeVar

import torch

from beyond_perplexity.corpus.latent_instances import CorpusFiles, Instance
from beyond_perplexity.errors import InputError
from beyond_perplexity.importance.model_pair import Pair, load_pair
from beyond_perplexity.importance.ways_to_draw import Draw
from beyond_perplexity.models.registry import WEIGHTS
from beyond_perplexity.random_streams import stream_key
from beyond_perplexity.storage.fingerprint import fingerprint
from beyond_perplexity.storage.provenance import run_record
from beyond_perplexity.vocabulary import Vocabulary

_Chunk = TypeVar("_Chunk")


def _gpu_seconds() -> float:
    """Return the time once the GPU has done what it was given."""
    torch.cuda.synchronize()
    return time.perf_counter()


def clock_of(device: torch.device) -> tuple[str, Callable[[], float]]:
    """Return what a second is of, and the clock that counts such seconds.

    On a CPU it is a core: waiting for other processes does not count, and two threads that compute
    for a second are two seconds. On a GPU it is the GPU, from the first of its work to the last.
    """
    return ("GPU", _gpu_seconds) if device.type == "cuda" else ("core", time.process_time)


class Costs:
    """The seconds that were spent on each instance, and what a second is `of`."""

    def __init__(self, device: torch.device) -> None:
        self.of, self._now = clock_of(device)
        self.seconds: dict[int, float] = {}

    def timed(
        self, chunks: Iterable[_Chunk], instance_of: Callable[[_Chunk], int]
    ) -> Iterator[_Chunk]:
        """Pass chunks on; making one is charged to its instance, what its taker does is not."""
        stream, begun = iter(chunks), self._now()
        for chunk in stream:
            instance = instance_of(chunk)
            self.seconds[instance] = self.seconds.get(instance, 0.0) + self._now() - begun
            yield chunk
            begun = self._now()

    def table(self, draw: str, name: str, temperature: float | None) -> dict[str, object]:
        """Return the columns of schema ``draw_costs``; `name` is MODEL/PROPOSAL."""
        model, _, proposal = name.partition("/")
        named = {"draw": draw, "model": model, "proposal": proposal, "temperature": temperature}
        same = {**named, "seconds_of": self.of}
        return {
            "instance_id": list(self.seconds),
            "seconds": list(self.seconds.values()),
            **{column: [value] * len(self.seconds) for column, value in same.items()},
        }


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

    The order is random, decided by the seed and the instance's id alone. No more than `places.stop`
    instances are held; where the split ends before, the block is short or empty.
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
    """Read the models and the block of instances that the flags of `scripts.draw` name.

    All flags but `UNDETERMINING` go into the record; a ``temperature`` among the options labels the
    shard. A split without instances is an `InputError`.
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

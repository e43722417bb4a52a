"""Rooms: where documents wait, grow and are picked up, from their id to the host's copy.

P rooms, S slots that work (S < P), L tokens of a document at most. The host queues ids of free
rooms, in order, and looks only now and then; a slot whose document has ended takes the next room by
itself, on its device, and idles when the queue runs dry. None of this touches a text.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Iterator
from itertools import islice

import numpy as np
import torch
from torch import Tensor

from beyond_perplexity.invariant_tensors import uniforms

_logger = logging.getLogger(__name__)


class Window:
    """The random numbers of the next W steps of every room's document, `width` a step."""

    def __init__(
        self, seed: int, purpose: str, rooms: int, steps: int, width: int, device: torch.device
    ) -> None:
        self._seed, self._purpose, self._width, self._device = seed, purpose, width, device
        self._steps = steps
        # One more than P: slots without a document read the last.
        # (P + 1, W, width)
        self._values = torch.zeros((rooms + 1, steps, width), dtype=torch.float64, device=device)
        self._host_base = np.full(rooms, -steps)  # (P,): step of a window's first numbers
        self._base = torch.zeros(rooms + 1, dtype=torch.int64, device=device)  # (P + 1,)

    def restart(self, rooms: np.ndarray) -> None:
        """Forget the numbers of rooms that get another document."""
        self._host_base[rooms] = -self._steps

    def cover(self, items: np.ndarray, done: np.ndarray, ahead: int) -> None:
        """Make sure that the numbers of `ahead` steps (W at most) after `done`, (P,), are there."""
        stale = np.flatnonzero((items >= 0) & (done + ahead > self._host_base + self._steps))
        if not len(stale):
            return
        starts = torch.from_numpy(items[stale]), torch.from_numpy(done[stale] * self._width)
        count = self._steps * self._width
        fresh = uniforms(self._seed, self._purpose, *starts, count, self._device)  # (N, W * width)
        where = torch.from_numpy(stale).to(self._device)  # (N,)
        self._values[where] = fresh.unflatten(1, (self._steps, self._width))
        self._host_base[stale] = done[stale]
        self._base[:-1].copy_(torch.from_numpy(self._host_base))

    def at(self, rooms: Tensor, steps: Tensor) -> Tensor:
        """Return the numbers of a step of rooms' documents, float64, (S, width); room P is none."""
        inside = (steps - self._base[rooms]).clamp_(0, self._steps - 1)  # (S,)
        return self._values[rooms, inside]


class Rooms:
    """The rooms, and the queue of those whose document has not begun.

    `fields` are what a room keeps, (P + 1, ...) each, the last row scratch for idle slots; `items`,
    int64, (P,), ids of documents, negative where a room is free; `done`, bool, (P + 1,): ended;
    `slot_rooms` and `slot_steps`, int64, (S,): each slot's room and steps when the host last
    looked.
    """

    def __init__(
        self,
        size: int,
        fields: dict[str, Tensor],
        waiting: Iterator[int],
        window: Window,
        device: torch.device,
    ) -> None:
        self.items = np.full(size, -1)
        self.fields, self.window = fields, window
        self.done = torch.zeros(size + 1, dtype=torch.bool, device=device)  # (P + 1,)
        self.slot_rooms = self.slot_steps = np.zeros(0, dtype=np.int64)
        self._waiting = waiting
        self._pending = np.zeros(0, dtype=np.int64)  # the queue, as the host knows it
        self._queue = torch.zeros(size, dtype=torch.int64, device=device)  # (P,)
        self._head = torch.zeros(1, dtype=torch.int64, device=device)  # (1,): next of the queue
        self._tail = torch.zeros(1, dtype=torch.int64, device=device)  # (1,): its length

    @property
    def none(self) -> int:
        """The room of a slot without a document: P."""
        return len(self.items)

    def take(self, wanting: Tensor) -> tuple[Tensor, Tensor]:
        """Give rooms of the queue to slots that want one, without the host, and whether, (S,)."""
        position = self._head + wanting.cumsum(0) - 1  # (S,)
        got = wanting & (position < self._tail)  # (S,)
        rooms = self._queue[position.clamp_(0, self.none - 1)]  # (S,)
        self._head += got.sum()
        return rooms, got

    def look(self, rooms: Tensor, steps: Tensor) -> np.ndarray:
        """Read at once from the device what the host has to know; return rooms to pick up, (N,)."""
        parts = [self._head, rooms, steps, self.done[:-1].long()]
        head, seen, made, done = np.split(
            torch.cat(parts).cpu().numpy(), np.cumsum([1, len(rooms), len(rooms)])
        )
        self._pending = self._pending[head[0] :]
        self.slot_rooms, self.slot_steps = seen, made  # (S,), (S,)
        return np.flatnonzero((done > 0) & (self.items >= 0))

    def clear(self, rooms: np.ndarray) -> None:
        """Free the rooms whose documents were picked up: all that were done."""
        self.items[rooms] = -1
        self.done.zero_()

    def prepare(self, ahead: int) -> None:
        """Allot documents to the free rooms, and draw the numbers of the next `ahead` steps."""
        free = np.flatnonzero(self.items < 0)
        ids = np.fromiter(islice(self._waiting, len(free)), dtype=np.int64)
        taken = free[: len(ids)]
        self.items[taken] = ids
        self.window.restart(free)
        self._pending = np.concatenate([self._pending, taken])
        self._queue[: len(self._pending)].copy_(torch.from_numpy(self._pending))
        self._head.zero_()
        self._tail.fill_(len(self._pending))
        steps = np.zeros(self.none + 1, dtype=np.int64)  # (P + 1,)
        steps[self.slot_rooms] = self.slot_steps
        self.window.cover(self.items, steps[:-1], ahead)


Function = Callable[[], None]


def is_out_of_memory(error: BaseException | None) -> bool:
    """Tell whether an error says that an allocation failed, on a GPU or on the host."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    text = str(error)
    return "can't allocate memory" in text or "out of memory" in text


class CudaRecorder:
    """Records a function without arguments on a GPU; recordings share one pool of memory."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._pool = torch.cuda.graph_pool_handle()
        self._stream = torch.cuda.Stream(device)

    def renew(self) -> None:
        """Take a new pool: one whose recordings are all gone cannot be used again."""
        self._pool = torch.cuda.graph_pool_handle()

    def __call__(self, function: Function) -> Function:
        """Record the work of one call, without doing it; return what does it."""
        graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize(self._device)
        # `torch.cuda.graph` would also empty the caches and collect garbage, for every shape.
        with torch.cuda.device(self._device), torch.cuda.stream(self._stream):
            graph.capture_begin(pool=self._pool)
            try:
                function()
            finally:
                graph.capture_end()
        return graph.replay


class Graphs:
    """Recordings of one function for a number of shapes; without a recorder nothing is recorded.

    A step of a small model is hundreds of kernels that are launched faster from a recording. What
    is recorded must read and write the same tensors every time and not look at values on the host;
    where that is not possible, steps are made one operation at a time, and a line of log says why.
    """

    def __init__(self, recorder: Callable[[Function], Function] | None) -> None:
        self._recorder = recorder
        self._replays: dict[Hashable, Function | None] = {}

    @classmethod
    def on(cls, device: torch.device) -> Graphs:
        """Make the recordings that a device can replay: none but on a GPU."""
        return cls(CudaRecorder(device) if device.type == "cuda" else None)

    @property
    def active(self) -> bool:
        """Steps are recorded: so whatever a step reads and writes must stay where it is."""
        return self._recorder is not None

    def stop(self, reason: object) -> None:
        """Give up recording, and say why."""
        if self.active:
            _logger.warning("steps are made without CUDA graphs, which is slower: %s", reason)
        self._recorder = None
        self._replays.clear()

    def forget(self) -> None:
        """Drop all recordings: the tensors of a step have changed."""
        self._replays.clear()
        renew = getattr(self._recorder, "renew", None)
        if renew is not None:
            renew()

    def run(self, key: Hashable, function: Function) -> None:
        """Do the work of the function once; the first call with a `key`, which distinguishes
        shapes, also lets libraries set themselves up, and the second records it."""
        if self._recorder is None:
            function()
            return
        if key not in self._replays:
            self._replays[key] = None
            function()
            return
        replay = self._replays[key]
        if replay is None:
            try:
                replay = self._replays[key] = self._recorder(function)
            except RuntimeError as error:
                # what ends a failed recording may fail too, and hide why
                if is_out_of_memory(error) or is_out_of_memory(error.__context__):
                    raise
                self.stop(str(error).splitlines()[0])
                function()
                return
        replay()

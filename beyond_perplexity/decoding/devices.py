"""The rows that fit into the memory of a device, and steps that are recorded as CUDA graphs."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Hashable
from pathlib import Path

import torch

from beyond_perplexity.models.contract import LanguageModel
from beyond_perplexity.vocabulary import BOS

_logger = logging.getLogger(__name__)
Function = Callable[[], None]


SHARE = 0.7  # of the free memory: allocators waste some, and other work wants some
VOCABULARY_BYTES = 32  # of a row and id: logits, weights, and what sorting or drawing makes of them


def is_out_of_memory(error: BaseException | None) -> bool:
    """Tell whether an error says that an allocation failed, on a GPU or on the host."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    text = str(error)
    return "can't allocate memory" in text or "out of memory" in text


def _available_on_host() -> int:
    """Return the bytes that the host could still give."""
    try:
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _used_by_process() -> int:
    """Return the resident bytes of this process; 0 where the system does not say."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def free_memory(device: torch.device, memory: int | None = None) -> int:
    """Return the bytes that a GPU or the host has free.

    Of the host at most what is left of `memory`, bytes that this process may hold in all, such as
    a job's limit.
    """
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        cached = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(free + cached)
    available = _available_on_host()
    return available if memory is None else min(available, max(memory - _used_by_process(), 0))


def bytes_per_row(model: LanguageModel, maximum_length: int) -> int:
    """Return about what a row of a batch needs.

    Its state, measured after a step, and its logits.
    """
    with torch.inference_mode():
        first = torch.full((1,), BOS, device=model.device)  # (1,)
        _, state = model.step(first, model.initial_state(1, maximum_length))
    return state.row_bytes() + VOCABULARY_BYTES * model.vocabulary_size


def fitting_rows(
    model: LanguageModel, maximum_length: int, most: int, memory: int | None = None
) -> int:
    """Choose the rows of a batch by the free memory: `most`, halved until they fit."""
    room = SHARE * free_memory(model.device, memory) / bytes_per_row(model, maximum_length)
    rows = most
    while rows > 1 and rows > room:
        rows //= 2
    return rows


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
    """Recordings of one function for a number of shapes.

    Without a recorder nothing is ever recorded. A recorder turns a function into its replay,
    without running it. A step of a small model is hundreds of kernels that are launched faster
    from a recording. What is recorded must read and write the same tensors every time and must
    not look at values on the host. Where that is not possible, the steps are made one operation
    at a time, and one line of log says why.
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
        """Do the work of the function once.

        `key` tells shapes apart, the function is the same for the same. The first call with a key
        runs it, which also lets libraries set themselves up; the second records it.
        """
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

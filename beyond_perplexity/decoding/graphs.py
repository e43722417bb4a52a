"""Steps of fixed shapes, recorded once as CUDA graphs and replayed without Python.

A step of a small model is hundreds of kernels that are launched faster from a recording. What is
recorded must read and write the same tensors every time and must not look at values on the host.
Where recording is not possible, the steps are made one operation at a time, and one line of log
says why.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable

import torch

from beyond_perplexity.decoding.memory import is_out_of_memory

_logger = logging.getLogger(__name__)

Function = Callable[[], None]


class CudaRecorder:
    """Records a function without arguments; recordings share one pool of memory.

    Parameters
    ----------
    device : torch.device
        The GPU that the work is done on.
    """

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

    Parameters
    ----------
    recorder : callable or None
        Turns a function into its replay, without running it; None: nothing is ever recorded.
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

        Parameters
        ----------
        key : hashable
            Tells shapes apart. The first call with a key runs the function, which also lets
            libraries set themselves up; the second records it.
        function : callable
            The same for the same key.

        Raises
        ------
        RuntimeError
            What the function raises; when it is recorded, only want of memory.
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

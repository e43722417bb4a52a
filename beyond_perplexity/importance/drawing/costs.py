"""What draws cost: seconds of one core (or of one GPU) for each instance.

Costs are benchmarks: they lie in files of their own, which no estimate is made of, and differ from
run to run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import torch

_Chunk = TypeVar("_Chunk")


def _core_seconds() -> float:
    """Return the seconds that all threads of this process have computed."""
    return time.process_time()


def _gpu_seconds() -> float:
    """Return the time once the GPU has done what it was given."""
    torch.cuda.synchronize()
    return time.perf_counter()


def clock_of(device: torch.device) -> tuple[str, Callable[[], float]]:
    """Return what a second is of, and the clock that counts such seconds.

    On a CPU it is a core: waiting for other processes does not count, and two threads that compute
    for a second are two seconds. On a GPU it is the GPU, from the first of its work to the last.
    """
    return ("GPU", _gpu_seconds) if device.type == "cuda" else ("core", _core_seconds)


class Costs:
    """The seconds that were spent on each instance.

    Parameters
    ----------
    device : torch.device
        Where the models are.

    Attributes
    ----------
    of : str
        What a second is of.
    seconds : dict of int to float
        By the instance.
    """

    def __init__(self, device: torch.device) -> None:
        self.of, self._now = clock_of(device)
        self.seconds: dict[int, float] = {}

    def timed(
        self, chunks: Iterable[_Chunk], instance_of: Callable[[_Chunk], int]
    ) -> Iterator[_Chunk]:
        """Pass chunks on; what is done to make one is charged to its instance.

        What the taker does with them does not count.

        Parameters
        ----------
        chunks : iterable
            Made when they are asked for.
        instance_of : function
            Of a chunk to its instance.
        """
        stream, begun = iter(chunks), self._now()
        for chunk in stream:
            instance = instance_of(chunk)
            self.seconds[instance] = self.seconds.get(instance, 0.0) + self._now() - begun
            yield chunk
            begun = self._now()

    def table(self, draw: str, name: str, temperature: float | None) -> dict[str, object]:
        """Return the columns of schema ``draw_costs``.

        Parameters
        ----------
        draw : str
            The way to draw.
        name : str
            MODEL/PROPOSAL.
        temperature : float or None
            τ of the job, where it has one.
        """
        model, _, proposal = name.partition("/")
        named = {"draw": draw, "model": model, "proposal": proposal, "temperature": temperature}
        same = {**named, "seconds_of": self.of}
        return {
            "instance_id": list(self.seconds),
            "seconds": list(self.seconds.values()),
            **{column: [value] * len(self.seconds) for column, value in same.items()},
        }

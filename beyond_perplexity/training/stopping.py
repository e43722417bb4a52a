"""How a training is asked to stop by a signal, and stops: after a step, with a checkpoint."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import NoReturn

from beyond_perplexity.errors import Stopped
from beyond_perplexity.foreign_text import remark

# Ctrl-C; the end of a job that is preempted, cancelled or out of time; what SLURM's --signal=USR1
# sends ahead of that end.
STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)


class StopRequest:
    """Whether the process was asked to stop; noted, so that no step is cut in the middle."""

    def __init__(self) -> None:
        self._signal: int | None = None

    @property
    def asked(self) -> bool:
        """Whether a signal has come."""
        return self._signal is not None

    def listen(self) -> None:
        """Take the signals of `STOPPING` from whoever has them; only the main thread can."""
        if threading.current_thread() is threading.main_thread():
            for number in STOPPING:
                signal.signal(number, self._note)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGINT and self.asked:  # Ctrl-C a second time: now
            raise KeyboardInterrupt
        self._signal = self._signal or number

    def leave(self, step: int) -> NoReturn:
        """End the process with the status of the signal: 130, 143 or 138.

        Parameters
        ----------
        step : int
            Of the checkpoint that was written.
        """
        assert self._signal is not None
        with contextlib.suppress(OSError):  # who read the log may have been ended first
            remark(f"step {step:,} is kept: the same command goes on from there")
        raise Stopped(128 + self._signal)


@contextlib.contextmanager
def handlers_kept() -> Iterator[None]:
    """Put the handlers of `STOPPING` back at the end."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in STOPPING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)

"""The number of torch's threads, for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def set_one_thread() -> Iterator[None]:
    """Compute in one thread, and put the number of threads back at the end."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)

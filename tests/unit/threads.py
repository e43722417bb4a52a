"""The number of torch's threads, for a while."""

from contextlib import contextmanager

import torch


@contextmanager
def set_threads(count):
    """Compute in so many threads, and put the number of threads back at the end."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)

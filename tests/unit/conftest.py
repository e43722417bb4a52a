"""Fixtures of several test modules."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
import torch

from tests.unit.threads import set_one_thread


@pytest.fixture(scope="session", autouse=True)
def share_cores() -> None:
    """Give tests side by side a thread each: more would wait for each other."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        torch.set_num_threads(1)


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Small tensors gain nothing from threads."""
    with set_one_thread():
        yield

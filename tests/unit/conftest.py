"""Fixtures of several test modules."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.threads import set_one_thread


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Small tensors gain nothing from threads."""
    with set_one_thread():
        yield

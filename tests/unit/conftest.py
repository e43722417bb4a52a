"""Fixtures of several test modules."""

import gc
import os
from contextlib import nullcontext

import pytest

from beyond_perplexity.storage.provenance import forget_reads
from tests.unit.threads import set_threads


@pytest.fixture(scope="session", autouse=True)
def share_cores():
    """Give tests side by side a thread each: more would wait for each other."""
    with set_threads(1) if "PYTEST_XDIST_WORKER" in os.environ else nullcontext():
        yield


@pytest.fixture(scope="session", autouse=True)
def collect_less():
    """Look for garbage among what tests make, not in a million objects of imported libraries."""
    gc.freeze()
    gc.set_threshold(10_000, 50, 100)


@pytest.fixture(autouse=True)
def own_reads():
    """Keep what one test reads out of the footers that the next one writes."""
    forget_reads()


@pytest.fixture(autouse=True)
def own_environment():
    """Keep the variables that a command sets for its jobs out of the tests after it."""
    before = dict(os.environ)
    yield
    for name in {*before, *os.environ} - {"PYTEST_CURRENT_TEST"}:
        if name not in before:
            del os.environ[name]
        elif os.environ.get(name) != before[name]:
            os.environ[name] = before[name]


@pytest.fixture
def one_thread():
    """Small tensors gain nothing from threads."""
    with set_threads(1):
        yield


@pytest.fixture(scope="session")
def treebank(tmp_path_factory):
    """Write the tiny treebank of `rnng_corpus`, once; nobody changes it."""
    from tests.unit.rnng_corpus import write_corpus

    return write_corpus(tmp_path_factory.mktemp("trees"))

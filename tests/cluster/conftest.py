"""A SLURM that runs while the tests of this folder do; without one they are skipped."""

import pytest

from tests.cluster.slurm import reason_to_skip, running_cluster


@pytest.fixture(scope="session")
def cluster():
    """Start a cluster of one node with two pretended GPUs."""
    if reason := reason_to_skip():
        pytest.skip(reason)
    with running_cluster() as started:
        yield started

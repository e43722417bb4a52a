"""The samples of one instance, as estimators take them."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, NamedTuple

import numpy as np


class WeightedSamples(NamedTuple):
    """The samples of one instance at one temperature, in the order of their ids.

    Attributes
    ----------
    log_p, log_q : ndarray, shape (K,), float64
        log p(x, z) and log q(z | x), nats.
    log_q_grid : ndarray, shape (K, J), float64
        log q at each temperature of the reader; J = 0 when not every file has them.
    latent_hash : ndarray, shape (K,), int64, or None
        Equal for equal latents.
    """

    log_p: np.ndarray
    log_q: np.ndarray
    log_q_grid: np.ndarray
    latent_hash: np.ndarray | None

    @property
    def log_weights(self) -> np.ndarray:
        """Log p − log q, shape (K,)."""
        return self.log_p - self.log_q


class SampledInstance(NamedTuple):
    """One instance with its samples at each temperature of the reader.

    Attributes
    ----------
    position : int
        Its place among the reader's instances.
    instance_id : int
    samples : tuple of WeightedSamples
        One for each temperature.
    estimates : dict
        What estimators have found of it, by what they are: several may be made of one.
    """

    position: int
    instance_id: int
    samples: tuple[WeightedSamples, ...]
    estimates: dict[Hashable, Any]

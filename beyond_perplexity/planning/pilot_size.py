"""How small a pilot is; see `planning.pilot`."""

from __future__ import annotations

from typing import NamedTuple


class PilotSize(NamedTuple):
    """How small a pilot is.

    Attributes
    ----------
    documents : int
        Documents, or sentences, of its smaller shards; the others have 15 times as many.
    instances : int
        Instances that latents are drawn for; the larger shards have three times as many.
    samples : int
        Samples of each instance, at most.
    steps : int
        Steps that models which are not there yet are trained for.
    """

    documents: int = 16
    instances: int = 2
    samples: int = 50
    steps: int = 20

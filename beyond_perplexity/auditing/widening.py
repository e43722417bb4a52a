"""A model of 16 bits that calculates in 32 for a while, with the same weights."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

_NARROW = (torch.bfloat16, torch.float16)


def is_narrow(model: nn.Module) -> bool:
    """Say whether some number of a model is of 16 bits."""
    return bool(_narrow_parts(model))


@contextmanager
def in_float32(model: nn.Module) -> Iterator[None]:
    """Turn what is bfloat16 or float16 in a model into float32, and back at the end.

    Both ways are exact: every number of 16 bits is one of 32. The model itself is turned, a tensor
    at a time, and not a copy: it takes twice the memory of its 16-bit weights.

    Parameters
    ----------
    model : Module
    """
    held = [(part, part.dtype) for part in _narrow_parts(model)]
    try:
        for part, _ in held:
            part.data = part.data.float()
        yield
    finally:
        for part, kind in held:
            part.data = part.data.to(kind)


def _narrow_parts(model: nn.Module) -> list[Tensor]:
    """Return parameters and buffers of 16 bits; one that is shared comes once."""
    parts = [*model.parameters(), *model.buffers()]
    return [part for part in parts if part.dtype in _NARROW]

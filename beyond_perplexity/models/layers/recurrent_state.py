"""What recurrent layers remember of prefixes.

B rows, H width, L layers.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from beyond_perplexity.models.contract import State


@dataclass(frozen=True)
class RecurrentState(State):
    """The memory of B prefixes: tensors (L, B, H), one or more as the cell has it."""

    memory: tuple[Tensor, ...]

    def select(self, rows: Tensor) -> RecurrentState:
        """Return the state whose row i is row ``rows[i]`` of this one."""
        return RecurrentState(tuple(part.index_select(1, rows) for part in self.memory))

    def reset(self, rows: Tensor) -> RecurrentState:
        """Return the state with the given rows put back to the empty prefix."""
        return RecurrentState(tuple(part.index_fill(1, rows, 0) for part in self.memory))

    def restart(self, mask: Tensor) -> RecurrentState:
        """Put the rows of a mask (B,) back to the empty prefix, in place."""
        for part in self.memory:
            part.masked_fill_(mask[:, None], 0)
        return self

    def tensors(self) -> tuple[Tensor, ...]:
        """Return the memory."""
        return self.memory

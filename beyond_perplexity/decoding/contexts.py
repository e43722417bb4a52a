"""The distributions of all contexts of a counted model, sparse: what a truncation works on.

C contexts, N entries (continuations that were seen); the entries of a context stand together.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass
class Contexts:
    """Unnormalized probabilities of the entries.

    Attributes
    ----------
    weight : Tensor
        float64, (N,); in the order of the inverse CDF of ancestral sampling.
    owner : Tensor
        int64, (N,): the context of each entry, rising.
    offsets : Tensor
        int64, (C + 1,): where the entries of each context begin.
    """

    weight: Tensor
    owner: Tensor
    offsets: Tensor

    def __post_init__(self) -> None:
        self.total = self.sums(self.weight)  # (C,)

    def sums(self, values: Tensor) -> Tensor:
        """Sum the entries of each context, float64: (N,) to (C,)."""
        cumulative = torch.nn.functional.pad(values.cumsum(0), (1, 0))  # (N + 1,)
        return cumulative[self.offsets].diff()

    def largest(self) -> Tensor:
        """Return the largest weight of each context: (C,)."""
        return torch.zeros_like(self.total).scatter_reduce_(0, self.owner, self.weight, "amax")

    def places(self) -> Tensor:
        """Return the place of each entry in its context: int64, (N,)."""
        return torch.arange(len(self.owner), device=self.owner.device) - self.offsets[self.owner]

    def ranking(self, score: Tensor) -> Tensor:
        """Order entries by context, then by falling score (N,), then by id: int64, (N,)."""
        by_score = score.argsort(descending=True, stable=True)  # (N,)
        return by_score[self.owner[by_score].argsort(stable=True)]

    def keep_to_mass(self, score: Tensor, mass: float) -> tuple[Tensor, Tensor]:
        """Keep the first entries by falling score (N,) that reach a share of their context.

        Returns
        -------
        order : Tensor
            int64, (N,): the ranking.
        kept : Tensor
            bool, (N,), in this order.
        """
        order = self.ranking(score)  # (N,)
        weight = self.weight[order]  # (N,)
        before = weight.cumsum(0) - weight  # (N,)
        before = before - before[self.offsets[:-1]][self.owner]  # (N,)
        return order, before < self.total[self.owner] * mass

"""Average linkage: which things are alike, as a tree."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Merge(NamedTuple):
    """Two clusters become one, at the mean distance of the leaves of one to those of the other.

    The leaves are 0 to n − 1, the cluster of merge k is n + k; that which holds the leaf with the
    lowest number comes first.
    """

    first: int
    second: int
    height: float


def average_linkage(distances: np.ndarray) -> list[Merge]:
    """Cluster by the mean distance of leaves, symmetric of shape (n, n) (Sokal, Michener 1958).

    Merges are from the nearest on; of equal distances that of the lower leaves is first.
    """
    members = {leaf: [leaf] for leaf in range(len(distances))}
    merges: list[Merge] = []
    while len(members) > 1:
        names = sorted(members, key=lambda name: members[name])
        pairs = [(one, two) for place, one in enumerate(names) for two in names[place + 1 :]]
        heights = [float(distances[np.ix_(members[a], members[b])].mean()) for a, b in pairs]
        nearest = int(np.argmin(heights))
        first, second = pairs[nearest]
        merges.append(Merge(first, second, heights[nearest]))
        joined = members.pop(first) + members.pop(second)
        members[len(distances) + len(merges) - 1] = joined
    return merges


def leaf_order(merges: list[Merge], leaves: int) -> list[int]:
    """Return the leaves as they stand in the tree, so that no two branches cross."""
    members = {leaf: [leaf] for leaf in range(leaves)}
    for place, merge in enumerate(merges):
        members[leaves + place] = members.pop(merge.first) + members.pop(merge.second)
    return [leaf for held in members.values() for leaf in held]

"""The kernel that documents are compared by: Gaussian, of the distance of their vectors.

k(x, y) = exp(-|x - y|^2 / (2 b^2)), with b the median distance of two different documents of a
text. Where that text is further human text, or both texts pooled, b does not know which document is
of which text: exchanging them leaves it as it is, and a randomization test stays exact.
N documents, D numbers of a vector.
"""

from __future__ import annotations

import numpy as np

_EQUAL = 1e-6  # vectors closer than this, relative to their size, are the same in 32 bits


def squared_distances(vectors: np.ndarray) -> np.ndarray:
    """Return the squared Euclidean distances of all pairs of rows (N, D): float64, (N, N)."""
    centred = vectors.astype(np.float64)
    centred -= centred.mean(axis=0)
    norms = np.einsum("nd,nd->n", centred, centred)
    found = centred @ centred.T
    found *= -2
    found += norms[:, None]
    found += norms
    found[found < _EQUAL**2 * max(float(norms.max(initial=0)), 1.0)] = 0.0
    np.fill_diagonal(found, 0.0)
    return found


def median_distance(vectors: np.ndarray) -> float:
    """Return the bandwidth b: the median distance of two documents with different vectors.

    Parameters
    ----------
    vectors : numpy.ndarray of float32, shape (N, D)
        Of the documents in any order: the result does not depend on it.

    Returns
    -------
    float
        In the unit of the vectors; 1 where no two differ, so that any b gives the same kernel.
    """
    distances = squared_distances(vectors)
    pairs = distances[np.triu_indices(len(distances), 1)]
    different = pairs[pairs > 0]
    return float(np.sqrt(np.median(different))) if len(different) else 1.0


def gaussian_kernel(vectors: np.ndarray, bandwidth: float) -> np.ndarray:
    """Compute the kernel of all pairs of documents.

    Parameters
    ----------
    vectors : numpy.ndarray of float32, shape (N, D)
        Of the documents.
    bandwidth : float
        b, above 0.

    Returns
    -------
    numpy.ndarray of float64, shape (N, N)
        From 0 to 1; 1 for a document with itself.
    """
    kernel = squared_distances(vectors)
    kernel *= -0.5 / bandwidth**2
    result: np.ndarray = np.exp(kernel, out=kernel)
    return result

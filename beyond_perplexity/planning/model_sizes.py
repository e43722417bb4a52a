"""How many weights a model has, counted from its configuration alone, without a tensor.

Which weights there are follows from the names of the options, whatever the family: a width and a
size of the feed-forward part are a layer of attention, a size of kernels one of convolutions, a
size of states one of recurrence. A test counts the models that are really built.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from beyond_perplexity.models.families import FAMILIES
from beyond_perplexity.planning.defaults import with_defaults
from beyond_perplexity.planning.models import Models

ASSUMED_WORDS = 100_000  # of a closed vocabulary without a limit, which is known when it is built
ASSUMED_BYTES = 2_000_000_000  # of a model that is brought by a name, not in a folder
_GATES = 4  # of an LSTM; cells with fewer are taken for one

Options = Mapping[str, Any]


def vocabulary_limit(options: Options) -> int:
    """Return the most ids that a vocabulary may have; `ASSUMED_WORDS` where nothing limits it."""
    return int(options.get("size") or options.get("maximum_size") or ASSUMED_WORDS)


def count_weights(architecture: Options, vocabulary: int) -> int:
    """Count the weights of a neural model.

    Parameters
    ----------
    architecture : mapping
        Options of its family, with all defaults.
    vocabulary : int
        V, its ids.

    Returns
    -------
    int
        Of matrices alone: biases and norms are a thousandth of them.
    """
    given = architecture
    size = given.get("size") or 0
    hidden = given.get("hidden_size") or given.get("width") or size
    embedding = given.get("embedding_size") or given.get("width") or size
    layers = given.get("layers") or 1
    inner = _layer({**given, "bottleneck": None}, embedding, hidden)
    inner += (layers - 1) * _layer(given, hidden, hidden)
    if "cutoffs" in given:
        return inner + _bands(given, hidden, vocabulary)
    ends = embedding * vocabulary
    ends += hidden * embedding if given.get("tie_weights") else hidden * vocabulary
    return int(inner + ends)


def _layer(given: Options, width_in: int, width: int) -> int:
    """Count the weights of a layer from `width_in` to `width`."""
    if given.get("feedforward_size"):
        return 4 * width * width + 2 * width * int(given["feedforward_size"])
    if given.get("kernel_size"):
        kernel, narrow = int(given["kernel_size"]), given.get("bottleneck")
        if narrow:
            return int(2 * narrow * (width_in + kernel * narrow + width))
        return 2 * kernel * width_in * width
    return _GATES * (width_in + width) * width


def _bands(given: Options, width: int, vocabulary: int) -> int:
    """Count the vectors of a vocabulary whose rare ids have narrower ones, and what widens them."""
    ends = [0.0, *given["cutoffs"], 1.0]
    total = 0.0
    for band in range(len(ends) - 1):
        narrow = max(1, width // given["reduction"] ** band)
        total += (ends[band + 1] - ends[band]) * vocabulary * narrow + narrow * width
    return int(total * (1 if given.get("tie_weights", True) else 2))


class ModelSizes:
    """How large the models of a run are.

    Parameters
    ----------
    models : Models
        The models and proposals of the run.
    """

    def __init__(self, models: Models) -> None:
        self._models = models
        self._found: dict[str, int] = {}

    def weights(self, name: str) -> int:
        """Return the number of weights of a model or proposal; 0 of one that only counts words.

        Of one that is brought, a weight for every four bytes of its files.
        """
        if name not in self._found:
            self._found[name] = self._count(name)
        return self._found[name]

    def _count(self, name: str) -> int:
        model = self._models.find(name)
        row = FAMILIES[model["family"]]
        if row.kind == "counted" or row.reference is None:
            return 0
        if row.kind == "brought":
            files = [file for file in self._models.brought_files(name) if "safetensors" in file]
            held = sum(Path(file).stat().st_size for file in files)
            return (held or ASSUMED_BYTES) // 4
        architecture = with_defaults(f"architecture-{model['family']}", model["architecture"])
        limit = vocabulary_limit(self._models.config["vocabularies"][model["vocabulary"]])
        return count_weights(architecture, limit)

    def training(self, name: str) -> dict[str, Any]:
        """Return the options of a model's training with all defaults."""
        model = self._models.find(name)
        kind = FAMILIES[model["family"]].training.rpartition(":")[2]
        return with_defaults(kind, model["training"] or {})

"""What a file of log weights is about, as its footer says."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import pyarrow.parquet as pq

from beyond_perplexity.errors import InputError
from beyond_perplexity.options import parse_options
from beyond_perplexity.shards import RECORD_KEY

KEY = "weights"


@dataclass(frozen=True)
class Labels:
    """What the samples of a file are.

    Attributes
    ----------
    model : str or None
        The model p.
    proposal : str or None
        The proposal q.
    temperature : float or None
        The temperature that the samples were drawn at; None for beams, or when nobody said.
    t_definition : str or None
        What ``n_tokens`` counts, e.g. ``"words and </s>"``.
    unknown_types : int or None
        Word types of the training text that are not in the vocabulary and so read ``<unk>``.
    """

    model: str | None = None
    proposal: str | None = None
    temperature: float | None = None
    t_definition: str | None = None
    unknown_types: int | None = None

    def __post_init__(self) -> None:
        if self.temperature is not None and not self.temperature > 0:
            raise ValueError(f"temperature: is {self.temperature}, expected above 0")
        if self.unknown_types is not None and self.unknown_types < 0:
            raise ValueError(f"unknown_types: is {self.unknown_types}, expected at least 0")

    def in_record(self, record: Mapping[str, object]) -> dict[str, object]:
        """Return the run record with these labels in it, for the footer of a shard."""
        return {**record, KEY: asdict(self)}

    def overridden(self, other: Labels) -> Labels:
        """Return these labels with those that `other` gives in their place."""
        given = {name: value for name, value in asdict(other).items() if value is not None}
        return replace(self, **given)


def read_labels(path: Path) -> Labels:
    """Read the labels in the footer of a Parquet file; a file of others has none.

    Raises
    ------
    InputError
        When the file is no Parquet file or its labels are not such.
    """
    try:
        metadata = pq.read_metadata(path).metadata or {}
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: not a readable Parquet file ({error})") from error
    if RECORD_KEY not in metadata:
        return Labels()
    record = json.loads(metadata[RECORD_KEY])
    return parse_options(Labels, record.get(KEY, {}), f"{path}: {KEY}")

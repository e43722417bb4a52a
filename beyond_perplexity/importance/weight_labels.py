"""What a file of log weights is about, as its footer or columns of its own say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from beyond_perplexity.errors import InputError
from beyond_perplexity.options import Limited, Natural, Positive, parse_options
from beyond_perplexity.storage.shards import RECORD_KEY, ParquetInput, parse_record
from beyond_perplexity.storage.table_files import TableFile, is_csv

LABELS_KEY = "weights"
# Columns that may stand in for a footer, which a CSV file has not.
LABEL_COLUMNS = {"model": pa.string(), "proposal": pa.string(), "temperature": pa.float64()}


@dataclass(frozen=True)
class WeightLabels(Limited):
    """What the samples of a file are: of which p and q, drawn at which temperature.

    The temperature is None for beams, or when nobody said. ``t_definition`` says what ``n_tokens``
    counts, e.g. ``"words and </s>"``; ``unknown_types`` are the word types of the training text
    that are not in the vocabulary and so read ``<unk>``.
    """

    model: str | None = None
    proposal: str | None = None
    temperature: Positive | None = None
    t_definition: str | None = None
    unknown_types: Natural | None = None

    def in_record(self, record: Mapping[str, object]) -> dict[str, object]:
        """Return the run record with these labels in it, for the footer of a shard."""
        return {**record, LABELS_KEY: asdict(self)}

    def overridden(self, other: WeightLabels) -> WeightLabels:
        """Return these labels with those that `other` gives in their place."""
        given = {name: value for name, value in asdict(other).items() if value is not None}
        return replace(self, **given)


def _record(path: Path) -> dict[str, object]:
    """Return the run record in the footer of a Parquet file; a file of others has none."""
    with ParquetInput(path) as file:
        metadata = file.metadata.metadata or {}
    return parse_record(path, metadata.get(RECORD_KEY, b"{}"))


def is_of_a_run(path: Path) -> bool:
    """Tell whether a file was drawn by this package, which checks the pair of models."""
    return not is_csv(path) and LABELS_KEY in _record(path)


def read_labels(path: Path) -> WeightLabels:
    """Read the labels in the footer of a Parquet file; a CSV file, or one of others, has none."""
    held = {} if is_csv(path) else _record(path).get(LABELS_KEY, {})
    return parse_options(WeightLabels, held, f"{path}: {LABELS_KEY}")


def _column_values(file: TableFile) -> dict[str, object]:
    """Return the one value of each column of `LABEL_COLUMNS` that a file has."""
    kinds = {name: kind for name, kind in LABEL_COLUMNS.items() if name in file.names}
    names = list(kinds)
    found: dict[str, object] = {}

    def shown(value: object) -> str:
        return "missing" if value is None else repr(value)

    first = 0
    try:
        for batch in file.columns(kinds) if names else ():
            for name in names:
                values = batch.column(name).cast(LABEL_COLUMNS[name])
                if name == "temperature":  # pandas writes NaN for what is missing
                    values = pc.if_else(pc.is_nan(values), pa.scalar(None, values.type), values)
                for value in values.unique().to_pylist():
                    if value == found.setdefault(name, value):
                        continue
                    row = first + values.to_pylist().index(value)
                    raise InputError(
                        f"{file.place(row)}: {name} is {shown(value)}, but {shown(found[name])} "
                        f"in the first row; give the samples of each {name} in a file of their own"
                    )
            first += batch.num_rows
    except (OSError, pa.ArrowException) as error:
        raise InputError(
            f"{file.path}: columns {', '.join(names)} cannot be read ({error})"
        ) from error
    return {name: value for name, value in found.items() if value is not None}


def file_labels(file: TableFile) -> WeightLabels:
    """Read the labels of a file of log weights: its footer, and its columns `LABEL_COLUMNS`."""
    footer = read_labels(file.path)
    columns = _column_values(file)
    for name, value in columns.items():
        said = getattr(footer, name)
        if said not in (None, value):
            raise InputError(
                f"{file.path}: column '{name}' says {value!r}, but the footer {said!r}; "
                "correct the column or leave it out"
            )
    return footer.overridden(parse_options(WeightLabels, columns, f"{file.path}: its columns"))

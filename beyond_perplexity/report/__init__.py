"""Tables and pages for a reader.

`TABLES` names every table with what it is made of and the function that makes it; `tabulate` makes
a table by its name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from beyond_perplexity.errors import InputError

if TYPE_CHECKING:
    from beyond_perplexity.figures.labels import Labels
    from beyond_perplexity.report.layout import Table


class TableEntry(NamedTuple):
    """What a table is made of, and where.

    Attributes
    ----------
    inputs : tuple of str
        Keys of `inputs.READERS`. What they read is given to the function by these names.
    module, function : str
        The function takes the inputs and ``labels``, and returns a `layout.Table`.
    optional : tuple of str
        Inputs that may have no file.
    """

    inputs: tuple[str, ...]
    module: str
    function: str
    optional: tuple[str, ...] = ()

    @property
    def path(self) -> str:
        """The source file of the function, relative to the repository."""
        return f"beyond_perplexity/report/{self.module}.py"


_MODELS = ("models", "perplexities")
TABLES: dict[str, TableEntry] = {
    "table_1": TableEntry(_MODELS, "tables", "model_table", optional=_MODELS),
    "table_2": TableEntry(("measures",), "tables", "table_2"),
    "table_3": TableEntry(("measures",), "tables", "table_3"),
    "table_4": TableEntry(("measures", "resamples"), "tables", "reference_table", ("resamples",)),
    "table_5": TableEntry(("measures",), "tables", "table_5"),
    "table_6": TableEntry(("measures",), "tables", "table_6"),
    "sensitivity": TableEntry(("sensitivity",), "sensitivity", "sensitivity_table"),
}


def tabulate(name: str, paths: Mapping[str, Sequence[str]], labels: Labels) -> Table:
    """Make a table.

    Parameters
    ----------
    name : str
        A key of `TABLES`.
    paths : dict of str to sequence of str
        The files of every input.
    labels : Labels
        Names and order of models and decodings.

    Raises
    ------
    InputError
        When there is no such table, or an input is missing or not what it should be.
    """
    from beyond_perplexity.report.inputs import READERS

    if name not in TABLES:
        raise InputError(f"there is no table '{name}'; the tables are {', '.join(TABLES)}")
    entry = TABLES[name]
    for missing in entry.inputs:
        if missing not in entry.optional and not paths[missing]:
            raise InputError(f"{name} needs --{missing}")
    read = {key: READERS[key].read(paths[key]) for key in entry.inputs}
    module = import_module(f"beyond_perplexity.report.{entry.module}")
    table: Table = getattr(module, entry.function)(**read, labels=labels)
    return table

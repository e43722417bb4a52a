"""What there is to know of a table or a figure, and making it by its name."""

from __future__ import annotations

from collections.abc import Mapping
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, NamedTuple

from beyond_perplexity.errors import InputError
from beyond_perplexity.figures.titles import with_titles

if TYPE_CHECKING:
    from beyond_perplexity.figures.labels import Labels


class Exhibit(NamedTuple):
    """A table or a figure of a paper.

    Attributes
    ----------
    code : str
        ``module:function`` in the package. The function takes what the inputs hold, in their order,
        then the `Labels`, and returns a `report.layout.Table` or a matplotlib figure.
    inputs : tuple of str
        Kinds of files that it is made of, keys of `report.INPUTS`.
    title, caption : str
        What the report says of it, as reStructuredText.
    optional : tuple of str
        Inputs that may have no file. Where another one has none, there is nothing to show.
    published : str
        What the report says besides where published values are shown.
    """

    code: str
    inputs: tuple[str, ...]
    title: str
    caption: str
    optional: tuple[str, ...] = ()
    published: str = ""

    @property
    def path(self) -> str:
        """The source file of the function, relative to the repository."""
        return f"beyond_perplexity/{self.code.partition(':')[0].replace('.', '/')}.py"


def make_exhibit(
    kind: str, rows: Mapping[str, Exhibit], name: str, given: Mapping[str, Any], labels: Labels
) -> Any:
    """Make a table or a figure by its name, a key of `rows`; `kind` is for the message."""
    if name not in rows:
        raise InputError(f"there is no {kind} '{name}'; choose one of {', '.join(rows)}")
    make = resolve_name(f"beyond_perplexity.{rows[name].code}")
    shown, named = with_titles(given, labels)
    return make(*(shown[kind] for kind in rows[name].inputs), named)

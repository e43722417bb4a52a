"""Signatures in the reference: those that functions have, and values in place of defaults."""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import Any

from griffe import (
    Class,
    Docstring,
    DocstringSectionKind,
    Extension,
    Function,
    Module,
    Parameter,
    ParameterKind,
    Parameters,
)
from reference import CONTRACTS

_SHOWN = ("beyond_perplexity.library", *(module for _, module in CONTRACTS))


class Defaults(Extension):
    """Resolves defaults of what the reference shows, also of parameters described together."""

    def on_package(self, *, pkg: Module, **_: Any) -> None:
        """Take the defaults of functions from the functions themselves."""
        for name in _SHOWN:
            _settle(pkg[name.partition(".")[2]])


def _settle(part: Module | Class) -> None:
    for member in part.members.values():
        if isinstance(member, Function):
            _resolve(member)
        elif isinstance(member, Module | Class):
            _settle(member)


def _resolve(function: Function) -> None:
    """Give parameters, and the table that describes them, the defaults that they have."""
    found = _found(function)
    parameters = inspect.signature(found).parameters.values()
    if hasattr(found, "__signature__"):  # made of an option set
        kinds = {one.kind: ParameterKind(one.kind.description) for one in parameters}
        shown = [
            Parameter(one.name, annotation=one.annotation, kind=kinds[one.kind])
            for one in parameters
        ]
        function.parameters = Parameters(*shown)
        function.docstring = Docstring(inspect.getdoc(found) or "", parent=function, parser="numpy")
    empty = inspect.Parameter.empty
    held = {one.name: repr(one.default) for one in parameters if one.default is not empty}
    for parameter in function.parameters:
        if parameter.name in held:
            parameter.default = held[parameter.name]
    for section in function.docstring.parsed if function.docstring else ():
        if section.kind is DocstringSectionKind.parameters:
            for row in section.value:
                row.value = held.get(row.name)


def _found(function: Function) -> Any:
    """Return the function itself."""
    found: Any = import_module(function.module.path)
    for name in function.path.removeprefix(f"{function.module.path}.").split("."):
        found = inspect.getattr_static(found, name)
    return getattr(found, "__func__", found)  # of a class method

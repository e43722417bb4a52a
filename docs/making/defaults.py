"""What stands in place of an omitted argument, in the reference: the value, not the code for it."""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import Any

from griffe import Class, DocstringSectionKind, Extension, Function, Module
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
    held = _defaults(function)
    for parameter in function.parameters:
        if parameter.name in held:
            parameter.default = held[parameter.name]
    for section in function.docstring.parsed if function.docstring else ():
        if section.kind is DocstringSectionKind.parameters:
            for row in section.value:
                row.value = held.get(row.name)


def _defaults(function: Function) -> dict[str, str]:
    found: Any = import_module(function.module.path)
    for name in function.path.removeprefix(f"{function.module.path}.").split("."):
        found = inspect.getattr_static(found, name)
    found = getattr(found, "__func__", found)  # of a class method
    parameters = inspect.signature(found).parameters.values()
    empty = inspect.Parameter.empty
    return {one.name: repr(one.default) for one in parameters if one.default is not empty}

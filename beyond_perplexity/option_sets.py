"""Option sets: a dataclass whose fields make flags, a signature, its documentation and checks.

A function of the library takes one such object; its command has a flag for each field.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Collection, Mapping
from dataclasses import MISSING, Field, field, fields
from numbers import Integral
from typing import Any

from beyond_perplexity.arguments import output_folder, output_path, whole
from beyond_perplexity.errors import InputError
from beyond_perplexity.options import LARGEST_NUMBER

WRITERS = {"file": output_path, "folder": output_folder}


def option(
    default: Any,
    words: str,
    hint: str,
    *,
    more: str = "",
    least: int | None = None,
    most: int = LARGEST_NUMBER,
    choices: Collection[str] = (),
    writes: str = "",
    positional: bool = False,
    **flag: Any,
) -> Any:
    """Declare a field of an option set.

    `words` are for the help of the flag and the documentation of the function, `hint` (its
    type) and `more` (further sentences) for the documentation alone. `least` and `most` bound a
    whole number, `most` for the flag alone; `choices` are all values; `writes` tells that it
    names a file or folder to write; `flag` are further arguments of `add_argument`. The default
    of what must be given is ``MISSING``; `positional` lets the function take it without its
    name, too.
    """
    if least is not None:
        flag["type"] = whole(least, most)
    elif writes:
        flag["type"] = WRITERS[writes]
    if choices:
        flag["choices"] = list(choices)
    held: dict[str, Any] = {"words": words, "hint": hint, "more": more}
    held |= {"least": least, "writes": writes}
    held |= {"choices": tuple(choices), "flag": flag}
    return field(default=default, kw_only=not positional, metadata=held)


def add_flags(
    parser: argparse._ActionsContainer, options: type, /, *names: str, **defaults: Any
) -> None:
    """Give a parser the flags of some fields, in this order; `defaults` replace the function's.

    A name such as ``texts=text`` gives the field ``texts`` a flag ``--text``.
    """
    declared = {one.name: one for one in fields(options)}
    for name in names:
        own, _, other = name.partition("=")
        one = declared[own]
        default = defaults.get(own, one.default)
        words, flag = one.metadata["words"], dict(one.metadata["flag"])
        if default is False:
            flag["action"] = "store_true"
        elif default is MISSING:
            flag["required"] = True
        else:
            flag["default"] = default
            shown = default not in (None, "", ()) and "default" not in words
            words += f" (default: {default})" if shown else ""
        flag.setdefault("help", words.replace("%", "%%"))
        parser.add_argument(f"--{(other or own).replace('_', '-')}", **flag)


def described(options: type) -> str:
    """Return the sections of parameters of a docstring, with the indentation of a function's."""
    lines = ["Parameters", "----------"]
    for one in fields(options):
        words, more = one.metadata["words"], one.metadata["more"]
        lines.append(f"{one.name} : {one.metadata['hint']}")
        lines.append(f"    {words[:1].upper()}{words[1:]}.{' ' * bool(more)}{more}")
    return "\n".join(f"    {line}" for line in lines)


def check_options(options: Mapping[str, Any], declared: type) -> None:
    """Refuse values that an option cannot have: no bool, no such number, choice or output."""
    for one in fields(declared):
        if one.name in options:
            _check(one, options[one.name])


def _check(one: Field[Any], value: Any) -> None:
    about = one.metadata
    if isinstance(one.default, bool) and one.type in ("bool", bool) and not isinstance(value, bool):
        raise InputError(f"{one.name}: is {value!r:.80}, expected True or False")
    if about["least"] is not None:
        check_number(one.name, value, about["least"])
    if about["choices"] and value is not None and value not in about["choices"]:
        known = ", ".join(about["choices"])
        raise InputError(f"{one.name}: is {value!r:.80}, expected one of {known}")
    if about["writes"] and value is not None and not isinstance(value, bool):
        if not isinstance(value, str | os.PathLike):
            raise InputError(f"{one.name}: is of type {type(value).__name__}; give a path")
        WRITERS[about["writes"]](os.fspath(value))


def check_number(name: str, number: Any, least: int) -> None:
    """Refuse what is no whole number, also of NumPy, or below `least`; None is not given."""
    if number is None:
        return
    if isinstance(number, bool) or not isinstance(number, Integral):
        raise InputError(f"{name}: is {number!r}, expected a whole number")
    if not least <= int(number) <= LARGEST_NUMBER:
        raise InputError(f"{name}: is {number}, expected at least {least}")

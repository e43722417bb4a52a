"""Arguments of commands: numbers within their bounds, outputs that can be written; option sets.

An option set is a dataclass whose fields make the flags of a command and, of the function of the
library that takes such an object, the signature, its documentation and checks.
"""

from __future__ import annotations

import argparse
import math
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, Field, field, fields
from numbers import Integral
from pathlib import Path
from typing import Any

from beyond_perplexity.errors import InputError
from beyond_perplexity.former_names import hint_for
from beyond_perplexity.options import LARGEST_NUMBER
from beyond_perplexity.storage.outputs import check_output, check_output_folder

MOST_ITEMS = 2**62 - 1  # so that the sum of two of them is no more than `LARGEST_NUMBER`
MOST_THREADS = 4_096
MOST_COUNT = 100_000_000  # tokens of a text, draws of a test
ENDS = """\
exit status: 0 all is well; 1 bad input, or a resource that failed (one line says which); 2 a wrong
use of the options; 130 Ctrl-C; 141 nobody reads the output any more; 143 SIGTERM"""
_UNKNOWN = "unrecognized arguments: "  # as argparse says
_WHOLE = re.compile(r"[+-]?[0-9][0-9_]{0,40}")


class CommandParser(argparse.ArgumentParser):
    """A parser whose values are checked before any work: a wrong one is an `InputError`.

    Only a wrong use (an unknown or missing flag, a choice that is none) is argparse's own error.
    The help ends with `ends`: what the exit status means.
    """

    ends = ENDS

    def __init__(self, *positional: Any, raw: bool = False, **named: Any) -> None:
        if raw:  # the lines of the description are kept
            named["formatter_class"] = argparse.RawDescriptionHelpFormatter
        super().__init__(*positional, **{"prog": _program(), **named})

    def format_help(self) -> str:
        """Return the help, with what the exit status means."""
        return f"{super().format_help()}\n{self.ends}\n"

    def error(self, message: str) -> Any:
        """End with status 2, or raise `InputError` where a value was converted in vain."""
        caught = sys.exc_info()[1]
        if caught is not None and isinstance(caught.__context__, argparse.ArgumentTypeError):
            raise InputError(message.removeprefix("argument ")) from caught
        if message.startswith(_UNKNOWN):
            message += "".join(map(self._hint, message.removeprefix(_UNKNOWN).split()))
        super().error(message)

    def _hint(self, given: str) -> str:
        """Say which flag an unknown one has become, or is meant."""
        declared = [flag for action in self._actions for flag in action.option_strings]
        flags = {flag.lstrip("-").replace("-", "_"): flag for flag in declared}
        name = given.partition("=")[0].removeprefix("--").replace("-", "_")
        hint = hint_for(name, flags) if given.startswith("--") else ""
        return re.sub(r"'(\w+)'", lambda found: flags[found[1]], hint)

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse the command line; see `argparse.ArgumentParser.parse_args`.

        Raises InputError where two outputs are one file, or an output is a file that the command
        reads.
        """
        for text in sys.argv[1:] if args is None else args:
            if any("\ud800" <= mark <= "\udfff" for mark in text):  # of bytes that are no text
                raise InputError(f"{text}: is no UTF-8, which Parquet files need; name it anew")
        given = super().parse_args(args, namespace)
        outputs: dict[str, str] = {}
        for is_output, flag, path in sorted(self._files(given), key=lambda file: not file[0]):
            place = os.path.realpath(path)
            if place in outputs and is_output:
                raise InputError(f"{outputs[place]} and {flag}: both write {path}; name two files")
            if place in outputs:
                wrong = f"{outputs[place]} and {flag}: both name {path}, which would be replaced"
                raise InputError(f"{wrong}; name another output")
            if is_output:
                outputs[place] = flag
        return given

    def _files(self, given: argparse.Namespace) -> Iterator[tuple[bool, str, str]]:
        """List the files that are to be written or are read, with the flags that name them."""
        for action in self._actions:
            held, is_output = getattr(given, action.dest, None), action.type in _OUTPUT_TYPES
            flag = action.option_strings[-1] if action.option_strings else action.dest
            for value in held if isinstance(held, list) else [held]:
                if isinstance(value, str | Path) and (is_output or os.path.isfile(value)):
                    yield is_output, flag, str(value)


def _program() -> str | None:
    """Return how a script is called; None where the name of the program says it."""
    path = Path(sys.argv[0])
    is_script = path.parent.name == "scripts" and path.suffix == ".py"
    return f"python -m scripts.{path.stem}" if is_script else None


def whole(minimum: int = 0, maximum: int = LARGEST_NUMBER) -> Callable[[str], int]:
    """Make the ``type`` of an argument that is a whole number within bounds, both included."""

    def read(text: str) -> int:
        if not _WHOLE.fullmatch(text) or text.endswith("_") or "__" in text:
            raise argparse.ArgumentTypeError(f"is {text!r}, expected a whole number")
        number = int(text)
        if not minimum <= number <= maximum:
            bound = f"at least {minimum}" if number < minimum else f"at most {maximum:,}"
            raise argparse.ArgumentTypeError(f"is {text}, expected {bound}")
        return number

    return read


def real(
    *, above: float = -math.inf, below: float = math.inf, minimum: float = -math.inf
) -> Callable[[str], float]:
    """Make the ``type`` of an argument that is a finite number; it may be `minimum` itself."""
    limits = {"above": above, "below": below, "at least": minimum}
    bounds = {word: limit for word, limit in limits.items() if math.isfinite(limit)}
    words = " and ".join(f"{word} {limit:g}" for word, limit in bounds.items())

    def read(text: str) -> float:
        try:
            number = float(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(f"is {text!r}, expected a number") from error
        if not math.isfinite(number):
            raise argparse.ArgumentTypeError(f"is {text}, expected a finite number")
        if not (above < number < below and number >= minimum):
            raise argparse.ArgumentTypeError(f"is {text}, expected {words}")
        return number

    return read


SEED = whole()
ITEM = whole(0, MOST_ITEMS)
THREADS = whole(1, MOST_THREADS)
COUNT = whole(1, MOST_COUNT)


def output_file(text: str) -> str:
    """Check the path of a file to write; use it as the ``type`` of an argument."""
    check_output(text)
    return text


def output_path(text: str) -> Path:
    """Do as `output_file` does, and return a path."""
    return Path(output_file(text))


_OUTPUT_TYPES = (output_file, output_path)


def output_folder(text: str) -> Path:
    """Check the path of a folder to write to; use it as the ``type`` of an argument."""
    check_output_folder(text)
    return Path(text)


# ---- option sets ----


def option(
    default: Any,
    words: str,
    hint: str = "",
    *,
    more: str = "",
    called: str | None = None,
    in_command: Any = ...,
    least: int | None = None,
    most: int = LARGEST_NUMBER,
    **flag: Any,
) -> Any:
    """Declare a field of an option set.

    `words` are for the help of the flag and the documentation of the function, `hint` (its type,
    where that of the field does not say it) and `more` (further sentences) for the documentation
    alone. `called` is the flag where it has not the name of the field, "" where it has none;
    `in_command` is its default where that is another than the function's. `least` and `most` bound
    a whole number, `most` for the flag alone; `flag` are further arguments of `add_argument`, of
    which ``choices`` and the ``type`` of an output hold for the function, too. The default of what
    must be given is ``MISSING``.
    """
    if least is not None:
        flag["type"] = whole(least, most)
    held: dict[str, Any] = {"words": words, "hint": hint, "more": more, "flag": flag}
    held |= {"called": called, "least": least}
    held["in_command"] = default if in_command is ... else in_command
    return field(default=default, metadata=held)


def threads_option() -> Any:
    """Declare the CPU threads that torch computes in."""
    more = "Default: as PyTorch has them."
    return option(None, "CPU threads", more=more, in_command=1, least=1, most=MOST_THREADS)


def add_flags(parser: argparse._ActionsContainer, options: type, *names: str) -> None:
    """Give a parser the flags of some fields, in this order; without names those of all."""
    declared = {one.name: one.metadata for one in fields(options)}
    for name in names or declared:
        about, default = declared[name], declared[name]["in_command"]
        called = f"--{name.replace('_', '-')}" if about["called"] is None else about["called"]
        words, flag = about["words"], dict(about["flag"])
        if default is False:
            flag["action"] = "store_true"
        elif default is not MISSING:
            flag["default"] = default
            shown = default not in (None, "", ()) and "default" not in words
            words += f" (default: {default})" if shown else ""
        if called.startswith("--"):
            flag |= {"dest": name, "required": default is MISSING}
        if called:
            parser.add_argument(called, help=words.replace("%", "%%"), **flag)


def described(options: type) -> str:
    """Return the sections of parameters of a docstring, with the indentation of a function's."""
    lines = ["Parameters", "----------"]
    for one in fields(options):
        words, more = one.metadata["words"], one.metadata["more"]
        lines.append(f"{one.name} : {one.metadata['hint'] or _hint(str(one.type))}")
        lines.append(f"    {words[:1].upper()}{words[1:]}.{' ' * bool(more)}{more}")
    return "\n".join(f"    {line}" for line in lines)


def _hint(annotation: str) -> str:
    """Say in the words of numpydoc what type a field has."""
    text = annotation.replace("Path", "path").replace(" | None", ", optional")
    return text.replace(" | ", " or ")


def check_options(options: Mapping[str, Any], declared: type) -> None:
    """Refuse values that an option cannot have: no bool, no such number, choice or output."""
    for one in fields(declared):
        if one.name in options:
            _check(one, options[one.name])


def _check(one: Field[Any], value: Any) -> None:
    least, flag = one.metadata["least"], one.metadata["flag"]
    if str(one.type) == "bool" and not isinstance(value, bool):
        raise InputError(f"{one.name}: is {value!r:.80}, expected True or False")
    if value is None:
        return
    if least is not None:
        check_number(one.name, value, least)
    if value not in (choices := flag.get("choices", [value])):
        raise InputError(f"{one.name}: is {value!r:.80}, expected one of {', '.join(choices)}")
    if flag.get("type") in (output_path, output_folder) and not isinstance(value, bool):
        if not isinstance(value, str | os.PathLike):
            raise InputError(f"{one.name}: is of type {type(value).__name__}; give a path")
        flag["type"](os.fspath(value))


def check_number(name: str, number: Any, least: int) -> None:
    """Refuse what is no whole number, also of NumPy, or below `least`."""
    if isinstance(number, bool) or not isinstance(number, Integral):
        raise InputError(f"{name}: is {number!r}, expected a whole number")
    if not least <= int(number) <= LARGEST_NUMBER:
        raise InputError(f"{name}: is {number}, expected at least {least}")

"""What was read of the files of users, what was left out and why, what was used: a reader's
account, closed at the end of the file, must be what the file holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from beyond_perplexity.errors import InputError
from beyond_perplexity.foreign_text import remark

NO_TOKEN = "without a token"
EMPTY_LINE = "empty line"
NAMES = "header row"

_FILES = 8  # that have a line each

_OPENED: ContextVar[list[Account] | None] = ContextVar("accounts", default=None)


class Account:
    """What was read of a file."""

    def __init__(self, path: object, unit: str) -> None:
        self.file, self.unit = str(path), unit
        self.read, self.left_out = 0, Counter[str]()
        self._closed = False
        opened = _OPENED.get()
        if opened is not None:
            opened.append(self)

    def close(self, held: int | None) -> None:
        """End the account of a file that holds so many; None: its end was not reached."""
        if held != self.read:
            has = "more" if held is None else f"{held:,}"
            fault = f"{self.read:,} {self.unit} were read, but it has {has}"
            asked = "did it change meanwhile? If not, please report it: an error of the program"
            raise InputError(f"{self.file}: {fault}; {asked}")
        self._closed = True

    def check_closed(self) -> None:
        """Raise `InputError` where the reader was left before the end of the file."""
        if not self._closed:
            self.close(None)

    @property
    def used(self) -> int:
        """How many were not left out."""
        return self.read - self.left_out.total()

    def to_json(self) -> dict[str, Any]:
        """Return ``file``, ``unit``, ``read``, ``left_out`` by reason, and ``used``."""
        left_out = {reason: n for reason, n in sorted(self.left_out.items()) if n}
        counts = {"read": self.read, "left_out": left_out, "used": self.used}
        return {"file": self.file, "unit": self.unit, **counts}


@contextmanager
def accounts() -> Iterator[list[dict[str, Any]]]:
    """Gather what is read inside; at the end the list has the account of each file."""
    found: list[dict[str, Any]] = []
    opened: list[Account] = []
    token = _OPENED.set(opened)
    try:
        yield found
    finally:
        _OPENED.reset(token)
    for account in opened:
        account.check_closed()
        if (told := account.to_json()) not in found:
            found.append(told)


def tell(found: list[dict[str, Any]]) -> None:
    """Print what `accounts` gathered, a line a file; of many whole files one line."""
    whole = [one for one in found if not one["left_out"]]
    if len(whole) > _FILES:
        total = sum(one["read"] for one in whole)
        remark(f"{len(whole):,} files: {total:,} {whole[0]['unit']} read, all used")
    for one in found if len(whole) <= _FILES else [one for one in found if one["left_out"]]:
        left_out = ", ".join(f"{count:,} ({reason})" for reason, count in one["left_out"].items())
        used = f"{one['used']:,} used; left out: {left_out}" if left_out else "all used"
        unit = one["unit"].removesuffix("s") if one["read"] == 1 else one["unit"]
        remark(f"{one['file']}: {one['read']:,} {unit} read, {used}")


@contextmanager
def accounts_told() -> Iterator[list[dict[str, Any]]]:
    """Gather what is read inside, as `accounts` does, and print it at the end."""
    with accounts() as found:
        yield found
    tell(found)

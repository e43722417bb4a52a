"""Files that are not what they should be: said in one line, before anything reads them."""

from __future__ import annotations

import os
from pathlib import Path

from beyond_perplexity.errors import InputError
from beyond_perplexity.storage.inputs import check_input, unreadable

_PAGES = (b"<!doctype", b"<html", b"<?xml", b"<head", b"<body", b"<error")
_PICKLES = tuple(bytes([0x80, protocol]) for protocol in range(2, 6))
_LFS = b"version https://git-lfs"


def beginning(path: str | os.PathLike[str], count: int = 512) -> bytes:
    """Return the first bytes of a file that is there and not empty."""
    check_input(path, again=True)
    try:
        with open(path, "rb") as file:
            start = file.read(count)
    except OSError as error:
        raise unreadable(path, error) from error
    if not start:
        raise InputError(f"{path}: is empty; fetch it again")
    return start


def refuse_page(path: str | os.PathLike[str]) -> bytes:
    """Refuse a page of HTML in place of a file, and a pointer of Git LFS; return the beginning."""
    start = beginning(path)
    if start.lstrip(b"\xef\xbb\xbf \t\r\n").lower().startswith(_PAGES):
        raise InputError(
            f"{path}: is a page of HTML, not the file that was wanted: the address has moved or "
            "asks for a login; fetch it from where it is now"
        )
    if start.startswith(_LFS):
        raise InputError(f"{path}: is a pointer of Git LFS, not the file itself; run: git lfs pull")
    return start


def refuse_foreign(path: str | os.PathLike[str]) -> bytes:
    """Refuse, besides what `refuse_page` does, a pickle and an archive; return the beginning."""
    start = refuse_page(path)
    if start.startswith(_PICKLES):
        raise InputError(
            f"{Path(path)}: is a pickle, which runs code when it is read; give the weights in the "
            "layout that the documentation names"
        )
    if start.startswith(b"PK\x03\x04"):
        raise InputError(f"{Path(path)}: is a zip archive; unpack it, or name its member")
    return start

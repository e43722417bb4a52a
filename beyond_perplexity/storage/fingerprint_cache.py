"""Fingerprints that earlier processes found, kept for as long as no file of the code has changed.

Every job, and every start of Snakemake, asks for fingerprints, and to find one hundreds of files
are parsed; to see that none has changed they are only read.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from beyond_perplexity.errors import InputError


def code_state(root: Path, folders: Sequence[str]) -> str:
    """Hash all code in folders of a checkout byte for byte, and the version of Python.

    Parameters
    ----------
    root : path
        The checkout.
    folders : sequence of str

    Returns
    -------
    str
        64 hexadecimal digits.
    """
    total = hashlib.sha256(sys.version.encode())
    for file in sorted(path for folder in folders for path in (root / folder).rglob("*.py")):
        content = file.read_bytes()
        total.update(f"{file.relative_to(root)}\0{len(content)}\0".encode())
        total.update(content)
    return total.hexdigest()


class FingerprintCache:
    """What is known of one checkout, in a file below ``XDG_CACHE_HOME`` (or ``~/.cache``).

    A file that cannot be read or written is as good as none.

    Parameters
    ----------
    root : path
        The checkout.
    folders : sequence of str
        Those whose code fingerprints are of.
    """

    def __init__(self, root: Path, folders: Sequence[str]) -> None:
        self._root, self._folders = root, folders
        self._state = code_state(root, folders)
        home = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
        place = hashlib.sha256(os.fsencode(root)).hexdigest()[:16]
        self._file = Path(home).expanduser() / "beyond-perplexity" / f"fingerprints-{place}.json"
        self._found = self._read()
        self._is_new = False
        atexit.register(self.save)

    def _read(self) -> dict[str, str]:
        try:
            held = json.loads(self._file.read_bytes())
            found = held["found"] if held["state"] == self._state else {}
            return {str(key): str(value) for key, value in found.items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return {}

    def get(self, references: Sequence[str], find: Callable[[], str]) -> str:
        """Return the fingerprint of references, as it is known or as it is found now."""
        if any(name.replace(".", "/").split("/")[0] not in self._folders for name in references):
            return find()  # other files may have changed
        key = "\n".join(references)
        if key not in self._found:
            self._found[key], self._is_new = find(), True
        return self._found[key]

    def save(self) -> None:
        """Write what was found, beside what other processes have written meanwhile."""
        if not self._is_new:
            return
        from beyond_perplexity.storage.outputs import write_json

        with suppress(OSError, InputError):
            if code_state(self._root, self._folders) == self._state:  # else it is of neither
                found = {**self._read(), **self._found}
                write_json(self._file, {"state": self._state, "found": found})

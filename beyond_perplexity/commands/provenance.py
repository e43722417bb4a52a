"""Say where results came from, by their footers alone; or whether they are what was written.

Of a file: content hash, script, options, seed, code, version, machine, time, and the files that it
is made of. Of a folder: the content hash of every file, in the form of sha256sum. The content hash
is of the data alone, so that equal results of two runs have equal ones. With --verify every hash
is computed anew, and what is missing or not what was written is named, with the command that makes
it again: status 1.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from beyond_perplexity.arguments import CommandParser
from beyond_perplexity.errors import InputError
from beyond_perplexity.foreign_text import remark, say
from beyond_perplexity.storage.verification import describe_origin, list_hashes, verify_tree


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command, with the options of the process by default."""
    parser = CommandParser(description=__doc__)
    parser.add_argument("paths", nargs="+", type=Path, metavar="FILE", help="file, or folder")
    words = "recompute all hashes below folders of results"
    parser.add_argument("--verify", action="store_true", help=words)
    given = parser.parse_args(arguments)
    for path in given.paths:
        if given.verify:
            _verify(path)
        elif path.is_dir():
            for name, found in list_hashes(path):
                # as sha256sum writes it, which marks a line whose name has an escape
                shown = str(name).replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
                say(f"{chr(92) * (shown != str(name))}{found}  {shown}")
        else:
            say(describe_origin(path))


def _verify(tree: Path) -> None:
    found = verify_tree(tree)
    for mismatch in found.mismatches:
        say(f"{str(mismatch.path)!r}: {mismatch.what}")
    others = f"of {found.unrecorded:,} others nothing is noted"
    remark(f"{len(found.hashes):,} files are what was written; {others}")
    if found.mismatches:
        wrong = sorted({str(mismatch.path) for mismatch in found.mismatches})
        say(f"beyond-perplexity run --remake {shlex.join(wrong)}")
        raise InputError(f"{tree}: {len(wrong):,} files do not match; see above")

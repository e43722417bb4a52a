"""Keep a downloaded file if it has the expected SHA-256; otherwise say what came instead."""

from __future__ import annotations

import shutil
from pathlib import Path

from beyond_perplexity.arguments import CommandParser, output_file
from beyond_perplexity.errors import run_command
from beyond_perplexity.storage.inputs import check_input, copy_member
from beyond_perplexity.storage.outputs import atomic_path
from beyond_perplexity.storage.provenance import check_sha256


def take(source: str, member: str | None, target: Path) -> None:
    """Copy a file, or one member of a zip archive."""
    check_input(source)
    if member is None:
        shutil.copyfile(source, target)
        return
    with open(target, "wb") as file:
        copy_member(source, member, file)


def main() -> None:
    parser = CommandParser(description=__doc__)
    add = parser.add_argument
    add("--input", required=True, help="the downloaded file")
    add("--sha256", required=True, help="expected SHA-256, 64 hexadecimal digits")
    add("--member", nargs="?", help="path in a zip archive; the sum is of this file")
    add("--output", type=output_file, required=True, help="where the verified file goes")
    options = parser.parse_args()
    with atomic_path(options.output) as temporary:
        take(options.input, options.member, temporary)
        check_sha256(temporary, options.sha256, options.input)


if __name__ == "__main__":
    run_command(main)

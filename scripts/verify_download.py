"""Keep a downloaded file if it has the expected SHA-256; otherwise say what came instead."""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path

from beyond_perplexity.arguments import CommandParser, output_file
from beyond_perplexity.errors import InputError, run_command
from beyond_perplexity.storage.outputs import atomic_path
from beyond_perplexity.storage.provenance import check_sha256


def take(source: str, member: str | None, target: Path) -> None:
    """Copy a file, or one member of a zip archive."""
    if member is None:
        shutil.copyfile(source, target)
        return
    try:
        with zipfile.ZipFile(source) as archive, archive.open(member) as inner:
            target.write_bytes(inner.read())
    except (zipfile.BadZipFile, KeyError) as error:
        raise InputError(f"{source}: no zip archive with a member '{member}' ({error})") from error


def main() -> None:
    parser = CommandParser(description=__doc__)
    parser.add_argument("--input", required=True, help="the downloaded file")
    parser.add_argument("--sha256", required=True, help="expected SHA-256, 64 hexadecimal digits")
    parser.add_argument(
        "--member", nargs="?", help="path in a zip archive; the sum is of this file"
    )
    parser.add_argument(
        "--output", type=output_file, required=True, help="where the verified file goes"
    )
    options = parser.parse_args()
    with atomic_path(options.output) as temporary:
        take(options.input, options.member, temporary)
        check_sha256(temporary, options.sha256, options.input)


if __name__ == "__main__":
    run_command(main)

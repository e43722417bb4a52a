"""Keep a downloaded file if it has the expected SHA-256; otherwise say what came instead."""

from __future__ import annotations

import shutil
from pathlib import Path

from beyond_perplexity.storage.inputs import check_input, copy_member
from beyond_perplexity.storage.outputs import atomic_path
from beyond_perplexity.storage.provenance import check_sha256
from scripts._job import Given, flag, job, needed, output


def take(source: str, member: str | None, target: Path) -> None:
    """Copy a file, or one member of a zip archive."""
    check_input(source)
    if member is None:
        shutil.copyfile(source, target)
        return
    with open(target, "wb") as file:
        copy_member(source, member, file)


@job(
    needed("--input", "the downloaded file"),
    needed("--sha256", "expected SHA-256, 64 hexadecimal digits"),
    flag("--member", "path in a zip archive; the sum is of this file", nargs="?"),
    output("--output", "where the verified file goes"),
)
def main(options: Given) -> None:
    with atomic_path(options.output) as temporary:
        take(options.input, options.member, temporary)
        check_sha256(temporary, options.sha256, options.input)

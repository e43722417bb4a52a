"""The manifest of a results tree: of every file that a job has made, a hash of its bytes.

``manifest/{path}.sha256`` is a line of sha256sum about ``{path}``. The job that makes a file writes
it, so that no two jobs share one, and what is edited or removed later is noticed.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

RESULTS = "BEYOND_PERPLEXITY_RESULTS"  # set by the rules: the folder of the results
MANIFEST = "manifest"
SUFFIX = ".sha256"
SKIPPED = ("logs", "benchmarks", "checkpoints", MANIFEST)  # folders that hold no results


def note_file(written: Path, target: Path) -> None:
    """Note what a result will hold, before it gets its name; without a run nothing is noted."""
    results = os.environ.get(RESULTS)
    if results is None:
        return
    name = Path(os.path.relpath(target, results))
    if name.parts[0] in (os.pardir, *SKIPPED):
        return
    from beyond_perplexity.storage.outputs import write_text

    with open(written, "rb") as file:
        content = hashlib.file_digest(file, "sha256").hexdigest()
    write_text(Path(results, MANIFEST, f"{name}{SUFFIX}"), f"{content}  {name}\n")


def read_notes(tree: Path) -> Iterator[tuple[Path, str]]:
    """Name the files below a folder that jobs have made, there or not, with their hashes.

    Parameters
    ----------
    tree : pathlib.Path
        A folder of results, or any folder below it.
    """
    folders = (folder for folder in (tree, *tree.parents) if (folder / MANIFEST).is_dir())
    if (results := next(folders, None)) is None:
        return
    for note in sorted((results / MANIFEST / tree.relative_to(results)).rglob(f"*{SUFFIX}")):
        name = note.relative_to(results / MANIFEST)
        yield results / name.with_suffix(""), note.read_text(errors="replace")[:64]


def forget_files(results: Path, wanted: Iterable[str]) -> None:
    """Remove the notes of files that are gone and that no job makes any more."""
    kept = {os.path.abspath(path) for path in wanted}
    for path, _ in read_notes(results):
        if not path.exists() and os.path.abspath(path) not in kept:
            (results / MANIFEST / f"{path.relative_to(results)}{SUFFIX}").unlink(missing_ok=True)

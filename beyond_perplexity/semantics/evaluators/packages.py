"""The packages with weights inside: whether one is installed, where its files are, its version."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from pathlib import Path

from beyond_perplexity.errors import InputError
from beyond_perplexity.semantics.evaluators.rows import PACKAGES

EXTRA = "pip install 'beyond-perplexity[pretrained]'"


def is_installed(name: str) -> bool:
    """Return whether a package, a key of `PACKAGES`, and all that it needs are installed."""
    row = PACKAGES[name]
    return all(importlib.util.find_spec(module) for module in (row.module, *row.needs))


def package_folder(name: str) -> Path:
    """Return the folder with the weights of a package; its code is not run."""
    if name not in PACKAGES:
        raise InputError(f"package: is {name!r}; allowed are {', '.join(PACKAGES)}")
    row = PACKAGES[name]
    found = importlib.util.find_spec(row.module)
    if found is None or not found.submodule_search_locations:
        raise InputError(f"package: {name} needs {row.distribution}; install it with: {EXTRA}")
    folder = Path(next(iter(found.submodule_search_locations))) / row.folder
    missing = [file for file in row.files.values() if not (folder / file).is_file()]
    if not folder.is_dir() or missing:
        raise InputError(
            f"{folder}: {row.distribution} lacks {', '.join(missing) or 'its folder of weights'}; "
            f"install version {row.distribution} anew: {EXTRA}"
        )
    return folder


def package_version(distribution: str) -> str:
    """Return the version of a distribution; ``unknown`` where pip knows nothing of it."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return "unknown"

"""Reading a configuration where Snakemake does not: `plan`, `similarity`, and before a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from beyond_perplexity.errors import InputError
from beyond_perplexity.planning.foreign_values import check_values
from beyond_perplexity.storage.inputs import read_utf8


def read_configuration(path: str | Path) -> dict[str, Any]:
    """Read a configuration as it stands, without defaults.

    Raises
    ------
    InputError
        When it is no YAML mapping, or has values that no key can be; Snakemake would copy what
        aliases repeat, for hours where they repeat each other.
    """
    try:
        config = yaml.safe_load(read_utf8(path))
    except (ValueError, RecursionError, yaml.YAMLError) as error:
        said = " ".join(str(error).split())
        raise InputError(f"{path}: cannot be read as YAML ({said}); correct it") from error
    if not isinstance(config, dict):
        raise InputError(f"{path}: is no configuration; it should be a YAML mapping")
    check_values(config)
    return config

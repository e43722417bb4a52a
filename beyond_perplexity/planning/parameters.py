"""Values of a configuration as the parameters of a command."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

Config = Mapping[str, Any]


def optional_flag(flag: str, files: Sequence[str]) -> str:
    """Write a flag with its file, or nothing where there is none."""
    return " ".join(map(shlex.quote, [flag, *files])) if files else ""


def as_json(value: object) -> str:
    """Write an option as canonical JSON, so that an equal value is an equal command."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False)

"""Input that nobody means: absurd sizes, values of other kinds, names that act on who reads them.

Needs no data. Each must end in one line that says what is wrong, where it once ended in a
traceback, a process that never ends, or silence. Oracles: the messages, and the files themselves.
"""

from __future__ import annotations

import json
import math
import pickle
from datetime import datetime
from pathlib import Path

import pandas as pd
import pytest
import yaml

import beyond_perplexity
from beyond_perplexity.commands import estimate as estimate_command
from beyond_perplexity.commands import provenance, run
from beyond_perplexity.commands.progress import main as progress
from beyond_perplexity.corpus.linked import _edge
from beyond_perplexity.decoding.options import parse_decoding
from beyond_perplexity.errors import InputError, describe_os_error
from beyond_perplexity.foreign_text import drawable
from beyond_perplexity.importance.options import ReductionOptions
from beyond_perplexity.models.checkpoint import choose_device
from beyond_perplexity.options import parse_options
from beyond_perplexity.planning.reading import read_configuration
from beyond_perplexity.planning.run import Run
from beyond_perplexity.planning.validation import validate
from beyond_perplexity.schemas.perplexity import PERPLEXITY_DIFFERENCES
from beyond_perplexity.storage.inputs import without_secrets
from beyond_perplexity.storage.outputs import atomic_path
from beyond_perplexity.storage.provenance import value_hash
from beyond_perplexity.storage.shards import write_shard
from beyond_perplexity.storage.verification import list_hashes, verify_tree

ROOT = Path(__file__).parents[2]
WEIGHTS = {"instance_id": [0, 0], "sample_id": [0, 1], "n_tokens": [2, 2]}


def configured(**changed: object) -> dict[str, object]:
    """Return the smallest configuration with keys of a path changed: ``a__b=1``."""
    config = yaml.safe_load((ROOT / "configs" / "smoke.yaml").read_text(encoding="utf-8"))
    for path, value in changed.items():
        *above, last = path.split("__")
        held = config
        for key in above:
            held = held.setdefault(key, {})
        held[last] = value
    return config


def refused(**changed: object) -> str:
    with pytest.raises(InputError) as caught:
        validate(configured(**changed), ROOT / "rules" / "config.schema.yaml")
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("size", [10**9, 10**18])
def test_sizes_have_limits_in_configurations_and_commands(size: int) -> None:
    assert "models.lstm.architecture.layers" in refused(models__lstm__architecture__layers=size)
    assert "hidden_size" in refused(models__lstm__architecture__hidden_size=size)
    assert "at most 10,000,000" in refused(generation__maximum_length=size).replace(
        "10000000", "10,000,000"
    ) or "maximum" in refused(generation__maximum_length=size)
    assert "subsets" in refused(tendencies__sample_size__subsets=size)
    with pytest.raises(InputError, match="from 1 to 100,000"):
        parse_decoding({"kind": "beam", "size": size})
    with pytest.raises(InputError, match="subsets: is .* at most 1000000"):
        parse_options(ReductionOptions, {"subsets": size}, "options")
    with pytest.raises(InputError, match="at most 100,000,000"):
        beyond_perplexity.commands.compare._parser().parse_args(["--maximum-tokens", str(size)])

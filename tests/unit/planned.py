"""Configurations with other values, and what is planned of them, for tests of plans."""

from pathlib import Path

import pytest
import yaml

from beyond_perplexity.errors import InputError
from beyond_perplexity.planning import run, validation

ROOT = Path(__file__).parents[2]
SMOKE = "configs/smoke.yaml"
WORD2VEC = {"family": "word2vec", "corpus": "wikipedia"}
BROUGHT = {"family": "huggingface", "corpus": "wikipedia", "architecture": {"path": "somewhere"}}


def load(name=SMOKE, changes=None, **sections):
    """Read a configuration; `changes` are values at paths of keys, `sections` keys of sections."""
    config = yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))
    for section, values in sections.items():
        config[section] = config.get(section, {}) | values
    for path, value in (changes or {}).items():
        *above, last = path.split(".")
        level = config
        for key in above:
            level = level.setdefault(key, {})
        level[last] = value
    return config


def checked(*given, **sections):
    config = load(*given, **sections)
    validation.validate(config)
    return config


def run_of(*given, **sections):
    return run.Run(checked(*given, **sections))


def refused(config):
    """Return what is said of a configuration, in one line."""
    with pytest.raises(InputError) as error:
        validation.validate(config)
    assert "\n" not in str(error.value)
    return str(error.value)

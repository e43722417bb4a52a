"""Values of a configuration as the parameters of a command."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from beyond_perplexity.corpus.split import SENTENCES

Config = Mapping[str, Any]


def as_json(value: object) -> str:
    """Write an option as canonical JSON, so that an equal value is an equal command."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def base_corpus(config: Config, corpus: str) -> str:
    """Return the corpus that sentences are of, or a corpus itself."""
    return corpus if corpus in config["corpora"] else corpus.removesuffix(SENTENCES)


def split_unit(config: Config, corpus: str) -> str:
    """Return what the splits of a corpus keep whole: ``document`` or ``page``."""
    corpus = base_corpus(config, corpus)
    # Where the files say the splits, they keep the pages whole.
    unit: str = config["corpora"][corpus].get("split", {"unit": "page"})["unit"]
    return unit


def documents_are_sentences(config: Config, section: str, corpus: str) -> bool:
    """Return whether the documents of a corpus are sentences, as a section says."""
    given = config[section]["documents_are_sentences"]
    if isinstance(given, dict):
        given = given.get(corpus)
    source = config["corpora"][corpus]["source"]
    of_trees: bool = source["format"] == "penn" and source.get("document") == "tree"
    return of_trees if given is None else bool(given)

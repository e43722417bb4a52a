"""The model families by name."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from beyond_perplexity.errors import InputError
from beyond_perplexity.models.contract import LanguageModel

FAMILIES = {
    "cnn": "beyond_perplexity.models.cnn:CNN",
    "discriminative-rnng": (
        "beyond_perplexity.importance.proposals.discriminative_rnng:DiscriminativeRNNG"
    ),
    "gru": "beyond_perplexity.models.gru:GRU",
    "lstm": "beyond_perplexity.models.lstm:LSTM",
    "rnng": "beyond_perplexity.models.rnng:RNNG",
    "rnng-top-down": "beyond_perplexity.models.rnng_top_down:TopDownRNNG",
    "span-crf": "beyond_perplexity.importance.proposals.span_crf:SpanCRF",
    "transformer": "beyond_perplexity.models.transformer:Transformer",
    "transformer-adaptive-softmax": (
        "beyond_perplexity.models.transformer_adaptive_softmax:AdaptiveTransformer"
    ),
    "trigram": "beyond_perplexity.models.trigram:Trigram",
}


def _reference(family: object) -> tuple[str, str]:
    if not isinstance(family, str) or family not in FAMILIES:
        raise InputError(f"family: is {family!r}; allowed are {', '.join(FAMILIES)}")
    module, _, name = FAMILIES[family].partition(":")
    return module, name


def find(family: object) -> type[LanguageModel]:
    """Return the class of a family.

    Raises
    ------
    InputError
        When there is no such family.
    """
    module, name = _reference(family)
    found: type[LanguageModel] = getattr(importlib.import_module(module), name)
    return found


def family_module(family: object) -> str:
    """Return the file of a family, relative to the repository, for `provenance.fingerprint`.

    Raises
    ------
    InputError
        When there is no such family.
    """
    return _reference(family)[0].replace(".", "/") + ".py"


def build(
    config: Mapping[str, Any], vocabulary_size: int, open_vocabulary: bool = False
) -> LanguageModel:
    """Make an untrained model.

    Parameters
    ----------
    config : dict
        ``family`` (a key of `FAMILIES`) and ``architecture`` (options of that family); other keys,
        such as ``training``, are of no concern here.
    vocabulary_size : int
        V, all ids included.
    open_vocabulary : bool
        The vocabulary has no unknown words (BPE): ``<unk>`` gets no probability.

    Raises
    ------
    InputError
        When the family or an option is unknown or wrong.
    """
    return find(config.get("family"))(
        vocabulary_size=vocabulary_size,
        architecture=config.get("architecture", {}),
        open_vocabulary=open_vocabulary,
    )

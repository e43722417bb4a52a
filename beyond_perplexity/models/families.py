"""The families of models and proposals by name; nothing heavy is imported: a plan is quick."""

from __future__ import annotations

from beyond_perplexity.errors import InputError

# The files of a brought Hugging Face model that are looked at.
BROUGHT_PATTERNS = ("*.json", "*.safetensors", "*.txt", "*.model")

FAMILIES = {
    "cnn": "beyond_perplexity.models.cnn:CNN",
    "discriminative-rnng": ("beyond_perplexity.models.rnng.discriminative:DiscriminativeRNNG"),
    "entity-tagger": "beyond_perplexity.models.entitynlm.tagger:EntityTagger",
    "entitynlm": "beyond_perplexity.models.entitynlm.model:EntityNLM",
    "gru": "beyond_perplexity.models.gru:GRU",
    "huggingface": "beyond_perplexity.models.huggingface.model:HuggingFace",
    "kglm": "beyond_perplexity.models.kglm.model:KGLM",
    "kglm-tagger": "beyond_perplexity.models.kglm.tagger:KGLMTagger",
    "lstm": "beyond_perplexity.models.lstm:LSTM",
    "rnng": "beyond_perplexity.models.rnng.model:RNNG",
    "rnng-top-down": "beyond_perplexity.models.rnng.top_down_model:TopDownRNNG",
    "span-crf": "beyond_perplexity.models.rnng.span_crf:SpanCRF",
    "transformer": "beyond_perplexity.models.transformer:Transformer",
    "transformer-adaptive-softmax": (
        "beyond_perplexity.models.transformer_adaptive_softmax:AdaptiveTransformer"
    ),
    "trigram": "beyond_perplexity.models.trigram:Trigram",
}


def reference(family: object) -> tuple[str, str]:
    """Return the module and the class of a family.

    Raises
    ------
    InputError
        When there is no such family.
    """
    if not isinstance(family, str) or family not in FAMILIES:
        raise InputError(f"family: is {family!r}; allowed are {', '.join(FAMILIES)}")
    module, _, name = FAMILIES[family].partition(":")
    return module, name


def family_module(family: object) -> str:
    """Return the file of a family, relative to the repository, for `provenance.fingerprint`.

    Raises
    ------
    InputError
        When there is no such family.
    """
    return reference(family)[0].replace(".", "/") + ".py"

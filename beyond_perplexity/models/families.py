"""A row is all that the other packages must know of a family; nothing heavy is imported.

The fingerprint of code has the modules that a row names (`family_modules`), not the rows: so
nothing that computes a result belongs into this file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

from beyond_perplexity.errors import InputError
from beyond_perplexity.options import Rows

Kind = Literal["counted", "trained", "external", "unnormalized", "latent", "proposal"]
Need = Literal["trees", "mentions", "graph"]
Unit = Literal["document", "sentence"]


@dataclass(frozen=True)
class Family:
    """What is known of a family of models or proposals without importing it."""

    # ``module:Class``; None: it has none, being trained within its model or made of it
    reference: str | None
    options: str | None  # ``module:Dataclass`` of its architecture; None: it has no options
    title: str  # how figures print it
    # counted: from counts of the corpus, without gradients; trained: by gradients; external: comes
    # trained, with its own vocabulary; unnormalized: trained to score sentences, without a
    # likelihood; latent: trained, with latent variables, so that its likelihood is estimated;
    # proposal: of the latent variables of such a model
    kind: Kind
    # What its corpus must be annotated with; see `planning.latent_checks.REQUIREMENTS`
    needs: tuple[Need, ...] = ()
    proposals: tuple[str, ...] = ()  # families of its proposals
    # Options of a proposal that are those of its model, as they decide which latents there are
    shares: tuple[str, ...] = ()
    # Options that the model of a proposal must have
    asks: Mapping[str, Any] = field(default_factory=dict)
    sequential: bool = False  # a latent model that can be walked word by word, as particles do
    # ``module:Class`` of the `word_by_word.OptimalProposal` of a latent model that has one; its
    # family is ``optimal``, one name for all that are, or a name of its own
    optimal: str | None = None
    spans: bool = True  # whether latents are spans of words, which an annotation and a figure show
    # Whether a latent model has a sampler without latents, too, whose likelihood is exact: then it
    # is a `posterior_latents.DeterministicModel`
    deterministic: bool = False
    analytic: bool = False  # a proposal that is made of the model itself and not trained
    # ``module:function`` that brings a model: options and cleaning to model, vocabulary, source
    bring: str | None = None
    files: tuple[str, ...] = ()  # patterns of the files of an external model in a folder
    marker: str | None = None  # the file by which such a folder is known
    # Module with decoding engines of its own: ``SamplingEngine``, ``BeamEngine`` (see
    # `decoding.engine`) and ``DEFAULT_BATCH``; None: the common ones
    engines: str | None = None
    # ``module:Dataclass`` of the options of its training, where it is trained
    training: str = "beyond_perplexity.training.options:TrainingOptions"
    # What a latent model gives one probability and writes; see `latent_instances.document_of`
    unit: Unit = "document"
    plain: bool = False  # latent models are held against it where the configuration names no other


_MODELS = "beyond_perplexity.models"
_LEARNING = "beyond_perplexity/training/learning.py"
_BROUGHT = "huggingface_bring:HuggingFaceOptions"
_TOP_DOWN = "latents.rnng_top_down_actions:TopDownOptions"


def _of(module: str, kind: str, title: str = "", options: str = "") -> tuple[str, str, str]:
    """Name class, options, which are in its module unless another is named, and title."""
    own = options if ":" in options else f"{module}:{options or f'{kind}Options'}"
    return f"{_MODELS}.{module}:{kind}", f"{_MODELS}.{own}", title or kind


_latent = partial(Family, kind="latent", sequential=True)
_proposal = partial(
    Family,
    kind="proposal",
    training="beyond_perplexity.training.options:ProposalTrainingOptions",
)

FAMILIES: Rows[Family] = {
    "cnn": Family(*_of("cnn", "CNN"), "trained"),
    "confidence-orders": Family(None, None, "Orders by confidence", "proposal", analytic=True),
    "discriminative-rnng": _proposal(
        *_of("latents.rnng_discriminative", "DiscriminativeRNNG", "Discriminative RNNG", _TOP_DOWN),
        needs=("trees",),
        shares=("minimum_words", "unknown_classes", "maximum_open", "maximum_run"),
    ),
    "entity-tagger": _proposal(
        *_of("latents.entitynlm_tagger", "EntityTagger", "Entity tagger"),
        needs=("mentions",),
        shares=("maximum_entities", "maximum_length"),
    ),
    "entitynlm": _latent(
        *_of("latents.entitynlm", "EntityNLM"),
        needs=("mentions",),
        proposals=("entity-tagger", "optimal"),
        optimal=f"{_MODELS}.latents.entitynlm_optimal:OptimalEntities",
    ),
    "gru": Family(*_of("recurrent", "GRU", options="RecurrentOptions"), "trained"),
    "huggingface": Family(
        *_of("huggingface_model", "HuggingFace", "Hugging Face", _BROUGHT),
        kind="external",
        bring=f"{_MODELS}.huggingface_bring:bring",
        files=("*.json", "*.safetensors", "*.txt", "*.model"),
        marker="config.json",
    ),
    "huggingface-masked": _latent(
        *_of("latents.masked_huggingface", "HuggingFaceMasked", "Hugging Face, masked"),
        proposals=("confidence-orders",),
        optimal=f"{_MODELS}.latents.masked_diffusion_orders:ConfidenceOrders",
        spans=False,
        deterministic=True,
        bring=f"{_MODELS}.latents.masked_huggingface:bring_masked",
        files=("*.json", "*.safetensors", "*.txt", "*.model"),
    ),
    "joint": Family(
        None, None, "Joint proposal", "proposal", ("trees",), asks={"training": "unsupervised"}
    ),
    "kglm": _latent(
        *_of("latents.kglm", "KGLM"),
        needs=("graph", "mentions"),
        proposals=("kglm-tagger", "optimal"),
        optimal=f"{_MODELS}.latents.kglm_optimal:OptimalLinks",
    ),
    "kglm-tagger": _proposal(
        *_of("latents.kglm_tagger", "KGLMTagger", "KGLM tagger", "TaggerOptions"),
        needs=("graph", "mentions"),
    ),
    "kneser-ney": Family(*_of("kneser_ney", "KneserNey", "Kneser–Ney"), "counted"),
    "lstm": Family(*_of("recurrent", "LSTM", options="RecurrentOptions"), "trained", plain=True),
    "masked-diffusion": _latent(
        *_of("latents.masked_diffusion", "MaskedDiffusion", "Masked diffusion"),
        proposals=("confidence-orders",),
        optimal=f"{_MODELS}.latents.masked_diffusion_orders:ConfidenceOrders",
        spans=False,
        deterministic=True,
    ),
    "optimal": Family(None, None, "Optimal proposal", "proposal", analytic=True),
    "rnn": Family(*_of("elman", "RNN", options="ElmanOptions"), "trained"),
    "rnng": _latent(
        *_of("latents.rnng", "RNNG"),
        needs=("trees",),
        proposals=("span-crf", "joint"),
        unit="sentence",
    ),
    "rnng-top-down": _latent(
        *_of("latents.rnng_top_down_model", "TopDownRNNG", "RNNG (top-down)"),
        needs=("trees",),
        proposals=("discriminative-rnng",),
        unit="sentence",
    ),
    "sentence-rnn": Family(
        *_of("sentence_rnn", "SentenceRNN", "Sentence RNN"),
        kind="unnormalized",
        training="beyond_perplexity.training.options:ContrastiveTrainingOptions",
    ),
    "span-crf": _proposal(
        *_of("latents.rnng_span_crf", "SpanCRF", "Span CRF"),
        needs=("trees",),
        shares=("minimum_words", "unknown_classes"),
    ),
    "transformer": Family(*_of("transformer", "Transformer"), "trained", plain=True),
    "transformer-adaptive-softmax": Family(
        *_of("transformer_adaptive_softmax", "AdaptiveTransformer", "Transformer (AS)"), "trained"
    ),
    "trigram": Family(
        f"{_MODELS}.trigram:Trigram",
        None,
        title="Trigram",
        kind="counted",
        engines="beyond_perplexity.decoding.ngram",
    ),
}


def find_row(family: object) -> Family:
    """Return the row of a family, or say which there are."""
    if not isinstance(family, str) or family not in FAMILIES:
        raise InputError(f"family: is {family!r}; allowed are {', '.join(FAMILIES)}")
    return FAMILIES[family]


def is_taken_as_it_is(family: object, training: object) -> bool:
    """Return whether a model comes trained and is trained no further: it reads plain text."""
    return find_row(family).kind == "external" and not training


def families_of(*kinds: Kind) -> tuple[str, ...]:
    """Return the names of all families of the given kinds."""
    return tuple(name for name, row in FAMILIES.items() if row.kind in kinds)


def proposal_modules(family: object, proposal: object) -> list[str]:
    """List the files of a latent family and of the family of its proposal, for `fingerprint`."""
    row = find_row(family)
    files = {*family_modules(family), *family_modules(proposal)}
    if row.optimal and is_analytic(proposal):
        files.add(_file(row.optimal))
    return sorted(files)


def is_analytic(proposal: object) -> bool:
    """Return whether a family is that of proposals made of the model itself, not trained."""
    return find_row(proposal).analytic


def _file(reference: str) -> str:
    return f"{reference.split(':')[0].replace('.', '/')}.py"


def family_modules(family: object) -> list[str]:
    """List a family's files, relative to the repository, for `fingerprint`, without its engines
    (`generating_modules`)."""
    row = find_row(family)
    named = {row.reference, row.options, row.bring} - {None}
    return sorted({_file(str(name)) for name in named})


def generating_modules(family: object) -> list[str]:
    """List the files of a family's own decoding engines, for the `fingerprint` of generation."""
    engines = find_row(family).engines
    return [_file(engines)] if engines else []


def training_modules(family: object) -> list[str]:
    """List the files of a family and of its training, for the `fingerprint` of the latter."""
    learns = find_row(family).kind != "counted"
    return [*family_modules(family), *([_LEARNING] if learns else [])]

"""A row is all that the rest of the house must know of a family; nothing heavy is imported.

Rows do not count for the fingerprint of code: the modules that a row names do, by
`family_modules`, for the jobs of that family alone. So nothing that computes a result belongs
into this file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from beyond_perplexity.errors import InputError
from beyond_perplexity.options import Rows

Kind = Literal["counted", "trained", "brought", "unnormalized", "latent", "proposal"]
Need = Literal["trees", "mentions", "graph"]
Unit = Literal["document", "sentence"]


@dataclass(frozen=True)
class Family:
    """What is known of a family of models or proposals without importing it.

    Attributes
    ----------
    reference : str or None
        ``module:Class``; None: it has no class of its own, being trained within its model or made
        of it.
    options : str or None
        ``module:Dataclass`` of its architecture; None: it has no options.
    title : str
        How figures print it.
    kind : "counted", "trained", "brought", "unnormalized", "latent" or "proposal"
        counted: from counts of the corpus, without gradients; trained: by gradients; brought: comes
        trained, with its own vocabulary; unnormalized: trained to score sentences, without a
        likelihood; latent: trained, with latent variables, so that its likelihood is estimated;
        proposal: of the latent variables of such a model.
    needs : tuple of "trees", "mentions" or "graph"
        What its corpus must be annotated with; see `planning.latent_checks.REQUIREMENTS`.
    proposals : tuple of str
        Families of its proposals.
    shares : tuple of str
        Options of a proposal that are those of its model, as they decide which latents there are.
    asks : dict
        Options that the model of a proposal must have.
    sequential : bool
        A latent model that can be walked word by word, as sequential Monte Carlo does.
    optimal : str or None
        ``module:Class`` of the `word_by_word.OptimalProposal` of a latent model that has one; its
        family, ``optimal``, is one name for all of them.
    worked_out : bool
        A proposal that is made of the model itself and not trained.
    bring : str or None
        ``module:function`` that brings a model: options and cleaning to model, vocabulary, source.
    files : tuple of str
        Patterns of the files of a model that is brought in a folder.
    marker : str or None
        The file by which such a folder is known.
    engines : str or None
        Module with decoding engines of the family's own: ``SamplingEngine``, ``BeamEngine`` (see
        `decoding.engine`) and ``DEFAULT_BATCH``; None: the common ones.
    training : str
        ``module:Dataclass`` of the options of its training, where it is trained.
    unit : "document" or "sentence"
        What a latent model gives one probability and writes: see `latent_instances.document_of`.
    plain : bool
        Whether latent models are held against it where the configuration names no other.
    """

    reference: str | None
    options: str | None
    title: str
    kind: Kind
    needs: tuple[Need, ...] = ()
    proposals: tuple[str, ...] = ()
    shares: tuple[str, ...] = ()
    asks: Mapping[str, Any] = field(default_factory=dict)
    sequential: bool = False
    optimal: str | None = None
    worked_out: bool = False
    bring: str | None = None
    files: tuple[str, ...] = ()
    marker: str | None = None
    engines: str | None = None
    training: str = "beyond_perplexity.training.options:TrainingOptions"
    unit: Unit = "document"
    plain: bool = False


_MODELS = "beyond_perplexity.models"
_LEARNING = "beyond_perplexity/training/learning.py"
_OF_PROPOSALS = "beyond_perplexity.training.options:ProposalTrainingOptions"

FAMILIES: Rows[Family] = {
    "cnn": Family(f"{_MODELS}.cnn:CNN", f"{_MODELS}.cnn:CNNOptions", "CNN", "trained"),
    "discriminative-rnng": Family(
        reference=f"{_MODELS}.latents.rnng_discriminative:DiscriminativeRNNG",
        options=f"{_MODELS}.latents.rnng_top_down_actions:TopDownOptions",
        title="Discriminative RNNG",
        kind="proposal",
        needs=("trees",),
        shares=("minimum_words", "unknown_classes", "maximum_open", "maximum_run"),
        training=_OF_PROPOSALS,
    ),
    "entity-tagger": Family(
        reference=f"{_MODELS}.latents.entitynlm_tagger:EntityTagger",
        options=f"{_MODELS}.latents.entitynlm_tagger:EntityTaggerOptions",
        title="Entity tagger",
        kind="proposal",
        needs=("mentions",),
        shares=("maximum_entities", "maximum_length"),
        training=_OF_PROPOSALS,
    ),
    "entitynlm": Family(
        reference=f"{_MODELS}.latents.entitynlm:EntityNLM",
        options=f"{_MODELS}.latents.entitynlm:EntityNLMOptions",
        title="EntityNLM",
        kind="latent",
        needs=("mentions",),
        proposals=("entity-tagger", "optimal"),
        sequential=True,
        optimal=f"{_MODELS}.latents.entitynlm_optimal:OptimalEntities",
    ),
    "gru": Family(
        f"{_MODELS}.recurrent:GRU", f"{_MODELS}.recurrent:RecurrentOptions", "GRU", "trained"
    ),
    "huggingface": Family(
        reference=f"{_MODELS}.huggingface_model:HuggingFace",
        options=f"{_MODELS}.huggingface_bring:HuggingFaceOptions",
        title="Hugging Face",
        kind="brought",
        bring=f"{_MODELS}.huggingface_bring:bring",
        files=("*.json", "*.safetensors", "*.txt", "*.model"),
        marker="config.json",
    ),
    "joint": Family(
        None, None, "Joint proposal", "proposal", ("trees",), asks={"training": "unsupervised"}
    ),
    "kglm": Family(
        reference=f"{_MODELS}.latents.kglm:KGLM",
        options=f"{_MODELS}.latents.kglm:KGLMOptions",
        title="KGLM",
        kind="latent",
        needs=("graph", "mentions"),
        proposals=("kglm-tagger", "optimal"),
        sequential=True,
        optimal=f"{_MODELS}.latents.kglm_optimal:OptimalLinks",
    ),
    "kglm-tagger": Family(
        reference=f"{_MODELS}.latents.kglm_tagger:KGLMTagger",
        options=f"{_MODELS}.latents.kglm_tagger:TaggerOptions",
        title="KGLM tagger",
        kind="proposal",
        needs=("graph", "mentions"),
        training=_OF_PROPOSALS,
    ),
    "kneser-ney": Family(
        reference=f"{_MODELS}.kneser_ney:KneserNey",
        options=f"{_MODELS}.kneser_ney:KneserNeyOptions",
        title="Kneser–Ney",
        kind="counted",
    ),
    "lstm": Family(
        reference=f"{_MODELS}.recurrent:LSTM",
        options=f"{_MODELS}.recurrent:RecurrentOptions",
        title="LSTM",
        kind="trained",
        plain=True,
    ),
    "optimal": Family(None, None, "Optimal proposal", "proposal", worked_out=True),
    "rnn": Family(f"{_MODELS}.elman:RNN", f"{_MODELS}.elman:ElmanOptions", "RNN", "trained"),
    "rnng": Family(
        reference=f"{_MODELS}.latents.rnng:RNNG",
        options=f"{_MODELS}.latents.rnng:RNNGOptions",
        title="RNNG",
        kind="latent",
        needs=("trees",),
        proposals=("span-crf", "joint"),
        sequential=True,
        unit="sentence",
    ),
    "rnng-top-down": Family(
        reference=f"{_MODELS}.latents.rnng_top_down_model:TopDownRNNG",
        options=f"{_MODELS}.latents.rnng_top_down_model:TopDownRNNGOptions",
        title="RNNG (top-down)",
        kind="latent",
        needs=("trees",),
        proposals=("discriminative-rnng",),
        sequential=True,
        unit="sentence",
    ),
    "sentence-rnn": Family(
        reference=f"{_MODELS}.sentence_rnn:SentenceRNN",
        options=f"{_MODELS}.sentence_rnn:SentenceRNNOptions",
        title="Sentence RNN",
        kind="unnormalized",
        training="beyond_perplexity.training.options:ContrastiveTrainingOptions",
    ),
    "span-crf": Family(
        reference=f"{_MODELS}.latents.rnng_span_crf:SpanCRF",
        options=f"{_MODELS}.latents.rnng_span_crf:SpanCRFOptions",
        title="Span CRF",
        kind="proposal",
        needs=("trees",),
        shares=("minimum_words", "unknown_classes"),
        training=_OF_PROPOSALS,
    ),
    "transformer": Family(
        reference=f"{_MODELS}.transformer:Transformer",
        options=f"{_MODELS}.transformer:TransformerOptions",
        title="Transformer",
        kind="trained",
        plain=True,
    ),
    "transformer-adaptive-softmax": Family(
        reference=f"{_MODELS}.transformer_adaptive_softmax:AdaptiveTransformer",
        options=f"{_MODELS}.transformer_adaptive_softmax:AdaptiveTransformerOptions",
        title="Transformer (AS)",
        kind="trained",
    ),
    "trigram": Family(
        reference=f"{_MODELS}.trigram:Trigram",
        options=None,
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
    return find_row(family).kind == "brought" and not training


def families_of(*kinds: Kind) -> tuple[str, ...]:
    """Return the names of all families of the given kinds."""
    return tuple(name for name, row in FAMILIES.items() if row.kind in kinds)


def proposal_modules(family: object, proposal: object) -> list[str]:
    """List the files of a latent family and of the family of its proposal, for `fingerprint`."""
    row = find_row(family)
    files = {*family_modules(family), *family_modules(proposal)}
    if row.optimal and is_worked_out(proposal):
        files.add(_file(row.optimal))
    return sorted(files)


def is_worked_out(proposal: object) -> bool:
    """Return whether a family is that of proposals made of the model itself, not trained."""
    return find_row(proposal).worked_out


def _file(reference: str) -> str:
    return f"{reference.split(':')[0].replace('.', '/')}.py"


def family_modules(family: object) -> list[str]:
    """List the files that a family's row names, relative to the repository, for `fingerprint`.

    Not those of its engines, which generation alone uses: see `generating_modules`.
    """
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

"""All sections of a configuration: what its schema and the page of its keys are written from.

Nothing else imports this module: some options bring a heavy library along.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Annotated, Any

from beyond_perplexity.decoding.options import DecodingOptions
from beyond_perplexity.options import OMITTED, Limit, Section
from beyond_perplexity.planning.evaluator_sections import EvaluatorSection
from beyond_perplexity.planning.measurement_sections import (
    Contrastive,
    Importance,
    Perplexity,
    Semantics,
    Tendencies,
)
from beyond_perplexity.planning.text_sections import (
    Corpus,
    External,
    Generation,
    Model,
    Names,
    ProposalSection,
)
from beyond_perplexity.vocabulary import BUILT_KINDS


@dataclass(frozen=True)
class PublishedData(Section):
    """Corpora whose texts are those of a paper, by the paper.

    Attributes
    ----------
    tendencies : list of str
        Corpora that are the million documents of English Wikipedia of Meister and Cotterell (2021).
    importance : list of str
        Corpora that are those of Logan, Gardner and Singh (2020): the Penn Treebank for RNNG,
        OntoNotes for EntityNLM, Linked WikiText-2 for KGLM. The values stand beside where every
        model of the tables is on one of them.
    contrastive : list of str
        Corpora that are the Penn Treebank as Arora and Rangarajan (2016) have it.
    semantics : list of str
        Corpora that are the Penn Treebank or WikiText-2 as the paper of semantic evaluation has
        them.
    """

    tendencies: Names = ()
    importance: Names = ()
    contrastive: Names = ()
    semantics: Names = ()


@dataclass(frozen=True)
class ReportSection(Section):
    """Section ``report``.

    Attributes
    ----------
    published : PublishedData
        Where published values stand beside this run's: in the tables of corpora that are the data
        of the paper. Nothing can tell from a text whose it is, so that you say it. Elsewhere such
        values do not compare, and are left out.
    """

    published: PublishedData = field(default_factory=PublishedData)


if TYPE_CHECKING:
    _Vocabulary = Any
else:  # told apart by their kind
    _Vocabulary = reduce(or_, (row.options for row in BUILT_KINDS.values()))


@dataclass(frozen=True)
class Pathvars(Section):
    """Section ``pathvars``.

    Attributes
    ----------
    results : str
        Folder of everything the run makes.
    logs : str
        Folder of the logs.
    benchmarks : str
        Folder of Snakemake's time and memory records.
    """

    results: str = OMITTED
    logs: str = OMITTED
    benchmarks: str = OMITTED


@dataclass(frozen=True, kw_only=True)
class Configuration(Section):
    """Every scientific choice of a run; threads, partitions and paths of a machine are a profile's.

    Attributes
    ----------
    seed : int
        Seed of every random stream of the run.
    pathvars : Pathvars
        Snakemake's path variables; `results`, `logs` and `benchmarks` move the folders of the same
        names.
    corpora : dict of str to Corpus
        Bodies of text, by name.
    vocabularies : dict of str to the options of a kind
        Vocabularies, by name; each is built from the training split of the corpus of the model that
        uses it.
    models : dict of str to Model
        Language models, by name; the name labels rows and colours.
    decodings : dict of str to DecodingOptions
        Ways to generate text from a model, by name.
    generation : Generation
        Which models generate how many documents, and how.
    external_samples : dict of str to External
        Samples that you bring, by name; each is compared like a model's own.
    tendencies : Tendencies
        What is measured of every body of text and how it is tested.
    perplexity : Perplexity
        How likelihoods are computed.
    proposals : dict of str to ProposalSection
        Distributions of a model's latent variables given the words, by name; trained like models.
    importance : Importance
        Importance sampling of models with latent variables.
    contrastive : Contrastive
        How well models tell texts from distortions of them.
    semantics : Semantics
        How near in meaning predictions are to what was written.
    evaluators : dict of str to the options of a family
        What gives two texts a similarity, by name; section `semantics` says which of them score.
    report : ReportSection
        What tables show beside this run's numbers.
    """

    seed: Annotated[int, Limit(minimum=0)] = 1
    pathvars: Pathvars = OMITTED
    corpora: Annotated[dict[str, Corpus], Limit(minProperties=1)]
    vocabularies: dict[str, _Vocabulary]
    models: dict[str, Model]
    decodings: dict[str, DecodingOptions] = field(default_factory=dict)
    generation: Generation = field(default_factory=lambda: Generation((), (), 2))
    external_samples: dict[str, External] = field(default_factory=dict)
    tendencies: Tendencies = field(default_factory=Tendencies)
    perplexity: Perplexity = field(default_factory=Perplexity)
    proposals: dict[str, ProposalSection] = field(default_factory=dict)
    importance: Importance = field(default_factory=Importance)
    contrastive: Contrastive = field(default_factory=Contrastive)
    semantics: Semantics = field(default_factory=Semantics)
    evaluators: dict[str, EvaluatorSection] = field(default_factory=dict)
    report: ReportSection = field(default_factory=ReportSection)

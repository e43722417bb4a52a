"""The configuration, a module a section: what `rules/config.schema.yaml` is written from.

Nothing else imports this package: some options bring a heavy library along.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Annotated, Any

from beyond_perplexity.decoding.options import DecodingOptions
from beyond_perplexity.options import OMITTED, Limit, Section
from beyond_perplexity.planning.sections.contrastive import Contrastive
from beyond_perplexity.planning.sections.corpora import Corpus
from beyond_perplexity.planning.sections.evaluation import Importance, Perplexity, Tendencies
from beyond_perplexity.planning.sections.evaluators import EvaluatorSection
from beyond_perplexity.planning.sections.models import Model, ProposalSection
from beyond_perplexity.planning.sections.report import ReportSection
from beyond_perplexity.planning.sections.samples import External, Generation
from beyond_perplexity.planning.sections.semantics import Semantics
from beyond_perplexity.vocabulary import BUILT_KINDS

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

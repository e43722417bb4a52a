"""All sections of a configuration: what its schema and the page of its keys are written from.

Nothing else imports this module: some options bring a heavy library along.
"""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from beyond_perplexity.decoding.options import DecodingOptions
from beyond_perplexity.options import OMITTED, Limit
from beyond_perplexity.planning.evaluator_sections import EvaluatorSection
from beyond_perplexity.planning.measurement_sections import (
    Contrastive,
    Importance,
    Perplexity,
    Semantics,
    Tendencies,
)
from beyond_perplexity.planning.sections import NO_NAMES, Name, SectionModel
from beyond_perplexity.planning.text_sections import (
    Corpus,
    External,
    Generation,
    Model,
    Names,
    ProposalSection,
)
from beyond_perplexity.vocabulary import BUILT_KINDS


class PublishedData(SectionModel):
    """Corpora whose texts are those of a paper, by the paper.

    tendencies: Corpora that are the million documents of English Wikipedia of Meister and Cotterell
        (2021).
    importance: Corpora that are those of Logan, Gardner and Singh (2020): the Penn Treebank for
        RNNG, OntoNotes for EntityNLM, Linked WikiText-2 for KGLM. The values stand beside where
        every model of the tables is on one of them.
    contrastive: Corpora that are the Penn Treebank as Arora and Rangarajan (2016) have it.
    semantics: Corpora that are the Penn Treebank or WikiText-2 as the paper of semantic evaluation
        has them.
    """

    tendencies: Names = ()
    importance: Names = ()
    contrastive: Names = ()
    semantics: Names = ()


class ReportSection(SectionModel):
    """Section ``report``.

    published: Where published values stand beside this run's: in the tables of corpora that are the
        data of the paper. Nothing can tell from a text whose it is, so that you say it. Elsewhere
        such values do not compare, and are left out.
    """

    published: PublishedData = PublishedData()


if TYPE_CHECKING:
    _Vocabulary = Any
else:
    _KINDS = reduce(or_, (row.options for row in BUILT_KINDS.values()))
    _Vocabulary = Annotated[_KINDS, Field(discriminator="kind")]


class Pathvars(SectionModel):
    """Section ``pathvars``.

    results: Folder of everything the run makes.
    logs: Folder of the logs.
    benchmarks: Folder of Snakemake's time and memory records.
    """

    results: str = OMITTED
    logs: str = OMITTED
    benchmarks: str = OMITTED


class Configuration(SectionModel):
    """Every scientific choice of a run; threads, partitions and paths of a machine are a profile's.

    seed: Seed of every random stream of the run.
    pathvars: Snakemake's path variables; `results`, `logs` and `benchmarks` move the folders of the
        same names.
    corpora: Bodies of text, by name.
    vocabularies: Vocabularies, by name; each is built from the training split of the corpus of the
        model that uses it.
    models: Language models, by name; the name labels rows and colours.
    decodings: Ways to generate text from a model, by name.
    generation: Which models generate how many documents, and how.
    external_samples: Samples that you bring, by name; each is compared like a model's own.
    tendencies: What is measured of every body of text and how it is tested.
    perplexity: How likelihoods are computed.
    proposals: Distributions of a model's latent variables given the words, by name; trained like
        models.
    importance: Importance sampling of models with latent variables.
    contrastive: How well models tell texts from distortions of them.
    semantics: How near in meaning predictions are to what was written.
    evaluators: What gives two texts a similarity, by name; section `semantics` says which of them
        score.
    report: What tables show beside this run's numbers.
    """

    seed: Annotated[int, Limit(minimum=0)] = 1
    pathvars: Pathvars = OMITTED
    corpora: Annotated[dict[Name, Corpus], Limit(minProperties=1)]
    vocabularies: dict[Name, _Vocabulary]
    models: dict[Name, Model]
    decodings: dict[Name, DecodingOptions] = NO_NAMES
    generation: Generation = Generation(models=(), decodings=(), documents=2)
    external_samples: dict[Name, External] = NO_NAMES
    tendencies: Tendencies = Tendencies()
    perplexity: Perplexity = Perplexity()
    proposals: dict[Name, ProposalSection] = NO_NAMES
    importance: Importance = Importance()
    contrastive: Contrastive = Contrastive()
    semantics: Semantics = Semantics()
    evaluators: dict[Name, EvaluatorSection] = NO_NAMES
    report: ReportSection = ReportSection()

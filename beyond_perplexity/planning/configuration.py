"""All sections of a configuration: what it is read by, and the page of its keys is written from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from operator import or_
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from beyond_perplexity import options
from beyond_perplexity.corpus import extraction_options, formats
from beyond_perplexity.corpus.normalization import Preprocessing
from beyond_perplexity.decoding.options import DecodingOptions
from beyond_perplexity.importance import thought_draws
from beyond_perplexity.models.families import FAMILIES, Family
from beyond_perplexity.planning import measurement_sections, sections
from beyond_perplexity.vocabulary import BUILT_KINDS


class PathsBySplit(sections.SectionModel):
    """The files of a corpus that is already split.

    train: Files of the training split.
    valid: Files of the validation split.
    test: Files of the test split.
    """

    train: sections.Locations
    valid: sections.Locations
    test: sections.Locations


def _with_side_files(kind: type[options.Parsed]) -> type[options.Parsed]:
    return options.add_fields(
        kind, dict.fromkeys(formats.SIDE_FILES, (sections.Location, options.OMITTED)), {}
    )


@dataclass(frozen=True)
@_with_side_files
class Source(extraction_options.SourceOptions, options.Section):
    """Where a text comes from: files that a job gets when every URL has become a path."""

    left_out = tuple(formats.options_of_formats())

    paths: sections.Locations | PathsBySplit  # type: ignore[assignment]

    def __post_init__(self) -> None:
        """Leave the checks to `SourceOptions`, which a job gets."""


class Corpus(sections.SectionModel):
    """A sample set.

    source: Where the text comes from.
    trees: Automatic trees over the documents' own tokens; a treebank has its own.
    preprocessing: The cleaning steps, in the order of XLM's preparation; each is a switch. To penn,
        conll and linked-wikitext only lower_case and remove_accents apply, token by token.
    documents: Which documents are kept.
    split: What goes to each split, where the source does not say it.
    """

    source: Source
    trees: extraction_options.AutomaticTreeOptions = options.OMITTED
    preprocessing: Preprocessing = Preprocessing()
    documents: extraction_options.DocumentOptions = extraction_options.DocumentOptions()
    split: formats.SplitOptions = options.OMITTED


class PromptSection(sections.SectionModel):
    """Models continue the beginnings of human documents, and are compared with how people went on.

    tokens: Words of a document of the test split that are its prompt.
    models: Names of the models of the run that continue them.
    decodings: Names of the decodings that each of them uses: any but beams.
    documents: Prompts at most, the first documents of the test split that go on behind them.
    """

    tokens: options.Count
    models: sections.Names
    decodings: sections.Names
    documents: options.Count = 1_000


class Generation(sections.SectionModel):
    """Section ``generation``.

    models: Names of the models that generate.
    decodings: Names of the decodings that each of them uses.
    documents: Documents per model and decoding; they are compared with as many of the test split.
    documents_per_shard: Documents of one job; 10 to 90 minutes of work on a cluster.
    maximum_length: Model tokens at which a document is cut; it is kept and counted as unfinished.
    precision: Type of the weights in decoding; auto takes bfloat16 on a GPU and float32 on a CPU.
        On a CPU bfloat16 can be several times faster, but texts then differ between kinds of CPU.
    prompts: Models continue human prompts as well; null: they do not.
    """

    models: sections.Names
    decodings: sections.Names
    documents: Annotated[int, options.Limit(minimum=2)]
    documents_per_shard: options.Count = 10_000
    maximum_length: options.Length = 512
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    prompts: PromptSection | None = None


class External(sections.SectionModel):
    """External samples.

    corpus: Name of the corpus whose test split it is compared with.
    path: The file, one document a line.
    format: Format of the file; auto: by its suffix, .jsonl, .ndjson, .json and .parquet, else text.
    field: The field or column of the texts in JSONL or Parquet; null: text.
    preprocessing: Cleaning steps; should end in the same kind of tokens as the corpus.
    vocabulary: Name of the closed vocabulary, built from the corpus, that they and the human text
        are read in: that of the model that wrote them. null: as they are.
    """

    corpus: str
    path: sections.Location
    format: Annotated[str, options.Limit(enum=(formats.AUTOMATIC, *formats.TEXT_FORMATS))] = (
        formats.AUTOMATIC
    )
    field: str | None = None
    preprocessing: Preprocessing = Preprocessing()
    vocabulary: str | None = None


MODELS = {name: row for name, row in FAMILIES.items() if row.kind != "proposal"}
PROPOSALS = {name: row for name, row in FAMILIES.items() if row.kind == "proposal"}


def _architectures(rows: Mapping[str, Family]) -> sections.DependsOn:
    return sections.DependsOn("family", {name: row.options for name, row in rows.items()})


def _trainings(rows: Mapping[str, Family]) -> sections.DependsOn:
    """Name the options of the training of families, None where they have none of their own."""
    none = [name for name, row in rows.items() if not row.reference or row.kind == "counted"]
    found = {name: resolve_name(row.training) for name, row in rows.items() if name not in none}
    return sections.DependsOn("family", {name: found.get(name) for name in rows})


class Model(sections.SectionModel):
    """A language model.

    family: The architecture; one file of beyond_perplexity/models. huggingface takes a trained
        model of yours.
    corpus: Name of the corpus it is trained on and compared with.
    vocabulary: Name of its vocabulary; a huggingface model has none, it brings its tokenizer.
    architecture: Sizes of the network; for huggingface, where the model is.
    training: How it is trained. A huggingface model is trained further where an option is given,
        and else taken as it is.
    """

    family: Annotated[str, options.Limit(enum=list(MODELS))]
    corpus: str
    vocabulary: str = options.OMITTED
    architecture: Annotated[dict[str, Any], _architectures(MODELS)] = sections.NO_NAMES
    training: Annotated[dict[str, Any], _trainings(MODELS)] = sections.NO_NAMES


class ProposalSection(sections.SectionModel):
    """A distribution of the latent variables of a model given the words.

    model: Name of the model with latent variables that it is for.
    family: The architecture, one file of beyond_perplexity/models; or joint, trained with the
        model; or optimal, which is analytic: it needs no training.
    architecture: Sizes of the network, and what it sees of the words.
    training: How it is trained.
    temperatures: Temperatures that samples are drawn at; null takes those of `importance`.
    particles: K of each run of sequential Monte Carlo; null takes that of `importance.smc`. More
        pay where particles share their states, as those of KGLM do.
    """

    model: str
    family: Annotated[str, options.Limit(enum=list(PROPOSALS))]
    architecture: Annotated[dict[str, Any], _architectures(PROPOSALS)] = sections.NO_NAMES
    training: Annotated[dict[str, Any], _trainings(PROPOSALS)] = sections.NO_NAMES
    temperatures: sections.Temperatures | None = None
    particles: options.Count | None = None


class ThoughtSection(sections.SectionModel):
    """Prompts with answers that models give after thoughts.

    path: The file, with a prompt and its answer in a row: JSONL, Parquet or CSV.
    prompt: Field of the prompt.
    answer: Field of the answer.
    models: Names of the models that think and answer.
    proposals: What thoughts are drawn from, each for itself: own (the model given the prompt),
        answer (given a prompt that shows the answer), mixture (both).
    own_share: Share of own thoughts in the mixture.
    shown: How a prompt shows its answer, with {prompt} and {answer}.
    samples: K, thoughts of each prompt.
    most_tokens: Longest thought, its end included; a longer one is cut and gives no answer.
    end_of_thought: What ends a thought.
    between: What stands between that and the answer; null: an empty line where the model has a chat
        template, else nothing.
    instances: Prompts at most, the first of the file.
    instances_per_shard: Prompts of one job; 10 to 90 minutes of work on a cluster.
    """

    path: sections.Location
    prompt: str = "prompt"
    answer: str = "answer"
    models: Annotated[sections.Names, options.Limit(minItems=1)]
    proposals: Annotated[
        tuple[thought_draws.ThoughtProposal, ...], options.Limit(uniqueItems=True, minItems=1)
    ] = ("own", "mixture")
    own_share: options.Level = 0.5
    shown: str = thought_draws.SHOWN_ANSWER
    samples: Annotated[int, options.Limit(minimum=1, maximum=options.MOST_DRAWS)] = 64
    most_tokens: options.Length = 1024
    end_of_thought: str = thought_draws.END_OF_THOUGHT
    between: str | None = None
    instances: options.Count = 1_000
    instances_per_shard: options.Count = 100


class PublishedData(sections.SectionModel):
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

    tendencies: sections.Names = ()
    importance: sections.Names = ()
    contrastive: sections.Names = ()
    semantics: sections.Names = ()


class ReportSection(sections.SectionModel):
    """Section ``report``.

    published: Where published values stand beside this run's: in the tables of corpora that are the
        data of the paper. No program can tell from a text whose it is, so you must say it.
        Elsewhere such values do not compare, and are left out.
    """

    published: PublishedData = PublishedData()


if TYPE_CHECKING:
    _Vocabulary = Any
else:
    _KINDS = reduce(or_, (row.options for row in BUILT_KINDS.values()))
    _Vocabulary = Annotated[_KINDS, Field(discriminator="kind")]


class Pathvars(sections.SectionModel):
    """Section ``pathvars``.

    results: Folder of everything the run makes.
    logs: Folder of the logs.
    benchmarks: Folder of Snakemake's time and memory records.
    """

    results: str = options.OMITTED
    logs: str = options.OMITTED
    benchmarks: str = options.OMITTED


class Configuration(sections.SectionModel):
    """Every scientific choice of a run; threads, partitions and paths of a machine are a profile's.

    seed: Seed of every random stream of the run.
    pathvars: Snakemake's path variables; `results`, `logs` and `benchmarks` move the folders of the
        same names.
    corpora: Texts, by name.
    vocabularies: Vocabularies, by name; each is built from the training split of the corpus of the
        model that uses it.
    models: Language models, by name; the name labels rows and colours.
    decodings: Ways to generate text from a model, by name.
    generation: Which models generate how many documents, and how.
    external_samples: Samples that you bring, by name; each is compared like a model's own.
    tendencies: What is measured of every sample set and how it is tested.
    perplexity: How likelihoods are computed.
    proposals: Distributions of a model's latent variables given the words, by name; trained like
        models.
    importance: Importance sampling of models with latent variables.
    thoughts: Prompts with answers, by name, whose perplexity is summed over thoughts of models.
    contrastive: How well models tell texts from distortions of them.
    semantics: How near in meaning predictions are to what was written.
    evaluators: What gives two texts a similarity, by name; section `semantics` says which of them
        score.
    report: What tables show beside this run's numbers.
    """

    seed: Annotated[int, options.Limit(minimum=0)] = 1
    pathvars: Pathvars = options.OMITTED
    corpora: Annotated[dict[sections.Name, Corpus], options.Limit(minProperties=1)]
    vocabularies: dict[sections.Name, _Vocabulary]
    models: dict[sections.Name, Model]
    decodings: dict[sections.Name, DecodingOptions] = sections.NO_NAMES
    generation: Generation = Generation(models=(), decodings=(), documents=2)
    external_samples: dict[sections.Name, External] = sections.NO_NAMES
    tendencies: measurement_sections.Tendencies = measurement_sections.Tendencies()
    perplexity: measurement_sections.Perplexity = measurement_sections.Perplexity()
    proposals: dict[sections.Name, ProposalSection] = sections.NO_NAMES
    importance: measurement_sections.Importance = measurement_sections.Importance()
    thoughts: dict[sections.Name, ThoughtSection] = sections.NO_NAMES
    contrastive: measurement_sections.Contrastive = measurement_sections.Contrastive()
    semantics: measurement_sections.Semantics = measurement_sections.Semantics()
    evaluators: dict[sections.Name, measurement_sections.EvaluatorSection] = sections.NO_NAMES
    report: ReportSection = ReportSection()

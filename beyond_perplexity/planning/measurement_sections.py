"""Sections of what is measured, and how exactly, and ``evaluators``: what gives a similarity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from beyond_perplexity.contrastive import PartitionOptions
from beyond_perplexity.corpus.distortions import DistortionOptions
from beyond_perplexity.corpus.formats import SPLITS
from beyond_perplexity.importance import ways_to_draw
from beyond_perplexity.options import Count, Layers, Limit, Natural, Section, Share, Width
from beyond_perplexity.planning import sections
from beyond_perplexity.semantics.evaluators import job
from beyond_perplexity.semantics.measures import ContinuationOptions, MeasureOptions
from beyond_perplexity.tendencies import measurement_options

_GRAPH = "beyond_perplexity.models.latents.kglm_embedding:GraphOptions"
SplitName = Annotated[str, Limit(enum=SPLITS)]


class Tendencies(sections.SectionModel):
    """Section ``tendencies``.

    stop_words: auto (the list of the corpus' language, gensim's for English), gensim, nltk (NLTK's
        installed data), or a list with one word a line: a path or a URL.
    count_s_symbols: Currency, math and other Unicode S* tokens count as symbols, as punctuation and
        numerals do.
    maximum_tokens: One cap of length for models and human text: tokens (words) of a document that
        are read. The rest of a longer one is cut off, and such documents are counted. null: none.
    minimum_tokens: Documents of fewer tokens (headings and the like) are left out, on both sides.
    documents_per_count: Documents that one job counts: as many shards as hold them. A sample set
        with more is counted by several jobs, whose counts are added up; one that has grown is
        counted again from the first job on that was not full.
    resamples: Random subsets of the training split, as large as the reference, that Table 4's
        standard deviations come from.
    measurement: Fits, permutations and bootstrap.
    sample_size: Measures of random subsets, which show how many documents a conclusion needs.
    sensitivity: The minimum detectable effect of each tendency by number of documents.
    embedding: Documents are compared by their vectors as well; null: they are not.
    judge: Documents are compared by their bits per byte under a model as well; null: they are not.
    """

    stop_words: sections.Location = "auto"
    count_s_symbols: bool = True
    maximum_tokens: Count | None = None
    minimum_tokens: Natural = 0
    documents_per_count: Count = 1_000_000
    resamples: Annotated[int, Limit(minimum=2)] = 10
    measurement: measurement_options.MeasurementOptions = measurement_options.MeasurementOptions()
    sample_size: measurement_options.SampleSizeOptions = measurement_options.SampleSizeOptions()
    sensitivity: measurement_options.SensitivityOptions = measurement_options.SensitivityOptions()
    embedding: measurement_options.EmbeddingOptions | None = None
    judge: measurement_options.JudgeOptions | None = None


class Perplexity(sections.SectionModel):
    """Section ``perplexity``.

    split: The split that is scored.
    parts_of: Models of one corpus whose differences are split by kinds of words, places and
        documents, pair by pair. Each must find every document possible, as a trigram does not, and
        all are of closed vocabularies, whose unknown words are free, or none is.
    """

    split: SplitName = "test"
    parts_of: sections.Names = ()


class Importance(sections.SectionModel):
    """Section ``importance``.

    proposals: Names of the proposals that are drawn from; null takes all.
    split: The split whose instances (sentences or documents) are weighed.
    instances: Instances of the split, chosen at random; fewer if it has fewer.
    samples: K, samples of each instance.
    temperatures: Temperatures of the proposals; of several, log q of every sample is kept at each
        of them.
    beams: Sizes of the beams of beam marginalization.
    smc: Sequential Monte Carlo with every proposal of a model that goes word by word; null leaves
        it out.
    bidirectional: The gap between each proposal's estimates from both sides, on documents that its
        model generates, so that a draw from the posterior is known; null leaves it out.
    posterior: Latents under the posterior and under every proposal, compared with the annotation;
        null leaves them out.
    reduction: Subsets, bootstraps and replicates that the weights are reduced with.
    graph: Embeddings of the knowledge graph (TransE).
    choose: Whether the same is drawn on the validation split too, where temperature and estimator
        are then chosen: a bound that the reported split did not choose stays one in expectation.
    beside: Models without latent variables that are scored on the same instances, each beside the
        latent models of its corpus and vocabulary; null: the first LSTM and the first Transformer
        of the run.
    instances_per_shard: Instances of one job.
    samples_per_shard: Samples of each instance in one job; 10 to 90 minutes of work on a cluster.
    runs_per_shard: Runs of sequential Monte Carlo of each instance in one job.
    """

    proposals: sections.Names | None = None
    split: SplitName = "test"
    instances: Count = 100
    samples: Count = 100
    temperatures: sections.Temperatures | None = (0.5, 0.9, 1.0, 1.1, 2.0, 5.0)
    beams: Annotated[tuple[Count, ...], Limit(uniqueItems=True)] = (1, 10, 100)
    smc: ways_to_draw.SMCOptions | None = ways_to_draw.SMCOptions()
    bidirectional: ways_to_draw.SimulationOptions | None = None
    posterior: ways_to_draw.PosteriorOptions | None = ways_to_draw.PosteriorOptions()
    reduction: ways_to_draw.ReductionOptions = ways_to_draw.ReductionOptions()
    graph: Annotated[dict[str, Any], sections.Late(_GRAPH)] = sections.NO_NAMES
    choose: Literal["none", "validation"] = "none"
    beside: sections.Names | None = None
    instances_per_shard: Count = 100
    samples_per_shard: Count = 1000
    runs_per_shard: Count = 4


DistortionLevels = Annotated[tuple[Share, ...], Limit(uniqueItems=True)]


class ExternalPairs(sections.SectionModel):
    """Pairs of a good and a bad sentence that you bring.

    path: JSONL with an object a line, or TSV with a header row: sentence_good and sentence_bad,
        or good and bad; phenomenon or UID.
    tokenized: The sentences are cleaned already; else they are cleaned like the corpus of each
        model.
    """

    path: sections.Location
    tokenized: bool = False


@dataclass(frozen=True)
class Partition(PartitionOptions, Section):
    """The partition function of models without a likelihood, by importance sampling.

    proposal: Name of the language model whose words it is estimated from, with the vocabulary of
        all such models; null: it is not estimated.
    """

    proposal: str | None = None


class Contrastive(sections.SectionModel):
    """Section ``contrastive``.

    models: Names of the models that are scored, of any family with scores: also those that generate
        nothing.
    split: The split that is distorted.
    sentences: Sentences of each corpus that are scored at most: of documents in a random order, the
        same for all models.
    documents_are_sentences: Whether every document is one sentence (for each corpus named here);
        null: only in a treebank whose trees are its documents. In other documents a sentence ends
        after a run of ``.``, ``!`` and ``?``. Nothing is moved from one sentence to another.
    levels: Levels of distortion: the probability that a word is hit.
    draws: Distortions at each of them.
    curve: Further levels, for the curve of contrastive entropy against distortion.
    curve_draws: Distortions at each of those.
    base_level: The level whose contrastive entropy the ratio divides by.
    parts_level: The level whose contrastive entropy is split by event, by how frequent a
        substituted word is, and by how far transposed words are apart; about seven scores in place
        of one. null: none.
    distortion: What happens to a word that is hit.
    vocabulary: Name of the closed vocabulary that substitutes come from; null: that of the first
        listed model of the corpus that has one.
    pairs: Files of external pairs, by name; every listed model scores them.
    partition: How the partition function of models without a likelihood is estimated.
    sentences_per_shard: Sentences of one job.
    draws_per_shard: Distortions at each level in one job; 10 to 90 minutes of work on a cluster.
    """

    models: sections.Names = ()
    split: SplitName = "test"
    sentences: Count = 500
    documents_are_sentences: bool | dict[sections.Name, bool] | None = None
    levels: Annotated[DistortionLevels, Limit(minItems=1)] = (0.1, 0.3, 0.5)
    draws: Count = 10
    curve: DistortionLevels = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
    curve_draws: Count = 2
    base_level: Share = 0.1
    parts_level: Share | None = None
    distortion: DistortionOptions = DistortionOptions()
    vocabulary: str | None = None
    pairs: dict[sections.Name, ExternalPairs] = sections.NO_NAMES
    partition: Partition = Partition()
    sentences_per_shard: Count = 20_000
    draws_per_shard: Count = 10


SplitNames = Annotated[
    tuple[Annotated[str, Limit(enum=SPLITS)], ...], Limit(uniqueItems=True, minItems=1)
]


class HumanScores(sections.SectionModel):
    """Pairs of texts with a score that people gave.

    path: TSV or CSV with a header row; the first two columns are the texts.
    gold: Name of the column of the scores.
    """

    path: sections.Location
    gold: str = "score"


class Semantics(sections.SectionModel):
    """Section ``semantics``.

    models: Names of the models whose predictions are scored: each needs a likelihood, and none has
        to generate. Where the list is empty, nothing is made.
    evaluators: Names of the evaluators of section ``evaluators`` that compare texts; BLEU, accuracy
        and cross-entropy need none and are always there.
    splits: The splits whose sentences are predicted.
    sentences: Sentences of each of them at most: of documents in a random order, the same for all
        models of a corpus.
    samples: Words that are drawn at each position, beside the argmax.
    continuation: What models write by themselves after the first words of a sentence; null:
        nothing.
    documents_are_sentences: Whether every document is one sentence (for each corpus named here);
        null: only in a treebank whose trees are its documents. In other documents a sentence ends
        after a run of ``.``, ``!`` and ``?``.
    measures: Constants of the measures.
    human_scores: Files of pairs with scores that people gave, by name; each evaluator is compared
        with them.
    sentences_per_shard: Sentences of each split in one job; 10 to 90 minutes of work on a cluster.
    """

    models: sections.Names = ()
    evaluators: sections.Names = ()
    splits: SplitNames = ("valid", "test")
    sentences: Count = 500
    samples: Natural = 3
    continuation: ContinuationOptions | None = None
    documents_are_sentences: bool | dict[sections.Name, bool] | None = None
    measures: MeasureOptions = MeasureOptions()
    human_scores: dict[sections.Name, HumanScores] = sections.NO_NAMES
    sentences_per_shard: Count = 20_000


# leave-out, error, or the name of the evaluator that stands in.
Missing = Annotated[str, Limit(minLength=1)]


class InferSentSection(sections.SectionModel):
    """Section of an InferSent evaluator.

    family: A recurrent encoder of word vectors, trained on pairs of sentences.
    vectors: Name of the evaluator whose word vectors it reads, of family vectors or word2vec.
    path: Official weights (infersent1.pkl, infersent2.pkl); null: it is trained here.
    version: Of official weights: 1 read GloVe vectors, 2 those of fastText.
    corpus: Name of the corpus it is trained on, to tell the next sentence of a document from a
        random one.
    pairs: File of pairs of sentences with a label or a score that it is trained on instead: JSONL
        of SNLI or MultiNLI, TSV or CSV with a header row. With `path` the official encoder stays
        as it is, and the classifier of equation 6 alone is trained on it.
    first: Name of the column with the first sentences; null: sentence1, or the first column.
    second: Name of the column with the second sentences; null: sentence2, or the second column.
    label: Name of the column with labels or scores; null: gold_label, or the third column.
    valid_pairs: File of pairs that the training is watched on; null: a tenth of those of `pairs`.
    architecture: Sizes of the network.
    training: How it is trained.
    """

    family: Literal["infersent"]
    vectors: str
    path: sections.Location | None = None
    version: Literal[1, 2] = 1
    corpus: str | None = None
    pairs: sections.Location | None = None
    first: str | None = None
    second: str | None = None
    label: str | None = None
    valid_pairs: sections.Location | None = None
    architecture: job.InferSentOptions = job.InferSentOptions()
    training: job.PairTraining = job.PairTraining()


class SentenceTransformersSection(sections.SectionModel):
    """Section of an encoder of sentence-transformers.

    family: An encoder in a folder of sentence-transformers.
    package: A package with weights inside, of the extra `pretrained`; null: a folder.
    path: The folder; its weights are safetensors, and it has no code of its own.
    when_missing: Where the package is not installed: leave-out, error, or the name of the evaluator
        that stands in.
    """

    family: Literal["sentence-transformers"]
    package: Literal["minilm"] | None = None
    path: str | None = None
    when_missing: Missing = "leave-out"


class SkipThoughtSection(sections.SectionModel):
    """Section of a SkipThought evaluator.

    family: A recurrent encoder of words, trained to predict the sentences before and after.
    uni: Official weights uni_skip.npz; null: none.
    uni_table: Its word vectors, utable.npy.
    bi: Official weights bi_skip.npz; null: none. With both the vectors stand side by side.
    bi_table: Its word vectors, btable.npy.
    dictionary: The words of the tables, dictionary.txt.
    corpus: Name of the corpus it is trained on, where there are no official weights.
    vocabulary: Name of its closed vocabulary.
    architecture: Sizes of the network.
    training: How it is trained.
    """

    family: Literal["skipthought"]
    uni: sections.Location | None = None
    uni_table: sections.Location | None = None
    bi: sections.Location | None = None
    bi_table: sections.Location | None = None
    dictionary: sections.Location | None = None
    corpus: str | None = None
    vocabulary: str | None = None
    architecture: job.SkipThoughtOptions = job.SkipThoughtOptions()
    training: job.EvaluatorTraining = job.EvaluatorTraining()


class TransformerSection(sections.SectionModel):
    """Section of a Transformer evaluator.

    family: Inner products of the hidden states of the upper layers of a Transformer.
    model: Name of a Transformer among the models of the run.
    path: Folder of an encoder or language model of Hugging Face, with safetensors; instead of it.
    layers: K, the upper layers whose states are compared.
    """

    family: Literal["transformer"]
    model: str | None = None
    path: str | None = None
    layers: Layers = 2


class VectorsSection(sections.SectionModel):
    """Section of a table of word vectors.

    family: A table of word vectors: GloVe, word2vec, fastText.
    package: A package with vectors inside, of the extra `pretrained`; null: a file.
    path: The file: text or binary, gzipped or not.
    width: Numbers of a vector, where another number shall be an error.
    when_missing: Where the package is not installed: leave-out, error, or the name of the evaluator
        that stands in.
    """

    family: Literal["vectors"]
    package: Literal["glove"] | None = None
    path: sections.Location | None = None
    width: Width | None = None
    when_missing: Missing = "leave-out"


class Word2VecSection(sections.SectionModel):
    """Section of word vectors that are trained on a corpus of the run.

    family: Word vectors of the training split of a corpus (skip-gram with negative samples).
    corpus: Name of the corpus.
    width: Numbers of a vector.
    window: Words on either side that are predicted.
    minimum_count: A word seen less often has no vector.
    negatives: Negative samples of each word.
    epochs: Passes over the corpus.
    """

    family: Literal["word2vec"]
    corpus: str
    width: Width = 100
    window: Count = 5
    minimum_count: Count = 3
    negatives: Count = 5
    epochs: Count = 5


EvaluatorSection = Annotated[
    InferSentSection
    | SentenceTransformersSection
    | SkipThoughtSection
    | TransformerSection
    | VectorsSection
    | Word2VecSection,
    Field(discriminator="family"),
]

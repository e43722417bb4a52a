"""Section ``evaluators``: what gives two texts a similarity."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from beyond_perplexity.options import Count, Layers, Limit, Width
from beyond_perplexity.planning.sections import Location, SectionModel
from beyond_perplexity.semantics.evaluators.job import (
    EvaluatorTraining,
    InferSentOptions,
    PairTraining,
    SkipThoughtOptions,
)

# leave-out, error, or the name of the evaluator that stands in.
Missing = Annotated[str, Limit(minLength=1)]


class InferSentSection(SectionModel):
    """Section of an InferSent evaluator.

    family: A recurrent encoder of word vectors, trained on pairs of sentences.
    vectors: Name of the evaluator whose word vectors it reads, of family vectors or word2vec.
    path: Official weights (infersent1.pkl, infersent2.pkl); null: it is trained here.
    version: Of official weights: 1 read GloVe vectors, 2 those of fastText.
    corpus: Name of the corpus it is trained on, to tell the next sentence of a document from a
        random one.
    pairs: File of pairs of sentences with a label or a score that it is trained on instead: JSONL
        of SNLI or MultiNLI, TSV or CSV with a line of names. With `path` the official encoder stays
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
    path: Location | None = None
    version: Literal[1, 2] = 1
    corpus: str | None = None
    pairs: Location | None = None
    first: str | None = None
    second: str | None = None
    label: str | None = None
    valid_pairs: Location | None = None
    architecture: InferSentOptions = InferSentOptions()
    training: PairTraining = PairTraining()


class SentenceTransformersSection(SectionModel):
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


class SkipThoughtSection(SectionModel):
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
    uni: Location | None = None
    uni_table: Location | None = None
    bi: Location | None = None
    bi_table: Location | None = None
    dictionary: Location | None = None
    corpus: str | None = None
    vocabulary: str | None = None
    architecture: SkipThoughtOptions = SkipThoughtOptions()
    training: EvaluatorTraining = EvaluatorTraining()


class TransformerSection(SectionModel):
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


class VectorsSection(SectionModel):
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
    path: Location | None = None
    width: Width | None = None
    when_missing: Missing = "leave-out"


class Word2VecSection(SectionModel):
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

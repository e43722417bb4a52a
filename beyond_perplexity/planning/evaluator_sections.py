"""Section ``evaluators``: what gives two texts a similarity."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

from beyond_perplexity.options import Count, Layers, Limit, Section, Width
from beyond_perplexity.planning.text_sections import Location
from beyond_perplexity.semantics.evaluators.job import (
    EvaluatorTraining,
    InferSentOptions,
    PairTraining,
    SkipThoughtOptions,
)

# leave-out, error, or the name of the evaluator that stands in.
Missing = Annotated[str, Limit(minLength=1)]


@dataclass(frozen=True)
class InferSentSection(Section):
    """Section of an InferSent evaluator.

    Attributes
    ----------
    family : "infersent"
        A recurrent encoder of word vectors, trained on pairs of sentences.
    vectors : str
        Name of the evaluator whose word vectors it reads, of family vectors or word2vec.
    path : Location or None
        Official weights (infersent1.pkl, infersent2.pkl); null: it is trained here.
    version : 1 or 2
        Of official weights: 1 read GloVe vectors, 2 those of fastText.
    corpus : str or None
        Name of the corpus it is trained on, to tell the next sentence of a document from a random
        one.
    pairs : Location or None
        File of pairs of sentences with a label or a score that it is trained on instead: JSONL of
        SNLI or MultiNLI, TSV or CSV with a line of names. With `path` the official encoder stays as
        it is, and the classifier of equation 6 alone is trained on it.
    first : str or None
        Name of the column with the first sentences; null: sentence1, or the first column.
    second : str or None
        Name of the column with the second sentences; null: sentence2, or the second column.
    label : str or None
        Name of the column with labels or scores; null: gold_label, or the third column.
    valid_pairs : Location or None
        File of pairs that the training is watched on; null: a tenth of those of `pairs`.
    architecture : InferSentOptions
        Sizes of the network.
    training : PairTraining
        How it is trained.
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
    architecture: InferSentOptions = field(default_factory=InferSentOptions)
    training: PairTraining = field(default_factory=PairTraining)


@dataclass(frozen=True)
class SentenceTransformersSection(Section):
    """Section of an encoder of sentence-transformers.

    Attributes
    ----------
    family : "sentence-transformers"
        An encoder in a folder of sentence-transformers.
    package : "minilm" or None
        A package with weights inside, of the extra `pretrained`; null: a folder.
    path : str or None
        The folder; its weights are safetensors, and it has no code of its own.
    when_missing : str
        Where the package is not installed: leave-out, error, or the name of the evaluator that
        stands in.
    """

    family: Literal["sentence-transformers"]
    package: Literal["minilm"] | None = None
    path: str | None = None
    when_missing: Missing = "leave-out"


@dataclass(frozen=True)
class SkipThoughtSection(Section):
    """Section of a SkipThought evaluator.

    Attributes
    ----------
    family : "skipthought"
        A recurrent encoder of words, trained to predict the sentences before and after.
    uni : Location or None
        Official weights uni_skip.npz; null: none.
    uni_table : Location or None
        Its word vectors, utable.npy.
    bi : Location or None
        Official weights bi_skip.npz; null: none. With both the vectors stand side by side.
    bi_table : Location or None
        Its word vectors, btable.npy.
    dictionary : Location or None
        The words of the tables, dictionary.txt.
    corpus : str or None
        Name of the corpus it is trained on, where there are no official weights.
    vocabulary : str or None
        Name of its closed vocabulary.
    architecture : SkipThoughtOptions
        Sizes of the network.
    training : EvaluatorTraining
        How it is trained.
    """

    family: Literal["skipthought"]
    uni: Location | None = None
    uni_table: Location | None = None
    bi: Location | None = None
    bi_table: Location | None = None
    dictionary: Location | None = None
    corpus: str | None = None
    vocabulary: str | None = None
    architecture: SkipThoughtOptions = field(default_factory=SkipThoughtOptions)
    training: EvaluatorTraining = field(default_factory=EvaluatorTraining)


@dataclass(frozen=True)
class TransformerSection(Section):
    """Section of a Transformer evaluator.

    Attributes
    ----------
    family : "transformer"
        Inner products of the hidden states of the upper layers of a Transformer.
    model : str or None
        Name of a Transformer among the models of the run.
    path : str or None
        Folder of an encoder or language model of Hugging Face, with safetensors; instead of it.
    layers : int
        K, the upper layers whose states are compared.
    """

    family: Literal["transformer"]
    model: str | None = None
    path: str | None = None
    layers: Layers = 2


@dataclass(frozen=True)
class VectorsSection(Section):
    """Section of a table of word vectors.

    Attributes
    ----------
    family : "vectors"
        A table of word vectors: GloVe, word2vec, fastText.
    package : "glove" or None
        A package with vectors inside, of the extra `pretrained`; null: a file.
    path : Location or None
        The file: text or binary, gzipped or not.
    width : int or None
        Numbers of a vector, where another number shall be an error.
    when_missing : str
        Where the package is not installed: leave-out, error, or the name of the evaluator that
        stands in.
    """

    family: Literal["vectors"]
    package: Literal["glove"] | None = None
    path: Location | None = None
    width: Width | None = None
    when_missing: Missing = "leave-out"


@dataclass(frozen=True)
class Word2VecSection(Section):
    """Section of word vectors that are trained on a corpus of the run.

    Attributes
    ----------
    family : "word2vec"
        Word vectors of the training split of a corpus (skip-gram with negative samples).
    corpus : str
        Name of the corpus.
    width : int
        Numbers of a vector.
    window : int
        Words on either side that are predicted.
    minimum_count : int
        A word seen less often has no vector.
    negatives : int
        Negative samples of each word.
    epochs : int
        Passes over the corpus.
    """

    family: Literal["word2vec"]
    corpus: str
    width: Width = 100
    window: Count = 5
    minimum_count: Count = 3
    negatives: Count = 5
    epochs: Count = 5


EvaluatorSection = (
    InferSentSection
    | SentenceTransformersSection
    | SkipThoughtSection
    | TransformerSection
    | VectorsSection
    | Word2VecSection
)

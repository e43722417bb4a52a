"""The training of SkipThought on the sentences of a corpus and their neighbours."""

from __future__ import annotations

from beyond_perplexity.corpus.latent_instances import InstanceStore
from beyond_perplexity.errors import InputError
from beyond_perplexity.models.checkpoint import VOCABULARY
from beyond_perplexity.options import parse_options
from beyond_perplexity.semantics.evaluators.courses import NetworkCourse, train_network
from beyond_perplexity.semantics.evaluators.job import EvaluatorJob
from beyond_perplexity.semantics.evaluators.options import EvaluatorTraining
from beyond_perplexity.semantics.evaluators.sentence_sources import Neighbours, ordered_sentences
from beyond_perplexity.semantics.evaluators.skipthought_network import SkipThoughtNetwork
from beyond_perplexity.vocabulary import load_vocabulary


def fit_skipthought(job: EvaluatorJob) -> None:
    """Train a SkipThought encoder with its decoders and write its folder.

    Parameters
    ----------
    job : EvaluatorJob

    Raises
    ------
    InputError
        When a file or an option is wrong, or there is nothing to train on.
    """
    documents = job.corpus()
    if job.vocabulary is None:
        raise InputError("skipthought: give --vocabulary, of words")
    vocabulary = load_vocabulary(job.vocabulary)
    if vocabulary.kind != "closed":
        raise InputError(f"{job.vocabulary}: is of parts of words; name one of words (kind closed)")
    training = parse_options(EvaluatorTraining, job.options.get("training", {}), "training")
    folder = job.folder(documents, job.vocabulary)

    def source(split: str) -> Neighbours:
        found = ordered_sentences(documents, split, vocabulary, training, keep_unknown=True)
        return Neighbours(InstanceStore.write(folder, split, found), training.batch_tokens)

    architecture = job.options.get("architecture", {})
    course = NetworkCourse(
        lambda: SkipThoughtNetwork(vocabulary.size, architecture),
        (source("train"), source("valid")),
        training,
        folder,
    )
    vocabulary.save(job.output / VOCABULARY)
    about = {"title": "SkipThought", "vocabulary_sha256": vocabulary.hash}
    train_network(job, course, about)

"""What the tests of the RNNGs share: a tiny treebank, rows of trees, training, derivatives."""

import numpy as np
import pytest
import torch

from beyond_perplexity.corpus import latent_instances
from beyond_perplexity.models.latent import PADDING
from beyond_perplexity.models.latents.rnng_instances import parse
from beyond_perplexity.schemas.corpora import TREES
from beyond_perplexity.storage.shards import write_shard
from beyond_perplexity.training.loop import train
from beyond_perplexity.training.options import TrainingOptions
from beyond_perplexity.vocabulary import ClosedVocabulary
from tests.unit.small_corpora import write_documents

WORDS = ["the", "of", *(f"n{i}" for i in range(4)), "v0", "v1"]  # v2 is unknown
VOCABULARY = ClosedVocabulary(WORDS, 1)


def write_corpus(folder):
    """Write a corpus of sentences of a tiny grammar in which the tree follows from the words."""
    generator = np.random.default_rng(0)

    def phrase(depth):
        noun = f"(NP (DT the) (NN n{generator.integers(4)}))"
        if depth and generator.random() < 0.5:
            return f"(NP {noun} (PP (IN of) {phrase(depth - 1)}))"
        return noun

    splits, texts, trees = ["train"] * 90 + ["valid"] * 15 + ["test"] * 15, [], []
    for number in range(120):
        sentences = []
        for sentence in range(3):
            verb = f"(VP (VBD v{generator.integers(3)}) {phrase(2)})"
            tree = f"(S {phrase(2)} {verb})"
            trees.append((number, sentence, tree))
            sentences += parse(tree).words
        texts.append(" ".join(sentences))
    write_documents(folder / "documents.parquet", texts, splits)
    numbers, places, brackets = zip(*trees, strict=True)
    rows = {"doc_id": numbers, "sentence": places, "tree": brackets}
    write_shard(folder / "trees.parquet", TREES, rows, {})
    return latent_instances.CorpusFiles.of(folder)


def make_batch(sentences, trees):
    """Make a batch of sentences, lists of ids, with the actions of a tree each."""
    pairs = zip(sentences, trees, strict=True)
    return latent_instances.InstanceBatch.of(
        latent_instances.Instance(number, {"tokens": np.array(words), "actions": np.array(actions)})
        for number, (words, actions) in enumerate(pairs)
    )


def rows_of(trees, width=None):
    """Fill trees of several lengths up to one width."""
    width = width or max(map(len, trees))
    return torch.tensor([[*tree, *[PADDING] * (width - len(tree))] for tree in trees])


def fit(model, corpus, folder, epochs, vocabulary=VOCABULARY, **options):
    """Train a model; return its loss of the validation split before and after, summed, in nats.

    The training tells that loss, and the model is the same when it is rebuilt.
    """
    given = {name: model.instances(corpus, name, vocabulary) for name in ("train", "valid")}
    write = latent_instances.InstanceStore.write
    stores = [write(folder, name, held) for name, held in given.items()]
    sources = tuple(latent_instances.WholeInstances(store, 256) for store in stores)
    batches = [sources[1].batch(pieces) for pieces in sources[1].ordered()]

    @torch.no_grad()
    def measure():
        model.eval()
        for batch in batches:
            batch.cache.clear()
        return sum(float(model.loss(batch)) for batch in batches)

    before = measure()
    common = {"learning_rate": 0.02, "warmup_steps": 5, "batch_tokens": 256, "precision": "32"}
    chosen = TrainingOptions(maximum_epochs=epochs, **{**common, **options})
    device = torch.device("cpu")
    result = train(model.train(), sources, chosen, 1, folder / "checkpoints", device)
    after = measure()
    counted = sum(batch.predictions for batch in batches)
    assert after / counted == pytest.approx(result.valid_loss, rel=1e-4)
    rebuilt = type(model).from_tensors(model.config, model.state_dict()).eval()
    with torch.no_grad():
        batches[0].cache.clear()
        assert float(rebuilt.loss(batches[0])) == float(model.loss(batches[0]))
    return before, after


def slope_along(value, parameters, direction, step=1e-5):
    """Return the derivative of a function of the parameters along a direction."""
    values = []
    with torch.no_grad():
        for factor in (step, -2 * step, step):
            values.append(float(value()))
            for parameter, part in zip(parameters, direction, strict=True):
                parameter += factor * part
    return (values[1] - values[2]) / (2 * step)

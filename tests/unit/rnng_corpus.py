"""A tiny treebank, and derivatives along a direction, for the tests of the RNNGs."""

from __future__ import annotations

import numpy as np
import torch

from beyond_perplexity.instances.store import CorpusFiles
from beyond_perplexity.instances.trees import parse
from beyond_perplexity.shards import write_shard
from beyond_perplexity.vocabulary import ClosedVocabulary

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

    documents, trees = {"doc_id": [], "split": [], "text": []}, []
    for number in range(120):
        split = "train" if number < 90 else "valid" if number < 105 else "test"
        texts = []
        for sentence in range(3):
            verb = f"(VP (VBD v{generator.integers(3)}) {phrase(2)})"
            tree = f"(S {phrase(2)} {verb})"
            trees.append((number, sentence, tree))
            texts.append(" ".join(parse(tree).words))
        documents["doc_id"].append(number)
        documents["split"].append(split)
        documents["text"].append(" ".join(texts))
    columns = {
        **documents,
        "title": [""] * 120,
        "n_tokens": [len(text.split()) for text in documents["text"]],
    }
    write_shard(folder / "documents.parquet", "documents", columns, {})
    numbers, sentences, brackets = zip(*trees, strict=True)
    rows = {"doc_id": numbers, "sentence": sentences, "tree": brackets}
    write_shard(folder / "trees.parquet", "trees", rows, {})
    return CorpusFiles.of(folder)


def slope_along(value, parameters, direction, step=1e-5):
    """Return the derivative of a function of the parameters along a direction."""
    values = []
    with torch.no_grad():
        for factor in (step, -2 * step, step):
            values.append(float(value()))
            for parameter, part in zip(parameters, direction, strict=True):
                parameter += factor * part
    return (values[1] - values[2]) / (2 * step)

"""The labelled, top-down RNNG and its discriminative proposal.

Oracles: enumeration, `rnng_top_down_reference`, known numbers of trees, finite differences.
"""

import itertools
import math

import pytest
import torch

from beyond_perplexity.corpus.latent_instances import Instance, InstanceBatch
from beyond_perplexity.models.latent import PADDING
from beyond_perplexity.models.latents import rnng_discriminative, rnng_instances
from beyond_perplexity.models.latents.rnng_top_down_model import TopDownRNNG
from beyond_perplexity.schemas.corpora import TREES
from beyond_perplexity.storage.shards import write_shard
from tests.unit import rnng_top_down_reference as reference
from tests.unit.evaluator_oracles import check_refused
from tests.unit.rnng_corpus import VOCABULARY, fit, make_batch, rows_of, slope_along

TEMPERATURES = [0.5, 1.0, 2.0]
# (labels, phrases opened in a row): trees over 1, 2, ... words
COUNTS = {(1, 1): [1, 2, 6, 22], (1, 2): [2, 9, 63, 540], (2, 1): [2, 6, 30, 186]}
COUNTS |= {(2, 2): [6, 70, 1386, 33754]}
SENTENCES = ([4, 3, 8], [6], [7, 2])


def make(kind=TopDownRNNG, vocabulary=9, labels=("A", "B"), double=True, **architecture):
    torch.manual_seed(3)
    options = {"size": 5, "dropout": 0.0, "maximum_run": 2, **architecture}
    model = kind(vocabulary, options, labels=labels).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.6)
    return model.double() if double else model


def batch_of(*sentences, trees=None):
    flat = [[2, *[0] * len(words), 1] for words in sentences]
    return make_batch(sentences, trees or flat)


def trees_of(model, length):
    options = model.options
    return reference.all_trees(length, len(model.labels), options.maximum_run, options.maximum_open)


def everything(model):
    trees = [trees_of(model, len(words)) for words in SENTENCES]
    owner = torch.arange(len(trees)).repeat_interleave(torch.tensor([len(t) for t in trees]))
    return batch_of(*SENTENCES), owner, rows_of([tree for some in trees for tree in some])


def plain(row):
    return tuple(action for action in row.tolist() if action != PADDING)


@pytest.mark.parametrize(("labels", "run"), COUNTS)
@torch.no_grad()
def test_all_trees_and_no_others_are_possible(labels, run):
    """Both are positive on exactly the known number of trees; q sums to 1 over them."""
    names = tuple("ABC"[:labels])
    model = make(labels=names, maximum_run=run, size=3)
    proposal = make(rnng_discriminative.DiscriminativeRNNG, labels=names, maximum_run=run, size=3)
    for length, count in enumerate(COUNTS[labels, run], 1):
        trees = trees_of(model, length)
        assert len(set(trees)) == count
        batch, owner = batch_of([3] * length), torch.zeros(count, dtype=torch.int64)
        assert torch.isfinite(model.log_joint(batch, owner, rows_of(trees))).all()
        sums = proposal.log_prob(batch, owner, rows_of(trees), TEMPERATURES).exp().sum(0)
        torch.testing.assert_close(sums, torch.ones(3).double(), atol=1e-10, rtol=0)


@pytest.mark.parametrize("options", [{}, {"layers": 2}, {"maximum_open": 2}])
@torch.no_grad()
def test_probabilities_are_those_of_the_plain_programs(options):
    model, proposal = make(**options), make(rnng_discriminative.DiscriminativeRNNG, **options)
    batch, owner, latents = everything(model)
    chosen = torch.arange(0, len(owner), 23)
    owner, latents = owner[chosen], latents[chosen]
    log_p = model.log_joint(batch, owner, latents)
    log_q = proposal.log_prob(batch, owner, latents, TEMPERATURES)
    assert log_p.dtype == log_q.dtype == torch.float64
    for row, (place, latent) in enumerate(zip(owner.tolist(), latents, strict=True)):
        words, tree = SENTENCES[place], plain(latent)
        assert float(log_p[row]) == pytest.approx(reference.log_joint(model, words, tree))
        expected = [reference.log_prob(proposal, words, tree, t) for t in TEMPERATURES]
        assert log_q[row].tolist() == pytest.approx(expected)
    assert model.n_tokens(batch).tolist() == [4, 2, 3]


@torch.no_grad()
def test_probabilities_of_all_sentences_approach_one():
    model = make(vocabulary=4, labels=("A",), maximum_run=1, maximum_open=2)
    model.choice.bias[1] = 3.0  # phrases close soon
    model.choice.bias[2] = -2.0
    sums = [0.0]
    for length in range(1, 7):
        sentences = list(itertools.product([2, 3], repeat=length))
        trees = trees_of(model, length)
        owner = torch.arange(len(sentences)).repeat_interleave(len(trees))
        found = model.log_joint(batch_of(*sentences), owner, rows_of(trees * len(sentences)))
        sums.append(sums[-1] + float(found.exp().sum()))
    assert all(a < b for a, b in itertools.pairwise(sums))
    assert 0.9 < sums[-1] <= 1 + 1e-9


@pytest.mark.parametrize("kind", [TopDownRNNG, rnng_discriminative.DiscriminativeRNNG])
def test_gradients_are_those_of_finite_differences(kind):
    model = make(kind, layers=2)
    trees = [trees_of(model, len(words))[-3] for words in SENTENCES]
    batch = batch_of(*SENTENCES, trees=trees)
    parameters = list(model.parameters())
    direction = [torch.randn_like(parameter) for parameter in parameters]
    everyone = torch.arange(3)

    def value():
        batch.cache.clear()
        if kind is TopDownRNNG:
            return -model.log_joint(batch, everyone, model.annotated(batch)).sum()
        return -model.log_prob(batch, everyone, rows_of(trees), [1.0]).sum()

    loss = model.loss(batch)
    slopes = torch.autograd.grad(loss, parameters)
    found = sum(float((a * b).sum()) for a, b in zip(slopes, direction, strict=True))
    with torch.no_grad():
        assert float(value()) == pytest.approx(loss.item(), rel=1e-6)
    assert found == pytest.approx(slope_along(value, parameters, direction), rel=1e-6)


def test_labels_become_actions_and_trees_beyond_the_limits_are_left_out(tmp_path, treebank):
    one = rnng_instances.parse("(S (NP (DT the) (NN man)) (FRAG (VBD ate)))")
    labels = ("NP", "S", "X")
    assert rnng_instances.labelled_actions(one, labels, 100, 2) == [3, 2, 0, 0, 1, 4, 0, 1, 1]
    assert rnng_instances.labelled_actions(one, labels, 1, 2) is None
    assert rnng_instances.labelled_actions(one, labels, 100, 1) is None
    assert rnng_instances.labelled_actions(one, ("NP", "S"), 100, 2) is None
    model = make(labels=labels)
    row = torch.tensor([3, 2, 0, 0, 1, 4, 0, 1, 1, -1])
    assert model.readable(Instance(0, {}), row) == {"tree": "(S (NP #0 #1) (X #2))"}
    rows = {"doc_id": [0, 0, 119], "sentence": [0, 1, 0]}
    rows |= {"tree": ["(S (NP (NN a)) (VP (VB b)))", "(S (NN a))", "(S (NP (NP (NN a))))"]}
    write_shard(tmp_path / "trees.parquet", TREES, rows, {})
    files = treebank._replace(trees=tmp_path / "trees.parquet")
    model = make(labels=("NP", "S", "VP"), maximum_run=1)
    assert [one.instance_id for one in model.instances(files, "train", VOCABULARY)] == [1]
    (test,) = model.instances(files, "test", VOCABULARY)
    batch = InstanceBatch.of([test])
    rows = model.annotated(batch)
    assert float(model.log_joint(batch, torch.tensor([0]), rows)) == -math.inf


@pytest.mark.parametrize("options", [{"maximum_run": 0}, {"layers": 0}, {"dropout": -1.0}])
@pytest.mark.parametrize("kind", [TopDownRNNG, rnng_discriminative.DiscriminativeRNNG])
def test_wrong_options_are_errors(kind, options):
    check_refused("architecture", kind, 9, options, labels=("A",))


@pytest.mark.parametrize("kind", [TopDownRNNG, rnng_discriminative.DiscriminativeRNNG])
def test_training_beats_an_untrained_model(treebank, kind, tmp_path):
    torch.manual_seed(0)
    options = {"size": 16, "dropout": 0.1, "unknown_classes": True}
    model = kind.create(options, VOCABULARY, treebank)
    assert model.labels == ("NP", "PP", "S", "VP", "X")
    before, after = fit(model, treebank, tmp_path, epochs=2)
    assert after < 0.75 * before

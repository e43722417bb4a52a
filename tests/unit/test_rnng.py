"""The binary RNNG, its span CRF, and the reading of trees.

Oracles: enumeration of trees and sentences, `rnng_reference`, finite differences, trees by hand.
"""

import itertools

import numpy as np
import pytest
import torch

from beyond_perplexity.corpus.latent_instances import Instance, InstanceBatch
from beyond_perplexity.models.latent import PADDING
from beyond_perplexity.models.latents import rnng_instances, rnng_span_charts, rnng_stack_memory
from beyond_perplexity.models.latents.rnng import RNNG
from beyond_perplexity.models.latents.rnng_span_crf import SpanCRF
from beyond_perplexity.schemas.corpora import TREES
from beyond_perplexity.storage.shards import write_shard
from tests.unit import rnng_reference as reference
from tests.unit.evaluator_oracles import check_refused
from tests.unit.rnng_corpus import VOCABULARY, fit, make_batch, rows_of, slope_along

TEMPERATURES = [0.5, 1.0, 2.0]
CATALAN = {1: 1, 2: 1, 3: 2, 4: 5, 5: 14, 6: 42}


def make(kind=RNNG, vocabulary=9, double=True, **architecture):
    torch.manual_seed(3)
    widths = {"size": 5} if kind is RNNG else {"embedding_size": 4, "hidden_size": 5}
    model = kind(vocabulary, {"dropout": 0.0, **widths, **architecture}).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.7)
    return model.double() if double else model


def batch_of(*sentences, trees=None):
    right = [[0] * len(words) + [1] * (len(words) - 1) for words in sentences]
    return make_batch(sentences, trees or right)


def owners(*counts):
    return torch.arange(len(counts)).repeat_interleave(torch.tensor(counts))


SENTENCES = ([4, 3, 8, 8, 5], [6], [7, 2, 5], [3, 5])


def everything():
    trees = [reference.all_trees(len(words)) for words in SENTENCES]
    owner = owners(*map(len, trees))
    return batch_of(*SENTENCES), owner, rows_of([tree for some in trees for tree in some])


@pytest.mark.parametrize("options", [{}, {"layers": 2}, {"eos": False}])
@torch.no_grad()
def test_joint_is_that_of_the_plain_program(options):
    model = make(**options)
    batch, owner, latents = everything()
    pairs = zip(owner.tolist(), latents.tolist(), strict=True)
    trees = [(place, [a for a in row if a != PADDING]) for place, row in pairs]
    expected = [reference.log_joint(model, SENTENCES[place], tree) for place, tree in trees]
    found = model.log_joint(batch, owner, latents)
    assert found.dtype == torch.float64
    torch.testing.assert_close(found, torch.tensor(expected).double(), atol=1e-6, rtol=0)
    ends = options.get("eos", True)
    assert model.n_tokens(batch).tolist() == [len(words) + ends for words in SENTENCES]


@torch.no_grad()
def test_probabilities_of_all_sentences_approach_one_and_those_of_a_word_are_by_hand():
    model = make(vocabulary=4)  # two words: <unk> and one more
    model.reduce.bias.fill_(3.0)  # short stacks, so that little mass is on long sentences
    model.word_bias[1] = 3.0
    sums = [0.0]
    for length in range(1, 6):
        sentences = list(itertools.product([2, 3], repeat=length))
        trees = reference.all_trees(length)
        batch = batch_of(*sentences)
        owner = owners(*[len(trees)] * len(sentences))
        found = model.log_joint(batch, owner, rows_of(trees * len(sentences)))
        sums.append(sums[-1] + float(found.exp().sum()))
    assert all(a < b for a, b in itertools.pairwise(sums))
    assert 0.95 < sums[-1] <= 1 + 1e-9
    model = make(vocabulary=4)
    batch = batch_of([2], [3], [2, 3])
    found = model.log_joint(batch, torch.arange(3), rows_of([(0,), (0,), (0, 0, 1)]))
    zero = torch.zeros(5).double()
    start = reference.push(model, model.embedding.weight[0], [(zero, zero)])
    for row, word in enumerate((2, 3)):
        first = torch.log_softmax((model.embedding.weight @ start[-1][0] + model.word_bias)[2:], 0)
        after = reference.push(model, model.embedding.weight[word], start)
        logits = (model.embedding.weight @ after[-1][0] + model.word_bias)[1:]
        expected = first[word - 2] + torch.log_softmax(logits, 0)[0]
        assert float(found[row]) == pytest.approx(float(expected), abs=1e-12)


def test_gradients_are_those_of_finite_differences():
    model = make(layers=2)
    batch, owner, latents = everything()  # trees of one sentence share prefixes
    parameters = list(model.parameters())
    direction = [torch.randn_like(parameter) for parameter in parameters]
    scores = model._scores(batch, owner, latents, True)
    slopes = torch.autograd.grad(scores.summed_words + 0.3 * scores.actions.sum(), parameters)
    found = sum(float((a * b).sum()) for a, b in zip(slopes, direction, strict=True))

    def value():
        scores = model._scores(batch, owner, latents, True)
        return scores.words.sum() + 0.3 * scores.actions.sum()

    assert found == pytest.approx(slope_along(value, parameters, direction), rel=1e-6)


def test_stack_memory_has_the_gradients_of_indexing():
    torch.manual_seed(0)
    first = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    index = [torch.tensor([0, 0, 3]), torch.tensor([1, 4, 6, 4])]

    def with_memory():
        memory = rnng_stack_memory.StackMemory(7, 3, first)
        memory.write(first)
        memory.write(memory.read(index[0]).tanh())
        return memory.read(index[1])

    def with_indexing():
        return torch.cat([first, first[index[0]].tanh()])[index[1]]

    weights = torch.randn(4, 3, dtype=torch.float64)
    torch.testing.assert_close(with_memory(), with_indexing())
    values = [(way() * weights).sum() for way in (with_memory, with_indexing)]
    found, expected = (torch.autograd.grad(value, first)[0] for value in values)
    torch.testing.assert_close(found, expected)


@torch.no_grad()
def test_crf_and_its_entropy_are_those_of_enumeration():
    crf = make(SpanCRF, positions=4)
    batch, owner, latents = everything()
    found = crf.log_prob(batch, owner, latents, TEMPERATURES)
    for row, (place, actions) in enumerate(zip(owner.tolist(), latents.tolist(), strict=True)):
        words = SENTENCES[place]
        scores = reference.span_scores(crf, words)
        tree = [action for action in actions if action != PADDING]
        expected = [reference.log_prob(scores, len(words), tree, t) for t in TEMPERATURES]
        assert found[row].tolist() == pytest.approx(expected, abs=1e-6)
    for place in range(len(SENTENCES)):
        sums = found[owner == place].exp().sum(0)
        torch.testing.assert_close(sums, torch.ones(3).double(), atol=1e-10, rtol=0)
    crf = make(SpanCRF)
    for temperature in TEMPERATURES:
        log_q = crf.log_prob(batch, owner, latents, [temperature])[:, 0]
        expected = torch.zeros(len(batch)).double().index_add(0, owner, -log_q.exp() * log_q)
        scores = crf.scores(batch) / temperature
        chart = rnng_span_charts.inside(scores, batch.lengths["tokens"], with_entropy=True)
        torch.testing.assert_close(chart.entropy, expected, atol=1e-9, rtol=0)
        found = crf.add_spans(scores, batch, owner, latents) - chart.log_z[owner]
        torch.testing.assert_close(found, log_q, atol=1e-9, rtol=0)


@pytest.mark.parametrize(("length", "count"), CATALAN.items())
@torch.no_grad()
def test_beam_is_exact_and_has_all_trees_once(length, count):
    crf = make(SpanCRF)
    batch = batch_of(list(range(2, 2 + length)), [3])
    trees = reference.all_trees(length)
    assert len(set(trees)) == count
    ranked = crf.log_prob(batch, torch.zeros(count, dtype=torch.int64), rows_of(trees), [1.0])
    ranked = ranked[:, 0].sort(descending=True).values
    for size in sorted({1, 2, 3, count, count + 2}):
        rows = crf.beam(batch, size)
        assert rows.shape == (2, size, 2 * length - 1)
        held = [tuple(row) for row in rows[0].tolist() if row[0] != PADDING]
        assert len(held) == len(set(held)) == min(size, count)
        owner = torch.zeros(len(held), dtype=torch.int64)
        values = crf.log_prob(batch, owner, torch.tensor(held), [1.0])[:, 0]
        torch.testing.assert_close(values, ranked[: len(held)], atol=1e-9, rtol=0)
        assert [a for a in rows[1].flatten().tolist() if a != PADDING] == [0]


@torch.no_grad()
def test_beam_of_a_long_sentence_begins_with_the_same_trees():
    crf = make(SpanCRF)
    batch = batch_of(np.random.default_rng(1).integers(2, 9, 14).tolist())
    large = crf.beam(batch, 50)
    values = crf.log_prob(batch, torch.zeros(50, dtype=torch.int64), large[0], [1.0])[:, 0]
    assert (values.diff() <= 1e-9).all()
    assert torch.unique(large[0], dim=0).shape[0] == 50
    for size in (1, 7, 20):
        assert torch.equal(crf.beam(batch, size), large[:, :size])


@torch.no_grad()
def test_weights_of_a_long_sentence_are_those_of_plain_loops():
    """Samples of the same uniform numbers, log p, log q; the plain chart is filled by loops."""
    model, crf = make(), make(SpanCRF)
    generator = np.random.default_rng(2)
    words = generator.integers(2, 9, 17).tolist()
    batch = batch_of(words, [3, 4])
    uniforms = torch.from_numpy(generator.random((16, crf.draws(batch))))
    given = model, crf, words, uniforms.tolist(), 2.0, TEMPERATURES
    expected = reference.weigh_by_loops(*given, anew=False)
    owner = torch.zeros(16, dtype=torch.int64)
    latents = crf.sample(batch, owner, uniforms, 2.0)
    assert latents.tolist() == [tree for tree, _, _ in expected]
    log_p = torch.tensor([value for _, value, _ in expected]).double()
    log_q = torch.tensor([values for _, _, values in expected]).double()
    torch.testing.assert_close(model.log_joint(batch, owner, latents), log_p, atol=1e-5, rtol=0)
    found = crf.log_prob(batch, owner, latents, TEMPERATURES)
    torch.testing.assert_close(found, log_q, atol=1e-5, rtol=0)


def test_gradient_of_the_bound_is_that_of_enumeration():
    """The mean over all pairs of samples of the loss' gradient is that of the exact bound."""
    model = make(training="unsupervised", samples=2, warmup_epochs=4.0, proposal_size=3)
    batch = batch_of([4, 5, 6])  # two trees
    trees = rows_of(reference.all_trees(3))
    crf, weight, owner = model.proposal, 0.25, torch.zeros(2, dtype=torch.int64)
    parameters = list(model.parameters())
    direction = [torch.randn_like(parameter) for parameter in parameters]

    def exact():
        scores = model._scores(batch, owner, trees, True)
        log_q = crf.log_prob(batch, owner, trees, [1.0])[:, 0]
        return -(log_q.exp() * (scores.words + weight * (scores.actions - log_q))).sum()

    draws = torch.tensor([[0.0, 0.0], [1 - 1e-12, 0.0]]).double()  # one tree, the other tree
    drawn = crf.sample(batch, owner, draws, 1.0)
    shares = crf.log_prob(batch, owner, drawn, [1.0])[:, 0].exp().tolist()
    assert sum(shares) == pytest.approx(1)
    loss = slope = 0.0
    for pair in itertools.product(range(2), repeat=2):
        model._uniforms = lambda batch, number, pair=pair: draws[list(pair)]
        value = model.loss(batch, epoch=1.0)
        slopes = torch.autograd.grad(value, parameters)
        share = shares[pair[0]] * shares[pair[1]]
        loss += share * value.item()
        slope += share * sum(float((a * b).sum()) for a, b in zip(slopes, direction, strict=True))
    with torch.no_grad():
        assert loss == pytest.approx(float(exact()), rel=1e-5)
        batch.cache.clear()

    def fresh():
        batch.cache.clear()
        return exact()

    assert slope == pytest.approx(slope_along(fresh, parameters, direction), rel=1e-4)


@torch.no_grad()
def test_validation_of_the_bound_is_not_random_and_depends_on_no_neighbour():
    model = make(training="unsupervised", samples=3)
    torch.manual_seed(1)
    together = float(model.loss(batch_of(*SENTENCES)))
    assert together == float(model.loss(batch_of(*SENTENCES)))
    given = {2: [7, 2], 9: [7, 2, 3, 4, 5]}.items()
    one, other = (Instance(n, {"tokens": np.array(w), "actions": np.zeros(1)}) for n, w in given)
    expected = sum(float(model.loss(InstanceBatch.of([alone]))) for alone in (one, other))
    assert float(model.loss(InstanceBatch.of([one, other]))) == pytest.approx(expected, rel=1e-6)


MALFORMED = ["", "(S (DT the)", "(S (DT the)))", "(S (DT a)) (S (DT b))", "(S (NP (DT the cat)))"]
MALFORMED += ["(S (NP ) (DT a))", "(S (NP the cat))", "the", "(S ())"]


@pytest.mark.parametrize("tree", MALFORMED)
def test_malformed_trees_are_errors(tree):
    with pytest.raises(ValueError, match=r"open|neither"):
        rnng_instances.parse(tree)


def test_instances_of_a_split_and_classes_of_unknown_words(treebank):
    model = RNNG.create({"maximum_words": 8}, VOCABULARY, treebank)
    test = list(model.instances(treebank, "test", VOCABULARY))
    assert [one.instance_id for one in test[:4]] == [*(105 * 65536 + np.arange(3)), 106 * 65536]
    assert len(test) == 45
    assert max(len(one.arrays["tokens"]) for one in test) > 8
    valid = list(model.instances(treebank, "valid", VOCABULARY))
    assert 0 < max(len(one.arrays["tokens"]) for one in valid) <= 8
    for one in test:
        assert len(one.arrays["actions"]) == 2 * len(one.arrays["tokens"]) - 1
    assert rnng_instances.find_labels(treebank) == ("NP", "PP", "S", "VP", "X")
    model = RNNG.create({"unknown_classes": True}, VOCABULARY, treebank)
    assert model.unknown_classes == ("<unk-digit>",)
    held = [one.arrays["tokens"] for one in model.instances(treebank, "test", VOCABULARY)]
    ids = set(np.concatenate(held).tolist())
    assert VOCABULARY.size in ids
    assert 2 not in ids
    assert model.embedding.weight.shape[0] == VOCABULARY.size + 1


def test_trees_are_binarized_labelled_and_readable_or_of_a_missing_document(treebank, tmp_path):
    files = treebank._replace(trees=tmp_path / "trees.parquet")
    rows = {"document 500": (500, 0, "(S (DT a))"), "document 3, sentence 7": (3, 7, "(S (DT a)")}
    for named, row in rows.items():
        columns = {name: [value] for name, value in zip(TREES.names, row, strict=True)}
        write_shard(files.trees, TREES, columns, {})
        check_refused(named, make().instances, files, "train", VOCABULARY)
    found = make().readable(Instance(0, {}), torch.tensor([0, 0, 1, 0, 1, -1, -1]))
    assert found == {"tree": "(X (X #0 #1) #2)"}
    tree = "(S (NP (DT the) (JJ old) (NN man)) (VP (VBD ate) (NP (NP (NNS figs)))) (. -LRB-))"
    found = rnng_instances.parse(tree)
    assert found.words == ["the", "old", "man", "ate", "figs", "("]
    assert found.binary == [0, 0, 0, 1, 1, 0, 0, 1, 0, 1, 1]
    expected = ["S", "NP", 0, 0, 0, 1, "VP", 0, "NP", "NP", 0, 1, 1, 1, 0, 1]
    assert found.labelled == expected


@pytest.mark.parametrize(
    "options", [{"size": 0}, {"samples": 1}, {"dropout": 1.0}, {"maximum_words": 0}, {"sizes": 3}]
)
def test_wrong_options_are_errors(options):
    check_refused("architecture", RNNG, 9, options)


@pytest.mark.parametrize("kind", ["supervised", "unsupervised", "crf"])
def test_training_beats_an_untrained_model(treebank, kind, tmp_path):
    torch.manual_seed(0)
    if kind == "crf":
        model = SpanCRF.create({"embedding_size": 8, "hidden_size": 8}, VOCABULARY, treebank)
    else:
        widths = {"size": 16, "proposal_size": 8, "dropout": 0.1, "samples": 4}
        model = RNNG.create({**widths, "training": kind}, VOCABULARY, treebank)
    before, after = fit(model, treebank, tmp_path, epochs=3)
    assert after < (0.3 if kind == "crf" else 0.75) * before

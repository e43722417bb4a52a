"""EntityNLM, its proposals and their data.

Oracles: enumeration of all z of short documents (their numbers are known: Bell numbers for mentions
of one word), an independent implementation in NumPy that goes word by word
(`entitynlm_reference`), probabilities that sum to 1, frequencies of samples.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch

from beyond_perplexity.corpus.latent_instances import (
    CorpusFiles,
    Instance,
    InstanceBatch,
    InstanceStore,
    MentionSpan,
    WholeInstances,
)
from beyond_perplexity.errors import InputError
from beyond_perplexity.models.factored import class_ends
from beyond_perplexity.models.latents.entitynlm import EntityNLM
from beyond_perplexity.models.latents.entitynlm_dynamic_entities import (
    RADIX,
    chosen_mentions,
    mention_codes,
)
from beyond_perplexity.models.latents.entitynlm_tagger import EntityTagger
from beyond_perplexity.models.word_softmax import ClassSoftmax
from beyond_perplexity.schemas import corpora
from beyond_perplexity.storage.shards import write_shard
from beyond_perplexity.training.loop import train
from beyond_perplexity.training.options import TrainingOptions
from beyond_perplexity.vocabulary import BPEVocabulary, ClosedVocabulary
from tests.unit.entitynlm_reference import all_codes, plain_log_joint, plain_log_prob, weights_of

CAPS = {"maximum_entities": 3, "maximum_length": 2}
CONTEXTS = ("peeking", "causal", "bidirectional")
TEMPERATURES = (0.5, 1.0, 2.0)
TOKENS = (3, 4, 8, 5)
NAMES, VERBS = ["Ada", "Bob", "Cy", "Di", "Ed", "Flo"], ["sees", "likes", "finds"]


def shaken(module, seed=0, scale=0.5):
    """Give a module weights that make its choices uneven."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in module.parameters():
            weight.add_(torch.randn(weight.shape, generator=generator) * scale)
    return module.eval()


def make_model(vocabulary_size=9, double=True, **options):
    torch.manual_seed(1)
    model = EntityNLM(vocabulary_size, {"size": 5, "word_classes": 3, **CAPS, **options})
    return shaken(model.double() if double else model)


def make_proposal(context="peeking", vocabulary_size=9, double=True, **options):
    torch.manual_seed(2)
    proposal = EntityTagger(vocabulary_size, {"size": 6, "context": context, **CAPS, **options})
    return shaken(proposal.double() if double else proposal, seed=3)


def make_batch(*documents):
    """Make a batch of documents, given as tokens or as (tokens, codes)."""
    instances = []
    for number, document in enumerate(documents):
        tokens, codes = document if isinstance(document[0], tuple) else (document, None)
        codes = [0] * len(tokens) if codes is None else codes
        arrays = {"tokens": np.array(tokens), "latents": np.array(codes)}
        instances.append(Instance(number, arrays))
    return InstanceBatch.of(instances)


def rows_of(*codes):
    """Fill codes of several lengths up to one width."""
    width = max(map(len, codes))
    return torch.tensor([[*row, *[-1] * (width - len(row))] for row in codes])


@torch.no_grad()
def scored(module, tokens, codes, temperatures=None):
    """Score rows of z of one document."""
    batch, owner = make_batch(tokens), torch.zeros(len(codes), dtype=torch.int64)
    if temperatures is None:
        return module.log_joint(batch, owner, torch.tensor(codes))
    return module.log_prob(batch, owner, torch.tensor(codes), temperatures)


@pytest.mark.parametrize(
    ("maximum_length", "numbers"),
    [(1, [2, 5, 15, 52, 203, 877]), (2, [3, 9, 33, 135, 609, 2989])],
)
def test_number_of_latents(maximum_length, numbers):
    options = {"maximum_entities": 6, "maximum_length": maximum_length}
    model, proposal = make_model(**options), make_proposal(**options)
    for length, number in enumerate(numbers, 1):
        codes = all_codes(length, 6, maximum_length)
        assert len({tuple(row) for row in codes}) == len(codes) == number
        tokens = tuple(3 + place % 5 for place in range(length))
        assert torch.isfinite(scored(model, tokens, codes)).all()
        assert scored(proposal, tokens, codes, [1.0]).exp().sum() == pytest.approx(1, abs=1e-12)


def test_only_canonical_rows_are_possible():
    """All strings over the codes that could occur: just the enumerated ones have a probability."""
    letters = [-1, 0] + [1 + RADIX * entity + extent for entity in range(4) for extent in range(3)]
    strings = [list(row) for row in itertools.product(letters, repeat=3)]
    expected = {tuple(row) for row in all_codes(3, 3, 2)}
    for values in (
        scored(make_model(), (3, 4, 5), strings),
        scored(make_proposal(), (3, 4, 5), strings, [1.0])[:, 0],
    ):
        assert not torch.isnan(values).any()
        found = {
            tuple(row)
            for row, value in zip(strings, values.tolist(), strict=True)
            if value > -math.inf
        }
        assert found == expected


def test_rows_longer_or_shorter_than_the_document_are_impossible():
    codes = rows_of([0, 0, 0, 0, 0], [0, 0, 0], [0, 0, 0, 0])
    values = scored(make_model(), TOKENS, codes.tolist())
    assert values.isfinite().tolist() == [False, False, True]


@pytest.mark.parametrize(("classes", "tied"), [(1, True), (3, True), (40, False)])
def test_log_joint_equals_the_plain_implementation(classes, tied):
    model = make_model(word_classes=classes, tie_weights=tied)
    codes = all_codes(len(TOKENS), 3, 2)
    weights = weights_of(model)
    expected = [plain_log_joint(weights, model.options, TOKENS, row) for row in codes]
    values = scored(model, TOKENS, codes)
    np.testing.assert_allclose(values, expected, rtol=0, atol=1e-11)


@pytest.mark.parametrize("context", CONTEXTS)
def test_log_prob_equals_the_plain_implementation(context):
    proposal = make_proposal(context)
    codes = all_codes(len(TOKENS), 3, 2)
    weights = weights_of(proposal)
    values = scored(proposal, TOKENS, codes, TEMPERATURES)
    for column, temperature in enumerate(TEMPERATURES):
        expected = [
            plain_log_prob(weights, proposal.options, TOKENS, row, temperature) for row in codes
        ]
        np.testing.assert_allclose(values[:, column], expected, rtol=0, atol=1e-11)
    np.testing.assert_allclose(values.exp().sum(0), 1, atol=1e-12)


def test_a_long_document_equals_the_plain_implementation():
    """More entities than the cap, mentions of all lengths: z drawn from the proposal itself."""
    model, proposal = make_model(maximum_length=4), make_proposal(maximum_length=4)
    tokens = tuple(np.random.default_rng(5).integers(2, 9, 60).tolist())
    batch, owner = make_batch(tokens), torch.zeros(16, dtype=torch.int64)
    uniforms = torch.from_numpy(np.random.default_rng(6).random((16, 180)))
    codes = proposal.sample(batch, owner, uniforms, 2.0)
    assert (codes > 0).sum(1).min() > 5
    for value, row in zip(
        scored(model, tokens, codes.tolist()).tolist(), codes.tolist(), strict=True
    ):
        expected = plain_log_joint(weights_of(model), model.options, tokens, row)
        assert value == pytest.approx(expected, abs=1e-9)


def test_the_model_is_normalized():
    """Texts that end before L words, and beginnings of L words, have probability 1 together."""
    model = make_model(vocabulary_size=4, word_classes=2, maximum_entities=2)
    weights, done, sums = weights_of(model), 0.0, []
    for length in range(5):
        ended = begun = 0.0
        codes = all_codes(length, 2, 2)
        for tokens in itertools.product((2, 3), repeat=length):
            begun += sum(
                math.exp(plain_log_joint(weights, model.options, tokens, row, ended=False))
                for row in codes
            )
            if length:
                ended += float(scored(model, tokens, codes).exp().sum())
            else:
                ended += math.exp(plain_log_joint(weights, model.options, (), []))
        assert done + begun == pytest.approx(1, abs=1e-11)
        done += ended
        sums.append(done)
    assert sums == sorted(sums)
    assert sums[-1] < 1


@pytest.mark.parametrize("context", CONTEXTS)
def test_the_proposal_covers_the_model_and_weights_average_to_p(context):
    codes = all_codes(len(TOKENS), 3, 2)
    log_p = scored(make_model(), TOKENS, codes)
    log_q = scored(make_proposal(context), TOKENS, codes, TEMPERATURES)
    assert torch.isfinite(log_p).all()
    assert torch.isfinite(log_q).all()
    for column in log_q.T:
        mean = (column.exp() * (log_p - column).exp()).sum()
        assert float(mean) == pytest.approx(float(log_p.exp().sum()), rel=1e-12)


def many(double=False):
    """Make documents, rows and numbers for the tests of cuts and of filling."""
    generator = np.random.default_rng(0)
    documents = [tuple(generator.integers(2, 9, size).tolist()) for size in (7, 23, 40)]
    owner = torch.arange(3).repeat_interleave(48)
    uniforms = torch.from_numpy(generator.random((144, 120)))
    sizes = {"size": 16, "maximum_entities": 20, "maximum_length": 4}
    model = make_model(double=double, **sizes)
    return documents, owner, uniforms, model, sizes


@pytest.mark.parametrize("context", CONTEXTS)
def test_batch_and_cut_of_rows_change_nothing(context):
    """In float32, bit for bit: all rows at once, against every document and 16 rows alone."""
    documents, owner, uniforms, model, sizes = many()
    proposal = make_proposal(context, double=False, **sizes)
    batch = make_batch(*documents)
    with torch.no_grad():
        codes = proposal.sample(batch, owner, uniforms, 1.1)
        log_p = model.log_joint(batch, owner, codes)
        log_q = proposal.log_prob(batch, owner, codes, TEMPERATURES)
        for start in range(0, 144, 16):
            part = slice(start, start + 16)
            tokens = documents[start // 48]
            alone, first = make_batch(tokens), torch.zeros(16, dtype=torch.int64)
            numbers = uniforms[part, : proposal.draws(alone)]
            z = proposal.sample(alone, first, numbers, 1.1)
            assert torch.equal(z, codes[part, : len(tokens)])
            assert (codes[part, len(tokens) :] == -1).all()
            assert torch.equal(model.log_joint(alone, first, z), log_p[part])
            assert torch.equal(proposal.log_prob(alone, first, z, TEMPERATURES), log_q[part])


def test_gradients_take_the_same_values_and_are_numbers():
    """The way with gradients scores without caches and without sharing words between rows."""
    documents, owner, uniforms, model, sizes = many(double=True)
    proposal = make_proposal(**sizes)
    batch = make_batch(*documents)
    codes = proposal.sample(batch, owner, uniforms, 1.0)
    for module in (model, proposal):
        with torch.no_grad():
            expected = (
                module.log_joint(batch, owner, codes)
                if module is model
                else module.log_prob(batch, owner, codes, [1.0])[:, 0]
            )
        values = (
            module.log_joint(batch, owner, codes)
            if module is model
            else module.log_prob(batch, owner, codes, [1.0])[:, 0]
        )
        torch.testing.assert_close(values, expected, rtol=0, atol=1e-9)
        values.sum().backward()
        for name, weight in module.named_parameters():
            assert weight.grad is not None, name
            assert weight.grad.isfinite().all(), name


def test_nothing_is_random_at_evaluation():
    model = make_model(noise=0.5, dropout=0.5)
    codes = all_codes(4, 3, 2)
    torch.manual_seed(1)
    first = scored(model, TOKENS, codes)
    torch.manual_seed(2)
    assert torch.equal(scored(model, TOKENS, codes), first)
    model.train()
    assert not torch.equal(scored(model, TOKENS, codes), first)


@pytest.mark.parametrize("context", CONTEXTS)
def test_samples_have_the_probabilities_of_log_prob(context):
    """Total variation distance of 32,000 draws; its mean is below ½ Σ √(2 p / (π n))."""
    proposal, rows = make_proposal(context), 32_000
    codes = all_codes(3, 3, 2)
    batch, owner = make_batch(TOKENS[:3]), torch.zeros(rows, dtype=torch.int64)
    uniforms = torch.from_numpy(np.random.default_rng(7).random((rows, proposal.draws(batch))))
    for temperature in (0.5, 2.0):
        drawn = proposal.sample(batch, owner, uniforms, temperature)
        found, counts = drawn.unique(dim=0, return_counts=True)
        shares = {
            tuple(row): n / rows for row, n in zip(found.tolist(), counts.tolist(), strict=True)
        }
        expected = scored(proposal, TOKENS[:3], codes, [temperature])[:, 0].exp().numpy()
        distance = sum(
            abs(shares.pop(tuple(row), 0) - p) for row, p in zip(codes, expected, strict=True)
        )
        assert not shares
        bound = np.sqrt(2 * expected / (math.pi * rows)).sum()
        assert distance < 1.5 * bound


def test_samples_follow_from_their_numbers():
    proposal = make_proposal()
    batch, owner = make_batch(TOKENS), torch.zeros(16, dtype=torch.int64)
    uniforms = torch.from_numpy(np.random.default_rng(8).random((16, proposal.draws(batch) + 5)))
    first = proposal.sample(batch, owner, uniforms, 1.0)
    torch.manual_seed(9)
    uniforms[:, proposal.draws(batch) :] = 0.0
    assert torch.equal(proposal.sample(batch, owner, uniforms, 1.0), first)
    edges = torch.tensor([[0.0], [1.0 - 2.0**-53]], dtype=torch.float64).expand(2, 12)
    drawn = proposal.sample(batch, owner[:2], edges.contiguous(), 0.01)
    assert scored(proposal, TOKENS, drawn.tolist(), [1.0]).isfinite().all()


@pytest.mark.parametrize("context", CONTEXTS)
def test_beam(context):
    """Exact where it holds every z; distinct, sorted, and close to the best at any size."""
    proposal = make_proposal(context)
    codes = all_codes(len(TOKENS), 3, 2)
    batch = make_batch(TOKENS[:2], TOKENS)
    log_q = scored(proposal, TOKENS, codes, [0.7])[:, 0]
    whole = proposal.beam(batch, len(codes) + 5, 0.7)
    assert whole.shape == (2, len(codes) + 5, len(TOKENS))
    held = whole[1][(whole[1] >= 0).all(1)]
    best = [codes[place] for place in log_q.argsort(descending=True)]
    assert held.tolist() == best
    assert ((whole[0] >= 0).sum(1) == 2).sum() == 9
    masses = []
    for size in (1, 2, 4, 8, 16, 32, 64, 128):
        rows = proposal.beam(batch, size, 0.7)[1]
        assert len(rows.unique(dim=0)) == size
        values = scored(proposal, TOKENS, rows.tolist(), [0.7])[:, 0]
        assert (values.diff() <= 1e-12).all()
        masses.append(float(values.exp().sum()))
    assert masses == sorted(masses)
    assert masses[-1] > 0.99


def test_softmax_by_classes():
    """Σ p = 1 with and without the end; one class is the full softmax of torch."""
    assert class_ends(100, 5) == [4, 16, 36, 64, 100]
    assert class_ends(3, 50) == [1, 2, 3]
    torch.manual_seed(0)
    features = torch.randn(20, 6).double()
    for classes in (1, 4, 100):
        layer = ClassSoftmax(6, 30, classes).double()
        everything = torch.arange(1, 30)
        for endless in (False, True):
            rows = features.repeat_interleave(29, 0)
            mask = torch.full((len(rows),), endless)
            p = layer.log_probs(rows, everything.repeat(20), mask).exp().view(20, 29)
            torch.testing.assert_close(p.sum(1), torch.ones(20).double())
            assert bool((p[:, 0] == 0).all()) == endless
            if classes == 1 and endless:
                full = (features @ layer.weight.T + layer.bias)[:, 2:].softmax(1)
                torch.testing.assert_close(p[:, 1:], full)


def test_mentions_that_are_chosen():
    """Too long ones go first, then those inside others or across them, then late entities."""
    spans = [
        MentionSpan(3, 5, "b"),
        MentionSpan(0, 9, "a"),
        MentionSpan(4, 6, "c"),
        MentionSpan(3, 4, "d"),
        MentionSpan(6, 7, "b"),
    ]
    assert chosen_mentions(spans, 10, 5) == [MentionSpan(0, 9, "a")]
    chosen = chosen_mentions([*spans, MentionSpan(8, 9, "e")], 3, 1)
    assert chosen == [MentionSpan(3, 5, "b"), MentionSpan(6, 7, "b")]
    codes = mention_codes(
        [MentionSpan(1, 3, "x"), MentionSpan(4, 5, "y"), MentionSpan(5, 6, "x")], 7
    )
    assert codes.tolist() == [0, 2, 1, 0, 1 + RADIX, 1, 0]


@pytest.fixture
def corpus(tmp_path):
    """Write a corpus in which names come back: the last word is the first entity's name."""
    generator = np.random.default_rng(0)
    documents, mentions = [], []
    for number in range(60):
        first, second = generator.choice(NAMES, 2, replace=False)
        verb, other = generator.choice(VERBS, 2)
        words = ["Dr", first, verb, second, "and", other, first, "."]
        split = "train" if number < 45 else "valid"
        documents.append((number * 2, split, "", " ".join(words), len(words)))
        for start, end, name in ((0, 2, first), (3, 4, second), (6, 7, first)):
            mentions.append((number * 2, start, end, name, "gold"))
    return write_corpus(tmp_path, documents, mentions)


def write_corpus(folder, documents, mentions):
    for kind, rows, names in (
        ("documents", documents, ("doc_id", "split", "title", "text", "n_tokens")),
        ("mentions", mentions, ("doc_id", "start", "end", "entity", "source")),
    ):
        columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
        write_shard(folder / f"{kind}.parquet", getattr(corpora, kind.upper()), columns, {})
    return CorpusFiles.of(folder)


def words_of(corpus):
    return ClosedVocabulary(["Dr", "and", ".", *NAMES, *VERBS], 0)


def test_documents_are_read_with_their_mentions(corpus):
    vocabulary = words_of(corpus)
    model = EntityNLM.create(CAPS, vocabulary, corpus)
    instances = list(model.instances(corpus, "valid", vocabulary))
    assert [instance.instance_id for instance in instances] == list(range(90, 120, 2))
    batch = InstanceBatch.of(instances)
    assert batch.arrays["latents"][0].tolist() == [2, 1, 0, 1 + RADIX, 0, 0, 1, 0]
    assert model.n_tokens(batch).tolist() == [9] * 15
    assert model.readable(instances[0], model.annotated(batch)[0])["mentions"] == [
        {"start": 0, "end": 2, "entity": 0},
        {"start": 3, "end": 4, "entity": 1},
        {"start": 6, "end": 7, "entity": 0},
    ]
    owner = torch.arange(15)
    joint = model.eval().log_joint(batch, owner, model.annotated(batch))
    assert float(model.loss(batch).detach()) == pytest.approx(
        -float(joint.detach().sum()), rel=1e-6
    )


def test_documents_without_mentions_or_words(tmp_path):
    documents = [(1, "test", "", "Ada sees", 2), (2, "test", "", "", 0), (3, "test", "", "Bob", 1)]
    corpus = write_corpus(tmp_path, documents, [(3, 0, 1, "x", "gold")])
    vocabulary = words_of(corpus)
    instances = list(make_model().instances(corpus, "test", vocabulary))
    assert [instance.arrays["latents"].tolist() for instance in instances] == [[0, 0], [1]]


@pytest.mark.parametrize(
    ("mention", "message"),
    [
        ((1, 1, 3, "x", "gold"), r"document 1, mention \[1, 3\) of 'x': is outside .* 2 tokens"),
        ((2, 0, 1, "x", "gold"), "the mentions of document 2 belong to no document"),
    ],
)
def test_wrong_mentions_are_errors(tmp_path, mention, message):
    corpus = write_corpus(tmp_path, [(1, "test", "", "Ada sees", 2)], [mention])
    with pytest.raises(InputError, match=message):
        list(make_model().instances(corpus, "test", words_of(corpus)))


def test_wrong_options_are_errors(tmp_path, corpus):
    with pytest.raises(InputError, match="expected one of 'peeking', 'causal', 'bidirectional'"):
        EntityTagger(9, {"context": "all"})
    with pytest.raises(InputError, match="maximum_length"):
        EntityNLM(9, {"maximum_length": RADIX + 1})
    with pytest.raises(InputError, match="word_classes"):
        EntityNLM(9, {"word_classes": 0})
    subwords = BPEVocabulary.build([["some text"]], 260)
    with pytest.raises(InputError, match="closed vocabulary"):
        list(make_model().instances(corpus, "train", subwords))


def trained(kind, architecture, corpus, folder):
    vocabulary = words_of(corpus)
    torch.manual_seed(0)
    module = kind.create(architecture, vocabulary, corpus)
    stores = [
        InstanceStore.write(folder, split, module.instances(corpus, split, vocabulary))
        for split in ("train", "valid")
    ]
    sources = tuple(WholeInstances(store, 128) for store in stores)
    options = TrainingOptions(maximum_epochs=12, learning_rate=0.02, warmup_steps=2)
    untrained = [
        float(module.eval().loss(source.batch(source.ordered()[0])).detach()) for source in sources
    ]
    module.train()
    result = train(module, sources, options, 1, folder / kind.__name__, torch.device("cpu"))
    batch = sources[1].batch(sources[1].ordered()[0])
    return module.eval(), result, untrained[1], batch


def test_training(corpus, tmp_path):
    """Training lowers the loss, twice the same; the model is rebuilt from config and tensors."""
    small = {"size": 16, **CAPS}
    for kind in (EntityNLM, EntityTagger):
        module, result, before, batch = trained(kind, small, corpus, tmp_path / "a")
        losses = [row["loss"] for row in result.rows if row["split"] == "valid"]
        assert losses[-1] < 0.7 * losses[0]
        assert float(module.loss(batch).detach()) < 0.5 * before
        again, same, _, _ = trained(kind, small, corpus, tmp_path / "b")
        assert same.valid_loss == result.valid_loss
        rebuilt = kind.from_tensors(module.config, module.state_dict()).eval()
        assert torch.equal(rebuilt.loss(batch), again.loss(batch))

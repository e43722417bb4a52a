"""EntityNLM, its proposals, the documents that it simulates, and their data.

Oracles: enumeration of all z (Bell numbers), `entitynlm_reference`, q* from all beginnings,
frequencies, an uninterrupted training. What all families share is in `test_latent_families`.
"""

import itertools
import math

import numpy as np
import pytest
import torch
from scipy.stats import chi2

from beyond_perplexity.corpus import latent_instances
from beyond_perplexity.corpus.latent_instances import MentionSpan
from beyond_perplexity.errors import InputError
from beyond_perplexity.importance.particle_runs import FilterSetting, conditional_smc, smc_log_prob
from beyond_perplexity.models.factored import class_ends
from beyond_perplexity.models.latents.entitynlm import EntityNLM
from beyond_perplexity.models.latents.entitynlm_dynamic_entities import (
    RADIX,
    chosen_mentions,
    mention_codes,
)
from beyond_perplexity.models.latents.entitynlm_optimal import OptimalEntities
from beyond_perplexity.models.latents.entitynlm_tagger import EntityTagger
from beyond_perplexity.models.word_softmax import ClassSoftmax
from beyond_perplexity.random_streams import stream
from beyond_perplexity.schemas import corpora
from beyond_perplexity.storage.shards import write_shard
from beyond_perplexity.vocabulary import BPEVocabulary, ClosedVocabulary
from tests.unit import evaluator_oracles, rnng_corpus
from tests.unit.entitynlm_reference import (
    all_codes,
    log_softmax,
    plain_log_joint,
    plain_log_prob,
    weights_of,
)

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
    instances = []
    for number, document in enumerate(documents):
        tokens, codes = document if isinstance(document[0], tuple) else (document, None)
        codes = [0] * len(tokens) if codes is None else codes
        arrays = {"tokens": np.array(tokens), "latents": np.array(codes)}
        instances.append(latent_instances.Instance(number, arrays))
    return latent_instances.InstanceBatch.of(instances)


def rows_of(*codes):
    width = max(map(len, codes))
    return torch.tensor([[*row, *[-1] * (width - len(row))] for row in codes])


@torch.no_grad()
def scored(module, tokens, codes, temperatures=None):
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


def test_only_canonical_rows_of_the_documents_length_are_possible():
    """All strings over the codes that could occur: just the enumerated ones have a probability."""
    letters = [-1, 0] + [1 + RADIX * entity + extent for entity in range(4) for extent in range(3)]
    strings = [list(row) for row in itertools.product(letters, repeat=3)]
    expected = {tuple(row) for row in all_codes(3, 3, 2)}
    for values in (
        scored(make_model(), (3, 4, 5), strings),
        scored(make_proposal(), (3, 4, 5), strings, [1.0])[:, 0],
        scored(OptimalEntities(make_model()), (3, 4, 5), strings, [1.0])[:, 0],
    ):
        assert not torch.isnan(values).any()
        pairs = zip(strings, values.tolist(), strict=True)
        assert {tuple(row) for row, value in pairs if value > -math.inf} == expected
    codes = rows_of([0, 0, 0, 0, 0], [0, 0, 0], [0, 0, 0, 0])
    values = scored(make_model(), TOKENS, codes.tolist())
    assert values.isfinite().tolist() == [False, False, True]


@pytest.mark.parametrize(("classes", "tied"), [(1, True), (3, True), (40, False)])
def test_log_joint_equals_the_plain_implementation(classes, tied):
    model = make_model(word_classes=classes, tie_weights=tied)
    codes = all_codes(len(TOKENS), 3, 2)
    weights = weights_of(model)
    expected = [plain_log_joint(weights, model.options, TOKENS, row) for row in codes]
    np.testing.assert_allclose(scored(model, TOKENS, codes), expected, rtol=0, atol=1e-11)


@pytest.mark.parametrize("context", CONTEXTS)
def test_log_prob_equals_the_plain_implementation(context):
    proposal = make_proposal(context)
    codes = all_codes(len(TOKENS), 3, 2)
    weights = weights_of(proposal)
    values = scored(proposal, TOKENS, codes, TEMPERATURES)
    for column, temperature in enumerate(TEMPERATURES):
        given = weights, proposal.options, TOKENS
        expected = [plain_log_prob(*given, row, temperature) for row in codes]
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
    values = scored(model, tokens, codes.tolist()).tolist()
    for value, row in zip(values, codes.tolist(), strict=True):
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
            given = weights, model.options, tokens
            begun += sum(math.exp(plain_log_joint(*given, row, ended=False)) for row in codes)
            if length:
                ended += float(scored(model, tokens, codes).exp().sum())
            else:
                ended += math.exp(plain_log_joint(weights, model.options, (), []))
        assert done + begun == pytest.approx(1, abs=1e-11)
        done += ended
        sums.append(done)
    assert sums == sorted(sums)
    assert sums[-1] < 1


def many(double=False):
    """Make documents, rows and numbers for the tests of cuts and of padding."""
    generator = np.random.default_rng(0)
    documents = [tuple(generator.integers(2, 9, size).tolist()) for size in (7, 23, 40)]
    owner = torch.arange(3).repeat_interleave(48)
    uniforms = torch.from_numpy(generator.random((144, 120)))
    sizes = {"size": 16, "maximum_entities": 20, "maximum_length": 4}
    return documents, owner, uniforms, make_model(double=double, **sizes), sizes


def test_gradients_take_the_same_values_and_are_numbers():
    """The way with gradients scores without caches and without sharing words between rows."""
    documents, owner, uniforms, model, sizes = many(double=True)
    proposal = make_proposal(**sizes)
    batch = make_batch(*documents)
    codes = proposal.sample(batch, owner, uniforms, 1.0)
    for module in (model, proposal):
        score = getattr(module, "log_joint", None) or proposal.learnable_log_prob
        with torch.no_grad():
            expected = score(batch, owner, codes)
        values = score(batch, owner, codes)
        torch.testing.assert_close(values, expected, rtol=0, atol=1e-9)
        values.sum().backward()
        for name, weight in module.named_parameters():
            assert weight.grad is not None, name
            assert weight.grad.isfinite().all(), name


def test_nothing_is_random_at_evaluation_and_numbers_at_the_edges_draw():
    model = make_model(noise=0.5, dropout=0.5)
    codes = all_codes(4, 3, 2)
    torch.manual_seed(1)
    first = scored(model, TOKENS, codes)
    torch.manual_seed(2)
    assert torch.equal(scored(model, TOKENS, codes), first)
    model.train()
    assert not torch.equal(scored(model, TOKENS, codes), first)
    edges = torch.tensor([[0.0], [1.0 - 2.0**-53]], dtype=torch.float64).expand(2, 12)
    proposal, owner = make_proposal(), torch.zeros(2, dtype=torch.int64)
    drawn = proposal.sample(make_batch(TOKENS), owner, edges.contiguous(), 0.01)
    assert scored(proposal, TOKENS, drawn.tolist(), [1.0]).isfinite().all()


def test_softmax_by_classes():
    """Σ p = 1 with and without the end; one class is the full softmax of torch."""
    assert (class_ends(100, 5), class_ends(3, 50)) == ([4, 16, 36, 64, 100], [1, 2, 3])
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
    spans = [MentionSpan(3, 5, "b"), MentionSpan(0, 9, "a"), MentionSpan(4, 6, "c")]
    spans += [MentionSpan(3, 4, "d"), MentionSpan(6, 7, "b")]
    assert chosen_mentions(spans, 10, 5) == [MentionSpan(0, 9, "a")]
    chosen = chosen_mentions([*spans, MentionSpan(8, 9, "e")], 3, 1)
    assert chosen == [MentionSpan(3, 5, "b"), MentionSpan(6, 7, "b")]
    spans = [MentionSpan(1, 3, "x"), MentionSpan(4, 5, "y"), MentionSpan(5, 6, "x")]
    codes = mention_codes(spans, 7)
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
    return latent_instances.CorpusFiles.of(folder)


def words_of(corpus):
    return ClosedVocabulary(["Dr", "and", ".", *NAMES, *VERBS], 0)


def test_documents_are_read_with_their_mentions_or_without_any_or_words(corpus, tmp_path):
    vocabulary = words_of(corpus)
    model = EntityNLM.create(CAPS, vocabulary, corpus)
    instances = list(model.instances(corpus, "valid", vocabulary))
    assert [instance.instance_id for instance in instances] == list(range(90, 120, 2))
    batch = latent_instances.InstanceBatch.of(instances)
    assert batch.arrays["latents"][0].tolist() == [2, 1, 0, 1 + RADIX, 0, 0, 1, 0]
    assert model.n_tokens(batch).tolist() == [9] * 15
    assert model.readable(instances[0], model.annotated(batch)[0])["mentions"] == [
        {"start": 0, "end": 2, "entity": 0},
        {"start": 3, "end": 4, "entity": 1},
        {"start": 6, "end": 7, "entity": 0},
    ]
    joint = model.eval().log_joint(batch, torch.arange(15), model.annotated(batch))
    total = -float(joint.detach().sum())
    assert float(model.loss(batch).detach()) == pytest.approx(total, rel=1e-6)
    documents = [(1, "test", "", "Ada sees", 2), (2, "test", "", "", 0), (3, "test", "", "Bob", 1)]
    corpus = write_corpus(tmp_path, documents, [(3, 0, 1, "x", "gold")])
    vocabulary = words_of(corpus)
    instances = list(make_model().instances(corpus, "test", vocabulary))
    assert [instance.arrays["latents"].tolist() for instance in instances] == [[0, 0], [1]]


def test_wrong_options_are_errors(tmp_path, corpus):
    with pytest.raises(InputError, match="expected one of 'peeking', 'causal', 'bidirectional'"):
        EntityTagger(9, {"context": "all"})
    evaluator_oracles.check_refused("maximum_length", EntityNLM, 9, {"maximum_length": RADIX + 1})
    evaluator_oracles.check_refused("word_classes", EntityNLM, 9, {"word_classes": 0})
    subwords = BPEVocabulary.build([["some text"]], 260)
    evaluator_oracles.check_refused(
        "closed vocabulary", lambda: list(make_model().instances(corpus, "train", subwords))
    )


@pytest.mark.parametrize("kind", [EntityNLM, EntityTagger])
def test_training_lowers_the_loss_and_goes_on_bit_for_bit_where_it_ended(kind, corpus, tmp_path):
    vocabulary, found = words_of(corpus), []
    options = {"validation_steps": 4, "checkpoint_steps": 2, "patience": 99}
    for _ in ("whole", "resumed"):
        torch.manual_seed(0)
        module = kind.create({"size": 16, "dropout": 0.3, **CAPS}, vocabulary, corpus)
        before, after = rnng_corpus.fit(module, corpus, tmp_path, 24, vocabulary, **options)
        assert after < 0.5 * before
        found.append((after, module.state_dict()))
        max((tmp_path / "checkpoints").glob("[0-9]*-*.safetensors")).unlink()
    (first, whole), (second, resumed) = found
    assert first == second
    assert all(torch.equal(tensor, resumed[name]) for name, tensor in whole.items())


def numbers(rows, particles, draws, seed=0):
    return torch.from_numpy(stream(seed, "test").random((rows, particles + 1, draws)))


def plain_log_q(model, tokens, codes):
    """Return log q*(z | x) at temperature 1: each z_t by the beginnings that it leads to."""
    weights, total = weights_of(model), 0.0
    lengths = range(1, len(codes) + 1)
    held = {length: [tuple(row) for row in all_codes(length, 3, 2)] for length in lengths}
    for time in range(len(codes)):
        begun = [row for row in held[time + 1] if row[:time] == tuple(codes[:time])]
        given = weights, model.options, tokens[: time + 1]
        values = [plain_log_joint(*given, row, ended=False) for row in begun]
        total += log_softmax(values)[begun.index(tuple(codes[: time + 1]))]
    return total


def test_it_is_in_proportion_to_what_comes_of_each_z():
    model = make_model()
    codes = all_codes(3, 3, 2)
    expected = [plain_log_q(model, TOKENS[:3], row) for row in codes]
    values, flat = scored(OptimalEntities(model), TOKENS[:3], codes, [1.0, 1e6]).T
    np.testing.assert_allclose(values, expected, rtol=0, atol=1e-11)
    assert flat.std() < values.std()


def exact(model, tokens):
    return float(scored(model, tokens, all_codes(len(tokens), 3, 2)).logsumexp(0))


@pytest.mark.parametrize(("temperature", "particles"), [(1.0, 1), (1.0, 4), (2.0, 3)])
def test_the_mean_of_many_estimates_is_p(temperature, particles):
    """100,000 filters: within 4 standard errors."""
    model = make_model(double=False)
    proposal, batch = OptimalEntities(model), make_batch(TOKENS)
    found = []
    for part in range(10):
        held = numbers(10_000, particles, 3 * len(TOKENS), seed=part)
        filters = torch.zeros(10_000, dtype=torch.int64)
        setting = FilterSetting(model, proposal, batch, particles, temperature, 0.5)
        found.append(smc_log_prob(setting, held, filters).log_prob)
    ratio = (torch.cat(found) - exact(model, TOKENS)).exp()
    assert abs(float(ratio.mean()) - 1) < 4 * float(ratio.std()) / math.sqrt(len(ratio))


def test_weights_do_not_depend_on_what_is_drawn():
    """Each word adds log Σ_z p(z | past) p(x_t | z) to log p − log q, whichever z was drawn."""
    model = make_model()
    proposal, batch = OptimalEntities(model), make_batch(TOKENS)
    owner = torch.zeros(64, dtype=torch.int64)
    with torch.no_grad():
        state, walked = proposal.start(batch, owner), model.start(batch, owner)
        for time in range(len(TOKENS)):
            promise = proposal.log_twist(state, time)
            draws = torch.from_numpy(np.random.default_rng(time).random((64, 2)))
            code, log_q, state = proposal.propose(state, time, draws, 1.0)
            log_p, walked = model.extend(walked, time, code)
            torch.testing.assert_close(log_p - log_q, promise, rtol=0, atol=1e-9)
            assert len(code.unique()) > 1


def test_a_given_path_of_the_posterior_gives_the_inverse():
    """Mean of 1 / p̂ over draws of z from p(z | x), by enumeration, is 1 / p."""
    model = make_model(double=False)
    proposal, tokens = OptimalEntities(model), TOKENS[:3]
    batch, codes = make_batch(tokens), torch.tensor(all_codes(3, 3, 2))
    posterior = scored(model, tokens, codes.tolist()).double().softmax(0)
    rows = 40_000
    generator = torch.Generator().manual_seed(0)
    picked = torch.multinomial(posterior, rows, replacement=True, generator=generator)
    held = numbers(rows, 3, 3 * len(tokens), seed=5)
    filters = torch.zeros(rows, dtype=torch.int64)
    setting = FilterSetting(model, proposal, batch, 3, 1.0, 0.9)
    found = conditional_smc(setting, held, codes[picked], filters).log_prob
    ratio = (exact(model, tokens) - found).exp()
    assert abs(float(ratio.mean()) - 1) < 4 * float(ratio.std()) / math.sqrt(rows)


def test_what_a_filter_finds_does_not_depend_on_the_others():
    documents, _, _, model, _ = many()
    proposal, batch = OptimalEntities(model), make_batch(*documents)
    held = numbers(6, 16, 3 * 40, seed=2)
    owner = torch.tensor([0, 1, 2, 2, 1, 0])
    whole = smc_log_prob(FilterSetting(model, proposal, batch, 16, 1.0, 0.5), held, owner)
    for place, document in enumerate(owner.tolist()):
        alone = make_batch(documents[document])
        one = smc_log_prob(FilterSetting(model, proposal, alone, 16), held[place : place + 1])
        assert torch.equal(one.log_prob[0], whole.log_prob[place])


@pytest.mark.parametrize("classes", [1, 4])
def test_words_are_drawn_as_they_are_scored(classes):
    """χ² of 40,000 draws against `log_probs`, where the text may end and where it may not."""
    torch.manual_seed(0)
    layer, rows = ClassSoftmax(6, 12, classes).double(), 40_000
    features = torch.randn(1, 6).double().expand(rows, -1)
    everything = torch.arange(1, 12)
    for endless in (False, True):
        draws = torch.from_numpy(np.random.default_rng(1).random((rows, 2)))
        drawn = layer.sample(features, torch.full((rows,), endless), draws)
        p = layer.log_probs(features[:11], everything, torch.full((11,), endless)).exp()
        expected = p.detach().numpy() * rows
        counts = np.bincount(drawn.numpy(), minlength=12)[1:]
        assert counts.sum() == rows
        assert (counts[0] == 0) == endless
        held = expected > 0
        statistic = ((counts - expected)[held] ** 2 / expected[held]).sum()
        assert chi2.sf(statistic, held.sum() - 1) > 1e-3

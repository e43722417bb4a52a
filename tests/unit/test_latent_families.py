"""What every model with latent variables keeps to, and its proposals: one check for them all.

Oracles: enumeration of all latents, pairs of them, ends and continuations; frequencies; rows cut
otherwise; plain implementations; of samples their probability (χ²), NLTK's trees.
"""

import itertools
import math
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
import yaml
from nltk.tree import Tree
from scipy import stats
from scipy.stats import chisquare

from beyond_perplexity.corpus.latent_instances import Instance, InstanceBatch
from beyond_perplexity.corpus.sentences import sentence_documents
from beyond_perplexity.decoding import generation
from beyond_perplexity.decoding.options import parse_decoding
from beyond_perplexity.errors import InputError
from beyond_perplexity.models import families, latent
from beyond_perplexity.models.latents import kglm_instances, kglm_lookahead
from beyond_perplexity.models.latents.entitynlm_optimal import OptimalEntities
from beyond_perplexity.models.latents.kglm import KGLM
from beyond_perplexity.models.latents.kglm_optimal import OptimalLinks
from beyond_perplexity.models.latents.kglm_tagger import KGLMTagger
from beyond_perplexity.models.latents.masked_diffusion_orders import ConfidenceOrders
from beyond_perplexity.models.latents.rnng import RNNG
from beyond_perplexity.models.latents.rnng_discriminative import DiscriminativeRNNG
from beyond_perplexity.models.latents.rnng_span_crf import SpanCRF
from beyond_perplexity.models.latents.rnng_top_down_model import TopDownRNNG
from beyond_perplexity.planning.run import Run
from beyond_perplexity.planning.validation import validate
from beyond_perplexity.schemas.corpora import DOCUMENTS, TREES
from beyond_perplexity.tendencies.document_files import DocumentFiles
from beyond_perplexity.training.loop import _products
from beyond_perplexity.vocabulary import ClosedVocabulary
from tests.unit import (
    entitynlm_reference,
    kglm_reference,
    masked_diffusion_reference,
    rnng_reference,
    rnng_top_down_reference,
    test_entitynlm,
    test_kglm,
    test_masked_diffusion,
    test_rnng,
)
from tests.unit import test_rnng_top_down as top_down
from tests.unit.evaluator_oracles import check_refused
from tests.unit.rnng_corpus import rows_of
from tests.unit.toy_latent import STOP, ToyModel

TEMPERATURES = [0.5, 0.9, 1.0, 1.1, 2.0, 5.0]


class Case(NamedTuple):
    """A tiny model with a proposal, batches, short texts and all latents of so many words."""

    model: Any
    proposal: Any
    batch: Callable
    texts: Sequence
    latents: Callable[[int], list]


def binary() -> Case:
    texts = ([4, 3, 8, 8, 5], [7, 2, 5], [6], [3, 5])
    model, proposal = test_rnng.make(), test_rnng.make(SpanCRF)
    return Case(model, proposal, test_rnng.batch_of, texts, rnng_reference.all_trees)


def labelled(**options) -> Case:
    model, proposal = top_down.make(**options), top_down.make(DiscriminativeRNNG, **options)
    texts = ([4, 3, 8], [6], [7, 2])
    return Case(model, proposal, top_down.batch_of, texts, partial(top_down.trees_of, model))


def entities(context: str) -> Case:
    model = test_entitynlm.make_model()
    optimal = context == "optimal"
    proposal = OptimalEntities(model) if optimal else test_entitynlm.make_proposal(context)
    latents = lambda length: entitynlm_reference.all_codes(length, 3, 2)  # noqa: E731
    return Case(model, proposal, test_entitynlm.make_batch, ((3, 4, 8, 5), (4, 8)), latents)


def graph(context: str) -> Case:
    model = test_kglm.make().double()
    optimal = context == "optimal"
    tagger = partial(test_kglm.make, KGLMTagger, context=context, seed=3)
    proposal = OptimalLinks(model) if optimal else tagger()
    latents = partial(kglm_reference.enumerate_codes, model)
    texts = [4, 300, 3], [3, 4], [4, 3, 2]
    return Case(model, proposal.double(), test_kglm.batch_of, texts, latents)


def orders() -> Case:
    model = test_masked_diffusion.make()
    texts, proposal = ([4, 3, 8, 5], [6, 7, 2], [5]), ConfidenceOrders(model)
    batch_of = test_masked_diffusion.batch_of
    return Case(model, proposal, batch_of, texts, test_masked_diffusion.all_orders)


CONTEXTS = ("peeking", "causal", "bidirectional", "optimal")
CASES = {"rnng": binary, "rnng-top-down": labelled}
CASES["rnng-top-down, short runs"] = partial(labelled, maximum_run=1)
CASES |= {f"entitynlm, {context}": partial(entities, context) for context in CONTEXTS}
CASES |= {f"kglm, {context}": partial(graph, context) for context in CONTEXTS}
CASES["masked-diffusion"] = orders
CASES["kglm, few candidates"] = partial(graph, "optimal")
each_case = pytest.mark.parametrize("name", CASES)


@pytest.fixture
def case(name, monkeypatch) -> Case:
    if "few" in name:
        monkeypatch.setattr(kglm_lookahead, "CANDIDATES", 1)
    return CASES[name]()


@each_case
@torch.no_grad()
def test_the_proposal_is_normalized_and_expected_estimates_rise_to_the_likelihood(case):
    """At every temperature, by sums over all latents and over all pairs of them: no sampling."""
    for place, text in enumerate(case.texts):
        rows = rows_of(case.latents(len(text)))
        owner = torch.full((len(rows),), place)
        log_p = case.model.log_joint(case.batch(*case.texts), owner, rows)
        log_q = case.proposal.log_prob(case.batch(*case.texts), owner, rows, TEMPERATURES)
        torch.testing.assert_close(log_q.logsumexp(0), torch.zeros(6, dtype=torch.float64))
        assert torch.isfinite(log_p).all()
        assert torch.isfinite(log_q).all()  # p > 0 and q > 0 on the same latents
        truth = float(log_p.logsumexp(0))
        for column in log_q.T:
            q, log_w = column.exp(), log_p - column
            assert float((q * log_w.exp()).sum()) == pytest.approx(math.exp(truth), rel=1e-9)
            one = float((q * log_w).sum())
            two = float(q @ (torch.logaddexp(log_w[:, None], log_w) - math.log(2)) @ q)
            assert one < two < truth or float(log_w.std(correction=0)) < 1e-9


SAMPLED = [(name, temperature) for name in CASES for temperature in (0.5, 2.0)]
SAMPLED.remove(("rnng-top-down", 0.5))
SAMPLED.remove(("rnng-top-down", 2.0))
SAMPLED += [("rnng", 1.0), ("kglm, few candidates", 1.0), ("kglm, few candidates", 3.0)]


@pytest.mark.parametrize(("name", "temperature"), SAMPLED)
@torch.no_grad()
def test_samples_have_the_frequencies_of_their_probabilities(case, name, temperature):
    """By χ², by each, by the total variation, whose mean is ½ Σ √(2 p / (π n)), and by p̂."""
    count = 5_000 if "runs" in name else 20_000
    batch = case.batch(*case.texts[:2])
    for place, text in enumerate(case.texts[:2]):
        generator, owner = np.random.default_rng(5 + place), torch.full((count,), place)
        uniforms = torch.from_numpy(generator.random((count, case.proposal.draws(batch))))
        codes = case.proposal.sample(batch, owner, uniforms, temperature)
        again = case.proposal.sample(batch, owner[:16], uniforms[:16], temperature)
        assert torch.equal(again, codes[:16, : again.shape[1]])
        listed = rows_of(case.latents(len(text)))
        found = dict.fromkeys(map(tuple, listed.tolist()), 0)
        for row in codes.tolist():
            found[(*(z for z in row if z != -1), *[-1] * row.count(-1))[: len(listed[0])]] += 1
        assert len(found) == len(listed)
        assert (codes[:, listed.shape[1] :] == -1).all()
        own = torch.full((len(listed),), place)
        log_q = case.proposal.log_prob(batch, own, listed, [temperature])[:, 0]
        p, seen = log_q.exp().numpy(), np.array(list(found.values()))
        assert (np.abs(seen / count - p) < 5 * np.sqrt(p * (1 - p) / count) + 5 / count).all()
        assert np.abs(seen / count - p).sum() <= 1.5 * np.sqrt(2 * p / (math.pi * count)).sum()
        common = count * p > 5
        observed = np.array([*seen[common], seen[~common].sum()])
        wanted = np.array([*count * p[common], count * p[~common].sum()])
        kept = wanted > 1e-9
        assert stats.chisquare(observed[kept], wanted[kept]).pvalue > 0.001
        if temperature != 2.0:
            continue  # weights of colder proposals have too heavy a tail
        truth = case.model.log_joint(batch, own, listed).logsumexp(0)
        drawn, owner = codes[:4096], owner[:4096]
        log_q = case.proposal.log_prob(batch, owner, drawn, [temperature])[:, 0]
        ratio = (case.model.log_joint(batch, owner, drawn) - log_q - truth).exp()
        assert abs(float(ratio.mean()) - 1) < 4 * float(ratio.std()) / 64 + 1e-9


@each_case
@torch.no_grad()
def test_beams_are_distinct_sorted_and_in_the_end_complete(case):
    for temperature in (1.0, 0.7, 5.0):
        batch = case.batch(*case.texts[:2])
        listed = [rows_of(case.latents(len(text))) for text in case.texts[:2]]
        ranked = []
        for place, rows in enumerate(listed):
            owner = torch.full((len(rows),), place)
            log_q = case.proposal.log_prob(batch, owner, rows, [temperature])[:, 0]
            ranked.append(log_q.sort(descending=True).values)
        masses, total = [], len(listed[0])
        for size in (1, 2, 4, 8, 32, 128, total + 5):
            found = case.proposal.beam(batch, size, temperature)
            assert found.shape[:2] == (2, size)
            for place, rows in enumerate(found):
                held = rows[(rows != -1).any(1)]
                assert (rows[:, listed[place].shape[1] :] == -1).all()
                assert len(held.unique(dim=0)) == len(held) == min(size, len(listed[place]))
                owner = torch.full((len(held),), place)
                scores = case.proposal.log_prob(batch, owner, held, [temperature])[:, 0]
                assert (scores.diff() <= 1e-9).all()
                masses += [float(scores.exp().sum())] * (place == 0)
        assert masses == sorted(masses) or temperature > 1
        assert masses[-1] == pytest.approx(1)
        assert masses[-2] > 0.99 or total > 140 or temperature > 1
        torch.testing.assert_close(scores, ranked[1])
        held = found[0][:total]
        owner = torch.zeros(total, dtype=torch.int64)
        scores = case.proposal.log_prob(batch, owner, held, [temperature])[:, 0]
        torch.testing.assert_close(scores, ranked[0])
        log_p = [case.model.log_joint(batch, owner, z).logsumexp(0) for z in (held, listed[0])]
        assert float(log_p[0]) == pytest.approx(float(log_p[1]))


class Larger(NamedTuple):
    """Modules in single precision, documents of several lengths, what draws rows for them.

    `rounding` is how far a document alone may be from itself in a batch.
    """

    modules: Sequence
    drawn_by: Any
    batch: Callable
    documents: Sequence
    rounding: float


def larger_trees(kinds, make, batch_of, lengths) -> Larger:
    generator = np.random.default_rng(0)
    documents = [generator.integers(2, 9, length).tolist() for length in lengths]
    modules = [make(kind, double=False, **more) for kind, more in kinds]
    return Larger(modules, make(kinds[1][0]), batch_of, documents, 2e-5)


def larger_entities(context: str) -> Larger:
    documents, _, _, model, sizes = test_entitynlm.many()
    if context == "optimal":
        proposal = OptimalEntities(model)
    else:
        proposal = test_entitynlm.make_proposal(context, double=False, **sizes)
    return Larger((model, proposal), proposal, test_entitynlm.make_batch, documents, 0.0)


def larger_graph(optimal: bool) -> Larger:
    model, proposal, documents = test_kglm.larger()
    proposal = OptimalLinks(model) if optimal else proposal
    return Larger((model, proposal), proposal, test_kglm.batch_of, documents, 1e-11)


def larger_orders() -> Larger:
    model, random = test_masked_diffusion.make(double=False, width=16), np.random.default_rng(0)
    documents = [random.integers(2, 9, length).tolist() for length in (7, 3, 6)]
    proposal = ConfidenceOrders(model)
    return Larger((model, proposal), proposal, test_masked_diffusion.batch_of, documents, 1e-12)


SIZE = {"size": 16}
LABELLED = [(TopDownRNNG, SIZE), (DiscriminativeRNNG, SIZE)]
LARGER = {
    "rnng": partial(
        larger_trees, [(RNNG, SIZE), (SpanCRF, {})], test_rnng.make, test_rnng.batch_of, (7, 3, 6)
    ),
    "rnng-top-down": partial(larger_trees, LABELLED, top_down.make, top_down.batch_of, (5, 2, 4)),
    **{f"entitynlm, {context}": partial(larger_entities, context) for context in CONTEXTS},
    "kglm": partial(larger_graph, False),
    "kglm, optimal": partial(larger_graph, True),
    "masked-diffusion": larger_orders,
}


@pytest.mark.parametrize("name", LARGER)
def test_losses_of_rounded_products_are_those_of_single_precision(name):
    """Oracle: the same loss without autocast, which is what a GPU trains with unless told."""
    modules, _, batch_of, documents, _ = LARGER[name]()
    for module in modules:
        if isinstance(module, OptimalEntities | OptimalLinks | ConfidenceOrders):
            continue  # is analytic
        batch = batch_of(*documents)
        exact = module.loss(batch)
        with _products(torch.device("cpu"), True):
            rounded = module.loss(batch)
        rounded.backward()
        assert float(rounded.detach()) == pytest.approx(float(exact.detach()), rel=0.01)
        slopes = [p.grad for p in module.parameters() if p.grad is not None]
        assert slopes
        assert all(slope.isfinite().all() for slope in slopes)


@pytest.mark.parametrize("name", LARGER)
@torch.no_grad()
def test_rows_do_not_depend_on_their_neighbours(name):
    """Cut otherwise bit for bit; alone, without the padding of longer ones, up to rounding."""
    modules, drawn_by, batch_of, documents, rounding = LARGER[name]()
    batch, owner = batch_of(*documents), torch.arange(3).repeat_interleave(48)
    random = np.random.default_rng(1)
    uniforms = torch.from_numpy(random.random((144, drawn_by.draws(batch))))
    codes = drawn_by.sample(batch, owner, uniforms, 1.1)
    assert len(codes.unique()) > 2

    def values(batch, owner, codes):
        log_p = modules[0].log_joint(batch, owner, codes)
        return [log_p, *modules[1].log_prob(batch, owner, codes, TEMPERATURES).T]

    whole = values(batch, owner, codes)
    assert all(column.dtype == torch.float64 for column in whole)
    assert all(torch.isfinite(column).all() for column in whole)
    for rows in (torch.arange(16), torch.arange(16, 64), torch.randperm(144)):
        drawn = drawn_by.sample(batch_of(*documents), owner[rows], uniforms[rows], 1.1)
        assert torch.equal(drawn, codes[rows][:, : drawn.shape[1]])
        some = values(batch_of(*documents), owner[rows], codes[rows])
        for found, expected in zip(some, whole, strict=True):
            assert torch.equal(found, expected[rows])
    for place, words in enumerate(documents):
        mine, alone = owner == place, batch_of(words)
        zeros = torch.zeros(48, dtype=torch.int64)  # numbers beyond its own need are not used
        drawn = drawn_by.sample(alone, zeros, uniforms[mine], 1.1)
        assert torch.equal(drawn, codes[mine][:, : drawn.shape[1]])
        assert (codes[mine][:, drawn.shape[1] :] == -1).all()
        for found, expected in zip(values(alone, zeros, drawn), whole, strict=True):
            torch.testing.assert_close(found, expected[mine], atol=rounding, rtol=0)


NO_TREES = {
    (test_rnng, SpanCRF): (
        [0, 0, 1, 0, 1],
        [
            *([0, 1, 0, 0, 1], [0, 0, 0, 1, -1], [0, 0, 0, 0, 1], [0, 0, 1, -1, 1]),
            *([1, 0, 0, 0, 1], [0, 0, 1, 0, 2], [0, 0, -1, 0, 1]),
        ],
    ),
    (top_down, DiscriminativeRNNG): (
        [2, 0, 0, 0, 1, -1],
        [
            [0, 0, 0, -1, -1, -1],  # no phrase
            [2, 0, 0, 0, -1, -1],  # the root stays open
            [2, 0, 0, 1, -1, -1],  # a word is missing
            [2, 0, 0, 0, 0, 1],  # a word too many
            [2, 0, 0, 0, 1, 1],  # closed twice
            [2, 2, 1, 0, 0, 0],  # an empty phrase
            [2, 0, 0, 0, 1, 0],  # goes on after the root
            [2, 0, 0, -1, 0, 1],  # a gap
            [2, 0, 0, 0, 1, 9],  # no such action
            [1, 2, 0, 0, 0, 1],
        ],
    ),
}


@torch.no_grad()
def test_what_is_no_tree_is_impossible():
    for (family, kind), (tree, others) in NO_TREES.items():
        rows = torch.tensor([tree, *others])
        batch, owner = family.batch_of([4, 5, 6]), torch.zeros(len(rows), dtype=torch.int64)
        scores = family.make(kind).log_prob(batch, owner, rows, [1.0])[:, 0]
        for found in (family.make().log_joint(batch, owner, rows), scores):
            assert torch.isfinite(found).tolist() == [True] + [False] * len(others)
            assert (found[1:] == -math.inf).all()


class Writing(NamedTuple):
    """A model that writes short texts over a few words; log p of each with all its latents.

    `cells` is how many (x, z) are common enough to be counted one by one, at least.
    """

    model: Any
    vocabulary: ClosedVocabulary
    names: dict[int, str]
    longest: int
    latents: Callable[[int], list]
    log_probs: Callable[[tuple, list], list[float]]
    count: int
    cells: int


TINY = ClosedVocabulary(["a"], 1)
NAMES = {2: "<unk>", 3: "a"}


@torch.no_grad()
def writing_trees(binary_trees: bool) -> Writing:
    if binary_trees:
        model, family = test_rnng.make(vocabulary=4), test_rnng
        model.reduce.bias.fill_(1.5)
        model.word_bias[1] = 2.0
        latents = rnng_reference.all_trees
    else:
        caps = {"maximum_run": 1, "maximum_open": 2}
        model, family = top_down.make(vocabulary=4, labels=("A",), **caps), top_down
        model.choice.bias[1:3] = torch.tensor([2.0, -1.0])
        latents = partial(top_down.trees_of, model)

    def log_probs(words, listed):
        owner = torch.zeros(len(listed), dtype=torch.int64)
        with torch.no_grad():
            return model.log_joint(family.batch_of(list(words)), owner, rows_of(listed)).tolist()

    return Writing(model, TINY, NAMES, 3, latents, log_probs, 6000, 8)


def writing_entities() -> Writing:
    caps = {"vocabulary_size": 4, "word_classes": 2, "maximum_entities": 2}
    model = test_entitynlm.make_model(**caps)
    weights = entitynlm_reference.weights_of(model)
    plain = partial(entitynlm_reference.plain_log_joint, weights, model.options)
    latents = lambda length: entitynlm_reference.all_codes(length, 2, 2)  # noqa: E731
    log_probs = lambda words, listed: [plain(words, row) for row in listed]  # noqa: E731
    return Writing(model, TINY, NAMES, 2, latents, log_probs, 60_000, 15)


@torch.no_grad()
def writing_links() -> Writing:
    """Of the 3 unknown types aliases have 300 and 301; the third is written ``<unk>``."""
    model = test_kglm.make(seed=1, size=5).double()
    model.word_ids[:] = torch.tensor([i if i < 5 else 2 for i in range(test_kglm.ALIAS_WORDS)])
    model.bias[1] += 4.0  # so that many texts are short
    names = {3: "w3", 4: "w4", 2: "<unk>", 300: "w300", 301: "w301"}
    plain = partial(test_kglm.plain_joint, model, unknown_types=3)
    latents = partial(kglm_reference.enumerate_codes, model)
    log_probs = lambda words, listed: [plain(words, row) for row in listed]  # noqa: E731
    vocabulary = ClosedVocabulary(["w3", "w4"], 3)
    return Writing(model, vocabulary, names, 2, latents, log_probs, 20_000, 40)


def writing_orders() -> Writing:
    model = test_masked_diffusion.make(vocabulary=4, scale=0.2)
    weights = masked_diffusion_reference.weights_of(model)

    def log_probs(words, listed):
        base = test_masked_diffusion.log_length(model, len(words)) - math.lgamma(len(words) + 1)
        weigh = partial(masked_diffusion_reference.weigh, weights, 2, words)
        return [base + weigh(order, [1.0])[0] for order in listed]

    every = test_masked_diffusion.all_orders
    return Writing(model, TINY, NAMES, 3, every, log_probs, 8_000, 18)


WRITING = {"masked-diffusion": writing_orders, "entitynlm": writing_entities, "kglm": writing_links}
WRITING |= {"rnng": partial(writing_trees, True), "rnng-top-down": partial(writing_trees, False)}


@pytest.mark.parametrize("family", WRITING)
def test_simulated_texts_have_the_enumerated_probabilities(family):
    """χ² over all short texts with their latents, those of up to 5 and all others together."""
    case = WRITING[family]()
    most = case.longest if family in ("entitynlm", "kglm") else 9
    drawn = case.model.simulate(3, "test", range(case.count), most, case.vocabulary)
    found = Counter((*one.words, *one.latents.tolist()) for one in drawn if not one.truncated)
    expected = {}
    for length in range((most < 9 and 0) or 1, case.longest + 1):
        listed = [list(row) for row in case.latents(length)]
        for words in itertools.product(case.names, repeat=length):
            for row, value in zip(listed, case.log_probs(words, listed), strict=True):
                expected[(*(case.names[word] for word in words), *row)] = math.exp(value)
    likely = {key: case.count * p for key, p in expected.items() if case.count * p >= 5}
    assert len(likely) > case.cells
    counts = [found[key] for key in likely]
    observed = [*counts, case.count - sum(counts)]
    rest = case.count - sum(likely.values())
    assert stats.chisquare(observed, [*likely.values(), rest]).pvalue > 1e-3
    assert family != "kglm" or any("w300" in key for key in found)
    assert not any(one.truncated for one in drawn if len(one.words) < most)


@pytest.mark.parametrize("double", [True, False])
@pytest.mark.parametrize("family", WRITING)
@torch.no_grad()
def test_a_simulated_text_depends_on_its_number_alone_and_is_an_instance(family, double):
    words, most = ClosedVocabulary([f"w{place}" for place in range(6)], 1), 6
    model = {
        "rnng": test_rnng.make,
        "rnng-top-down": partial(top_down.make, maximum_run=1, maximum_open=3),
        "entitynlm": partial(
            test_entitynlm.make_model, size=16, maximum_length=4, maximum_entities=20
        ),
        "masked-diffusion": test_masked_diffusion.make,
        "kglm": lambda double: WRITING["kglm"]().model.to(torch.float64 if double else torch.float),
    }[family](double=double)
    words = WRITING["kglm"]().vocabulary if family == "kglm" else words

    def simulate(numbers, most=most, seed=3, purpose="test"):
        return model.simulate(seed, purpose, numbers, most, words)

    def keys(drawn):
        return [(one.words, one.latents.tolist(), one.truncated) for one in drawn]

    many = simulate(range(5, 90))
    assert keys(simulate(range(70, 72))) == keys(many[65:67])  # bit for bit
    assert keys(simulate(range(89, 90))) == keys(many[84:])
    assert keys(simulate(range(5, 90), purpose="other")) != keys(many)
    assert keys(simulate(range(5, 90), seed=4)) != keys(many)
    assert simulate(range(0)) == []
    assert [one.instance.instance_id for one in many] == list(range(5, 90))
    assert {one.truncated for one in many} == {False, True}
    for one, longer in zip(many, simulate(range(5, 90), 40), strict=True):
        assert one.words == longer.words[:most]
        assert one.truncated == (len(longer.words) > most)
        # A tree that is cut is closed, and an order that is cut is of what is left
        if one.truncated is False or family in ("entitynlm", "kglm"):
            assert torch.equal(one.latents, longer.latents[: len(one.latents)])
    held = [one for one in many if one.words]
    batch = InstanceBatch.of(one.instance for one in held)
    rows = model.annotated(batch)
    assert torch.isfinite(model.log_joint(batch, torch.arange(len(held)), rows)).all()
    for row, one in zip(rows, held, strict=True):
        assert row[: len(one.latents)].tolist() == one.latents.tolist()
        assert torch.equal(torch.from_numpy(one.instance.arrays[model.annotation]), one.latents)
        encoded = words.encode([" ".join(one.words)])[0].tolist()
        assert encoded == one.instance.arrays["tokens"].tolist()
        if family == "kglm":
            spelled = kglm_instances.Spellings(model.graph).of(one.words, -1).tolist()
            assert one.instance.arrays["spellings"].tolist() == spelled


# Without the end a text stands for all that begin so.
OPEN = {"count_eos": False}
WITHOUT = {"count_eos": False, "train_eos": False}
KNOWN_ALIASES = {0: [[3], [3, 4]], 1: [[4, 3, 4]]}  # no unknown words: then Σ over words is plain


@torch.no_grad()
def entity_scores(model, tokens, codes):
    return test_entitynlm.scored(model, tokens, codes).exp().tolist()


def graph_scores(model, tokens, codes):
    return test_kglm.score(model, [[*tokens]] * len(codes), codes).exp().tolist()


def entities_or_not(**more):
    return test_entitynlm.make_model(vocabulary_size=5, maximum_entities=2, **more)


def links_or_not(**more):
    return test_kglm.make(KGLM, held_aliases=KNOWN_ALIASES, **more).double()


def codes_of_links(length):
    return kglm_reference.enumerate_codes(links_or_not(), length)


FOLLOWED = {
    "entitynlm": (
        entities_or_not,
        entity_scores,
        lambda length: entitynlm_reference.all_codes(length, 2, 2),
        (2, 3, 4),
    ),
    "kglm": (links_or_not, graph_scores, codes_of_links, (3, 4, 302)),  # 302 is unknown
}


@pytest.mark.parametrize("family", FOLLOWED)
def test_documents_without_an_end_sum_over_what_may_follow(family):
    make, score, codes_of, words = FOLLOWED[family]
    whole, cut = make(), make(**OPEN)
    tokens, codes, longer = (3, 4), codes_of(2), codes_of(3)
    ended, found = score(whole, tokens, codes), score(cut, tokens, codes)
    follow = dict.fromkeys(map(tuple, codes), 0.0)
    for word in words:
        for row, p in zip(longer, score(cut, (*tokens, word), longer), strict=True):
            follow[tuple(row[:2])] += p
    expected = [p + follow[tuple(row)] for row, p in zip(codes, ended, strict=True)]
    assert found == pytest.approx(expected, rel=1e-9)
    if family == "entitynlm":
        weights = entitynlm_reference.weights_of(cut)
        plain = partial(entitynlm_reference.plain_log_joint, weights, cut.options, tokens)
        expected = [math.exp(plain(row, ended=False)) for row in codes]
        assert found == pytest.approx(expected, rel=1e-10)


@torch.no_grad()
def walked(model, tokens, latents):
    """Add up the words and the end of one row of z, word by word: log p, with and without it."""
    batch, owner = test_rnng.batch_of(tokens), torch.zeros(1, dtype=torch.int64)
    choices = model.split_latents(latents, torch.tensor([len(tokens)]))
    state, total = model.start(batch, owner), torch.zeros(1, dtype=torch.float64)
    for time in range(len(tokens)):
        log_p, state = model.extend(state, time, choices[:, time])
        total = total + log_p
    return float(total), float(total + model.finish(state, len(tokens)))


@torch.no_grad()
def test_rnng_sums_over_what_may_follow():
    """The next word comes after all is one tree; its own REDUCE is of what follows it."""
    whole, cut = (test_rnng.make(vocabulary=6, **more) for more in ({}, OPEN))
    tokens = [3, 5, 4]
    for tree in rnng_reference.all_trees(3):
        row = torch.tensor([tree])
        batch, owner = test_rnng.batch_of(tokens), torch.zeros(1, dtype=torch.int64)
        (ended,) = whole.log_joint(batch, owner, row).exp().tolist()
        (found,) = cut.log_joint(batch, owner, row).exp().tolist()
        longer = torch.tensor([[*tree, 0, 1]])
        follow = sum(math.exp(walked(whole, [*tokens, word], longer)[0]) for word in range(2, 6))
        assert found == pytest.approx(ended + follow, rel=1e-6)
        assert walked(cut, tokens, row)[1] == pytest.approx(math.log(found), abs=1e-6)
        assert walked(whole, tokens, row)[1] == pytest.approx(math.log(ended), abs=1e-6)


@torch.no_grad()
def test_top_down_rnng_stops_before_its_root_closes():
    cut, whole = (top_down.make(**more) for more in (OPEN, {}))
    batch, owner, latents = top_down.everything(cut)
    found = cut.log_joint(batch, owner, latents)
    sentences = top_down.SENTENCES
    expected = []
    for place, row in zip(owner.tolist(), latents.tolist(), strict=True):
        tree = [action for action in row if action >= 0]
        expected.append(rnng_top_down_reference.log_joint(cut, sentences[place], tree[:-1]))
    torch.testing.assert_close(found, torch.tensor(expected).double(), rtol=0, atol=1e-5)
    assert (found > whole.log_joint(batch, owner, latents)).all()


ENDED = {
    "entitynlm": (test_entitynlm.make_model, lambda: test_entitynlm.make_batch((3, 4, 5), (4,))),
    "kglm": (
        lambda **options: test_kglm.make(KGLM, **options),
        lambda: test_kglm.batch_of([3, 4, 3], [4]),
    ),
    "masked-diffusion": (
        test_masked_diffusion.make,
        lambda: test_masked_diffusion.batch_of([4, 3, 8], [5]),
    ),
    "rnng": (test_rnng.make, lambda: test_rnng.batch_of([4, 3, 8], [5])),
    "rnng-top-down": (top_down.make, lambda: top_down.batch_of([4, 3], [5])),
}


@pytest.mark.parametrize("family", ENDED)
def test_words_with_the_end_of_particles_add_up_to_whole_rows(family):
    """With the end and without; T counts it or not, and says which."""
    make, batch_of = ENDED[family]
    for more, end in (({}, 1), (OPEN, 0)):
        model, batch = make(**more), batch_of()
        assert model.n_tokens(batch).tolist() == [n + end for n in batch.lengths["tokens"].tolist()]
        assert model.t_definition == ("words and </s>" if end else "words")
        owner = torch.arange(len(batch))
        with torch.no_grad():
            rows = model.annotated(batch)
            expected = model.log_joint(batch, owner, rows)
            split = getattr(model, "split_latents", None)
            lengths = batch.lengths["tokens"]
            choices = split(rows, lengths) if split else rows
            for place, length in enumerate(lengths.tolist()):
                state, total = model.start(batch, owner[place : place + 1]), 0.0
                for time in range(length):
                    choice = choices[place : place + 1, time]
                    log_p, state = model.extend(state, time, choice)
                    total += float(log_p)
                total += float(model.finish(state, length))
                assert total == pytest.approx(float(expected[place]), abs=1e-5)


@pytest.mark.parametrize("family", ["entitynlm", "kglm", "rnng-top-down"])
def test_the_loss_leaves_the_end_out_where_it_is_asked_for(family):
    make, batch_of = ENDED[family]
    losses = {}
    for name, more in (("whole", {}), ("evaluated", OPEN), ("both", WITHOUT)):
        model, batch = make(**more), batch_of()
        owner = torch.arange(len(batch))
        joint = float(model.log_joint(batch, owner, model.annotated(batch)).detach().sum())
        losses[name] = float(model.loss(batch).detach()), -joint
    assert losses["whole"][0] == losses["evaluated"][0]
    assert losses["evaluated"][1] == losses["both"][1] < losses["whole"][1]
    for name in ("whole", "both"):
        assert losses[name][0] == pytest.approx(losses[name][1], rel=1e-5)
    check_refused("train_eos: is false, but count_eos is true", make, train_eos=False)


def test_without_an_end_an_rnng_has_none_to_count_or_train_and_all_families_are_here():
    model, batch = test_rnng.make(eos=False), test_rnng.batch_of([4, 3, 8], [5])
    joint = model.log_joint(batch, torch.arange(2), model.annotated(batch)).detach()
    assert float(model.loss(batch).detach()) == pytest.approx(-float(joint.sum()), rel=1e-6)
    assert model.n_tokens(batch).tolist() == [3, 1]
    # What is brought is a family that is here, by another network; see `test_masked_diffusion`.
    made = {name for name in families.families_of("latent") if not families.FAMILIES[name].bring}
    assert made == set(ENDED)


ROOT = Path(__file__).parents[2]
ANCESTRAL = parse_decoding({"kind": "ancestral"})
WORDS = ClosedVocabulary(["a", "b", "c"], 0)


def draw(first: int, count: int, most: int = 3) -> list[latent.Simulated]:
    torch.manual_seed(2)
    model = ToyModel(2, {}).eval()
    given = {"seed": 1, "first": first, "count": count, "maximum_length": most}
    return list(generation.simulate_texts(model, WORDS, ANCESTRAL, "p", **given))


def test_texts_are_as_probable_as_the_sum_over_their_latents():
    torch.manual_seed(2)
    model = ToyModel(2, {}).eval()
    probability = {"w": STOP}  # of the empty text
    for length in (1, 2):
        for ids in product(range(2), repeat=length):
            tokens = np.array(ids)
            batch = InstanceBatch.of([Instance(0, {"tokens": tokens, "bits": tokens})])
            every = torch.tensor(list(product((0, 1), repeat=length)))
            owner = torch.zeros(len(every), dtype=torch.int64)
            joint = model.log_joint(batch, owner, every).logsumexp(0).item()
            probability["w" + "".join(map(str, ids))] = math.exp(joint)
    probability["cut"] = 1 - sum(probability.values())
    drawn = Counter()
    for one in draw(0, 4000):
        name = "w" + "".join(word[1:] for word in one.words)
        drawn["cut" if len(one.words) > 2 else name] += 1
    observed = [drawn[name] for name in probability]
    assert chisquare(observed, [4000 * p for p in probability.values()]).pvalue > 1e-3


def test_a_document_does_not_depend_on_its_shard_which_has_words_and_no_log_p(tmp_path):
    whole = draw(0, generation.SIMULATED_AT_ONCE + 30)
    part = draw(generation.SIMULATED_AT_ONCE - 5, 20)
    numbers = [one.instance.instance_id for one in whole]
    assert numbers == list(range(generation.SIMULATED_AT_ONCE + 30))
    expected = whole[generation.SIMULATED_AT_ONCE - 5 : generation.SIMULATED_AT_ONCE + 15]
    assert [one.words for one in part] == [one.words for one in expected]
    documents = draw(3, 40)
    generation.write_samples(tmp_path / "a.parquet", documents, 40, WORDS, {})
    rows = pq.read_table(tmp_path / "a.parquet").to_pylist()
    assert [row["doc_id"] for row in rows] == list(range(3, 43))
    assert [row["text"] for row in rows] == [" ".join(one.words) for one in documents]
    assert {row["log_prob"] for row in rows} == {None}
    assert [row["finished"] for row in rows] == [not one.truncated for one in documents]
    assert {row["finished"] for row in rows} == {True, False}
    assert not DocumentFiles([tmp_path / "a.parquet"]).are_generated()
    generation.write_samples(tmp_path / "b.parquet", documents, 40, WORDS, {"precision": "float32"})
    assert DocumentFiles([tmp_path / "b.parquet"]).are_generated()


@pytest.mark.parametrize("change", [{"temperature": 0.5}, {"unknown": "exclude"}, {"kind": "beam"}])
def test_only_the_models_own_distribution_can_be_drawn_from(change):
    options = parse_decoding({"kind": "ancestral", **change})
    assert not options.ancestral
    given = ToyModel(2, {}), WORDS, options, "p"
    how = {"seed": 1, "first": 0, "count": 1, "maximum_length": 2}
    with pytest.raises(InputError, match="ancestral sampling alone"):
        list(generation.simulate_texts(*given, **how))


def planned(models: list[str], decodings: list[str], **corpora) -> Run:
    config = yaml.safe_load((ROOT / "config.yaml").read_text(encoding="utf-8"))
    config["generation"] |= {"models": models, "decodings": decodings}
    config["corpora"] |= corpora
    validate(config)
    return Run(config)


def test_latent_models_write_by_ancestral_sampling_are_not_scored_and_need_a_free_name():
    run = planned(["lstm", "kglm", "rnng"], ["ancestral", "nucleus"])
    ancestral = ["lstm/ancestral", "lstm/nucleus", "kglm/ancestral"]
    assert run.samples.sources("wikipedia") == ancestral
    assert run.samples.sources("wikipedia-sentences") == ["rnng/ancestral"]
    assert run.models.scored() == ["lstm"]
    with pytest.raises(InputError, match="'kglm' has latent variables and writes by ancestral"):
        planned(["lstm", "kglm"], ["nucleus"])
    config = yaml.safe_load((ROOT / "config.yaml").read_text(encoding="utf-8"))
    taken = {"wikipedia-sentences": config["corpora"]["wikipedia"]}
    with pytest.raises(InputError, match="wikipedia-sentences: this name is kept"):
        planned(["rnng"], ["ancestral"], **taken)


def test_a_model_of_sentences_is_compared_with_sentences():
    run = planned(["lstm", "rnng"], ["ancestral"])
    assert run.samples.compared_corpora() == ["wikipedia", "wikipedia-sentences"]
    files = run.samples.compared_files("rnng", "ancestral")
    folder = "<results>/references/wikipedia-sentences"
    assert files["reference"] == f"{folder}/words/statistics.parquet"
    assert files["documents"] == "<results>/corpora/wikipedia-sentences/documents.parquet"
    found = run.samples.vocabulary_file("wikipedia-sentences", "words")
    assert found == "<results>/vocabularies/wikipedia/words.json"
    assert run.samples.group_column("wikipedia-sentences") == ["title"]
    assert run.samples.group_column("wikipedia") == []
    group = "tendencies/wikipedia-sentences"
    assert group in run.report.groups("tendencies")
    assert "Sentences of the test set" in run.report.labels(group)
    assert "Sentences of the test set" not in run.report.labels("tendencies/wikipedia")
    from beyond_perplexity.report import TABLES

    report = planned(["lstm", "rnng"], ["ancestral"]).report
    names = report.names(TABLES, "tendencies/wikipedia-sentences")
    assert "table_2" in names
    assert "table_1" not in names
    assert "sentence" in report.caption(TABLES, "tendencies/wikipedia-sentences", "table_2")
    assert "*sentence*" not in report.caption(TABLES, "tendencies/wikipedia", "table_2")


def test_orders_are_compared_with_no_annotation_and_stand_beside_their_deterministic_sampler():
    plan = planned(["lstm", "masked-diffusion"], ["ancestral"]).importance
    assert plan.beside("masked-diffusion") == ["transformer", "lstm", "masked-diffusion"]
    assert plan.beside("kglm") == ["transformer", "lstm"]
    assert plan.draw_files("posterior", "masked-diffusion-orders") == []
    assert len(plan.draw_files("posterior", "kglm-optimal")) == 1
    assert plan.shown_models() == ["rnng", "entitynlm", "kglm"]
    assert "maximum_words 20" in plan.data()["masked-diffusion"]


SENTENCES_OF = {3: ["(S (NP (DT the) (NN cat)) (VP (VBZ sits)))", "(S (NN yes) (-LRB- -LRB-))"]}
SENTENCES_OF |= {5: ["(S (NN no))"]}


def write_corpus(folder: Path) -> tuple[str, str]:
    documents = {"doc_id": [1, 3, 5], "split": ["train", "test", "valid"], "n_tokens": [1, 5, 1]}
    documents |= {"title": ["", "Cats", ""], "text": ["a", "the cat sits yes (", "no"]}
    rows = [(d, n, tree) for d, trees in SENTENCES_OF.items() for n, tree in enumerate(trees)]
    trees = dict(zip(("doc_id", "sentence", "tree"), zip(*rows, strict=True), strict=True))
    paths = str(folder / "documents.parquet"), str(folder / "trees.parquet")
    for path, columns, schema in zip(paths, (documents, trees), (DOCUMENTS, TREES), strict=True):
        table = pa.table({name: list(columns[name]) for name in schema.names}, schema)
        pq.write_table(table, path)
    return paths


@pytest.mark.parametrize("unit", ["document", "page"])
def test_sentences_become_documents_in_their_groups(tmp_path, unit):
    table = pa.concat_tables(list(sentence_documents(*write_corpus(tmp_path), unit)))
    rows = table.to_pylist()
    assert [row["doc_id"] for row in rows] == [3 * 65_536, 3 * 65_536 + 1, 5 * 65_536]
    trees = [tree for held in SENTENCES_OF.values() for tree in held]
    leaves = [Tree.fromstring(tree).leaves() for tree in trees]
    written = [" ".join(words).replace("-LRB-", "(") for words in leaves]
    assert [row["text"] for row in rows] == written
    assert [row["n_tokens"] for row in rows] == [3, 2, 1]
    assert [row["split"] for row in rows] == ["test", "test", "valid"]
    first = "Cats" if unit == "page" else "document 3"
    assert [row["title"] for row in rows] == [first, first, "document 5"]


def test_trees_of_other_documents_are_an_error(tmp_path):
    documents, trees = write_corpus(tmp_path)
    pq.write_table(pq.read_table(documents).slice(0, 2), documents)
    check_refused("document 5 is not in", sentence_documents, documents, trees, "page")

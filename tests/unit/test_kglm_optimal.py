"""The optimal proposal of KGLM: worked out of the model, word by word.

Oracles: sums over all latents of short documents; the definition of the proposal where no estimate
enters it; frequencies of samples; particle filters, whose mean is p(x) by enumeration.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from scipy import stats

from beyond_perplexity.importance.particle_runs import FilterSetting, smc_log_prob
from beyond_perplexity.models.latents import kglm_lookahead as lookahead
from beyond_perplexity.models.latents.kglm import KGLM
from beyond_perplexity.models.latents.kglm_instances import NEW, KnowledgeGraph
from beyond_perplexity.models.latents.kglm_optimal import OptimalLinks
from beyond_perplexity.vocabulary import UNK
from tests.unit import kglm_reference as reference
from tests.unit.test_kglm import EDGES, batch_of, larger, make, make_graph

DOCUMENTS = ([3, 4, 2], [300, 301, 302], [4, 3, 4])
TEMPERATURES = [0.5, 1.0, 3.0]


def enumerated(model, document):
    """Return all latents of a document and log p of each with it."""
    codes = torch.tensor(reference.enumerate_codes(model, len(document)))
    owner = torch.zeros(len(codes), dtype=torch.int64)
    return codes, model.log_joint(batch_of(document), owner, codes)


@pytest.mark.parametrize("edges", [EDGES, []])
@pytest.mark.parametrize("candidates", [64, 1])
def test_it_sums_to_one_and_misses_no_latent(edges, candidates, monkeypatch):
    monkeypatch.setattr(lookahead, "CANDIDATES", candidates)
    model = make(graph=make_graph(edges)).double()
    proposal = OptimalLinks(model)
    every = torch.tensor(list(itertools.product(range(10), repeat=3)))
    batch, owner = batch_of(*DOCUMENTS), torch.zeros(len(every), dtype=torch.int64)
    for number in range(3):
        log_q = proposal.log_prob(batch, owner + number, every, TEMPERATURES)
        torch.testing.assert_close(log_q.exp().sum(0), torch.ones(3, dtype=torch.float64))
        log_p = model.log_joint(batch, owner + number, every)
        assert torch.equal(log_q > -math.inf, (log_p > -math.inf)[:, None].expand(-1, 3))


def test_without_related_entities_the_look_ahead_is_the_probability_of_the_rest_of_the_text():
    # No edges, every entity has every word: the messages leave nothing out, and so the proposal is
    # the posterior of the whole text.
    aliases = {entity: [[3, 4, 300]] for entity in range(4)}
    model = make(graph=make_graph([]), held_aliases=aliases).double()
    proposal = OptimalLinks(model)
    document = [3, 300, 4]
    codes, log_p = enumerated(model, document)
    owner = torch.zeros(len(codes), dtype=torch.int64)
    log_q = proposal.log_prob(batch_of(document), owner, codes, [1.0])[:, 0]
    torch.testing.assert_close(log_p - log_q, log_p.logsumexp(0).expand(len(codes)))


def test_without_any_alias_every_latent_is_estimated():
    graph = make_graph()
    bare = KnowledgeGraph.of(dict(graph.named_buffers()), graph.cutoff)
    torch.manual_seed(0)
    model = KGLM(5, {"embedding_size": 6, "hidden_size": 7}, bare.sizes).eval().double()
    model.graph.load_state_dict(bare.state_dict())
    proposal, document = OptimalLinks(model), [302, 2]
    listed = torch.tensor(reference.enumerate_codes(model, 2))
    owner = torch.zeros(len(listed), dtype=torch.int64)
    log_q = proposal.log_prob(batch_of(document), owner, listed, TEMPERATURES)
    torch.testing.assert_close(log_q.exp().sum(0), torch.ones(3, dtype=torch.float64))
    uniforms = torch.rand(64, 4, dtype=torch.float64)
    drawn = proposal.sample(batch_of(document), torch.zeros(64, dtype=torch.int64), uniforms, 1.0)
    assert torch.isfinite(model.log_joint(batch_of(document), owner[:1].expand(64), drawn)).all()


def test_a_mention_that_an_alias_goes_on_with_is_expected():
    # The same first word; with the look-ahead it is taken for a mention more often where the second
    # word of the alias follows. Without aliases both texts are alike: 300 and 302 are unknown.
    shares = {}
    for aliases in ({0: [[3, 300]]}, {}):
        model = make(held_aliases=aliases, graph=make_graph([])).double()
        proposal = OptimalLinks(model)
        for word in (300, 302):
            batch, first = batch_of([3, word]), torch.zeros(1, dtype=torch.int64)
            state = proposal.start(batch, first)
            shares[bool(aliases), word] = proposal.advance(state, 0, first + NEW, 1.0)[0].item()
    assert shares[True, 300] > shares[True, 302] + 0.01
    assert shares[False, 300] == shares[False, 302]


def test_a_mention_that_begins_with_a_common_word_is_looked_at(monkeypatch):
    """Oracle: the aliases; of the two that have the first word, one goes on with the second."""
    monkeypatch.setattr(lookahead, "CANDIDATES", 1)
    for second in (0, 1):
        model = make(held_aliases={1 - second: [[3]], second: [[3, 4, 300]]}).double()
        proposal, batch = OptimalLinks(model), batch_of([3, 4, 300], [3])
        ahead = proposal.start(batch, torch.zeros(1, dtype=torch.int64)).ahead
        flat = batch.cache[model.embedding].streams.positions
        places, entities = ahead.keys // 4, ahead.keys % 4
        found = set(zip(places.tolist(), entities.tolist(), strict=True))
        assert {(0, second), (1, second), (2, second)} <= found
        assert len({(place, entity) for place, entity in found if place == flat}) == 1


LOOPS = [(entity, 2, entity) for entity in range(4)]


def foreseen(document, cutoff=2):
    """Give a model whose entities are all related to themselves, and particles after a mention."""
    aliases = {entity: [[300 + entity]] for entity in range(2)}
    model = make(graph=make_graph(LOOPS, cutoff=cutoff), held_aliases=aliases).double()
    proposal, batch = OptimalLinks(model), batch_of(document)
    state = proposal.start(batch, torch.zeros(2, dtype=torch.int64))
    codes = torch.tensor(
        [NEW, NEW + 2]
    )  # entity 0, which has the word 300; entity 1, which has not
    return proposal, proposal.advance(state, 0, codes, 1.0)[1]


def test_a_recent_entity_promises_that_it_is_mentioned_again():
    """Oracle: which words its alias has, and for how many words it is recent."""
    promises = {}
    for words in ([3, 4, 300], [3, 4, 4], [3, 4, 4, 300]):
        proposal, state = foreseen(words)
        _, state = proposal.advance(state, 1, torch.zeros(2, dtype=torch.int64), 1.0)
        promises[tuple(words)] = proposal._list(state, 2, 1.0).promise.tolist()
        state = foreseen(words)[1]
        promises[(*words, "before")] = proposal._list(state, 1, 1.0).promise.tolist()
    assert all(first == 0 for found in promises.values() for first in found[1:])
    assert promises[3, 4, 300, "before"][0] > 0.01  # 300 is 2 words after the mention
    assert promises[3, 4, 300][0] == 0  # and now chosen, so that nothing is left
    for missing in ((3, 4, 4), (3, 4, 4, 300)):  # never said, and 3 words after the mention
        assert promises[missing][0] == promises[(*missing, "before")][0] == 0


@pytest.mark.parametrize("seed", [0, 2, 6])
def test_an_entity_that_is_mentioned_again_is_expected_from_its_first_mention(seed, monkeypatch):
    """Oracle: the posterior, by enumeration.

    All but one of the entities can say the first word, one of them the last one too; new ones are
    improbable, as where there are many. A word that the vocabulary lacks is hardly generated.
    """
    aliases = {entity: [[300], [301]][: 1 + (entity == 0)] for entity in range(4)}
    loops = [(entity, 2, entity) for entity in range(5)]
    model = make(graph=make_graph(loops, 5), held_aliases=aliases, seed=seed).double()
    with torch.no_grad():
        model.graph.entities.mul_(0.1)
        model.heads.entity_bias[4] += 8
        model.bias[UNK] -= 8
    document, found = [300, 4, 301], {}
    codes, log_p = enumerated(model, document)
    posterior = log_p.softmax(0)
    truth = float(posterior[codes[:, 0] == NEW].sum().log())
    for parents in (lookahead.RECENT_PARENTS, 1e12):
        monkeypatch.setattr(lookahead, "RECENT_PARENTS", parents)
        proposal, batch = OptimalLinks(model), batch_of(document)
        owner = torch.zeros(len(codes), dtype=torch.int64)
        log_q = proposal.log_prob(batch, owner, codes, [1.0])[:, 0]
        share = log_q.exp()[codes[:, 0] == NEW].sum().log()
        effective = 1 / float((posterior * (posterior.log() - log_q).exp()).sum())
        found[parents] = abs(float(share) - truth), effective
    (error, effective), (plain_error, plain_effective) = found.values()
    assert error < 0.2
    assert plain_error > 1
    assert effective > 0.75 > 3 * plain_effective / 2


@pytest.mark.parametrize("temperature", TEMPERATURES)
def test_samples_have_the_frequencies_of_its_probabilities(temperature, monkeypatch):
    monkeypatch.setattr(lookahead, "CANDIDATES", 1)
    proposal, count = OptimalLinks(make(seed=4).double()), 20_000
    batch, owner = batch_of([4, 300, 3], [3, 4]), torch.arange(2).repeat_interleave(count)
    uniforms = torch.from_numpy(np.random.default_rng(5).random((2 * count, proposal.draws(batch))))
    codes = proposal.sample(batch, owner, uniforms, temperature)
    assert (codes[count:, 2] == -1).all()
    for number, length in ((0, 3), (1, 2)):
        listed = torch.tensor(reference.enumerate_codes(proposal._model, length))
        own = torch.full((len(listed),), number)
        log_q = proposal.log_prob(batch, own, listed, [temperature])[:, 0]
        expected = (count * log_q.exp()).numpy()
        place = {tuple(z): i for i, z in enumerate(listed.tolist())}
        found = np.zeros(len(listed))
        for z in codes[owner == number][:, :length].tolist():
            found[place[tuple(z)]] += 1
        common = expected > 5
        observed = [*found[common], found[~common].sum()]
        wanted = [*expected[common], expected[~common].sum()]
        kept = len(wanted) - (wanted[-1] < 1e-9)
        assert stats.chisquare(observed[:kept], wanted[:kept]).pvalue > 0.001


@pytest.mark.parametrize("candidates", [64, 1])
@pytest.mark.parametrize("document", DOCUMENTS)
def test_particle_filters_are_unbiased_with_any_promise(document, candidates, monkeypatch):
    """Oracle: the sum over all latents; 2 particles, resampled at every word, 20,000 filters."""
    monkeypatch.setattr(lookahead, "CANDIDATES", candidates)
    model = make(seed=2).double()
    proposal = OptimalLinks(model)
    truth = float(enumerated(model, document)[1].logsumexp(0))
    batch, filters = batch_of(document), 20_000
    numbers = np.random.default_rng(7).random((filters, 3, proposal.draws(batch)))
    found = smc_log_prob(
        FilterSetting(model, proposal, batch, 2, threshold=1.1),
        torch.from_numpy(numbers),
        torch.zeros(filters, dtype=torch.int64),
    )
    ratios = (found.log_prob - truth).exp().numpy()
    assert abs(ratios.mean() - 1) < 4 * ratios.std() / filters**0.5
    assert ratios.std() < 3


def test_beams_are_distinct_sorted_and_in_the_end_complete():
    model = make().double()
    proposal, batch = OptimalLinks(model), batch_of([3, 300, 2], [4])
    listed, log_p = enumerated(model, [3, 300, 2])
    owner = torch.zeros(len(listed), dtype=torch.int64)
    log_q = proposal.log_prob(batch, owner, listed, [1.0])[:, 0]
    for size in (1, 5, len(listed) + 3):
        found = proposal.beam(batch, size)
        rows = found[0][found[0, :, 0] >= 0]
        assert len(rows.unique(dim=0)) == len(rows) == min(size, len(listed))
        scores = proposal.log_prob(batch, owner[: len(rows)], rows, [1.0])[:, 0]
        torch.testing.assert_close(scores, scores.sort(descending=True).values)
    torch.testing.assert_close(scores, log_q.sort(descending=True).values)
    mass = model.log_joint(batch, owner[: len(rows)], rows).logsumexp(0)
    assert float(mass) == pytest.approx(float(log_p.logsumexp(0)))


def test_rows_do_not_depend_on_their_neighbours():
    model, _, documents = larger()
    proposal = OptimalLinks(model)
    batch, owner = batch_of(*documents), torch.arange(3).repeat(32)
    uniforms = torch.from_numpy(np.random.default_rng(1).random((96, proposal.draws(batch))))
    codes = proposal.sample(batch, owner, uniforms, 1.1)
    log_q = proposal.log_prob(batch, owner, codes, [1.0, 2.0])
    assert torch.isfinite(log_q).all()
    for number, document in enumerate(documents):
        alone, mine = batch_of(document), owner == number
        zeros, length = torch.zeros(32, dtype=torch.int64), len(document)
        again = proposal.sample(alone, zeros, uniforms[mine][:, : 2 * length], 1.1)
        assert torch.equal(again, codes[mine][:, :length])
        other = proposal.log_prob(alone, zeros, again, [1.0, 2.0])
        torch.testing.assert_close(other, log_q[mine], atol=1e-11, rtol=0)

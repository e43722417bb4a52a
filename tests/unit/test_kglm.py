"""KGLM and its proposals: probabilities, samples, beams, training.

Oracles: enumeration of all latents of short documents over a graph with a parallel edge, a
self-loop and an entity without edges; an unbatched implementation (`kglm_reference`) with the same
weights; the laws of probability; frequencies of samples.
"""

from __future__ import annotations

import collections
import itertools
import math

import numpy as np
import pytest
import torch
from scipy import stats

from beyond_perplexity.corpus.latent_instances import (
    LATENTS,
    TOKENS,
    Instance,
    InstanceBatch,
    InstanceStore,
    WholeInstances,
)
from beyond_perplexity.models import registry
from beyond_perplexity.models.latents import kglm_steps as simulation
from beyond_perplexity.models.latents.kglm import KGLM
from beyond_perplexity.models.latents.kglm_instances import (
    NEW,
    RELATED,
    SPELLINGS,
    KnowledgeGraph,
    Spellings,
    encode_latents,
    pack_strings,
)
from beyond_perplexity.models.latents.kglm_steps import advance_links
from beyond_perplexity.models.latents.kglm_tagger import KGLMTagger
from beyond_perplexity.models.latents.kglm_words import UNCOPIED
from beyond_perplexity.models.recurrent_layers import AWDLSTM, AWDOptions
from beyond_perplexity.training.loop import repeatable_sums, train
from beyond_perplexity.training.options import TrainingOptions
from beyond_perplexity.vocabulary import EOS, UNK, ClosedVocabulary
from tests.unit import kglm_reference as reference
from tests.unit.threads import set_threads

TEMPERATURES = [0.5, 0.9, 1.0, 1.1, 2.0, 5.0]
CONTEXTS = ["causal", "peeking", "bidirectional"]
# A =r0=> B, A =r1=> B (parallel), B =r0=> C, C =r2=> C (self-loop); D has no edge.
EDGES = [(0, 0, 1), (0, 1, 1), (1, 0, 2), (2, 2, 2)]
# A word is written as its id. To no vocabulary are known: 300 and 301, which aliases have, 302,
# which none has, and 2, a literal <unk>.
KNOWN, ALIAS_WORDS = 300, 302
ALIASES = {0: [[3], [3, 4]], 1: [[4, 3, 4]], 2: [[300], [2, 300, 301]]}


def make_graph(edges=EDGES, entities=4, cutoff=2, width=3, seed=0):
    generator = torch.Generator().manual_seed(seed)
    triples = sorted(edges, key=lambda edge: (edge[0], edge[2], edge[1]))
    subjects = torch.tensor([s for s, _, _ in triples], dtype=torch.int64)
    tensors = {
        "entities": torch.randn(entities, width, generator=generator),
        "relations": torch.randn(3, width, generator=generator),
        "edge_offsets": torch.searchsorted(subjects, torch.arange(entities + 1)),
        "edge_keys": torch.tensor([s * entities + o for s, _, o in triples], dtype=torch.int64),
        "edge_relations": torch.tensor([r for _, r, _ in triples], dtype=torch.int64),
        "names": pack_strings([chr(65 + e) for e in range(entities)]),
        "relation_names": pack_strings(["r0", "r1", "r2"]),
    }
    return KnowledgeGraph.of(tensors, cutoff, [f"w{number}" for number in range(ALIAS_WORDS)])


def make(kind=KGLM, graph=None, size=5, seed=0, held_aliases=ALIASES, **options):
    """Make a model whose distributions are far from uniform."""
    graph = make_graph() if graph is None else graph
    torch.manual_seed(seed)
    module = kind(size, {"embedding_size": 6, "hidden_size": 7, **options}, graph.sizes)
    module.graph.load_state_dict(graph.state_dict())
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.mul_(2.5).add_(torch.randn_like(parameter) * 0.3)
    if kind is KGLM:
        module.word_ids[:KNOWN] = torch.arange(KNOWN)
        for entity, held in held_aliases.items():
            for place, words in enumerate(held[: module.options.aliases]):
                cut = torch.tensor(words[: module.options.alias_words])
                cut[cut == UNK] = UNCOPIED
                module.alias_words[entity, place, : len(cut)] = cut
    return module.eval()


def ids(document):
    """Return the ids of words."""
    return [word if word < KNOWN else UNK for word in document]


def spelled(document):
    """Return the spellings of words."""
    return [word if word < ALIAS_WORDS and word != UNK else -1 for word in document]


def instance_of(number, document, codes=None):
    codes = np.zeros(len(document), np.int64) if codes is None else codes
    held = {TOKENS: ids(document), SPELLINGS: spelled(document), LATENTS: codes}
    return Instance(number, {name: np.array(row, np.int64) for name, row in held.items()})


def batch_of(*documents):
    return InstanceBatch.of(instance_of(*pair) for pair in enumerate(documents))


def plain_joint(model, document, codes, edges=None, unknown_types=1):
    """Score by the plain implementation."""
    return reference.log_joint(model, ids(document), codes, edges, spelled(document), unknown_types)


def score(model, documents, codes):
    """Score codes of one document each: log p, (R,)."""
    width = max(map(len, codes))
    rows = torch.full((len(codes), width), -1)
    for row, held in zip(rows, codes, strict=True):
        row[: len(held)] = torch.tensor(held)
    return model.log_joint(batch_of(*documents), torch.arange(len(documents)), rows)


@pytest.mark.parametrize("edges", [EDGES, []])
def test_support_is_what_the_definition_lists(edges):
    # T = 1: none or one of 4 new ones. T = 2: 5 after none; after a mention ongoing, and what its
    # edges lead to (B, C, C or nothing), besides.
    graph = make_graph(edges)
    model, proposal = make(graph=graph).double(), make(KGLMTagger, graph=graph).double()
    for length, number in ((1, 5), (2, 5 + 4 * 6 + 3 * bool(edges)), (3, None)):
        document = [3, 4, 3][:length]
        listed = reference.enumerate_codes(model, length)
        if number is not None:
            assert len(listed) == number
        every = [list(z) for z in itertools.product(range(10), repeat=length)]
        batch, owner = batch_of(document), torch.zeros(len(every), dtype=torch.int64)
        rows = torch.tensor(every)
        log_p = model.log_joint(batch, owner, rows)
        log_q = proposal.log_prob(batch, owner, rows, [1.0])[:, 0]
        assert not torch.isnan(log_p).any()
        possible = [z for z, value in zip(every, log_p.tolist(), strict=True) if value > -math.inf]
        assert possible == sorted(listed)
        assert torch.equal(log_q > -torch.inf, log_p > -torch.inf)


@pytest.mark.parametrize("options", [{}, {"layers": 2, "aliases": 2, "alias_words": 3}])
def test_joint_equals_the_plain_implementation(options):
    model = make(**options).double()
    for document in ([3, 4, 2], [2, 2, 4], [300, 301, 302], [4, 300, 300]):
        codes = reference.enumerate_codes(model, 3)[::7]
        found = score(model, [document] * len(codes), codes)
        edges = reference.graph_of(model)
        expected = [plain_joint(model, document, z, edges) for z in codes]
        assert found.tolist() == pytest.approx(expected, abs=1e-9)
        rows, owner = torch.tensor(codes), torch.zeros(len(codes), dtype=torch.int64)
        costs = model.unknown_penalty(batch_of(document), owner, rows, 50)
        expected = [plain_joint(model, document, z, edges, 50) for z in codes]
        assert (found - costs).tolist() == pytest.approx(expected, abs=1e-9)
        charged = score(model.penalized(50), [document] * len(codes), codes)
        assert charged.tolist() == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("context", CONTEXTS)
def test_proposal_equals_the_plain_implementation_and_sums_to_one(context):
    proposal = make(KGLMTagger, context=context, layers=2).double()
    document = [3, 4, 2]
    codes = reference.enumerate_codes(proposal, 3)
    owner = torch.zeros(len(codes), dtype=torch.int64)
    found = proposal.log_prob(batch_of(document), owner, torch.tensor(codes), TEMPERATURES)
    torch.testing.assert_close(found.exp().sum(0), torch.ones(6, dtype=torch.float64))
    edges = reference.graph_of(proposal)
    for place in range(0, len(codes), 11):
        z, pair = codes[place], found[place, [0, 4]].tolist()
        expected = [reference.log_prob(proposal, document, z, t, edges) for t in (0.5, 2.0)]
        assert pair == pytest.approx(expected, abs=1e-9)


def test_context_is_what_its_name_says():
    documents = [3, 4, 2], [3, 2, 2], [3, 4, 4]
    begin = torch.zeros(1, dtype=torch.int64)
    for context, sees_own, sees_next in zip(CONTEXTS, (0, 1, 1), (0, 0, 1), strict=True):
        proposal = make(KGLMTagger, context=context).double()
        kinds = [
            proposal.heads.kind_log_probs(proposal._prepared(batch_of(d)), 1.0)[begin, :2]
            for d in documents
        ]
        first, other, later = kinds
        assert torch.equal(first[:, 1], other[:, 1]) != bool(sees_own)
        assert torch.equal(first, later) != bool(sees_next)


def masses(model, words, longest, unknown_types):
    """Sum p over all texts of some words, unknown words penalized, and what goes on after them."""
    for length in range(longest + 1):
        documents = [list(x) for x in itertools.product(words, repeat=length)]
        codes = reference.enumerate_codes(model, length)
        pairs = list(itertools.product(documents, codes))
        log_p = score(model, [x for x, _ in pairs], [z for _, z in pairs])
        rows = torch.tensor([z for _, z in pairs], dtype=torch.int64).view(len(pairs), length)
        batch = batch_of(*(x for x, _ in pairs))
        costs = model.unknown_penalty(batch, torch.arange(len(pairs)), rows, unknown_types)
        goes_on = 0.0
        for (document, held), value in zip(pairs, (log_p - costs).tolist(), strict=True):
            end = end_log_prob(model, ids(document), held)
            goes_on += math.exp(value - end) * (1 - math.exp(end))
        yield float((log_p - costs).exp().sum()), goes_on


def test_probabilities_of_all_documents_sum_to_one():
    # Σ over documents of at most L words, and the mass of what goes on after L, is 1. The unknown
    # words are 300 and 301, which can be copied, and 302: the three types that share p(<unk>).
    model, total = make().double(), 0.0
    for mass, goes_on in masses(model, (3, 4, 300, 301, 302), 2, 3):
        before, total = total, total + mass
        assert before < total < 1
        assert total + goes_on == pytest.approx(1, abs=1e-9)


def test_without_a_penalty_texts_that_differ_in_ids_sum_to_no_more_than_one():
    # Of texts that are one with unknown words merged one counts: what copies of the others have is
    # missing, so that a text is not more probable than its ids are. Where no alias has an unknown
    # word, nothing is missing.
    for held, missing in ((ALIASES, True), ({0: [[3, 4]], 1: [[4]], 2: []}, False)):
        model, total, goes_on = make(held_aliases=held).double(), 0.0, 0.0
        for mass, rest in masses(model, (3, 4, 300), 2, 1):
            total, goes_on = total + mass, rest
        assert (total + goes_on < 1 - 1e-6) == missing
        assert total + goes_on < 1 + 1e-9


def test_an_unknown_word_is_copied_where_an_alias_has_it_and_only_there():
    # Of C, whose aliases are 300 and <unk> 300 301; the model cannot tell its unknown words apart.
    model, mention = make().double(), torch.tensor([[NEW + 2 * 2]])
    found = {word: score(model, [[word]], mention.tolist()).item() for word in (300, 301, 302, 2)}
    assert found[300] > found[301] > found[302] == found[2]
    costs = [
        model.unknown_penalty(batch_of([word]), torch.zeros(1, dtype=torch.int64), mention, 50)
        for word in (300, 302, 3)
    ]
    assert 0 < costs[0].item() < costs[1].item() == pytest.approx(math.log(50))
    assert costs[2].item() == 0


@torch.no_grad()
def end_log_prob(model, document, codes):
    vectors = reference.hidden_vectors(model, document)
    edges = reference.graph_of(model)
    history = reference.latent_log_prob(model, vectors, codes, 1.0, edges)[1]
    parents = reference.recent(history, model.graph.cutoff, edges)
    kinds = reference.kind_log_probs(model.heads, vectors[-1], history, parents, 1.0)
    return kinds[0] + reference.word_log_prob(model, vectors[-1][0], None, 1)


def test_weights_average_to_the_probability_of_the_words():
    model, proposal = make().double(), make(KGLMTagger, seed=3).double()
    document = [4, 3, 2]
    codes = torch.tensor(reference.enumerate_codes(model, 3))
    batch, owner = batch_of(document), torch.zeros(len(codes), dtype=torch.int64)
    log_p = model.log_joint(batch, owner, codes)
    log_q = proposal.log_prob(batch, owner, codes, TEMPERATURES)
    means = (log_q + (log_p[:, None] - log_q)).logsumexp(0)
    torch.testing.assert_close(means, log_p.logsumexp(0).expand(6))


@pytest.mark.parametrize(("context", "temperature"), [("peeking", 0.5), ("bidirectional", 2.0)])
def test_samples_have_the_frequencies_of_the_proposal(context, temperature):
    proposal = make(KGLMTagger, context=context, seed=4).double()
    count = 20_000
    batch, owner = batch_of([4, 2, 3], [3, 4]), torch.arange(2).repeat_interleave(count)
    uniforms = torch.from_numpy(np.random.default_rng(5).random((2 * count, proposal.draws(batch))))
    codes = proposal.sample(batch, owner, uniforms, temperature)
    assert (codes[count:, 2] == -1).all()
    assert torch.equal(codes, proposal.sample(batch, owner, uniforms, temperature))
    for number, length in ((0, 3), (1, 2)):
        listed = torch.tensor(reference.enumerate_codes(proposal, length))
        own = torch.full((len(listed),), number)
        expected = count * proposal.log_prob(batch, own, listed, [temperature])[:, 0].exp()
        place = {tuple(z): i for i, z in enumerate(listed.tolist())}
        found = np.zeros(len(listed))
        for z in codes[owner == number][:, :length].tolist():
            found[place[tuple(z)]] += 1
        common = (expected > 5).numpy()
        observed = [*found[common], found[~common].sum()]
        wanted = [*expected.numpy()[common], expected.numpy()[~common].sum()]
        kept = len(wanted) - (wanted[-1] == 0)
        assert stats.chisquare(observed[:kept], wanted[:kept]).pvalue > 0.001


def larger(seed=0, count=40, length=60):
    """Make modules of realistic shapes and documents over them."""
    draw = np.random.default_rng(seed)
    edges = {(int(s), int(r), int(o)) for s, r, o in draw.integers(0, [count, 3, count], (90, 3))}
    graph = make_graph(sorted(edges), count, cutoff=10, width=8, seed=seed)
    aliases = {e: [draw.integers(2, 300, 1 + e % 9).tolist()[:8]] for e in range(1, count)}
    model = make(KGLM, graph, 300, seed, aliases, embedding_size=16)
    proposal = make(KGLMTagger, graph, 300, seed + 1, embedding_size=16)
    documents = [draw.integers(2, 300, n).tolist() for n in (length, 35, 1)]
    return model, proposal, documents


def test_rows_do_not_depend_on_their_neighbours():
    model, proposal, documents = larger()
    batch, owner = batch_of(*documents), torch.arange(3).repeat(64)
    uniforms = torch.from_numpy(np.random.default_rng(1).random((192, proposal.draws(batch))))
    whole = {}
    for cut in (192, 64, 16):
        fresh = batch_of(*documents)
        parts = []
        for start in range(0, 192, cut):
            rows = slice(start, start + cut)
            codes = proposal.sample(fresh, owner[rows], uniforms[rows], 1.1)
            log_p = model.log_joint(fresh, owner[rows], codes)
            log_q = proposal.log_prob(fresh, owner[rows], codes, TEMPERATURES)
            parts.append((codes, log_p, log_q))
        whole[cut] = [torch.cat(column) for column in zip(*parts, strict=True)]
        for first, second in zip(whole[192], whole[cut], strict=True):
            assert torch.equal(first, second)
    codes, log_p, log_q = whole[192]
    assert log_p.dtype == log_q.dtype == torch.float64
    assert torch.isfinite(log_p).all()
    assert torch.isfinite(log_q).all()
    assert {0, 1} < set(codes.unique().tolist())
    # Alone, without the filling that the longer documents of a batch bring.
    for number, document in enumerate(documents):
        alone, mine = batch_of(document), owner == number
        zeros, length = torch.zeros(64, dtype=torch.int64), len(document)
        again = proposal.sample(alone, zeros, uniforms[mine][:, : 3 * length], 1.1)
        assert torch.equal(again, codes[mine][:, :length])
        # The terms are the same; sums over longer rows of float64 round otherwise.
        other = model.log_joint(alone, zeros, again)
        torch.testing.assert_close(other, log_p[mine], atol=1e-11, rtol=0)
        other = proposal.log_prob(alone, zeros, again, TEMPERATURES)
        torch.testing.assert_close(other, log_q[mine], atol=1e-11, rtol=0)


@torch.no_grad()
def by_steps(model, proposal, batch, owner, codes, temperature):
    """Score codes of documents of full length token by token: log p and log q, (R,)."""
    state, followed = model.start(batch, owner), proposal.start(batch, owner)
    log_p, log_q = torch.zeros(2, len(codes), dtype=torch.float64)
    for time in range(codes.shape[1]):
        term_p, state = model.extend(state, time, codes[:, time])
        code = codes[:, time]
        term_q, followed = advance_links(proposal.heads, followed, time, code, temperature)
        log_p, log_q = log_p + term_p, log_q + term_q
    return log_p + model.finish(state, codes.shape[1]), log_q


@pytest.mark.parametrize("edges", [EDGES, []])
def test_steps_score_every_row_possible_or_not_as_a_whole(edges):
    graph = make_graph(edges)
    model, proposal = make(graph=graph), make(KGLMTagger, graph=graph, seed=3)
    every = torch.tensor(list(itertools.product(range(10), repeat=3)))
    batch, owner = batch_of([3, 4, 2]), torch.zeros(len(every), dtype=torch.int64)
    log_p, log_q = by_steps(model, proposal, batch, owner, every, 0.5)
    whole = model.log_joint(batch, owner, every)
    assert whole.isinf().any()
    torch.testing.assert_close(log_p, whole, rtol=0, atol=1e-11)
    whole = proposal.log_prob(batch, owner, every, [0.5])[:, 0]
    torch.testing.assert_close(log_q, whole, rtol=0, atol=1e-11)


def test_steps_of_long_samples_score_as_a_whole():
    """The terms are the same, of float32 too; they are added up in another order."""
    model, proposal, documents = larger(length=60)
    batch, owner = batch_of(documents[0], documents[0][::-1]), torch.arange(2).repeat(64)
    uniforms = torch.from_numpy(np.random.default_rng(1).random((128, proposal.draws(batch))))
    codes = proposal.sample(batch, owner, uniforms, 2.0)
    assert (codes.ge(NEW) & (codes % 2 == RELATED % 2)).any(), "some are related"
    log_p, log_q = by_steps(model, proposal, batch, owner, codes, 2.0)
    torch.testing.assert_close(log_p, model.log_joint(batch, owner, codes), rtol=0, atol=1e-10)
    whole = proposal.log_prob(batch, owner, codes, [2.0])[:, 0]
    torch.testing.assert_close(log_q, whole, rtol=0, atol=1e-10)


def test_long_samples_score_as_in_the_plain_implementation():
    model, proposal, documents = larger(seed=2, length=30)
    model, proposal = model.double(), proposal.double()
    document = documents[0]
    uniforms = np.random.default_rng(3).random((6, 90))
    drawn = [reference.sample(proposal, document, row, 2.0) for row in uniforms]
    assert any(code % 2 and code > 2 for code in itertools.chain(*drawn)), "some are related"
    rows, owner = torch.tensor(drawn), torch.zeros(6, dtype=torch.int64)
    batch = batch_of(document)
    log_p = model.log_joint(batch, owner, rows)
    log_q = proposal.log_prob(batch, owner, rows, [0.5, 2.0])
    for z, p, q in zip(drawn, log_p.tolist(), log_q.tolist(), strict=True):
        assert p == pytest.approx(plain_joint(model, document, z), abs=1e-8)
        expected = [reference.log_prob(proposal, document, z, t) for t in (0.5, 2.0)]
        assert q == pytest.approx(expected, abs=1e-8)


def test_beam_is_distinct_and_in_the_end_complete():
    model, proposal = make().double(), make(KGLMTagger, context="bidirectional").double()
    batch = batch_of([3, 4, 2], [4])
    listed = torch.tensor(reference.enumerate_codes(proposal, 3))
    owner = torch.zeros(len(listed), dtype=torch.int64)
    log_q = proposal.log_prob(batch, owner, listed, [1.0])[:, 0]
    mass = []
    for size in (1, 2, 5, 20, len(listed) + 3):
        found = proposal.beam(batch, size)
        assert found.shape == (2, size, 3)
        rows = found[0][found[0, :, 0] >= 0]
        assert len(rows.unique(dim=0)) == len(rows) == min(size, len(listed))
        scores = proposal.log_prob(batch, owner[: len(rows)], rows, [1.0])[:, 0]
        assert torch.equal(scores, scores.sort(descending=True).values)
        mass.append(float(model.log_joint(batch, owner[: len(rows)], rows).logsumexp(0)))
    assert mass == sorted(mass)
    assert mass[-1] == pytest.approx(float(model.log_joint(batch, owner, listed).logsumexp(0)))
    torch.testing.assert_close(scores, log_q.sort(descending=True).values)
    assert (found[1, 5:] == -1).all()
    assert (found[1, :5, 1:] == -1).all()
    heated = proposal.beam(batch, 7, temperature=5.0)[0]
    assert proposal.log_prob(batch, owner[:7], heated, [5.0]).isfinite().all()


def annotated_batch(model, seed=6):
    """Make documents in which mentions of entities read as their aliases."""
    draw = np.random.default_rng(seed)
    edges = model.graph.edge_keys.numpy()
    instances = []
    for number in range(60):
        tokens, spans = [], []
        for _ in range(4):
            tokens += draw.integers(200, 300, draw.integers(1, 4)).tolist()
            entity = int(draw.integers(1, 6))
            words = [w for w in model.alias_words[entity, 0].tolist() if w >= 0]
            spans.append((len(tokens), len(tokens) + len(words), entity))
            tokens += words
        codes = encode_latents(spans, len(tokens), edges, model.graph)
        instances.append(instance_of(number, tokens, codes))
    return instances


@pytest.mark.parametrize("kind", [KGLM, KGLMTagger])
def test_loss_is_that_of_the_annotated_latents(kind):
    model, proposal, _ = larger()
    module = model if kind is KGLM else proposal
    batch = InstanceBatch.of(annotated_batch(model)[:7])
    owner = torch.arange(7)
    codes = model.annotated(batch)
    if kind is KGLM:
        expected = -model.log_joint(batch, owner, codes).sum()
    else:
        expected = -proposal.log_prob(batch, owner, codes, [1.0]).sum()
    assert module.loss(batch).item() == pytest.approx(float(expected), rel=1e-5)


def fit(module, instances, folder, **options):
    """Train a module on instances, which are its validation split too."""
    store = InstanceStore.write(folder / "store", "all", instances)
    sources = (WholeInstances(store, 400), WholeInstances(store, 400))
    chosen = TrainingOptions(batch_tokens=400, **options)
    return train(module.train(), sources, chosen, 1, folder, torch.device("cpu"))


@pytest.mark.parametrize("kind", [KGLM, KGLMTagger])
def test_training_improves_and_is_driven_by_torchs_generator(kind, tmp_path):
    model = larger()[0]
    instances = annotated_batch(model)
    architecture = {
        "layers": 2,
        "dropout": 0.1,
        "embedding_dropout": 0.05,
        "weight_dropout": 0.2,
        "activation_penalty": 0.1,
        "temporal_penalty": 0.1,
        "embedding_size": 16,
    }
    if kind is KGLMTagger:
        architecture["context"] = "bidirectional"
    torch.manual_seed(0)
    module = kind(300, architecture, model.graph.sizes)
    module.graph.load_state_dict(model.graph.state_dict())
    if kind is KGLM:
        module.alias_words.copy_(model.alias_words)
        module.word_ids.copy_(model.word_ids)
    batch = InstanceBatch.of(instances)
    gradients = []
    for _ in range(2):
        torch.manual_seed(1)
        module.zero_grad()
        with repeatable_sums(torch.device("cpu")):
            module.loss(batch, 0.0).backward()
        gradients.append([p.grad.clone() for p in module.parameters()])
    for first, second in zip(*gradients, strict=True):
        assert torch.equal(first, second)
        assert torch.isfinite(first).all()
    untrained = module.eval().loss(batch).item() / batch.predictions
    assert module.eval().loss(batch).item() / batch.predictions == untrained
    result = fit(module, instances, tmp_path, maximum_epochs=8, warmup_steps=5, precision="32")
    assert result.valid_loss < 0.8 * untrained


@pytest.mark.parametrize(
    ("precision", "products"), [("32", torch.float32), ("auto", torch.bfloat16)]
)
def test_products_are_those_of_the_trainings_precision(tmp_path, monkeypatch, precision, products):
    monkeypatch.setattr("beyond_perplexity.training.loop.fastest_products", lambda: torch.bfloat16)
    module = larger()[0]
    instances = annotated_batch(module)
    fit(module, instances, tmp_path, maximum_steps=1, precision=precision)
    assert module.training_products == products
    losses = []
    for kind in (torch.float32, torch.bfloat16):
        module.training_products = kind
        torch.manual_seed(1)
        losses.append(module.train().loss(InstanceBatch.of(instances)).item())
    assert losses[0] != losses[1]
    assert losses[0] == pytest.approx(losses[1], rel=0.01)


def test_training_on_two_threads_repeats_itself(tmp_path):
    trained = []
    for name in ("first", "second"):
        module = larger()[0]
        with set_threads(2):
            fit(module, annotated_batch(module), tmp_path / name, maximum_epochs=2)
        trained.append(module.state_dict())
    for key, values in trained[0].items():
        assert torch.equal(values, trained[1][key]), key


def test_encoder_drops_recurrent_weights_and_penalizes_activations():
    torch.manual_seed(0)
    options = AWDOptions(
        layers=1,
        embedding_size=4,
        dropout=0.0,
        weight_dropout=0.5,
        activation_penalty=2.0,
        temporal_penalty=3.0,
    )
    encoder, inputs = AWDLSTM(options, 5), torch.randn(2, 6, 4)
    torch.manual_seed(1)
    output, penalty = encoder(inputs)
    plain = torch.nn.LSTM(4, 5, batch_first=True)
    plain.load_state_dict(encoder.layers[0].state_dict())
    torch.manual_seed(1)
    with torch.no_grad():
        plain.weight_hh_l0.copy_(torch.nn.functional.dropout(plain.weight_hh_l0, 0.5))
    expected = plain(inputs)[0]
    torch.testing.assert_close(output, expected)
    changes = expected[:, 1:] - expected[:, :-1]
    torch.testing.assert_close(penalty, 2 * (expected**2).mean() + 3 * (changes**2).mean())
    output, penalty = encoder.eval()(inputs)
    assert penalty == 0
    plain.load_state_dict(encoder.layers[0].state_dict())
    torch.testing.assert_close(output, plain(inputs)[0])
    with pytest.raises(ValueError, match="weight_dropout"):
        AWDOptions(weight_dropout=1.0)


def test_modules_are_rebuilt_from_their_tensors():
    model, proposal, documents = larger()
    batch, owner = batch_of(*documents), torch.arange(3)
    rows = torch.zeros(3, 60, dtype=torch.int64)
    for module in (model, proposal):
        family = registry.find(module.config["family"])
        again = family.from_tensors(module.config, module.state_dict()).eval()
        fresh = batch_of(*documents)
        if module is model:
            assert torch.equal(
                again.log_joint(fresh, owner, rows), model.log_joint(batch, owner, rows)
            )
        else:
            found = again.log_prob(fresh, owner, rows, [2.0])
            assert torch.equal(found, proposal.log_prob(batch, owner, rows, [2.0]))
    assert model.n_tokens(batch).tolist() == [61, 36, 2]


def test_latents_are_described():
    model = make().double()
    instance = instance_of(3, [3, 4, 2, 3])
    described = model.readable(instance, torch.tensor([2, 5, 1, 0, -1]))["mentions"]
    assert described[0] == {
        "start": 0,
        "end": 1,
        "entity": "A",
        "kind": "new",
        "relation": None,
        "parent": None,
    }
    assert {**described[1], "relation": "?"} == {
        "start": 1,
        "end": 3,
        "entity": "B",
        "kind": "related",
        "relation": "?",
        "parent": "A",
    }
    heads, vectors = model.heads, reference.hidden_vectors(model, [3, 4, 2, 3])
    edges = reference.edge_log_probs(heads, vectors[1], [0], reference.graph_of(model), 1.0)
    assert described[1]["relation"] == f"r{max(edges, key=lambda edge: edge[3])[1]}"


@pytest.fixture(scope="module")
def simulated():
    """Draw documents of at most 2 words from a tiny model."""
    model, vocabulary = make(seed=1, size=5).double(), ClosedVocabulary(["w3", "w4"], 3)
    model.word_ids[:] = torch.tensor([i if i < 5 else UNK for i in range(ALIAS_WORDS)])
    with torch.no_grad():
        model.bias[EOS] += 4.0  # so that many texts are short
    return model, vocabulary, model.simulate(3, "test", range(20_000), 2, vocabulary)


def test_simulated_documents_have_their_probabilities(simulated):
    """Oracle: the plain implementation, over all documents of up to 2 words with all latents.

    Of the 3 unknown types aliases have 300 and 301; the third is written ``<unk>``.
    """
    model, _, drawn = simulated
    counts = collections.Counter(
        (tuple(one.words), tuple(one.latents.tolist())) for one in drawn if not one.truncated
    )
    names = {3: "w3", 4: "w4", 2: "<unk>", 300: "w300", 301: "w301"}
    expected, found, rest = [], [], 1.0
    for length in range(3):
        codes = reference.enumerate_codes(model, length)
        for words, z in itertools.product(itertools.product(names, repeat=length), codes):
            probability = math.exp(plain_joint(model, words, z, unknown_types=3))
            if probability * len(drawn) > 5:
                expected.append(probability * len(drawn))
                found.append(counts[tuple(names[w] for w in words), tuple(z)])
                rest -= probability
    expected.append(rest * len(drawn))
    found.append(len(drawn) - sum(found))
    assert any("w300" in key[0] for key in counts)
    assert len(found) > 40
    assert stats.chisquare(found, expected).pvalue > 0.001


def test_simulated_documents_depend_on_their_own_number_and_are_what_instances_give(simulated):
    model, vocabulary, drawn = simulated
    again = model.simulate(3, "test", range(70, 75), 2, vocabulary)
    for one, other in zip(again, drawn[70:75], strict=True):
        assert one.words == other.words
        assert torch.equal(one.latents, other.latents)
    longer = model.simulate(3, "test", range(70, 80), 9, vocabulary)
    for one, other in zip(longer, drawn[70:80], strict=True):
        assert one.words[: len(other.words)] == other.words
        assert one.truncated <= other.truncated
    spellings = Spellings(model.graph)
    for one in drawn[:300]:
        arrays = one.instance.arrays
        assert arrays[TOKENS].tolist() == vocabulary.encode([" ".join(one.words)])[0].tolist()
        assert arrays[SPELLINGS].tolist() == spellings.of(one.words, -1).tolist()
        assert arrays[LATENTS].tolist() == one.latents.tolist()
        assert len(one.words) <= 2
    assert {one.truncated for one in drawn} == {False, True}
    batch = InstanceBatch.of([one.instance for one in drawn[:300] if one.words])
    rows = model.annotated(batch)
    assert torch.isfinite(model.log_joint(batch, torch.arange(len(batch)), rows)).all()


def test_simulating_with_two_layers_goes_on_as_the_encoder_does():
    """Oracle: the encoder over the whole text: what it says of the next word, step by step."""
    model = make(layers=2, seed=2).double()
    reader = simulation._Encoder(model, model.encoder)
    read = torch.tensor([[0, 3, 4, 2], [0, 4, 4, 3]])
    steps = torch.cat([reader.read(column) for column in read.T], 1)
    torch.testing.assert_close(steps, model.encoder(model.embedding(read))[0])

"""KGLM and its proposals: probabilities, samples, training; the optimal one; unknown words.

Oracles: enumeration over a graph with a parallel edge, a self-loop and an entity without edges;
`kglm_reference`; probability's laws; frequencies; the optimal proposal by definition; particle
filters. What families share is in `test_latent_families`.
"""

import argparse
import itertools
import math

import numpy as np
import pytest
import torch

from beyond_perplexity.corpus.latent_instances import (
    LATENTS,
    TOKENS,
    Instance,
    InstanceBatch,
    InstanceStore,
    WholeInstances,
)
from beyond_perplexity.importance.draw_files import WeightLabels
from beyond_perplexity.importance.model_pair import Pair, search, weigh
from beyond_perplexity.importance.particle_runs import FilterSetting, run_smc, smc_log_prob
from beyond_perplexity.importance.reduction import estimates_table, reduce_files
from beyond_perplexity.importance.ways_to_draw import (
    BeamOptions,
    ReductionOptions,
    SMCOptions,
    WeightOptions,
)
from beyond_perplexity.models import recurrent_layers, registry
from beyond_perplexity.models.latents import kglm, kglm_instances, kglm_words
from beyond_perplexity.models.latents import kglm_lookahead as lookahead
from beyond_perplexity.models.latents import kglm_steps as simulation
from beyond_perplexity.models.latents.kglm_instances import NEW, KnowledgeGraph, pack_strings
from beyond_perplexity.models.latents.kglm_optimal import OptimalLinks
from beyond_perplexity.models.latents.kglm_tagger import KGLMTagger
from beyond_perplexity.schemas import with_columns
from beyond_perplexity.schemas.draws import BEAMS, LOG_WEIGHTS, SMC, penalized_columns
from beyond_perplexity.storage.shards import write_shard
from beyond_perplexity.training.loop import repeatable_sums, train
from beyond_perplexity.training.options import TrainingOptions
from beyond_perplexity.vocabulary import UNK
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
DOCUMENTS = ([3, 4, 2], [300, 301, 302], [4, 3, 4])


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


def make(kind=kglm.KGLM, graph=None, size=5, seed=0, held_aliases=ALIASES, **options):
    """Make a model whose distributions are far from uniform."""
    graph = make_graph() if graph is None else graph
    torch.manual_seed(seed)
    module = kind(size, {"embedding_size": 6, "hidden_size": 7, **options}, graph=graph.sizes)
    module.graph.load_state_dict(graph.state_dict())
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.mul_(2.5).add_(torch.randn_like(parameter) * 0.3)
    if kind is kglm.KGLM:
        module.word_ids[:KNOWN] = torch.arange(KNOWN)
        for entity, held in held_aliases.items():
            for place, words in enumerate(held[: module.options.aliases]):
                cut = torch.tensor(words[: module.options.alias_words])
                cut[cut == UNK] = kglm_words.UNCOPIED
                module.alias_words[entity, place, : len(cut)] = cut
    return module.eval()


def ids(document):
    return [word if word < KNOWN else UNK for word in document]


def spelled(document):
    return [word if word < ALIAS_WORDS and word != UNK else -1 for word in document]


def instance_of(number, document, codes=None):
    codes = np.zeros(len(document), np.int64) if codes is None else codes
    held = {TOKENS: ids(document), kglm_instances.SPELLINGS: spelled(document), LATENTS: codes}
    return Instance(number, {name: np.array(row, np.int64) for name, row in held.items()})


def batch_of(*documents):
    return InstanceBatch.of(instance_of(*pair) for pair in enumerate(documents))


def plain_joint(model, document, codes, edges=None, unknown_types=1):
    return reference.log_joint(model, ids(document), codes, edges, spelled(document), unknown_types)


def score(model, documents, codes):
    """Score codes of one document each: log p, (R,)."""
    rows = torch.full((len(codes), max(map(len, codes))), -1)
    for row, held in zip(rows, codes, strict=True):
        row[: len(held)] = torch.tensor(held)
    return model.log_joint(batch_of(*documents), torch.arange(len(documents)), rows)


@pytest.mark.parametrize("edges", [EDGES, []])
@pytest.mark.parametrize("candidates", [0, 64, 1])
def test_support_is_what_the_definition_lists(edges, candidates, monkeypatch):
    """Of the model and of q, the optimal one if it has candidates, which sums to one over it."""
    # T = 1: none or one of 4 new ones. T = 2: 5 after none; after a mention ongoing, and what its
    # edges lead to (B, C, C or nothing), besides.
    monkeypatch.setattr(lookahead, "CANDIDATES", candidates)
    graph = make_graph(edges)
    model = make(graph=graph).double()
    proposal = OptimalLinks(model) if candidates else make(KGLMTagger, graph=graph).double()
    few = ([3], 5), ([3, 4], 5 + 4 * 6 + 3 * bool(edges))
    for document, number in (*few, *((held, None) for held in ([3, 4, 3], *DOCUMENTS))):
        listed = reference.enumerate_codes(model, len(document))
        assert number in (None, len(listed))
        every = [list(z) for z in itertools.product(range(10), repeat=len(document))]
        batch, owner = batch_of(document), torch.zeros(len(every), dtype=torch.int64)
        rows = torch.tensor(every)
        log_p = model.log_joint(batch, owner, rows)
        log_q = proposal.log_prob(batch, owner, rows, TEMPERATURES)
        torch.testing.assert_close(log_q.exp().sum(0), torch.ones(6, dtype=torch.float64))
        assert not torch.isnan(log_p).any()
        possible = [z for z, value in zip(every, log_p.tolist(), strict=True) if value > -math.inf]
        assert possible == sorted(listed)
        assert torch.equal(log_q > -math.inf, (log_p > -math.inf)[:, None].expand(-1, 6))


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


def test_context_is_what_its_name_says_and_unknown_words_are_copied_from_aliases_alone():
    documents = [3, 4, 2], [3, 2, 2], [3, 4, 4]
    begin = torch.zeros(1, dtype=torch.int64)
    for context, sees_own, sees_next in zip(CONTEXTS, (0, 1, 1), (0, 0, 1), strict=True):
        proposal = make(KGLMTagger, context=context).double()
        prepared = [proposal._prepared(batch_of(document)) for document in documents]
        kinds = [proposal.heads.kind_log_probs(held, 1.0)[begin, :2] for held in prepared]
        first, other, later = kinds
        assert torch.equal(first[:, 1], other[:, 1]) != bool(sees_own)
        assert torch.equal(first, later) != bool(sees_next)
    # Of C, whose aliases are 300 and <unk> 300 301; the model cannot tell its unknown words apart.
    model, mention = make().double(), torch.tensor([[NEW + 2 * 2]])
    found = {word: score(model, [[word]], mention.tolist()).item() for word in (300, 301, 302, 2)}
    assert found[300] > found[301] > found[302] == found[2]
    penalty, owner = model.unknown_penalty, torch.zeros(1, dtype=torch.int64)
    costs = [penalty(batch_of([word]), owner, mention, 50) for word in (300, 302, 3)]
    assert 0 < costs[0].item() < costs[1].item() == pytest.approx(math.log(50))
    assert costs[2].item() == 0


def masses(model, words, longest, unknown_types):
    """Sum p over all texts of some words, unknown words penalized, and what goes on after them."""
    for length in range(longest + 1):
        documents = [list(x) for x in itertools.product(words, repeat=length)]
        pairs = list(itertools.product(documents, reference.enumerate_codes(model, length)))
        log_p = score(model, [x for x, _ in pairs], [z for _, z in pairs])
        rows = torch.tensor([z for _, z in pairs], dtype=torch.int64).view(len(pairs), length)
        batch = batch_of(*(x for x, _ in pairs))
        costs = model.unknown_penalty(batch, torch.arange(len(pairs)), rows, unknown_types)
        goes_on = 0.0
        for (document, held), value in zip(pairs, (log_p - costs).tolist(), strict=True):
            end = end_log_prob(model, ids(document), held)
            goes_on += math.exp(value - end) * (1 - math.exp(end))
        yield float((log_p - costs).exp().sum()), goes_on


def test_probabilities_of_all_documents_sum_to_one_and_without_a_penalty_to_no_more():
    # Σ over documents of at most L words, and the mass of what goes on after L, is 1. The unknown
    # words are 300 and 301, which can be copied, and 302: the three types that share p(<unk>).
    model, total = make().double(), 0.0
    for mass, goes_on in masses(model, (3, 4, 300, 301, 302), 2, 3):
        before, total = total, total + mass
        assert before < total < 1
        assert total + goes_on == pytest.approx(1, abs=1e-9)
    # Of texts that are one with unknown words merged one counts: what copies of the others have is
    # missing, so that a text is not more probable than its ids are. Where no alias has an unknown
    # word, nothing is missing.
    for held, missing in ((ALIASES, True), ({0: [[3, 4]], 1: [[4]], 2: []}, False)):
        model, total, goes_on = make(held_aliases=held).double(), 0.0, 0.0
        for mass, rest in masses(model, (3, 4, 300), 2, 1):
            total, goes_on = total + mass, rest
        assert (total + goes_on < 1 - 1e-6) == missing
        assert total + goes_on < 1 + 1e-9


@torch.no_grad()
def end_log_prob(model, document, codes):
    vectors = reference.hidden_vectors(model, document)
    edges = reference.graph_of(model)
    history = reference.latent_log_prob(model, vectors, codes, 1.0, edges)[1]
    parents = reference.recent(history, model.graph.cutoff, edges)
    kinds = reference.kind_log_probs(model.heads, vectors[-1], history, parents, 1.0)
    return kinds[0] + reference.word_log_prob(model, vectors[-1][0], None, 1)


def larger(seed=0, count=40, length=60):
    """Make modules of realistic shapes and documents over them."""
    draw = np.random.default_rng(seed)
    edges = {(int(s), int(r), int(o)) for s, r, o in draw.integers(0, [count, 3, count], (90, 3))}
    graph = make_graph(sorted(edges), count, cutoff=10, width=8, seed=seed)
    aliases = {e: [draw.integers(2, 300, 1 + e % 9).tolist()[:8]] for e in range(1, count)}
    model = make(kglm.KGLM, graph, 300, seed, aliases, embedding_size=16)
    proposal = make(KGLMTagger, graph, 300, seed + 1, embedding_size=16)
    documents = [draw.integers(2, 300, n).tolist() for n in (length, 35, 1)]
    return model, proposal, documents


@torch.no_grad()
def by_steps(model, proposal, batch, owner, codes, temperature):
    """Score codes of documents of full length token by token: log p and log q, (R,)."""
    state, followed = model.start(batch, owner), proposal.start(batch, owner)
    log_p, log_q = torch.zeros(2, len(codes), dtype=torch.float64)
    for time in range(codes.shape[1]):
        term_p, state = model.extend(state, time, codes[:, time])
        term_q, followed = proposal.follow(followed, time, codes[:, time], temperature)
        log_p, log_q = log_p + term_p, log_q + term_q
    return log_p + model.finish(state, codes.shape[1]), log_q


@pytest.mark.parametrize("edges", [EDGES, [], None])
def test_steps_score_every_row_possible_or_not_as_a_whole(edges):
    """Of all rows of a short text, or of long samples: terms, of float32 too, in another order."""
    if edges is None:
        model, proposal, documents = larger(length=60)
        batch, owner = batch_of(documents[0], documents[0][::-1]), torch.arange(2).repeat(64)
        uniforms = torch.from_numpy(np.random.default_rng(1).random((128, proposal.draws(batch))))
        codes, temperature, most = proposal.sample(batch, owner, uniforms, 2.0), 2.0, 1e-10
        assert (codes.ge(NEW) & (codes % 2 == kglm_instances.RELATED % 2)).any(), "some are related"
    else:
        graph = make_graph(edges)
        model, proposal = make(graph=graph), make(KGLMTagger, graph=graph, seed=3)
        codes = torch.tensor(list(itertools.product(range(10), repeat=3)))
        batch, owner = batch_of([3, 4, 2]), torch.zeros(len(codes), dtype=torch.int64)
        temperature, most = 0.5, 1e-11
    log_p, log_q = by_steps(model, proposal, batch, owner, codes, temperature)
    whole = model.log_joint(batch, owner, codes)
    assert whole.isinf().any() == (edges is not None)
    torch.testing.assert_close(log_p, whole, rtol=0, atol=most)
    whole = proposal.log_prob(batch, owner, codes, [temperature])[:, 0]
    torch.testing.assert_close(log_q, whole, rtol=0, atol=most)


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
        codes = kglm_instances.encode_latents(spans, len(tokens), edges, model.graph)
        instances.append(instance_of(number, tokens, codes))
    return instances


@pytest.mark.parametrize("kind", [kglm.KGLM, KGLMTagger])
def test_loss_is_that_of_the_annotated_latents(kind):
    model, proposal, _ = larger()
    module = model if kind is kglm.KGLM else proposal
    batch = InstanceBatch.of(annotated_batch(model)[:7])
    owner = torch.arange(7)
    codes = model.annotated(batch)
    if kind is kglm.KGLM:
        expected = -model.log_joint(batch, owner, codes).sum()
    else:
        expected = -proposal.log_prob(batch, owner, codes, [1.0]).sum()
    assert module.loss(batch).item() == pytest.approx(float(expected), rel=1e-5)


def fit(module, instances, folder, **options):
    store = InstanceStore.write(folder / "store", "all", instances)
    sources = (WholeInstances(store, 400), WholeInstances(store, 400))
    chosen = TrainingOptions(batch_tokens=400, **options)
    return train(module.train(), sources, chosen, 1, folder, torch.device("cpu"))


@pytest.mark.parametrize("kind", [kglm.KGLM, KGLMTagger])
def test_training_improves_and_is_driven_by_torchs_generator(kind, tmp_path):
    model = larger()[0]
    instances = annotated_batch(model)
    architecture = {"layers": 2, "embedding_size": 16, "dropout": 0.1, "embedding_dropout": 0.05}
    architecture |= {"weight_dropout": 0.2, "activation_penalty": 0.1, "temporal_penalty": 0.1}
    if kind is KGLMTagger:
        architecture["context"] = "bidirectional"
    torch.manual_seed(0)
    module = kind(300, architecture, graph=model.graph.sizes)
    module.graph.load_state_dict(model.graph.state_dict())
    if kind is kglm.KGLM:
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
            fit(module, annotated_batch(module)[:24], tmp_path / name, maximum_steps=4)
        trained.append(module.state_dict())
    for key, values in trained[0].items():
        assert torch.equal(values, trained[1][key]), key


def test_encoder_drops_recurrent_weights_and_penalizes_activations():
    torch.manual_seed(0)
    chosen = {"layers": 1, "embedding_size": 4, "dropout": 0.0, "weight_dropout": 0.5}
    chosen |= {"activation_penalty": 2.0, "temporal_penalty": 3.0}
    options = recurrent_layers.AWDOptions(**chosen)
    encoder, inputs = recurrent_layers.AWDLSTM(options, 5), torch.randn(2, 6, 4)
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
        recurrent_layers.AWDOptions(weight_dropout=1.0)


def test_modules_are_rebuilt_latents_described_and_simulation_goes_on_as_the_encoder():
    model, proposal, documents = larger()
    batch, owner = batch_of(*documents), torch.arange(3)
    rows = torch.zeros(3, 60, dtype=torch.int64)
    for module, score in ((model, "log_joint"), (proposal, "log_prob")):
        family = registry.find(module.config["family"])
        again = family.from_tensors(module.config, module.state_dict()).eval()
        given = owner, rows, *([[2.0]] if module is proposal else [])
        found = getattr(again, score)(batch_of(*documents), *given)
        assert torch.equal(found, getattr(module, score)(batch, *given))
    assert model.n_tokens(batch).tolist() == [61, 36, 2]
    model = make().double()
    instance = instance_of(3, [3, 4, 2, 3])
    described = model.readable(instance, torch.tensor([2, 5, 1, 0, -1]))["mentions"]
    names = ("start", "end", "entity", "kind", "relation", "parent")
    assert described[0] == dict(zip(names, (0, 1, "A", "new", None, None), strict=True))
    held = dict(zip(names, (1, 3, "B", "related", "?", "A"), strict=True))
    assert {**described[1], "relation": "?"} == held
    heads, vectors = model.heads, reference.hidden_vectors(model, [3, 4, 2, 3])
    edges = reference.edge_log_probs(heads, vectors[1], [0], reference.graph_of(model), 1.0)
    assert described[1]["relation"] == f"r{max(edges, key=lambda edge: edge[3])[1]}"
    # Oracle: the encoder over the whole text: what it says of the next word, step by step
    model = make(layers=2, seed=2).double()
    reader = simulation._Encoder(model)
    read = torch.tensor([[0, 3, 4, 2], [0, 4, 4, 3]])
    steps = torch.cat([reader.read(column) for column in read.T], 1)
    torch.testing.assert_close(steps, model.encoder(model.embedding(read))[0])


def enumerated(model, document):
    codes = torch.tensor(reference.enumerate_codes(model, len(document)))
    owner = torch.zeros(len(codes), dtype=torch.int64)
    return codes, model.log_joint(batch_of(document), owner, codes)


def test_without_related_entities_or_aliases_the_look_ahead_is_that_of_the_definition():
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
    graph = make_graph()
    bare = KnowledgeGraph.of(dict(graph.named_buffers()), graph.cutoff)
    torch.manual_seed(0)
    model = kglm.KGLM(5, {"embedding_size": 6, "hidden_size": 7}, graph=bare.sizes).eval().double()
    model.graph.load_state_dict(bare.state_dict())
    proposal, document = OptimalLinks(model), [302, 2]
    listed = torch.tensor(reference.enumerate_codes(model, 2))
    owner = torch.zeros(len(listed), dtype=torch.int64)
    log_q = proposal.log_prob(batch_of(document), owner, listed, TEMPERATURES)
    torch.testing.assert_close(log_q.exp().sum(0), torch.ones(6, dtype=torch.float64))
    uniforms = torch.rand(64, 4, dtype=torch.float64)
    drawn = proposal.sample(batch_of(document), torch.zeros(64, dtype=torch.int64), uniforms, 1.0)
    assert torch.isfinite(model.log_joint(batch_of(document), owner[:1].expand(64), drawn)).all()


def test_a_mention_that_an_alias_goes_on_with_is_expected(monkeypatch):
    # The same first word; with the look-ahead it is taken for a mention more often where the second
    # word of the alias follows. Without aliases both texts are alike: 300 and 302 are unknown.
    shares = {}
    for aliases in ({0: [[3, 300]]}, {}):
        model = make(held_aliases=aliases, graph=make_graph([])).double()
        proposal = OptimalLinks(model)
        for word in (300, 302):
            batch, first = batch_of([3, word]), torch.zeros(1, dtype=torch.int64)
            state = proposal.start(batch, first)
            shares[bool(aliases), word] = proposal.follow(state, 0, first + NEW, 1.0)[0].item()
    assert shares[True, 300] > shares[True, 302] + 0.01
    assert shares[False, 300] == shares[False, 302]
    # Oracle: the aliases; of the two that have the first word, one goes on with the second
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
    codes = torch.tensor([NEW, NEW + 2])  # entity 0 has the word 300; entity 1 has not
    return proposal, proposal.follow(state, 0, codes, 1.0)[1]


def test_a_recent_entity_promises_that_it_is_mentioned_again():
    """Oracle: which words its alias has, and for how many words it is recent."""
    promises = {}
    for words in ([3, 4, 300], [3, 4, 4], [3, 4, 4, 300]):
        proposal, state = foreseen(words)
        _, state = proposal.follow(state, 1, torch.zeros(2, dtype=torch.int64), 1.0)
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
    setting = FilterSetting(model, proposal, batch, 2, threshold=1.1)
    owner = torch.zeros(filters, dtype=torch.int64)
    found = smc_log_prob(setting, torch.from_numpy(numbers), owner)
    ratios = (found.log_prob - truth).exp().numpy()
    assert abs(ratios.mean() - 1) < 4 * ratios.std() / filters**0.5
    assert ratios.std() < 3


NUMBERED = {3: [4, 300], 8: [301, 3], 9: [302, 300]}
TYPES = 40


def draw_files(folder, pair, samples):
    """Write draws of every kind of the documents; return the flags that name them."""
    data = [instance_of(number, words) for number, words in NUMBERED.items()]
    smc = SMCOptions(particles=20, runs=4)
    drawn = {
        "weights": (LOG_WEIGHTS, weigh(pair, data, WeightOptions(1.0), range(samples)), 1.0),
        "beams": (BEAMS, search(pair, data, BeamOptions((500,))), None),
        "smc": (SMC, run_smc(pair, data, smc, range(4)), 1.0),
    }
    paths = {}
    for kind, (schema, parts, temperature) in drawn.items():
        held = list(parts)
        columns = {name: np.concatenate([part[name] for part in held]) for name in held[0]}
        labels = WeightLabels("kglm", "q", temperature, "words", TYPES).in_record({})
        paths[kind] = [folder / f"{kind}.parquet"]
        write_shard(*paths[kind], with_columns(schema, penalized_columns(schema)), columns, labels)
    return argparse.Namespace(**paths, log_q=[], posterior=[], bidirectional=[], seed=1)


@torch.no_grad()
def exact(model, unknown_types):
    """Return Σ_n log p(x_n) by the plain implementation."""
    total = 0.0
    for words in NUMBERED.values():
        latents = reference.enumerate_codes(model, len(words))
        every = [plain_joint(model, words, z, unknown_types=unknown_types) for z in latents]
        total += float(np.logaddexp.reduce(every))
    return total


@pytest.mark.parametrize("kind", [KGLMTagger, OptimalLinks])
def test_every_estimate_of_the_penalized_perplexity_is_of_the_penalized_model(kind, tmp_path):
    model = make(seed=2).double()
    proposal = make(KGLMTagger, seed=3).double() if kind is KGLMTagger else OptimalLinks(model)
    pair = Pair(model, proposal, 5, "kglm/q", TYPES)
    given = draw_files(tmp_path, pair, 3000)
    options = ReductionOptions(subsets=2, bootstrap=20, replicate_samples=10)
    table = estimates_table(reduce_files(given, WeightLabels(), options)).to_pylist()
    tokens = sum(len(words) + 1 for words in NUMBERED.values())
    for measure, types in (("perplexity", 1), ("unknown_penalized_perplexity", TYPES)):
        truth = math.exp(-exact(model, types) / tokens)
        rows = [r for r in table if r["measure"] == measure and r["aggregation"] == "instance"]
        found = {row["method"]: row["value"] for row in rows if row["value"] is not None}
        assert found["beam"] == pytest.approx(truth)  # of all latents
        assert found["importance_sampling"] == pytest.approx(truth, rel=0.05)
        assert found["smc"] == pytest.approx(truth, rel=0.1)
    values = {r["measure"]: r["value"] for r in table if r["method"] == "beam"}
    ratio = values["unknown_penalized_perplexity"] / values["perplexity"]
    assert ratio < TYPES ** (4 / tokens) - 1e-3, "four unknown words, some of them copied"
    ess = {r["measure"]: r["ess_min"] for r in table if r["method"] == "smc"}
    for measure, one in (("perplexity", pair), ("unknown_penalized_perplexity", pair.penalized())):
        data = [instance_of(number, words) for number, words in NUMBERED.items()]
        runs = list(run_smc(one, data, SMCOptions(particles=20, runs=4), range(4)))
        assert ess[measure] == min(columns["ess_min"].min() for columns in runs)
    assert len(set(ess.values())) == 2


def test_a_pair_without_a_count_of_unknown_types_has_no_penalty():
    model = make().double()
    pair = Pair(model, OptimalLinks(model), 5, "kglm/q")
    assert pair.penalized() is None
    data = [instance_of(1, [3, 300])]
    (columns,) = weigh(pair, data, WeightOptions(1.0), range(4))
    assert set(columns) == set(LOG_WEIGHTS.names)
    (columns,) = run_smc(pair, data, SMCOptions(4), range(2))
    assert set(columns) == set(SMC.names)

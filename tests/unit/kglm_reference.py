"""KGLM and its proposals once more, one document, one sample and one token at a time.

Written from the description, sharing the weights alone: an oracle, and the benchmark's plain loop.
"""

import math
from collections import defaultdict

import torch
from torch.nn import functional

NONE, ONGOING, NEW, RELATED = range(4)
UNK = 2


def graph_of(module):
    """Return {subject: [(relation, object), ...]} of a module's graph."""
    graph = module.graph
    count = len(graph.entities)
    edges = defaultdict(list)
    for key, relation in zip(graph.edge_keys.tolist(), graph.edge_relations.tolist(), strict=True):
        edges[key // count].append((relation, key % count))
    return edges


def hidden_vectors(module, tokens):
    """Return the vectors (token, head, relation) of each position of one document, unbatched."""
    context = getattr(module.options, "context", None)
    read = {None: [0, *tokens], "causal": [0, *tokens][:-1]}.get(context, tokens)
    embedded = module.embedding(torch.tensor(read))[None]
    stream = embedded
    for layer in module.encoder.layers:
        stream = layer(stream)[0]
    if context == "bidirectional":
        backward = embedded.flip(1)
        for layer in module.backward_encoder.layers:
            backward = layer(backward)[0]
        stream = module.join(torch.cat([stream, backward.flip(1)], -1))
    size = module.options.embedding_size
    width = module.graph.entities.shape[1]
    return [(h[:size], h[size : size + width], h[size + width :]) for h in stream[0]]


def recent(history, cutoff, edges):
    """Return the distinct entities with edges of the last tokens, most recent first."""
    found = dict.fromkeys(e for e in reversed(history[-cutoff:]) if e is not None)
    return [e for e in found if edges.get(e)]


def kind_log_probs(heads, vectors, history, parents, temperature):
    """Return {kind: log p} of the kinds that are possible."""
    logits = heads.kind(vectors[0]) / temperature
    possible = [NONE, NEW]
    if history and history[-1] is not None:
        possible.append(ONGOING)
    if parents:
        possible.append(RELATED)
    scores = logits[possible].log_softmax(0)
    return dict(zip(possible, scores.tolist(), strict=True))


def new_log_probs(heads, vectors, temperature):
    """Return log p of every entity as a new one, (N,)."""
    logits = heads.graph.entities @ (vectors[1] + vectors[2]) + heads.entity_bias
    return (logits / temperature).log_softmax(0)


def edge_log_probs(heads, vectors, parents, edges, temperature):
    """Return [(parent, relation, object, log p)] of all edges of the recent entities."""
    graph = heads.graph
    scores = (graph.entities[parents] @ vectors[1] / temperature).log_softmax(0)
    found = []
    for parent, score in zip(parents, scores.tolist(), strict=True):
        kinds = [relation for relation, _ in edges[parent]]
        logits = graph.relations[kinds] @ vectors[2] + heads.relation_bias[kinds]
        scores = (logits / temperature).log_softmax(0).tolist()
        for (relation, tail), own in zip(edges[parent], scores, strict=True):
            found.append((parent, relation, tail, score + own))
    return found


def latent_log_prob(module, vectors, codes, temperature, edges):
    """Return log p_τ(z) of the codes of one document, and the entities of its tokens."""
    heads = module.heads
    history, total = [], 0.0
    for place, code in enumerate(codes):
        parents = recent(history, module.graph.cutoff, edges)
        kinds = kind_log_probs(heads, vectors[place], history, parents, temperature)
        kind = code if code < NEW else NEW + code % 2
        if kind not in kinds:
            return -math.inf, None
        total += kinds[kind]
        entity = None
        if kind == ONGOING:
            entity = history[-1]
        elif kind != NONE:
            entity = (code - NEW) // 2
        if kind == NEW:
            total += float(new_log_probs(heads, vectors[place], temperature)[entity])
        if kind == RELATED:
            every = edge_log_probs(heads, vectors[place], parents, edges, temperature)
            hits = [score for _, _, tail, score in every if tail == entity]
            if not hits:
                return -math.inf, None
            total += float(torch.tensor(hits, dtype=torch.float64).logsumexp(0))
        history.append(entity)
    return total, history


def word_log_prob(model, vector, entity, word, spelling=-1, unknown_types=1):
    """Return log p(word | h, entity), both ways of making it summed.

    A place of an alias makes the word when it has the same spelling; what is generated as unknown
    is any of some types.
    """
    share = unknown_types if word == UNK else 1
    mixed = model.mix_words(vector)
    if entity is None:
        scores = model.embedding.weight @ mixed + model.bias
        scores = torch.cat([torch.tensor([-math.inf]).to(scores), scores[1:]])
        return float(scores.log_softmax(0)[word]) - math.log(share)
    mixed = mixed + model.mix_entity(model.graph.entities[entity])
    scores = model.embedding.weight @ mixed + model.bias
    scores = torch.cat([torch.tensor([-math.inf] * 2).to(scores), scores[2:]])
    parts, spellings = [scores], []
    for alias in model.alias_words[entity].tolist():
        held = [i for i in alias if i != -1]
        if held:
            ids = [int(model.word_ids[i]) if i >= 0 else UNK for i in held]
            states = model.alias_encoder(model.embedding(torch.tensor(ids))[None])[0][0]
            copies = model.alias_output(states).tanh() @ vector
            able = [place for place, i in enumerate(held) if i >= 0]
            parts.append(copies[able])
            spellings += [held[place] for place in able]
    probabilities = torch.cat(parts).softmax(0)
    shares = [float(w == word) / share for w in range(len(scores))]
    shares += [float(s == spelling) for s in spellings]
    total = sum(float(p) * s for p, s in zip(probabilities, shares, strict=True) if s)
    return math.log(total)


@torch.no_grad()
def log_joint(model, tokens, codes, edges=None, spellings=None, unknown_types=1):
    """Return log p(x, z) of one document, of its ids and of the spellings that aliases have."""
    spellings = [-1] * len(tokens) if spellings is None else spellings
    edges = graph_of(model) if edges is None else edges
    vectors = hidden_vectors(model, tokens)
    total, history = latent_log_prob(model, vectors, codes, 1.0, edges)
    if history is None:
        return -math.inf
    for place, word in enumerate(tokens):
        given = history[place], word, spellings[place], unknown_types
        total += word_log_prob(model, vectors[place][0], *given)
    parents = recent(history, model.graph.cutoff, edges)
    total += kind_log_probs(model.heads, vectors[-1], history, parents, 1.0)[NONE]
    return total + word_log_prob(model, vectors[-1][0], None, 1)


@torch.no_grad()
def log_prob(proposal, tokens, codes, temperature, edges=None):
    """Return log q_τ(z | x) of one document."""
    edges = graph_of(proposal) if edges is None else edges
    vectors = hidden_vectors(proposal, tokens)
    return latent_log_prob(proposal, vectors, codes, temperature, edges)[0]


def pick(log_probs, uniform):
    """Return the first place where the running sum of probabilities passes a uniform number."""
    sums = functional.softmax(torch.as_tensor(log_probs, dtype=torch.float64), 0).cumsum(0)
    return min(int((sums <= uniform * float(sums[-1])).sum()), len(sums) - 1)


@torch.no_grad()
def sample(proposal, tokens, uniforms, temperature, edges=None):
    """Draw the codes of one document with three uniform numbers a token, from any stream."""
    edges = graph_of(proposal) if edges is None else edges
    vectors = hidden_vectors(proposal, tokens)
    history, codes = [], []
    for place in range(len(tokens)):
        first, second, third = uniforms[3 * place : 3 * place + 3]
        parents = recent(history, proposal.graph.cutoff, edges)
        kinds = kind_log_probs(proposal.heads, vectors[place], history, parents, temperature)
        names = sorted(kinds)
        kind = names[pick([kinds[name] for name in names], first)]
        entity = history[-1] if kind == ONGOING else None
        if kind == NEW:
            entity = pick(new_log_probs(proposal.heads, vectors[place], temperature), second)
        if kind == RELATED:
            every = edge_log_probs(proposal.heads, vectors[place], parents, edges, temperature)
            of = {parent: [s for q, _, _, s in every if q == parent] for parent in parents}
            totals = [torch.tensor(of[parent]).logsumexp(0) for parent in parents]
            parent = parents[pick(torch.stack(totals), second)]
            own = [(tail, score) for q, _, tail, score in every if q == parent]
            entity = own[pick([score for _, score in own], third)][0]
        history.append(entity)
        codes.append(kind if kind < NEW else kind + 2 * entity)
    return codes


def weigh(model, proposal, tokens, uniforms, temperatures, drawn=1.0, spellings=None):
    """Draw and weigh one sample: (codes, log p, [log q at each temperature]).

    One call is what a program does that loops over instances and samples.
    """
    codes = sample(proposal, tokens, uniforms, drawn)
    scores = [log_prob(proposal, tokens, codes, t) for t in temperatures]
    return codes, log_joint(model, tokens, codes, spellings=spellings), scores


def enumerate_codes(module, length):
    """List every code sequence of a document of T tokens that is possible, by the definition."""
    edges = graph_of(module)
    count = len(module.graph.entities)
    found = []

    def extend(codes, history):
        if len(codes) == length:
            found.append(codes)
            return
        extend([*codes, NONE], [*history, None])
        if history and history[-1] is not None:
            extend([*codes, ONGOING], [*history, history[-1]])
        for entity in range(count):
            extend([*codes, NEW + 2 * entity], [*history, entity])
        parents = recent(history, module.graph.cutoff, edges)
        for tail in sorted({tail for parent in parents for _, tail in edges[parent]}):
            extend([*codes, RELATED + 2 * tail], [*history, tail])

    extend([], [])
    return found

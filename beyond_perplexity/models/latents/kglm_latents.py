"""How KGLM and its proposals give probabilities to latents, whatever their encoders have read.

At each token, with three vectors of an encoder (`Streams`):

* the kind t of {none, ongoing, new, related}: softmax(W token). Ongoing is possible within a
  mention, related where an entity with edges is recent; the softmax is over what is possible;
* new: the entity e, softmax((head + relation) · E_e + b_e) over all entities;
* related: a parent s among the recent entities with edges, p(s) ∝ exp(head · E_s); an edge of s,
  p(r | s) ∝ exp(relation · R_r + b_r). What counts is where it leads to: the probability of o sums
  over all parents and parallel edges, p(o) = Σ_s p(s) Σ_{r: (s, r, o)} p(r | s);
* ongoing: the entity of the token before, at no further cost.

An entity is recent when one of the last C tokens is of a mention of it (C is the graph's cutoff).
At a temperature τ each of the four logit vectors is divided by τ.

B instances, R rows, T tokens, P positions of an encoder (at least T or T + 1), D the width of
``token``, d of the graph's embeddings, N entities, A temperatures, Q and X flat lists.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn import functional

from beyond_perplexity.models.latents import kglm_instances

LINK_CHUNK = 64  # positions or pairs whose logits over all words are held at once
ENTITY_CHUNK = 32  # positions whose logits over all entities are held at once
N_KINDS = 4
MASKS = 4  # ongoing possible (1) + related possible (2)


@dataclass
class Streams:
    """What an encoder says about the positions of a batch."""

    token: Tensor  # (B, P, D)
    head: Tensor  # head, relation: (B, P, d)
    relation: Tensor
    lengths: Tensor  # int64, (B,): T of each instance
    # What was worked out from them, the same for every sample; None in training, where nothing is
    # kept and nothing is worked out that the annotated latents do not need
    kept: dict[tuple[str, float], Tensor] | None = field(default=None, repr=False)

    @property
    def positions(self) -> int:
        """P."""
        return self.token.shape[1]

    def keep(self, name: str, temperature: float, make: Callable[[], Tensor]) -> Tensor:
        """Return what `make` gives, from before where it is kept."""
        if self.kept is None:
            return make()
        if (name, temperature) not in self.kept:
            self.kept[name, temperature] = make()
        return self.kept[name, temperature]


@dataclass(frozen=True)
class Reading:
    """Latents of R rows, read."""

    kinds: Tensor  # int64, (R, T): `NONE`, `ONGOING`, `NEW` or `RELATED`; `NONE` beyond the end
    # int64, (R, T): the entity that each token mentions; −1 where it mentions none
    entities: Tensor
    inside: Tensor  # bool, (R, T): tokens of the instance
    # bool, (R,): each token of the row has a code, and ongoing ones follow a mention
    possible: Tensor

    def mentions(self, owner: Tensor, positions: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """List the Q tokens in mentions: row, column, flat position, entity, int64, (Q,) each;
        `owner`, int64, (R,), is the instance of each row, `positions` P."""
        row, column = (self.entities >= 0).nonzero(as_tuple=True)  # (Q,), (Q,)
        return row, column, owner[row] * positions + column, self.entities[row, column]


def split_link_codes(codes: Tensor) -> tuple[Tensor, Tensor]:
    """Read codes, int64 of any shape: their kinds, and the entities that begin (−1: none)."""
    begins = codes >= kglm_instances.NEW  # (...)
    kinds = torch.where(begins, kglm_instances.NEW + codes % 2, codes)  # (...)
    return kinds, torch.where(begins, (codes - kglm_instances.NEW) // 2, -1)


def join_link_codes(kinds: Tensor, entities: Tensor) -> Tensor:
    """Write codes, int64; `entities` count where one begins. Undoes `split_link_codes`."""
    return torch.where(kinds >= kglm_instances.NEW, kinds + 2 * entities, kinds)


def read_latents(latents: Tensor, lengths: Tensor, positions: int) -> Reading:
    """Read codes (R, W) of instances of the given lengths (R,) as T = `positions` tokens."""
    wide = latents.new_full((len(latents), positions), kglm_instances.NONE)  # (R, T)
    width = min(positions, latents.shape[1])
    wide[:, :width] = latents[:, :width]
    position = torch.arange(positions, device=latents.device)  # (T,)
    inside = position < lengths[:, None]  # (R, T)
    coded = (wide >= 0) & ((position < width) | ~inside)  # (R, T)
    codes = torch.where(inside & coded, wide, kglm_instances.NONE)  # (R, T)
    kinds, own = split_link_codes(codes)  # (R, T), (R, T)
    source = torch.where(kinds == kglm_instances.ONGOING, -1, position).cummax(1).values  # (R, T)
    entities = torch.where(source >= 0, own.gather(1, source.clamp_min(0)), -1)  # (R, T)
    broken = (kinds == kglm_instances.ONGOING) & (entities < 0) | (inside & ~coded)  # (R, T)
    return Reading(kinds, entities, inside, ~broken.any(1))


def segment_logsumexp(values: Tensor, owner: Tensor, count: int) -> Tensor:
    """Return log Σ exp of the values (X, A) of each owner, (count, A); −inf, with gradient zero,
    for none."""
    index = owner[:, None].expand_as(values)  # (X, A)
    empty = values.new_full((count, values.shape[1]), -torch.inf)  # (count, A)
    top = empty.scatter_reduce(0, index, values.detach(), "amax")  # (count, A)
    top = torch.where(top == -torch.inf, 0.0, top)  # (count, A)
    total = torch.zeros_like(empty).index_add(0, owner, (values - top[owner]).exp())  # (count, A)
    log = total.clamp_min(torch.finfo(total.dtype).tiny).log() + top  # (count, A)
    return torch.where(total > 0, log, -torch.inf)


class LatentHeads(nn.Module):
    """The distribution of latents over the streams of an encoder, D wide."""

    def __init__(self, width: int, graph: kglm_instances.KnowledgeGraph) -> None:
        super().__init__()
        self.graph = graph
        self.kind = nn.Linear(width, N_KINDS)
        self.entity_bias = nn.Parameter(torch.zeros(graph.n_entities))
        self.relation_bias = nn.Parameter(torch.zeros(graph.sizes["relations"]))

    @property
    def width(self) -> int:
        """D + 2 d, what an encoder has to give."""
        return self.kind.in_features + 2 * self.graph.sizes["dimension"]

    def split(self, hidden: Tensor, lengths: Tensor, keep: bool) -> Streams:
        """Split an encoder's output (B, P, D + 2 d); `keep` as in `Streams`."""
        width, size = self.kind.in_features, self.graph.sizes["dimension"]
        token, head, relation = hidden.split([width, size, size], 2)
        return Streams(token, head, relation, lengths, {} if keep else None)

    def kind_log_probs(self, streams: Streams, temperature: float) -> Tensor:
        """Return log p_τ(t), float64, (B, P, masks, kinds), under each mask of what is possible."""

        def make() -> Tensor:
            logits = self.kind(streams.token).double() / temperature  # (B, P, 4)
            allowed = torch.ones(MASKS, N_KINDS, dtype=torch.bool, device=logits.device)  # (4, 4)
            allowed[[0, 2], kglm_instances.ONGOING] = False
            allowed[[0, 1], kglm_instances.RELATED] = False
            masked = logits[:, :, None].masked_fill(~allowed, -torch.inf)  # (B, P, 4, 4)
            return masked.log_softmax(-1)

        return streams.keep("kinds", temperature, make)

    def entity_logits(self, streams: Streams, position: slice | Tensor) -> Tensor:
        """Return the logits of new entities, (X, N), at positions of the flat batch (B · P)."""
        mixed = (streams.head + streams.relation).flatten(0, 1)[position]  # (X, d)
        return torch.addmm(self.entity_bias, mixed, self.graph.entities.T)  # (X, N)

    def entity_logits_at(self, streams: Streams, position: int) -> Tensor:
        """Return the logits of new entities at a flat position, (1, N), and hold its neighbours',
        as draws go from word to word."""
        first = position // ENTITY_CHUNK * ENTITY_CHUNK
        if streams.kept is not None:
            held = [key for key in streams.kept if key[0] == "logits"]
            for key in held[: -len(streams.token)]:
                del streams.kept[key]
        logits = streams.keep(
            "logits",
            float(first),
            lambda: self.entity_logits(streams, slice(first, first + ENTITY_CHUNK)),
        )  # (C, N)
        return logits[position - first : position - first + 1]

    def _entity_totals(
        self, streams: Streams, temperatures: Sequence[float], wanted: Tensor
    ) -> Tensor:
        """Return the logsumexp of the logits of new entities / τ, float64, (B · P, A), in training
        just at the `wanted` positions, else everywhere, once."""
        kept = streams.kept
        count = streams.token[..., 0].numel()
        if kept is None:
            flat = wanted.unique()  # (X,)
            found = torch.stack(self._totals(streams, temperatures, flat), 1)  # (X, A)
            return found.new_zeros(count, len(temperatures)).index_copy(0, flat, found)
        missing = [t for t in dict.fromkeys(temperatures) if ("entities", t) not in kept]
        pieces = [
            self._totals(streams, missing, slice(start, start + ENTITY_CHUNK))
            for start in range(0, count if missing else 0, ENTITY_CHUNK)
        ]
        for t, parts in zip(missing, zip(*pieces, strict=True), strict=True):
            kept["entities", t] = torch.cat(parts)  # (B P,)
        return torch.stack([kept["entities", t] for t in temperatures], 1)

    def _totals(
        self, streams: Streams, temperatures: Sequence[float], flat: slice | Tensor
    ) -> list[Tensor]:
        logits = self.entity_logits(streams, flat)  # (X, N)
        if torch.is_grad_enabled():
            return [(logits / t).logsumexp(1).double() for t in temperatures]  # each (X,)
        found = []
        for t in temperatures:
            # In place: passes over memory are what takes the time here.
            scaled = logits / t if (t, len(temperatures)) != (1, 1) else logits  # (X, N)
            top = scaled.amax(1, keepdim=True)  # (X, 1)
            found.append(scaled.sub_(top).exp_().sum(1).log_().add_(top[:, 0]).double())  # (X,)
        return found

    def relation_logits(self, streams: Streams) -> Tensor:
        """Return relation · R_r + b_r at all positions, float64, (B · P, relations)."""

        def make() -> Tensor:
            logits = streams.relation @ self.graph.relations.T + self.relation_bias  # (B, P, R)
            return logits.flatten(0, 1).double()

        return streams.keep("relations", 1.0, make)

    def parent_logits(self, streams: Streams, flat: Tensor, entities: Tensor) -> Tensor:
        """Return head · E_s, float64, for flat positions and entities of one shape (...)."""
        heads = streams.head.flatten(0, 1)[flat]  # (..., d)
        return (heads * self.graph.entities[entities]).sum(-1).double()  # (...)

    def log_prob(
        self, streams: Streams, owner: Tensor, reading: Reading, temperatures: Sequence[float]
    ) -> Tensor:
        """Return log p_τ(z) of rows of latents, nats, float64, (R, A), over streams of at least T
        positions."""
        width = reading.kinds.shape[1]
        position = torch.arange(width, device=owner.device)  # (T,)
        flat = owner[:, None] * streams.positions + position  # (R, T)
        masks = self.possible_kinds(reading)[:, :-1]  # (R, T)
        index = (flat * MASKS + masks) * N_KINDS + reading.kinds  # (R, T)
        found = [self.kind_log_probs(streams, t).flatten()[index] for t in temperatures]
        kinds = torch.stack(found, -1)  # (R, T, A): log p of each token's own, −inf if impossible
        total = (kinds * reading.inside[..., None]).sum(1)  # (R, A)
        for kind in (kglm_instances.NEW, kglm_instances.RELATED):
            rows, columns = (reading.kinds == kind).nonzero(as_tuple=True)  # (Q,), (Q,)
            if len(rows):
                begun = flat[rows, columns], reading.entities[rows, columns]  # (Q,), (Q,)
                if kind == kglm_instances.NEW:
                    own = self.new_log_probs(streams, *begun, temperatures)  # (Q, A)
                else:
                    parents = self.parents(reading, rows, columns)  # (X,), (X,)
                    own = self.related_log_probs(streams, *begun, parents, temperatures)
                dense = own.new_zeros(*reading.kinds.shape, len(temperatures))  # (R, T, A)
                total = total + dense.index_put((rows, columns), own).sum(1)  # (R, A)
        return torch.where(reading.possible[:, None], total, -torch.inf)

    def possible_kinds(self, reading: Reading) -> Tensor:
        """Return the mask of what is possible at each token and after the last, (R, T + 1)."""
        entities = reading.entities  # (R, T)
        position = torch.arange(entities.shape[1] + 1, device=entities.device)  # (T + 1,)
        able = (entities >= 0) & (self.graph.degrees[entities.clamp_min(0)] > 0)  # (R, T)
        far = -self.graph.cutoff - 1
        last = torch.where(able, position[:-1], far).cummax(1).values  # (R, T)
        last = functional.pad(last, (1, 0), value=far)  # (R, T + 1)
        ongoing = functional.pad(entities >= 0, (1, 0))  # (R, T + 1)
        return ongoing + 2 * (position - last <= self.graph.cutoff)  # (R, T + 1)

    def new_logits(self, streams: Streams, flat: Tensor, entities: Tensor) -> Tensor:
        """Return the logits of new entities (Q,) at flat positions (Q,), float32, (Q,)."""
        mixed = (streams.head + streams.relation).flatten(0, 1)[flat]  # (Q, d)
        return (mixed * self.graph.entities[entities]).sum(1) + self.entity_bias[entities]

    def new_log_probs(
        self, streams: Streams, flat: Tensor, entities: Tensor, temperatures: Sequence[float]
    ) -> Tensor:
        """Return log p_τ(e) of new entities (Q,) at flat positions (Q,), float64, (Q, A)."""
        logits = self.new_logits(streams, flat, entities)  # (Q,)
        totals = self._entity_totals(streams, temperatures, flat)  # (B P, A)
        divided = [logits.double() / t for t in temperatures]  # each (Q,)
        return torch.stack(divided, 1) - totals[flat]  # (Q, A)

    def related_log_probs(
        self,
        streams: Streams,
        flat: Tensor,
        entities: Tensor,
        parents: tuple[Tensor, Tensor],
        temperatures: Sequence[float],
    ) -> Tensor:
        """Return log p_τ(o) of related entities, float64, (Q, A); −inf where no edge leads there.

        `flat`, `entities`: flat positions and the o that begin there, int64, (Q,); `parents`:
        positions in the list of Q, rising, and the recent entities with edges there, each once,
        int64, (X,). Their order decides how sums round: the most recent first.
        """
        query, subjects = parents
        below = 1 / torch.tensor(temperatures, dtype=torch.float64, device=flat.device)  # (A,)
        scores = self.parent_logits(streams, flat[query], subjects)[:, None] * below  # (X, A)
        relations = self.relation_logits(streams)  # (B P, relations)
        keys = flat[query] * self.graph.n_entities + subjects  # (X,)
        unique, back = keys.unique(return_inverse=True)  # (Y,), (X,)
        position, parent = unique // self.graph.n_entities, unique % self.graph.n_entities
        pair, edge = self.graph.edges_from(parent)  # (Z,), (Z,)
        logits = relations[position[pair], self.graph.edge_relations[edge]]  # (Z,)
        totals = segment_logsumexp(logits[:, None] * below, pair, len(unique))[back]  # (X, A)
        pair, edge = self.graph.edges_between(subjects, entities[query])
        logits = relations[flat[query][pair], self.graph.edge_relations[edge]]  # (Z,)
        parallel = segment_logsumexp(logits[:, None] * below, pair, len(query))  # (X, A)
        above = segment_logsumexp(scores + parallel - totals, query, len(flat))  # (Q, A)
        total = segment_logsumexp(scores, query, len(flat))  # (Q, A)
        # Without a parent both are −inf, and their difference would be NaN.
        return torch.where(above == -torch.inf, above, above - total)

    def parents(self, reading: Reading, rows: Tensor, columns: Tensor) -> tuple[Tensor, Tensor]:
        """Find the recent entities with edges, each once, at Q tokens, a query's most recent first:
        (query, entity), (X,)."""
        entities = reading.entities  # (R, T)
        back = torch.arange(1, self.graph.cutoff + 1, device=rows.device)  # (C,)
        position = columns[:, None] - back  # (Q, C)
        found = entities[rows[:, None], position.clamp_min(0)]  # (Q, C)
        latest = columns[:, None] <= _next_mention(entities)[rows[:, None], position.clamp_min(0)]
        able = self.graph.degrees[found.clamp_min(0)] > 0  # (Q, C)
        query, slot = ((position >= 0) & (found >= 0) & latest & able).nonzero(as_tuple=True)
        return query, found[query, slot]

    def best_edge(
        self, streams: Streams, reading: Reading, position: int, entity: int
    ) -> tuple[int, int]:
        """Return parent and relation of the most probable edge to an entity at a token of row 0."""
        at = torch.tensor([position], device=streams.token.device)  # (1,)
        _, parents = self.parents(reading, torch.zeros_like(at), at)  # (X,)
        scores = self.parent_logits(streams, at, parents).log_softmax(0)  # (X,)
        relations = self.relation_logits(streams)[position]  # (relations,)
        pair, edge = self.graph.edges_from(parents)  # (Z,), (Z,)
        logits = relations[self.graph.edge_relations[edge]]  # (Z,)
        totals = segment_logsumexp(logits[:, None], pair, len(parents))[:, 0]  # (X,)
        scores = scores[pair] + logits - totals[pair]  # (Z,)
        best = int(scores.masked_fill(self.graph.objects(edge) != entity, -torch.inf).argmax())
        return int(parents[pair[best]]), int(self.graph.edge_relations[edge[best]])


def _next_mention(entities: Tensor) -> Tensor:
    """Return the next token of the same row and entity, int64, (R, T); T where there is none."""
    width = entities.shape[1]
    ordered, order = entities.sort(dim=1, stable=True)  # (R, T), (R, T)
    following = functional.pad(order[:, 1:], (0, 1), value=width)  # (R, T)
    same = functional.pad(ordered[:, 1:] == ordered[:, :-1], (0, 1))  # (R, T)
    return torch.empty_like(order).scatter_(1, order, torch.where(same, following, width))

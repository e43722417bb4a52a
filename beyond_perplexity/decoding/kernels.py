"""Draw the next token of B prefixes from logits: inverse-CDF kernels without a sort of V.

B rows, V tokens, W candidates. Uniform numbers come from outside, one for a token, so that a draw
depends on the row's logits and number alone. The order of the inverse CDF, which the n-gram decoder
shares, is by token id, or by the rank that a truncation gives (ties by id).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from beyond_perplexity.invariant_tensors import has_triton
from beyond_perplexity.vocabulary import UNK

CDF_BLOCK = 256  # first level of the two-level CDF
MASS_TOLERANCE = 1e-6  # see `options.DecodingOptions`
WIDTHS = (512,)  # candidates tried before a full sort, where a sort is dear
SORT_ROWS = 16  # rows of a full sort at a time: bounds its memory
SORT_ELEMENTS = 2**19  # the same on a CPU, in weights: what its caches hold
_LOW = 0xFFFFFFFF


class Drawn(NamedTuple):
    """Drawn tokens, int64 (B,), and the weight of the sets they are drawn from, float64 (B,)."""

    token: Tensor
    mass: Tensor


# From weight (R, V), limit (R,) and number (R,).
WholeRows = Callable[[Tensor, Tensor, Tensor], Drawn]


def block_sums(weight: Tensor) -> Tensor:
    """Sum each block of `CDF_BLOCK` weights, the last one being shorter: (B, V) to (B, blocks)."""
    whole = weight.shape[1] // CDF_BLOCK * CDF_BLOCK
    sums = weight[:, :whole].unflatten(1, (-1, CDF_BLOCK)).sum(-1)  # (B, whole blocks)
    if whole == weight.shape[1]:
        return sums
    return torch.cat([sums, weight[:, whole:].sum(-1, keepdim=True)], 1)  # (B, blocks)


@dataclass
class Weights:
    """Unnormalized probabilities of B rows.

    `weight`, float32, (B, V): exp((logit − largest logit) / temperature), 0 for what is excluded;
    `sums`, float32, (B, blocks): of each block of it; `log_total`, float64, (B,): logarithm of the
    model's normalizer (temperature 1, nothing excluded), relative to the largest logit.
    """

    weight: Tensor
    sums: Tensor
    temperature: float
    log_total: Tensor

    def total(self) -> Tensor:
        """Return the weight of each row, float64, (B,)."""
        return self.sums.double().sum(-1)

    def log_probs(self, tokens: Tensor) -> Tensor:
        """Return the model's log p, float64, (B, N), of tokens (B, N) that have a weight."""
        relative = self.weight.gather(1, tokens).double().log() * self.temperature  # (B, N)
        return relative - self.log_total[:, None]


def unnormalized(
    logits: Tensor, temperature: float = 1.0, exclude_unknown: bool = False
) -> Weights:
    """Turn logits, float32, (B, V), into `Weights` in place, as another tensor of this size costs
    as much as the arithmetic; an excluded ``<unk>`` keeps its weight where nothing else has any."""
    weight = logits.sub_(logits.amax(-1, keepdim=True))  # (B, V)
    if temperature != 1:
        log_total = weight.exp().sum(-1, dtype=torch.float64).log()  # (B,)
        weight.div_(temperature)
    sums = block_sums(weight.exp_())  # (B, blocks)
    if temperature == 1:
        log_total = sums.double().sum(-1).log()  # (B,)
    if exclude_unknown:
        unknown = weight[:, UNK].clone()  # (B,)
        weight[:, UNK] = 0
        alone = block_sums(weight).sum(-1) == 0  # (B,)
        weight[:, UNK] = torch.where(alone, unknown, 0)
        sums[:, 0] = weight[:, :CDF_BLOCK].sum(-1)
    return Weights(weight, sums, temperature, log_total)


def search_cdf(cumulative: Tensor, share: Tensor) -> Tensor:
    """Find the first index, int64 (B, 1), whose cumulative weight, float64 (B, N), exceeds a share
    in [0, 1), (B, 1), of the last one; never one of weight 0, unless all are."""
    total = cumulative[:, -1:]  # (B, 1)
    target = torch.minimum(share * total, total * (1 - 2.0**-52))  # (B, 1)
    return torch.searchsorted(cumulative, target, right=True).clamp_(max=cumulative.shape[1] - 1)


def _block(weight: Tensor, block: Tensor) -> Tensor:
    """Return one block (B,) of each row, (B, CDF_BLOCK); zeros behind the last id."""
    # (B, CDF_BLOCK)
    ids = block[:, None] * CDF_BLOCK + torch.arange(CDF_BLOCK, device=block.device)
    size = weight.shape[1]
    return weight.gather(1, ids.clamp(max=size - 1)).masked_fill_(ids >= size, 0)  # (B, CDF_BLOCK)


def pick(weights: Weights, uniform: Tensor) -> Tensor:
    """Draw one token of each row, int64 (B,), by the inverse CDF in the order of ids."""
    rows = torch.arange(len(uniform), device=uniform.device)  # (B,)
    cumulative = weights.sums.double().cumsum(-1)  # (B, blocks)
    block = search_cdf(cumulative, uniform[:, None])[:, 0]  # (B,)
    size = weights.sums[rows, block].double()  # (B,)
    rest = uniform * cumulative[:, -1] - (cumulative[rows, block] - size)  # (B,)
    inner = _block(weights.weight, block).double().cumsum(-1)  # (B, CDF_BLOCK)
    share = (rest / size).clamp(0, 1)  # (B,)
    token = block * CDF_BLOCK + search_cdf(inner, share[:, None])[:, 0]  # (B,)
    return token.clamp_(max=weights.weight.shape[1] - 1)


def sort_rows(values: Tensor) -> Tensor:
    """Sort each row upwards; NumPy's vectorized sort is many times faster on a CPU than torch's."""
    if values.device.type == "cpu":
        return torch.from_numpy(np.sort(values.numpy(), axis=1))
    return values.sort(dim=1).values


def rank(score: Tensor, width: int) -> Tensor:
    """Return the first ids by falling score, ties by id: int64, (B, W)."""
    size = score.shape[1]
    bits = score.view(torch.int32).long()  # (B, V)
    ordered = torch.where(bits < 0, bits ^ 0x7FFFFFFF, bits)  # (B, V): sorts as the floats do
    packed = (ordered << 32) | (_LOW - torch.arange(size, device=score.device))  # (B, V)
    whole = width >= size
    first = sort_rows(packed).flip(1) if whole else packed.topk(width, dim=1).values  # (B, W)
    return _LOW - (first & _LOW)


def last_of_set(cumulative: Tensor, limit: Tensor | int) -> Tensor:
    """Find the last index of each row's set, int64 (B,): a mass reached or a count of tokens."""
    if isinstance(limit, int):
        return torch.full_like(cumulative[:, 0], limit - 1, dtype=torch.int64)
    return torch.searchsorted(cumulative, limit[:, None])[:, 0]


def draw_among(
    weight: Tensor, ids: Tensor, limit: Tensor | int, uniform: Tensor
) -> tuple[Drawn, Tensor]:
    """Draw from the first of ranked ids (B, W), as many as `limit` says, and tell, bool (B,),
    whether they hold as much; else the draw means nothing."""
    cumulative = weight.gather(1, ids).double().cumsum(-1)  # (B, W)
    cut, width = last_of_set(cumulative, limit), ids.shape[1]  # (B,)
    held = cumulative.gather(1, cut.clamp(max=width - 1)[:, None])  # (B, 1)
    inside = torch.minimum(cumulative, held)  # (B, W): no weight after the cut
    token = ids.gather(1, search_cdf(inside, uniform[:, None]))[:, 0]  # (B,)
    return Drawn(token, held[:, 0]), cut < width


def _draw_ranked(
    weight: Tensor, score: Tensor, limit: Tensor, uniform: Tensor, widths: tuple[int, ...]
) -> Drawn:
    """Draw from the first tokens by falling score whose weight reaches `limit`, among the W best,
    or where they do not, the next width's: the result is that of a full sort."""
    token = torch.zeros(len(uniform), dtype=torch.int64, device=uniform.device)  # (B,)
    mass = torch.zeros_like(uniform)  # (B,)
    waiting = torch.arange(len(uniform), device=uniform.device)  # (B,)
    size = score.shape[1]
    for width in (*(w for w in widths if w < size), size):
        unsettled = []
        for rows in waiting.split(SORT_ROWS if width == size else len(uniform)):
            ids = rank(score[rows], width)  # (R, W)
            drawn, settled = draw_among(weight[rows], ids, limit[rows], uniform[rows])
            token[rows], mass[rows] = drawn
            unsettled.append(rows[~settled])
        waiting = torch.cat(unsettled)
        if not len(waiting):
            break
    return Drawn(token, mass)


def draw_to_mass(
    weight: Tensor,
    score: Tensor,
    limit: Tensor,
    uniform: Tensor,
    draw_whole: WholeRows | None = None,
) -> Drawn:
    """Draw from the first tokens by falling score whose weight reaches a limit; ties go by id.

    Weight and score are float32, (B, V), limit and number float64, (B,). `draw_whole` does the same
    faster where the weight is the score. On a CPU some rows are sorted at a time, to bound the
    memory.
    """
    if has_triton(weight.device):
        from beyond_perplexity.decoding.ranked_draws import draw_ranked

        return Drawn(*draw_ranked(weight, score, limit, uniform))
    if weight.device.type != "cpu":
        return _draw_ranked(weight, score, limit, uniform, WIDTHS)
    parts = []
    for rows in torch.arange(len(uniform)).split(max(1, SORT_ELEMENTS // weight.shape[1])):
        own = limit[rows], uniform[rows]
        if draw_whole:
            parts.append(draw_whole(weight[rows], *own))
        else:
            parts.append(_draw_ranked(weight[rows], score[rows], *own, widths=()))
    return Drawn(*map(torch.cat, zip(*parts, strict=True)))


def draw_distinct(weights: Weights, uniforms: Tensor) -> tuple[Tensor, Tensor]:
    """Draw tokens, int64, (B, k), of each row without replacement, by numbers, float64, (B, k),
    with log p under the model, −inf where nothing was left; what is drawn loses its weight."""
    rows = torch.arange(len(uniforms), device=uniforms.device)  # (B,)
    tokens, log_probs = [], []
    for uniform in uniforms.unbind(1):
        token = pick(weights, uniform)  # (B,)
        tokens.append(token)
        log_probs.append(weights.log_probs(token[:, None])[:, 0])
        weights.weight.scatter_(1, token[:, None], 0.0)
        block = token // CDF_BLOCK  # (B,)
        weights.sums[rows, block] = _block(weights.weight, block).sum(-1)  # (B,)
    return torch.stack(tokens, 1), torch.stack(log_probs, 1)


@dataclass
class Contexts:
    """All C contexts, sparse: `weight`, float64, (N,), of entries in the order of the inverse CDF,
    `owner`, int64, rising, their contexts, `offsets`, (C + 1,), where each begins."""

    weight: Tensor
    owner: Tensor
    offsets: Tensor

    def __post_init__(self) -> None:
        self.total = self.sums(self.weight)  # (C,)

    def sums(self, values: Tensor) -> Tensor:
        """Sum the entries of each context, float64: (N,) to (C,)."""
        cumulative = torch.nn.functional.pad(values.cumsum(0), (1, 0))  # (N + 1,)
        return cumulative[self.offsets].diff()

    def largest(self) -> Tensor:
        """Return the largest weight of each context: (C,)."""
        return torch.zeros_like(self.total).scatter_reduce_(0, self.owner, self.weight, "amax")

    def positions(self) -> Tensor:
        """Return the position of each entry in its context: int64, (N,)."""
        return torch.arange(len(self.owner), device=self.owner.device) - self.offsets[self.owner]

    def ranking(self, score: Tensor) -> Tensor:
        """Order entries by context, then by falling score (N,), then by id: int64, (N,)."""
        by_score = score.argsort(descending=True, stable=True)  # (N,)
        return by_score[self.owner[by_score].argsort(stable=True)]

    def keep_to_mass(self, score: Tensor, mass: float) -> tuple[Tensor, Tensor]:
        """Rank the entries (N,) of each context by falling score; say which reach a share."""
        order = self.ranking(score)  # (N,)
        weight = self.weight[order]  # (N,)
        before = weight.cumsum(0) - weight  # (N,)
        before = before - before[self.offsets[:-1]][self.owner]  # (N,)
        return order, before < self.total[self.owner] * mass

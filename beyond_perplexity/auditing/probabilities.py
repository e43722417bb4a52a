"""Probabilities that are such, add up to one and are the scores of texts; none that is lost."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from beyond_perplexity.auditing.checks import Evidence
from beyond_perplexity.auditing.subject import MOST_LOGITS, Subject, distributions
from beyond_perplexity.models.factored import chosen_log_probs
from beyond_perplexity.models.likelihoods import score_encoded
from beyond_perplexity.random_streams import stream
from beyond_perplexity.vocabulary import BOS, EOS, UNK

_ALL = 2048  # so many ids are all scored; of more, some
_MOST_PROBABLE, _DRAWN = 256, 128
_ROWS_SUMMED, _PLACES_SUMMED = 4, 16
_AT_ONCE = 16
_DEPTH = 3


def chosen_ids(subject: Subject, shares: Tensor) -> Tensor:
    """Choose ids to score, rising, of shares (..., V): all, or the likely and some others."""
    size = shares.shape[-1]
    if size <= _ALL:
        return torch.arange(size)
    likely = shares.flatten(0, -2).sum(0).topk(_MOST_PROBABLE).indices
    drawn = stream(subject.seed, "audit/ids").choice(size, _DRAWN, replace=False)
    return torch.cat([likely, torch.from_numpy(drawn)]).unique()


def check_normalization(subject: Subject) -> Evidence:
    """Add up what the model scores every id with after some possible prefixes; of a large
    vocabulary some ids are scored, and the rest has what the softmax leaves it."""
    inputs = subject.pieces[:_ROWS_SUMMED, :_PLACES_SUMMED]  # (B, T)
    rows = len(inputs)
    shares = distributions(subject.logits(inputs))  # (B, T, V)
    ids = chosen_ids(subject, shares)  # (N,)
    total = 1 - shares[..., ids].sum(-1)  # (B, T)
    if len(ids) == shares.shape[-1]:
        total = torch.zeros_like(total)
    for part in ids.split(_AT_ONCE):
        repeated = inputs.repeat(len(part), 1)  # (N' B, T)
        targets = part.repeat_interleave(rows)[:, None].expand_as(repeated)  # (N' B, T)
        scores = subject.log_probs(repeated, targets.contiguous())  # (N' B, T)
        total += scores.exp().view(len(part), rows, -1).sum(0)
    before = subject.log_probs(inputs[:, :-1], inputs[:, 1:]).cumsum(1)  # (B, T − 1)
    seen = torch.cat([torch.ones(rows, 1, dtype=torch.bool), before > -torch.inf], 1)  # (B, T)
    off = torch.where(seen, (total - 1).abs(), 0.0)
    position = int(off.nan_to_num(torch.inf).argmax())
    found = float(total.flatten()[position])
    sums = f"after {position % off.shape[1] + 1} tokens the sum is {found:.6g}"
    how = "all" if len(ids) == shares.shape[-1] else "the most probable and some other"
    return Evidence(float(off.max()), int(seen.sum()), f"{sums} ({len(ids):,} ids: {how})")


def check_continuations(subject: Subject) -> Evidence:
    """Compare P(prefix), of whole token strings, with the sum of P of each next token and the end,
    from the empty text on along argmax tokens to a depth, and a random one."""
    limit = subject.model.context_length or math.inf
    nodes: list[tuple[int, ...]] = [()]
    aside: tuple[int, ...] | None = None  # followed by one token alone
    worst, detail, seen = 0.0, "", 0
    drawn = int(stream(subject.seed, "audit/continuations").choice(subject.possible))
    while nodes:
        node = nodes.pop(0)
        ratio, likely = _share(subject, node)
        seen += 1
        if math.isnan(ratio) or abs(ratio - 1) >= worst:
            worst = abs(ratio - 1)
            detail = f"what follows {len(node)} tokens {list(node)} has {ratio:.6g} of their P"
        if math.isnan(ratio):
            break
        if len(node) < min(_DEPTH, limit - 1) and likely is not None and node != aside:
            nodes.append((*node, likely))
            if not node and likely != drawn:
                aside = (drawn,)
                nodes.append(aside)
    return Evidence(worst, seen, detail)


def _share(subject: Subject, node: tuple[int, ...]) -> tuple[float, int | None]:
    """Return the part of a prefix' probability that follows it, and the argmax of the next."""
    inputs = torch.tensor([[BOS, *node]])  # (1, T)
    shares = distributions(subject.logits(inputs))[:, -1]  # (1, V)
    ids = chosen_ids(subject, shares)
    followers = ids[(ids != EOS) & (ids < subject.vocabulary.size)].numpy()
    strings = [np.array([*node, token]) for token in followers]
    prefix = np.array(node, np.int64)
    own = next(iter(score_encoded(subject.model, [prefix], count_eos=False))).log_prob
    if own == -math.inf:  # it has no continuations to speak of
        return 1.0, None
    ended = next(iter(score_encoded(subject.model, [prefix]))).log_prob
    open_ends = score_encoded(subject.model, strings, count_eos=False)
    found = np.array([score.log_prob for score in open_ends])
    rest = 0.0 if len(ids) == shares.shape[-1] else float(1 - shares[0, ids].sum())
    if rest and not bool((ids == EOS).any()):
        rest -= float(shares[0, EOS])
    total = float(np.exp(found - own).sum()) + math.exp(ended - own) + rest
    likely = int(followers[found.argmax()])
    return total, likely if found.max() > -math.inf else None


def check_reserved(subject: Subject) -> Evidence:
    """Add up the probability of ``<s>``, and of rows of the output that stand for no token."""
    size = subject.vocabulary.size
    shares = distributions(subject.logits(subject.pieces))  # (B, T, V)
    named = getattr(subject.vocabulary, "impossible", [BOS])
    idle = np.unique([BOS, *(token for token in named if token not in (EOS, UNK))])
    beyond = shares[..., size:].sum(-1)  # (B, T)
    lost = beyond + shares[..., torch.from_numpy(idle)].sum(-1)  # (B, T)
    position = int(lost.nan_to_num(torch.inf).argmax())
    count = len(idle) + max(0, shares.shape[-1] - size)
    detail = f"after {position % lost.shape[1] + 1} tokens, {count} ids that no text has"
    return Evidence(float(lost.max()), lost.numel(), detail)


_ROWS, _LONGEST = 4, 128  # texts that the model writes, and how long they may become


def check_logits(subject: Subject) -> Evidence:
    """Count logits that are NaN or +∞ (−∞ is that of what is impossible), and scores that are NaN
    or above ln 1 = 0, also in a row as long as the context."""
    rows = [subject.pieces, subject.long_row(subject.pieces)]
    long = rows[1].shape[1]
    wrong, seen, first = 0, 0, ""
    for inputs in rows:
        logits = subject.logits(inputs).cpu()  # (B, T, V)
        bad = logits.isnan() | (logits == torch.inf)  # (B, T, V)
        scores = subject.log_probs(inputs[:, :-1], inputs[:, 1:])  # (B, T − 1)
        odd = scores.isnan() | (scores > 1e-3)
        if bad.any() and not first:
            row, position, token = bad.nonzero()[0].tolist()
            value = float(logits[row, position, token])
            first = f"the logit of id {token} after {position + 1} tokens is {value}"
        elif odd.any() and not first:
            row, position = odd.nonzero()[0].tolist()
            first = f"ln p of token {position + 1} is {float(scores[row, position]):g}"
        wrong += int(bad.sum()) + int(odd.sum())
        seen += bad.numel() + odd.numel()
    return Evidence(float(wrong), seen, first or f"up to {long} tokens of context")


def check_possible(subject: Subject) -> Evidence:
    """Look for one text with a probability above 0, in the sample and in what the model writes: a
    model of counts may find all of a sample impossible, and yet be a distribution."""
    scores = [score.log_prob for score in score_encoded(subject.model, subject.encoded)]
    found = sum(score != -math.inf for score in scores)
    if found:
        return Evidence(0.0, len(scores), f"{found} of {len(scores)} texts of the sample have one")
    limit = min(_LONGEST, subject.model.context_length or _LONGEST)
    uniforms = stream(subject.seed, "audit/possible").random((limit, _ROWS))
    texts = torch.full((_ROWS, 1), BOS)  # (R, T)
    for position in range(limit):
        shares = distributions(subject.logits(texts))[:, -1]  # (R, V)
        if bool((shares[:, EOS] > 0).any()):
            detail = (
                f"no text of the sample has one, but what the model writes ends after {position}"
            )
            return Evidence(0.0, len(scores) + _ROWS, f"{detail} tokens")
        alive = shares.sum(1) > 0  # (R,)
        if not alive.any():
            break
        reached = shares.cumsum(1) / shares.sum(1, keepdim=True)  # (R, V)
        below = reached <= torch.from_numpy(uniforms[position])[:, None]  # (R, V)
        texts = torch.cat([texts, below.sum(1, keepdim=True)], 1)[alive]
        uniforms = uniforms[:, alive.numpy()]
    return Evidence(
        1.0,
        len(scores) + _ROWS,
        f"P = 0 of all {len(scores)} texts of the sample; what the model writes by itself may not "
        f"end within {limit} tokens either",
    )


_TEXTS = 6
_LONGEST_TEXT = 64  # tokens
_LATE_TEXT = 256  # of one text of all texts: scores may go wrong late
_NOTICED = 1e-3  # nats a prediction, above which an explanation is looked for


def check_likelihood(subject: Subject) -> Evidence:
    """Compare ln P that the scoring program gives beginnings of texts within the context, and an
    empty one, with the sum over logits, nats a prediction; name the mistake that explains it."""
    texts = _beginnings(subject)
    encoded = subject.vocabulary.encode(texts)
    rows = {row.doc_id: row for row in subject.rows(texts)}
    worst, detail = 0.0, "as the logits say"
    for index, ids in enumerate(encoded):
        said = rows[index].log_likelihood if index in rows else math.nan
        scores, unshifted = _rows_of_logits(subject, ids)
        expected = float(scores.sum())
        off = 0.0 if said == expected else abs(said - expected) / (len(ids) + 1)
        if math.isnan(off) or off > worst:
            worst = off
            detail = f"text {index + 1} has {said:.6g}, its logits say {expected:.6g} nats"
            if not off <= _NOTICED:
                detail += _explain(said, scores, unshifted)
        if math.isnan(off):
            break
    return Evidence(worst, len(texts), detail)


def _beginnings(subject: Subject) -> list[str]:
    """Return an empty text, and beginnings of texts, and of all in one, that the context holds."""
    model = subject.model
    whole = min(model.context_length or _LATE_TEXT, MOST_LOGITS // model.vocabulary_size)
    starts = [_beginning(subject, text, min(whole, _LONGEST_TEXT)) for text in subject.texts]
    late = _beginning(subject, " ".join(text for text in subject.texts if text), whole)
    return ["", *[text for text in starts if text][: _TEXTS - 1], *([late] if late else [])]


def _beginning(subject: Subject, text: str, room: int) -> str:
    """Return a beginning of a text, of whole words, that has fewer tokens than there is room."""
    words = text.split(" ")
    if subject.kind == "cleaned":  # blanks at the ends and double ones are not scored
        words = [word for word in words if word]
    words = words[:room]
    while words and len(subject.vocabulary.encode([" ".join(words)])[0]) >= room:
        words = words[: len(words) * 3 // 4]
    return " ".join(words)


def _rows_of_logits(subject: Subject, ids: np.ndarray) -> tuple[Tensor, Tensor]:
    """Return ln p of each prediction of a text, float64, (T,), and as if it were not shifted."""
    whole = torch.tensor([[BOS, *ids.tolist(), EOS]])  # (1, T + 1)
    logits = subject.logits(whole[:, :-1])[0].cpu()  # (T, V)
    return chosen_log_probs(logits, whole[0, 1:]), chosen_log_probs(logits, whole[0, :-1])


def _explain(said: float, scores: Tensor, unshifted: Tensor) -> str:
    """Name the mistake that gives the number, where one does."""
    total = float(scores.sum())
    guesses = {
        "the first token is left out": total - float(scores[0]),
        "the first token counts twice": total + float(scores[0]),
        "the end is left out": total - float(scores[-1]),
        "the first token and the end are left out": total - float(scores[0] + scores[-1]),
        "the end counts twice": total + float(scores[-1]),
        "it is in bits": total / math.log(2),
        "it is a logarithm of base 10": total / math.log(10),
        "its sign is turned": -total,
        "it is a mean": total / len(scores),
        "its logits are not shifted": float(unshifted.sum()),
    }
    for reason, guess in guesses.items():
        if math.isfinite(guess) and math.isclose(said, guess, rel_tol=1e-4, abs_tol=1e-4):
            return f": {reason}"
    return ""

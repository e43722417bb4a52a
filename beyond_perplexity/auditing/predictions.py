"""Whether the same prefixes have the same predictions, and each stands at its own token."""

from __future__ import annotations

import torch
from torch import Tensor

from beyond_perplexity.auditing.checks import Evidence
from beyond_perplexity.auditing.subject import Subject, distributions, shift_between
from beyond_perplexity.models.contract import State
from beyond_perplexity.vocabulary import BOS

_SAME = 1e-6  # total variation or nats, up to which nothing is explained


class Apart:
    """The largest distance so far between predictions that should be the same: total variation of
    the next token, or difference of ln p of the text's where that is more."""

    def __init__(self) -> None:
        self.worst, self.compared, self.detail = 0.0, 0, "no difference"

    def compare(self, one: Tensor, two: Tensor, inputs: Tensor, what: str) -> None:
        """Compare logits (B, T, V) of the same prefixes of inputs, int64, (B, T)."""
        apart = shift_between(distributions(one), distributions(two))  # (B, T)
        for logits in (one, two):
            apart += torch.where(logits.isnan().any(-1), torch.nan, 0.0).cpu()
        scores = [chosen(logits, inputs) for logits in (one, two)]  # 2 x (B, T − 1)
        differ = torch.where(scores[0] == scores[1], 0.0, (scores[0] - scores[1]).abs())
        apart[:, :-1] = torch.maximum(apart[:, :-1], differ)
        self.compared += apart.numel()
        top = float(apart.nan_to_num(torch.inf).max()) if apart.numel() else 0.0
        if top > self.worst:
            position = int(apart.nan_to_num(torch.inf).argmax()) % apart.shape[1]
            self.worst, self.detail = top, f"after {position + 1} tokens, {what}"

    def evidence(self) -> Evidence:
        """Return the largest distance."""
        return Evidence(self.worst, self.compared, self.detail)


def chosen(logits: Tensor, inputs: Tensor) -> Tensor:
    """Return ln p of the next token in the inputs (B, T), float64, (B, T − 1)."""
    log_probs = logits[:, :-1].double().log_softmax(-1).nan_to_num(nan=-torch.inf).cpu()
    return log_probs.gather(-1, inputs[:, 1:, None].cpu())[..., 0]


def check_future(subject: Subject) -> Evidence:
    """Change later tokens and compare what comes before them, one text at a time, in one shape."""
    apart, width = Apart(), subject.pieces.shape[1]
    for piece, other in zip(subject.pieces.split(1), subject.others.split(1), strict=True):
        base = subject.logits(piece)  # (1, T, V)
        for start in sorted({1, width // 4, width // 2, width - 1} - {0}):
            changed = torch.cat([piece[:, :start], other[:, start:]], 1)  # (1, T)
            found = subject.logits(changed)
            what = f"when tokens from number {start} on are others"
            apart.compare(base[:, :start], found[:, :start], piece[:, :start], what)
    # the later half of a row as long as the context: masks may fail beyond a window
    row, other = subject.long_row(subject.pieces), subject.long_row(subject.others)  # (1, T)
    if start := row.shape[1] // 2:
        changed = torch.cat([row[:, :start], other[:, start:]], 1)  # (1, T)
        base, found = subject.logits(row)[:, :start], subject.logits(changed)[:, :start]
        apart.compare(base, found, row[:, :start], f"when tokens from number {start} on are others")
    return apart.evidence()


def check_batch(subject: Subject) -> Evidence:
    """Compare texts alone with the same texts among others; two of them are longer."""
    apart = Apart()
    _compare_batch(subject, apart, subject.pieces, subject.others)
    if len(subject.late_pieces):
        _compare_batch(subject, apart, subject.late_pieces, subject.late_others[1:])
    return apart.evidence()


def _compare_batch(subject: Subject, apart: Apart, pieces: Tensor, others: Tensor) -> None:
    base = subject.logits(pieces)  # (B, T, V)
    for row in range(len(pieces)):
        alone = subject.logits(pieces[row : row + 1])
        apart.compare(alone, base[row : row + 1], pieces[row : row + 1], "alone and in a batch")
    mixed = torch.cat([pieces[:1], others])  # (B + 1, T)
    found = subject.logits(mixed)[:1]
    apart.compare(base[:1], found, pieces[:1], "when the other texts of the batch are others")


def check_padding(subject: Subject) -> Evidence:
    """Compare texts alone with the same texts filled up at their end, with several ids."""
    apart, width = Apart(), subject.pieces.shape[1]
    for length in sorted({1, width // 3, width // 2, width - 1} - {0}):
        _compare_filled(subject, apart, length, subject.pieces, subject.others)
    late, others = subject.late_pieces[:1], subject.late_others[:1]
    for length in (width, late.shape[1] // 2, late.shape[1] - 1) if len(late) else ():
        _compare_filled(subject, apart, length, late, others)
    return apart.evidence()


def _compare_filled(
    subject: Subject, apart: Apart, length: int, pieces: Tensor, others: Tensor
) -> None:
    width = pieces.shape[1]
    short = pieces[:, :length]
    alone = subject.logits(short)
    for name, filler in (("</s>", 1), ("<unk>", 2), ("others", None)):
        filled = pieces.clone()
        filled[:, length:] = others[:, length:] if filler is None else filler
        found = subject.logits(filled)[:, :length]
        what = f"filled up from {length} to {width} tokens with {name}"
        apart.compare(alone, found, short, what)


def check_repetition(subject: Subject) -> Evidence:
    """Score the same rows again, at once and after others, then longer ones; with the random
    numbers put back, what agrees is drawn (dropout), what does not is remembered (a state)."""
    found = _repeat(subject, subject.pieces, subject.others)
    if found.worst <= _SAME and len(subject.late_pieces):
        late = _repeat(subject, subject.late_pieces, subject.late_others)
        worse = late if not late.worst <= found.worst else found
        return worse._replace(compared=found.compared + late.compared)
    return found


def _repeat(subject: Subject, pieces: Tensor, others: Tensor) -> Evidence:
    apart = Apart()
    with torch.random.fork_rng():
        torch.manual_seed(subject.seed)
        first = subject.logits(pieces)
        apart.compare(first, subject.logits(pieces), pieces, "scored twice")
        subject.logits(others)
        apart.compare(first, subject.logits(pieces), pieces, "scored again after other texts")
        found = apart.evidence()
        if found.worst <= _SAME:
            return found
        torch.manual_seed(subject.seed)
        again = Apart()
        again.compare(first, subject.logits(pieces), pieces, "")
    reason = "it remembers earlier texts" if again.worst > found.worst / 10 else "it draws numbers"
    return found._replace(detail=f"{found.detail}: {reason}")


def check_steps(subject: Subject) -> Evidence:
    """Compare a whole pass with single steps, by which texts are generated; a row starts anew half
    way, rows change places, and a longer row is walked alone."""
    apart, pieces = Apart(), subject.pieces
    half = pieces.shape[1] // 2
    again = pieces.clone()
    again[0, half:] = pieces[0, : pieces.shape[1] - half]  # the text of the row that starts anew
    base = subject.logits(pieces)  # (B, T, V)
    found = _walk(subject, again, half)  # (B, T, V)
    apart.compare(base[:, :half], found[:, :half], pieces[:, :half], "by steps")
    apart.compare(base[1:], found[1:], pieces[1:], "by steps after rows changed places")
    length = pieces.shape[1] - half
    what = "by steps in a row that started anew"
    apart.compare(base[:1, :length], found[:1, half:], pieces[:1, :length], what)
    late = subject.late_pieces[:1]  # (1, T') or none
    if len(late):
        apart.compare(subject.logits(late), _walk(subject, late), late, "by many steps")
    return apart.evidence()


@torch.no_grad()
def _walk(subject: Subject, tokens: Tensor, half: int | None = None) -> Tensor:
    """Return the logits of steps, (B, T, V); at `half` row 0 starts anew and rows are turned."""
    model = subject.model
    rows, width = tokens.shape
    state: State = model.initial_state(rows, width)
    order = torch.arange(rows)
    columns = []
    for position in range(width):
        if position == half:
            order = order.flip(0)
            state = state.select(order.to(model.device))
            state = state.reset(torch.tensor([rows - 1], device=model.device))
        logits, state = model.step(tokens[order, position].to(model.device), state)  # (B, V)
        columns.append(logits.float().cpu()[order])  # turned back: a flip undoes itself
    return torch.stack(columns, 1)


_FIRSTS = 64  # ids that are tried as a text's first token
_SEEN = 1e-4  # total variation above which a distribution has noticed a token


def check_alignment(subject: Subject) -> Evidence:
    """Change one token, and see at which row of the logits the change begins.

    A row is for the token after it. Changes that begin one row early: it knows the very token that
    it is scored on (logits and targets were not shifted); late: the newest token is left out;
    anywhere before: the model sees the future.
    """
    begins: list[int] = []
    for piece, other in zip(subject.pieces[:3].split(1), subject.others.split(1), strict=False):
        base = distributions(subject.logits(piece))  # (1, T, V)
        for position in range(2, piece.shape[1] - 1):
            changed = piece.clone()
            changed[:, position] = other[:, position]
            moved = shift_between(base, distributions(subject.logits(changed))) > _SEEN  # (1, T)
            first = moved[0].nonzero()
            if len(first):
                begins.append(int(first[0]) - position)
    if not begins:
        return Evidence(0.0, 0, "no token changes what is predicted after it")
    earliest, latest = min(begins), max(begins)
    if earliest == latest == -1:
        detail = "each row of logits already knows the token that it is scored on: shift them by 1"
        return Evidence(1.0, len(begins), detail)
    if earliest >= 1 and earliest == latest and not _newest_is_noticed(subject):
        detail = f"the newest token is noticed {earliest} rows late"
        return Evidence(float(earliest), len(begins), detail)
    return Evidence(0.0, len(begins), "a row knows the tokens up to its own")


def _newest_is_noticed(subject: Subject) -> bool:
    """Say whether the row of a first token depends on it, of many that it could be: n-grams that
    back off after words never seen together forget the newest."""
    firsts = torch.from_numpy(subject.possible[:_FIRSTS])  # (N,)
    inputs = torch.stack([torch.full_like(firsts, BOS), firsts], 1)  # (N, 2)
    rows = torch.cat([distributions(subject.logits(pair))[:, 1] for pair in inputs.split(1)])
    return bool((shift_between(rows, rows[:1]) > _SEEN).any())

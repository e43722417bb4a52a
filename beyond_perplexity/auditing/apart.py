"""How far the predictions of the same prefixes are apart when something else was changed."""

from __future__ import annotations

import torch
from torch import Tensor

from beyond_perplexity.auditing.evidence import Evidence
from beyond_perplexity.auditing.subject import Subject, distributions, shift_between


class Apart:
    """The largest distance so far between predictions that should be the same.

    The distance is the total variation of two distributions of the next token, or the difference of
    ln p of the text's next token where that is more.
    """

    def __init__(self) -> None:
        self.worst, self.places, self.detail = 0.0, 0, "no difference"

    def compare(self, one: Tensor, two: Tensor, inputs: Tensor, what: str) -> None:
        """Compare logits of the same prefixes.

        Parameters
        ----------
        one, two : Tensor
            Logits, (B, T, V).
        inputs : Tensor
            int64, (B, T).
        what : str
            What was changed.
        """
        apart = shift_between(distributions(one), distributions(two))  # (B, T)
        apart += torch.where(one.isnan().any(-1) | two.isnan().any(-1), torch.nan, 0.0).cpu()
        scores = [chosen(logits, inputs) for logits in (one, two)]  # 2 x (B, T − 1)
        differ = torch.where(scores[0] == scores[1], 0.0, (scores[0] - scores[1]).abs())
        apart[:, :-1] = torch.maximum(apart[:, :-1], differ)
        self.places += apart.numel()
        top = float(apart.nan_to_num(torch.inf).max()) if apart.numel() else 0.0
        if top > self.worst:
            place = int(apart.nan_to_num(torch.inf).argmax()) % apart.shape[1]
            self.worst, self.detail = top, f"after {place + 1} tokens, {what}"

    def evidence(self) -> Evidence:
        """Return the largest distance."""
        return Evidence(self.worst, self.places, self.detail)


def chosen(logits: Tensor, inputs: Tensor) -> Tensor:
    """Return ln p of the next token in the inputs (B, T), float64, (B, T − 1)."""
    log_probs = logits[:, :-1].double().log_softmax(-1).nan_to_num(nan=-torch.inf).cpu()
    return log_probs.gather(-1, inputs[:, 1:, None].cpu())[..., 0]


def check_future(subject: Subject) -> Evidence:
    """Change later tokens and compare what comes before them, one text at a time, in one shape."""
    apart, places = Apart(), subject.pieces.shape[1]
    for piece, other in zip(subject.pieces.split(1), subject.others.split(1), strict=True):
        base = subject.logits(piece)  # (1, T, V)
        for start in sorted({1, places // 4, places // 2, places - 1} - {0}):
            changed = torch.cat([piece[:, :start], other[:, start:]], 1)  # (1, T)
            found = subject.logits(changed)
            what = f"when tokens from number {start} on are others"
            apart.compare(base[:, :start], found[:, :start], piece[:, :start], what)
    _compare_late(subject, apart)
    return apart.evidence()


def _compare_late(subject: Subject, apart: Apart) -> None:
    """Change the later half of a row as long as the context: masks may fail beyond a window."""
    row, other = subject.long_row(subject.pieces), subject.long_row(subject.others)  # (1, T)
    start = row.shape[1] // 2
    if start:
        changed = torch.cat([row[:, :start], other[:, start:]], 1)  # (1, T)
        base, found = subject.logits(row)[:, :start], subject.logits(changed)[:, :start]
        apart.compare(base, found, row[:, :start], f"when tokens from number {start} on are others")


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
    """Compare texts alone with the same texts filled up at their end, with several ids.

    A longer one is filled up as well: where the filling begins late, and where it goes on for long.
    """
    apart, places = Apart(), subject.pieces.shape[1]
    for length in sorted({1, places // 3, places // 2, places - 1} - {0}):
        _compare_filled(subject, apart, length, subject.pieces, subject.others)
    late, others = subject.late_pieces[:1], subject.late_others[:1]
    for length in (places, late.shape[1] // 2, late.shape[1] - 1) if len(late) else ():
        _compare_filled(subject, apart, length, late, others)
    return apart.evidence()


def _compare_filled(
    subject: Subject, apart: Apart, length: int, pieces: Tensor, others: Tensor
) -> None:
    places = pieces.shape[1]
    short = pieces[:, :length]
    alone = subject.logits(short)
    for name, filler in (("</s>", 1), ("<unk>", 2), ("others", None)):
        filled = pieces.clone()
        filled[:, length:] = others[:, length:] if filler is None else filler
        found = subject.logits(filled)[:, :length]
        what = f"filled up from {length} to {places} tokens with {name}"
        apart.compare(alone, found, short, what)

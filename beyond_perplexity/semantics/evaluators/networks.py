"""What networks of evaluators share: groups of texts, a recurrent layer, folders of weights.

On a CPU no text's vector depends on the others: rows of a group come in whole quanta (see
`invariant_tensors`) and none is filled up with more than its own length asks for.

N texts, B of a group, T words of the longest, E numbers of a word vector, H units each direction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from beyond_perplexity.errors import InputError
from beyond_perplexity.models.contract import TrainedModel
from beyond_perplexity.models.registry import WEIGHTS, check_finite, choose_device, read_weights
from beyond_perplexity.semantics.evaluators.job import EVALUATOR_FILE, read_description
from beyond_perplexity.storage.inputs import refuse_foreign
from beyond_perplexity.storage.provenance import content_hash, note_read

GROUP_ROWS = 64  # a multiple of `invariant_tensors.QUANTUM`
QUANTUM_OF_ROWS = 16


def groups_of_one_length(
    lengths: Sequence[int] | NDArray[np.int64], step: int = 1, rows: int = GROUP_ROWS
) -> Iterator[NDArray[np.int64]]:
    """Cut texts into groups whose lengths, rounded up to a multiple of a step, are the same.

    Numbers of texts, int64, at most `rows` a group, the last repeated up to a whole number of
    quanta: a result is written again. All numbers occur, longest texts first.
    """
    held = -(-np.asarray(lengths, np.int64) // step)
    order = np.argsort(-held, kind="stable")
    ends = np.flatnonzero(np.diff(held[order], append=-1)) + 1
    for start, end in zip(np.concatenate([[0], ends[:-1]]), ends, strict=True):
        for first in range(start, end, rows):
            part = order[first : min(first + rows, end)]
            missing = -len(part) % QUANTUM_OF_ROWS
            yield np.concatenate([part, np.repeat(part[-1:], missing)])


STEP = 4  # lengths up to the next multiple of it share a group


class InputGroup(NamedTuple):
    """Texts of like length."""

    places: NDArray[np.int64]  # int64, (B,): which texts they are
    vectors: Tensor  # float32, (B, T, E)
    lengths: Tensor  # int64, (B,)


def input_groups(
    rows: Sequence[Sequence[int]], vectors: NDArray[np.float32]
) -> Iterator[InputGroup]:
    """Put N texts, rows of `vectors` (V, E), into groups of like length, none empty."""
    lengths = np.array([len(row) for row in rows], np.int64)
    there = np.flatnonzero(lengths)
    for group in groups_of_one_length(lengths[there], STEP) if len(there) else ():
        places = there[group]
        longest = -(-int(lengths[places].max()) // STEP) * STEP
        ids = np.zeros((len(places), longest), np.int64)
        for row, place in enumerate(places):
            ids[row, : lengths[place]] = rows[place]
        own = torch.from_numpy(np.ascontiguousarray(vectors[ids], np.float32))
        yield InputGroup(places, own, torch.from_numpy(lengths[places]))


def encode_groups(
    rows: Sequence[Sequence[int]],
    vectors: NDArray[np.float32],
    width: int,
    encode: Callable[[Tensor, Tensor], Tensor],
    device: torch.device,
) -> NDArray[np.float32]:
    """Return the vectors of texts, float32 (N, width); NaN for those without a word.

    `rows` and `vectors` are as for `input_groups`; `encode` makes of word vectors (B, T, E) and
    lengths (B,) those of texts, (B, width).
    """
    found = np.full((len(rows), width), np.nan, np.float32)
    with torch.inference_mode():
        for group in input_groups(rows, vectors):
            encoded = encode(group.vectors.to(device), group.lengths.to(device))
            found[group.places] = encoded.float().cpu().numpy()
    return found


class RecurrentReader(nn.Module):
    """An LSTM or GRU over sentences of different lengths, `both`: also from right to left.

    Each direction reads a sentence from its own first word on, so that what fills up a row comes
    after all that is used, and no number depends on it.
    """

    def __init__(
        self, cell: Literal["lstm", "gru"], width: int, hidden_size: int, both: bool
    ) -> None:
        super().__init__()
        kind = nn.LSTM if cell == "lstm" else nn.GRU
        self.layer = kind(width, hidden_size, batch_first=True, bidirectional=both)

    def forward(self, inputs: Tensor, lengths: Tensor) -> Tensor:
        """Return the state at each word, (B, T, H or 2 H), of words (B, T, E); lengths (B,)."""
        forth, *back = self.layer.all_weights
        parts = [self._read(inputs, forth)]
        for weights in back:
            turned = turn(inputs, lengths)  # (B, T, E)
            parts.append(turn(self._read(turned, weights), lengths))
        return torch.cat(parts, 2)  # (B, T, H or 2 H)

    def last(self, inputs: Tensor, lengths: Tensor) -> Tensor:
        """Return the state after all words, of each direction, (B, H or 2 H)."""
        forth, *back = self.layer.all_weights
        end = (lengths - 1)[:, None, None]  # (B, 1, 1)
        states = [self._read(inputs, forth)]
        states += [self._read(turn(inputs, lengths), weights) for weights in back]
        parts = [
            state.gather(1, end.expand(-1, 1, state.shape[2]))[:, 0] for state in states
        ]  # (B, H) each
        return torch.cat(parts, 1)  # (B, H or 2 H)

    def _read(self, inputs: Tensor, weights: Sequence[Tensor]) -> Tensor:
        """Return the outputs of one direction, (B, T, H)."""
        zeros = inputs.new_zeros(1, len(inputs), self.layer.hidden_size)  # (1, B, H)
        flags = (True, 1, 0.0, self.training, False, True)
        if isinstance(self.layer, nn.LSTM):
            outputs, *_ = torch.lstm(inputs, (zeros, zeros), tuple(weights), *flags)
        else:
            outputs, _ = torch.gru(inputs, zeros, tuple(weights), *flags)
        return outputs


def turn(rows: Tensor, lengths: Tensor) -> Tensor:
    """Reverse each row, (B, T, D), within its length; what comes after has no meaning."""
    places = torch.arange(rows.shape[1], device=rows.device)  # (T,)
    source = (lengths[:, None] - 1 - places).clamp(min=0)  # (B, T)
    return rows.gather(1, source[:, :, None].expand_as(rows))  # (B, T, D)


Network = TypeVar("Network", bound=TrainedModel)


def load_network(folder: Path, kind: type[Network], device: str) -> tuple[Network, dict[str, Any]]:
    """Read the folder of a trained network, in evaluation mode, and its description."""
    held = read_description(folder)
    weights = folder / WEIGHTS
    refuse_foreign(weights)
    if content_hash(weights) != held.get("sha256"):
        raise InputError(
            f"{weights}: is not the file that {EVALUATOR_FILE} describes; train it again"
        )
    note_read(weights, held["sha256"])
    network = read_weights(weights, kind, held.get("config", {}), EVALUATOR_FILE)
    check_finite(network, weights)
    return network.to(choose_device(device)).eval(), held

"""What networks of evaluators share: groups of texts, a recurrent layer, folders of weights.

On a CPU no text's vector depends on the others: rows of a group come in whole quanta (see
`invariant_tensors`) and none is filled up with more than its own length asks for.

N texts, B of a group, T words of the longest, E numbers of a word vector, H units each direction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from beyond_perplexity.errors import InputError
from beyond_perplexity.models.contract import TrainedModel
from beyond_perplexity.models.recurrent_layers import in_one_piece
from beyond_perplexity.models.registry import WEIGHTS, check_finite, choose_device, read_weights
from beyond_perplexity.semantics.evaluators.job import EVALUATOR_FILE, read_description
from beyond_perplexity.semantics.measures import NO_WORDS
from beyond_perplexity.semantics.word_cosines import Vectors
from beyond_perplexity.storage.inputs import refuse_foreign, told
from beyond_perplexity.storage.provenance import content_hash, note_read

GROUP_ROWS = 64  # a multiple of `invariant_tensors.QUANTUM`
QUANTUM_OF_ROWS = 16


def groups_of_one_length(
    lengths: Sequence[int] | NDArray[np.int64], step: int = 1, rows: int = GROUP_ROWS
) -> Iterator[NDArray[np.int64]]:
    """Cut texts into groups of equal lengths, rounded up to a multiple of a step, longest first:
    numbers, int64, at most `rows`, the last repeated up to whole quanta."""
    held = -(-np.asarray(lengths, np.int64) // step)
    order = np.argsort(-held, kind="stable")
    for alike in np.split(order, np.flatnonzero(np.diff(held[order])) + 1):
        for first in range(0, len(alike), rows):
            part = alike[first : first + rows]
            yield np.pad(part, (0, -len(part) % QUANTUM_OF_ROWS), mode="edge")


def encode_alike(
    lengths: Sequence[int] | NDArray[np.int64],
    width: int,
    encode: Callable[[NDArray[np.int64], int], Tensor],
    step: int = 1,
) -> Vectors:
    """Return vectors of texts, float32 (N, width), NaN of no words, by `encode` of their numbers,
    (B,), and the length to pad to, a multiple of the step."""
    held = np.asarray(lengths, np.int64)
    there = np.flatnonzero(held)
    found = np.full((len(held), width), np.nan, np.float32)
    with torch.inference_mode():
        for group in groups_of_one_length(held[there], step):
            positions = there[group]
            longest = -(-int(held[positions].max()) // step) * step
            found[positions] = encode(positions, longest).float().cpu().numpy()
    return found


def padded(
    rows: Sequence[Sequence[int] | NDArray[np.integer]], longest: int = 1
) -> tuple[Tensor, Tensor]:
    """Return rows of ids, int64, (B, T), filled up with zeros, and their lengths, (B,)."""
    lengths = np.array([len(row) for row in rows])
    tokens = np.zeros((len(rows), max(longest, int(lengths.max()))), np.int64)
    for position, row in enumerate(rows):
        tokens[position, : len(row)] = row
    return torch.from_numpy(tokens), torch.from_numpy(lengths)


STEP = 4  # lengths up to the next multiple of it share a group


def encode_rows(
    rows: Sequence[Sequence[int]],
    vectors: Vectors,
    width: int,
    encode: Callable[[Tensor, Tensor], Tensor],
    device: torch.device,
) -> Vectors:
    """Return vectors of texts, rows of `vectors`, (V, E): float32 (N, width), NaN without a word,
    by `encode` of word vectors (B, T, E) and lengths (B,)."""

    def encode_places(positions: NDArray[np.int64], longest: int) -> Tensor:
        ids, lengths = padded([rows[position] for position in positions], longest)  # (B, T), (B,)
        own = torch.from_numpy(np.ascontiguousarray(vectors[ids.numpy()], np.float32))  # (B, T, E)
        return encode(own.to(device), lengths.to(device))

    return encode_alike([len(row) for row in rows], width, encode_places, STEP)


class WordReader:
    """Reads texts as numbers of words, and counts those that were read and those not known."""

    limit: int | None = None
    truncated = 0
    counted: tuple[str, ...] = ("words", "unknown")
    words = unknown = 0

    def rows(
        self, texts: Sequence[str], ids: Mapping[str, int], other: int = -1
    ) -> list[list[int]]:
        """Return texts as ids; those without a known word are empty, `other` is an unknown one."""
        split = [[word for word in text.split() if word not in NO_WORDS] for text in texts]
        rows = [[ids.get(word, other) for word in words] for words in split]
        self.words += sum(map(len, rows))
        self.unknown += sum(row.count(other) for row in rows)
        return [row if row.count(other) < len(row) else [] for row in rows]


class TensorBatch:
    """What is trained on at once: a dataclass of tensors."""

    def to(self, device: torch.device) -> Self:
        """Return the batch on a device."""
        return type(self)(*(part.to(device) for part in vars(self).values()))


class RecurrentReader(nn.Module):
    """An LSTM or GRU over sentences, `both`: also from right to left, each direction from its own
    first word on, so that no number depends on padding."""

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
        # (B, H) each
        parts = [state.gather(1, end.expand(-1, 1, state.shape[2]))[:, 0] for state in states]
        return torch.cat(parts, 1)  # (B, H or 2 H)

    def fill(self, tensors: Mapping[str, Tensor], path: str | Path) -> None:
        """Take the weights of a file, by torch's names."""
        with told(f"{path}: its arrays do not fit each other"):
            self.layer.load_state_dict(tensors)
        check_finite(self, path)

    def _read(self, inputs: Tensor, weights: Sequence[Tensor]) -> Tensor:
        """Return the outputs of one direction, (B, T, H)."""
        zeros = inputs.new_zeros(1, len(inputs), self.layer.hidden_size)  # (1, B, H)
        flags = (True, 1, 0.0, self.training, False, True)
        if isinstance(self.layer, nn.LSTM):
            outputs, *_ = torch.lstm(inputs, (zeros, zeros), in_one_piece(weights), *flags)
        else:
            outputs, _ = torch.gru(inputs, zeros, in_one_piece(weights), *flags)
        return outputs


def check_width(path: str | Path, inputs: int, width: int, hint: str = "") -> None:
    """Raise `InputError` where weights read word vectors of another width than a table has."""
    if inputs != width:
        held = f"reads word vectors of {inputs} numbers, but those of the table have {width}"
        raise InputError(f"{path}: {held}{hint}")


def turn(rows: Tensor, lengths: Tensor) -> Tensor:
    """Reverse each row, (B, T, D), within its length; what comes after has no meaning."""
    positions = torch.arange(rows.shape[1], device=rows.device)  # (T,)
    source = (lengths[:, None] - 1 - positions).clamp(min=0)  # (B, T)
    return rows.gather(1, source[:, :, None].expand_as(rows))  # (B, T, D)


Network = TypeVar("Network", bound=TrainedModel)


def load_network(folder: Path, kind: type[Network], device: str) -> tuple[Network, dict[str, Any]]:
    """Read the folder of a trained network, in evaluation mode, and its description."""
    held = read_description(folder)
    weights = folder / WEIGHTS
    refuse_foreign(weights)
    if content_hash(weights) != held.get("sha256"):
        raise InputError(f"{weights}: is not the file that {EVALUATOR_FILE} describes; train again")
    note_read(weights, held["sha256"])
    network = read_weights(weights, kind, held.get("config", {}), EVALUATOR_FILE)
    check_finite(network, weights)
    return network.to(choose_device(device)).eval(), held

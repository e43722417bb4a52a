"""The decoding engine: slots that hold one document each and are refilled as documents end.

S slots, k rows of the model's batch a slot (1, or the number of beams), R = S k rows, V tokens, L
tokens of a document at most. The ids of the documents are allotted at the start, in order, and all
of them are drained: taking the first N documents that end would prefer short ones. A document's
random stream is keyed by its id, and nothing else of a row depends on its neighbours, so that
batch and shard size do not change a text.

The last point needs care on a CPU: matrix products of few rows take other kernels than those of
many rows (measured with MKL: fewer than 12), and the fused attention kernel's result depends on
the place of a row in the batch when it runs on several threads. Hence slots come in whole
`QUANTUM` rows and attention runs as plain matrix products. On a GPU the matrix library chooses its
kernel by the number of rows: there a text is reproducible at one batch size, and between batch
sizes up to rounding of the logits.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from beyond_perplexity.decoding.kernels import Draw, draw
from beyond_perplexity.decoding.options import DecodingOptions
from beyond_perplexity.decoding.uniforms import uniforms
from beyond_perplexity.errors import InputError
from beyond_perplexity.models.contract import LanguageModel
from beyond_perplexity.vocabulary import BOS, EOS

QUANTUM = 16  # rows; see above
WINDOW = 64  # random numbers drawn ahead, in steps
IDLE_STEPS = 16  # steps after which rows without a document are reset, so that they stay short
GPU_INTERVAL = 8  # steps between two looks of the host at a GPU's results


class Document(NamedTuple):
    """One generated document.

    Attributes
    ----------
    doc_id : int
        Its id, which is also the item of its random stream.
    tokens : numpy.ndarray
        int32, without ``<s>`` and ``</s>``.
    log_prob : float
        Natural logarithm of the model's probability of the tokens and, when finished, ``</s>``.
    log_prob_decoding : float
        The same under the decoding's own distribution; NaN for beam sampling, which has none that
        is tractable.
    finished : bool
        False: cut at the maximum length, ``</s>`` was not drawn.
    """

    doc_id: int
    tokens: np.ndarray
    log_prob: float
    log_prob_decoding: float
    finished: bool


class Window:
    """The random numbers of the next steps of every slot.

    Parameters
    ----------
    seed, purpose
        Keys of the streams.
    slots : int
        S.
    width : int
        Numbers that a slot needs in a step.
    device : torch.device
        Where they are used.
    """

    def __init__(
        self, seed: int, purpose: str, slots: int, width: int, device: torch.device
    ) -> None:
        self._seed, self._purpose, self._width, self._device = seed, purpose, width, device
        self._values = torch.zeros((slots, WINDOW, width), dtype=torch.float64, device=device)
        self._host_base = np.full(slots, -WINDOW)  # step of a window's first numbers
        self._base = torch.from_numpy(self._host_base).to(device)  # (S,)

    def restart(self, slots: np.ndarray) -> None:
        """Forget the numbers of slots that get another document."""
        self._host_base[slots] = -WINDOW

    def cover(self, items: np.ndarray, steps: np.ndarray, ahead: int) -> None:
        """Make sure that the numbers of the next steps are there.

        Parameters
        ----------
        items : numpy.ndarray
            int64, (S,): the documents; negative for none.
        steps : numpy.ndarray
            int64, (S,): the step that comes next.
        ahead : int
            How many steps to cover.
        """
        stale = np.flatnonzero((items >= 0) & (steps + ahead > self._host_base + WINDOW))
        if not len(stale):
            return
        self._host_base[stale] = steps[stale]
        starts = torch.from_numpy(steps[stale] * self._width)  # (N,)
        fresh = uniforms(
            self._seed,
            self._purpose,
            torch.from_numpy(items[stale]),
            starts,
            WINDOW * self._width,
            self._device,
        )  # (N, WINDOW * width)
        where = torch.from_numpy(stale).to(self._device)  # (N,)
        self._values[where] = fresh.unflatten(1, (WINDOW, self._width))
        self._base = torch.from_numpy(self._host_base).to(self._device, copy=True)  # (S,)

    def at(self, steps: Tensor) -> Tensor:
        """Return the numbers of the given step of each slot, float64, (S, width)."""
        inside = (steps - self._base).clamp_(0, WINDOW - 1)  # (S,)
        return self._values[torch.arange(len(steps), device=self._device), inside]

    def keep(self, slots: Tensor) -> None:
        """Drop all slots but the given ones."""
        self._values, self._base = self._values[slots], self._base[slots]
        self._host_base = self._host_base[slots.cpu().numpy()]


def _independent_rows(device: torch.device) -> AbstractContextManager[object]:
    return sdpa_kernel(SDPBackend.MATH) if device.type == "cpu" else nullcontext()


class Engine(ABC):
    """The slots, their refill and the order of output; a subclass says what a step does.

    Parameters
    ----------
    model : LanguageModel
        In evaluation mode.
    options : DecodingOptions
        The decoding.
    seed, purpose
        Keys of the random streams; the item is the document's id.
    maximum_length : int
        L.
    batch_size : int
        R at most, rounded up to whole quanta of slots.

    Raises
    ------
    InputError
        When the model cannot condition on so long a document.
    """

    def __init__(
        self,
        model: LanguageModel,
        options: DecodingOptions,
        seed: int,
        purpose: str,
        maximum_length: int,
        batch_size: int,
    ) -> None:
        limit = model.context_length
        if limit is not None and maximum_length > limit:
            raise InputError(
                f"maximum length: is {maximum_length}, but the model conditions on {limit} tokens "
                "at most; give a smaller one"
            )
        self.model, self.options = model, options
        self.device, self.maximum_length = model.device, maximum_length
        self._streams = (seed, purpose)
        self.beams = options.beam_size
        self._quantum = QUANTUM // math.gcd(QUANTUM, self.beams)
        self._batch_slots = self._round(max(batch_size // self.beams, 1))
        interval = 1 if self.device.type == "cpu" else GPU_INTERVAL
        self._interval = min(interval, limit - maximum_length + 1) if limit else interval

    def _round(self, slots: int) -> int:
        return -(-slots // self._quantum) * self._quantum

    @abstractmethod
    def _empty(self, slots: int) -> dict[str, Tensor]:
        """Return the tensors (S, ...) of new documents; ``alive`` and ``length`` among them."""

    @abstractmethod
    def _advance(self) -> None:
        """Make one step with all rows."""

    @abstractmethod
    def _collect(self, doc_ids: np.ndarray, slots: Tensor) -> list[Document]:
        """Copy the ended documents of the given slots to the host."""

    @torch.inference_mode()
    def _start(self, first: int, count: int) -> None:
        slots = self._round(min(self._batch_slots, count))
        self._waiting = deque(range(first, first + count))
        self._items = np.full(slots, -1)
        self._window = Window(*self._streams, slots, self.beams**2, self.device)
        self._idle = 0
        self.state = self.model.initial_state(
            slots * self.beams, self.maximum_length + self._interval - 1
        )
        self.slots = self._empty(slots)
        self.slots["alive"].fill_(False)
        self._refill(np.arange(slots))

    @torch.inference_mode()
    def _refill(self, free: np.ndarray) -> None:
        taken = free[: len(self._waiting)]
        self._items[free] = -1
        self._items[taken] = [self._waiting.popleft() for _ in taken]
        self._window.restart(free)
        where = torch.from_numpy(free).to(self.device)  # (N,)
        for name, fresh in self._empty(len(free)).items():
            self.slots[name][where] = fresh
        self.slots["alive"][where[len(taken) :]] = False
        self._reset(where)

    def _reset(self, slots: Tensor) -> None:
        beams = torch.arange(self.beams, device=self.device)  # (k,)
        self.state = self.state.reset((slots[:, None] * self.beams + beams).flatten())

    def _cover(self) -> None:
        steps = self.slots["length"].cpu().numpy()  # (S,)
        self._window.cover(self._items, steps, self._interval)

    def _rest(self) -> None:
        """Reset rows without a document before their state outgrows the room."""
        self._idle += self._interval
        if self._idle + self._interval > min(IDLE_STEPS, self.maximum_length):
            idle = np.flatnonzero(self._items < 0)
            if len(idle):
                self._reset(torch.from_numpy(idle).to(self.device))
            self._idle = 0

    def _shrink(self) -> None:
        """Drop free slots once half of all are free."""
        held = np.flatnonzero(self._items >= 0)
        size = self._round(len(held))
        if self._waiting or not len(held) or 2 * size > len(self._items):
            return
        free = np.flatnonzero(self._items < 0)
        kept = np.concatenate([held, free[: size - len(held)]])
        where = torch.from_numpy(kept).to(self.device)  # (S',)
        beams = torch.arange(self.beams, device=self.device)  # (k,)
        self.state = self.state.select((where[:, None] * self.beams + beams).flatten())
        self.slots = {name: tensor[where] for name, tensor in self.slots.items()}
        self._window.keep(where)
        self._items = self._items[kept]

    def _harvest(self) -> list[Document]:
        ended = np.flatnonzero((self._items >= 0) & ~self.slots["alive"].cpu().numpy())
        if not len(ended):
            return []
        documents = self._collect(self._items[ended], torch.from_numpy(ended).to(self.device))
        self._refill(ended)
        self._shrink()
        return documents

    @torch.inference_mode()
    def _round_trip(self) -> list[Document]:
        self._cover()
        with _independent_rows(self.device):
            for _ in range(self._interval):
                self._advance()
        documents = self._harvest()
        self._rest()
        return documents

    def documents(self, first: int, count: int) -> Iterator[Document]:
        """Generate documents.

        Parameters
        ----------
        first : int
            Id of the first document.
        count : int
            How many.

        Yields
        ------
        Document
            In the order of their ids. Those that end before an earlier one wait in memory.
        """
        if count < 1:
            return
        self._start(first, count)
        early: dict[int, Document] = {}
        following = first
        while following < first + count:
            early.update((document.doc_id, document) for document in self._round_trip())
            while following in early:
                yield early.pop(following)
                following += 1


class SamplingEngine(Engine):
    """Every decoding that draws one token at a time: all kinds but beam."""

    def _empty(self, slots: int) -> dict[str, Tensor]:
        def zeros(*shape: int, kind: torch.dtype) -> Tensor:
            return torch.zeros((slots, *shape), dtype=kind, device=self.device)

        return {
            "token": torch.full((slots,), BOS, device=self.device),  # (S,)
            "written": zeros(self.maximum_length + 1, kind=torch.int32),  # (S, L + 1)
            "length": zeros(kind=torch.int64),  # (S,)
            "log_probs": zeros(2, kind=torch.float64),  # (S, 2)
            "ended": zeros(kind=torch.bool),  # (S,)
            "alive": ~zeros(kind=torch.bool),  # (S,)
        }

    def _next(self) -> Draw:
        """Draw the next token of every slot."""
        logits, self.state = self.model.step(self.slots["token"], self.state)  # (R, V)
        return draw(logits, self._window.at(self.slots["length"])[:, 0], self.options)

    def _advance(self) -> None:
        slots, drawn = self.slots, self._next()
        alive, length = slots["alive"], slots["length"]  # (S,), (S,)
        token = drawn.token  # (S,)
        # The column after the last token is scratch: it takes </s> and what ended rows draw.
        slots["written"].scatter_(1, length[:, None], token[:, None].int())
        log_probs = torch.stack((drawn.log_prob, drawn.log_prob_decoding), 1)  # (S, 2)
        slots["log_probs"] += torch.where(alive[:, None], log_probs, 0)
        stop = token == EOS  # (S,)
        slots["ended"] |= stop & alive
        slots["length"] = length + (alive & ~stop)
        slots["alive"] = alive & ~stop & (slots["length"] < self.maximum_length)
        slots["token"] = torch.where(slots["alive"], token, BOS)

    def _collect(self, doc_ids: np.ndarray, slots: Tensor) -> list[Document]:
        lengths = self.slots["length"][slots].tolist()
        written = self.slots["written"][slots].cpu().numpy()  # (N, L + 1)
        log_probs = self.slots["log_probs"][slots].tolist()
        ended = self.slots["ended"][slots].tolist()
        rows = zip(doc_ids.tolist(), written, lengths, log_probs, ended, strict=True)
        return [
            Document(doc_id, tokens[:length].copy(), log_prob, log_prob_decoding, finished)
            for doc_id, tokens, length, (log_prob, log_prob_decoding), finished in rows
        ]
